"""The loss of one record as a function of the module's outputs and of its target.

A target is a vector t: the number itself for one output, and for K scores the one-hot vector of the
label. A class is nominal; like [FIL21] we take the loss as the linear interpolation between the
labels, ``sum_k t_k loss(outputs, k)``, which cross-entropy and the logistic loss are as they stand.
Its derivative is formal, and along the simplex only: one direction for two classes, which lie one
apart, and K - 1 orthonormal ones for more, as for a linear model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from scipy import linalg

from skleak.utils._typing import Array

# A loss of torch or of the user: outputs and targets of a batch to one number or one a record.
Loss: TypeAlias = Callable[[Any, Any], Any]
Kind: TypeAlias = Literal["regression", "binary", "classification"]


@dataclass(frozen=True)
class Objective:
    """Loss of one record.

    Attributes
    ----------
    kind : {"regression", "binary", "classification"}
        A number against the target; one log-odds; or one score per class.
    n_outputs : int
        Outputs of the module for a record.
    loss : callable or None
        ``loss(outputs, targets)`` of a batch of one, of which the entries are summed; None is half
        the squared error, or cross-entropy.
    """

    kind: Kind
    n_outputs: int
    loss: Loss | None = None

    @classmethod
    def of(cls, n_classes: int | None, n_outputs: int, loss: Loss | None = None) -> "Objective":
        """For a regression (None) or so many classes, and a module with so many outputs."""
        if n_classes is None:
            return cls("regression", n_outputs, loss)
        return cls("classification" if n_outputs > 1 else "binary", n_outputs, loss)

    def encode(self, y: Array) -> Array:
        """Vectors t of targets, (n, 1) or one-hot (n, K)."""
        if self.kind != "classification":
            return np.asarray(y, dtype=np.float64)[:, None]
        return np.eye(self.n_outputs)[np.asarray(y, dtype=np.intp)]

    def directions(self) -> Array:
        """Return the unit changes of t, (1 or K, number of unknowns of a target)."""
        if self.kind != "classification":
            return np.ones((1, 1))
        if self.n_outputs == 2:
            return np.array([[-1.0], [1.0]])
        return linalg.null_space(np.ones((1, self.n_outputs)))

    def of_record(self, outputs: Any, target: Any) -> Any:
        """Loss, one number, of outputs (n_outputs,) and t (1,) or (K,); linear in a label's t."""
        if self.kind == "regression":
            if self.loss is None:
                return 0.5 * (outputs - target).square().sum()
            return self._own(outputs, target)
        if self.kind == "binary":
            if self.loss is None:
                return (torch.nn.functional.softplus(outputs) - target * outputs).sum()
            zero, one = (self._own(outputs, torch.full_like(outputs, k)) for k in (0.0, 1.0))
            return ((1.0 - target) * zero + target * one).sum()
        if self.loss is None:
            return -(target * torch.log_softmax(outputs, 0)).sum()
        return sum(target[k] * self._own(outputs[None], label) for k, label in self._labels(target))

    def _labels(self, like: Any) -> list[tuple[int, Any]]:
        return [(k, torch.full((1,), k, device=like.device)) for k in range(self.n_outputs)]

    def _own(self, outputs: Any, target: Any) -> Any:
        """Return the user's loss of a batch of one, summed over what it returns."""
        assert self.loss is not None
        return self.loss(outputs, target).sum()
