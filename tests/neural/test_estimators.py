"""The estimators as scikit-learn and their users see them."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from helpers import assert_scikit_learn_checks_pass, mostly_slow
from scipy import linalg, sparse
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skleak
from skleak.accounting import LeakageLedger
from skleak.accounting.subsampled import SubsampledGaussian
from skleak.exceptions import LeakageBudgetError, NoGuaranteeError, PrivacyLeakWarning
from skleak.mechanisms import EpsilonDelta, GaussianDP, MaxLeakage
from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor
from skleak.preprocessing import PublicScaler


@pytest.fixture(scope="module")
def data():
    return make_classification(60, 5, n_informative=3, n_redundant=0, random_state=0)


def _model(**changes):
    options = {"max_steps": 20, "sampling_rate": 0.2, "random_state": 0} | changes
    return PrivateSGDClassifier(**options)


def epsilon(plan, n_steps):
    """Epsilon of so many steps in real numbers."""
    return plan.mechanism.guarantee(n_steps, plan.delta).epsilon


@pytest.mark.slow
@pytest.mark.parametrize("cls", mostly_slow([PrivateSGDClassifier, PrivateSGDRegressor], 0))
def test_scikit_learn_checks(cls):
    assert_scikit_learn_checks_pass(cls(max_steps=10))


@pytest.mark.slow
@pytest.mark.parametrize("cls", mostly_slow([PrivateSGDClassifier, PrivateSGDRegressor], 0))
def test_scikit_learn_checks_under_options(cls):
    options = {"sampling": "fixed", "account_every": 3, "account_records": "batch", "n_runs": 2}
    for changes in (options, {"clipping": "hard"}, {"noise_multiplier": 0.0}):
        assert_scikit_learn_checks_pass(cls(max_steps=10, **changes))


@pytest.mark.slow
def test_seeds_and_containers_change_nothing(data):
    X, y = data
    first, again = _model().fit(X, y), _model().fit(X, y)
    np.testing.assert_array_equal(first.coef_, again.coef_)
    losses = first.fisher_information_loss_
    np.testing.assert_array_equal(losses, again.fisher_information_loss_)
    assert np.any(_model(random_state=1).fit(X, y).coef_ != first.coef_)
    secret = [_model(random_state=None).fit(X, y).coef_ for _ in range(2)]
    assert np.any(secret[0] != secret[1])
    frame = pd.DataFrame(X, columns=list("abcde"), index=np.arange(60)[::-1])
    labels = np.array(["no", "yes"])[y]
    named = _model().fit(frame, pd.Series(labels, index=frame.index))
    np.testing.assert_array_equal(named.coef_, first.coef_)
    np.testing.assert_array_equal(named.predict(frame), np.array(["no", "yes"])[first.predict(X)])
    stored = _model().fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(stored.coef_, first.coef_, rtol=1e-12)
    np.testing.assert_allclose(stored.fisher_information_loss_, losses, rtol=1e-9)
    single = _model().fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.coef_, first.coef_, rtol=1e-4)
    copied = clone(first).fit(X, y)
    np.testing.assert_array_equal(copied.coef_, first.coef_)


@pytest.mark.slow
def test_searches_and_pipelines(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), _model())
    name = "privatesgdclassifier__noise_multiplier"
    search = GridSearchCV(pipeline, {name: [0.1, 50.0]}, cv=3).fit(X, y)
    assert search.best_params_[name] == 0.1
    assert search.predict_proba(X).shape == (60, 2)


@pytest.mark.slow
def test_several_classes_and_numbers():
    X, y = make_classification(90, 6, n_informative=4, n_classes=3, random_state=1)
    model = _model(max_steps=100, noise_multiplier=0.2).fit(X, y)
    assert model.coef_.shape == (3, 6)
    assert model.score(X, y) > 0.6
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.fisher_information_loss_.shape == (90,)
    X, t = make_regression(90, 4, random_state=2)
    regressor = PrivateSGDRegressor(max_steps=200, sampling_rate=0.3, noise_multiplier=0.1)
    regressor.fit(X, t / t.std())
    assert regressor.score(X, t / t.std()) > 0.9
    assert regressor.coef_.shape == (4,)
    assert isinstance(regressor.intercept_, float)


def test_without_noise_it_is_an_ordinary_classifier(data):
    X, y = data
    options = {"noise_multiplier": 0.0, "max_grad_norm": 1e6, "sampling_rate": 1.0}
    model = _model(**options, learning_rate=1.0, max_steps=2000, momentum=0.9).fit(X, y)
    exact = LogisticRegression(C=1e12, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-3, atol=1e-3)
    assert np.all(np.isinf(model.fisher_information_loss_))
    with pytest.warns(PrivacyLeakWarning, match="infinite"):
        assert model.release().provenance_["differential_privacy"] is None


@pytest.mark.slow
def test_losses_bound_the_sum_of_all_steps(data):
    X, y = data
    for model in (_model(), _model(private_target=False), _model(sampling="fixed")):
        model.fit(X, y)
        u = 5 + model.private_target
        matrices = np.array([model.fisher_information(i) for i in range(60)])
        assert matrices.shape == (60, u, u)
        largest = linalg.norm(matrices, 2, axis=(1, 2))
        exact = model.fisher_information_loss(norm="spectral")
        np.testing.assert_allclose(exact**2, largest, rtol=1e-10)
        assert np.all(exact <= model.fisher_information_loss_ * (1.0 + 1e-9))
        share = np.trace(matrices, axis1=1, axis2=2) / u
        np.testing.assert_allclose(model.diagonal_fisher_information_loss_**2, share, rtol=1e-9)
        np.testing.assert_array_equal(model.fisher_information_loss_error_, 0.0)
        assert model.leakage_scope_ == "this run only"
        printed = model.fisher_information_loss(norm="trace", amplification="printed")
        factor = model._plan.mechanism.printed_factor(1e-6)
        assert 0.2 <= factor <= 1.0
        assert np.all(printed >= 0.999 * model.diagonal_fisher_information_loss_ * factor**0.5)


@pytest.mark.slow
def test_who_is_followed(data):
    X, y = data
    everybody = _model().fit(X, y).diagonal_fisher_information_loss_
    some = _model(account_records=[3, 7, -1]).fit(X, y)
    losses = some.diagonal_fisher_information_loss_
    np.testing.assert_allclose(losses[[3, 7, 59]], everybody[[3, 7, 59]], rtol=1e-12)
    assert np.isnan(losses).sum() == 57
    mask = np.arange(60) % 2 == 0
    assert np.isfinite(_model(account_records=mask).fit(X, y).fisher_information_loss_).sum() == 30
    for estimated in ({"account_records": "batch"}, {"account_every": 4}):
        model = _model(**estimated, max_steps=200).fit(X, y)
        reference = _model(max_steps=200).fit(X, y)
        np.testing.assert_array_equal(model.coef_, reference.coef_)
        total, error = model._totals.sums["trace"], model._totals.errors["trace"]
        assert np.all(np.abs(total - reference._totals.sums["trace"]) < 7.0 * error + 1e-12)
        assert np.all(model.fisher_information_loss_error_ > 0.0)
    rare = _model(account_records="batch", max_steps=1).fit(X, y)
    never = rare.fisher_information_loss_ == 0.0
    assert 10 < never.sum() < 60
    assert rare.fisher_information_loss_error_[never].min() > 0.0  # nobody is shown not to leak
    several = _model(n_runs=4).fit(X, y)
    runs = np.array([[run.information(i, True) for i in range(3)] for run in several._runs])
    means = runs.mean(axis=0)
    np.testing.assert_allclose(several.fisher_information(2), means[2], rtol=1e-12)
    exact = several.fisher_information_loss([0, 1, 2])
    np.testing.assert_allclose(exact**2, linalg.norm(means, 2, axis=(1, 2)), rtol=1e-10)
    assert not np.allclose(exact**2, linalg.norm(runs[0], 2, axis=(1, 2)), rtol=1e-3)
    assert np.all(exact <= several.fisher_information_loss_[:3] * (1.0 + 1e-9))
    share = several.fisher_information_loss([0, 1, 2], norm="trace")
    np.testing.assert_allclose(share**2, np.trace(means, axis1=1, axis2=2) / 6, rtol=1e-9)
    assert several.leakage_scope_ == "mean of 4 runs"
    assert np.all(several.fisher_information_loss_error_ > 0.0)
    for wrong in ([60], [0.5], [], np.ones((2, 2), int), "some"):
        with pytest.raises((ValueError, TypeError), match="account_records"):
            _model(account_records=wrong).fit(X, y)


def test_where_there_is_no_information(data):
    X, y = data
    for options in ({"clipping": "hard"}, {"accounting": None}):
        model = _model(**options).fit(X, y)
        assert model.fisher_information_loss_ is None
        with pytest.raises(ValueError, match="not known"):
            model.fisher_information_loss()
    with pytest.raises(ValueError, match="printed"):
        _model().fit(X, y).fisher_information_loss(amplification="printed")


def test_partial_fit_goes_on(data):
    X, y = data
    whole = _model(max_steps=10).fit(X, y)
    model = _model()
    for _ in range(2):
        model.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_allclose(
        model.fisher_information_loss_, whole.fisher_information_loss_, rtol=1e-12
    )
    assert model.n_steps_ == 10
    for other in ((X[::-1], y), (X[:-1], y[:-1]), (X, 1 - y)):
        with pytest.raises(ValueError, match="very records"):
            model.partial_fit(*other)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    numbers = PrivateSGDRegressor(max_steps=3, random_state=0)
    assert numbers.partial_fit(X, y).n_steps_ == 100


def test_pickles_hold_nothing_confidential(data):
    X, y = data
    model = _model(random_state=None).fit(X, y)
    kept = pickle.dumps(model)
    assert len(kept) < 10_000
    again = pickle.loads(kept)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    kept = {name: value for name, value in vars(again).items() if np.shape(value)[:1] == (len(y),)}
    assert not kept
    for name in ("history_", "fisher_information_loss_", "_runs", "_totals"):
        assert not hasattr(again, name)
    for ask in (again.fisher_information_loss, lambda: again.partial_fit(X, y)):
        with pytest.raises(NotFittedError, match="unpickled"):
            ask()
    assert again.release().coef_.tolist() == model.coef_.tolist()


def test_what_is_released(data):
    pytest.importorskip("dp_accounting")
    X, y = data
    model = _model(random_state=None, classes=[0, 1], public="n_samples").fit(X, y)
    released = model.release(require_guarantee=True)
    made = released.provenance_
    assert made["n_steps"] == 20
    assert made["differential_privacy"]["epsilon"] == pytest.approx(epsilon(model._plan, 20))
    assert made["differential_privacy"]["exact"]
    assert made["differential_privacy"]["arithmetic"] == "exact"
    assert made["noise_step"] == np.ldexp(1.0, -model._plan.grid.log2_scale)
    assert made["noise_sampler"] == "discrete Gaussian, exact"
    assert "real numbers" not in made["assumes"]
    np.testing.assert_array_equal(released.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(released.to_sklearn().predict_proba(X), model.predict_proba(X))
    again = skleak.from_json(released.to_json())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert set(vars(released)) == {
        "coef_",
        "intercept_",
        "n_features_in_",
        "classes_",
        "provenance_",
    }
    assert "noise_multiplier=1" in repr(released)
    seeded = _model().fit(X, y)
    with pytest.raises(NoGuaranteeError, match="seed"):
        seeded.release(require_guarantee=True)
    with pytest.warns(PrivacyLeakWarning, match="seed"):
        seeded.release()
    numbers = PrivateSGDRegressor(max_steps=3).fit(X, y).release()
    assert skleak.from_json(numbers.to_json()).predict(X).shape == (60,)


def test_a_seed_that_an_ensemble_wrote_is_named_at_the_fit(data):
    bag = BaggingClassifier(_model(), n_estimators=2, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="as large as those that ensembles"):
        bag.fit(*data)
    assert bag.set_params(estimator__noise_multiplier=0.0).fit(*data)
    with pytest.raises(TypeError, match="BaggingClassifier wraps private models; 2 of them"):
        skleak.release(bag)


@pytest.mark.slow
def test_goals_and_budgets(data):
    pytest.importorskip("dp_accounting")
    X, y = data
    goal = EpsilonDelta(2.0, 1e-5)
    model = _model(noise_multiplier=goal, delta=1e-5, accounting=None).fit(X, y)
    assert 1.98 < epsilon(model._plan, 20) <= 2.0
    noise = model.noise_multiplier_ / 1.11524
    hard = _model(noise_multiplier=noise, clipping="hard", delta=1e-5).fit(X, y)
    assert epsilon(hard._plan, 20) == pytest.approx(2.0, abs=0.02)
    mu = _model(noise_multiplier=GaussianDP(1.0), accounting=None).fit(X, y)
    # Without sampling 2 sqrt(20) is needed.
    assert 0.5 < mu.noise_multiplier_ < 2.0 * 20**0.5 * 1.11524
    for share, holds in ((1.0, True), (0.99, False)):
        sigma = share * mu.noise_multiplier_ / 1.11524
        alpha, beta = SubsampledGaussian(sigma, 0.2, 20, relation="replace").curve()
        assert np.all(beta >= norm.cdf(-norm.ppf(alpha) - 1.0) - 1e-6) == holds
    with pytest.raises(ValueError, match="noise_multiplier"):
        _model(noise_multiplier=MaxLeakage(1.0)).fit(X, y)
    budgeted = _model(epsilon_budget=3.0, max_steps=200, noise_multiplier=4.0).fit(X, y)
    plan = budgeted._plan
    assert budgeted.n_steps_ < 200
    assert epsilon(plan, budgeted.n_steps_) <= 3.0 < epsilon(plan, budgeted.n_steps_ + 1)
    with pytest.raises(ValueError, match="allow"):
        budgeted.partial_fit(X, y)
    for noise in (0.0, 0.05):
        with pytest.raises(ValueError, match="single step"):
            _model(epsilon_budget=0.01, noise_multiplier=noise).fit(X, y)


def test_the_ledger_is_charged(data, tmp_path):
    X, y = data
    ledger = LeakageLedger(tmp_path / "ledger.db")
    model = _model(ledger=ledger, random_state=None).fit(X, y)
    charged = ledger.total("default").fisher_information_loss
    np.testing.assert_allclose(np.max(charged), model.fisher_information_loss_.max())
    model.partial_fit(X, y)
    charged = ledger.total("default").fisher_information_loss
    np.testing.assert_allclose(np.max(charged), model.fisher_information_loss_.max())
    _model(ledger=ledger).fit(X, y)
    assert np.isinf(ledger.total("default").fisher_information_loss).all()
    for unknown in ({"clipping": "hard"}, {"accounting": None}, {"account_records": [1]}):
        with pytest.raises(ValueError, match="unknown leakage"):
            _model(ledger=ledger, **unknown).fit(X, y)


@pytest.mark.parametrize(
    "unknown", [{"clipping": "hard"}, {"accounting": None}, {"account_records": [1]}]
)
def test_a_ledger_that_is_set_later_takes_no_unknown_leakage(data, tmp_path, unknown):
    X, y = data
    model = _model(random_state=None, max_steps=5, **unknown).fit(X, y)
    before = model.coef_.copy()
    ledger = LeakageLedger(tmp_path / "ledger.db")
    # What the first steps revealed stays unknown, whatever the parameters are now.
    model.set_params(ledger=ledger, clipping="smooth", accounting="exact", account_records=None)
    with pytest.raises(ValueError, match="unknown leakage"):
        model.partial_fit(X, y)
    assert model.n_steps_ == 5
    assert ledger.datasets() == []
    np.testing.assert_array_equal(model.coef_, before)
    model.set_params(ledger=None).partial_fit(X, y)
    assert model.n_steps_ > 5


@pytest.mark.slow
def test_an_ordinary_ceiling_accepts_an_ordinary_training(data, tmp_path):
    pytest.importorskip("dp_accounting.pld")
    X, y = data
    ledger = LeakageLedger(tmp_path / "ledger.db", max_epsilon=5.0, delta=1e-6)
    options = {"ledger": ledger, "sampling_rate": 0.05, "max_steps": 200, "random_state": None}
    options |= {"classes": [0, 1], "public": "n_samples"}
    model = _model(noise_multiplier=2.0, **options).fit(X, y)
    first = ledger.total("default")
    exact = epsilon(model._plan, 200)
    assert exact <= first.epsilon <= 1.05 * exact
    assert first.mu_delta == pytest.approx(1e-9)
    model.partial_fit(X, y)  # by these steps alone, up to a hundredth of what is left
    later = ledger.total("default")
    assert later.mu_delta == pytest.approx(1e-9 + 0.99e-9)
    assert exact < epsilon(model._plan, model.n_steps_) <= later.epsilon <= 5.0
    with pytest.raises(LeakageBudgetError, match="would raise mu"):
        _model(noise_multiplier=2.0, **options).fit(X, y)
    assert ledger.total("default").n_releases == 2


def test_the_ledger_composes_mu_under_the_name_of_the_data_set(data, tmp_path, monkeypatch):
    """Without the extra `accounting`, mu holds everywhere."""
    for module in ("dp_accounting", "dp_accounting.pld"):
        monkeypatch.setitem(sys.modules, module, None)
    X, y = data
    mu = 1.11524 / 8.0
    ledger = LeakageLedger(tmp_path / "ledger.db", max_epsilon=12.0, delta=1e-6)
    options = {"ledger": ledger, "ledger_dataset": "clinic", "noise_multiplier": 8.0}
    options |= {"classes": [0, 1], "public": "n_samples"}
    model = _model(random_state=None, **options).fit(X, y)
    assert ledger.datasets() == ["clinic"]
    assert ledger.total("clinic").mu == pytest.approx(mu * 20**0.5, rel=1e-9)
    assert ledger.total("clinic").mu >= mu * 20**0.5
    model.partial_fit(X, y)  # five steps
    assert ledger.total("clinic").mu == pytest.approx(mu * 25**0.5, rel=1e-9)
    _model(random_state=None, sampling="fixed", **options).fit(X, y)
    assert ledger.total("clinic").mu == pytest.approx(mu * (25 + 4 * 20) ** 0.5, rel=1e-9)
    _model(random_state=None, sampling_rate=0.6, max_steps=2, **options).fit(sparse.csr_array(X), y)
    total = ledger.total("clinic")
    assert total.mu == pytest.approx(mu * (25 + 4 * 22) ** 0.5, rel=1e-9)
    alone = {"random_state": None}
    for refused in (
        {"random_state": 0},
        alone | {"noise_multiplier": 0.5},
        alone | {"public": ()},
        alone | {"classes": None},
    ):
        with pytest.raises(LeakageBudgetError):
            _model(**options | refused).fit(X, y)
    assert ledger.total("clinic").n_releases == total.n_releases == 4
    assert ledger.total("clinic").mu_delta == 0.0


@pytest.mark.slow
def test_a_refused_step_leaves_nothing(data, tmp_path):
    X, y = data
    # Losses follow the secret draws: the ceiling is far above those of one fit.
    first = _model(random_state=None).fit(X, y).fisher_information_loss_.max()
    ledger = LeakageLedger(tmp_path / "ledger.db", max_leakage=4.0 * float(first) * 8.0, units=8.0)
    model = _model(random_state=None, ledger=ledger).fit(X, y)
    for _ in range(1000):
        before, steps = model.predict_proba(X), model.n_steps_
        try:
            model.partial_fit(X, y)
        except LeakageBudgetError:
            break
    else:
        raise AssertionError("no ceiling")
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.n_steps_ == steps == model._runs[0].n_steps
    refused = _model(random_state=None, ledger=ledger, noise_multiplier=1e-3)
    with pytest.raises(LeakageBudgetError):
        refused.fit(X, y)
    assert not hasattr(refused, "coef_")


def test_bad_input_is_refused(data):
    X, y = data
    for options, message in (
        ({"sampling_rate": 0.0}, "sampling_rate"),
        ({"sampling": "shuffled"}, "sampling"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"delta": 1.0}, "delta"),
    ):
        with pytest.raises(ValueError, match=message):
            _model(**options).fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        _model().fit(X, np.zeros(60))
    with pytest.raises(TypeError, match="sample_weight"):
        _model().fit(X, y, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="at most"):
        _model().fit(X * 1e200, y)
    with pytest.raises(ValueError, match="not among the classes"):
        _model().partial_fit(X, y, classes=[0, 2])


def _neighbors():
    """A table and one that differs in one row: its label is no other record's."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(40, 3)), np.arange(40) % 2
    return X, y, np.where(np.arange(40) == 7, 2, y)


