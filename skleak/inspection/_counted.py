"""Leakage of raw columns, with and without what the preprocessing learned.

What it learned is counted in closed form where that is known, which gives all records at once, and
by refits of the whole pipeline elsewhere. Where nothing was learned, holding it fixed is exact.
"""

import warnings
from collections.abc import Sequence
from time import process_time

import numpy as np

from skleak.exceptions import CostWarning
from skleak.influence.refit import operations_each
from skleak.inspection._cells import Cells, describe
from skleak.inspection._columns import RawColumn
from skleak.inspection._directions import record_blocks
from skleak.inspection._held import JUMP, KINK, MISSING, HeldBlock
from skleak.inspection._pipeline import Inspected
from skleak.inspection._refitted import Refits, all_known, worst_along
from skleak.inspection._selection import RawBlock, Target, Unknown
from skleak.inspection._table import Measured
from skleak.inspection.learned import Preprocessing, learns_nothing_of
from skleak.utils._typing import IntArray

# Records that are refitted where none are named, and at least; fits for the slope of a number.
_MOST_RECORDS, _LEAST_RECORDS, _FITS_SLOPE = 20, 2, 42
# Multiplications and additions, and seconds of refits, that a call takes unasked: a few minutes.
_MOST_WORK, _MOST_SECONDS = 2e11, 300.0
# Records that are measured without refits whatever they take.
_LEAST_MEASURED = 100
CLOSED = "what was learned counts in closed form"
NO_REFIT = "no distances: they need refits of the record, which has to be named in `records`"
REFITTED = "by refits of the pipeline"


def affordable(data: Inspected, unknown: Sequence[Unknown]) -> IntArray:
    """Choose records to measure where none are named: all, or the most exposed and some more."""
    n = len(data.y)
    values = sum(3 if one.is_number else int(one.n_values) for one in unknown)
    work = operations_each(data.state, n * values) * max(values, 1)
    most = max(_LEAST_MEASURED, int(_MOST_WORK / work))
    return _exposed_and_others(data, np.arange(n), most, unknown)


def _exposed_and_others(
    data: Inspected, rows: IntArray, most: int, unknown: Sequence[Unknown]
) -> IntArray:
    """At most so many of some records, half of them those of largest loss, others evenly spaced.

    Of these, records that alone carry some value come first: without them a transformer that learns
    the values of a column learns others.
    """
    if len(rows) <= most:
        return rows
    loss = np.nan_to_num(data.model.fisher_information_loss_[rows])
    exposed = np.argsort(-loss, kind="stable")[: most // 2]
    alone = np.zeros(len(rows), dtype=bool)
    for one in unknown:
        if not one.is_number:
            alone |= one.shares[rows] * len(data.y) < 1.5
    alone[exposed] = False
    exposed = np.append(exposed, np.flatnonzero(alone)[: most - len(exposed)])
    others = np.setdiff1d(np.arange(len(rows)), exposed)
    spaced = np.linspace(0, len(others) - 1, most - len(exposed)).astype(int)
    return rows[np.union1d(exposed, others[spaced])]


def _to_refit(
    data: Inspected, rows: IntArray, seconds: float, named: bool, unknown: Sequence[Unknown]
) -> IntArray:
    """Choose the records to refit: those named, or as many as can be afforded; say what it takes.

    ``seconds``: what one record takes.
    """
    if named:
        if seconds * len(rows) > _MOST_SECONDS:
            warnings.warn(
                f"The preprocessing is refitted for {len(rows)} records, which takes about "
                f"{seconds * len(rows) / 60.0:.0f} minutes of one core. Name fewer `records`, or "
                "fewer `columns`, where that is too long.",
                CostWarning,
                stacklevel=2,
            )
        return rows
    most = _MOST_RECORDS
    while most > _LEAST_RECORDS and seconds * most > _MOST_SECONDS:
        most = max(most // 2, _LEAST_RECORDS)
    some = _exposed_and_others(data, rows, most, unknown)
    if most < min(_MOST_RECORDS, len(rows)):
        warnings.warn(
            f"What takes refits of the preprocessing is measured for {len(some)} of "
            f"{len(data.y)} records: each takes about {seconds:.0f} seconds of one core. Name "
            "others in `records`.",
            CostWarning,
            stacklevel=2,
        )
    return some


def _fits(data: Inspected, one: Unknown, learned: Preprocessing) -> int:
    """Fits of the pipeline that one record takes."""
    if _learns_nothing(data, one):
        return 0
    if not one.is_number:
        return int(one.n_values)
    parts = 1 if isinstance(one, Target) else len(one.parts)
    closed = not isinstance(one, Target) and learned.covers(one.parts)
    return 3 if closed else 3 + _FITS_SLOPE * parts


def held(
    data: Inspected, unknown: Sequence[Unknown], rows: IntArray, unequal: str
) -> list[Measured]:
    """Measure everything that is asked about with the transformers held fixed."""
    most = np.nanmax([2.0, *(one.n_values for one in unknown)])
    cells: list[list[Cells]] = [[] for _ in unknown]
    for some in record_blocks(data.state, len(rows), most):
        block = HeldBlock.of(data, rows[some], unequal)
        for own, one in zip(cells, unknown, strict=True):
            own.append(block.cells(one))
    return [Measured(one, rows, Cells.of_all(own)) for one, own in zip(unknown, cells, strict=True)]


def counted(
    data: Inspected, unknown: Sequence[Unknown], rows: IntArray, named: bool
) -> list[Measured]:
    """Measure everything with what the transformers learned; by refits of all that were named."""
    started = process_time()
    Refits(data, rows).check()
    each = process_time() - started
    numbers = [part for one in unknown if one.is_number for part in one.parts]
    learned = Preprocessing.of(data, numbers)
    fits = sum(_fits(data, one, learned) for one in unknown)
    few = _to_refit(data, rows, each * fits, named, unknown)
    refits, found = Refits(data, few), []
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
    for some in record_blocks(data.state, len(rows), np.nan):
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
