"""The confidential state of a fit, as data: records, minimiser, shape of the noise, weights."""

from skleak.influence.state._batch import RecordBatch, batches_by_group
from skleak.influence.state._classes import alone_in_class, lone_classes
from skleak.influence.state._outside import same_table
from skleak.influence.state._partial import PartialState, partial_state, without_records
from skleak.influence.state._queries import seen_through
from skleak.influence.state._rule import WeightRule
from skleak.influence.state._shape import NoiseShape
from skleak.influence.state._state import FitState

__all__ = [
    "FitState",
    "NoiseShape",
    "PartialState",
    "RecordBatch",
    "WeightRule",
    "alone_in_class",
    "batches_by_group",
    "lone_classes",
    "partial_state",
    "same_table",
    "seen_through",
    "without_records",
]
