"""Dask data frames and series as Dask arrays, their partitions counted and checked."""

from typing import Any

import numpy as np
import pandas as pd

from skleak.utils._records import row_labels
from skleak.utils.blocks._dask import is_frame
from skleak.utils.blocks._passes import computed
from skleak.utils.sources._raw import lengths_of, settled
from skleak.utils.sources._seen import Opening, checksum
from skleak.utils.sources._tables import refuse_twice

_ADVICE = (
    "Merges and shuffles of Dask keep no order, and functions without a seed no values: pass "
    "`frame.persist()`, or write the frame to Parquet and pass the path."
)


def frame_arrays(X: Any, y: Any, sample_weight: Any) -> tuple[tuple[Any, Any, Any], Any, Any]:
    """Return records, targets and weights of frames as arrays; names of columns; labels of rows.

    Targets and weights that come as no frames are left as they are. One cheap pass counts the rows
    of all partitions.
    """
    refuse_twice(X.columns)
    if any(isinstance(value, str) for value in (y, sample_weight)):
        X = settled(X)  # once for all columns: they come of one partition, read once
    special = {"y": y, "sample_weight": sample_weight}
    held = [value for value in special.values() if isinstance(value, str)]
    for parameter, value in special.items():
        if isinstance(value, str):
            if value not in X.columns:
                raise ValueError(
                    f"`{parameter}` names the column {value!r}, which the frame does not have; got "
                    f"{[str(c) for c in X.columns[:10]]}."
                )
            special[parameter] = X[value]
        elif is_frame(value) and value.ndim == 2:
            if len(value.columns) != 1:
                raise ValueError(
                    f"`{parameter}` must be one-dimensional; got the columns "
                    f"{[str(c) for c in value.columns[:10]]}."
                )
            special[parameter] = value[value.columns[0]]
    if held:
        X = X[[column for column in X.columns if column not in held]]
    given = {"X": X} | {name: part for name, part in special.items() if is_frame(part)}
    parts = {name: settled(part) for name, part in given.items()}
    counted = computed(part.map_partitions(len) for part in parts.values())
    lengths = {name: tuple(map(int, sizes)) for name, sizes in zip(parts, counted, strict=True)}
    for name, sizes in lengths.items():
        if sizes != lengths["X"]:
            raise ValueError(
                f"X and {name} are not aligned: the partitions of X have {_shown(lengths['X'])} "
                f"rows, and those of {name} {_shown(sizes)}. Take both from one frame."
            )
    opening = Opening()
    arrays = {"X": _numbers(parts["X"], opening).to_dask_array(lengths=lengths["X"])} | special
    for name in parts:
        if name != "X":
            arrays[name] = _array_of(parts[name], name, lengths["X"], opening)
    labels = _labels_of(parts["X"], lengths["X"])
    return (arrays["X"], arrays["y"], arrays["sample_weight"]), X.columns, labels


def index_labels(records: Any) -> Any:
    """Labels of the rows, (n,): of a Dask frame as an array, whose rows one cheap pass counts.

    None where the records have no index of their own.
    """
    if not is_frame(records):
        return row_labels(records)
    frame = settled(records)
    return _labels_of(frame, lengths_of(frame))


def _labels_of(frame: Any, lengths: tuple[int, ...]) -> Any:
    index = frame._meta.index
    meta = pd.Series(np.empty(0, index.dtype if _is_plain(index) else object))
    return frame.map_partitions(_index_of, meta=meta).to_dask_array(lengths=lengths)


def series_array(series: Any, name: str) -> Any:
    """Return a Dask series as an array (n,); one cheap pass counts the rows of its partitions."""
    series = settled(series)
    return _array_of(series, name, lengths_of(series), Opening())


def _array_of(series: Any, name: str, lengths: tuple[int, ...], opening: Opening) -> Any:
    meta = pd.Series(np.empty(0, _numpy_type(series._meta)))
    given = series._meta, name, opening
    return series.map_partitions(_plain, *given, meta=meta).to_dask_array(lengths=lengths)


def _index_of(part: pd.DataFrame) -> pd.Series:
    """Labels of the rows of a partition; text as objects, which arrays can hold."""
    index = part.index
    return pd.Series(index.to_numpy(dtype=None if _is_plain(index) else object))


def _is_plain(index: pd.Index) -> bool:
    return isinstance(index.dtype, np.dtype)


def _shown(sizes: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, sizes[:5]))
    return f"{shown}, ..." if len(sizes) > 5 else shown


