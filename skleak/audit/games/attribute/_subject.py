"""A column that is secret: its values, what is known of them, and what a release tells."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    PublicModel,
    changed_columns,
    check_weights_known,
    closed_form_encodings,
    dense_table,
    last_step,
    model_parameters,
    noiseless,
    plain_table,
    weight_argument,
)
from skleak.adversary.knowledge import (
    MAX_VALUES,
    CrossFitted,
    Population,
    Secret,
    column_names,
    marginal_prior,
    of_first_rows,
    range_of_others,
    raw_column,
    read_secret,
    resolve_records,
    spread_left,
    take_rows,
    without_attribute,
)
from skleak.adversary.numbers import at_truth, slope_at_truth
from skleak.attacks import (
    ImputationAttack,
    PosteriorMeanReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit.games._game import FALSE_ALARMS, Outside, Task, codes_of
from skleak.audit.games._levels import (
    CALIBRATED,
    SAMPLE,
    UNCOUNTED_NUMBERS,
    UNCOUNTED_OUTSIDE,
    PublishedScale,
    goal_of,
)
from skleak.audit.games._secret import Known, SecretSubject, determination, unit_state
from skleak.audit.noise._mechanism import Hypotheses, UnequalPairs, audited_shape, shape_of_fit
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import ShapedInformation, leakage_model, person_losses
from skleak.influence.noise import fitted_noise, information_terms
from skleak.influence.refit import operations_each
from skleak.influence.state import FitState, NoiseShape, RecordBatch, partial_state
from skleak.mechanisms import NoiseGoal
from skleak.utils._predictions import label_positions
from skleak.utils._records import Persons
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.sources import RawRows

# Share of what a guess gets wrong that a column must get right to (nearly) determine another.
_NEARLY = 0.95
_TARGET = "(target)"


def related_columns(table: Any, y: Array, secret: Secret) -> dict[str, dict[str, float]]:
    """Find the columns that determine a secret by themselves, and those that it determines.

    Every record is predicted from the others, by one column at a time: by those of the same value
    where there are any, else by its neighbors along a column of numbers.

    Shapes: ``table`` (n, n_columns); ``y`` (n,), the target, counts as a column; returns by
    "determined_by" and "determines" the share of what a guess gets wrong that is got right.
    """
    names = column_names(table)
    others = {
        str(j if names is None else names[j]): raw_column(table, j)
        for j in range(table.shape[1])
        if j != secret.index
    }
    if not secret.is_target:
        others[_TARGET] = np.asarray(y)
    found: dict[str, dict[str, float]] = {"determined_by": {}, "determines": {}}
    for name, column in others.items():
        for key, (known, wanted) in {
            "determined_by": (column, secret.column),
            "determines": (secret.column, column),
        }.items():
            score = predicted_share(
                known, wanted, labels=key == "determined_by" and not secret.numeric
            )
            if score >= _NEARLY:
                found[key][name] = score
    return found


def predicted_share(known: Array, wanted: Array, *, labels: bool = False) -> float:
    """Share of what a guess gets wrong of a column that another gets right, each record left out.

    Shapes: ``known``, ``wanted`` (n,); ``labels`` takes numbers for names; returns: a gain over the
    commonest value, or a coefficient of determination; NaN for a column of one value, and for more
    names than a secret may have.
    """
    codes, numbers, classes = _codes(known), _numbers(known), _codes(wanted)
    values = None if labels else _numbers(wanted)
    few = 0 < 2 * codes.max() < len(codes)
    if np.array_equal(codes, classes) and (few or np.array_equal(known, wanted)):
        return 1.0  # a copy, or few values by other names: of a single carrier nobody else tells
    if values is None or len(np.unique(values[~np.isnan(values)])) <= 2:
        shares = np.bincount(classes) / len(classes)
        if not 2 <= len(shares) <= MAX_VALUES:
            return float("nan")
        guesses = _mean_of_others(codes, numbers, np.eye(len(shares))[classes]).argmax(axis=1)
        return float(1.0 - np.mean(guesses != classes) / (1.0 - shares.max()))
    some = ~np.isnan(values)
    codes, values, numbers = codes[some], values[some], None if numbers is None else numbers[some]
    if not np.ptp(values) > 0.0:
        return float("nan")
    errors = (_mean_of_others(codes, numbers, values[:, None])[:, 0] - values) ** 2
    return float(1.0 - errors.sum() / np.sum((values - values.mean()) ** 2))


def _codes(column: Array) -> IntArray:
    codes, _ = pd.factorize(pd.Series(column), use_na_sentinel=False)
    return np.asarray(codes, dtype=np.intp)


def _numbers(column: Array) -> FloatArray | None:
    """Return the column as numbers, NaN where they are missing; None where it has names."""
    series = pd.Series(column).infer_objects()
    if series.dtype.kind == "M":
        series = (series - series.min()) / pd.Timedelta(1, "D")
    if not pd.api.types.is_numeric_dtype(series) or pd.api.types.is_bool_dtype(series):
        return None
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _mean_of_others(codes: IntArray, numbers: FloatArray | None, values: FloatArray) -> FloatArray:
    """Mean of the others with the same value; alone, on the line between its two neighbors.

    Shapes: ``codes``, ``numbers`` (n,); ``values`` (n, k); returns (n, k). Without a number whoever
    is alone gets the mean of all others.
    """
    n, sizes = len(codes), np.bincount(codes)[codes][:, None]
    groups = sparse.csr_array((np.ones(n), (codes, np.arange(n))))
    mean = ((groups @ values)[codes] - values) / np.maximum(sizes - 1, 1)
    between = (values.sum(axis=0) - values) / (n - 1)
    if numbers is not None and np.sum(~np.isnan(numbers)) > 2:
        order = np.argsort(numbers, kind="stable")[: np.sum(~np.isnan(numbers))]
        # At an end both neighbors are the same record.
        low, high = np.r_[order[1], order[:-1]], np.r_[order[1:], order[-2]]
        width, beyond = numbers[high] - numbers[low], numbers[order] - numbers[low]
        share = np.divide(beyond, width, np.full(len(order), 0.5), where=width > 0.0)[:, None]
        between[order] = (1.0 - share) * values[low] + share * values[high]
    return np.where(sizes > 1, mean, between)


# Carriers of a value that is named in results, at least.
_CARRIERS = 3


@dataclass(frozen=True, kw_only=True)
class KnownColumn(Known):
    """A secret column, and what is known of it whatever is released. Confidential."""

    secret: Secret
    values: Array  # candidate values, (n_values,); empty for a quantity
    prior: FloatArray  # of every target, (n_targets, n_values)
    guesser: ImputationAttack  # fitted


def known_column(task: Task) -> KnownColumn:
    """Read the column of a task, and measure what guessing without the model gets right."""
    attribute, table, y, records = task.attribute, task.table, task.y, task.records
    secret = read_secret(table, y, attribute, task.values)
    known_y = None if secret.is_target else y
    if (persons := task.persons) is not None:
        # All is known from first rows: what is known of one row would tell the value of another.
        everyone, known_y, _ = of_first_rows(table, known_y, secret, persons)
        own = {"table": everyone, "y": y[persons.first], "values": secret.values}
        which = persons.having(task.rows)
        known = known_column(replace(task, **own, records=which, persons=None))
        return replace(known, secret=secret, targets=persons.first[which])
    rows = task.rows
    truth, codes = secret.column[rows], secret.codes
    guesser = ImputationAttack(attribute, values=task.values, records=records).fit(table, y)
    found: dict[str, Any]
    shared: dict[str, Any]
    if secret.values is None:
        column = secret.column
        mean = PriorAttack(attribute, prior=task.prior, records=records).fit(table, y).predict()
        spread, errors = float(column.var()), (mean - truth) ** 2
        imputed = determination((guesser.predict() - truth) ** 2, spread)
        found = {
            "values": column[:0],
            "prior": np.empty((len(rows), 0)),
            "prior_score": errors,
            "baseline": determination(errors, spread),
            "imputation": imputed,
            "imputed": imputed,
            "spread": spread,
        }
    else:
        prior = Population(table, known_y, secret, rows).prior(task.prior)
        guess = guesser.prior_.argmax(axis=1)
        found = known_values(task, secret.values, codes[rows], prior, guess)
    shared = {"secret": secret, "targets": rows, "secrets": truth, "guesser": guesser}
    return KnownColumn(**shared, **found, related=related_columns(table, y, secret))


def known_values(
    task: Task, values: Array, codes: IntArray, prior: FloatArray, guess: IntArray
) -> dict[str, Any]:
    """Return what is known of guesses of a few values.

    Shapes: ``values`` (n_values,); ``codes``, ``guess`` of imputation (n_targets,); ``prior``
    (n_targets, n_values).
    """
    top, imputed = prior.max(axis=1), float(np.mean(guess == codes))
    return {
        "values": values,
        "prior": prior,
        "prior_score": top,
        "baseline": float(top.mean()),
        # A secret that is drawn is guessed as often as its prior says.
        "imputation": float(prior[np.arange(len(codes)), guess].mean()) if task.drawn else imputed,
        "imputed": imputed,
        "rare": rare_value(task.rare_value, values, np.bincount(codes, minlength=len(values))),
    }


def rare_value(named: Any, candidates: Array, counts: Array) -> Any:
    """Return the value that is named, or else that of fewest targets, three at least, if any.

    Shapes: ``candidates``, ``counts`` of the targets (n_values,).
    """
    values = candidates.tolist()
    if named is not None:
        if named not in values:
            raise ValueError(
                f"`rare_value` must be one of the values of the attribute, {values[:10]}; got "
                f"{named!r}."
            )
        return named
    enough = np.flatnonzero(counts >= _CARRIERS)
    return values[enough[counts[enough].argmin()]] if len(enough) else None


@dataclass(frozen=True, kw_only=True)
class AttributeSubject(SecretSubject, KnownColumn):
    """A secret column. Confidential."""

    # Fitted, with the parameters without noise under every value.
    white_box: WhiteBoxAttributeInference
    # Covariance of unit noise under every value, (n_targets, n_values, p, p), where it follows the
    # data: those of the white box, which holds their inverse roots too, as much memory again.
    shapes: FloatArray | None = None
    information: ShapedInformation | None = None  # where the covariance follows the data
    posterior: PosteriorMeanReconstruction | None = None  # of a quantity, fitted
    step: FloatArray | None = (
        None  # of a quantity: its deviation given the other columns, (n_targets,)
    )
    moved: bool = False  # whether the model is another one with a quantity a step off
    # From a quantity to the further of one a step lower and one a step higher, at unit noise,
    # (n_targets,); where each has noise of its own the pairs, (2 n_targets,).
    unit_distances: FloatArray | None = None
    pairs: UnequalPairs | None = None
    # Noise scale under every value, (n_targets, n_values), where it follows the records.
    scales: FloatArray | None = None

    def eta(self, noise_scale: float) -> FloatArray:
        """Fisher information loss at a noise scale, of shape (n_targets,); NaN if not known."""
        if self.information is not None:
            return self.information.loss(noise_scale)
        return super().eta(noise_scale)

    def mse(self, noise_scale: float) -> FloatArray:
        """Lower bound on the mean squared error of unbiased attacks on a quantity, (n_targets,)."""
        with np.errstate(divide="ignore", over="ignore"):
            return 1.0 / self.eta(noise_scale) ** 2


def study(task: Task) -> AttributeSubject:
    """Fit the model without noise, and learn all that attacks are measured by."""
    table, known = task.table, known_column(task)
    fitted, trained = SecretSubject.trained(task)
    public = trained["public"]
    noise = audited_shape(public, fitted, task.attribute)
    white_box = WhiteBoxAttributeInference(
        task.estimator,
        task.attribute,
        values=task.values,
        prior="uniform" if known.secret.numeric else known.prior,
        records=task.records,
        refit_preprocessing=task.refit_preprocessing,
        n_jobs=task.n_jobs,
    ).fit(table, task.y, sample_weight=task.sample_weight, persons=task.persons)
    if white_box._shaped is not None:
        noise = shape_of_fit(noise, fitted)
    shared = {**vars(known), **trained, "noise": noise, "white_box": white_box}
    shared["noiseless"] = model_parameters(fitted)
    rows, secret = known.targets, known.secret
    if secret.numeric:
        return _quantity(task, fitted, known, shared)
    everyone, codes, persons = np.arange(len(rows)), secret.codes[rows], task.attacked
    candidates = []
    if public.has_closed_form and not secret.is_target:
        candidates = public.candidate_rows(table, persons.rows, secret.index, known.values)
    if shared["goal"] is not None:
        shared |= _scales(task, fitted, shared, candidates)
    points = white_box.encodings_
    own = points[everyone, codes]
    others = np.arange(points.shape[1]) != codes[:, None]
    return AttributeSubject(
        **shared,
        **columns_loss(unit_state(fitted, noise) if candidates else None, candidates, persons),
        hypotheses=Hypotheses.near(own),
        # Differences between the parameters of true values and of all others, (n_directions, p).
        directions=(points - own[:, None])[others],
        shapes=None if white_box._shaped is None else white_box._shaped.shapes,
    )


def _scales(
    task: Task, fitted: Any, shared: Mapping[str, Any], candidates: list[Any]
) -> dict[str, Any]:
    """Noise scale under every value of every target, or why it is not found."""
    model, goal = shared["model"], shared["goal"]
    if not isinstance(goal, NoiseGoal):
        return {"uncounted": CALIBRATED}
    if task.fitted:
        return {"uncounted": "the fits that are played have the noise scale of all records"}
    if shared["white_box"]._shaped is not None:
        return {"uncounted": "the covariance of the noise follows the records as well"}
    if task.refit_preprocessing or not shared["public"].has_closed_form:
        return {"uncounted": "the preprocessing is trained anew with each value"}
    if model.reweighting is not None:
        return {"uncounted": "a reweighting is searched for anew with each value"}
    scale = PublishedScale.of(model, goal, shared["X"], task.y, task.sample_weight, task.persons)
    persons, values = task.attacked, shared["values"]
    missing = scale.missing(len(persons) * len(values))
    if missing:
        return {"uncounted": missing}
    if shared["secret"].is_target:
        classes = getattr(last_step(fitted), "classes_", None)
        numbers = values if classes is None else np.searchsorted(classes, values)
        return {"scales": scale.with_targets(persons, numbers)}
    return {"scales": scale.with_rows(persons, candidates)}


def _quantity(
    task: Task, fitted: Any, known: KnownColumn, shared: dict[str, Any]
) -> AttributeSubject:
    """Learn what a release tells of a number: about its true value, and a step off."""
    table, rows, secret, goal = task.table, known.targets, known.secret, shared["goal"]
    public = shared["public"]
    white_box, noise, truth = shared["white_box"], shared["noise"], known.secrets
    slope, (low, high) = None, (end[rows] for end in range_of_others(secret.column))
    shared["uncounted"] = "" if goal is None else UNCOUNTED_NUMBERS
    here = np.flatnonzero(
        np.ones(len(task.y)) if task.sample_weight is None else task.sample_weight
    )
    left = spread_left(take_rows(table, here), task.y[here] if secret.is_target else None)
    step = secret.column[here].std() * left[-1 if secret.is_target else secret.index]
    shared["step"] = np.full(len(rows), step)
    ends = known.secrets + np.array([[0.0], [-1.0], [1.0]]) * step
    ends = np.vstack([ends, low])
    points, shaped = white_box._encode(public, table, task.y, secret, ends)
    # A flag of a few numbers may lie between the nodes of the white box, or beyond.
    shared["moved"] = bool((points != points[:, :1]).any())
    if goal is None and shaped is not None:
        ends, shapes = (
            np.concatenate([each[:, [0, 1]], each[:, [0, 2]]]) for each in (points, shaped.shapes)
        )
        shared["pairs"] = UnequalPairs.of(ends, shapes, FALSE_ALARMS)
    elif goal is None:
        points = noise.whitened(points)
        away = np.linalg.norm(points[:, 1:3] - points[:, :1], axis=2)
        shared["unit_distances"] = away.max(axis=1)
    if public.has_closed_form and not task.refit_preprocessing and not secret.is_target:
        place = (table, rows, secret.index, secret.column)
        slope = public.exact_slope(unit_state(fitted), *place)
    posterior = PosteriorMeanReconstruction._sharing(white_box, task.prior, table, task.y)
    shared["posterior"] = posterior
    if not shared["uncounted"]:
        shared["prior_variance"] = posterior.prior_variance_
    if task.drawn:
        shared["prior_score"] = posterior.prior_variance_
        shared["baseline"] = determination(posterior.prior_variance_, known.spread)
    nodes, shaped = white_box.encodings_, white_box._shaped
    if slope is None:
        slope = slope_at_truth(nodes, low, high, truth)
    unit_eta = np.sqrt((noise.whitened(slope) ** 2).sum(axis=1))
    information = None
    if shaped is not None:
        change = slope_at_truth(shaped.shapes, low, high, truth)
        information = ShapedInformation.of_a_quantity(slope, change, noise.matrix_root)
        unit_eta = np.full(len(rows), np.nan)
    return AttributeSubject(
        **shared,
        hypotheses=Hypotheses.near(*at_truth(nodes, low, high, truth)),
        directions=nodes[:, -1] - nodes[:, 0],
        unit_eta=unit_eta,
        information=information,
    )


def columns_loss(state: FitState | None, candidates: list[Any], persons: Persons) -> dict[str, Any]:
    """Fisher information loss of a subject, over the encoded columns of an attribute.

    Not known where there are no candidates: of labels, and of models without closed forms.
    """
    not_known, targets = np.full(len(persons), np.nan), persons.rows
    if state is None:
        return {"unit_eta": not_known}
    rows = take_rows(state.objective.X, targets)
    tables = [plain_table(table) for table in candidates]
    columns = changed_columns(rows, tables)
    if not len(columns):
        return {"unit_eta": np.zeros(len(persons))}
    sums = np.stack([np.ravel(table[:, columns].sum(axis=1)) for table in tables])
    one_hot = len(columns) > 1 and bool(np.allclose(sums, 1.0))
    block = Columns(columns, constrained=one_hot)
    batch = state.training.take(targets)
    if state.noise.reads_data:
        terms = information_terms(batch, block, noise=fitted_noise(state))
        return {"unit_eta": not_known, "information": ShapedInformation(*terms)}
    if not persons.is_single:
        return {"unit_eta": person_losses(state, persons, [block])[:, 0]}
    return {"unit_eta": leakage_model(state).record_loss(batch, block)}


OUTSIDE_ATTACKS = ("prior", "imputation", "white_box")
# Entries of all encodings: 2 GB.
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


@dataclass(frozen=True, kw_only=True)
class OutsideSubject(AttributeSubject):
    """A secret column of records outside memory. Confidential."""

    public: Encoder
    fitted: Any  # the model without noise
    rows: RawRows  # records in memory
    sampled: bool  # whether the targets are a random sample


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


def study_outside(task: Task, entropy: list[int]) -> OutsideSubject:
    """Fit the model without noise, by passes over all records, and study who is attacked.

    What is known of each of these is held in memory, as of records in memory.
    """
    outside = task.outside
    assert outside is not None
    X, y, weights = outside.given
    own = last_step(task.estimator)
    check_weights_known(own, weighted=weights is not None)
    pipeline = noiseless(task.estimator)
    fitted = pipeline.fit(X, y, **weight_argument(pipeline, weights))
    steps = fitted[:-1] if isinstance(fitted, Pipeline) and len(fitted.steps) > 1 else None
    model = last_step(fitted)
    coefficients = model_parameters(model)
    noise = NoiseShape.of(getattr(own, "noise_covariance", "isotropic"), len(coefficients))
    # Whoever is attacked needs no labels of rows.
    state = replace(unit_state(model, noise), row_labels=None)
    n, values = len(outside), outside.values
    each = len(values) * len(coefficients)
    if task.records is not None:
        targets = resolve_records(task.records, n)
    else:
        work = operations_each(state, _MOST * len(values)) * len(values)
        most = min(int(np.clip(_WORK / work, _FEWEST, _MOST)), _MOST_ELEMENTS // each)
        targets = _sample(n, most, entropy, _TARGETS)
    if len(targets) * each > _MOST_ELEMENTS:
        raise AttackNotApplicableError(
            f"The parameters under every value of {len(targets):,} records take more than "
            f"{_MOST_ELEMENTS >> 27} GB. Name at most {_MOST_ELEMENTS // each:,} `records`."
        )
    sampled = task.records is None and len(targets) < n
    names, classes = (getattr(model, each, None) for each in ("feature_names_in_", "classes_"))
    public = {"preprocessing": steps, "template": own, "noise_scale": np.nan}
    encoder = Encoder(**public, names=names, classes=classes)
    learnt = _sample(n, _LEARNT, entropy, _OTHERS)
    rows = outside.records.at(learnt)
    known = _known_outside(task, outside, encoder, state, targets, learnt, rows)
    if sampled:
        known["rare"] = None
    objective, goal = state.objective, goal_of(task.estimator, task.noise_scales)
    return OutsideSubject(
        model=own,
        X=objective.X,
        y=objective.y.astype(int) if is_classifier(model) else objective.y,
        weights=objective.sample_weight,
        noiseless=coefficients,
        noise=noise,
        # In closed form the hypothesis of every record at its true value is the fit itself.
        hypotheses=Hypotheses.near(coefficients[None]),
        public=encoder,
        targets=targets,
        white_box=WhiteBoxAttributeInference._of_encodings(
            known.pop("encodings"), values, known["prior"], noise
        ),
        **known,
        goal=goal,
        uncounted="" if goal is None else UNCOUNTED_OUTSIDE,
        fitted=model,
        rows=rows,
        sampled=sampled,
    )


def _known_outside(
    task: Task,
    outside: Outside,
    encoder: Encoder,
    state: FitState,
    targets: IntArray,
    learnt: IntArray,
    rows: RawRows,
) -> dict[str, Any]:
    """Return what is known of the targets, and the parameters without noise under every value."""
    index, values, own = outside.index, outside.values, outside.records.at(targets)
    taught, codes = (codes_of(some.table, index, values) for some in (rows, own))
    related = related_columns(rows.table, rows.y, Secret(index, values[taught], values, taught))
    others = without_attribute(rows.table, index), rows.y, taught, len(values), learnt
    guesser = CrossFitted.of(None, *others)
    guesses = guesser.probabilities(without_attribute(own.table, index), own.y, targets)
    tables, everyone = encoder.candidates(own.table, index, values), np.arange(len(targets))
    part, persons = partial_state(state, targets, encoder.batch(own)), Persons.single(everyone)
    secret = Secret(index, values[codes], values, codes)
    if isinstance(task.prior, str) and task.prior in ("marginal", "conditional"):
        marginal = marginal_prior(codes, len(values), outside.counts)
        prior = marginal if task.prior == "marginal" else guesses
    else:
        prior = Population(None, None, secret, everyone).prior(task.prior)
    return {
        **known_values(task, values, codes, prior, guesses.argmax(axis=1)),
        **columns_loss(part, tables, persons),
        "secret": secret,
        "secrets": secret.column,
        "guesser": ImputationAttack._of_prior(values, guesses),
        "related": related,
        "encodings": closed_form_encodings(part, persons, tables),
    }


def _sample(n: int, most: int, entropy: list[int], stream: int) -> IntArray:
    """Positions of all records, or of a random sample, ascending."""
    if n <= most:
        return np.arange(n)
    seed = np.random.SeedSequence(entropy, spawn_key=(0, SAMPLE, stream))
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
