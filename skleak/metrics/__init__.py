"""Scores of attacks, intervals that respect shared noise, and verdicts against bounds."""

from skleak.metrics.intervals import binomial_interval, clustered_interval, mean_interval
from skleak.metrics.scores import (
    error_decomposition,
    generalization_gap,
    precision_at_recall,
)
from skleak.metrics.verdicts import records_above, verdict
from skleak.utils import announce as _announce

__all__ = [
    "binomial_interval",
    "clustered_interval",
    "error_decomposition",
    "generalization_gap",
    "mean_interval",
    "precision_at_recall",
    "records_above",
    "verdict",
]

_announce(__name__)