@pytest.mark.parametrize("released", [False, True])
def test_no_epsilon_is_stated_where_a_label_can_be_read_off_the_classes(released):
    """The attacker tells two neighboring tables apart by ``classes_``: no noise hides it."""
    pytest.importorskip("dp_accounting")
    X, *labels = _neighbors()
    for y, others in zip(labels, ([0, 1], [0, 1, 2]), strict=True):
        model = _model(random_state=None, noise_multiplier=50.0, public="n_samples").fit(X, y)
        published = model.release() if released else model
        told = published.classes_.tolist()
        assert told == others
        if released:
            assert published.provenance_["differential_privacy"] is None
            assert "read off the labels" in published.provenance_["no_guarantee"]
        report = model.leakage_report()
        stated = report.differential_privacy
        assert not stated["holds"]
        assert np.isnan([stated["epsilon"], stated["renyi"]]).all()
        assert len(report.guesses) == 0
        assert "epsilon" not in report.findings[0]
        assert any("read off the labels" in reason for reason in stated["reasons"])
    with pytest.raises(NoGuaranteeError, match="`classes`"):
        model.release(require_guarantee=True)
    with pytest.raises(NoGuaranteeError, match="`classes`"):
        skleak.release(model, require_guarantee=True)


@pytest.mark.slow
def test_declared_classes_are_the_same_whatever_the_labels_are():
    pytest.importorskip("dp_accounting")
    X, *labels = _neighbors()
    for y in (*labels, np.zeros(40, dtype=int)):
        model = _model(random_state=None, classes=[2, 0, 1], public=["n_samples"]).fit(X, y)
        released = model.release(require_guarantee=True)
        assert released.classes_.tolist() == [0, 1, 2]
        assert released.provenance_["public"] == ["n_samples"]
        stated = released.provenance_["differential_privacy"]
        assert stated["about"].endswith("whose number of rows and class labels are public")
    with pytest.raises(ValueError, match=r"labels of 1 records are not among `classes`.*row 7"):
        _model(classes=[0, 1]).fit(X, labels[1])


