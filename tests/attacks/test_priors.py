"""Priors come from the other records alone, or from reference records where these are passed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedReconstruction,
    PosteriorMeanReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLinearRegression


def prior_of(prior, table, y=None, attribute=0, **options):
    return PriorAttack(attribute, prior=prior, **options).fit(table, y).prior_


def test_marginal_counts_the_others(rng):
    codes = rng.choice(3, size=40, p=[0.6, 0.3, 0.1])
    prior = prior_of("marginal", codes[:, None], values=[0, 1, 2, 3])
    np.testing.assert_allclose(prior.sum(axis=1), 1.0)
    for i in range(40):
        others = np.bincount(np.delete(codes, i), minlength=4)
        np.testing.assert_allclose(prior[i], (others + 0.25) / 40)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["marginal", "uniform", "conditional"])
def test_own_value_does_not_enter(prior, rng):
    known = pd.DataFrame({"k": rng.normal(size=30), "c": rng.choice(["u", "v"], 30)})
    y = rng.normal(size=30)
    column = rng.choice(["a", "b", "c"], 30)
    for i in (0, 11, 29):
        got = []
        for value in ("a", "b", "c"):
            changed = column.copy()
            changed[i] = value
            got.append(prior_of(prior, known.assign(s=changed), y, "s")[i])
        np.testing.assert_array_equal(got[0], got[1])
        np.testing.assert_array_equal(got[0], got[2])


def test_conditional_is_calibrated_where_the_classifier_is(rng):
    known = rng.normal(size=(4000, 2))
    true = 1.0 / (1.0 + np.exp(-(known @ [2.0, -1.0])))
    codes = (rng.random(4000) < true).astype(int)
    prior = prior_of("conditional", np.column_stack([codes, known]))
    assert np.abs(prior[:, 1] - true).max() < 0.1
    assert np.mean(np.abs(prior[:, 1] - true)) < 0.02


def test_conditional_uses_the_target_and_copes_with_holes_and_rare_values(rng):
    y = rng.normal(size=60)
    codes = (y > 0).astype(int)
    codes[5] = 2  # carried by one record: no classifier of another fold knows it
    known = pd.DataFrame({"k": np.where(rng.random(60) < 0.2, np.nan, 1.0), "c": ["u", "v"] * 30})
    prior = prior_of("conditional", known.assign(s=codes), y, "s")
    right = np.delete(prior.argmax(axis=1) == codes, 5)
    assert right.mean() > 0.9
    assert np.all(prior > 0.0)
    np.testing.assert_allclose(prior.sum(axis=1), 1.0)


def test_without_anything_known_the_conditional_is_the_marginal(rng):
    table = rng.integers(0, 2, (20, 1))
    np.testing.assert_array_equal(prior_of("conditional", table), prior_of("marginal", table))


def test_arrays_and_errors(rng):
    table = np.column_stack([rng.integers(0, 2, 10), rng.normal(size=10)])
    rows = {"records": [1, 4]}
    np.testing.assert_array_equal(prior_of([0.2, 0.8], table, **rows), [[0.2, 0.8]] * 2)
    own = [[0.2, 0.8], [0.5, 0.5]]
    np.testing.assert_array_equal(prior_of(own, table, **rows), own)
    with pytest.raises(ValueError, match=r"must sum to 1; got 0\.9"):
        prior_of([0.1, 0.8], table, **rows)
    with pytest.raises(ValueError, match="one row for each of the 2 targets"):
        prior_of([[0.2, 0.8]] * 3, table, **rows)
    with pytest.raises(ValueError, match="'prior' parameter"):
        prior_of("flat", table, **rows)
    with pytest.raises(TypeError, match="must have `predict_proba`"):
        ImputationAttack(0, classifier=PrivateLinearRegression()).fit(table)


# Reference records


def population(rng, n=400):
    """Records of a secret that the other column and the target tell of."""
    known = rng.normal(size=n)
    secret = (known + rng.normal(size=n) > 0.5).astype(float)
    return np.column_stack([secret, known]), known + secret + rng.normal(size=n)


def test_reference_records_alone_teach_frequencies(rng):
    X, y = population(rng)
    counts = np.bincount(X[100:, 0].astype(int))
    attack = PriorAttack(0, records=[3, 5]).fit(X[:100], y[:100], X[100:], y[100:])
    np.testing.assert_allclose(attack.prior_, [(counts + 0.5) / 301] * 2)
    # A value that only the population has is a candidate, and the target may be the secret.
    X[100, 0] = 7.0
    attack = PriorAttack(0).fit(X[:100], None, X[100:])
    assert attack.values_.tolist() == [0.0, 1.0, 7.0]
    labels = np.array(["no", "yes"])[(y > 0).astype(int)]
    attack = PriorAttack().fit(X[:100], labels[:100], X[100:], labels[100:])
    share = (np.mean(labels[100:] == "yes") * 300 + 0.5) / 301
    np.testing.assert_allclose(attack.prior_[:, 1], share)


@pytest.mark.parametrize("prior", ["marginal", "conditional"])
def test_all_attacks_on_an_attribute_learn_the_same_prior(prior, rng):
    X, y = population(rng)
    own, others = (X[:100], y[:100]), (X[100:], y[100:])
    model = PrivateLinearRegression(0.1, random_state=0).fit(*own)
    expected = PriorAttack(0, prior=prior).fit(*own, *others).prior_
    white = WhiteBoxAttributeInference(model, 0, prior=prior).fit(*own, *others)
    np.testing.assert_allclose(white.prior_, expected)
    if prior == "conditional":
        np.testing.assert_allclose(ImputationAttack(0).fit(*own, *others).prior_, expected)
        # Close to a classifier of the population that sees all of it.
        features = np.column_stack([X[:, 1], y])
        whole = LogisticRegression().fit(features[100:], X[100:, 0])
        assert np.abs(expected - whole.predict_proba(features[:100])).max() < 0.15
        expected = PriorAttack(0, prior=prior).fit(X[:100], None, X[100:]).prior_
    black = BlackBoxAttributeInference(model, 0, prior=prior).fit(*own, *others)
    np.testing.assert_allclose(black.prior_, expected)
    # No secret of a record under attack enters.
    unknown = X[:100].copy()
    unknown[:, 0] = 1.0 - unknown[:, 0]
    again = WhiteBoxAttributeInference(model, 0, prior=prior).fit(unknown, y[:100], *others)
    np.testing.assert_array_equal(again.prior_, white.prior_)


@pytest.mark.parametrize("prior", ["marginal", "uniform", "conditional"])
def test_numbers_of_the_population(prior, rng):
    X = rng.normal(size=(500, 2))
    X[:, 1] += X[:, 0]
    y = X @ [1.0, 1.0] + rng.normal(size=500)
    own, others = (X[:100] / 3.0, y[:100]), (X[100:], y[100:])
    model = PrivateLinearRegression(0.1, random_state=0).fit(*own)
    attack = PosteriorMeanReconstruction(model, 0, prior=prior).fit(*own, *others)
    low, high = X[100:, 0].min(), X[100:, 0].max()
    ends = low - 0.5 * (high - low), high + 0.5 * (high - low)
    np.testing.assert_allclose(attack.values_[:, [0, -1]], [ends] * 100)
    expected = PriorAttack(0, prior=prior).fit(*own, *others).predict()
    np.testing.assert_allclose(attack.prior_mean_, expected, atol=0.02)
    if prior == "marginal":
        np.testing.assert_allclose(attack.prior_mean_, X[100:, 0].mean(), atol=0.02)
        np.testing.assert_allclose(attack.prior_variance_, X[100:, 0].var(), rtol=0.1)
    if prior == "conditional":
        ridge = Ridge().fit(np.column_stack([X[100:, 1], y[100:]]), X[100:, 0])
        known = np.column_stack([own[0][:, 1], own[1]])
        np.testing.assert_allclose(attack.prior_mean_, ridge.predict(known), atol=0.1)
        imputed = ImputationAttack(0).fit(*own, *others).predict()
        np.testing.assert_allclose(imputed, ridge.predict(known), atol=0.02)
    black = BlackBoxAttributeInference(model, 0, prior=prior).fit(*own, *others)
    np.testing.assert_allclose(black.values_, attack.values_)


def test_reference_records_tell_the_range_of_reconstructed_values(rng):
    X = rng.normal(size=(90, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=90)
    model = PrivateLinearRegression(1e3, random_state=0).fit(X[:60], y[:60])
    released = 1e3 * rng.normal(size=(40, 3))
    wide = X[60:] * [10.0, 1.0], y[60:]
    for known in (True, False):
        attack = InformedReconstruction(model, known_target=known).fit(X[:60], y[:60], *wide)
        records = attack.predict(released).reshape(-1, 2 + (not known))
        values = wide[0] if known else np.column_stack(wide)
        size = np.ptp(values, axis=0)
        low, high = values.min(axis=0) - 0.5 * size, values.max(axis=0) + 0.5 * size
        np.testing.assert_allclose(records.min(axis=0), low)
        np.testing.assert_allclose(records.max(axis=0), high)


def test_persons_and_reference_records(rng):
    X, y = population(rng, 120)
    persons = np.repeat(np.arange(30), 2)
    X[1:60:2, 0] = X[0:60:2, 0]
    model = PrivateLinearRegression(0.1, random_state=0).fit(X[:60], y[:60])
    own, others = (X[:60], y[:60]), (X[60:], y[60:])
    counts = np.bincount(others[0][:, 0].astype(int))
    for attack in (WhiteBoxAttributeInference(model, 0), BlackBoxAttributeInference(model, 0)):
        attack.fit(*own, *others, persons=persons)
        np.testing.assert_allclose(attack.prior_, [(counts + 0.5) / 61] * 30)
        assert attack.predict(model).shape == (30,)
        with pytest.raises(AttackNotApplicableError, match="several rows the attribute is a numb"):
            attack.set_params(attribute=1).fit(*own, persons=persons)
        attack.set_params(attribute=0)


def test_answers_about_rows_of_a_person_multiply_and_a_row_that_comes_twice_counts_once(rng):
    X = np.column_stack([np.repeat(rng.integers(0, 3, 15), 2), rng.normal(size=30)]).astype(float)
    X[1:20:2] = X[0:20:2]
    y = np.repeat(rng.integers(0, 2, size=15), 2)
    model = LogisticRegression().fit(X, y)
    attack = BlackBoxAttributeInference(model, 0, criterion="proba", prior="uniform")
    rows = attack.fit(X, y).predict_proba(model)
    expected = rows[::2] * np.where(np.arange(15) < 10, 1.0, rows[1::2].T).T
    found = attack.fit(X, y, persons=np.repeat(np.arange(15), 2)).predict_proba(model)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)
