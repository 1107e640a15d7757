"""Grids, ladders, and reweightings.

Parameters with noise that may be published: multiples of a step that the noise scale sets.

Floating-point noise gives the noiseless value away: a sampler returns only some of the doubles,
and c + sigma z in doubles excludes most candidates for c (Mironov, On Significance of the Least
Significant Bits for Differential Privacy, CCS 2012). Here the parameters are rounded to a public
grid, and everything up to the released integers is exact.
"""

import math
import os
import threading
from abc import ABC
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import cache, lru_cache, partial
from importlib.metadata import version
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from skleak.utils._arguments import make_generator
from skleak.utils._records import resolve_features
from skleak.utils._sklearn_compat import Interval, StrOptions
from skleak.utils._typing import Array, FloatArray, IntArray, RandomState

# OpenDP's feature flags are one set for the whole process: threads take turns in changing it.
_FLAGS = threading.Lock()
# Bits of a word, and half the width of the interval in which a comparison in doubles decides
# nothing: far more than the rounding of an exponential, and met once in 2^39 comparisons.
_WORD, _UNDECIDED = 64, 2.0**-40


def discrete_gaussian(scale: float, size: int) -> npt.NDArray[np.int64]:
    """Draw integers z with probabilities proportional to ``exp(-z^2 / (2 scale^2))``.

    The sampler of Canonne, Kamath and Steinke (The Discrete Gaussian for Differential Privacy,
    NeurIPS 2020, algorithms 1 to 3) in OpenDP: integers and rational coin flips only, made of
    random bits of the operating system. There is no seed.

    Parameters
    ----------
    scale : float, positive and at most 2^48
        Scale parameter, in units of the integers; taken as exactly this double.
    size : int, at least 0
        Number of independent draws.

    Returns
    -------
    ndarray of int64 of shape (size,)

    Raises
    ------
    ValueError
        For a scale out of range: beyond it the tails would leave the integers of 64 bits.

    Examples
    --------
    >>> from skleak.mechanisms.grids import discrete_gaussian
    >>> discrete_gaussian(2.0**30, 1000).shape
    (1000,)
    """
    if not 0.0 < scale <= 2.0**48:
        raise ValueError(
            f"`scale` must be positive and at most 2**48; got {scale!r}. Draw on a coarser grid."
        )
    return np.array(_gaussian_measurement(float(scale))([0] * size), dtype=np.int64)


@lru_cache(maxsize=64)
def _gaussian_measurement(scale: float) -> Callable[[list[int]], list[int]]:
    # Loaded late: models that add no noise need no shared library.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    with _contributed_features():
        domain = vector_domain(atom_domain(T="i64"))
        return make_gaussian(domain, l2_distance(T="f64"), scale=scale)


def dyadic_discrete_gaussian(log2_scale: int, size: int) -> npt.NDArray[np.int64]:
    """Draw integers z with probabilities proportional to ``exp(-z^2 / 2^(2 log2_scale + 1))``.

    As exact as :func:`discrete_gaussian` and fast, for scales s that are powers of two: the
    algorithm of Karney (Sampling exactly from the normal distribution, ACM TOMS 42, 2016) on
    integers. ``z = +-(k s + x)`` with k of probability proportional to ``exp(-k^2 / 2)`` and x
    uniform on 0, ..., s - 1 is kept with probability ``exp(-(x / s) (k + x / (2 s)))``, and a
    negative zero never. A word of 64 random bits begins the binary digits of a uniform number;
    where it does not decide a comparison, as in one of 2^39, further digits do, against as many
    digits of the exponential as that takes. There is no seed.

    Parameters
    ----------
    log2_scale : int, from 1 to 52
        Binary logarithm of the scale s.
    size : int, at least 0
        Number of independent draws.

    Returns
    -------
    ndarray of int64 of shape (size,)

    Raises
    ------
    ValueError
        For a scale out of range.

    Examples
    --------
    >>> from skleak.mechanisms.grids import dyadic_discrete_gaussian
    >>> dyadic_discrete_gaussian(30, 1000).shape
    (1000,)
    """
    if not 1 <= log2_scale <= 52:
        raise ValueError(f"`log2_scale` must be an integer from 1 to 52; got {log2_scale!r}.")
    found = [np.empty(0, dtype=np.int64)]
    missing = size
    while missing > 0:
        # Seven of ten candidates are kept, whatever the scale.
        words = _words(3 * (int(1.5 * missing) + 16)).reshape(3, -1)
        blocks = _blocks(words[0])
        x = (words[1] >> np.uint64(_WORD - log2_scale)).astype(np.int64)
        negative = (words[1] & np.uint64(1)).astype(bool)  # a bit that x does not hold
        kept = _accepted(words[2], blocks, x, log2_scale) & ~(negative & (blocks + x == 0))
        z = (blocks << log2_scale) + x
        found.append(np.where(negative, -z, z)[kept])
        missing -= len(found[-1])
    return np.concatenate(found)[:size]