@pytest.mark.parametrize("cls", mostly_slow([PrivateSGDClassifier, PrivateSGDRegressor]))
def test_the_number_of_records_is_public_by_statement_alone(cls):
    pytest.importorskip("dp_accounting")
    X, y, _ = _neighbors()
    options = {"max_steps": 3, "sampling_rate": 0.2}
    options |= {"classes": [0, 1]} if cls is PrivateSGDClassifier else {}
    model = cls(**options).fit(X, y)
    with pytest.raises(NoGuaranteeError, match="number of records"):
        model.release(require_guarantee=True)
    assert model.release().provenance_["differential_privacy"] is None
    model = cls(**options, public="n_samples").fit(X, y)
    assert model.release(require_guarantee=True).provenance_["no_guarantee"] is None
    # What was declared is that of the fit.
    model.set_params(public=())
    assert model.release(require_guarantee=True)


@pytest.mark.slow
def test_classes_of_partial_fit_declare_nothing_and_do_not_contradict():
    pytest.importorskip("dp_accounting")
    X, y, _ = _neighbors()
    options = {"random_state": None, "public": "n_samples"}
    model = _model(**options).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(NoGuaranteeError, match="read off the labels"):
        model.release(require_guarantee=True)
    declared = _model(**options, classes=[0, 1])
    with pytest.raises(ValueError, match="must be those of the parameter"):
        declared.partial_fit(X, y, classes=[0, 1, 2])
    declared.partial_fit(X, y, classes=[1, 0]).partial_fit(X, y)
    assert declared.release(require_guarantee=True).classes_.tolist() == [0, 1]


