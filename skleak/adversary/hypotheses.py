"""What a release would be under each hypothesis, and releases held against them."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, effective_n_jobs
from joblib import hash as joblib_hash
from scipy import sparse, stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances_argmin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skleak.adversary.knowledge import TARGET_INDEX, evenly, raw_column, take_rows, with_attribute
from skleak.adversary.numbers import interpolation_matrix
from skleak.exceptions import AttackNotApplicableError, ReleaseMismatchWarning
from skleak.influence import candidate_encodings
from skleak.influence.refit import candidate_shapes, check_reached
from skleak.influence.reweighting import fitted_derivative, total_jacobian
from skleak.influence.state import FitState
from skleak.utils._blocks import row_blocks, stacked
from skleak.utils._confidential import without_ledger
from skleak.utils._predictions import select_columns
from skleak.utils._records import Persons
from skleak.utils._sklearn_compat import check_sample_weight, outer_stacklevel
from skleak.utils._typing import Array, FloatArray, IntArray

# Chance of a false alarm.
MISMATCH_LEVEL = 1e-6
# Encodings are known to about this, relative to the parameters.
ENCODING_ERROR = 1e-10
# Records whose hypotheses are held against releases that lie too near.
_N_RECORDS = 16


def encoding_error(parameters: FloatArray) -> float:
    """Return what encodings near some parameters differ by, at least, to be told apart.

    Even by a release without noise.
    """
    return ENCODING_ERROR * max(1.0, float(np.linalg.norm(parameters)))


class Consistency(NamedTuple):
    """Fit of releases to the hypotheses of an attack.

    ``distance`` (n_releases,): from the nearest hypothesis, over the noise.
    ``too_far``, ``too_near`` (n_releases,): at most the probability that a release lies as far from
        all hypotheses, or as near to one of every record, if one of them is true and the noise is
        what is stated; 1 without noise.
    """

    distance: FloatArray
    too_far: FloatArray
    too_near: FloatArray

    @property
    def p_value(self) -> float:
        """Of all releases together, corrected for their number and both ends."""
        least = np.minimum(self.too_far, self.too_near).min(initial=1.0)
        return float(min(1.0, 2.0 * max(len(self.distance), 1) * least))


def release_consistency(
    released: FloatArray, hypotheses: FloatArray, noise_scale: FloatArray, error: float = 0.0
) -> Consistency:
    """Test whether releases can be one of the hypotheses plus the noise that is stated.

    Shapes: ``released`` (n_releases, p), parameters, in coordinates in which the noise is
    isotropic; ``hypotheses`` (n_targets, n_values, p); ``noise_scale`` (n_releases,).

    The squared distance of a release from the truth, over the variance, is chi-squared with p
    degrees of freedom, and that from the nearest hypothesis no larger. Its part orthogonal to the
    differences of the hypotheses of one record, k of them, is chi-squared with p - k where the
    truth is one of these, stochastically larger where it is not, and the largest such part of
    several records no smaller. So both tests hold for any number of hypotheses.
    """
    _, n_values, p = hypotheses.shape
    noisy = noise_scale > 0.0
    scale = np.where(noisy, noise_scale, 1.0)
    points = hypotheses.reshape(-1, p)
    center = points.mean(axis=0)
    with config_context(assume_finite=True):  # a difference of huge numbers may not be
        closest = points[pairwise_distances_argmin(released - center, points - center)]
    nearest = np.linalg.norm(released - closest, axis=1)
    far = stats.chi2.sf((np.maximum(nearest - error, 0.0) / scale) ** 2, p)
    near, freedom = np.ones(len(released)), p - min(n_values - 1, p)
    if freedom:
        apart = np.zeros(len(released))
        for own in evenly(hypotheses, _N_RECORDS):  # what no difference of them explains
            axes = np.linalg.svd(own[1:] - own[0], full_matrices=False)[2]
            gap = released - own[0]
            apart = np.maximum(apart, np.linalg.norm(gap - gap @ axes.T @ axes, axis=1))
        near = stats.chi2.cdf(((apart + error) / scale) ** 2, freedom)
    return Consistency(nearest / scale, np.where(noisy, far, 1.0), np.where(noisy, near, 1.0))


@contextmanager
def ignoring_mismatches() -> Iterator[None]:
    """Give no warning of a mismatch: for simulated releases, of which a report says it once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReleaseMismatchWarning)
        yield


