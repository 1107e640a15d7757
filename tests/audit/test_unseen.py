"""A column that the model never sees: nothing of it leaks, and the audit says so first."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skleak.audit import LeakageAuditor
from skleak.audit.games._secret import success_bounds
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

DROP = make_column_transformer((StandardScaler(), ["a", "b"]))
KEEP = make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["sex"]))


@pytest.fixture
def data(rng):
    X = pd.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80)})
    X["sex"], X["dose"] = rng.choice(["f", "m"], size=80), rng.normal(size=80)
    return X, (X["a"] + 2.0 * X["b"] + rng.normal(size=80)).to_numpy()


def audit(model, X, y, column="sex", **params):
    params = {"n_releases": 2, "random_state": 0, "records": range(0, 80, 16)} | params
    return LeakageAuditor(model, column, **params).fit(X, y)


def first_sentence(auditor):
    return " ".join(str(auditor.report_).split("════\n")[1].split("\n\n")[1].split())


MODELS = [
    Ridge(),
    LinearRegression(),
    Lasso(0.01),
    PrivateLinearRegression(0.1),
    PrivateLinearRegression(0.1, noise_covariance="curvature"),
    PrivateLinearRegression(0.1, noise_covariance=np.diag([1.0, 2.0, 3.0])),
    PrivateLinearRegression(0.0),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", mostly_slow(MODELS), ids=str)
@pytest.mark.parametrize("column", mostly_slow(["sex", "dose"]))
def test_a_dropped_column_is_in_nothing(model, column, data):
    X, y = data
    # The covariance of a refitted pipeline is not known where it follows the data.
    shaped = "curvature" in str(model)
    for refit in (False,) if shaped else (False, True):
        own = {"refit_preprocessing": refit, "attacks": ("prior", "white_box")}
        found = audit(make_pipeline(DROP, model), X, y, column, **own)
        assert first_sentence(found).startswith(f"Nothing of `{column}` is in the model"), refit
        if column == "sex":
            bayes = found.records_["bayes"].to_numpy()
            np.testing.assert_allclose(bayes, found.records_["prior"].to_numpy(), atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_column_that_selection_leaves_out(data):
    X, y = data
    select = make_pipeline(KEEP, SelectKBest(f_regression, k=2), Ridge())
    found = audit(select, X, y, refit_preprocessing=True)
    assert first_sentence(found).startswith("Nothing of `sex`")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_selection_may_follow_the_column_that_it_leaves_out():
    """Whoever sees the model sees which column was selected: that tells the value of some."""
    rng = np.random.default_rng(8)
    X = pd.DataFrame({"a": rng.normal(size=30), "sex": rng.integers(0, 2, 30).astype(float)})
    y = pd.Series(0.5 * X["a"] + X["sex"] + rng.normal(size=30))
    select = SelectKBest(f_regression, k=1)

    def selected(record):
        other = X.copy()
        other.loc[record, "sex"] = 1.0 - X.loc[record, "sex"]
        return tuple(select.fit(other, y).get_support())

    moving = [i for i in range(30) if selected(i) != tuple(select.fit(X, y).get_support())][:4]
    assert moving
    pipe = make_pipeline(select, PrivateLinearRegression(0.02))
    own = {"records": moving, "attacks": ("prior", "white_box")}
    said = first_sentence(audit(pipe, X, y, **own))
    assert "with the preprocessing as it was fitted" in said
    assert "no attacker" not in said
    refitted = audit(pipe, X, y, refit_preprocessing=True, **own)
    assert "Nothing of" not in first_sentence(refitted)
    assert refitted.results_.set_index("attack")["success"]["white_box"] == 1.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", mostly_slow([1.0, 1e-3, 1e-6]))
def test_a_small_effect_leaks_without_noise(size, data):
    """The attacker compares bits: however small the change, it tells the value."""
    X, y = data
    X = X.assign(sex=np.where(X["sex"] == "m", size, 0.0))
    for model in (Ridge(), LinearRegression(), PrivateLinearRegression(0.0)):
        for pipe in (model, make_pipeline(StandardScaler(with_std=False), model)):
            found = audit(pipe, X, y, attacks=("prior", "white_box"))
            assert "Nothing of" not in first_sentence(found)
            np.testing.assert_array_equal(found.records_["bayes"], 1.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_model_that_is_only_asked(data):
    X, y = data
    tree = DecisionTreeRegressor(random_state=0)
    for column in ("sex", "dose"):
        found = audit(make_pipeline(DROP, tree), X, y, column)
        assert first_sentence(found).startswith(f"Nothing of `{column}`")
    assert "Nothing of" not in first_sentence(audit(make_pipeline(KEEP, tree), X, y))

    # One that is scaled by what it knows of the column is not left out.
    class ScaledByDose(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.scale_ = float(X["dose"].std())
            return self

        def transform(self, X):
            return X[["a", "b"]].to_numpy() / self.scale_

    found = audit(make_pipeline(ScaledByDose(), tree), X, y, "dose")
    assert "Nothing of" not in first_sentence(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_column_that_a_selection_would_see_is_not_left_out_of_a_tree(rng):
    y, tree = np.arange(40) % 2, DecisionTreeClassifier(max_depth=2, random_state=0)
    X = pd.DataFrame({"a": rng.normal(size=40) + y, "sex": 1 * (np.arange(40) < 4)})
    # With a fifth carrier the threshold is passed; and the rarer value says nothing of the target.
    for select in (VarianceThreshold(0.1), SelectKBest(k=1)):
        pipe = make_pipeline(select, tree)
        assert clone(select).fit(X, y).get_support().tolist() == [True, False]
        assert "Nothing of" not in first_sentence(audit(pipe, X, y, records=None)), select


def test_without_noise_values_of_one_encoding_are_not_told_apart(rng):
    """By brute force: guess the likeliest of those that have what was released."""
    for _ in range(50):
        codes = rng.integers(0, 3, size=(4, 5))
        points = rng.normal(size=(4, 3, 2))[np.arange(4)[:, None], codes]
        prior = rng.dirichlet(np.ones(5), size=4)
        prior[0] = 0.2
        expected = [
            sum(prior[i][codes[i] == c].max(initial=0.0) for c in range(3)) for i in range(4)
        ]
        found = success_bounds(points, prior, 0.0, ("bayes", "fano"))
        np.testing.assert_allclose(found["bayes"], expected, atol=1e-12)
        np.testing.assert_allclose(found["fano"], expected, atol=1e-12)
    points[:, 1] += 1e-300
    points[0, :] = np.arange(10.0).reshape(5, 2)
    points[0, 1] = np.nextafter(points[0, 0], np.inf)
    assert success_bounds(points[:1], prior[:1], 0.0, ("bayes",))["bayes"] == 1.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_classifier(data):
    X, y = data
    found = audit(make_pipeline(DROP, PrivateLogisticRegression(0.1)), X, y > 0)
    assert first_sentence(found).startswith("Nothing of `sex`")
    with pytest.raises(AttackNotApplicableError, match="drops the attribute"):
        audit(make_pipeline(DROP, PrivateLogisticRegression(0.1)), X, y > 0, attacks="informed")