@pytest.mark.slow
def test_what_a_guarantee_rests_on_goes_wherever_it_goes():
    """In a pipeline, in JSON, in a pickle, and where a released model comes in another pipeline."""
    pytest.importorskip("dp_accounting")
    X, y, _ = _neighbors()
    model = _model(random_state=None, classes=[0, 1], public="n_samples")
    pipeline = make_pipeline(PublicScaler((-4.0, 4.0)), model).fit(X, y)
    released = skleak.release(pipeline, X=X, y=y)
    assert "the pipeline received" in released[-1].provenance_["differential_privacy"]["about"]
    alone = model.release()
    forms = [
        alone,
        skleak.release(model),
        released[-1],
        skleak.from_json(released.to_json())[-1],
        skleak.from_json(alone.to_json()),
        pickle.loads(pickle.dumps(released))[-1],
        skleak.release(released)[-1],
        skleak.release(make_pipeline(PublicScaler((-4.0, 4.0)).fit(X), alone))[-1],
    ]
    for form in forms:
        stated = form.provenance_["differential_privacy"]
        assert stated["about"].startswith("replacement of one row of the table that the ")
        assert "number of rows and class labels are public" in stated["about"]
        assert "kept secret" in form.provenance_["assumes"]
    report = model.leakage_report()
    for text in (" ".join(report.findings), report.to_text(full=True), report.to_html()):
        assert "number of rows and class labels are public" in " ".join(text.split())
