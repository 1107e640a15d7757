"""Gradients of a batch record by record, and their derivatives in the records."""

import copy
import functools
import warnings
from typing import Any, NamedTuple

import torch
from torch.func import functional_call, grad, jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from skleak.neural.torch._objective import Objective
from skleak.neural.torch._rows import Rows, Tensors

_linear = torch.nn.functional.linear


class Batch(NamedTuple):
    """Records on the device."""

    X: Any  # (n, ...)
    targets: Any  # (n, 1 or K)


class PerRecord:
    """The gradient of the loss of every record, as a function that torch differentiates again.

    Parameters
    ----------
    module : torch.nn.Module
        Takes a batch of one.
    objective : Objective
        The loss of a record.
    trained : dict of Tensor
        Parameters of the module to differentiate by.
    linear : dict of tuple
        Of those, weights of linear layers whose gradients are left as two factors, and the shapes
        of the layers' outputs.
    """

    def __init__(
        self,
        module: Any,
        objective: Objective,
        trained: Tensors,
        linear: dict[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.module, self.objective, self.trained = module, objective, trained
        self.linear = linear or {}

    def whole(self) -> "PerRecord":
        """Return the same with all gradients written out."""
        return PerRecord(self.module, self.objective, self.trained)

    def wider(self) -> "PerRecord":
        """Return the same at double precision, of a copy of the module."""
        trained = {name: tensor.double() for name, tensor in self.trained.items()}
        module = copy.deepcopy(self.module).double()
        return PerRecord(module, self.objective, trained, self.linear)

    def __call__(self, batch: Batch) -> tuple[Rows, Any]:
        """Gradients of n records, and losses (n,)."""
        with _plain_attention():
            each: tuple[Rows, Any] = vmap(self._of_one)(*batch)
        return each

    def pushed(self, batch: Batch, dX: Any, dt: Any) -> tuple[Rows, Any, Rows]:
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
        own = Rows(*({name: g[0] for name, g in each.items()} for each in gradients))
        return own, losses[0], changes

    def pulled(self, batch: Batch, vectors: Rows) -> tuple[Any, Any]:
        """Differentiate ``q.g`` by records and targets, for k of q (k, n, ...) each.

        Returns (k, n, ...) and (k, n, m). Of gradients that are written out.
        """

        def pull(x: Any, target: Any, vector: Rows) -> Any:
            return vjp(lambda x, t: self._of_one(x, t)[0], x, target)[1](vector)

        with _plain_attention():
            pulls = vmap(vmap(pull, (None, None, 0)), (0, 0, 1), out_dims=1)
            found: tuple[Any, Any] = pulls(*batch, vectors)
        return found

    def _of_one(self, x: Any, target: Any) -> tuple[Rows, Any]:
        """Gradient and loss of one record."""
        dense = {name: p for name, p in self.trained.items() if name not in self.linear}
        like = next(iter(self.trained.values()))
        outputs = {name: like.new_zeros(shape) for name, shape in self.linear.items()}
        (gradients, left), (loss, right) = grad(self._loss, argnums=(0, 1), has_aux=True)(
            dense, outputs, x, target
        )
        left, right = ({name: _places(t) for name, t in each.items()} for each in (left, right))
        return Rows(gradients, left, {name: right[name] for name in left}), loss

    def _loss(
        self, dense: Tensors, outputs: Tensors, x: Any, target: Any
    ) -> tuple[Any, tuple[Any, Tensors]]:
        """Loss of one record, with what is added to the outputs of linear layers; their inputs."""
        held = {name: self.trained[name] for name in self.linear}
        with _Added(held, outputs) as seen:
            found = functional_call(self.module, dense | held, (x[None],))
        loss = self.objective.of_record(found.reshape(-1), target)
        return loss, (loss, seen.inputs)


class _Added(TorchFunctionMode):
    """Adds to the outputs of linear layers, which are known by their weights; keeps the inputs."""

    def __init__(self, weights: Tensors, added: Tensors) -> None:
        super().__init__()
        self._names = {id(weight): name for name, weight in weights.items()}
        self._added = added
        self.inputs: Tensors = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = self._names.get(id(args[1])) if func is _linear and len(args) > 1 else None
        if name is None:
            return result
        self.inputs[name] = args[0]
        return result + self._added[name]


class _Used(TorchFunctionMode):
    """Notes which weights linear layers use once, and nothing else does."""

    def __init__(self, weights: Tensors) -> None:
        super().__init__()
        self._names = {id(weight): name for name, weight in weights.items()}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.others: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        flat = torch.utils._pytree.tree_leaves((args, kwargs))
        for name in {self._names[id(leaf)] for leaf in flat if id(leaf) in self._names}:
            own = func is _linear and self._names.get(id(args[1])) == name
            if getattr(func, "__name__", "") == "__get__":
                continue
            if not own or name in self.shapes:
                self.others.add(name)
            else:
                self.shapes[name] = tuple(result.shape)
        return result


def linear_weights(module: Any, trained: Tensors, X: Any) -> dict[str, tuple[int, ...]]:
    """Weights whose gradients are shorter as two factors, and the shapes of their outputs."""
    with torch.no_grad(), _Used(trained) as used:
        functional_call(module, trained, (X[:1],))
    found = {}
    for name, shape in used.shapes.items():
        n_outputs, n_inputs = trained[name].shape
        places = max(1, torch.Size(shape).numel() // n_outputs)
        if name not in used.others and places * (n_outputs + n_inputs) < n_outputs * n_inputs:
            found[name] = shape
    return found


def _places(tensor: Any) -> Any:
    """Return the inputs or outputs of a layer for one record, (places, width)."""
    return tensor.reshape(-1, tensor.shape[-1])


def _plain_attention() -> Any:
    """Attention by the kernel that has derivatives beyond the first."""
    return sdpa_kernel(SDPBackend.MATH)


@functools.cache
def _load_forward_mode() -> None:
    """Let torch load its forward mode, which it compiles by what it calls deprecated itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (torch.zeros(()),), (torch.zeros(()),))
