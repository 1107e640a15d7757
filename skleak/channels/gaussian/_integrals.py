"""Success and information of the Gaussian channel, each record by the method its shape allows."""

from dataclasses import replace

import numpy as np
from scipy.special import entr, ndtri

from skleak.bounds import tradeoff_advantage
from skleak.channels._divergence import pairwise_information
from skleak.channels.gaussian._cells import (
    equidistant_success,
    interval_gain,
    interval_success,
)
from skleak.channels.gaussian._hull import equal_distance, squared_distances_from
from skleak.channels.gaussian._mixture import (
    expected_gain,
    expected_information,
    expected_top_posterior,
)
from skleak.channels.gaussian._orthants import cell_success, failure_bound, unseen_failures
from skleak.channels.gaussian._quadrature import normal_lattice
from skleak.channels.gaussian._sampling import NATS, Sampling, sampled_integral
from skleak.channels.gaussian._slices import spatial_success
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.geometry._polygons import planar_success

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
# Steps towards the centre of the trade-off bound that brackets a success: a hundredth of the cost
# of quasi Monte Carlo.
N_STEPS = 4


def _top_posterior_over_cube(
    points: FloatArray, prior: FloatArray, nodes: FloatArray
) -> FloatArray:
    weights = np.full(len(nodes), 1.0 / len(nodes))
    return expected_top_posterior(points, prior, ndtri(nodes), weights)


def _information_over_cube(points: FloatArray, prior: FloatArray, nodes: FloatArray) -> FloatArray:
    weights = np.full(len(nodes), 1.0 / len(nodes))
    return expected_information(points, prior, ndtri(nodes), weights)


def _gain_over_cube(points: FloatArray, prior: FloatArray, nodes: FloatArray) -> FloatArray:
    weights = np.full(len(nodes), 1.0 / len(nodes))
    return expected_gain(points, prior, ndtri(nodes), weights)


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
