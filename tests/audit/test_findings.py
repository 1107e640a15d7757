import dataclasses

import numpy as np
import pandas as pd
import pytest

from skleak.audit.report._assumptions import assumptions
from skleak.audit.report._findings import facts
from skleak.audit.report._sentences import findings
from skleak.metrics._verdict import BIASED, CONSISTENT, EXCEEDED, VACUOUS
from skleak.plotting.labels import attack_label, bound_label, code, percent, root
from skleak.plotting.results._exposure import most_exposed, vulnerability
from skleak.plotting.results._results import record_advantages, tightest


def _with_results(report, **columns):
    return dataclasses.replace(report, results=report.results.assign(**columns))


def _joined(report):
    return " ".join(findings(report))


@pytest.mark.parametrize(
    "share, text",
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.5449, "54%"),
        (0.0423, "4.2%"),
        (0.00123, "0.12%"),
        (1e-7, "<0.01%"),
        (-1e-7, "-0.01% to 0%"),
        (0.999999, ">99.99%"),
        (0.97, "97%"),
        (-0.59, "-59%"),
        (-3.21, "<-100%"),
        (np.nan, "–"),
        (np.inf, "infinite"),
        (-np.inf, "<-100%"),
        (1e100, "1 × 10¹⁰²%"),
    ],
)
def test_percentages_are_never_a_false_certainty(share, text):
    assert percent(share) == text


def test_shares_have_the_digits_that_their_intervals_support():
    for share, within, text in (
        (0.0423, 0.03, "4%"),
        (0.0423, 0.003, "4.2%"),
        (0.0423, 0.0003, "4.23%"),
        (0.5449, 0.2, "54%"),
        (0.5449, 0.002, "54.5%"),
        (0.002, 0.05, "<1%"),
        (0.999, 0.05, ">99%"),
        (-0.002, 0.05, "-1% to 0%"),
        (0.0, 0.05, "0%"),
        (1.0, 0.05, "100%"),
        (0.3, np.inf, "30%"),
        (0.0423, np.nan, "4.2%"),
        (0.0423, 0.0, "4.2%"),
    ):
        assert percent(share, within=within) == text


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.123456, 0.5, 0.99, 0.99999, 1.0, 0.07, 0.29, 0.57])
def test_bounds_are_rounded_up(value):
    shown = float(percent(value, up=True).strip("<>%")) / 100.0
    assert value - 1e-9 <= shown <= value + 0.0101


def test_names_for_people():
    assert attack_label("white_box") == "white box"
    assert attack_label("my attack") == "my attack"
    assert bound_label("closed_form_fano") == "closed-form Fano"
    assert code("a`b\x1b") == "`a'b\ufffd`"


def _facts(report):
    """Facts by topic."""
    return {finding.topic: finding.facts for finding in facts(report)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["categorical", "numeric", "record", "membership"])
def test_the_summary_holds_the_numbers_of_the_smallest_noise(audits_of_people, kind):
    """Facts are those of the tables, and the sentence says each of them."""
    report = audits_of_people[kind]
    found, first = _facts(report)["summary"], report.findings[0]
    at = report.results[report.results["noise_scale"] == report.results["noise_scale"].min()]
    row = at[at["attack"] == found["attack"]].iloc[0]
    guesses = kind in ("categorical", "membership")
    name, show = ("success", percent) if guesses else ("mse", root)
    played = at[~at["attack"].isin(["prior", "imputation"])]
    assert row["success"] == played["success"].max()
    assert [found[end] for end in ("value", "low", "high")] == [
        row[name + end] for end in ("", "_low", "_high")
    ]
    assert found["noise"] == row["noise_scale"]
    digits = {"within": 0.5 * (found["high"] - found["low"])} if guesses else {}
    for value in (found["value"], found["low"], found["high"]):
        assert found["failed"] or show(value, **digits) in first
    assert show(found["guess"]) in first
    if guesses:
        assert found["guess"] == row["baseline"]
        assert found["limit"] == pytest.approx(np.nanmin(at[list(report.bounds)].astype(float)))
    else:
        own = report.records[report.records["noise_scale"] == found["noise"]]
        assert found["guess"] == pytest.approx(own["prior"].mean())
        assert found["limit"] == row["bayes_mse" if kind == "numeric" else "van_trees"]
        if kind == "numeric":
            assert found["least"] == pytest.approx(row["bayes_mse"], rel=1e-3)
            for error in (found["least"], found["least_of_one"]):
                assert root(error) in first
            assert found["label"] == own.loc[own["share_at_most"].idxmax(), "label"]
        assert found["smallest"] == own["cramer_rao"].min()
        assert found["half"] == own[f"mse_{row['attack']}"].median()
        assert ("per value" in first) == (kind == "record")
    if kind in ("categorical", "numeric"):
        assert f"{show(found['imputation'])}" in first
    exposed = _facts(report)["exposed"]
    assert exposed["labels"] == most_exposed(report, 5)["label"].tolist()


