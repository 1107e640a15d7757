"""The language model that is attacked: a small one of our own, or the user's."""

import copy
from typing import Any

from skleak.utils._arguments import check_real
from skleak.utils._optional import import_optional


def load_torch() -> Any:
    """Return the module torch, or say what to install."""
    return import_optional("torch", "torch", "Extracting a canary from a language model")


def causal_transformer(
    n_tokens: int,
    *,
    width: int = 32,
    n_layers: int = 2,
    n_heads: int = 2,
    max_length: int = 64,
) -> Any:
    """Build a small causal language model of the shape of GPT-2.

    Learned positions, blocks of attention and of two layers with GELU, each after a layer norm and
    beside what it adds to, and an output layer that shares its weights with the token embeddings.

    Parameters
    ----------
    n_tokens : int
        Size of the vocabulary, at least 2.
    width : int, default=32
        Entries of a hidden state, a multiple of `n_heads`.
    n_layers : int, default=2
        Number of blocks.
    n_heads : int, default=2
        Heads of attention in a block.
    max_length : int, default=64
        Most tokens that it reads.

    Returns
    -------
    torch.nn.Module
        Maps token ids (n, length) to logits (n, length, n_tokens), not trained yet.

    Raises
    ------
    ImportError
        Where torch is not installed.
    ValueError
        For sizes that are not positive, or a width that heads cannot share.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> causal_transformer(100)(torch.tensor([[3, 1, 4]])).shape
    torch.Size([1, 3, 100])
    """
    load_torch()
    sizes = {"n_tokens": n_tokens, "width": width, "n_layers": n_layers, "n_heads": n_heads}
    for name, size in (sizes | {"max_length": max_length}).items():
        check_real(name, size, low=2.0 if name == "n_tokens" else 1.0)
    if width % n_heads:
        raise ValueError(f"`width` must be a multiple of `n_heads`; got {width} and {n_heads}.")
    from skleak.neural.canary.torch import CausalTransformer

    return CausalTransformer(n_tokens, width, n_layers, n_heads, max_length)


def build_module(module: Any, n_tokens: int, length: int, seed: int) -> Any:
    """Build or copy the model; what it draws does not touch the global state of torch."""
    torch = load_torch()
    if isinstance(module, torch.nn.Module):
        return copy.deepcopy(module)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if module is None:
            return causal_transformer(n_tokens, max_length=max(length, 64))
        built = module()
    if not isinstance(built, torch.nn.Module):
        raise TypeError(
            "`module` must be a torch.nn.Module, or a callable that builds one; it returned "
            f"{type(built).__name__}."
        )
    return built
