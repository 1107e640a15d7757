"""What first sentences must not say: each case is an attack on one."""

import re

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.linear_model import PrivateLinearRegression
from skleak.report.document import sentences


@pytest.fixture
def people():
    rng = np.random.default_rng(list(b"first sentences"))
    X = pd.DataFrame({"age": rng.normal(50.0, 9.0, 40).round(2), "sex": rng.integers(0, 2, 40)})
    return X, X["sex"] + rng.normal(size=40)


def audited(X, y, attribute, *, before=None, **options):
    private = {name: options.pop(name) for name in ("random_state",) if name in options}
    model = PrivateLinearRegression(alpha=0.1, **private)
    if before is not None:
        model = make_pipeline(FunctionTransformer(before), model)
    options = {"noise_scales": [3.0], "n_releases": 2} | options
    return LeakageAuditor(model, attribute, **options).fit(X, y).report_


@pytest.mark.slow
def test_a_flag_of_some_numbers_is_seen(people):
    X, y = people
    X.loc[0, "age"] = 1000.0

    def old(table):
        return np.column_stack([table["sex"], table["age"] > 900.0]).astype(float)

    def exact(table):
        return np.column_stack([table["sex"], table["age"] == X.loc[1, "age"]]).astype(float)

    # Nodes over the range of other records miss the number that the flag is about.
    report = audited(X, y, "age", before=old, records=[0])
    assert report.decision()["verdict"] != "unseen"
    report = audited(X, y, "age", before=exact)
    assert report.decision()["verdict"] != "unseen"


@pytest.mark.slow
def test_rows_of_a_person_are_not_called_people(people):
    X, y = people
    rows = np.repeat(np.arange(20), 5)
    X, y = X.iloc[rows].reset_index(drop=True), y.to_numpy()[rows]
    report = audited(X, y, "sex")
    assert report.settings["repeated"]["rows"] == 100
    assert "single row" in report.findings[0] or "rows" in report.findings[0]
    assert "people" not in report.findings[0]
    assert "nobody" not in report.findings[0]
    assert any("`persons`" in text for text in report.findings[1:2])
    alone = audited(X[::5], y[::5], "sex").findings
    assert "row" not in alone[0]


@pytest.mark.slow
def test_rows_of_a_person_outside_memory_are_not_called_people(people, tmp_path):
    pytest.importorskip("pyarrow")
    X, y = people
    X = pd.concat([X.assign(y=y)] * 3)
    for name, table in (("again", X), ("once", X.iloc[:40])):
        path = tmp_path / f"{name}.parquet"
        table.to_parquet(path, row_group_size=20)
        model = PrivateLinearRegression(3.0, alpha=0.1)
        found = LeakageAuditor(model, "sex", n_releases=2).fit(path, "y").report_
        assert ("rows" in found.settings.get("repeated", {})) == (name == "again")
        assert ("row" in found.findings[0]) == (name == "again")


@pytest.mark.slow
def test_noise_from_a_seed_is_told(people):
    assert any("random_state" in text for text in audited(*people, "sex", random_state=0).findings)
    assert not any("random_state" in text for text in audited(*people, "sex").findings)


def test_whole_records_of_categories_in_a_frame(people):
    X, y = people
    ward = pd.get_dummies(pd.Series(np.arange(40) % 3), prefix="ward", dtype=float)
    report = audited(pd.concat([X, ward], axis=1), y, None, noise_scales=[30.0])
    assert report.decision()["passes"]
    assert "but the target" in report.findings[0]


@pytest.mark.parametrize("kind", mostly_slow(["numeric", "categorical", "record", "membership"]))
@pytest.mark.parametrize(
    "verdict", mostly_slow(["everyone", "all_but", "average", "not_kept", "sample"])
)
@pytest.mark.parametrize("repeated", mostly_slow([None, {"rows": 9, "by": "index"}]))
def test_forty_words_at_most(people, kind, verdict, repeated):
    """Of samples, too."""
    facts = dict(audited(*people, "age")._said)
    above = 0.0 if verdict in ("everyone", "sample") else 9.0
    facts |= {"kind": kind, "verdict": verdict, "n_above": above, "repeated": repeated}
    facts |= {"largest": 0.06, "limit": 0.05, "share_above": 0.03, "step": 1.0}
    facts |= {"n_values": 3, "column": "`x`"}
    for sampled in (True, False):
        first = sentences("audit_lead", facts | {"sampled": sampled, "partial": not sampled})[0]
        assert len(first.split()) <= 40 or (verdict == "sample" and not sampled), first
        assert "drawn" not in first


@pytest.mark.slow
def test_noise_that_is_recommended_is_enough_as_it_reads(people):
    X, y = people
    report = audited(X, y, "sex", noise_scales=[0.01])
    said = " ".join(report.findings)
    noise = float(re.search(r"(?:Noise|at) ([\d.]+)(?: keeps it|, where everyone)", said)[1])
    exact = report.decision()["smallest"]["noise"]
    assert exact <= noise < 1.01 * exact
    assert audited(X, y, "sex", noise_scales=[noise]).decision()["passes"]


@pytest.mark.slow
def test_noise_for_everyone_is_recommended_for_no_sample(people):
    X, y = people
    y = y + 9.0 * (np.arange(40) == 39)  # who is not attacked needs more noise than the others
    report = audited(X, y, "sex", noise_scales=[0.01], records=range(20))
    noise = report.decision()["smallest"]["noise"]
    assert not audited(X, y, "sex", noise_scales=[noise]).decision()["passes"]
    for sampled, whom in ((False, "everyone attacked"), (True, "everyone sampled")):
        told = sentences("audit_lead", report._said | {"sampled": sampled, "partial": not sampled})
        assert whom in " ".join(told)


@pytest.mark.slow
def test_members_of_other_releases_are_not_promised_anything():
    rng = np.random.default_rng(11)
    X = pd.DataFrame({"age": rng.normal(size=60), "rare": 1.0 * (np.arange(60) < 1)})
    y = (X["age"] + rng.normal(size=60)).to_numpy()

    def audited(noise, seed):
        options = {"noise_scales": [noise], "n_releases": 5, "random_state": seed}
        return MembershipAuditor(PrivateLinearRegression(), **options).fit(X, y).report_

    first = audited(1.0, 2)
    assert "for everyone there" in " ".join(first.findings) or "everyone there is" in str(first)
    again = [audited(1.01 * first.decision()["smallest"]["noise"], seed) for seed in (1, 2)]
    assert [report.decision()["verdict"] for report in again] == ["all_but", "everyone"]
    assert all("the training data of 5 releases with more" in r.findings[0] for r in again)


@pytest.mark.slow
def test_a_share_of_people_is_met_up_to_rounding(people):
    report = audited(*people, "sex", noise_scales=[0.5])
    gains = report.records["exposure"].sort_values().to_numpy()
    for above in range(1, 40):
        limit = float(gains[-above - 1])
        for of in (1.0 - above / 40, round(1.0 - above / 40, 3)):
            assert report.decision(limit, of=of)["passes"], (above, of)
        if limit < gains[-above]:
            assert not report.decision(limit, of=1.0 - above / 40 + 1e-3)["passes"]


@pytest.mark.slow
def test_of_numbers_nothing_is_said_whatever_is_known(people):
    report = audited(*people, "age")
    texts = (report.to_text(full=True), report.to_html(), " ".join(report.assumptions))
    assert not any(re.search("whatever (else )?is known", text) for text in texts)
