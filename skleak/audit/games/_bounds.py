"""Upper bounds on the success of any attack, for every record, as the auditor names them."""

from collections.abc import Iterator, Sequence

import numpy as np

from skleak.bounds import tradeoff_advantage
from skleak.channels import GaussianChannel, UnequalGaussianChannel
from skleak.exceptions import AttackNotApplicableError
from skleak.plotting.labels import BOUNDS
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import BoolArray, FloatArray, IntArray

__all__ = ["BOUNDS", "check_bounds", "success_bounds"]

# They read distances in units of one noise, and do not exist where every value has its own.
_OF_EQUAL_NOISE = ("tradeoff", "gdp")
# Rows of a table of bounds that are held at once.
_ROWS = 1 << 17
# Entries of the maps between the covariances of one block of records: 32 MB.
_MAPS = 1 << 22
# Standard error of quasi Monte Carlo for a single record; the mean over n needs less of each.
_TOLERANCE = 2e-5
MOST_TOLERANCE = 1e-3
# Nothing is left to bound where the prior is this certain.
_CERTAIN = 1.0 - 1e-12


def check_bounds(bounds: "str | Sequence[str]", *, equal_noise: bool = True) -> tuple[str, ...]:
    """Names of the bounds to compute, in the order of the results."""
    known = [name for name in BOUNDS if equal_noise or name not in _OF_EQUAL_NOISE]
    if isinstance(bounds, str):
        bounds = known if bounds == "all" else [bounds]
    unknown = [name for name in bounds if name not in BOUNDS]
    if unknown:
        raise ValueError(
            f"`bounds` must be 'all' or name some of {', '.join(map(repr, BOUNDS))}; got "
            f"{unknown[0]!r}."
        )
    unequal = [name for name in bounds if name not in known]
    if unequal:
        raise AttackNotApplicableError(
            f"The bound {unequal[0]!r} supposes noise of the same covariance under every value of "
            "the secret; that of `estimator` depends on the data (`noise_covariance`). Pass "
            f"`bounds='all'`, or name some of {', '.join(map(repr, known))}."
        )
    return tuple(name for name in known if name in bounds)


def success_bounds(
    encodings: FloatArray,
    prior: FloatArray,
    noise_scale: float,
    names: Sequence[str],
    shapes: FloatArray | None = None,
    tolerance: float | None = None,
) -> dict[str, FloatArray]:
    """Upper bounds on the success probability of any attack on each record.

    Shapes: ``encodings`` (n, M, p); ``prior`` (n, M); ``shapes`` (n, M, p, p), covariance of the
    noise under every value, at unit noise scale; None is isotropic; ``tolerance`` is the standard
    error that quasi Monte Carlo aims at, None that of a mean over these records; returns: arrays of
    shape (n,) by name, and ``standard_error`` of the Bayes success. NaN for a bound that supposes
    equal covariances, where they are not.
    """
    names = [name for name in BOUNDS if name in names or name == "bayes"]
    n = len(encodings)
    result = {name: np.ones(n) for name in names} | {"standard_error": np.zeros(n)}
    if shapes is not None:
        unequal = [name for name in names if name in _OF_EQUAL_NOISE]
        names = [name for name in names if name not in unequal]
        result |= {name: np.full(n, np.nan) for name in unequal}
    # A prior that is certain leaves nothing to gain: all bounds are 1 there.
    open_rows = np.flatnonzero(is_open(prior))
    if not len(open_rows):
        return result
    if noise_scale == 0.0:
        success = _without_noise(encodings, prior)
        return result | dict.fromkeys(names, success)
    if tolerance is None:
        tolerance = mean_tolerance(len(open_rows))
    for rows in _blocks(open_rows, encodings.shape, shapes is not None):
        points = encodings[rows]
        channel: GaussianChannel | UnequalGaussianChannel
        if shapes is None:
            channel = GaussianChannel(points, noise_scale, tolerance=tolerance)
        else:
            covariances = noise_scale**2 * shapes[rows]
            channel = UnequalGaussianChannel(points, covariances, tolerance=tolerance)
        for name, values in _of_channel(channel, prior[rows], names).items():
            result[name][rows] = values
    return result


def _without_noise(encodings: FloatArray, prior: FloatArray) -> FloatArray:
    """Success of guessing the likeliest of the values that have the encoding released, (n,).

    Encodings that differ in a single bit are told apart; those that are equal, by nothing. Records
    whose values all differ have 1, as the prior is then of no use.

    Shapes: ``encodings`` (n, M, p); ``prior`` (n, M).
    """
    n, n_values, p = encodings.shape
    success = np.ones(n)
    # Equal rows have equal sums: only records that have some are looked at.
    sums = np.sort((encodings * np.sqrt(np.arange(1.0, p + 1.0))).sum(axis=2), axis=1)
    rows = np.flatnonzero((np.diff(sums, axis=1) == 0.0).any(axis=1))
    points, odds = encodings[rows], prior[rows]
    guessed = np.ones(odds.shape, dtype=bool)
    for m in range(n_values):
        same = (points == points[:, [m]]).all(axis=2)
        same[:, m] = False
        better = (odds > odds[:, [m]]) | ((odds == odds[:, [m]]) & (np.arange(n_values) < m))
        guessed[:, m] = ~(same & better).any(axis=1)
    some = ~guessed.all(axis=1)
    success[rows[some]] = (odds * guessed).sum(axis=1)[some]
    return success


def is_open(prior: FloatArray) -> BoolArray:
    """Tell the records (n,) about which their prior (n, M) leaves something to learn."""
    return np.asarray(prior.max(axis=1) < _CERTAIN)


def mean_tolerance(n: int) -> float:
    """Return the standard error of a record at which that of a mean over n is small."""
    return float(min(_TOLERANCE * np.sqrt(n), MOST_TOLERANCE))


def _blocks(rows: IntArray, shape: tuple[int, ...], shaped: bool) -> Iterator[IntArray]:
    """Yield some records at a time, so that tables and covariances stay small."""
    _, n_values, p = shape
    some = _ROWS // (len(BOUNDS) * n_values)
    if shaped:
        some = min(some, _MAPS // (n_values * p) ** 2)
    for block in row_blocks(len(rows), 1, max(some, 1)):
        yield rows[block]


def _of_channel(
    channel: GaussianChannel | UnequalGaussianChannel, prior: FloatArray, names: Sequence[str]
) -> dict[str, FloatArray]:
    if set(names) <= {"bayes", "tradeoff"}:
        success, error = channel.bayes_success(prior, return_standard_error=True)
        result = {"bayes": success, "standard_error": error}
        if "tradeoff" in names and isinstance(channel, GaussianChannel):
            top = prior.max(axis=1)
            advantage = tradeoff_advantage(channel.encodings, channel.noise_scale, prior)
            result["tradeoff"] = np.maximum(top + advantage * (1.0 - top), success)
        return result
    table = channel.advantage_bounds(prior)
    by_name = dict(tuple(table.groupby("bound", sort=False)))
    result = {}
    for name in names:
        own = by_name[BOUNDS[name]].sort_values("record")
        result[name] = own["success"].to_numpy()
    bayes = by_name["Bayes"].sort_values("record")
    # Of the advantage there, and here of the success.
    result["standard_error"] = bayes["standard_error"].to_numpy() * (1.0 - prior.max(axis=1))
    return result
