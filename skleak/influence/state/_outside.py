"""Records to measure where they, or those that a model was fitted on, lie outside memory."""

from functools import partial
from typing import Any

import numpy as np

from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, positions_of
from skleak.utils._optional import dask_module
from skleak.utils._rows import row_keys
from skleak.utils._typing import Array, Data, FloatArray, IntArray
from skleak.utils.blocks._dask import is_large


def same_table(X: Any, y: Any, objective: Objective) -> bool:
    """Return True for the Dask arrays that an objective has: the same computation of each."""
    if not (is_large(X) and is_large(objective.X)):
        return False
    own: Any = objective.y
    return bool(X.name == objective.X.name and y.name == own.name)


def parts_outside(objective: Objective, X: Data, y: Any, *, weighted: bool) -> tuple[Any, Any]:
    """Weight and reweighting factor in the fit of each record, (n,); weight 0 where it had none.

    Records are found by value. Of equal training rows the one that counts most is meant. With
    ``weighted=False`` all rows count the same, and it does not matter which is which.
    """
    if not weighted:
        ones = _ones(X)
        return ones, ones
    training = objective.X, objective.y, objective.sample_weight, objective.reweights
    if not is_large(objective.X):
        known = _known(*training)
        found = Blocks.of(X, y).map(_matched, known)
    elif not is_large(X):
        keys = _sorted_keys(X, y)
        best = Blocks.of(*training, width=0).map_reduce(_matches, _better, keys)
        found = _at(best, keys, row_keys(X, y))
    else:
        found = _pairs(training, X, y)
    return found[:, 0], found[:, 1]


def rows_outside(objective: Objective, X: Data, y: FloatArray) -> IntArray:
    """Positions in training records outside memory of records that are not, -1 where unknown, (n,).

    Found by value; of equal training rows the one that counts most, and the first of these.
    """
    keys = _sorted_keys(X, y)
    training = objective.X, objective.y, objective.sample_weight, objective.reweights
    blocks = Blocks.of(*training, positions_of(objective.X), width=0)
    best = blocks.map_reduce(_places, _better, keys)
    found = _at(best, keys, row_keys(X, y))
    return np.where(found[:, 0] > 0.0, found[:, 2], -1.0).astype(np.intp)


def _places(
    X: Data, y: FloatArray, s: FloatArray, omega: FloatArray, position: IntArray, keys: Array
) -> FloatArray:
    """Weight, one, and position of training records of a block at the keys of records, (k, 3)."""
    own = row_keys(X, y)
    order = np.lexsort((position, -(s * omega), own))
    own, first = np.unique(own[order], return_index=True)
    order = order[first]
    return _at(np.column_stack([s * omega, np.ones(len(s)), position])[order], own, keys)


def _ones(X: Data) -> Any:
    if not is_large(X):
        return np.ones(X.shape[0])
    return dask_module("dask.array").ones(X.shape[0], chunks=(X.chunks[0],))


def _known(X: Data, y: FloatArray, s: FloatArray, omega: FloatArray) -> tuple[Array, FloatArray]:
    """Ascending keys of some training records, once each, and their weights and factors (k, 2)."""
    return _distinct(row_keys(X, y), np.column_stack([s, omega]))


def _distinct(keys: Array, parts: FloatArray) -> tuple[Array, FloatArray]:
    """Ascending keys, once each, and of equal ones the parts (k, 2) that count most."""
    order = np.lexsort((-(parts[:, 0] * parts[:, 1]), keys))
    keys, first = np.unique(keys[order], return_index=True)
    return keys, parts[order[first]]


def _sorted_keys(X: Data, y: FloatArray) -> Array:
    return np.unique(row_keys(X, y))


def _at(parts: FloatArray, keys: Array, wanted: Array) -> FloatArray:
    """Parts (k, m) that belong to keys (k,), at the keys that are wanted; zeros for unknown ones.

    Returns (n, m).
    """
    if not len(keys):
        return np.zeros((len(wanted), parts.shape[1]))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[at] == wanted)[:, None], parts[at], 0.0)


def _matched(X: Data, y: FloatArray, known: tuple[Array, FloatArray]) -> FloatArray:
    return _at(known[1], known[0], row_keys(X, y))


def _matches(X: Data, y: FloatArray, s: FloatArray, omega: FloatArray, keys: Array) -> FloatArray:
    """Parts of training records of a block at the keys of records to measure, (k, 2)."""
    known, parts = _known(X, y, s, omega)
    return _at(parts, known, keys)


def _better(parts: FloatArray, other: FloatArray) -> FloatArray:
    """Of two parts (k, 2) of each record those that count most."""
    more = other[:, 0] * other[:, 1] > parts[:, 0] * parts[:, 1]
    return np.where(more[:, None], other, parts)


def _pairs(training: tuple[Any, ...], X: Any, y: Any) -> Any:
    """Look each block of records up in all blocks of training records, lazily, (n, 2)."""
    array = dask_module("dask.array")
    # As bits: keys are 64-bit integers, in one table with numbers.
    known = Blocks.of(*training, width=0).map(_as_table)
    keys = Blocks.of(X, y, width=0).map(row_keys)
    options = {"concatenate": None, "align_arrays": False}
    found = array.blockwise(
        _look_up, "ij", keys, "i", known, "jk", dtype=object, meta=np.empty((0, 0), object),
        **options,
    )  # fmt: skip
    return array.blockwise(
        _best, "ik", found, "ij", new_axes={"k": 2}, dtype=np.float64, meta=np.empty((0, 0)),
        **options,
    )  # fmt: skip


def _as_table(X: Data, y: FloatArray, s: FloatArray, omega: FloatArray) -> FloatArray:
    keys = row_keys(X, y)
    return np.column_stack([keys.view(np.float64), s, omega])


def _look_up(keys: Array, known: Any) -> FloatArray:
    """Parts of the records of one block as one block of training records has them, (n, 2)."""
    (table,) = known if isinstance(known, list) else (known,)
    own, parts = _distinct(np.ascontiguousarray(table[:, 0]).view(keys.dtype), table[:, 1:])
    return _at(parts, own, keys)


def _best(parts: list[FloatArray]) -> FloatArray:
    result = parts[0]
    for other in parts[1:]:
        result = _better(result, other)
    return result


def balanced_weights(rule: Any, factor: Any, level: float, X: Data, y: Any) -> Any:
    """Factors that the rule of a reweighting would give to records, (n,)."""
    return Blocks.of(X, y).map(partial(_balanced, rule, factor, level))


def _balanced(rule: Any, factor: Any, level: float, X: Data, y: FloatArray) -> FloatArray:
    found: FloatArray = rule.weights(rule.norms(factor, X, y), level)
    return found
