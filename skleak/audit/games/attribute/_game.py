"""The game of one column: its values are guessed, or estimated where they are numbers.

Noise is added to parameters where a model has any. One that is asked has its answers alone: no
parameter is read, and nothing is bounded. A release is then a trained model: where its training is
left to chance, each release is one more training; else there is a single one, and what attacks get
right of it is a fact.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    adds_noise,
    ignoring_mismatches,
    is_linear,
    last_step,
    model_parameters,
    plain_table,
    weight_argument,
)
from skleak.adversary.knowledge import range_of_others, read_secret, take_rows, with_attribute
from skleak.adversary.models import Learner, Shell
from skleak.adversary.numbers import N_NODES, NumberBounds, number_bounds
from skleak.attacks import (
    BlackBoxAttributeInference,
    CombinedAttributeInference,
    InformedAttributeInference,
    PriorAttack,
)
from skleak.audit.games._game import FALSE_ALARMS, Cell, Facts, Task, columns_of, unequal_columns
from skleak.audit.games._levels import (
    SGDBounds,
    check_one_row_each,
    constant_score,
    in_one_channel,
    is_private_sgd,
    noise_multiplier,
    quick,
    reference_records,
    refuse_noise,
)
from skleak.audit.games._secret import ATTACKS, SecretGame, TabledGame, check_bounds, success_bounds
from skleak.audit.games._trials import (
    FittedReleases,
    Level,
    alone,
    draw_secrets,
    errors_outcome,
    guessed_outcome,
    play_actual,
    play_drawn,
    play_drawn_errors,
    play_errors,
    ranks_value,
)
from skleak.audit.games.attribute._subject import (
    OUTSIDE_ATTACKS,
    AttributeSubject,
    KnownColumn,
    OutsideSubject,
    check_outside,
    known_column,
    study,
    study_outside,
)
from skleak.audit.noise._mechanism import ShapedNoise, UnequalPairs
from skleak.audit.tables._rates import Found, Outcome, cell_key, release_key
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.refit import largest_distances
from skleak.influence.state import NoiseShape
from skleak.utils._predictions import classifies, utility_of
from skleak.utils._typing import Array, FloatArray, IntArray

# Stream of the seeds of the trainings, beside those of other games.
_TRAINING = 21
_BASELINES = ("prior", "imputation")
# Attacks on answers, and the criterion by which each compares them.
BLACK_BOXES: dict[str, Any] = {
    "black_box": "performance",
    "black_box_proba": "proba",
    "black_box_margin": "margin",
}
# Attacks that read no parameter.
_ASKING = (*_BASELINES, *BLACK_BOXES, "combined")
_FAR_OFF = 1e50
NO_BOUND = "no bound: the release is not a noisy channel that skleak knows"


class _ColumnGame(TabledGame):
    """A game of one column, which its attacks are about."""

    asked = False  # whether models are asked, and no parameter is read

    def _offered(self, task: Task, model: Any) -> tuple[list[str], list[str]]:
        """Names of the attacks that can be played, and of those that are played by default."""
        self._classifies = classifies(model, task.y)
        left, unasked = set(), {"informed", "black_box_proba", "black_box_margin"}
        if task.about_target:
            left |= {*BLACK_BOXES, "combined", "informed"}
        if task.persons is not None:
            left |= {"combined", "informed"}
        left.add("informed" if self.estimates else "posterior_mean")
        if self.asked:
            left |= {*ATTACKS} - {*_ASKING}
        elif self.estimates and self._classifies:
            # Labels tell a number by steps, on a grid that takes long at thousands of releases.
            unasked |= {"black_box", "combined"}
        if self.asked or not (self.estimates or task.noise_scales is not None or adds_noise(model)):
            unasked -= {*beyond_labels(model, task.y)}
        known = [name for name in ATTACKS if name not in left]
        return sorted(known), [name for name in known if name not in unasked]

    def made(self, name: str) -> Any:
        """Return an attack of ours; the white box is fitted already."""
        task, subject = self.task, self.subject
        given = (task.estimator, task.attribute)
        own = {"values": task.values, "records": subject.targets}
        # The prior of every target, computed once for all attacks.
        prior: Any = task.prior if self.estimates else subject.prior
        if name == "prior":
            return PriorAttack(task.attribute, prior=prior, **own)
        if name == "imputation":
            return subject.guesser
        if name == "white_box":
            return subject.white_box
        if name == "posterior_mean":
            return subject.posterior
        if name == "informed":
            return InformedAttributeInference(*given, **own)
        if name == "combined":
            return CombinedAttributeInference(*given, **own)
        asking = partial(BlackBoxAttributeInference, *given, criterion=BLACK_BOXES[name])
        if task.persons is not None and not self.estimates:
            whole = {"sample_weight": task.sample_weight, "persons": task.persons}
            return asking(prior=prior, **own).fit(task.table, task.y, **whole)
        return asking(prior=prior, **own)

    def shared_facts(self, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
        """Say what of a release each attack is shown, too."""
        shown = {name: what for name, (_, what) in ATTACKS.items()}
        shown["black_box"] = "labels" if self._classifies else "predictions"
        most = [*beyond_labels(self.task.estimator, np.empty(0)), "black_box"][0]
        shown["combined"] = shown[most]
        outputs = {
            name: shown[attack] if isinstance(attack, str) else "the model"
            for name, attack in self._chosen.items()
        }
        return super().shared_facts(outcomes) | {"outputs": outputs}


class PredictionsGame(_ColumnGame):
    """Guess or estimate a column of every record under attack, from what models answer."""

    n_curve, beyond = 12, 1.0  # each takes the accounting of a training
    asked = True
    _named: Mapping[type, str] = {
        kind: name for kind, name in TabledGame._named.items() if name in (*_BASELINES, "combined")
    }

    def __init__(self, task: Task, learner: Learner, entropy: list[int]) -> None:
        super().__init__(task)
        if is_private_sgd(task.estimator):
            learner = replace(learner, estimator=clone(learner.estimator, safe=False))
            quick(last_step(learner.estimator))
        self._learner, self._entropy = learner, entropy
        # Whether preprocessing that is trained on the secrets as well is counted, too.
        self._whole = isinstance(task.estimator, Pipeline) and task.refit_preprocessing
        check_settings(task)
        known = known_column(task)
        self.estimates = known.secret.numeric
        self.kind = "numeric" if self.estimates else "categorical"
        model = self._trained(learner, 0)
        self._about = f" on a model that is asked, such as {type(last_step(model)).__name__},"
        self._chosen = self._choose(task, *self._offered(task, model))
        self._where = reference_records(task.X_test, task.y_test) or (task.table, task.y)
        self.subject = known
        self.attacks = {name: self._fitted(name) for name in self._chosen}
        # Whether one more training answers differently, to any attack.
        first, second = (
            _guesses(self.attacks, each, known.secrets)[0]
            for each in (model, self._trained(learner, 1))
        )
        self._random = not all(map(np.array_equal, first, second))
        self.unseen = drops(task, known)
        noise = 0.0
        if is_private_sgd(task.estimator):
            noise = noise_multiplier(learner.estimator, task.table, task.y)
        self._bound, self._no_bound = self._allowed(noise)
        self.design = self._designed(
            known,
            (noise,),
            compared=self._bound is not None,
            bounds=() if self._bound is None else ("dp",),
            n_releases=int(task.n_releases) if self._random else 1,
            etas={noise: np.full(len(known.targets), np.nan)},
        )

    def _trained(self, learner: Learner, release: int) -> Any:
        """Train the model of one release, with seeds of its own."""
        key = (release, _TRAINING)
        generator = np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=key))
        model = learner.seeded(lambda n: generator.integers(2**31 - 1, size=n))
        weights = weight_argument(model, self.task.sample_weight)
        # `fit` of a model from elsewhere may return nothing.
        return model.fit(self.task.table, learner.y, **weights) or model

    def _allowed(self, noise: float) -> tuple[FloatArray | None, str]:
        """Success about each record that no attack exceeds, or None and why none is known."""
        task = self.task
        if not is_private_sgd(task.estimator):
            return None, NO_BOUND
        if self.estimates:
            return None, "no bound: of a number, `leakage_report()` says how far off attackers are"
        if self._whole:
            return None, "no bound: the preprocessing is trained on the secrets as well"
        if not (isinstance(task.bounds, str) or "dp" in task.bounds):
            return None, "no bound: none was asked for"
        try:
            return self._bounds.column_success(noise, self.subject.prior), ""
        except ImportError as error:
            if task.bounds != "all":
                raise
            return None, f"no bound: {error}"

    @property
    def _bounds(self) -> SGDBounds:
        """Bounds of private SGD."""
        return SGDBounds.of_column(last_step(self._learner.estimator), len(self.task.y))

    def any_prior(self, noise: float) -> dict[str, Any] | None:
        """Columns that hold for every attacker, from the curve of private SGD; else None, or 0."""
        task, n = self.task, len(self.design.targets)
        if self.unseen:
            return columns_of(np.zeros(n))
        if not is_private_sgd(task.estimator) or self._whole:
            return None
        try:
            return self._bounds.columns(noise, n, membership=False)
        except ImportError:
            return None

    def utility_at(self, noise: float) -> float:
        """Mean score of some trainings of private SGD at a noise multiplier."""
        if not is_private_sgd(self.task.estimator):
            return np.nan
        estimator = clone(self._learner.estimator, safe=False)
        last_step(estimator).set_params(noise_multiplier=noise)
        learner = replace(self._learner, estimator=estimator)
        models = (self._trained(learner, release) for release in self.few_releases)
        return float(np.mean([utility_of(model, *self._where) for model in models]))

    def constant_utility(self) -> float:
        """Score of the best constant on the records that utility is measured on."""
        return constant_score(self._learner.estimator, self.task.y, self._where[1])

    def prepare(self, entropy: list[int]) -> None:
        """Do nothing: all was prepared to learn how models are trained."""

    def cells(self) -> dict[str, Cell]:
        """One training each."""
        numbers = range(self.design.n_releases)
        return {release_key(k): (PredictionsGame._train, (self, k)) for k in numbers}

    def _train(self, release: int) -> Outcome:
        """Train a model, and let every attack ask it.

        Returns ``correct`` and the log-odds of the rare value (NaN where an attack has none), or
        ``errors`` of numbers, (n_attacks, n_targets), and ``utility``.
        """
        model, truth = self._trained(self._learner, release), self.subject.secrets
        guesses, odds = _guesses(self.attacks, model, truth, self.subject.rare)
        utility = np.array(utility_of(model, *self._where))
        if not self.estimates:
            right = np.stack([guess == truth for guess in guesses])
            return {"correct": right, "odds": np.stack(odds), "utility": utility}
        errors = np.stack([guess - truth for guess in guesses])
        errors = np.nan_to_num(errors, nan=_FAR_OFF, posinf=_FAR_OFF, neginf=-_FAR_OFF)
        return {"errors": np.clip(errors, -_FAR_OFF, _FAR_OFF), "utility": utility}

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Outcomes of every attack, from those of every model that was trained."""
        keys = map(release_key, range(self.design.n_releases))
        played = [outcomes[key] for key in keys if key in outcomes]
        if not played:
            return {}
        truth, (noise,) = self.subject.secrets, self.design.noise_scales
        utility = np.array([float(cell["utility"]) for cell in played])
        tabled = {cell_key(noise, "utility"): {"utility": utility}}
        for k, (name, attack) in enumerate(self.attacks.items()):
            exact = name in _BASELINES or not self._random
            if self.estimates:
                errors = np.stack([cell["errors"][k] for cell in played])
                variance = np.full(len(truth), 0.0 if exact else np.nan)
                if not exact and len(played) > 1:
                    variance = errors.var(axis=0, ddof=1)
                squares = errors**2
                means = squares.mean(axis=1), squares.mean(axis=0), variance
                own = errors_outcome(*means, squares.size, exact=exact)
            else:
                right = np.stack([cell["correct"][k] for cell in played])
                odds = np.stack([cell["odds"][k] for cell in played])
                own = guessed_outcome(right.mean(axis=1), right.sum(axis=0, dtype=np.int64), exact)
                rates = Found(len(truth))
                if not np.isnan(odds).any():
                    rates.count(odds, np.broadcast_to(truth == self.design.rare, odds.shape))
                own |= rates.outcome()
            tabled[cell_key(noise, name)] = own | alone(attack, truth)
        if self._bound is not None:
            unknown = np.full(len(self._bound), np.nan)
            bounds = {"dp": self._bound, "bayes": unknown, "standard_error": 0.0 * self._bound}
            tabled[cell_key(noise, "bounds")] = bounds
        return tabled

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        return Facts(
            **self.shared_facts(outcomes),
            values=self.subject.values.tolist(),
            bounds=self.design.bounds,
            noiseless_utility=float("nan"),
            noise_covariance="isotropic",
            has_noise=self.design.noise_scales[0] > 0.0,
            private_sgd=is_private_sgd(self.task.estimator),
            no_bound=self._no_bound,
            preprocessing="in the model" if isinstance(self.task.estimator, Pipeline) else "none",
            random=self._random,
        )


