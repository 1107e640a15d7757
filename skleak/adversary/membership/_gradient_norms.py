"""Norm of the gradient of each record's loss in the parameters of a fitted model."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import PoissonRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skleak._released import CountRegressionMixin
from skleak.exceptions import AttackNotApplicableError
from skleak.losses import LogisticLoss, PoissonLoss, SoftmaxLoss, SquaredLoss
from skleak.utils._blocks import row_blocks
from skleak.utils._predictions import label_positions, select_columns
from skleak.utils._typing import Array, FloatArray

# How closely the loss that is differentiated must predict like the model itself: single precision.
_AGREEMENT = 1e-4

GradientNorm = Callable[[Any, Any, Any], Any]

# Derivatives of activations as functions of the activation's own value.
_DERIVATIVES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "identity": np.ones_like,
    "logistic": lambda a: a * (1.0 - a),
    "tanh": lambda a: (1.0 - a) * (1.0 + a),
    "relu": lambda a: (a > 0.0).astype(np.float64),
}
_ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "identity": lambda z: z,
    "logistic": expit,
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
}


def gradient_norms(model: Any, X: Any, y: Array) -> FloatArray:
    """Euclidean norm of the gradient of every record's own loss in all parameters.

    The loss is the one the model minimises, without penalty: cross entropy, half the squared
    error, or the Poisson likelihood. Parameters are coefficients and, where fitted, intercepts.

    Shapes: ``X`` (n, ...); ``y`` (n,); returns (n,).

    With predictors ``a = W x + b`` the gradient is the outer product of the loss's derivative in
    ``a`` and ``(x, 1)``, so that its norm is the product of theirs. The same holds for each layer
    of a network, with the layer's input for ``x`` and the derivative propagated back from the last
    layer: no gradient is ever formed.
    """
    X = select_columns(model, X)
    if hasattr(model, "fit"):
        check_is_fitted(model)
    while isinstance(model := unwrapped(model), Pipeline):
        X, model = model[:-1].transform(X) if len(model.steps) > 1 else X, model.steps[-1][1]
    if isinstance(model, MLPClassifier | MLPRegressor):
        return _of_network(model, X, y)
    if hasattr(model, "coef_"):
        return _of_linear_model(model, X, y)
    raise _not_applicable(model, "it is neither a linear model nor a multi-layer perceptron")


def norms_by(function: GradientNorm | None, model: Any, X: Any, y: Array) -> FloatArray:
    """Norms by a function of the user's, checked, or in closed form where there is none.

    Returns (n,).
    """
    if function is None:
        return gradient_norms(model, X, y)
    norms = np.asarray(function(model, select_columns(model, X), y), dtype=np.float64)
    if norms.shape != y.shape or not np.all(norms >= 0.0):
        raise ValueError(
            "`gradient_norm` must return a norm, not negative and not NaN, for each of the "
            f"{len(y)} records; got shape {norms.shape}, least value {np.min(norms)}."
        )
    return norms


def unwrapped(model: Any) -> Any:
    """Return the model inside a search over parameters or a frozen estimator, where it is one."""
    while isinstance(model, FrozenEstimator) or hasattr(model, "best_estimator_"):
        model = getattr(model, "best_estimator_", None) or model.estimator
    return model


def _not_applicable(model: Any, why: str) -> AttackNotApplicableError:
    return AttackNotApplicableError(
        f"Gradients of {type(model).__name__} are not known in closed form: {why}. Pass a function "
        "`gradient_norm(model, X, y)` to the attack, or use another score or criterion."
    )


def _matrix(model: Any, X: Any) -> Any:
    """Return the records as floats, dense or CSR, once the model itself has accepted them."""
    return check_array(select_columns(model, X), accept_sparse="csr", dtype=np.float64)


def _squared_lengths(X: Any) -> FloatArray:
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X)


def _class_codes(model: Any, y: Array) -> FloatArray:
    codes = label_positions(y, model.classes_)
    unseen = np.flatnonzero(codes < 0)
    if len(unseen):
        raise AttackNotApplicableError(
            f"The model has never seen the label of the record at position {unseen[0]}, whose loss "
            f"has no gradient. Drop these {len(unseen)} records, or use another score, for which "
            "its probability is 0."
        )
    return codes.astype(np.float64)


def _numbers(y: Array) -> FloatArray:
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"The targets of a regression must be numbers; got dtype {y.dtype}."
        ) from error


def _of_linear_model(model: Any, X: Any, y: Array) -> FloatArray:
    predicted = np.asarray((getattr(model, "predict_proba", None) or model.predict)(X))
    X = _matrix(model, X)
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    a = np.asarray(X @ coef.T + np.ravel(getattr(model, "intercept_", 0.0)))
    if hasattr(model, "predict_proba"):
        residual = _classification_residual(model, a, predicted, y)
    elif hasattr(model, "classes_"):
        raise _not_applicable(model, "it has no probabilities")
    else:
        residual = _regression_residual(model, a, predicted, _numbers(y))
    # A release says by an intercept of exactly zero that it has none.
    has_intercept = getattr(model, "fit_intercept", np.any(getattr(model, "intercept_", 0.0)))
    return np.sqrt(_squared_lengths(X) + float(bool(has_intercept))) * _lengths(residual)


def _lengths(rows: FloatArray) -> FloatArray:
    return np.abs(rows) if rows.ndim == 1 else np.sqrt(_squared_lengths(rows))


def _classification_residual(model: Any, a: FloatArray, p: FloatArray, y: Array) -> FloatArray:
    """Return the derivative of the cross entropy, of shape (n,) or (n, n_classes)."""
    codes = _class_codes(model, y)
    binary = a.shape[1] == 1
    a = a[:, 0] if binary else a
    own = LogisticLoss().inverse_link(a) if binary else SoftmaxLoss().inverse_link(a)
    expected = np.column_stack([1.0 - own, own]) if binary else own
    if p.shape != expected.shape or not np.allclose(p, expected, _AGREEMENT, 0.1 * _AGREEMENT):
        raise _not_applicable(model, "its probabilities are no logistic or softmax function")
    return LogisticLoss().residual(a, codes) if binary else SoftmaxLoss().residual(a, codes)


def _regression_residual(
    model: Any, a: FloatArray, predicted: FloatArray, y: FloatArray
) -> FloatArray:
    """Differentiate half the squared error or the Poisson likelihood, of shape (n,)."""
    if a.shape[1] != 1:
        raise _not_applicable(model, "it has several targets")
    counts = isinstance(model, PoissonRegressor | CountRegressionMixin)
    loss = PoissonLoss() if counts else SquaredLoss()
    if not np.allclose(predicted.ravel(), loss.inverse_link(a[:, 0]), _AGREEMENT, 0.1 * _AGREEMENT):
        raise _not_applicable(model, "it predicts by another link function")
    return loss.residual(a[:, 0], y)


def _of_network(model: Any, X: Any, y: Array) -> FloatArray:
    model.predict(X[:1])
    X = _matrix(model, X)
    n_outputs = np.shape(model.coefs_[-1])[1]
    if n_outputs > 1 and model.out_activation_ != "softmax":
        raise _not_applicable(model, "it has several targets")
    target = _class_codes(model, y) if hasattr(model, "classes_") else _numbers(y)
    width = sum(np.shape(weights)[1] for weights in model.coefs_)
    squares = np.empty(X.shape[0])
    for rows in row_blocks(X.shape[0], width):
        squares[rows] = _squared_network_gradients(model, X[rows], target[rows])
    return np.sqrt(squares)


def _squared_network_gradients(model: Any, X: Any, y: FloatArray) -> FloatArray:
    """Squared norms by backpropagation, from the last layer to the first."""
    activate, derivative = _ACTIVATIONS[model.activation], _DERIVATIVES[model.activation]
    inputs, last = [X], len(model.coefs_) - 1
    for layer, (weights, intercept) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        z = np.asarray(inputs[-1] @ weights + intercept)
        if layer < last:
            inputs.append(activate(z))
    delta = _output_residual(model.out_activation_, z, y)
    squares = np.zeros(len(delta))
    for layer in range(last, -1, -1):
        squares += (1.0 + _squared_lengths(inputs[layer])) * _squared_lengths(delta)
        if layer:
            delta = (delta @ model.coefs_[layer].T) * derivative(inputs[layer])
    return squares


def _output_residual(activation: str, z: FloatArray, y: FloatArray) -> FloatArray:
    """Return the derivative of the loss in the last layer's predictors, of shape (n, n_outputs)."""
    if activation == "softmax":
        return SoftmaxLoss().residual(z, y)
    losses = {"logistic": LogisticLoss(), "identity": SquaredLoss(), "exp": PoissonLoss()}
    return losses[activation].residual(z[:, 0], y)[:, None]
