"""The trust boundary: what a release and a pickle hold, and what they must not hold."""

import copy
import io
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from helpers import flat, mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from skleak._released import ReleasedModel
from skleak.accounting import LeakageLedger
from skleak.exceptions import LeakageBudgetError, NoGuaranteeError, PrivacyLeakWarning
from skleak.influence.jacobian import FitFactor
from skleak.influence.state import FitState
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression, _releasing
from skleak.solvers import Objective

# A fit that evens its total leakage says how even it is, whenever that is asked for.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.reweighting='total'. evens:skleak.exceptions.UnevenLeakageWarning"
)


def _everything(thing, seen=None):
    """Every object reachable through attributes, items, slots, closures and arrays' bases."""
    seen = {} if seen is None else seen
    if id(thing) in seen or isinstance(thing, type):
        return seen
    seen[id(thing)] = thing
    children = []
    if isinstance(thing, dict):
        children += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        children += list(thing)
    elif isinstance(thing, np.ndarray):
        children += [thing.base] if thing.base is not None else []
        children += thing.tolist() if thing.dtype == object else []
    elif not isinstance(thing, str | bytes | int | float | complex | bool | type(None)):
        children += list(getattr(thing, "__dict__", {}).values())
        children += [getattr(thing, name, None) for name in getattr(thing, "__slots__", ())]
    for child in children:
        _everything(child, seen)
    return seen


def _numbers(thing):
    """All floating-point numbers reachable from an object."""
    values = []
    for item in _everything(thing).values():
        if isinstance(item, np.ndarray) and item.dtype.kind == "f":
            values.append(item.ravel())
        elif isinstance(item, float):
            values.append(np.array([item]))
    return np.concatenate([*values, np.zeros(0)])


def _confidential(model):
    """Numbers that must not leave, of a fit that has not been released."""
    state = model._state
    return {
        "coefficients": state.factor.coefficients,
        "inverse Hessian": state.factor.inverse_hessian.ravel(),
        "rows": state.objective.X.ravel(),
        "targets": state.objective.y[np.abs(state.objective.y % 1.0) > 0.0],
        "leakage": model.fisher_information_loss_,
        "diagonal leakage": model.diagonal_fisher_information_loss_,
        "weights": getattr(model, "sample_reweights_", np.zeros(0)),
        "noise": np.ravel(model.coef_) - state.factor.coefficients[: state.n_features],
    }


def _holds(numbers, secret):
    return np.isin(np.float64(secret), numbers) | np.isin(np.float32(secret), np.float32(numbers))


def _bytes_hold(payload, secret):
    """Whether a byte string holds any of the numbers, in any usual binary form or as text."""
    for value in np.unique(secret):
        forms = [np.array(value, dtype=kind).tobytes() for kind in ("<f8", ">f8")]
        forms += [repr(float(value)).encode()]
        if any(form in payload for form in forms):
            return True
    return False


@pytest.fixture(scope="module")
def fits():
    """Fits of this module by estimator and reweighting."""
    return {}


@pytest.fixture(params=[None, "irfil", "total"], ids=["plain", "irfil", "total"])
def model(request, estimator_class, make_data, fits):
    """A fit that the tests share: none of them changes it."""
    key = estimator_class.__name__, request.param
    if key not in fits:
        draws = np.random.default_rng(list(str(key).encode()))
        data = make_data(estimator_class, draws, n=30)
        model = estimator_class(
            0.1, alpha=0.1, **flat(reweighting=request.param, reweighting__max_iter=100)
        )
        y = np.where(data.y == 1, "ill", "well") if key[0][7:10] == "Log" else data.y
        X = pd.DataFrame(data.X, columns=["age", "bmi", "bp", "dose"])
        fits[key] = model.fit(X, y, sample_weight=data.weights)
        model.leakage_report()  # whatever is kept along the way must not leave either
    return fits[key]


def test_a_release_predicts_like_the_estimator(model, data):
    X = pd.DataFrame(data.X, columns=["age", "bmi", "bp", "dose"])
    released = model.release()
    assert_array_equal(released.predict(X), model.predict(X))
    for name in ("predict_proba", "predict_log_proba", "decision_function"):
        assert hasattr(released, name) == hasattr(model, name)
        if hasattr(model, name):
            assert_array_equal(getattr(released, name)(X), getattr(model, name)(X))
    y = model.predict(X) if not hasattr(model, "classes_") else data.y.astype(str)
    if hasattr(model, "classes_"):
        y = np.where(data.y == 1, "ill", "well")
    assert released.score(X, y) == model.score(X, y)
    assert released.noise_scale_ == 0.1
    assert_array_equal(released.feature_names_in_, model.feature_names_in_)
    with pytest.raises(ValueError, match="feature names"):
        released.predict(X[["bmi", "age", "bp", "dose"]])


