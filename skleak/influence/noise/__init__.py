"""Noise with a covariance of its own, and what that covariance reveals."""

from skleak.influence.noise._minimax_shape import Counting as Counting
from skleak.influence.noise._minimax_shape import inverse_hessian_root as inverse_hessian_root
from skleak.influence.noise._minimax_shape import minimax_shape as minimax_shape
from skleak.influence.noise._minimax_shape import triangular_root as triangular_root
from skleak.influence.noise._noise import covariance_joint_loss as covariance_joint_loss
from skleak.influence.noise._noise import fitted_noise as fitted_noise
from skleak.influence.noise._noise import fixed_group_losses as fixed_group_losses
from skleak.influence.noise._noise import fixed_joint_loss as fixed_joint_loss
from skleak.influence.noise._noise import fixed_losses as fixed_losses
from skleak.influence.noise._noise import mean_factor as mean_factor
from skleak.influence.noise._noise import measuring_state as measuring_state
from skleak.influence.noise._noise import noise_covariance as noise_covariance
from skleak.influence.noise._noise import noise_root as noise_root
from skleak.influence.noise._noise import per_noise as per_noise
from skleak.influence.noise._terms import LossTerms as LossTerms
from skleak.influence.noise._terms import covariance_losses as covariance_losses
from skleak.influence.noise._terms import information_terms as information_terms
from skleak.influence.noise._terms import noise_scales as noise_scales
