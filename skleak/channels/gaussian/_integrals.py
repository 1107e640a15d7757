"""Integrals of normal laws over cells, in few coordinates.

Gaussians with unequal means and covariances, rotated into the space where they differ.

Whitened by the mean covariance, hypothesis m is ``N(b_m, K_m)``. Let ``c_m`` be the eigenvalue of
``K_m`` that most directions share, and V the span of all ``b_m - b_0`` and of the ranges of all
``K_m - c_m I``. Orthogonal to V, in q directions, hypothesis m is ``N(0, c_m I)``, independent of
what happens in V: the coordinates in V and the squared length of the rest are sufficient, and all
that follows costs O(k^2) for each release in place of O(d^2). Exact, up to directions in which
nothing differs by more than 1e-9 standard deviations.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy import linalg
from scipy.special import chdtri, entr, ndtr, ndtri

from skleak.bounds import tradeoff_advantage
from skleak.channels._base import pairwise_information
from skleak.channels.gaussian._cells import (
    LARGEST_EXPONENT,
    NATS,
    CubeIntegral,
    Sampling,
    equal_distance,
    equidistant_success,
    expected_gain,
    expected_information,
    expected_top_posterior,
    interval_gain,
    interval_success,
    normal_lattice,
    sampled_integral,
    squared_distances_from,
)
from skleak.utils._blocks import row_blocks
from skleak.utils._geometry import (
    FAR,
    SMALLEST_PROBABILITY,
    half_spaces,
    log_prior,
    planar_success,
    polygon_measure,
    signed,
)
from skleak.utils._typing import FloatArray, IntArray


def cell_success(points: FloatArray, prior: FloatArray, nodes: FloatArray) -> FloatArray:
    """Success probability as the sum over secrets of the measure of their decision cells.

    A cell is an intersection of half-spaces. Genz's separation of variables turns the axes so that
    the nearest boundary involves one coordinate, the next two, and so on; each coordinate is then
    drawn within its boundary, which weights the draw by the probability of meeting it, and the
    last one is integrated exactly. The integrand is smooth, and stays informative where success is
    almost certain or hardly above the prior: there, counting or averaging posteriors would see
    nothing of the rare releases that matter.

    Shapes: ``points`` (n, M, k), encodings in standard deviations of the noise; ``prior`` (n, M);
    ``nodes`` (K, k - 1); returns (n,).
    """
    n, n_values, dimension = points.shape
    logs = log_prior(prior)
    success = np.zeros(n)
    for rows in row_blocks(n, len(nodes) * dimension):
        for secret in range(n_values):
            factor, distances = _triangular(*half_spaces(points[rows], logs[rows], secret))
            success[rows] += prior[rows, secret] * _cell_measure(factor, distances, nodes)
    return success


def unseen_failures(
    points: FloatArray, prior: FloatArray, n_nodes: int, n_exact: int = 1
) -> FloatArray:
    """Probability of failures that may be too rare for any node of :func:`cell_success` to show.

    A boundary at distance h is crossed with probability ``q = Phi(-h)``. The nearest is integrated
    exactly; of the others, in the worst case of q concentrated on a part of the cube, all n_nodes
    miss it with probability ``exp(-q n_nodes)``.

    Shapes: ``points``, ``prior`` (n, M, k) and (n, M); returns (n,): expected loss of success
    probability that is missed.
    """
    logs = log_prior(prior)
    missed = np.zeros(len(points))
    for secret in range(points.shape[1]):
        distances = np.sort(half_spaces(points, logs, secret)[1], axis=1)[:, n_exact:]
        crossed = np.minimum(ndtr(-distances), ndtr(distances))
        missed += prior[:, secret] * (crossed * np.exp(-crossed * n_nodes)).sum(axis=1)
    return missed


def failure_bound(points: FloatArray, prior: FloatArray) -> FloatArray:
    """Upper bound, of shape (n,), on the probability of a wrong guess: the sum over boundaries."""
    logs = log_prior(prior)
    total = np.zeros(len(points))
    for secret in range(points.shape[1]):
        distances = half_spaces(points, logs, secret)[1]
        total += prior[:, secret] * ndtr(-distances).sum(axis=1)
    return total


def _triangular(normals: FloatArray, distances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sort boundaries by distance and rotate: column j of the factor ends at row j."""
    order = np.argsort(distances, axis=1)
    sorted_normals = np.take_along_axis(normals, order[..., None], axis=1)
    factor = np.asarray(np.linalg.qr(sorted_normals.transpose(0, 2, 1), mode="r"))
    signs = np.where(np.diagonal(factor, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return factor * signs[:, :, None], np.take_along_axis(distances, order, axis=1)


def _cell_measure(factor: FloatArray, distances: FloatArray, nodes: FloatArray) -> FloatArray:
    """Return the normal measure of each cell, from boundaries in triangular form, shape (n,)."""
    n, dimension, n_values = factor.shape
    measure = np.ones((n, len(nodes)))
    z = np.empty((dimension - 1, n, len(nodes)))

    def room(boundary: int, known: int) -> FloatArray:
        spent = np.einsum("ni,ink->nk", factor[:, :known, boundary], z[:known])
        return distances[:, [boundary]] - spent

    # A boundary parallel to its coordinate is met or not by those before: infinitely far or not.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for j in range(dimension - 1):
            mass = ndtr(np.nan_to_num(room(j, j) / factor[:, j, j, None], nan=np.inf))
            measure *= mass
            # Quantiles stay finite where a cell has no mass.
            z[j] = ndtri(np.maximum(nodes[:, j] * mass, SMALLEST_PROBABILITY))
        upper, lower = np.full_like(measure, np.inf), np.full_like(measure, -np.inf)
        for boundary in range(dimension - 1, n_values):
            slope = factor[:, -1, boundary, None]
            left = room(boundary, dimension - 1)
            cut = left / slope
            upper = np.where(slope > 0, np.minimum(upper, cut), upper)
            lower = np.where(slope < 0, np.maximum(lower, cut), lower)
            measure *= (slope != 0) | (left >= 0)
    return (measure * np.maximum(ndtr(upper) - ndtr(lower), 0.0)).mean(axis=1)


# Distance of neighboring slices and the reach on both sides of an encoding, in standard
# deviations of the noise.
STEP, REACH = 1 / 6, 7.0
LEAST_ERROR = 1e-8
# Candidates for the axis across the slices.
N_AXES = 32
# Sine below which a boundary is a slice itself: it keeps or drops the whole slice.
PARALLEL = 1e-12


def spatial_success(points: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Success where all encodings lie in three dimensions, as for M = 4.

    Across parallel planes the best guess is worth ``int max_m p_m f_m`` on each: a smooth function
    of the plane but for third-order kinks where corners of the cells are passed, so that the
    trapezoidal rule over exact polygons (:func:`polygon_measure`) converges like ``step^4``. A
    boundary parallel to the planes would spoil that, so that the axis across is chosen away from
    all differences of encodings. All secrets share the planes.

    Shapes: ``points`` (n, M, 3), encodings in standard deviations of the noise; ``prior`` (n, M),
    prior of the secret; zero entries allowed; returns ``value`` (n,): error below 1e-6; ``error``
    (n,): how far the rule with half as many planes is off, commonly several times the error of the
    value, and 1e-8 in case the two agree by chance.
    """
    n, n_values, _ = points.shape
    turned, logs = _turn(points), log_prior(prior)
    count = round(REACH / STEP)
    planes = np.arange(-count, count + 1)
    fine, coarse = np.zeros(n), np.zeros(n)
    for rows in row_blocks(n, len(planes) * n_values**2):
        for secret in range(n_values):
            # Planes are whole multiples of the step, the same for every secret of a record.
            place = turned[rows, secret, :1] / STEP
            nearest = np.round(place)
            offset = STEP * (planes + (nearest - place))
            normals, distances = half_spaces(turned[rows], logs[rows], secret)
            measure = _slice_measures(normals, distances, offset)
            terms = STEP * np.exp(-(offset**2) / 2) / np.sqrt(2 * np.pi) * measure
            fine[rows] += prior[rows, secret] * terms.sum(axis=1)
            even = (nearest % 2 + planes) % 2 == 0
            coarse[rows] += prior[rows, secret] * 2 * np.where(even, terms, 0.0).sum(axis=1)
    return fine, np.abs(fine - coarse) + LEAST_ERROR


def _slice_measures(normals: FloatArray, distances: FloatArray, offset: FloatArray) -> FloatArray:
    """Measure of the polygons in which planes at some offsets (n, K) cut each cell, (n, K)."""
    sine = np.linalg.norm(normals[..., 1:], axis=2)
    steep = sine > PARALLEL
    safe = np.where(steep, sine, 1.0)
    flat = np.where(steep[..., None], normals[..., 1:] / safe[..., None], [1.0, 0.0])
    room = distances[:, None] - normals[:, None, :, 0] * offset[..., None]
    inside = np.where(steep[:, None], room / safe[:, None], np.where(room >= 0, FAR, -FAR))
    shape = (*offset.shape, normals.shape[1])
    measure = polygon_measure(
        np.broadcast_to(flat[:, None], (*shape, 2)).reshape(-1, shape[2], 2),
        signed(inside).reshape(-1, shape[2]),
    )
    return measure.reshape(offset.shape)


def _turn(points: FloatArray) -> FloatArray:
    """Turn each record so that no two encodings differ nearly along the first axis alone."""
    axes, frames = _candidate_axes()
    cosine = np.zeros((len(points), N_AXES))
    for secret in range(points.shape[1]):
        gaps = points - points[:, [secret]]
        lengths = np.linalg.norm(gaps, axis=2, keepdims=True)
        along = np.abs(gaps / np.where(lengths > 0, lengths, 1.0) @ axes.T)
        cosine = np.maximum(cosine, along.max(axis=1))
    return points @ frames[cosine.argmin(axis=1)]


@lru_cache(maxsize=1)
def _candidate_axes() -> tuple[FloatArray, FloatArray]:
    """Spread unit vectors over half a sphere (a Fibonacci lattice), with a frame for each."""
    index = np.arange(N_AXES)
    height = (index + 0.5) / N_AXES
    angle = np.pi * (1 + np.sqrt(5.0)) * index
    radius = np.sqrt(1 - height**2)
    axes = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
    second = np.stack([-np.sin(angle), np.cos(angle), 0 * angle], axis=1)
    return axes, np.stack([axes, second, np.cross(axes, second)], axis=2)


# Step and radius of the lattices that integrate the information, by dimension; see the tests for
# their error, below 1e-12 and 1e-8.
LATTICES = {1: (1 / 8, 9.0), 2: (1 / 4, 7.0)}
# Cell by cell the cost of a node grows like the cube of the number of secrets, that of an averaged
# posterior like its square, for a larger error. From so many secrets on posteriors reach a given
# error as soon or sooner (measured: 1 to 6 times at 10 secrets, 2 to 17 times at 40), unless
# failures are rarer than this, which only cells see well. Beyond the second number cells are never
# used. A node of the posterior being so cheap, it gets a larger budget of them.
FEWEST_POSTERIORS, MOST_CELLS, RARE_FAILURES = 10, 64, 0.01
MORE_POINTS = 4
# A tolerance from which posteriors see failures of any rarity well enough.
LOOSE = 1e-3
# Of all values but the likeliest: below it an advantage is no difference of successes.
NEARLY_CERTAIN = 1e-8
# Steps towards the center of the trade-off bound that brackets a success: a hundredth of the cost
# of quasi Monte Carlo.
N_STEPS = 4


def _over_cube(expected: Callable[..., FloatArray]) -> CubeIntegral:
    """Average over normal deviates, as an integral over the unit cube."""

    def integral(points: FloatArray, prior: FloatArray, nodes: FloatArray) -> FloatArray:
        return expected(points, prior, ndtri(nodes), np.full(len(nodes), 1.0 / len(nodes)))

    return integral


_top_posterior_over_cube = _over_cube(expected_top_posterior)
_information_over_cube = _over_cube(expected_information)
_gain_over_cube = _over_cube(expected_gain)


def _unseen_gain(points: FloatArray, prior: FloatArray, n_nodes: int) -> FloatArray:
    """Weight of one node: a gain that none of them shows may be as large."""
    return np.full(len(points), 1.0 / (n_nodes * prior.shape[1]))


def _unseen_posteriors(points: FloatArray, prior: FloatArray, n_nodes: int) -> FloatArray:
    """Weight of one node, and of boundaries that no node came near: posteriors differ there."""
    crossings = unseen_failures(points, prior, n_nodes, n_exact=0)
    return np.maximum(crossings, 1 / (n_nodes * prior.shape[1]))


def gaussian_success(
    points: FloatArray,
    rank: IntArray,
    prior: FloatArray,
    sampling: Sampling,
) -> tuple[FloatArray, FloatArray]:
    """Success probability of the Bayes-optimal attack, and its standard error.

    Shapes: ``points``, ``rank`` (n, M, k) and (n,); ``prior`` (n, M); returns ``value``,
    ``standard_error`` (n,): the error is 0 where the value is exact.
    """
    value, error = np.empty(len(prior)), np.zeros(len(prior))
    line, plane, rest = (np.flatnonzero(chosen) for chosen in (rank <= 1, rank == 2, rank > 2))
    if line.size:
        value[line] = interval_success(points[line, :, 0], prior[line])
    if plane.size:
        value[plane] = planar_success(points[plane, :, :2], prior[plane])
    if rest.size:
        distance = equal_distance(points[rest])
        regular = rest[np.isfinite(distance)]
        value[regular] = equidistant_success(distance[np.isfinite(distance)], prior[regular])
        rest = rest[np.isnan(distance)]
    for dimension in np.unique(rank[rest]):
        chosen = rest[rank[rest] == dimension]
        value[chosen], error[chosen] = _spacious_success(
            points[chosen, :, :dimension], prior[chosen], sampling
        )
    return np.clip(value, prior.max(axis=1), 1.0), error


def gaussian_advantage(
    points: FloatArray,
    rank: IntArray,
    prior: FloatArray,
    sampling: Sampling,
) -> tuple[FloatArray, FloatArray]:
    """Advantage of the Bayes-optimal attack over the likeliest value, and its standard error.

    Parameters and shapes as in :func:`gaussian_success`.
    """
    top = prior.max(axis=1)
    left = np.where(np.arange(prior.shape[1]) == prior.argmax(axis=1)[:, None], 0.0, prior)
    rest = left.sum(axis=1)
    value, error = np.zeros(len(prior)), np.zeros(len(prior))
    line = np.flatnonzero((rank <= 1) & (rest > 0.0))
    if line.size:
        value[line] = interval_gain(points[line, :, 0], prior[line]) / rest[line]
    usual = np.flatnonzero((rank > 1) & (rest > NEARLY_CERTAIN))
    if usual.size:
        known = points[usual], rank[usual], prior[usual]
        success, off = gaussian_success(*known, sampling)
        value[usual], error[usual] = (success - top[usual]) / rest[usual], off / rest[usual]
    certain = np.flatnonzero((rank > 1) & (rest > 0.0) & (rest <= NEARLY_CERTAIN))
    for dimension in np.unique(rank[certain]):
        chosen = certain[rank[certain] == dimension]
        value[chosen], error[chosen] = sampled_integral(
            _gain_over_cube,
            dimension,
            points[chosen, :, :dimension],
            prior[chosen],
            sampling,
            _unseen_gain,
        )
    return np.clip(value, 0.0, 1.0), error


def _spacious_success(
    points: FloatArray, prior: FloatArray, sampling: Sampling
) -> tuple[FloatArray, FloatArray]:
    """Success where the encodings span exactly the three or more dimensions given."""
    _, n_values, dimension = points.shape
    if dimension == 3 and n_values <= MOST_CELLS:
        return spatial_success(points, prior)
    failure = failure_bound(points, prior)
    value, error = _bracket(points, prior, failure)
    wide = np.flatnonzero(error > sampling.tolerance)
    if wide.size:
        few = (points[wide], prior[wide], failure[wide])
        value[wide], error[wide] = _sampled_success(*few, sampling)
    return value, error


def _bracket(
    points: FloatArray, prior: FloatArray, failure: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Upper bound on the success, by the trade-off bound, and how far it can be off, (n,) each."""
    top = prior.max(axis=1)
    gain = (1.0 - top) * tradeoff_advantage(points, 1.0, prior, refine=False, max_iter=N_STEPS)
    return top + gain, np.minimum(gain, np.maximum(top + gain - (1.0 - failure), 0.0))


def _sampled_success(
    points: FloatArray, prior: FloatArray, failure: FloatArray, sampling: Sampling
) -> tuple[FloatArray, FloatArray]:
    """Success by quasi Monte Carlo, and its standard error."""
    n, n_values, dimension = points.shape
    averaged = np.full(n, n_values >= FEWEST_POSTERIORS)
    larger = sampling
    if FEWEST_POSTERIORS <= n_values <= MOST_CELLS:
        averaged = (failure > RARE_FAILURES) | (sampling.tolerance >= LOOSE)
        larger = replace(sampling, max_points=MORE_POINTS * sampling.max_points)
    value, error = np.empty(n), np.empty(n)
    for rows, integral, size, budget, unseen in (
        (averaged, _top_posterior_over_cube, dimension, larger, _unseen_posteriors),
        (~averaged, cell_success, dimension - 1, sampling, unseen_failures),
    ):
        if rows.any():
            value[rows], error[rows] = sampled_integral(
                integral, size, points[rows], prior[rows], budget, unseen
            )
    return value, error


def gaussian_information(
    points: FloatArray,
    rank: IntArray,
    prior: FloatArray,
    sampling: Sampling,
) -> tuple[FloatArray, FloatArray]:
    """Mutual information of secret and release in nats, and its standard error.

    Parameters and shapes as in :func:`gaussian_success`.
    """
    value, error = np.zeros(len(prior)), np.zeros(len(prior))
    for dimension, (step, radius) in LATTICES.items():
        chosen = rank == dimension
        if chosen.any():
            nodes, weights = normal_lattice(dimension, step, radius)
            flat = points[chosen, :, :dimension]
            value[chosen] = expected_information(flat, prior[chosen], nodes, weights)
    rest = np.flatnonzero(rank > 2)
    nats = replace(sampling, tolerance=NATS * sampling.tolerance)
    if rest.size:
        value[rest], error[rest] = _information_bracket(points[rest], prior[rest])
    rest = rest[error[rest] > nats.tolerance]
    for dimension in np.unique(rank[rest]):
        chosen = rest[rank[rest] == dimension]
        flat = points[chosen, :, :dimension]
        value[chosen], error[chosen] = sampled_integral(
            _information_over_cube, dimension, flat, prior[chosen], nats
        )
    return np.clip(value, 0.0, entr(prior).sum(axis=1)), error


def _information_bracket(points: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Upper bound on the information, and how far it can be off, (n,) each.

    The bound from pairwise divergences, and the entropy of the prior. What is left of that once the
    release is known is little where a wrong guess is rare, by Fano's inequality: ``h(e) + e log(M -
    1)`` for a chance e of it, which rises up to ``1 - 1 / M``.
    """
    n_values, total = prior.shape[1], entr(prior).sum(axis=1)
    pairwise = pairwise_information(prior, lambda m: 0.5 * squared_distances_from(points, m))
    failure = np.minimum(failure_bound(points, prior), 1.0 - 1.0 / n_values)
    left = entr(failure) + entr(1.0 - failure) + failure * np.log(n_values - 1.0)
    upper = np.minimum(pairwise, total)
    return upper, np.clip(upper - (total - left), 0.0, upper)


# What moves a Gaussian by less than this, in standard deviations, cannot matter: it changes any
# success probability by less.
NEGLIGIBLE = 1e-9
# Largest deviation of a covariance's root from the mean one that counts as small.
NEARLY = 0.3
# Step and radius of the lattice that integrates the information on a line.
LATTICE_STEP, RADIUS = 1 / 32, 9.0
# Entries of one table of likelihoods.
ELEMENTS = 1 << 20
# Share of all values but the likeliest below which a success is averaged over those.
LIKELY = 0.1


@dataclass(frozen=True)
class Hypotheses:
    """Distributions of one record's releases under each value of the secret.

    Examples
    --------
    >>> import numpy as np
    >>> covariances = np.array([np.eye(3), np.diag([2.0, 1.0, 1.0])])
    >>> found = Hypotheses.of(np.zeros((2, 3)), covariances)
    >>> found.means.shape, found.n_rest
    ((2, 1), 0)
    """

    means: FloatArray  # Where the hypotheses differ, (M, k)
    roots: FloatArray  # Lower Cholesky factors of their covariances there, (M, k, k)
    scales: FloatArray  # Standard deviation in each of the remaining directions, (M,)
    n_rest: int  # How many there are; 0 where the hypotheses do not differ in them

    @classmethod
    def of(cls, means: FloatArray, covariances: FloatArray) -> "Hypotheses":
        """Reduce means of shape (M, d) and covariances of shape (M, d, d)."""
        n_values, d = means.shape
        root = np.linalg.cholesky(covariances.mean(axis=0))
        gaps = means - means[0]
        gaps = linalg.solve_triangular(root, (gaps - gaps.mean(axis=0)).T, lower=True).T
        half = np.stack(
            [linalg.solve_triangular(root, covariance, lower=True) for covariance in covariances]
        )
        shapes = np.stack([linalg.solve_triangular(root, block.T, lower=True) for block in half])
        shapes = 0.5 * (shapes + shapes.transpose(0, 2, 1))
        variances = np.median(np.linalg.eigvalsh(shapes), axis=1)
        excess = shapes - variances[:, None, None] * np.eye(d)
        span = np.concatenate([gaps, excess.reshape(n_values * d, d)])
        _, sizes, axes = np.linalg.svd(span, full_matrices=False)
        basis = axes[sizes > NEGLIGIBLE]
        n_rest = d - len(basis)
        if np.ptp(np.log(variances)) * np.sqrt(n_rest) <= NEGLIGIBLE:
            n_rest = 0
        elif n_rest == 1:  # as many coordinates as with its length, and on a line an exact result
            basis, n_rest = np.eye(d), 0
        inside = basis @ shapes @ basis.T
        return cls(gaps @ basis.T, np.linalg.cholesky(inside), np.sqrt(variances), n_rest)

    @property
    def n_values(self) -> int:
        """M, the number of values of the secret."""
        return len(self.means)

    @property
    def dimension(self) -> int:
        """Number of coordinates that releases are reduced to."""
        return self.means.shape[1] + (self.n_rest > 0)

    @property
    def on_a_line(self) -> bool:
        """True if they differ in one coordinate alone."""
        return self.means.shape[1] == 1 and self.n_rest == 0

    @property
    def equal(self) -> bool:
        """True if all covariances are the same."""
        return self.n_rest == 0 and bool(
            np.abs(self.roots - self.roots[:1]).max(initial=0.0) <= NEGLIGIBLE
        )

    @property
    def nearly_equal(self) -> bool:
        """True if the covariances differ little enough for their mean to stand in for them."""
        largest = np.abs(self.roots - np.eye(self.means.shape[1])).max(initial=0.0)
        return self.means.shape[1] > 0 and bool(largest <= NEARLY)

    def averaged(self) -> "Hypotheses":
        """Return the same means with the mean covariance, the identity in these coordinates."""
        n_values, k = self.means.shape
        roots = np.broadcast_to(np.eye(k), (n_values, k, k))
        return Hypotheses(self.means, roots, np.ones(n_values), 0)

    @cached_property
    def pairs(self) -> tuple[FloatArray, FloatArray]:
        """For every x, l: variances of x in the axes of l, and squared gaps, (M, M, k + q)."""
        n_values, k = self.means.shape
        variances = np.ones((n_values, n_values, k + self.n_rest))
        gaps = np.zeros_like(variances)
        for other in range(n_values):
            scale = self.scales**2 / self.scales[other] ** 2
            variances[:, other, k:] = scale[:, None]
            for secret in range(n_values):
                if k == 0 or secret == other:
                    continue
                whitened = linalg.solve_triangular(
                    self.roots[other],
                    np.column_stack([self.roots[secret], self.means[secret] - self.means[other]]),
                    lower=True,
                )
                axes, lengths, _ = np.linalg.svd(whitened[:, :k])
                variances[secret, other, :k] = lengths**2
                gaps[secret, other, :k] = (axes.T @ whitened[:, k]) ** 2
        return variances, gaps

    def divergences(self, secret: int, order: float) -> FloatArray:
        """Rényi divergences of one hypothesis from all, of shape (M,); infinite where they are."""
        variances, gaps = (table[secret] for table in self.pairs)
        near = np.abs(variances - 1.0) <= 1e-12
        excess = np.where(near, 0.0, variances - 1.0)
        if order == 1.0:
            return 0.5 * np.sum(excess - np.log1p(excess) + gaps, axis=1)
        if np.isinf(order):
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = np.where(gaps > 0.0, gaps / -excess, 0.0)
                terms = np.where(excess <= 0.0, 0.5 * (moved - np.log1p(excess)), np.inf)
            return np.sum(terms, axis=1)
        mixed = 1.0 + (1.0 - order) * excess
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(mixed) / (order - 1.0) + np.log1p(excess)
            terms = 0.5 * (order * gaps / mixed - logarithms)
        return np.sum(np.where(mixed > 0.0, terms, np.inf), axis=1)

    @cached_property
    def _transforms(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """From deviates of x to those of all l: (M, k, M k), (M, M, k), and log-determinants."""
        n_values, k = self.means.shape
        inverse = np.linalg.inv(self.roots)
        maps = np.einsum("lij,xjk->xkli", inverse, self.roots).reshape(n_values, k, n_values * k)
        shifts = np.einsum("lij,xlj->xli", inverse, self.means[:, None] - self.means)
        diagonals = np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(axis=1)
        return maps, shifts, diagonals[:, None] - diagonals

    def deviates(self, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return standard normal deviates, and the squared length of the rest over its variance.

        Shapes: ``nodes`` (K, dimension).
        """
        k = self.means.shape[1]
        length = chdtri(self.n_rest, nodes[:, k]) if self.n_rest else np.zeros(len(nodes))
        return ndtri(nodes[:, :k]), length

    def log_ratios(self, secret: int, z: FloatArray, length: FloatArray) -> FloatArray:
        """Log-likelihood ratios to one hypothesis of releases from it, of shape (K, M).

        Shapes: ``z``, ``length`` (K, k) and (K,).
        """
        maps, shifts, logarithms = self._transforms
        k = z.shape[1]
        gaps = (z @ maps[secret]).reshape(len(z), self.n_values, k) + shifts[secret]
        result = 0.5 * np.einsum("ki,ki->k", z, z)[:, None] + logarithms[secret]
        result -= 0.5 * np.einsum("kmi,kmi->km", gaps, gaps)
        if self.n_rest:
            ratio = self.scales[secret] / self.scales
            result += self.n_rest * np.log(ratio) + 0.5 * length[:, None] * (1.0 - ratio**2)
        result[:, secret] = 0.0
        return result


def top_posterior_over_cube(hypotheses: Hypotheses, prior: FloatArray, nodes: FloatArray) -> float:
    """Success of the Bayes-optimal guess as the expected largest posterior.

    Where a value is likely, what the release changes is rare under it: it is averaged over the
    other values instead, as in `expected_gain`.

    Shapes: ``prior`` (M,); ``nodes`` (K, dimension).
    """
    total, logs, star = 0.0, log_prior(prior), int(prior.argmax())
    others = np.delete(np.arange(len(prior)), star)
    if prior[others].sum() < LIKELY:
        for secret in others[prior[others] > 0.0].tolist():
            for rows in row_blocks(len(nodes), nodes.shape[1] + len(prior), ELEMENTS):
                ratios = hypotheses.log_ratios(secret, *hypotheses.deviates(nodes[rows])) + logs
                own, rest = ratios[:, star], ratios[:, others]
                best = rest.max(axis=1)
                gain = -np.expm1(np.minimum(own - best, 0.0))
                gain /= np.exp(rest - best[:, None]).sum(axis=1)
                total += float(prior[secret] * gain.sum())
        return float(prior[star]) + total / len(nodes)
    for secret in np.flatnonzero(prior > 0.0).tolist():
        for rows in row_blocks(len(nodes), nodes.shape[1] + len(prior), ELEMENTS):
            ratios = hypotheses.log_ratios(secret, *hypotheses.deviates(nodes[rows])) + logs
            ratios -= ratios.max(axis=1, keepdims=True)
            total += float(prior[secret] * np.sum(1.0 / np.exp(ratios).sum(axis=1)))
    return total / len(nodes)


def information_over_cube(hypotheses: Hypotheses, prior: FloatArray, nodes: FloatArray) -> float:
    """Mutual information of secret and release in nats; parameters as above."""
    total = 0.0
    for rows in row_blocks(len(nodes), nodes.shape[1] + len(prior), ELEMENTS):
        weights = np.full(len(nodes[rows]), 1.0 / len(nodes))
        z, length = hypotheses.deviates(nodes[rows])
        total += _expected_information(hypotheses, prior, z, length, weights)
    return total


def line_information(hypotheses: Hypotheses, prior: FloatArray) -> float:
    """Return the same where the hypotheses differ in one coordinate, on a lattice."""
    nodes, weights = normal_lattice(1, LATTICE_STEP, RADIUS)
    return _expected_information(hypotheses, prior, nodes, np.zeros(len(nodes)), weights)


def _expected_information(
    hypotheses: Hypotheses,
    prior: FloatArray,
    z: FloatArray,
    length: FloatArray,
    weights: FloatArray,
) -> float:
    total = 0.0
    for secret in np.flatnonzero(prior > 0.0).tolist():
        ratios = hypotheses.log_ratios(secret, z, length)
        excess = np.expm1(np.minimum(ratios, LARGEST_EXPONENT)) @ prior
        log_mixture = np.log1p(np.maximum(excess, 2.0**-53 - 1))
        total -= float(prior[secret] * (log_mixture @ weights))
    return total


def line_success(hypotheses: Hypotheses, prior: FloatArray) -> float:
    """Success of the Bayes-optimal guess where the hypotheses differ in one coordinate."""
    return unequal_interval_success(hypotheses.means[:, 0], hypotheses.roots[:, 0, 0], prior)


def unequal_interval_success(means: FloatArray, scales: FloatArray, prior: FloatArray) -> float:
    """Success of the Bayes-optimal guess among Gaussians on a line, exactly.

    The most likely value changes only where two weighted densities cross, at roots of a
    quadratic equation; between two such points one value is guessed.

    Shapes: ``means``, ``scales``, ``prior`` (M,).
    """
    present = prior > 0.0
    means, scales, prior = means[present], scales[present], prior[present]
    first, second = np.triu_indices(len(means), 1)
    precision = 1.0 / scales**2
    # log p - log s - (y - b)^2 / (2 s^2) = c + l y - h y^2
    square = 0.5 * precision
    linear = precision * means
    constant = np.log(prior / scales) - 0.5 * precision * means**2
    crossings = _roots(
        square[first] - square[second],
        linear[second] - linear[first],
        constant[second] - constant[first],
    )
    ends = np.concatenate([[-np.inf], np.unique(crossings), [np.inf]])
    if len(ends) == 2:
        inner = np.zeros(1)
    else:
        reach = 1.0 + np.abs(ends[1:-1]).max()
        inner = np.concatenate(
            [[ends[1] - reach], 0.5 * (ends[1:-2] + ends[2:-1]), [ends[-2] + reach]]
        )
    weights = constant + linear * inner[:, None] - square * inner[:, None] ** 2
    guess = weights.argmax(axis=1)
    low, high = ((end - means[guess]) / scales[guess] for end in (ends[:-1], ends[1:]))
    # On the side where both are small, so that tails keep their digits.
    share = np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return float(prior[guess] @ share)


def _roots(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Real roots of ``a y^2 + b y + c``, without cancellation."""
    inside = b**2 - 4.0 * a * c
    a, b, c, inside = (array[inside >= 0.0] for array in (a, b, c, inside))
    q = -0.5 * (b + np.copysign(np.sqrt(inside), b))
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.concatenate([q / a, c / q])
    return roots[np.isfinite(roots)]
