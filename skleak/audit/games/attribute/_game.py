"""The game of one column: its values are guessed, or estimated where they are numbers.

Noise is added to parameters where a model has any. One that is asked has its answers alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import block_diag
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    PublicModel,
    adds_noise,
    changed_columns,
    check_weights_known,
    closed_form_encodings,
    dense_table,
    is_linear,
    last_step,
    model_parameters,
    noiseless,
    plain_table,
    weight_argument,
)
from skleak.adversary.knowledge import (
    CrossFitted,
    Population,
    Secret,
    marginal_prior,
    range_of_others,
    read_secret,
    resolve_records,
    spread_left,
    take_rows,
    without_attribute,
)
from skleak.adversary.models import Shell
from skleak.adversary.numbers import (
    N_NODES,
    NumberBounds,
    at_truth,
    number_bounds,
    slope_at_truth,
)
from skleak.attacks import (
    ImputationAttack,
    PosteriorMeanReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit.games._game import (
    FALSE_ALARMS,
    Cell,
    Facts,
    Outside,
    RawRows,
    Task,
    codes_of,
    unequal_columns,
)
from skleak.audit.games._levels import (
    CALIBRATED,
    SAMPLE,
    UNCOUNTED_NUMBERS,
    UNCOUNTED_OUTSIDE,
    PublishedScale,
    goal_of,
    in_one_channel,
    is_private_sgd,
)
from skleak.audit.games._secret import SecretGame, determination, success_bounds, unit_state
from skleak.audit.games._trials import (
    FittedReleases,
    Level,
    draw_secrets,
    play_actual,
    play_drawn,
    play_drawn_errors,
    play_errors,
)
from skleak.audit.games.attribute._column import (
    ASKING,
    ColumnGame,
    PredictionsGame,
    related_columns,
)
from skleak.audit.noise._mechanism import (
    Hypotheses,
    ShapedNoise,
    UnequalPairs,
    audited_shape,
    shape_of_fit,
)
from skleak.audit.tables._rates import Outcome, cell_key
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import ShapedInformation, leakage_model, person_losses
from skleak.influence.noise import fitted_noise, information_terms
from skleak.influence.refit import largest_distances, operations_each
from skleak.influence.state import FitState, NoiseShape, RecordBatch, partial_state
from skleak.mechanisms import NoiseGoal
from skleak.utils._predictions import label_positions
from skleak.utils._records import Persons
from skleak.utils._typing import Array, FloatArray, IntArray

# Trainings that find what a model without noise tells, of which nobody has asked for parameters.
_MOST_TRAININGS = 4000


def attribute_game(task: Task, entropy: list[int]) -> "AttributeGame | PredictionsGame":
    """Return the game of a column: against parameters where there are any, else answers."""
    n_values = read_secret(task.table, task.y, task.attribute, task.values).n_values
    learner, few = task.learner, n_values > 0
    # A number is guessed from the other columns; how often it occurs tells little of it.
    prior = "marginal" if few else "conditional"
    # A training by private SGD is another one with another value: its parameters tell nothing.
    asked = learner is not None and (is_private_sgd(task.estimator) or bool(task.goals))
    if not asked and (
        learner is None
        or adds_noise(task.estimator)
        or _reads_parameters(task, n_values or N_NODES)
    ):
        task = task.settled(drawn=few, prior=prior)
        return AttributeGame(task, entropy)
    assert learner is not None
    return PredictionsGame(task.settled(drawn=False, prior=prior), learner, entropy)


def _reads_parameters(task: Task, n_values: int) -> bool:
    """Return True if a model has parameters to read, and anything that is asked for reads them.

    Where nothing is, and there is no noise, it is not trained anew more than some thousands of
    times to find out that parameters tell the secret.
    """
    named = [task.attacks] if isinstance(task.attacks, str) else task.attacks
    asking = isinstance(named, list | tuple) and all(
        isinstance(each, str) and each in ASKING for each in named
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


class AttributeGame(ColumnGame, SecretGame):
    """Guess or estimate a column of every record under attack, from releases of one model."""

    # Fitted, with the parameters without noise under every value.
    white_box: WhiteBoxAttributeInference
    # Covariance of unit noise under every value, (n_targets, n_values, p, p), where it follows the
    # data: those of the white box, which holds their inverse roots too, as much memory again.
    shapes: FloatArray | None = None
    # Where each value has noise of its own, pairs of values, (n_targets,); of a quantity from it to
    # a step lower, and to a step higher, (2 n_targets,).
    _pairs: UnequalPairs | None = None
    # Noise scale under every value, (n_targets, n_values), where it follows the records.
    scales: FloatArray | None = None
    # Of a quantity: its deviation given the other columns, (n_targets,), its posterior mean, bounds
    # on errors, and whether the model is another one with a quantity a step off.
    step: FloatArray | None = None
    posterior: PosteriorMeanReconstruction | None = None
    _numbers: NumberBounds | None = None
    moved: bool = False

    def __init__(self, task: Task, entropy: list[int]) -> None:
        super().__init__(task)
        self._entropy = entropy
        self._study()
        points, shapes = self.white_box.encodings_, self.shapes
        made = [points] if shapes is None else [points, shapes]
        same = all(bool((each == each[:, :1]).all()) for each in made)
        self.unseen = same and not self.moved
        if self.estimates and task.drawn and self.white_box._shaped is not None:
            raise ValueError(
                "`secrets='drawn'` is not played for a number where the covariance of the noise "
                "follows the data. Pass `secrets='actual'`."
            )
        if self.estimates and task.drawn and self.goal is not None:
            raise ValueError(
                "`secrets='drawn'` is not played for a number where the noise scale follows the "
                "records. Pass `secrets='actual'`, or numbers as `noise_scales`."
            )
        n, n_values, width = points.shape
        if shapes is not None:
            self._seconds = 2.5e-3 * n * n_values**2 * float(np.sqrt(width))
        elif n_values > 2:
            self._seconds = 4e-4 * n * n_values**2
        self._set_up(*self._offered(task, self.model))

    def _study(self) -> None:
        """Fit the model without noise, and learn all that attacks are measured by."""
        self._know_column()
        task, secret, fitted = self.task, self.secret, self._train()
        self.noiseless = model_parameters(fitted)
        self.noise = audited_shape(self.public, fitted, task.attribute)
        self.white_box = white_box = WhiteBoxAttributeInference(
            task.estimator,
            task.attribute,
            values=task.values,
            prior="uniform" if self.estimates else self.prior,
            records=task.records,
            refit_preprocessing=task.refit_preprocessing,
            n_jobs=task.n_jobs,
        ).fit(task.table, task.y, sample_weight=task.sample_weight, persons=task.persons)
        shaped, points = white_box._shaped, white_box.encodings_
        if shaped is not None:
            self.noise = shape_of_fit(self.noise, fitted)
        if self.estimates:
            return self._study_number(fitted)
        persons, candidates = task.attacked, []
        if self.public.has_closed_form and not secret.is_target:
            known = task.table, persons.rows, secret.index, self.values
            candidates = self.public.candidate_rows(*known)
        if self.goal is not None:
            self.uncounted = self._find_scales(fitted, candidates)
        self.shapes = None if shaped is None else shaped.shapes
        codes = secret.codes[self.targets]
        own = points[np.arange(len(codes)), codes]
        self.hypotheses = Hypotheses.near(own)
        # Differences between the parameters of true values and of all others, (n_directions, p).
        others = np.arange(points.shape[1]) != codes[:, None]
        self.directions = (points - own[:, None])[others]
        # Not known of labels, and of models without closed forms.
        self.unit_eta = np.full(len(persons), np.nan)
        if candidates:
            self._lose(unit_state(fitted, self.noise), candidates, persons)

    def _find_scales(self, fitted: Any, candidates: list[Any]) -> str:
        """Find the noise scale under every value of every target, or say why it is not found."""
        task, goal, persons = self.task, self.goal, self.task.attacked
        values: Any = self.values
        if not isinstance(goal, NoiseGoal):
            return CALIBRATED
        if task.fitted:
            return "the fits that are played have the noise scale of all records"
        if self.white_box._shaped is not None:
            return "the covariance of the noise follows the records as well"
        if task.refit_preprocessing or not self.public.has_closed_form:
            return "the preprocessing is trained anew with each value"
        if self.model.reweighting is not None:
            return "a reweighting is searched for anew with each value"
        known = self.model, goal, self.X, task.y, task.sample_weight, task.persons
        scale = PublishedScale.of(*known)
        if missing := scale.missing(len(persons) * len(values)):
            return missing
        if self.secret.is_target:
            classes = getattr(last_step(fitted), "classes_", None)
            candidates = values if classes is None else np.searchsorted(classes, values)
        self.scales = scale.with_values(persons, candidates)
        return ""

    def _study_number(self, fitted: Any) -> None:
        """Learn what a release tells of a number: about its true value, and a step off."""
        task, secret, truth, rows = self.task, self.secret, self.secrets, self.targets
        table, noise, white_box = task.table, self.noise, self.white_box
        (low, high), slope = (end[rows] for end in range_of_others(secret.column)), None
        self.uncounted = "" if self.goal is None else UNCOUNTED_NUMBERS
        weights = np.ones(len(task.y)) if task.sample_weight is None else task.sample_weight
        here = np.flatnonzero(weights)
        left = spread_left(take_rows(table, here), task.y[here] if secret.is_target else None)
        step = secret.column[here].std() * left[-1 if secret.is_target else secret.index]
        self.step = np.full(len(rows), step)
        ends = np.vstack([truth + np.array([[0.0], [-1.0], [1.0]]) * step, low])
        points, shaped = white_box._encode(self.public, table, task.y, secret, ends)
        # A flag of a few numbers may lie between the nodes of the white box, or beyond.
        self.moved = bool((points != points[:, :1]).any())
        if self.goal is None and shaped is not None:
            ends, shapes = (
                np.concatenate([each[:, [0, 1]], each[:, [0, 2]]])
                for each in (points, shaped.shapes)
            )
            self._pairs = UnequalPairs.of(ends, shapes, FALSE_ALARMS)
        elif self.goal is None:
            points = noise.whitened(points)
            away = np.linalg.norm(points[:, 1:3] - points[:, :1], axis=2)
            self.unit_distances = away.max(axis=1)
        if self.public.has_closed_form and not task.refit_preprocessing and not secret.is_target:
            place = (table, rows, secret.index, secret.column)
            slope = self.public.exact_slope(unit_state(fitted), *place)
        posterior = PosteriorMeanReconstruction._sharing(white_box, task.prior, table, task.y)
        self.posterior = posterior
        if not self.uncounted:
            self.prior_variance = posterior.prior_variance_
            self._numbers = NumberBounds.of(posterior)
        if task.drawn:
            self.prior_score = posterior.prior_variance_
            self.baseline = determination(posterior.prior_variance_, self.spread)
        nodes, shaped = white_box.encodings_, white_box._shaped
        if slope is None:
            slope = slope_at_truth(nodes, low, high, truth)
        self.unit_eta = np.sqrt((noise.whitened(slope) ** 2).sum(axis=1))
        if shaped is not None:
            change = slope_at_truth(shaped.shapes, low, high, truth)
            of_shape = slope, change, noise.matrix_root
            self.information = ShapedInformation.of_a_quantity(*of_shape)
            self.unit_eta = np.full(len(rows), np.nan)
        self.hypotheses = Hypotheses.near(*at_truth(nodes, low, high, truth))
        self.directions = nodes[:, -1] - nodes[:, 0]

    def _lose(self, state: FitState, candidates: list[Any], persons: Persons) -> None:
        """Set the Fisher information loss over the encoded columns of the attribute."""
        rows = take_rows(state.objective.X, persons.rows)
        tables = [plain_table(table) for table in candidates]
        columns = changed_columns(rows, tables)
        self.unit_eta = np.zeros(len(persons))
        if not len(columns):
            return
        sums = np.stack([np.ravel(table[:, columns].sum(axis=1)) for table in tables])
        one_hot = len(columns) > 1 and bool(np.allclose(sums, 1.0))
        block = Columns(columns, constrained=one_hot)
        batch = state.training.take(persons.rows)
        if state.noise.reads_data:
            terms = information_terms(batch, block, noise=fitted_noise(state))
            self.information = ShapedInformation(*terms)
            self.unit_eta = np.full(len(persons), np.nan)
        elif persons.is_single:
            self.unit_eta = leakage_model(state).record_loss(batch, block)
        else:
            self.unit_eta = person_losses(state, persons, [block])[:, 0]

    def made(self, name: str) -> Any:
        """Return an attack of ours; those that share the hypotheses are fitted already."""
        shared = {"white_box": self.white_box, "posterior_mean": self.posterior}
        return shared[name] if name in shared else super().made(name)

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, check the noise, and decide whose bounds are computed."""
        super().prepare(entropy)
        if self.estimates:
            return
        points, shapes = self.white_box.encodings_, self.shapes
        places = points
        if shapes is None:
            same = (points == points[:, :1]).all(axis=2, keepdims=True)
            places = self.noise.whitened(points)
            places = np.where(same, places[:, :1], places)
        if shapes is None and not self.uncounted:
            self.unit_distances = largest_distances(places)
            if self.scales is not None:
                # Rungs that differ are published; one that no fit has is none of the others.
                apart = (self.scales != self.scales[:, :1]).any(axis=1)
                self.unit_distances = np.where(apart, np.inf, self.unit_distances)
        elif shapes is not None and not self.uncounted:
            self._pairs = UnequalPairs.of(points, shapes, FALSE_ALARMS)
        if self.scales is not None:
            places, _ = in_one_channel(places, self.scales, self.noise_scales[-1])
        self._places = places

    def any_prior(self, noise: float) -> dict[str, Any] | None:
        """Columns that hold for every attacker; bounds where each value has noise of its own.

        Of a number its step, too.
        """
        columns, step = super().any_prior(noise), self.step
        if self._pairs is not None:
            found, n = self._pairs.any_prior(noise, FALSE_ALARMS), len(self.targets)
            # Of a number there are two pairs.
            columns = unequal_columns(*(each.reshape(-1, n).max(axis=0) for each in found))
        return columns if columns is None or step is None else columns | {"step": step}

    def draw(self, targets: IntArray, generator: np.random.Generator) -> tuple[int, Array, Array]:
        """Draw secrets of targets: their column, positions among the values or numbers, values."""
        if self._numbers is not None:
            numbers = self._numbers.encodings.prior.take(targets).draw(1, generator)[0]
            return self.secret.index, numbers, numbers
        secrets = draw_secrets(self.prior[targets], 1, generator)[0]
        return self.secret.index, secrets, self.values[secrets]

    def games(
        self, scale: float, noise: FloatArray | FittedReleases, seed: np.random.SeedSequence
    ) -> Mapping[str, Cell]:
        """Return the cells of one noise level: all attacks, and bounds on guesses."""
        level = Level(noise, scale, self.n_releases, seed, self.rare)
        if self.estimates:
            return self._estimations(level)
        points = self.white_box.encodings_
        cells: dict[str, Cell] = {}
        if not self.uncounted:
            known = (self._places, self.prior, scale, self.bounds, self.shapes)
            gain = self.exposures(scale) if self._swift else None
            cells["bounds"] = (success_bounds, (*known, gain))
        if not self.drawn:
            cells |= self._each(play_actual, self.noiseless, self.secrets, level)
            return cells | self._seeing(play_actual, level)
        played: Any = noise
        if self.scales is not None and isinstance(noise, np.ndarray):
            played = ShapedNoise.of_scales(self.scales, scale, noise)
        if self.shapes is not None and not isinstance(noise, FittedReleases):
            played = ShapedNoise.of(self.shapes, self.noise.matrix_root, noise)
        game = (points, self.values, self.prior, replace(level, noise=played))
        cells |= self._each(play_drawn, *game)
        own = self.noiseless, self.secrets, replace(level, noise=self._noise[scale])
        actual = self._each(play_actual, *own)
        cells |= {name: actual[name] for name in self.stacked}
        return cells | self._seeing(play_drawn, level)

    def _seeing(self, play: Callable[..., Outcome], level: Level) -> dict[str, Cell]:
        """Return the cell of the white box where it sees a noise scale that tells of values."""
        points = self.white_box.encodings_
        noise, scale = level.noise, level.noise_scale
        names = [name for name, attack in self.attacks.items() if attack is self.white_box]
        if self.scales is None or not names or not isinstance(noise, np.ndarray):
            return {}
        seen, _ = in_one_channel(points, self.scales, scale)
        wide = block_diag(np.diag(noise) if noise.ndim == 1 else noise, scale)
        shape = self.noise
        if shape.matrix is not None and not shape.is_identity:
            shape = NoiseShape.of(block_diag(shape.matrix, 1.0), len(wide))
        attack = type(self.white_box)._of_encodings(seen, self.values, self.prior, shape)
        attack._kind = self.white_box._kind
        own: tuple[Any, ...] = np.append(self.noiseless, 0.0), self.secrets
        if play is play_drawn:
            own = seen, self.values, self.prior
        return dict.fromkeys(names, (play, (attack, *own, replace(level, noise=wide))))

    def _each(self, play: Callable[..., Outcome], *known: Any) -> dict[str, Cell]:
        """Return a cell for each attack, which `play` takes first."""
        return {name: (play, (attack, *known)) for name, attack in self.attacks.items()}

    def _estimations(self, level: Level) -> Mapping[str, Cell]:
        """Return the cells of one noise level about a quantity."""
        numbers, seed, scale = self._numbers, level.seed, level.noise_scale
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0))
        cells: dict[str, Cell] = {}
        if numbers is not None:
            cells["bounds"] = number_bounds, (numbers, scale, own)
        if self.drawn and numbers is not None:
            raw = replace(numbers.encodings, points=self.white_box.encodings_)
            cells |= self._each(play_drawn_errors, raw, level)
            level = replace(level, noise=self._noise[scale])
        truth = self.secrets.reshape(-1, 1)
        with np.errstate(divide="ignore", over="ignore"):
            bound = 1.0 / self.eta(scale) ** 2  # on the errors of unbiased attacks
        known = (self.noiseless, truth, bound, self.spread)
        actual = self._each(play_errors, *known, level)
        stacked = self.stacked if self.drawn else actual
        return cells | {name: actual[name] for name in stacked}


