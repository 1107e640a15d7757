"""Scores of attacks, intervals that respect shared noise, and verdicts against bounds."""

from skleak.metrics._generalization import GeneralizationGap, generalization_gap
from skleak.metrics._intervals import Interval, binomial_interval, clustered_interval, mean_interval
from skleak.metrics._multiplicity import (
    group_p_value,
    multiplicity_correction,
    p_value_exceeds,
    simultaneous_confidence_level,
)
from skleak.metrics._power import detectable_excess
from skleak.metrics._precision import precision_at_recall
from skleak.metrics._record_losses import record_losses
from skleak.metrics._records_above import RecordsAbove, records_above
from skleak.metrics._scores import (
    ErrorDecomposition,
    attack_advantage,
    attack_success,
    error_decomposition,
    prior_success,
    squared_errors,
)
from skleak.metrics._verdict import BIASED, CONSISTENT, EXCEEDED, INCOMPARABLE, VACUOUS, verdict

__all__ = [
    "BIASED",
    "CONSISTENT",
    "EXCEEDED",
    "INCOMPARABLE",
    "VACUOUS",
    "ErrorDecomposition",
    "GeneralizationGap",
    "Interval",
    "RecordsAbove",
    "attack_advantage",
    "attack_success",
    "binomial_interval",
    "clustered_interval",
    "detectable_excess",
    "error_decomposition",
    "generalization_gap",
    "group_p_value",
    "mean_interval",
    "multiplicity_correction",
    "p_value_exceeds",
    "precision_at_recall",
    "prior_success",
    "record_losses",
    "records_above",
    "simultaneous_confidence_level",
    "squared_errors",
    "verdict",
]
