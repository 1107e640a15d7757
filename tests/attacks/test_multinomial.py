"""Attacks on models with several classes: encodings against refits, guesses, and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skleak.attacks import (
    BlackBoxAttributeInference,
    InformedAttributeInference,
    InformedReconstruction,
    WhiteBoxAttributeInference,
)
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLogisticRegression

TREES = np.array(["ash", "elm", "oak"])


@pytest.fixture
def trees(make_table, rng):
    X, score = make_table(n=60)
    return X, TREES[np.digitize(score + rng.normal(size=60), [-0.5, 1.0])]


def _parameters(model):
    coef = model.coef_.ravel()
    return np.concatenate([coef, model.intercept_]) if model.fit_intercept else coef


def _refit(pipe, X, y, row, column, value):
    """Parameters of a noiseless fit of the last step, preprocessing as it is."""
    changed = X.copy()
    changed.loc[row, column] = value
    model = clone(pipe[-1]).set_params(noise_scale=0)
    return _parameters(model.fit(pipe[:-1].transform(changed), y))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_encodings_equal_refits(trees, make_pipe, fit_intercept):
    X, y = trees
    pipe = make_pipe(PrivateLogisticRegression(0.1, alpha=0.05, fit_intercept=fit_intercept))
    attack = WhiteBoxAttributeInference(pipe.fit(X, y), "gene").fit(X, y)
    assert attack.encodings_.shape == (60, 3, 3 * (7 + fit_intercept))
    for row in (0, 31):
        for m, value in enumerate("ABC"):
            expected = _refit(pipe, X, y, row, "gene", value)
            assert_allclose(attack.encodings_[row, m], expected, atol=1e-9)


def test_encodings_equal_those_of_refits_of_scikit_learn(trees, make_pipe):
    # scikit-learn's model has the same minimizer, and is refitted for every candidate.
    X, y = trees
    ours = make_pipe(PrivateLogisticRegression(0, alpha=0.05, fit_intercept=False))
    strength = 1.0 / (60 * 0.05)
    theirs = make_pipe(
        LogisticRegression(C=strength, fit_intercept=False, tol=1e-12, solver="newton-cg")
    )
    targets = [3, 40]
    found, expected = (
        WhiteBoxAttributeInference(pipe, "gene", records=targets).fit(X, y).encodings_
        for pipe in (ours, theirs)
    )
    assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["marginal", "uniform", "conditional"])
def test_the_white_box_finds_the_secret_without_noise_and_the_prior_in_noise(
    trees, make_pipe, prior
):
    X, y = trees
    pipe = make_pipe(PrivateLogisticRegression(1e-6)).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "gene", prior=prior).fit(X, y)
    assert attack.score(pipe, X["gene"]) == 1.0
    assert attack.score(pipe[-1].release(), X["gene"]) == 1.0
    drowned = clone(pipe).set_params(privatelogisticregression__noise_scale=1e4).fit(X, y)
    probabilities = attack.predict_proba(drowned, noise_scale=1e4)
    assert_allclose(probabilities, attack.prior_, atol=1e-3)


@pytest.mark.slow
def test_a_quantity(trees, make_pipe):
    X, y = trees
    pipe = make_pipe(PrivateLogisticRegression(1e-7, random_state=0)).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "dose").fit(X, y)
    assert attack.numeric_
    assert_allclose(attack.predict(pipe), X["dose"], atol=0.05)


def test_refitting_the_preprocessing(trees, make_pipe):
    X, y = trees
    pipe = make_pipe(PrivateLogisticRegression(0.1))
    attack = WhiteBoxAttributeInference(pipe, "gene", refit_preprocessing=True, records=[5]).fit(
        X, y
    )
    for m, value in enumerate("ABC"):
        changed = X.copy()
        changed.loc[5, "gene"] = value
        again = make_pipe(PrivateLogisticRegression(0)).fit(changed, y)
        assert_allclose(attack.encodings_[0, m], _parameters(again[-1]), atol=1e-9)


def test_the_black_box_by_its_definition(trees, make_pipe):
    X, y = trees
    pipe = make_pipe(PrivateLogisticRegression(0.01, random_state=0)).fit(X, y)
    attack = BlackBoxAttributeInference(pipe, "gene", prior="uniform").fit(X, y)
    proba = attack.predict_proba(pipe)
    released = attack.predict_proba(_parameters(pipe[-1]))
    assert_allclose(released, proba, atol=1e-12)
    known = pipe.predict(X)
    for i in (0, 17, 44):
        others = np.arange(60) != i
        scores = []
        for value in "ABC":
            changed = X.iloc[[i]].assign(gene=value)
            said = pipe.predict(changed)[0]
            hits = np.sum((known[others] == said) & (y[others] == y[i]))
            scores.append((hits + 1.0 / 3.0) / (np.sum(known[others] == said) + 1.0))
        assert_allclose(proba[i], np.array(scores) / np.sum(scores), atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [InformedReconstruction, lambda pipe: InformedAttributeInference(pipe, "gene")],
    ids=["record", "attribute"],
)
def test_reconstruction_takes_two_classes(trees, make_pipe, make):
    X, y = trees
    attack = make(make_pipe(PrivateLogisticRegression(0.1)))
    with pytest.raises(AttackNotApplicableError, match=r"3 classes, and.*WhiteBox.*two classes"):
        attack.fit(X, y)
    attack.fit(X, y == "elm")
