"""A module as it was before it saw a record: what a training publishes, once its parameters are in.

A module keeps what it likes as it runs: in a dictionary, in a buffer, in the object that a hook
calls. So nothing of the module that was trained is published. A copy is set aside as the factory
made it, without hooks, and takes over the trained parameters alone.
"""

import copy
import hashlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from skleak.neural.torch._explained import explained
from skleak.utils._confidential import global_names

_PLAIN = (bool, int, float, complex, str, bytes, type(None), types.EllipsisType, range, slice)
# Their functions and classes are imported by name; what they hold is no module's.
_LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "skleak"} - {"__main__"}
# What Python itself keeps on classes.
_OF_PYTHON = {"__dict__", "__weakref__", "__doc__", "__annotations__", "_abc_impl"}


class Blank:
    """A module as its factory made it, before any record.

    Parameters
    ----------
    module : torch.nn.Module
        Which no record has gone through. It is copied.
    """

    def __init__(self, module: Any) -> None:
        # A copy of a view would take along all of the storage that it is a view of.
        own = {id(t): t.detach().clone() for t in _tensors(module) if type(t) is torch.Tensor}
        with explained("`module` returns a network that cannot be copied"):
            self._module = without_hooks(copy.deepcopy(module, own)).cpu()
        self._contents = dict(_contents(self._module))

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
        now = dict(_contents(self._module))
        before = self._contents
        changed = [path for path in {**before, **now} if now.get(path) != before.get(path)]
        if changed:
            # New names may be values of records; old ones are none.
            known = max((path for path in before if changed[0].startswith(path)), key=len)
            raise ValueError(
                f"`module` shares `{known}` with every other module that its factory makes, "
                "and it changed since the training began: it may hold records. Keep nothing in "
                "classes, in variables outside the module, or in objects that cannot be copied."
            )
        module = copy.deepcopy(self._module).eval()
        own = dict(module.named_parameters())
        with torch.no_grad():
            for name, values in trained.items():
                own[name].copy_(values)
        for parameter in module.parameters():
            parameter.grad = None
        return module


def without_hooks(module: Any) -> Any:
    """Take off the hooks of a module, of its parts and of its tensors."""
    for part in module.modules():
        for name, held in vars(part).items():
            if "_hooks" in name and isinstance(held, dict):
                held.clear()
        for tensor in (*part.parameters(recurse=False), *part.buffers(recurse=False)):
            tensor._backward_hooks = None
    return module


def _tensors(module: Any) -> list[Any]:
    return [value for _, value in _reached(module, "module", {}) if isinstance(value, torch.Tensor)]


def _contents(module: Any) -> Iterator[tuple[str, str]]:
    """Yield the path and the fingerprint of all that a module holds or reaches."""
    for path, value in _reached(module, "module", {}):
        yield path, hashlib.blake2b(_bytes(value), digest_size=16).hexdigest()


def _reached(value: Any, path: str, seen: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what an object is made of, each once: what its copy, or its pickle, would carry."""
    if isinstance(value, _PLAIN):
        yield path, value
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # kept, so that no other object gets its number
    yield path, value
    for key, part in _parts(value):
        yield from _reached(part, f"{path}{key}", seen)


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Return what an object directly holds, by name."""
    if isinstance(value, torch.Tensor):
        return [(f".{name}", held) for name, held in vars(value).items()]
    if isinstance(value, dict):
        keys = [key if isinstance(key, _PLAIN) else k for k, key in enumerate(value)]
        held = [(f"[{key!r}]", held) for key, held in zip(keys, value.values(), strict=True)]
        return [*held, (" keys", list(value))]
    if isinstance(value, list | tuple):
        return [(f"[{place}]", held) for place, held in enumerate(value)]
    if isinstance(value, np.ndarray):
        return list(_parts(value.tolist())) if value.dtype == object else []
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType | types.CodeType):
        return []
    if isinstance(value, types.FunctionType):
        return _parts_of_function(value)
    if isinstance(value, type):
        return _parts_of_class(value)
    if isinstance(value, types.MethodType | staticmethod | classmethod):
        return [(".__func__", value.__func__), (".__self__", getattr(value, "__self__", None))]
    if isinstance(value, property):
        return [(".fget", value.fget), (".fset", value.fset)]
    own: list[tuple[str, Any]] = [(f" ({type(value).__name__})", type(value))]
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # whatever a class says to whoever would pickle it
        return own + [(f".{name}", held) for name, held in getattr(value, "__dict__", {}).items()]
    if isinstance(reduced, str):
        return own
    state = reduced[2] if len(reduced) > 2 else None
    rest = [list(part) for part in reduced[3:5] if part is not None]
    if isinstance(state, dict):
        own += [(f".{name}", held) for name, held in state.items()]
    else:
        own += [(".state", state)]
    return [*own, (".made_of", reduced[1]), (".items", rest)]


def _parts_of_function(function: Any) -> list[tuple[str, Any]]:
    """Return the variables of a function that cannot be imported, which travel with it."""
    if _is_of_library(function) or _is_imported(function):
        return []
    held: list[tuple[str, Any]] = [
        (" defaults", (function.__defaults__, function.__kwdefaults__)),
        (" attributes", vars(function)),
    ]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held.append((f" -> {name}", cell.cell_contents))
        except ValueError:  # not yet set
            continue
    names = global_names(function.__code__) & function.__globals__.keys()
    return held + [(f" -> {name}", function.__globals__[name]) for name in sorted(names)]


def _parts_of_class(cls: type) -> list[tuple[str, Any]]:
    own = [] if _is_of_library(cls) else list(vars(cls).items())
    held = [(f".{name}", value) for name, value in own if name not in _OF_PYTHON]
    return held + [(f" ({base.__name__})", base) for base in cls.__bases__]


def _is_of_library(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] in _LIBRARIES


def _is_imported(value: Any) -> bool:
    """Return True for what a pickle names, and does not hold."""
    found: Any = sys.modules.get(value.__module__ or "")
    if value.__module__ == "__main__":
        return False
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _bytes(value: Any) -> bytes:
    """Return what tells the content of an object by itself, without what it holds."""
    kind = type(value).__qualname__.encode()
    if isinstance(value, _PLAIN):
        return kind + repr(value).encode()
    if isinstance(value, torch.Tensor):
        try:
            plain = value.detach().cpu().contiguous().flatten()
            return kind + repr(value.dtype).encode() + plain.view(torch.uint8).numpy().tobytes()
        except (RuntimeError, TypeError):  # without strides; or it left a transform of torch
            return kind + repr(value).encode()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return kind + repr((value.dtype, value.shape)).encode() + value.tobytes()
    if isinstance(value, list | tuple | dict):
        return kind + str(len(value)).encode()
    return kind
