"""Leakage of fitted estimators: computed on first use, counted wherever it matters."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold, cross_validate
from sklearn.utils import estimator_html_repr

from skleak.accounting import LeakageLedger
from skleak.exceptions import PrivacyLeakWarning, UnevenLeakageWarning
from skleak.influence.reweighting import _total as _total_derivative
from skleak.inspection import leakage_tradeoff
from skleak.linear_model import (
    IRFIL,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    _base,
    _measured,
    _releasing,
)
from skleak.linear_model._measured import training_loss
from skleak.mechanisms import MaxLeakage

NAMES = ["fisher_information_loss_", "diagonal_fisher_information_loss_"]
OPTIONS = {"alpha": 0.1, "reweighting": IRFIL(max_iter=100)}


@pytest.fixture
def solved(monkeypatch):
    """How often the fixed point of a reweighting was differentiated."""
    calls, solve = [], _total_derivative.total_derivative
    monkeypatch.setattr(
        _total_derivative, "total_derivative", lambda state: calls.append(1) or solve(state)
    )
    return calls


@pytest.fixture
def model(numbers):
    return PrivateLinearRegression(0.1, **OPTIONS).fit(numbers.X, numbers.y)


def test_it_is_computed_once_on_first_use(numbers, solved):
    model = PrivateLinearRegression(0.1, **OPTIONS)
    assert not any(hasattr(model, name) for name in NAMES)
    model.fit(numbers.X, numbers.y)
    assert not any(name in vars(model) or name in dir(model) for name in NAMES)
    estimator_html_repr(model)
    assert solved == [1]  # by the fit, which says whether the largest loss rose
    first = model.fisher_information_loss_
    assert model.fisher_information_loss_ is first
    assert_array_equal(model.fisher_information_loss(), first)
    assert model.diagonal_fisher_information_loss_.shape == first.shape
    model.fisher_information_loss(per="dataset")
    model.leakage_report()
    assert solved == [1]
    assert all(name in dir(model) for name in NAMES)
    assert np.all(np.abs(first / model.conditional_fisher_information_loss_ - 1.0) > 1e-6)


KINDS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


@pytest.fixture
def measured(monkeypatch):
    """How often the loss of all training records was computed."""
    calls = []

    def counted(state, norm="spectral", **options):
        calls.append(norm)
        return training_loss(state, norm, **options)

    for module in (_measured, _releasing):
        monkeypatch.setattr(module, "training_loss", counted)
    return calls


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_fit_computes_it_on_first_use(kind, numbers, solved, measured):
    y = (numbers.y > 0.0).astype(float)
    model = kind(0.1, random_state=0).fit(numbers.X, y)
    assert not any(name in vars(model) or name in dir(model) for name in NAMES)
    assert not hasattr(model, "conditional_fisher_information_loss_")
    estimator_html_repr(model)
    clone(model)
    model.predict(numbers.X)
    with pytest.warns(PrivacyLeakWarning):
        model.release()
    assert measured == []
    assert all(hasattr(model, name) for name in NAMES)  # Python asks by computing
    assert measured == ["spectral", "trace"]
    first = [getattr(model, name) for name in NAMES]
    assert all(getattr(model, name) is one for name, one in zip(NAMES, first, strict=True))
    assert_array_equal(first[0], model.fisher_information_loss())
    assert_array_equal(first[1], model.fisher_information_loss(norm="trace"))
    assert_array_equal(first[0], model.fisher_information_loss(conditional=True))
    assert all(name in dir(model) for name in NAMES)
    assert measured == ["spectral", "trace"]
    assert solved == []


def test_a_copy_of_a_plain_fit_holds_both(numbers):
    model = PrivateLinearRegression(0.1).fit(numbers.X, numbers.y)
    with pytest.warns(PrivacyLeakWarning):
        copies = [pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)]
    for name in NAMES:
        assert all(name in vars(one) and name in dir(one) for one in copies)
        for one in copies:
            assert_array_equal(getattr(one, name), getattr(model, name))


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.filterwarnings("ignore::skleak.exceptions.PrivacyLeakWarning")
def test_so_do_the_fits_of_workers(numbers, n_jobs):
    X, y, model = numbers.X, numbers.y, PrivateLinearRegression(0.1)
    folds = list(KFold(3).split(X))
    fits = cross_validate(model, X, y, cv=folds, return_estimator=True, n_jobs=n_jobs)["estimator"]
    for (train, _), fit in zip(folds, fits, strict=True):
        own = clone(model).fit(X[train], y[train])
        for name in NAMES:
            assert_allclose(getattr(fit, name), getattr(own, name), rtol=1e-12)


LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "single": lambda X: X.astype(np.float32),
    "sparse": sparse.csr_array,
    "table": pd.DataFrame,
}


def overwrite(table):
    if isinstance(table, pd.DataFrame):
        table.iloc[:, :] = -7.0
    elif sparse.issparse(table):
        table.data[:] = -7.0
    else:
        table[...] = -7.0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_later_edits_of_the_records_do_not_reach_it(kind, layout, numbers):
    X, y = LAYOUTS[layout](numbers.X), (numbers.y > 0.0).astype(float)
    weights, shape = numbers.weights.copy(), np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    model = kind(0.1, noise_covariance=shape)
    model.fit(X, y, sample_weight=weights)
    expected = [
        model.fisher_information_loss(per="record", norm=norm) for norm in ("spectral", "trace")
    ]
    for given in (X, y, weights, shape):
        overwrite(given)
    model.set_params(noise_scale=7.0, private_target=False, alpha=3.0)
    for name, losses in zip(NAMES, expected, strict=True):
        assert_array_equal(getattr(model, name), losses)


def test_numbers_that_overflow_are_refused_when_it_is_asked_for(numbers):
    model = PrivateLinearRegression(1e-200).fit(numbers.X, 1e135 * numbers.y)
    for name in NAMES:
        with pytest.raises(ValueError, match=r"Numbers overflow.*Scale columns") as caught:
            getattr(model, name)
        assert isinstance(caught.value.__cause__, FloatingPointError)


def test_a_refit_forgets_it(model, numbers):
    before = model.fisher_information_loss_
    model.fit(numbers.X[:40], numbers.y[:40])
    assert model.fisher_information_loss_.shape == (40,)
    model.set_params(reweighting=None).fit(numbers.X, numbers.y)
    assert not hasattr(model, "conditional_fisher_information_loss_")
    assert not np.allclose(model.fisher_information_loss_, before)


def test_what_a_pickle_holds(model):
    with pytest.warns(PrivacyLeakWarning):
        early = pickle.loads(pickle.dumps(model))
    assert not any(hasattr(early, name) for name in [*NAMES, "_losses_told"])
    with pytest.raises(NotFittedError, match="was unpickled or copied"):
        _ = early.fisher_information_loss_
    losses = model.fisher_information_loss_
    with pytest.warns(PrivacyLeakWarning):
        late = pickle.loads(pickle.dumps(model))
    assert_array_equal(late.fisher_information_loss_, losses)
    assert not hasattr(late, NAMES[1])
    assert_array_equal(
        early.conditional_fisher_information_loss_, late.conditional_fisher_information_loss_
    )


def test_a_target_of_the_noise_is_met_in_all(numbers, solved):
    goal = MaxLeakage(0.2, features=[0])
    model = PrivateLinearRegression(goal, **OPTIONS).fit(numbers.X, numbers.y)
    assert solved == [1]
    assert 0.2 / np.sqrt(2.0) < model.fisher_information_loss(features=0).max() <= 0.2
    assert solved == [1]  # another noise scale is no other fit
    model.set_params(noise_scale=goal.noise_scale_of(model)).fit(numbers.X, numbers.y)
    assert model.fisher_information_loss(features=0).max() == pytest.approx(0.2, rel=1e-12)


def test_the_ledger_is_charged_all_of_it(numbers, tmp_path):
    ledger = LeakageLedger(tmp_path / "ledger.csv")
    model = PrivateLinearRegression(0.1, ledger=ledger, **OPTIONS).fit(numbers.X, numbers.y)
    assert "fisher_information_loss_" in vars(model)
    charged = ledger.total("default").fisher_information_loss
    assert_allclose(charged, model.fisher_information_loss_.max())
    assert charged.max() > 1.01 * model.conditional_fisher_information_loss_.max()


def test_what_makes_it_unknown_is_a_warning(numbers):
    model = PrivateLinearRegression(0.1, reweighting=IRFIL(max_iter=1))
    with pytest.warns(ConvergenceWarning, match=r"stopped after .* stated as NaN") as caught:
        model.fit(numbers.X, numbers.y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.all(np.isnan(model.fisher_information_loss_))
    assert np.all(np.isfinite(model.conditional_fisher_information_loss_))


def test_a_singular_fixed_point_has_infinite_leakage(numbers, monkeypatch):
    monkeypatch.setattr(
        "skleak.influence.reweighting._total_system.AdjointSystem.matrix",
        lambda system: np.zeros((system.packing.size, system.packing.size)),
    )
    with pytest.warns(ConvergenceWarning, match="unreliable, and stated as infinite"):
        model = PrivateLinearRegression(0.1, **OPTIONS).fit(numbers.X, numbers.y)
    assert_array_equal(model.fisher_information_loss_, np.inf)
    assert model.fisher_information_loss(per="dataset") == np.inf
    assert_array_equal(model.fisher_information_loss(numbers.X[:2], numbers.y[:2]), np.inf)
    assert np.all(np.isfinite(model.conditional_fisher_information_loss_))


def test_progress_is_shown_where_it_is_wanted(numbers, capsys):
    model = PrivateLinearRegression(0.1, **OPTIONS).fit(numbers.X, numbers.y)
    _ = model.fisher_information_loss_
    assert capsys.readouterr().err == ""
    model.set_params(verbose=1).fit(numbers.X, numbers.y)
    shown = capsys.readouterr().err
    assert "differentiating the reweighting" in shown
    assert "total leakage" in shown


def test_too_many_parameters(rng, monkeypatch):
    X, y = rng.normal(size=(40, 8)), rng.integers(0, 2, 40)
    monkeypatch.setattr("skleak.influence.reweighting._total._LARGEST", 8)
    model = PrivateLogisticRegression(0.1, **OPTIONS).fit(X, y)
    with pytest.raises(ValueError, match=r"40 records with 9 parameters.*at most 8.*PCA"):
        _ = model.fisher_information_loss_
    assert model.conditional_fisher_information_loss_.shape == (40,)
    estimator_html_repr(model)
    monkeypatch.setattr("skleak.influence.reweighting._total._LARGEST", 300)
    monkeypatch.setattr("skleak.influence.reweighting._total._MOST_WORK", 40 * 5.5**3)
    with pytest.raises(ValueError, match="at most 5 parameters"):
        model.leakage_report()


# Where the largest loss rises, whoever fits is told so.

RISEN = "somebody leaks more than anybody would"
WAYS = {
    "irfil": {"reweighting": "irfil"},
    "total": {"reweighting": "total"},
    "curvature": {"noise_covariance": "curvature"},
    "minimax": {"noise_covariance": "minimax"},
    "least_mean": {"noise_covariance": "least_mean"},
    "given": {"noise_covariance": np.diag([1.0, 3.0, 2.0])},
}
# A penalty under which all ways raise the largest loss of public targets.
STRONG = {"noise_scale": 0.1, "alpha": 10.0, "private_target": False}


def told_of(caught):
    """The only warning of a largest loss that rose, or none."""
    found = [one for one in caught if one.category is UnevenLeakageWarning]
    assert len(found) <= 1
    assert all(RISEN in str(one.message) and one.filename == __file__ for one in found)
    return str(found[0].message) if found else None


def fit_and_told(model, X, y, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **options)
    return told_of(caught)


@pytest.mark.parametrize("way", WAYS)
def test_a_largest_loss_that_rises_is_told_at_fit(way, estimator_class, make_data):
    outcomes = set()
    for seed, settings in [(0, {"alpha": 0.05}), (1, {"alpha": 0.05}), (0, STRONG), (1, STRONG)]:
        data = make_data(estimator_class, np.random.default_rng(seed), n=30, d=2)
        options = {"sample_weight": data.weights if seed else None}
        settings = {"noise_scale": 0.1, **settings}
        plain = estimator_class(**settings).fit(data.X, data.y, **options)
        model = estimator_class(**settings, **WAYS[way])
        said = fit_and_told(model, data.X, data.y, **options)
        before = plain.fisher_information_loss().max()
        losses = model.fisher_information_loss()
        assert (said is not None) == (losses.max() > before * (1.0 + 1e-6))
        outcomes.add(said is not None)
        if said is not None:
            assert f"is {losses.max():.4g}, and" in said
            assert f"noise scale {before:.4g}, which is " in said
            assert {"given": "the given `noise_covariance`"}.get(way, repr(way)) in said
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "`reweighting='total'` evens")
            assert_array_equal(model.fisher_information_loss_, losses)
    assert True in outcomes


@pytest.mark.parametrize("way", ["irfil", "curvature", "given"])
def test_it_is_not_computed_twice(way, numbers, measured, monkeypatch):
    X, y = numbers.X[:, :2], numbers.y
    model = PrivateLinearRegression(**STRONG, **WAYS[way])
    assert fit_and_told(model, X, y) is not None
    first = len(measured)
    losses = model.fisher_information_loss_
    assert len(measured) == first == (2 if way == "irfil" else 1)  # with fixed weights, too
    assert "_losses_told" not in vars(model)
    assert_array_equal(losses, model.fisher_information_loss())
    if way == "given":
        return
    # What takes long is left to whoever asks first.
    monkeypatch.setattr(_base, "_WORK_AT_FIT", 1.0)
    assert fit_and_told(model, X, y) is None
    with pytest.warns(UnevenLeakageWarning, match=RISEN):
        assert_array_equal(model.fisher_information_loss_, losses)
    model.set_params(reweighting=None, noise_covariance="isotropic")
    assert fit_and_told(model, X, y) is None
    assert "_losses_told" not in vars(model)


@pytest.mark.parametrize("way", ["irfil", "curvature", "given"])
def test_where_nothing_is_said_of_it(way, numbers):
    X, y = numbers.X[:, :2], numbers.y
    model = PrivateLinearRegression(**STRONG, **WAYS[way])
    assert fit_and_told(clone(model), X, y) is not None
    others = {
        "goal": {"noise_scale": MaxLeakage(1.0)},
        "number of a goal": {"noise_scale": MaxLeakage(1.0).noise_scale_of(clone(model).fit(X, y))},
        "no noise": {"noise_scale": 0.0},
        "plain": {"reweighting": None, "noise_covariance": "isotropic"},
        "isotropic matrix": {"reweighting": None, "noise_covariance": 2.0 * np.eye(3)},
    }
    for name, changed in others.items():
        assert fit_and_told(clone(model).set_params(**changed), X, y) is None, name
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnevenLeakageWarning)
        candidates = {"way": model}
        leakage_tradeoff(PrivateLinearRegression(0.1), X, y, candidates=candidates, cv=2)


def test_persons_are_compared_with_persons(numbers):
    X, y = numbers.X[:, :2], numbers.y
    persons = np.arange(len(y)) // 3
    said = {}
    for shape in (np.diag([1.0, 3.0, 2.0]), np.diag([2.0, 2.0, 2.1])):
        model = PrivateLinearRegression(**STRONG, noise_covariance=shape)
        plain = PrivateLinearRegression(**STRONG).fit(X, y, persons=persons)
        told = fit_and_told(model, X, y, persons=persons)
        before, after = (one.fisher_information_loss_.max() for one in (plain, model))
        assert (told is not None) == (after > before)
        assert told is None or f"is {after:.4g}, and" in told
        assert told is None or f"noise scale {before:.4g}, " in told
        said[after > before] = told
    assert True in said


def test_an_error_of_it_leaves_ledger_and_fit_as_they_were(numbers, tmp_path):
    X, y, ledger = numbers.X[:, :2], numbers.y, LeakageLedger(tmp_path / "ledger.csv")
    model = PrivateLinearRegression(**STRONG, ledger=ledger).fit(X, y)
    before, coef = ledger.total("default").fisher_information_loss, model.coef_
    model.set_params(reweighting="irfil")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnevenLeakageWarning)
        with pytest.raises(UnevenLeakageWarning, match=RISEN):
            model.fit(X, y)
    assert model.coef_ is coef
    assert_array_equal(ledger.total("default").fisher_information_loss, before)


@pytest.mark.parametrize("way", ["given", "irfil"])
def test_records_outside_memory(way, numbers):
    array = pytest.importorskip("dask.array")
    X, y = numbers.X[:, :2], numbers.y
    given = array.from_array(X, chunks=(25, -1)), array.from_array(y, chunks=25)
    model = PrivateLinearRegression(**STRONG, **WAYS[way])
    said, own = fit_and_told(model, *given), fit_and_told(clone(model), X, y)
    assert own is not None
    assert said is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = model.fisher_information_loss_.compute()
    assert_allclose(losses, clone(model).fit(X, y).fisher_information_loss(), rtol=1e-6)
