"""IRFIL: weights under which every record leaks the same ([FIL21] algorithm 1), accelerated.

The algorithm is the fixed-point iteration ``log omega <- log omega - log eta`` (up to the
normalisation ``sum s omega = sum s``), with a refit at every step. It converges linearly.
Anderson acceleration combines the last few steps so that their residuals, the deviations of
``log eta`` from its mean, cancel; it costs a small least-squares problem per refit. Where that
takes long, as with a weak penalty, Newton's method goes on from the best step and squares the
spread each time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Generic

import numpy as np

from skleak.influence.reweighting._acceleration import Equalized, State, accelerated
from skleak.influence.reweighting._newton_search import Step
from skleak.utils._typing import BoolArray, FloatArray

# Factors, state of the fit, wanted change of the log losses, accuracy -> change of log factors.
Newton = Callable[[FloatArray, State, FloatArray, float], FloatArray]


def relative_spread(losses: FloatArray, sample_weight: FloatArray) -> float:
    """Divide the standard deviation of the losses by their mean; weights of zero do not count.

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
    newton: Newton[State] | None = None,
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
    records = _Records(measure, sample_weight)
    log_weights = np.zeros(len(records.copies)) if start is None else np.log(start[records.present])
    return accelerated(
        records,
        log_weights,
        max_iter=max_iter,
        tol=tol,
        memory=memory,
        newton=None if newton is None else partial(records.turn, newton),
        eager=eager,
        patience=patience,
        callback=callback,
    )


@dataclass(frozen=True)
class _Records(Generic[State]):
    """The equation in the logarithms of the weights of the records that take part."""

    measure: Callable[[FloatArray], tuple[FloatArray, State]]
    sample_weight: FloatArray

    @cached_property
    def present(self) -> BoolArray:
        """Tell which records take part, (n,)."""
        return self.sample_weight > 0.0

    @cached_property
    def copies(self) -> FloatArray:
        """Sample weights of those that take part: each copy of a record counts."""
        return self.sample_weight[self.present]

    def at(self, point: FloatArray) -> Step[State]:
        """Fit with the weights of these logarithms, (n_present,), up to their sum."""
        log_weights = _normalized(point, self.copies)
        reweights = self._everyone(np.exp(log_weights), np.ones(len(self.present)))
        losses, state = self.measure(reweights)
        residual = _residual(losses[self.present], self.copies)
        spread = relative_spread(losses, self.sample_weight)
        return Step(spread, log_weights, residual, reweights, losses, state)

    def turn(self, newton: Newton[State], step: Step[State], rtol: float) -> FloatArray:
        """Newton's direction at a fit, (n_present,)."""
        residual = self._everyone(step.residual, np.zeros(len(self.present)))
        return newton(step.reweights, step.state, residual, rtol)[self.present]

    def _everyone(self, values: FloatArray, others: FloatArray) -> FloatArray:
        others[self.present] = values
        return others


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
