"""What a release lacks of being a minimiser without the target: the target's own gradient."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from skleak.adversary.hypotheses import PublicModel, dense_table
from skleak.adversary.knowledge import range_of_others, take_rows, widened
from skleak.exceptions import AttackNotApplicableError
from skleak.losses import PointwiseLoss
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray, IntArray


def objective_of(
    model: PublicModel, X: Any, y: Any, sample_weight: FloatArray | None = None
) -> Objective:
    """Training objective on all records, of which the adversary knows all but one.

    Shapes: ``X`` (n, d); ``y`` (n,); ``sample_weight`` (n,).
    """
    if not model.has_closed_form:
        raise AttackNotApplicableError(
            f"The training objective of {type(model.template).__name__} is not known: its "
            "gradient at other records cannot be formed. Pass a private estimator of "
            "skleak.linear_model."
        )
    fitted = clone(model.template).fit(X, y, sample_weight=sample_weight)
    objective: Objective = fitted._confidential_state().objective
    if isinstance(objective, MultinomialObjective):
        raise AttackNotApplicableError(
            f"The model has {objective.n_classes} classes, and a prediction for each: "
            "records are reconstructed from models of one prediction. Use "
            "WhiteBoxAttributeInference or BlackBoxAttributeInference for an attribute, or train "
            "on two classes (one against the others)."
        )
    return objective


def weights_of(objective: Objective, targets: IntArray) -> FloatArray:
    """Weights of some records, of shape (n_targets,); NaN for those that are not in the fit.

    Their gradients leave no trace, and nothing that is derived from one is known.
    """
    weights = objective.weights[targets]
    return np.where(weights > 0.0, weights, np.nan)


@dataclass(frozen=True)
class MissingGradient:
    """The gradient that is missing at a release, for every target."""

    loss: PointwiseLoss  # The loss
    w: FloatArray  # Released parameters, the intercept last where there is one, (n_targets, p)
    y: FloatArray  # Targets, (n_targets,)
    gradient: FloatArray  # ``r x~`` of the target, but for the noise, (n_targets, p)
    # ``H^2 [w_pen, 0]`` and ``H^2 [0, 1]``, with H the Hessian of the others, over the square of
    # the target's weight; with no column where there is no intercept, (n_targets, p)
    image_w: FloatArray
    image_e: FloatArray
    # Range of the predictions of the others, wider by half its width on both sides, (n_targets,)
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, objective: Objective, w: FloatArray, targets: IntArray) -> "MissingGradient":
        """Of all targets at one release: every product with the data is one of matrices.

        Shapes: ``w`` (p,); ``targets`` (n_targets,).
        """
        a = objective.predictor(w)
        total = objective.total * objective.gradient(w, a)
        x = augment(dense_table(take_rows(objective.X, targets)), objective.fit_intercept)
        weight = weights_of(objective, targets)
        y = objective.y[targets]
        r = objective.loss.residual(a[targets], y)
        # What all others leave over: the sum of all gradients less the target's own.
        gradient = r[:, None] * x - total / weight[:, None]
        low, high = (end[targets] for end in range_of_others(a))
        image_w = image_e = np.empty((len(targets), 0))
        if objective.fit_intercept:
            image_w, image_e = _images(objective, w, a, x, targets)
        every = np.broadcast_to(w, gradient.shape)
        return cls(objective.loss, every, y, gradient, image_w, image_e, low, high)

    @classmethod
    def each(cls, objective: Objective, w: FloatArray, targets: IntArray) -> "MissingGradient":
        """Of every target at a release of its own; tables of shape (n, n_targets) are formed.

        Shapes: ``w`` (n_targets, p); ``targets`` (n_targets,).
        """
        n, own = len(objective.y), (targets, np.arange(len(targets)))
        weight = weights_of(objective, targets)[:, None]
        a = _predictors(objective, w)
        residuals = objective.weights[:, None] * objective.loss.residual(a, objective.y[:, None])
        residuals[own] = 0.0
        total = objective.total * objective.penalty
        gradient = -(_transpose_products(objective, residuals) + total * w) / weight
        image_w = image_e = np.empty((len(targets), 0))
        if objective.fit_intercept:
            curvature = objective.weights[:, None] * objective.loss.curvature(a)
            curvature[own] = 0.0

            def once(v: FloatArray) -> FloatArray:
                along = curvature * _predictors(objective, v)
                return (_transpose_products(objective, along) + total * v) / weight

            w_pen, e = w.copy(), np.zeros_like(w)
            w_pen[:, -1], e[:, -1] = 0.0, 1.0
            image_w, image_e = once(once(w_pen)), once(once(e))
        # Any other record in its place: only the range of the others counts.
        a[own] = a[(targets + 1) % n, own[1]]
        low, high = widened(a.min(axis=0), a.max(axis=0))
        y = objective.y[targets]
        return cls(objective.loss, w, y, gradient, image_w, image_e, low, high)


def _predictors(objective: Objective, w: FloatArray) -> FloatArray:
    """``x~_i . w_k``, of shape (n, n_releases)."""
    d = objective.X.shape[1]
    linear = np.asarray(objective.X @ w[:, :d].T)
    return linear + w[:, d] if objective.fit_intercept else linear


def _transpose_products(objective: Objective, values: FloatArray) -> FloatArray:
    """``sum_i values_ik x~_i``, of shape (n_releases, p)."""
    product = np.asarray(objective.X.T @ values)
    return (np.vstack([product, values.sum(axis=0)]) if objective.fit_intercept else product).T


def _images(
    objective: Objective, w: FloatArray, a: FloatArray, x: FloatArray, targets: IntArray
) -> tuple[FloatArray, FloatArray]:
    """``H^2 [w_pen, 0]`` and ``H^2 [0, 1]`` for every target; see `MissingGradient`."""
    weight = weights_of(objective, targets)
    hessian = hessian_of(objective, a)
    own = weight * objective.loss.curvature(a)[targets]
    image = x @ hessian
    norms = np.einsum("ij,ij->i", x, x)

    def twice(v: FloatArray) -> FloatArray:
        """``(H - k x x^T)^2 v / weight^2`` for every target."""
        once = hessian @ v
        along = own * (x @ v)
        back = own * (x @ once - along * norms)
        result = hessian @ once - along[:, None] * image - back[:, None] * x
        return result / weight[:, None] ** 2

    return twice(np.append(w[:-1], 0.0)), twice(np.eye(len(w))[-1])


def hessian_of(objective: Objective, a: FloatArray) -> FloatArray:
    """Return the unnormalised Hessian at predictors ``a`` (n,), of shape (p, p)."""
    x = augment(dense_table(objective.X), True)
    weights = objective.weights * objective.loss.curvature(a)
    hessian = x.T @ (weights[:, None] * x)
    hessian[np.diag_indices_from(hessian)] += objective.total * objective.penalty
    return hessian
