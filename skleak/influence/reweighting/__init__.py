"""Weights that balance leakage, and the total leakage of fits under them."""

from skleak.influence.reweighting._bound_path import follow_bound
from skleak.influence.reweighting._fixed_point import Equalized, equalize, relative_spread
from skleak.influence.reweighting._newton import NewtonDirection, newton_direction
from skleak.influence.reweighting._rule import WeightRule
from skleak.influence.reweighting._total import total_jacobian
from skleak.influence.reweighting._total_derivative import TotalDerivative, total_derivative

__all__ = [
    "Equalized",
    "NewtonDirection",
    "TotalDerivative",
    "WeightRule",
    "equalize",
    "follow_bound",
    "newton_direction",
    "relative_spread",
    "total_derivative",
    "total_jacobian",
]
