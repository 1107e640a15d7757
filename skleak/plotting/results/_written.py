"""How the largest advantages of an audit are written, in sentences as in tables."""

import math
from typing import Any

from skleak.plotting.labels import beside_limit
from skleak.plotting.results._results import gained


def half_width(audit: Any, noise: float, source: str) -> float:
    """Return half of the interval of what an attack gains; NaN for a bound."""
    results = audit.results
    own = gained(audit)[(results["noise_scale"] == noise) & (results["attack"] == source)]
    return 0.5 * float((own["high"] - own["low"]).iloc[0]) if len(own) else math.nan


def advantage_text(audit: Any, noise: float, row: Any, limit: float) -> str:
    """Write a row of the largest advantages: bounds are rounded up, attacks as in the tables."""
    value, source = max(float(row["advantage"]), 0.0), str(row["source"])
    within = half_width(audit, noise, source)
    return beside_limit(value, limit, up=source == "bound", within=within)
