"""Warnings that point at the line of whoever called the library."""

import functools
import sys
from pathlib import Path

import sklearn

# skleak itself, and what stands between it and whoever called it.
_INNER = (str(Path(__file__).parent.parent), str(Path(sklearn.__file__).parent), functools.__file__)


def outer_stacklevel() -> int:
    """``stacklevel`` under which a warning names the line that called skleak.

    What is computed on first use can be asked for at any depth, so that no fixed number does.

    Returns: for a call of `warnings.warn` in the function that asks.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        level, frame = level + 1, frame.f_back
    return level