def test_the_noise_is_chosen_by_the_bound_and_not_by_the_attacks_played(make_audit):
    report = make_audit()
    advantage, choice = tightest(report)["advantage"], _facts(report)["summary"]["decision"]
    small = advantage[advantage < 0.05]
    assert (choice["noise"], choice["advantage"], choice["status"]) == (1e-2, small.iloc[0], "kept")
    # An average does not hide the most exposed record.
    at = report.records[report.records["noise_scale"] == 1e-2]
    own = (at["bayes"] - 0.37) / 0.63
    assert choice["largest"] == pytest.approx(own.max())
    assert choice["n_above"] == (own > 0.05).sum() > 0
    assert choice["labels"] == at["label"][own > 0.05].tolist()  # in order of exposure
    assert choice["utility"]["value"] == pytest.approx(0.55 - 30.0 * 1e-3)
    first = findings(report)[0]
    for part in ("0.01", "5%", "3.2%", "0.52", "0.55", percent(choice["largest"], up=True)):
        assert part in first
    none = make_audit(noise=(1e-4, 1e-3), attacks=("prior",))
    choice = _facts(none)["summary"]["decision"]
    assert (choice["status"], choice["noise"], choice["n_scales"]) == ("exceeds", 1e-3, 2)
    assert "`prior`" not in findings(none)[0]


def test_what_the_model_adds_to_imputation(make_audit):
    for noise, sign in ((1e-4, 1.0), (1e-1, -1.0)):
        report = make_audit(noise=(noise,))
        found = _facts(report)["over_imputation"]
        row = report.results[report.results["attack"] == "white_box"].iloc[0]
        assert found["value"] == row["advantage_over_imputation"]
        assert sign * found["low"] > 0.0
        assert sign * found["high"] > 0.0
    assert 'prior="conditional"' in _joined(report)
    known = dataclasses.replace(report, settings=report.settings | {"prior": "conditional"})
    assert "may learn more than either" in findings(known)[1]
    names = [f"advantage_over_imputation{end}" for end in ("", "_low", "_high")]
    same = _with_results(report, **dict(zip(names, (0.0, -0.1, 0.1), strict=True)))
    assert "too uncertain to tell" in _joined(same)
    assert "over_imputation" not in _facts(make_audit(attacks=("prior", "white_box")))


def test_records_judged_one_by_one(make_audit):
    report = make_audit(secrets="drawn")
    assert "single_records" not in _facts(report)
    found = report.records["record"].isin([3, 17]) & (report.records["noise_scale"] == 1e-3)
    records = report.records.assign(verdict=np.where(found, EXCEEDED, CONSISTENT))
    report = dataclasses.replace(report, records=records)
    assert _facts(report)["single_records"]["labels"] == [3, 17]
    assert " 3, 17." in _joined(report)


@pytest.mark.slow
def test_biased_attacks_below_the_bound_are_told(make_audit):
    report = make_audit("numeric")
    found = _facts(report)["biased"]
    assert found["rows"]["imputation"] == [1e-2, 1e-1]
    row = report.results[report.results["verdict"] == BIASED].iloc[0]
    assert (found["squared_bias"], found["variance"]) == (row["squared_bias"], row["variance"])
    assert "`imputation` at noise scales 0.01, 0.1" in _joined(report)


@pytest.mark.slow
def test_a_bound_on_errors_that_is_infinite_or_unknown_is_said_to_be(make_audit):
    for kind in ("numeric", "record"):
        report = make_audit(kind, noise=(1e-3,))
        for bound, text in (
            (np.inf, "no unbiased attack has a finite"),
            (np.nan, "No bound on other"),
            (0.0, "No bound rules out that some attack makes no error"),
        ):
            assert text in findings(_with_results(report, cramer_rao=bound))[0]


