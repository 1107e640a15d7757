"""Norms of influence Jacobians, from the d x d factor that a fit leaves behind."""

from skleak.influence.jacobian._factor import Columns as Columns
from skleak.influence.jacobian._factor import FitFactor as FitFactor
from skleak.influence.jacobian._factor import JacobianParts as JacobianParts
from skleak.influence.jacobian._factor import JointParts as JointParts
from skleak.influence.jacobian._factor import Norm as Norm
from skleak.influence.jacobian._factor import feature_norms as feature_norms
from skleak.influence.jacobian._factor import joint_norm as joint_norm
from skleak.influence.jacobian._factor import joint_parts as joint_parts
from skleak.influence.jacobian._factor import largest_eigenvalue as largest_eigenvalue
from skleak.influence.jacobian._factor import norm_of_joint as norm_of_joint
from skleak.influence.jacobian._factor import norms_of_fits as norms_of_fits
from skleak.influence.jacobian._factor import norms_of_jacobians as norms_of_jacobians
from skleak.influence.jacobian._factor import record_norms as record_norms
from skleak.influence.jacobian._multinomial import MultinomialFactor as MultinomialFactor
from skleak.influence.jacobian._wide import WideFactor as WideFactor
