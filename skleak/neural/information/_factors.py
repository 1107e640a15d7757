"""The factors of subsampling at many distances, from a table."""

from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from skleak.accounting import subsampled_fisher_factors
from skleak.utils._typing import FloatArray

# Nodes of the table, and how much is added for interpolation over what it was seen to be wrong by.
_NODES, _CAUTION = 2000, 4.0
# Tables that are wrong by more than this are not used.
_WORST = 1e-8


class FactorTable:
    """Factors ``(along, across)`` at one rate, for distances up to a largest one.

    Cubic splines, whose largest relative error in the middle between nodes is measured, and added
    four times; where it is too large for that, the integrals themselves.
    """

    def __init__(self, rate: float, largest: float) -> None:
        self.rate = rate
        nodes = np.linspace(0.0, largest, _NODES)
        values = np.stack(subsampled_fisher_factors(rate, nodes), axis=1)
        self._splines = CubicSpline(nodes, values)
        between = 0.5 * (nodes[1:] + nodes[:-1])
        true = np.stack(subsampled_fisher_factors(rate, between), axis=1)
        error = float(np.max(np.abs(self._splines(between) / true - 1.0))) if rate > 0.0 else np.inf
        self._round_up = 1.0 + 1e-10 + _CAUTION * error
        self._largest = largest if error < _WORST else -1.0

    def __call__(self, distances: FloatArray) -> tuple[Any, Any]:
        """Factors, rounded upward; shapes (n,), returns two of (n,)."""
        if np.any(distances > self._largest):
            return subsampled_fisher_factors(self.rate, distances)
        found = np.minimum(self._splines(distances) * self._round_up, 1.0)
        return found[:, 0], np.maximum(found[:, 1], self.rate)