def warn_of_mismatch(
    released: FloatArray, hypotheses: FloatArray, noise_scale: FloatArray, error: float
) -> None:
    """Warn where no hypothesis of an attack goes with a release; see `release_consistency`."""
    found = release_consistency(released, hypotheses, noise_scale, error)
    if found.p_value > MISMATCH_LEVEL:
        return
    p, ends = hypotheses.shape[-1], (found.too_far, "farther from", "larger")
    if found.too_near.min() < found.too_far.min():
        ends = found.too_near, "nearer to", "smaller"
    worst = int(np.argmin(ends[0]))
    warnings.warn(
        f"Release {worst} lies {ends[1]} the hypotheses of the attack than noise of scale "
        f"{noise_scale[worst]:.3g} explains: {found.distance[worst]:.3g} of it from the nearest, "
        f"where about {np.sqrt(p):.3g} is expected (p-value {found.p_value:.1g}). The model was "
        f"trained on other data, weights or preprocessing than the attack supposes, or its noise "
        f"is {ends[2]} than stated. Fit the attack on what the model was trained on, and check "
        "the noise scale.",
        ReleaseMismatchWarning,
        stacklevel=outer_stacklevel(),
    )


def check_weights_known(estimator: Any, *, weighted: bool) -> None:
    """Refuse a model that was fitted with weights where the attack was not given them.

    Private estimators know it, released ones state it in their provenance, others tell nothing;
    weights that are all equal are none.
    """
    if weighted:
        return
    model = last_step(estimator)
    state = getattr(model, "_state", None)
    if state is None:
        made = getattr(model, "provenance_", getattr(model, "_made_as", {}))
        unequal = made.get("sample_weight", False)
    else:
        unequal = np.ptp(state.objective.sample_weight) > 0.0
    if unequal:
        name = type(estimator).__name__
        raise ValueError(
            f"The {name} was fitted with sample weights; this attack was fitted without them, and "
            "would take the release for that of another fit. Pass the same weights to `fit` of the "
            "attack as `sample_weight`, where it takes them; else attack a model without weights."
        )


def check_weights(sample_weight: Any, X: Any) -> FloatArray | None:
    """Weights of shape (n,), finite and non-negative; None where none were given."""
    if sample_weight is None:
        return None
    weights = check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True
    )
    if not np.any(weights > 0.0):
        raise ValueError(
            "`sample_weight` must contain at least one positive number; got only zeros."
        )
    return np.asarray(weights)


def weights_of_both(
    X: Any, others: Any, given: tuple[Any, Any], name: str
) -> tuple[FloatArray | None, FloatArray | None]:
    """Weights of training records and of other ones; ones for the latter where only they lack.

    The name is that of the argument with the latter; `others` is None where there are none.
    """
    sample_weight, other_weight = given
    if other_weight is not None and (sample_weight is None or others is None):
        missing = "`sample_weight`" if sample_weight is None else "such records"
        raise ValueError(
            f"`{name}` goes with `sample_weight` and with the records that it is about; got no "
            f"{missing}. Pass both, or none."
        )
    weights = check_weights(sample_weight, X)
    if weights is None or others is None:
        return weights, None
    if other_weight is None:
        return weights, np.ones(others.shape[0])
    return weights, check_weights(other_weight, others)


def weight_argument(
    estimator: Any, sample_weight: FloatArray | None, persons: Any = None
) -> dict[str, Any]:
    """Keywords of `fit` that take the weights and, if it takes any, persons: of a last step."""
    model = last_step(estimator)
    last = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    takes = persons is not None and has_fit_parameter(model, "persons")
    own = {f"{last}persons": persons} if takes else {}
    if sample_weight is None:
        return own
    if not has_fit_parameter(model, "sample_weight"):
        raise AttackNotApplicableError(
            f"`sample_weight` is for models that are fitted with weights; `fit` of "
            f"{type(model).__name__} takes none. Leave the weights out, or pass an estimator whose "
            "`fit` has a parameter `sample_weight`."
        )
    return {f"{last}sample_weight": sample_weight, **own}


def attack_weights(attack: Any, **weights: FloatArray | None) -> dict[str, FloatArray]:
    """Keywords of `fit` of an attack for the weights that there are."""
    given = {name: value for name, value in weights.items() if value is not None}
    for name in given:
        if not has_fit_parameter(attack, name):
            raise AttackNotApplicableError(
                f"The model is fitted with sample weights; {type(attack).__name__}.fit does not "
                f"take them. Give it a keyword `{name}`, or leave the attack out."
            )
    return given


