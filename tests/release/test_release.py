"""What may be published of a pipeline: attacks on what is handed out, and refusals."""

import functools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import skleak
from skleak._released import ReleasedLogisticRegression, ReleasedModel
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import GaussianDP
from skleak.preprocessing import PublicScaler, PublicTargetScaler

NUMBERS, WORDS = ["age", "weight"], ["gene", "smoker"]


def _target(X):
    return np.asarray(X["weight"] > 75.0).astype(int)


def _model(noise=0.1, **options):
    given = {"alpha": 0.1, "fit_intercept": False, "mechanism": "output"} | options
    return PrivateLogisticRegression(noise, **given)


def _without_coefficients(released):
    """What an attacker compares: all of a release but its noisy coefficients, to the last bit."""
    again = pickle.loads(pickle.dumps(released))
    model = again.steps[-1][1]
    model = getattr(model, "regressor_", model)
    model.coef_, model.intercept_ = np.zeros_like(model.coef_), np.zeros_like(model.intercept_)
    return pickle.dumps(again)


def _double(X):
    return 2.0 * X


def _shifted(X, by):
    return X + by


SCIKIT_LEARN = [
    FunctionTransformer(),
    FunctionTransformer(np.tanh),
    FunctionTransformer(_double, inverse_func=functools.partial(np.multiply, 0.5)),
    Normalizer(),
    Binarizer(threshold=1.0),
    PolynomialFeatures(2),
    SimpleImputer(strategy="constant", fill_value=1.0, keep_empty_features=True),
    FeatureUnion([("a", Normalizer()), ("b", "passthrough"), ("c", PolynomialFeatures(2))]),
]


@pytest.mark.parametrize("clipper", [True, False])
def test_ours_tell_nothing_of_the_raw_table(make_patients, make_preparation, rng, clipper):
    X = make_patients(rng)
    pipeline = make_pipeline(make_preparation(clipper), _model())
    released = skleak.release(pipeline.fit(X, _target(X)))
    assert released[-1].provenance_["fitted_steps"] == []
    assert "fitted_steps" not in pipeline[-1].release().provenance_
    assert_array_equal(released.predict_proba(X), pipeline.predict_proba(X))
    plain = _without_coefficients(released)
    for other in (X.iloc[1:], make_patients(rng, 7), X.replace({"AA": "unheard of"})):
        neighbor = clone(pipeline).fit(other, np.arange(len(other)) % 2)
        assert _without_coefficients(skleak.release(neighbor)) == plain


@pytest.mark.parametrize("step", SCIKIT_LEARN, ids=lambda step: type(step).__name__)
def test_public_steps_of_scikit_learn(step, rng):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    for table in (X, pd.DataFrame(X, columns=["a", "b", "c"])):
        pipeline = make_pipeline(clone(step), _model()).fit(table, y)
        released = skleak.release(pipeline)
        assert_array_equal(released.predict_proba(table), pipeline.predict_proba(table))
        neighbor = table.copy()
        neighbor[:1] = 1e3
        other = skleak.release(clone(pipeline).fit(neighbor, y))
        assert _without_coefficients(other) == _without_coefficients(released)


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(categories=[["AA", "AB", "BB", None], ["no", "yes"]], drop="first"),
        OneHotEncoder(categories=[["AA", "AB"], ["yes"]], handle_unknown="ignore"),
        OrdinalEncoder(
            categories=[["AA", "AB", "BB"], ["no", "yes"]],
            handle_unknown="use_encoded_value",
            unknown_value=-1,
        ),
    ],
    ids=lambda step: type(step).__name__,
)
def test_explicit_categories_are_public(encoder, make_patients, rng):
    X = make_patients(rng).fillna({"gene": "BB"})
    y = _target(X)
    pipeline = make_pipeline(encoder, _model()).fit(X[WORDS], y)
    released = skleak.release(pipeline)
    assert_array_equal(released.predict_proba(X[WORDS]), pipeline.predict_proba(X[WORDS]))
    neighbor = X[WORDS].copy()
    neighbor.iloc[1] = ["AB", "yes"]
    # A column of text that is of another type of text.
    other = make_pipeline(clone(encoder), _model()).fit(neighbor.astype("category"), y)
    assert _without_coefficients(skleak.release(other)) == _without_coefficients(released)


