"""How shares, attacks and bounds are written in the report of an audit."""

import math
from typing import Any

from skleak.rendering._format import MISSING, number, shorten

__all__ = ["attack_label", "bound_label", "code", "percent"]

_ATTACKS = {
    "prior": "prior guess",
    "imputation": "imputation",
    "white_box": "white box",
    "black_box": "black box",
    "informed": "informed",
    "exact": "exact test",
    "gradient_norm": "gradient norm",
    "likelihood": "likelihood",
    "likelihood_ratio": "likelihood ratio",
    "loss": "loss",
    "modified_entropy": "modified entropy",
}
_BOUNDS = {
    "dp": "differential privacy",
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
    "cramer_rao": "Cramér–Rao (unbiased attacks)",
    "cramer_rao_mean": "Cramér–Rao, mean (unbiased attacks)",
}


def percent(share: float, up: bool = False) -> str:
    """Write a share as a percentage, without rounding it to a certainty."""
    value = 100.0 * float(share)
    if math.isnan(value):
        return MISSING
    if value < -100.0:
        return "<-100%"  # as an advantage: worse than guessing, and no matter how much
    if math.isinf(value) or value >= 1e4:
        return number(value) + ("" if math.isinf(value) else "%")
    rest = min(abs(value), abs(100.0 - value))
    digits = 0 if rest >= 10.0 or rest == 0.0 else 1 if rest >= 1.0 else 2
    if up:
        # Round-off of the bound itself, at the 12th digit, is not rounded up.
        value = math.ceil(value * 10.0**digits * (1.0 - 1e-12) - 1e-9) / 10.0**digits
    text = f"{value:,.{digits}f}"
    if float(text.replace(",", "")) == 0.0:
        return "0%" if rest < 1e-9 else "<0.01%" if value > 0.0 else ">-0.01%"
    if text == "100.00" and value < 100.0:
        return "100%" if rest < 1e-9 else ">99.99%"
    return (text.rstrip("0").rstrip(".") if digits else text) + "%"


def attack_label(name: Any) -> str:
    """Name of an attack for people; a user's own name as it is."""
    return _ATTACKS.get(str(name), str(name))


def bound_label(name: Any) -> str:
    """Name of a bound for people."""
    return _BOUNDS.get(str(name), str(name))


def code(name: Any) -> str:
    """Quote a name in a sentence: printable, not too long, and without backticks of its own."""
    return f"`{shorten(name, 48).replace('`', chr(39))}`"
