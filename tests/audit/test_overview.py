"""Overviews of audits: no label, no value and no number of a person, whatever form they take."""

import dataclasses
import re

import numpy as np
import pytest

from skleak.linear_model import PrivateLinearRegression
from skleak.report.reports import check_enough, rounded

KINDS = ("categorical", "numeric", "record", "membership")


@pytest.fixture(scope="module")
def reported(people, audits_of_people):
    """People, audits of them of each kind, and a leakage report."""
    model = PrivateLinearRegression(noise_scale=0.5, alpha=0.1).fit(*people)
    return *people, audits_of_people, model.leakage_report(groups="smoker")


def numbers_of(table):
    """Numbers of single records, as they may be written: in full, and with a few digits."""
    found = set()
    for column in table.select_dtypes("number"):
        for value in table[column].dropna():
            if np.isfinite(value) and value != round(float(value), 2):
                found |= {f"{value:.4g}", f"{value:.6g}", repr(float(value))}
    return found


def persons_in(text, X, y, records):
    own = records.drop(columns=["noise_scale", "prior"], errors="ignore")
    wanted = {*X.index, *numbers_of(X), *numbers_of(y.to_frame()), *numbers_of(own)}
    words = {word.strip(".") for word in re.findall(r"[\w.+-]+", text)}
    return wanted & (words | {word.lstrip("+-") for word in words})


@pytest.mark.parametrize("kind", KINDS)
def test_an_overview_of_an_audit_tells_of_no_person(reported, kind):
    X, y, reports, _ = reported
    report = reports[kind]
    metrics = report.to_metrics()
    for told in (report.to_markdown(), repr(metrics)):
        assert not persons_in(told, X, y, report.records)
    # The attack finds what there is: the report itself names people, and has their numbers.
    assert persons_in(report.to_text(full=True), X, y, report.records)
    assert persons_in(report.to_json(), X, y, report.records)


def test_an_overview_of_a_leakage_report_tells_of_no_person(reported):
    X, y, _, report = reported
    for told in (report.to_markdown(), repr(report.to_metrics())):
        assert not persons_in(told, X, y, report.records)
    assert persons_in(report.to_text(full=True), X, y, report.records)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_card_tells_of_no_person(reported, kind):
    cards = pytest.importorskip("skops.card")
    X, y, reports, leakage = reported
    for report in (reports[kind], leakage):
        text = report.to_model_card().render()
        assert "# Privacy" in text
        assert not persons_in(text, X, y, report.records)
    card = cards.Card(None, template=None)
    card.add(**{"Intended use": "none"})
    assert reports[kind].to_model_card(card) is card
    text = card.render()
    assert text.index("# Intended use") < text.index("# Privacy")
    assert "## Noise by noise" in text


def test_a_card_may_be_that_of_a_release(reported):
    cards = pytest.importorskip("skops.card")
    X, y, reports, _ = reported
    noisy = PrivateLinearRegression(noise_scale=0.5, alpha=0.1).fit(X, y)
    records, released = reports["categorical"].records, noisy.release()
    # Coefficients, drawn anew, may read as a value of somebody by chance.
    by_chance = persons_in(cards.Card(released).render(), X, y, records)
    card = reports["categorical"].to_model_card(cards.Card(released))
    assert persons_in(card.render(), X, y, records) == by_chance


@pytest.mark.parametrize("kind", KINDS)
def test_metrics_are_those_of_the_tables(reported, kind):
    report = reported[2][kind]
    metrics, found = report.to_metrics(), report.decision()
    assert metrics["max_advantage"] == 0.05
    assert metrics["within_max_advantage"] == float(found["passes"])
    for level in found["levels"]:
        at = f"noise_scale_{level['noise']:g}"
        mean = metrics[f"{at}/mean_advantage"]
        # A bound is never stated smaller than it is, and to three digits.
        assert level["mean"] - 1e-12 <= mean <= level["mean"] * 1.01 + 1e-12
        assert metrics[f"{at}/share_above"] >= level["n_above"] / found["n_attacked"] - 1e-12


def test_noise_scales_that_look_alike_have_metrics_of_their_own(reported):
    report = reported[2]["categorical"]
    one, other = sorted(report.results["noise_scale"].unique())[:2]
    scales = {one: 0.123456701, other: 0.123456702}

    def near(table):
        return table.assign(noise_scale=table["noise_scale"].replace(scales))

    alike = dataclasses.replace(report, results=near(report.results), records=near(report.records))
    metrics = alike.to_metrics()
    for level in alike.decision()["levels"][:2]:
        assert f"noise_scale_{level['noise']}/mean_advantage" in metrics


def test_what_is_not_known_is_no_metric(reported, make_audit):
    report = reported[2]["numeric"]
    unknown = dataclasses.replace(report, settings=report.settings | {"n_targets": 24})
    assert all(np.isfinite(value) for value in unknown.to_metrics().values())
    assert all(np.isfinite(value) for value in reported[3].to_metrics().values())


@pytest.mark.parametrize("kind", KINDS)
def test_means_over_few_are_refused(reported, kind):
    report = reported[2][kind]
    few = dataclasses.replace(report, settings=report.settings | {"n_targets": 9})
    for call in (few.to_markdown, few.to_metrics):
        with pytest.raises(ValueError, match="about 9 records: means over fewer than 10"):
            call()
    check_enough(10)


def test_a_leakage_report_of_few_or_of_no_solution_has_no_overview(reported):
    report = reported[3]
    few = dataclasses.replace(report, records=report.records.head(9))
    with pytest.raises(ValueError, match="means over fewer than 10"):
        few.to_metrics()
    loose = dataclasses.replace(report, dataset=report.dataset | {"converged": False})
    for call in (loose.to_markdown, loose.to_metrics, loose.to_model_card):
        with pytest.raises(ValueError, match="did not converge"):
            call()


def test_rounding_keeps_a_bound_a_bound():
    rng = np.random.default_rng(0)
    for value in rng.uniform(size=200) * 10.0 ** rng.integers(-8, 8, 200):
        up = rounded(value, up=True)
        assert value * (1.0 - 1e-8) <= up <= value * 1.01
        assert float(f"{up:.3g}") == up
        assert abs(rounded(value) - value) <= 0.005 * value
    assert rounded(0.1, up=True) == 0.1
    assert rounded(0.123, up=True) == 0.123
    assert rounded(-0.1234, up=True) == -0.123
    assert rounded(0.0) == 0.0
    assert np.isnan(rounded(np.nan))


def test_markdown_shows_names_as_they_are(reported):
    report = reported[2]["categorical"]
    name = "a|b*_`<b>[x](y)"
    text = dataclasses.replace(report, attribute=name, estimator=name).to_markdown()
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 7
    # Without what is escaped, and without code, nothing is left that would be read as markup.
    rest = re.sub(r"`[^`]*`", "", re.sub(r"\\[^\w\s]", "", text))
    assert not re.search(r"<b>|\]\(y\)|a\|b", rest)
    assert f"`{name.replace('`', chr(39))}`" in text


def test_files_of_overviews_are_confidential(reported, tmp_path):
    path = tmp_path / "overview.md"
    text = reported[2]["membership"].to_markdown(path)
    assert path.read_text() == text
    assert path.stat().st_mode & 0o077 == 0