def _words(number: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(os.urandom(number * _WORD // 8), dtype=np.uint64)


def _blocks(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Integers k of probability proportional to ``exp(-k^2 / 2)``, by inversion; (n,)."""
    floors = _survival_floors()
    first, last = (np.searchsorted(floors, words, side=side) for side in ("left", "right"))
    blocks = (len(floors) - last).astype(np.int64)
    for i in np.flatnonzero(first < last).tolist():
        uniform, k = _Uniform(int(words[i])), int(blocks[i])
        while uniform.is_below(partial(_survival, k + 1)):
            k += 1
        blocks[i] = k
    return blocks


def _accepted(
    words: npt.NDArray[np.uint64],
    blocks: npt.NDArray[np.int64],
    x: npt.NDArray[np.int64],
    log2_scale: int,
) -> npt.NDArray[np.bool_]:
    """Tell of each candidate whether it is kept; all of shape (n,)."""
    share = np.ldexp(x.astype(np.float64), -log2_scale)  # exact
    gap = np.exp(-share * (blocks + 0.5 * share)) - np.ldexp(words.astype(np.float64), -_WORD)
    accepted = gap > 0.0
    for i in np.flatnonzero(np.abs(gap) < _UNDECIDED).tolist():
        numerator = int(x[i]) * ((int(blocks[i]) << (log2_scale + 1)) + int(x[i]))
        probability = partial(_exponential, numerator, 2 * log2_scale + 1)
        accepted[i] = _Uniform(int(words[i])).is_below(probability)
    return accepted


class _Uniform:
    """A uniform number in [0, 1] that begins with a word; further digits are drawn when needed."""

    def __init__(self, word: int) -> None:
        self._digits, self._n_bits = word, _WORD

    def is_below(self, value: Callable[[], Decimal]) -> bool:
        """Tell whether it is below a number in [0, 1].

        ``value`` returns that in the current decimal context, wrong by less than 10^3 of its last
        digits.
        """
        while True:
            with localcontext() as context:
                context.prec = self._n_bits // 3 + 10
                number, error = Fraction(value()), Fraction(1, 10 ** (context.prec - 4))
            shift = 1 << self._n_bits
            if self._digits + 1 <= (number - error) * shift:
                return True
            if self._digits >= (number + error) * shift:
                return False
            self._digits = (self._digits << _WORD) + int(_words(1)[0])
            self._n_bits += _WORD


def _exponential(numerator: int, log2_denominator: int) -> Decimal:
    """``exp(-numerator / 2^log2_denominator)`` in the current decimal context."""
    return (-Decimal(numerator) / Decimal(1 << log2_denominator)).exp()


def _survival(k: int) -> Decimal:
    """Probability of k or more, proportional to ``sum_{j >= k} exp(-j^2 / 2)``, in the context."""
    digits = getcontext().prec
    # Terms from here on are below a digit of the last place of the first one.
    end = k + int((4.7 * digits) ** 0.5) + 2
    weights = [(-Decimal(j * j) / 2).exp() for j in range(end)]
    return sum(weights[k:], Decimal(0)) / sum(weights)


@cache
def _survival_floors() -> npt.NDArray[np.uint64]:
    """First words of the probabilities of k or more, ascending: of k = 10, where it is 0, to 1."""
    with localcontext() as context:
        context.prec = 60
        return np.array([int(_survival(k) * 2**_WORD) for k in range(10, 0, -1)], dtype=np.uint64)


@contextmanager
def _contributed_features() -> Iterator[None]:
    """Allow OpenDP's contributed parts, and leave its flags as they were."""
    from opendp.mod import GLOBAL_FEATURES

    with _FLAGS:
        enabled = "contrib" in GLOBAL_FEATURES
        GLOBAL_FEATURES.add("contrib")
        try:
            yield
        finally:
            if not enabled:
                GLOBAL_FEATURES.discard("contrib")


# The step is the power of two at or below noise_scale / 2^30.
_FINENESS = 30
# Steps below 2^-1000 would leave no room for exact arithmetic with their multiples in doubles.
_SMALLEST_EXPONENT = -1000
_LARGEST = 2.0**1000
# Bits of an integer that a double holds.
_MANTISSA = 53
# Scale of the integers that stand for standard normal numbers where the noise has a shape.
_SHAPED_SCALE = 2.0**40


@dataclass(frozen=True)
class Grid:
    """The multiples of a public step, a power of two.

    Parameters
    ----------
    exponent : int
        Binary logarithm of the step.

    Attributes
    ----------
    exponent : int
        Binary logarithm of the step.

    Examples
    --------
    >>> from skleak.mechanisms.grids import Grid
    >>> grid = Grid.for_noise(3.0)
    >>> grid.exponent, grid.step == 2.0**-29
    (-29, True)
    >>> grid.round_to([1.0, -0.1])
    array([536870912, -53687091])
    """

    exponent: int

    @classmethod
    def for_noise(cls, noise_scale: float) -> "Grid":
        """Choose the grid from the noise scale alone: its step is 2^-30 of it, rounded down.

        Parameters
        ----------
        noise_scale : float, from 2^-1000 to 2^1000
            Standard deviation of the noise.

        Returns
        -------
        Grid
            Its step is above ``noise_scale / 2^31`` and at most ``noise_scale / 2^30``; for noise
            below 2^-970 it is 2^-1000.

        Raises
        ------
        ValueError
            For a noise scale out of range.
        """
        if not 1.0 / _LARGEST <= noise_scale <= _LARGEST:
            raise ValueError(
                f"`noise_scale` must lie between 2**-1000 and 2**1000; got {noise_scale!r}. "
                "Rescale the data, or pass 0 for no noise."
            )
        # frexp's mantissa lies in [1/2, 1): no rounded logarithm is involved.
        exponent = math.frexp(noise_scale)[1] - 1 - _FINENESS
        return cls(max(exponent, _SMALLEST_EXPONENT))

    @property
    def step(self) -> float:
        """Distance of neighboring points, an exact double."""
        return math.ldexp(1.0, self.exponent)

    def round_to(self, values: npt.ArrayLike) -> Array:
        """Round to the nearest multiple of the step, halves to the even one, exactly.

        Parameters
        ----------
        values : array-like of float
            Finite numbers.

        Returns
        -------
        ndarray of int64, or of Python integers where 62 bits are too few
            The multiples, of the same shape.
        """
        array = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.ldexp(array, -self.exponent)
        # A quotient by a power of two is exact unless it leaves the doubles at the small end,
        # where it is nearest to 0 anyway.
        large = np.abs(scaled) >= 2.0**62
        multiples: Array = np.asarray(np.rint(np.where(large, 0.0, scaled)), dtype=np.int64)
        if large.any():
            # So far out every double is a multiple of the step.
            multiples = multiples.astype(object)
            step = Fraction(2) ** self.exponent
            multiples[large] = [int(Fraction(value) / step) for value in array[large].tolist()]
        return multiples


@dataclass(frozen=True)
class GridRelease:
    """Parameters that may be published, and how they came about.

    Parameters
    ----------
    parameters : ndarray of shape (p,)
        Released parameters, each an exact multiple of ``step``.
    step : float
        What they are multiples of; 0 where no noise was added and they lie on no grid.
    grid_step : float
        Step of the grid that noise was added on, a function of the noise scale alone: the step
        that accounting has to count. Below ``step`` where doubles cannot hold the multiples.
    sampler : str
        Source of the noise, in words.
    exact : bool
        Whether the released integers follow the distribution that accounting assumes exactly:
        isotropic discrete Gaussian noise from the operating system's randomness.

    Attributes
    ----------
    parameters, step, grid_step, sampler, exact
        As passed.

    Examples
    --------
    >>> from skleak.mechanisms import release_on_grid
    >>> release = release_on_grid([1e12, 2.0], noise_scale=1.0)
    >>> release.coarsened, release.grid_step == 2.0**-30, release.step > release.grid_step
    (True, True, True)
    """

    parameters: FloatArray = field(repr=False)
    step: float
    grid_step: float
    sampler: str
    exact: bool

    @property
    def coarsened(self) -> bool:
        """True if doubles cannot hold the multiples of the grid's own step."""
        return self.step > self.grid_step


def release_on_grid(
    parameters: npt.ArrayLike,
    noise_scale: float,
    random_state: RandomState = None,
    root: FloatArray | None = None,
) -> GridRelease:
    """Round parameters to the grid of the noise scale and add noise on that grid.

    Where a released integer needs more than 53 bits, all of them are rounded to a coarser step, a
    power of two that is a function of the released integers alone: post-processing, which costs
    no privacy.

    Parameters
    ----------
    parameters : array-like of shape (p,)
        Noiseless parameters, at most 2^1000 in size.
    noise_scale : float, 0 or from 2^-1000 to 2^1000
        Standard deviation of the noise, which must be public; 0 for none, and no grid.
    random_state : None, int, RandomState or Generator, default=None
        None draws exact discrete Gaussian noise from the operating system's cryptographic
        randomness. Anything else rounds NumPy's normal numbers to the same grid: reproducible,
        and without any guarantee.
    root : ndarray of shape (p, q), optional
        Root L of the covariance ``noise_scale^2 L L^T`` of the noise, by default the identity.
        With it the release lies on the grid as well, and no exactness is claimed.

    Returns
    -------
    GridRelease

    Raises
    ------
    ValueError
        For parameters that are not finite or too large, noise out of range, or a root of another
        shape.

    Examples
    --------
    >>> from skleak.mechanisms import release_on_grid
    >>> release = release_on_grid([0.5, -2.0], noise_scale=0.1)
    >>> release.exact, bool((release.parameters % release.step == 0.0).all())
    (True, True)
    """
    values = np.array(parameters, dtype=np.float64)
    if values.ndim != 1 or not np.all(np.abs(values) <= _LARGEST):
        raise ValueError(
            "`parameters` must be a vector of finite numbers of at most 2**1000 in size; got "
            f"shape {values.shape}. Rescale the data, or fit with a stronger penalty."
        )
    if root is not None and (np.ndim(root) != 2 or len(root) != len(values)):
        raise ValueError(
            f"`root` must have shape (p, q) with p = {len(values)} parameters; got "
            f"{np.shape(root)}."
        )
    if noise_scale == 0.0:
        return GridRelease(values, 0.0, 0.0, "none", exact=False)
    grid = Grid.for_noise(noise_scale)
    if root is None:
        noise = _isotropic(len(values), noise_scale, grid, random_state)
    else:
        noise = _shaped(root, noise_scale, grid, random_state)
    # int64 stays below 2^62 on the left, and beyond 2^62 noise has probability exp(-2^61).
    released, coarser = _in_doubles(grid.round_to(values) + noise)
    exponent = grid.exponent + coarser
    return GridRelease(
        np.ldexp(released.astype(np.float64), exponent),
        math.ldexp(1.0, exponent),
        grid.step,
        sampler_name(random_state, root),
        exact=random_state is None and root is None,
    )


def _isotropic(
    n_parameters: int, noise_scale: float, grid: Grid, random_state: RandomState
) -> Array:
    """Independent noise in units of the step, (n_parameters,) integers."""
    scale = math.ldexp(noise_scale, -grid.exponent)  # exact
    if random_state is None:
        return discrete_gaussian(scale, n_parameters)
    normal = make_generator(random_state).standard_normal(n_parameters)
    return np.rint(scale * normal).astype(np.int64)


def _shaped(root: FloatArray, noise_scale: float, grid: Grid, random_state: RandomState) -> Array:
    """Noise of covariance ``noise_scale^2 root root^T`` in units of the step, (p,) integers."""
    n_normal = int(np.shape(root)[1])
    if random_state is None:
        normal = discrete_gaussian(_SHAPED_SCALE, n_normal).astype(np.float64) / _SHAPED_SCALE
    else:
        normal = make_generator(random_state).standard_normal(n_normal)
    return grid.round_to(root @ normal * noise_scale)


def _in_doubles(integers: Array) -> tuple[Array, int]:
    """Round integers to the least power of two that leaves 53 bits, and its exponent.

    Returns the rounded multiples of that power, (p,), halves to the even one.
    """
    largest = max((abs(int(integer)) for integer in integers), default=0)
    bits = max(largest.bit_length() - _MANTISSA, 0)
    if bits == 0:
        return integers, 0
    quotients = integers >> bits
    twice = 2 * (integers - (quotients << bits))
    unit = 1 << bits
    up = (twice > unit) | ((twice == unit) & (quotients % 2 == 1))
    return quotients + up.astype(np.int64), bits


def sampler_name(random_state: RandomState, root: FloatArray | None = None) -> str:
    """Say in words where noise comes from."""
    source = "rounded Gaussian, NumPy, seeded"
    if random_state is None:
        source = f"discrete Gaussian, OpenDP {_installed('opendp')}"
    return source if root is None else f"{source}; shaped by a root, rounded"


# Takes reading the metadata of the package.
_installed = cache(version)


@dataclass(kw_only=True)
class Reweighting(BaseEstimator, ABC):
    """Weights of the records that follow from what the records leak.

    Parameters
    ----------
    features : str, int, slice or list, default=None
        Block of columns whose leakage is balanced; by default the whole record.
    norm : {"spectral", "trace"}, default="spectral"
        Worst direction, or root mean square.
    method : {"accelerated", "newton", "plain"}, default="accelerated"
        Search for the weights.
    max_iter : int, default=30
        Largest number of refits after the first.
    tol : float, default=1e-6
        Relative spread at which the search stops.

    Attributes
    ----------
    name : str
        Short name, which ``reweighting=`` of an estimator takes for the default parameters.

    Examples
    --------
    >>> from skleak.linear_model import IRFIL
    >>> from skleak.mechanisms import Reweighting
    >>> isinstance(IRFIL(features="age", tol=1e-4), Reweighting)
    True
    >>> try:
    ...     IRFIL(tol=-1.0).check()
    ... except ValueError as error:
    ...     print(error)
    The 'tol' parameter of IRFIL must be a float in the range (0.0, inf). Got -1.0 instead.
    """

    name: ClassVar[str]
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "features": "no_validation",
        "norm": [StrOptions({"spectral", "trace"})],
        "method": [StrOptions({"accelerated", "newton", "plain"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    features: Any = None
    norm: Literal["spectral", "trace"] = "spectral"
    method: Literal["accelerated", "newton", "plain"] = "accelerated"
    max_iter: int = 30
    tol: float = 1e-6

    def check(self) -> None:
        """Raise where a parameter is out of range.

        Raises
        ------
        ValueError
            For an unknown norm or method, fewer than one refit, or a tolerance that is not
            positive.
        """
        self._validate_params()

    def columns(self, names: Array | None, n_features: int) -> IntArray | None:
        """Return the indices of the columns whose leakage is balanced; None for the whole record.

        Parameters
        ----------
        names : ndarray of str or None
            Column names.
        n_features : int
            Number of columns.

        Returns
        -------
        ndarray of int or None
        """
        if self.features is None:
            return None
        return resolve_features(self.features, names, n_features, "features")


@dataclass(kw_only=True)
class IRFIL(Reweighting):
    """Reweight until all records would leak the same if their weights were fixed.

    Iteratively reweighted Fisher information loss ([FIL21] algorithm 1). The weights are
    functions of the data, which [FIL21] leaves out; the leakage that estimators state counts
    them. It is mostly more even than without a reweighting, and not equal.

    Parameters
    ----------
    features : str, int, slice or list, default=None
        Balance the leakage of this block of columns (names or indices) instead of the whole
        record.
    norm : {"spectral", "trace"}, default="spectral"
        Balance the leakage in the worst direction, or its root mean square.
    method : {"accelerated", "newton", "plain"}, default="accelerated"
        Newton's method, of which "accelerated" is another name, or the plain iteration of [FIL21].
    max_iter : int, default=30
        Largest number of refits after the first. Most problems need less than 10. Where 30 refits
        have not halved the spread, Newton's method stops.
    tol : float, default=1e-6
        Relative spread (standard deviation over mean) of leakage at which the search stops.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import IRFIL, PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateLinearRegression(alpha=0.1, reweighting=IRFIL(norm="trace")).fit(X, y)
    >>> bool(min(model.reweighting_history_) <= 1e-6)
    True
    """

    name: ClassVar[str] = "irfil"


@dataclass(kw_only=True)
class EvenTotal(Reweighting):
    """Reweight to even what records leak with everything counted.

    Weights have a bound, and residuals count for less. The total leakage is not equal, and a
    warning of the fit gives its spread. It is mostly more even than under `IRFIL` where that is
    uneven (a spread above 0.1), and about as even elsewhere.

    Parameters
    ----------
    features : str, int, slice or list, default=None
        Even the leakage of this block of columns (names or indices) instead of the whole record.
    norm : {"spectral", "trace"}, default="spectral"
        Even the leakage in the worst direction, or its root mean square.
    method : {"accelerated", "newton", "plain"}, default="accelerated"
        Search for the weights; see `IRFIL`.
    max_iter : int, default=30
        Largest number of refits after the first.
    tol : float, default=1e-6
        Relative spread of what the rule of the weights balances at which the search stops.

    Examples
    --------
    >>> EvenTotal(norm="trace").get_params()["norm"]
    'trace'
    """

    name: ClassVar[str] = "total"


def as_reweighting(value: "Reweighting | str | None") -> Reweighting | None:
    """Turn what an estimator takes as ``reweighting`` into an object.

    Parameters
    ----------
    value : {"irfil", "total"}, Reweighting or None
        The parameter.

    Returns
    -------
    Reweighting or None

    Examples
    --------
    >>> as_reweighting("irfil").max_iter
    30
    """
    if isinstance(value, str):
        return {kind.name: kind for kind in (IRFIL, EvenTotal)}[value]()
    return value
