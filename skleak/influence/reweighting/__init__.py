"""Weights that balance leakage, and the total leakage of fits under them."""

from skleak.influence.reweighting._bound_path import follow_bound
from skleak.influence.reweighting._fixed_point import Equalized, equalize, relative_spread
from skleak.influence.reweighting._newton import NewtonDirection, newton_direction
from skleak.influence.reweighting._total import total_jacobian
from skleak.influence.reweighting._total_derivative import TotalDerivative, fitted_derivative

__all__ = [
    "Equalized",
    "NewtonDirection",
    "TotalDerivative",
    "equalize",
    "fitted_derivative",
    "follow_bound",
    "newton_direction",
    "relative_spread",
    "total_jacobian",
]
