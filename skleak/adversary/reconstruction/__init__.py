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
from skleak.adversary.reconstruction._posterior import (
    basis,
    grid_mean,
    places,
    posterior_mean,
    prior_grid,
)
from skleak.adversary.reconstruction._risk import NumberEncodings, mean_information

__all__ = [
    "MissingGradient",
    "NumberEncodings",
    "basis",
    "grid_mean",
    "hessian_of",
    "mean_information",
    "objective_of",
    "places",
    "posterior_mean",
    "prior_grid",
    "reconstruct_known",
    "reconstruct_roots",
    "reconstruct_unknown",
    "weights_of",
]
