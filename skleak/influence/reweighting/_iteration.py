"""Solve for the fixed point of a reweighting: the plain iteration, and damped Newton steps.

Newton's method starts at the first fit. Where its steps do not lower the spread, plain steps go on,
and it starts again from a better fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from skleak.utils._typing import Array, FloatArray

State = TypeVar("State")
# Plain steps after the first search that failed; twice as many after each further one.
_WAIT = 4
# Largest change of an entry, such as a log weight, in a step: far beyond, nothing is linear.
_LARGEST_CHANGE = 4.0
# The spread should fall by at least this share of what the step promises, which is all of it.
_SUFFICIENT = 0.1
_SMALLEST_DAMPING = 1.0 / 64.0
_LARGEST_RTOL, _SMALLEST_RTOL = 0.1, 1e-10


@dataclass(frozen=True)
class Step(Generic[State]):
    """One fit of the iteration."""

    spread: float  # relative spread of the losses
    point: FloatArray  # what the weights are made from: their logarithms, or a fit, (size,)
    residual: FloatArray  # the change of it that the plain iteration makes, (size,)
    reweights: FloatArray  # factors of all records, (n,), or what stands for them
    losses: Array  # what they make every record leak, (n,), where that is held in memory
    state: State


# Fit and accuracy -> change of the point.
Direction = Callable[[Step[State], float], FloatArray]


@dataclass
class NewtonSearch(Generic[State]):
    """Damped Newton steps, each from the best fit since the search began.

    A step that does not lower the spread is halved, along the same direction. Where that does not
    help, the search ends. It begins anew from another fit, after a wait that doubles each time.
    """

    newton: Direction[State]  # finds the direction
    tol: float  # spread to be reached
    _start: Step[State] | None = None  # fit at which the last search began
    _origin: Step[State] | None = None  # fit at which the present direction was found
    _change: FloatArray | None = None
    _damping: float = 1.0
    _wait: int = _WAIT
    _earliest: int = 0

    @property
    def is_active(self) -> bool:
        """True if the last weights were proposed by this search."""
        return self._origin is not None

    def propose(self, step: Step[State], start: Step[State], n_fits: int) -> FloatArray | None:
        """Return the next point, (size,); None where plain steps should go on.

        ``start`` is where to begin, the best fit of the plain iteration.
        """
        if self._origin is None:
            waits = n_fits < self._earliest or not np.isfinite(start.spread)
            if start is self._start or waits:
                return None
            self._start, self._damping = start, 1.0
            self._turn(start)
        else:
            promised = (1.0 - _SUFFICIENT * self._damping) * self._origin.spread
            self._damping *= 2.0 if step.spread <= promised else 0.5
            if step.spread < self._origin.spread and self._damping >= _SMALLEST_DAMPING:
                self._turn(step)
        if self._origin is None or self._change is None or self._damping < _SMALLEST_DAMPING:
            self._origin = self._change = None
            self._earliest, self._wait = n_fits + self._wait, 2 * self._wait
            return None
        return self._origin.point + self._damping * self._change

    def _turn(self, origin: Step[State]) -> None:
        """Find the direction at a fit; none if it is not a finite one."""
        # The spread stays where some records cannot leak; the residual of the others does not.
        size = min(origin.spread, float(np.sqrt(np.mean(origin.residual**2))))
        rtol = max(min(_LARGEST_RTOL, size), 0.1 * self.tol / origin.spread, _SMALLEST_RTOL)
        change = self.newton(origin, rtol)
        self._origin, self._change = origin, None
        if np.all(np.isfinite(change)):
            self._change = change
            largest = float(np.max(np.abs(self._change), initial=_LARGEST_CHANGE))
            self._damping = min(1.0, self._damping, _LARGEST_CHANGE / largest)


@dataclass(frozen=True)
class Equalized(Generic[State]):
    """Result of a search for weights."""

    # The factors ``omega`` of the best step, (n,); where these are not held in memory, the point
    # that they are a function of.
    reweights: FloatArray
    losses: Array  # what they make every record leak, (n,); none where that is not held in memory
    state: State  # what the caller's ``measure`` returned with them
    history: list[float]  # relative spread of the losses at each step, the first that of the start

    @property
    def spread(self) -> float:
        """Relative spread reached."""
        return min(self.history)


def iterate(
    at: Callable[[FloatArray], Step[State]],
    start: FloatArray,
    *,
    max_iter: int,
    tol: float,
    newton: Direction[State] | None = None,
    patience: int | None = None,
    callback: Callable[[float], None] | None = None,
) -> Equalized[State]:
    """Solve for the point whose fit makes all losses equal; parameters as those of `equalize`.

    ``at`` fits at a point. Shapes: ``start`` (size,).
    """
    search = None if newton is None else NewtonSearch(newton, tol)
    history: list[float] = []
    step = best = last = lowest = at(start)  # best of all fits; last and best of the plain ones
    damping = 1.0
    while True:
        history.append(step.spread)
        if callback is not None:
            callback(step.spread)
        best = step if step.spread < best.spread else best
        stuck = patience is not None and len(history) > patience
        stuck = stuck and min(history) > 0.5 * min(history[:-patience])  # type: ignore[operator]
        if step.spread <= tol or len(history) > max_iter or stuck:
            return Equalized(best.reweights, best.losses, best.state, history)
        if search is None or not search.is_active:
            # Half a step back from where there is no fit.
            finite = np.isfinite(step.spread)
            last, damping = (step, 1.0) if finite else (last, 0.5 * damping)
            lowest = step if step.spread < lowest.spread else lowest
        point = None if search is None else search.propose(step, lowest, len(history))
        step = at(last.point + damping * last.residual if point is None else point)
