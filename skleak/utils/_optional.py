"""Late imports of the optional dependencies, with an error that names the extra."""

from importlib import import_module
from types import ModuleType
from typing import Any


def dask_module(name: str) -> Any:
    """Return a module of Dask, which is imported only by whoever needs it."""
    return import_optional(name, "dask", "Records that are no arrays of this process")


def import_optional(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with `pip install 'skleak[{extra}]'`."
        ) from error
