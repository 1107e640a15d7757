"""The two baselines without the model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeRegressor

from skleak.attacks import ImputationAttack, PriorAttack


def test_prior_attack_guesses_the_most_frequent_value(make_table, monkeypatch):
    X, y = make_table()
    attack = PriorAttack("gene").fit(X, y)
    top = X["gene"].value_counts().idxmax()
    assert np.all(attack.predict() == top)
    assert attack.score(None, X["gene"]) == np.mean(X["gene"] == top)
    np.testing.assert_allclose(attack.predict_proba(), attack.prior_)
    assert attack.predict(np.zeros((3, 7))).shape == (3, len(X))
    monkeypatch.setattr("skleak.attacks._attribute._TABLE_ELEMENTS", 400)  # two at a time
    assert attack.predict(np.zeros((7, 1))).shape == (7, len(X))


@pytest.mark.slow
def test_imputation_beats_the_prior_where_columns_are_correlated(make_table, rng):
    X, y = make_table(n=300)
    X["city"] = np.where(rng.random(300) < 0.9, X["gene"], "A")
    assert ImputationAttack("gene").fit(X, y).score(None, X["gene"]) > 0.85
    assert PriorAttack("gene").fit(X).score(None, X["gene"]) < 0.6
    assert PriorAttack("gene", prior="conditional").fit(X, y).score(None, X["gene"]) > 0.85


def test_imputation_learns_from_the_target_of_the_model(rng):
    secret = rng.integers(0, 2, 200)
    X, y = np.column_stack([secret, rng.normal(size=200)]), 3.0 * secret + rng.normal(size=200)
    assert ImputationAttack(0).fit(X, y).score(None, secret) > 0.85
    assert ImputationAttack(0).fit(X).score(None, secret) < 0.65


@pytest.mark.slow
def test_the_secret_may_be_the_target_itself(rng):
    known = rng.normal(size=(100, 2))
    secret = np.where(known[:, 0] > 0, "yes", "no")
    attack = ImputationAttack(classifier=RandomForestClassifier(random_state=0)).fit(known, secret)
    assert attack.score(None, secret) > 0.9
    assert PriorAttack().fit(known, secret).predict().shape == (100,)
    with pytest.raises(ValueError, match="needs `y`"):
        PriorAttack().fit(known)


def test_a_record_never_sees_itself_even_by_a_classifier_that_memorises(rng):
    X = np.column_stack([rng.integers(0, 2, 300), np.arange(300) * 1.0])
    forest = RandomForestClassifier(20, random_state=0)
    attack = ImputationAttack(0, classifier=forest).fit(X)
    assert attack.score(None, X[:, 0]) < 0.62


def test_numeric_attributes_are_estimated(rng):
    X = rng.normal(size=(200, 3))
    X[:, 0] += 2.0 * X[:, 1]
    mean = PriorAttack(0, records=[3]).fit(X)
    np.testing.assert_allclose(mean.predict(), [np.delete(X[:, 0], 3).mean()])
    attack = ImputationAttack(0).fit(X)
    assert attack.predict(np.zeros((2, 4))).shape == (2, 200)
    assert 0.6 < attack.score(None, X[:, 0]) < 0.95
    tree = ImputationAttack(0, classifier=DecisionTreeRegressor(random_state=0)).fit(X)
    assert 0.0 < tree.score(None, X[:, 0]) < 0.95
    assert not hasattr(attack, "predict_proba")


@pytest.mark.slow
def test_contract(make_table):
    X, y = make_table()
    for attack in (PriorAttack("gene"), ImputationAttack("gene")):
        with pytest.raises(NotFittedError):
            attack.predict()
        copy = clone(attack).set_params(records=[1, 2])
        kept = X.copy()
        assert copy.fit(X, y).predict().shape == (2,)
        assert X.equals(kept)
        assert copy.feature_names_in_.tolist() == list(X)
        codes = X[["age", "dose"]].assign(gene=X["gene"] == "A").to_numpy(dtype=float)
        unnamed = copy.set_params(attribute=2).fit(codes, y)
        assert not hasattr(unnamed, "feature_names_in_")
        assert unnamed.n_features_in_ == 3
        copy = clone(attack).set_params(records=[1, 2]).fit(X, y)
        with pytest.raises(ValueError, match="each of the 2 targets"):
            copy.score(None, X["gene"])


def test_many_values_of_few_records_are_no_regression(rng):
    """scikit-learn's warning that they might be is none to the user, and here an error."""
    X = pd.DataFrame({"ward": np.arange(20) % 12, "age": rng.normal(size=20)})
    attack = ImputationAttack("ward", values=range(12)).fit(X, X["age"])
    assert attack.prior_.shape == (20, 12)
