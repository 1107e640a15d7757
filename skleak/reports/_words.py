"""Words that the reports share."""

import numpy as np

_EXACT = {
    "values": "exact separation",
    "number": "exact separation, ±1 std. dev.",
    "numbers": "exact separation, ±1 std. dev. of all",
}


def tested_by(kind: str, exact: bool, note: str, distance: float) -> str:
    """Say which bound on an attacker the numbers of a column come from."""
    if np.isnan(distance):
        return f"not known: {note}" if note else "not known"
    said = _EXACT[kind] if exact else _EXACT[kind].replace("exact ", "", 1)
    return f"{said}; {note}" if note else said
