"""Clipped gradients of one record at many parameters, and how the record moves them."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from skleak.utils._typing import FloatArray

# From weights of the entries of the gradients, (T, p), to the gradient of the weighted sum with
# respect to the record, (d,).
Pullback = Callable[[FloatArray], FloatArray]


class StepGradients(ABC):
    """Clipped gradients of a record, as a function of it, at the parameters of T steps."""

    @abstractmethod
    def at(self, record: FloatArray, target: float) -> tuple[FloatArray, Pullback]:
        """Clipped gradients, (T, p), of a record (d,), and the transpose of their derivative."""

    def start(self, signals: FloatArray) -> FloatArray | None:
        """Guess of the record, (d,), in closed form from noisy gradients (T, p), or None."""
        return None
