"""The first sentence of a report is a function of its tables, and these confirm it."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers import exhaustive
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skleak.adversary.knowledge import find_secret, read_secret
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.audit.games.attribute._dependence import related_columns
from skleak.audit.report._advice import advice
from skleak.audit.report._findings import facts
from skleak.audit.report._sentences import findings
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.metrics import EXCEEDED
from skleak.plotting.labels import beside_limit, limit_text, percent
from skleak.plotting.results import middle_noise, most_exposed

BASELINES = ["prior", "imputation"]


def confirm(report):
    """Hold the facts of the first sentence against the tables, computed here anew."""
    (summary,) = (found for found in facts(report) if found.topic == "summary")
    said, results, records = summary["decision"], report.results, report.records
    limit, guesses = report.settings["max_advantage"], report.kind in ("categorical", "membership")
    first, noise, names = report.findings[0], said["noise"], list(report.bounds)
    at = records[records["noise_scale"] == noise]
    rows = results[results["noise_scale"] == noise]
    played = rows[~rows["attack"].isin(BASELINES)]

    # Whoever claims that nobody exceeds a number may not stand beside somebody who does.
    low = results[results["noise_scale"] == summary["noise"]]
    claims = "No attack exceeds" in first
    if claims and guesses:
        bound = low[names].astype(float).min(axis=None)
        assert (low["success"] <= bound).all()
    assert "whatsoever" not in first

    # Bounds of single records, and of all.
    prior = at["prior"].astype(float)
    if guesses:
        known = [name for name in ("bayes", "tightest_bound") if name in at]
        own = (at[known].astype(float).min(axis=1) - prior) / (1.0 - prior)
        base = rows["baseline"].iloc[0]
        mean = (rows[names].astype(float).min(axis=None) - base) / (1.0 - base) if names else np.nan
    else:
        bound = np.minimum(at["cramer_rao"].astype(float), prior)
        if with_prior := "share_at_most" in at:
            prior = at["prior_variance"].astype(float)
            risk = (at["bayes_mse"] - at["bayes_mse_error"]).astype(float).fillna(0.0)
            bound = np.maximum(risk, at["van_trees"].astype(float))
        own, mean = 1.0 - bound / prior, 1.0 - bound.sum() / prior.sum()
        if not with_prior:
            mean = np.nan  # a bound for unbiased attacks alone says nothing of the others
        confirm_errors(report, summary, own, with_prior)
    if report.kind == "record" and with_prior:
        # Errors of the bound are allowed for, and each record's are wider than those of the mean.
        assert said["advantage"] <= mean + 1e-9
        mean = said["advantage"]
    if said["source"] == "bound" and "bound_error" not in rows:
        assert said["advantage"] == pytest.approx(mean)
    if said["status"] == "kept":
        assert said["advantage"] <= limit
        assert mean <= limit
        assert not ((played["verdict"] == EXCEEDED) & (played["advantage"] > limit)).any()
        smaller = results[results["noise_scale"] < noise].groupby("noise_scale")
        for scale, _ in smaller:
            assert report.largest_advantages().loc[scale, "advantage"] > limit
        assert f"oise scale {noise:g}" in first or noise == 0.0
    elif said["status"] == "exceeds":
        assert (report.largest_advantages()["advantage"] > limit).all()
        assert noise == results["noise_scale"].max()
    else:
        assert said["status"] == "unknown"
        assert np.isnan(mean)
        assert played["advantage"].max() <= limit or len(report.largest_advantages()) > 1
    # For whom not, and what it costs.
    if said["by"] == "bound":
        above = own > limit * (1.0 + 1e-9)
        assert said["n_above"] == above.sum()
        assert sorted(map(str, said["labels"])) == sorted(map(str, at["label"][above]))
        if above.any():
            assert own[at["label"] == said["labels"][0]].max() == own.max() == said["largest"]
            assert str(said["labels"][0]) in first
    assert said["utility"]["value"] == pytest.approx(rows["utility"].iloc[0], nan_ok=True)
    verdicts = results.set_index("attack")["verdict"]
    if report.kind == "categorical" and report.settings["prior"] != "conditional":
        mine = verdicts[verdicts.index.isin(BASELINES)]
        assert not mine.isin(["bound exceeded", "consistent with the bound"]).any()
    exceeded = results["verdict"] == EXCEEDED
    assert exceeded.any() == any(
        "exceeds the bound" in line or "exceed the bound" in line for line in report.findings
    )


def confirm_errors(report, summary, own, with_prior):
    """Hold what is said of errors against the shares of single records that are removed, own."""
    said, first = summary["decision"], " ".join(report.findings)
    assert summary["with_prior"] == with_prior == (not np.isnan(said["at_most"]))
    assert said["unbiased"] != with_prior
    if not with_prior:
        return
    assert "nbiased attack" not in first
    assert percent(said["at_most"], up=True) in report.findings[0]
    known = report.results.set_index("noise_scale")["share_at_most"]
    assert said["at_most"] == known.loc[[said["noise"]]].iloc[0]
    # The most exposed record is the one from whose number most is removed, wherever it is named.
    at = report.records[report.records["noise_scale"] == summary["noise"]]
    assert at["share_at_most"].max() == pytest.approx(summary["share_of_one"])
    least = ((1.0 - at["share_at_most"]) * at["prior_variance"]).mean()
    if report.kind == "record":
        assert summary["least"] >= least - 1e-9
    else:
        assert summary["least"] == pytest.approx(least)
    top = most_exposed(report, len(own))
    assert top.attrs["source"] == "share_at_most"
    assert (top["exposure"].diff().dropna() <= 1e-9).all()
    person = report.person(top["label"].iloc[0]).table.set_index("noise_scale")
    own_share = person.loc[middle_noise(report), "bound_advantage"]
    assert own_share == pytest.approx(top["exposure"].iloc[0])
    assert person.loc[middle_noise(report), "bound"] == pytest.approx(top["value"].iloc[0])
    if said["noise"] == middle_noise(report):
        assert top["exposure"].iloc[0] == pytest.approx(own.max())


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
        (summary,) = (found for found in facts(report) if found.topic == "summary")
        statuses.add(summary["decision"]["status"])
        said = json.loads(report.to_json())
        assert {row["label"] for row in said["records"]} <= {f"P{k:03d}" for k in range(60)}
        assert said["settings"]["labels"] == "patient"
        # Every person can be asked about.
        label = report.records["label"].iloc[3]
        person = report.person(label)
        own = report.records[report.records["label"] == label]
        assert person.table["noise_scale"].tolist() == own["noise_scale"].tolist()
        assert str(label) in person.findings[0]
        for form in (person.to_json(), person.to_html(), person.to_text()):
            assert str(label) in form
        with pytest.raises(KeyError, match="No record under attack is called 'nobody'"):
            report.person("nobody")
    assert {"kept", "exceeds"} <= statuses


def test_the_tables_confirm_the_first_sentence_of_made_up_reports(make_audit):
    for kind in ("categorical", "numeric", "record"):
        for noise in ((1e-3, 1e-1), (1e-5,)):
            confirm(make_audit(kind, noise=noise, secrets="drawn", attacks=("white_box",)))


def test_a_person_is_what_the_records_say(make_audit):
    report = make_audit(secrets="drawn")
    person = report.person(10)
    own = report.records[report.records["label"] == 10]
    np.testing.assert_array_equal(
        person.table["bound"], own[["bayes", "tightest_bound"]].min(axis=1)
    )
    np.testing.assert_array_equal(
        person.table["value"], own[["success_white_box", "success_black_box"]].max(axis=1)
    )
    assert set(person.table["bound_name"]) == {"bayes"}
    assert report.person("10").table.equals(person.table)  # as typed
    errors = make_audit("numeric").person(10)
    assert (errors.table["bound"] <= errors.table["prior"]).all()
    assert errors.table["shows"].isna().all()


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
        told = "was not found to show" not in report.person(k).findings[0]
        assert told == shows[k]


def test_a_failed_mechanism_is_told_first(make_audit):
    checks = pd.DataFrame(
        {"noise_scale": [1e-3], "n_releases": [100], "check": ["spread"], "statistic": [0.5]}
    ).assign(p_value=1e-9, passed=False, level=1e-6, smallest_fault=0.6)
    report = make_audit()
    (summary, *_) = facts(replace(report, checks=checks))
    assert summary["decision"]["status"] == "invalid"
    fine = replace(report, checks=checks.assign(passed=True))
    assert facts(fine)[0]["decision"]["status"] == "kept"


@pytest.mark.slow
def test_nothing_is_bounded_where_the_mechanism_failed(audits_of_people):
    """Not in the tables, of a person, in an overview or in a dossier."""
    for kind, fine in audits_of_people.items():
        failed = fine.checks.assign(passed=False)
        if failed.empty:
            failed = pd.DataFrame({"noise_scale": [0.1], "check": "spread", "passed": False})
            failed = failed.assign(n_releases=3, statistic=2.0, p_value=1e-9, level=1e-6)
        report = replace(fine, checks=failed)
        report = replace(report, findings=findings(report))
        assert "oes not" not in advice(facts(report)[0]["decision"])
        assert "No attack" not in report.findings[0], kind
        assert report.largest_advantages()["at_least"].all()
        assert not any(name.endswith("/largest_advantage") for name in report.to_metrics())
        assert "| within |" not in report.to_markdown()
        person = report.person(report.records["label"].iloc[0])
        assert person.table["bound"].isna().all()
        assert np.isnan(facts(report)[0]["decision"]["n_above"])
        for text in ("edpb", "dpia", "nist"):
            evidence = json.dumps(report.to_dossier(text).to_dict()["criteria"])
            assert "Bounds hold" not in evidence
            assert "bounds on the release hold" not in evidence


@pytest.mark.slow
def test_sentences_write_what_tables_write():
    """An attack's advantage has the digits of its interval, and none reads as within a limit."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] + rng.normal(size=40) > 0.0, "ill", "well")
    for seed in range(3):
        auditor = MembershipAuditor(DecisionTreeClassifier(max_depth=2), n_releases=6)
        report = auditor.set_params(random_state=seed, max_advantage=0.1).fit(X, y).report_
        (_, row), *_ = report.largest_advantages().iterrows()
        own = report.results.set_index("attack").loc[row["source"]]
        half = 0.5 * (own["advantage_high"] - own["advantage_low"])
        written = percent(row["advantage"], within=half)
        assert f"has one of {written};" in report.findings[0]
        assert f"| at least {written} (" in report.to_markdown()