OUTSIDE_ATTACKS = ("prior", "imputation", "white_box")
# Entries of all that is held of the records under attack: 2 GB.
_MOST_ELEMENTS = 1 << 28
# Records that are attacked unasked, and operations that their encodings may take then.
_MOST, _FEWEST, _WORK = 10_000, 100, 2e11
# Records in memory, from which imputation learns and on which utility is measured.
_LEARNT = 20_000
# Streams of the samples, beside that of bounds.
_TARGETS, _OTHERS = 1, 2


@dataclass(frozen=True, kw_only=True)
class Encoder(PublicModel):
    """A model that sees some columns of what its preprocessing makes of raw records."""

    names: Array | None  # of the columns of the model
    classes: Array | None  # of its labels; None where targets are numbers

    def transform(self, table: Any) -> FloatArray:
        """Raw records as the model sees them, (n, d)."""
        found = super().transform(table)
        if isinstance(found, pd.DataFrame) and self.names is not None:
            found = found[list(self.names)]
        return dense_table(plain_table(found)).astype(np.float64, copy=False)

    def candidates(self, raw: Any, index: int, values: Array) -> list[FloatArray]:
        """Raw records with each candidate value as the model sees them, (n, d) each."""
        kind = raw.dtypes.iloc[index] if isinstance(raw, pd.DataFrame) else None
        if isinstance(kind, pd.CategoricalDtype) and not set(values) <= set(kind.categories):
            raise ValueError(
                f"The categories of the column {raw.columns[index]!r} differ between the blocks of "
                f"the table: some have {kind.categories.tolist()[:10]}, and all records "
                f"{values.tolist()[:10]}. Call `.cat.as_known()` on the column of the frame first."
            )
        return self.candidate_rows(raw, np.arange(len(raw)), index, values)

    def batch(self, rows: RawRows) -> RecordBatch:
        """Raw records and their targets as the fit has them."""
        y = rows.y if self.classes is None else label_positions(rows.y, self.classes)
        ones = np.ones(len(y))
        weights = ones if rows.sample_weight is None else rows.sample_weight
        return RecordBatch(self.transform(rows.table), np.asarray(y, dtype=float), weights, ones)


