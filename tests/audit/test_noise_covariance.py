"""Audits of noise with a covariance that was given: games, bounds and losses of the same noise."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import HalfNoise, mostly_slow
from numpy.testing import assert_allclose

from skleak.attacks import BlackBoxAttributeInference, WhiteBoxAttributeInference
from skleak.audit import LeakageAuditor
from skleak.audit.noise._mechanism import Trained, colored, measured_noise
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.influence.state import NoiseShape
from skleak.linear_model import PrivateLinearRegression


@pytest.fixture
def table(rng):
    X = rng.normal(size=(60, 3))
    X[:, 0] = X[:, 0] > 0.3
    return X, X @ [1.0, -1.0, 0.5] + rng.normal(size=60)


@pytest.fixture
def shape(rng):
    root = rng.normal(size=(4, 4)) + np.diag([0.2, 1.0, 3.0, 1.0])
    return root @ root.T


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 1))
def test_games_are_played_with_the_covariance(secrets, table, shape):
    X, y = table
    model = PrivateLinearRegression(0.1, noise_covariance=shape)
    auditor = LeakageAuditor(
        model, 0, noise_scales=[0.05, 0.5], n_releases=400, secrets=secrets, random_state=0
    ).fit(X, y)
    attack = WhiteBoxAttributeInference(model, 0).fit(X, y)
    for scale in (0.05, 0.5):
        bayes = attack.channel(scale).bayes_success(attack.prior_)
        own = auditor.records_[auditor.records_["noise_scale"] == scale]
        assert_allclose(own["bayes"], bayes, atol=1e-6)
        shaped = PrivateLinearRegression(scale, noise_covariance=shape).fit(X, y)
        losses = shaped.fisher_information_loss(features=[0])
        assert_allclose(own["eta"], losses, rtol=1e-8)
        if secrets == "drawn":
            row = auditor.results_.query("noise_scale == @scale and attack == 'white_box'")
            assert abs(float(row["success"].iloc[0]) - bayes.mean()) < 5 * np.sqrt(0.25 / 24_000)
    assert auditor.report_.settings["noise_covariance"] == "given"
    assert "covariance that was given" in auditor.report_.to_text(full=True).replace("\n  ", " ")


@pytest.mark.slow
def test_quantities_have_the_bound_of_the_covariance(table, shape):
    X, y = table
    model = PrivateLinearRegression(0.05, noise_covariance=shape)
    auditor = LeakageAuditor(model, 1, n_releases=50, random_state=0).fit(X, y)
    fitted = model.fit(X, y)
    losses = fitted.fisher_information_loss(features=[1])
    assert_allclose(auditor.records_["eta"], losses, rtol=1e-4)
    assert_allclose(auditor.records_["cramer_rao"], 1.0 / losses**2, rtol=1e-3)


def test_the_noise_is_measured(table, shape):
    X, y = table
    model = PrivateLinearRegression(0.3, noise_covariance=shape)
    noiseless = PrivateLinearRegression(0.0).fit(X, y)
    w = np.append(noiseless.coef_, noiseless.intercept_)
    root = np.linalg.cholesky(shape * 4 / np.trace(shape))
    noise = NoiseShape("given", root @ root.T)
    trained = Trained(model=model, X=X, y=y, weights=None, noiseless=w, noise=noise)
    for seed in range(5):
        measured, checks = measured_noise(trained, 0.3, np.random.SeedSequence(seed))
        assert all(check["passed"] for check in checks)
        assert_allclose(measured @ measured.T, 0.09 * root @ root.T)
    # One that adds isotropic noise instead, of the same mean square, is found out.
    plain = PrivateLinearRegression(0.3)
    measured, checks = measured_noise(replace(trained, model=plain), 0.3, np.random.SeedSequence(0))
    assert not all(check["passed"] for check in checks)
    # The games are played with what it adds.
    assert_allclose(measured @ measured.T, 0.09 * np.eye(4), atol=0.05)
    draws = np.random.default_rng(0).normal(size=(20_000, 4))
    assert_allclose(np.cov(colored(root, draws).T), root @ root.T, atol=0.1)


@pytest.mark.slow
def test_half_the_noise_is_a_warning(table, shape):
    X, y = table
    auditor = LeakageAuditor(
        HalfNoise(0.1, noise_covariance=shape), 0, n_releases=5, random_state=0
    )
    with pytest.warns(PrivacyLeakWarning, match="does not add the noise"):
        auditor.fit(X, y)


@pytest.mark.slow
def test_attacks_suppose_the_same_noise(table, shape):
    X, y = table
    model = PrivateLinearRegression(0.1, noise_covariance=shape)
    plain = PrivateLinearRegression(0.1)
    for audited, supposed in ((model, plain), (plain, model)):
        auditor = LeakageAuditor(
            audited, 0, attacks=[WhiteBoxAttributeInference(supposed, 0)], n_releases=2
        )
        with pytest.raises(AttackNotApplicableError, match="another covariance"):
            auditor.fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="isotropic"):
        LeakageAuditor(model, 0, attacks="informed", n_releases=2).fit(X, y)
    other = WhiteBoxAttributeInference(
        PrivateLinearRegression(0.1, noise_covariance=2.0 * shape), 0
    )
    blind = BlackBoxAttributeInference(plain, 0)
    auditor = LeakageAuditor(model, 0, attacks={"a": other, "b": blind}, n_releases=2)
    assert list(auditor.fit(X, y).attacks_) == ["a", "b"]


def test_what_is_not_audited(table, shape):
    X, y = table
    for model, attribute, message in (
        (PrivateLinearRegression(noise_covariance="curvature"), None, "leakage_report"),
        (PrivateLinearRegression(noise_covariance=shape, reweighting="irfil"), 0, "reweighting"),
    ):
        with pytest.raises(AttackNotApplicableError, match=message):
            LeakageAuditor(model, attribute, n_releases=2).fit(X, y)
