"""How the margins of candidates are scored, by a loop over targets and by what must not count."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.adversary.knowledge import folds
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
