"""How records are called: by the index of the data, else by their position."""

from typing import Any

import numpy as np
import pandas as pd

from skleak.utils._typing import Array


def with_labels(records: pd.DataFrame, table: Any) -> pd.DataFrame:
    """Add to a table of records how each is called in the raw records, (n, n_columns)."""
    if "record" not in records:
        return records
    positions = records["record"].to_numpy(dtype=np.intp)
    # Records outside memory are called by their positions.
    labels = positions if not isinstance(table, pd.DataFrame) else _index(table)[positions]
    place = int(np.flatnonzero(records.columns == "record")[0]) + 1
    changed = records.copy()
    changed.insert(place, "label", labels)
    return changed


def label_meaning(table: Any) -> str:
    """Say what records are called by."""
    if not isinstance(table, pd.DataFrame):
        return "position in the data, from 0"
    index = table.index
    if any(name is not None for name in index.names):
        return ", ".join(str(name) for name in index.names)
    if index.equals(pd.RangeIndex(len(index))):
        return "position in the data, from 0"
    return "index of the data"


def find_label(labels: pd.Series, label: Any) -> Array:
    """Rows that have a label, (n,); a label of several levels may be a tuple.

    A number typed as text is found, where no label is that text.
    """
    wanted = _joined(label) if isinstance(label, tuple) else label
    found = np.array([_same(own, wanted) for own in labels], dtype=bool)
    if not found.any():
        found = labels.astype(str).to_numpy() == str(wanted)
    return found


def _same(own: Any, wanted: Any) -> bool:
    try:
        return bool(own == wanted)
    except (TypeError, ValueError):
        return False


def _index(table: pd.DataFrame) -> Array:
    """Labels of all records, (n,): those of several levels joined."""
    if isinstance(table.index, pd.MultiIndex):
        return np.array([_joined(label) for label in table.index], dtype=object)
    return table.index.to_numpy()


def _joined(label: tuple[Any, ...]) -> str:
    return ", ".join(map(str, label))
