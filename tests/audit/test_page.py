"""Facts and conditions that the page of an audit says beside the decision."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from skleak.metrics.verdicts import BIASED, EXCEEDED
from skleak.report.audit._results import best_rows, failed_rows, merged_bounds

ENDS = ["advantage", "advantage_low", "advantage_high"]


def facts(report):
    """Facts behind the sentences."""
    return report._said


def test_what_the_model_adds_to_the_other_columns(make_audit):
    report = make_audit(noise=(1e-3,))
    assert facts(report)["adds"] is None
    ends = {"adds_over_imputation": 0.1}
    ends |= {"adds_over_imputation_low": 0.05, "adds_over_imputation_high": 0.15}
    found = facts(dataclasses.replace(report, results=report.results.assign(**ends)))["adds"]
    assert found == pytest.approx({"value": 0.1, "low": 0.05, "high": 0.15, "half": 0.05})


def test_attacks_above_and_below_their_bounds_are_named(make_audit):
    report = make_audit(noise=(1e-3,))
    for verdict, name in ((EXCEEDED, "exceeded"), (BIASED, "biased")):
        mask = report.results["attack"] == "white_box"
        results = report.results.assign(verdict=report.results["verdict"].mask(mask, verdict))
        assert facts(dataclasses.replace(report, results=results))[name] == ["`white_box`"]
        assert facts(report)[name] == []


def test_the_detectable_excess_is_told(make_audit):
    report = make_audit(noise=(1e-3,))
    for excess, power in (([0.1, 0.3], 0.3), ([0.1, np.inf], 0.1), ([np.inf] * 2, np.inf)):
        results = report.results.assign(detectable_excess=np.tile(excess, 2))
        found = facts(dataclasses.replace(report, results=results))["power"]
        assert found == power
    assert np.isnan(facts(report)["power"])


def test_the_bayes_value_names_a_bound_that_is_equal(make_audit):
    table = merged_bounds(make_audit())
    assert "trade-off = Gaussian differential privacy" in table.columns
    assert table.columns[0].startswith("Bayes")
    assert (table.diff(axis=1).iloc[:, 1:].mean() >= 0.0).all()


def test_findings_of_an_empty_audit(make_audit):
    report = make_audit()
    empty = dataclasses.replace(report, results=report.results[:0], records=report.records[:0])
    assert empty.findings == ("No attack was played: the audit says nothing.",)
    assert empty.to_dict()["decision"] == {}
    assert "says nothing" in empty.to_html()


@pytest.mark.slow
def test_nothing_is_ever_called_safe(make_audit):
    for kind in ("categorical", "numeric", "record"):
        for noise in ((0.0,), (1e-4, 1e3)):
            text = make_audit(kind, noise=noise).to_text(full=True).lower()
            assert "safe" not in text.split()
            assert "nan" not in text.split()


@pytest.fixture
def make_failed(make_audit):
    """A report in which some attacks do worse than guessing, beyond chance."""

    def make(kind, failed, **settings):
        report = make_audit(kind, **settings)
        results = report.results.copy()
        rows = results["attack"].isin(failed)
        results.loc[rows, ENDS] = [-9.0, -12.0, -6.0]
        if kind != "categorical":
            removed = [name.replace("advantage", "share_removed") for name in ENDS]
            results.loc[rows, removed] = [-9.0, -12.0, -6.0]
        results.loc[rows, ["success", "success_high"]] = [-9.0, -6.0]
        records = report.records.copy()
        for attack in failed:
            if kind != "categorical":
                records[f"mse_{attack}"] = 10.0 * records["prior"]
        return dataclasses.replace(report, results=results, records=records)

    return make


def failed(report):
    return report.results["attack"][failed_rows(report)].tolist()


def test_only_attacks_below_the_baseline_beyond_chance_have_failed(make_failed):
    report = make_failed("categorical", ["black_box"], noise=(0.1,))
    assert failed(report) == ["black_box"]
    assert facts(report)["failed_attacks"] == ["`black_box`"]
    results = report.results.copy()
    results.loc[results["attack"] == "black_box", "advantage_high"] = 0.01
    assert not failed(dataclasses.replace(report, results=results))
    # In the same games the guess itself did no better.
    results = report.results.copy()
    guess = results.loc[results["attack"] == "prior", "success_low"].item()
    results.loc[results["attack"] == "black_box", "success_high"] = guess
    assert not failed(dataclasses.replace(report, results=results))
    # Baselines are what it is compared with.
    assert not failed(make_failed("categorical", ["imputation"], noise=(0.1,)))


@pytest.mark.parametrize("kind", ["categorical", "numeric", "record"])
def test_no_failed_attack_is_called_the_best(kind, make_failed):
    noise, both = (1e-4, 1e-2), ["black_box", "white_box"]
    one = make_failed(kind, ["white_box"], noise=noise, bounds=())
    assert best_rows(one)["attack"].tolist() == ["black_box", "black_box"]
    assert not facts(one)["attack_failed"]
    assert facts(make_failed(kind, both, noise=noise, bounds=()))["attack_failed"]


@pytest.mark.parametrize("kind", ["numeric", "record"])
def test_an_attack_that_gets_half_of_the_records_has_not_failed(kind, make_failed):
    report = make_failed(kind, ["white_box"], noise=(1e-4,))
    records = report.records.copy()
    close = np.arange(len(records)) < 0.6 * len(records)
    records.loc[close, "mse_white_box"] = 0.1 * records["prior"]
    assert not failed(dataclasses.replace(report, records=records))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings, text",
    [
        ({"prior": "uniform"}, "every value counts as equally likely"),
        ({"prior": "conditional"}, "a classifier that was fitted on the other columns"),
        ({"prior": "given"}, "was given by whoever ran the audit"),
        ({"secrets": "drawn"}, "exact binomial ones over independent games"),
        ({"secrets": "actual"}, "clustered by release"),
        ({"preprocessing": "refitted"}, "fitted anew with the model"),
        ({"preprocessing": "public"}, "counts as public"),
        ({"reweighting": "irfil"}, "The records were reweighted (irfil)"),
        ({"reweighting": "total"}, "The records were reweighted (total)"),
        ({"utility_data": "training records"}, "is optimistic"),
        ({"n_targets": 40}, "40 of 3,855 records were attacked"),
        ({"verdict_level": 0.999}, "at level 99.9%"),
    ],
)
def test_assumptions_follow_the_settings(make_audit, settings, text):
    assert text in " ".join(make_audit(**settings).assumptions)


def test_assumptions_name_no_condition_that_is_not_there(make_audit):
    text = " ".join(
        make_audit(utility_data="test records", n_targets=3855, n_records=3855).assumptions
    )
    for word in ("reweighted", "optimistic", "were attacked", "unbiased"):
        assert word not in text
    errors = " ".join(make_audit("record", target_counts=True).assumptions)
    assert "for unbiased attackers" in errors
    assert "The target counts as part of the record" in errors
    assert "its target" not in errors


@pytest.mark.slow
def test_results_stay_as_they_were(make_audit):
    report = make_audit()
    results, records = report.results.copy(), report.records.copy()
    (
        report.findings,
        report.assumptions,
        report.to_html(),
        report.to_text(full=True),
        report.to_json(),
    )
    pd.testing.assert_frame_equal(report.results, results)
    pd.testing.assert_frame_equal(report.records, records)
