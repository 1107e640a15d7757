"""Weights that balance leakage, and the total leakage of fits under them."""

from skleak.influence.reweighting._bound_path import follow_bound
from skleak.influence.reweighting._closed_system import ClosedSystem, Replacement
from skleak.influence.reweighting._fixed_point import equalize, relative_spread
from skleak.influence.reweighting._newton import newton_direction
from skleak.influence.reweighting._search import FitSearch, RecordSearch, factor_of
from skleak.influence.reweighting._total import (
    total_feature_norms,
    total_jacobian,
    total_joint_norm,
)
from skleak.influence.reweighting._total_derivative import fitted_derivative, reaches_fixed_point

__all__ = [
    "ClosedSystem",
    "FitSearch",
    "RecordSearch",
    "Replacement",
    "equalize",
    "factor_of",
    "fitted_derivative",
    "follow_bound",
    "newton_direction",
    "reaches_fixed_point",
    "relative_spread",
    "total_feature_norms",
    "total_jacobian",
    "total_joint_norm",
]
