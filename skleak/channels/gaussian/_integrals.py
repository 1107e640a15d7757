"""Success and information of the Gaussian channel, each record by the method its shape allows."""

from dataclasses import replace

import numpy as np
from scipy.special import entr, ndtri

from skleak.channels.gaussian._cells import equidistant_success, interval_success
from skleak.channels.gaussian._hull import equal_distance
from skleak.channels.gaussian._mixture import expected_information, expected_top_posterior
from skleak.channels.gaussian._orthants import cell_success, failure_bound, unseen_failures
from skleak.channels.gaussian._quadrature import normal_lattice
from skleak.channels.gaussian._sampling import Sampling, sampled_integral
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


# Standard error aimed at in nats, relative to that of a success probability.
NATS = 5.0


def _top_posterior_over_cube(
    points: FloatArray, prior: FloatArray, nodes: FloatArray
) -> FloatArray:
    weights = np.full(len(nodes), 1.0 / len(nodes))
    return expected_top_posterior(points, prior, ndtri(nodes), weights)


def _information_over_cube(points: FloatArray, prior: FloatArray, nodes: FloatArray) -> FloatArray:
    weights = np.full(len(nodes), 1.0 / len(nodes))
    return expected_information(points, prior, ndtri(nodes), weights)


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


def _spacious_success(
    points: FloatArray, prior: FloatArray, sampling: Sampling
) -> tuple[FloatArray, FloatArray]:
    """Success where the encodings span exactly the three or more dimensions given."""
    n, n_values, dimension = points.shape
    if dimension == 3 and n_values <= MOST_CELLS:
        return spatial_success(points, prior)
    averaged = np.full(n, n_values >= FEWEST_POSTERIORS)
    larger = sampling
    if FEWEST_POSTERIORS <= n_values <= MOST_CELLS:
        averaged = failure_bound(points, prior) > RARE_FAILURES
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
    for dimension in np.unique(rank[rank > 2]):
        chosen = rank == dimension
        value[chosen], error[chosen] = sampled_integral(
            _information_over_cube,
            dimension,
            points[chosen, :, :dimension],
            prior[chosen],
            replace(sampling, tolerance=NATS * sampling.tolerance),
        )
    return np.clip(value, 0.0, entr(prior).sum(axis=1)), error
