"""Audits of models that even their total leakage: attacks follow the weights, bounds hold."""

import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import flat, mostly_slow
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.attacks import LikelihoodRatioMembership, WhiteBoxAttributeInference
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.reweighting import total_jacobian
from skleak.linear_model import (
    IRFIL,
    EvenTotal,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.metrics.verdicts import CONSISTENT, EXCEEDED

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
OPTIONS = {"alpha": 0.1, "reweighting": EvenTotal(tol=1e-9, max_iter=100)}


@pytest.fixture(params=ESTIMATORS, ids=lambda cls: cls.__name__)
def estimator(request):
    return request.param


@pytest.fixture
def make_table(rng):
    def make(estimator, n=30):
        X = pd.DataFrame(
            {
                "age": rng.normal(50.0, 10.0, n),
                "gene": np.r_[["A", "B", "C"] * 2, rng.choice(["A", "B", "C"], n - 6)],
                "sex": np.r_[["f", "m"], rng.choice(["f", "m"], n - 2)],
            }
        )
        score = (X["age"] - 50) / 10 + (X["gene"] == "A") - (X["sex"] == "f")
        score = (score + rng.normal(0.0, 0.7, n)).to_numpy()
        if estimator is PrivateLogisticRegression:
            return X, np.where(score > 0.0, "ill", "well")
        return X, score if estimator is PrivateLinearRegression else rng.poisson(np.exp(score / 2))

    return make


def make_pipe(model):
    encode = make_column_transformer(
        (OneHotEncoder(), ["gene"]),
        (OneHotEncoder(drop="if_binary"), ["sex"]),
        (StandardScaler(), ["age"]),
    )
    return make_pipeline(encode, model)


def total(estimator, noise_scale=0.01, **options):
    return make_pipe(estimator(noise_scale, **OPTIONS, **options))


def audit(model, X, y, attribute="gene", **options):
    options = {"attacks": ["prior", "white_box"], "bounds": "bayes"} | options
    options = {"noise_scales": 0.01, "n_releases": 5, "random_state": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an audit shows the losses, and has nothing to warn of
        return LeakageAuditor(model, attribute, **options).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 0))
def test_no_bound_is_exceeded(estimator, secrets, make_table):
    X, y = make_table(estimator)
    options = {"secrets": secrets, "prior": "uniform", "records": range(4)}
    options |= {"noise_scales": [0.01, 0.3], "n_releases": 200}
    options["bounds"] = ["bayes", "tradeoff", "gdp", "fano"]
    auditor = audit(total(estimator), X, y, **options)
    assert auditor.report_.settings["reweighting"] == "total"
    assert EXCEEDED not in set(auditor.results_["verdict"])
    table = auditor.results_[auditor.results_["attack"] == "white_box"]
    assert table["success"].iloc[0] > 0.85
    assert table["success"].is_monotonic_decreasing
    for name in ("tradeoff", "gdp", "fano"):
        assert np.all(table[name] >= table["bayes"] - 1e-9)
    if secrets == "drawn":
        # The attack is the best there is, and its success that of the bound.
        bound, games = table["bayes"], 4 * 200
        error = np.sqrt(bound * (1.0 - bound) / games)
        assert np.all(np.abs(table["success"] - bound) <= 4.0 * error + 1.0 / games)


