"""Total leakage of reweighted estimators: computed on first use, counted wherever it matters."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import estimator_html_repr

from skleak.accounting import LeakageLedger
from skleak.exceptions import PrivacyLeakWarning
from skleak.influence.reweighting import _total_derivative
from skleak.linear_model import IRFIL, PrivateLinearRegression, PrivateLogisticRegression
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
    assert solved == []
    first = model.fisher_information_loss_
    assert model.fisher_information_loss_ is first
    assert_array_equal(model.fisher_information_loss(), first)
    assert model.diagonal_fisher_information_loss_.shape == first.shape
    model.fisher_information_loss(per="dataset")
    model.leakage_report()
    assert solved == [1]
    assert all(name in dir(model) for name in NAMES)
    assert np.all(np.abs(first / model.conditional_fisher_information_loss_ - 1.0) > 1e-6)


def test_a_plain_fit_has_it_at_once(numbers, solved):
    model = PrivateLinearRegression(0.1).fit(numbers.X, numbers.y)
    assert all(name in vars(model) for name in NAMES)
    assert_array_equal(
        model.fisher_information_loss(conditional=True), model.fisher_information_loss_
    )
    assert solved == []


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
    assert not any(hasattr(early, name) for name in NAMES)
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


def test_a_singular_fixed_point_has_infinite_leakage(model, numbers, monkeypatch):
    monkeypatch.setattr(
        "skleak.influence.reweighting._total_system.AdjointSystem.matrix",
        lambda system: np.zeros((system.packing.size, system.packing.size)),
    )
    with pytest.warns(ConvergenceWarning, match="unreliable, and stated as infinite"):
        losses = model.fisher_information_loss_
    assert_array_equal(losses, np.inf)
    assert model.fisher_information_loss(per="dataset") == np.inf
    assert_array_equal(model.fisher_information_loss(numbers.X[:2], numbers.y[:2]), np.inf)
    assert np.all(np.isfinite(model.conditional_fisher_information_loss_))


def test_progress_is_shown_where_it_is_wanted(numbers, capsys):
    model = PrivateLinearRegression(0.1, **OPTIONS).fit(numbers.X, numbers.y)
    _ = model.fisher_information_loss_
    assert capsys.readouterr().err == ""
    model.set_params(verbose=1).fit(numbers.X, numbers.y)
    capsys.readouterr()
    _ = model.fisher_information_loss_
    shown = capsys.readouterr().err
    assert "differentiating the reweighting" in shown
    assert "total leakage" in shown


def test_too_many_parameters(rng, monkeypatch):
    X, y = rng.normal(size=(40, 8)), rng.integers(0, 2, 40)
    model = PrivateLogisticRegression(0.1, **OPTIONS).fit(X, y)
    monkeypatch.setattr("skleak.influence.reweighting._total_derivative._LARGEST", 8)
    with pytest.raises(ValueError, match=r"40 records with 9 parameters.*at most 8.*PCA"):
        _ = model.fisher_information_loss_
    assert model.conditional_fisher_information_loss_.shape == (40,)
    estimator_html_repr(model)
    monkeypatch.setattr("skleak.influence.reweighting._total_derivative._LARGEST", 300)
    monkeypatch.setattr("skleak.influence.reweighting._total_derivative._MOST_WORK", 40 * 5.5**3)
    with pytest.raises(ValueError, match="at most 5 parameters"):
        model.leakage_report()
