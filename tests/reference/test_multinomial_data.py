"""Many classes on real data: the ten digits of MNIST, and the occupations of Adult."""

from functools import partial

import numpy as np
import pytest
from helpers import peak_memory
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from skleak.datasets import fetch_adult, fetch_mnist
from skleak.influence import candidate_encodings
from skleak.linear_model import PrivateLogisticRegression

pytestmark = [pytest.mark.data, pytest.mark.slow]

SIGMA, ALPHA = 0.5, 1e-2


@pytest.fixture(scope="module")
def digits():
    """Ten digits on twenty principal axes, (60000, 20)."""
    return _or_skip(fetch_mnist, classes=None, preprocessing="pca20")


@pytest.fixture(scope="module")
def occupations():
    """Adult without its occupation, (30162, 73), and the occupation, of 14 kinds."""
    raw, table = _or_skip(fetch_adult), _or_skip(fetch_adult, encoded=True)
    others = [name for name in table[0] if not name.startswith("occupation")]
    return table[0][others], raw[0]["occupation"].astype(str)


def _or_skip(fetch, **options):
    try:
        return fetch(return_X_y=True, download_if_missing=False, **options)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=["digits", "occupations"])
def fit(request):
    X, y = request.getfixturevalue(request.param)
    X, y = np.asarray(X), np.asarray(y)
    return PrivateLogisticRegression(SIGMA, alpha=ALPHA).fit(X, y), X, y


def test_leakage_equals_that_of_dense_matrices(fit, rng):
    model, X, y = fit
    codes = np.searchsorted(model.classes_, y).astype(float)
    rows = rng.choice(len(codes), 200, replace=False)
    d = X.shape[1]
    jacobians = model._state.factor.jacobian(X[rows], codes[rows]) / SIGMA
    found = model.fisher_information_loss_[rows]
    assert_allclose(found, np.linalg.norm(jacobians, 2, axis=(1, 2)), rtol=1e-8)
    size = np.sqrt(jacobians.shape[2])
    found = model.diagonal_fisher_information_loss_[rows]
    assert_allclose(found, np.linalg.norm(jacobians, axis=(1, 2)) / size, rtol=1e-8)
    table = model.fisher_information_loss(X[rows], y[rows], per="feature")
    assert_allclose(table, np.linalg.norm(jacobians[:, :, :d], axis=1), rtol=1e-8)


def test_the_whole_data_set(fit, rng):
    model, X, y = fit
    rows = rng.choice(len(y), 40, replace=False)
    X, y = X[rows], y[rows]
    codes = np.searchsorted(model.classes_, y).astype(float)
    jacobians = model._state.factor.jacobian(X, codes) / SIGMA
    expected = np.linalg.norm(np.concatenate(list(jacobians), axis=1), 2)
    found = model.fisher_information_loss(X, y, per="dataset")
    assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.exhaustive
def test_memory_of_all_records(fit):
    model, X, _ = fit
    # Dense Jacobians of all records would take 2.9 GB for the digits and 21 GB for Adult.
    for per in ("record", "dataset"):
        peak = peak_memory(partial(model.fisher_information_loss, per=per))
        assert peak < 300e6 + 8.0 * X.size


@pytest.mark.exhaustive
def test_the_digits_are_those_of_scikit_learn(digits):
    X, y = digits
    model = PrivateLogisticRegression(0, alpha=ALPHA).fit(X, y)
    strength = 1.0 / (len(y) * ALPHA)
    expected = LogisticRegression(C=strength, tol=1e-10, max_iter=300, solver="newton-cg")
    expected.fit(X, y)
    assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    assert model.score(X, y) == expected.score(X, y)


def test_encodings_of_a_census_record(occupations):
    X, y = (part.head(2000) for part in occupations)
    kept = X.columns[X.nunique() > 1]
    X, common = X[kept], y.isin(y.value_counts().index[:6])
    X, y = X[common], y[common]
    model = PrivateLogisticRegression(SIGMA, alpha=ALPHA).fit(X, y)
    rows = [3, 700]
    encodings = candidate_encodings(model, X.iloc[rows], y.iloc[rows], "married", [0.0, 1.0])
    for i, row in enumerate(rows):
        for m, value in enumerate((0.0, 1.0)):
            changed = X.copy()
            changed.iloc[row, changed.columns.get_loc("married")] = value
            again = PrivateLogisticRegression(0, alpha=ALPHA).fit(changed, y)
            expected = np.concatenate([again.coef_.ravel(), again.intercept_])
            assert_allclose(encodings[i, m], expected, atol=1e-9)
