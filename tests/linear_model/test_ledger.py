"""Every fit is entered in the ledger before noise is drawn, clones and workers included."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, cross_validate

from skleak.accounting import LeakageLedger
from skleak.exceptions import LeakageBudgetError, PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.mechanisms import GaussianDP

X, y = load_diabetes(return_X_y=True)
UNITS = {"(columns)": 1.0, "(target)": 400.0}


def test_losses_compose_over_fits(tmp_path):
    path = tmp_path / "ledger.sqlite"
    LeakageLedger(path)
    model = PrivateLinearRegression(5.0, ledger=path, ledger_dataset="diabetes")
    worst = [clone(model).set_params(alpha=a).fit(X, y) for a in (0.1, 1.0)]
    total = LeakageLedger.open(path).total("diabetes")
    expected = np.sqrt(sum(fit.fisher_information_loss_.max() ** 2 for fit in worst))
    assert total.n_releases == 2
    np.testing.assert_allclose(total.fisher_information_loss.max(), expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A search or cross-validation")
def test_grid_search_spends_one_release_per_fit(tmp_path):
    path = tmp_path / "ledger.sqlite"
    LeakageLedger(path)
    search = GridSearchCV(
        PrivateLinearRegression(5.0, ledger=path), {"alpha": [0.01, 0.1, 1.0]}, cv=3, n_jobs=2
    )
    search.fit(X, y)
    assert LeakageLedger.open(path).total("default").n_releases == 3 * 3 + 1


@pytest.mark.parametrize("private", [True, False])
def test_a_search_says_once_what_it_costs(private):
    ledger = LeakageLedger(":memory:")
    rows, labels = X / np.linalg.norm(X, axis=1, keepdims=True), (y > 140.0).astype(int)
    model = PrivateLinearRegression(5.0, ledger=ledger)
    told = "for each of 4 fits, .* together 2 times the leakage of one"
    if private:
        public = {"data_norm": 1.0, "classes": [0, 1], "public": ("n_samples",)}
        goal = GaussianDP(0.5)
        model = PrivateLogisticRegression(
            goal, fit_intercept=False, mechanism="output", ledger=ledger, **public
        )
        told = "for each of 4 fits, .* together mu=1, epsilon=4.89 at delta=1e-06"
    calls = [
        lambda: GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=2).fit(rows, labels),
        lambda: cross_validate(model, rows, labels, cv=4),
    ]
    for call in calls:
        with pytest.warns(PrivacyLeakWarning, match=told) as seen:
            call()
        assert len(seen) == 1
        assert seen[0].filename == __file__
    with pytest.warns(PrivacyLeakWarning, match="for each of 4 fits"):
        cross_validate(model, rows, labels, cv=4)  # another one says it again
    before = ledger.total("default").n_releases
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        model.fit(rows, labels)
        with pytest.raises(PrivacyLeakWarning):
            cross_validate(model, rows, labels, cv=4, error_score="raise")
    assert ledger.total("default").n_releases == before + 1  # it was said before the first fit


def test_a_fit_beyond_the_ceiling_is_refused_before_noise(tmp_path, monkeypatch):
    free = LeakageLedger(":memory:", units=UNITS)
    PrivateLinearRegression(5.0, ledger=free).fit(X, y)
    ceiling = float(1.5 * free.total("default").fisher_information_loss.max())
    ledger = LeakageLedger(tmp_path / "ledger.sqlite", max_leakage=ceiling, units=UNITS)
    model = PrivateLinearRegression(5.0, ledger=ledger).fit(X, y)

    def draw(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr("skleak.linear_model._releasing.draw_release", draw)
    with pytest.raises(AssertionError, match="noise was drawn"):
        clone(model).fit(X, y)  # within the ceiling
    assert ledger.total("default").n_releases == 2
    refused = clone(model).set_params(noise_scale=0.5)
    with pytest.raises(LeakageBudgetError, match="must stay at most"):
        refused.fit(X, y)
    assert not hasattr(refused, "coef_")
    assert ledger.total("default").n_releases == 2


@pytest.mark.parametrize("ceiling", [{"max_leakage": 1e9, "units": UNITS}, {"max_epsilon": 1e6}])
@pytest.mark.parametrize("seed", [0, np.random.RandomState(0), np.random.default_rng(0)])
def test_noise_that_can_be_replayed_passes_no_ceiling(tmp_path, ceiling, seed):
    ledger = LeakageLedger(tmp_path / "ledger.sqlite", **ceiling)
    model = PrivateLinearRegression(5.0, ledger=ledger, random_state=seed)
    with pytest.raises(LeakageBudgetError, match="leaks without bound"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    assert ledger.datasets() == []


def test_without_noise_the_loss_is_infinite(tmp_path):
    ledger = LeakageLedger(tmp_path / "ledger.sqlite", max_leakage=1e9, units=UNITS)
    with pytest.raises(LeakageBudgetError):
        PrivateLinearRegression(0, ledger=ledger).fit(X, y)


@pytest.mark.slow
def test_gaussian_differential_privacy_composes(tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(100, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * 1.001
    labels = rng.random(100) > 0.5
    path = tmp_path / "ledger.sqlite"
    LeakageLedger(path)
    params = {"alpha": 0.1, "fit_intercept": False, "data_norm": 1.0, "ledger": path}
    params |= {"classes": [False, True], "public": ("n_samples",)}
    for _ in range(2):
        model = PrivateLogisticRegression(0.5, **params).fit(rows, labels)
    mu = model.leakage_report().differential_privacy.mu
    total = LeakageLedger.open(path).total("default")
    np.testing.assert_allclose(total.mu, np.sqrt(2) * mu, rtol=1e-7)


def test_noise_from_a_seed_counts_as_no_guarantee(tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(50, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * 1.001
    path = tmp_path / "ledger.sqlite"
    LeakageLedger(path)
    PrivateLogisticRegression(
        alpha=0.1, fit_intercept=False, data_norm=1.0, ledger=path, random_state=0
    ).fit(rows, rows[:, 0] > 0)
    total = LeakageLedger.open(path).total("default")
    assert (total.mu, total.fisher_information_loss) == (np.inf, [np.inf])


def test_ceilings_bind_a_fit_that_knows_the_path_alone(tmp_path):
    path = tmp_path / "ledger.sqlite"
    LeakageLedger(path, max_leakage=1e-6, units=UNITS)
    model = PrivateLinearRegression(5.0, ledger=path, ledger_dataset="named later")
    with pytest.raises(LeakageBudgetError, match="must stay at most 1e-06"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("name", ["ledger.sqlite", ":memory:"])
def test_a_fit_makes_no_ledger(tmp_path, monkeypatch, name):
    LeakageLedger(tmp_path / "ledger.sqlite", max_leakage=1e-6, units=UNITS)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    model = PrivateLinearRegression(5.0, ledger=name)
    with pytest.raises((FileNotFoundError, ValueError), match=r"no ledger|would be a new one"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    assert not list((tmp_path / "elsewhere").iterdir())