def test_a_release_holds_nothing_confidential(model):
    released = model.release()
    numbers = _numbers(released)
    for name, secret in _confidential(model).items():
        assert not np.any(_holds(numbers, secret)), name
    for item in _everything(released).values():
        assert not isinstance(item, FitState | FitFactor | Objective | type(model))
        assert not isinstance(item, np.random.Generator | np.random.RandomState)
    names = set(vars(released))
    assert names <= {*ReleasedModel._published, "provenance_"}
    # The search finds what is there.
    assert np.any(_holds(_numbers(model), model._state.objective.X.ravel()))


@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_the_pickle_of_a_release_holds_nothing_confidential(model, protocol):
    released = model.release()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        payload = pickle.dumps(released, protocol)
    for name, secret in _confidential(model).items():
        assert not _bytes_hold(payload, secret), name
    # The search finds what is there.
    assert _bytes_hold(payload, np.ravel(model.coef_))
    again = pickle.loads(payload)
    assert_array_equal(again.coef_, released.coef_)
    assert repr(again) == repr(released)


@pytest.mark.slow
def test_pickling_an_unreleased_model_drops_the_noiseless_state_and_warns(model, data):
    with pytest.warns(PrivacyLeakWarning, match=r"unreleased .*Pickle `estimator\.release\(\)`"):
        payload = pickle.dumps(model)
    secrets = _confidential(model)
    for name in ("coefficients", "inverse Hessian", "rows", "targets", "noise"):
        assert not _bytes_hold(payload, secrets[name]), name
    again = pickle.loads(payload)
    assert not hasattr(again, "_state")
    X = pd.DataFrame(data.X, columns=["age", "bmi", "bp", "dose"])
    assert_array_equal(again.predict(X), model.predict(X))
    for ask in (again.fisher_information_loss, again.leakage_report):
        with pytest.raises(NotFittedError, match="unpickled or copied, which drops"):
            ask()
    # The original is as it was, and what is left of the copy can be released and fitted.
    assert np.all(model.fisher_information_loss() > 0.0)
    assert_array_equal(again.release().coef_, model.coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.dumps(again)
    again.fit(data.X, data.y)
    assert again.fisher_information_loss().shape == (60,)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_are_treated_like_pickles(model, duplicate):
    with pytest.warns(PrivacyLeakWarning, match="copying"):
        again = duplicate(model)
    assert not hasattr(again, "_state")
    assert hasattr(model, "_state")


def test_joblib_warns_too(model):
    with pytest.warns(PrivacyLeakWarning):
        joblib.dump(model, io.BytesIO())


def test_a_pipeline_around_it_warns_too(numbers):
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.1))
    pipeline.fit(numbers.X, numbers.y)
    with pytest.warns(PrivacyLeakWarning):
        payload = pickle.dumps(pipeline)
    assert not _bytes_hold(payload, pipeline[-1]._state.factor.coefficients)


