"""The leakage report of private SGD: facts, the bound with a prior, and its readable forms."""

import json
import sys

import numpy as np
import pytest
from helpers import mostly_slow
from scipy import sparse

from skleak.bounds import van_trees_mse
from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor, SGDGuarantee
from skleak.neural.report import Spread


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 4)) * np.array([1.0, 2.0, 0.5, 1.0])
    return X, (X[:, 0] + 0.3 * rng.normal(size=80) > 0.0).astype(int)


def known(report):
    """Facts that are known, by name."""
    facts = report.facts
    told = [name for name in ("values", "reconstruction", "renyi") if facts[name] is not None]
    return told + ["share_removed"] * bool(np.isfinite(facts["share_removed"]))


def training(**parameters):
    usual = {"max_steps": 15, "sampling_rate": 0.1, "noise_multiplier": 2.0}
    usual |= {"classes": [0, 1], "public": "n_samples"}
    return PrivateSGDClassifier(**usual | parameters)


@pytest.mark.slow
def test_numbers_are_those_of_the_model_and_of_the_guarantee(data):
    pytest.importorskip("dp_accounting")
    model = training().fit(*data)
    report = model.leakage_report()
    records = report.to_frame()
    for name in ("fisher_information_loss", "diagonal_fisher_information_loss"):
        np.testing.assert_array_equal(records[name], getattr(model, f"{name}_"))
    expected = 1.0 / model.diagonal_fisher_information_loss_**2
    np.testing.assert_allclose(records["unbiased_mse"], expected)
    guarantee = SGDGuarantee(2.0 / 1.11524, 0.1, 15)
    privacy = report.differential_privacy
    assert privacy["holds"]
    assert privacy["epsilon"] == pytest.approx(guarantee.epsilon)
    assert privacy["relation"] == "replace"
    gains = report.guesses.set_index("secret")["advantage"]
    assert gains["two values"] == pytest.approx(guarantee.advantage(2))
    assert gains["trained on or not"] == pytest.approx(guarantee.membership_advantage())
    assert known(report) == ["values", "reconstruction", "renyi", "share_removed"]
    assert report.facts["values"]["advantage_any_prior"] == gains["two values"]
    assert report.facts["membership"]["advantage_any_prior"] == gains["trained on or not"]
    table = report.reconstruction
    assert table.loc["most_exposed", "mse"] == pytest.approx(expected.min())
    assert report.facts["reconstruction"]["record"] == int(np.argmin(expected))
    assert report.dataset["most_exposed_records"][0] == report.facts["reconstruction"]["record"]
    # The target is unknown, too: a number between 0 and 1.
    widths = np.r_[np.ptp(data[0], axis=0), 1.0]
    assert table.loc["renyi", "mse"] == pytest.approx(guarantee.reconstruction_mse(widths))
    assert table.loc["printed", "mse"] < table.loc["most_exposed", "mse"]
    assert table.loc["van_trees", "mse"] <= table.loc["guess", "mse"]
    assert report.dataset["scope"] == "this run only"
    assert any("this run only" in line for line in report.assumptions)
    assert report.dataset["arithmetic"] == "exact"
    assert any("to the last bit" in line for line in report.assumptions)


