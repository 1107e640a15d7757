"""Polars lazy frames, collected one slice of rows after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import numpy as np

from skleak.utils._optional import import_optional
from skleak.utils.sources._seen import Opening, checksum
from skleak.utils.sources._tables import Slice, StoredTable, cut

_ADVICE = (
    "Joins, groups, `unique` and samples of a lazy frame keep no order of their own: set their "
    "`maintain_order` or seed, or sort, or write the frame by `sink_parquet` and pass the path."
)


@dataclass(frozen=True)
class PolarsTable(StoredTable):
    """A Polars lazy frame; its rows must come in the same order each time."""

    frame: Any
    n_rows: int
    schema: dict[str, Any]
    unique: str
    opening: Opening = field(default_factory=Opening)

    @classmethod
    def of(cls, frame: Any) -> "PolarsTable":
        """Open a lazy frame: its schema is resolved, and its rows are counted."""
        polars = import_optional("polars", "parquet", "A Polars lazy frame")
        schema = dict(frame.collect_schema())
        n_rows = int(frame.select(polars.len()).collect().item())
        return cls(tuple(schema), frame, n_rows, schema, _token(frame, n_rows))

    @property
    def name(self) -> str:
        """The table's name in messages."""
        return "the lazy frame"

    @property
    def token(self) -> str:
        """Return what tells this frame from others."""
        return self.unique

    def slices(self) -> list[Slice]:
        """Rows of each block, in order."""
        # Each slice is a piece of its own: a lazy frame loads what it is asked for.
        step = cut([self.n_rows], len(self.columns))
        return [Slice(k, 0, part.stop - part.start) for k, part in enumerate(step)]

    def loader(self, piece: int, columns: Sequence[str]) -> "Loader":
        """Return what loads columns of a slice."""
        part = cut([self.n_rows], len(self.columns))[piece]
        wanted = self.frame.select(list(columns)).slice(part.start, part.stop - part.start)
        place = self.opening, part.start, tuple(columns)
        return Loader(wanted, part.stop - part.start, place)

    def dtype(self, column: str) -> np.dtype[Any]:
        """Type of the values of a column."""
        polars = import_optional("polars", "parquet", "A Polars lazy frame")
        return np.dtype(polars.Series([], dtype=self.schema[column]).to_numpy().dtype)

    def stored_type(self, column: str) -> tuple[Any, bool]:
        """Type of a column, and whether it is one of numbers."""
        found = self.schema[column]
        return found, bool(found.is_numeric() or str(found) == "Boolean")


@dataclass(frozen=True)
class Loader:
    """Collects a slice of a lazy frame; it refuses rows that are not those of the first time."""

    frame: Any
    n_rows: int
    place: tuple[Opening, int, tuple[str, ...]]  # which opening of which frame, first row, columns

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it loads."""
        return self.place[2]

    def __call__(self) -> list[Any]:
        """Return one array for each column."""
        return [column.to_numpy() for column in self.table()]

    def to_frame(self) -> Any:
        """Return a pandas data frame of the columns."""
        return self.table().to_pandas()

    def table(self) -> Any:
        """Collect the slice."""
        table = self.frame.collect()
        if table.height != self.n_rows:
            raise RuntimeError(
                f"What the lazy frame reads changed under way: {table.height} rows where there "
                f"were {self.n_rows}. Open it again, once nobody writes to it."
            )
        opening, *place = self.place
        opening.expect(checksum(table.hash_rows().to_numpy()), *place, advice=_ADVICE)
        return table


def _token(frame: Any, n_rows: int) -> str:
    """Return the same for a plan that is the same; frames of data in memory differ by these."""
    tokenize = import_optional("dask.base", "dask", "A Polars lazy frame").tokenize
    try:
        return str(tokenize(frame.serialize(), n_rows))
    except Exception:  # a plan of functions that cannot be written down is one of its own
        return uuid4().hex
