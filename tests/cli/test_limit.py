from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skleak.audit import AuditReport
from skleak.cli._limit import judge
from skleak.cli._sarif import _found

CONSISTENT, EXCEEDED = "consistent with the bound", "bound exceeded"


def report(rows, kind="categorical", bounds=("bayes",), prior="marginal"):
    frame = pd.DataFrame(rows)
    frame["baseline"] = 0.5
    frame["success"] = 0.5 + 0.5 * frame["advantage"]
    if "advantage_over_imputation" not in frame:
        frame["advantage_over_imputation"] = frame["advantage"]
    for name in ("bayes", "cramer_rao"):
        if name not in frame:
            frame[name] = np.nan
    frame["mse"] = 1.0 - frame["advantage"]
    records = frame[["noise_scale", "cramer_rao"]].assign(prior=1.0, record=0, label=0)
    settings = {"bounds": bounds, "prior": prior}
    return AuditReport(
        estimator="Model",
        attribute="column",
        kind=kind,
        results=frame,
        records=records,
        settings=settings,
        reproducibility={},
    )


def row(noise, attack, advantage, bayes=np.nan, verdict=CONSISTENT, **more):
    start = {"noise_scale": noise, "attack": attack, "advantage": advantage, "bayes": bayes}
    return start | {"verdict": verdict} | more


def test_the_bound_counts_and_not_the_luck_of_an_attack():
    audit = report(
        [
            row(0.1, "white_box", 0.40, 0.71),
            row(0.1, "imputation", 0.9, 0.71, EXCEEDED),
            row(1.0, "white_box", 0.06, 0.52),
            row(1.0, "imputation", 0.9, 0.52, EXCEEDED),
        ]
    )
    table = audit.largest_advantages()
    np.testing.assert_allclose(table["advantage"], [0.42, 0.04])
    assert table["source"].tolist() == ["bound", "bound"]
    passed, line = judge(audit, 0.05)
    assert not passed
    assert line == (
        "Largest advantage allowed 5%: EXCEEDED. These noise scales pass: 1 (bound 4%). "
        "These noise scales fail: 0.1 (bound 42%)."
    )
    assert judge(audit, 0.42 + 1e-9)[0]


def test_an_attack_that_exceeds_its_bound_counts():
    audit = report([row(1.0, "black_box", 0.3, 0.52, EXCEEDED)])
    passed, line = judge(audit, 0.1)
    assert not passed
    assert "1 (`black_box` 30%)" in line
    assert "--prior conditional tells" in line
    audit = report([row(1.0, "black_box", 0.3, 0.52, EXCEEDED)], prior="conditional")
    assert "--prior" not in judge(audit, 0.1)[1]


def test_an_attack_that_knows_no_more_than_imputation_does_not_count():
    known_anyway = row(1.0, "black_box", 0.3, 0.52, EXCEEDED, advantage_over_imputation=-0.1)
    assert report([known_anyway]).largest_advantages().iloc[0, :2].tolist() == [
        pytest.approx(0.04),
        "bound",
    ]


def test_without_a_bound_the_best_attack_counts_and_baselines_do_not():
    audit = report(
        [row(1.0, "white_box", 0.2), row(1.0, "mine", 0.3), row(1.0, "imputation", 0.9)], bounds=()
    )
    assert audit.largest_advantages().iloc[0, :2].tolist() == [pytest.approx(0.3), "mine"]


def numbers(rows):
    audit = report(rows, kind="numeric", bounds=("bayes_mse", "van_trees", "cramer_rao"))
    audit.records["share_at_most"] = audit.results["share_at_most"] * 1.5
    return audit


def test_of_numbers_the_share_removed_decides():
    own = {"cramer_rao": 0.9, "bayes_mse": 0.6, "van_trees": 0.5}
    audit = numbers(
        [
            row(1.0, "white_box", -5.0, share_at_most=0.4, **own),
            row(1.0, "posterior_mean", 0.3, share_at_most=0.4, **own),
            row(2.0, "posterior_mean", 0.3, share_at_most=0.2, **own),
            row(3.0, "posterior_mean", 0.3, verdict=EXCEEDED, share_at_most=0.2, **own),
        ]
    )
    table = audit.largest_advantages()
    # The luck of an attack is not what counts, until it is more than that.
    np.testing.assert_allclose(table["advantage"], [0.4, 0.2, 0.3])
    assert table["source"].tolist() == ["bound", "bound", "posterior_mean"]
    passed, line = judge(audit, 0.35)
    assert not passed
    assert "fail: 1 (bound 40%, most exposed record 60%)" in line
    assert "pass: 2 (bound 20%, most exposed record 30%), 3 (`posterior_mean` 30%" in line
    # No record is said to be safer than the mean of what an attack removes.
    beyond = numbers([row(3.0, "black_box", 0.6, verdict=EXCEEDED, share_at_most=0.2, **own)])
    assert judge(beyond, 0.7)[1].endswith("3 (`black_box` 60%).")
    assert judge(audit, 0.4)[0]


def test_a_bound_for_unbiased_attacks_says_nothing_of_others():
    for kind in ("numeric", "record"):
        for advantage, told in ((0.0, "not known"), (0.3, "at least `white_box` 30%")):
            rows = [row(1.0, "white_box", advantage, cramer_rao=0.99)]
            audit = report(rows, kind=kind, bounds=("cramer_rao",))
            for limit in (0.1, 1.0):
                passed, line = judge(audit, limit)
                assert not passed
                assert f"fail: 1 ({told}" in line
                assert ("EXCEEDED" in line) == (advantage > limit)
    unknown = numbers([row(1.0, "posterior_mean", 0.1, share_at_most=np.nan, cramer_rao=0.99)])
    assert not judge(unknown, 1.0)[0]


def test_what_is_not_known_does_not_pass():
    audit = report([row(1.0, "prior", 0.0)], bounds=())
    passed, line = judge(audit, 1.0)
    assert not passed
    assert "1 (not known)" in line


def test_without_a_bound_no_limit_is_kept():
    """An attack that finds little says nothing of others."""
    audit = report([row(1.0, "white_box", 0.02), row(1.0, "black_box", 0.01)], bounds=())
    table = audit.largest_advantages()
    assert table.iloc[0].tolist() == [pytest.approx(0.02), "white_box", True]
    passed, line = judge(audit, 0.05)
    assert not passed
    assert "NOT KNOWN" in line
    assert "at least `white_box` 2%" in line


def test_where_the_noise_is_not_what_is_stated_no_limit_is_kept():
    audit = report([row(1.0, "white_box", 0.02, 0.52), row(9.0, "white_box", 0.01, 0.51)])
    assert judge(audit, 0.05)[0]
    checks = pd.DataFrame({"noise_scale": [1.0, 9.0], "check": "spread", "passed": [False, True]})
    audit = replace(audit, checks=checks)
    assert audit.largest_advantages()["at_least"].all()
    passed, line = judge(audit, 0.05)
    assert not passed
    assert "NOT KNOWN" in line
    assert "no bound holds" in line
    assert judge(replace(audit, checks=checks.assign(passed=True)), 0.05)[0]


def test_code_scanning_finds_no_link_in_a_name():
    audit = replace(report([row(1.0, "white_box", 0.4, 0.71)]), attribute="[a](https://b.example)")
    ((_, _, text, _),) = _found(audit, 0.05)
    assert r"`\[a\](https://b.example)`" in text