def test_what_is_not_known_is_not_stated(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    report = training().fit(*data).leakage_report()
    assert known(report) == ["reconstruction", "renyi", "share_removed"]
    assert not report.differential_privacy["holds"]
    assert "skleak[accounting]" in report.differential_privacy["reasons"][0]
    assert np.isfinite(report.differential_privacy["renyi"])
    assert len(report.guesses) == 0

    silent = training(noise_multiplier=0.0).fit(*data).leakage_report()
    assert silent.facts["noise"] == 0.0
    assert silent.facts["values"] is None
    assert not silent.differential_privacy["holds"]
    assert silent.reconstruction.loc["most_exposed", "mse"] == 0.0
    assert np.isinf(silent.dataset["max_loss"])
    for settings, why in (
        ({"clipping": "hard"}, "hard clipping"),
        ({"accounting": None}, "`accounting=None`"),
    ):
        report = training(**settings).fit(*data).leakage_report()
        assert why in report.dataset["missing"]
        assert report.facts["reconstruction"] is None
        assert report.records["fisher_information_loss"].isna().all()
        assert set(report.reconstruction.index) == {"renyi", "guess"}
        report.to_html()

    seeded = training(random_state=0).fit(*data).leakage_report()
    assert seeded.dataset["seeded"]
    assert "seed" in seeded.findings[1]
    assert not seeded.differential_privacy["holds"]


@pytest.mark.parametrize("noise", mostly_slow([0.0, 0.2, 2.0]))
def test_the_first_sentence_decides_in_forty_words(data, noise):
    report = training(noise_multiplier=noise).fit(*data).leakage_report()
    first = report.findings[0]
    assert len(first.split()) <= 40
    words = ("prior", "game", "vacuous", "noise unit", "nan", "None")
    assert not [word for word in words if word in first]


def test_errors_over_runs_and_records_that_were_not_followed(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    rows = [3, 5, 70]
    report = training(n_runs=3, account_records=rows).fit(*data).leakage_report()
    assert report.dataset["scope"] == "mean of 3 runs"
    assert report.dataset["n_followed"] == 3
    followed = report.records["fisher_information_loss"].notna()
    assert followed[followed].index.tolist() == rows
    found = report.facts["reconstruction"]
    assert found["record"] in rows
    assert found["loss_error"] > 0.0
    batch = training(account_records="batch").fit(*data).leakage_report()
    assert batch.dataset["exact"] is False
    assert any("no upper bound" in line for line in batch.assumptions)


@pytest.mark.slow
def test_all_forms_say_the_same(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    X, _ = data
    model = PrivateSGDRegressor(max_steps=5, sampling="fixed", private_target=False)
    report = model.fit(sparse.csr_array(X), X[:, 0]).leakage_report()
    stored = json.loads(report.to_json())
    assert stored["schema"] == "skleak.private_sgd_report"
    assert stored["confidential"] is True
    assert len(stored["records"]) == 80
    assert stored["facts"].keys() == report.facts.keys()
    text, page = report.to_text(full=True), report.to_html()
    assert report.findings[0] in " ".join(text.split())
    assert "<svg" in page
    assert "CONFIDENTIAL" in text
    # No record is in it: not even the largest entry.
    for form in (text, page, report.to_json()):
        assert f"{np.abs(X).max():.6f}"[:8] not in form


def test_the_bound_with_a_prior_is_below_the_one_of_the_whole_matrix(rng):
    for _ in range(30):
        d = int(rng.integers(1, 6))
        root = rng.normal(size=(d, d)) * np.exp(rng.normal(size=d))
        matrix, variances = root @ root.T, np.exp(2.0 * rng.normal(size=d))
        spread = Spread(np.ones(d), variances)
        found = spread.van_trees_mse(float(np.trace(matrix)))
        exact = van_trees_mse(matrix, np.diag(1.0 / variances))
        assert 0.0 < found <= exact * (1.0 + 1e-12)
    # It is reached where all entries are alike.
    alike = Spread(np.ones(3), np.full(3, 4.0)).van_trees_mse(3.0 * 0.5)
    assert alike == pytest.approx(1.0 / (0.5 + 0.25))
    # A constant entry leaves no error, and does not spoil the others.
    partly = Spread(np.ones(2), np.array([4.0, 0.0])).van_trees_mse(0.5)
    assert partly == pytest.approx(0.5 / (0.5 + 0.25))


def test_spread_counts_the_target_as_it_is_unknown():
    X = np.array([[0.0, 1.0], [2.0, 1.0], [1.0, 1.0]])
    y = np.array([0, 1, 2])
    for given in (X, sparse.csr_array(X)):
        spread = Spread.of(given, y, 4)
        np.testing.assert_allclose(spread.widths, [2.0, 0.0, 1.0, 1.0])
        np.testing.assert_allclose(spread.variances, [2 / 3, 0.0, 2 / 9, 2 / 9])
    np.testing.assert_allclose(Spread.of(X, y - 1.0, 3).widths, [2.0, 0.0, 2.0])
    assert len(Spread.of(X, y, 2).widths) == 2
