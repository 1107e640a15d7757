"""What is audited, whatever the noise: the model, the secrets, and what is known of them."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from skleak.attacks import ImputationAttack, PriorAttack, WhiteBoxAttributeInference
from skleak.attacks._encodings import (
    PublicModel,
    candidate_rows,
    changed_columns,
    dense_table,
    fit_public_model,
    last_step,
    model_parameters,
    plain_table,
)
from skleak.attacks._knowledge import find_secret, range_of_others, resolve_targets, take_rows
from skleak.attacks._smooth import interpolation_matrix
from skleak.exceptions import AttackNotApplicableError
from skleak.influence import (
    Columns,
    FitState,
    NoiseShape,
    Participation,
    total_jacobian,
)
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, FloatArray, IntArray

__all__ = ["Kind", "Subject", "study"]

Kind = Literal["categorical", "numeric", "record"]

# Half the step of central differences: through a polynomial, on [-1, 1]; of the preprocessing, in
# standard deviations of the column.
_STEP = 1e-4


@dataclass(frozen=True)
class Subject:
    """What is audited, whatever the noise. Confidential.

    Parameters
    ----------
    kind : {"categorical", "numeric", "record"}
        What is secret.
    model : PublicModel
        How the model is trained.
    X, y : table of shape (n, d), ndarray of shape (n,)
        Preprocessed records and their targets.
    targets : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    noiseless : ndarray of shape (p,)
        Parameters without noise.
    unit_eta : ndarray of shape (n_targets,)
        Fisher information loss at unit noise; NaN where it is not known.
    unit_mse : ndarray of shape (n_targets,)
        Lower bound on the mean squared error of unbiased attacks at unit noise; NaN for
        categories.
    values : ndarray of shape (n_values,)
        Candidate values; empty but for categories.
    secrets : ndarray of shape (n_targets,) or (n_targets, d)
        True values; for whole records the records as the model sees them.
    prior : ndarray of shape (n_targets, n_values)
        Prior of every target; no column but for categories.
    white_box : WhiteBoxAttributeInference or None
        Fitted, with the parameters without noise under every value; None for whole records.
    baseline, imputation : float
        Success of the prior, and of imputation without the model.
    prior_score : ndarray of shape (n_targets,)
        Of every target: largest prior probability, or squared error of the mean of the others.
    spread : float
        Variance of the numbers that are guessed; 1 for categories.
    noise : NoiseShape
        Shape of the noise, which does not depend on the data.
    labels, unit_mse_with_target : ndarray of shape (n_targets,) or None, default=None
        For whole records, the targets as numbers, and the bound for attacks that guess them too.
    """

    kind: Kind
    model: PublicModel
    X: Any
    y: Array
    targets: IntArray
    noiseless: FloatArray
    unit_eta: FloatArray
    unit_mse: FloatArray
    values: Array
    secrets: Array
    prior: FloatArray
    white_box: Any
    baseline: float
    imputation: float
    prior_score: FloatArray
    spread: float
    noise: NoiseShape
    labels: "FloatArray | None" = None
    unit_mse_with_target: "FloatArray | None" = None


def study(
    estimator: Any,
    table: Any,
    y: Array,
    *,
    attribute: Any,
    values: Any,
    targets: Any,
    prior: Any,
    drawn: bool,
    refit_preprocessing: bool,
    n_jobs: int | None,
) -> Subject:
    """Fit the model without noise, and learn all that attacks are measured by.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Unfitted.
    table : DataFrame or ndarray of shape (n, n_columns)
        Raw records.
    y : ndarray of shape (n,)
        Targets of the model.
    attribute, values, targets, prior, refit_preprocessing, n_jobs : object
        Parameters of `LeakageAuditor`.
    drawn : bool
        Whether the secrets will be drawn from the prior.

    Returns
    -------
    Subject
    """
    model = fit_public_model(estimator, table, y, any_covariance=True)
    X = model.transform(table)
    fitted = clone(model.template).fit(X, y)
    noise = _noise_shape(model, fitted, attribute)
    if attribute is None:
        rows = resolve_targets(targets, table.shape[0])
        return _whole_records(model, X, y, fitted, rows, noise)
    secret = find_secret(table, attribute, values)
    white_box = WhiteBoxAttributeInference(
        estimator,
        attribute,
        values=values,
        prior="uniform" if secret.numeric else prior,
        targets=targets,
        refit_preprocessing=refit_preprocessing,
        n_jobs=n_jobs,
    ).fit(table, y)
    rows = white_box.targets_
    imputation = ImputationAttack(attribute=attribute, values=values, targets=targets).fit(table, y)
    shared: dict[str, Any] = {
        "model": model,
        "X": X,
        "y": y,
        "targets": rows,
        "noiseless": model_parameters(fitted),
        "white_box": white_box,
        "secrets": secret.column[rows],
        "noise": noise,
    }
    if secret.numeric:
        mean = PriorAttack(attribute, targets=targets).fit(table, y)
        slope = None
        if model.has_closed_form and not refit_preprocessing:
            slope = _total_slope(fitted, model, table, rows, secret.index, secret.column)
        return _quantity(shared, secret.column, mean.predict(), imputation.predict(), slope)
    guess, values_ = imputation.prior_.argmax(axis=1), white_box.values_
    # A secret that is drawn is guessed as often as its prior says.
    right = white_box.prior_[np.arange(len(rows)), guess] if drawn else guess == secret.codes[rows]
    return Subject(
        kind="categorical",
        **shared,
        unit_eta=_attribute_loss(fitted, model, table, rows, secret.index, values_, noise),
        unit_mse=np.full(len(rows), np.nan),
        values=values_,
        prior=white_box.prior_,
        baseline=float(white_box.prior_.max(axis=1).mean()),
        imputation=float(right.mean()),
        prior_score=white_box.prior_.max(axis=1),
        spread=1.0,
    )


def _quantity(
    shared: dict[str, Any],
    column: FloatArray,
    mean: FloatArray,
    imputed: FloatArray,
    slope: FloatArray | None,
) -> Subject:
    rows, truth = shared["targets"], shared["secrets"]
    spread = float(column.var())
    prior_score = (mean - truth) ** 2
    low, high = (end[rows] for end in range_of_others(column))
    if slope is None:
        slope = _slope(shared["white_box"].encodings_, low, high, truth)
    unit_eta = np.sqrt((shared["noise"].whitened(slope) ** 2).sum(axis=1))
    return Subject(
        kind="numeric",
        **shared,
        unit_eta=unit_eta,
        unit_mse=_inverse_square(unit_eta),
        values=column[:0],
        prior=np.empty((len(rows), 0)),
        baseline=_determination(prior_score, spread),
        imputation=_determination((imputed - truth) ** 2, spread),
        prior_score=prior_score,
        spread=spread,
    )


def _whole_records(
    model: PublicModel, X: Any, y: Array, fitted: Any, targets: IntArray, noise: NoiseShape
) -> Subject:
    if not model.has_closed_form:
        raise AttackNotApplicableError(
            "Without `attribute`, whole records are reconstructed from the training objective, "
            f"which is not known for {type(last_step(fitted)).__name__}. Pass a private estimator "
            "of skleak.linear_model, or name an `attribute`."
        )
    state = _at_unit_noise(fitted)
    rows = take_rows(state.objective.X, targets)
    part = _participation(state, targets)
    labels = state.objective.y[targets]
    trace, trace_with_target = (
        state.record_loss(rows, labels, part, Columns(target=target), norm="trace")
        for target in (False, True)
    )
    truth = dense_table(rows)
    everything = dense_table(state.objective.X)
    n = len(everything)
    mean_of_others = (everything.sum(axis=0) - truth) / (n - 1)
    prior_score = ((mean_of_others - truth) ** 2).mean(axis=1)
    spread = float(everything.var(axis=0).mean())
    return Subject(
        kind="record",
        model=model,
        X=X,
        y=y,
        targets=targets,
        noiseless=state.factor.coefficients,
        unit_eta=state.record_loss(rows, labels, part),
        unit_mse=_inverse_square(trace),
        values=np.empty(0),
        secrets=truth,
        prior=np.empty((len(targets), 0)),
        white_box=None,
        baseline=_determination(prior_score, spread),
        imputation=np.nan,
        prior_score=prior_score,
        spread=spread,
        noise=noise,
        labels=labels,
        unit_mse_with_target=_inverse_square(trace_with_target),
    )


def _noise_shape(model: PublicModel, fitted: Any, attribute: Any) -> NoiseShape:
    """Shape of the noise of the model, where an audit can do with it."""
    noise = NoiseShape.of(model.noise_covariance, len(model_parameters(fitted)))
    if noise.reads_data:
        raise AttackNotApplicableError(
            "An audit plays noise of one covariance; that of `noise_covariance='curvature'` "
            "depends on the records. Read its leakage off `leakage_report()`, play against "
            "`WhiteBoxAttributeInference(...).channel()`, or audit a covariance from public "
            "knowledge."
        )
    if noise.name == "given" and attribute is None:
        raise AttackNotApplicableError(
            "Without `attribute`, whole records are reconstructed by an attack that takes the "
            "noise to be isotropic; got a `noise_covariance`. Name an `attribute`, or use "
            "isotropic noise."
        )
    if noise.name == "given" and getattr(model.template, "reweighting", None) is not None:
        raise AttackNotApplicableError(
            "`estimator` cannot be fitted: a `noise_covariance` of its own does not go with a "
            "reweighting. Drop one of the two."
        )
    return noise


def _attribute_loss(
    fitted: Any,
    model: PublicModel,
    table: Any,
    targets: IntArray,
    index: int,
    values: Array,
    noise: NoiseShape,
) -> FloatArray:
    """Fisher information loss at unit noise, over the encoded columns of an attribute."""
    if not model.has_closed_form:
        return np.full(len(targets), np.nan)
    # What is fitted has no noise, of any shape.
    state = replace(_at_unit_noise(fitted), noise=noise)
    rows = take_rows(state.objective.X, targets)
    candidates = [
        plain_table(each) for each in candidate_rows(model, table, targets, index, values)
    ]
    columns = changed_columns(rows, candidates)
    sums = np.stack([np.ravel(each[:, columns].sum(axis=1)) for each in candidates])
    one_hot = len(columns) > 1 and bool(np.allclose(sums, 1.0))
    block = Columns(columns, constrained=one_hot)
    part = _participation(state, targets)
    return state.record_loss(rows, state.objective.y[targets], part, block)


def _at_unit_noise(fitted: Any) -> FitState:
    state: FitState = fitted._confidential_state()
    return state.at_noise(1.0)


def _participation(state: FitState, targets: IntArray) -> Participation:
    objective = state.objective
    return Participation(objective.sample_weight[targets], objective.reweights[targets])


def _slope(nodes: FloatArray, low: FloatArray, high: FloatArray, truth: FloatArray) -> FloatArray:
    """Derivative of the parameters by a quantity, at its true value, (n_targets, p)."""
    half = 0.5 * (high - low)
    place = (truth - low) / half - 1.0
    above, below = (interpolation_matrix(place + step) for step in (_STEP, -_STEP))
    change = np.einsum("tm,tmp->tp", above - below, nodes)
    return np.asarray(change / (2.0 * _STEP * half)[:, None])


def _total_slope(
    fitted: Any,
    model: PublicModel,
    table: Any,
    targets: IntArray,
    index: int,
    column: FloatArray,
) -> FloatArray | None:
    """Derivative of a reweighted fit by a quantity, (n_targets, p); None for other fits.

    The leakage that the weights balance has kinks, where two singular values cross, and with it
    the parameters: a polynomial through them is no way to their derivative.
    """
    state = _at_unit_noise(fitted)
    if state.balanced is None or state.derivative.unbounded:
        return None
    half = _STEP * float(np.std(column))
    ends = np.stack([column[targets] + half, column[targets] - half])
    above, below = (
        dense_table(each) for each in candidate_rows(model, table, targets, index, ends)
    )
    tangent = (above - below) / (2.0 * half)
    slope = np.empty((len(targets), len(state.factor.coefficients)))
    for some in row_blocks(len(targets), slope.shape[1] * (state.n_features + 1)):
        jacobians = total_jacobian(state, targets[some], derivative=state.derivative)
        slope[some] = np.einsum("ijk,ik->ij", jacobians[:, :, :-1], tangent[some])
    return slope


def _determination(squared_errors: FloatArray, spread: float) -> float:
    return 1.0 - float(np.mean(squared_errors)) / spread if spread > 0.0 else float("nan")


def _inverse_square(loss: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return 1.0 / loss**2
