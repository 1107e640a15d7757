"""A scorer of leakage: about the training records of the fit, greater is better, by raw column."""

import pickle

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_transformer,
)
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    ShuffleSplit,
    cross_validate,
)
from sklearn.multiclass import OneVsOneClassifier
from sklearn.multioutput import ClassifierChain
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

import skleak
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.inspection import (
    LeakageFrame,
    attribute_leakage,
    leakage_report,
    leakage_tradeoff,
    make_leakage_scorer,
)
from skleak.inspection._pipeline import dependence
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.preprocessing import PublicTargetScaler


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
    with pytest.raises(TypeError, match="of private linear estimators of skleak"):
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


@pytest.fixture
def patients():
    """People of two sexes of whom one leaks more, in steps that drop, encode or bin the column."""
    rng = np.random.default_rng(6)
    n = 90
    X = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n, p=[0.3, 0.7]).astype(object),
            "age": rng.normal(50.0, 9.0, n),
            "bmi": rng.normal(25.0, 4.0, n),
        }
    )
    X.loc[X["sex"] == "f", "bmi"] += 8.0 * rng.normal(size=(X["sex"] == "f").sum())
    return X, 0.1 * X["age"] - 0.2 * X["bmi"] + rng.normal(size=n)


NUMBERS = (StandardScaler(), ["age", "bmi"])
STEPS = {
    "dropped": lambda: make_column_transformer(NUMBERS),
    "encoded": lambda: make_column_transformer(NUMBERS, (OneHotEncoder(drop="first"), ["sex"])),
    "mixed": lambda: make_pipeline(STEPS["encoded"](), PCA(2)),
}


def _of_folds(pipeline, X, y, folds, statistic):
    """The scores by hand: fit each fold, and look at the losses of its people."""
    found = []
    for train, _ in folds.split(X, y):
        fitted = clone(pipeline).fit(X.iloc[train], y.iloc[train])
        loss = fitted[-1].fisher_information_loss_
        means = [loss[X["sex"].iloc[train] == one].mean() for one in ("f", "m")]
        found.append(-max(means) if statistic == "group_max" else min(means) / max(means))
    return found


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("statistic", ["group_max", "group_ratio"])
def test_groups_are_those_of_the_training_fold(patients, steps, statistic):
    X, y = patients
    made = make_pipeline(STEPS[steps](), PrivateLinearRegression(0.5, alpha=0.1, random_state=0))
    score = make_leakage_scorer(statistic=statistic, groups="sex")
    # Of two folds the other one has as many people, of other sexes.
    for folds in (KFold(2, shuffle=True, random_state=0), ShuffleSplit(3, random_state=1)):
        found = cross_validate(
            made, X, y, scoring={"s": score}, cv=folds, error_score="raise", return_train_score=True
        )
        by_hand = _of_folds(made, X, y, folds, statistic)
        np.testing.assert_allclose(found["test_s"], by_hand, rtol=1e-12)
        assert np.array_equal(found["test_s"], found["train_s"])
    fitted = made.fit(X, y)
    right = LeakageFrame.from_estimator(fitted, X["sex"].to_numpy())
    expected = -right.group_max() if statistic == "group_max" else right.ratio()["ratio"]
    assert score(fitted, X, y) == pytest.approx(expected.item(), rel=1e-12)
    for wrong in (X.iloc[::-1], X.iloc[:40], X[["age", "bmi"]], None):
        with pytest.raises(
            ValueError, match=r"rows with it are not at hand|names the unknown column"
        ):
            score(fitted, wrong)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skleak.exceptions.UnevenLeakageWarning")