def test_columns_by_type_and_the_remainder_are_schema(make_patients, rng):
    X = make_patients(rng)
    X["age"] = X["age"].fillna(50.0)
    columns = make_column_transformer(
        (PublicScaler([(0, 100), (30, 200)]), make_column_selector(dtype_include="number")),
        ("drop", ["gene"]),
        (Normalizer(), []),
        remainder=OneHotEncoder(categories=[["no", "yes"]]),
    )
    pipeline = make_pipeline(columns, _model()).fit(X, _target(X))
    released = skleak.release(pipeline)
    assert_array_equal(released.predict_proba(X), pipeline.predict_proba(X))
    assert list(released[:-1].get_feature_names_out()) == list(
        pipeline[:-1].get_feature_names_out()
    )
    assert b"make_column_selector" not in pickle.dumps(released)
    neighbor = clone(pipeline).fit(X.iloc[1:], _target(X.iloc[1:]))
    assert _without_coefficients(skleak.release(neighbor)) == _without_coefficients(released)


def test_the_density_of_the_records_does_not_decide_on_sparse_output(rng):
    encoder = OneHotEncoder(categories=[list("abc")], handle_unknown="ignore")
    columns = ColumnTransformer([("w", encoder, [0])])
    # 17 or 18 of 60 entries are not zero: tables that differ in one record, at the threshold.
    tables = [np.array([["a" if k < n else "z"] for k in range(20)]) for n in (17, 18)]
    y = np.arange(20) % 2
    fits = [make_pipeline(clone(columns), _model()).fit(table, y) for table in tables]
    assert fits[0][0].sparse_output_ != fits[1][0].sparse_output_  # the attack, on the fit
    payloads = {_without_coefficients(skleak.release(fit)) for fit in fits}
    assert len(payloads) == 1
    for fit in fits:
        assert_array_equal(skleak.release(fit).predict(tables[0]), fit.predict(tables[0]))


LEARNED = {
    "standard scaler": (StandardScaler(), "its `fit` reads the records"),
    "min-max scaler": (MinMaxScaler(), "its `fit` reads the records"),
    "bins": (KBinsDiscretizer(2, quantile_method="linear"), "its `fit` reads the records"),
    "mean": (SimpleImputer(), "strategy='mean'"),
    "type": (SimpleImputer(strategy="constant", keep_empty_features=True), "fill_value=None"),
    "empty columns": (SimpleImputer(strategy="constant", fill_value=0.0), "empty in all records"),
    "indicator": (
        SimpleImputer(
            strategy="constant", fill_value=0.0, keep_empty_features=True, add_indicator=True
        ),
        "columns in which a record lacked a value",
    ),
    "bound method": (FunctionTransformer(StandardScaler().fit(np.eye(3)).transform), "'func'"),
    "array": (FunctionTransformer(_shifted, kw_args={"by": np.ones(3)}), "'kw_args'"),
    "partial": (FunctionTransformer(functools.partial(np.add, np.ones(3))), "'func'"),
    "frozen": (FrozenEstimator(StandardScaler().fit(np.eye(3))), "reads the records"),
    "union": (FeatureUnion([("a", Normalizer()), ("b", MinMaxScaler())]), r"featureunion__b'"),
    "columns": (make_column_transformer((StandardScaler(), [0]), remainder=Normalizer()), "reads"),
    "chosen": (
        ColumnTransformer([("a", Normalizer(), lambda X: [0, 1])]),
        r"the columns of \['a'\] are chosen by a function of the records",
    ),
}


@pytest.mark.parametrize("name", LEARNED)
def test_steps_that_learned_from_the_records_are_refused(name, rng):
    step, reason = LEARNED[name]
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    pipeline = make_pipeline(step, _model()).fit(X, y)
    with pytest.raises(ValueError, match=f"learned from the records, or may mix.*{reason}"):
        skleak.release(pipeline)
    with pytest.warns(PrivacyLeakWarning, match=reason) as caught:
        released = skleak.release(pipeline, allow_fitted=True)
    assert caught[0].filename == __file__
    assert len(released[-1].provenance_["fitted_steps"]) == 1
    assert_array_equal(released.predict_proba(X), pipeline.predict_proba(X))
    with pytest.raises(NoGuaranteeError, match="without `require_guarantee`"):
        skleak.release(pipeline, allow_fitted=True, require_guarantee=True)


def test_a_closure_may_carry_records(rng):
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    mean = X.mean(axis=0)
    for function in (lambda Z: Z - mean, lambda Z, mean=mean: Z - mean):
        pipeline = make_pipeline(FunctionTransformer(function), _model()).fit(X, y)
        with pytest.raises(ValueError, match=r"parameters \['func'\] are objects that can hold"):
            skleak.release(pipeline)


def test_encoders_that_look_at_the_records_are_refused(patients):
    y = _target(patients)
    explicit = [["AA", "AB", "BB", None], ["no", "yes"]]
    for encoder, reason in (
        (OneHotEncoder(), "categories='auto'"),
        (OrdinalEncoder(), "categories='auto'"),
        (OneHotEncoder(categories=explicit, max_categories=2), "infrequent"),
        (OneHotEncoder(categories=explicit, min_frequency=2), "infrequent"),
    ):
        pipeline = make_pipeline(encoder, _model()).fit(patients[WORDS], y)
        with pytest.raises(ValueError, match=reason):
            skleak.release(pipeline)


