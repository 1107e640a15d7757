"""Small helpers that know nothing of privacy: seeds, blocks, linear algebra, validation."""

import functools
import json
import sys
from pathlib import Path
from typing import NoReturn


@functools.cache
def gone() -> dict[str, dict[str, str]]:
    """Return what replaces names that went, by the package they were in."""
    text = Path(__file__).with_name("gone.json").read_text("utf-8")
    found: dict[str, dict[str, str]] = json.loads(text)
    return found


def announce(package: str) -> None:
    """Let a package answer requests for its names that went with what replaces them.

    Set from here, a module's ``__getattr__`` does not hide misspelled names from type checkers.
    """

    def __getattr__(name: str) -> NoReturn:
        if name in gone()[package]:
            raise ImportError(f"`{package}.{name}` is gone: {gone()[package][name]}.")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    vars(sys.modules[package])["__getattr__"] = __getattr__
