"""Records without which a release would have other classes: those that alone carry a label."""

import numpy as np

from skleak.influence.state._state import FitState
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import BoolArray, FloatArray, IntArray


def alone_in_class(state: FitState, rows: IntArray) -> BoolArray:
    """Mask of the training records, by positions (n,), with which a class would be gone.

    Where classes are read off the labels, the classes of a release tell of the only record of one,
    whatever the noise. Where they were declared, nobody is alone.
    """
    alone = state.once(lone_classes)
    if not len(alone):
        return np.zeros(len(rows), dtype=bool)
    some = state.objective.parts(rows)
    return np.isin(some.y, alone) & (some.sample_weight > 0.0)


def lone_classes(state: FitState) -> FloatArray:
    """Labels, in numbers, that one training record of some weight has, (k,); none if declared."""
    if not state.reads_classes:
        return np.empty(0)
    several = int(getattr(state.objective, "n_classes", 2))

    def count(y: FloatArray, s: FloatArray) -> FloatArray:
        return np.bincount(y[s > 0.0].astype(np.intp), minlength=several).astype(float)

    records = state.objective.y, state.objective.sample_weight
    counts = Blocks.of(*records, width=1).map_reduce(count, add)
    return np.flatnonzero(counts == 1.0).astype(float)
