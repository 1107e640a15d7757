"""Games about a secret of every record: what all share, and that of whole records."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from skleak.adversary.hypotheses import (
    PublicModel,
    adds_noise,
    closed_form_encodings,
    dense_table,
    last_step,
    model_parameters,
    plain_table,
    weight_argument,
)
from skleak.adversary.knowledge import (
    TARGET_INDEX,
    few_valued,
    raw_column,
    take_rows,
    with_attribute,
)
from skleak.adversary.models import Shell
from skleak.attacks import (
    BlackBoxAttributeInference,
    CombinedAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    InformedReconstruction,
    PosteriorMeanReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit.games._game import COLUMNS, Cell, Facts, Game, Task, fit_copy
from skleak.audit.games._levels import (
    FITS,
    RECORDS,
    SAMPLE,
    UNCOUNTED_NUMBERS,
    LeveledGame,
    goal_of,
    noise_levels,
    reference_records,
    scale_sentence,
    seed_of,
)
from skleak.audit.games._trials import FittedReleases, Level, play_errors
from skleak.audit.noise._mechanism import Hypotheses, Trained, audited_shape, noise_of_levels
from skleak.audit.tables._rates import Outcome, SecretDesign, over_noise
from skleak.bounds import gdp_advantage, tradeoff_advantage
from skleak.channels import GaussianChannel, UnequalGaussianChannel
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import ShapedInformation, leakage_model
from skleak.influence.records import DRAWS, NormalPrior, RecordBounds, record_mse
from skleak.influence.refit import largest_distances
from skleak.influence.state import FitState, NoiseShape
from skleak.metrics.verdicts import simultaneous_confidence_level
from skleak.plotting.labels import BOUNDS
from skleak.solvers import MultinomialObjective
from skleak.utils._blocks import row_blocks
from skleak.utils._geometry import gained, pair_success
from skleak.utils._records import feature_labels
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# They read distances in units of one noise, and do not exist where every value has its own.
_OF_EQUAL_NOISE = ("tradeoff", "gdp")
# Rows of a table of bounds that are held at once.
_ROWS = 1 << 17
# Entries of the maps between the covariances of one block of records: 32 MB.
_MAPS = 1 << 22
# Standard error of quasi Monte Carlo for a single record; the mean over n needs less of each.
_TOLERANCE, _MOST_TOLERANCE = 2e-5, 1e-3
# Distances and chances of the rarer value that are tabulated: nodes by factor e of either, where
# they are many, and the ends of the table. Beyond the last one nothing is hidden in doubles.
_STEPS, _PRIOR_STEPS, _MOST_PRIORS = 64, 32, 64
_NEAREST, _FARTHEST, _ROUND_OFF = 1e-6, 40.0, 1e-9
# Seconds of one core that the bounds of one noise scale may take unasked.
_BUDGET = 60.0
# Steps towards the center of the trade-off bound then.
_N_STEPS = 4
# Nothing is left to bound where the prior is this certain.
_CERTAIN = 1.0 - 1e-12


def check_bounds(
    bounds: "str | Sequence[str]", *, equal_noise: bool = True, seconds: float = 0.0
) -> tuple[str, ...]:
    """Names of the bounds to compute, in the order of the results.

    Of all bounds only those that take no integral, where others take too many `seconds` of a core.
    """
    known = [name for name in BOUNDS if equal_noise or name not in _OF_EQUAL_NOISE]
    if isinstance(bounds, str):
        swift = [name for name in known if name in _OF_EQUAL_NOISE]
        bounds = [bounds] if bounds != "all" else swift if seconds > _BUDGET else known
    unknown = [name for name in bounds if name not in BOUNDS]
    if unknown:
        raise ValueError(
            f"`bounds` must be 'all' or name some of {', '.join(map(repr, BOUNDS))}; got "
            f"{unknown[0]!r}."
        )
    unequal = [name for name in bounds if name not in known]
    if unequal:
        raise AttackNotApplicableError(
            f"The bound {unequal[0]!r} supposes noise of the same covariance under every value of "
            "the secret; that of `estimator` depends on the data (`noise_covariance`). Pass "
            f"`bounds='all'`, or name some of {', '.join(map(repr, known))}."
        )
    return tuple(name for name in known if name in bounds)


def success_bounds(
    encodings: FloatArray,
    prior: FloatArray,
    noise_scale: float,
    names: Sequence[str],
    shapes: FloatArray | None = None,
    gain: FloatArray | None = None,
) -> dict[str, FloatArray]:
    """Upper bounds on the success probability of any attack on each record.

    Shapes: ``encodings`` (n, M, p); ``prior`` (n, M); ``shapes`` (n, M, p, p), covariance of the
    noise under every value, at unit noise scale; None is isotropic; ``gain`` (n,), the
    largest advantage under any prior, stands in for the Bayes success where no integral is to be
    taken; returns: arrays of shape (n,) by name, and ``standard_error`` of the Bayes success. NaN
    for a bound that supposes equal covariances, where they are not.
    """
    n = len(encodings)
    if shapes is None and encodings.shape[1] == 2 and noise_scale > 0.0:
        return _of_two(largest_distances(encodings) / noise_scale, prior, names)
    names = [name for name in BOUNDS if name in names or (name == "bayes" and gain is None)]
    result = {name: np.ones(n) for name in names} | {"standard_error": np.zeros(n)}
    if shapes is not None:
        unequal = [name for name in names if name in _OF_EQUAL_NOISE]
        names = [name for name in names if name not in unequal]
        result |= {name: np.full(n, np.nan) for name in unequal}
    # A prior that is certain leaves nothing to gain: all bounds are 1 there.
    open_rows = np.flatnonzero(is_open(prior))
    if not len(open_rows):
        return result
    if noise_scale == 0.0:
        success = _without_noise(encodings, prior)
        return result | dict.fromkeys(names, success)
    tolerance = min(_TOLERANCE * np.sqrt(len(open_rows)), _MOST_TOLERANCE)
    for rows in _blocks(open_rows, encodings.shape, shapes is not None) if names else ():
        points = encodings[rows]
        channel: GaussianChannel | UnequalGaussianChannel
        if shapes is None:
            channel = GaussianChannel(points, noise_scale, tolerance=tolerance)
        else:
            covariances = noise_scale**2 * shapes[rows]
            channel = UnequalGaussianChannel(points, covariances, tolerance=tolerance)
        for name, values in _of_channel(channel, prior[rows], names).items():
            result[name][rows] = values
    if gain is not None:
        top = prior.max(axis=1)
        result["bayes"] = result.get("tradeoff", top + gain * (1.0 - top))
    return result


def _of_two(distance: FloatArray, prior: FloatArray, names: Sequence[str]) -> dict[str, FloatArray]:
    """Bounds where two values are some noise units apart, (n,), with a prior (n, 2).

    That of Bayes, the trade-off bound and that of Gaussian differential privacy are the same; no
    other is below. The others are computed on a grid of distances and priors, rounded up: farther
    apart, or with a larger prior, no best attack succeeds less often.
    """
    top = prior.max(axis=1)
    exact = pair_success(distance, top)
    result = {name: exact for name in ("bayes", *_OF_EQUAL_NOISE) if name in (*names, "bayes")}
    rest = [name for name in BOUNDS if name in names and name not in result]
    if rest:
        near = np.clip(distance, _NEAREST, _FARTHEST)
        steps = np.ceil(_STEPS * np.log(near) - _ROUND_OFF) / _STEPS
        left = np.maximum(1.0 - top, 1.0 - _CERTAIN)
        if len(np.unique(left)) > _MOST_PRIORS:
            left = np.exp(np.floor(_PRIOR_STEPS * np.log(left)) / _PRIOR_STEPS)
        # NumPy 2.0 has an axis too many in the inverse.
        nodes, place = np.unique(np.stack([steps, left]), axis=1, return_inverse=True)
        points = np.stack([np.zeros(len(nodes[0])), np.exp(nodes[0])], axis=1)[:, :, None]
        odds = np.stack([1.0 - nodes[1], nodes[1]], axis=1)
        found = _of_channel(GaussianChannel(points, 1.0), odds, rest)
        sure = (distance > _FARTHEST) | ~is_open(prior)
        result |= {n: np.where(sure, 1.0, np.maximum(found[n][place.ravel()], exact)) for n in rest}
    return result | {"standard_error": np.zeros(len(top))}


def _without_noise(encodings: FloatArray, prior: FloatArray) -> FloatArray:
    """Success of guessing the likeliest of the values that have the encoding released, (n,).

    Encodings that differ in a single bit are told apart; those that are equal, by nothing. Records
    whose values all differ have 1, as the prior is then of no use.

    Shapes: ``encodings`` (n, M, p); ``prior`` (n, M).
    """
    n, n_values, p = encodings.shape
    success = np.ones(n)
    # Equal rows have equal sums: only records that have some are looked at.
    sums = np.sort((encodings * np.sqrt(np.arange(1.0, p + 1.0))).sum(axis=2), axis=1)
    rows = np.flatnonzero((np.diff(sums, axis=1) == 0.0).any(axis=1))
    points, odds = encodings[rows], prior[rows]
    guessed = np.ones(odds.shape, dtype=bool)
    for m in range(n_values):
        same = (points == points[:, [m]]).all(axis=2)
        same[:, m] = False
        better = (odds > odds[:, [m]]) | ((odds == odds[:, [m]]) & (np.arange(n_values) < m))
        guessed[:, m] = ~(same & better).any(axis=1)
    some = ~guessed.all(axis=1)
    success[rows[some]] = (odds * guessed).sum(axis=1)[some]
    return success


def is_open(prior: FloatArray) -> BoolArray:
    """Tell the records (n,) about which their prior (n, M) leaves something to learn."""
    return np.asarray(prior.max(axis=1) < _CERTAIN)


def _blocks(rows: IntArray, shape: tuple[int, ...], shaped: bool) -> Iterator[IntArray]:
    """Yield some records at a time, so that tables and covariances stay small."""
    _, n_values, p = shape
    some = _ROWS // (len(BOUNDS) * n_values)
    if shaped:
        some = min(some, _MAPS // (n_values * p) ** 2)
    for block in row_blocks(len(rows), 1, max(some, 1)):
        yield rows[block]


def _of_channel(
    channel: GaussianChannel | UnequalGaussianChannel, prior: FloatArray, names: Sequence[str]
) -> dict[str, FloatArray]:
    if set(names) <= set(_OF_EQUAL_NOISE) and isinstance(channel, GaussianChannel):
        top = prior.max(axis=1)
        known = (channel.encodings, channel.noise_scale)
        apart = largest_distances(known[0]) / known[1]
        gains = {
            "tradeoff": lambda: tradeoff_advantage(*known, prior, refine=False, max_iter=_N_STEPS),
            "gdp": lambda: gdp_advantage(apart, prior),
        }
        return {name: top + gains[name]() * (1.0 - top) for name in names}
    if set(names) <= {"bayes", "tradeoff"}:
        success, error = channel.bayes_success(prior, return_standard_error=True)
        result = {"bayes": success, "standard_error": error}
        if "tradeoff" in names and isinstance(channel, GaussianChannel):
            top = prior.max(axis=1)
            advantage = tradeoff_advantage(channel.encodings, channel.noise_scale, prior)
            result["tradeoff"] = np.maximum(top + advantage * (1.0 - top), success)
        return result
    table = channel.advantage_bounds(prior)
    found = table.pivot(index="record", columns="bound", values=["success", "standard_error"])
    result = {name: found["success", BOUNDS[name]].to_numpy() for name in names}
    # Of the advantage there, and here of the success.
    error = found["standard_error", BOUNDS["bayes"]].to_numpy()
    return result | {"standard_error": error * (1.0 - prior.max(axis=1))}


# Attacks of ours on a secret, in the order of the tables: their class, and what each is shown.
ATTACKS: dict[str, tuple[type, str]] = {
    "prior": (PriorAttack, "nothing"),
    "imputation": (ImputationAttack, "nothing"),
    "white_box": (WhiteBoxAttributeInference, "parameters"),
    "black_box": (BlackBoxAttributeInference, "labels"),
    "posterior_mean": (PosteriorMeanReconstruction, "parameters"),
    "black_box_proba": (BlackBoxAttributeInference, "probabilities"),
    "black_box_margin": (BlackBoxAttributeInference, "margins"),
    "combined": (CombinedAttributeInference, "labels"),
    "informed": (InformedAttributeInference, "parameters"),
}
# Names of attacks that are passed, by their class: of several the first.
NAMES = {InformedReconstruction: "informed"} | {
    kind: name for name, (kind, _) in reversed(ATTACKS.items())
}
# Games of a level in which a secret is drawn, at least where each target has as many.
_FITTED_GAMES = 1000


def _is(attack: Any, *kinds: type) -> bool:
    """Return True if an attack, or the one of that name, is of some of our classes."""
    return issubclass(ATTACKS[attack][0] if isinstance(attack, str) else type(attack), kinds)


class TabledGame(Game, SecretDesign):
    """A game that guesses values, or estimates numbers."""

    secrets: Array  # true values, (n_targets,) or (n_targets, d)
    imputed: float = np.nan  # success of imputation with the secrets of the data
    # Columns that determine the secret, and those that it determines, with how well.
    related: Mapping[str, Mapping[str, float]] = {}
    _named: Mapping[type, str] = NAMES
    _chosen: Mapping[str, Any]  # attacks by name, those of ours as strings

    def _plan(self, noise_scales: tuple[float, ...], *, compared: bool = True) -> None:
        """Set at which levels the attacks are played, and which of them have verdicts."""
        task, attacks, self.noise_scales = self.task, self._chosen, noise_scales
        incomparable = [name for name in attacks if compared and uses_more(attacks[name], task)]
        n_verdicts = max(len(attacks) - len(incomparable), 1) * len(noise_scales)
        self.incomparable = frozenset(incomparable)
        # The other columns of a record tell nothing of a secret that is drawn.
        stacked = (name for name in attacks if _is(attacks[name], CombinedAttributeInference))
        self.stacked = frozenset(stacked)
        self.verdict_level = simultaneous_confidence_level(self.confidence_level, n_verdicts)

    def made(self, name: str) -> Any:
        """Return an attack of ours, fitted or not; its name where it is made as it is played."""
        return name

    def _fitted(self, name: str) -> Any:
        attack, task = self._chosen[name], self.task
        if isinstance(attack, str):
            attack = self.made(attack)
            # The encodings of the white box are those of the bounds, and were computed with them.
            if isinstance(attack, str) or hasattr(attack, "records_"):
                return attack
        return fit_copy(attack, task.table, task.y, sample_weight=task.sample_weight)

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        """Say what the prior is, what imputation gets right, and which columns tell the secret."""
        prior = self.task.prior
        own = {
            "prior": prior if isinstance(prior, str) else "given",
            "utility_data": "training records" if self.task.X_test is None else "test records",
            "imputed": self.imputed,
        }
        return super().facts(outcomes) | own | dict(self.related)


class SecretGame(LeveledGame, TabledGame, Trained):
    """A game that guesses values, or estimates numbers, from releases with noise of every level."""

    public: PublicModel
    values: Array = np.empty(0)  # candidate values, (n_values,)
    # Fisher information loss at unit noise, (n_targets,): NaN where it is not known, and where the
    # covariance of the noise follows the data: there it is no multiple of the noise, see `eta`.
    unit_eta: FloatArray
    information: ShapedInformation | None = None  # where the covariance follows the data
    goal: Any = None  # what makes the noise scale a function of the records
    uncounted: str = ""  # why no bound counts what it tells
    # Seconds of one core that all bounds at one noise scale take, by measurements on a plain
    # computer.
    _seconds = 0.0

    @property
    def _swift(self) -> bool:
        """True if no bound takes an integral, as these would take too long and nobody named any."""
        return bool(self.task.bounds == "all" and self._seconds > _BUDGET)

    def _train(self) -> Any:
        """Fit the model without noise, set what is known of that, and return it."""
        task = self.task
        self.public = PublicModel.of(task.estimator, task.table, task.y, any_covariance=True)
        self.model, self.y = last_step(task.estimator), task.y
        self.X = self.public.transform(task.table)
        self.weights, self.goal = task.sample_weight, goal_of(task.estimator, task.noise_scales)
        template = self.public.template
        weights = weight_argument(template, task.sample_weight)
        return clone(template).fit(self.X, task.y, **weights)

    def _set_up(self, known: Sequence[str], default: Sequence[str]) -> None:
        """Choose attacks, levels and bounds, once all is known that a release tells."""
        task = self.task
        self._chosen = self._choose(task, known, default)
        equal = not self.noise.reads_data
        bounds = check_bounds(task.bounds, equal_noise=equal, seconds=self._seconds)
        self.bounds = () if self.estimates or self.uncounted else bounds
        weights = weight_argument(self.model, self.weights, task.persons)
        self._plan(noise_levels(task.noise_scales, self.model, self.X, self.y, weights))
        # Games of each target with drawn secrets, where each takes a fit.
        most = -(-_FITTED_GAMES // len(self.targets))
        self.n_fitted = min(self.n_releases, most) if task.fitted and self.drawn else 0
        self.etas = {scale: self.eta(scale) for scale in self.noise_scales}

    def eta(self, noise_scale: float) -> FloatArray:
        """Fisher information loss at a noise scale, of shape (n_targets,); NaN if not known."""
        if self.information is not None:
            return self.information.loss(noise_scale)
        return over_noise(self.unit_eta, noise_scale)

    def draw(self, targets: IntArray, generator: np.random.Generator) -> tuple[int, Array, Array]:
        """Draw secrets of targets: their column, what the games know of each, and its value."""
        raise NotImplementedError

    def prepare(self, entropy: list[int]) -> None:
        task, scales, self._entropy = self.task, self.noise_scales, entropy
        for name, attack in self._chosen.items():
            self._check_covariance(name, attack)
        self.attacks = {name: self._fitted(name) for name in self._chosen}
        self._noise, self._checks = noise_of_levels(self, scales, entropy, task.n_jobs)
        if task.fitted:
            positive = [(k, scale) for k, scale in enumerate(scales) if scale > 0.0]
            self._fits = {scale: self._fit_games(k, scale) for k, scale in positive}
        test = reference_records(task.X_test, task.y_test)
        self._measure(None if test is None else (self.public.transform(test[0]), test[1]))

    def _check_covariance(self, name: str, attack: Any) -> None:
        """Refuse an attack that supposes noise of another covariance than the games have."""
        estimator = getattr(attack, "estimator", None)  # a name has none
        asking = (BlackBoxAttributeInference, CombinedAttributeInference)
        if estimator is None or isinstance(attack, asking):  # predictions only
            return
        p, own = len(self.noiseless), self.noise
        supposed = NoiseShape.of(getattr(last_step(estimator), "noise_covariance", "isotropic"), p)
        if supposed.reads_data or own.reads_data:
            # A function of the data: the matrices differ wherever the attack makes a hypothesis.
            same = supposed.name == own.name
        else:
            supposed_matrix, matrix = (
                np.eye(p) if shape.matrix is None else shape.matrix for shape in (supposed, own)
            )
            same = np.allclose(supposed_matrix, matrix)
        if not same:
            raise AttackNotApplicableError(
                f"The attack {name!r} supposes noise of another covariance than that of the "
                "estimator under audit. Give its estimator the same `noise_covariance`."
            )

    def _fit_games(self, k: int, scale: float) -> FittedReleases:
        """Fit and release once for each game of a noise level, on the records of that game."""
        task, n_games, drawn = self.task, self.n_releases, self.drawn
        noise, secret = self.seed(k, FITS).spawn(2)
        table, y, whole, public = task.table, task.y, task.refit_preprocessing, self.public
        same = (table, y) if whole else (self.X, self.y)
        targets, secrets = np.empty(0, dtype=np.intp), np.empty(0)
        if drawn:
            targets = np.tile(np.arange(len(self.targets)), self.n_fitted)
            index, secrets, values = self.draw(targets, np.random.default_rng(secret))
            members = np.split(task.attacked.rows, task.attacked.starts[1:-1])
            n_games = len(targets)

        def data(game: int) -> tuple[Any, Array]:
            """Return the records of a game as the estimator takes them, with one value changed."""
            if not drawn:
                return same
            old = y if index == TARGET_INDEX else raw_column(table, index)
            column = old.astype(np.result_type(old.dtype, np.asarray(values[game]).dtype))
            column[members[targets[game]]] = values[game]
            if index == TARGET_INDEX:
                return (table if whole else public.transform(table)), column
            changed = with_attribute(table, index, column)
            return (changed if whole else public.transform(changed)), y

        parameters = self.fitted_releases(
            f"fits at noise scale {scale:g}",
            scale,
            noise.generate_state(n_games).astype(np.int64),
            task.n_jobs,
            template=task.estimator if whole else None,
            data=data,
        )
        return FittedReleases(parameters, targets, secrets)

    def _measure(self, where: tuple[Any, Array] | None) -> None:
        """Set what utility is measured by: on some records, or else on those trained on."""
        X, y = where or (self.X, self.y)
        labels = self.y
        if is_classifier(self.model):
            # Classes by number: strings take long to compare.
            _, codes = np.unique(np.concatenate([labels, y]), return_inverse=True)
            labels, y = codes[: len(labels)], codes[len(labels) :]
        shell = Shell.fit(self.public, self.X, labels, self.weights)
        self.released, self.scored = (shell, self.noiseless, (X, y)), (shell.model, labels, y)

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        """Add what noise the model adds, and what became of its scale."""
        # Columns of lower bounds on errors.
        with_prior = () if self.prior_variance is None else ("bayes_mse", "van_trees")
        return super().facts(outcomes) | {
            "values": self.values.tolist(),
            "bounds": (*with_prior, "cramer_rao") if self.estimates else self.bounds,
            "noise_covariance": self.noise.name,
            "has_noise": adds_noise(self.model),
            "scale": scale_sentence(self.goal, self.uncounted, self.task.estimator),
            "uncounted": self.uncounted,
            "releases": "fitted" if self._fits else "simulated",
            "n_fitted": self.n_fitted,
        }


def uses_more(attack: Any, task: Task) -> bool:
    """Return True if an attack uses what the prior of the bounds leaves out.

    A baseline does not look at the model: where its knowledge is not that of the bounds, it is
    nothing that they are about. A black box compares answers about all records with their targets
    (and its guesses of a number with those of others): of secrets as they are, that tells what the
    other columns do, even where noise hides all of the model.
    """
    if _is(attack, CombinedAttributeInference):
        return True  # it learns from the other records what is not in any stated prior
    if isinstance(task.prior, str) and task.prior == "conditional":
        return False
    if _is(attack, PriorAttack, ImputationAttack):
        return True
    own = getattr(attack, "prior", None)
    asks = _is(attack, BlackBoxAttributeInference)
    return not task.drawn and (asks or (isinstance(own, str) and own == "conditional"))


def unit_state(fitted: Any, noise: NoiseShape | None = None) -> FitState:
    """State of a fit without noise, as if it had noise of scale 1 and of that shape."""
    state: FitState = fitted._confidential_state()
    state = state.at_noise(1.0)
    return state if noise is None else replace(state, noise=noise)


def determination(squared_errors: FloatArray, spread: float) -> float:
    """Coefficient of determination of guesses; NaN where there is nothing to tell apart."""
    return 1.0 - float(np.mean(squared_errors)) / spread if spread > 0.0 else float("nan")


# Multiplications for all records; where they would take more, some are attacked, drawn at random.
_MOST_WORK = 5e10
_FEWEST, _MOST = 30, 1000


# Records that tell which values of a column are the same to the model.
_SEEN = 8


def value_distances(game: SecretGame, state: FitState) -> dict[str, FloatArray]:
    """Largest distance at unit noise between two values of each column of few, (n_targets,).

    Infinite where a value leaves the model without a minimizer.
    """
    targets, public, table, found = game.targets, game.public, game.task.table, {}

    def encoded(rows: IntArray, columns: list[int], first: IntArray) -> list[Any]:
        changed = take_rows(table, np.tile(rows, len(first)))
        for j in columns:
            values = np.repeat(raw_column(table, j)[first], len(rows))
            changed = with_attribute(changed, j, values)
        changed = plain_table(public.transform(changed))
        return [changed[k * len(rows) :][: len(rows)] for k in range(len(first))]

    for name, (columns, first) in few_valued(table).items():
        some = [dense_table(each).ravel() for each in encoded(targets[:_SEEN], columns, first)]
        # Rare categories, say, may be the same to the model.
        first = first[np.unique(some, axis=0, return_index=True)[1]]
        largest = np.zeros(len(targets))
        for part in row_blocks(len(targets), len(first) * len(game.noiseless)):
            rows = encoded(targets[part], columns, first)
            points = closed_form_encodings(state, targets[part], rows, reached=False)
            largest[part] = largest_distances(game.noise.whitened(points))
        found[name] = np.nan_to_num(largest, nan=np.inf, posinf=np.inf)
    return found


class RecordsGame(SecretGame):
    """Reconstruct records from releases of one model, each by one who knows all others."""

    kind = "record"
    estimates = True

    def __init__(self, task: Task, entropy: list[int]) -> None:
        super().__init__(task)
        if task.drawn:
            raise ValueError(
                "`secrets='drawn'` redraws one of a few values from its prior; whole records have "
                "no prior. Name an `attribute`, or pass `secrets='actual'`."
            )
        fitted = self._train()
        if not self.public.has_closed_form:
            raise AttackNotApplicableError(
                "Without `attribute`, whole records are reconstructed from the training objective, "
                f"which is not known for {type(last_step(fitted)).__name__}. Pass a private "
                "estimator of skleak.linear_model, or name an `attribute`."
            )
        self.noiseless = model_parameters(fitted)
        self.noise = noise = audited_shape(self.public, fitted, None)
        # What is fitted has no noise, of any shape.
        self._state = state = unit_state(fitted, noise)
        if isinstance(state.objective, MultinomialObjective):
            raise AttackNotApplicableError(
                f"The model has {state.objective.n_classes} classes; whole records are audited "
                "for two. Name an `attribute`, or make the target binary."
            )
        # What weights, or noise, that follow the data tell is not bounded.
        bounded = state.balanced is None and not noise.reads_data and self.goal is None
        self.targets = targets = self._attacked(task, bounded, seed_of(entropy, 0, RECORDS))
        X, y = dense_table(state.objective.X), state.objective.y
        self.secrets = X[targets]
        # Of attackers who are not unbiased.
        self._normal = NormalPrior.of(task.prior, X, y, targets) if bounded else None
        mean = (X.sum(axis=0) - X[targets]) / (len(X) - 1)
        mean = mean if self._normal is None else self._normal.mean
        # Standard deviations, in which errors are measured, of the columns and of the target.
        sizes = np.append(X.std(axis=0), y.std())
        self._units = np.where(sizes > 0.0, sizes, 1.0)
        units = self._units[:-1]
        self.prior_score = (((mean - X[targets]) / units) ** 2).mean(axis=1)
        self.spread = float(((sizes[:-1] / units) ** 2).mean())
        self.baseline = determination(self.prior_score, self.spread)
        self.prior_variance = None if self._normal is None else self._normal.variance(units)
        self.hypotheses = Hypotheses.near(state.factor.coefficients[None])
        self.unit_eta = leakage_model(state).record_loss(state.training.take(targets))
        self.uncounted = "" if self.goal is None else UNCOUNTED_NUMBERS
        self._set_up(("informed",), ("informed",))

    def _attacked(self, task: Task, bounded: bool, seed: np.random.SeedSequence) -> IntArray:
        """Positions of the records under attack: of many a random sample, where none are named."""
        objective = self._state.objective
        targets = task.rows
        n, p = objective.n_records, objective.n_parameters
        # Multiplications of all draws of a record.
        work = DRAWS * float(p**3 + (0 if objective.loss.quadratic else n * p**2))
        most = int(np.clip(_MOST_WORK / work, _FEWEST, _MOST))
        self._sampled = bounded and task.records is None and most < len(targets)
        if self._sampled:
            generator = np.random.default_rng(seed)
            targets = np.sort(generator.choice(targets, most, replace=False))
        return targets

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, check the noise, and learn what bounds need at every noise scale."""
        super().prepare(entropy)
        self._bounds: RecordBounds | None = None
        if self._normal is not None:
            known = self._state, self.targets, self._normal
            self._bounds = RecordBounds(*known, seed_of(entropy, 0, SAMPLE), self._units[:-1])
            self._distances = value_distances(self, self._state)

    def exposures(self, noise: float) -> FloatArray | None:
        """Return the share of the variance of a column, or combination of columns, that is removed.

        Of columns of few values it is the advantage of telling two of them apart.
        """
        if self._bounds is None:
            return None
        of_values = [gained(over_noise(each, noise)) for each in self._distances.values()]
        return np.max([self._bounds.exposures(noise), *of_values], axis=0)

    def any_prior(self, noise: float) -> dict[str, Any] | None:
        """Say what `exposures` are about, too: a column, or several together ("direction")."""
        exposure = self.exposures(noise)
        if self._bounds is None or exposure is None:
            return None
        found = np.array([*self._names(), "direction"], dtype=object)
        found = found[self._bounds.most_exposed(noise)]
        for name, each in self._distances.items():
            found[gained(over_noise(each, noise)) >= exposure] = name
        unknown = dict.fromkeys(COLUMNS, np.full(len(found), np.nan))
        return unknown | {"exposure": exposure, "exposed_column": found}

    def _names(self) -> list[str]:
        """Return the names of the columns as the model sees them."""
        names, preprocessing = self._state.feature_names, self.public.preprocessing
        if names is None and hasattr(preprocessing, "get_feature_names_out"):
            with suppress(AttributeError, ValueError):  # of a step that has none
                names = preprocessing.get_feature_names_out()
        return feature_labels(names, self._state.n_features)

    def made(self, name: str) -> Any:
        """Return the attack of ours, which is not fitted."""
        return InformedReconstruction(self.task.estimator, records=self.targets)

    def games(
        self, scale: float, noise: FloatArray | FittedReleases, seed: np.random.SeedSequence
    ) -> Mapping[str, Cell]:
        """Return the cells of one noise level, all attacks."""
        rest = self.spread, Level(noise, scale, self.n_releases, seed)
        cells: dict[str, Cell] = {}
        if self._bounds is not None:
            cells["bounds"] = (RecordBounds.outcome, (self._bounds, scale))
        for name, attack in self.attacks.items():
            truth, state, adds = self.secrets, self._state, self._adds_target(attack)
            if adds:
                truth = np.column_stack([truth, state.objective.y[self.targets]])
            units = self._units[: truth.shape[1]]
            # Of unbiased attacks at unit noise.
            bound = record_mse(state, self.targets, private_target=adds, units=units)
            known = (attack, self.noiseless, truth, bound * scale**2)
            cells[name] = (play_errors, (*known, *rest, units, not adds))
        return cells

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        """Say whether the records are a sample, and whether targets are reconstructed, too."""
        own = {"target_counts": any(map(self._adds_target, self.attacks.values()))}
        return super().facts(outcomes) | own | {"sampled": self._sampled}

    def _adds_target(self, attack: Any) -> bool:
        """Return True if an attack reconstructs the target of the model too."""
        d = self.secrets.shape[1]
        return bool(getattr(attack, "n_reconstructed_", d) > d)