def test_ways_and_strengths_are_chosen_by_the_worst_group_in_two_processes(patients):
    X, y = patients
    made = make_pipeline(STEPS["dropped"](), PrivateLinearRegression(0.5, random_state=0))
    scoring = {
        "r2": "r2",
        "worst": make_leakage_scorer(statistic="group_max", groups="sex"),
        "ratio": make_leakage_scorer(statistic="group_ratio", groups="sex"),
    }
    name, folds = "privatelinearregression", KFold(3)
    grid = {f"{name}__reweighting": [None, "irfil", "total"], f"{name}__alpha": [0.1, 1.0]}
    how = {"scoring": scoring, "refit": "worst", "cv": folds, "error_score": "raise"}
    one, two = (GridSearchCV(made, grid, n_jobs=n, **how).fit(X, y) for n in (1, 2))
    for key in ("r2", "worst", "ratio"):
        assert np.array_equal(
            one.cv_results_[f"mean_test_{key}"], two.cv_results_[f"mean_test_{key}"]
        )
    for k, parameters in enumerate(two.cv_results_["params"]):
        for key, statistic in (("worst", "group_max"), ("ratio", "group_ratio")):
            by_hand = _of_folds(clone(made).set_params(**parameters), X, y, folds, statistic)
            found = [two.cv_results_[f"split{j}_test_{key}"][k] for j in range(3)]
            np.testing.assert_allclose(found, by_hand, rtol=1e-9)
    assert two.best_index_ == int(np.argmax(two.cv_results_["mean_test_worst"]))


def test_groups_are_labels_too(patients):
    X, y = patients
    X.index = [f"p{k}" for k in range(len(X))]
    model = PrivateLinearRegression(0.5, random_state=0)
    numbers, sex = X[["age", "bmi"]], X["sex"].sample(frac=1.0, random_state=0)
    score = make_leakage_scorer("bmi", statistic="group_max", groups=sex)
    found = cross_validate(model, numbers, y, scoring={"s": score}, cv=KFold(3))["test_s"]
    for (train, _), value in zip(KFold(3).split(X), found, strict=True):
        fitted = clone(model).fit(numbers.iloc[train], y.iloc[train])
        loss = pd.Series(fitted.fisher_information_loss(features=["bmi"]))
        means = loss.groupby(X["sex"].to_numpy()[train]).mean()
        assert value == pytest.approx(-means.max(), rel=1e-12)
    both = make_leakage_scorer(statistic="group_ratio", groups={"s": sex, "old": X["age"] > 50.0})
    assert 0.0 < both(model.fit(numbers, y)) < 1.0
    quiet = PrivateLinearRegression(0.0).fit(numbers, y)
    assert make_leakage_scorer(statistic="group_max", groups=sex)(quiet) == -np.inf
    assert make_leakage_scorer(statistic="group_ratio", groups=sex)(quiet) == 0.0
    with pytest.raises(ValueError, match="1 missing labels"):
        make_leakage_scorer(statistic="group_max", groups=sex.mask(sex.index == "p3"))(model)


def test_a_scorer_of_groups_is_asked_for_both_or_neither():
    for how in ({"statistic": "group_max"}, {"groups": "sex"}, {"statistic": 0.9, "groups": "sex"}):
        with pytest.raises(ValueError, match="serve, the statistics group_max, group_ratio alone"):
            make_leakage_scorer(**how)