def test_names_that_follow_the_type_of_the_records_are_refused():
    y, encoder = [0, 1, 0], OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore")
    whole = make_pipeline(clone(encoder), _model()).fit(pd.DataFrame({"a": [0, 1, 0]}), y)
    assert skleak.release(whole).predict(pd.DataFrame({"a": [0, 1]})).shape == (2,)
    # One value is missing, and the names of the columns tell it: a_0.0.
    parts = make_pipeline(clone(encoder), _model()).fit(pd.DataFrame({"a": [0, 1, None]}), y)
    with pytest.raises(ValueError, match="by the type that the records gave"):
        skleak.release(parts)


def test_nothing_of_the_estimators_own_leaves(make_patients, make_preparation, rng):
    X = make_patients(rng)
    pipeline = make_pipeline(make_preparation(), _model())
    payload = pickle.dumps(skleak.release(pipeline.fit(X, _target(X))))
    for word in (
        b"PrivateLogisticRegression(",
        b"_state",
        b"random_state",
        b"fisher",
        b"Generator",
    ):
        assert word not in payload
    for value in pipeline[:-1].transform(X)[:, 1]:
        assert np.float64(value).tobytes() not in payload


@pytest.mark.parametrize("inside", [True, False])
def test_the_target_is_scaled_in_public_too(make_patients, make_preparation, rng, inside):
    X = make_patients(rng)
    model = PrivateLinearRegression(0.1)
    scaler = PublicTargetScaler((30, 120))
    if inside:
        pipeline = make_pipeline(
            make_preparation(),
            TransformedTargetRegressor(model, transformer=scaler, check_inverse=False),
        )
    else:
        pipeline = TransformedTargetRegressor(
            make_pipeline(make_preparation(), model), transformer=scaler, check_inverse=False
        )
    pipeline.fit(X, X["weight"])
    released = skleak.release(pipeline)
    assert_array_equal(released.predict(X), pipeline.predict(X))
    assert b"Private" not in pickle.dumps(released).replace(b"PrivateLinearRegression", b"", 1)
    learned = TransformedTargetRegressor(clone(model), transformer=StandardScaler())
    learned.fit(X[["weight"]], X["weight"])
    with pytest.raises(ValueError, match=r"'transformer' \(StandardScaler\)"):
        skleak.release(learned)


def test_a_bare_estimator_and_what_is_released_already(make_patients, make_preparation, rng):
    X = make_patients(rng)
    pipeline = make_pipeline(make_preparation(), _model()).fit(X, _target(X))
    bare = skleak.release(pipeline[-1])
    assert isinstance(bare, ReleasedLogisticRegression)
    assert skleak.release(bare) is bare
    released = skleak.release(pipeline)
    again = skleak.release(released)
    assert_array_equal(again.predict_proba(X), released.predict_proba(X))
    assert clone(released) is released
    assert released.fit(None) is released
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.loads(pickle.dumps(released)).predict(X)


def test_what_cannot_be_released(rng):
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    with pytest.raises(TypeError, match="must be a private estimator, or end in one; got Logistic"):
        skleak.release(make_pipeline(Normalizer(), LogisticRegression()).fit(X, y))
    with pytest.raises(TypeError, match="got FeatureHasher"):
        skleak.release(FeatureHasher())
    with pytest.raises(NotFittedError):
        skleak.release(make_pipeline(PublicScaler((0, 1)), _model()))
    with pytest.warns(PrivacyLeakWarning, match="without noise"):
        skleak.release(make_pipeline(Normalizer(), _model(0)).fit(X, y))


def test_a_guarantee_can_be_required(make_patients, make_preparation, rng):
    X = make_patients(rng)
    y = _target(X)
    promises = {"data_norm": 1.0, "classes": [0, 1], "public": ("n_samples",)}
    with_guarantee = make_pipeline(make_preparation(), _model(GaussianDP(1.0), **promises))
    released = skleak.release(with_guarantee.fit(X, y), X=X, require_guarantee=True)
    assert isinstance(released[-1], ReleasedModel)
    stated = released[-1].provenance_["differential_privacy"]
    assert stated["about"] == "replacement of one row of the table that the pipeline received"
    alone = with_guarantee[-1].release().provenance_["differential_privacy"]
    assert alone["about"] == "replacement of one row of the table that the model received"
    without = make_pipeline(make_preparation(), _model(0.1)).fit(X, y)
    with pytest.raises(
        NoGuaranteeError, match=r"No differential-privacy guarantee.*no bound on the norm"
    ):
        skleak.release(without, require_guarantee=True)
    skleak.release(released, require_guarantee=True)
    with pytest.raises(NoGuaranteeError, match="is stated by this released model"):
        skleak.release(skleak.release(without), require_guarantee=True)


