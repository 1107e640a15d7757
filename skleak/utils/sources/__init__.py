"""Tables that outgrow memory, as Dask arrays whose blocks are loaded when they are needed."""

from skleak.utils.sources._open import (
    LargeRecords,
    RawRecords,
    RawRows,
    index_labels,
    is_large_source,
    lazily,
    open_records,
    opened,
    refuse_path,
    series_array,
)
from skleak.utils.sources._tables import as_floats, only_finite, write_table

__all__ = [
    "LargeRecords",
    "RawRecords",
    "RawRows",
    "as_floats",
    "index_labels",
    "is_large_source",
    "lazily",
    "only_finite",
    "open_records",
    "opened",
    "refuse_path",
    "series_array",
    "write_table",
]