def check_outside(task: Task) -> None:
    """Refuse what takes all records in memory."""
    model = last_step(task.estimator)
    if not hasattr(model, "_confidential_state"):
        raise AttackNotApplicableError(
            f"{type(model).__name__} is trained in memory; records outside of it are audited "
            "for the private estimators of skleak.linear_model, at the end of a pipeline too. "
            "Pass one of these, or a random sample of some thousands of records as a DataFrame."
        )
    if getattr(model, "reweighting", None) is not None:
        raise AttackNotApplicableError(
            "Under a reweighting every candidate value takes passes over all records. Audit a "
            "random sample of some thousands of records as a DataFrame."
        )
    shape = getattr(model, "noise_covariance", "isotropic")
    if isinstance(shape, str) and shape != "isotropic":
        raise AttackNotApplicableError(
            f"Under `noise_covariance={shape!r}` each candidate value has a covariance of its "
            "own, which is audited in memory only. Audit a random sample of some thousands of "
            "records as a DataFrame, or choose isotropic noise or a matrix."
        )
    if task.releases == "fitted":
        raise AttackNotApplicableError(
            "`releases='fitted'` trains anew for each game, on records in memory. Pass "
            "`releases='auto'`, or audit a random sample of some thousands of records as a "
            "DataFrame."
        )
    if not task.drawn:
        raise AttackNotApplicableError(
            "`secrets='actual'` attacks all records as they are at once; records outside "
            "memory are attacked one at a time. Pass `secrets='drawn'`, or audit a random "
            "sample of some thousands of records as a DataFrame."
        )
    if task.refit_preprocessing:
        raise AttackNotApplicableError(
            "`refit_preprocessing=True` trains the pipeline anew for each record, which takes "
            "all of them in memory. Pass False, with transformers that were fitted before."
        )


