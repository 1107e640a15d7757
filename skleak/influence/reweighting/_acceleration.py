"""An accelerated fixed-point iteration, and Newton's method where that takes long."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from skleak.influence.reweighting._newton_search import Direction, NewtonSearch, Step
from skleak.utils._typing import Array, FloatArray

State = TypeVar("State")


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
