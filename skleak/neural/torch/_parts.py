"""Parts of networks, and checks of them.

The loss of one record as a function of the module's outputs and of its target.

A target is a vector t: the number itself for one output, and for K scores the one-hot vector of the
label. A class is nominal; like [FIL21] we take the loss as the linear interpolation between the
labels, ``sum_k t_k loss(outputs, k)``, which cross-entropy and the logistic loss are as they stand.
Its derivative is formal, and along the simplex only: one direction for two classes, which lie one
apart, and K - 1 orthonormal ones for more, as for a linear model.

Gradients of many records, those of linear layers as products of two short factors.

The gradient of a weight W of ``out = W a`` is ``sum_t l_t r_t^T``, over the places t at which the
layer is applied to a record, with l the derivative of the loss by the output and r the input. Norms
and inner products need products within the factors only, never the gradient itself.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from scipy import linalg
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from skleak.utils._typing import Array, FloatArray

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
        labels = torch.arange(self.n_outputs, device=target.device)[:, None]
        return sum(t * self._own(outputs[None], k) for t, k in zip(target, labels, strict=True))

    def _own(self, outputs: Any, target: Any) -> Any:
        """Return the user's loss of a batch of one, summed over what it returns."""
        assert self.loss is not None
        return self.loss(outputs, target).sum()


# One tensor for each parameter: (n, ...) for n records, (k, n, ...) for k changes of each.
Tensors: TypeAlias = dict[str, Any]


class Rows(NamedTuple):
    """Gradients of records, or changes of them."""

    dense: Tensors
    left: Tensors  # (n, places, outputs)
    right: Tensors  # (n, places, inputs)


def squared_norms(gradients: Rows) -> Any:
    """Squared norms of gradients, (n,)."""
    dense = [torch.linalg.vector_norm(g.flatten(1), dim=1) ** 2 for g in gradients.dense.values()]
    outer = [_both(_gram(a, a), _gram(b, b)) for a, b in _factors(gradients)]
    return torch.stack([*dense, *outer]).sum(0)


def squared_changes(changes: Rows, gradients: Rows) -> Any:
    """Squared norms of changes of gradients, (k, n)."""
    found = [torch.linalg.vector_norm(g.flatten(2), dim=2) ** 2 for g in changes.dense.values()]
    for (da, db), (a, b) in zip(_factors(changes), _factors(gradients), strict=True):
        found.append(_both(_gram(da, da), _gram(b, b)) + _both(_gram(a, a), _gram(db, db)))
        found.append(2.0 * _both(_gram(da, a), _gram(b, db)))
    return torch.stack(found).sum(0)


def inner(changes: Rows, gradients: Rows) -> Any:
    """Inner products of changes with the gradients themselves, (k, n)."""
    found = [
        torch.einsum("knp,np->kn", change.flatten(2), gradients.dense[name].flatten(1))
        for name, change in changes.dense.items()
    ]
    for (da, db), (a, b) in zip(_factors(changes), _factors(gradients), strict=True):
        found.append(_both(_gram(da, a), _gram(b, b)) + _both(_gram(a, a), _gram(db, b)))
    return torch.stack(found).sum(0)


def weighted_sum(weights: Any, gradients: Rows) -> Tensors:
    """Sum of gradients with weights (n,), of each parameter."""
    found = {name: torch.tensordot(weights, g, 1) for name, g in gradients.dense.items()}
    for name, a in gradients.left.items():
        weighted = (weights[:, None, None] * a).flatten(0, 1)
        found[name] = weighted.T @ gradients.right[name].flatten(0, 1)
    return found


def _factors(rows: Rows) -> list[tuple[Any, Any]]:
    return [(a, rows.right[name]) for name, a in rows.left.items()]


def _gram(a: Any, b: Any) -> Any:
    """Inner products of all places, (..., places, places)."""
    return a @ b.transpose(-1, -2)