def test_the_detectable_excess_is_told(make_audit):
    report = make_audit(noise=(1e-3, 1e-2))
    n = len(report.results)
    for values, excess, some_never in (
        (np.full(n, 0.03), 0.03, False),
        (np.full(n, np.inf), np.inf, True),
        (np.r_[np.inf, np.full(n - 1, 0.03)], 0.03, True),
        (np.r_[np.nan, np.linspace(0.01, 0.02, n - 1)], 0.02, False),
    ):
        changed = _with_results(report, detectable_excess=values)
        assert _facts(changed)["power"] == {"excess": excess, "some_never": some_never}
    assert "power" not in _facts(_with_results(report, detectable_excess=np.nan))
    changed = _with_results(report, detectable_excess=0.03)
    shown = dataclasses.replace(changed, findings=findings(changed))
    assert "by 3 percentage points or more." in " ".join(shown.to_text().split())
    assert '"detectable_excess": 0.03' in shown.to_json()


def test_records_that_leak_nothing_do_not_hide_the_others(make_audit):
    report = make_audit("numeric", noise=(1e-4, 1e-3))
    hidden = report.records["record"] == 3
    records = report.records.assign(cramer_rao=report.records["cramer_rao"].where(~hidden, np.inf))
    results = report.results.assign(cramer_rao=np.inf)
    changed = dataclasses.replace(report, records=records, results=results)
    # The mean bound is infinite, and yet all other records can be read.
    assert (changed.advantages()["cramer_rao"] == -np.inf).all()
    advantages = record_advantages(changed)
    before = record_advantages(report)
    assert np.all(advantages["mean"] < before["mean"])
    assert np.all(advantages["mean"] > before["mean"] - 1.0 / 40.0)
    assert _facts(changed)["summary"]["decision"]["status"] == "exceeds"
    unknown = dataclasses.replace(report, records=report.records.assign(cramer_rao=np.nan))
    assert record_advantages(unknown).isna().all(axis=None)
    assert _facts(unknown)["summary"]["decision"]["status"] == "exceeds"  # by an attack played


def test_no_noise_and_vacuous_bounds_are_said_to_be(make_audit):
    report = make_audit(noise=(0.0,))
    told = _facts(report)
    choice = told["summary"]["decision"]
    assert (choice["status"], choice["noise"]) == ("exceeds", 0.0)
    assert told["vacuous"] == {"n": 4, "of": 4}
    assert "exceeded" not in told
    assert "No attack played exceeds" not in _joined(report)


def test_nothing_is_claimed_where_no_bound_was_computed(make_audit):
    report = make_audit(bounds=())
    assert "No bound on other attacks was computed." in findings(report)[0]
    assert "whatsoever" not in _joined(report)
    assert _facts(report)["summary"]["decision"]["status"] == "unknown"


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, secrets, prior, meaning",
    [
        ("categorical", "actual", "marginal", "understates what is known of these records"),
        ("categorical", "actual", "conditional", "conditional prior still understates"),
        ("categorical", "drawn", "marginal", "the bound is a theorem"),
        ("numeric", "actual", "marginal", "found to be unbiased cannot do so"),
    ],
)
def test_an_exceeded_bound_is_named_and_explained(make_audit, kind, secrets, prior, meaning):
    report = make_audit(kind, noise=(1e-3, 1e-2), secrets=secrets, prior=prior)
    verdicts = [CONSISTENT] * 7 + [EXCEEDED]
    changed = _with_results(report, verdict=verdicts)
    assert _facts(changed)["exceeded"]["rows"] == {"white_box": [1e-2]}
    assert meaning in _joined(changed)
    assert "No attack played" not in _joined(changed)
    told = _facts(_with_results(report, verdict=[EXCEEDED] * 2 + [VACUOUS] * 6))
    assert told["exceeded"]["rows"] == {"prior": [1e-3], "imputation": [1e-3]}
    assert told["vacuous"] == {"n": 6, "of": 8}


def test_the_most_exposed_records_are_those_that_gain_most(make_audit):
    report = make_audit()
    at = report.records[report.records["noise_scale"] == 1e-3]
    expected = at.assign(gain=at["bayes"] - at["prior"]).nlargest(10, "gain")
    top = most_exposed(report)
    assert top["record"].tolist() == expected["record"].tolist()
    assert _facts(report)["exposed"]["labels"] == top["label"][:5].tolist()
    assert ", ".join(map(str, top["label"][:5])) in _joined(report)
    assert top.attrs["source"] == "bayes"
    # A record that anyone guesses right is not exposed by the model.
    records = report.records.copy()
    records.loc[records["record"] == top["record"][0], "prior"] = 1.0
    changed = most_exposed(dataclasses.replace(report, records=records))
    assert top["record"][0] not in changed["record"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["bayes", "tightest_bound", "success_white_box", "eta"])