# Half the step of central differences of the preprocessing, in standard deviations of the column.
_HALF_STEP = 1e-4


# Relative miss of the interpolated encoded columns above which they are called not smooth.
_SMOOTH_TOLERANCE = 1e-4


@dataclass(frozen=True)
class PublicModel:
    """Training of a model, all of which the adversary knows."""

    preprocessing: Any  # Fitted steps before the model, or None
    template: Any  # The model, unfitted, without noise and without a ledger
    # Noise of its releases; NaN where it is calibrated to data, 0 for models without noise
    noise_scale: float
    noise_covariance: Any = "isotropic"  # Shape of that noise, as the private estimators take it
    weighted: bool = False  # True if the adversary knows with what weights it was fitted

    @property
    def has_closed_form(self) -> bool:
        """True if candidates need no refit."""
        return hasattr(self.template, "_confidential_state")

    @classmethod
    def of(
        cls,
        estimator: Any,
        table: Any,
        y: Any,
        *,
        weights: FloatArray | None = None,
        any_covariance: bool = False,
        asked: bool = False,
    ) -> Self:
        """Take an estimator apart into public preprocessing and a model without noise.

        A model that is only `asked` keeps noise that is not on its minimizer.

        Shapes: ``table`` (n, n_columns); ``y`` (n,).
        """
        model = last_step(estimator)
        if not hasattr(model, "fit"):
            raise TypeError(
                "`estimator` must be an estimator or a pipeline that ends in one; got "
                f"{type(model).__name__}."
            )
        check_private(model)
        weighted = weights is not None
        check_weights_known(model, weighted=weighted)
        covariance = getattr(model, "noise_covariance", "isotropic")
        if not any_covariance and not (isinstance(covariance, str) and covariance == "isotropic"):
            raise AttackNotApplicableError(
                "This attack or audit takes the noise to be isotropic; `estimator` adds noise of a "
                "covariance of its own (`noise_covariance`). Pass an estimator with "
                "`noise_covariance='isotropic'`. Of the attacks, WhiteBoxAttributeInference knows "
                "the covariance, and BlackBoxAttributeInference reads predictions only."
            )
        preprocessing = None
        if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
            preprocessing = estimator[:-1]
            try:
                check_is_fitted(preprocessing)
            except NotFittedError:
                preprocessing = without_ledger(preprocessing).fit(table, y)
        # Noise of the fitted model, or what an unfitted one promises.
        declared = getattr(model, "noise_scale_", getattr(model, "noise_scale", 0.0))
        noise = float(declared) if isinstance(declared, int | float | np.number) else np.nan
        keeps = asked and needs_goal(model)
        template = without_ledger(model) if keeps else noiseless(model)
        return cls(preprocessing, template, noise, covariance, weighted)

    def transform(self, table: Any) -> Any:
        """Preprocess raw records, whose columns may be in any order."""
        steps = self.preprocessing
        return table if steps is None else steps.transform(select_columns(steps, table))

    def candidate_rows(
        self, table: Any, targets: IntArray, index: int, candidates: FloatArray | Array
    ) -> list[Any]:
        """Preprocessed records of the targets, once for every candidate value.

        Shapes: ``table`` (n, n_columns); ``targets`` (n_targets,); ``candidates`` (n_values,) or
        (n_values, n_targets); returns (n_targets, d).
        """
        own = take_rows(table, targets)
        return [self.transform(with_attribute(own, index, value)) for value in candidates]

    def exact_slope(
        self, state: FitState, table: Any, targets: IntArray, index: int, column: FloatArray
    ) -> FloatArray | None:
        """Differentiate a fit in closed form by a quantity, whatever its value is.

        Shapes: ``table`` (n, n_columns); ``targets`` (n_targets,); ``column`` (n,); returns
        (n_targets, p): None for a reweighting whose weights have no derivative.
        """
        derivative = fitted_derivative(state)
        if derivative.unbounded:
            return None
        half = _HALF_STEP * float(np.std(column))
        ends = np.stack([column[targets] + half, column[targets] - half])
        above, below = map(dense_table, self.candidate_rows(table, targets, index, ends))
        tangent = (above - below) / (2.0 * half)
        slope = np.full((len(targets), len(state.factor.coefficients)), np.nan)
        if not state.converged:
            return slope
        for some in row_blocks(len(targets), slope.shape[1] * (state.n_features + 1)):
            jacobians = total_jacobian(state, targets[some], derivative=derivative)
            of_columns = jacobians[:, :, : tangent.shape[1]]
            slope[some] = np.einsum("ijk,ik->ij", of_columns, tangent[some])
        return slope

    def check_smooth(self, table: Any, targets: IntArray, index: int, nodes: FloatArray) -> None:
        """Check that the preprocessing is smooth in a quantity, between the nodes too.

        Shapes: ``table`` (n, n_columns); ``targets`` (n_targets,); ``nodes`` (N_NODES, n_targets).
        """
        if self.preprocessing is None:
            return
        few = np.arange(min(len(targets), 8))
        points = np.array([-0.83, -0.41, 0.07, 0.52, 0.91])
        low, high = nodes[0, few], nodes[-1, few]
        between = low + (high - low) * 0.5 * (points[:, None] + 1.0)

        def encoded(values: FloatArray) -> FloatArray:
            rows = self.candidate_rows(table, targets[few], index, values)
            return np.stack([dense_table(plain_table(each)) for each in rows])

        known = encoded(nodes[:, few])
        missed = np.tensordot(interpolation_matrix(points), known, axes=1) - encoded(between)
        if np.abs(missed).max() > _SMOOTH_TOLERANCE * max(np.ptp(known, axis=0).max(), 1.0):
            raise AttackNotApplicableError(
                "The preprocessing is not smooth in the numeric attribute (it bins or clips it): "
                "the likeliest value is not unique. Pass the values to choose from in `values`."
            )


