"""Tables that outgrow memory, as Dask arrays whose blocks are loaded when they are needed."""

from skleak.utils.sources._answers import lazily, opened, refuse_path
from skleak.utils.sources._columns import as_floats, only_finite
from skleak.utils.sources._frames import index_labels, series_array
from skleak.utils.sources._open import LargeRecords, is_large_source, open_records
from skleak.utils.sources._parts import RawRecords, RawRows, SomeRows
from skleak.utils.sources._writing import write_table

__all__ = [
    "LargeRecords",
    "RawRecords",
    "RawRows",
    "SomeRows",
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
