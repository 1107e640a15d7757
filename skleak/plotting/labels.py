"""Labels and colors of figures."""

import math
import unicodedata
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import numpy as np

MISSING = "–"
# What the covariance of the noise is called.
COVARIANCES = {
    "isotropic": "equal variance in all directions",
    "given": "a given covariance",
    "curvature": "the shape of the curvature, and what that reveals is counted",
    "minimax": "the minimax shape with equal weights, and what that reveals is counted",
    "least_mean": "the shape of the least mean squared loss, and what that reveals is counted",
}
_ATTACKS = {
    "prior": "prior guess",
    "imputation": "imputation",
    "white_box": "white box",
    "black_box": "black box",
    "black_box_proba": "black box, probabilities",
    "black_box_margin": "black box, margins",
    "combined": "combined",
    "posterior_mean": "posterior mean",
    "informed": "informed",
    "exact": "exact test",
    "gradient_norm": "gradient norm",
    "likelihood": "likelihood",
    "likelihood_ratio": "likelihood ratio",
    "robust": "robust inference",
    "scale": "the noise scale alone",
    "log_likelihood": "rise of log-likelihood",
    "posterior": "posterior",
    "loss": "loss",
    "modified_entropy": "modified entropy",
}
# Bounds on the success of any attack: column of the results -> name in the table of a channel.
BOUNDS = {
    "bayes": "Bayes",
    "tradeoff": "trade-off",
    "gdp": "Gaussian differential privacy",
    "fano": "Fano, exact information",
    "information_projection": "information projection",
    "fano_pairwise": "Fano, pairwise information bound",
    "fano_information_bound": "Fano, information bound",
    "fano_order_1": "Fano, order 1",
    "generalized_fano": "generalized Fano",
    "renyi_projection": "Rényi projection",
    "closed_form_fano": "closed-form Fano",
    "reconstruction_robustness": "reconstruction robustness",
}
_LABELS = BOUNDS | {
    "dp": "differential privacy",
    "bayes_mse": "Bayes risk",
    "van_trees": "van Trees",
    "cramer_rao": "Cramér–Rao (unbiased attacks)",
    "cramer_rao_mean": "Cramér–Rao, mean (unbiased attacks)",
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


def numbers(values: Iterable[float]) -> tuple[str, ...]:
    """Write the numbers of a column."""
    return tuple(map(number, values))


def count(value: int) -> str:
    """Write a whole number with separators."""
    return f"{int(value):,}"


def plural(value: int, singular: str, several: str = "") -> str:
    """Write a count and what is counted."""
    return f"{count(value)} {singular if int(value) == 1 else several or f'{singular}s'}"


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
    """Return the longest beginning that fits."""
    used = accumulate(map(_letter_width, text))
    return text[: sum(columns <= width for columns in used)]


def percent(share: float, up: bool = False, within: float = math.nan) -> str:
    """Write a share as a percentage, without rounding it to a certainty.

    ``within`` is half of the width of its interval: digits that it does not support are left out.
    """
    value = 100.0 * float(share)
    if math.isnan(value):
        return MISSING
    if value < -100.0:
        return "<-100%"  # as an advantage: worse than guessing, and no matter how much
    if math.isinf(value) or value >= 1e4:
        return number(value) + ("" if math.isinf(value) else "%")
    rest = min(abs(value), abs(100.0 - value))
    digits = 0 if rest >= 10.0 or rest == 0.0 else 1 if rest >= 1.0 else 2
    if within > 0.0:
        supported = 0 if within > 1.0 else math.ceil(-math.log10(200.0 * within))
        digits = min(max(supported, 0), 2)
    least = f"{10.0**-digits:.{digits}f}%"
    if up:
        # Round-off of the bound itself, at the 12th digit, is not rounded up.
        value = math.ceil(value * 10.0**digits * (1.0 - 1e-12) - 1e-9) / 10.0**digits
    text = f"{value:,.{digits}f}"
    if float(text.replace(",", "")) == 0.0:
        return "0%" if rest < 1e-9 else f"<{least}" if value > 0.0 else f"-{least} to 0%"
    if float(text.replace(",", "")) == 100.0 and value < 100.0:
        return "100%" if rest < 1e-9 else f">{100.0 - 10.0**-digits:.{digits}f}%"
    return (text.rstrip("0").rstrip(".") if digits else text) + "%"


def limit_text(limit: float) -> str:
    """Write a limit with all its digits: others are compared with it."""
    return f"{100.0 * limit:.10g}%"


def attack_label(name: Any) -> str:
    """Name of an attack for people; a user's own name as it is."""
    return _ATTACKS.get(str(name), str(name))


def bound_label(name: Any) -> str:
    """Name of a bound for people."""
    return _LABELS.get(str(name), str(name))


def code(name: Any) -> str:
    """Quote a name in a sentence: printable, not too long, and without backticks of its own."""
    return f"`{shorten(name, 48).replace('`', chr(39))}`"


def root(error: Any) -> str:
    """Write the root of a mean squared error, which rounding may leave below zero."""
    return number(float(np.sqrt(np.maximum(error, 0.0))))


INK, GRAY, WHITE = "#1b2430", "#8a8f98", "#ffffff"
# Bounds (Okabe and Ito: told apart by color-blind readers).
GREEN, DEEP_BLUE, SKY, YELLOW = "#009e73", "#0072b2", "#56b4e9", "#e69f00"
VERMILION, PURPLE = "#d55e00", "#b8578f"
# Attacks, those of users last.
RUST, INDIGO, FOREST, BROWN, SLATE = "#a3260f", "#3f4fb0", "#0b6e4f", "#8a5a00", "#6b7280"
SPARE = ("#7b2d8e", "#1f7a8c", PURPLE, "#5b7f1d")
# Leakage, and what stands out.
BLUE, PALE, ORANGE, CRIMSON = "#3f6fb0", "#a9bfdc", "#b4480c", "#e4002b"
ON_DARK = {
    INK: "#e8ebf0",
    WHITE: "#1b2027",
    DEEP_BLUE: "#5aa9e0",
    GREEN: "#3fc79f",
    PURPLE: "#e592c3",
    VERMILION: "#f0955a",
    RUST: "#f08a72",
    INDIGO: "#9aa8f5",
    FOREST: "#4fc9a1",
    BROWN: "#dcb45f",
    SLATE: "#a7b1be",
    SPARE[0]: "#d49be3",
    SPARE[1]: "#6cc7da",
    SPARE[3]: "#abd066",
    BLUE: "#78a6e6",
    PALE: "#48678f",
    ORANGE: "#f39a63",
    CRIMSON: "#ff6b81",
}
