"""Use without skleak: scikit-learn's own estimators, and JSON."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr, ndtri
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer

import skleak
from skleak._release import ReleasedPipeline
from skleak._released import ReleasedLinearRegression, ReleasedLogisticRegression, ReleasedModel
from skleak.accounting import gaussian_delta, tradeoff_curve
from skleak.exceptions import NoGuaranteeError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import EpsilonDelta, ObjectivePerturbation
from skleak.preprocessing import (
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    PublicTargetScaler,
)

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
TARGETS = {
    "linear": (PrivateLinearRegression(0.1), lambda k: k / 7.0),
    "poisson": (PrivatePoissonRegressor(0.1), lambda k: k % 5),
    "two classes": (PrivateLogisticRegression(0.1), lambda k: np.array(["no", "yes"])[k % 2]),
    "three classes": (PrivateLogisticRegression(0.1), lambda k: k % 3),
    "booleans": (PrivateLogisticRegression(0.1, fit_intercept=False), lambda k: k % 2 == 0),
    "fractions": (PrivateLogisticRegression(0.1), lambda k: np.array([0.0, 2.0, 3.0])[k % 3]),
    "objects": (
        PrivateLogisticRegression(0.1),
        lambda k: np.array(["é", 'a "quoted" one'], dtype=object)[k % 2],
    ),
}


@pytest.fixture(params=TARGETS)
def case(request, rng):
    estimator, targets = TARGETS[request.param]
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "ç"])
    return estimator, X, targets(np.arange(60))


def _assert_alike(one, other, X, exact=True):
    for name in METHODS:
        assert hasattr(one, name) == hasattr(other, name)
        if hasattr(one, name):
            ours, theirs = getattr(one, name)(X), getattr(other, name)(X)
            if exact or (name == "predict" and hasattr(one, "classes_")):
                assert_array_equal(theirs, ours)
            else:
                assert_allclose(theirs, ours, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("named", [True, False])
def test_scikit_learns_own_estimator(case, named, rng):
    estimator, X, y = case
    X = X if named else X.to_numpy()
    released = estimator.fit(X, y).release()
    theirs = released.to_sklearn()
    assert type(theirs).__module__.startswith("sklearn.")
    _assert_alike(released, theirs, X, exact=False)
    _assert_alike(released, theirs, X[:1], exact=False)
    assert theirs.score(X, y) == pytest.approx(released.score(X, y), rel=1e-12)
    fitted = {name for name in vars(theirs) if name.endswith("_") and not name.startswith("_")}
    allowed = {"coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_"}
    assert fitted <= allowed
    assert hasattr(theirs, "feature_names_in_") == named
    # A copy: what is done to it does not reach the release.
    theirs.coef_[:] = 0.0
    assert np.all(released.coef_ != 0.0)


@pytest.mark.slow
def test_scikit_learns_own_estimator_needs_no_skleak(case):
    estimator, X, y = case
    released = estimator.fit(X, y).release()
    payload = pickle.dumps(released.to_sklearn())
    assert b"skleak" not in payload
    code = (
        "import sys, pickle, pandas as pd; model = pickle.load(sys.stdin.buffer);"
        "assert 'skleak' not in sys.modules; print(len(model.predict(pd.DataFrame("
        "[[0.0, 1.0, 2.0]], columns=['a', 'b', 'ç']))))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=payload, capture_output=True)
    assert done.stdout.strip() == b"1", done.stderr


@pytest.mark.parametrize("named", [True, False])
def test_json_and_back(case, named):
    estimator, X, y = case
    X = X if named else X.to_numpy()
    released = estimator.fit(X, y).release()
    text = released.to_json()
    again = type(released).from_json(text)
    assert type(ReleasedModel.from_json(text.encode())) is type(released)
    assert type(skleak.from_json(text)) is type(released)
    assert set(vars(again)) == set(vars(released))
    for name, value in vars(released).items():
        read = getattr(again, name)
        if isinstance(value, np.ndarray):
            assert read.dtype == value.dtype
            assert read.shape == value.shape
            assert read.tolist() == value.tolist()
        else:
            assert (type(read), read) == (type(value), value)
    _assert_alike(released, again, X)
    assert again.to_json() == text
    assert "pickle" not in text


def _damaged(document, path, value):
    document = json.loads(document)
    *parents, last = path.split(".")
    node = document
    for key in parents:
        node = node[key]
    if value is _GONE:
        del node[last]
    else:
        node[last] = value
    return json.dumps(document)


_GONE = object()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "other", "no document of skleak"),
        ("version", 2, "version 2 of the format, and this skleak reads version 1"),
        ("kind", "ReleasedPoissonRegressor", "Expected a document of .*got one of 'ReleasedPoiss"),
        ("kind", 3, "no kind or no content"),
        ("content", [], "no kind or no content"),
        ("content.coef_", _GONE, r"missing: \['coef_'\]"),
        ("content.seed_", 3, r"no fields \['seed_'\]"),
        ("content.classes_", _GONE, "classes_"),
        ("content.n_features_in_", 4, "coef_ must have shape"),
        ("content.n_features_in_", "3", "n_features_in_ must be a positive whole number"),
        ("content.coef_", "cos_system", "coef_ must hold finite doubles"),
        ("content.coef_.array.values", [1.0], r"shape \(1, 3\) cannot hold 1 values"),
        ("content.coef_.array.values", [1.0, 2.0, "x"], "must hold float values only"),
        ("content.coef_.array.values", [1.0, 2.0, {"float": "nan"}], "finite doubles"),
        ("content.coef_.array.dtype", "<M8[s]", "dtype of an array must be that of numbers"),
        ("content.coef_.array.dtype", 7, "dtype of an array must be that of numbers"),
        ("content.coef_.array.shape", [-1, -3], "list of sizes"),
        ("content.coef_", {"object": "os.system"}, "got 'object'"),
        ("content.coef_", {"array": 1, "tuple": 2}, "object of one key"),
        ("content.intercept_.array.shape", [1, 1], "intercept_ must have shape"),
        ("content.classes_.array.values", ["a", "a"], "classes_ must be"),
        ("content.provenance_", 3, "provenance_ must be a mapping"),
        ("content.feature_names_in_.array.values", ["a", "b", 3], "feature_names_in_ must be one"),
    ],
)
def test_damaged_documents_are_told(path, value, message, rng):
    X = pd.DataFrame(rng.normal(size=(20, 3)), columns=list("abc"))
    y = np.array(["a", "b"])[np.arange(20) % 2]
    text = PrivateLogisticRegression().fit(X, y).release().to_json()
    with pytest.raises(ValueError, match=message):
        ReleasedLogisticRegression.from_json(_damaged(text, path, value))


def test_what_is_no_json_and_what_cannot_be_written(rng):
    for text in ("", "{", b"\x80\x04.", "[1]", "null"):
        with pytest.raises(ValueError, match="This is no"):
            ReleasedModel.from_json(text)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    released = PrivateLogisticRegression().fit(X, y).release()
    released.classes_ = released.classes_.astype("datetime64[s]")
    with pytest.raises(TypeError, match=r"Arrays of datetime64.*cannot be written"):
        released.to_json()
    released.classes_ = np.array([0, 1])
    released.provenance_["step"] = slice(None)
    with pytest.raises(TypeError, match="A slice cannot be written"):
        released.to_json()


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2**-30, 1e22])
def test_doubles_survive_to_the_last_bit(value, rng):
    X = rng.normal(size=(20, 1))
    released = PrivateLinearRegression().fit(X, X[:, 0]).release()
    released.coef_[:] = value
    read = ReleasedLinearRegression.from_json(released.to_json()).coef_
    assert read.tobytes() == released.coef_.tobytes()


def _named(make_preparation, estimator, **options):
    pipeline = make_pipeline(make_preparation(**options), estimator)
    return pipeline.set_output(transform="pandas")


PIPELINES = {
    "plain": lambda prepare: make_pipeline(prepare(False), PrivateLinearRegression(0.1)),
    "named": lambda prepare: _named(prepare, PrivateLinearRegression(0.1), clipper=False),
    "dropped": lambda prepare: make_pipeline(
        prepare(False, "if_binary"), PrivateLinearRegression(0.1)
    ),
    "target": lambda prepare: make_pipeline(
        prepare(False),
        TransformedTargetRegressor(
            PrivateLinearRegression(0.1),
            transformer=PublicTargetScaler((30, 120)),
            check_inverse=False,
        ),
    ),
    "target outside": lambda prepare: TransformedTargetRegressor(
        make_pipeline(prepare(False), PrivateLinearRegression(0.1)),
        transformer=PublicTargetScaler((30, 120)),
        check_inverse=False,
    ),
    "indicators": lambda prepare: make_pipeline(
        ColumnTransformer(
            [
                ("filled", PublicImputer([1.0, 2.0], add_indicator=True), ["age", "weight"]),
                ("words", PublicImputer("none"), slice("gene", "smoker")),
                ("dropped", "drop", ["age"]),
                ("none", PublicScaler((0, 1)), []),
            ],
            remainder="passthrough",
            verbose_feature_names_out=False,
        ),
        ColumnTransformer(
            [("words", PublicOneHotEncoder(["AA", "no", "none"]), [4, 5])], remainder="passthrough"
        ),
        PrivateLinearRegression(0.1),
    ),
}


@pytest.fixture(params=PIPELINES)
def pipeline(request, make_preparation, patients):
    return PIPELINES[request.param](make_preparation).fit(patients, patients["weight"])


def _strange(patients):
    strange = patients.copy()
    strange["smoker"] = strange["smoker"].astype(object)
    strange.loc[0, ["age", "weight"]] = [1e300, -1e300]
    strange.loc[1, ["gene", "smoker"]] = ["unheard of", np.nan]
    strange["gene"] = strange["gene"].fillna(np.nan)
    return strange


@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_scikit_learns_own_pipeline(pipeline, patients):
    X = _strange(patients)
    released = skleak.release(pipeline)
    theirs = released.to_sklearn()
    payload = pickle.dumps(theirs)
    assert b"skleak" not in payload
    assert type(theirs) is Pipeline
    known = patients.assign(gene=patients["gene"].fillna(np.nan))  # scikit-learn's imputer: no None
    for table in (known, X, X.iloc[[0]]):
        assert_allclose(theirs.predict(table), pipeline.predict(table), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_pipelines_through_json(pipeline, patients):
    X = _strange(patients)
    released = skleak.release(pipeline)
    text = released.to_json()
    again = skleak.from_json(text)
    assert isinstance(again, ReleasedPipeline)
    for table in (patients, X, X.iloc[[0]]):
        assert_array_equal(again.predict(table), released.predict(table))
    assert again.to_json() == text
    assert_allclose(again.to_sklearn().predict(X), pipeline.predict(X), rtol=1e-10)


def test_a_clipper_goes_through_json_and_has_no_counterpart(make_preparation, patients):
    pipeline = make_pipeline(make_preparation(), PrivateLinearRegression(0.1))
    released = skleak.release(pipeline.fit(patients, patients["weight"]))
    again = ReleasedPipeline.from_json(released.to_json())
    assert_array_equal(again.predict(patients), released.predict(patients))
    with pytest.raises(NotImplementedError, match="scikit-learn has no transformer that shortens"):
        released.to_sklearn()


def test_steps_that_json_does_not_know(rng):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    released = skleak.release(make_pipeline(Normalizer(), PrivateLogisticRegression()).fit(X, y))
    with pytest.raises(TypeError, match="Step 'normalizer' is a Normalizer, which cannot be writ"):
        released.to_json()
    # It is scikit-learn's own already.
    assert_array_equal(released.to_sklearn().predict(X), released.predict(X))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("content.steps", []),
        ("content.steps", 3),
        ("content.steps", [["a", {"mapping": {"class": "os.system"}}]]),
        ("content.steps", [["a", "passthrough"]]),
        ("content.container", _GONE),
        ("content.steps", [["a", {"mapping": {"class": "PublicScaler"}}]]),
    ],
)
def test_damaged_pipelines_are_told(path, value, rng):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    pipeline = make_pipeline(PublicScaler((-1, 1)), PrivateLogisticRegression()).fit(X, y)
    text = skleak.release(pipeline).to_json()
    with pytest.raises(ValueError, match="no released pipeline, or damaged"):
        ReleasedPipeline.from_json(_damaged(text, path, value))
    with pytest.raises(ValueError, match="Expected a document of a ReleasedPipeline"):
        ReleasedPipeline.from_json(pipeline[-1].release().to_json())


PUBLIC = {"data_norm": 1.0, "fit_intercept": False, "public": ("n_samples",)}
GUARANTEED = {
    "output": PrivateLogisticRegression(
        EpsilonDelta(1.0, 1e-6), mechanism="output", classes=[0, 1], **PUBLIC
    ),
    "objective": PrivateLogisticRegression(
        EpsilonDelta(1.0, 1e-6), mechanism="objective", alpha=0.001, classes=[0, 1], **PUBLIC
    ),
    "robust": PrivateLinearRegression(
        EpsilonDelta(1.0, 1e-6),
        mechanism=ObjectivePerturbation(0.1),
        target_bound=1.0,
        alpha="auto",
        **PUBLIC,
    ),
    "sums": PrivateMoments(EpsilonDelta(1.0, 1e-6), data_norm=1.0, target_bound=1.0),
}


@pytest.mark.parametrize("name", GUARANTEED)
def test_profiles_leave_with_a_release(name, rng):
    X = rng.normal(size=(50, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    fit = clone(GUARANTEED[name]).fit(X, (X[:, 0] > 0.0).astype(int))
    released, epsilon = fit.release(require_guarantee=True), np.array([0.0, 0.3, 1.0, 2.0])
    again = type(released).from_json(released.to_json())
    profile = again.profile(epsilon)
    assert_array_equal(profile, released.profile(epsilon))
    assert np.all(profile >= fit._guarantee.profile(epsilon) * (1.0 - 1e-9))
    assert np.all(profile <= gaussian_delta(fit._guarantee.composed_mu, epsilon) * (1.0 + 1e-9))
    assert profile[2] <= 1e-6 * (1.0 + 1e-6)
    alpha, beta = tradeoff_curve(again.profile)
    gaussian = ndtr(ndtri(1.0 - alpha) - fit._guarantee.composed_mu)
    assert np.all(beta >= gaussian - 2e-4)
    with pytest.raises(ValueError, match="`epsilon`"):
        again.profile(-1.0)


@pytest.mark.parametrize("name", ["output", "sums"])
def test_events_of_dp_accounting(name, rng):
    dp = pytest.importorskip("dp_accounting")
    pld, renyi = pytest.importorskip("dp_accounting.pld"), pytest.importorskip("dp_accounting.rdp")
    X = rng.normal(size=(50, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    fit = clone(GUARANTEED[name]).fit(X, (X[:, 0] > 0.0).astype(int))
    released = fit.release(require_guarantee=True)
    event = type(released).from_json(released.to_json()).dp_event
    assert event.noise_multiplier == pytest.approx(1.0 / fit._guarantee.composed_mu, rel=1e-12)
    relation = dp.NeighboringRelation
    for delta in (1e-6, 1e-3):
        ours, found = fit._guarantee.noise.epsilon(delta), {}
        for kind in (pld.PLDAccountant, renyi.RdpAccountant):
            for each in (relation.ADD_OR_REMOVE_ONE, relation.REPLACE_ONE):
                accountant = kind(neighboring_relation=each).compose(event)
                found[kind, each] = accountant.get_epsilon(delta)
        assert all(epsilon >= ours - 1e-6 for epsilon in found.values())
        assert found[pld.PLDAccountant, relation.ADD_OR_REMOVE_ONE] <= 1.01 * ours


def test_releases_without_a_guarantee_have_no_profile(rng, monkeypatch):
    X, y = np.eye(3), np.arange(3.0)
    released = PrivateLinearRegression(0.1).fit(X, y).release()
    for call in (lambda: released.profile(1.0), lambda: released.dp_event):
        with pytest.raises(NoGuaranteeError, match="No differential-privacy guarantee"):
            call()
    # An older document, or one of private SGD, states epsilon and delta alone.
    released.provenance_["differential_privacy"] = {"epsilon": 1.0, "delta": 1e-6}
    assert_array_equal(released.profile([0.5, 1.0, 3.0]), [1.0, 1e-6, 1e-6])
    with pytest.raises(NoGuaranteeError, match="states no mu"):
        _ = released.dp_event
    # One of noisy preprocessing is Gaussian private up to a delta, which every epsilon pays.
    part = {"composed_mu": 0.25, "mu_delta": 1e-7}
    released.provenance_["differential_privacy"] |= part
    assert released.profile(3.0) == pytest.approx(1e-7, rel=1e-6)
    assert released.profile(0.0) == pytest.approx(gaussian_delta(0.25, 0.0) + 1e-7, rel=1e-12)
    with pytest.raises(NoGuaranteeError, match="up to a delta"):
        _ = released.dp_event
    del part["mu_delta"], released.provenance_["differential_privacy"]["mu_delta"]
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"skleak\[accounting\]"):
        _ = released.dp_event