class OutsideGame(AttributeGame):
    """Guess a column of records that lie outside memory, from releases of one model."""

    public: Encoder
    sampled: bool  # whether the targets are a random sample
    _rows: RawRows  # records in memory
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
        super().__init__(replace(task, releases="simulated"), entropy)

    def _study(self) -> None:
        """Fit the model without noise, by passes over all records, and study who is attacked.

        What is known of each of these is held in memory, as of records in memory.
        """
        task, outside = self.task, self.task.outside
        assert outside is not None
        X, y, weights = outside.given
        self.model = own = last_step(task.estimator)
        check_weights_known(own, weighted=weights is not None)
        pipeline = noiseless(task.estimator)
        fitted = pipeline.fit(X, y, **weight_argument(pipeline, weights))
        steps = fitted[:-1] if isinstance(fitted, Pipeline) and len(fitted.steps) > 1 else None
        self._fitted_model = model = last_step(fitted)
        self.noiseless = coefficients = model_parameters(model)
        covariance = getattr(own, "noise_covariance", "isotropic")
        self.noise = NoiseShape.of(covariance, len(coefficients))
        # In closed form the hypothesis of every record at its true value is the fit itself.
        self.hypotheses = Hypotheses.near(coefficients[None])
        # Whoever is attacked needs no labels of rows.
        state = replace(unit_state(model, self.noise), row_labels=None)
        self.targets = self._whom(outside, state)
        self.sampled = task.records is None and len(self.targets) < len(outside)
        seen = (getattr(model, each, None) for each in ("feature_names_in_", "classes_"))
        names, classes = seen
        public = {"preprocessing": steps, "template": own, "noise_scale": np.nan}
        self.public = Encoder(**public, names=names, classes=classes)
        objective = state.objective
        self.X, self.weights = objective.X, objective.sample_weight
        self.y = objective.y.astype(int) if is_classifier(model) else objective.y
        self.goal = goal_of(task.estimator, task.noise_scales)
        self.uncounted = "" if self.goal is None else UNCOUNTED_OUTSIDE
        self._know_outside(outside, state)

    def _whom(self, outside: Outside, state: FitState) -> IntArray:
        """Positions of who is attacked: of many records a random sample, where none are named."""
        n, n_values = len(outside), len(outside.values)
        # Raw and encoded, each with every value; and parameters that follow, in noise units too.
        each = outside.n_columns + (n_values + 1) * state.n_features
        each += 2 * n_values * len(self.noiseless)
        if self.task.records is not None:
            targets = resolve_records(self.task.records, n)
        else:
            work = operations_each(state, _MOST * n_values) * n_values
            most = min(int(np.clip(_WORK / work, _FEWEST, _MOST)), _MOST_ELEMENTS // each)
            targets = self._sample(n, most, _TARGETS)
        if len(targets) * each > _MOST_ELEMENTS:
            raise AttackNotApplicableError(
                f"{len(targets):,} records, and the parameters under every value of each, take "
                f"more than {_MOST_ELEMENTS >> 27} GB. Name at most {_MOST_ELEMENTS // each:,} "
                "`records`."
            )
        return targets

    def _know_outside(self, outside: Outside, state: FitState) -> None:
        """Learn what is known of the targets, and the parameters without noise under each value."""
        task, targets, index, values = self.task, self.targets, outside.index, outside.values
        learnt = self._sample(len(outside), _LEARNT, _OTHERS)
        self._rows = rows = outside.at(learnt)
        own = outside.at(targets)
        self.task = replace(task, table=rows.table, y=rows.y)
        taught, codes = (codes_of(some.table, index, values) for some in (rows, own))
        secret = Secret(index, values[taught], values, taught)
        self.related = related_columns(rows.table, rows.y, secret)
        others = without_attribute(rows.table, index), rows.y, taught, len(values), learnt
        guesser = CrossFitted.of(None, *others)
        guesses = guesser.probabilities(without_attribute(own.table, index), own.y, targets)
        self.guesser = ImputationAttack._of_prior(values, guesses)
        self.secret, everyone = Secret(index, values[codes], values, codes), np.arange(len(codes))
        self.secrets = self.secret.column
        if isinstance(task.prior, str) and task.prior in ("marginal", "conditional"):
            marginal = marginal_prior(codes, len(values), outside.counts)
            prior = marginal if task.prior == "marginal" else guesses
        else:
            prior = Population(None, None, self.secret, everyone).prior(task.prior)
        self._know_values(values, codes, prior, guesses.argmax(axis=1))
        if self.sampled:
            self.rare = None
        tables, persons = self.public.candidates(own.table, index, values), Persons.single(everyone)
        part = partial_state(state, targets, self.public.batch(own))
        self._lose(part, tables, persons)
        points = closed_form_encodings(part, persons, tables)
        self.white_box = WhiteBoxAttributeInference._of_encodings(
            points, values, self.prior, self.noise
        )

    def _sample(self, n: int, most: int, stream: int) -> IntArray:
        """Positions of all records, or of a random sample, ascending."""
        if n <= most:
            return np.arange(n)
        seed = np.random.SeedSequence(self._entropy, spawn_key=(0, SAMPLE, stream))
        return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))

    def _offered(self, task: Task, model: Any) -> tuple[list[str], list[str]]:
        self._classifies = is_classifier(model)
        return [*OUTSIDE_ATTACKS], [*OUTSIDE_ATTACKS]

    def made(self, name: str) -> Any:
        if name == "prior":
            return PriorAttack._of_prior(self.values, self.prior)
        return super().made(name)

    def _measure(self, where: tuple[Any, Array] | None) -> None:
        rows = self._rows
        where = where or (self.public.transform(rows.table), rows.y)
        shell = Shell.of(self._fitted_model)
        self.released, self.scored = (shell, self.noiseless, where), (shell.model, rows.y, where[1])

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Outcomes with what tells a sample from all records."""
        found, n_games = dict(outcomes), self.n_releases
        for scale in self.noise_scales if self.sampled else ():
            for name in {*self.attacks, "bounds"}:
                key = cell_key(scale, name)
                if key in found:
                    own = {"n_all": np.array(self.task.n_records)}
                    if name != "bounds":
                        own = {"by_record": found[key]["counts"] / n_games}
                    found[key] = {**found[key], **own}
        return found

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        facts = super().facts(outcomes) | {"sampled": self.sampled}
        if self.task.X_test is None and len(self.task.y) < self.task.n_records:
            facts["utility_data"] = "a random sample of the training records"
        return facts
