"""When Newton's method takes over from the accelerated reweighting, and how far a step goes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from skleak.utils._typing import Array, FloatArray

State = TypeVar("State")


# Newton's method takes over where the acceleration, at the rate of its last few fits, would need
# more fits than these: a Newton step with its refit costs as much as two to seven.
_WINDOW, _MOST_FITS_LEFT = 4, 8
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
    help, the search ends. It may begin anew from another fit, after a wait that doubles each time.
    """

    newton: Direction[State]  # finds the direction
    tol: float  # spread to be reached
    eager: bool  # whether to begin at once, and not only where the acceleration is slow
    _start: Step[State] | None = None  # fit at which the last search began
    _origin: Step[State] | None = None  # fit at which the present direction was found
    _change: FloatArray | None = None
    _damping: float = 1.0
    _wait: int = _WINDOW
    _earliest: int = 0

    @property
    def is_active(self) -> bool:
        """True if the last weights were proposed by this search."""
        return self._origin is not None

    def propose(
        self, step: Step[State], start: Step[State], history: list[float]
    ) -> FloatArray | None:
        """Return the next point, (size,); None where the acceleration should go on.

        ``start`` is where to begin, the best fit of the accelerated iteration, and ``history`` has
        the spreads of all fits.
        """
        if self._origin is None:
            if start is self._start or not self._is_due(history):
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
            self._earliest, self._wait = len(history) + self._wait, 2 * self._wait
            return None
        return self._origin.point + self._damping * self._change

    def _turn(self, origin: Step[State]) -> None:
        """Find the direction at a fit; none if it is not a finite one."""
        rtol = max(min(_LARGEST_RTOL, origin.spread), 0.1 * self.tol / origin.spread)
        change = self.newton(origin, max(rtol, _SMALLEST_RTOL))
        self._origin, self._change = origin, None
        if np.all(np.isfinite(change)):
            self._change = change
            largest = float(np.max(np.abs(self._change), initial=_LARGEST_CHANGE))
            self._damping = min(1.0, self._damping, _LARGEST_CHANGE / largest)

    def _is_due(self, history: list[float]) -> bool:
        """Return True if it may begin, and the acceleration would take long."""
        if len(history) < self._earliest or not np.isfinite(min(history)):
            return False
        if self.eager:
            return True
        if len(history) <= _WINDOW:
            return False
        now, before = min(history), min(history[:-_WINDOW])
        if not now < before:
            return True
        left = _WINDOW * np.log(now / self.tol) / np.log(before / now)
        return bool(left > _MOST_FITS_LEFT)
