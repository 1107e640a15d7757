"""From what a user calls a module to its gradients."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skleak.neural.gradients import Clipping
from skleak.neural.torch._autograd import Batch, linear_weights
from skleak.neural.torch._blank import Blank
from skleak.neural.torch._checks import (
    check_derivatives,
    check_differentiable,
    check_gradients,
    check_outputs,
    check_parts,
)
from skleak.neural.torch._explained import explained
from skleak.neural.torch._gradients import TorchGradients
from skleak.neural.torch._objective import Loss, Objective


def build_module(factory: Callable[[], Any], rng: np.random.Generator) -> Any:
    """Build a module whose initial parameters follow from ``rng`` alone.

    The generators of torch are as before when it returns. What a factory hands out more than once
    is copied: fits do not share parameters.

    Raises
    ------
    TypeError
        Where ``factory`` is a module itself, or returns none.
    """
    if isinstance(factory, torch.nn.Module) or not callable(factory):
        raise TypeError(
            "`module` must be a function or a class that takes no arguments and returns a new "
            f"torch.nn.Module; got {type(factory).__name__}. Pass `lambda: ...`, or a function at "
            "the top of a module if the estimator is to be pickled."
        )
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(rng.integers(1 << 63)))
        with explained("`module` cannot be called without arguments"):
            module = factory()
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"`module` must return a torch.nn.Module; got {type(module).__name__}. Return the "
            "network, not its outputs or its class."
        )
    with explained("`module` returns a network that cannot be copied"):
        return copy.deepcopy(module)


def torch_gradients(
    factory: Callable[[], Any],
    clipping: Clipping,
    *,
    record_shape: tuple[int, ...],
    n_classes: int | None,
    rng: np.random.Generator,
    loss: Loss | None = None,
    max_batch: int | None = None,
    device: str = "auto",
    differentiable: bool = True,
) -> TorchGradients:
    """Build a module, look at what it does to made-up records, and return its gradients.

    Parameters
    ----------
    factory : callable
        Takes nothing and returns a new ``torch.nn.Module``.
    clipping : Clipping
        How gradients are clipped.
    record_shape : tuple of int
        Shape of one record.
    n_classes : int or None
        Number of classes; None for a regression.
    rng : Generator
        Where the initial parameters come from.
    loss : callable or None, default=None
        ``loss(outputs, targets)``, as the functions of ``torch.nn.functional``; None is
        cross-entropy, or half the squared error.
    max_batch : int or None, default=None
        Most gradients in memory at once.
    device : str, default="auto"
        Of torch; "auto" is a GPU where torch finds one.
    differentiable : bool, default=True
        Whether what records reveal will be asked, which needs second derivatives.

    Raises
    ------
    TypeError, ValueError
        For a module that is none, or whose gradients are not those of single records.

    Warns
    -----
    PrivacyLeakWarning
        Where its gradients jump, so that Fisher information is too small.
    """
    if loss is not None and not callable(loss):
        raise TypeError(
            "`loss` must be None or a function of outputs and targets; got "
            f"{type(loss).__name__}. Pass one such as torch.nn.functional.cross_entropy."
        )
    module = build_module(factory, rng)
    check_parts(module)
    blank = Blank(module)  # before it runs at all
    place = _device(device)
    module = module.to(place).train()
    dtype = next(module.parameters()).dtype
    made_up = torch.rand(3, *record_shape, generator=torch.Generator().manual_seed(0))
    made_up = made_up.to(device=place, dtype=dtype)
    widths = (n_classes or 1, 1) if n_classes in (None, 2) else (n_classes,)
    objective = Objective.of(n_classes, check_outputs(module, made_up, widths), loss)
    blank.check_parameters(dict(module.named_parameters()))
    check_gradients(module, objective, made_up)
    smooth = differentiable and check_differentiable(module, objective, made_up)
    trained = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    linear = linear_weights(module, trained, made_up)
    gradients = TorchGradients(
        module,
        objective,
        clipping,
        blank=blank,
        made_up=made_up,
        max_batch=max_batch,
        device=place,
        linear=linear,
    )
    batch = Batch(made_up, gradients.encode(np.zeros(len(made_up))))
    with explained("torch cannot take the gradient of `module` record by record"):
        gradients.per_record(batch)
    if smooth:
        check_derivatives(gradients.per_record, batch)
    return gradients


def _device(name: str) -> Any:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with explained(f"`device` must be 'auto' or a device of torch; got {name!r}"):
        return torch.zeros((), device=name).device
