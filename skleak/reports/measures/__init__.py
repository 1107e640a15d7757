"""What a fit tells about columns and about membership: from arrays to arrays and tables."""

from skleak.reports.measures._losses import loss_table
from skleak.reports.measures._separation import (
    GOAL,
    Separation,
    Separator,
    averaged_information,
    prior_ends,
)
from skleak.reports.measures._unknown import target
from skleak.reports.measures._unprotected import unprotected_column

__all__ = [
    "GOAL",
    "Separation",
    "Separator",
    "averaged_information",
    "loss_table",
    "prior_ends",
    "target",
    "unprotected_column",
]
