"""Raw records outside memory as an audit knows them: one look at all, and some that are read."""

import hashlib
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import MAX_VALUES, column_names, raw_column
from skleak.exceptions import AttackNotApplicableError
from skleak.inspection.large import ColumnFacts
from skleak.utils._features import is_single_feature, is_target, resolve_features
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.sources import RawRecords, RawRows

_SAMPLE = "Draw a random sample of some thousands of records, and audit it as a DataFrame."


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Raw records outside memory, of which one column is secret. Confidential."""

    given: tuple[Any, Any, Any]  # table, targets and weights, as `fit` takes them
    records: RawRecords
    columns: Array | None  # names of the raw columns
    n_columns: int
    index: int  # of the secret column
    values: Array  # its candidate values, ascending, (M,)
    counts: FloatArray  # records that have each, (M,)
    digest: str  # of all records

    def __len__(self) -> int:
        return len(self.records)

    @classmethod
    def open(
        cls, X: Any, y: Any, sample_weight: Any, attribute: Any, values: Any = None
    ) -> "Outside":
        """Look at all records once: at the values of the secret column, and at what tells them."""
        records = RawRecords.of(X, y, sample_weight)
        if len(records) < 2:
            raise ValueError(f"`X` must hold at least 2 records; got {len(records)}.")
        first = int(np.flatnonzero(np.diff(records.starts))[0])
        head = records.blocks[first]().table
        names = column_names(head)
        if is_target(attribute, names):
            raise AttackNotApplicableError(
                f"The target of the model is audited in memory only; got {attribute!r} for records "
                f"outside of it. {_SAMPLE}"
            )
        if not is_single_feature(attribute):
            raise TypeError(
                "`attribute` must be the name or the position of one column of the raw data; got "
                f"{attribute!r}."
            )
        index = int(resolve_features(attribute, names, head.shape[1], "attribute")[0])
        looks = records.each(partial(_look, index))
        total = hashlib.sha256(repr([names, len(records)]).encode())
        for _, own in looks:
            total.update(own)
        facts: list[Any] = [found for found, _ in looks if found is not None]
        secret = _candidates(reduce(ColumnFacts.merged, facts), attribute, values)
        return cls(
            given=(X, y, sample_weight),
            records=records,
            columns=names,
            n_columns=head.shape[1],
            index=index,
            values=secret[0],
            counts=secret[1],
            digest=total.hexdigest(),
        )

    def codes(self, table: Any) -> IntArray:
        """Position of the secret value of each of some raw records among the candidates."""
        return codes_of(table, self.index, self.values)


def codes_of(table: Any, index: int, values: Array) -> IntArray:
    """Position of the value of each record (n,) among the candidates."""
    found = pd.Index(values).get_indexer(pd.Index(raw_column(table, index)))
    return np.asarray(found, dtype=np.intp)


def _look(index: int, rows: RawRows) -> tuple[ColumnFacts | None, bytes]:
    """Facts of the secret column of a block, and a hash of all of it."""
    frame = pd.DataFrame(rows.table)
    columns = [frame.iloc[:, j] for j in range(frame.shape[1])] + [pd.Series(rows.y)]
    if rows.sample_weight is not None:
        columns.append(pd.Series(rows.sample_weight))
    own = hashlib.sha256()
    for column in columns:
        own.update(pd.util.hash_pandas_object(column, index=False).to_numpy().tobytes())
    facts = ColumnFacts.of(frame.iloc[:, index], 0) if len(frame) else None
    return facts, own.digest()


def _candidates(facts: ColumnFacts, attribute: Any, values: Any) -> tuple[Array, FloatArray]:
    """Candidate values of a column, ascending, and how many records have each, (M,)."""
    if facts.values is None and facts.moments is None:
        raise ValueError(
            f"The attribute {attribute!r} has too many values: expected at most {MAX_VALUES} "
            "categories. Group rare ones, or convert numbers stored as text to a numeric column."
        )
    if facts.values is None or (values is None and facts.is_quantity):
        raise AttackNotApplicableError(
            f"The attribute {attribute!r} is a quantity, which is audited in memory only. Pass the "
            f"`values` to choose from, if they are few (at most {MAX_VALUES}). {_SAMPLE}"
        )
    missing = np.asarray(pd.isna(facts.values))
    if missing.any():
        raise ValueError(
            f"The attribute {attribute!r} has {int(facts.counts[missing].sum())} missing values of "
            f"{facts.n}. Drop those records, or give missing text a name of its own, such as "
            "'unknown'."
        )
    known = np.array(facts.values.tolist())
    known = known.astype(object) if known.dtype.kind == "U" else known
    candidates = np.unique(known if values is None else np.asarray(values).ravel())
    if len(candidates) < 2:
        raise ValueError(
            f"The attribute {attribute!r} must have at least 2 values; got {candidates.tolist()}. "
            "Pass the values it may take in `values`."
        )
    places = pd.Index(candidates).get_indexer(pd.Index(known))
    if np.any(places < 0):
        raise ValueError(
            f"`values` does not contain {int(facts.counts[places < 0].sum())} records' values of "
            f"{attribute!r}. Add them, or drop those records."
        )
    counts = np.zeros(len(candidates))
    np.add.at(counts, places, facts.counts)
    return candidates, counts
