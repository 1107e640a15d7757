"""What a release tells of the record or the number that is missing."""

from skleak.adversary.reconstruction._likeliest import (
    reconstruct_known,
    reconstruct_roots,
    reconstruct_unknown,
)
from skleak.adversary.reconstruction._missing import (
    MissingGradient,
    hessian_of,
    objective_of,
    weights_of,
)
from skleak.adversary.reconstruction._posterior import posterior_mean
from skleak.adversary.reconstruction._risk import NumberEncodings, mean_information

__all__ = [
    "MissingGradient",
    "NumberEncodings",
    "hessian_of",
    "mean_information",
    "objective_of",
    "posterior_mean",
    "reconstruct_known",
    "reconstruct_roots",
    "reconstruct_unknown",
    "weights_of",
]
