"""Parameters with noise that may be published: multiples of a step that the noise scale sets.

Floating-point noise gives the noiseless value away: a sampler returns only some of the doubles,
and c + sigma z in doubles excludes most candidates for c (Mironov, On Significance of the Least
Significant Bits for Differential Privacy, CCS 2012). Here the parameters are rounded to a public
grid, and everything up to the released integers is exact.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from importlib.metadata import version

import numpy as np
import numpy.typing as npt

from skleak.mechanisms._discrete_gaussian import discrete_gaussian
from skleak.utils._random import make_generator
from skleak.utils._typing import Array, FloatArray, RandomState

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
    >>> from skleak.mechanisms import Grid
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
        """Distance of neighbouring points, an exact double."""
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
        _sampler(random_state, root),
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


def _sampler(random_state: RandomState, root: FloatArray | None) -> str:
    """Source of the noise, in words."""
    source = "rounded Gaussian, NumPy, seeded"
    if random_state is None:
        source = f"discrete Gaussian, OpenDP {_opendp_version()}"
    return source if root is None else f"{source}; shaped by a root, rounded"


@cache
def _opendp_version() -> str:
    """Version of the installed package, which takes reading its metadata."""
    return version("opendp")
