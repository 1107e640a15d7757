"""The auditor as an estimator: parameters, input, errors, and nothing changed on the way."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import mostly_slow
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.audit import LeakageAuditor
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression


@pytest.fixture
def data(rng):
    n = 14
    X = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "gene": np.r_[["A", "B", "C"], rng.choice(["A", "B", "C"], n - 3)],
            "sex": np.r_[["f", "m"], rng.choice(["f", "m"], n - 2)],
        }
    )
    return X, (X["age"] + (X["gene"] == "A") + rng.normal(size=n)).to_numpy()


def make(attribute="gene", columns=None, **options):
    gene, sex, age = columns or ("gene", "sex", "age")
    encode = make_column_transformer(
        (OneHotEncoder(), [gene]),
        (OneHotEncoder(drop="if_binary"), [sex]),
        (StandardScaler(), [age]),
    )
    model = make_pipeline(encode, PrivateLinearRegression(alpha=0.1))
    defaults = {"noise_scales": 0.1, "n_releases": 3, "attacks": ["prior", "white_box"]}
    options = {"estimator": model, "bounds": "bayes", "random_state": 0} | defaults | options
    return LeakageAuditor(attribute=attribute, **options)


def test_parameters_are_stored_as_they_are():
    auditor = make(prior=[0.5, 0.5], records=[1], values=["A"], checkpoint="x")
    parameters = auditor.get_params(deep=False)
    copied = clone(auditor)
    assert copied.get_params(deep=False).keys() == parameters.keys()
    for name, value in parameters.items():
        assert getattr(auditor, name) is value
    copied.set_params(n_releases=7, estimator__privatelinearregression__alpha=3.0)
    assert copied.n_releases == 7
    assert copied.estimator[-1].alpha == 3.0
    assert auditor.estimator[-1].alpha == 0.1
    assert repr(auditor).startswith("LeakageAuditor(")


@pytest.mark.slow
def test_nothing_is_changed(data):
    X, y = data
    auditor = make(values=["A", "B", "C"], prior=np.full(3, 1 / 3), records=[1, 2])
    before = copy.deepcopy((X, y)), copy.deepcopy(auditor.get_params())
    model_state = copy.deepcopy(vars(auditor.estimator[-1]))
    assert auditor.fit(X, y) is auditor
    pd.testing.assert_frame_equal(X, before[0][0])
    np.testing.assert_array_equal(y, before[0][1])
    for name, value in auditor.get_params(deep=False).items():
        if name != "estimator":
            np.testing.assert_equal(value, before[1][name])
    assert vars(auditor.estimator[-1]) == model_state
    assert not hasattr(auditor.estimator[0], "transformers_")


@pytest.mark.slow
def test_read_only_arrays_are_enough(data):
    X = np.column_stack([data[0]["sex"] == "f", data[0]["age"]]).astype(float)
    y = data[1].copy()
    for array in (X, y):
        array.setflags(write=False)
    make(0, estimator=PrivateLinearRegression()).fit(X, y)


@pytest.mark.slow
def test_fitted_estimators_stay_as_they_are(data):
    X, y = data
    fitted = make().estimator.set_params(privatelinearregression__noise_scale=0.1).fit(X, y)
    coef = fitted[-1].coef_.copy()
    first = make(estimator=fitted).fit(X, y)
    np.testing.assert_array_equal(fitted[-1].coef_, coef)
    pd.testing.assert_frame_equal(first.results_, make().fit(X, y).results_)


@pytest.mark.slow
def test_a_fitted_auditor_travels(data):
    auditor = make().fit(*data)
    with pytest.warns(PrivacyLeakWarning) as caught:  # of the auditor, and of the attacks in it
        restored = pickle.loads(pickle.dumps(auditor))
    assert "a fitted LeakageAuditor" in str(caught[0].message)
    pd.testing.assert_frame_equal(restored.results_, auditor.results_)
    pd.testing.assert_frame_equal(restored.records_, auditor.records_)
    assert restored.report_.to_text(full=True) == auditor.report_.to_text(full=True)
    pd.testing.assert_frame_equal(restored.fit(*data).results_, auditor.results_)


@pytest.mark.slow
def test_forms_of_the_input(data):
    X, y = data
    first = make().fit(X, y)
    assert first.n_features_in_ == 3
    assert first.feature_names_in_.tolist() == ["age", "gene", "sex"]
    for attribute, table, columns in (
        (1, X, None),
        (-2, X, None),
        ("gene", pl.DataFrame({c: X[c].tolist() for c in X}), None),
        ("gene", X.set_index(np.arange(14) * 3), None),
        ("gene", X.set_index(np.zeros(14, dtype=int)), None),
    ):
        other = make(attribute, columns).fit(table, y)
        pd.testing.assert_frame_equal(first.results_, other.results_)
        own, others = (each.records_.drop(columns="label") for each in (first, other))
        pd.testing.assert_frame_equal(own, others)
        assert other.report_.attribute == "gene"
    array = make(1, (1, 2, 0)).fit(X.to_numpy(dtype=object), list(y))
    np.testing.assert_allclose(first.results_["bayes"], array.results_["bayes"], rtol=1e-9)
    assert array.report_.attribute == "column 1"
    assert not hasattr(array, "feature_names_in_")
    pd.testing.assert_frame_equal(first.results_, make().fit(X, pd.Series(y)).results_)
    pd.testing.assert_frame_equal(first.results_, make().fit(X, pl.Series(y)).results_)


@pytest.mark.slow
def test_column_names_of_another_kind_are_no_names(data):
    X, y = data
    X = X.set_axis([10, 20, 30], axis=1)
    encode = make_column_transformer((OneHotEncoder(), [1]), (StandardScaler(), [0]))
    auditor = make(1, estimator=make_pipeline(encode, PrivateLinearRegression())).fit(X, y)
    assert not hasattr(auditor, "feature_names_in_")


@pytest.mark.slow
def test_refit_forgets_names(data):
    X, y = data
    auditor = make(1, (1, 2, 0)).fit(X, y)
    auditor.fit(X.to_numpy(dtype=object), y)
    assert not hasattr(auditor, "feature_names_in_")


def test_before_fit(data):
    with pytest.raises(NotFittedError):
        make().plot()


WRONG = {
    "unknown attribute": ({"attribute": "gene_"}, ValueError, "gene"),
    "position out of range": ({"attribute": 3}, ValueError, "3"),
    "attributes": ({"attribute": ["gene", "sex"]}, TypeError, "one column"),
    "unknown attack": ({"attacks": "whitebox"}, ValueError, "'white_box'.*got 'whitebox'"),
    "an attack for records": ({"attacks": "informed", "attribute": "age"}, ValueError, "numeric"),
    "no attack": ({"attacks": []}, ValueError, "at least one attack"),
    "no attack at all": ({"attacks": [3]}, TypeError, "got int"),
    "reserved name": ({"attacks": {"utility": "prior"}}, ValueError, "other than"),
    "another reserved name": ({"attacks": {"noiseless": "prior"}}, ValueError, "other than"),
    "unknown bound": ({"bounds": ["bayes", "fanno"]}, ValueError, "got 'fanno'"),
    "negative noise": ({"noise_scales": [0.1, -0.1]}, ValueError, "zero or more"),
    "infinite noise": ({"noise_scales": [np.inf]}, ValueError, "finite"),
    "missing noise": ({"noise_scales": [0.1, np.nan]}, ValueError, "finite"),
    "no noise": ({"noise_scales": []}, ValueError, "finite"),
    "no releases": ({"n_releases": 0}, ValueError, "n_releases"),
    "a drawn record": (
        {"secrets": "drawn", "attribute": None, "attacks": "default"},
        ValueError,
        "whole records",
    ),
    "short prior": ({"prior": [0.5, 0.5]}, ValueError, "prior"),
    "prior of counts": ({"prior": [3, 4, 5]}, ValueError, "sum to 1"),
    "negative prior": ({"prior": [-0.5, 0.5, 1.0]}, ValueError, "prior"),
    "priors of too many": ({"prior": np.full((3, 3), 1 / 3)}, ValueError, "14 targets"),
    "unknown prior": ({"prior": "posterior"}, ValueError, "prior"),
    "records out of range": ({"records": [14]}, ValueError, "must lie in"),
    "no records": ({"records": []}, ValueError, "selects no record"),
    "short mask": ({"records": [True, False]}, ValueError, "14 records"),
    "records of numbers": ({"records": [0.5]}, TypeError, "positions"),
    "missing folder": ({"checkpoint": "/missing/folder/x"}, ValueError, "Create the folder"),
    "one value": ({"values": ["A"]}, ValueError, "at least 2"),
    "no level": ({"confidence_level": 1.0}, ValueError, "confidence_level"),
    "unknown game": ({"secrets": "guessed"}, ValueError, "secrets"),
    "no estimator": ({"estimator": 3}, ValueError, "estimator"),
}


@pytest.mark.parametrize("name", mostly_slow(WRONG))
def test_wrong_parameters(name, data):
    options, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        make(**options).fit(*data)


def test_wrong_data(data):
    X, y = data
    with pytest.raises(ValueError, match="needs `y`"):
        make().fit(X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make().fit(X, y[:-1])
    with pytest.raises(ValueError, match="single value"):
        make().fit(X.assign(gene="A"), y)
    many = pd.concat([X] * 10, ignore_index=True)
    with pytest.raises(ValueError, match="too many values"):
        make().fit(many.assign(gene=[f"g{i}" for i in range(140)]), np.tile(y, 10))
    with pytest.raises(ValueError, match="2 missing values of 14"):
        make().fit(X.assign(gene=X["gene"].where(X.index > 1)), y)
    with pytest.raises(ValueError, match="two dimensions"):
        make().fit(X["gene"], y)
    with pytest.raises(ValueError, match="at least 2 records"):
        make().fit(X[:1], y[:1])


def test_estimators_that_cannot_be_audited(data):
    X, y = data
    released = PrivateLinearRegression(0.1).fit(X[["age"]], y).release()
    with pytest.raises(AttackNotApplicableError, match="released model"):
        make("age", estimator=released).fit(X[["age"]], y)


class Cheat:
    """Reads what it attacks."""

    def fit(self, X, y):
        self.secrets_ = np.asarray(X["gene"])
        return self

    def predict(self, released):
        return np.tile(self.secrets_, (len(released), 1))


@pytest.mark.slow
def test_an_attack_that_reads_the_secret_is_found(data):
    options = {"noise_scales": 1.0, "n_releases": 40, "prior": "uniform", "secrets": "actual"}
    auditor = make(attacks=[Cheat(), "prior"], **options)
    table = auditor.fit(*data).results_.set_index("attack")
    assert table.loc["Cheat", "success"] == 1.0
    assert table.loc["Cheat", "verdict"] == "bound exceeded"
    # A secret that is drawn is not in the data: reading them is worth a guess.
    drawn = auditor.set_params(secrets="drawn").fit(*data).results_.set_index("attack")
    assert drawn.loc["Cheat", "success"] == pytest.approx(1 / 3, abs=0.12)
    assert drawn.loc["Cheat", "verdict"] != "bound exceeded"


class KnowsAnotherColumn(BaseEstimator):
    """Guess that the first column is what the second is."""

    def fit(self, X, y):
        self.guess_ = np.asarray(X)[:, 1]
        return self

    def predict(self, released):
        return np.tile(self.guess_, (len(released), 1))


@pytest.mark.slow
def test_a_wrong_prior_is_found(rng):
    """All others say that the secret follows from a column; the stated prior denies it."""
    n = 100
    known = rng.integers(0, 2, n)
    secret = np.where(rng.random(n) < 0.15, 1 - known, known)
    X = np.column_stack([secret, known])
    y = rng.normal(size=n)
    auditor = make(
        0,
        estimator=PrivateLinearRegression(alpha=1.0),
        attacks=["imputation", "prior", KnowsAnotherColumn()],
        noise_scales=10.0,
        n_releases=200,
        secrets="actual",
        prior=np.column_stack([0.4 + 0.2 * known, 0.6 - 0.2 * known]),
    )
    table = auditor.fit(X, y).results_.set_index("attack")
    assert table.loc["imputation", "success"] > 0.7
    assert table.loc["KnowsAnotherColumn", "verdict"] == "bound exceeded"
    # A baseline that knows more than the prior is not held against it.
    assert set(table["verdict"][["imputation", "prior"]]) == {"not comparable"}
    right = clone(auditor).set_params(prior="conditional").fit(X, y).results_
    assert set(right["verdict"]) == {"consistent with the bound"}


@pytest.mark.slow
def test_a_bound_for_too_much_noise_is_found(data, monkeypatch):
    import skleak.audit.games.attribute._game as plan

    true_bounds = plan.success_bounds

    def too_tight(encodings, prior, noise_scale, names, *rest):
        return true_bounds(encodings, prior, 2.0 * noise_scale, names, *rest)

    X, y = data
    auditor = make(secrets="drawn", n_releases=200, noise_scales=0.15, attacks="white_box")
    assert auditor.fit(X, y).results_["verdict"].item() == "consistent with the bound"
    monkeypatch.setattr(plan, "success_bounds", too_tight)
    auditor.fit(X, y)
    assert auditor.results_["verdict"].item() == "bound exceeded"
    assert (auditor.records_["verdict"] == "bound exceeded").any()