def drops(task: Task, known: KnownColumn) -> bool:
    """Return True if a pipeline trains its model on the same numbers whatever a column holds.

    The encoded records are compared bit by bit: those under attack with every value that they may
    have, and all records with preprocessing that is fitted on the column in another order, or with
    one value in the place of all.
    """
    pipeline, secret = task.estimator, known.secret
    targets = task.attacked.rows
    if not isinstance(pipeline, Pipeline) or len(pipeline.steps) < 2:
        return False
    try:
        fitted = clone(pipeline[:-1])
        encoded = plain_table(fitted.fit_transform(task.table, task.y))
        values: Any = secret.values
        ends = values
        if values is None:
            low, high = (end[targets] for end in range_of_others(secret.column))
            values, ends = np.linspace(low, high, N_NODES), np.array([low.min(), high.max()])
        for value in values:
            rows = with_attribute(take_rows(task.table, targets), secret.index, value)
            if not _same(fitted.transform(rows), encoded[targets]):
                return False
        # In the order of the targets, half of each end: what selects columns would see this one.
        later = np.argsort(np.argsort(task.y, kind="stable")) >= len(task.y) // 2
        told = np.where(later, ends[-1], ends[0])
        for column in (secret.column[::-1], np.roll(secret.column, 1), *ends, told, told[::-1]):
            table = with_attribute(task.table, secret.index, column)
            if not _same(clone(pipeline[:-1]).fit_transform(table, task.y), encoded):
                return False
    except (TypeError, ValueError):
        return False  # what cannot be encoded otherwise is seen
    return True


