"""scikit-learn's own checks of an estimator: all of them, none expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skleak.linear_model import (
    IRFIL,
    EvenTotal,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
# The checks fit on data sets that no weights balance: what is warned about is not what is tested.
OPTIONS = [
    {},
    {"reweighting": IRFIL(max_iter=5)},
    {"reweighting": EvenTotal(max_iter=5)},
    {"private_target": False},
    {"noise_covariance": "curvature"},
    {"noise_covariance": "minimax"},
]


@pytest.mark.filterwarnings(
    "ignore:The reweighting stopped:sklearn.exceptions.ConvergenceWarning",
    "ignore::skleak.exceptions.PrivacyLeakWarning",  # the checks pickle what they fit
    "ignore:Can't check dok sparse matrix",
)
@parametrize_with_checks([cls(**options) for cls in ESTIMATORS for options in OPTIONS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
