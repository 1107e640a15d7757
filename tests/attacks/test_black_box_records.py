"""Queries of the black-box attack: what reaches the model, whatever the table looks like."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.attacks import BlackBoxAttributeInference

CRITERIA = ["performance", "proba", "likelihood", "loss", "accuracy", "gradient"]


@pytest.fixture
def make_labeled(make_table, rng):
    def make(n=90):
        X, y = make_table(n=n)
        return X, np.where(y > np.quantile(y, 0.6), "yes", "no")

    return make


@pytest.fixture
def make_posterior(make_pipe):
    """Posterior of every record from a table whose secret is coded in some way."""

    def make(X, y, **options):
        pipe = make_pipe(LogisticRegression()).fit(X, y)
        attack = BlackBoxAttributeInference(pipe, "gene", criterion="proba", **options).fit(X, y)
        guesses = attack.predict(pipe)
        np.testing.assert_array_equal(
            guesses, attack.values_[attack.predict_proba(pipe).argmax(axis=1)]
        )
        return attack.predict_proba(pipe)

    return make


class Watch(TransformerMixin, BaseEstimator):
    """Pass records on, and keep what kinds of columns came."""

    seen = None

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        Watch.seen.append(X.dtypes.copy())
        return X


CODINGS = {
    "strings": lambda gene: gene.astype("str"),
    "objects": lambda gene: gene.astype(object),
    "nullable strings": lambda gene: gene.astype("string"),
    "categories": lambda gene: gene.astype("category"),
    "ordered categories": lambda gene: gene.astype(
        pd.CategoricalDtype(["A", "B", "C", "D"], ordered=True)
    ),
    "integers": lambda gene: gene.map({"A": 3, "B": 5, "C": 7}).astype("int8"),
    "nullable integers": lambda gene: gene.map({"A": 3, "B": 5, "C": 7}).astype("Int64"),
    "categories of integers": lambda gene: gene.map({"A": 3, "B": 5, "C": 7}).astype("category"),
    "floats": lambda gene: gene.map({"A": 3.0, "B": 5.0, "C": 7.0}),
}


@pytest.mark.slow
@pytest.mark.parametrize("coding", mostly_slow(CODINGS, 0, 3, 8))
def test_kind_of_column_is_kept_and_changes_nothing(coding, make_labeled, make_posterior):
    X, y = make_labeled()
    expected = make_posterior(X, y)
    assert np.ptp(expected) > 0.1
    X["gene"] = CODINGS[coding](X["gene"])
    np.testing.assert_allclose(make_posterior(X, y), expected, rtol=1e-9)
    encode = make_column_transformer(
        (StandardScaler(), ["age", "dose"]), (OneHotEncoder(), ["gene", "city"])
    )
    Watch.seen = []
    pipe = make_pipeline(Watch(), encode, LogisticRegression()).fit(X, y)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion="proba").fit(X, y)
    np.testing.assert_allclose(attack.predict_proba(pipe), expected, rtol=1e-9)
    assert len(Watch.seen) > 3
    for dtypes in Watch.seen:
        assert dtypes.equals(X.dtypes)


@pytest.mark.slow
@pytest.mark.parametrize("coding", [bool, "boolean", "int64", "float32"])
def test_binary_secrets(coding, make_labeled, make_posterior):
    X, y = make_labeled()
    binary = X["gene"] == "A"
    expected = make_posterior(X.assign(gene=binary.map({False: "other", True: "own"})), y)
    np.testing.assert_allclose(
        make_posterior(X.assign(gene=binary.astype(coding)), y), expected, rtol=1e-9
    )


def test_arrays_of_strings_and_of_objects(make_labeled):
    X, y = make_labeled()
    X = X[["gene", "city"]]
    pipe = make_pipeline(OneHotEncoder(), LogisticRegression())
    expected = None
    for table in (X, X.to_numpy(dtype="U1"), X.to_numpy(dtype="U9"), X.to_numpy(dtype=object)):
        pipe.fit(table, y)
        attack = BlackBoxAttributeInference(pipe, 0, criterion="proba").fit(table, y)
        posterior = attack.predict_proba(pipe)
        expected = posterior if expected is None else expected
        np.testing.assert_allclose(posterior, expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
def test_columns_in_another_order_and_columns_too_many(criterion, make_labeled, make_pipe):
    X, y = make_labeled()
    other = X[["dose", "city", "gene", "age"]].assign(note="none")
    other.insert(0, "number", np.arange(len(X)))
    pipe = make_pipe(LogisticRegression()).fit(X, y)
    expected = BlackBoxAttributeInference(pipe, "gene", criterion=criterion).fit(X, y).predict(pipe)
    assert len(set(expected)) > 1
    attack = BlackBoxAttributeInference(pipe, "gene", criterion=criterion).fit(other, y)
    np.testing.assert_array_equal(attack.predict(pipe), expected)
    # Models without preprocessing, which look at the order.
    codes = X.assign(gene=X["gene"].map({"A": 0, "B": 1, "C": 2}), city=(X["city"] == "x") * 1.0)
    bare = LogisticRegression().fit(codes, y)
    expected = BlackBoxAttributeInference(bare, "gene", criterion=criterion).fit(codes, y)
    attack = BlackBoxAttributeInference(bare, "gene", criterion=criterion)
    attack.fit(codes[["dose", "gene", "city", "age"]].assign(more=1.0), y)
    np.testing.assert_array_equal(attack.predict(bare), expected.predict(bare))
    attack.fit(codes.drop(columns="city"), y)
    with pytest.raises(ValueError, match="lack columns"):
        attack.predict(bare)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", mostly_slow(CRITERIA, 0, 1))
def test_models_that_hold_a_pipeline(criterion, make_labeled, make_pipe):
    X, y = make_labeled()
    pipe = make_pipe(LogisticRegression())
    search = GridSearchCV(pipe, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, y)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion=criterion).fit(X, y)
    best = search.best_estimator_
    expected = attack.predict(best)
    np.testing.assert_array_equal(attack.predict(search), expected)
    np.testing.assert_array_equal(attack.predict(FrozenEstimator(best)), expected)
    np.testing.assert_array_equal(attack.predict(best[-1]), expected)  # on encoded records
    if criterion != "gradient":
        forest = make_pipe(RandomForestClassifier(5, random_state=0))
        held = CalibratedClassifierCV(forest, cv=2).fit(X, y)
        inside = BlackBoxAttributeInference(held, "gene", criterion=criterion).fit(X, y)
        np.testing.assert_array_equal(attack.predict(held), inside.predict(held))


def test_preprocessing_that_returns_frames(make_labeled):
    X, y = make_labeled()
    encode = make_column_transformer(
        (StandardScaler(), ["age", "dose"]),
        (OneHotEncoder(sparse_output=False), ["gene", "city"]),
    ).set_output(transform="pandas")
    pipe = make_pipeline(encode, LogisticRegression()).fit(X, y)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion="proba", records=slice(9))
    attack.fit(X, y)
    expected = attack.predict_proba(pipe)
    np.testing.assert_allclose(attack.predict_proba(pipe[-1]), expected)
    parameters = np.append(pipe[-1].coef_, pipe[-1].intercept_)
    np.testing.assert_allclose(attack.predict_proba(parameters), expected)
    each = attack.predict_each(np.tile(parameters, (2, 9, 1)))
    np.testing.assert_array_equal(each, np.tile(attack.predict(pipe), (2, 1)))


def test_candidates_that_are_no_categories(make_labeled, make_pipe):
    X, y = make_labeled()
    X["gene"] = X["gene"].astype("category")
    pipe = make_pipe(LogisticRegression()).fit(X, y)
    attack = BlackBoxAttributeInference(pipe, "gene", values=["A", "B", "C", "D"])
    with pytest.raises(ValueError, match="lack the candidate values"):
        attack.fit(X, y)


def test_all_candidates_in_one_prediction(make_labeled, make_pipe, monkeypatch):
    X, y = make_labeled()
    pipe = make_pipe(LogisticRegression()).fit(X, y)
    calls = []
    predict = LogisticRegression.predict_proba
    monkeypatch.setattr(
        LogisticRegression,
        "predict_proba",
        lambda self, X: calls.append(X.shape[0]) or predict(self, X),
    )
    for criterion in ("proba", "likelihood", "loss"):
        attack = BlackBoxAttributeInference(pipe, "gene", criterion=criterion, records=slice(40))
        attack.fit(X, y)
        calls.clear()
        attack.predict(pipe)
        assert calls == [120]


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["proba", "likelihood", "loss", "accuracy", "gradient"])
def test_own_value_never_enters(criterion, make_labeled, make_pipe):
    X, y = make_labeled()
    pipe = make_pipe(LogisticRegression()).fit(X, y)
    for row in (0, 20):
        changed = X.copy()
        changed.loc[row, "gene"] = {"A": "B", "B": "C", "C": "A"}[X.loc[row, "gene"]]
        attack = BlackBoxAttributeInference(pipe, "gene", criterion=criterion, records=[row])
        first = attack.fit(X, y).predict(pipe)
        np.testing.assert_array_equal(attack.fit(changed, y).predict(pipe), first)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.int8, float, object, bool, "Int64", "category"])
def test_targets_of_a_regression_in_any_coding(kind, make_table, make_pipe):
    X, y = make_table()
    y = (y > np.median(y)).astype(int)
    pipe = make_pipe(LinearRegression()).fit(X, y)
    for criterion in ("performance", "proba", "likelihood", "loss", "gradient"):
        attack = BlackBoxAttributeInference(pipe, "gene", criterion=criterion)
        expected = attack.fit(X, y).predict(pipe)
        np.testing.assert_array_equal(
            attack.fit(X, pd.Series(y).astype(kind)).predict(pipe), expected
        )


@pytest.mark.parametrize("criterion", mostly_slow(["performance", "margin", "proba"]))
def test_of_many_records_evenly_spaced_ones_are_compared(criterion, rng, monkeypatch):
    X = np.column_stack([rng.integers(0, 3, 400), rng.normal(size=(400, 2))]).astype(float)
    y, model = X[:, 0] + X[:, 1] + rng.normal(size=400), LinearRegression()
    if criterion != "proba":
        y, model = np.where(y > np.median(y), "high", "low"), LogisticRegression()
    model.fit(X, y)
    parameters = np.append(np.ravel(model.coef_), model.intercept_) + rng.normal(size=(3, 12, 4))
    targets = np.sort(rng.permutation(400)[:12])
    some = np.union1d(targets, np.linspace(0, 399, 90).astype(int))
    guesses = []
    for judges, rows, records in [
        (90, np.arange(400), targets),
        (400, some, np.searchsorted(some, targets)),
    ]:
        monkeypatch.setattr("skleak.attacks._black_box._JUDGES", judges)
        attack = BlackBoxAttributeInference(
            model, 0, criterion=criterion, values=[0.0, 1.0, 2.0], prior="uniform", records=records
        ).fit(X[rows], y[rows])
        guesses.append((attack.predict(parameters[0]), attack.predict_each(parameters)))
    for found, expected in zip(*guesses, strict=True):
        np.testing.assert_array_equal(found, expected)
