"""Leakage through predictions: that of the coefficients, confined to what the queries show."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import sparse
from scipy.special import logsumexp, ndtr
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

from skleak.exceptions import AttackNotApplicableError
from skleak.inspection import attribute_leakage
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

N = 40
COVARIANCE = np.diag([1.0, 2.0, 4.0, 8.0]) + 0.5
CASES = {
    "linear": PrivateLinearRegression(0.1),
    "shaped noise": PrivateLinearRegression(0.1, noise_covariance=COVARIANCE),
    "logistic": PrivateLogisticRegression(0.2),
    "three classes": PrivateLogisticRegression(0.2),
    "poisson": PrivatePoissonRegressor(0.1, fit_intercept=False),
}


def _fitted(case, rng):
    X = rng.normal(size=(N, 3))
    y = {
        "logistic": np.arange(N) % 2,
        "three classes": np.arange(N) % 3,
        "poisson": rng.poisson(2.0, size=N),
    }.get(case, X[:, 0] + rng.normal(size=N))
    return CASES[case].fit(X, y, rng.uniform(0.5, 2.0, size=N)), X, y


def _scores(model, queries):
    """Matrix that takes the parameters to the linear predictors of the queries."""
    ones = np.ones((len(queries), int(model.fit_intercept)))
    rows, K = np.hstack([queries, ones]), np.size(model.intercept_)
    if K == 1:
        return rows
    coefficients = np.kron(np.eye(K), queries)
    return np.hstack([coefficients, np.kron(np.eye(K), ones)])


def _covariance(case, p):
    return COVARIANCE * (p / np.trace(COVARIANCE)) if case == "shaped noise" else np.eye(p)


@pytest.mark.parametrize("case", mostly_slow(CASES, 0, 1, 2, 4))
def test_losses_are_those_of_the_scores(case, rng):
    """By the information of the scores themselves, with a pseudo-inverse of their covariance."""
    model, X, _ = _fitted(case, rng)
    state = model._confidential_state()
    jacobians = (
        state.factor.jacobian(X, state.objective.y) * state.objective.sample_weight[:, None, None]
    )
    p = jacobians.shape[1]
    queries = rng.normal(size=(6, 3))
    queries[3] = queries[0]  # the same question
    before = np.zeros(N)
    for k in (1, 2, 3, 4, 6):
        Q = _scores(model, queries[:k])
        inverse = np.linalg.pinv(Q @ _covariance(case, p) @ Q.T, rcond=1e-10, hermitian=True)
        information = np.einsum("nja,ji,ik,kl,nlb->nab", jacobians, Q.T, inverse, Q, jacobians)
        expected = np.sqrt(np.linalg.eigvalsh(information)[:, -1]) / model.noise_scale_
        seen = model.fisher_information_loss(queries=queries[:k])
        np.testing.assert_allclose(seen, expected, rtol=1e-7, atol=1e-12)
        assert np.all(seen >= before - 1e-12)
        if k == 4:
            np.testing.assert_allclose(seen, before, rtol=1e-9)
        before = seen
    # As many independent queries as parameters of a predictor: nothing is left to hide.
    whole = {"features": [0, 2]}, {"per": "feature"}, {"per": "dataset"}, {"norm": "trace"}
    for arguments in ({}, *whole):
        full = model.fisher_information_loss(**arguments)
        seen = model.fisher_information_loss(queries=queries, **arguments)
        np.testing.assert_allclose(seen, full, rtol=1e-8)
    thin = model.fisher_information_loss(queries=sparse.csr_array(queries[:2]))
    np.testing.assert_allclose(thin, model.fisher_information_loss(queries=queries[:2]))
    assert np.all(model.fisher_information_loss(queries=0.0 * queries[:1]) <= before)


@pytest.mark.parametrize("case", mostly_slow(CASES))
def test_individual_privacy_is_that_of_the_scores(case, rng):
    model, X, y = _fitted(case, rng)
    weights = model._confidential_state().objective.sample_weight
    queries = rng.normal(size=(2, 3))
    state = model._confidential_state()
    own, p = state.factor.coefficients, len(state.factor.coefficients)
    Q = _scores(model, queries)
    inverse = np.linalg.pinv(Q @ _covariance(case, p) @ Q.T, rcond=1e-10, hermitian=True)
    seen = model.individual_privacy(queries=queries)
    for i in (0, 5, 17):
        rest = np.delete(np.arange(N), i)
        other = type(model)(**model.get_params()).fit(X[rest], y[rest], weights[rest])
        gap = Q @ (other._confidential_state().factor.coefficients - own)
        expected = np.sqrt(gap @ inverse @ gap) / model.noise_scale_
        np.testing.assert_allclose(seen["mu"].iloc[i], expected, rtol=5e-6)
    assert np.all(seen["mu"] <= model.individual_privacy_["mu"] * (1.0 + 1e-9))


def test_answers_are_functions_of_the_scores(rng):
    """What a release answers, in whatever form, follows from its scores and from nothing else."""
    for case in CASES:
        model, _, _ = _fitted(case, rng)
        queries = rng.normal(size=(4, 3))
        scores = (
            _scores(model, queries)
            @ np.append(np.ravel(model.coef_), model.intercept_)[: _scores(model, queries).shape[1]]
        )
        if case == "three classes":
            a = scores.reshape(3, 4).T
            answers = a - logsumexp(a, axis=1, keepdims=True)
            np.testing.assert_allclose(model.predict_log_proba(queries), answers, atol=1e-12)
        elif case == "logistic":
            np.testing.assert_allclose(model.decision_function(queries), scores)
        else:
            link = np.exp if case == "poisson" else np.asarray
            np.testing.assert_allclose(model.predict(queries), link(scores))


@pytest.mark.slow
def test_raw_columns_through_predictions(rng):
    table = pd.DataFrame(
        {"age": rng.normal(size=N), "ward": rng.choice(["A", "B"], size=N)},
        index=[f"p{i}" for i in range(N)],
    )
    y = table["age"] ** 2 + rng.normal(size=N)
    encoder = make_column_transformer((PolynomialFeatures(2), ["age"]), (OneHotEncoder(), ["ward"]))
    pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(table, y)
    full = attribute_leakage(pipeline, table, y)
    some = attribute_leakage(pipeline, table, y, queries=table.iloc[:2])
    many = attribute_leakage(pipeline, table, y, queries=table)
    assert full.attrs["sees"] == "the released model"
    assert some.attrs["sees"] == "its predictions"
    columns = ["distance", "distance_from_own", "fisher_information_loss"]
    assert np.all((some[columns] <= full[columns] * (1.0 + 1e-9)) | full[columns].isna())
    # The columns sum to one, with the intercept: that direction of the noise no record can show.
    assert np.all((many[columns] <= full[columns] * (1.0 + 1e-9)) | full[columns].isna())
    # The attack: the best one on two scores, by simulation on the exact encodings of both wards.
    row = int(some[some["column"] == "ward"]["distance"].argmax())
    stated = some[some["column"] == "ward"].iloc[row]
    scores = []
    for ward in ("A", "B"):
        changed = table.copy()
        changed.iloc[row, 1] = ward
        model = PrivateLinearRegression(0.0).fit(encoder.transform(changed), y)
        scores.append(model.predict(encoder.transform(table.iloc[:2])))
    Q = np.hstack([encoder.transform(table.iloc[:2]), np.ones((2, 1))])
    covariance = 0.01 * Q @ Q.T
    root, n = np.linalg.cholesky(covariance), 20_000
    secrets = rng.integers(2, size=n)
    answers = np.array(scores)[secrets] + rng.normal(size=(n, 2)) @ root.T
    gaps = np.linalg.solve(root, (answers[:, None] - np.array(scores)).reshape(-1, 2).T)
    guesses = np.sum(gaps**2, axis=0).reshape(n, 2).argmin(axis=1)
    rate = np.mean(guesses == secrets)
    error = np.sqrt(0.25 / n)
    assert abs(rate - stated["success_even_odds"]) < 5.0 * error
    np.testing.assert_allclose(stated["success_even_odds"], ndtr(0.5 * stated["distance"]))


def test_where_predictions_have_no_exact_answer(rng):
    X, y = rng.normal(size=(N, 2)), rng.normal(size=N)
    for parameters in ({"noise_covariance": "curvature"}, {"reweighting": "irfil"}):
        model = PrivateLinearRegression(0.1, alpha=0.1, **parameters).fit(X, y)
        with pytest.raises(ValueError, match="predictions"):
            model.fisher_information_loss(queries=X[:1])
    model = PrivateLinearRegression(0.1).fit(X, y)
    with pytest.raises(ValueError, match="2 features"):
        model.fisher_information_loss(queries=X[:1, :1])
    with pytest.raises(AttackNotApplicableError, match="refit_preprocessing"):
        attribute_leakage(model, X, y, queries=X[:1], refit_preprocessing=True)


def test_digits_below_the_grid_show_more_than_a_query_may(rng):
    """One answer in full precision may hold two coefficients, which lie on a grid; rounded not."""
    X = rng.normal(size=(N, 2))
    model = PrivateLinearRegression(1.0, fit_intercept=False).fit(X, X @ [1.0, 1.0])
    step, tiny = model.noise_step_, 2.0**-40
    answer = float(model.predict([[1.0, tiny]])[0])
    below = answer - step * np.round(answer / step)
    assert abs(below / tiny - model.coef_[1]) < 1e-2  # of noise that has a scale of 1
    assert np.round(answer, 6) == np.round(model.coef_[0], 6)
