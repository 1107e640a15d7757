"""Weights that balance leakage, and the total leakage of fits under them."""

from skleak.influence.reweighting._closed_system import ClosedSystem as ClosedSystem
from skleak.influence.reweighting._closed_system import Replacement as Replacement
from skleak.influence.reweighting._search import FitSearch as FitSearch
from skleak.influence.reweighting._search import RecordSearch as RecordSearch
from skleak.influence.reweighting._search import equalize as equalize
from skleak.influence.reweighting._search import newton_direction as newton_direction
from skleak.influence.reweighting._search import relative_spread as relative_spread
from skleak.influence.reweighting._total import fitted_derivative as fitted_derivative
from skleak.influence.reweighting._total import hand_on_derivative as hand_on_derivative
from skleak.influence.reweighting._total import reaches_fixed_point as reaches_fixed_point
from skleak.influence.reweighting._total import total_feature_norms as total_feature_norms
from skleak.influence.reweighting._total import total_jacobian as total_jacobian
from skleak.influence.reweighting._total import total_joint_norm as total_joint_norm
