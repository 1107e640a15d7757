"""The decision is a function of the tables, true for everyone, and its words are few."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers import exhaustive, mostly_slow
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skleak.adversary.knowledge import find_secret, read_secret
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.audit.games.attribute._column import related_columns
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.metrics.verdicts import EXCEEDED
from skleak.plotting.labels import limit_text, number

# Words that a data protection officer should not need before the details.
JARGON = re.compile(r"\b(prior|games?|encodings?|drawn|vacuous|noise units?)\b")


def confirm(report):
    """Hold the decision against the tables, computed here anew, and its sentence against it."""
    found, limit = report.decision(), report.settings["max_advantage"]
    assert found["limit"] == limit
    for level in found["levels"]:
        at = report.records[report.records["noise_scale"] == level["noise"]]
        gain = at["exposure"].to_numpy(dtype=float)
        if np.isnan(gain).all():
            assert level["verdict"] in ("not_known", "not_kept")
            assert not level["passes"]
            continue
        above = int(np.sum(~(gain <= limit * (1.0 + 1e-9))))
        assert level["n_above"] == above
        assert level["largest"] == np.max(gain)
        assert level["passes"] == (above == 0 and level["verdict"] in ("everyone", "unseen"))
        kept = {"everyone": above == 0, "all_but": 0 < above <= 0.05 * len(gain)}
        kept |= {"average": gain.mean() <= limit, "not_kept": gain.mean() > limit}
        assert kept.get(level["verdict"], True)
    assert found["passes"] == all(level["passes"] for level in found["levels"])
    noises = [level["noise"] for level in found["levels"] if level["passes"]]
    assert found["noise"] == (noises or [found["levels"][-1]["noise"]])[0]
    at = report.records[report.records["noise_scale"] == found["noise"]]
    over = at[~(at["exposure"] <= limit * (1.0 + 1e-9)) & at["exposure"].notna()]
    if at["exposure"].notna().all():
        assert sorted(map(str, found["labels"])) == sorted(map(str, over["label"]))
    confirm_words(report, found)


def confirm_words(report, found):
    """The first sentence is short, plain, about the noise of the decision, and no table differs."""
    first = report.findings[0]
    words = re.sub(r"`[^`]*`", "name", first).split()
    assert len(words) <= 40, first
    assert not JARGON.search(re.sub(r"`[^`]*`", "", first)), first
    if not math.isnan(found["largest"]) and not report.noiseless and found["noise"]:
        assert f"noise {number(found['noise'])}" in first
    known = "is not known" not in first
    reassures = known and any(w in first for w in ("nobody", "none of", "anybody's record"))
    if reassures:
        assert found["n_above"] == 0
        assert not found["failed"]
    if found["n_above"] > 0 and not math.isnan(found["largest"]):
        assert f"{int(found['n_above']):,} of {found['n_attacked']:,}" in first


def table(seed, n=60):
    """Records with names, a secret that another column tells much of, and a quantity."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"gene": rng.choice(["A", "B", "C"], n), "age": rng.integers(20, 80, n)},
        index=pd.Index([f"P{k:03d}" for k in rng.permutation(n)], name="patient"),
    )
    X["near"] = np.where(rng.random(n) < 0.8, X["gene"], "A")
    X["bmi"] = rng.normal(size=n) + 0.02 * X["age"]
    y = 2.0 * (X["gene"] == "A") + X["bmi"] + rng.normal(size=n)
    return X, y


def pipe(model):
    return make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["gene", "near"]),
            (StandardScaler(), ["age", "bmi"]),
        ),
        model,
    )


def audits(seed):
    X, y = table(seed)
    linear = pipe(PrivateLinearRegression(alpha=0.1))
    options = {"n_releases": 10, "noise_scales": [0.003, 0.1, 3.0]}
    yield LeakageAuditor(linear, "gene", **options).fit(X, y)
    yield LeakageAuditor(linear, "gene", secrets="actual", **options).fit(X, y)
    yield LeakageAuditor(linear, "gene", prior="conditional", **options).fit(X, y)
    small = options | {"noise_scales": [0.003, 0.01]}
    yield LeakageAuditor(linear, "gene", max_advantage=0.01, **small).fit(X, y)
    yield LeakageAuditor(linear, "age", **options).fit(X, y)
    yield LeakageAuditor(linear, "bmi", max_advantage=0.5, **options).fit(X, y)
    yield LeakageAuditor(linear, **options).fit(X, y)
    yield MembershipAuditor(linear, **options).fit(X, y)
    labels = np.where(y > y.median(), "ill", "well")
    logistic = pipe(PrivateLogisticRegression(alpha=0.1))
    yield LeakageAuditor(logistic, "near", **options).fit(X, labels)
    yield MembershipAuditor(pipe(DecisionTreeClassifier()), n_releases=10).fit(X, labels)
    yield LeakageAuditor(pipe(DecisionTreeClassifier()), "gene").fit(X, labels)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *exhaustive([(1,), (2,)])])