def last_step(estimator: Any) -> Any:
    """Return the model itself, which may be the last step of a pipeline."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def check_private(
    estimator: Any, where: str = "attack, and the released model to `predict`"
) -> None:
    """Refuse a released model in the place of the private estimator."""
    if hasattr(last_step(estimator), "provenance_"):
        raise AttackNotApplicableError(
            "`estimator` is a released model, which does not know how it was trained. Pass the "
            f"private estimator to the {where}."
        )


def noiseless(estimator: Any) -> Any:
    """Unfitted copy of an estimator or pipeline that adds no noise and charges no ledger."""
    copy = without_ledger(estimator)
    model = last_step(copy)
    if not adds_noise(model):
        return copy
    if needs_goal(model):
        raise AttackNotApplicableError(
            f"This supposes noise on the coefficients; {type(model).__name__} has it elsewhere "
            f"({model._chosen_mechanism().title}). Ask for predictions by an auditor, or "
            'BlackBoxAttributeInference; or pass an estimator with `mechanism="output"`.'
        )
    known = model.get_params(deep=False)
    quiet = {"noise_scale": 0.0, "noise_covariance": "isotropic", "verbose": 0}
    model.set_params(**{name: value for name, value in quiet.items() if name in known})
    return copy


def adds_noise(estimator: Any) -> bool:
    """Return True if a model, or the last step of a pipeline, states noise of its own."""
    model = last_step(estimator)
    return hasattr(model, "get_params") and "noise_scale" in model.get_params(deep=False)


def needs_goal(estimator: Any) -> bool:
    """Return True if a goal alone sets the noise of a model: it is not on its minimizer."""
    model = last_step(estimator)
    chosen = getattr(model, "_chosen_mechanism", None)
    return hasattr(model, "goal") if chosen is None else not chosen().adds_to_minimizer


def goal_name(estimator: Any) -> str:
    """Name of the parameter of a model, or the last step of a pipeline, that a goal is."""
    return "goal" if hasattr(last_step(estimator), "goal") else "noise_scale"


def is_linear(fitted: Any) -> bool:
    """Return True if a fitted model predicts by coefficients, which others can replace."""
    coef = getattr(last_step(fitted), "__dict__", {}).get("coef_")
    return isinstance(coef, np.ndarray) and coef.dtype.kind in "fiu"


def model_parameters(model: Any) -> FloatArray:
    """Coefficients, then the intercept where the model has one, of a fitted model."""
    model = last_step(model)
    if not hasattr(model, "coef_"):
        raise AttackNotApplicableError(
            f"{type(model).__name__} has no `coef_` after `fit`: only the parameters of a linear "
            "model can be read. BlackBoxAttributeInference needs only predictions: pass it the "
            "fitted model."
        )
    parts = [np.ravel(model.coef_)]
    if getattr(model, "fit_intercept", True):
        parts.append(np.ravel(getattr(model, "intercept_", [])))
    return np.concatenate(parts).astype(np.float64)


def closed_form_encodings(
    state: FitState,
    targets: "IntArray | Persons",
    candidates: Sequence[Any],
    *,
    reached: bool = True,
) -> FloatArray:
    """Return the encodings without refitting, however the preprocessing spreads the attribute.

    Where one has no minimizer that is reached, raise, or return NaN if not `reached`.

    Shapes: ``targets`` (n_targets,), or persons; ``candidates`` (n_rows, d), of all of their rows;
    returns (n_targets, n_values, n_parameters).
    """
    persons = targets if isinstance(targets, Persons) else Persons.single(targets)
    given = _candidate_values(state, persons.rows, candidates)
    found = candidate_encodings(state, *given, rows=persons)
    if reached:
        check_reached(found, "What this attack compares a release with", AttackNotApplicableError)
    # The same record, bit for bit, makes the same fit: rounding tells no values apart.
    differ = persons.sums(np.any(given[3] != given[3][:, :1], axis=2).astype(float)) > 0.0
    return np.where(differ[:, :, None], found, found[:, :1])


def closed_form_shapes(
    state: FitState, targets: IntArray, candidates: Sequence[Any], encodings: FloatArray, shape: str
) -> FloatArray:
    """Shapes of the noise of the fits that `closed_form_encodings` gives the minimizers of.

    Shapes: ``targets`` (n_targets,); ``candidates`` (n_targets, d); ``encodings`` (n_targets,
    n_values, n_parameters); returns (n_targets, n_values, n_parameters, n_parameters).
    """
    given = _candidate_values(state, targets, candidates)
    return candidate_shapes(state, *given, shape, encodings=encodings, rows=targets)


def _candidate_values(
    state: FitState, targets: IntArray, candidates: Sequence[Any]
) -> tuple[Any, FloatArray, IntArray, FloatArray]:
    """Encode records; return them, targets, columns that change, and what these become in each."""
    X, y = state.objective.X[targets], state.objective.y[targets]
    columns = changed_columns(X, candidates)
    if not len(columns):
        columns = np.zeros(1, dtype=np.intp)  # one that stays as it is
    tables = [dense_table(rows[:, columns]) for rows in map(plain_table, candidates)]
    return X, y, columns, np.stack(tables, axis=1)


def changed_columns(X: Any, candidates: Sequence[Any]) -> IntArray:
    """Return the encoded columns that depend on the attribute.

    Shapes: ``X`` (n_targets, d); ``candidates`` (n_targets, d); returns (n_columns,): positions,
    ascending.
    """
    changed = np.zeros(X.shape[1], dtype=bool)
    for rows in map(plain_table, candidates):
        if sparse.issparse(rows):
            changed |= dense_table(abs(rows - X).max(axis=0)).ravel() > 0.0
        else:
            changed |= np.any(rows != dense_table(X), axis=0)
    return np.flatnonzero(changed)


def plain_table(rows: Any) -> Any:
    """Return a float array or CSR matrix of what a preprocessing step returned."""
    if sparse.issparse(rows):
        return sparse.csr_array(rows, dtype=np.float64)
    return np.asarray(rows, dtype=np.float64)


def below(*rows: Any) -> Any:
    """Return records below one another, of frames, arrays or sparse matrices."""
    if isinstance(rows[0], pd.DataFrame):
        return pd.concat(rows)
    tables = [plain_table(row) for row in rows]
    return sparse.vstack(tables, "csr") if sparse.issparse(tables[0]) else np.concatenate(tables)


def dense_table(rows: Any) -> FloatArray:
    """Preprocessed records as a dense array, of whatever type they were."""
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


# Records that are refitted between two looks at the progress.
_BLOCK = 64
# Records and targets with value m of target i.
Change = Callable[[int, int], tuple[Any, Array]]


def changed_rows(X: Any, y: Array, targets: Persons, candidates: Sequence[Any]) -> Change:
    """Replace the preprocessed rows of a target by those of a candidate.

    Shapes: ``X`` (n, d); ``y`` (n,); ``candidates`` (n_rows, d), of all rows of the targets.
    """
    n, tables = X.shape[0], [plain_table(rows) for rows in candidates]

    def change(i: int, m: int) -> tuple[Any, Array]:
        own, places = slice(*targets.starts[i : i + 2]), np.arange(n)
        rows = tables[m][own]
        places[targets.rows[own]] = n + np.arange(rows.shape[0])
        return below(plain_table(X), rows)[places], y

    return change


def changed_values(table: Any, y: Array, targets: Persons, index: int, candidates: Array) -> Change:
    """Replace the attribute of a target, or its `y` where that is the secret, by a candidate.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); ``candidates`` (n_values,) or (n_values,
    n_targets).
    """
    column = y if index == TARGET_INDEX else raw_column(table, index)
    n_values = len(candidates)
    values = np.broadcast_to(candidates.reshape(n_values, -1), (n_values, len(targets)))

    def change(i: int, m: int) -> tuple[Any, Array]:
        value = values[m, i]
        changed = column.astype(np.result_type(column.dtype, np.asarray(value).dtype))
        changed[targets.rows[slice(*targets.starts[i : i + 2])]] = value
        if index == TARGET_INDEX:
            return table, changed
        return with_attribute(table, index, changed), y

    return change


def refit_encodings(
    template: Any,
    change: Change,
    shape: tuple[int, int],
    n_jobs: int | None,
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Return the encodings by brute force: one fit for every target and candidate value.

    Shapes: ``shape`` (n_targets, n_values); ``sample_weight`` (n,); returns (n_targets, n_values,
    n_parameters).
    """
    weights = weight_argument(template, sample_weight)
    widths: set[int] = set()
    with Parallel(n_jobs=n_jobs) as pool:

        def refit(block: slice) -> FloatArray:
            everyone = np.arange(block.start, block.stop)
            # A few chunks for each worker.
            n_chunks = min(len(everyone), 4 * effective_n_jobs(n_jobs))
            parts = pool(
                delayed(_refit_chunk)(template, change, part, shape[1], weights)
                for part in np.array_split(everyone, n_chunks)
            )
            fits = _comparable([fit for part in parts for fit in part], widths)
            return fits.reshape(len(everyone), shape[1], -1)

        return stacked("encodings", shape[0], row_blocks(shape[0], 1, _BLOCK), refit, threads=False)


