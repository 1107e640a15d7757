"""The one interface between models on one side, training and accounting on the other."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from skleak.neural.gradients._clipping import Clipping
from skleak.neural.gradients._exact import SumGrid
from skleak.utils._typing import Array, FloatArray

Part: TypeAlias = Literal["trace", "plain", "norm", "diagonal", "matrix"]
# From norms of clipped gradients, (n,), to the factors of the information along and across them.
Weigh: TypeAlias = Callable[[FloatArray], tuple[Any, Any]]


class Gradients(ABC):
    """Clipped gradients of the loss of every record, at the current parameters.

    Training sets ``parameters`` after each step. Records ``X`` have shape (n, ...) with d entries
    each, ``y`` shape (n,): class numbers 0, ..., K - 1 as integers, or targets as floats.

    Attributes
    ----------
    clipping : Clipping
        How gradients are clipped, and their largest norm.
    max_batch : int or None
        Most records whose gradients are held in memory at once; None for no limit.
    closed_form : bool
        Whether the exact information of every record at every step is cheap.
    """

    closed_form: ClassVar[bool] = False

    @property
    def has_cheap_norm(self) -> bool:
        """Return True if the largest eigenvalue of every record at every step is cheap, too."""
        return False

    def __init__(self, clipping: Clipping, max_batch: int | None = None) -> None:
        self.clipping = clipping
        self.max_batch = max_batch

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of parameters p, over all tensors of the model."""

    @property
    @abstractmethod
    def parameters(self) -> FloatArray:
        """The current parameters, flat, float64, of shape (p,); a copy."""

    @parameters.setter
    @abstractmethod
    def parameters(self, values: FloatArray) -> None: ...

    @abstractmethod
    def clipped_sum(self, X: Array, y: Array) -> tuple[FloatArray, FloatArray]:
        """Sum of the clipped gradients, (p,), and the losses of the records, (n,).

        No records give zeros and no losses. Losses or gradients that are NaN or infinite raise
        FloatingPointError.
        """

    def grid_sum(self, X: Array, y: Array, grid: SumGrid) -> tuple[Array, FloatArray]:
        """Sum of the clipped gradients in units of a grid, (p,) of int64, and the losses, (n,).

        What a record adds is a vector of integers of norm at most ``grid.longest``, a function of
        the record and of the parameters alone, and the sum is exact. Errors as of `clipped_sum`.
        """
        raise NotImplementedError(f"{type(self).__name__} sums in floating point only.")

    @abstractmethod
    def norms(self, X: Array, y: Array) -> FloatArray:
        """Norms of the clipped gradients, (n,)."""

    @abstractmethod
    def information(
        self,
        X: Array,
        y: Array,
        weigh: Weigh,
        *,
        parts: Collection[Part],
        n_probes: int | None = None,
        rng: np.random.Generator | None = None,
        private_target: bool = True,
    ) -> dict[str, FloatArray]:
        """Parts of ``G^T M G`` of every record, per unit of the noise.

        G is the Jacobian of the clipped gradient with respect to the record (and its target, last,
        with ``private_target``), ``M = along e e^T + across (I - e e^T)`` with e the direction of
        the gradient, and ``(along, across) = weigh(norms)``, each (n,), of the norms of the clipped
        gradients. Where the gradient vanishes e is any direction, and the two factors are equal.

        Shapes: X (n, ...), y (n,); returns for each name of ``parts``: "trace" (n,), "plain" (n,),
        the trace of ``G^T G`` without M, "norm" (n,), the largest eigenvalue, "diagonal" (n, u) and
        "matrix" (n, u, u) for u unknowns. With ``n_probes`` None all are exact; else "trace",
        "plain" and "diagonal" are unbiased estimates by so many Rademacher probes of
        ``M^(1/2) G``, fresh for every record and call, drawn from ``rng``. A class label counts as
        K - 1 unknowns for K > 2 classes, and as one for two; its derivative is formal.
        """

    def sum_and_information(
        self, X: Array, y: Array, weigh: Weigh, **options: Any
    ) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """`clipped_sum` and `information` of the same records, which may share their work."""
        return *self.clipped_sum(X, y), self.information(X, y, weigh, **options)

    def summed_information(
        self, X: Array, y: Array, path: FloatArray, weigh: Weigh, **options: Any
    ) -> dict[str, FloatArray]:
        """Sum of `information` over parameters ``path``, (T, p), with the same options."""
        before = self.parameters
        total: dict[str, FloatArray] = {}
        try:
            for parameters in path:
                self.parameters = parameters
                add_parts(total, self.information(X, y, weigh, **options))
        finally:
            self.parameters = before
        return total

    @abstractmethod
    def n_unknowns(self, X: Array, private_target: bool) -> int:
        """Return the number of entries of a record, with its target's where it is private."""

    @abstractmethod
    def predict_raw(self, X: Array) -> FloatArray:
        """Return the outputs of the model, (n, n_outputs): log-odds, class scores, or a number."""


def add_parts(total: dict[str, FloatArray], found: dict[str, FloatArray]) -> None:
    """Add the parts of a step to those before, in place."""
    for name, values in found.items():
        total[name] = total[name] + values if name in total else values
