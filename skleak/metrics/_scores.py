"""Scores of attacks: success, advantage, and errors of numeric reconstructions."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.metrics._intervals import Interval
from skleak.utils._arguments import (
    SUM_TOLERANCE,
    as_result,
    broadcast,
    check_in_range,
    check_numbers,
    has_missing,
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


def prior_success(prior: npt.ArrayLike) -> Any:
    """Success probability of the best guess without a release: the largest prior probability.

    Parameters
    ----------
    prior : int or array-like of shape (..., n_values)
        Probabilities of the secret's values along the last axis, one row per record where the
        prior is conditional; an integer M is the uniform prior on M values.

    Returns
    -------
    float or ndarray of shape (...)
        ``p*`` of [FANO23] eq. 1, in (0, 1].

    Raises
    ------
    TypeError
        For a number that is not an integer.
    ValueError
        For negative entries, a sum other than 1, NaN, or an integer below 1.

    Examples
    --------
    >>> prior_success([0.367, 0.339, 0.294])
    0.367
    >>> prior_success([[0.5, 0.5], [0.9, 0.1]])
    array([0.5, 0.9])
    >>> prior_success(4)
    0.25
    """
    if isinstance(prior, Integral) and not isinstance(prior, bool):
        if prior < 1:
            raise ValueError(
                f"`prior` given as a number of values must be at least 1; got {prior}."
            )
        return 1.0 / int(prior)
    if np.ndim(prior) == 0:
        raise TypeError(
            "`prior` must be an integer M (uniform on M values) or an array of probabilities; got "
            f"{prior!r}."
        )
    p = check_in_range("prior", prior, empty=False)
    total = p.sum(axis=-1)
    worst = total.flat[np.abs(total - 1.0).argmax()]
    if abs(worst - 1.0) > SUM_TOLERANCE:
        raise ValueError(
            f"`prior` must sum to 1; got {worst:g}. Pass counts through `prior / prior.sum()`."
        )
    return as_result(p.max(axis=-1))


def attack_advantage(success: npt.ArrayLike | Interval, baseline: npt.ArrayLike | Interval) -> Any:
    """Advantage over a baseline, ``(success - baseline) / (1 - baseline)`` ([FANO23] eq. 1).

    0 for an attack as good as the baseline, 1 for certainty, negative for a worse one.

    Parameters
    ----------
    success : array-like of shape (...) or Interval
        Success probability of the attack, in [0, 1].
    baseline : array-like of shape (...) or Interval
        What is reached without the model, in [0, 1): `prior_success`, or the success of an
        imputation attack.

    Returns
    -------
    float, ndarray of shape (...) or Interval
        An `Interval` where either argument is one.

    Raises
    ------
    TypeError
        For arguments that are not numbers.
    ValueError
        For probabilities outside their range, a baseline of 1, or shapes that do not match.

    Notes
    -----
    The advantage rises with success and falls with the baseline, so intervals are carried through
    by their ends: exactly for a known baseline. For two intervals that each hold with probability
    ``1 - a`` the result holds with at least ``1 - 2a``, however dependent they are: take both at
    ``simultaneous_confidence_level(level, 2)``.

    Examples
    --------
    >>> attack_advantage([0.5, 0.75, 1.0], 0.5)
    array([0. , 0.5, 1. ])
    >>> attack_advantage(Interval(0.75, 0.5, 1.0), 0.5)
    Interval(estimate=0.5, low=0.0, high=1.0)
    """
    if not (isinstance(success, Interval) or isinstance(baseline, Interval)):
        return as_result(_advantage(success, baseline))
    won = success if isinstance(success, Interval) else Interval(success, success, success)
    base = baseline if isinstance(baseline, Interval) else Interval(baseline, baseline, baseline)
    return Interval(
        as_result(_advantage(won.estimate, base.estimate)),
        as_result(_advantage(won.low, base.high, certain=-np.inf)),
        as_result(_advantage(won.high, base.low)),
    )


def _advantage(
    success: npt.ArrayLike, baseline: npt.ArrayLike, certain: float | None = None
) -> FloatArray:
    """Compute the advantage; `certain` is its value at a baseline of 1, None to refuse that."""
    s = check_in_range("success", success, empty=False)
    b = check_in_range("baseline", baseline, empty=False)
    if certain is None and np.any(b == 1.0):
        raise ValueError(
            "`baseline` must be below 1; got 1: the secret is known without the model, so no "
            "advantage is defined. Drop such targets."
        )
    s, b = broadcast(success=s, baseline=b)
    rest = np.where(b == 1.0, 1.0, 1.0 - b)
    return np.where(b == 1.0, certain or 0.0, (s - b) / rest)


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
