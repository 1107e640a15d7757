"""Upper bounds on what any attacker can guess, lower bounds on reconstruction error."""

from skleak.bounds._fano import closed_form_fano_advantage, fano_advantage, renyi_fano_advantage
from skleak.bounds._generalization import generalization_gap_bound
from skleak.bounds._information import information_projection_advantage, renyi_projection_advantage
from skleak.bounds._membership import (
    membership_advantage_dp,
    membership_advantage_gdp,
    membership_lower_bound_bounded,
    membership_lower_bound_exponential,
    membership_lower_bound_subgaussian,
)
from skleak.bounds._prior import advantage_to_success, success_to_advantage
from skleak.bounds._reconstruction_robustness import reconstruction_robustness_advantage
from skleak.bounds._tradeoff import (
    gaussian_tradeoff_advantage,
    optimized_center,
    tradeoff_advantage,
)
from skleak.bounds.errors import (
    bayes_mse,
    cramer_rao_mse,
    fisher_information_loss_mse,
    hammersley_chapman_robbins_mse,
    van_trees_mse,
)
from skleak.bounds.neighbors import curve_advantage, dp_advantage, gdp_advantage

__all__ = [
    "advantage_to_success",
    "bayes_mse",
    "closed_form_fano_advantage",
    "cramer_rao_mse",
    "curve_advantage",
    "dp_advantage",
    "fano_advantage",
    "fisher_information_loss_mse",
    "gaussian_tradeoff_advantage",
    "gdp_advantage",
    "generalization_gap_bound",
    "hammersley_chapman_robbins_mse",
    "information_projection_advantage",
    "membership_advantage_dp",
    "membership_advantage_gdp",
    "membership_lower_bound_bounded",
    "membership_lower_bound_exponential",
    "membership_lower_bound_subgaussian",
    "optimized_center",
    "reconstruction_robustness_advantage",
    "renyi_fano_advantage",
    "renyi_projection_advantage",
    "success_to_advantage",
    "tradeoff_advantage",
    "van_trees_mse",
]
