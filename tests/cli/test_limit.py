import numpy as np
import pandas as pd
import pytest

from skleak.audit import AuditReport
from skleak.cli._limit import judge

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
    assert report([known_anyway]).largest_advantages().iloc[0].tolist() == [
        pytest.approx(0.04),
        "bound",
    ]


def test_without_a_bound_the_best_attack_counts_and_baselines_do_not():
    audit = report(
        [row(1.0, "white_box", 0.2), row(1.0, "mine", 0.3), row(1.0, "imputation", 0.9)], bounds=()
    )
    assert audit.largest_advantages().iloc[0].tolist() == [pytest.approx(0.3), "mine"]


def test_numbers_have_a_bound_for_unbiased_attacks_only():
    audit = report(
        [row(1.0, "white_box", 0.3, cramer_rao=0.9), row(2.0, "white_box", -5.0, cramer_rao=0.9)],
        kind="numeric",
        bounds=("cramer_rao",),
    )
    table = audit.largest_advantages()
    np.testing.assert_allclose(table["advantage"], [0.3, 0.1])
    assert "2 (bound for unbiased attacks 10%)" in judge(audit, 0.2)[1]


def test_what_is_not_known_does_not_pass():
    audit = report([row(1.0, "prior", 0.0)], bounds=())
    passed, line = judge(audit, 1.0)
    assert not passed
    assert "1 (not known)" in line
