"""The table of what a pipeline tells about raw columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skleak.inspection._cells import Cells
from skleak.inspection._selection import Unknown
from skleak.utils._typing import IntArray
from skleak.utils.geometry._pairs import gained, success_even_odds, true_positives


@dataclass(frozen=True)
class Measured:
    """Findings about a column, a block or the target in some records. Confidential."""

    unknown: Unknown
    rows: IntArray  # Positions of the records, (b,)
    cells: Cells

    def frame(self, index: pd.Index) -> pd.DataFrame:
        """Rows of the table; ``index`` has the labels of all records."""
        unknown, cells, distance = self.unknown, self.cells, self.cells.distance
        with np.errstate(divide="ignore"):
            error = 1.0 / cells.loss
        columns = {
            "record": index[self.rows].to_flat_index(),
            "column": pd.Series([unknown.label] * len(self.rows)),
            "kind": unknown.kind,
            "fisher_information_loss": cells.loss,
            "standard_error": error,
            "sd": unknown.sd,
            "n_values": unknown.n_values,
            "share": unknown.shares[self.rows],
            "distance": distance,
            "distance_from_own": cells.from_own,
            "success_even_odds": success_even_odds(distance),
            "true_positives_at_1pct": true_positives(distance),
            "gain": gained(distance),
            "note": cells.notes,
        }
        return pd.DataFrame(columns)


def record_labels(table: Any) -> pd.Index:
    """Labels of the records in their index, or their positions."""
    return table.index if isinstance(table, pd.DataFrame) else pd.RangeIndex(len(table))


def as_table(
    measured: Sequence[Measured], rows: IntArray, index: pd.Index, attrs: dict[str, Any]
) -> pd.DataFrame:
    """Lay out all columns of a record, then those of the next one; ``rows`` has their order."""
    place = np.empty(len(index), dtype=np.intp)
    place[rows] = np.arange(len(rows))
    table = pd.concat([one.frame(index) for one in measured], ignore_index=True)
    order = np.lexsort(
        (
            np.repeat(np.arange(len(measured)), [len(one.rows) for one in measured]),
            np.concatenate([place[one.rows] for one in measured]),
        )
    )
    table = table.iloc[order].reset_index(drop=True)
    everyone = all(len(one.rows) == len(index) for one in measured)
    table.attrs.update(attrs, records="all" if everyone else "some")
    return table