def test_the_tables_confirm_the_first_sentence(seed):
    statuses = set()
    for auditor in audits(seed):
        report = auditor.report_
        confirm(report)
        statuses.add(report.decision()["verdict"])
        said = json.loads(report.to_json())
        assert {row["label"] for row in said["records"]} <= {f"P{k:03d}" for k in range(60)}
        assert said["settings"]["labels"] == "patient"
        # Every person can be asked about.
        label = report.records["label"].iloc[3]
        person = report.person(label)
        own = report.records[report.records["label"] == label]
        assert person.table["noise_scale"].tolist() == own["noise_scale"].tolist()
        assert str(label) in person.findings[0]
        for form in (person.to_json(), person.to_html(), person.to_text(full=True)):
            assert str(label) in form
        with pytest.raises(KeyError, match="No record under attack is called 'nobody'"):
            report.person("nobody")
    assert {"everyone", "not_kept", "not_known"} <= statuses


@pytest.mark.slow
def test_the_tables_confirm_the_first_sentence_of_made_up_reports(make_audit):
    for kind in ("categorical", "numeric", "record"):
        for noise in ((1e-3, 1e-1), (1e-5,), (1e-1,)):
            for bounds in ((), ("bayes",)):
                made = {"noise": noise, "secrets": "drawn", "attacks": ("white_box",)}
                confirm(make_audit(kind, bounds=bounds, **made))


@pytest.mark.parametrize(
    "n_above, verdict", mostly_slow([(0, "everyone"), (2, "all_but"), (30, "not_kept")])
)
def test_everyone_is_decided_on_and_not_a_mean(make_audit, n_above, verdict):
    report = make_audit(noise=(1e-2,), n_records=40)
    gain = np.full(40, 0.001)
    gain[:n_above] = 0.9
    report = replace(report, records=report.records.assign(exposure=gain))
    found = report.decision()
    assert found["verdict"] == verdict
    assert found["passes"] == (n_above == 0)
    assert report.decision(of=0.95)["passes"] == (n_above <= 2)
    assert report.decision(of=0.96)["passes"] == (n_above == 0)
    assert report.decision(of="average")["passes"] == (gain.mean() <= 0.05)
    assert report.decision(0.95)["passes"]
    assert found["labels"] == report.records["label"][:n_above].tolist()
    for wrong in ("everybody", 0.0, 1.0, 2):
        with pytest.raises(ValueError, match="`of` must be"):
            report.decision(of=wrong)


def test_what_is_unknown_of_a_record_is_not_kept_for_it(make_audit):
    report = make_audit(noise=(1e-2,), n_records=40)
    gain = np.full(40, 0.001)
    gain[7] = np.nan
    report = replace(report, records=report.records.assign(exposure=gain))
    found = report.decision()
    assert (found["n_above"], found["largest"], found["verdict"]) == (1, 1.0, "all_but")
    assert not found["passes"]
    assert not report.decision(of="average")["passes"]


@pytest.mark.parametrize("n_above", mostly_slow([0, 1]))
def test_a_sample_never_keeps_for_everyone(make_audit, n_above):
    report = make_audit(noise=(1e-2,), sampled=True)
    gain = np.full(40, 0.001)
    gain[:n_above] = 0.9
    report = replace(report, records=report.records.assign(exposure=gain))
    found = report.decision()
    assert found["verdict"] == "sample"
    assert not found["passes"]
    least = stats.beta.ppf(0.95, n_above + 1, 40 - n_above)
    assert found["share_above"] == pytest.approx(least)
    assert report.decision(of=0.8)["passes"]
    assert not report.decision(of=0.99)["passes"]
    assert "nobody" not in report.findings[0]


