"""Transformers that learned nothing that a number moves, differentiated by differences."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)

from skleak.adversary.hypotheses import dense_table, plain_table
from skleak.adversary.knowledge import raw_column, take_rows, with_attribute
from skleak.inspection._columns import STEP
from skleak.inspection._derivatives import slopes
from skleak.inspection.learned._leaf import Leaf, NothingLearned
from skleak.utils._typing import FloatArray, IntArray

# Transformers that learn nothing, the last one with given knots.
ROWWISE = (FunctionTransformer, Normalizer, PolynomialFeatures, SplineTransformer)
# Those that learn which values there are.
ENCODERS = (OneHotEncoder, OrdinalEncoder)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Rowwise(Leaf):
    """A transformer that encodes each record by itself, as nothing else. Confidential."""

    transform: Callable[[Any], Any]
    table: Any  # The records that it is given, (n, w_in)
    n_out: int

    @classmethod
    def of(cls, transformer: Any, table: Any) -> "Rowwise":
        """Check that it learned nothing, and that records do not depend on each other."""
        known = type(transformer)
        if known not in ROWWISE or isinstance(getattr(transformer, "knots", None), str):
            raise NothingLearned(known.__name__)
        if sparse.issparse(table):
            raise NothingLearned(f"{known.__name__} of sparse records")
        whole = encoded(transformer.transform, table)
        half = np.arange(max(1, len(whole) // 2))
        part = encoded(transformer.transform, take_rows(table, half))
        size = np.abs(whole).max(axis=0, initial=0.0)
        if part.shape[1] != whole.shape[1] or np.any(np.abs(part - whole[half]) > _ROUNDING * size):
            raise NothingLearned(f"{known.__name__} of all records together")
        return cls(transformer.transform, table, whole.shape[1])

    def pull(self, outer: FloatArray, rows: IntArray) -> FloatArray:
        return np.asarray(outer @ self._jacobian(rows))

    def _jacobian(self, rows: IntArray) -> FloatArray:
        """``df/du`` of some records, of shape (b, w_out, w_in); the mean of sides that differ."""
        own = take_rows(self.table, rows)
        result = np.zeros((len(rows), self.n_out, self.table.shape[1]))
        for j in range(self.table.shape[1]):
            column = raw_column(self.table, j)
            if column.dtype.kind not in "iuf":
                continue
            numbers = column.astype(np.float64)
            step = STEP * float(np.nanstd(numbers))
            there = np.flatnonzero(np.isfinite(numbers[rows]))
            if not step > 0.0 or not len(there):
                continue

            def changed(
                values: FloatArray, which: IntArray, j: int = j, there: IntArray = there
            ) -> FloatArray:
                table = with_attribute(take_rows(own, there[which]), j, values)
                return encoded(self.transform, table)

            found = slopes(changed, numbers[rows][there], step)
            result[there, :, j] = 0.5 * (found.right + found.left)
        return result


def encoded(transform: Callable[[Any], Any], table: Any) -> FloatArray:
    """Transform records, as a dense table."""
    return dense_table(plain_table(transform(table)))


def keeps_values(transformer: Any, table: Any) -> bool:
    """Tell that no value of one record, of those of the others, changes what was learned."""
    kind = type(transformer)
    if kind is OneHotEncoder and isinstance(transformer.drop, str):
        return False
    if kind not in ENCODERS:
        return False
    if transformer.min_frequency is not None or transformer.max_categories is not None:
        return False
    if not isinstance(transformer.categories, str):
        return True
    columns = (pd.Series(raw_column(table, j)) for j in range(table.shape[1]))
    return all(int(column.value_counts(dropna=False).min()) > 1 for column in columns)
