"""scikit-learn's own checks of a transformer: all of them, none expected to fail."""

import pytest
from helpers import assert_scikit_learn_checks_pass, mostly_slow

from skleak.mechanisms import GaussianDP
from skleak.preprocessing import (
    PrivateOneHotEncoder,
    PrivateScaler,
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    PublicTargetScaler,
    RowNormClipper,
)

# An imputer of texts returns objects, which the checks cannot compare: see test_imputation.py.
TRANSFORMERS = [
    PublicScaler(bounds=(0, 1)),
    PublicScaler(bounds=(-3, 3), feature_range=(0, 1)),
    PublicTargetScaler(bounds=(-1, 1)),
    PublicOneHotEncoder(categories=[0, 1, 2]),
    PublicOneHotEncoder(categories=[0, 1, None], drop="first", sparse_output=True),
    PublicImputer(values=0.0),
    PublicImputer(values=1, add_indicator=True),
    RowNormClipper(norm=1.0),
    PublicOneHotEncoder(categories=[0, 1, 2], handle_unknown="other"),
    PrivateScaler(GaussianDP(1.0), bounds=(-3, 3)),
    PrivateOneHotEncoder(GaussianDP(1.0, delta=0.01), sparse_output=True),
]


@pytest.mark.filterwarnings(
    "ignore:No value of column",  # the checks draw from the normal distribution
    "ignore:Found unknown categories",
    "ignore:Can't check dok sparse matrix",
)
@pytest.mark.parametrize("transformer", mostly_slow(TRANSFORMERS), ids=repr)
def test_scikit_learn_checks(transformer):
    assert_scikit_learn_checks_pass(transformer)
