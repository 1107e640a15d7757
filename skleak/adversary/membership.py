"""Signals of membership."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit
from sklearn.base import is_classifier
from sklearn.linear_model import PoissonRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skleak._released import CountRegressionMixin
from skleak.adversary.hypotheses import encoding_error, needs_goal
from skleak.adversary.models import is_model
from skleak.adversary.records import Records
from skleak.exceptions import AttackNotApplicableError
from skleak.losses import LogisticLoss, PoissonLoss, SoftmaxLoss, SquaredLoss
from skleak.utils._arguments import check_numbers, check_real
from skleak.utils._blocks import row_blocks
from skleak.utils._predictions import (
    class_probabilities,
    complements,
    label_positions,
    log_probabilities,
    residuals,
    select_columns,
    with_unseen,
)
from skleak.utils._sklearn_compat import outer_stacklevel, unwrapped
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# How closely the loss that is differentiated must predict like the model itself: single precision.
_AGREEMENT = 1e-4
GradientNorm = Callable[[Any, Any, Any], Any]
RecordScores = Callable[[Any, Any, Any], Any]
# Derivatives of activations as functions of the activation's own value.
_DERIVATIVES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "identity": np.ones_like,
    "logistic": lambda a: a * (1.0 - a),
    "tanh": lambda a: (1.0 - a) * (1.0 + a),
    "relu": lambda a: (a > 0.0).astype(np.float64),
}
# Losses by the activation of the last layer, as scikit-learn calls them.
_LOSSES: dict[str, Any] = {
    "softmax": SoftmaxLoss(),
    "logistic": LogisticLoss(),
    "identity": SquaredLoss(),
    "exp": PoissonLoss(),
}
_ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "identity": lambda z: z,
    "logistic": expit,
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
}


def gradient_norms(model: Any, X: Any, y: Array) -> FloatArray:
    """Euclidean norm of the gradient of every record's own loss in all parameters.

    The loss is the one the model minimizes, without penalty: cross entropy, half the squared
    error, or the Poisson likelihood. Parameters are coefficients and, where fitted, intercepts.

    Shapes: ``X`` (n, ...); ``y`` (n,); returns (n,).

    With predictors ``a = W x + b`` the gradient is the outer product of the loss's derivative in
    ``a`` and ``(x, 1)``, so that its norm is the product of theirs. The same holds for each layer
    of a network, with the layer's input for ``x`` and the derivative propagated back from the last
    layer: no gradient is ever formed. A linear model is a network of one layer.
    """
    X = select_columns(model, X)
    if hasattr(model, "fit"):
        check_is_fitted(model)
    while isinstance(model := unwrapped(model), Pipeline):
        X, model = model[:-1].transform(X) if len(model.steps) > 1 else X, model.steps[-1][1]
    if isinstance(model, MLPClassifier | MLPRegressor):
        weights, intercepts, hidden = model.coefs_, model.intercepts_, model.activation
        link, constant = model.out_activation_, 1.0
    elif hasattr(model, "coef_"):
        weights = [np.atleast_2d(np.asarray(model.coef_, dtype=np.float64)).T]
        intercepts, hidden = [np.ravel(getattr(model, "intercept_", 0.0))], "identity"
        link = _link_of_linear_model(model, weights[0].shape[1])
        # A release says by an intercept of exactly zero that it has none.
        constant = float(bool(getattr(model, "fit_intercept", np.any(intercepts[0]))))
    else:
        raise _not_applicable(model, "it is neither a linear model nor a multi-layer perceptron")
    if weights[-1].shape[1] > 1 and link != "softmax":
        raise _not_applicable(model, "it has several targets")
    answers = np.asarray((getattr(model, "predict_proba", None) or model.predict)(X))
    # As floats, dense or CSR, once the model itself has accepted them.
    X = check_array(select_columns(model, X), accept_sparse="csr", dtype=np.float64)
    target = _class_codes(model, y) if hasattr(model, "classes_") else numbers_of(y)
    squares = np.empty(X.shape[0])
    for rows in row_blocks(X.shape[0], sum(w.shape[1] for w in weights)):
        inputs = [X[rows]]
        for w, b in zip(weights, intercepts, strict=True):
            z = np.asarray(inputs[-1] @ w + b)
            inputs.append(_ACTIVATIONS[hidden](z))
        loss, z = _LOSSES[link], z if link == "softmax" else z[:, 0]
        _check_link(model, loss.inverse_link(z), answers[rows])
        delta = loss.residual(z, target[rows]).reshape(len(z), -1)
        squares[rows] = (constant + _squared_lengths(inputs[-2])) * _squared_lengths(delta)
        for layer in range(len(weights) - 1, 0, -1):
            delta = (delta @ weights[layer].T) * _DERIVATIVES[hidden](inputs[layer])
            squares[rows] += (1.0 + _squared_lengths(inputs[layer - 1])) * _squared_lengths(delta)
    return np.sqrt(squares)


def _link_of_linear_model(model: Any, n_outputs: int) -> str:
    if hasattr(model, "predict_proba"):
        return "softmax" if n_outputs > 1 else "logistic"
    if hasattr(model, "classes_"):
        raise _not_applicable(model, "it has no probabilities")
    return "exp" if isinstance(model, PoissonRegressor | CountRegressionMixin) else "identity"


def _check_link(model: Any, own: FloatArray, answers: Array) -> None:
    """Check that the loss that is differentiated predicts as the model itself does."""
    classifier = hasattr(model, "predict_proba")
    if classifier and own.ndim == 1:
        own = np.column_stack([1.0 - own, own])
    answers = answers if classifier else answers.ravel()
    if answers.shape != own.shape or not np.allclose(answers, own, _AGREEMENT, 0.1 * _AGREEMENT):
        why = "its probabilities are no logistic or softmax function"
        why = why if classifier else "it predicts by another link function"
        raise _not_applicable(model, why)


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


def _not_applicable(model: Any, why: str) -> AttackNotApplicableError:
    return AttackNotApplicableError(
        f"Gradients of {type(model).__name__} are not known in closed form: {why}. Pass a function "
        "`gradient_norm(model, X, y)` to the attack, or use another score or criterion."
    )


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


def numbers_of(y: Array) -> FloatArray:
    """Targets of a regression as floats; strings of digits are none."""
    strings = y.dtype.kind in "USmM" or (
        y.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in y)
    )
    if strings:
        raise TypeError(
            f"The targets of a regression must be numbers; got dtype {y.dtype}. "
            "Convert them, or attack a classifier."
        )
    return check_numbers("y", y, finite=True)


def check_coding(y: Array, classes: Any) -> None:
    """Warn where labels look coded in another way than the classes of a model.

    A label that a model has not seen is no fault, nor is a class of which there is no candidate;
    the two together are what -1 and 1 in place of 0 and 1 look like.

    Shapes: ``y`` (n,); ``classes`` (n_classes,).
    """
    own, known = set(y.tolist()), set(np.asarray(classes).tolist())
    if own - known and known - own:
        unseen, missing = len(own - known), len(known - own)
        warnings.warn(
            f"The model knows {unseen} labels of the candidates not, and there is no candidate of "
            f"{missing} of its classes. Unseen labels have probability 0: where the two stand "
            "for one another, recode the labels as in the training data.",
            UserWarning,
            stacklevel=outer_stacklevel(),
        )


def released_models(released: Any) -> tuple[list[Any], bool]:
    """Models under attack, and whether a single one was given."""
    if _answers(released):
        return [released], True
    models = list(released) if isinstance(released, list | tuple) else [released]
    for model in models:
        if not _answers(model):
            raise TypeError(
                "`released` must be a fitted model or a list of them; got "
                f"{type(model).__name__}. Put parameters into a model that predicts with them."
            )
    if not models:
        raise ValueError("`released` is an empty list; pass at least one fitted model.")
    return models, False


def _answers(model: Any) -> bool:
    """Return True if an object can be asked about records, and is no class of such objects."""
    return not isinstance(model, type) and (is_model(model) or hasattr(model, "predict_proba"))


def as_membership(truth: Any, shape: tuple[int, ...]) -> IntArray:
    """Truth of every pair of model and candidate, 1 for members, of the shape of the guesses."""
    members = np.asarray(truth)
    if members.shape not in (shape, shape[-1:]):
        raise ValueError(
            f"`truth` must have one entry for each of the {shape[-1]} candidates, shape "
            f"{shape[-1:]}{f' or {shape}' if len(shape) == 2 else ''}; got {members.shape}."
        )
    if not np.all((members == 0) | (members == 1)):
        raise ValueError("`truth` must hold 1 for members and 0 for others, or booleans.")
    return np.broadcast_to(members.astype(np.intp), shape)


def removal_obstacle(model: Any, y: Any) -> str:
    """Say why it is not known what a model would release without a record; empty where it is.

    Known are the two Gaussian laws of output perturbation with isotropic noise, without a
    reweighting and with one prediction for each record. ``y`` of shape (n,) holds the targets as
    the user passes them; the model need not be fitted.
    """
    if not hasattr(model, "_confidential_state"):
        return f"the training objective and the noise of {type(model).__name__} are not known"
    if needs_goal(model):
        return "the noise is not on the minimizer, and the law of the coefficients is not known"
    if model.reweighting is not None:
        return "a reweighting makes the weights of all records change with each"
    covariance = model.noise_covariance
    if not (isinstance(covariance, str) and covariance == "isotropic"):
        return "the noise has a `noise_covariance`"
    if is_classifier(model):
        declared = getattr(model, "classes", None)
        labels = np.ravel(np.asarray(y if declared is None else declared))
        n_classes = len(set(labels.tolist()))
        if n_classes > 2:
            return f"the model has {n_classes} classes"
    return ""


Statistic = Literal["loss", "likelihood", "modified_entropy", "gradient_norm"]
_LARGEST = np.finfo(np.float64).max
# Keeps `prior * (n_reference + 1)` from falling below a whole number by round-off.
_ROUND_OFF = 1e-12


def is_probabilistic(model: Any) -> bool:
    """Return True if a model gives probabilities of classes; else it is a regressor."""
    if hasattr(model, "predict_proba"):
        return True
    if hasattr(model, "classes_"):
        raise AttackNotApplicableError(
            f"{type(model).__name__} is a classifier without `predict_proba`, which this statistic "
            "needs. Attack a model that answers with probabilities, for instance one wrapped in "
            "CalibratedClassifierCV."
        )
    return False


def record_scores(
    model: Any,
    X: Any,
    y: Array,
    statistic: Statistic | RecordScores | None,
    *,
    strict: bool = True,
    reference: Records | None = None,
    gradient_norm: GradientNorm | None = None,
) -> FloatArray:
    """Scores of some records under one model.

    Without a statistic the log odds of the true label, and the residual of a regressor. A model
    that has seen none of the labels is an error, unless not `strict`.

    Shapes: ``X``, ``y`` (n, ...); returns (n,).
    """
    if callable(statistic):
        scores = np.asarray(statistic(model, select_columns(model, X), y), dtype=np.float64)
        scores = np.where(np.isfinite(scores), scores, np.nan)
    elif statistic == "gradient_norm":
        scores = -norms_by(gradient_norm, model, X, y)
    elif is_probabilistic(model):
        scores = _scores_of_labels(model, X, y, statistic, strict)
    else:
        scores = _scores_of_residuals(model, X, y, statistic, reference)
    if scores.shape != y.shape or np.any(np.isnan(scores)):
        raise ValueError(
            f"There must be one score, a finite number, for each of the {len(y)} records under "
            f"{type(model).__name__}; got shape {scores.shape}, {np.sum(np.isnan(scores))} of "
            "them not finite."
        )
    return scores


def _scores_of_labels(
    model: Any, X: Any, y: Array, statistic: Statistic | None, strict: bool
) -> FloatArray:
    """Scores (n,) of records under a classifier.

    An unseen label has probability 0. A logarithm of 0 counts as -708.4, that of the smallest
    normal float, but in log odds.
    """
    p = class_probabilities(model, X)
    if not strict and set(np.asarray(model.classes_).tolist()).isdisjoint(y.tolist()):
        return np.full(len(p), -np.inf)
    positions = label_positions(y, model.classes_)
    if strict:
        check_coding(y, model.classes_)
    if len(positions) != len(p):
        return p[:, 0]  # of another shape than y, which the caller tells
    p = with_unseen(p, positions)
    q, rows = complements(p), np.arange(len(p))
    own, rest = p[rows, positions], q[rows, positions]
    if statistic == "likelihood":
        return own
    if statistic is None:
        with np.errstate(divide="ignore"):
            return np.log(own) - np.log(rest)
    loss = log_probabilities(own, rest)
    if statistic == "loss":
        return loss
    others = p * log_probabilities(q, p)
    others[rows, positions] = 0.0
    return rest * loss + others.sum(axis=1)


def _scores_of_residuals(
    model: Any, X: Any, y: Array, statistic: Statistic | None, reference: Records | None
) -> FloatArray:
    """Scores (n,) of records under a regressor; a likelihood by residuals of reference records."""
    if statistic == "modified_entropy":
        raise AttackNotApplicableError(
            f"The modified entropy needs class probabilities; {type(model).__name__} is a "
            "regressor. Use statistic='loss', 'likelihood' or 'gradient_norm'."
        )
    errors = residuals(model, X, y)
    if statistic is None:
        return errors
    with np.errstate(over="ignore"):
        if statistic == "loss":
            return -(errors**2)
        spread = errors if reference is None else residuals(model, reference.X, reference.y)
        scale = float(np.sqrt(np.mean(spread**2)))
        scale = min(max(scale, np.sqrt(np.finfo(float).tiny)), np.sqrt(_LARGEST))
        return np.exp(-0.5 * (errors / scale) ** 2) / (scale * np.sqrt(2.0 * np.pi))


@dataclass(frozen=True)
class PairTest:
    """Models with and without each candidate, given all other memberships. Confidential."""

    own: FloatArray  # parameters without noise on the members, (p,)
    # Parameters without the candidate, minus those with it, (n_targets, p). One of the two is
    # `own`; infinite where the other does not exist, and the release itself tells.
    steps: FloatArray
    member: BoolArray  # whether `own` is the one with the candidate, (n_targets,)

    @property
    def distances(self) -> FloatArray:
        """Euclidean distances of the two, of shape (n_targets,)."""
        return np.asarray(np.linalg.norm(self.steps, axis=1))

    def separations(self, noise_scale: float) -> FloatArray:
        """Distances over the noise, of shape (n_targets,)."""
        if noise_scale > 0.0:
            return self.distances / noise_scale
        return np.where(self.distances > encoding_error(self.own), np.inf, 0.0)

    def log_odds(self, released: FloatArray, noise_scale: Any, prior: float) -> FloatArray:
        """Log posterior odds of membership from released parameters, (..., n_targets).

        Shapes: ``released`` (..., p), or (n_releases, n_targets, p) of each target its own;
        ``noise_scale`` (...).
        """
        defined = np.isfinite(self.distances)
        steps = np.where(defined[:, None], self.steps, 0.0)
        # Measured from the minimizer: the difference of two squared norms would lose all digits.
        gaps = self.own - released
        along = np.einsum("rtp,tp->rt", gaps, steps) if gaps.ndim == 3 else gaps @ steps.T
        half = np.where(self.member, 0.5, -0.5) * (steps**2).sum(axis=1)
        noise = np.maximum(noise_scale, encoding_error(self.own))[..., None]
        # The square of the noise may overflow.
        odds = (along + half) / noise / noise + np.log(prior) - np.log1p(-prior)
        return np.where(defined, odds, np.where(self.member, np.inf, -np.inf))


def score_limit(scores: FloatArray) -> float:
    """Return the score that stands for infinite log odds: above all finite ones by log 2.

    Shapes: ``scores`` (n_models, n_targets).

    A forest of 100 trees answers 0 or 1 where the next answer is 0.01 or 0.99: that is about
    half of it, and no certainty.
    """
    inside = np.abs(scores[np.isfinite(scores)])
    return float(inside.max(initial=1.0) + np.log(2.0))


def finite(scores: FloatArray) -> FloatArray:
    """Infinite scores as the largest floats, so that they can be ranked and plotted."""
    return np.clip(scores, -_LARGEST, _LARGEST)


def reference_rank(prior: float, n_reference: int) -> int:
    """Return the rank, from the largest, of the reference score that a member must exceed."""
    rank = int(np.floor(prior * (n_reference + 1) * (1.0 + _ROUND_OFF)))
    if rank < 1:
        raise ValueError(
            f"A threshold calibrated to `prior={prior:g}` needs at least "
            f"{int(np.ceil(1.0 / prior * (1.0 - _ROUND_OFF))) - 1} reference records; got "
            f"{n_reference}. Pass more, or a float as `threshold`."
        )
    return min(rank, n_reference)


def calibrated_threshold(scores: FloatArray, prior: float) -> float:
    """Least float above the reference score of `reference_rank`: ties with it are no members."""
    place = len(scores) - reference_rank(prior, len(scores))
    return float(np.nextafter(np.partition(scores, place)[place], np.inf))


def check_rate(false_positive_rate: npt.ArrayLike) -> FloatArray:
    """One rate, of shape (), or several, of shape (k,), in [0, 1]."""
    rate = check_real("false_positive_rate", false_positive_rate, high=1.0)
    if rate.ndim > 1:
        raise ValueError(f"`false_positive_rate` must be one rate or a row; got {rate.shape}.")
    return rate