def _both(a: Any, b: Any) -> Any:
    return (a * b).sum((-1, -2))


def unflattened(flat: Any, like: Tensors) -> Tensors:
    """Cut numbers (p,) into tensors of the shapes of others."""
    parts = flat.split([tensor.numel() for tensor in like.values()])
    return {k: part.reshape(v.shape) for (k, v), part in zip(like.items(), parts, strict=True)}


def numbers(tensor: Any) -> FloatArray:
    """Return a tensor as a float64 array."""
    return np.asarray(tensor.detach().double().cpu().numpy())


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

    def at(self, parameters: Any) -> "PerRecord":
        """Return the same at other parameters, (p,)."""
        trained = unflattened(parameters, self.trained)
        return PerRecord(self.module, self.objective, trained, self.linear)

    def __call__(self, batch: Batch) -> tuple[Rows, Any]:
        """Gradients of n records, and losses (n,)."""
        with plain_attention():
            each: tuple[Rows, Any] = vmap(self._of_one)(*batch)
        return each

    def pushed(self, batch: Batch, dX: Any, dt: Any) -> tuple[Rows, Any, Rows]:
        """Gradients, losses, and how the gradients change with k changes of each record.

        Shapes: dX (k, n, ...), dt (k, n, m); the changes are (k, n, ...).
        """

        def push(x: Any, target: Any, dx: Any, dt: Any) -> Any:
            return jvp(self._of_one, (x, target), (dx, dt))

        with plain_attention():
            # The other way round torch loses what normalizations derive from single records.
            changed = vmap(vmap(push, (None, None, 0, 0)), (0, 0, 1, 1), out_dims=1)
            (gradients, losses), (changes, _) = changed(*batch, dX, dt)
        own = Rows(*({name: g[0] for name, g in each.items()} for each in gradients))
        return own, losses[0], changes

    def flat(self, x: Any, target: Any) -> Any:
        """Gradient of one record, all parameters in a row, (p,). Of gradients written out."""
        with plain_attention():
            return torch.cat([g.flatten() for g in self._of_one(x, target)[0].dense.values()])

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


@contextmanager
def plain_attention() -> Iterator[None]:
    """Compute attention by the kernel that is differentiated and mapped in every way."""
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):
        # torch compiles its forward mode, when it is first used, by what it calls deprecated.
        warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
        yield


@dataclass(frozen=True)
class Scales:
    """Factors from a change of the gradient g to one of ``M^(1/2) g / h``, along g and across it.

    Along comes first: ``r = |1 - N h' / h| / h`` of clipping and a factor of the information, then
    ``1 / h`` and the other factor.
    """

    gradients: Rows  # g, not clipped
    norms: Any  # N, (n,)
    clipping: Any  # (2, n)
    factors: Any  # (2, n)

    def squared(self, changes: Rows) -> Any:
        """Squared norms of clipped changes (k, n, ...) along and across, (2, k, n)."""
        along = self._shares(changes).square()
        across = (squared_changes(changes, self.gradients) - along).clamp(min=0.0)
        return torch.stack([along, across]) * self.clipping[:, None].square()

    def weighted(self, changes: Rows) -> list[Any]:
        """Multiply written-out changes (k, n, ...) by ``M^(1/2)``; (k, n, p) for each parameter."""
        along, across = self.clipping * self.factors.sqrt()
        extra = (along - across) * self._shares(changes) / self._safe_norms
        return [
            across[:, None] * v.flatten(2)
            + extra[..., None] * self.gradients.dense[name].flatten(1)
            for name, v in changes.dense.items()
        ]

    def _shares(self, changes: Rows) -> Any:
        """``e.dg`` of changes (k, n, ...), (k, n); zero where there is no direction e."""
        return inner(changes, self.gradients) / self._safe_norms

    @property
    def _safe_norms(self) -> Any:
        return torch.where(self.norms > 0.0, self.norms, torch.ones_like(self.norms))
