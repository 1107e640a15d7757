"""An attack that is worse than guessing is said to have failed, and nothing else of it."""

import dataclasses

import numpy as np
import pytest

from skleak.audit.report._findings import facts
from skleak.audit.report._sentences import findings
from skleak.plotting.results._exposure import most_exposed
from skleak.plotting.results._results import best_rows, failed_rows

ENDS = ["advantage", "advantage_low", "advantage_high"]


@pytest.fixture
def make_failed(make_audit):
    """A report in which some attacks do worse than guessing, beyond chance."""

    def make(kind, failed, **settings):
        report = make_audit(kind, **settings)
        results = report.results.copy()
        rows = results["attack"].isin(failed)
        results.loc[rows, ENDS] = [-9.0, -12.0, -6.0]
        results.loc[rows, ["success", "success_high"]] = [-9.0, -6.0]
        records = report.records.copy()
        for attack in failed:
            if kind != "categorical":
                records[f"mse_{attack}"] = 10.0 * records["prior"]
        report = dataclasses.replace(report, results=results, records=records)
        return dataclasses.replace(report, findings=findings(report))

    return make


def test_only_attacks_below_the_baseline_beyond_chance_have_failed(make_failed):
    report = make_failed("categorical", ["black_box"], noise=(0.1,))
    assert failed_rows(report)["attack"].tolist() == ["black_box"]
    assert any(line.startswith("Failed") for line in report.findings)
    results = report.results.copy()
    results.loc[results["attack"] == "black_box", "advantage_high"] = 0.01
    assert failed_rows(dataclasses.replace(report, results=results)).empty
    # In the same games the guess itself did no better.
    results = report.results.copy()
    guess = results.loc[results["attack"] == "prior", "success_low"].item()
    results.loc[results["attack"] == "black_box", "success_high"] = guess
    assert failed_rows(dataclasses.replace(report, results=results)).empty
    # Baselines are what it is compared with.
    assert failed_rows(make_failed("categorical", ["imputation"], noise=(0.1,))).empty


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["categorical", "numeric", "record"])
def test_the_first_sentence_is_about_no_failed_attack(kind, make_failed):
    noise, failed = (1e-4, 1e-2), ["black_box", "white_box"]
    one = make_failed(kind, ["white_box"], noise=noise, bounds=())
    assert best_rows(one)["attack"].tolist() == ["black_box", "black_box"]
    assert "(`black_box`)" in one.findings[0]
    assert "white_box" not in one.findings[0]
    both = make_failed(kind, failed, noise=noise, bounds=())
    assert best_rows(both)["failed"].all()
    assert both.to_dict()["decision"]["best"]["failed"]
    assert not any(f"`{attack}`" in both.findings[0] for attack in failed)
    assert "does worse than guessing" in both.to_html()
    # What it got right of a record is no exposure of that record.
    assert most_exposed(both).attrs["source"] is None
    assert most_exposed(one).attrs["source"].endswith("_black_box")


@pytest.mark.parametrize("kind", ["numeric", "record"])
def test_an_attack_that_gets_half_of_the_records_has_not_failed(kind, make_failed):
    """A few hopeless records make up all of a mean error."""
    report = make_failed(kind, ["white_box"], noise=(0.1,))
    records = report.records.copy()
    hopeless = np.arange(len(records)) % 3 == 0
    records["mse_white_box"] = np.where(hopeless, 1e6, 1e-3) * records["prior"]
    assert failed_rows(dataclasses.replace(report, records=records)).empty
    # One that misses most of them has, and those that it gets are counted.
    records["mse_white_box"] = np.where(hopeless, 1e-3, 1e6) * records["prior"]
    missed = dataclasses.replace(report, records=records)
    assert failed_rows(missed)["attack"].tolist() == ["white_box"]
    told = next(found for found in facts(missed) if found.topic == "failed")
    assert (told["closer"], told["n_targets"]) == (hopeless.sum(), len(records))
    assert any(f"{told['closer']} of {told['n_targets']}" in line for line in findings(missed))


def test_a_failed_attack_is_not_called_the_best(make_failed):
    settings = {"noise": (0.1,), "bounds": (), "attacks": ("black_box", "white_box")}
    for failed in (["black_box", "white_box"], ["black_box"]):
        report = make_failed("categorical", failed, **settings)
        best = report.to_dict()["decision"]["best"]
        assert best["failed"] == ("white_box" in failed)
        assert best["failed"] or best["attack"] == "white_box"
        assert "black_box" not in report.findings[0]
