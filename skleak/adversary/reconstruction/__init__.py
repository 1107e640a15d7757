"""What the gradient that a release lacks tells of the record that is missing."""

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

__all__ = [
    "MissingGradient",
    "hessian_of",
    "objective_of",
    "reconstruct_known",
    "reconstruct_roots",
    "reconstruct_unknown",
    "weights_of",
]