def _same(found: Any, known: Any) -> bool:
    """Return True if tables, sparse or dense, are equal bit by bit."""
    found = plain_table(found)
    if sparse.issparse(found) or sparse.issparse(known):
        return found.shape == known.shape and abs(found - known).max() == 0.0
    return bool(np.array_equal(found, known, equal_nan=True))


def beyond_labels(model: Any, y: Array) -> list[str]:
    """Name the black box that sees most of a classifier, fitted or not: no more than one."""
    if not classifies(model, y):
        return []
    if hasattr(model, "predict_proba"):
        return ["black_box_proba"]
    return ["black_box_margin"] if hasattr(model, "decision_function") else []


def check_settings(task: Task) -> None:
    """Refuse what only a model with parameters and noise can be audited for."""
    name = type(last_step(task.estimator)).__name__
    check_one_row_each(task.estimator, task.persons)
    if task.noise_scales is not None and is_private_sgd(task.estimator):
        raise AttackNotApplicableError(
            f"`noise_scales` must be None for {name}: an audit of a column trains with the noise "
            "of the estimator. Set its `noise_multiplier`."
        )
    if task.noise_scales is not None and np.any(np.asarray(task.noise_scales) != 0.0):
        refuse_noise(task.estimator)
    if task.about_target:
        raise AttackNotApplicableError(
            f"The target of the model is inferred from parameters, and {name} is asked for "
            "predictions, which are of the target. Name a column, or audit membership."
        )
    if task.drawn:
        raise AttackNotApplicableError(
            f"`secrets='drawn'` redraws a secret and releases the parameters that follow; "
            f"{name} is asked for predictions. Pass `secrets='actual'`."
        )
    asked = () if isinstance(task.bounds, str) and task.bounds == "all" else task.bounds
    if is_private_sgd(task.estimator):
        asked = () if asked == "dp" else [name for name in asked if name != "dp"]
    if check_bounds(asked):
        raise AttackNotApplicableError(
            f"`bounds` must be 'all' or empty for {name}; got {asked!r}. There is {NO_BOUND}. "
            "Leave `bounds` out."
        )


