"""What a module must be for its gradients to be those of single records, and to have derivatives.

All is found out on made-up records: no check reads data.
"""

import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from skleak.exceptions import PrivacyLeakWarning
from skleak.neural.torch._autograd import Batch, PerRecord
from skleak.neural.torch._explained import explained
from skleak.neural.torch._rows import Rows, squared_changes
from skleak.utils._warnings import outer_stacklevel

# Where a derivative of gradients is missing.
UNKNOWN = "torch cannot differentiate the gradients of `module` in its records"
ADVICE = "Use other layers, or `accounting=None`."

_RANDOM = (torch.nn.modules.dropout._DropoutNd, torch.nn.RReLU)
# Their value or their first derivative jumps.
_BROKEN_ELU = "elu with alpha other than 1"
_NONSMOOTH = {_BROKEN_ELU, "abs", "embedding", "sgn", "sign"}
_NONSMOOTH |= {
    "amax",
    "amin",
    "argmax",
    "argmin",
    "fmax",
    "fmin",
    "max",
    "maximum",
    "min",
    "minimum",
}
_NONSMOOTH |= {"clamp", "clamp_max", "clamp_min", "ceil", "floor", "remainder", "round", "trunc"}
_NONSMOOTH |= {"bucketize", "kthvalue", "median", "mode", "sort", "topk"}
_NONSMOOTH |= {"hardshrink", "hardsigmoid", "hardswish", "hardtanh", "softshrink", "threshold"}
_NONSMOOTH |= {"leaky_relu", "multi_margin_loss", "_prelu_kernel", "relu", "rrelu_with_noise"}
_NONSMOOTH |= {f"{kind}_max_pool{k}d" for kind in ("adaptive", "fractional") for k in (2, 3)}
_NONSMOOTH |= {f"max_pool{k}d_with_indices" for k in (2, 3)}
_DRAWS = {"bernoulli", "dropout", "native_dropout", "normal", "rand", "randint", "randn", "uniform"}


