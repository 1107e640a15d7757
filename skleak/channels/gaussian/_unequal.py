"""The Gaussian channel whose noise, too, depends on the secret."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from skleak.channels._base import Bound, record_priors
from skleak.channels.gaussian._cells import NATS, Sampling, sampled_integral
from skleak.channels.gaussian._channel import GaussianChannel, PointsChannel, check_points
from skleak.channels.gaussian._integrals import (
    NEARLY_CERTAIN,
    Hypotheses,
    information_over_cube,
    line_information,
    line_success,
    top_posterior_over_cube,
)
from skleak.utils._arguments import check_numbers, make_generator
from skleak.utils._typing import Array, FloatArray, RandomState

# Largest relative difference of a covariance from its transpose that is taken for round-off.
ASYMMETRY = 1e-8
CubeValue = Callable[[Hypotheses, FloatArray, FloatArray], float]
KnownValue = Callable[[GaussianChannel, FloatArray], tuple[Array, Array]]


class UnequalGaussianChannel(PointsChannel):
    """Release ``e_X + N(0, C_X)``: noise of a shape that depends on the data, seen by an attacker.

    Encoding e_m is what would be released without noise if the secret had value m, and C_m the
    covariance of the noise that would then be added, for instance in proportion to the inverse
    Hessian of that fit. Hypotheses are rotated into the space where they differ; of all other
    directions only the length counts, if the scale of the noise differs. Then

    * equal covariances: a `GaussianChannel` in whitened coordinates;
    * on a line: exact, any M;
    * otherwise scrambled quasi Monte Carlo of the expected largest posterior, with a standard
      error from 16 independent scramblings; where the covariances differ little, of its
      difference to that with equal ones.

    Parameters
    ----------
    means : array of shape (M, d) or (n, M, d)
        Encodings of one record, or of n records at once; M >= 2.
    covariances : array of shape (M, d, d) or (n, M, d, d)
        Covariance of the noise under each value, symmetric positive definite.
    tolerance : float, default=2e-5
        Standard error that quasi Monte Carlo aims at, of an advantage over the prior; in nats, five
        times that.
    max_points : int, default=65536
        Most points of one scrambling, over all M secrets; then the standard error stays larger.
    random_state : None, int, RandomState or Generator, default=0
        Seed of the scramblings.

    Attributes
    ----------
    means : ndarray of shape (M, d) or (n, M, d)
        Read-only copy.
    covariances : ndarray of shape (M, d, d) or (n, M, d, d)
        Read-only copy, exactly symmetric.
    n_values : int
        M.
    n_records : int or None
        n, or None for a single record without a leading axis.

    Raises
    ------
    ValueError
        For M < 2, a shape mismatch, NaN, or a covariance that is not symmetric positive definite.

    Notes
    -----
    Assumes that the attacker knows the encodings and the covariances: an informed adversary, as in
    [FANO23], [BIL23] and [BCH22]. All bounds from the mutual information and from Rényi
    divergences hold for unequal covariances as they are. The trade-off bounds of [HMB23] in terms
    of distances are for equal covariances, and appear in `advantage_bounds` only where all are.

    Examples
    --------
    >>> import numpy as np
    >>> channel = UnequalGaussianChannel(
    ...     [[0.0, 0.0], [1.0, 0.0]], [np.eye(2), np.diag([4.0, 1.0])]
    ... )
    >>> round(channel.bayes_success(), 6)
    0.695025
    >>> channel.posterior([[0.0, 5.0], [4.0, -1.0]]).round(3)
    array([[0.694, 0.306],
           [0.002, 0.998]])
    """

    def __init__(
        self,
        means: npt.ArrayLike,
        covariances: npt.ArrayLike,
        *,
        tolerance: float = 2e-5,
        max_points: int = 65536,
        random_state: RandomState = 0,
    ) -> None:
        self.means = np.array(check_points("means", means))
        self.means.flags.writeable = False
        self.covariances, self._roots = _check_covariances(covariances, self.means.shape)
        self._set_up(self.means, tolerance, max_points, random_state)

    def __repr__(self) -> str:
        return f"UnequalGaussianChannel(means of shape {self.means.shape})"

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
        >>> import numpy as np
        >>> channel = UnequalGaussianChannel(np.eye(3), [np.eye(3), np.eye(3), 2 * np.eye(3)])
        >>> channel.sample([0, 2], n_releases=5, random_state=0).shape
        (2, 5, 3)
        """
        array = self._secrets(secret, n_releases)
        noise = make_generator(random_state).standard_normal((*array.shape, self.means.shape[-1]))
        if self.n_records is None:
            return self._draw(self.means, self._roots, array, noise)
        draws = [
            self._draw(self.means[i], self._roots[i], array[i], noise[i])
            for i in range(self.n_records)
        ]
        return np.stack(draws)

    def _draw(
        self, means: FloatArray, roots: FloatArray, secret: Array, noise: FloatArray
    ) -> FloatArray:
        releases = np.empty_like(noise)
        for m in range(self.n_values):
            chosen = secret == m
            releases[chosen] = means[m] + noise[chosen] @ roots[m].T
        return releases

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
        >>> channel = UnequalGaussianChannel([[0.0], [2.0]], [[[1.0]], [[4.0]]])
        >>> channel.log_likelihood([0.0]).round(4)
        array([-0.9189, -2.1121])
        """
        d = self.means.shape[-1]
        y = self._releases(releases, d)
        n = 1 if self.n_records is None else self.n_records
        flat = y.reshape(n, -1, d)
        means = self.means.reshape(n, self.n_values, d)
        roots = self._roots.reshape(n, self.n_values, d, d)
        result = np.empty((*flat.shape[:2], self.n_values))
        for m in range(self.n_values):
            gap = flat - means[:, m, None]
            whitened = np.linalg.solve(roots[:, m], gap.transpose(0, 2, 1))
            result[:, :, m] = -0.5 * np.einsum("ndb,ndb->nb", whitened, whitened)
            diagonals = np.diagonal(roots[:, m], axis1=1, axis2=2)
            result[:, :, m] -= np.log(diagonals).sum(axis=1)[:, None]
        result -= 0.5 * d * np.log(2 * np.pi)
        return result.reshape(*y.shape[:-1], self.n_values)

    @cached_property
    def _hypotheses(self) -> list[Hypotheses]:
        """Every record's hypotheses where they differ."""
        if self.n_records is None:
            return [Hypotheses.of(self.means, self.covariances)]
        return [Hypotheses.of(self.means[i], self.covariances[i]) for i in range(self.n_records)]

    def _whitened(self, hypotheses: Hypotheses, share: float = 1.0) -> GaussianChannel:
        """Return the channel of a record whose covariances are all the mean one.

        It aims at a share of the tolerance.
        """
        same = hypotheses.means.shape[1] == 0
        return GaussianChannel(
            np.zeros((self.n_values, 1)) if same else hypotheses.means,
            1.0,
            tolerance=share * self.tolerance,
            max_points=self.max_points,
            random_state=self.random_state,
        )

    def _divergences_from(self, secret: int, order: float) -> FloatArray:
        table = np.array([hypotheses.divergences(secret, order) for hypotheses in self._hypotheses])
        return table if self.n_records is not None else table[0]

    def _success(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        value, error, p = self._evaluate(
            prior, GaussianChannel._success, line_success, top_posterior_over_cube, 1.0
        )
        return np.clip(value, p.max(axis=-1), 1.0), error

    def _information(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        value, error, p = self._evaluate(
            prior, GaussianChannel._information, line_information, information_over_cube, NATS
        )
        return np.clip(value, 0.0, entr(p).sum(axis=-1)), error

    def _evaluate(
        self,
        prior: npt.ArrayLike | None,
        equal: KnownValue,
        line: Callable[[Hypotheses, FloatArray], float],
        cube: CubeValue,
        factor: float,
    ) -> tuple[Array, Array, FloatArray]:
        """Value and error for every record by the method that its hypotheses allow; the prior."""
        p, n = record_priors(prior, self.n_values, self.n_records)
        priors = np.broadcast_to(p, (n, self.n_values))
        records = self._hypotheses if self.n_records is not None else self._hypotheses * n
        # A success is to be known as well as the advantage that it means.
        shares = np.ones(n)
        if factor == 1.0:
            shares = np.maximum(1.0 - priors.max(axis=1), NEARLY_CERTAIN)
        value, error, rest = np.zeros(n), np.zeros(n), []
        for i, record in enumerate(records):
            if record.on_a_line and not record.equal:
                value[i] = line(record, priors[i])
            elif record.equal or record.nearly_equal:
                value[i], error[i] = equal(
                    self._whitened(record.averaged(), float(shares[i])), priors[i]
                )
            if not (record.equal or record.on_a_line):
                rest.append(i)
        for dimension in sorted({records[i].dimension for i in rest}):
            chosen = np.array([i for i in rest if records[i].dimension == dimension])
            part = self._sampled(
                cube,
                [records[i] for i in chosen],
                dimension,
                priors[chosen],
                factor * shares[chosen] * self.tolerance,
            )
            value[chosen] += part[0]
            error[chosen] = np.hypot(error[chosen], part[1])
        single = self.n_records is None and p.ndim == 1
        return (value[0], error[0], p) if single else (value, error, p)

    def _sampled(
        self,
        cube: CubeValue,
        records: list[Hypotheses],
        dimension: int,
        priors: FloatArray,
        tolerance: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Quasi Monte Carlo for records of one dimension, and its standard errors.

        Where covariances differ little, only the difference to a channel with equal ones is
        sampled, at the same nodes: it varies little, and the rest is known.
        """
        averages = [record.averaged() if record.nearly_equal else None for record in records]

        def integral(points: FloatArray, priors: FloatArray, nodes: FloatArray) -> FloatArray:
            result = np.empty(len(points))
            for k, i in enumerate(points[:, 0, 0].astype(int).tolist()):
                result[k] = cube(records[i], priors[k], nodes)
                average = averages[i]
                if average is not None:
                    result[k] -= cube(average, priors[k], nodes[:, : average.dimension])
            return result

        # In the place of encodings, the number of the record.
        numbers = np.arange(len(records), dtype=float)[:, None, None]
        return sampled_integral(
            integral,
            dimension,
            np.broadcast_to(numbers, (len(records), self.n_values, 1)),
            priors,
            Sampling(tolerance, self.max_points, self.random_state),
        )

    def _own_bounds(self, prior: FloatArray | int) -> list[Bound]:
        """Those of the whitened channel where all covariances are equal; none elsewhere."""
        if not all(hypotheses.equal for hypotheses in self._hypotheses):
            return []
        channels = [self._whitened(hypotheses) for hypotheses in self._hypotheses]
        if self.n_records is None:
            return channels[0]._own_bounds(prior)
        n = self.n_records
        priors = (
            [prior] * n if isinstance(prior, int) else np.broadcast_to(prior, (n, self.n_values))
        )
        tables = [channel._own_bounds(row) for channel, row in zip(channels, priors, strict=True)]
        return [
            rows[0]._replace(advantage=np.array([row.advantage for row in rows]))
            for rows in zip(*tables, strict=True)
        ]


def _check_covariances(
    covariances: npt.ArrayLike, shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Validate covariances; return them exactly symmetric, and their lower Cholesky factors."""
    array = check_numbers("covariances", covariances, finite=True)
    expected = (*shape, shape[-1])
    if array.shape != expected:
        raise ValueError(
            f"`covariances` must have shape {expected}, one matrix for each encoding; got shape "
            f"{array.shape}."
        )
    turned = np.swapaxes(array, -1, -2)
    sizes = np.sqrt(np.abs(np.einsum("...i,...j->...ij", *[np.einsum("...ii->...i", array)] * 2)))
    if np.any(np.abs(array - turned) > ASYMMETRY * np.maximum(sizes, np.abs(array))):
        raise ValueError("`covariances` must be symmetric matrices; got one that is not.")
    array = 0.5 * (array + turned)
    try:
        roots = np.asarray(np.linalg.cholesky(array), dtype=float)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "`covariances` must be positive definite: a direction without noise shows the "
            "secret; got one that is not."
        ) from error
    array.flags.writeable = False
    return array, roots
