"""Scores of attacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from sklearn.metrics import precision_recall_curve

from skleak.metrics.intervals import ROUND_OFF, mean_interval
from skleak.utils._arguments import (
    as_result,
    check_level,
    check_numbers,
    check_real,
    check_scalar,
    has_missing,
)
from skleak.utils._predictions import (
    check_rows,
    class_probabilities,
    complements,
    label_positions,
    log_probabilities,
    predictions,
    residuals,
    with_unseen,
)
from skleak.utils._typing import Array, FloatArray

# Kinds of labels by NumPy's code; of all others equality alone decides.
KINDS = {**dict.fromkeys("biuf", "numbers"), "U": "strings", "S": "bytes"}


def attack_success(guesses: npt.ArrayLike, secrets: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Outcomes of an attack: which secret was guessed right in which release.

    Parameters
    ----------
    guesses : array-like of shape (n_releases, n_records) or (n_records,)
        Guessed values: numbers, booleans, strings or categories.
    secrets : array-like of shape (n_records,) or (n_releases, n_records)
        True values, the same for all releases or redrawn for each.

    Returns
    -------
    ndarray of bool of shape (n_releases, n_records)
        One release where `guesses` has one axis. ``.mean(axis=1)`` is the success of each
        release, ``.mean(axis=0)`` that of each record; `clustered_interval` takes the table.

    Raises
    ------
    TypeError
        Where guesses and secrets are of different kinds, such as strings and numbers, so that no
        guess could be right.
    ValueError
        For missing values, empty tables or shapes that do not match.

    Examples
    --------
    >>> attack_success([["a", "b"], ["b", "b"]], ["a", "b"])
    array([[ True,  True],
           [False,  True]])
    """
    guessed, true = np.asarray(guesses), np.asarray(secrets)
    for name, array in (("guesses", guessed), ("secrets", true)):
        if array.ndim not in (1, 2) or array.size == 0:
            raise ValueError(
                f"`{name}` must have shape (n_releases, n_records) or (n_records,) and not be "
                f"empty; got shape {array.shape}."
            )
        if has_missing(array):
            raise ValueError(f"`{name}` must not hold missing values; drop those records first.")
    guessed = np.atleast_2d(guessed)
    _check_match("secrets", true, "guesses", guessed)
    guessed_kinds, true_kinds = _kinds(guessed), _kinds(true)
    if guessed_kinds.isdisjoint(true_kinds) and "objects" not in guessed_kinds | true_kinds:
        raise TypeError(
            f"`guesses` hold {_listed(guessed_kinds)} and `secrets` hold {_listed(true_kinds)}: no "
            "guess could be right. Pass both in the encoding of the raw data."
        )
    if "O" in (guessed.dtype.kind, true.dtype.kind):
        guessed, true = _objects(guessed), _objects(true)
    return np.asarray(guessed == true, dtype=bool)


def _objects(array: Array) -> Array:
    """Return dates as objects that are dates: NumPy would make integers of nanoseconds."""
    if array.dtype.kind not in "mM":
        return array
    return np.fromiter(array.ravel(), dtype=object, count=array.size).reshape(array.shape)


def _kinds(array: Array) -> set[str]:
    """Kinds of labels that an array holds; a column of objects may hold several."""
    if array.dtype.kind != "O":
        return {KINDS.get(array.dtype.kind, "objects")}
    types = set(map(type, array.ravel()))
    return {KINDS.get(np.dtype(found).kind, "objects") for found in types}


def _listed(kinds: set[str]) -> str:
    return " and ".join(sorted(kinds))


