"""How numbers and names appear in reports: three significant digits, and no name that misleads."""

import math
import unicodedata
from typing import Any

__all__ = [
    "COVARIANCES",
    "MISSING",
    "count",
    "number",
    "plural",
    "printable",
    "shorten",
    "text_width",
]

MISSING = "–"
# What the covariance of the noise is called.
COVARIANCES = {
    "isotropic": "equal variance in all directions",
    "given": "a given covariance",
    "curvature": "the shape of the curvature, and what that reveals is counted",
    "minimax": "the minimax shape with equal weights, and what that reveals is counted",
}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Invisible, but letters of some scripts and emoji are joined by them.
_JOINERS = "\u200c\u200d"


def number(value: float) -> str:
    """Write a number with three significant digits, for people."""
    value = float(value)
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "infinite" if value > 0.0 else "-infinite"
    rounded = float(f"{value:.3g}") + 0.0  # no minus zero
    if rounded == 0.0 or 1e-4 <= abs(rounded) < 1e3:
        return f"{rounded:g}"
    if 1e3 <= abs(rounded) < 1e7:
        return f"{rounded:,.0f}"
    mantissa, exponent = f"{rounded:.3g}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def count(value: int) -> str:
    """Write a whole number with separators."""
    return f"{int(value):,}"


def plural(value: int, singular: str) -> str:
    """Write a count and what is counted."""
    return f"{count(value)} {singular}{'' if int(value) == 1 else 's'}"


def printable(text: Any) -> str:
    r"""Replace what could steer a terminal or reorder a line by a visible mark.

    Returns: without control characters, direction overrides, line breaks and lone surrogates.
    """
    return "".join(
        letter if letter.isprintable() or letter in _JOINERS else "\ufffd" for letter in str(text)
    )


def shorten(text: Any, width: int) -> str:
    """Make a name printable and cut its middle where it is wider than allowed."""
    text = printable(text)
    if text_width(text) <= width:
        return text
    tail = _fitting(text[::-1], (width - 1) // 2)[::-1]
    return _fitting(text, width - 1 - text_width(tail)) + "…" + tail


def text_width(text: str) -> int:
    """Columns of a terminal that a text fills."""
    return sum(map(_letter_width, text))


def _letter_width(letter: str) -> int:
    if letter in _JOINERS or unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _fitting(text: str, width: int) -> str:
    """The longest beginning that fits."""
    used = 0
    for position, letter in enumerate(text):
        used += _letter_width(letter)
        if used > width:
            return text[:position]
    return text
