"""Prior densities of a number, from all records but the target itself."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict

from skleak.adversary.knowledge._knowledge import range_of_others
from skleak.adversary.knowledge._priors import folds, known_features, on_encoded_columns
from skleak.utils._arguments import check_finite
from skleak.utils._blocks import row_blocks
from skleak.utils._confidential import without_ledger
from skleak.utils._typing import Array, FloatArray, IntArray

# Nodes of a density; between them its logarithm is linear.
_N_NODES = 513
# Logarithm of the share of the largest density below which there is none.
_FLOOR = -60.0
# Standard deviations of a normal prior that its nodes span, to both sides.
_TAILS = 8.0
# Sums of kernels below this are round-off of those of all records.
_LEAST_KERNELS = 1e-10
# Widths of kernels are rounded down to powers of this, so that they are few.
_LADDER = 2.0**0.25
# Records of a fold from which its residuals tell how far imputed values are off.
_ENOUGH = 20
# A normal prior is at least so wide, as a share of the spread of the column.
_NARROWEST = 1e-6
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


def number_prior(prior: Any, known: Any, y: Any, column: FloatArray, targets: IntArray) -> Any:
    """Prior density of every target's number, from all records but its own.

    It falls to zero at the ends of the range of the other records, widened by half its width on
    both sides, as the candidates of attacks do.

    Shapes: ``known`` (n, n_columns - 1); ``y`` (n,); ``column`` (n,); ``targets`` (n_targets,);
    returns a `NumberPrior`.
    """
    column = np.asarray(column, dtype=np.float64)
    low, high = (end[targets] for end in range_of_others(column))
    if isinstance(prior, str) and prior == "conditional":
        mean, width = _imputed_normal(known, y, column)
        # Within the range of the others themselves, whatever a regression extrapolates.
        mean = np.clip(mean[targets], 0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high)
        width = width[targets]
        start = np.maximum(low, mean - _TAILS * width)
        stop = np.minimum(high, mean + _TAILS * width)
        nodes = NumberPrior(start, stop, np.empty((len(low), 0))).nodes(_N_NODES)
        logs = -0.5 * ((nodes - mean[:, None]) / width[:, None]) ** 2
        return _tapered(start, stop, low, high, logs)
    flat = NumberPrior(low, high, np.empty((len(low), 0)))
    if isinstance(prior, str) and prior == "marginal":
        logs = _kernel_density(column, targets, flat.nodes(_N_NODES))
    elif isinstance(prior, str) and prior == "uniform":
        logs = np.zeros((len(low), _N_NODES))
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


def imputed(regressor: Any, known: Any, y: Any, column: FloatArray) -> FloatArray:
    """Guess of a number for every record, of shape (n,), by a regression on other folds.

    Shapes: ``known`` (n, n_columns - 1); ``y`` (n,); ``column`` (n,).
    """
    if regressor is None:
        regressor = on_encoded_columns(Ridge())
    features = known_features(known, y)
    split = folds(len(column))
    return np.asarray(cross_val_predict(without_ledger(regressor), features, column, cv=split))


def _imputed_normal(known: Any, y: Any, column: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Imputed values, and how far off those of others are, (n,) each.

    Residuals of the same fold come from a regression that has not seen the target.
    """
    n = len(column)
    spread = float(column.std())
    if known_features(known, y).shape[1] == 0:
        return (column.sum() - column) / (n - 1), np.full(n, spread)
    mean = imputed(None, known, y, column)
    squares = (column - mean) ** 2
    variance = (squares.sum() - squares) / (n - 1)
    for _, test in folds(n).split(np.arange(n)):
        if len(test) > _ENOUGH:
            variance[test] = (squares[test].sum() - squares[test]) / (len(test) - 1)
    return mean, np.sqrt(np.maximum(variance, (_NARROWEST * spread) ** 2))


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
    nodes = NumberPrior(low, high, flat.log_density).nodes(_N_NODES)
    with np.errstate(divide="ignore"):
        logs = np.clip(np.nan_to_num(np.log(density(nodes)), nan=-np.inf), -np.inf, 700.0)
    # A density that ends in a jump would have infinite information.
    return low, high, logs + _taper(nodes, low, high, _EDGE)


def _values_and_weights(prior: Any) -> tuple[FloatArray, FloatArray]:
    """Return a prior given as numbers and their probabilities, (k,) each."""
    try:
        values, weights = (check_finite("prior", each).astype(np.float64) for each in prior)
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
