"""Norms of gradients per record, against finite differences in every parameter."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logsumexp
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.adversary.membership import gradient_norms
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

STEP = 1e-6
ACTIVATIONS = ["identity", "logistic", "tanh", "relu"]


def data(rng, kind, n=25, d=3):
    X = rng.normal(size=(n, d))
    if kind == "number":
        return X, X @ np.arange(1.0, d + 1) + rng.normal(size=n)
    if kind == "count":
        return X, rng.poisson(np.exp(0.3 * X[:, 0])).astype(float)
    names = np.array(["a", "b", "c"][: 2 if kind == "binary" else 3])
    return X, names[np.arange(n) % len(names)]


def cross_entropy(a, codes):
    """From predictors, of one column for two classes."""
    if a.ndim == 1 or a.shape[1] == 1:
        sign = np.where(codes == 1, 1.0, -1.0)
        return -np.log(expit(sign * a.ravel()))
    return logsumexp(a, axis=1) - a[np.arange(len(a)), codes]


def squared(a, y):
    return 0.5 * (a.ravel() - y) ** 2


def poisson(a, y):
    return np.exp(a.ravel()) - y * a.ravel()


def difference_norms(loss, arrays):
    """Norms of central differences of ``loss()`` in every entry of the arrays, one a record."""
    squares = 0.0
    for array in arrays:
        flat = array.reshape(-1)
        for j in range(flat.size):
            kept = flat[j]
            flat[j] = kept + STEP
            above = loss()
            flat[j] = kept - STEP
            below = loss()
            flat[j] = kept
            squares = squares + ((above - below) / (2.0 * STEP)) ** 2
    return np.sqrt(squares)


LINEAR = [
    (LinearRegression(), "number", squared),
    (LinearRegression(fit_intercept=False), "number", squared),
    (Ridge(2.0), "number", squared),
    (LogisticRegression(), "binary", cross_entropy),
    (LogisticRegression(fit_intercept=False), "binary", cross_entropy),
    (LogisticRegression(), "multi", cross_entropy),
    (PoissonRegressor(), "count", poisson),
    (PrivateLinearRegression(0.1, random_state=0), "number", squared),
    (PrivateLogisticRegression(0.1, random_state=0), "binary", cross_entropy),
    (PrivateLogisticRegression(0.1, random_state=0), "multi", cross_entropy),
    (PrivateLogisticRegression(0.1, random_state=0, fit_intercept=False), "multi", cross_entropy),
    (PrivatePoissonRegressor(0.1, random_state=0), "count", poisson),
]


def codes_of(model, y):
    return np.searchsorted(model.classes_, y) if hasattr(model, "classes_") else y


@pytest.mark.parametrize("estimator, kind, loss", LINEAR)
def test_linear_models_against_differences(estimator, kind, loss, rng):
    X, y = data(rng, kind)
    model = estimator.fit(X, y)
    target = codes_of(model, y)
    coef = np.atleast_2d(model.coef_).copy()
    intercept = np.atleast_1d(np.asarray(model.intercept_, dtype=float)).copy()
    arrays = [coef, intercept] if model.fit_intercept else [coef]
    expected = difference_norms(lambda: loss(X @ coef.T + intercept, target), arrays)
    found = gradient_norms(model, X, y)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(gradient_norms(model, sparse.csr_array(X), y), found, rtol=1e-12)
    if hasattr(model, "release"):
        with pytest.warns(PrivacyLeakWarning):  # an integer seed
            released = model.release()
        np.testing.assert_allclose(gradient_norms(released, X, y), found, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["number", "count", "binary", "multi"])
@pytest.mark.parametrize("hidden", [(4,), (4, 3)])
def test_networks_against_differences(activation, kind, hidden, rng):
    X, y = data(rng, kind)
    options = {"activation": activation, "random_state": 0, "max_iter": 40, "solver": "lbfgs"}
    if kind in ("number", "count"):
        if kind == "count":
            options["loss"] = "poisson"
        model, loss = (
            MLPRegressor(hidden_layer_sizes=hidden, **options),
            squared if kind == "number" else poisson,
        )
    else:
        model, loss = MLPClassifier(hidden, **options), cross_entropy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    target = codes_of(model, y)
    forward = {
        "identity": lambda z: z,
        "logistic": expit,
        "tanh": np.tanh,
        "relu": lambda z: np.maximum(z, 0.0),
    }[activation]

    def predictors():
        a = X
        for layer, (weights, intercept) in enumerate(
            zip(model.coefs_, model.intercepts_, strict=True)
        ):
            a = a @ weights + intercept
            if layer < len(model.coefs_) - 1:
                a = forward(a)
        return a

    expected = difference_norms(
        lambda: loss(predictors(), target), [*model.coefs_, *model.intercepts_]
    )
    found = gradient_norms(model, X, y)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * expected.max())
    np.testing.assert_allclose(gradient_norms(model, sparse.csr_array(X), y), found, rtol=1e-10)


def test_blocks_of_a_wide_network_agree(rng, monkeypatch):
    X, y = data(rng, "multi", n=40)
    model = MLPClassifier((5,), random_state=0, max_iter=500, tol=1e-2).fit(X, y)
    whole = gradient_norms(model, X, y)
    monkeypatch.setattr(
        "skleak.adversary.membership.row_blocks",
        lambda n, width: [slice(i, i + 7) for i in range(0, n, 7)],
    )
    np.testing.assert_allclose(gradient_norms(model, X, y), whole, rtol=1e-12)


def test_pipelines_searches_and_frozen_models(rng):
    X, y = data(rng, "binary", n=40)
    scaler = StandardScaler().fit(X)
    pipe = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    expected = gradient_norms(pipe[-1], scaler.transform(X), y)
    np.testing.assert_allclose(gradient_norms(pipe, X, y), expected)
    np.testing.assert_allclose(gradient_norms(FrozenEstimator(pipe), X, y), expected)
    search = GridSearchCV(pipe, {"logisticregression__C": [1.0]}, cv=2).fit(X, y)
    np.testing.assert_allclose(gradient_norms(search, X, y), expected)
    np.testing.assert_allclose(gradient_norms(make_pipeline(pipe), X, y), expected)


def test_confident_answers_keep_their_digits():
    model = LogisticRegression().fit([[-1.0], [1.0]], [0, 1])
    model.coef_, model.intercept_ = np.array([[40.0]]), np.array([0.0])
    norms = gradient_norms(model, np.array([[1.0], [2.0]]), np.array([1, 1]))
    np.testing.assert_allclose(norms, np.exp([-40.0, -80.0]) * np.sqrt([2.0, 5.0]), rtol=1e-12)


def test_models_without_a_closed_form(rng):
    X, y = data(rng, "multi", n=60)
    numbers = np.exp(X[:, 0])
    for model, target, message in [
        (RandomForestClassifier(2, random_state=0), y, "neither a linear model nor"),
        (RidgeClassifier(), y, "no probabilities"),
        (SGDClassifier(loss="log_loss", random_state=0), y, "no logistic or softmax"),
        (GammaRegressor(), numbers, "another link function"),
    ]:
        with pytest.raises(AttackNotApplicableError, match=message):
            gradient_norms(model.fit(X, target), X, target)
    both = np.column_stack([numbers, numbers])
    for model in (Ridge(), MLPRegressor(hidden_layer_sizes=(2,), max_iter=2, solver="lbfgs")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, both)
        with pytest.raises(AttackNotApplicableError, match="several targets"):
            gradient_norms(model, X, numbers)
    with pytest.raises(AttackNotApplicableError, match="neither"):
        gradient_norms(MultiOutputRegressor(Ridge()).fit(X, both), X, numbers)


def test_models_that_are_not_fitted(rng):
    X, y = data(rng, "binary")
    for model in (LogisticRegression(), MLPClassifier(), make_pipeline(LogisticRegression())):
        with pytest.raises(NotFittedError):
            gradient_norms(model, X, y)


def test_wrong_targets(rng):
    X, y = data(rng, "binary")
    model = LogisticRegression().fit(X, y)
    unseen = np.where(np.arange(len(y)) == 3, "z", y)
    with pytest.raises(AttackNotApplicableError, match="never seen the label"):
        gradient_norms(model, X, unseen)
    with pytest.raises(ValueError, match="knows none of the labels"):
        gradient_norms(model, X, np.ones(len(y)))
    with pytest.raises(TypeError, match="must be numbers"):
        gradient_norms(LinearRegression().fit(X, X[:, 0]), X, y)