def _wrapped(made, X, y, kind):
    """Fitted: the estimator in a wrapper, and the pipeline that it holds."""
    if kind == "search":
        fitted = GridSearchCV(made, {"privatelinearregression__alpha": [0.1]}, cv=2).fit(X, y)
        return fitted, fitted.best_estimator_
    if kind == "frozen":
        fitted = FrozenEstimator(made.fit(X, y))
        return fitted, fitted.estimator
    transformer = PublicTargetScaler((-10.0, 10.0))
    fitted = TransformedTargetRegressor(made, transformer=transformer, check_inverse=False)
    fitted.fit(X, y)
    if kind == "all":
        search = GridSearchCV(clone(fitted), {"regressor__privatelinearregression__alpha": [0.1]})
        fitted = FrozenEstimator(make_pipeline("passthrough", search.fit(X, y)))
        return fitted, fitted.estimator[-1].best_estimator_.regressor_
    return fitted, fitted.regressor_


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["search", "frozen", "target", "all"])
def test_all_measures_look_into_wrappers(patients, kind):
    X, y = patients
    model = PrivateLinearRegression(0.5, alpha=0.1, random_state=0, private_target=True)
    wrapped, inner = _wrapped(make_pipeline(STEPS["encoded"](), model), X, y, kind)
    own = inner[-1]._confidential_state().objective.y  # as it came out of its transformer
    np.testing.assert_allclose(own, y / 10.0 if kind in ("target", "all") else y, rtol=1e-12)
    for column in (None, "bmi", "sex"):
        assert make_leakage_scorer(column)(wrapped) == make_leakage_scorer(column)(inner)
    worst = make_leakage_scorer(statistic="group_max", groups="sex")
    assert worst(wrapped, X, y) == worst(inner, X, own)
    frame = LeakageFrame.from_estimator(wrapped, X["sex"].to_numpy())
    assert frame.by_group.equals(LeakageFrame.from_estimator(inner, X["sex"].to_numpy()).by_group)
    # The columns tell the same, and the target as it came to the model.
    found = attribute_leakage(wrapped, X, y)
    pd.testing.assert_frame_equal(found, attribute_leakage(inner, X, own))
    assert ("targets" in found.attrs) == (kind in ("target", "all"))
    reports = [leakage_report(one, X, t, groups="sex") for one, t in ((wrapped, y), (inner, own))]
    pd.testing.assert_frame_equal(reports[0].groups, reports[1].groups)
    with pytest.raises(ValueError, match="must be the targets that the pipeline was fitted on"):
        attribute_leakage(wrapped, X, y + 1.0)
    refitted = [
        attribute_leakage(one, X, t, "age", records=[0, 1], refit_preprocessing=True)
        for one, t in ((wrapped, y), (inner, own))
    ]
    pd.testing.assert_frame_equal(*refitted)


def test_what_a_transformer_learned_from_the_targets_is_not_passed_over(patients):
    X, y = patients
    made = make_pipeline(STEPS["encoded"](), PrivateLinearRegression(0.5, random_state=0))
    fitted = TransformedTargetRegressor(made, transformer=StandardScaler()).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match=r"target learned \(its `fit` reads the rec"):
        attribute_leakage(fitted, X, y, refit_preprocessing=True)


def test_several_models_are_refused(patients):
    X, y = patients
    X, label = X[["age", "bmi"]], np.where(y > y.median(), "ill", "well")
    linear, logistic = PrivateLinearRegression(0.5), PrivateLogisticRegression(0.5)
    votes = VotingRegressor([("a", linear), ("b", linear)])
    bag = BaggingRegressor(linear, 2)
    with pytest.warns(PrivacyLeakWarning, match="as large as those that ensembles"):
        bag.fit(X, y)
    several = [
        (bag, 2, y),
        (votes.fit(X, y), 2, y),
        (CalibratedClassifierCV(logistic, cv=2).fit(X, label), 2, label),
        (OneVsOneClassifier(logistic).fit(X, pd.qcut(y, 3, labels=False)), 3, label),
        (
            ClassifierChain(logistic).fit(X, np.column_stack([y > y.mean(), y > y.median()])),
            2,
            label,
        ),
        (FixedThresholdClassifier(logistic).fit(X, label), 1, label),
        (RFE(linear).fit(X, y), 1, y),
        (make_pipeline(SelectFromModel(linear, threshold=-np.inf), clone(linear)).fit(X, y), 2, y),
    ]
    for wrapper, n, targets in several:
        asks = (
            lambda one=wrapper: make_leakage_scorer()(one),
            lambda one=wrapper: LeakageFrame.from_estimator(make_pipeline(one), label),
            lambda one=wrapper, of=targets: attribute_leakage(FrozenEstimator(one), X, of),
            lambda one=wrapper, of=targets: leakage_report(one, X, of),
            lambda one=wrapper, of=targets: leakage_tradeoff(one, X, of),
            lambda one=wrapper: skleak.release(one, allow_fitted=True),
        )
        for ask in asks:
            with pytest.raises(
                TypeError, match=f"wraps private models; {n} of them .*Pass one priv"
            ):
                ask()
    with pytest.raises(TypeError, match=r"got GridSearchCV\. It holds no fitted model: fit it"):
        make_leakage_scorer()(GridSearchCV(linear, {"alpha": [0.1]}, refit=False).fit(X, y))
    with pytest.raises(NotFittedError):
        make_leakage_scorer()(TransformedTargetRegressor(linear))
