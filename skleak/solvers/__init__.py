"""Minimization of a weighted, regularized empirical risk to round-off. Internal."""

from skleak.solvers._erm import Minimum as Minimum
from skleak.solvers._erm import SingularHessianError as SingularHessianError
from skleak.solvers._erm import is_minimum as is_minimum
from skleak.solvers._erm import is_settled as is_settled
from skleak.solvers._erm import minimize as minimize
from skleak.solvers._implicit import ImplicitHessian as ImplicitHessian
from skleak.solvers._implicit import ImplicitInverse as ImplicitInverse
from skleak.solvers._implicit import SlowConvergenceError as SlowConvergenceError
from skleak.solvers._implicit import least_eigenvalue as least_eigenvalue
from skleak.solvers._multinomial import MultinomialObjective as MultinomialObjective
from skleak.solvers._multinomial import by_class as by_class
from skleak.solvers._objective import HessianFactor as HessianFactor
from skleak.solvers._objective import LargeSums as LargeSums
from skleak.solvers._objective import Moments as Moments
from skleak.solvers._objective import Objective as Objective
from skleak.solvers._objective import block_sums as block_sums