@pytest.mark.slow
def test_what_is_said_of_some_records_is_not_said_of_all(people):
    X, y = people
    model, options = PrivateLinearRegression(alpha=0.1), {"n_releases": 2, "noise_scales": [50.0]}
    for kind in ("smoker", "bmi"):
        report = LeakageAuditor(model, kind, records=slice(0, 12), **options).fit(X, y).report_
        for told in (report.findings[0], report.to_markdown()):
            assert "on average over the 12 records attacked" in told
            assert "for none of the records attacked is its own bound above" in told
        whole = LeakageAuditor(model, kind, **options).fit(X, y).report_
        assert "records attacked" not in whole.findings[0]
        assert "for no record is its own bound above" in whole.findings[0]


def test_a_share_reads_as_above_a_limit_or_within_it_as_it_is():
    for share, limit, up, text in (
        (0.123, 0.125, True, "12.3%"),
        (0.123, 0.13, True, "13%"),
        (0.052, 0.05, False, "5.2%"),
        (0.0501, 0.05, False, "5.01%"),
        (0.05, 0.05, True, "5%"),
        (0.0499999, 0.05, True, "5%"),
    ):
        assert beside_limit(share, limit, up=up, within=0.1 * (not up)) == text
    for limit, text in ((0.125, "12.5%"), (0.07, "7%"), (0.0001, "0.01%"), (1.0, "100%")):
        assert limit_text(limit) == text


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
    secret, _, _ = read_secret(X, gene, "(target)")
    assert "(target)" not in related_columns(X, gene, secret)["determined_by"]


def test_the_records_of_the_table_and_of_the_decision_are_told_apart(make_audit):
    told = []
    for noise in ((1e-4, 1e-3, 1e-2), (1e-3,), (1e-4, 1e-3)):
        report = make_audit("categorical", noise=noise)
        (summary,) = (found for found in facts(report) if found.topic == "summary")
        decided = summary["decision"]
        elsewhere = bool(decided["labels"]) and decided["noise"] != middle_noise(report)
        said = "The first sentence names records at noise scale"
        assert (said in " ".join(report.to_text().split())) == elsewhere
        told.append(elsewhere)
    assert set(told) == {True, False}


def test_imputation_in_games_of_drawn_secrets_is_explained(make_audit):
    for secrets in ("drawn", "actual"):
        text = " ".join(make_audit("categorical", secrets=secrets).to_text().split())
        assert ("Imputation: of secrets that were drawn" in text) == (secrets == "drawn")
