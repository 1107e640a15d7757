"""Audits of any model: what its answers reveal, and nothing that is not known."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, KFold, RandomizedSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skleak.attacks import BlackBoxAttributeInference
from skleak.audit import LeakageAuditor
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression


class OnlyPredicts(BaseEstimator):
    """An estimator from elsewhere: `fit` and `predict`, and nothing else."""

    def fit(self, X, y):
        self._rows = np.column_stack([np.asarray(X)[:, 0].astype(float), X["sex"] == "m"])
        self._y = np.asarray(y)
        return self

    def predict(self, X):
        asked = np.column_stack([np.asarray(X)[:, 0].astype(float), X["sex"] == "m"])
        gaps = np.abs(asked[:, None] - self._rows[None]) @ [1.0, 100.0]
        return self._y[gaps.argmin(axis=1)]


class Bare:
    """Not even parameters."""

    def fit(self, X, y):
        self._model = OnlyPredicts().fit(X, y)

    def predict(self, X):
        return self._model.predict(X)


def table(n=60, seed=0):
    """A table as it is: numbers, text, categories, and an index of its own."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, n),
            "sex": rng.choice(["f", "m"], n),
            "city": pd.Categorical(rng.choice(["x", "y", "z"], n)),
        },
        index=[f"p{k}" for k in range(n)],
    )
    a = (X["age"] - 50.0) / 10.0 + (X["sex"] == "m") + rng.normal(size=n)
    return X, a.to_numpy(), np.where(a > a.median(), "ill", "well")


def piped(model):
    encode = make_column_transformer(
        (StandardScaler(), ["age"]),
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "city"]),
    )
    return make_pipeline(encode, model)


def audited(model, X, y, attribute="sex", **options):
    options = {"n_releases": 2, "random_state": 0} | options
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="sklearn")
        return LeakageAuditor(model, attribute, **options).fit(X, y)


LABELS, PROBA, MARGINS = (
    {"black_box": "labels", "combined": "labels"},
    {"black_box": "labels", "black_box_proba": "probabilities", "combined": "probabilities"},
    {"black_box": "labels", "black_box_margin": "margins", "combined": "margins"},
)
PREDICTIONS = {"black_box": "predictions", "combined": "predictions"}
CLASSIFIERS = [
    (KNeighborsClassifier(1), PROBA),
    (piped(SVC()), MARGINS),
    (DecisionTreeClassifier(), PROBA),
    (GridSearchCV(piped(DecisionTreeClassifier()), {"decisiontreeclassifier__max_depth": [1, 3]}),
     PROBA),
    (OnlyPredicts(), LABELS),
    (Bare(), LABELS),
]  # fmt: skip
REGRESSORS = [
    (SVR(), PREDICTIONS),
    (piped(TransformedTargetRegressor(RandomForestRegressor(3), func=np.arctan,
                                      inverse_func=np.tan)), PREDICTIONS),
]  # fmt: skip
HEAVY = [
    (piped(RandomForestClassifier(5)), PROBA),
    (GradientBoostingClassifier(n_estimators=3), PROBA),
    (SVC(kernel="linear"), MARGINS),
    (GaussianNB(), PROBA),
    (DummyClassifier(), PROBA),
    (HistGradientBoostingClassifier(max_iter=5), PROBA),
    (piped(MLPClassifier((4,), max_iter=30)), PROBA),
    (piped(SVC(probability=True)), PROBA),
    (
        HalvingGridSearchCV(
            piped(RandomForestClassifier(3)),
            {"randomforestclassifier__max_depth": [1, 2, None]},
            min_resources=30,
        ),
        PROBA,
    ),
    (
        RandomizedSearchCV(
            piped(KNeighborsClassifier()),
            {"kneighborsclassifier__n_neighbors": [1, 3, 5]},
            n_iter=2,
        ),
        PROBA,
    ),
]


