"""A scorer of leakage: about the training records of the fit, greater is better, by raw column."""

import pickle

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)

from skleak.exceptions import PrivacyLeakWarning
from skleak.inspection import make_leakage_scorer
from skleak.inspection.scoring import dependence
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression


@pytest.fixture
def people():
    rng = np.random.default_rng(2)
    n = 60
    X = pd.DataFrame(
        {
            "age": rng.normal(50.0, 9.0, n),
            "pay": rng.lognormal(size=n),
            "ward": rng.choice(["A", "B", "C"], n).astype(object),
            "town": rng.choice(["x", "y", "z", "rare"], n, p=[0.4, 0.3, 0.25, 0.05]),
        }
    )
    return X, 0.1 * X["age"] + (X["ward"] == "A") + rng.normal(size=n)


def encoder(**how):
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "pay"]),
            ("names", OneHotEncoder(**how), ["ward", "town"]),
        ]
    )


def pipeline(**how):
    return make_pipeline(encoder(**how), PrivateLinearRegression(0.5, random_state=0))


@pytest.mark.parametrize(
    "statistic, made", [("mean", np.mean), ("max", np.max), (np.median, np.median)]
)
def test_the_score_is_minus_the_loss_of_the_training_records(people, statistic, made):
    X, y = people
    fitted = pipeline().fit(X, y)
    score = make_leakage_scorer(statistic=statistic)
    loss = fitted[-1].fisher_information_loss_
    assert score(fitted, X, y) == pytest.approx(-made(loss), rel=1e-12)
    # Whatever records are passed with it.
    assert score(fitted, X.head(3), y.head(3)) == score(fitted, X, y) == score(fitted)


def test_an_unknown_column_is_told_by_the_parameter_of_the_scorer(people):
    fitted = pipeline().fit(*people)
    with pytest.raises(ValueError, match=r"`columns` names the unknown column 'wards'.*'ward'"):
        make_leakage_scorer("wards")(fitted)


def test_a_raw_column_is_the_block_of_what_encodes_it(people):
    X, y = people
    fitted = pipeline().fit(X, y)
    names = fitted[0].get_feature_names_out().tolist()
    for column in ("ward", "town", "age"):
        block = [j for j, name in enumerate(names) if f"__{column}" in name]
        assert len(block) in (1, 3, 4)
        loss = fitted[-1].fisher_information_loss(features=block)
        assert make_leakage_scorer(column)(fitted) == pytest.approx(-loss.mean(), rel=1e-12)
    both = [j for j, name in enumerate(names) if "__ward" in name or "__age" in name]
    loss = fitted[-1].fisher_information_loss(features=both)
    assert make_leakage_scorer(["ward", "age"])(fitted) == pytest.approx(-loss.mean(), rel=1e-12)
    assert make_leakage_scorer(0)(fitted) == make_leakage_scorer("age")(fitted)


@pytest.mark.parametrize(
    "make",
    mostly_slow([
        lambda: encoder(),
        lambda: encoder(drop="first"),
        lambda: encoder(drop="if_binary", sparse_output=False),
        lambda: encoder(min_frequency=8, handle_unknown="infrequent_if_exist"),
        lambda: encoder(max_categories=2, drop="first"),
        lambda: make_pipeline(encoder(), FunctionTransformer()),
        lambda: make_pipeline(encoder(sparse_output=False), PCA(3)),
        lambda: make_column_transformer(
            (PolynomialFeatures(2), ["age", "pay"]), (OrdinalEncoder(), slice(2, 4))
        ),
        lambda: make_column_transformer(
            (Normalizer(), ["age", "pay"]), ("passthrough", []), ("drop", ["ward", "town"])
        ),
        lambda: make_column_transformer(
            (SplineTransformer(n_knots=4), ["pay"]),
            (KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
             [0]),
            (OneHotEncoder(sparse_output=False), slice("ward", "town")),
        ),
        lambda: make_column_transformer(
            (QuantileTransformer(n_quantiles=9), [True, True, False, False]),
            (OneHotEncoder(), ["ward"]),
        ),
        lambda: make_column_transformer(
            (SimpleImputer(add_indicator=True), ["age", "pay"]), (OneHotEncoder(), ["town"])
        ),
    ]),
)  # fmt: skip
def test_no_encoded_column_that_a_raw_one_moves_is_missed(people, make):
    """The attack: put other people's values in, and look which encoded columns move."""
    X, _ = people
    X = X.copy()
    fitted = make().fit(X)
    before = _dense(fitted.transform(X))
    moved = dependence(fitted, X.shape[1], before.shape[1])
    assert moved.shape == (4, before.shape[1])
    rng = np.random.default_rng(0)
    for j, column in enumerate(X):
        for _ in range(5):
            other = X.copy()
            other[column] = rng.permutation(X[column].to_numpy())
            changed = np.any(np.abs(_dense(fitted.transform(other)) - before) > 1e-12, axis=0)
            assert not np.any(changed & ~moved[j])


def _dense(table):
    return np.asarray(table.todense() if hasattr(table, "todense") else table, dtype=float)


