"""The Gaussian channel of one covariance."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from skleak.bounds import gdp_advantage, tradeoff_advantage
from skleak.channels._base import Bound, Channel, record_priors, repeat_secrets
from skleak.channels.gaussian._cells import Sampling, hull_coordinates, squared_distances_from
from skleak.channels.gaussian._integrals import (
    gaussian_advantage,
    gaussian_information,
    gaussian_success,
)
from skleak.utils._arguments import (
    check_numbers,
    check_real,
    check_scalar,
    make_generator,
)
from skleak.utils._geometry import without_wide_gaps
from skleak.utils._typing import Array, FloatArray, IntArray, RandomState


class PointsChannel(Channel):
    """A channel that adds Gaussian noise to a point for each value of the secret."""

    n_records: int | None

    def _set_up(
        self, points: FloatArray, tolerance: float, max_points: int, random_state: RandomState
    ) -> None:
        """Keep the shape of the points, (M, d) or (n, M, d), and how integrals are sampled."""
        self.n_values = points.shape[-2]
        self.n_records = len(points) if points.ndim == 3 else None
        self.tolerance = check_scalar("tolerance", tolerance, low_open=True)
        self.max_points = max_points
        self.random_state = random_state

    def _secrets(self, secret: npt.ArrayLike, n_releases: int | None) -> IntArray:
        """Validate secrets, one for each record at least, and repeat them for the releases."""
        array = np.asarray(secret)
        if self.n_records is not None and array.ndim == 0:
            array = np.full(self.n_records, array)
        array = repeat_secrets(array, self.n_values, n_releases)
        self._check_first_axis("secret", array.shape)
        return array

    def _releases(self, releases: npt.ArrayLike, dimension: int) -> FloatArray:
        """Validate releases, (..., d)."""
        y = check_numbers("releases", releases, finite=True)
        if y.ndim == 0 or y.shape[-1] != dimension:
            raise ValueError(
                f"`releases` must have shape (..., {dimension}), the dimension of the encodings; "
                f"got shape {y.shape}."
            )
        self._check_first_axis("releases", y.shape[:-1])
        return y

    def _check_first_axis(self, name: str, shape: tuple[int, ...]) -> None:
        """Refuse what has no entry for each record, where there are several."""
        if self.n_records is not None and (not shape or shape[0] != self.n_records):
            raise ValueError(
                f"`{name}` must have a first axis of length {self.n_records}, one entry for each "
                f"record; got shape {shape}."
            )


def check_points(name: str, points: npt.ArrayLike) -> FloatArray:
    """Return points of shape (M, d) or (n, M, d), finite and of two values at least."""
    array = check_numbers(name, points, finite=True)
    if array.ndim not in (2, 3) or array.shape[-2] < 2 or array.size == 0:
        raise ValueError(
            f"`{name}` must have shape (M, d), or (n, M, d) for n records, with M >= 2; got "
            f"shape {array.shape}. A secret with one value has nothing to hide."
        )
    return array


# Encodings farther apart than this, in standard deviations, overflow when squared.
LARGEST_SPREAD = 1e150
GaussianIntegral = Callable[
    [FloatArray, IntArray, FloatArray, Sampling], tuple[FloatArray, FloatArray]
]


class GaussianChannel(PointsChannel):
    """Release ``e_X + N(0, noise_scale^2 I)``: output perturbation, seen by an attacker.

    Encoding e_m is what would be released without noise if the secret had value m, for instance
    the coefficients of a fit whose record has value m in a sensitive column. An attacker who knows
    the encodings and the prior can do no better than the Bayes values here. How they are computed
    depends on the shape of the encodings, which are rotated into their affine hull once:

    * on a line, as for M = 2 or with duplicates: closed form, any M;
    * in a plane, as for M = 3: exact measure of the polygonal decision cells;
    * all equally far apart, as one-hot encodings: a one-dimensional integral, any M;
    * in space, as for M = 4: a one-dimensional integral over exact plane slices, M <= 64;
    * otherwise scrambled quasi Monte Carlo in at most M - 1 dimensions, with a standard error
      from 16 independent scramblings: of the measures of decision cells, or from M = 10 on of the
      largest posterior, which costs less there unless failures are rare. It is skipped where the
      trade-off bound is within `tolerance` of the prior, or of what a union bound guarantees: the
      value is then the trade-off bound, never too small, and its error how far it can be off.

    The information is integrated on a lattice in one and two dimensions, and by quasi Monte Carlo
    in more. An advantage over a prior within 1e-8 of certainty is no difference of successes, which
    would round: on a line it is a closed form, and elsewhere quasi Monte Carlo of its own.

    Parameters
    ----------
    encodings : array of shape (M, d) or (n, M, d)
        Encodings of one record, or of n records at once; M >= 2.
    noise_scale : float or array of shape (n,)
        Standard deviation of the noise in the units of the encodings, positive. An array goes with
        n records, or with one record seen at n noise scales.
    tolerance : float, default=2e-5
        Standard error that quasi Monte Carlo aims at, of a success probability; in nats, five
        times that. Raise it for thousands of records at five or more values: cost falls about in
        proportion.
    max_points : int, default=65536
        Most points of one scrambling, over all M secrets, and four times as many where posteriors
        take the place of cells; then the standard error stays larger.
    random_state : None, int, RandomState or Generator, default=0
        Seed of the scramblings. It decides no noise, so that it is fixed for reproducible tables.

    Attributes
    ----------
    encodings : ndarray of shape (M, d) or (n, M, d)
        Read-only copy.
    noise_scale : ndarray of shape () or (n,)
        As given.
    n_values : int
        M.
    n_records : int or None
        n, or None for a single record without a leading axis.

    Raises
    ------
    ValueError
        For M < 2, a shape mismatch, a noise scale that is not positive, or NaN.

    Notes
    -----
    Assumes that the noise is Gaussian, isotropic and of known scale, and that the attacker knows
    the encodings: an informed adversary, as in [FANO23], [BIL23] and [BCH22].

    Examples
    --------
    >>> channel = GaussianChannel([[0.0, 0.0], [3.0, 4.0]], noise_scale=5.0)
    >>> round(channel.bayes_success(), 6)  # Phi(1 / 2)
    0.691462
    >>> round(channel.bayes_advantage([0.9, 0.1]), 6)
    0.013363
    >>> one_hot = GaussianChannel(np.eye(10), noise_scale=1.0)
    >>> round(one_hot.bayes_advantage(), 4)
    0.2677
    """

    def __init__(
        self,
        encodings: npt.ArrayLike,
        noise_scale: npt.ArrayLike,
        *,
        tolerance: float = 2e-5,
        max_points: int = 65536,
        random_state: RandomState = 0,
    ) -> None:
        hint = "Without noise the release is the encoding itself."
        self.noise_scale = check_real(
            "noise_scale", noise_scale, low_open=True, finite=True, empty=False, hint=hint
        )
        self.encodings = _check_encodings(encodings, self.noise_scale)
        self._set_up(self.encodings, tolerance, max_points, random_state)

    def __repr__(self) -> str:
        return f"GaussianChannel(encodings of shape {self.encodings.shape})"

    def sample(
        self,
        secret: npt.ArrayLike,
        n_releases: int | None = None,
        random_state: RandomState = None,
    ) -> FloatArray:
        """Draw releases given the secret.

        Parameters
        ----------
        secret : int or array of int
            Index of the secret's value. For n records one index for all, or an array whose first
            axis has length n.
        n_releases : int or None, default=None
            Number of releases of each secret, along a new axis; None draws one without an axis.
        random_state : None, int, RandomState or Generator, default=None
            Source of the noise; None takes fresh entropy.

        Returns
        -------
        ndarray of shape (*secret.shape, d) or (*secret.shape, n_releases, d)
            ``secret.shape`` is (n,) where one index is given for n records.

        Examples
        --------
        >>> channel = GaussianChannel(np.eye(3), noise_scale=0.1)
        >>> channel.sample([0, 2], n_releases=5, random_state=0).shape
        (2, 5, 3)
        """
        array = self._secrets(secret, n_releases)
        if self.n_records is None:
            center, scale = self.encodings[array], self.noise_scale
        else:
            records = np.arange(self.n_records).reshape(-1, *[1] * (array.ndim - 1))
            center, scale = self.encodings[records, array], self._per_record(array.ndim + 1)
        noise = make_generator(random_state).standard_normal(center.shape)
        return center + scale * noise

    def log_likelihood(self, releases: npt.ArrayLike) -> FloatArray:
        """Logarithm of the density of releases under each value of the secret.

        Parameters
        ----------
        releases : array of shape (..., d)
            For n records the first axis has length n: (n, ..., d).

        Returns
        -------
        ndarray of shape (..., M)

        Examples
        --------
        >>> channel = GaussianChannel([[0.0], [2.0]], noise_scale=1.0)
        >>> channel.log_likelihood([0.0]).round(4)
        array([-0.9189, -2.9189])
        """
        dimension = self.encodings.shape[-1]
        y = self._releases(releases, dimension)
        points, scale = self.encodings, self.noise_scale
        if self.n_records is not None:
            inner = [1] * (y.ndim - 2)
            points = points.reshape(self.n_records, *inner, *points.shape[1:])
            scale = self._per_record(y.ndim)
        result = np.empty((*y.shape[:-1], self.n_values))
        for secret in range(self.n_values):
            gap = (y - points[..., secret, :]) / scale
            result[..., secret] = -0.5 * np.einsum("...d,...d->...", gap, gap)
        constant = dimension * (np.log(scale) + 0.5 * np.log(2 * np.pi))
        return result - constant

    def _per_record(self, ndim: int) -> FloatArray:
        """Return the noise scale, shaped to broadcast along the first of `ndim` axes."""
        if self.noise_scale.ndim == 0:
            return self.noise_scale
        return self.noise_scale.reshape(-1, *[1] * (ndim - 1))

    @cached_property
    def _hull(self) -> tuple[FloatArray, IntArray]:
        """Coordinates (n or 1, M, k) in units of the noise, and their rank (n or 1,)."""
        points = self.encodings if self.encodings.ndim == 3 else self.encodings[None]
        return hull_coordinates(points, np.broadcast_to(self.noise_scale, len(points)))

    @cached_property
    def _near_hull(self) -> tuple[FloatArray, IntArray]:
        """Likewise with all gaps narrowed that no release crosses: for integrals, not distances."""
        points = self.encodings if self.encodings.ndim == 3 else self.encodings[None]
        scale = np.broadcast_to(self.noise_scale, len(points))
        near = without_wide_gaps(points, scale[:, None, None])
        return self._hull if near is points else hull_coordinates(near, scale)

    @cached_property
    def _diameter(self) -> FloatArray:
        """Largest distance of two encodings in units of the noise, shape () or (n,)."""
        points, _ = self._hull
        largest = np.zeros(len(points))
        for secret in range(self.n_values):
            largest = np.maximum(largest, squared_distances_from(points, secret).max(axis=1))
        return np.sqrt(largest if self.n_records is not None else largest[0])

    def _divergences_from(self, secret: int, order: float) -> FloatArray:
        points, _ = self._hull
        squared = squared_distances_from(points, secret)
        divergence = _gaussian_divergence(squared, order)
        return divergence if self.n_records is not None else divergence[0]

    def _worst_divergence(self, order: float) -> FloatArray:
        return _gaussian_divergence(self._diameter**2, order)

    def _integrate(
        self, integral: GaussianIntegral, prior: npt.ArrayLike | None
    ) -> tuple[Array, Array]:
        """Evaluate an integral with coordinates, rank and prior brought to one leading axis."""
        p, n = record_priors(prior, self.n_values, self.n_records)
        points, rank = self._near_hull
        value, error = integral(
            np.broadcast_to(points, (n, *points.shape[1:])),
            np.broadcast_to(rank, (n,)),
            np.broadcast_to(p, (n, self.n_values)),
            Sampling(self.tolerance, self.max_points, self.random_state),
        )
        single = self.n_records is None and p.ndim == 1
        return (value[0], error[0]) if single else (value, error)

    def _success(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        return self._integrate(gaussian_success, prior)

    def _advantage(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        return self._integrate(gaussian_advantage, prior)

    def _information(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        return self._integrate(gaussian_information, prior)

    def _own_bounds(self, prior: FloatArray | int) -> list[Bound]:
        known = self.encodings, self.noise_scale
        return [
            Bound("trade-off", tradeoff_advantage(*known, prior)),
            Bound("Gaussian differential privacy", gdp_advantage(self._diameter, prior)),
        ]


def _gaussian_divergence(squared_distance: FloatArray, order: float) -> FloatArray:
    """Rényi divergence of two Gaussians, ``order D^2 / 2``."""
    if np.isinf(order):
        return np.where(squared_distance > 0, np.inf, 0.0)
    return order * squared_distance / 2


def _check_encodings(encodings: npt.ArrayLike, scale: FloatArray) -> FloatArray:
    """Validate and copy the encodings; repeat those of one record for several noise scales."""
    points = check_points("encodings", encodings)
    if scale.ndim > 1 or (points.ndim == 3 and scale.ndim and len(scale) != len(points)):
        raise ValueError(
            "`noise_scale` must be a number or have one entry for each record; got shape "
            f"{scale.shape} for encodings of shape {points.shape}."
        )
    with np.errstate(over="ignore"):
        spread = np.ptp(points, axis=-2).max() / scale.min()
    if not spread < LARGEST_SPREAD:
        raise ValueError(
            "`encodings` must lie within 1e150 noise scales of one another; got "
            f"{spread:.4g}. At any such distance the secret is plain to see."
        )
    points = np.array(points)
    if points.ndim == 2 and scale.ndim:
        points = np.broadcast_to(points, (len(scale), *points.shape)).copy()
    points.flags.writeable = False
    return points
