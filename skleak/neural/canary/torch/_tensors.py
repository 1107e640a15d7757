"""Arithmetic with the parameters of a module, and differentiation in every direction."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

# One tensor for each trained parameter of a module, by name; of n games, a leading axis of n.
Parameters: TypeAlias = dict[str, Tensor]


def outputs_of(result: Any) -> Tensor:
    """Logits of a module: what it returns, or their place in an output of transformers."""
    logits: Tensor = getattr(result, "logits", result)
    return logits


def inner_products(games: Parameters, other: Parameters) -> Tensor:
    """Inner products over all parameters, (n,), with those of n games or with the same for all."""
    total = torch.zeros((), device=next(iter(games.values())).device)
    for name, values in games.items():
        same = other[name].ndim < values.ndim
        second = other[name].reshape(-1) if same else other[name].reshape(len(values), -1)
        total = total + torch.linalg.vecdot(values.reshape(len(values), -1), second)
    return total


def scaled(games: Parameters, factor: Tensor) -> Parameters:
    """Return the parameters of each game times its factor (n,)."""
    return {k: factor.to(v).view(-1, *[1] * (v.ndim - 1)) * v for k, v in games.items()}


def shifted(parameters: Parameters, direction: Parameters, factor: float) -> Parameters:
    """``parameters + factor * direction``; either may be the same for all games."""
    return {k: torch.add(parameters[k], v, alpha=factor) for k, v in direction.items()}


def standard_noise(like: Parameters, generator: torch.Generator) -> Parameters:
    """Independent standard normal numbers of the same shapes."""
    return {
        k: torch.randn(v.shape, generator=generator, dtype=v.dtype, device=v.device)
        for k, v in like.items()
    }


@contextmanager
def plain_attention() -> Iterator[None]:
    """Compute attention by plain products, which are differentiated and mapped in every way."""
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):
        # torch compiles its own rules for forward derivatives when they are first used.
        warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
        yield