def check_unbounded(auditor, outputs):
    report = auditor.report_
    shown = {name: seen for name, seen in report.settings["outputs"].items() if seen != "nothing"}
    assert shown == outputs
    assert report.results["noise_scale"].unique().tolist() == [0.0]
    assert report.results["attack"].tolist() == ["prior", "imputation", *outputs]
    assert report.bounds == ()
    assert report.noiseless
    assert report.unbounded.startswith("no bound")
    assert report.records[["bayes", "eta"]].isna().all(axis=None)
    assert (report.results["verdict"] == "bound vacuous").all()
    text = report.to_text(full=True)
    # The page takes a figure, and the time that it takes to draw.
    for said in [text, report.to_html()] if "black_box_margin" in outputs else [text]:
        assert "protect" not in said.lower()
        assert "whatsoever" not in said
        assert "noise scale 0" not in said
        assert "only the bounds" not in said
    assert "no bound: the release is not a noisy channel" in " ".join(text.split()).lower()
    assert 0.0 <= report.results["success"].min() <= report.results["success"].max() <= 1.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("cases", ["quick", pytest.param("heavy", marks=pytest.mark.slow)])
def test_any_model_is_asked(cases):
    X, y, labels = table()
    Z = np.column_stack([X["sex"] == "m", X["age"]]).astype(float)
    for model, outputs in CLASSIFIERS + REGRESSORS if cases == "quick" else HEAVY:
        before = repr(model)
        own = y if outputs is PREDICTIONS else labels
        bare = type(model).__module__.startswith("sklearn") and not hasattr(model, "steps")
        where = (Z, 0) if bare and not hasattr(model, "estimator") else (X, "sex")
        try:
            check_unbounded(audited(model, where[0], own, where[1]), outputs)
        except BaseException as error:
            error.add_note(f"in the audit of {model!r}")
            raise
        assert repr(model) == before
        assert not any(name.endswith("_") for name in vars(model))


class LabelsOnly(BaseEstimator):
    """A fully grown tree that answers with labels, whatever it knows."""

    def fit(self, X, y):
        self._tree = DecisionTreeClassifier(random_state=0).fit(X, y)
        return self

    def predict(self, X):
        return self._tree.predict(X)


def pairs(uses, n=40, seed=0):
    """Pairs of records that differ in the secret alone.

    Where the model uses the secret their targets differ, which of them has which being random: the
    other columns and the target tell nothing of the secret. Else they are the same.
    """
    rng = np.random.default_rng(seed)
    who, secret = np.repeat(np.arange(n), 2), np.tile([0, 1], n)
    flips = np.repeat(rng.integers(0, 2, n), 2)
    X = pd.DataFrame({"secret": secret, "who": who.astype(float)})
    return X, np.where(flips ^ (secret if uses else 0), "a", "b")


MEMORIES = [
    (DecisionTreeClassifier(), ["black_box", "black_box_proba"]),
    (KNeighborsClassifier(1), ["black_box", "black_box_proba"]),
    (SVC(C=1e6, gamma=4.0), ["black_box", "black_box_margin"]),
    (LabelsOnly(), ["black_box"]),
]


@pytest.mark.slow
def test_a_model_that_learned_the_records_by_heart_tells_the_secret():
    """Asked with both values it gives both targets: one is the true one, and the secret is out."""
    X, y = pairs(uses=True)
    for model, names in MEMORIES:
        auditor = audited(model, X, y, "secret", prior="uniform")
        table = auditor.results_.set_index("attack")
        assert (table.loc[names, "success"] == 1.0).all(), model
        assert table["imputation"].iloc[0] < 0.75
        assert (table.loc[names, "advantage_over_imputation_low"] == 1.0).all(), model
        assert (auditor.records_["success_black_box"] == 1.0).all()


@pytest.mark.slow
def test_a_model_that_does_not_use_the_secret_tells_nothing():
    X, y = pairs(uses=False)
    for model in (DecisionTreeClassifier(), LabelsOnly(), GaussianNB()):
        table = audited(model, X, y, "secret", prior="uniform").results_.set_index("attack")
        boxes = [name for name in table.index if name.startswith("black_box")]
        gained = table.loc[boxes, "success"] - table.loc["prior", "success"]
        assert np.abs(gained).max() <= (0.1 if isinstance(model, GaussianNB) else 0.0), model


@pytest.mark.slow
def test_what_is_left_to_chance_gets_seeds_of_the_audit():
    X, _, labels = table()
    X = np.column_stack([X["sex"] == "m", X["age"]]).astype(float)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(4))
    first, second = (audited(model, X, labels, 0, n_releases=3) for _ in range(2))
    pd.testing.assert_frame_equal(first.results_, second.results_)
    other = audited(model, X, labels, 0, n_releases=3, random_state=1)
    assert not first.results_.equals(other.results_)
    settings = first.report_.settings
    assert settings["seeded"] == ("randomforestclassifier__random_state",)
    assert (settings["random"], settings["n_releases"]) == (True, 3)
    assert model[-1].random_state is None
    # A seed of the user's own is kept, and then there is a single training.
    fixed = audited(RandomForestClassifier(4, random_state=5), X, labels, 0).report_.settings
    assert (fixed["seeded"], fixed["random"], fixed["n_releases"]) == ((), False, 1)