def test_columns_are_kept_apart_where_the_transformer_does(people):
    X, _ = people
    for how in ({}, {"drop": "first"}, {"min_frequency": 8}, {"max_categories": 2}):
        fitted = encoder(**how).fit(X)
        names = fitted.get_feature_names_out()
        moved = dependence(fitted, 4, len(names))
        for j, column in enumerate(X):
            assert [f"__{column}" in name for name in names] == moved[j].tolist()


@pytest.mark.slow
def test_it_serves_in_searches(people):
    X, y = people
    scoring = {"r2": "r2", "leakage": make_leakage_scorer("ward"), "max": make_leakage_scorer()}
    grid = {"privatelinearregression__noise_scale": [0.1, 1.0]}
    search = GridSearchCV(pipeline(), grid, scoring=scoring, refit="leakage", cv=3).fit(X, y)
    table = search.cv_results_
    assert search.best_params_ == {"privatelinearregression__noise_scale": 1.0}
    assert np.all(table["mean_test_leakage"] < 0.0)
    assert table["mean_test_leakage"][0] == pytest.approx(10.0 * table["mean_test_leakage"][1])
    assert table["rank_test_leakage"].tolist() == [2, 1]
    # Of a search it is the one that was chosen.
    assert scoring["max"](search) == scoring["max"](search.best_estimator_)


def test_it_is_the_same_on_training_and_test_folds(people):
    X, y = people
    model = PrivateLinearRegression(0.5, alpha=1.0, random_state=0)
    numbers, k = X[["age", "pay"]].apply(lambda column: (column - column.mean()) / 20.0), 5
    found = cross_validate(
        model, numbers, y, scoring={"leakage": make_leakage_scorer()}, cv=KFold(k),
        return_train_score=True,
    )  # fmt: skip
    assert np.array_equal(found["test_leakage"], found["train_leakage"])
    whole = make_leakage_scorer()(model.fit(numbers, y))
    # Fewer records in each fold: each moves the model more.
    assert found["test_leakage"].mean() / whole == pytest.approx(k / (k - 1), rel=0.1)


@pytest.mark.slow
def test_parallel_jobs_find_the_same(people):
    X, y = people
    scoring = {"leakage": make_leakage_scorer("town"), "r2": "r2"}
    found = [cross_validate(pipeline(), X, y, scoring=scoring, cv=3, n_jobs=n) for n in (1, 2)]
    assert np.array_equal(found[0]["test_leakage"], found[1]["test_leakage"])


def test_records_that_were_not_trained_on_do_not_count(people):
    X, y = people
    numbers = X[["age", "pay"]]
    weights = np.r_[np.ones(40), np.zeros(20)]
    model = PrivateLinearRegression(0.5, random_state=0)
    score = make_leakage_scorer()
    with_zeros = score(model.fit(numbers, y, sample_weight=weights))
    assert with_zeros == pytest.approx(score(model.fit(numbers[:40], y[:40])), rel=1e-6)


def test_a_model_without_noise_leaks_without_limit(people):
    X, y = people
    model = PrivateLinearRegression(0.0).fit(X[["age"]], y)
    assert make_leakage_scorer()(model) == -np.inf


def test_a_classifier_has_a_score_too(people):
    X, y = people
    made = make_pipeline(encoder(), PrivateLogisticRegression(0.5, random_state=0))
    fitted = made.fit(X, np.where(y > y.median(), "ill", "well"))
    assert -1e3 < make_leakage_scorer("ward", statistic="max")(fitted) < 0.0


def test_it_refuses_what_it_cannot_measure(people):
    X, y = people
    fitted, score = pipeline().fit(X, y), make_leakage_scorer("ward")
    with pytest.raises(TypeError, match="takes private linear estimators of skleak"):
        score(LogisticRegression())
    with pytest.raises(TypeError, match="knows nothing of its training"):
        score(PrivateLinearRegression(0.5).fit(X[["age"]], y).release())
    with pytest.raises(NotFittedError):
        score(pipeline())
    with pytest.warns(PrivacyLeakWarning):
        copy = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(NotFittedError, match="unpickled or copied"):
        score(copy)
    with pytest.raises(ValueError, match="words"):
        make_leakage_scorer("words")(fitted)
    dropped = make_pipeline(
        make_column_transformer((StandardScaler(), ["age"])), PrivateLinearRegression(0.5)
    ).fit(X, y)
    with pytest.raises(ValueError, match="The preprocessing drops 'pay'"):
        make_leakage_scorer("pay")(dropped)
    for wrong in ("least", 3):
        with pytest.raises(ValueError, match="`statistic` must be"):
            make_leakage_scorer(statistic=wrong)


def test_scorers_are_cloned_and_pickled(people):
    X, y = people
    fitted, score = pipeline().fit(X, y), make_leakage_scorer(["ward"], statistic="max")
    for copy in (clone(score), pickle.loads(pickle.dumps(score))):
        assert copy(fitted) == score(fitted)
    assert repr(score) == "LeakageScorer(columns=['ward'], statistic='max')"