def _numbers(frame: Any, opening: Opening) -> Any:
    """Return a frame of numbers, each partition of which is checked against the schema."""
    meta = frame._meta
    for name in meta.columns:
        column = meta[name]
        if not (_is_numeric(column) or _is_unknown(column) or column.dtype == object):
            raise ValueError(
                f"Could not convert column {str(name)!r} to numbers: it is of type "
                f"{column.dtype}. Encode it or leave it out."
            )
    wanted = pd.DataFrame({name: np.empty(0) for name in meta.columns}, columns=meta.columns)
    return frame.map_partitions(_as_numbers, meta, opening, meta=wanted)


def _as_numbers(
    part: pd.DataFrame, meta: pd.DataFrame, opening: Opening, partition_info: Any = None
) -> pd.DataFrame:
    """One partition as float64 columns."""
    found, sums = {}, np.zeros(len(part))
    for name in meta.columns:
        column = _checked(part[name], meta[name], f"column {str(name)!r}")
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(column.cat.categories.dtype)
        try:
            found[name] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        except (ValueError, TypeError):
            raise ValueError(
                f"Could not convert column {str(name)!r} to numbers. Encode it or leave it out."
            ) from None
        with np.errstate(all="ignore"):
            sums += found[name]
    _expect(opening, part.index, sums, "X", partition_info)
    return pd.DataFrame(found, index=part.index, columns=meta.columns)


def _checked(part: pd.Series, meta: pd.Series, name: str) -> pd.Series:
    """Return a column of a partition whose type, and whose categories, are those of the schema."""
    expected, got = meta.dtype, part.dtype
    if isinstance(expected, pd.CategoricalDtype):
        if not isinstance(got, pd.CategoricalDtype):
            raise TypeError(_mixed(name, expected, got))
        if not _is_unknown(meta) and set(expected.categories) != set(got.categories):
            raise ValueError(
                f"The categories of {name} differ between partitions: expected "
                f"{expected.categories.tolist()[:10]}, got {got.categories.tolist()[:10]}. Call "
                "`.cat.as_known()` or `.cat.set_categories(...)` on the column first."
            )
    elif _family(expected) != _family(got) and len(part):
        raise TypeError(_mixed(name, expected, got))
    return part


def _mixed(name: str, expected: Any, got: Any) -> str:
    return (
        f"The types of {name} are mixed between partitions: expected {expected}, got {got}. Give "
        "all partitions one type, for instance with `astype`."
    )


def _family(dtype: Any) -> str:
    return "number" if pd.api.types.is_numeric_dtype(dtype) else "other"


def _is_unknown(column: pd.Series) -> bool:
    """Return True for categories that are known once the partitions are read."""
    kind = column.dtype
    known = getattr(kind, "categories", None)
    return known is not None and list(known) == ["__UNKNOWN_CATEGORIES__"]


def _value_type(column: pd.Series) -> Any:
    """Type of the values of a column, of its categories where it has some."""
    kind = column.dtype
    return kind.categories.dtype if isinstance(kind, pd.CategoricalDtype) else kind


def _is_numeric(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(_value_type(column)))


def _numpy_type(column: pd.Series) -> np.dtype[Any]:
    """Type of an array of the values of a column: objects if these are no numbers."""
    inner = _value_type(column)
    if not _is_numeric(column):
        return np.dtype(object)
    return inner if isinstance(inner, np.dtype) else np.dtype(np.float64)


def _plain(
    part: pd.Series, meta: pd.Series, name: str, opening: Opening, partition_info: Any = None
) -> pd.Series:
    """One partition of labels as objects, and of numbers as NumPy has them."""
    column, kind = _checked(part, meta, name), _numpy_type(meta)
    if kind.kind == "O":
        values = column.astype(object).to_numpy()
    elif column.isna().any():
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = column.to_numpy(dtype=kind)
    _expect(opening, part.index, values, name, partition_info)
    return pd.Series(values, index=part.index)


def _expect(opening: Opening, index: Any, values: Any, name: str, partition_info: Any) -> None:
    """Refuse a partition that is not as it was, or whose labels another part has in other order."""
    if partition_info is None:
        return
    number = partition_info["number"]
    opening.expect(checksum(values), name, number, advice=_ADVICE)
    labels = pd.util.hash_pandas_object(index, index=False).to_numpy()
    place = "index", number, int(labels.sum())
    opening.expect(checksum(labels), *place, advice=_ADVICE)