def _guesses(
    attacks: Mapping[str, Any], model: Any, truth: Array, rare: Any = None
) -> tuple[list[Array], list[FloatArray]]:
    """Guesses of every attack about a model, and log-odds of the rare value, (n_targets,) each."""
    rows, ranks = [], []
    for name, attack in attacks.items():
        odds = np.full((1, len(truth)), np.nan)
        with ignoring_mismatches():
            if ranks_value(attack, rare):
                (guess,), odds = attack._ranked([model], None, rare)
            else:
                guess = np.asarray(attack.predict(model))
        if guess.shape != truth.shape:
            raise ValueError(
                f"The attack {name!r} must return one guess for each of the {len(truth)} targets "
                f"from one model; got shape {guess.shape}."
            )
        rows.append(guess)
        ranks.append(odds[0])
    return rows, ranks


# Trainings that find what a model without noise tells, of which nobody has asked for parameters.
_MOST_TRAININGS = 4000


def attribute_game(task: Task, entropy: list[int]) -> "AttributeGame | PredictionsGame":
    """Return the game of a column: against parameters where there are any, else answers."""
    n_values = read_secret(task.table, task.y, task.attribute, task.values).n_values
    learner, few = task.learner, n_values > 0
    # A number is guessed from the other columns; how often it occurs tells little of it.
    prior = "marginal" if few else "conditional"
    # A training by private SGD is another one with another value: its parameters tell nothing.
    asked = learner is not None and is_private_sgd(task.estimator)
    if not asked and (
        learner is None
        or adds_noise(task.estimator)
        or _reads_parameters(task, n_values or N_NODES)
    ):
        task = task.settled(drawn=few, prior=prior)
        return AttributeGame(task, study(task))
    assert learner is not None
    return PredictionsGame(task.settled(drawn=False, prior=prior), learner, entropy)


