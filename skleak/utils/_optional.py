"""Late imports of the optional dependencies, with an error that names the extra."""

from importlib import import_module
from types import ModuleType


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
