"""Encodings of candidates: the noiseless parameters had a record's attribute been different."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses._consistency import check_weights_known
from skleak.adversary.hypotheses._smooth import interpolation_matrix
from skleak.adversary.knowledge import take_rows, with_attribute
from skleak.exceptions import AttackNotApplicableError
from skleak.influence import candidate_encodings
from skleak.influence.refit import candidate_shapes, check_reached
from skleak.influence.state import FitState
from skleak.utils._confidential import without_ledger
from skleak.utils._typing import Array, FloatArray, IntArray

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

    @property
    def has_closed_form(self) -> bool:
        """True if candidates need no refit."""
        return hasattr(self.template, "_confidential_state")

    def transform(self, table: Any) -> Any:
        """Preprocess raw records."""
        return table if self.preprocessing is None else self.preprocessing.transform(table)


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


def fit_public_model(
    estimator: Any, table: Any, y: Any, *, any_covariance: bool = False, weighted: bool = False
) -> PublicModel:
    """Take an estimator apart into public preprocessing and a model without noise.

    Shapes: ``table`` (n, n_columns); ``y`` (n,).
    """
    model = last_step(estimator)
    if not hasattr(model, "fit"):
        raise TypeError(
            "`estimator` must be an estimator or a pipeline that ends in one; got "
            f"{type(model).__name__}."
        )
    check_private(model)
    check_weights_known(model, weighted=weighted)
    covariance = getattr(model, "noise_covariance", "isotropic")
    if not any_covariance and not (isinstance(covariance, str) and covariance == "isotropic"):
        raise AttackNotApplicableError(
            "This attack or audit takes the noise to be isotropic; `estimator` adds noise of a "
            "covariance of its own (`noise_covariance`). Pass an estimator with "
            "`noise_covariance='isotropic'`. Of the attacks, WhiteBoxAttributeInference knows the "
            "covariance, and BlackBoxAttributeInference reads predictions only."
        )
    preprocessing = None
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        preprocessing = estimator[:-1]
        if not _is_fitted(preprocessing):
            preprocessing = without_ledger(preprocessing).fit(table, y)
    return PublicModel(preprocessing, noiseless(model), _declared_noise(model), covariance)


def noiseless(estimator: Any) -> Any:
    """Unfitted copy of an estimator or pipeline that adds no noise and charges no ledger."""
    copy = without_ledger(estimator)
    model = last_step(copy)
    if not adds_noise(model):
        return copy
    known = model.get_params(deep=False)
    quiet = {"noise_scale": 0.0, "noise_covariance": "isotropic", "verbose": 0}
    model.set_params(**{name: value for name, value in quiet.items() if name in known})
    return copy


def _declared_noise(model: Any) -> float:
    """Noise of the fitted model, or what an unfitted one promises."""
    declared = getattr(model, "noise_scale_", getattr(model, "noise_scale", 0.0))
    return float(declared) if isinstance(declared, int | float | np.number) else float("nan")


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def adds_noise(estimator: Any) -> bool:
    """Return True if a model, or the last step of a pipeline, states noise of its own."""
    model = last_step(estimator)
    return hasattr(model, "get_params") and "noise_scale" in model.get_params(deep=False)


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


def candidate_rows(
    model: PublicModel, table: Any, targets: IntArray, index: int, candidates: FloatArray | Array
) -> list[Any]:
    """Preprocessed records of the targets, once for every candidate value.

    Shapes: ``table`` (n, n_columns); ``targets`` (n_targets,); ``candidates`` (n_values,) or
    (n_values, n_targets); returns (n_targets, d).
    """
    own = take_rows(table, targets)
    return [model.transform(with_attribute(own, index, value)) for value in candidates]


def closed_form_encodings(
    state: FitState, targets: IntArray, candidates: Sequence[Any]
) -> FloatArray:
    """Return the encodings without refitting, however the preprocessing spreads the attribute.

    Shapes: ``targets`` (n_targets,); ``candidates`` (n_targets, d); returns (n_targets, n_values,
    n_parameters).
    """
    given = _candidate_values(state, targets, candidates)
    found = candidate_encodings(state, *given, rows=targets)
    check_reached(found, "What this attack compares a release with", AttackNotApplicableError)
    # The same record, bit for bit, makes the same fit: rounding tells no values apart.
    same = np.all(given[3] == given[3][:, :1], axis=2, keepdims=True)
    return np.where(same, found[:, :1], found)


def closed_form_shapes(
    state: FitState,
    targets: IntArray,
    candidates: Sequence[Any],
    encodings: FloatArray,
    shape: str,
) -> FloatArray:
    """Shapes of the noise of the fits that `closed_form_encodings` gives the minimisers of.

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


def check_smooth(
    model: PublicModel, table: Any, targets: IntArray, index: int, nodes: FloatArray
) -> None:
    """Check that the preprocessing is smooth in a quantity, between the nodes too.

    Shapes: ``table`` (n, n_columns); ``targets`` (n_targets,); ``nodes`` (N_NODES, n_targets).
    """
    if model.preprocessing is None:
        return
    few = np.arange(min(len(targets), 8))
    points = np.array([-0.83, -0.41, 0.07, 0.52, 0.91])
    low, high = nodes[0, few], nodes[-1, few]
    between = low + (high - low) * 0.5 * (points[:, None] + 1.0)
    known, true = (
        np.stack(
            [
                dense_table(plain_table(r))
                for r in candidate_rows(model, table, targets[few], index, t)
            ]
        )
        for t in (nodes[:, few], between)
    )
    interpolated = np.tensordot(interpolation_matrix(points), known, axes=1)
    if np.abs(interpolated - true).max() > _SMOOTH_TOLERANCE * max(
        np.ptp(known, axis=0).max(), 1.0
    ):
        raise AttackNotApplicableError(
            "The preprocessing is not smooth in the numeric attribute (it bins or clips it): the "
            "likeliest value is not unique. Pass the values to choose from in `values`."
        )


def check_seen(columns: IntArray) -> None:
    """Check that the model sees the attribute, in the columns of `changed_columns`."""
    if not len(columns):
        raise AttackNotApplicableError(
            "The preprocessing drops the attribute: every candidate value gives the same input to "
            "the model, whose release does not depend on it. Keep the column in the pipeline."
        )


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


def dense_table(rows: Any) -> FloatArray:
    """Preprocessed records as a dense array, of whatever type they were."""
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
