"""What a fit tells about columns and about membership: from arrays to arrays and tables."""

from skleak.reports.measures._losses import loss_table
from skleak.reports.measures._separation import Separation, averaged_information, prior_ends

__all__ = ["Separation", "averaged_information", "loss_table", "prior_ends"]
