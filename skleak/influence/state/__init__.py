"""The confidential state of a fit, as data: records, minimizer, shape of the noise, weights."""

from skleak.influence.state._partial import PartialState as PartialState
from skleak.influence.state._partial import partial_state as partial_state
from skleak.influence.state._partial import without_records as without_records
from skleak.influence.state._state import FITTED_SHAPES as FITTED_SHAPES
from skleak.influence.state._state import FitState as FitState
from skleak.influence.state._state import NoiseShape as NoiseShape
from skleak.influence.state._state import RecordBatch as RecordBatch
from skleak.influence.state._state import WeightRule as WeightRule
from skleak.influence.state._state import alone_in_class as alone_in_class
from skleak.influence.state._state import batches_by_group as batches_by_group
from skleak.influence.state._state import group_names as group_names
from skleak.influence.state._state import lone_classes as lone_classes
from skleak.influence.state._state import same_table as same_table
from skleak.influence.state._state import seen_through as seen_through