def _reads_parameters(task: Task, n_values: int) -> bool:
    """Return True if a model has parameters to read, and anything that is asked for reads them.

    Where nothing is, and there is no noise, it is not trained anew more than some thousands of
    times to find out that parameters tell the secret.
    """
    named = [task.attacks] if isinstance(task.attacks, str) else task.attacks
    asking = isinstance(named, list | tuple) and all(
        isinstance(each, str) and each in _ASKING for each in named
    )
    if isinstance(task.attacks, str) and task.attacks == "default":
        asking = len(task.rows) * n_values > _MOST_TRAININGS
    if asking and task.noise_scales is None and task.secrets != "drawn":
        return False
    weights = weight_argument(task.estimator, task.sample_weight)
    first, second = (clone(task.estimator, safe=False) for _ in range(2))
    if not is_linear(first.fit(task.table, task.y, **weights) or first):
        return False
    second.fit(task.table, task.y, **weights)
    if np.allclose(model_parameters(first), model_parameters(second), rtol=1e-4, atol=1e-6):
        return True
    if task.noise_scales is None:
        return False
    raise AttackNotApplicableError(
        f"{type(last_step(first)).__name__} has other parameters each time that it is trained on "
        "the same records, so that what follows from a value is not known. Leave `noise_scales` "
        "out, or give it a `random_state` parameter."
    )


