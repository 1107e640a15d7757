"""Audits of fits with sample weights: a row is one person, with all of its weight."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.attacks import WhiteBoxAttributeInference
from skleak.audit import LeakageAuditor, MembershipAuditor, attribute_gain
from skleak.audit.games.membership._release import pair_test
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.utils._records import Persons

AUDITORS = {
    "attribute": LeakageAuditor(PrivateLinearRegression(0.1), 0, n_releases=8, random_state=0),
    "quantity": LeakageAuditor(PrivateLinearRegression(0.1), 1, n_releases=8, random_state=0),
    "records": LeakageAuditor(PrivateLinearRegression(0.1), n_releases=8, random_state=0),
    "curvature": LeakageAuditor(
        PrivateLinearRegression(0.1, noise_covariance="curvature"),
        0,
        attacks="white_box",
        n_releases=8,
        bounds="bayes",
        random_state=0,
    ),
    "membership": MembershipAuditor(PrivateLinearRegression(0.1), n_releases=8, random_state=0),
    "drawn": MembershipAuditor(
        PrivateLinearRegression(0.1), secrets="drawn", n_releases=8, random_state=0
    ),
}


@pytest.fixture
def problem(rng):
    """Records with a binary column, of very different weights, one of them zero."""
    X = np.column_stack([rng.integers(0, 2, 40), rng.normal(size=(40, 2))])
    y = X @ [1.0, 2.0, -1.0] + rng.normal(size=40)
    weights = rng.integers(1, 6, size=40).astype(float)
    weights[[2, 5]] = 9.0, 0.0
    return X, y, weights


def parameters(model):
    return np.append(model.coef_, model.intercept_)


@pytest.mark.slow
def test_white_box_reaches_its_bayes_success_and_does_not_pass_it(problem):
    X, y, weights = problem
    settings = {"attacks": "white_box", "secrets": "drawn", "n_releases": 400, "random_state": 0}
    auditor = LeakageAuditor(
        PrivateLinearRegression(), 0, noise_scales=[0.02, 0.1], bounds="bayes", **settings
    )
    results = auditor.fit(X, y, sample_weight=weights).results_
    # 16,000 independent games: four standard errors.
    assert_allclose(results["success"], results["bayes"], atol=0.016)
    assert (results["verdict"] == "consistent with the bound").all()
    records = auditor.records_[auditor.records_["noise_scale"] == 0.1].set_index("record")
    assert records.loc[5, "eta"] == 0.0
    assert records.loc[5, "bayes"] == pytest.approx(records.loc[5, "prior"])
    heavy, light = weights > 4.0, (weights > 0.0) & (weights < 2.0)
    assert records.loc[heavy, "bayes"].mean() > records.loc[light, "bayes"].mean()


@pytest.mark.parametrize("name", AUDITORS)
def test_a_model_with_weights_is_not_audited_without_them(name, problem):
    X, y, weights = problem
    auditor = clone(AUDITORS[name])
    auditor.set_params(estimator=clone(auditor.estimator).fit(X, y, sample_weight=weights))
    with pytest.raises(ValueError, match="was fitted with sample weights"):
        auditor.fit(X, y)
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.1))
    pipeline.fit(X, y, privatelinearregression__sample_weight=weights)
    with pytest.raises(ValueError, match="was fitted with sample weights"):
        auditor.set_params(estimator=pipeline).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(AUDITORS, 0, 1))
def test_only_ratios_of_weights_count(name, problem):
    X, y, weights = problem
    weights = weights + 0.5 * (weights == 0.0)  # a training set of weight zero is none
    one = clone(AUDITORS[name]).fit(X, y, sample_weight=weights)
    other = clone(AUDITORS[name]).fit(X, y, sample_weight=1000.0 * weights)
    pd.testing.assert_frame_equal(one.results_, other.results_, rtol=1e-5, atol=1e-8)
    pd.testing.assert_frame_equal(one.records_, other.records_, rtol=1e-5, atol=1e-8)
    assert "bound exceeded" not in set(one.results_["verdict"])


@pytest.mark.parametrize("estimator", [PrivateLinearRegression(0.1, alpha=0.1), Ridge(alpha=4.0)])
def test_encodings_are_those_of_copies_that_change_together(estimator, problem):
    X, y, weights = problem
    auditor = LeakageAuditor(
        estimator, 0, noise_scales=0.1, attacks="white_box", n_releases=2, bounds="bayes"
    )
    white_box = auditor.fit(X, y, sample_weight=weights).attacks_["white_box"]
    who = np.repeat(np.arange(40), weights.astype(int))
    quiet = clone(estimator)
    if "noise_scale" in quiet.get_params():
        quiet.set_params(noise_scale=0.0)
    for row in (0, 2, 5, 17):
        for m, value in enumerate((0.0, 1.0)):
            changed = X.copy()
            changed[row, 0] = value
            expected = parameters(clone(quiet).fit(changed[who], y[who]))
            assert_allclose(white_box.encodings_[row, m], expected, atol=1e-8)


@pytest.mark.parametrize(
    "model", [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_membership_with_and_without_are_fits_with_copies(model, fit_intercept, problem):
    X, y, weights = problem
    if model is PrivateLogisticRegression:
        y = (y > 0.0).astype(float)
    if model is PrivatePoissonRegressor:
        y = np.floor(np.abs(y))
    quiet = model(0.0, alpha=0.05, fit_intercept=fit_intercept)
    state = clone(quiet).fit(X, y, sample_weight=weights)._confidential_state()
    members = np.setdiff1d(np.arange(40), [1, 2, 5, 8])
    targets = np.array([1, 2, 3, 5, 6, 8])
    test = pair_test(state.objective, members, Persons.single(targets))

    def refitted(rows):
        who = np.repeat(rows, weights[rows].astype(int))
        fit = clone(quiet).fit(X[who], y[who])
        return np.ravel(fit.coef_) if not fit_intercept else np.append(fit.coef_, fit.intercept_)

    assert_allclose(test.own, refitted(members), atol=1e-8)
    for step, target in zip(test.steps, targets, strict=True):
        rest = np.setdiff1d(members, target)
        expected = refitted(rest) - refitted(np.union1d(rest, target))
        assert_allclose(step, expected, rtol=1e-4, atol=1e-7)
    assert np.all(test.steps[3] == 0.0)


def test_pair_test_of_equal_weights_is_that_of_none(problem):
    X, y, _ = problem
    objective = PrivateLogisticRegression(0.0).fit(X, y > 0.0)._confidential_state().objective
    sevenfold = replace(objective, sample_weight=7.0 * objective.sample_weight)
    members, targets = np.arange(30), Persons.single(np.arange(20, 40))
    one, other = (pair_test(each, members, targets) for each in (objective, sevenfold))
    assert_allclose(one.steps, other.steps, rtol=1e-5, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(["attribute", "records", "membership", "drawn"], 1, 2))
def test_in_a_pipeline_weights_go_to_the_last_step(name, problem):
    X, y, weights = problem
    weights[5] = 0.5
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.1))
    auditor = clone(AUDITORS[name])
    piped = clone(auditor).set_params(estimator=pipeline).fit(X, y, sample_weight=weights)
    scaled = StandardScaler().fit_transform(X)
    plain = auditor.fit(scaled, y, sample_weight=weights)
    columns = ["success", "utility", "verdict"]
    if name == "attribute":  # the imputation sees raw columns
        piped, plain = (
            each.results_[each.results_["attack"] == "white_box"] for each in (piped, plain)
        )
        columns.append("bayes")
    else:
        piped, plain = piped.results_, plain.results_
    pd.testing.assert_frame_equal(piped[columns], plain[columns], rtol=1e-6)


@pytest.mark.slow
def test_any_estimator_with_weights_can_be_audited_for_membership(problem):
    X, y, weights = problem
    weights[5] = 0.5
    auditor = MembershipAuditor(
        LinearRegression(), attacks="loss", n_releases=8, refit_preprocessing=True, random_state=0
    )
    piped = clone(auditor).set_params(estimator=make_pipeline(StandardScaler(), LinearRegression()))
    one, other = (each.fit(X, y, sample_weight=weights).results_ for each in (auditor, piped))
    assert_allclose(one["utility"], other["utility"])
    assert not np.allclose(one["utility"], clone(auditor).fit(X, y).results_["utility"])


class Deaf:
    """An attack whose `fit` takes no weights."""

    def fit(self, X, y, X_reference=None, y_reference=None):
        self.n = len(y)

    def predict(self, released):
        return np.zeros((len(released), self.n))


def test_what_takes_no_weights_is_refused(problem):
    X, y, weights = problem
    with pytest.raises(AttackNotApplicableError, match="KNeighborsRegressor takes none"):
        MembershipAuditor(KNeighborsRegressor(), n_releases=8).fit(X, y, sample_weight=weights)
    for name in ("attribute", "membership"):
        with pytest.raises(AttackNotApplicableError, match=r"Deaf\.fit does not take them"):
            clone(AUDITORS[name]).set_params(attacks=Deaf()).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("name", AUDITORS)
@pytest.mark.parametrize("wrong", ["negative", "short", "zero", "nan"])
def test_invalid_weights(name, wrong, problem):
    X, y, weights = problem
    weights = {
        "negative": -weights,
        "short": weights[:3],
        "zero": np.zeros(40),
        "nan": np.full(40, np.nan),
    }[wrong]
    with pytest.raises(ValueError, match=r"[Ww]eight|NaN"):
        clone(AUDITORS[name]).fit(X, y, sample_weight=weights)


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(["attribute", "drawn"], 1))
def test_a_checkpoint_of_other_weights_is_of_another_audit(name, problem, tmp_path):
    X, y, weights = problem
    auditor = clone(AUDITORS[name]).set_params(checkpoint=tmp_path / "audit.npz")
    first = auditor.fit(X, y, sample_weight=weights).results_
    pd.testing.assert_frame_equal(auditor.fit(X, y, sample_weight=weights).results_, first)
    for other in (weights + 1.0, None):
        with pytest.raises(ValueError, match="another audit: its sample_weight differs"):
            auditor.fit(X, y, sample_weight=other)


def test_gain_with_weights(problem, rng):
    X, y, weights = problem
    weights[5] = 1.0
    others = np.column_stack([rng.integers(0, 2, 30), rng.normal(size=(30, 2))])
    known = others, others @ [1.0, 2.0, -1.0] + rng.normal(size=30)
    model = PrivateLinearRegression(1e-5, random_state=0).fit(X, y, sample_weight=weights)
    attack = WhiteBoxAttributeInference(PrivateLinearRegression(1e-5), 0)
    settings = {"imputation": None, "control": "sample"}
    with pytest.raises(ValueError, match="was fitted with sample weights"):
        attribute_gain(attack, model, X, y, *known, **settings)
    with pytest.raises(ValueError, match="Pass both, or none"):
        attribute_gain(attack, model, X, y, *known, control_sample_weight=np.ones(30))
    told = {"sample_weight": weights, "control_sample_weight": rng.uniform(1.0, 3.0, 30)}
    gain = attribute_gain(attack, model, X, y, *known, **told, **settings)
    assert gain.estimate["training"] == 1.0
    assert gain.low["leakage"] > 0.2
    exchanged = attribute_gain(attack, model, X, y, *known, imputation=None, **told)
    assert exchanged.estimate["training"] == 1.0
