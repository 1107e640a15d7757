"""Upper bounds on what any attacker can guess, lower bounds on reconstruction error."""

from skleak.bounds._fano import (
    closed_form_fano_advantage,
    fano_advantage,
    information_projection_advantage,
    reconstruction_robustness_advantage,
    renyi_fano_advantage,
    renyi_projection_advantage,
)
from skleak.bounds._membership import (
    generalization_gap_bound,
    membership_lower_bound_bounded,
    membership_lower_bound_exponential,
    membership_lower_bound_subgaussian,
)
from skleak.bounds._neighbors import curve_advantage, dp_advantage, gdp_advantage
from skleak.bounds._tradeoff import gaussian_tradeoff_advantage, tradeoff_advantage
from skleak.bounds.errors import (
    bayes_mse,
    cramer_rao_mse,
    hammersley_chapman_robbins_mse,
    van_trees_mse,
)
from skleak.utils import announce as _announce

__all__ = [
    "bayes_mse",
    "closed_form_fano_advantage",
    "cramer_rao_mse",
    "curve_advantage",
    "dp_advantage",
    "fano_advantage",
    "gaussian_tradeoff_advantage",
    "gdp_advantage",
    "generalization_gap_bound",
    "hammersley_chapman_robbins_mse",
    "information_projection_advantage",
    "membership_lower_bound_bounded",
    "membership_lower_bound_exponential",
    "membership_lower_bound_subgaussian",
    "reconstruction_robustness_advantage",
    "renyi_fano_advantage",
    "renyi_projection_advantage",
    "tradeoff_advantage",
    "van_trees_mse",
]

_announce(__name__)
