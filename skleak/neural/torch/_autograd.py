"""Gradients of a batch record by record, and their derivatives in the records."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.func import functional_call, grad_and_value, jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from skleak.neural.torch._objective import Objective

# One tensor for each of the module's: (n, ...) for n records, (k, n, ...) for k changes of each.
Tensors: TypeAlias = dict[str, Any]
Pull: TypeAlias = Callable[[Tensors], tuple[Any, Any]]


class Batch(NamedTuple):
    """Records on the device."""

    X: Any  # (n, ...)
    targets: Any  # (n, 1 or K)


class PerRecord:
    """The gradient of the loss of every record, as a function that torch differentiates again."""

    def __init__(self, module: Any, objective: Objective, trained: Tensors) -> None:
        self.module, self.objective, self.trained = module, objective, trained
        self._of_one = grad_and_value(self._loss)

    def __call__(self, X: Any, targets: Any) -> tuple[Tensors, Any]:
        """Gradients (n, ...) and losses (n,)."""
        # The other kernels of attention have no derivatives beyond the first.
        with sdpa_kernel(SDPBackend.MATH):
            each: tuple[Tensors, Any] = vmap(self._of_one, in_dims=(None, 0, 0))(
                self.trained, X, targets
            )
        return each

    def pushed(self, batch: Batch, dX: Any, dt: Any) -> tuple[Tensors, Any, Tensors]:
        """Gradients, losses, and how the gradients change with k changes of each record.

        Shapes: dX (k, n, ...), dt (k, n, m); the changes are (k, n, ...).
        """

        _load_forward_mode()

        def push(dX: Any, dt: Any) -> Any:
            return jvp(self, tuple(batch), (dX, dt))

        # Tangents alone are k times as many: the others are views of one.
        (gradients, losses), (changes, _) = vmap(push)(dX, dt)
        return {name: g[0] for name, g in gradients.items()}, losses[0], changes

    def pulled(self, batch: Batch) -> tuple[Tensors, Any, Pull]:
        """Gradients, losses, and the derivative of ``sum q.g`` in the record, for k of q each.

        The function takes (k, n, ...) and returns (k, n, ...) and (k, n, m).
        """
        gradients, pull, losses = vjp(self, *batch, has_aux=True)
        return gradients, losses, vmap(pull)

    def _loss(self, trained: Tensors, x: Any, target: Any) -> Any:
        """Loss of one record."""
        outputs = functional_call(self.module, trained, (x[None],))
        return self.objective.of_record(outputs.reshape(-1), target)


@functools.cache
def _load_forward_mode() -> None:
    """Let torch load its forward mode, which it compiles by what it calls deprecated itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (torch.zeros(()),), (torch.zeros(()),))


def inner(a: Tensors, b: Tensors) -> Any:
    """Inner products over all parameters, of (n, ...) or (k, n, ...) with (n, ...): (..., n)."""
    total: Any = 0
    for name, tensor in a.items():
        lead = tensor.dim() - b[name].dim() + 1
        total = total + (tensor * b[name]).flatten(lead).sum(-1)
    return total


def squared_norms(a: Tensors, lead: int) -> Any:
    """Squared norms over all but so many leading axes."""
    norms = [torch.linalg.vector_norm(t.flatten(lead), dim=-1).square() for t in a.values()]
    return torch.stack(norms).sum(0)