@pytest.mark.slow
def test_two_audits_of_a_search_that_draws_folds_agree():
    X, _, labels = table()
    grid = {"decisiontreeclassifier__max_depth": [1, 2, 3, 4, None]}
    folds = KFold(3, shuffle=True)
    model = GridSearchCV(piped(DecisionTreeClassifier(splitter="random")), grid, cv=folds)
    first, second = (audited(model, X, labels) for _ in range(2))
    pd.testing.assert_frame_equal(first.results_, second.results_)
    assert first.report_.settings["chosen"] == second.report_.settings["chosen"]
    assert first.report_.estimator.startswith("GridSearchCV of Pipeline of ColumnTransformer")
    assert folds.random_state is None


@pytest.mark.slow
def test_searches_and_target_transformers_are_taken_off():
    """The audit is that of the model inside, with all its bounds."""
    X, y, labels = table(30)
    inner = piped(PrivateLogisticRegression(noise_scale=0.1))
    grid = {"privatelogisticregression__alpha": [0.5]}
    options = {"records": slice(0, 10), "noise_scales": [0.1, 1.0]}
    outer = audited(GridSearchCV(inner, grid, cv=2), X, labels, **options)
    direct = clone(inner).set_params(privatelogisticregression__alpha=0.5)
    expected = audited(direct, X, labels, **options)
    pd.testing.assert_frame_equal(outer.results_, expected.results_)
    assert outer.report_.bounds == expected.report_.bounds != ()
    settings = outer.report_.settings
    assert settings["wrappers"] == ("GridSearchCV",)
    assert settings["chosen"] == {"privatelogisticregression__alpha": "0.5"}
    # The noise of the model is secret: it gets no seed.
    assert settings["seeded"] == ()

    Z = np.column_stack([X["sex"] == "m", X["age"]]).astype(float)
    inside = PrivateLinearRegression(noise_scale=0.1)
    wrapped = TransformedTargetRegressor(inside, func=np.sinh, inverse_func=np.arcsinh)
    outer = audited(make_pipeline(StandardScaler(), wrapped), Z, y, 0, **options)
    expected = audited(make_pipeline(StandardScaler(), inside), Z, np.sinh(y), 0, **options)
    pd.testing.assert_frame_equal(outer.results_, expected.results_)
    assert outer.report_.settings["transformed"]


@pytest.mark.slow
def test_linear_models_without_noise_are_read_whole(monkeypatch):
    X, y, labels = table(30)
    models = ((piped(Ridge()), y), (piped(RidgeClassifier()), labels), (piped(LinearSVC()), labels))
    for model, own in models:
        auditor = audited(model, X, own, records=slice(0, 8))
        table_ = auditor.results_.set_index("attack")
        assert table_.loc["white_box", "success"] == 1.0, model
        shown = auditor.report_.settings["outputs"]
        assert shown["white_box"] == "parameters"
        assert ("black_box_margin" in shown) == (own is labels)
        assert auditor.report_.bounds != ()
        assert auditor.report_.noiseless
    # So many trainings are not spent on what nobody asked for.
    monkeypatch.setattr("skleak.audit.games.attribute._game._MOST_TRAININGS", 15)
    assert audited(piped(Ridge()), X, y, records=slice(0, 8)).report_.unbounded
    named = audited(piped(Ridge()), X, y, records=slice(0, 8), attacks="white_box")
    assert not named.report_.unbounded
    # Attacks that read no parameter need no refit.
    asked = audited(piped(RidgeClassifier()), X, labels, attacks=["prior", "black_box_margin"])
    assert asked.report_.settings["outputs"]["black_box_margin"] == "margins"
    assert asked.report_.unbounded


