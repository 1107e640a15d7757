"""Text, JSON and HTML of a leakage report; shows numbers and changes none."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skleak._version import __version__
from skleak.reports._html import to_html
from skleak.reports._text import to_text
from skleak.utils._files import write_confidential

if TYPE_CHECKING:
    from skleak.reports._leakage_report import LeakageReport

__all__ = ["to_dict", "to_html", "to_json", "to_text", "write"]

_SCHEMA_VERSION = 1


def to_dict(report: "LeakageReport") -> dict[str, Any]:
    """Turn a report into plain dictionaries, lists, strings and numbers.

    Returns ``schema``, ``schema_version``, ``skleak`` (version), ``confidential``, ``estimator``,
    ``dataset``, ``differential_privacy``, ``findings``, ``assumptions``, and ``features``,
    ``groups`` and ``records`` as lists with one dictionary per row. Infinite and undefined numbers
    are None.
    """
    guarantee = report.differential_privacy
    return {
        "schema": "skleak.leakage_report",
        "schema_version": _SCHEMA_VERSION,
        "skleak": __version__,
        "confidential": True,
        "estimator": report.estimator,
        "dataset": _plain(report.dataset),
        "differential_privacy": _plain(
            {
                "holds": guarantee.holds,
                "reasons": guarantee.reasons,
                "sensitivity": guarantee.sensitivity,
                "mu": guarantee.mu,
                "delta": guarantee.delta,
                "epsilon": guarantee.epsilon,
            }
        ),
        "findings": list(report.findings),
        "assumptions": list(report.assumptions),
        "features": _rows(report.features, "feature"),
        "groups": _rows(report.groups, "group"),
        "records": _rows(report.records, "record"),
    }


def to_json(report: "LeakageReport") -> str:
    """Write a report as strict JSON: what `to_dict` returns, one entry of it a line.

    Returns: ASCII, without NaN and Infinity.
    """
    entries = (
        f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}"
        for key, value in to_dict(report).items()
    )
    return "{\n" + ",\n".join(entries) + "\n}\n"


def write(text: str, path: "str | Path | None") -> str:
    """Write a confidential text as a UTF-8 file that only its owner may read.

    Returns: the text.
    """
    if path is None:
        return text
    target = Path(path).expanduser().resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"Cannot write {str(path)!r}: the folder {str(target.parent)!r} does not exist. "
            "Create it, or give another path."
        )
    write_confidential(target, lambda file: file.write(text.encode()))
    return text


def _rows(table: pd.DataFrame, index: str) -> list[dict[str, Any]]:
    columns = {index: [_plain(label) for label in table.index.tolist()]}
    columns |= {str(name): _values(column) for name, column in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(column: pd.Series) -> list[Any]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        values = column.to_numpy()
        finite = np.isfinite(values)
        if not finite.all():
            values = np.where(finite, values.astype(object), None)
        return values.tolist()
    return [_plain(value) for value in column.tolist()]


def _plain(value: Any) -> Any:
    """Nearest value that strict JSON has."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return str(value)
