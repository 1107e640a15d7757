"""A release of its own for every target: entry [r, i] is the guess about i from release [r, i]."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxLeakage

# Releases of tests that are no model of the data.
elsewhere = pytest.mark.filterwarnings("ignore::skleak.exceptions.ReleaseMismatchWarning")


ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


def one_by_one(attack, released, noise_scale=None):
    n_releases, n_targets, _ = released.shape
    scales = np.full(n_releases, np.nan) if noise_scale is None else np.asarray(noise_scale)
    scales = [None if np.isnan(s) else s for s in np.broadcast_to(scales, n_releases)]
    return np.array(
        [
            [attack.predict(released[r, i], scales[r])[i] for i in range(n_targets)]
            for r in range(n_releases)
        ]
    )


def same(guesses, expected):
    """Equal, for a quantity to rounding."""
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(guesses, expected, atol=1e-7)
    else:
        np.testing.assert_array_equal(guesses, expected)


def games(attack, rng, scale, n_releases=5):
    """Releases of games about one target each, from encodings of values drawn at random."""
    n_targets, n_values, p = attack.encodings_.shape
    secret = rng.integers(0, n_values, size=(n_releases, n_targets))
    noise = scale * rng.normal(size=(n_releases, n_targets, p))
    return attack.encodings_[np.arange(n_targets), secret] + noise


@pytest.mark.slow
@elsewhere
@pytest.mark.parametrize("estimator", mostly_slow(ESTIMATORS, 1))
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
@pytest.mark.parametrize("attribute", ["gene", "dose"])
def test_each_is_the_guess_about_that_target(
    estimator, fit_intercept, attribute, make_table, make_pipe, rng, monkeypatch
):
    X, y = make_table(estimator)
    pipe = make_pipe(estimator(0.05, fit_intercept=fit_intercept))
    white = WhiteBoxAttributeInference(pipe, attribute, records=slice(3, 9)).fit(X, y)
    released = games(white, rng, 0.05)
    assert len(np.unique(one_by_one(white, released))) > 1
    scales = [None, 0.1, [1e-9, 0.01, 0.1, 1.0, 10.0]]
    for scale in scales:
        guesses = white.predict_each(released, scale)
        assert guesses.shape == (5, 6)
        same(guesses, one_by_one(white, released, scale))
    black = BlackBoxAttributeInference(pipe, attribute, records=slice(3, 9)).fit(X, y)
    # Of a number, only `predict` holds the guesses against those of other records.
    monkeypatch.setattr(black, "_not_worse", lambda guesses: guesses, raising=False)
    same(black.predict_each(released), one_by_one(black, released))


def test_many_targets_and_releases_in_blocks(make_table, make_pipe, rng, monkeypatch):
    X, y = make_table()
    attack = WhiteBoxAttributeInference(make_pipe(PrivateLinearRegression(0.05)), "gene").fit(X, y)
    # So many that targets are taken in blocks, too.
    released = games(attack, rng, 0.05, n_releases=1200)
    whole = attack.predict_each(released)
    few = np.concatenate([attack.predict_each(released[k : k + 7]) for k in range(0, 1200, 7)])
    np.testing.assert_array_equal(few, whole)
    monkeypatch.setattr("skleak.attacks._attribute._TABLE_ELEMENTS", 2 * 60 * 3)
    np.testing.assert_array_equal(attack.predict_each(released), whole)


def test_success_of_games_is_the_bayes_success(make_table, make_pipe, rng):
    X, y = make_table()
    prior = np.array([0.5, 0.3, 0.2])
    attack = WhiteBoxAttributeInference(
        make_pipe(PrivateLinearRegression(0.02)), "gene", prior=prior
    ).fit(X, y)
    n = 500
    secret = rng.choice(3, size=(n, 60), p=prior)
    released = attack.encodings_[np.arange(60), secret] + 0.02 * rng.normal(size=(n, 60, 8))
    success = np.mean(attack.predict_each(released) == attack.values_[secret], axis=0)
    exact = attack.channel().bayes_success(prior)
    assert np.all(np.abs(success - exact) < 5 * np.sqrt(0.25 / n))
    # Of 30,000 games: known to 0.3 %.
    assert abs(success.mean() - exact.mean()) < 0.012


def test_any_estimator_with_coefficients(rng):
    X = np.column_stack([rng.integers(0, 2, 30), rng.normal(size=30)]).astype(float)
    y = X @ [1.0, 2.0] + rng.normal(size=30)
    for attack in (
        WhiteBoxAttributeInference(Ridge(), 0, records=[3, 1]),
        BlackBoxAttributeInference(Ridge(), 0, records=[3, 1]),
    ):
        attack.fit(X, y)
        released = np.array([1.0, 2.0, 0.0]) + 0.3 * rng.normal(size=(4, 2, 3))
        np.testing.assert_array_equal(attack.predict_each(released), one_by_one(attack, released))


def test_baselines_ignore_the_release(make_table):
    X, y = make_table()
    for attack in (PriorAttack("gene"), PriorAttack("dose"), ImputationAttack("dose")):
        attack.set_params(records=[2, 5, 7]).fit(X, y)
        guesses = attack.predict_each(np.zeros((4, 3, 8)))
        np.testing.assert_array_equal(guesses, [attack.predict()] * 4)
        with pytest.raises(ValueError, match=r"\(n_releases, 3, n_parameters\)"):
            attack.predict_each(np.zeros((4, 8)))


def test_errors(make_table, make_pipe):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0.1))
    white = WhiteBoxAttributeInference(pipe, "gene", records=[1, 2]).fit(X, y)
    black = BlackBoxAttributeInference(pipe, "gene", records=[1, 2]).fit(X, y)
    for attack in (white, black):
        for released, message in [
            (np.zeros((2, 8)), r"must have shape \(n_releases, 2, n_parameters\)"),
            (np.zeros((5, 3, 8)), r"got shape \(5, 3, 8\)"),
            (np.zeros((0, 2, 8)), r"got shape \(0, 2, 8\)"),
            (np.zeros((5, 2, 7)), "8 parameters a release"),
            (np.full((5, 2, 8), np.inf), "must be finite"),
        ]:
            with pytest.raises(ValueError, match=message):
                attack.predict_each(released)
    for noise, message in [(-1.0, "at least 0 and finite"), ([1.0, 2.0], "each of the 3 releases")]:
        with pytest.raises(ValueError, match=message):
            white.predict_each(np.zeros((3, 2, 8)), noise)
    calibrated = make_pipe(PrivateLinearRegression(MaxLeakage(1.0)))
    attack = WhiteBoxAttributeInference(calibrated, "gene", records=[1, 2]).fit(X, y)
    with pytest.raises(ValueError, match="noise scale of these releases is not known"):
        attack.predict_each(np.zeros((3, 2, 8)))


@pytest.mark.slow
def test_sparse_encodings(rng):
    X = pd.DataFrame(
        {"gene": rng.choice(list("ABC"), 40), "site": rng.choice(list("abcdefgh"), 40)}
    )
    y = (X["gene"] == "A") + rng.normal(size=40)
    pipe = make_pipeline(OneHotEncoder(), PrivateLinearRegression(0)).fit(X, y)
    assert sparse.issparse(pipe[:-1].transform(X))
    white = WhiteBoxAttributeInference(pipe, "gene").fit(X, y)
    assert white.score(pipe, X["gene"]) == 1.0
    dense = make_pipeline(OneHotEncoder(sparse_output=False), PrivateLinearRegression(0))
    expected = WhiteBoxAttributeInference(dense, "gene").fit(X, y).encodings_
    np.testing.assert_allclose(white.encodings_, expected, atol=1e-10)
    released = games(white, rng, 0.1, n_releases=3)
    black = BlackBoxAttributeInference(pipe, "gene").fit(X, y)
    for attack in (white, black):
        same(attack.predict_each(released, 0.1), one_by_one(attack, released, 0.1))
