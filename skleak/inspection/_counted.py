"""Leakage of raw columns, with and without what the preprocessing learned.

What it learned is counted in closed form where that is known, which gives all records at once, and
by refits of the whole pipeline elsewhere. Where nothing was learned, holding it fixed is exact.
"""

from collections.abc import Sequence

import numpy as np

from skleak.inspection._cells import Cells, describe
from skleak.inspection._columns import RawColumn
from skleak.inspection._directions import block_width
from skleak.inspection._held import JUMP, KINK, MISSING, HeldBlock
from skleak.inspection._pipeline import Inspected
from skleak.inspection._refitted import Refits, all_known, worst_along
from skleak.inspection._selection import RawBlock, Target, Unknown
from skleak.inspection._table import Measured
from skleak.inspection.learned import Preprocessing, learns_nothing_of
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import IntArray

# Records that are refitted where none are named.
_MOST_RECORDS = 20
# Entries of the largest table of one block of records: 64 MB.
_ELEMENTS = 1 << 23
# Encoded tables that differentiation holds at once.
_TABLES = 24
CLOSED = "what was learned counts in closed form"
NO_REFIT = "no distances: they need refits of the record, which has to be named in `records`"
REFITTED = "by refits of the pipeline"


def sampled(rows: IntArray) -> IntArray:
    """Records to refit where none are named, evenly spaced."""
    places = np.linspace(0, len(rows) - 1, min(len(rows), _MOST_RECORDS)).astype(int)
    return rows[np.unique(places)]


def held(
    data: Inspected, unknown: Sequence[Unknown], rows: IntArray, unequal: str
) -> list[Measured]:
    """Measure everything that is asked about with the transformers held fixed."""
    most = max([2, *(int(np.nan_to_num(one.n_values)) for one in unknown)])
    cells: list[list[Cells]] = [[] for _ in unknown]
    for some in row_blocks(len(rows), _width(data, most), _ELEMENTS):
        block = HeldBlock.of(data, rows[some], unequal)
        for own, one in zip(cells, unknown, strict=True):
            own.append(block.cells(one))
    return [Measured(one, rows, Cells.of_all(own)) for one, own in zip(unknown, cells, strict=True)]


def counted(
    data: Inspected, unknown: Sequence[Unknown], rows: IntArray, few: IntArray
) -> list[Measured]:
    """Measure everything with what the transformers learned; ``few`` of the records by refits."""
    refits = Refits(data, few)
    refits.check()
    numbers = [part for one in unknown if one.is_number for part in one.parts]
    learned = Preprocessing.of(data, numbers)
    found = []
    for one in unknown:
        if _learns_nothing(data, one):
            found += held(data, [one], rows, "")
        elif not isinstance(one, Target) and one.is_number and learned.covers(one.parts):
            found.append(Measured(one, rows, _closed(learned, one, rows, few)))
        else:
            found.append(Measured(one, few, refits.cells(one).noted(REFITTED)))
    return found


def _learns_nothing(data: Inspected, unknown: Unknown) -> bool:
    if isinstance(unknown, Target):
        return not data.looks_at_targets()
    return learns_nothing_of(data, unknown.parts)


def _closed(
    learned: Preprocessing, unknown: RawColumn | RawBlock, rows: IntArray, few: IntArray
) -> Cells:
    """Leakage of numbers, what was learned in closed form; distances of a few by refits."""
    data, parts, cells = learned.data, unknown.parts, []
    for some in row_blocks(len(rows), _width(data, 2), _ELEMENTS):
        own = rows[some]
        block, b = HeldBlock.of(data, own, ""), len(own)
        known = all_known(parts, own)
        slopes = [learned.slopes(column, block) for column in parts]
        worst, kinks, jumps = worst_along(data.state, parts, slopes)
        pair, from_own = np.full((2, b), np.nan)
        apart = known & np.isin(own, few)
        if np.any(apart):
            refits = Refits(data, own[apart])
            pair[apart], from_own[apart] = refits.distances(parts, worst.direction[apart])
        notes = describe(
            b,
            (~known, MISSING),
            (kinks & known, KINK),
            (jumps & known, JUMP),
            (known, CLOSED),
            (known & ~apart, NO_REFIT),
        )
        cells.append(Cells(np.where(known, worst.loss, np.nan), pair, from_own, notes))
    return Cells.of_all(cells)


def _width(data: Inspected, n_values: int) -> int:
    """Entries that the tables of one record take."""
    state = data.state
    encoded = max(_TABLES, n_values) * max(state.n_features, len(state.factor.coefficients))
    return max(block_width(state), encoded)