class AttributeGame(_ColumnGame, SecretGame):
    """Guess or estimate a column of every record under attack, from releases of one model."""

    _numbers: NumberBounds | None = None
    _pairs: UnequalPairs | None = None

    def __init__(self, task: Task, subject: AttributeSubject) -> None:
        self.subject = subject
        self.estimates = self.subject.secret.numeric
        self.kind = "numeric" if self.estimates else "categorical"
        points, shapes = self.subject.white_box.encodings_, self.subject.shapes
        made = [points] if shapes is None else [points, shapes]
        same = all(bool((each == each[:, :1]).all()) for each in made)
        self.unseen = same and not self.subject.moved
        if self.estimates and task.drawn and self.subject.white_box._shaped is not None:
            raise ValueError(
                "`secrets='drawn'` is not played for a number where the covariance of the noise "
                "follows the data. Pass `secrets='actual'`."
            )
        if self.estimates and task.drawn and self.subject.goal is not None:
            raise ValueError(
                "`secrets='drawn'` is not played for a number where the noise scale follows the "
                "records. Pass `secrets='actual'`, or numbers as `noise_scales`."
            )
        if not self.estimates:
            self._seconds = self.seconds_of(*points.shape, shaped=shapes is not None)
        super().__init__(task, self.subject, *self._offered(task, self.subject.model))

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, check the noise, and decide whose bounds are computed."""
        if self.subject.posterior is not None and not self.subject.uncounted:
            self._numbers = NumberBounds.of(self.subject.posterior)
        super().prepare(entropy)
        subject = self.subject
        if self.estimates:
            self.unit_distances, self._pairs = subject.unit_distances, subject.pairs
            return
        points, shapes = subject.white_box.encodings_, subject.shapes
        places = points
        if shapes is None:
            same = (points == points[:, :1]).all(axis=2, keepdims=True)
            places = subject.noise.whitened(points)
            places = np.where(same, places[:, :1], places)
        if shapes is None and not subject.uncounted:
            self.unit_distances = largest_distances(places)
            if subject.scales is not None:
                # Rungs that differ are published; one that no fit has is none of the others.
                apart = (subject.scales != subject.scales[:, :1]).any(axis=1)
                self.unit_distances = np.where(apart, np.inf, self.unit_distances)
        elif shapes is not None and not subject.uncounted:
            self._pairs = UnequalPairs.of(points, shapes, FALSE_ALARMS)
        if subject.scales is not None:
            places, _ = in_one_channel(places, subject.scales, self.design.noise_scales[-1])
        self._places = places

    def any_prior(self, noise: float) -> dict[str, Any] | None:
        """Columns that hold for every attacker; bounds where each value has noise of its own.

        Of a number its step, too.
        """
        columns, step = super().any_prior(noise), self.subject.step
        if self._pairs is not None:
            found, n = self._pairs.any_prior(noise, FALSE_ALARMS), len(self.design.targets)
            # Of a number there are two pairs.
            columns = unequal_columns(*(each.reshape(-1, n).max(axis=0) for each in found))
        return columns if columns is None or step is None else columns | {"step": step}

    def drawn(self, targets: IntArray, generator: np.random.Generator) -> tuple[int, Array, Array]:
        """Draw secrets of targets: their column, positions among the values or numbers, values."""
        subject = self.subject
        if self._numbers is not None:
            numbers = self._numbers.encodings.prior.take(targets).draw(1, generator)[0]
            return subject.secret.index, numbers, numbers
        secrets = draw_secrets(subject.prior[targets], 1, generator)[0]
        return subject.secret.index, secrets, subject.values[secrets]

    def games(
        self, scale: float, noise: FloatArray | FittedReleases, seed: np.random.SeedSequence
    ) -> Mapping[str, Cell]:
        """Return the cells of one noise level: all attacks, and bounds on guesses."""
        subject = self.subject
        level = Level(noise, scale, self.design.n_releases, seed, subject.rare)
        if self.estimates:
            return self._estimations(level)
        points = subject.white_box.encodings_
        cells: dict[str, Cell] = {}
        if not subject.uncounted:
            known = (self._places, subject.prior, scale, self.design.bounds, subject.shapes)
            gain = self.exposures(scale) if self._swift else None
            cells["bounds"] = (success_bounds, (*known, gain))
        if not self.design.drawn:
            cells |= self._each(play_actual, subject.noiseless, subject.secrets, level)
            return cells | self._seeing(play_actual, level)
        played: Any = noise
        if subject.scales is not None and isinstance(noise, np.ndarray):
            played = ShapedNoise.of_scales(subject.scales, scale, noise)
        if subject.shapes is not None and not isinstance(noise, FittedReleases):
            played = ShapedNoise.of(subject.shapes, subject.noise.matrix_root, noise)
        game = (points, subject.values, subject.prior, replace(level, noise=played))
        cells |= self._each(play_drawn, *game)
        own = subject.noiseless, subject.secrets, replace(level, noise=self._noise[scale])
        actual = self._each(play_actual, *own)
        cells |= {name: actual[name] for name in self.design.stacked}
        return cells | self._seeing(play_drawn, level)

    def _seeing(self, play: Callable[..., Outcome], level: Level) -> dict[str, Cell]:
        """Return the cell of the white box where it sees a noise scale that tells of values."""
        subject, points = self.subject, self.subject.white_box.encodings_
        noise, scale = level.noise, level.noise_scale
        names = [name for name, attack in self.attacks.items() if attack is subject.white_box]
        if subject.scales is None or not names or not isinstance(noise, np.ndarray):
            return {}
        seen, _ = in_one_channel(points, subject.scales, scale)
        wide = block_diag(np.diag(noise) if noise.ndim == 1 else noise, scale)
        shape = subject.noise
        if shape.matrix is not None and not shape.is_identity:
            shape = NoiseShape.of(block_diag(shape.matrix, 1.0), len(wide))
        attack = type(subject.white_box)._of_encodings(seen, subject.values, subject.prior, shape)
        attack._kind = subject.white_box._kind
        own: tuple[Any, ...] = np.append(subject.noiseless, 0.0), subject.secrets
        if play is play_drawn:
            own = seen, subject.values, subject.prior
        return dict.fromkeys(names, (play, (attack, *own, replace(level, noise=wide))))

    def _each(self, play: Callable[..., Outcome], *known: Any) -> dict[str, Cell]:
        """Return a cell for each attack, which `play` takes first."""
        return {name: (play, (attack, *known)) for name, attack in self.attacks.items()}

    def _estimations(self, level: Level) -> Mapping[str, Cell]:
        """Return the cells of one noise level about a quantity."""
        subject, numbers, seed, scale = self.subject, self._numbers, level.seed, level.noise_scale
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0))
        cells: dict[str, Cell] = {}
        if numbers is not None:
            cells["bounds"] = number_bounds, (numbers, scale, own)
        if self.design.drawn and numbers is not None:
            raw = replace(numbers.encodings, points=subject.white_box.encodings_)
            cells |= self._each(play_drawn_errors, raw, level)
            level = replace(level, noise=self._noise[scale])
        truth = subject.secrets.reshape(-1, 1)
        known = (subject.noiseless, truth, subject.mse(scale), subject.spread)
        actual = self._each(play_errors, *known, level)
        stacked = self.design.stacked if self.design.drawn else actual
        return cells | {name: actual[name] for name in stacked}


class OutsideGame(AttributeGame):
    """Guess a column of records that lie outside memory, from releases of one model."""

    subject: OutsideSubject
    _named, _about = {}, " about records outside memory"

    def __init__(self, task: Task, entropy: list[int]) -> None:
        # The model is one of ours, and what fits of it release is known.
        task, self.kind = task.settled(drawn=True), "categorical"
        check_outside(task)
        chosen = self._choose(task, OUTSIDE_ATTACKS, OUTSIDE_ATTACKS).values()
        if not all(isinstance(each, str) for each in chosen):
            raise AttackNotApplicableError(
                "An attack of your own is fitted on all training records, which are outside "
                f"memory. Name some of {list(OUTSIDE_ATTACKS)}, or audit a random sample as a "
                "DataFrame."
            )
        subject = study_outside(task, entropy)
        own = {"table": subject.rows.table, "y": subject.rows.y}
        super().__init__(replace(task, releases="simulated", **own), subject)

    def _offered(self, task: Task, model: Any) -> tuple[list[str], list[str]]:
        self._classifies = is_classifier(model)
        return [*OUTSIDE_ATTACKS], [*OUTSIDE_ATTACKS]

    def made(self, name: str) -> Any:
        if name == "prior":
            return PriorAttack._of_prior(self.subject.values, self.subject.prior)
        return super().made(name)

    def _measure(self, where: tuple[Any, Array] | None) -> None:
        subject, rows = self.subject, self.subject.rows
        where = where or (subject.public.transform(rows.table), rows.y)
        self.released = Shell.of(subject.fitted), subject.noiseless, where
        self.trained_on = rows.y

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Outcomes with what tells a sample from all records."""
        found, n_games = dict(outcomes), self.design.n_releases
        for scale in self.design.noise_scales if self.subject.sampled else ():
            for name in {*self.design.attacks, "bounds"}:
                key = cell_key(scale, name)
                if key in found:
                    own = {"n_all": np.array(self.task.n_records)}
                    if name != "bounds":
                        own = {"by_record": found[key]["counts"] / n_games}
                    found[key] = {**found[key], **own}
        return found

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        facts = super().facts(outcomes) | {"sampled": self.subject.sampled}
        if self.task.X_test is None and len(self.task.y) < self.task.n_records:
            facts["utility_data"] = "a random sample of the training records"
        return facts
