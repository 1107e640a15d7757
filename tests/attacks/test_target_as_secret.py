"""The target of a record as the secret: exact attacks and audits, against refits of every label."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.attacks import ImputationAttack, PriorAttack, WhiteBoxAttributeInference
from skleak.audit import LeakageAuditor
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

N = 40
LABELS = {2: np.array(["no", "yes"]), 3: np.array([1, 2, 5])}


def _records(n_classes, rng):
    X = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"))
    return X, LABELS[n_classes][np.arange(N) % n_classes]


def _parameters(model):
    model = model[-1] if hasattr(model, "steps") else model
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])


MODELS = {
    "two": (PrivateLogisticRegression(0.1), 2),
    "three": (PrivateLogisticRegression(0.1), 3),
    "shaped": (PrivateLogisticRegression(0.1, noise_covariance=np.diag([1.0, 2.0, 3.0, 4.0])), 2),
    "reweighted": (PrivateLogisticRegression(0.1, alpha=0.1, reweighting="irfil"), 2),
    "of scikit-learn": (LogisticRegression(tol=1e-10, max_iter=1000), 3),
}


@pytest.mark.parametrize("case", MODELS)
def test_encodings_are_refits(case, rng):
    model, n_classes = MODELS[case]
    X, y = _records(n_classes, rng)
    weights = rng.uniform(0.5, 2.0, size=N)
    scaler = StandardScaler().fit(X)
    records = [0, 7, 31]
    attack = WhiteBoxAttributeInference(make_pipeline(scaler, model), "(target)", records=records)
    attack.fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(attack.values_, LABELS[n_classes])
    quiet = clone(model)
    if hasattr(quiet, "noise_scale"):
        quiet.set_params(noise_scale=0.0, noise_covariance="isotropic")
    for k, i in enumerate(records):
        for m, label in enumerate(LABELS[n_classes]):
            changed = y.copy()
            changed[i] = label
            refitted = clone(quiet).fit(scaler.transform(X), changed, sample_weight=weights)
            tolerance = 1e-5 if case in ("reweighted", "of scikit-learn") else 1e-9
            np.testing.assert_allclose(
                attack.encodings_[k, m], _parameters(refitted), atol=tolerance
            )


def test_labels_are_guessed_as_often_as_the_channel_says(rng):
    X, y = _records(3, rng)
    model = PrivateLogisticRegression(0.05, alpha=0.1)
    attack = WhiteBoxAttributeInference(model, "(target)", prior="uniform").fit(X, y)
    expected, n = attack.expected_score(), 2000
    drawn = rng.integers(3, size=(n, N))
    points = attack.encodings_[np.arange(N), drawn]
    guesses = attack.predict_each(points + 0.05 * rng.normal(size=points.shape))
    right = np.mean(guesses == attack.values_[drawn], axis=0)
    assert np.all(np.abs(right - expected) < 5.0 * np.sqrt(0.25 / n))
    assert expected.max() > 0.4
    # Without noise the label is read off, whatever the prior.
    sharp = PrivateLogisticRegression(1e-9, alpha=0.1).fit(X, y)
    assert WhiteBoxAttributeInference(sharp, "(target)").fit(X, y).score(sharp, y) == 1.0


def test_baselines_do_not_see_it(rng):
    X, y = _records(2, rng)
    X["a"] = (y == "yes") + 0.01 * rng.normal(size=N)
    for attack in (PriorAttack, ImputationAttack):
        named, given = attack("(target)").fit(X, y), attack().fit(X, y)
        np.testing.assert_allclose(named.prior_, given.prior_)
        with pytest.raises(ValueError, match="needs `y`"):
            attack("(target)").fit(X)
    # What everybody guesses from the other columns is a prior, and no leakage.
    white_box = WhiteBoxAttributeInference(
        PrivateLogisticRegression(1e6), "(target)", prior="conditional"
    ).fit(X, y)
    np.testing.assert_allclose(white_box.prior_, ImputationAttack().fit(X, y).prior_)
    assert np.mean(white_box.prior_.argmax(axis=1) == (y == "yes")) > 0.9
    # A column of that name is a column.
    X = X.rename(columns={"b": "(target)"}).assign(**{"(target)": np.arange(N) % 2})
    column = WhiteBoxAttributeInference(PrivateLogisticRegression(0.1), "(target)").fit(X, y)
    np.testing.assert_array_equal(column.values_, [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("secrets", ["actual", "drawn"])
def test_audits_of_labels(secrets, rng):
    X, y = _records(3, rng)
    auditor = LeakageAuditor(
        PrivateLogisticRegression(0.05, alpha=0.1),
        "(target)",
        noise_scales=[0.05, 1e3],
        n_releases=60,
        secrets=secrets,
        prior="uniform",
    ).fit(X, y)
    results = auditor.results_.set_index(["noise_scale", "attack"])
    assert set(results.index.get_level_values("attack")) == {"prior", "imputation", "white_box"}
    near, far = results.loc[(0.05, "white_box")], results.loc[(1e3, "white_box")]
    assert near["success"] > far["success"]
    exact = WhiteBoxAttributeInference(
        PrivateLogisticRegression(0.05, alpha=0.1), "(target)", prior="uniform"
    ).fit(X, y)
    np.testing.assert_allclose(near["bayes"], exact.expected_score().mean(), rtol=1e-6)
    assert "(target)" in auditor.report_.to_text(full=True)
    with pytest.raises(ValueError, match="black_box"):
        LeakageAuditor(PrivateLogisticRegression(0.1), "(target)", attacks="black_box").fit(X, y)


@pytest.mark.slow
def test_the_target_of_a_regression_is_a_number(rng):
    X = rng.normal(size=(N, 3))
    y = X @ [1.0, 2.0, 0.5] + rng.normal(size=N)
    model = PrivateLinearRegression(0.001)
    attack = WhiteBoxAttributeInference(model, "(target)").fit(X, y)
    assert attack.numeric_
    sharp = clone(model).set_params(noise_scale=1e-9).fit(X, y)
    np.testing.assert_allclose(attack.predict(sharp, 1e-9), y, atol=1e-4)
    results = LeakageAuditor(model, "(target)", n_releases=20).fit(X, y).results_
    # What an unbiased attack can reach at best, by J = A x~ as it stands in the theory.
    x = np.column_stack([X, np.ones(N)])
    hessian = x.T @ x + N * model.alpha * np.diag([1.0, 1.0, 1.0, 0.0])
    best = 0.001**2 / np.sum(np.linalg.solve(hessian, x.T) ** 2, axis=0)
    np.testing.assert_allclose(results["cramer_rao_mean"], best.mean(), rtol=1e-5)


def test_where_labels_have_no_exact_answer(rng):
    X, y = _records(2, rng)
    shaped = PrivateLogisticRegression(0.1, noise_covariance="curvature")
    with pytest.raises(AttackNotApplicableError, match="curvature"):
        WhiteBoxAttributeInference(shaped, "(target)").fit(X, y)
    pipeline = make_pipeline(StandardScaler(), PrivateLogisticRegression(0.1))
    attack = WhiteBoxAttributeInference(pipeline, "(target)", refit_preprocessing=True)
    with pytest.raises(AttackNotApplicableError, match="refit_preprocessing"):
        attack.fit(X, y)
    counts = PrivatePoissonRegressor(0.1)
    few = WhiteBoxAttributeInference(counts, "(target)", values=[0, 1, 2])
    few.fit(X, np.arange(N) % 3)
    assert few.encodings_.shape == (N, 3, 4)
