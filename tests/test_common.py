"""scikit-learn's own checks of an estimator: all of them, none expected to fail."""

import pytest
from helpers import assert_scikit_learn_checks_pass, mostly_slow

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
    {"reweighting": IRFIL(max_iter=5)},
    {"reweighting": EvenTotal(max_iter=5)},
    {"private_target": False},
    {"noise_covariance": "curvature"},
    {"noise_covariance": "minimax"},
]
pytestmark = pytest.mark.filterwarnings(
    "ignore:The reweighting stopped:sklearn.exceptions.ConvergenceWarning",
    "ignore::skleak.exceptions.PrivacyLeakWarning",  # the checks pickle what they fit
    "ignore:Can't check dok sparse matrix",
)


@pytest.mark.parametrize("cls", mostly_slow(ESTIMATORS))
def test_scikit_learn_checks(cls):
    assert_scikit_learn_checks_pass(cls())


@pytest.mark.slow
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_scikit_learn_checks_under_every_option(cls):
    for options in OPTIONS:
        assert_scikit_learn_checks_pass(cls(**options))