def _centered(X):
    return X - X.mean(axis=0)


def test_a_function_without_memory_may_mix_the_records(rng):
    """It is published as it is, and one raw record still moves all rows."""
    X, y = rng.normal(size=(30, 3)) / 10.0, np.arange(30) % 2
    promises = {"data_norm": 1.0, "classes": [0, 1], "public": ("n_samples",)}
    for function, is_row_by_row in ((_centered, False), (np.tanh, True), (None, True)):
        pipeline = make_pipeline(FunctionTransformer(function), _model(GaussianDP(1.0), **promises))
        released = skleak.release(pipeline.fit(X, y), X=X)
        about = released[-1].provenance_["differential_privacy"]["about"]
        assert ("the pipeline received" in about) == is_row_by_row
        if is_row_by_row:
            skleak.release(pipeline, require_guarantee=True)
        else:
            with pytest.raises(NoGuaranteeError, match="known to transform each row by itself"):
                skleak.release(pipeline, require_guarantee=True)


def test_set_output_stays(make_patients, make_preparation, rng):
    X = make_patients(rng)
    pipeline = make_pipeline(make_preparation(), _model()).set_output(transform="pandas")
    pipeline.fit(X, _target(X))
    released = skleak.release(pipeline)
    assert_array_equal(released.predict_proba(X), pipeline.predict_proba(X))
    assert list(released[:-1].transform(X).columns) == list(released[-1].feature_names_in_)


def test_the_function_is_reached_from_the_root():
    assert "release" in dir(skleak)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        skleak.nothing  # noqa: B018


def test_counts(make_patients, make_preparation, rng):
    X = make_patients(rng)
    pipeline = make_pipeline(make_preparation(), PrivatePoissonRegressor(0.1))
    pipeline.fit(X, np.arange(60) % 4)
    assert_array_equal(skleak.release(pipeline).predict(X), pipeline.predict(X))


def test_a_frozen_estimator_is_what_it_holds(make_patients, make_preparation, rng):
    X = make_patients(rng)
    pipeline = make_pipeline(make_preparation(), _model()).fit(X, _target(X))
    plain = skleak.release(pipeline)
    inside = make_pipeline(FrozenEstimator(pipeline[0]), FrozenEstimator(pipeline[-1]))
    for frozen in (FrozenEstimator(pipeline), FrozenEstimator(FrozenEstimator(pipeline)), inside):
        released = skleak.release(frozen, X=X, y=_target(X))
        assert_array_equal(released.predict_proba(X), plain.predict_proba(X))
        assert released[-1].provenance_["fitted_steps"] == []
        assert b"Frozen" not in pickle.dumps(released)
    assert type(skleak.release(FrozenEstimator(pipeline[-1]))) is ReleasedLogisticRegression


def test_what_a_search_chose_it_learned(make_patients, make_preparation, rng):
    X = make_patients(rng)
    y = _target(X)
    grid = {"alpha": [0.1, 1.0]}
    inside = make_pipeline(make_preparation(), GridSearchCV(_model(), grid, cv=2)).fit(X, y)
    name = "privatelogisticregression__alpha"
    around = GridSearchCV(make_pipeline(make_preparation(), _model()), {name: [0.1]}, cv=2)
    for search, path in ((inside, "gridsearchcv"), (around.fit(X, y), "search")):
        with pytest.raises(NoGuaranteeError, match=f"'{path}' .*chosen by scores of the records"):
            skleak.release(search)
        with pytest.raises(NoGuaranteeError, match="without `require_guarantee`"):
            skleak.release(search, allow_fitted=True, require_guarantee=True)
        with pytest.warns(PrivacyLeakWarning, match="chosen by scores of the records"):
            released = skleak.release(search, X=X, y=y, allow_fitted=True)
        assert released[-1].provenance_["fitted_steps"] == [path]
        assert_array_equal(released.predict_proba(X), search.predict_proba(X))
        payload = pickle.dumps(released)
        assert not any(word in payload for word in (b"GridSearchCV", b"cv_results_", b"_state"))


def test_a_pipeline_of_ones_own_is_refused(rng):
    """The attack: a composition that `walk` does not look into hides the noiseless model."""

    class Mine(Pipeline):
        pass

    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    own = Mine([("model", _model())]).fit(X, y)
    for fitted in (own, FrozenEstimator(own), make_pipeline(Normalizer(), own)):
        with pytest.raises(TypeError, match="got Mine at its end"):
            skleak.release(fitted, allow_fitted=True)
