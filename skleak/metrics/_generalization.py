"""How much worse a model does on fresh records than on those it was trained on."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from skleak.metrics._intervals import ROUND_OFF, mean_interval
from skleak.metrics._record_losses import Loss, record_losses
from skleak.utils._arguments import check_level
from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class GeneralizationGap:
    """Mean loss on fresh records minus mean loss on training records, with its interval.

    Parameters
    ----------
    gap : float
        ``test_loss - train_loss``, in units of the loss.
    low, high : float
        Ends of the confidence interval, ``low <= gap <= high``; infinite where the data say
        nothing of their own error.
    train_loss : float
        Mean loss of the training records.
    test_loss : float
        Mean loss of the fresh records.

    Examples
    --------
    >>> from skleak.metrics import GeneralizationGap
    >>> result = GeneralizationGap(gap=0.5, low=0.4, high=0.6, train_loss=0.0, test_loss=0.5)
    >>> result.test_loss - result.train_loss == result.gap
    True
    """

    gap: float
    low: float
    high: float
    train_loss: float
    test_loss: float


def generalization_gap(
    model: object,
    X_train: npt.ArrayLike,
    y_train: npt.ArrayLike,
    X_test: npt.ArrayLike,
    y_test: npt.ArrayLike,
    loss: str | Loss = "log_loss",
    confidence_level: float = 0.95,
    *,
    loss_range: tuple[float, float] | None = None,
) -> GeneralizationGap:
    """Compute by how much the mean loss on fresh records exceeds that on training records.

    A gap tells members from non-members: `skleak.bounds.membership_lower_bound_bounded` turns one
    into an advantage that some membership attack reaches ([BIL23] theorem 2).

    Parameters
    ----------
    model : estimator
        Fitted on the training records; pipelines and released models too.
    X_train : array-like, DataFrame or sparse matrix of shape (n_train, n_features)
        Records the model was trained on, or a random sample of them.
    y_train : array-like of shape (n_train,)
        Their targets or labels.
    X_test : array-like, DataFrame or sparse matrix of shape (n_test, n_features)
        Fresh records of the same population.
    y_test : array-like of shape (n_test,)
        Their targets or labels.
    loss : {"log_loss", "zero_one", "squared"} or callable, default="log_loss"
        Cross entropy of the true label in nats (708.4 where its probability is zero, as of a label
        the model has never seen), 1 for a wrong prediction, or squared error. A callable takes
        ``model, X, y`` and returns finite losses of shape (n_records,).
    confidence_level : float, default=0.95
        Probability that the interval holds the gap, in (0, 1).
    loss_range : tuple (low, high), default=None
        Least and largest possible loss, where they are known; (0, 1) of ``"zero_one"`` is.

    Returns
    -------
    GeneralizationGap

    Raises
    ------
    TypeError
        For a squared error of labels, or labels of another kind than the predictions.
    ValueError
        For an unknown loss, missing targets, labels of which the model knows none, a model without
        what the loss needs, losses outside `loss_range` or a level outside (0, 1).

    Notes
    -----
    Assumptions: fresh records are independent and identically distributed and the model has not
    seen them, so that their losses are independent given the model.

    The interval holds, with the stated probability, the gap of this model: its expected loss on
    a fresh record, minus its mean loss over all training records. Where `X_train` holds all of
    them, the training loss is known exactly and its part of the width is spare; where it holds a
    random sample, that sampling error is covered too. It does not cover the spread between models
    trained on different data: for the *expected* gap of a training method, average over models.

    With a known range (Gaffke's interval of `mean_interval` for each mean, at half the error
    each) nothing else is assumed; otherwise it is Welch's, which needs means that are near normal.
    A training loss without any spread, such as zero everywhere, is then taken as exact. Log losses
    have long tails: a confident mistake that no test record shows is missed.

    Examples
    --------
    A tree that learns its labels by heart:

    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 3)), rng.integers(0, 2, size=400)
    >>> tree = DecisionTreeClassifier(random_state=0).fit(X[:200], y[:200])
    >>> result = generalization_gap(tree, X[:200], y[:200], X[200:], y[200:], loss="zero_one")
    >>> round(result.gap, 3), round(result.low, 2), round(result.high, 2)
    (0.535, 0.43, 0.62)

    With high confidence, then, some attack on it has an advantage of at least

    >>> from skleak.bounds import membership_lower_bound_bounded
    >>> round(membership_lower_bound_bounded(max(result.low, 0.0), 1.0), 2)
    0.43
    """
    level = check_level(confidence_level)
    train = record_losses(model, X_train, y_train, loss)
    test = record_losses(model, X_test, y_test, loss)
    if loss == "zero_one" and loss_range is None:
        loss_range = (0.0, 1.0)
    train_loss, test_loss = float(train.mean()), float(test.mean())
    gap = test_loss - train_loss
    if loss_range is None:
        half = _welch_half_width(train, test, level)
        low, high = gap - half, gap + half
    else:
        # Each mean is missed with at most half of the allowed probability.
        each = 0.5 * (1.0 + level)
        _, train_low, train_high = mean_interval(train, None, each, value_range=loss_range)
        _, test_low, test_high = mean_interval(test, None, each, value_range=loss_range)
        low, high = test_low - train_high, test_high - train_low
    return GeneralizationGap(gap, min(low, gap), max(high, gap), train_loss, test_loss)


def _welch_half_width(train: FloatArray, test: FloatArray, level: float) -> float:
    """Half width of Welch's interval; infinite where fresh losses show no spread."""
    if len(train) < 2 or len(test) < 2 or test.std() <= ROUND_OFF * np.abs(test).max():
        return float("inf")
    # A training loss without spread is no defect: a model may fit all its records exactly.
    sizes = np.array([len(train), len(test)], dtype=float)
    parts = np.array([train.var(ddof=1), test.var(ddof=1)]) / sizes
    weights = parts / parts.sum()
    freedom = 1.0 / np.sum(weights**2 / (sizes - 1.0))
    quantile = stats.t.isf(0.5 * (1.0 - level), freedom)
    return float(quantile * np.sqrt(parts.sum()))
