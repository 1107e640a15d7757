"""Audits of private SGD: trainings anew, and bounds from their trade-off curve."""

import sys
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.audit.games._levels import SGDBounds, with_public_size
from skleak.exceptions import AttackNotApplicableError
from skleak.metrics.verdicts import EXCEEDED, INCOMPARABLE
from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor, SGDGuarantee


def people(n=60, seed=0):
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, n)
    table = pd.DataFrame({"sex": secret.astype(float), "a": rng.normal(size=n)})
    return table, (table["a"] + secret - 0.5 + 0.5 * rng.normal(size=n) > 0.0).astype(int)


def trained(**parameters):
    usual = {"noise_multiplier": 2.0, "max_steps": 10, "sampling_rate": 0.2, "learning_rate": 1.0}
    return PrivateSGDClassifier(**usual | parameters)


def test_sums_are_divided_by_the_same_number_whoever_takes_part():
    """Everybody takes one step on squared loss: what is left is the sum over a constant."""
    for sampling in ("poisson", "fixed"):
        for n in (40, 41, 80):
            X, y = np.ones((n, 1)), np.zeros(n)
            y[0] = 1.0
            usual = {"noise_multiplier": 0.0, "max_steps": 1, "accounting": None}
            model = PrivateSGDRegressor(sampling=sampling, sampling_rate=1.0, **usual)
            model = with_public_size(model, n, 40.0)
            if sampling == "fixed":
                assert model.sampling_rate * n == pytest.approx(40.0)
                continue
            one = model.fit(X, y).coef_[0]
            # One gradient of length sqrt(2), clipped, at learning rate 0.1.
            assert one == pytest.approx(0.1 / 40.0 * _clipped(np.sqrt(2.0)) / np.sqrt(2.0))


def _clipped(norm):
    from scipy.special import ndtr

    return norm / ((norm - 1.0) * ndtr(norm - 1.0) + 1.0)


@pytest.mark.slow
def test_without_the_extra_nothing_is_bounded_unless_that_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    X, y = people()
    found = MembershipAuditor(trained(), n_releases=4, attacks="loss").fit(X, y)
    assert found.results_["dp"].isna().all()
    with pytest.raises(ImportError, match=r"skleak\[accounting\]"):
        MembershipAuditor(trained(), n_releases=4, bounds=["dp"]).fit(X, y)
    found = LeakageAuditor(trained(), "sex", n_releases=2).fit(X, y)
    assert "dp" not in found.results_
    assert "skleak[accounting]" in found.report_.settings["no_bound"]
    with pytest.raises(ImportError, match=r"skleak\[accounting\]"):
        LeakageAuditor(trained(), "sex", n_releases=2, bounds="dp").fit(X, y)


def test_what_cannot_be_audited_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    X, y = people()
    with pytest.raises(AttackNotApplicableError, match="Whole records"):
        LeakageAuditor(trained()).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="Set its `noise_multiplier`"):
        LeakageAuditor(trained(), "sex", noise_scales=[1.0]).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="exact test"):
        MembershipAuditor(trained(), secrets="drawn").fit(X, y)


class Nosy:
    """Looks for the number of members in what is told of the training."""

    told: ClassVar[list[dict[str, object]]] = []

    def fit(self, X, y, X_reference, y_reference):
        return self

    def predict(self, model):
        self.told.append(dict(model.provenance_))
        return np.zeros(60, dtype=int)


@pytest.mark.slow
def test_two_audits_agree_on_utility_without_noise():
    """Batches are drawn without noise as well."""
    X, y = people()
    auditor = MembershipAuditor(trained(), n_releases=3, attacks="loss", bounds=[])
    first, second = (auditor.fit(X, y).report_.settings["noiseless_utility"] for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_a_release_does_not_tell_how_many_members_there_were(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    X, y = people()
    for sampling in ("poisson", "fixed"):
        Nosy.told.clear()
        model = trained(sampling=sampling)
        MembershipAuditor(model, attacks=Nosy(), n_releases=6).fit(X, y, X, y)
        assert len(Nosy.told) == 6
        assert all(each == Nosy.told[0] for each in Nosy.told)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_no_attack_on_membership_exceeds_the_bound(sampling):
    pytest.importorskip("dp_accounting")
    X, y = people()
    model = trained(sampling=sampling, max_grad_norm=2.0)
    auditor = MembershipAuditor(model, noise_scales=[0.0, 2.0, 8.0], n_releases=30)
    found = auditor.fit(X, y).results_.set_index(["noise_scale", "attack"])
    assert (found["verdict"] != EXCEEDED).all()
    assert (found.loc[0.0, "dp"] == 1.0).all()
    for noise in (2.0, 8.0):
        at = found.loc[noise]
        assert (at["success_low"] <= at["dp"]).all()
        if sampling == "poisson":
            guarantee = SGDGuarantee(noise / 1.11524, 0.2, 10)
            expected = 0.5 + 0.5 * guarantee.membership_advantage()
            assert at["dp"].iloc[0] == pytest.approx(expected)
    assert found.loc[8.0, "dp"].iloc[0] < found.loc[2.0, "dp"].iloc[0] < 1.0
    # What is told without noise is there to be bounded.
    assert found.loc[0.0, "success"].max() > 0.5
    assert auditor.report_.settings["private_sgd"]
    released = SGDBounds.of_members(model, 0.1, 45.0, 0, 45).membership_success(2.0, 0.1)
    assert 0.9 <= released < 1.0


@pytest.mark.slow
def test_no_attack_on_a_column_exceeds_the_bound():
    pytest.importorskip("dp_accounting")
    X, y = people(200)
    model = trained(noise_multiplier=1.0, sampling_rate=0.1)
    guarantee = SGDGuarantee(1.0 / 1.11524, 0.1, 10)
    for estimator in (model, make_pipeline(StandardScaler(), model)):
        auditor = LeakageAuditor(estimator, "sex", n_releases=10, prior="conditional")
        found = auditor.fit(X, y).results_.set_index("attack")
        assert (found["verdict"] != EXCEEDED).all()
        top = auditor.records_["prior"].to_numpy()
        both = np.stack([top, 1.0 - top], axis=1)
        expected = np.mean(top + guarantee.advantage(both) * (1.0 - top))
        assert found["dp"].iloc[0] == pytest.approx(expected)
        assert top.mean() < found["dp"].iloc[0] < 1.0
    # The same prior for all leaves out what the other columns tell: no verdict.
    found = LeakageAuditor(model, "sex", n_releases=5).fit(X, y).results_
    assert set(found["verdict"]) == {INCOMPARABLE}
    settings = {"max_steps": 5, "sampling_rate": 0.1}
    numbers = LeakageAuditor(PrivateSGDRegressor(**settings), "a", n_releases=5).fit(X, y)
    assert "no bound" in numbers.report_.settings["no_bound"]


@pytest.mark.slow
def test_networks_are_audited_as_well():
    pytest.importorskip("dp_accounting")
    torch = pytest.importorskip("torch")

    def network():
        return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))

    X, y = people(40)
    model = trained(module=network, noise_multiplier=4.0, max_steps=5)
    found = MembershipAuditor(model, n_releases=8).fit(X, y).results_
    assert (found["verdict"] != EXCEEDED).all()
    assert (found["dp"] < 1.0).all()
    column = LeakageAuditor(model, "sex", n_releases=4, prior="conditional").fit(X, y)
    assert (column.results_["verdict"] != EXCEEDED).all()
    assert (column.results_["dp"] < 1.0).all()