def test_an_unfitted_or_cloned_model_pickles_in_silence(estimator_class, model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.dumps(estimator_class())
        again = pickle.loads(pickle.dumps(clone(model)))
    assert again.get_params() == model.get_params()


def test_noise_that_can_be_drawn_again_warns(estimator_class, data):
    for seed in (77, np.int64(7), np.random.default_rng(0), np.random.RandomState(0)):
        model = estimator_class(0.1, random_state=seed).fit(data.X, data.y)
        message = "noise came from a seed or a generator: whoever guesses or copies it"
        with pytest.warns(PrivacyLeakWarning, match=message) as caught:
            released = model.release()
        assert caught[0].filename == __file__
        # Whoever guesses the seed has the noise; the release does not hold it.
        assert seed not in [v for v in _everything(released).values() if type(v) is type(seed)]
        with pytest.raises(NoGuaranteeError, match="can be drawn again"):
            model.release(require_guarantee=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator_class(0.1).fit(data.X, data.y).release()


def test_copies_of_a_generator_draw_the_same_noise_and_are_told_apart_from_secret_ones(numbers):
    # The attack: cross-validation clones the generator, so that the difference of two releases is
    # that of the noiseless models, to the last digits.
    X, y = numbers.X, numbers.y
    model = PrivateLinearRegression(10.0, random_state=np.random.default_rng(0))
    one, other = clone(model).fit(X, y), clone(model).fit(X[1:], y[1:])
    exact = PrivateLinearRegression(0)
    difference = exact.fit(X, y).coef_ - exact.fit(X[1:], y[1:]).coef_
    assert_allclose(one.coef_ - other.coef_, difference, atol=2 * one.noise_step_)
    for fit in (one, other):
        with pytest.warns(PrivacyLeakWarning):
            assert "seeded" in fit.release().noise_sampler_
    ledger = LeakageLedger(":memory:", max_leakage=1e6, units=1e3)
    with pytest.raises(LeakageBudgetError):
        clone(model).set_params(ledger=ledger).fit(X, y)
    secret = PrivateLinearRegression(10.0)
    one, other = clone(secret).fit(X, y), clone(secret).fit(X[1:], y[1:])
    assert np.abs(one.coef_ - other.coef_ - difference).max() > 0.1


def test_a_release_lies_on_its_grid_and_states_its_noise(estimator_class, data):
    for covariance in ("isotropic", np.diag([1.0, 4.0, 9.0, 16.0, 25.0]), "curvature", "minimax"):
        released = estimator_class(0.3, noise_covariance=covariance).fit(data.X, data.y).release()
        parameters = np.append(np.ravel(released.coef_), np.ravel(released.intercept_))
        assert released.noise_step_ == 2.0**-32
        assert np.all(parameters % released.noise_step_ == 0.0)
        if isinstance(covariance, str) and covariance != "isotropic":
            assert released.coef_noise_scale_ is released.intercept_noise_scale_ is None
            assert "shaped" in released.noise_sampler_
            continue
        shares = np.sqrt([1.0, 4.0, 9.0, 16.0, 25.0]) / np.sqrt(11.0)
        shares = np.ones(5) if isinstance(covariance, str) else shares
        assert_allclose(np.ravel(released.coef_noise_scale_), 0.3 * shares[:4], rtol=1e-12)
        assert_allclose(np.ravel(released.intercept_noise_scale_), 0.3 * shares[4], rtol=1e-12)
        assert released.coef_noise_scale_.shape == released.coef_.shape


def test_a_release_says_that_its_step_grew(numbers):
    model = PrivateLinearRegression(1e-12).fit(numbers.X, numbers.y)
    with pytest.warns(UserWarning, match="released parameters are multiples of"):
        released = model.release()
    assert np.all(released.coef_ % released.noise_step_ == 0.0)
    assert released.noise_step_ > 2.0**-70


@pytest.mark.parametrize("reweighting", mostly_slow([None, "irfil"]))
@pytest.mark.parametrize("covariance", mostly_slow(["isotropic", "curvature", "minimax"]))
def test_neighbors_differ_in_the_parameters_alone(make_data, rng, covariance, reweighting):
    """The attack: read one record's entry off anything in a release but the noisy parameters."""
    if reweighting is not None and covariance != "isotropic":
        return
    X, y, _ = make_data(PrivateLogisticRegression, rng)
    y = np.where(y > 0, "ill", "well")
    changed, labels = X.copy(), y.copy()
    changed[0], labels[1] = 5.0 * changed[0], "well" if y[1] == "ill" else "ill"
    options = {"alpha": 0.1, "noise_covariance": covariance, "reweighting": reweighting}
    pickles = []
    for table, target in ((X, y), (changed, labels)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = PrivateLogisticRegression(0.1, classes=["ill", "well"], **options)
            released = model.fit(table, target).release()
        released.coef_, released.intercept_ = np.zeros((1, 4)), np.zeros(1)
        pickles.append(pickle.dumps(released))
    assert pickles[0] == pickles[1]


@pytest.mark.slow
def test_classes_are_public_only_by_statement(classes):
    # Neighbors that differ in one label: without `classes` everybody sees it.
    X, y = classes.X, np.array(["well"] * 59 + ["ill"])
    options = {"alpha": 0.1, "fit_intercept": False}
    with pytest.raises(ValueError, match="needs two classes"):
        PrivateLogisticRegression(**options).fit(X, ["well"] * 60)
    told = PrivateLogisticRegression(classes=["ill", "rare", "well"], **options)
    for labels in (y, ["well"] * 60, ["ill", "rare", "well"] * 20):
        released = told.fit(X, labels).release()
        assert released.classes_.tolist() == ["ill", "rare", "well"]
        assert released.coef_.shape == (3, 4)
    two = PrivateLogisticRegression(classes=["ill", "well"], **options)
    assert two.fit(X, ["well"] * 60).release().coef_.shape == (1, 4)
    with pytest.raises(ValueError, match=r"labels of 1 records are not among `classes`.*row 7"):
        two.fit(X, np.where(np.arange(60) == 7, "secret", y))
    for wrong in (["ill"], ["ill", "ill"]):
        with pytest.raises(ValueError, match="at least two different labels"):
            two.set_params(classes=wrong).fit(X, y)
    for more in ({"alpha": 0.0}, {"fit_intercept": True}):
        with pytest.raises(ValueError, match="declared classes have no record"):
            PrivateLogisticRegression(classes=["ill", "well"], **options | more).fit(
                X, ["well"] * 60
            )


def test_declared_classes_of_any_kind_of_text(classes):
    # What the labels are kept in, a function of the data as it may be, is not published.
    y = np.where(classes.y == 1, "ill", "well")
    forms = [y, y.astype(object), pd.Series(y), pd.Series(y, dtype="string"), pd.Categorical(y)]
    for n_classes in (2, 3):
        declared = ["ill", "well", "a rare illness"][:n_classes]
        model = PrivateLogisticRegression(0, classes=declared, alpha=0.1, fit_intercept=False)
        fits = [model.fit(classes.X, labels).coef_.copy() for labels in forms]
        assert all(np.array_equal(fit, fits[0]) for fit in fits)
        assert model.classes_.dtype == np.asarray(declared).dtype
        assert model.score(classes.X, y) > 0.6
    with pytest.raises(ValueError, match="same type"):
        model.fit(classes.X, classes.y)


def test_an_interrupted_fit_leaves_the_one_before_whole(numbers, monkeypatch):
    X, y = pd.DataFrame(numbers.X, columns=list("abcd")), numbers.y
    model = PrivateLinearRegression(0.1).fit(X, y)
    before = dict(vars(model))

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(_releasing, "draw_release", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(numbers.X[:30, :2], y[:30])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)
    assert model.predict(X).shape == (60,)


def test_the_seed_that_counts_is_that_of_the_fit(numbers):
    model = PrivateLinearRegression(0.1, random_state=0).fit(numbers.X, numbers.y)
    model.set_params(random_state=None)
    with pytest.warns(PrivacyLeakWarning, match="a seed or a generator"):
        model.release()
    guarantee = model.leakage_report().differential_privacy
    assert any("a seed or a generator" in reason for reason in guarantee.reasons)


def test_a_release_tells_how_the_fit_was_made_and_not_how_the_next_would_be(classes):
    X = classes.X / np.linalg.norm(classes.X, axis=1).max() / 1.01
    options = {"alpha": 0.1, "fit_intercept": False}
    model = PrivateLogisticRegression(0.1, **options).fit(X, classes.y)
    # A bound promised after the fit was never enforced on the data of the fit.
    model.set_params(data_norm=0.1, alpha=5.0, fit_intercept=True)
    assert model.release().provenance_["alpha"] == 0.1
    assert model.release().provenance_["data_norm"] is None
    assert model.release().provenance_["fit_intercept"] is False
    assert not model.leakage_report().differential_privacy.holds


def test_releasing_without_noise_warns(estimator_class, data):
    model = estimator_class(0).fit(data.X, data.y)
    with pytest.warns(PrivacyLeakWarning, match=r"without noise \(`noise_scale=0`\)"):
        model.release()


def test_a_release_is_a_trained_estimator(model, data):
    released = model.release()
    check_is_fitted(released)
    assert clone(released) is released
    assert released.fit(np.zeros((3, 1)), None) is released
    assert_array_equal(released.coef_, model.coef_)
    assert released.__sklearn_tags__().estimator_type == model.__sklearn_tags__().estimator_type
    X = pd.DataFrame(data.X, columns=released.feature_names_in_)
    pipeline = make_pipeline(FunctionTransformer(), released).fit(X)
    assert_array_equal(pipeline.predict(X), model.predict(X))
    assert repr(released).startswith(f"<{type(released).__name__} of {type(model).__name__}, noise")


def test_a_release_is_a_copy(model):
    released = model.release()
    released.coef_[:] = 0.0
    assert np.all(model.coef_ != 0.0)
    model.release().provenance_["alpha"] = 17.0
    assert model.release().provenance_["alpha"] == 0.1


def test_provenance(model):
    provenance = model.release().provenance_
    assert provenance["estimator"] == type(model).__name__
    assert provenance["loss"] in ("squared", "logistic", "poisson")
    reweighting = model.reweighting
    assert provenance["reweighting"] == (None if reweighting is None else reweighting.name)
    assert "skleak" in provenance
    assert not {"random_state", "seed"} & set(provenance)


def test_the_public_base_says_that_it_is_untrained():
    with pytest.raises(NotFittedError):
        ReleasedModel().fit(None)
