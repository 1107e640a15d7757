"""What an adversary who tests membership knows, asks and computes."""

from skleak.adversary.membership._gradient_norms import norms_by, unwrapped
from skleak.adversary.membership._records import (
    as_membership,
    as_records,
    as_reference,
    as_targets,
    check_coding,
    released_models,
)
from skleak.adversary.membership._removals import removal_obstacle
from skleak.adversary.membership._scores import (
    Statistic,
    calibrated_threshold,
    classification_scores,
    finite,
    is_probabilistic,
    reference_rank,
    regression_scores,
)

__all__ = [
    "Statistic",
    "as_membership",
    "as_records",
    "as_reference",
    "as_targets",
    "calibrated_threshold",
    "check_coding",
    "classification_scores",
    "finite",
    "is_probabilistic",
    "norms_by",
    "reference_rank",
    "regression_scores",
    "released_models",
    "removal_obstacle",
    "unwrapped",
]
