"""What is audited, whatever the noise: the model, the secrets, and what is known of them."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from skleak.adversary._consistency import weight_argument
from skleak.adversary._encodings import (
    PublicModel,
    candidate_rows,
    changed_columns,
    dense_table,
    fit_public_model,
    last_step,
    model_parameters,
    plain_table,
)
from skleak.adversary._knowledge import find_secret, range_of_others, resolve_records, take_rows
from skleak.attacks import ImputationAttack, PriorAttack, WhiteBoxAttributeInference
from skleak.audit.games._hypotheses import Hypotheses
from skleak.audit.games._quantity import at_truth, exact_slope, slope_at_truth
from skleak.audit.games._record_bound import record_mse
from skleak.audit.games._shaped_information import ShapedInformation
from skleak.audit.games._shaped_subject import audited_shape, shape_of_fit
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.state import FitState, NoiseShape
from skleak.solvers import MultinomialObjective
from skleak.utils._typing import Array, FloatArray, IntArray

__all__ = ["Kind", "Subject", "study"]

Kind = Literal["categorical", "numeric", "record"]


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
        Fisher information loss at unit noise; NaN where it is not known, and where the covariance
        of the noise follows the data: there it is no multiple of the noise, see `eta`.
    unit_mse : ndarray of shape (n_targets,)
        Lower bound on the mean squared error of unbiased attacks at unit noise, for whole records
        that of `record_mse`; NaN for categories, and where `unit_eta` is.
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
    hypotheses : Hypotheses
        What attacks take for the parameters without noise.
    noise : NoiseShape
        Shape of the noise; with the matrix of the data as they are, where it follows the data.
    shapes : ndarray of shape (n_targets, n_values, p, p) or None, default=None
        Covariance of unit noise under every value, where it follows the data: those of the white
        box, which holds their inverse roots too, ``16 n_targets n_values p^2`` bytes in all.
    information : ShapedInformation or None, default=None
        Fisher information about the secret, where the covariance follows the data.
    labels, unit_mse_with_target : ndarray of shape (n_targets,) or None, default=None
        For whole records, the targets as numbers, and the bound for attacks that guess them too.
    weights : ndarray of shape (n,) or None, default=None
        Sample weights of the records in every fit.
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
    hypotheses: Hypotheses
    noise: NoiseShape
    shapes: "FloatArray | None" = None
    information: ShapedInformation | None = None
    labels: "FloatArray | None" = None
    unit_mse_with_target: "FloatArray | None" = None
    weights: FloatArray | None = None

    def eta(self, noise_scale: float) -> FloatArray:
        """Fisher information loss at a noise scale, of shape (n_targets,); NaN if not known."""
        if self.information is not None:
            return self.information.loss(noise_scale)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.unit_eta > 0.0, self.unit_eta / noise_scale, self.unit_eta)

    def mse(self, noise_scale: float) -> FloatArray:
        """Lower bound on the mean squared error of unbiased attacks at a noise scale."""
        if self.kind == "numeric" and self.information is not None:
            return _inverse_square(self.information.loss(noise_scale))
        return self.unit_mse * noise_scale**2


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
    sample_weight: FloatArray | None = None,
) -> Subject:
    """Fit the model without noise, and learn all that attacks are measured by.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); ``sample_weight`` (n,).
    """
    model = fit_public_model(estimator, table, y, any_covariance=True)
    X = model.transform(table)
    weights = weight_argument(model.template, sample_weight)
    fitted = clone(model.template).fit(X, y, **weights)
    noise = audited_shape(model, fitted, attribute)
    if attribute is None:
        rows = resolve_records(targets, table.shape[0])
        subject = _whole_records(model, X, y, fitted, rows, noise)
        return replace(subject, weights=sample_weight)
    secret = find_secret(table, attribute, values)
    white_box = WhiteBoxAttributeInference(
        estimator,
        attribute,
        values=values,
        prior="uniform" if secret.numeric else prior,
        records=targets,
        refit_preprocessing=refit_preprocessing,
        n_jobs=n_jobs,
    ).fit(table, y, sample_weight=sample_weight)
    rows = white_box.records_
    imputation = ImputationAttack(attribute, values=values, records=targets).fit(table, y)
    shared: dict[str, Any] = {
        "model": model,
        "X": X,
        "y": y,
        "targets": rows,
        "noiseless": model_parameters(fitted),
        "white_box": white_box,
        "secrets": secret.column[rows],
        "noise": noise,
        "weights": sample_weight,
    }
    shaped = white_box._shaped
    if shaped is not None:
        shared["noise"] = noise = shape_of_fit(noise, fitted)
    if secret.numeric:
        mean = PriorAttack(attribute, records=targets).fit(table, y)
        slope = None
        if model.has_closed_form and not refit_preprocessing:
            state = _at_unit_noise(fitted)
            slope = exact_slope(state, model, table, rows, secret.index, secret.column)
        return _quantity(shared, secret.column, mean.predict(), imputation.predict(), slope)
    guess, values_ = imputation.prior_.argmax(axis=1), white_box.values_
    known = _columns_loss(fitted, model, table, rows, secret.index, values_, noise)
    # A secret that is drawn is guessed as often as its prior says.
    everyone, codes = np.arange(len(rows)), secret.codes[rows]
    right = white_box.prior_[everyone, guess] if drawn else guess == codes
    return Subject(
        kind="categorical",
        **shared,
        hypotheses=Hypotheses.near(white_box.encodings_[everyone, codes]),
        **known,
        shapes=None if shaped is None else shaped.shapes,
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
    nodes = shared["white_box"].encodings_
    if slope is None:
        slope = slope_at_truth(nodes, low, high, truth)
    unit_eta = np.sqrt((shared["noise"].whitened(slope) ** 2).sum(axis=1))
    information, shaped = None, shared["white_box"]._shaped
    if shaped is not None:
        change = slope_at_truth(shaped.shapes, low, high, truth)
        root = shared["noise"].matrix_root
        information = ShapedInformation.of_a_quantity(slope, change, root)
        unit_eta = np.full(len(rows), np.nan)
    return Subject(
        kind="numeric",
        **shared,
        hypotheses=Hypotheses.near(*at_truth(nodes, low, high, truth)),
        unit_eta=unit_eta,
        information=information,
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
    # What is fitted has no noise, of any shape.
    state = replace(_at_unit_noise(fitted), noise=noise)
    if isinstance(state.objective, MultinomialObjective):
        raise AttackNotApplicableError(
            f"The model tells {state.objective.n_classes} classes apart; whole records are audited "
            "for two. Name an `attribute`, or make the target binary."
        )
    rows = take_rows(state.objective.X, targets)
    labels = state.objective.y[targets]
    unit_mse, unit_mse_with_target = (
        record_mse(state, targets, private_target=private) for private in (False, True)
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
        noiseless=model_parameters(fitted),
        hypotheses=Hypotheses.near(state.factor.coefficients[None]),
        unit_eta=leakage_model(state).record_loss(state.training.take(targets)),
        unit_mse=unit_mse,
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
        unit_mse_with_target=unit_mse_with_target,
    )


def _columns_loss(
    fitted: Any,
    model: PublicModel,
    table: Any,
    targets: IntArray,
    index: int,
    values: Array,
    noise: NoiseShape,
) -> dict[str, Any]:
    """Fisher information loss of a `Subject`, over the encoded columns of an attribute."""
    not_known = np.full(len(targets), np.nan)
    if not model.has_closed_form:
        return {"unit_eta": not_known}
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
    batch = state.training.take(targets)
    if noise.reads_data:
        information = ShapedInformation.of_columns(state, batch, block)
        return {"unit_eta": not_known, "information": information}
    return {"unit_eta": leakage_model(state).record_loss(batch, block)}


def _at_unit_noise(fitted: Any) -> FitState:
    state: FitState = fitted._confidential_state()
    return state.at_noise(1.0)


def _determination(squared_errors: FloatArray, spread: float) -> float:
    return 1.0 - float(np.mean(squared_errors)) / spread if spread > 0.0 else float("nan")


def _inverse_square(loss: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", over="ignore"):
        return 1.0 / loss**2