def test_every_noise_scale_has_to_keep_the_limit(make_audit):
    report = make_audit(noise=(1e-4, 1e-1))
    found = report.decision()
    assert [level["passes"] for level in found["levels"]] == [False, True]
    assert (found["verdict"], found["noise"], found["passes"]) == ("everyone", 1e-1, False)


def test_attacks_refute_and_never_keep(make_audit):
    report = make_audit(bounds=(), noise=(1e-4, 1e-1), no_bound="no parameters to read")
    found = report.decision()
    assert [level["verdict"] for level in found["levels"]] == ["not_kept", "not_known"]
    assert not found["passes"]
    # What the other columns tell without the model is nothing of the model's.
    ends = [f"advantage_over_imputation{end}" for end in ("", "_low", "_high")]
    known = replace(report, results=report.results.assign(**dict.fromkeys(ends, 0.0)))
    assert {level["verdict"] for level in known.decision()["levels"]} == {"not_known"}


@pytest.mark.slow
def test_a_noise_at_which_a_constant_does_better_is_said_to_be(make_audit):
    made = {"smallest_noise": 15.0, "smallest_noise_utility": 0.08, "constant_utility": 0.1}
    report = make_audit(noise=(1e-4,), **made)
    assert report.decision()["smallest"]["worse_than_constant"]
    assert any("No noise keeps both" in line for line in report.findings)
    better = make_audit(noise=(1e-4,), **(made | {"constant_utility": 0.0}))
    assert not better.decision()["smallest"]["worse_than_constant"]
    assert any("keeps it for everyone" in line for line in better.findings)
    # Another limit has another noise, which nobody computed.
    assert math.isnan(report.decision(0.2)["smallest"]["noise"])


def test_a_bound_that_is_a_theorem_and_is_exceeded_decides_nothing(make_audit):
    report = make_audit(noise=(1e-1,), bounds=("bayes",), secrets="drawn")
    beyond = {"verdict": EXCEEDED, "bayes": 0.4}
    by_chance = replace(report, results=report.results.assign(success=0.42, **beyond))
    assert by_chance.decision()["passes"]
    found = replace(report, results=report.results.assign(success=0.5, **beyond)).decision()
    assert found["contradicted"]
    assert (found["verdict"], found["passes"]) == ("not_known", False)


def test_a_person_is_what_the_records_say(make_audit):
    report = make_audit(secrets="drawn")
    person = report.person(10)
    own = report.records[report.records["label"] == 10]
    np.testing.assert_array_equal(person.table["exposure"], own["exposure"])
    np.testing.assert_array_equal(
        person.table["value"], own[["success_white_box", "success_black_box"]].max(axis=1)
    )
    assert report.person("10").table.equals(person.table)  # as typed
    errors = make_audit("numeric").person(10)
    assert errors.table["shows"].isna().all()
    with pytest.raises(KeyError, match="No record under attack is called 'nobody'"):
        report.person("nobody")


@pytest.mark.slow
def test_whether_membership_of_a_person_shows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.choice(["no", "yes"], 40)
    report = (
        MembershipAuditor(DecisionTreeClassifier(), attacks="loss", n_releases=40).fit(X, y).report_
    )
    shows = [bool(report.person(k).table["shows"].any()) for k in range(40)]
    right = report.records["success_loss"].to_numpy(dtype=float)
    assert any(shows)
    assert np.mean(right[shows]) > np.mean(right)
    assert np.min(right[shows]) > 0.5
    for k in range(40):
        told = "more than chance explains" in " ".join(report.person(k).findings)
        assert told == shows[k]


def test_a_failed_mechanism_is_told_first(make_audit):
    checks = pd.DataFrame(
        {"noise_scale": [1e-3], "n_releases": [100], "check": ["spread"], "statistic": [0.5]}
    ).assign(p_value=1e-9, passed=False, level=1e-6, smallest_fault=0.6)
    failed = replace(make_audit(noise=(1e-1,)), checks=checks)
    found = failed.decision()
    assert (found["failed"], found["verdict"], found["passes"]) == (True, "not_known", False)
    assert failed.findings[0].startswith("Nothing can be promised")
    assert replace(failed, checks=checks.assign(passed=True)).decision()["passes"]


