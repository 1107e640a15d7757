"""IRFIL: weights under which every record leaks the same ([FIL21] algorithm 1), accelerated.

The algorithm is the fixed-point iteration ``log omega <- log omega - log eta`` (up to the
normalisation ``sum s omega = sum s``), with a refit at every step. It converges linearly.
Anderson acceleration combines the last few steps so that their residuals, the deviations of
``log eta`` from its mean, cancel; it costs a small least-squares problem per refit. Where that
takes long, as with a weak penalty, Newton's method goes on from the best step and squares the
spread each time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from skleak.influence.reweighting._newton_search import Direction, NewtonSearch, Step
from skleak.utils._typing import FloatArray

State = TypeVar("State")


@dataclass(frozen=True)
class Equalized(Generic[State]):
    """Result of `equalize`."""

    reweights: FloatArray  # the factors ``omega`` of the best step, (n,)
    losses: FloatArray  # what they make every record leak, (n,)
    state: State  # what the caller's ``measure`` returned with them
    history: list[float]  # relative spread of the losses at each step, the first that of the start

    @property
    def spread(self) -> float:
        """Relative spread reached."""
        return min(self.history)


def relative_spread(losses: FloatArray, sample_weight: FloatArray) -> float:
    """Standard deviation of the losses over their mean; records of weight zero do not count.

    Shapes: ``losses``, ``sample_weight`` (n,).
    """
    present = sample_weight > 0.0
    losses, weights = losses[present], sample_weight[present]
    mean = np.average(losses, weights=weights)
    if not np.isfinite(mean) or mean == 0.0:
        return 0.0 if mean == 0.0 else np.inf
    return float(np.sqrt(np.average((losses / mean - 1.0) ** 2, weights=weights)))


def equalize(
    measure: Callable[[FloatArray], tuple[FloatArray, State]],
    sample_weight: FloatArray,
    *,
    max_iter: int = 30,
    tol: float = 1e-6,
    memory: int = 10,
    newton: Direction[State] | None = None,
    eager: bool = False,
    start: FloatArray | None = None,
    patience: int | None = None,
    callback: Callable[[float], None] | None = None,
) -> Equalized[State]:
    """Find reweighting factors under which all records leak the same.

    Parameters
    ----------
    measure : callable
        Maps factors of shape (n,) to the losses of shape (n,) after a refit with them, and to
        whatever state the caller wants back. Infinite losses say that the fit is of no use.
    sample_weight : ndarray of shape (n,)
        How many times each record counts; at least one is positive.
    max_iter : int, default=30
        Largest number of refits after the first.
    tol : float, default=1e-6
        Relative spread at which to stop.
    memory : int, default=10
        Steps that the acceleration combines; 0 is the plain iteration of [FIL21].
    newton : callable, default=None
        ``newton(reweights, state, residual, rtol)`` returns the change of the log factors, of
        shape (n,), under which the logarithms of the losses change by ``residual`` up to a common
        constant, to a relative accuracy of ``rtol``: see `newton_direction`. None does without
        Newton's method.
    eager : bool, default=False
        Newton's method from the first fit on, and not only where the acceleration is slow.
    start : ndarray of shape (n,), default=None
        Factors of the first fit; by default ones.
    patience : int, default=None
        Stop as well where that many refits have not halved the spread.
    callback : callable, default=None
        Called with the spread after every refit.

    Returns
    -------
    Equalized
        The best step; whether its spread is small enough is for the caller to judge.

    Notes
    -----
    Newton steps, too, are judged by the spread after a refit. Where they do not lower it, the
    acceleration goes on from where it was left, as if there had been none; the next search waits
    for longer, and for a better fit to begin at. A record that leaks nothing keeps its share of
    the weights, and all others end up alike.

    Examples
    --------
    Losses proportional to the weights are equalised in one step.

    >>> import numpy as np
    >>> result = equalize(lambda w: (w * np.array([1.0, 3.0]), None), np.ones(2))
    >>> result.reweights
    array([1.5, 0.5])
    """
    present = sample_weight > 0.0
    copies = sample_weight[present]
    iteration: _Accelerated[State] | None = None
    search = None if newton is None else NewtonSearch(newton, present, tol, eager)
    log_weights = np.zeros(len(copies)) if start is None else np.log(start[present])
    history: list[float] = []
    best: Step[State] | None = None
    while True:
        log_weights = _normalized(log_weights, copies)
        reweights = np.ones(len(sample_weight))
        reweights[present] = np.exp(log_weights)
        losses, state = measure(reweights)
        spread = relative_spread(losses, sample_weight)
        residual = _residual(losses[present], copies)
        step = Step(spread, log_weights, residual, reweights, losses, state)
        history.append(spread)
        if callback is not None:
            callback(spread)
        if best is None or spread < best.spread:
            best = step
        if spread <= tol or len(history) > max_iter or _is_stuck(history, patience):
            break
        if iteration is None:
            iteration = _Accelerated(memory, copies, step)
        elif search is None or not search.is_active:
            iteration.observe(step)
        following = None if search is None else search.propose(step, iteration.best, history)
        log_weights = iteration.propose() if following is None else following
    return Equalized(best.reweights, best.losses, best.state, history)


def _is_stuck(history: list[float], patience: int | None) -> bool:
    if patience is None or len(history) <= patience:
        return False
    return min(history) > 0.5 * min(history[:-patience])


def _normalized(log_weights: FloatArray, sample_weight: FloatArray) -> FloatArray:
    largest = log_weights.max()
    total = np.average(np.exp(log_weights - largest), weights=sample_weight)
    return log_weights - largest - np.log(total)


def _residual(losses: FloatArray, copies: FloatArray) -> FloatArray:
    """Plain step: minus the deviation of ``log eta`` from its mean.

    A record that leaks very little would ask for a huge weight: its loss counts as at least one
    millionth of the mean, so that its weight grows by a bounded factor per step. To one that
    leaks nothing at all no weight makes a difference.
    """
    result, leaks = np.zeros(len(losses)), losses > 0.0
    if np.any(leaks) and np.all(np.isfinite(losses)):
        copies = copies[leaks]
        least = 1e-6 * np.average(losses[leaks], weights=copies)
        logs = np.log(np.maximum(losses[leaks], least))
        result[leaks] = np.average(logs, weights=copies) - logs
    return result


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
        return self.anderson.step(self.last.log_weights, self.last.residual, self.damping)