def squared_errors(estimates: npt.ArrayLike, targets: npt.ArrayLike) -> FloatArray:
    """Mean squared error per coordinate of every reconstruction, ``|z^ - z|^2 / d``.

    Parameters
    ----------
    estimates : array-like of shape (n_releases, n_records) or (n_releases, n_records, d)
        Reconstructed values.
    targets : array-like of shape (n_records[, d]) or (n_releases, n_records[, d])
        True values, the same for all releases or redrawn for each.

    Returns
    -------
    ndarray of shape (n_releases, n_records)
        In squared units of the target ([DRA22] theorem 2 bounds its mean over releases).

    Raises
    ------
    TypeError
        For values that are not numbers.
    ValueError
        For empty, NaN or infinite values, or shapes that do not match.

    Examples
    --------
    >>> squared_errors([[1.0, 2.0], [0.0, 4.0]], [1.0, 1.0])
    array([[0., 1.],
           [1., 9.]])
    """
    return _mean_square(_errors(estimates, targets))


def _errors(estimates: npt.ArrayLike, targets: npt.ArrayLike) -> FloatArray:
    """Signed errors, of the shape of the estimates."""
    guessed = check_numbers("estimates", estimates, finite=True, empty=False)
    true = check_numbers("targets", targets, finite=True, empty=False)
    if guessed.ndim not in (2, 3):
        raise ValueError(
            "`estimates` must have shape (n_releases, n_records) or (n_releases, n_records, d); "
            f"got {guessed.shape}."
        )
    _check_match("targets", true, "estimates", guessed)
    return guessed - true


def _check_match(name: str, true: Array, other: str, guessed: Array) -> None:
    if true.shape not in (guessed.shape, guessed.shape[1:]):
        raise ValueError(
            f"`{name}` must have shape {guessed.shape[1:]} or {guessed.shape} to match `{other}`; "
            f"got {true.shape}."
        )


def _mean_square(errors: FloatArray) -> FloatArray:
    """Mean of the squares over coordinates, where there are any."""
    return errors**2 if errors.ndim == 2 else (errors**2).mean(axis=-1)


@dataclass(frozen=True)
class ErrorDecomposition:
    """Mean squared error of each record, with variance and squared bias apart.

    ``mse = variance + squared_bias`` holds exactly. All are unbiased estimates, so `squared_bias`
    can be slightly negative. ``*_se`` are standard errors over releases.

    Parameters
    ----------
    mse, mse_se : ndarray of shape (n_records,)
        Mean squared error per coordinate, in squared units of the target.
    variance, variance_se : ndarray of shape (n_records,)
        Variance of the error over releases, per coordinate.
    squared_bias, squared_bias_se : ndarray of shape (n_records,)
        Squared mean error, per coordinate.
    bias, bias_se : ndarray of shape (n_records,) or (n_records, d)
        Mean signed error, in units of the target.

    Examples
    --------
    >>> from skleak.metrics import error_decomposition
    >>> result = error_decomposition([[0.0], [1.0], [2.0], [3.0]], [0.0])
    >>> bool(abs(result.mse - result.variance - result.squared_bias)[0] < 1e-12)
    True
    """

    mse: FloatArray
    mse_se: FloatArray
    variance: FloatArray
    variance_se: FloatArray
    squared_bias: FloatArray
    squared_bias_se: FloatArray
    bias: FloatArray
    bias_se: FloatArray


