"""Cells of guesses, and integrals over them.

Exact success of the Bayes-optimal attack: the Gaussian measure of its decision cells.

The attacker who sees a release guesses the secret of the largest posterior ([BIL23] theorem 1). In
standard deviations of the noise, m wins against l where the release lies on m's side of a
hyperplane at distance ``D / 2 + log(p_m / p_l) / D`` from e_m, D = |e_m - e_l|. The success
probability is ``sum_m p_m P(cell of m | m)``.

Expectations over a mixture of Gaussians: the largest posterior, and the information.

Given the secret m, a release is ``e_m + z`` with standard normal z (in standard deviations of the
noise), and every likelihood ratio is ``exp(z . (e_l - e_m) - |e_l - e_m|^2 / 2)``. Both integrals
below average over the secret exactly and over z by given nodes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr
from scipy.stats import qmc

from skleak.utils._arguments import make_generator
from skleak.utils._blocks import row_blocks
from skleak.utils._geometry import log_prior, loses_tie
from skleak.utils._typing import FloatArray, IntArray, RandomState


@lru_cache(maxsize=8)
def normal_lattice(dimension: int, step: float, radius: float) -> tuple[FloatArray, FloatArray]:
    """Trapezoidal rule for a standard normal in one or two dimensions.

    For integrands that are analytic in a strip the rule converges like ``exp(-2 pi a / step)``, a
    being the width of the strip, whatever their size: log-sums of well separated Gaussians, which
    Gauss-Hermite nodes miss, lose nothing here, because where they bend the density is small.

    Returns ``nodes`` (K, dimension); ``weights`` (K,): they sum to 1.
    """
    count = round(radius / step)
    line = np.arange(-count, count + 1) * step
    nodes = np.stack(np.meshgrid(*[line] * dimension, indexing="ij"), axis=-1)
    nodes = nodes.reshape(-1, dimension)
    squared = (nodes**2).sum(axis=1)
    kept = squared <= radius**2
    weights = np.exp(-squared[kept] / 2)
    return nodes[kept], weights / weights.sum()


def sobol_points(dimension: int, n_points: int, generator: np.random.Generator) -> FloatArray:
    """Scrambled Sobol points in the open unit cube.

    Returns (n_points, dimension).
    """
    exponent = int(n_points).bit_length() - 1
    points = qmc.Sobol(dimension, rng=generator).random_base2(exponent)
    # A scrambled coordinate may be 0 exactly: half the sequence's own resolution moves it inside.
    return 0.5 + (1 - 2.0**-30) * (points - 0.5)


def interval_success(positions: FloatArray, prior: FloatArray) -> FloatArray:
    """Success where all encodings lie on a line: the cells are intervals.

    Exact for any number of secrets. With two it is the closed form
    ``sum_k p_k Phi(D / 2 -+ log(p_2 / p_1) / D)``.

    Shapes: ``positions`` (n, M), encodings on the line, in standard deviations of the noise;
    ``prior`` (n, M), prior of the secret; zero entries allowed; returns (n,).
    """
    return prior.max(axis=1) + interval_gain(positions, prior)


def interval_gain(positions: FloatArray, prior: FloatArray) -> FloatArray:
    """Success beyond that of the likeliest value on a line, without the digits that cancel.

    What the others win in their cells, less what the likeliest value loses beside its own.
    Parameters and shapes as in :func:`interval_success`.
    """
    logs, top = log_prior(prior), prior.argmax(axis=1)
    gain = np.zeros(len(positions))
    for secret in range(positions.shape[1]):
        gap = positions - positions[:, [secret]]
        odds = logs[:, [secret]] - logs
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            boundary = gap / 2 + odds / gap
        upper = np.where(gap > 0, boundary, np.inf).min(axis=1)
        lower = np.where(gap < 0, boundary, -np.inf).max(axis=1)
        beaten = ((gap == 0) & loses_tie(odds, secret)).any(axis=1) | (lower >= upper)
        # From the nearer tail: one minus almost one has no digits.
        far = lower > 0.0
        cell = np.where(far, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
        won = np.where(beaten, 0.0, cell)
        lost = np.where(beaten, 1.0, ndtr(lower) + ndtr(-upper))
        gain += prior[:, secret] * np.where(top == secret, -lost, won)
    return np.maximum(gain, 0.0)


def equidistant_success(distance: FloatArray, prior: FloatArray) -> FloatArray:
    """Success where every two encodings are equally far apart: a one-dimensional integral.

    They then look like the corners ``a u_m`` of a simplex, ``a = distance / sqrt(2)``, whose
    coordinates carry independent noise:
    ``sum_m p_m E prod_(l != m) Phi(z + a + log(p_m / p_l) / a)``, z standard normal.

    Shapes: ``distance`` (n,), distance of every pair, positive, in standard deviations of the
    noise; ``prior`` (n, M), prior of the secret; zero entries allowed; returns (n,).
    """
    n, n_values = prior.shape
    logs = log_prior(prior)
    nodes, weights = normal_lattice(1, 1 / 32, 9.0)
    uniform = bool((logs == logs[:, :1]).all())
    success = np.zeros(n)
    for rows in row_blocks(n, n_values * len(nodes)):
        corner = distance[rows, None] / np.sqrt(2.0)
        # Under a uniform prior every secret has the same cell, up to a rotation.
        for secret in range(1 if uniform else n_values):
            shift = corner + (logs[rows, [secret]] - logs[rows]) / corner
            shift[:, secret] = np.inf
            cell = ndtr(nodes[:, :1] + shift[:, None, :]).prod(axis=2) @ weights
            success[rows] += cell * (1.0 if uniform else prior[rows, secret])
    return success


# Extents, in standard deviations of the noise, below which a direction of the hull cannot matter:
# removing one of extent t moves every Gaussian by at most t, hence any success probability by
# less than t / 2. The larger applies only where the encodings' own round-off is that large.
NEGLIGIBLE_EXTENT, LARGEST_ROUNDING_EXTENT = 1e-12, 1e-9


def hull_coordinates(encodings: FloatArray, noise_scale: FloatArray) -> tuple[FloatArray, IntArray]:
    """Coordinates of the encodings in their affine hull, along its principal axes.

    M points lie in an affine space of at most M - 1 dimensions, and isotropic Gaussian noise looks
    the same in every rotated frame: all that follows costs O(M) for each release and not O(d). A
    thin QR of the differences (O(M^2 d)) and an SVD of its small factor do it.

    Shapes: ``encodings`` (n, M, d); ``noise_scale`` (n,); returns ``coordinates`` (n, M, min(M -
    1, d)): in standard deviations of the noise, the widest direction first; centred; ``rank``
    (n,): number of leading coordinates that differ between the encodings; the others are
    round-off.
    """
    n, n_values, dimension = encodings.shape
    width = min(n_values - 1, dimension)
    coordinates = np.empty((n, n_values, width))
    rank = np.empty(n, dtype=np.intp)
    for rows in row_blocks(n, n_values * dimension):
        block, scale = encodings[rows], noise_scale[rows]
        # Differences first: centring by the mean itself would round at the size of the encodings.
        centered = block - block[:, :1]
        centered -= centered.mean(axis=1, keepdims=True)
        factor = np.asarray(np.linalg.qr(centered.transpose(0, 2, 1), mode="r"))
        left, extents, _ = np.linalg.svd(factor.transpose(0, 2, 1), full_matrices=False)
        extents = extents[:, :width] / scale[:, None]
        coordinates[rows] = left[:, :, :width] * extents[:, None, :]
        rounding = np.finfo(float).eps * max(n_values, dimension) * np.abs(block).max(axis=(1, 2))
        tolerance = np.clip(rounding / scale, NEGLIGIBLE_EXTENT, LARGEST_ROUNDING_EXTENT)
        rank[rows] = (extents > tolerance[:, None]).sum(axis=1)
    return coordinates, rank


def squared_distances_from(points: FloatArray, secret: int) -> FloatArray:
    """Squared distances of all points of a record from one of them, shape (n, M)."""
    gaps = points - points[:, secret : secret + 1]
    return np.einsum("nmk,nmk->nm", gaps, gaps)


def equal_distance(points: FloatArray) -> FloatArray:
    """Return the distance between every two points of a record, NaN where the pairs differ.

    Shapes: ``points`` (n, M, k), coordinates in standard deviations of the noise; returns (n,).
    """
    n, n_values, _ = points.shape
    smallest, largest = np.full(n, np.inf), np.zeros(n)
    for secret in range(n_values):
        distances = np.sqrt(squared_distances_from(points, secret))
        largest = np.maximum(largest, distances.max(axis=1))
        distances[:, secret] = np.inf
        smallest = np.minimum(smallest, distances.min(axis=1))
    equal = largest - smallest <= 1e-10 * np.maximum(largest, 1.0)
    return np.where(equal, (largest + smallest) / 2, np.nan)


LARGEST_EXPONENT = 700.0


def _log_ratios(
    points: FloatArray, nodes: FloatArray, axis_elements: int
) -> Iterator[tuple[slice, int, FloatArray]]:
    """Yield (records, secret, log-likelihood ratios to that secret of shape (M, B, K))."""
    n, n_values, _ = points.shape
    for rows in row_blocks(n, n_values * axis_elements):
        block = points[rows]
        projected = block.transpose(1, 0, 2) @ nodes.T
        for secret in range(n_values):
            half = squared_distances_from(block, secret).T[:, :, None] / 2
            yield rows, secret, projected - projected[secret] - half


def expected_top_posterior(
    points: FloatArray, prior: FloatArray, nodes: FloatArray, weights: FloatArray
) -> FloatArray:
    """Success probability of the Bayes-optimal guess as the expected largest posterior.

    ``sum_m p_m E max_l posterior_l(e_m + z)``: bounded, and of far smaller variance than counting
    right guesses ([BIL23] theorem 1).

    Shapes: ``points`` (n, M, k), encodings in standard deviations of the noise; ``prior`` (n, M);
    ``nodes``, ``weights`` (K, k) and (K,); returns (n,).
    """
    result = np.zeros(len(points))
    logs = log_prior(prior).T[:, :, None]
    for rows, secret, ratios in _log_ratios(points, nodes, len(nodes)):
        ratios += logs[:, rows]
        ratios -= ratios.max(axis=0)
        top = 1 / np.exp(ratios, out=ratios).sum(axis=0)
        result[rows] += prior[rows, secret] * (top @ weights)
    return result


def expected_gain(
    points: FloatArray, prior: FloatArray, nodes: FloatArray, weights: FloatArray
) -> FloatArray:
    """Advantage of the Bayes-optimal guess over the likeliest value, *.

    ``E [(max_l p_l f_l - p_* f_*)_+ / sum_l p_l f_l]`` over the mixture of all values but *, which
    both the maximum and the sum are over: in [0, 1], however certain * is. Parameters and shapes as
    in :func:`expected_top_posterior`.
    """
    result, n_values = np.zeros(len(points)), prior.shape[1]
    logs, star = log_prior(prior).T[:, :, None], prior.argmax(axis=1)
    others = np.where(np.arange(n_values) == star[:, None], 0.0, prior)
    share = others / np.maximum(others.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    for rows, secret, ratios in _log_ratios(points, nodes, len(nodes)):
        ratios += logs[:, rows]
        at = star[rows][None, :, None]
        own = np.take_along_axis(ratios, at, axis=0)[0]
        np.put_along_axis(ratios, at, -np.inf, axis=0)
        best = ratios.max(axis=0)
        total = np.exp(ratios - best).sum(axis=0)
        gain = np.maximum(-np.expm1(np.minimum(own - best, 0.0)), 0.0) / total
        result[rows] += share[rows, secret] * (gain @ weights)
    return result


def expected_information(
    points: FloatArray, prior: FloatArray, nodes: FloatArray, weights: FloatArray
) -> FloatArray:
    """Mutual information of secret and release in nats.

    ``-sum_m p_m E log sum_l p_l exp(ratio_l)``, with the ratios to the likelihood of m. Written
    with ``expm1`` and ``log1p`` so that it vanishes exactly where the encodings coincide: bounds
    behave like its square root. Parameters and shapes as in :func:`expected_top_posterior`.
    """
    result = np.zeros(len(points))
    for rows, secret, ratios in _log_ratios(points, nodes, len(nodes)):
        np.minimum(ratios, LARGEST_EXPONENT, out=ratios)
        excess = np.einsum("bm,mbk->bk", prior[rows], np.expm1(ratios, out=ratios))
        # Only a secret of probability below 1e-16 can come this close to -1; its share is nil.
        log_mixture = np.log1p(np.maximum(excess, 2.0**-53 - 1))
        result[rows] -= prior[rows, secret] * (log_mixture @ weights)
    return result


# Maps points (n, M, k), priors (n, M) and nodes of the unit cube to one value a record.
CubeIntegral = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
UnseenMass = Callable[[FloatArray, FloatArray, int], FloatArray]
# Independent scramblings of the Sobol points; their spread is the standard error.
N_SCRAMBLINGS = 16
# Nodes of the first attempt, for each secret; a power of two.
FEWEST_NODES = 64
# Standard error aimed at in nats, relative to that of a success probability.
NATS = 5.0
# Factor between attempts.
GROWTH = 4


@dataclass(frozen=True)
class Sampling:
    """Sampling plan: the standard error aimed at, the most points of a scrambling, the seed."""

    tolerance: float | FloatArray  # one, or one for each record
    max_points: int
    random_state: RandomState


def sampled_integral(
    integral: CubeIntegral,
    dimension: int,
    points: FloatArray,
    prior: FloatArray,
    sampling: Sampling,
    unseen: UnseenMass | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Quasi Monte Carlo estimate of an integral over the unit cube, and its standard error.

    Each record is done again with four times as many points until that should meet the tolerance,
    at the usual rate of 1 / n. What a record gets does not depend on the others.

    Shapes: ``points``, ``prior`` (n, M, k) and (n, M), encodings in standard deviations of the
    noise, and prior of the secret; returns ``value``, ``standard_error`` (n,).
    """
    n, n_values, _ = points.shape
    generator = make_generator(sampling.random_state)
    value, error = np.empty(n), np.empty(n)
    pending, last = np.arange(n), np.zeros(n, dtype=bool)
    tolerance = np.broadcast_to(sampling.tolerance, (n,))
    n_nodes = FEWEST_NODES
    while pending.size:
        estimates = []
        for scrambling in generator.spawn(N_SCRAMBLINGS):
            nodes = sobol_points(dimension, n_nodes, scrambling)
            estimates.append(integral(points[pending], prior[pending], nodes))
        value[pending] = np.mean(estimates, axis=0)
        error[pending] = np.std(estimates, axis=0, ddof=1) / np.sqrt(N_SCRAMBLINGS)
        if unseen is not None:
            missed = unseen(points[pending], prior[pending], N_SCRAMBLINGS * n_nodes)
            error[pending] = np.maximum(error[pending], missed)
        n_nodes *= GROWTH
        if n_nodes * n_values > sampling.max_points:
            break
        pending = pending[~last[pending]]
        # To stop at the first small error would select those that are too small by chance: it only
        # decides that the next, independent estimate is the last.
        last[pending] = error[pending] <= GROWTH * tolerance[pending]
    return value, error
