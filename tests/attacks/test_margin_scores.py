"""How the margins of candidates are scored, by a loop over targets and by what must not count."""

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.adversary.knowledge import folds
from skleak.attacks import BlackBoxAttributeInference
from skleak.attacks._black_box import margin_scores


def test_a_target_is_scored_by_the_records_of_other_folds(rng):
    """Target by target; two candidates, and one label that a single record has."""
    known = rng.normal(size=(40, 2))
    codes = (known[:, 0] + 0.5 * rng.normal(size=40) > 0.0).astype(int)
    codes[17] = 2
    own, targets = rng.normal(size=(5, 2, 2)), np.array([3, 17, 17, 30, 39])
    found = margin_scores(codes, known, own, targets)
    fold = np.empty(40, dtype=int)
    for k, (_, test) in enumerate(folds(40).split(codes)):
        fold[test] = k
    for row, target in enumerate(targets):
        others = fold != fold[target]
        curve = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        curve.fit(known[others], codes[others])
        logs = curve.predict_log_proba(own[row])
        label = codes[target]
        expected = logs[:, label] if label in curve.classes_ else np.zeros(2)
        np.testing.assert_allclose(found[row], expected, rtol=1e-9, atol=1e-12)
    # What is known of a target and of its fold changes nothing about it.
    fellows = (fold == fold[3]) & (np.arange(40) != 3)
    known[fold == fold[3]], codes[fellows] = 9.0, 1 - np.minimum(codes[fellows], 1)
    again = margin_scores(codes, known, own[:1], targets[:1])
    np.testing.assert_array_equal(again, found[:1])


def test_the_posterior_is_that_of_these_scores(rng):
    X = np.column_stack([rng.integers(0, 3, size=90), rng.normal(size=90)]).astype(float)
    y = np.where(2.0 * X[:, 0] + X[:, 1] + rng.normal(size=90) > 2.0, "high", "low")
    model, prior = RidgeClassifier().fit(X, y), np.array([0.3, 0.4, 0.3])
    attack = BlackBoxAttributeInference(model, 0, criterion="margin", prior=prior).fit(X, y)
    candidates = np.stack([np.column_stack([np.full(90, v), X[:, 1]]) for v in range(3)], axis=1)
    own = model.decision_function(candidates.reshape(-1, 2)).reshape(90, 3, 1)
    known, codes = model.decision_function(X)[:, None], (y == "low").astype(int)
    scores = margin_scores(codes, known, own, np.arange(90))
    expected = softmax(scores + np.log(prior), axis=1)
    np.testing.assert_allclose(attack.predict_proba(model), expected, atol=1e-9)
    assert np.mean(attack.predict(model) == X[:, 0]) > 0.5