def error_decomposition(estimates: npt.ArrayLike, targets: npt.ArrayLike) -> ErrorDecomposition:
    """Split the mean squared error of each record, over releases, into variance and squared bias.

    The bound of Cramer and Rao for unbiased attacks limits the variance; a biased attack may pass
    below it in mean squared error without contradiction ([DRA22] theorem 2).

    Parameters
    ----------
    estimates : array-like of shape (n_releases, n_records) or (n_releases, n_records, d)
        Reconstructed values, from at least 3 releases.
    targets : array-like of shape (n_records[, d]) or (n_releases, n_records[, d])
        True values, the same for all releases or redrawn for each.

    Returns
    -------
    ErrorDecomposition

    Raises
    ------
    TypeError
        For values that are not numbers.
    ValueError
        For fewer than 3 releases, empty, NaN or infinite values, or shapes that do not match.

    Notes
    -----
    With mean error ``b`` and sample variance ``s^2`` (divisor R - 1) over R releases, the squared
    bias is ``b^2 - s^2 / R``: ``b^2`` alone is too large by the variance of the mean. Standard
    errors of mean squared error, variance and squared bias are those of the jackknife over
    releases: exact for the mean squared error, on the large side for the other two (by a factor of
    up to sqrt(2) where the bias is zero). Assumption: independent, identically distributed noise.
    Holds one copy of the errors: pass blocks of records where d is large.

    Examples
    --------
    >>> result = error_decomposition([[0.0], [1.0], [2.0], [3.0]], [0.0])
    >>> result.mse, result.variance.round(3), result.squared_bias.round(3), result.bias
    (array([3.5]), array([1.667]), array([1.833]), array([1.5]))
    """
    errors = _errors(estimates, targets)
    n = len(errors)
    if n < 3:
        raise ValueError(f"`estimates` must hold at least 3 releases for standard errors; got {n}.")
    bias = errors.mean(axis=0)
    squares = _mean_square(errors)
    deviations = errors - bias
    spread = _mean_square(deviations)
    mse, variance = squares.mean(axis=0), spread.sum(axis=0) / (n - 1)
    # Without release r: (n - 1) s^2 loses n / (n - 1) of its squared deviation.
    left_mse = (n * mse - squares) / (n - 1)
    left_variance = ((n - 1) * variance - n / (n - 1) * spread) / (n - 2)
    return ErrorDecomposition(
        mse=mse,
        mse_se=_jackknife(left_mse),
        variance=variance,
        variance_se=_jackknife(left_variance),
        squared_bias=mse - variance,
        squared_bias_se=_jackknife(left_mse - left_variance),
        bias=bias,
        bias_se=np.sqrt((deviations**2).sum(axis=0) / (n * (n - 1))),
    )


def _jackknife(left_out: FloatArray) -> FloatArray:
    """Jackknife standard error from the estimates with one release left out."""
    return np.sqrt(len(left_out) - 1) * left_out.std(axis=0)


def precision_at_recall(
    scores: npt.ArrayLike,
    membership: npt.ArrayLike,
    recall: npt.ArrayLike = 0.5,
    *,
    prior: float | None = None,
) -> Any:
    """Largest precision of a threshold on scores that finds the wanted share of members.

    Precision is the share of members among the candidates called members, recall the share of
    members that are called so ([BIL23] table 1). An attack that is sure of few records has a
    precision near 1 at a small recall, which its overall success does not show.

    Parameters
    ----------
    scores : array-like of shape (n_candidates,)
        One score for each candidate, larger for those more likely to be members; infinite ones are
        allowed.
    membership : array-like of shape (n_candidates,)
        Who is a member: booleans, or 0 and 1. At least one member and one other.
    recall : float or array-like of shape (...), default=0.5
        Share of the members to be found at least, in (0, 1].
    prior : float, default=None
        Probability that a candidate is a member, in (0, 1), where that differs from the share
        among these candidates: a benchmark of as many members as others makes every attack look
        precise. None takes that share.

    Returns
    -------
    float or ndarray of shape (...)
        In [`prior`, 1]; it does not increase with the recall, and is `prior` at least, since
        whoever calls everybody a member finds all of them.

    Raises
    ------
    TypeError
        For scores or a recall that are not numbers.
    ValueError
        For shapes that do not match, NaN, memberships other than 0 and 1 or all alike, or a recall
        or prior out of range.

    Notes
    -----
    With t the share of members and f the share of others that a threshold calls members, precision
    is ``prior t / (prior t + (1 - prior) f)``. Candidates of equal scores are called together, and
    the best of the thresholds with ``t >= recall`` counts. As it is chosen on the same candidates,
    the result is an optimistic estimate for the attacker with few of them; for an unbiased one,
    find the threshold on other models and count.

    Examples
    --------
    >>> scores = [0.9, 0.8, 0.7, 0.3, 0.2, 0.1]
    >>> membership = [1, 1, 0, 1, 0, 0]
    >>> precision_at_recall(scores, membership, [0.5, 1.0])
    array([1.  , 0.75])

    Among ten times as many others as members, the last would be rarer:

    >>> round(precision_at_recall(scores, membership, 1.0, prior=1 / 11), 4)
    0.2308
    """
    values, member = _check_candidates(scores, membership)
    hint = "Without any candidate called a member no precision is defined."
    wanted = check_real("recall", recall, low_open=True, high=1.0, hint=hint)
    n_members, n_others = int(member.sum()), int((~member).sum())
    odds = n_members / len(member)
    if prior is not None:
        odds = check_scalar("prior", prior, low_open=True, high=1.0, high_open=True)
    weights = np.where(member, odds / n_members, (1.0 - odds) / n_others)
    # Ranks in place of scores, which may be infinite.
    ranks = np.unique(values, return_inverse=True)[1]
    precision, found, _ = precision_recall_curve(member, ranks, sample_weight=weights)
    # The best from the lowest threshold to each; the last point has no threshold.
    best = np.maximum.accumulate(precision[:-1])
    # Up to the round-off of recall.
    enough = np.searchsorted(-found[:-1], -wanted * (1.0 - 1e-12), side="right")
    return as_result(best[enough - 1])


