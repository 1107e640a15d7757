"""Noise with a covariance of its own, and what that covariance reveals."""

from skleak.influence.noise._covariance import inverse_hessian_root
from skleak.influence.noise._fitted import (
    fitted_noise,
    mean_factor,
    measuring_state,
    noise_covariance,
    noise_root,
)
from skleak.influence.noise._fixed import fixed_joint_loss, fixed_losses, per_noise
from skleak.influence.noise._groups import fixed_group_losses
from skleak.influence.noise._joint import covariance_joint_loss
from skleak.influence.noise._minimax_coordinates import (
    check_no_reweighting,
    influence_weights,
    squared_axes,
)
from skleak.influence.noise._minimax_shape import MinimaxShape, minimax_shape
from skleak.influence.noise._terms import (
    LossTerms,
    covariance_losses,
    information_terms,
    noise_scales,
)

__all__ = [
    "LossTerms",
    "MinimaxShape",
    "check_no_reweighting",
    "covariance_joint_loss",
    "covariance_losses",
    "fitted_noise",
    "fixed_group_losses",
    "fixed_joint_loss",
    "fixed_losses",
    "influence_weights",
    "information_terms",
    "inverse_hessian_root",
    "mean_factor",
    "measuring_state",
    "minimax_shape",
    "noise_covariance",
    "noise_root",
    "noise_scales",
    "per_noise",
    "squared_axes",
]
