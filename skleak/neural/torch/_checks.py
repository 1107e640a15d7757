"""Check networks.

What a module must be for its gradients to be those of single records, and to have derivatives.

All is found out on made-up records: no check reads data.

A module as it was before it saw a record: what a training publishes, once its parameters are in.

A module keeps what it likes as it runs: in a dictionary, in a buffer, in the object that a hook
calls. So nothing of the module that was trained is published. A copy is set aside as the factory
made it, without hooks, and takes over the trained parameters alone.
"""

import copy
import hashlib
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import cloudpickle
import torch
from torch.func import vjp
from torch.utils._python_dispatch import TorchDispatchMode

from skleak.exceptions import PrivacyLeakWarning
from skleak.neural.torch._parts import Batch, PerRecord, Rows, squared_changes
from skleak.utils._confidential import global_names
from skleak.utils._sklearn_compat import outer_stacklevel


@contextmanager
def explained(failure: str, advice: str = "") -> Iterator[None]:
    """Turn errors of torch into a ValueError that starts with ``failure``; not those of memory."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError, TypeError, AttributeError, AssertionError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"{failure}: {said[0]} {advice}".rstrip()) from error


# Where a derivative of gradients is missing.
UNKNOWN = "torch cannot differentiate the gradients of `module` in its records"
ADVICE = "Use other layers, or `accounting=None`."
_RANDOM = (torch.nn.modules.dropout._DropoutNd, torch.nn.RReLU)
# Their value or their first derivative jumps.
_BROKEN_ELU = "elu with alpha other than 1"
_NONSMOOTH = {_BROKEN_ELU, "abs", "amax", "amin", "argmax", "argmin", "bucketize", "ceil", "clamp"}
_NONSMOOTH |= {"clamp_max", "clamp_min", "embedding", "floor", "fmax", "fmin", "hardshrink"}
_NONSMOOTH |= {"hardsigmoid", "hardswish", "hardtanh", "kthvalue", "leaky_relu", "max", "maximum"}
_NONSMOOTH |= {"median", "min", "minimum", "mode", "multi_margin_loss", "_prelu_kernel", "relu"}
_NONSMOOTH |= {"remainder", "round", "rrelu_with_noise", "sgn", "sign", "softshrink", "sort"}
_NONSMOOTH |= {"threshold", "topk", "trunc"}
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
                f"{named} normalizes over a batch: the output of a record then depends on others, "
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
        "noise of the training regularizes already."
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


def check_gradients(module: Any, objective: Any, X: Any, *, differentiable: bool) -> bool:
    """Refuse parameters that the loss does not depend on, and modules that cut the record off.

    Warns where a derivative in the record jumps, if any is wanted; returns whether none does.

    Raises
    ------
    ValueError
        What there is no derivative in, or what torch says.
    """
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    X = X.clone().requires_grad_(differentiable)
    inputs = [*named.values(), *[X] * differentiable]
    with torch.enable_grad(), explained("The loss of `module` has no gradient"), _Watch() as ran:
        losses = _losses(module, objective, X)
        # Without a graph at all this raises, and says so.
        found = torch.autograd.grad(losses.sum(), inputs, allow_unused=True)
    if idle := [name for name, g in zip(named, found, strict=False) if g is None]:
        listed = ", ".join(f"`{name}`" for name in idle[:5])
        raise ValueError(
            f"The loss does not depend on the parameters {listed} of `module`: they would be noise "
            "alone. Leave them out, or set their `requires_grad=False`."
        )
    if found[-1] is None:
        raise ValueError(
            "The loss has no derivative in the record: `module` cuts it off, for example by "
            "rounding to integers. Fisher information is about records of real numbers; pass "
            "embedded ones, or `accounting=None`."
        )
    if not differentiable:
        return False
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
        found = whole.pushed(exact, moves[0][None], moves[1][None])[2]
        found = torch.cat([g[0].flatten(1) for g in found.dense.values()], 1)
        short, _, changes = wide.pushed(exact, moves[0][None], moves[1][None])
        pulled = [
            sum((part * dz).sum() for part, dz in zip(vjp(whole.flat, *z)[1](dg), dz, strict=True))
            for *z, dg, dz in zip(*exact, found, zip(*moves, strict=True), strict=True)
        ]
    ahead, behind = (
        _flat(whole(Batch(*(v + k * step * z for v, z in zip(exact, moves, strict=True))))[0])
        for k in (1, -1)
    )
    slopes = (ahead - behind) / (2.0 * step)
    size, true = found.square().sum(1), torch.linalg.vector_norm(slopes, dim=1)
    off = torch.linalg.vector_norm(found - slopes, dim=1) * true
    off += (torch.stack(pulled) - size).abs() + (squared_changes(changes, short)[0] - size).abs()
    if bool((off > tolerance * true.square()).any()):
        raise ValueError(
            "torch differentiates the gradients of `module` wrongly: they change by something else "
            "than their derivatives say. Write the layer that does it out in sums and products, "
            "report it to torch, or pass `accounting=None`."
        )


def _flat(rows: Rows) -> Any:
    """Gradients of records that are written out, (n, p)."""
    return torch.cat([g.flatten(1) for g in rows.dense.values()], 1)


def _losses(module: Any, objective: Any, X: Any) -> Any:
    """Losses of made-up records, (n,)."""
    width = objective.encode([0]).shape[1]
    target = torch.zeros(width, dtype=X.dtype, device=X.device)
    target[0] = 1.0
    return torch.stack([objective.of_record(module(x[None]).reshape(-1), target) for x in X])


# Of these types themselves: an object of a subclass may hold anything.
_PLAIN = {bool, int, float, complex, str, bytes, type(None), types.EllipsisType, range}
# Their functions and classes are imported by name; what they hold is no module's.
_LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "skleak"} - {"__main__"}
# What Python itself keeps on classes.
_OF_PYTHON = {"__dict__", "__weakref__", "__slotnames__", "_abc_impl"}
# A class that is made in Python, and holds what is put in it.
_HEAP_TYPE = 1 << 9
# What changed while modules ran, by number: kept, so that no other object gets that.
_changed: dict[int, Any] = {}
_latest: "list[Blank]" = []


class _Parts(cloudpickle.Pickler):
    """Digest of what an object holds by itself, and the objects that it holds, by name.

    More than any pickle holds: classes and functions of all but libraries are taken apart. Nothing
    is read back.
    """

    def __init__(self, whole: Any) -> None:
        self.found: dict[str, Any] = {}
        self._whole, self._state, self._name = whole, whole, ""
        digest = hashlib.blake2b(digest_size=16)
        super().__init__(types.SimpleNamespace(write=digest.update))
        self.dump(whole)
        self.digest = digest.digest()

    def persistent_id(self, obj: Any) -> str | None:
        """Leave out what the object holds, and name it by the text before it, such as its key."""
        if obj is self._whole or obj is self._state or type(obj) in _PLAIN:
            self._name = obj if type(obj) is str else self._name
            return None
        if obj is str or _held_by(obj) is None:
            return None
        name = f".{self._name}"
        name += f"[{len(self.found)}]" if name in self.found else ""
        self.found[name] = obj
        return name

    def reducer_override(self, obj: Any) -> Any:
        """Say what an object holds; of what a pickle names only, its name."""
        if obj is str:  # as which all is written
            return NotImplemented
        held = _held_by(obj)
        if held is NotImplemented:
            reduce = self.dispatch_table.get(type(obj))
            try:
                held = obj.__reduce_ex__(4) if reduce is None else reduce(obj)
            except Exception:  # whatever a class says to whoever would pickle it
                held = getattr(obj, "__dict__", {})
        if held is None or isinstance(held, str):
            name = getattr(obj, "__qualname__", getattr(obj, "__name__", held))
            return str, (f"{type(obj)} {getattr(obj, '__module__', '')} {name}",)
        reduced = held if isinstance(held, tuple) else (str, (f"{type(obj)}",), held)
        self._state = reduced[2] if len(reduced) > 2 else None
        return reduced


def _held_by(obj: Any) -> Any:
    """Return what an object holds; None for what is imported, NotImplemented for its pickle."""
    if isinstance(obj, torch.Tensor):
        return {"stored": _stored(obj), "type": type(obj), **vars(obj)}
    if isinstance(obj, types.ModuleType):
        return None if sys.modules.get(obj.__name__) is obj else vars(obj)
    if isinstance(obj, types.BuiltinFunctionType):
        bound = obj.__self__
        return None if bound is None or isinstance(bound, types.ModuleType) else {" of": bound}
    if isinstance(obj, types.FunctionType):
        return _held_by_function(obj)
    if isinstance(obj, type):
        if _is_of_library(obj) or not obj.__flags__ & _HEAP_TYPE:
            return None
        own = {name: value for name, value in vars(obj).items() if name not in _OF_PYTHON}
        return own | {" bases": obj.__bases__, " type": type(obj)}
    return NotImplemented


def _held_by_function(function: Any) -> Any:
    """Return the variables of a function that cannot be imported, which travel with it."""
    if _is_imported(function):
        return None
    # A decorator may give a function the name of another one: only its globals tell whose it is.
    names = set()
    if not _names_library(function.__globals__.get("__name__")):
        names = global_names(function.__code__) & function.__globals__.keys()
    return {
        " code": function.__code__,
        " defaults": (function.__defaults__, function.__kwdefaults__),
        " closure": function.__closure__,
        " attributes": vars(function),
        " words": (function.__annotations__, function.__doc__),
        **{f" global {name}": function.__globals__[name] for name in sorted(names)},
    }


def _stored(tensor: Any) -> Any:
    """Return the content of a tensor: of a view its pickle holds all that it is a view of."""
    try:
        own = tensor.detach().cpu()
        if own.layout is not torch.strided:
            own = own.to_dense()
        whole = torch.empty(0, dtype=torch.uint8).set_(own.untyped_storage())
        form = (own.dtype, own.shape, own.stride(), own.storage_offset(), own.is_conj())
        return repr(form), hashlib.blake2b(whole.numpy()).digest()
    except (RuntimeError, TypeError, NotImplementedError):  # it left a transform of torch
        return repr(tensor)


def _reached(
    value: Any, path: str, seen: dict[int, Any], holder: Any = None
) -> Iterator[tuple[str, bytes, Any, Any]]:
    """Yield what an object is made of, each once: what its copy, or its pickle, would carry.

    With its path, the digest of what it holds by itself, and the object that holds it.
    """
    if id(value) in seen:
        return
    seen[id(value)] = value  # kept, so that no other object gets its number
    parts = _Parts(value)
    yield path, parts.digest, value, holder
    for name, part in parts.found.items():
        yield from _reached(part, f"{path}{name}", seen, value)


class Blank:
    """A module as its factory made it, before any record.

    Parameters
    ----------
    module : torch.nn.Module
        Which no record has gone through. It is copied.
    """

    def __init__(self, module: Any) -> None:
        # A copy of a view would take along all of the storage that it is a view of.
        with explained("`module` returns a network that cannot be copied"):
            found = (value for _, _, value, _ in _reached(module, "module", {}))
            own = {id(t): t.detach().clone() for t in found if type(t) is torch.Tensor}
            self._module = without_hooks(copy.deepcopy(module, own)).cpu()
        self._watch()

    def _watch(self) -> None:
        now = list(_reached(self._module, "module", {}))
        self._digests = {path: digest for path, digest, _, _ in now}
        self._stale = next((path for path, _, value, _ in now if id(value) in _changed), "")

    def __getstate__(self) -> dict[str, Any]:
        return {"_module": self.filled({})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._watch()

    @property
    def module(self) -> Any:
        """A copy of the module, for use within this process."""
        return copy.deepcopy(self._module)

    def check_parameters(self, named: Mapping[str, Any]) -> None:
        """Refuse parameters that the module did not have before it ran.

        Raises
        ------
        ValueError
            With their names.
        """
        own = dict(self._module.named_parameters())
        made = [n for n, p in named.items() if n not in own or own[n].shape != p.shape]
        if made:
            raise ValueError(
                f"`module` makes its parameters `{made[0]}` as it runs: a release is built of what "
                "the factory returns. Make all parameters when the module is built."
            )

    def filled(self, trained: Mapping[str, Any]) -> Any:
        """Copy the module, on the CPU and for evaluation, with trained parameters put in.

        Raises
        ------
        ValueError
            Where what was set aside has changed: it is shared with the module that was trained.
        """
        if changed := self.changed() or self._stale:
            raise ValueError(
                f"`module` shares `{changed}` with every other module that its factory makes, and "
                "it changed since the training began, or in an earlier one: it may hold records. "
                "Keep nothing in classes, in variables outside the module, or in objects that "
                "cannot be copied; and make these anew before the next `fit`."
            )
        module = copy.deepcopy(self._module).eval()
        own = dict(module.named_parameters())
        with torch.no_grad():
            for name, values in trained.items():
                own[name].copy_(values)
        for parameter in module.parameters():
            parameter.grad = None
        return module

    def changed(self) -> str:
        """Return the path of what others changed in it, and remember that; empty for nothing."""
        before, now = self._digests, list(_reached(self._module, "module", {}))
        other = [one for one in now if before.get(one[0]) != one[1]]
        for _, _, value, holder in other:
            _changed.update((id(each), each) for each in (value, holder) if each is not None)
        here = {path for path, *_ in now}
        paths = [*(path for path, *_ in other), *(path for path in before if path not in here)]
        if not paths:
            return ""
        # New names may be values of records; old ones are none.
        return max((path for path in before if paths[0].startswith(path)), key=len)


def before_any_record(module: Any) -> Blank:
    """Set a module aside that was just made, and watch what it shares until the next one is."""
    blank = Blank(module)
    _latest[:] = [blank]
    return blank


def note_changes() -> None:
    """Look at what the module that was made last shares, before a factory makes another one.

    What one training left in a closure is there when the next module is made, and would count as
    made before any record.
    """
    for blank in _latest:
        blank.changed()
    _latest.clear()


def without_hooks(module: Any) -> Any:
    """Take off the hooks of a module, of its parts and of its tensors."""
    for part in module.modules():
        for name, held in vars(part).items():
            if "_hooks" in name and isinstance(held, dict):
                held.clear()
        for tensor in (*part.parameters(recurse=False), *part.buffers(recurse=False)):
            tensor._backward_hooks = None
    return module


def _is_of_library(value: Any) -> bool:
    return _names_library(getattr(value, "__module__", "")) and _is_imported(value)


def _names_library(module: Any) -> bool:
    return str(module).partition(".")[0] in _LIBRARIES


def _is_imported(value: Any) -> bool:
    """Return True for what a pickle names, and does not hold."""
    found: Any = sys.modules.get(value.__module__ or "")
    if value.__module__ == "__main__":
        return False
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value
