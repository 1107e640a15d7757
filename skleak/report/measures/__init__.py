"""What a fit tells about columns and about membership: from arrays to arrays and tables."""

from skleak.report.measures._features import column_row, ranked
from skleak.report.measures._gain import LITTLE, RARE
from skleak.report.measures._histogram import loss_histogram
from skleak.report.measures._losses import loss_table
from skleak.report.measures._separation import (
    GOAL,
    MOST_WORK,
    Separation,
    Separator,
    averaged_information,
    prior_ends,
)
from skleak.report.measures._unknown import (
    Unknown,
    classes_of,
    column_unknown,
    distinct,
    target,
    target_unknown,
)
from skleak.report.measures._unprotected import unprotected_column

__all__ = [
    "GOAL",
    "LITTLE",
    "MOST_WORK",
    "RARE",
    "Separation",
    "Separator",
    "Unknown",
    "averaged_information",
    "classes_of",
    "column_row",
    "column_unknown",
    "distinct",
    "loss_histogram",
    "loss_table",
    "prior_ends",
    "ranked",
    "target",
    "target_unknown",
    "unprotected_column",
]
