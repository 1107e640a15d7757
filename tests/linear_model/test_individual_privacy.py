"""Privacy of each training record: exact, a bound that attacks do not refute, confidential."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import sparse
from scipy.special import ndtr, ndtri
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skleak.accounting import gaussian_delta
from skleak.attacks import WhiteBoxAttributeInference
from skleak.channels import GaussianChannel
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.influence import candidate_encodings
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxLeakage

N = 40


def _problem(kind, rng):
    X = rng.normal(size=(N, 3))
    X[:, 0] = np.arange(N) < 4  # few have it
    score = X @ [0.5, 1.0, -0.5]
    if kind is PrivatePoissonRegressor:
        return X, rng.poisson(np.exp(0.5 * score)).astype(float)
    if kind is PrivateLogisticRegression:
        return X, np.where(score + rng.logistic(size=N) > 0.0, "yes", "no")
    return X, score + rng.normal(size=N)


def _parameters(model):
    ends = np.ravel(model.intercept_) if model.fit_intercept else []
    return np.concatenate([np.ravel(model.coef_), ends])


def _without(model, X, y, weights=None):
    """Steps of the noiseless parameters to a fit without each record, by brute force."""
    noiseless = clone(model).set_params(noise_scale=0.0, noise_covariance="isotropic")
    weights = np.ones(len(y)) if weights is None else weights
    own, steps = _parameters(clone(noiseless).fit(X, y, weights)), []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        steps.append(_parameters(noiseless.fit(X[rest], y[rest], weights[rest])) - own)
    return np.array(steps)


CASES = {
    "linear": (PrivateLinearRegression(0.1, alpha=0.1), 0),
    "logistic": (PrivateLogisticRegression(0.2, alpha=0.01), 0),
    "poisson": (PrivatePoissonRegressor(0.2, alpha=0.1, fit_intercept=False), 0),
    "three classes": (PrivateLogisticRegression(0.2, alpha=0.05), 3),
    "four classes": (PrivateLogisticRegression(0.2, alpha=1.0, fit_intercept=False), 4),
    "shaped noise": (
        PrivateLinearRegression(0.1, alpha=0.1, noise_covariance=np.diag([1.0, 2.0, 4.0, 9.0])),
        0,
    ),
}


@pytest.mark.parametrize("case", mostly_slow(CASES, 0, 1, 4, 5))
def test_mu_is_the_distance_of_refits(case, rng):
    model, n_classes = CASES[case]
    X, y = _problem(type(model), rng)
    if n_classes:
        y = np.arange(N) % n_classes
    weights = rng.uniform(0.5, 3.0, size=N)
    weights[7] = 0.0
    labels = pd.Index([f"p{i}" for i in range(N)])
    frame = pd.DataFrame(X, columns=list("abc"), index=labels)
    model = clone(model).fit(frame, y, weights)
    steps = _without(model, X, y, weights)
    covariance = np.eye(steps.shape[1])
    if case == "shaped noise":
        covariance = np.diag([1.0, 2.0, 4.0, 9.0]) / 4.0  # of trace 4
    sizes = np.sqrt(np.einsum("ij,jk,ik->i", steps, np.linalg.inv(covariance), steps))
    privacy = model.individual_privacy_
    np.testing.assert_allclose(privacy["mu"], sizes / model.noise_scale_, rtol=2e-6, atol=1e-12)
    assert privacy.index.equals(labels)
    assert privacy["mu"].iloc[7] == privacy["epsilon"].iloc[7] == 0.0
    assert privacy["once_in"].iloc[7] == 1000.0
    # Of the squared loss all is known at once, so that a sparse table gives the same.
    thin = clone(model).fit(sparse.csr_array(X), y, weights).individual_privacy_
    np.testing.assert_allclose(thin["mu"], privacy["mu"], rtol=1e-6, atol=1e-12)
    assert thin.index.equals(pd.RangeIndex(N))


def test_what_follows_from_mu(rng):
    X, y = _problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(0.1, alpha=0.1).fit(X, y)
    privacy = model.individual_privacy(delta=1e-4, baseline=0.01)
    mu = privacy["mu"].to_numpy()
    found = ndtr(ndtri(0.01) + mu)
    np.testing.assert_allclose(privacy["true_positives_at_1pct"], found)
    np.testing.assert_allclose(privacy["success_at_baseline"], found)
    np.testing.assert_allclose(privacy["once_in"] * found, 1.0)
    leaks = privacy["epsilon"] > 0.0
    assert leaks.any()
    delta = gaussian_delta(mu[leaks], privacy["epsilon"][leaks].to_numpy())
    assert np.all((delta <= 1e-4) & (delta > 0.9999e-4))  # the grid is counted
    assert privacy.attrs == {"delta": 1e-4, "baseline": 0.01}
    assert model.individual_privacy_.attrs == {"delta": 1e-6, "baseline": 1e-3}


@pytest.mark.parametrize("kind", mostly_slow([PrivateLinearRegression, PrivateLogisticRegression]))
def test_a_secret_guessed_from_a_prior_needs_its_largest_distance(kind, rng):
    """The best attack at even odds passes the bound of the actual value, and not that of all."""
    X, y = _problem(kind, rng)
    noise = 0.1 if kind is PrivateLinearRegression else 0.3
    model = kind(noise, alpha=0.01).fit(X, y)
    encodings = candidate_encodings(model, X, y, 0, [0.0, 1.0])
    even = np.asarray(GaussianChannel(encodings, noise).bayes_success())
    own = ndtr(model.individual_privacy_["mu"])
    every = model.individual_privacy(features=0, baseline=0.5)
    assert np.any(even > own + 0.05)
    assert np.all(even <= every["success_at_baseline"])
    # Unequal odds: whatever is known beforehand is the baseline.
    for rare in (0.01, 0.2):
        success = np.asarray(GaussianChannel(encodings, noise).bayes_success([1.0 - rare, rare]))
        bound = model.individual_privacy(features=0, baseline=1.0 - rare)["success_at_baseline"]
        assert np.all(success <= bound + 1e-12)
    # The largest over the values, each by a refit.
    i, steps = 9, []
    for value in (0.0, 1.0):
        changed = X.copy()
        changed[i, 0] = value
        steps.append(np.linalg.norm(_without(model, changed, y)[i]) / noise)
    np.testing.assert_allclose(every["mu"].iloc[i], max(steps), rtol=2e-6)
    more = model.individual_privacy(features=[0], values=[[0.0], [1.0], [5.0]])
    assert np.all(more["mu"] >= every["mu"])
    assert np.any(more["mu"] > every["mu"])


@pytest.mark.slow
@pytest.mark.parametrize("labels", mostly_slow([["no", "yes"], ["no", "perhaps", "yes"]], 0))
def test_a_label_guessed_from_a_prior(labels, rng):
    X, y = rng.normal(size=(N, 3)), np.array(labels)[np.arange(N) % len(labels)]
    model = PrivateLogisticRegression(0.3, alpha=0.05).fit(X, y)
    every = model.individual_privacy(features="(target)", baseline=1.0 / len(labels))
    for i in (3, 17):
        distances = []
        for label in labels:
            changed = y.copy()
            changed[i] = label
            distances.append(np.linalg.norm(_without(model, X, changed)[i]) / 0.3)
        np.testing.assert_allclose(every["mu"].iloc[i], max(distances), rtol=2e-6)
    # The best attack on the label, which is equally likely to be any.
    attack = WhiteBoxAttributeInference(model, "(target)", prior="uniform").fit(X, y)
    assert np.all(attack.expected_score() <= every["success_at_baseline"] + 1e-4)
    some = model.individual_privacy(features="(target)", values=labels[:1])
    assert np.all(some["mu"] <= every["mu"] * (1.0 + 1e-9))
    with pytest.raises(ValueError, match="classes of the model"):
        model.individual_privacy(features="(target)", values=["no", "never"])


def test_no_attack_is_right_more_often(rng):
    """Attacks on releases with a record, which are right with probability b on those without."""
    X, y = _problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(0.1, alpha=0.1).fit(X, y)
    i = int(model.individual_privacy_["mu"].argmax())
    own = _parameters(clone(model).set_params(noise_scale=0.0).fit(X, y))
    without = own + _without(model, X, y)[i]
    n = 20_000
    noise = 0.1 * rng.normal(size=(2, n, len(own)))
    directions = [own - without, rng.normal(size=len(own)), np.eye(len(own))[0]]
    for baseline in (0.01, 0.3):
        bound = model.individual_privacy(baseline=baseline)["success_at_baseline"].iloc[i]
        rates = []
        for direction in directions:
            out, there = (noise[0] + without) @ direction, (noise[1] + own) @ direction
            threshold = np.quantile(out, 1.0 - baseline)
            rates.append(np.mean(there > threshold))
        # Both the rate and the threshold are drawn: five standard errors of either.
        slope = bound / baseline
        error = np.sqrt(bound / n) + slope * np.sqrt(baseline / n)
        assert max(rates) <= bound + 5.0 * error
        assert rates[0] >= bound - 5.0 * error  # the best attack reaches it


@pytest.mark.slow
def test_where_there_is_no_exact_answer(rng):
    X, y = _problem(PrivateLinearRegression, rng)
    cases = [
        ({"noise_scale": MaxLeakage(100.0, features=[1])}, "scale of the noise"),
        ({"noise_covariance": "curvature"}, "covariance of the noise"),
        ({"reweighting": "irfil"}, "reweighting"),
    ]
    for parameters, reason in cases:
        model = PrivateLinearRegression(alpha=0.1).set_params(**parameters).fit(X, y)
        with pytest.raises(AttackNotApplicableError, match=reason):
            _ = model.individual_privacy_
        report = model.leakage_report()
        assert reason in report.dataset["individual_privacy"]["missing"]
        assert report.records["mu"].isna().all()
        assert report.records["once_in"].isna().all()
    model = PrivateLinearRegression(0.1).fit(X, y)
    for arguments in ({"delta": 2.0}, {"baseline": 0.0}, {"baseline": 1.0}, {"values": [1.0]}):
        with pytest.raises(ValueError, match=r"delta|baseline|values"):
            model.individual_privacy(**arguments)
    X = rng.normal(size=(100, 2))
    model = PrivateLinearRegression(0.1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="100 distinct values"):
        model.individual_privacy(features=1)


@pytest.mark.slow
def test_extremes(rng):
    X, y = _problem(PrivateLinearRegression, rng)
    silent = PrivateLinearRegression(0.0).fit(X, y).individual_privacy_
    assert np.all(silent[["mu", "epsilon"]] == np.inf)
    assert np.all(silent[["once_in", "true_positives_at_1pct"]] == 1.0)
    tiny = PrivateLinearRegression(1e-200).fit(X, y).individual_privacy_
    assert np.all(tiny["epsilon"] == np.inf)
    huge = PrivateLinearRegression(1e12).fit(X, y).individual_privacy_
    np.testing.assert_allclose(huge["once_in"], 1000.0)
    # One that nobody can do without: the only one of a class, or of a column.
    label = np.where(np.arange(N) == 5, "rare", "common")
    for model, target in (
        (PrivateLogisticRegression(1.0), label),
        (PrivateLogisticRegression(1.0), np.where(np.arange(N) == 5, 2, np.arange(N) % 2)),
    ):
        privacy = model.fit(X, target).individual_privacy_
        assert privacy["mu"].iloc[5] == np.inf
        assert privacy["once_in"].iloc[5] == 1.0
        assert np.isfinite(privacy["mu"].drop(5)).all()
    X[:, 0] = np.arange(N) == 5
    privacy = PrivateLinearRegression(1.0, alpha=0.0).fit(X, y).individual_privacy_
    assert privacy["mu"].iloc[5] == np.inf
    assert np.isfinite(privacy["mu"].drop(5)).all()
    wide = rng.normal(size=(12, 30))
    model = PrivateLinearRegression(1.0, alpha=0.1).fit(wide, y[:12])
    expected = np.linalg.norm(_without(model, wide, y[:12]), axis=1)
    np.testing.assert_allclose(model.individual_privacy_["mu"], expected, rtol=1e-6)


def test_it_stays_with_the_fit(rng):
    X, y = _problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(0.1)
    with pytest.raises(NotFittedError):
        _ = model.individual_privacy_
    model.fit(pd.DataFrame(X, columns=list("abc"), index=[f"Ann {i}" for i in range(N)]), y)
    assert "individual_privacy_" not in dir(model)
    _ = model.individual_privacy_
    for leave in (lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy):
        with pytest.warns(PrivacyLeakWarning):
            left = leave(model)
        assert not hasattr(left, "individual_privacy_")
    with pytest.warns(PrivacyLeakWarning):
        assert b"Ann 3" not in pickle.dumps(model)
    assert not hasattr(model.release(), "individual_privacy_")
    assert b"Ann 3" not in pickle.dumps(model.release())
    model.fit(X[:20], y[:20])
    assert len(model.individual_privacy_) == 20


@pytest.mark.slow
def test_reports_have_it(rng):
    X, y = _problem(PrivateLogisticRegression, rng)
    model = PrivateLogisticRegression(0.3, alpha=0.01).fit(X, y)
    report, privacy = model.leakage_report(), model.individual_privacy_
    names = list(privacy)
    np.testing.assert_array_equal(report.records[names], privacy[names])
    stored = json.loads(report.to_json())
    assert stored["confidential"] is True
    assert stored["records"][3]["once_in"] == privacy["once_in"].iloc[3]
    assert stored["dataset"]["individual_privacy"] == {
        "delta": 1e-6,
        "baseline": 1e-3,
        "missing": "",
    }
    # Of records that nobody trained on there is nothing to take away.
    new = np.vstack([X[[3]], X[[3]] + 1.0])
    some = model.leakage_report(new, y[[3, 3]]).records
    assert some["mu"].iloc[0] == privacy["mu"].iloc[3]
    assert np.isnan(some["mu"].iloc[1])
