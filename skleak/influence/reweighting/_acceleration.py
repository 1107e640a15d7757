"""Accelerate a search, and hand it to Newton's method.

Weights that are hard to find, by way of bounded ones.

Under a bound close to one all weights are nearly one, and easily found. As the bound rises they
turn into those that are wanted, and each solution is a start for the next. The steps adapt: longer
where few fits were needed, shorter where a solution was not found. Where even short steps fail, the
solutions end there, or have a kink: there may be no fixed point at all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from skleak.influence.state import WeightRule
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


class Equation(Protocol[State]):
    """Equation to solve: a point makes weights, these a fit, and that the residual of the point."""

    @property
    def copies(self) -> FloatArray:
        """Return how much each entry of a residual counts in least squares, of shape (size,)."""

    def at(self, point: FloatArray) -> Step[State]:
        """Fit at a point of shape (size,)."""


def accelerated(
    equation: Equation[State],
    start: FloatArray,
    *,
    max_iter: int,
    tol: float,
    memory: int = 10,
    newton: Direction[State] | None = None,
    eager: bool = False,
    patience: int | None = None,
    callback: Callable[[float], None] | None = None,
) -> Equalized[State]:
    """Solve for the point whose fit makes all losses equal; parameters as those of `equalize`.

    Shapes: ``start`` (size,).
    """
    iteration: _Accelerated[State] | None = None
    search = None if newton is None else NewtonSearch(newton, tol, eager)
    history: list[float] = []
    best: Step[State] | None = None
    point = start
    while True:
        step = equation.at(point)
        history.append(step.spread)
        if callback is not None:
            callback(step.spread)
        if best is None or step.spread < best.spread:
            best = step
        if step.spread <= tol or len(history) > max_iter or _is_stuck(history, patience):
            break
        if iteration is None:
            iteration = _Accelerated(memory, equation.copies, step)
        elif search is None or not search.is_active:
            iteration.observe(step)
        following = None if search is None else search.propose(step, iteration.best, history)
        point = iteration.propose() if following is None else following
    return Equalized(best.reweights, best.losses, best.state, history)


def _is_stuck(history: list[float], patience: int | None) -> bool:
    if patience is None or len(history) <= patience:
        return False
    return min(history) > 0.5 * min(history[:-patience])


@dataclass
class _Anderson:
    """Anderson acceleration of a fixed-point iteration with residual ``f(x) = g(x) - x``.

    Least squares counts every copy of a record, so that a weight of 2 is the record twice.
    """

    memory: int
    copies: FloatArray
    steps: list[FloatArray] = field(default_factory=list)
    changes: list[FloatArray] = field(default_factory=list)
    last: tuple[FloatArray, FloatArray] | None = None

    @property
    def is_fresh(self) -> bool:
        """True if the last step was a plain one, for lack of memory."""
        return not self.changes

    def step(self, x: FloatArray, f: FloatArray, damping: float) -> FloatArray:
        """Next iterate from ``x`` and its residual ``f``; damped where there is no memory yet."""
        if self.last is not None and self.memory:
            self.steps = [*self.steps, x - self.last[0]][-self.memory :]
            self.changes = [*self.changes, f - self.last[1]][-self.memory :]
        self.last = (x, f)
        if not self.changes:
            return x + damping * f
        changes = np.column_stack(self.changes)
        root = np.sqrt(self.copies)
        mix = np.linalg.lstsq(changes * root[:, None], f * root, rcond=1e-12)[0]
        return x + f - (np.column_stack(self.steps) + changes) @ mix


@dataclass
class _Accelerated(Generic[State]):
    """The accelerated iteration, with a way back from steps that lead astray."""

    memory: int
    copies: FloatArray
    last: Step[State]
    damping: float = 1.0

    def __post_init__(self) -> None:
        self.anderson = _Anderson(self.memory, self.copies)
        self.best = self.last

    def observe(self, step: Step[State]) -> None:
        """Take note of a fit with the weights that were proposed."""
        self.last = step
        if step.spread < self.best.spread:
            self.best = step

    def propose(self) -> FloatArray:
        """Return the next weights, from the last fit or the best one if that was no improvement."""
        if self.last is self.best:
            self.damping = 1.0
        elif self.memory:
            # Back to the best step with an empty memory; where that failed before, by half.
            self.damping = 0.5 * self.damping if self.anderson.is_fresh else 1.0
            self.anderson = _Anderson(self.memory, self.copies)
            self.last = self.best
        return self.anderson.step(self.last.point, self.last.residual, self.damping)


# Solves for the weights of a rule from a start: rule, start, spread to reach, most refits.
Solver = Callable[[WeightRule, FloatArray, float, int], Equalized[State]]
_FIRST_STEP, _SMALLEST_STEP, _LARGEST_BOUND = 1.5, 1.03, 100.0
_LONGER, _SHORTER = 1.6, 0.4  # powers of the factor by which the bound rises
_FEW_FITS, _MOST_FITS = 4, 10
_ROUGH = 1e-2  # spread of a solution that is good enough to go on from


def follow_bound(
    solve: "Solver[State]", rule: WeightRule, start: FloatArray, tol: float, max_fits: int
) -> Equalized[State] | None:
    """Raise the bound of the weights up to that of a rule.

    Parameters
    ----------
    solve : callable
        ``solve(rule, start, tol, max_fits)`` returns the best weights that it found.
    rule : WeightRule
        Whose weights are wanted.
    start : ndarray of shape (n,)
        Factors of one.
    tol : float
        Relative spread to reach.
    max_fits : int
        Largest number of fits in all.

    Returns
    -------
    Equalized or None
        The last result for the rule itself; None if it never came to it.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.influence.reweighting import equalize
    >>> kappa, copies, rule = np.array([1.0, 3.0]), np.ones(2), WeightRule()
    >>> def solve(rule, start, tol, max_fits):
    ...     def measure(w):
    ...         return rule.losses(w, kappa, copies), None
    ...
    ...     return equalize(measure, copies, max_iter=max_fits, tol=tol, start=start)
    >>> follow_bound(solve, rule, copies, 1e-9, 100).reweights.round(6)
    array([1.5, 0.5])
    """
    bound, step, fits = 1.0, _FIRST_STEP, 0
    while fits < max_fits and step >= _SMALLEST_STEP:
        higher = bound * step
        if higher >= min(rule.largest_weight, _LARGEST_BOUND):
            result = solve(rule, start, tol, min(2 * _MOST_FITS, max_fits - fits))
            if result.spread <= max(tol, _ROUGH) or rule.largest_weight <= bound * _SMALLEST_STEP:
                return result
        else:
            rough = replace(rule, largest_weight=higher)
            result = solve(rough, start, _ROUGH, min(_MOST_FITS, max_fits - fits))
        fits += len(result.history)
        if result.spread <= _ROUGH:
            start, bound = result.reweights, higher
            step = step**_LONGER if len(result.history) <= _FEW_FITS else step
        else:
            step = step**_SHORTER
    return None
