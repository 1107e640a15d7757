"""Posterior means of numbers, from log-likelihoods at Chebyshev nodes or on a grid, and a prior."""

import numpy as np
from numpy.polynomial import chebyshev

from skleak.adversary.hypotheses import N_NODES, chebyshev_coefficients
from skleak.adversary.knowledge import NumberPrior
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import BoolArray, FloatArray, IntArray

_GRID = 257
# Fewer effective nodes than this do not tell a mean: the grid is drawn closer about them.
_RESOLVED = 6.0
_ROUNDS = 12
# Logarithm of the share of the largest density that is left out by a closer grid.
_LEFT_OUT = -36.0
_ELEMENTS = 1 << 21


def posterior_mean(
    scores: FloatArray, low: FloatArray, high: FloatArray, prior: NumberPrior
) -> FloatArray:
    """Mean of every target's number under its posterior, given releases.

    Shapes: ``scores`` (n_releases, n_targets, N_NODES), log-likelihoods at the Chebyshev nodes of
    [low, high]; ``low``, ``high`` (n_targets,); returns (n_releases, n_targets).
    """
    n_releases, n_targets, _ = scores.shape
    means = np.empty((n_releases, n_targets))
    for some in row_blocks(n_targets, _GRID * (n_releases + N_NODES), _ELEMENTS):
        targets = np.arange(n_targets)[some]
        nodes = prior.nodes(_GRID, targets)
        matrix = basis(places(nodes, low[targets], high[targets]))
        # One product of matrices for each target: its releases by the nodes of its grid.
        table = np.matmul(scores[:, some].swapaxes(0, 1), matrix)
        table += prior.log_at(nodes, targets)[:, None]
        found, resolved = _mean(table, nodes[:, None])
        means[:, some] = np.where(resolved, found, np.nan).T
    rows, columns = np.nonzero(np.isnan(means))
    for some in row_blocks(len(rows), _GRID * N_NODES, _ELEMENTS):
        r, t = rows[some], columns[some]
        means[r, t] = _closer(scores[r, t], low[t], high[t], prior, t)
    return means


def _closer(
    scores: FloatArray, low: FloatArray, high: FloatArray, prior: NumberPrior, targets: IntArray
) -> FloatArray:
    """Posterior means (n,) on grids that are drawn closer until they tell a mean.

    Shapes: ``scores`` (n, N_NODES); ``low``, ``high``, ``targets`` (n,).
    """
    start, stop = prior.low[targets], prior.high[targets]
    means, open_ = np.empty(len(scores)), np.arange(len(scores))
    for _ in range(_ROUNDS):
        t = targets[open_]
        nodes = start[:, None] + (stop - start)[:, None] * np.linspace(0.0, 1.0, _GRID)
        matrix = basis(places(nodes, low[open_], high[open_]))
        table = np.matmul(scores[open_, None], matrix)[:, 0] + prior.log_at(nodes, t)
        means[open_], resolved = _mean(table, nodes)
        near = table >= table.max(axis=1, keepdims=True) + _LEFT_OUT
        first = np.maximum(near.argmax(axis=1) - 1, 0)
        last = np.minimum(_GRID - near[:, ::-1].argmax(axis=1), _GRID - 1)
        # No closer: densities far apart, each of which lies on a node or two.
        more = ~resolved & (last - first < _GRID // 2)
        everyone = np.arange(len(open_))
        start, stop = nodes[everyone, first][more], nodes[everyone, last][more]
        open_ = open_[more]
        if not len(open_):
            break
    return means


def _mean(table: FloatArray, nodes: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Means (...) by densities of which the logarithms are given, and if enough nodes tell them.

    Shapes: ``table`` (..., n_nodes); ``nodes`` broadcasts to it.
    """
    weights = np.exp(table - table.max(axis=-1, keepdims=True))
    total = weights.sum(axis=-1)
    return (weights * nodes).sum(axis=-1) / total, total**2 >= _RESOLVED * (weights**2).sum(axis=-1)


def places(nodes: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Places of nodes (n, k) in [-1, 1], between the ends (n,)."""
    return np.clip(2.0 * (nodes - low[:, None]) / (high - low)[:, None] - 1.0, -1.0, 1.0)


def basis(places: FloatArray) -> FloatArray:
    """Matrices from values at Chebyshev nodes to values at places (n, k), (n, N_NODES, k)."""
    terms = chebyshev.chebvander(places, N_NODES - 1)
    return np.asarray((terms @ chebyshev_coefficients()).swapaxes(1, 2))


def prior_grid(prior: NumberPrior, n_points: int) -> FloatArray:
    """Ascending points between the ends of each prior, half of them where it has its mass.

    Shapes: returns (n_targets, n_points): quantiles of an even mixture of the prior and a uniform
    density.
    """
    nodes = prior.nodes(prior.log_density.shape[1])
    density = np.exp(prior.log_density - prior.log_density.max(axis=1, keepdims=True))
    cells = 0.5 * (density[:, 1:] + density[:, :-1])
    shares = 0.5 * cells / cells.sum(axis=1, keepdims=True) + 0.5 / cells.shape[1]
    steps = np.concatenate([np.zeros((len(cells), 1)), np.cumsum(shares, axis=1)], axis=1)
    levels = (np.arange(n_points) + 0.5) / n_points
    return np.stack(
        [np.interp(levels, own, points) for own, points in zip(steps, nodes, strict=True)]
    )


def grid_mean(scores: FloatArray, points: FloatArray, prior: NumberPrior) -> FloatArray:
    """Mean of every target's number under its posterior, without interpolation.

    Shapes: ``scores`` (n_releases, n_targets, n_points), log-likelihoods, -inf for values that are
    ruled out; ``points`` (n_targets, n_points), ascending; returns (n_releases, n_targets). A
    release that is impossible under every value tells nothing: the prior is left.
    """
    weights = np.gradient(points, axis=1)
    with np.errstate(divide="ignore"):
        log_prior = prior.log_at(points, np.arange(len(points))) + np.log(weights)
    table = np.where(np.isnan(scores), -np.inf, scores) + log_prior
    impossible = ~np.isfinite(table.max(axis=2, keepdims=True))
    table = np.where(impossible, log_prior, table)
    return _mean(table, points)[0]