class _Watch(TorchDispatchMode):
    """Names of the operations that torch carries out."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__.removesuffix("_")
        if name == "elu" and len(args) > 1 and float(args[1]) != 1.0:
            name = _BROKEN_ELU  # other slopes on both sides of zero
        if not isinstance(args[0] if args else None, torch.Tensor) or args[0].is_floating_point():
            self.names.add(name)
        return func(*args, **(kwargs or {}))


def check_parts(module: Any) -> None:
    """Refuse modules without parameters to train, of mixed precision, and parts that mix records.

    Raises
    ------
    ValueError
        What is wrong and what to use in its place.
    """
    trained = [p for p in module.parameters() if p.requires_grad]
    if not sum(parameter.numel() for parameter in trained):
        raise ValueError(
            "`module` has no parameters that require a gradient: there is nothing to train. Let "
            "at least one have `requires_grad=True`."
        )
    kinds = sorted({str(parameter.dtype) for parameter in module.parameters()})
    if kinds not in (["torch.float32"], ["torch.float64"]):
        raise ValueError(
            "The parameters of `module` must be float32 or float64, all the same; got "
            f"{', '.join(kinds)}. Call its `float()` or `double()`."
        )
    for name, part in module.named_modules():
        named = f"`{name or 'module'}` ({type(part).__name__})"
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                f"{named} normalises over a batch: the output of a record then depends on others, "
                "and no clipping bounds what one reveals. Use GroupNorm or LayerNorm."
            )
        if getattr(part, "track_running_stats", False):
            raise ValueError(
                f"{named} keeps running statistics, which no noise protects. Pass "
                "`track_running_stats=False`."
            )
        if isinstance(part, _RANDOM) and getattr(part, "p", 1.0) != 0.0:
            raise ValueError(_random_error(named))


def _random_error(what: str) -> str:
    return (
        f"{what} draws random numbers: what a record reveals is known only if its gradient is a "
        "function of the record and of the parameters. Leave it out, or set its rate to 0; the "
        "noise of the training regularises already."
    )


def check_outputs(module: Any, X: Any, widths: tuple[int, ...]) -> int:
    """Run a module on made-up records (n, ...), and return the number of its outputs.

    Raises
    ------
    ValueError
        For outputs of another shape or kind, randomness, state that changes, or records that mix.
    """
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    held = _held(module)
    shape = tuple(X.shape)
    with torch.no_grad(), explained(f"`module` fails on records of shape {shape}"), _Watch() as ran:
        outputs = module(X)
    if not isinstance(outputs, torch.Tensor) or not outputs.is_floating_point():
        got = getattr(outputs, "dtype", type(outputs).__name__)
        raise ValueError(f"`module` must return one tensor of real numbers; got {got}.")
    width = 1 if outputs.dim() == 1 else outputs.shape[-1]
    if outputs.shape not in ((len(X), width), (len(X),)) or width not in widths:
        wanted = " or ".join(f"({len(X)}, {width})" for width in widths)
        raise ValueError(
            f"`module` must return {wanted} for records of shape {shape}; got "
            f"{tuple(outputs.shape)}. Change its last layer."
        )
    for name, buffer in module.named_buffers():
        if name not in before or not torch.equal(buffer, before[name]):
            raise ValueError(
                f"`module` changes its buffer `{name}` as it runs: what it keeps of the records "
                "is not protected by noise. Leave it out."
            )
    if changed := sorted({key for key, value in _held(module) ^ held}):
        raise ValueError(
            f"`module` keeps something in `{changed[0]}` as it runs, which may be what a record "
            "is, and leaves with the module. Leave it out."
        )
    with torch.no_grad():
        again, alone = module(X), module(X[:1])
    if ran.names & _DRAWS or not torch.equal(again.nan_to_num(), outputs.nan_to_num()):
        raise ValueError(_random_error("`module`"))
    if not torch.allclose(alone[0], outputs[0], rtol=1e-3, atol=1e-5, equal_nan=True):
        raise ValueError(
            "`module` gives another output for a record alone than for the same among others: the "
            "gradient of a record would hold others, and clipping would not bound what one reveals."
        )
    return int(width)


def _held(module: Any) -> set[tuple[str, int]]:
    """Names of all attributes of a module and its parts, and which objects they are."""
    own = ("_parameters", "_buffers", "_modules")
    return {
        (f"{name}.{key}".lstrip("."), id(value))
        for name, part in module.named_modules()
        for key, value in vars(part).items()
        if key not in own
    }


def check_gradients(module: Any, objective: Any, X: Any) -> None:
    """Refuse parameters that the loss does not depend on.

    Raises
    ------
    ValueError
        With their names, or what torch says.
    """
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    with torch.enable_grad(), explained("The loss of `module` has no gradient"):
        losses = _losses(module, objective, X)
        # Without a graph at all this raises, and says so.
        found = torch.autograd.grad(losses.sum(), list(named.values()), allow_unused=True)
    if idle := [name for name, g in zip(named, found, strict=True) if g is None]:
        listed = ", ".join(f"`{name}`" for name in idle[:5])
        raise ValueError(
            f"The loss does not depend on the parameters {listed} of `module`: they would be noise "
            "alone. Leave them out, or set their `requires_grad=False`."
        )


def check_differentiable(module: Any, objective: Any, X: Any) -> bool:
    """Refuse modules that cut the record off, and warn where a derivative jumps.

    Returns whether none does.

    Raises
    ------
    ValueError
        Where the loss has no derivative in the record.
    """
    X = X.clone().requires_grad_()
    with torch.enable_grad(), _Watch() as ran:
        (found,) = torch.autograd.grad(
            _losses(module, objective, X).sum(), X, allow_unused=True, materialize_grads=False
        )
    if found is None:
        raise ValueError(
            "The loss has no derivative in the record: `module` cuts it off, for example by "
            "rounding to integers. Fisher information is about records of real numbers; pass "
            "embedded ones, or `accounting=None`."
        )
    if rough := sorted(ran.names & _NONSMOOTH):
        warnings.warn(
            f"`module` or its loss uses {', '.join(rough)}: gradients then jump from one record to "
            "the next, which Fisher information does not see, and leakage is stated too small. Use "
            "smooth layers, such as Tanh, Softplus, GELU and AvgPool2d, as [DRA22] does.",
            PrivacyLeakWarning,
            stacklevel=outer_stacklevel(),
        )
    return not rough


def check_derivatives(gradients: PerRecord, batch: Batch) -> None:
    """Compare the derivatives of the gradients of made-up records with their differences.

    Rules of torch for second derivatives have been wrong before, without a word.

    Raises
    ------
    ValueError
        Where both differ, or where torch has no rule.
    """
    try:
        wide = gradients.wider()
        exact = Batch(*(values.double() for values in batch))
        wide(exact)
    except (RuntimeError, TypeError):  # what a module holds apart is in its own precision
        wide, exact = gradients, batch
    whole = wide.whole()
    step, tolerance = (1e-5, 1e-4) if exact.X.dtype == torch.float64 else (1e-2, 0.1)
    generator = torch.Generator().manual_seed(1)
    moves = [torch.randn(v.shape, generator=generator).to(v) for v in exact]
    with explained(UNKNOWN, ADVICE):
        g, _, found = whole.pushed(exact, moves[0][None], moves[1][None])
        short, _, changes = wide.pushed(exact, moves[0][None], moves[1][None])
        pulled = whole.pulled(exact, found)
    ahead, behind = (
        whole(Batch(*(v + k * step * z for v, z in zip(exact, moves, strict=True))))[0].dense
        for k in (1, -1)
    )
    slopes = {name: (ahead[name] - behind[name])[None] / (2.0 * step) for name in ahead}
    gap = {name: found.dense[name] - slopes[name] for name in slopes}
    size = squared_changes(found, g)
    true = squared_changes(Rows(slopes, {}, {}), g).sqrt()
    back = sum((p * z).flatten(2).sum(2) for p, z in zip(pulled, moves, strict=True))
    others = [back - size, squared_changes(changes, short) - size]
    off = squared_changes(Rows(gap, {}, {}), g).sqrt() * true + sum(map(torch.abs, others))
    if bool((off > tolerance * true.square()).any()):
        raise ValueError(
            "torch differentiates the gradients of `module` wrongly: they change by something else "
            "than their derivatives say. Write the layer that does it out in sums and products, "
            "report it to torch, or pass `accounting=None`."
        )


def _losses(module: Any, objective: Any, X: Any) -> Any:
    """Losses of made-up records, (n,)."""
    width = objective.encode([0]).shape[1]
    target = torch.zeros(width, dtype=X.dtype, device=X.device)
    target[0] = 1.0
    return torch.stack([objective.of_record(module(x[None]).reshape(-1), target) for x in X])
