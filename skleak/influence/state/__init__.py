"""The confidential state of a fit, as data: records, minimiser, shape of the noise, weights."""

from skleak.influence.state._batch import RecordBatch
from skleak.influence.state._queries import seen_through
from skleak.influence.state._rule import WeightRule
from skleak.influence.state._shape import NoiseShape
from skleak.influence.state._state import FitState

__all__ = [
    "FitState",
    "NoiseShape",
    "RecordBatch",
    "WeightRule",
    "seen_through",
]