@pytest.mark.slow
def test_nothing_is_bounded_where_the_mechanism_failed(audits_of_people):
    """Not in the decision, of a person, in an overview or in a dossier."""
    for kind, fine in audits_of_people.items():
        failed = fine.checks.assign(passed=False)
        if failed.empty:
            failed = pd.DataFrame({"noise_scale": [0.1], "check": "spread", "passed": False})
            failed = failed.assign(n_releases=3, statistic=2.0, p_value=1e-9, level=1e-6)
        report = replace(fine, checks=failed)
        assert not report.decision()["passes"], kind
        assert "kept for everyone" not in report.to_markdown()
        person = report.person(report.records["label"].iloc[0])
        assert person.table["exposure"].isna().all()
        for text in ("edpb", "dpia", "nist"):
            evidence = json.dumps(report.to_dossier(text).to_dict()["criteria"])
            assert "bounds on the release hold" not in evidence


@pytest.mark.slow
def test_what_is_said_of_some_records_is_not_said_of_all(people):
    X, y = people
    model, options = PrivateLinearRegression(alpha=0.1), {"n_releases": 2, "noise_scales": [500.0]}
    report = LeakageAuditor(model, "smoker", records=slice(0, 12), **options).fit(X, y).report_
    assert "of the 12 people attacked" in report.findings[0]
    whole = LeakageAuditor(model, "smoker", **options).fit(X, y).report_
    assert "attacked" not in whole.findings[0]
    assert "nobody's" in whole.findings[0]


def test_a_limit_is_written_with_all_its_digits():
    for limit, text in ((0.125, "12.5%"), (0.07, "7%"), (0.0001, "0.01%"), (1.0, "100%")):
        assert limit_text(limit) == text


@pytest.mark.slow
def test_columns_that_determine_a_secret_are_named():
    rng = np.random.default_rng(0)
    n, gene = 90, rng.integers(0, 3, 90)
    X = pd.DataFrame(
        {
            "gene": np.array(["A", "B", "C"])[gene],
            "code": 7 * gene + 1,  # the same, coded twice
            "carrier": 1 * (gene > 0),  # a part of it
            "age": rng.integers(20, 80, n),
            "other": rng.normal(size=n),
        }
    )
    X["birth"] = 2000.0 - X["age"]
    X["id"] = rng.permutation(n)  # differs in every record, and tells nothing
    y = rng.normal(size=n)
    numbers = (StandardScaler(), ["code", "carrier", "age", "other", "birth", "id"])
    encode = make_column_transformer((OneHotEncoder(), ["gene"]), numbers)
    model = make_pipeline(encode, PrivateLinearRegression(1.0, alpha=1.0))
    expected = {
        "gene": ({"code"}, {"code", "carrier"}),
        "carrier": ({"gene", "code"}, set()),
        "age": ({"birth"}, {"birth"}),
        "other": (set(), set()),
    }
    for column, (by, follows) in expected.items():
        found = related_columns(X, y, find_secret(X, column))
        assert set(found["determined_by"]) == by, column
        assert set(found["determines"]) == follows, column
    options = {"n_releases": 2, "attacks": "white_box", "records": slice(0, 5)}
    report = LeakageAuditor(model, "gene", **options).fit(X, y).report_
    assert report.settings["determined_by"] == {"code": 1.0}
    (named,) = (line for line in report.findings if "without any model" in line)
    assert named.startswith("`code` determines `gene`")
    # A target of the model counts as a column.
    found = related_columns(X, gene, find_secret(X, "gene"))
    assert "(target)" in found["determined_by"]
    # It does not determine itself.
    secret = read_secret(X, gene, "(target)")
    assert "(target)" not in related_columns(X, gene, secret)["determined_by"]


def test_copies_are_named_whatever_is_missing_or_rare():
    rng = np.random.default_rng(0)
    income, n = rng.pareto(1.0, 100), 100
    X = pd.DataFrame({"income": income, "rich": 1 * (income > 1.0), "ill": 1 * (np.arange(n) < 1)})
    some = np.where(np.arange(n) % 50 == 7, np.nan, income)
    days = pd.Timestamp("2000-01-01") + pd.to_timedelta(income, unit="D")
    copies = pd.DataFrame({"copy": income, "gaps": some, "date": days, "id": np.arange(n)})
    copies["note"] = np.where(X["ill"], "yes", "no")
    expected = {"income": {"copy"}, "rich": {"income", "copy", "gaps", "date"}, "ill": {"note"}}
    for column, by in expected.items():
        table = pd.concat([X, copies], axis=1)
        found = related_columns(table, rng.normal(size=n), find_secret(table, column))
        assert by <= set(found["determined_by"]), column
        assert "id" not in found["determined_by"], column
