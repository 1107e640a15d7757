"""The gate: what a decision makes of an exit code, a line, and SARIF."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from skleak.cli._gate import judge, sarif
from skleak.cli._options import Audit


def level(verdict, passes=False, noise=1.0, n_above=0.0, largest=0.2):
    given = {"noise": noise, "verdict": verdict, "passes": passes, "n_above": n_above}
    return given | {"largest": largest}


def report(*levels, sampled=False, checks=(), attribute="sex"):
    """What an audit tells the gate; the decision notes what it was asked."""
    asked = []

    def decision(limit=None, *, of="everyone"):
        asked.append((limit, of))
        return {
            "levels": list(levels),
            "passes": all(each["passes"] for each in levels),
            "limit": 0.05 if limit is None else limit,
            "of": of,
            "n_attacked": 47,
            "sampled": sampled,
        }

    checks = pd.DataFrame(checks, columns=["noise_scale", "passed"])
    fixed = {"kind": "categorical", "attribute": attribute, "checks": checks}
    return SimpleNamespace(
        decision=decision, asked=asked, to_metrics=lambda: {"max_advantage": 0.05}, **fixed
    )


OPTIONS = Audit(data="people.csv", target="t", fail_above=0.05, of="everyone")
PASSES = level("everyone", True, 10.0, largest=0.01)


@pytest.mark.parametrize(
    "failing, word, rule, severity",
    [
        (level("not_kept", n_above=12.0), "NOT KEPT", "advantage-above-limit", "error"),
        (level("all_but", n_above=1.0), "NOT KEPT", "advantage-above-limit", "error"),
        (level("average", n_above=9.0), "NOT KEPT", "advantage-above-limit", "error"),
        # Attacks alone can refute: of nobody in particular.
        (
            level("not_kept", n_above=np.nan, largest=np.nan),
            *("NOT KEPT", "advantage-above-limit", "error"),
        ),
        (level("not_known", largest=np.nan), "NOT KNOWN", "advantage-not-known", "warning"),
        # An attack that exceeds a theorem: nothing is known, whatever is counted.
        (level("not_known", n_above=3.0), "NOT KNOWN", "advantage-not-known", "warning"),
        (level("sample"), "NOT KNOWN", "advantage-not-known", "warning"),
    ],
)
def test_a_noise_scale_that_fails_is_told(failing, word, rule, severity):
    for levels in ((failing, PASSES), (PASSES, failing)):
        found = report(*levels)
        passed, line = judge(found, OPTIONS)
        assert not passed
        assert word in line
        assert found.asked == [(0.05, "everyone")]
        (result,) = json.loads(sarif(found, OPTIONS))["runs"][0]["results"]
        assert (result["ruleId"], result["level"]) == (rule, severity)
        assert f"noise {failing['noise']:g}" in result["message"]["text"]


def test_a_limit_that_is_kept_is_no_finding():
    found = report(PASSES, level("all_but", True, 1.0, n_above=1.0))
    options = replace(OPTIONS, of=0.9, fail_above=0.1)
    passed, line = judge(found, options)
    assert passed
    assert "kept" in line
    assert "90%" in line
    assert found.asked == [(0.1, 0.9)]
    assert json.loads(sarif(found, options))["runs"][0]["results"] == []


def test_the_worst_of_all_noise_scales_counts():
    found = report(level("not_known", noise=1.0), level("not_kept", noise=0.1, n_above=47.0))
    assert "NOT KEPT" in judge(found, OPTIONS)[1]
    results = json.loads(sarif(found, OPTIONS))["runs"][0]["results"]
    assert [each["level"] for each in results] == ["warning", "error"]
    assert len({each["partialFingerprints"]["skleakFinding/v1"] for each in results}) == 2


def test_a_sample_is_asked_about_a_share():
    line = judge(report(level("sample"), sampled=True), OPTIONS)[1]
    assert "--of" in line
    assert "--of" not in judge(report(level("not_known")), OPTIONS)[1]


def test_without_a_limit_that_of_the_audit_counts():
    found = report(PASSES)
    sarif(found, replace(OPTIONS, fail_above=None, of=None))
    assert found.asked == [(None, "everyone")]


def test_noise_that_is_not_as_stated_is_a_finding():
    found = report(level("not_known"), checks=[(1.0, False), (1.0, False), (9.0, True)])
    results = json.loads(sarif(found, OPTIONS))["runs"][0]["results"]
    assert [each["ruleId"] for each in results] == ["advantage-not-known", "noise-check-failed"]
    assert [each["level"] for each in results] == ["warning", "error"]


def test_code_scanning_finds_no_link_in_a_name():
    found = report(level("not_kept", n_above=1.0), attribute="[a](https://b.example)")
    assert r"`\\[a\\](https://b.example)`" in sarif(found, OPTIONS)
