"""Gradients of many records, those of linear layers as products of two short factors.

The gradient of a weight W of ``out = W a`` is ``sum_t l_t r_t^T``, over the places t at which the
layer is applied to a record, with l the derivative of the loss by the output and r the input. Norms
and inner products need products within the factors only, never the gradient itself.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from skleak.utils._typing import FloatArray

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


def numbers(tensor: Any) -> FloatArray:
    """Return a tensor as a float64 array."""
    return np.asarray(tensor.detach().double().cpu().numpy())
