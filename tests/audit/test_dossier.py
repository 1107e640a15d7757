"""Dossiers: evidence with the paragraph that asks for it, blanks marked, and nobody named."""

import dataclasses
import json
import re

import numpy as np
import pytest
from helpers import mostly_slow
from sklearn.tree import DecisionTreeClassifier

from skleak.audit import LeakageAuditor, MembershipAuditor

TEXTS = ("edpb", "dpia", "nist")
KINDS = ("categorical", "numeric", "record", "membership", "asked")
# Paragraphs and sections, as the texts number them.
CITED = {
    "edpb": ["Paragraph 43 (i)", "Paragraph 43 (ii)", "Paragraph 43", "Paragraph 46"]
    + 3 * ["Section 3.2.2, AI model design"]
    + ["Section 3.2.2, AI model analysis", "Paragraph 55", "Paragraph 58"],
    "dpia": [f"Article 35(7)({letter})" for letter in "abcd"]
    + ["Article 35(2)", "Article 35(9)", "Article 35(11)"],
    "nist": [
        "Section 2.2, The Privacy Parameter ε",
        "Section 2.3, Variants of Differential Privacy",
        "Section 2.4, The Unit of Privacy",
        "Section 2.6, Mixing Differential Privacy With Other Data Releases",
        "Section 3.2, Utility and Accuracy",
        "Section 3.3, Bias",
        "Section 3.5, Machine Learning",
        "Section 4.2, Threat Models",
        "Section 4.3, Mechanism Implementation Challenges",
        "Section 4.4, Data Security and Access Control",
        "Section 4.5, Data Collection Exposure",
    ],
}


@pytest.fixture(scope="module")
def reports(people, audits_of_people):
    X, y = people
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    auditor = LeakageAuditor(tree, "smoker", n_releases=3, random_state=0)
    auditor.fit(X, np.where(y > y.median(), "ill", "well"))
    return audits_of_people | {"asked": auditor.report_}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", mostly_slow(KINDS, 0, 3))
def test_every_question_cites_its_paragraph_and_is_answered_or_blank(reports, kind, text):
    dossier = reports[kind].to_dossier(text)
    told = dossier.to_dict()
    assert [one["paragraph"] for one in told["criteria"]] == CITED[text]
    for one in told["criteria"]:
        assert "?" in one["asks"]
        assert one["evidence"] or one["blanks"]
        assert all(line.endswith(".") for line in (*one["evidence"], *one["blanks"]))
    n = sum(len(one["blanks"]) for one in told["criteria"])
    assert dossier.n_blanks == n > 0
    page = dossier.to_html()
    assert page.count("[TO BE FILLED IN]") == n + 1  # and once where they are counted
    assert dossier.to_text(full=True).count("[TO BE FILLED IN]") == n
    assert json.loads(dossier.to_json()) == told


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", mostly_slow(KINDS, 0, 3))
def test_it_never_says_that_a_model_is_that(reports, kind, text):
    dossier = reports[kind].to_dossier(text)
    for told in (dossier.to_html(), dossier.to_text(full=True), dossier.to_json(), repr(dossier)):
        assert "anonym" not in told.lower()
        assert not re.search(r"\b(compliant|safe|certif\w+)\b", told.lower())


@pytest.mark.parametrize("text", mostly_slow(TEXTS))
@pytest.mark.parametrize("kind", mostly_slow(KINDS, 0, 3))
def test_it_names_nobody(people, reports, kind, text):
    X, y = people
    report = reports[kind]
    own = report.records.drop(columns=["noise_scale", "prior", "record", "label"])
    numbers = [*X["age"], *X["bmi"], *y, *own.select_dtypes("number").to_numpy().ravel()]
    unusual = [v for v in numbers if np.isfinite(v) and v != round(float(v), 2)]
    written = {text for v in unusual for text in (f"{v:.4g}", repr(float(v)))}
    # Short ones, as of 5.5, are sections and shares too.
    wanted = {*X.index, *(text for text in written if len(text.strip("-0.").replace(".", "")) > 3)}
    dossier = report.to_dossier(text)
    for told in (dossier.to_text(full=True), dossier.to_json(), dossier.to_html()):
        words = {word.strip(".") for word in re.findall(r"[\w.+-]+", told)}
        assert wanted & (words | {word.lstrip("+-") for word in words}) == set()
    # The attack finds what there is.
    assert {*X.index} & {*re.findall(r"person-\d+", report.to_json())}


def test_numbers_are_those_of_the_audit(reports):
    report = reports["categorical"]
    risks = report.to_dossier("dpia").to_dict()["criteria"][2]
    found = report.decision()
    table = report.to_dossier("dpia").table
    assert table.columns[1].cells == tuple(f"{int(r['n_above'])}" for r in found["levels"])
    assert f"{int(found['n_above'])} of 24" in risks["evidence"][1]
    tests = report.to_dossier("edpb").to_dict()["criteria"][8]
    assert "attribute inference" in tests["evidence"][0]
    named = tests["blanks"][0]
    assert "attribute inference" not in named
    assert "membership inference" in named
    tests = reports["membership"].to_dossier("edpb").to_dict()["criteria"][8]
    assert "membership inference" not in tests["blanks"][0]
    assert "attribute inference" in tests["blanks"][0]


def test_what_is_not_bounded_is_not_said_to_be(reports):
    report = reports["asked"]
    for text in TEXTS:
        told = report.to_dossier(text).to_text(full=True)
        assert "a bound for attackers of any kind" not in told
        assert "Nothing bounds attacks that were not tried" in " ".join(told.split())


def test_an_attack_above_its_bound_is_told(reports):
    report = reports["categorical"]
    white = report.results["attack"] == "white_box"
    verdict = report.results["verdict"].mask(white, "bound exceeded")
    beyond = dataclasses.replace(report, results=report.results.assign(verdict=verdict))
    told = " ".join(beyond.to_dossier("nist").to_text(full=True).split())
    assert f"{int(white.sum())} of" in told
    assert "exceed it by more than chance explains" in told


def test_bad_input_is_told(reports):
    report = reports["categorical"]
    with pytest.raises(ValueError, match=r'"edpb", "dpia" or "nist"; got .ccpa'):
        report.to_dossier("ccpa")
    few = dataclasses.replace(report, settings=report.settings | {"n_targets": 9})
    with pytest.raises(ValueError, match="means over fewer than 10"):
        few.to_dossier("edpb")
    empty = dataclasses.replace(report, results=report.results.head(0))
    with pytest.raises(ValueError, match="no results yet"):
        empty.to_dossier("edpb")


@pytest.mark.slow
def test_where_nothing_is_bounded_nothing_says_that_a_bound_holds(people):
    """Of models without noise, also where their members are attacked."""
    X, y = people
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    auditor = MembershipAuditor(tree, n_releases=4, random_state=0)
    report = auditor.fit(X, np.where(y > y.median(), "ill", "well")).report_
    for text in TEXTS:
        told = report.to_dossier(text).to_text(full=True)
        assert "bounds on the release hold" not in " ".join(told.split())
        assert "theoretical" not in told
    assert "0 of 2 comparisons" not in report.to_markdown()
    assert "above their bound" not in report.to_text(full=True)
