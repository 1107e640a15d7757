"""What a benchmark found, kept as JSON: `run.py` makes a page of it, and tests compare figures."""

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas")
_found: dict[str, Any] = {"tables": [], "figures": {}, "curves": [], "panels": [], "pictures": {}}


def keep_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], keys: Sequence[str]
) -> None:
    """Keep a table; the cells below `keys` name a row, and the legends that follow belong to it."""
    table = {"title": title, "header": list(header), "keys": list(keys)}
    _found["tables"].append(table | {"rows": [list(row) for row in rows], "legend": []})


def legend(text: str) -> None:
    """Print an explanation, and keep it with the last table."""
    print(text)
    _found["tables"][-1]["legend"].append(text)


def note(name: str, value: float) -> None:
    """Keep a figure that a page or the README may state."""
    _found["figures"][name] = _short(value)


def note_curve(
    panel: str, label: str, over: str, sizes: Sequence[float], seconds: Sequence[float]
) -> None:
    """Keep times over a size; the page draws them with the slope that it fits to them."""
    curve = {"panel": panel, "label": label, "over": over, "sizes": [_short(x) for x in sizes]}
    _found["curves"].append(curve | {"seconds": [_short(x) for x in seconds]})


def note_panel(title: str, x: str, y: str, curves: Sequence[dict[str, Any]]) -> None:
    """Keep curves that libraries share; the page draws them with the ranges that they have."""
    _found["panels"].append({"title": title, "x": x, "y": y, "curves": _plain(list(curves))})


def note_picture(name: str, **parts: Any) -> None:
    """Keep what a picture of the README is drawn from."""
    _found["pictures"][name] = _plain(parts)


def write(path: str, script: str, description: str, quick: bool, seconds: float) -> None:
    """Write everything that was kept."""
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    machine |= {name: version(name) for name in PACKAGES}
    head = {"benchmark": script, "description": description, "quick": quick}
    head |= {"seconds": round(seconds, 1), "machine": machine}
    Path(path).write_text(json.dumps(head | _found, indent=1, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    """Value as JSON holds it."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, str):
        return value
    return [_plain(part) for part in value] if hasattr(value, "__iter__") else _short(value)


def _short(value: float) -> float:
    """Four digits, which no figure of a benchmark has in truth."""
    return float(f"{value:.4g}")
