"""Numbers as secrets: their prior densities, interpolation between values, and bounds on errors."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from skleak.adversary.knowledge import Population, range_of_others
from skleak.bounds import bayes_mse, van_trees_mse
from skleak.utils._arguments import check_numbers
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# Nodes of a density; between them its logarithm is linear.
_PRIOR_NODES = 513
# Logarithm of the share of the largest density below which there is none.
_FLOOR = -60.0
# Standard deviations of a normal prior that its nodes span, to both sides.
_TAILS = 8.0
# Sums of kernels below this are round-off of those of all records.
_LEAST_KERNELS = 1e-10
# Widths of kernels are rounded down to powers of this, so that they are few.
_LADDER = 2.0**0.25
# Share of its range in which a given prior falls to zero, at either end.
_EDGE = 1.0 / 32.0
# Share of a given prior that must lie in the range of the other records.
_INSIDE = 0.5


@dataclass(frozen=True)
class NumberPrior:
    """Prior density of a number of every target, its logarithm linear between nodes. Confidential.

    Examples
    --------
    >>> ends = np.array([-8.0]), np.array([8.0])
    >>> prior = NumberPrior(*ends, -0.5 * np.linspace(-8.0, 8.0, 513)[None] ** 2)
    >>> prior.variance.round(3), prior.information.round(3)
    (array([1.]), array([1.]))
    """

    low: FloatArray  # ends, about which there is no density, (n_targets,)
    high: FloatArray
    log_density: FloatArray  # up to a constant, (n_targets, n_nodes), at even spaces

    def take(self, rows: IntArray) -> "NumberPrior":
        """Those of some targets."""
        return NumberPrior(self.low[rows], self.high[rows], self.log_density[rows])

    def nodes(self, n_nodes: int, targets: Any = slice(None)) -> FloatArray:
        """Even spaces from end to end, (n_targets, n_nodes)."""
        low, high = self.low[targets, None], self.high[targets, None]
        return np.asarray(low + (high - low) * np.linspace(0.0, 1.0, n_nodes))

    def log_at(self, values: FloatArray, targets: IntArray) -> FloatArray:
        """Logarithms of the density up to a constant of each target, -inf outside of its ends.

        Shapes: ``values`` (n, k); ``targets`` (n,), the target of each row; returns (n, k).
        """
        low, high = self.low[targets, None], self.high[targets, None]
        last = self.log_density.shape[1] - 1
        place = (values - low) / (high - low) * last
        cell = np.clip(np.floor(place), 0, last - 1).astype(np.intp)
        left = self.log_density[targets[:, None], cell]
        step = self.log_density[targets[:, None], cell + 1] - left
        inside = (place >= -1e-9) & (place <= last + 1e-9)
        return np.where(inside, left + (place - cell) * step, -np.inf)

    def weighted_nodes(self, n_nodes: int, targets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Even spaces of some targets, and weights with sum 1, (n, n_nodes) each."""
        nodes = self.nodes(n_nodes, targets)
        density = np.exp(self.log_at(nodes, targets))
        return nodes, density / density.sum(axis=1, keepdims=True)

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean, variance and information about the location, (n_targets,) each."""
        n_targets, n_nodes = self.log_density.shape
        found = np.empty((3, n_targets))
        for some in row_blocks(n_targets, n_nodes):
            nodes = self.nodes(n_nodes, some)
            masses, centers = self._cells(some)
            mean = (masses * centers).sum(axis=1)
            spacing = nodes[:, 1] - nodes[:, 0]
            # Within a cell the number spreads almost evenly.
            spread = (masses * (centers - mean[:, None]) ** 2).sum(axis=1) + spacing**2 / 12.0
            slope = np.diff(self.log_density[some], axis=1) / spacing[:, None]
            found[:, some] = mean, spread, (masses * slope**2).sum(axis=1)
        return found[0], found[1], found[2]

    def _cells(self, some: slice) -> tuple[FloatArray, FloatArray]:
        """Probabilities and means of the cells between nodes, (n_targets, n_nodes - 1)."""
        logs = self.log_density[some] - self.log_density[some].max(axis=1, keepdims=True)
        density, step = np.exp(logs), np.diff(logs, axis=1)
        flat = np.abs(step) < 1e-4
        safe = np.where(flat, 1.0, step)
        # Logarithmic means, and of what lies in a cell the part that is before its end.
        masses = np.where(flat, density[:, :-1], np.diff(density, axis=1) / safe)
        share = np.where(flat, 0.5 + step / 12.0, 1.0 / -np.expm1(-safe) - 1.0 / safe)
        masses /= masses.sum(axis=1, keepdims=True)
        nodes = self.nodes(logs.shape[1], some)
        return masses, nodes[:, :-1] + share * np.diff(nodes, axis=1)

    @property
    def mean(self) -> FloatArray:
        """Mean of every target, (n_targets,): the best guess before the release."""
        return self._moments[0]

    @property
    def variance(self) -> FloatArray:
        """Variance of every target, (n_targets,): the squared error of that guess."""
        return self._moments[1]

    @property
    def information(self) -> FloatArray:
        """``E[(d log f / dz)^2]`` of every target, (n_targets,)."""
        return self._moments[2]

    def draw(self, n_draws: int, generator: np.random.Generator) -> FloatArray:
        """Numbers drawn from the priors, (n_draws, n_targets)."""
        n_targets, n_nodes = self.log_density.shape
        drawn = np.empty((n_draws, n_targets))
        for i in range(n_targets):
            masses = self._cells(slice(i, i + 1))[0][0]
            cell = generator.choice(n_nodes - 1, size=n_draws, p=masses)
            step = np.diff(self.log_density[i])[cell]
            # Inverse of the distribution function within a cell.
            uniform, flat = generator.random(n_draws), np.abs(step) < 1e-9
            safe = np.where(flat, 1.0, step)
            share = np.where(flat, uniform, np.log1p(uniform * np.expm1(safe)) / safe)
            width = (self.high[i] - self.low[i]) / (n_nodes - 1)
            drawn[:, i] = self.low[i] + width * (cell + share)
        return drawn

    def posterior_mean(self, scores: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Mean of every target's number under its posterior, given releases.

        Shapes: ``scores`` (n_releases, n_targets, N_NODES), log-likelihoods at the Chebyshev nodes
        of [low, high]; ``low``, ``high`` (n_targets,); returns (n_releases, n_targets).
        """
        n_releases, n_targets, _ = scores.shape
        means = np.empty((n_releases, n_targets))
        for some in row_blocks(n_targets, _MEAN_GRID * (n_releases + N_NODES), _MEAN_ELEMENTS):
            targets = np.arange(n_targets)[some]
            nodes = self.nodes(_MEAN_GRID, targets)
            matrix = basis(places(nodes, low[targets], high[targets]))
            # One product of matrices for each target: its releases by the nodes of its grid.
            table = np.matmul(scores[:, some].swapaxes(0, 1), matrix)
            table += self.log_at(nodes, targets)[:, None]
            found, resolved = _mean(table, nodes[:, None])
            means[:, some] = np.where(resolved, found, np.nan).T
        rows, columns = np.nonzero(np.isnan(means))
        for some in row_blocks(len(rows), _MEAN_GRID * N_NODES, _MEAN_ELEMENTS):
            r, t = rows[some], columns[some]
            means[r, t] = self._closer(scores[r, t], low[t], high[t], t)
        return means

    def _closer(
        self, scores: FloatArray, low: FloatArray, high: FloatArray, targets: IntArray
    ) -> FloatArray:
        """Posterior means (n,) on grids that are drawn closer until they tell a mean.

        Shapes: ``scores`` (n, N_NODES); ``low``, ``high``, ``targets`` (n,).
        """
        start, stop = self.low[targets], self.high[targets]
        means, open_ = np.empty(len(scores)), np.arange(len(scores))
        for _ in range(_ROUNDS):
            t = targets[open_]
            nodes = start[:, None] + (stop - start)[:, None] * np.linspace(0.0, 1.0, _MEAN_GRID)
            matrix = basis(places(nodes, low[open_], high[open_]))
            table = np.matmul(scores[open_, None], matrix)[:, 0] + self.log_at(nodes, t)
            means[open_], resolved = _mean(table, nodes)
            near = table >= table.max(axis=1, keepdims=True) + _LEFT_OUT
            first = np.maximum(near.argmax(axis=1) - 1, 0)
            last = np.minimum(_MEAN_GRID - near[:, ::-1].argmax(axis=1), _MEAN_GRID - 1)
            # No closer: densities far apart, each of which lies on a node or two.
            more = ~resolved & (last - first < _MEAN_GRID // 2)
            everyone = np.arange(len(open_))
            start, stop = nodes[everyone, first][more], nodes[everyone, last][more]
            open_ = open_[more]
            if not len(open_):
                break
        return means

    def grid(self, n_points: int) -> FloatArray:
        """Ascending points between the ends of each density, half of them where it has its mass.

        Shapes: returns (n_targets, n_points): quantiles of an even mixture of the prior and a
        uniform density.
        """
        nodes = self.nodes(self.log_density.shape[1])
        density = np.exp(self.log_density - self.log_density.max(axis=1, keepdims=True))
        cells = 0.5 * (density[:, 1:] + density[:, :-1])
        shares = 0.5 * cells / cells.sum(axis=1, keepdims=True) + 0.5 / cells.shape[1]
        steps = np.concatenate([np.zeros((len(cells), 1)), np.cumsum(shares, axis=1)], axis=1)
        levels = (np.arange(n_points) + 0.5) / n_points
        return np.stack(
            [np.interp(levels, own, points) for own, points in zip(steps, nodes, strict=True)]
        )

    def grid_mean(self, scores: FloatArray, points: FloatArray) -> FloatArray:
        """Mean of every target's number under its posterior, without interpolation.

        Shapes: ``scores`` (n_releases, n_targets, n_points), log-likelihoods, -inf for values that
        are ruled out; ``points`` (n_targets, n_points), ascending; returns (n_releases,
        n_targets). A release that is impossible under every value tells nothing: the prior is left.
        """
        weights = np.gradient(points, axis=1)
        with np.errstate(divide="ignore"):
            log_prior = self.log_at(points, np.arange(len(points))) + np.log(weights)
        table = np.where(np.isnan(scores), -np.inf, scores) + log_prior
        impossible = ~np.isfinite(table.max(axis=2, keepdims=True))
        table = np.where(impossible, log_prior, table)
        return _mean(table, points)[0]


def number_prior(prior: Any, everyone: Population) -> NumberPrior:
    """Prior density of every target's number, from all records but its own, or those of reference.

    It falls to zero at the ends of the range of the other records, widened by half its width on
    both sides, as the candidates of attacks do.
    """
    targets = everyone.targets
    column, places = everyone.others(np.asarray(everyone.secret.column, dtype=np.float64))
    low, high = (end[places] for end in range_of_others(column))
    if isinstance(prior, str) and prior == "conditional":
        mean, width = everyone.imputed_normal()
        # Within the range of the others themselves, whatever a regression extrapolates.
        mean = np.clip(mean[targets], 0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high)
        width = width[targets]
        start = np.maximum(low, mean - _TAILS * width)
        stop = np.minimum(high, mean + _TAILS * width)
        nodes = NumberPrior(start, stop, np.empty((len(low), 0))).nodes(_PRIOR_NODES)
        logs = -0.5 * ((nodes - mean[:, None]) / width[:, None]) ** 2
        return _tapered(start, stop, low, high, logs)
    flat = NumberPrior(low, high, np.empty((len(low), 0)))
    if isinstance(prior, str) and prior == "marginal":
        logs = _kernel_density(column, places, flat.nodes(_PRIOR_NODES))
    elif isinstance(prior, str) and prior == "uniform":
        logs = np.zeros((len(low), _PRIOR_NODES))
    else:
        low, high, logs = _given(prior, flat)
        return _tapered(low, high, flat.low, flat.high, logs)
    return _tapered(low, high, low, high, logs)


def _tapered(
    start: FloatArray, stop: FloatArray, low: FloatArray, high: FloatArray, logs: FloatArray
) -> NumberPrior:
    """Let densities (n_targets, n_nodes) on [start, stop] fall to zero at low and high."""
    nodes = NumberPrior(start, stop, logs).nodes(logs.shape[1])
    logs = logs + _taper(nodes, low, high, 0.25)
    logs = logs - logs.max(axis=1, keepdims=True)
    return NumberPrior(start, stop, np.maximum(logs, _FLOOR))


def _taper(nodes: FloatArray, low: FloatArray, high: FloatArray, width: float) -> FloatArray:
    """Logarithms (n_targets, k) of what falls to zero from a share of a range to its ends."""
    place = np.clip((nodes - low[:, None]) / (high - low)[:, None], 0.0, 1.0)
    edge = np.minimum(np.minimum(place, 1.0 - place), width)
    with np.errstate(divide="ignore"):
        return np.asarray(2.0 * np.log(np.sin(0.5 * np.pi * edge / width)))


def _kernel_density(column: FloatArray, targets: IntArray, nodes: FloatArray) -> FloatArray:
    """Logarithms of normal kernel densities of the others, of their mean and variance.

    Widths follow Silverman's rule. Shapes: ``nodes`` (n_targets, k); returns (n_targets, k).
    """
    n = len(column)
    center = float(column.mean())
    own = column[targets] - center
    mean = -own / (n - 1)
    spread = np.sqrt(np.maximum(np.sum((column - center) ** 2) - own**2, 0.0) / (n - 1) - mean**2)
    spread = np.maximum(spread, 1e-8 * (nodes[:, -1] - nodes[:, 0]))
    order, rank = np.sort(column), np.empty(n, dtype=np.intp)
    rank[np.argsort(column, kind="stable")] = np.arange(n)
    quartiles = [int(share * (n - 2)) for share in (0.25, 0.75)]
    ends = [order[k + (rank[targets] <= k)] for k in quartiles]
    robust = (ends[1] - ends[0]) / 1.349
    scale = np.where(robust > 0.0, np.minimum(spread, robust), spread)
    # As wide as the cells are, at least: a narrower kernel is not seen between the nodes.
    scale = np.maximum(0.9 * scale * n**-0.2, 2.0 * (nodes[:, 1] - nodes[:, 0]))
    widths = _LADDER ** np.floor(np.log(scale) / np.log(_LADDER))
    shrink = 1.0 / np.sqrt(1.0 + (widths / spread) ** 2)
    logs = np.empty(nodes.shape)
    for width in np.unique(widths):
        rows = np.flatnonzero(widths == width)
        table, grid = _table(column - center, width, nodes - center, shrink[rows].min())
        for some in row_blocks(len(rows), nodes.shape[1]):
            who = rows[some]
            middle = mean[who, None]
            place = middle + (nodes[who] - center - middle) / shrink[who, None]
            density = np.interp(place, grid, table)
            # Without the own kernel, of which the table holds what lies between its nodes.
            step = grid[1] - grid[0]
            cell = np.clip(np.floor((place - grid[0]) / step), 0, len(grid) - 2)
            part, left = (place - grid[0]) / step - cell, grid[0] + cell * step
            ends = [np.exp(-0.5 * ((x - own[who, None]) / width) ** 2) for x in (left, left + step)]
            density -= (1.0 - part) * ends[0] + part * ends[1]
            logs[who] = np.log(np.maximum(density, _LEAST_KERNELS))
    return logs


def _table(
    column: FloatArray, width: float, nodes: FloatArray, shrink: float
) -> tuple[FloatArray, FloatArray]:
    """Sum of kernels of one width over all records, and the grid that it is known on, (k,) each."""
    reach = np.abs(nodes).max() / shrink
    grid = np.linspace(-reach, reach, int(np.clip(16.0 * reach / width, 513, 1 << 14)))
    table = np.zeros(len(grid))
    for some in row_blocks(len(column), len(grid)):
        table += np.exp(-0.5 * ((grid - column[some, None]) / width) ** 2).sum(axis=0)
    return table, grid


def _given(prior: Any, flat: NumberPrior) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ends (n_targets,) and logarithms (n_targets, n_nodes) of a density that is given."""
    if hasattr(prior, "pdf") and hasattr(prior, "ppf"):
        ends, density, inside = prior.ppf([1e-10, 1.0 - 1e-10]), prior.pdf, prior.cdf
    else:
        values, weights = _values_and_weights(prior)
        ends = values[[0, -1]]
        heights = weights / np.gradient(values)
        cells = 0.5 * np.diff(values) * (heights[1:] + heights[:-1])
        steps = np.concatenate([[0.0], np.cumsum(cells)])

        def density(z: Array) -> Array:
            return np.interp(z, values, heights, left=0.0, right=0.0)

        def inside(z: Array) -> Array:
            return np.interp(z, values, steps / steps[-1])

    low, high = np.maximum(flat.low, ends[0]), np.minimum(flat.high, ends[1])
    share = np.where(low < high, inside(high) - inside(low), 0.0)
    if np.any(share < _INSIDE):
        worst = int(np.argmin(share))
        raise ValueError(
            "`prior` must lie in the range of the other records, widened by half on both sides; "
            f"got a share of {share[worst]:.2g} between {flat.low[worst]:g} and "
            f"{flat.high[worst]:g}. Give it in the units of the raw column."
        )
    nodes = NumberPrior(low, high, flat.log_density).nodes(_PRIOR_NODES)
    with np.errstate(divide="ignore"):
        logs = np.clip(np.nan_to_num(np.log(density(nodes)), nan=-np.inf), -np.inf, 700.0)
    # A density that ends in a jump would have infinite information.
    return low, high, logs + _taper(nodes, low, high, _EDGE)


def _values_and_weights(prior: Any) -> tuple[FloatArray, FloatArray]:
    """Return a prior given as numbers and their probabilities, (k,) each."""
    try:
        values, weights = (check_numbers("prior", each, finite=True) for each in prior)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`prior` of a number must be 'marginal', 'uniform', 'conditional', a frozen "
            "distribution of scipy.stats, or a pair of ascending values and their probabilities; "
            f"got {type(prior).__name__}."
        ) from error
    ascending = values.ndim == 1 and len(values) > 2 and bool(np.all(np.diff(values) > 0.0))
    if not ascending or weights.shape != values.shape:
        raise ValueError(
            "`prior` as a pair must hold at least 3 ascending values and as many probabilities; "
            f"got shapes {values.shape} and {weights.shape}."
        )
    if np.any(weights < 0.0) or not np.any(weights > 0.0):
        raise ValueError("`prior` must hold probabilities, none negative and not all zero.")
    return values, weights


# Encodings are analytic in a quantity, with poles about the square root of the number of records
# standard deviations off: of 60 records this many nodes locate it to 1e-5, of more to round-off.
N_NODES = 33
_GRID = 65
_NEWTON_STEPS = 4
# Number of the last terms of a series that tell how much those beyond them may be.
_LAST = 8
# Share of the largest term from which the last ones are small.
_RESOLVED = 1e-3
_ROUND_OFF = 1e-10
# Places between the nodes at which an interpolation is held against what it interpolates.
HELD_OUT = np.array([-0.97, -0.83, -0.41, -0.13, 0.07, 0.29, 0.52, 0.91])
# Most that a smooth log-likelihood may be missed by: in nats, and as a share of its range.
_MISS, _SHARE = 1e-2, 1e-6


def chebyshev_nodes(low: FloatArray, high: FloatArray) -> FloatArray:
    """Chebyshev points with both ends of an interval.

    Shapes: ``low``, ``high`` (n,); returns (N_NODES, n): ascending.
    """
    nodes = np.asarray(chebyshev.chebpts2(N_NODES))
    return np.asarray(low + (high - low) * (0.5 * (nodes[:, None] + 1.0)), dtype=np.float64)


def chebyshev_coefficients() -> FloatArray:
    """Matrix from values at the nodes to Chebyshev coefficients, of shape (N_NODES, N_NODES)."""
    vandermonde = chebyshev.chebvander(chebyshev.chebpts2(N_NODES), N_NODES - 1)
    return np.asarray(np.linalg.inv(vandermonde), dtype=np.float64)


def interpolation_matrix(points: FloatArray) -> FloatArray:
    """Matrix from values at the nodes to values at points of [-1, 1].

    Shapes: ``points`` (..., k); returns (..., k, N_NODES).
    """
    terms = chebyshev.chebvander(points, N_NODES - 1)
    return np.asarray(terms @ chebyshev_coefficients(), dtype=np.float64)


def slope_matrix(points: FloatArray) -> FloatArray:
    """Matrix from values at the nodes to derivatives at points of [-1, 1], as above."""
    terms = chebyshev.chebvander(points, N_NODES - 2)
    return np.asarray(terms @ chebyshev.chebder(chebyshev_coefficients()), dtype=np.float64)


def truncation_error(sizes: FloatArray) -> FloatArray:
    """Bound what is beyond the last of the terms (n_targets, N_NODES) of a series.

    Those of an analytic function end up falling at a constant rate: where the last few are half of
    those before, and small, all that follow are no more than them. These count twice: they are left
    out, and taken for terms of lower degree.
    """
    last, before = sizes[:, -_LAST:].sum(axis=1), sizes[:, -2 * _LAST : -_LAST].sum(axis=1)
    largest = sizes.max(axis=1)
    falling = (last <= 0.5 * before) & (last <= _RESOLVED * largest)
    return np.where(falling | (last <= _ROUND_OFF * largest), 2.0 * last, np.inf)


def is_smooth(at_nodes: FloatArray, between: FloatArray) -> BoolArray:
    """Tell whether polynomials through log-likelihoods at the nodes meet those in between.

    Shapes: ``at_nodes`` (..., N_NODES); ``between`` (..., k), at the places `HELD_OUT`; returns
    (...). Of trees and nearest neighbors, whose answers are steps, they miss them by a good part of
    their range.
    """
    finite = np.isfinite(at_nodes).all(axis=-1) & np.isfinite(between).all(axis=-1)
    known = np.expand_dims(finite, -1)
    nodes, true = (np.where(known, values, 0.0) for values in (at_nodes, between))
    spread = np.ptp(nodes, axis=-1, keepdims=True)
    # What is constant but for round-off is smooth.
    floor = _ROUND_OFF * np.abs(nodes).max(axis=-1, keepdims=True)
    missed = np.abs(nodes @ interpolation_matrix(HELD_OUT).T - true)
    allowed = _MISS * np.minimum(spread, 1.0) + _SHARE * spread + floor
    return np.asarray(finite & np.all(missed <= allowed, axis=-1))


def maximize(values: FloatArray) -> FloatArray:
    """Find the maxima on [-1, 1] of the polynomials through values at the nodes.

    Shapes: ``values`` (k, N_NODES); returns (k,): the best point of a grid, refined by Newton
    steps that stay within one grid cell of it.
    """
    # Only differences matter, and they may be tiny beside the values.
    values = values - values.max(axis=1, keepdims=True)
    grid = np.linspace(-1.0, 1.0, _GRID)
    best = grid[np.argmax(values @ interpolation_matrix(grid).T, axis=1)]
    width = grid[1] - grid[0]
    low, high = np.maximum(best - width, -1.0), np.minimum(best + width, 1.0)
    series = chebyshev_coefficients() @ values.T
    slope = chebyshev.chebder(series)
    bend = chebyshev.chebder(slope)
    for _ in range(_NEWTON_STEPS):
        gradient = chebyshev.chebval(best, slope, tensor=False)
        curvature = chebyshev.chebval(best, bend, tensor=False)
        # Where the function is not concave, climb to the end of the cell instead.
        step = np.where(
            curvature < 0.0,
            -gradient / np.where(curvature < 0.0, curvature, 1.0),
            np.sign(gradient) * width,
        )
        best = np.clip(best + step, low, high)
    return best


def places(nodes: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Places of nodes (n, k) in [-1, 1], between the ends (n,)."""
    return np.clip(2.0 * (nodes - low[:, None]) / (high - low)[:, None] - 1.0, -1.0, 1.0)


def basis(places: FloatArray) -> FloatArray:
    """Matrices from values at Chebyshev nodes to values at places (n, k), (n, N_NODES, k)."""
    return interpolation_matrix(places).swapaxes(1, 2)


_MEAN_GRID = 257
# Fewer effective nodes than this do not tell a mean: the grid is drawn closer about them.
_ENOUGH = 6.0
_ROUNDS = 12
# Logarithm of the share of the largest density that is left out by a closer grid.
_LEFT_OUT = -36.0
_MEAN_ELEMENTS = 1 << 21


def _mean(table: FloatArray, nodes: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Means (...) by densities of which the logarithms are given, and if enough nodes tell them.

    Shapes: ``table`` (..., n_nodes); ``nodes`` broadcasts to it.
    """
    weights = np.exp(table - table.max(axis=-1, keepdims=True))
    total = weights.sum(axis=-1)
    return (weights * nodes).sum(axis=-1) / total, total**2 >= _ENOUGH * (weights**2).sum(axis=-1)


_RISK_GRID = 257
# Nodes of a risk: at least these, and so many that a release hardly tells neighbors apart.
_FEWEST_NODES = 129
_MOST = 513
_STEP = 0.5
_DRAWS = 2048
# Encodings are known to this share of their spread: noise below it counts as that much.
_ROUNDED = 1e-9
# Mean degree of the terms that are left out, in numbers of nodes: they fall by half every eighth.
_DEGREES = 1.5
_RISK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class NumberEncodings:
    """Noiseless releases under every value of a number, at Chebyshev nodes. Confidential.

    Examples
    --------
    >>> ends = np.array([-8.0]), np.array([8.0])
    >>> prior = NumberPrior(*ends, -0.5 * np.linspace(-8.0, 8.0, 513)[None] ** 2)
    >>> nodes = chebyshev.chebpts2(N_NODES)
    >>> known = NumberEncodings(8.0 * nodes[None, :, None], *ends, prior)
    >>> risk, error = known.bayes(1.0, np.random.default_rng(0))
    >>> risk.round(3), known.information.round(3)
    (array([0.5]), array([1.]))
    """

    points: FloatArray  # where the noise is isotropic, (n_targets, N_NODES, p)
    low: FloatArray  # ends of the nodes, (n_targets,)
    high: FloatArray
    prior: NumberPrior

    def take(self, rows: IntArray) -> "NumberEncodings":
        """Those of some targets."""
        ends = self.low[rows], self.high[rows]
        return NumberEncodings(self.points[rows], *ends, self.prior.take(rows))

    def at(self, values: FloatArray) -> FloatArray:
        """Noiseless releases had the numbers been others.

        Shapes: ``values`` (n_draws, n_targets); returns (n_draws, n_targets, p).
        """
        matrices = basis(places(values.T, self.low, self.high))
        return np.einsum("tmr,tmp->rtp", matrices, self.points)

    @property
    def information(self) -> FloatArray:
        """Information at unit noise, averaged over the prior, (n_targets,).

        NaN where the nodes do not resolve the encodings. Rounded upward by what the terms that are
        left out may add: the derivative of one of degree k, at a place x, is at most
        ``k / sqrt(1 - x^2)`` (Bernstein).
        """
        n, _, p = self.points.shape
        found, everyone = np.empty(n), np.arange(n)
        for some in row_blocks(n, (_RISK_GRID + p) * N_NODES, _RISK_ELEMENTS):
            nodes, weights = self.prior.weighted_nodes(_RISK_GRID, everyone[some])
            where = places(nodes, self.low[some], self.high[some])
            terms = slope_matrix(where)
            moments = np.matmul((terms * weights[:, :, None]).swapaxes(1, 2), terms)
            own = _centered(self.points[some])
            gram = np.matmul(own, own.swapaxes(1, 2))
            series = np.einsum("km,tmp->tkp", chebyshev_coefficients(), own)
            doubt = truncation_error(np.linalg.norm(series, axis=2))
            half = 0.5 * (self.high - self.low)[some]
            steep = (weights / np.maximum(1.0 - where**2, 1.0 / N_NODES**2)).sum(axis=1)
            missed = _DEGREES * N_NODES * doubt * np.sqrt(steep)
            size = np.sqrt(np.maximum(np.einsum("tij,tij->t", moments, gram), 0.0)) + missed
            found[some] = np.where(np.isinf(doubt), np.nan, (size / half) ** 2)
        return found

    def van_trees(self, information: FloatArray) -> FloatArray:
        """Bound of van Trees by information at the noise of a release, (n_targets,).

        0 where the information is not known or infinite.
        """
        known = np.isfinite(information)
        bounds = np.zeros(len(information))
        own = self.prior.information[known, None, None]
        bounds[known] = van_trees_mse(information[known, None, None], own)
        return bounds

    def bayes(
        self, noise_scale: float, generator: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Bayes risk and its error, (n_targets,) each; NaN where the nodes do not tell."""
        found = [self._bayes(i, noise_scale, generator) for i in range(len(self.points))]
        risk, error = np.array(found).reshape(-1, 2).T
        return risk, error

    def _bayes(
        self, i: int, noise_scale: float, generator: np.random.Generator
    ) -> tuple[float, float]:
        points = _centered(self.points[[i]])[0]
        if points.shape[1] > N_NODES:
            points = np.linalg.qr(points.T)[1].T
        series = chebyshev_coefficients() @ points
        doubt = float(truncation_error(np.linalg.norm(series, axis=1)[None])[0])
        ends = self.low[[i]], self.high[[i]]

        def at(n_nodes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
            nodes, weights = self.prior.weighted_nodes(n_nodes, np.array([i]))
            return nodes[0], weights[0], basis(places(nodes, *ends))[0].T @ points

        nodes, prior, encodings = at(_FEWEST_NODES)
        scale = max(noise_scale, _ROUNDED * float(np.abs(points).max()), np.finfo(float).tiny)
        length = np.linalg.norm(np.diff(encodings, axis=0), axis=1).sum() / scale
        if length > _STEP * _FEWEST_NODES:
            nodes, prior, encodings = at(int(min(length / _STEP, _MOST)) // 2 * 2 + 1)
        risk, error = bayes_mse(
            encodings, nodes, prior, scale, n_draws=_DRAWS, random_state=generator
        )
        # As for what the noise hides: encodings that are off by less than it.
        off = doubt / scale
        if off > 1.0:
            return np.nan, np.nan
        return risk, error + 2.0 * np.sqrt(np.expm1(off**2) * risk) * (nodes[-1] - nodes[0])


def _centered(points: FloatArray) -> FloatArray:
    """Points (n, N_NODES, p) less their mean: nothing is left of those that are all the same."""
    same = np.all(points == points[:, :1], axis=(1, 2), keepdims=True)
    return points - np.where(same, points[:, :1], points.mean(axis=1, keepdims=True))


# Share of a derivative, or an information, that may be in doubt; of one in more doubt nothing is
# known.
_DOUBT = 0.1


def at_truth(
    nodes: FloatArray, low: FloatArray, high: FloatArray, truth: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Interpolate what is known at the nodes of a quantity, at its true value.

    Shapes: ``nodes`` (n_targets, N_NODES, p); ``low``, ``high``, ``truth`` (n_targets,); returns
    ``values`` (n_targets, p); ``errors`` (n_targets,): how far off they may be, from the last
    terms of their series. Infinite for a value outside of its interval, and where the terms do not
    fall off.
    """
    series, place, inside = _series(nodes, low, high, truth)
    terms = chebyshev.chebvander(place, N_NODES - 1)
    errors = np.where(inside, truncation_error(np.linalg.norm(series, axis=2)), np.inf)
    return np.einsum("tm,tmp->tp", terms, series), errors


def slope_at_truth(
    nodes: FloatArray, low: FloatArray, high: FloatArray, truth: FloatArray
) -> FloatArray:
    """Differentiate by a quantity, at its true value, what is known at its nodes.

    Shapes: ``nodes`` (n_targets, N_NODES, ...); ``low``, ``high``, ``truth`` (n_targets,); returns
    (n_targets, ...): NaN where the nodes do not tell: outside of the interval, and where a
    polynomial through them follows what they are of too loosely.
    """
    flat = nodes.reshape(*nodes.shape[:2], -1)
    series, place, inside = _series(flat, low, high, truth)
    degrees = np.arange(N_NODES)
    slope = np.einsum("tm,tmp->tp", slope_matrix(place), flat)
    sizes = np.linalg.norm(series, axis=2)
    # |T_k'(cos t)| is k |sin(k t) / sin(t)|, and k^2 at most.
    sine = np.sqrt(1.0 - place**2)[:, None]
    steep = np.minimum(degrees**2, degrees / np.maximum(sine, _ROUND_OFF))
    # Solvers leave noise in all terms, which need not fall off.
    doubt = 2.0 * (steep * sizes)[:, -_LAST:].sum(axis=1)
    limit = _DOUBT * np.linalg.norm(slope, axis=1) + _ROUND_OFF * sizes.max(axis=1)
    slope = np.where((inside & (doubt <= limit))[:, None], slope, np.nan)
    return np.asarray(slope / (0.5 * (high - low))[:, None]).reshape(len(nodes), *nodes.shape[2:])


def _series(
    nodes: FloatArray, low: FloatArray, high: FloatArray, truth: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Chebyshev series (n_targets, N_NODES, p), places of the truth in [-1, 1], whether inside."""
    place = (truth - low) / (0.5 * (high - low)) - 1.0
    series = np.einsum("km,tmp->tkp", chebyshev_coefficients(), nodes)
    return series, np.clip(place, -1.0, 1.0), np.abs(place) <= 1.0


# Records whose Bayes risk is computed, at most; of the others the bound of van Trees is known.
_RISKS = 1000


@dataclass(frozen=True)
class NumberBounds:
    """Information and encodings that bounds at every noise level need. Confidential."""

    encodings: NumberEncodings
    # Information averaged over the prior, (n_targets,): through the mean of the release at unit
    # noise, and through the covariance of the noise at any; NaN where it is not known.
    mean: FloatArray
    covariance: FloatArray
    integrable: bool  # whether the covariance of the noise is the same under every value

    @classmethod
    def of(cls, attack: Any) -> "NumberBounds":
        """From the encodings and the prior of a fitted `PosteriorMeanReconstruction`."""
        encodings = attack._encodings_of_numbers()
        if attack._shaped is None:
            information = encodings.information
            return cls(encodings, information, np.zeros_like(information), True)
        slopes = _slopes(attack.encodings_, encodings)
        white = np.einsum("tmij,tmj->tmi", attack._shaped.whiteners, slopes)
        flat = attack._shaped.shapes.reshape(*slopes.shape[:2], -1)
        change = _slopes(flat, encodings).reshape(attack._shaped.shapes.shape)
        half = attack._shaped.whiteners @ change @ attack._shaped.whiteners.swapaxes(2, 3)
        parts = np.sum(white**2, axis=2), 0.5 * np.sum(half**2, axis=(2, 3))
        mean, covariance = (_averaged(part, encodings) for part in parts)
        return cls(encodings, mean, covariance, False)

    def information(self, noise_scale: float) -> FloatArray:
        """Information at a noise scale, averaged over the prior, (n_targets,)."""
        if noise_scale == 0.0:
            return np.where(self.mean > 0.0, np.inf, self.mean + self.covariance)
        return self.mean / noise_scale**2 + self.covariance


def number_bounds(
    known: NumberBounds, noise_scale: float, seed: np.random.SeedSequence
) -> dict[str, Array]:
    """Lower bounds on the squared error of every attacker with the prior.

    Returns ``van_trees``, ``bayes_mse`` and its ``bayes_mse_error``, (n_targets,) each: 0 and NaN
    where they are not known; ``computed``, whose risk was to be computed, which of many records is
    a random sample; and ``resolved``, for whom the nodes tell it. For the others of these the bound
    of van Trees stands in its place.
    """
    encodings, generator = known.encodings, np.random.default_rng(seed)
    n = len(encodings.low)
    risk, error = np.full((2, n), np.nan)
    van_trees = encodings.van_trees(known.information(noise_scale))
    computed, resolved = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    if known.integrable:
        rows = np.arange(n) if n <= _RISKS else np.sort(generator.choice(n, _RISKS, replace=False))
        risk[rows], error[rows] = encodings.take(rows).bayes(noise_scale, generator)
        computed = np.isin(np.arange(n), rows)
        resolved = ~np.isnan(risk)
        stands_in = computed & ~resolved
        risk[stands_in], error[stands_in] = van_trees[stands_in], 0.0
    return {
        "van_trees": van_trees,
        "bayes_mse": risk,
        "bayes_mse_error": error,
        "computed": computed,
        "resolved": resolved if known.integrable else computed,
    }


def _slopes(values: FloatArray, encodings: NumberEncodings) -> FloatArray:
    """Return derivatives at the nodes of what is known there, (n_targets, N_NODES, k)."""
    half = 0.5 * (encodings.high - encodings.low)
    matrix = slope_matrix(chebyshev.chebpts2(N_NODES))
    return np.einsum("km,tmp->tkp", matrix, values) / half[:, None, None]


def _averaged(values: FloatArray, encodings: NumberEncodings) -> FloatArray:
    """Means over the priors of what is known at the nodes, (n_targets,); rounded upward."""
    series = values @ chebyshev_coefficients().T
    doubt = truncation_error(np.abs(series))
    nodes, weights = encodings.prior.weighted_nodes(_RISK_GRID, np.arange(len(values)))
    matrices = basis(places(nodes, encodings.low, encodings.high))
    means = np.einsum("tm,tmk,tk->t", values, matrices, weights)
    means = np.maximum(means, 0.0) + np.where(np.isinf(doubt), 0.0, doubt)
    return np.where(doubt <= _DOUBT * means, means, np.nan)