@pytest.mark.slow
def test_what_is_audited_is_the_total_leakage(make_table):
    X, y = make_table(PrivateLinearRegression)
    model = total(PrivateLinearRegression)
    records = audit(model, X, y).records_
    fitted = clone(model).fit(X, y)[-1]
    block = {"features": [0, 1, 2], "constrained": True}
    eta = fitted.fisher_information_loss(**block)
    np.testing.assert_allclose(records["eta"], eta, rtol=1e-6)
    fixed = fitted.fisher_information_loss(**block, conditional=True)
    assert np.abs(eta / fixed - 1.0).max() > 0.01  # what the weights reveal is counted
    other = make_pipe(
        PrivateLinearRegression(**OPTIONS | {"reweighting": IRFIL(tol=1e-9, max_iter=100)})
    )
    irfil = audit(other, X, y).records_
    assert np.abs(records["bayes"] - irfil["bayes"]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("attribute", mostly_slow(["age", None], 1))
def test_cramer_rao_bounds_count_the_weights(attribute, make_table):
    X, y = make_table(PrivateLinearRegression)
    model = total(PrivateLinearRegression)
    fitted = clone(model).fit(X, y)
    options = {"bounds": "all", "records": [2, 7], "n_releases": 20}
    if attribute is None:
        table = fitted[:-1].transform(X)
        auditor = audit(model[-1], table, y, None, **(options | {"attacks": "default"}))
        J = total_jacobian(fitted[-1]._confidential_state(), np.array([2, 7]))[:, :, :-1] / 0.01
        information = np.swapaxes(J, 1, 2) @ J
        # Of each column in its own variances.
        bound = (np.linalg.inv(information) / table.var(axis=0)).diagonal(axis1=1, axis2=2)
        bound = bound.mean(axis=1)
    else:
        auditor = audit(model, X, y, attribute, **options)
        eta = fitted[-1].fisher_information_loss(features=4) / X["age"].std(ddof=0)
        bound = eta[[2, 7]] ** -2.0
    assert EXCEEDED not in set(auditor.results_["verdict"])
    np.testing.assert_allclose(auditor.records_["cramer_rao"], bound, rtol=1e-5)


@pytest.mark.slow
def test_an_honest_mechanism_is_not_accused(make_table, estimator):
    X, y = make_table(estimator)
    auditor = audit(total(estimator), X, y, n_releases=2, noise_scales=0.1, records=[0, 1])
    assert CONSISTENT in set(auditor.results_["verdict"])


@pytest.mark.slow
def test_what_an_audit_says(make_table):
    X, y = make_table(PrivateLinearRegression)
    report = audit(total(PrivateLinearRegression), X, y, records=[0, 1]).report_
    assert "reweighted (total)" in report.to_text(full=True)
    assert any("The records were reweighted (total)" in line for line in report.assumptions)
    assert "reweighted (total)" in report.to_html()


@pytest.mark.slow
def test_the_white_box_attack_follows_the_weights(estimator, make_table):
    X, y = make_table(estimator)
    pipe = total(estimator, 1e-9).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "gene", records=range(10)).fit(X, y)
    assert attack.score(pipe, X["gene"][:10]) == 1.0
    # Preprocessing of one-hot columns is public: to refit all of it is to refit the model.
    refits = clone(attack).set_params(records=[3, 8], refit_preprocessing=True).fit(X, y)
    scale = np.abs(attack.encodings_ - attack.encodings_.mean(axis=1, keepdims=True)).max()
    gap = np.abs(refits.encodings_ - attack.encodings_[[3, 8]]).max()
    assert gap <= 1e-5 * scale
    other = make_pipe(estimator(1e-9, **flat(**OPTIONS | {"reweighting": "irfil"})))
    wrong = WhiteBoxAttributeInference(other, "gene", records=[3, 8]).fit(X, y)
    assert np.abs(wrong.encodings_ - attack.encodings_[[3, 8]]).max() > 1e-2 * scale


@pytest.mark.slow
def test_success_of_many_games_is_the_bayes_success(estimator, make_table, rng):
    X, y = make_table(estimator)
    model, n, rows = total(estimator, 0.05), 2000, [0, 9]
    attack = WhiteBoxAttributeInference(model, "gene", prior="uniform", records=rows).fit(X, y)
    exact, error = attack.channel().bayes_success(np.full(3, 1 / 3), return_standard_error=True)
    fits = {}
    for i, row in enumerate(rows):
        for k, gene in enumerate("ABC"):
            changed = X.copy()
            changed.loc[row, "gene"] = gene
            fitted = make_pipe(clone(model[-1]).set_params(noise_scale=0.0)).fit(changed, y)[-1]
            fits[i, k] = np.append(np.ravel(fitted.coef_), fitted.intercept_)
        secret = rng.choice(3, size=n)
        means = np.array([fits[i, k] for k in range(3)])
        released = means[secret] + 0.05 * rng.normal(size=(n, means.shape[1]))
        success = np.mean(attack.predict(released)[:, i] == attack.values_[secret])
        assert abs(success - exact[i]) < 4.0 * np.sqrt(0.25 / n) + 4.0 * error[i]


# Membership: as for the other reweighting.


@pytest.mark.parametrize("reweighting", mostly_slow(["irfil", "total"]))
def test_membership_has_no_exact_test(reweighting, rng):
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] + rng.normal(size=40) > 0.0).astype(int)
    model = PrivateLogisticRegression(0.5, **flat(**OPTIONS | {"reweighting": reweighting}))
    with pytest.raises(AttackNotApplicableError, match="a reweighting makes the weights of all"):
        LikelihoodRatioMembership(model, method="exact").fit(X, y)
    options = {"n_shadow_models": 4, "random_state": 0}
    attack = LikelihoodRatioMembership(model, **options).fit(X, y)
    assert attack.method_ == "online"
    fitted = clone(model).set_params(random_state=np.random.default_rng(0)).fit(X, y)
    assert attack.predict(fitted).shape == (40,)
    with pytest.raises(AttackNotApplicableError, match="closed form"):
        attack.expected_score()


@pytest.mark.slow
@pytest.mark.parametrize("reweighting", mostly_slow(["irfil", "total"], 1))
def test_membership_audits(reweighting, rng):
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] + rng.normal(size=40) > 0.0).astype(int)
    model = PrivateLogisticRegression(0.5, **flat(**OPTIONS | {"reweighting": reweighting}))
    options = {"n_releases": 6, "random_state": 0}
    auditor = MembershipAuditor(model, **options).fit(X, y)
    assert auditor.report_.settings["reweighting"] == reweighting
    assert "exact" not in set(auditor.results_["attack"])
    assert np.isnan(auditor.results_["bayes"]).all()
    assert EXCEEDED not in set(auditor.results_["verdict"])
    with pytest.raises(ValueError, match="needs the exact test"):
        MembershipAuditor(model, secrets="drawn", **options).fit(X, y)