@pytest.mark.slow
def test_numbers_are_estimated_from_predictions_of_numbers():
    X, y, labels = table(40)
    report = audited(piped(RandomForestRegressor(3)), X, y, "age", records=slice(0, 10)).report_
    assert report.kind == "numeric"
    assert report.results["attack"].tolist() == ["prior", "imputation", "black_box", "combined"]
    assert report.results["cramer_rao"].isna().all()
    assert np.isfinite(report.results["mse"]).all()
    report.to_html()
    # A classifier is asked for a number, too.
    tree = piped(DecisionTreeClassifier())
    report = audited(tree, X, labels, "age", records=slice(0, 10)).report_
    assert report.results["attack"].tolist()[:3] == ["prior", "imputation", "black_box"]


@pytest.mark.slow
def test_a_checkpoint_of_trainings_left_to_chance_goes_on(tmp_path):
    X, _, labels = table(30)
    options = {"checkpoint": tmp_path / "c.npz", "random_state": None}
    first, second = (
        audited(piped(RandomForestClassifier(2)), X, labels, **options) for _ in range(2)
    )
    pd.testing.assert_frame_equal(first.results_, second.results_)


@pytest.mark.slow
def test_weights_and_test_records_go_where_they_belong():
    X, _, labels = table()
    weights = np.linspace(0.0, 2.0, len(X))
    tree = piped(DecisionTreeClassifier(max_depth=2, random_state=0))
    first = LeakageAuditor(tree, "sex").fit(X, labels, X[:9], labels[:9], sample_weight=weights)
    fitted = clone(tree).fit(X, labels, decisiontreeclassifier__sample_weight=weights)
    assert first.results_["utility"].iloc[0] == fitted.score(X[:9], labels[:9])
    with pytest.raises(AttackNotApplicableError, match="takes none"):
        LeakageAuditor(piped(KNeighborsClassifier()), "sex").fit(X, labels, sample_weight=weights)


REFUSED = [
    (RandomForestClassifier(2), {"noise_scales": [0.1]}, "must be None or 0"),
    (RandomForestClassifier(2), {"secrets": "drawn"}, "secrets='actual'"),
    (RandomForestClassifier(2), {"bounds": ["fano"]}, "Leave `bounds` out"),
    (RandomForestClassifier(2), {"attacks": ["white_box"]}, "name some of"),
    (RandomForestClassifier(2), {"attacks": ["black_box_margin"]}, "decision_function"),
    (RandomForestClassifier(2), {"attribute": None}, "name an `attribute`"),
    (RandomForestClassifier(2), {"attribute": "(target)"}, "Name a column"),
    (SVC(), {"attacks": ["black_box_proba"]}, "without `predict_proba`"),
    (GridSearchCV(SVC(), {"C": [1.0]}, refit=False), {}, "refit=True"),
]


@pytest.mark.slow
def test_what_no_such_audit_can_tell_is_refused():
    X, _, labels = table(30)
    for model, options, message in REFUSED:
        with pytest.raises(ValueError, match=message):
            audited(piped(model), X, labels, **options)
    with pytest.raises(TypeError, match="got the class SVC"):
        audited(SVC, X, labels)
    quiet = audited(piped(SVC()), X, labels, noise_scales=0.0)
    assert quiet.results_["noise_scale"].tolist() == [0.0] * 5


@pytest.mark.slow
def test_margins_by_hand():
    """The curve of the other folds, by its own probabilities, times the prior."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 3, 60), rng.normal(size=(60, 2))]).astype(float)
    for n_classes, shape in ((2, "ovr"), (3, "ovr"), (4, "ovo")):
        y = rng.integers(0, n_classes, 60) + (X[:, 0] > 1)
        model = SVC(decision_function_shape=shape).fit(X, y)
        prior = np.array([0.5, 0.3, 0.2])
        attack = BlackBoxAttributeInference(model, 0, criterion="margin", prior=prior).fit(X, y)
        posterior = attack.predict_proba(model)
        known = model.decision_function(X).reshape(60, -1)
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            curve = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(
                known[train], y[train]
            )
            for i in test:
                rows = np.repeat(X[[i]], 3, axis=0)
                rows[:, 0] = [0.0, 1.0, 2.0]
                own = model.decision_function(rows).reshape(3, -1)
                odds = prior * curve.predict_proba(own)[:, list(curve.classes_).index(y[i])]
                np.testing.assert_allclose(posterior[i], odds / odds.sum(), rtol=1e-6)
        assert np.array_equal(attack.predict(model), attack.values_[posterior.argmax(axis=1)])
        # A pickle of the model answers the same.
        assert np.array_equal(
            attack.predict(pickle.loads(pickle.dumps(model))), attack.predict(model)
        )
