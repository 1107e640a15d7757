"""What a transformer learned from all records, and how one record moves it.

A transformer encodes a record u as ``f(u, theta)`` and has learned ``theta`` from all of them. Let
``M_k`` be the derivative of the final parameters in the encoded record k. Then the derivative in
theta is ``G = sum_k M_k df/dtheta(u_k)``, a sum over all records that is taken once, and what
record i tells through theta is ``G dtheta/du_i``.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from skleak.utils._typing import FloatArray, IntArray


class Leaf(ABC):
    """A fitted transformer, differentiated at its training records.

    Shapes: w_in columns become w_out; p parameters of the model; b ``rows`` of the n records.
    """

    @abstractmethod
    def pull(self, outer: FloatArray, rows: IntArray) -> FloatArray:
        """``M df/du``: derivatives in the records that it is given, theta fixed, (b, p, w_in).

        Shapes: ``outer`` (b, p, w_out), derivatives in what it returns.
        """


class LearnedLeaf(Leaf):
    """A transformer that learned something that a record moves."""

    @abstractmethod
    def gather(self, outer: FloatArray, rows: IntArray) -> Any:
        """Return the part of some records in ``G``, arrays that are summed over all of them."""

    @abstractmethod
    def settle(self, gathered: Any) -> Any:
        """Return ``G`` in the form that the rest takes, from the sum over all records."""

    @abstractmethod
    def spread(self, G: Any, rows: IntArray) -> FloatArray:
        """``G dtheta/du`` of some records, (b, p, w_in); where sides differ, of all that are tied.

        A step before this one moves tied records together.
        """

    @abstractmethod
    def along(self, G: Any, rows: IntArray, tangents: FloatArray, side: float) -> FloatArray:
        """``G dtheta`` as a number of each record moves it along (b, w_in), of shape (b, p).

        ``side`` is 1.0 where the number grows, and -1.0 where it falls.
        """


class NothingLearned(ValueError):
    """A transformer of which it is not known in closed form what it learned."""


def rounding(learned: FloatArray) -> float:
    """Relative error at which what was learned is that of the records, in its precision."""
    return 1e-9 if np.asarray(learned).dtype == np.float64 else 1e-5


def rates_of_order(
    column: FloatArray, weights: dict[int, float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Differentiate ``sum_r weights[r] u_(r)`` by each entry, as it grows and falls, (n,) each.

    The entry that grows out of tied ones becomes the last of them, and one that falls the first.
    The third is that of tied entries that move together, a share each. Zero for missing entries.
    """
    present = np.flatnonzero(~np.isnan(column))
    known = column[present]
    order = np.sort(known)
    first = np.searchsorted(order, known, side="left")
    last = np.searchsorted(order, known, side="right") - 1
    up, down, together = np.zeros((3, len(column)))
    for position, weight in weights.items():
        up[present] += weight * (last == position)
        down[present] += weight * (first == position)
        tied = (first <= position) & (position <= last)
        together[present] += weight * tied / (last - first + 1)
    return up, down, together


def quantile_weights(q: float, n: int) -> dict[int, float]:
    """Weights of the order statistics in a quantile, q in [0, 1], linear between them."""
    place = q * (n - 1)
    low = int(np.floor(place))
    part = place - low
    return {low: 1.0 - part} if part == 0.0 else {low: 1.0 - part, low + 1: part}