def _check_candidates(
    scores: npt.ArrayLike, membership: npt.ArrayLike
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    values = check_numbers("scores", scores, empty=False)
    member = check_numbers("membership", membership, empty=False)
    if values.ndim != 1 or member.shape != values.shape:
        raise ValueError(
            "`scores` and `membership` must have one entry for each candidate; got shapes "
            f"{values.shape} and {member.shape}."
        )
    if not np.all((member == 0.0) | (member == 1.0)):
        raise ValueError("`membership` must hold True and False, or 1 and 0, and nothing else.")
    if np.all(member == member[0]):
        raise ValueError(
            "`membership` must hold both members and others; got "
            f"{'members' if member[0] else 'others'} only. Add candidates of the other kind."
        )
    return values, member == 1.0


Loss = Callable[[Any, Any, Any], npt.ArrayLike]


def record_losses(model: Any, X: Any, y: Any, loss: str | Loss) -> FloatArray:
    """Losses of single records under a fitted model.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : array-like of shape (n, n_columns)
        Records, as the model takes them.
    y : array-like of shape (n,)
        Their targets, in the coding of the training data.
    loss : {"log_loss", "zero_one", "squared"} or callable
        Name, or a function of model, X and y that returns the losses.

    Returns
    -------
    ndarray of shape (n,)
        A label that the model does not know has a log loss of 708.4, and none is larger.

    Raises
    ------
    ValueError
        For an unknown loss, missing targets, labels of which the model knows none, or a model
        without the method that the loss needs.
    TypeError
        For a squared loss of what is not numbers.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> model = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    >>> record_losses(model, [[0.0], [1.0]], [1.0, 2.0], "squared").round(3)
    array([1., 0.])
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(
            "Targets must have shape (n_records,) with at least one record; got shape "
            f"{labels.shape}. Use `y.ravel()` for a single column."
        )
    if has_missing(labels):
        raise ValueError("Targets must not hold missing values; drop those records first.")
    if loss == "log_loss":
        return _log_losses(model, X, labels)
    if loss == "zero_one":
        predicted = predictions(model, X)
        check_rows(predicted, labels)
        return 1.0 - attack_success(predicted, labels)[0]
    if loss == "squared":
        return residuals(model, X, labels) ** 2
    if not callable(loss):
        raise ValueError(
            "`loss` must be 'log_loss', 'zero_one', 'squared' or a function of model, X and y; "
            f"got {loss!r}."
        )
    losses = check_numbers("loss(model, X, y)", loss(model, X, y), finite=True, empty=False)
    check_rows(losses, labels)
    return losses


def _log_losses(model: Any, X: Any, labels: Array) -> FloatArray:
    p = class_probabilities(model, X)
    check_rows(p[:, 0], labels)
    positions = label_positions(labels, model.classes_)
    p = with_unseen(p, positions)
    rows = np.arange(len(p))
    return -log_probabilities(p[rows, positions], complements(p)[rows, positions])


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
    >>> from skleak.metrics.scores import GeneralizationGap
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