def test_exposure_falls_back_on_what_is_known(make_audit, gone):
    report = make_audit(n_targets=3)
    order = ["bayes", "tightest_bound", "success_white_box", "eta"]
    lost = order[: order.index(gone) + 1]
    records = report.records.assign(**dict.fromkeys(lost, np.nan))
    changed = dataclasses.replace(report, records=records)
    top = most_exposed(changed)
    if gone == "eta":
        assert top.empty
        assert "most exposed" not in _joined(changed)
    else:
        assert top["record"].tolist() == [3, 10, 17]
        assert "most exposed" in _joined(changed)


@pytest.mark.slow
def test_smallest_bounds_on_errors_are_most_exposed(make_audit):
    report = make_audit("numeric")
    at = report.records[report.records["noise_scale"] == 1e-3]
    assert (
        most_exposed(report)["record"].tolist() == at.nsmallest(10, "cramer_rao")["record"].tolist()
    )
    assert "no unbiased attack has a root mean squared error below" in _joined(report)


def test_deciles_hold_equally_many_records_whatever_the_losses(make_audit):
    report = make_audit(n_targets=47)
    table = vulnerability(report)
    assert len(table) == 10
    assert table["n_records"].sum() == 47
    assert set(table["n_records"]) == {4, 5}
    assert np.all(np.diff(table["eta_low"]) >= 0.0)
    assert np.all(table["eta_high"].to_numpy()[:-1] <= table["eta_low"].to_numpy()[1:])
    at = report.records[report.records["noise_scale"] == 1e-3]
    mean = (table["bayes"] * table["n_records"]).sum() / 47
    np.testing.assert_allclose(mean, at["bayes"].mean())
    equal = dataclasses.replace(report, records=report.records.assign(eta=1.0))
    assert vulnerability(equal)["n_records"].tolist() == table["n_records"].tolist()
    unknown = dataclasses.replace(report, records=report.records.assign(eta=np.nan))
    assert vulnerability(unknown) is None
    assert len(vulnerability(make_audit(n_targets=3))) == 3
    assert {"success_white_box", "bayes", "prior"} <= set(table.columns)
    assert {"mse_white_box", "cramer_rao"} <= set(vulnerability(make_audit("numeric")).columns)


def test_the_bayes_value_names_a_bound_that_is_equal(make_audit):
    report = make_audit()
    equal = _with_results(report, tradeoff=report.results["bayes"] * (1.0 - 1e-12))
    assert set(tightest(equal)["bound"]) == {"bayes"}
    known = _with_results(report, bayes=np.nan)
    assert set(tightest(known)["bound"]) == {"tradeoff"}


def test_findings_of_an_empty_audit(make_audit):
    report = make_audit()
    empty = dataclasses.replace(report, results=report.results.iloc[:0])
    assert findings(empty) == ("No attack was played: the audit says nothing.",)


@pytest.mark.slow
def test_nothing_is_ever_called_safe(make_audit):
    for kind in ("categorical", "numeric", "record"):
        for secrets in ("actual", "drawn"):
            report = make_audit(kind, secrets=secrets)
            text = " ".join((*findings(report), *assumptions(report))).lower()
            assert "safe" not in text
            assert "nan" not in text.split()


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
    assert text in " ".join(assumptions(make_audit(**settings)))


def test_assumptions_name_no_condition_that_is_not_there(make_audit):
    text = " ".join(
        assumptions(make_audit(utility_data="test records", n_targets=3855, n_records=3855))
    )
    for word in ("reweighted", "optimistic", "were attacked", "unbiased"):
        assert word not in text
    errors = " ".join(assumptions(make_audit("record", target_counts=True)))
    assert "for unbiased attackers" in errors
    assert "The target counts as part of the record" in errors
    assert "its target" not in errors
    assert "prior is" not in errors


@pytest.mark.slow
def test_results_stay_as_they_were(make_audit):
    report = make_audit()
    results, records = report.results.copy(), report.records.copy()
    findings(report), assumptions(report), report.to_html(), report.to_text(), report.to_json()
    pd.testing.assert_frame_equal(report.results, results)
    pd.testing.assert_frame_equal(report.records, records)
