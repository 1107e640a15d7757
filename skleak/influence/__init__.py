"""Fisher information of a fitted linear model, from its d x d factor and blocks of records."""

from skleak.influence._bound_path import follow_bound
from skleak.influence._covariance_minimax import MinimaxShape, minimax_shape
from skleak.influence._covariance_refit import candidate_inverse_hessians
from skleak.influence._covariance_terms import LossTerms
from skleak.influence._curvature_noise import curvature_noise_scales
from skleak.influence._factor import FitFactor
from skleak.influence._fisher import Columns, feature_norms, joint_norm, record_norms
from skleak.influence._multinomial import MultinomialFactor
from skleak.influence._newton_weights import NewtonDirection, newton_direction
from skleak.influence._noise_shape import NoiseShape
from skleak.influence._participation import Participation
from skleak.influence._refit import candidate_encodings
from skleak.influence._reweighting import Equalized, equalize, relative_spread
from skleak.influence._secular import largest_eigenvalue
from skleak.influence._shape_refit import candidate_shapes
from skleak.influence._state import FitState
from skleak.influence._total import total_jacobian
from skleak.influence._total_derivative import TotalDerivative, total_derivative
from skleak.influence._weight_rule import WeightRule

__all__ = [
    "Columns",
    "Equalized",
    "FitFactor",
    "FitState",
    "LossTerms",
    "MinimaxShape",
    "MultinomialFactor",
    "NewtonDirection",
    "NoiseShape",
    "Participation",
    "TotalDerivative",
    "WeightRule",
    "candidate_encodings",
    "candidate_inverse_hessians",
    "candidate_shapes",
    "curvature_noise_scales",
    "equalize",
    "feature_norms",
    "follow_bound",
    "joint_norm",
    "largest_eigenvalue",
    "minimax_shape",
    "newton_direction",
    "record_norms",
    "relative_spread",
    "total_derivative",
    "total_jacobian",
]
