"""The steps of private stochastic gradient descent."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skleak.neural.gradients import Gradients, SumGrid
from skleak.neural.information import Observer, StepMechanism
from skleak.neural.training._source import Source
from skleak.utils._typing import Array, FloatArray, IntArray

# Numbers in the parameters of all steps that are kept: 256 MB.
_LONGEST_PATH = 1 << 25


@dataclass(frozen=True)
class Descent:
    """Rule by which parameters follow from noisy sums of gradients: public numbers.

    Parameters
    ----------
    learning_rate : float, positive
        What the mean gradient is multiplied by.
    momentum : float in [0, 1)
        Share of the step before that is added.
    """

    learning_rate: float
    momentum: float


@dataclass
class Training:
    """A run that can go on: parameters in ``gradients``, the last step, and the history.

    The sum of the clipped gradients is divided by the expected size of a batch, never by the
    realised one, which is a function of who takes part. ``path`` holds the parameters at each step
    where the information is cheap, for what is asked later; None where they are too many.
    ``grid`` is that of exact sums and noise; None where both are in floating point.
    """

    gradients: Gradients
    mechanism: StepMechanism
    descent: Descent
    source: Source
    X: Any
    y: Array
    grid: SumGrid | None = None
    velocity: FloatArray | None = None
    path: "list[FloatArray] | None" = field(default=None, init=False)
    losses: list[float] = field(default_factory=list)
    batch_sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Keep the path of models in closed form."""
        self.path = [] if self.gradients.closed_form else None

    def run(
        self, n_steps: int, observer: Observer | None = None, notice: Callable[[float], Any] = float
    ) -> None:
        """Take so many steps; ``notice`` is told the mean loss of each batch."""
        expected = self.mechanism.sampling_rate * len(self.y)
        parameters = self.gradients.parameters
        velocity = np.zeros_like(parameters) if self.velocity is None else self.velocity
        for _ in range(n_steps):
            members = self._batch()
            self._note(parameters)
            total, losses = self._noisy_sum(members, observer)
            velocity = self.descent.momentum * velocity + total / expected
            parameters = parameters - self.descent.learning_rate * velocity
            self.gradients.parameters = parameters
            self.losses.append(float(losses.mean()) if len(losses) else np.nan)
            self.batch_sizes.append(len(members))
            notice(self.losses[-1])
        self.velocity = velocity

    def _noisy_sum(
        self, members: IntArray, observer: Observer | None
    ) -> tuple[FloatArray, FloatArray]:
        """Noisy sum of the clipped gradients of a batch, (p,), and its losses.

        On a grid sum and noise are integers, and all that follows is a function of theirs.
        """
        grid, s = self.grid, self.mechanism.noise_scale
        batch = self.X[members], self.y[members]
        if observer is not None:
            total, losses = observer.step(members, grid)
        elif grid is not None:
            total, losses = self.gradients.grid_sum(*batch, grid)
        else:
            total, losses = self.gradients.clipped_sum(*batch)
        if grid is not None:
            noisy = total + self.source.integers(grid.log2_scale, len(total))
            return noisy.astype(np.float64) * grid.unit, losses
        if s > 0.0:
            total = total + s * self.source.normal(len(total))
        return total, losses

    def _note(self, parameters: FloatArray) -> None:
        if self.path is not None:
            self.path.append(parameters)
            if len(self.path) * len(parameters) > _LONGEST_PATH:
                self.path = None

    @property
    def n_steps(self) -> int:
        """Steps taken so far."""
        return len(self.losses)

    def state(self) -> tuple[FloatArray, FloatArray | None, int]:
        """Return what `restore` goes back to: parameters, last change, number of steps."""
        return self.gradients.parameters, self.velocity, self.n_steps

    def restore(self, state: tuple[FloatArray, FloatArray | None, int]) -> None:
        """Undo the steps since a state."""
        self.gradients.parameters, self.velocity, n_steps = state
        for kept in (self.losses, self.batch_sizes, self.path or []):
            del kept[n_steps:]

    def _batch(self) -> IntArray:
        """Draw a batch, afresh and independently of all before."""
        n, rate = int(self.X.shape[0]), self.mechanism.sampling_rate
        if self.mechanism.sampling == "poisson":
            return self.source.members(n, rate)
        return self.source.subset(n, round(rate * n))
