"""The guarantee of a whole pipeline: one raw record moves the model no further than is said."""

import numpy as np
import pytest
from helpers import mostly_slow
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.linear_model import PrivateLogisticRegression
from skleak.mechanisms import GaussianDP
from skleak.preprocessing import (
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    RowNormClipper,
)

NUMBERS, WORDS = ["age", "weight"], ["gene", "smoker"]
CATEGORIES = {"gene": ["AA", "AB", "BB"], "smoker": ["no", "yes", None]}
N = 60


def _preparation(numbers=None, *, sparse_output=False):
    numbers = numbers or PublicScaler([(18, 100), (30, 200)])
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(PublicImputer([50, 75]), numbers), NUMBERS),
            ("words", PublicOneHotEncoder(CATEGORIES, sparse_output=sparse_output), WORDS),
        ],
        sparse_threshold=1.0 if sparse_output else 0.0,
    )
    return make_pipeline(columns, RowNormClipper(1.0))


def _model(noise):
    promises = {"data_norm": 1.0, "classes": [0, 1], "public": ("n_samples",)}
    promises |= {"mechanism": "output"}
    return PrivateLogisticRegression(noise, alpha=0.02, fit_intercept=False, **promises)


def _coefficients(preparation, X, y):
    return make_pipeline(clone(preparation), _model(0.0)).fit(X, y)[-1].coef_.ravel()


def _target(X):
    return np.asarray(X["weight"] > 75.0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("n_records", [40, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sparse_output", mostly_slow([False, True], 1))
def test_no_raw_record_moves_the_model_beyond_its_sensitivity(
    n_records, sparse_output, rng, make_patients, strange_records
):
    X = make_patients(rng, N)
    y, preparation = _target(X), _preparation(sparse_output=sparse_output)
    pipeline = make_pipeline(preparation, _model(GaussianDP(1.0))).fit(X, y)
    assert sparse.issparse(pipeline[:-1].transform(X)) == sparse_output
    guarantee = pipeline[-1].leakage_report().differential_privacy
    assert guarantee.holds
    assert guarantee.mu == pytest.approx(1.0, rel=1e-6)
    exact = _coefficients(preparation, X, y)
    records, moves = strange_records(rng, n_records), []
    for record in records.itertuples(index=False):
        neighbor, labels = X.copy(), y.copy()
        row = rng.integers(N)
        neighbor.iloc[row] = list(record)
        labels[row] = rng.integers(2)
        moves.append(np.linalg.norm(_coefficients(preparation, neighbor, labels) - exact))
    assert max(moves) <= guarantee.sensitivity
    assert max(moves) > guarantee.sensitivity / 50.0  # the records are not harmless


def test_the_attack_succeeds_against_a_scaler_that_is_fitted(rng, make_patients):
    """A fitted scaler in the same place, and one extreme record: the stated bound is passed."""
    X = make_patients(rng, N)
    y, preparation = _target(X), _preparation(StandardScaler())
    pipeline = make_pipeline(preparation, _model(GaussianDP(1.0))).fit(X, y)
    guarantee = pipeline[-1].leakage_report().differential_privacy
    neighbor = X.copy()
    neighbor.loc[0, NUMBERS] = [1e6, 1e6]
    exact = _coefficients(preparation, X, y)
    move = np.linalg.norm(_coefficients(preparation, neighbor, y) - exact)
    assert move > guarantee.sensitivity
