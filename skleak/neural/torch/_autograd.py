"""Gradients of a batch record by record, and their derivatives in the records."""

import copy
import functools
import warnings
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.func import functional_call, grad_and_value, jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from skleak.neural.torch._objective import Objective

# One tensor for each of the module's: (n, ...) for n records, (k, n, ...) for k changes of each.
Tensors: TypeAlias = dict[str, Any]


class Batch(NamedTuple):
    """Records on the device."""

    X: Any  # (n, ...)
    targets: Any  # (n, 1 or K)


class PerRecord:
    """The gradient of the loss of every record, as a function that torch differentiates again."""

    def __init__(self, module: Any, objective: Objective, trained: Tensors) -> None:
        self.module, self.objective, self.trained = module, objective, trained

    def __call__(self, batch: Batch) -> tuple[Tensors, Any]:
        """Gradients (n, ...) and losses (n,)."""
        with _plain_attention():
            each: tuple[Tensors, Any] = vmap(self._of_one)(*batch)
        return each

    def pushed(self, batch: Batch, dX: Any, dt: Any) -> tuple[Tensors, Any, Tensors]:
        """Gradients, losses, and how the gradients change with k changes of each record.

        Shapes: dX (k, n, ...), dt (k, n, m); the changes are (k, n, ...).
        """
        _load_forward_mode()

        def push(x: Any, target: Any, dx: Any, dt: Any) -> Any:
            return jvp(self._of_one, (x, target), (dx, dt))

        with _plain_attention():
            # The other way round torch loses what normalisations derive from single records.
            changed = vmap(vmap(push, (None, None, 0, 0)), (0, 0, 1, 1), out_dims=1)
            (gradients, losses), (changes, _) = changed(*batch, dX, dt)
        return {name: g[0] for name, g in gradients.items()}, losses[0], changes

    def pulled(self, batch: Batch, vectors: Tensors) -> tuple[Any, Any]:
        """Derivatives of ``q.g`` in the records and targets, for k of q (k, n, ...) each.

        Returns (k, n, ...) and (k, n, m).
        """

        def pull(x: Any, target: Any, vector: Tensors) -> Any:
            return vjp(lambda x, t: self._of_one(x, t)[0], x, target)[1](vector)

        with _plain_attention():
            found: tuple[Any, Any] = vmap(vmap(pull, (None, None, 0)), (0, 0, 1), out_dims=1)(
                *batch, vectors
            )
        return found

    def wider(self) -> "PerRecord":
        """The same at double precision, of a copy of the module."""
        trained = {name: tensor.double() for name, tensor in self.trained.items()}
        return PerRecord(copy.deepcopy(self.module).double(), self.objective, trained)

    def _of_one(self, x: Any, target: Any) -> tuple[Tensors, Any]:
        """Gradient and loss of one record."""
        found: tuple[Tensors, Any] = grad_and_value(self._loss)(self.trained, x, target)
        return found

    def _loss(self, trained: Tensors, x: Any, target: Any) -> Any:
        """Loss of one record."""
        outputs = functional_call(self.module, trained, (x[None],))
        return self.objective.of_record(outputs.reshape(-1), target)


def _plain_attention() -> Any:
    """Attention by the kernel that has derivatives beyond the first."""
    return sdpa_kernel(SDPBackend.MATH)


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