def _refit_chunk(
    template: Any, change: Change, targets: IntArray, n_values: int, weights: dict[str, FloatArray]
) -> list[FloatArray]:
    splits = isinstance(template, Pipeline) and len(template.steps) > 1
    splits = splits and getattr(template, "transform_input", None) is None
    last = {name.rpartition("__")[2]: weight for name, weight in weights.items()}
    found: dict[Any, FloatArray] = {}
    fits = []
    for i, m in itertools.product(targets.tolist(), range(n_values)):
        X, y = change(i, m)
        model, own = template, weights
        if splits:
            X = clone(template[:-1]).fit_transform(X, y)
            model, own = template.steps[-1][1], last
        # The same record, bit for bit, makes the same fit: rounding tells no values apart.
        key = joblib_hash((X, y))
        if key not in found:
            found[key] = model_parameters(clone(model).fit(X, y, **own))
        fits.append(found[key])
    return fits


def refit_tables(
    estimator: Any, data: Iterable[tuple[Any, Array]], sample_weight: FloatArray | None = None
) -> FloatArray:
    """Noiseless parameters of an estimator trained anew, preprocessing included, on several data.

    Shapes: ``data`` of tables (n, n_columns) and targets (n,); ``sample_weight`` (n,); returns
    (n_data, n_parameters).
    """
    template = noiseless(estimator)
    weights = weight_argument(template, sample_weight)
    fits = [model_parameters(clone(template).fit(table, y, **weights)) for table, y in data]
    return _comparable(fits, set())


def _comparable(fits: Sequence[FloatArray], widths: set[int]) -> FloatArray:
    """Parameters of several fits, of shape (n_fits, p), if all so far have the same number."""
    widths.update(map(len, fits))
    if len(widths) > 1:
        raise AttackNotApplicableError(
            f"Refitted preprocessing gives between {min(widths)} and {max(widths)} parameters, "
            "depending on one record's value: encodings cannot be compared. Fix the encoded "
            "columns, for instance with `OneHotEncoder(categories=...)`."
        )
    return np.stack(fits)
