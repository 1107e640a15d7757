"""Success of the Bayes-optimal attack in many dimensions, cell by cell."""

import numpy as np
from scipy.special import ndtr, ndtri

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray
from skleak.utils.geometry._half_spaces import SMALLEST_PROBABILITY, half_spaces, log_prior


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
