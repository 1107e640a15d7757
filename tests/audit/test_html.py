"""Pages of real audits: what they say, what they show, and what they never do."""

import dataclasses
import re
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skleak.metrics.verdicts import EXCEEDED
from skleak.plotting import AuditDisplay
from skleak.plotting.labels import ON_DARK, attack_label, number, percent, root
from skleak.report.audit._results import merged_bounds

KINDS = ["categorical", "numeric", "record"]


def _document(report):
    return report._document(figures=False)


def _columns(report, title):
    """Columns of the table of a section by their heads."""
    (section,) = (part for part in _document(report).sections if part.title == title)
    (table,) = (block for block in section.blocks if hasattr(block, "columns"))
    return {column.head: column for column in table.columns}


@pytest.mark.slow
def test_pages_are_well_formed_and_self_contained(audits_of_people, pages, read_page):
    fragments = {"notebook": audits_of_people["numeric"]._repr_html_()}
    for name, html in (pages | fragments).items():
        page = read_page(html)
        assert ("html" in page.tags) is (name != "notebook")
        assert not {"script", "link", "img", "iframe", "object", "form", "image"} & set(page.tags)
        assert not [each for _, each, _ in page.attributes if each.startswith("on")]
        # Nothing is asked of anybody: what is referred to stands in the page itself.
        asked = [
            value for _, each, value in page.attributes if each in {"src", "href", "xlink:href"}
        ]
        assert all(value.startswith("#") for value in asked)
        assert set(re.findall(r"url\((.)", html)) <= {"#"}
        for word in ("@import", "http:", "https:", "xmlns", "<metadata", "<style type"):
            assert word not in html
        ids = [value for _, each, value in page.attributes if each == "id"]
        used = {*(value[1:] for value in asked), *re.findall(r"url\(#([^)]*)\)", html)}
        assert len(ids) == len(set(ids))
        assert set(ids) == used
        if name != "notebook":
            assert html.startswith("<!DOCTYPE html>")
            assert ("html", "lang", "en") in page.attributes
            assert "default-src 'none'; style-src 'unsafe-inline'" in html
            assert ("meta", "content", "no-referrer") in page.attributes


@pytest.mark.slow
def test_notebook_fragment_touches_nothing_outside_itself(audits_of_people):
    html = audits_of_people["categorical"]._repr_html_()
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    selectors = re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]*\{", "", style))
    for selector in ",".join(selectors).split(","):
        assert ".skleak-report" in selector, selector
    assert html.count("<style") == 1
    folded = [each for each in _document(audits_of_people["categorical"]).sections if each.folded]
    assert html.count("<details>") <= len(folded)
    assert html.count("<details>") == html.count("</details>") > 0


@pytest.mark.slow
def test_figures_have_words_for_those_who_do_not_see_them(audits_of_people, pages, read_page):
    for name, report in audits_of_people.items():
        page = read_page(pages[name])
        assert ("svg", "role", "img") in page.attributes
        (label,) = (v for tag, key, v in page.attributes if (tag, key) == ("svg", "aria-label"))
        assert "by noise scale" in label
        told = re.search(r"<svg.*?<desc>(.*?)</desc>", pages[name], re.DOTALL)[1]
        told = told.replace("&lt;", "<").replace("&gt;", ">")
        for level in report.decision()["levels"]:
            said = f"{attack_label(level['attack'])} gains {percent(level['attack_value'])}"
            assert f"Noise {number(level['noise'])}: {said}" in told


@pytest.mark.slow
def test_a_figure_says_what_its_display_says(audits_of_people, pages):
    """Numbers and names in the figure are those of the display, to the last letter."""
    for name, report in audits_of_people.items():
        display = AuditDisplay.from_report(report).plot()
        display.figure_.canvas.draw()
        texts = [each for ax in display.axes_ for each in ax.texts]
        for ax in display.axes_:
            texts += [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label]
            texts += [] if ax.get_legend() is None else ax.get_legend().get_texts()
        lines = {line for text in texts for line in text.get_text().split("\n") if line}
        svg = re.search(r"<svg.*?</svg>", pages[name], re.DOTALL)[0]
        shown = set(re.findall(r"<(?:text|tspan)[^>]*>([^<]+)<", svg))
        assert {line for line in lines if re.search("[a-z]", line)} <= shown
        # Ticks beyond the axis are not drawn; those that are were not cut.
        assert {each for each in shown if not re.search("[a-z]", each)} <= lines
        assert f"without noise: {number(report.settings['noiseless_utility'])}" in shown


@pytest.mark.slow
def test_pages_are_the_same_whatever_the_style_and_the_thread(audits_of_people, pages):
    report, page = audits_of_people["categorical"], pages["categorical"]
    open_before = plt.get_fignums()
    with plt.style.context("dark_background"), ThreadPoolExecutor(2) as pool:
        made = [pool.submit(report.to_html), pool.submit(report.to_html)]
        assert {each.result() for each in made} == {page}
        assert plt.rcParams["axes.facecolor"] == "black"
    assert plt.get_fignums() == open_before


def test_figures_follow_light_and_dark(pages):
    for page in pages.values():
        svg = re.search(r"<svg.*?</svg>", page, re.DOTALL)[0]
        # The ground is the page's own.
        assert 'style="fill: none"' in svg
        for light, dark in ON_DARK.items():
            assert f"--c-{light[1:]}:{dark};" in page
            assert f": {light}" not in svg
        fixed = set(re.findall(r": (#[0-9a-f]{6})\b", svg))
        # What is readable on both: gray and the middle tones of bounds.
        assert fixed <= {"#8a8f98", "#56b4e9", "#e69f00"}


@pytest.mark.slow
def test_pages_say_what_an_officer_needs(audits_of_people, pages, read_page):
    for name, report in audits_of_people.items():
        words = read_page(pages[name]).words
        sections = {section.title for section in _document(report).sections}
        headings = {"Noise by noise", "What leaks, and what noise costs", "All attacks"}
        headings |= {"Assumptions", "What the words mean", "Reproducibility"}
        assert headings <= sections
        for heading in ("Confidential", "Leakage audit", *sections):
            assert heading in words
        for sentence in (
            *report.findings,
            *report.assumptions,
            *report.reproducibility.values(),
        ):
            assert " ".join(sentence.replace("`", "").split()) in words
        lead = report.findings[0].replace("`", "")[:20]
        places = [words.index(part) for part in (lead, "Best attack tried", "All attacks")]
        assert places == sorted(places)
        assert "safe" not in words.lower()
        assert "nan" not in words.lower().split()


@pytest.mark.slow
def test_the_document_holds_every_number(audits_of_people):
    for name, report in audits_of_people.items():
        columns, results = _columns(report, "All attacks"), report.results
        errors = name in ("numeric", "record")
        head, measured = (
            ("Root mean squared error", "mse") if errors else ("Right guesses", "success")
        )
        show = root if errors else percent
        for k, (_, row) in enumerate(results.iterrows()):
            ends = [row[f"{measured}{end}"] for end in ("_low", "_high")]
            digits = {} if errors else {"within": 0.5 * (ends[1] - ends[0])}
            low, high = (show(end, **digits) for end in ends)
            assert columns[head].cells[k] == show(row[measured], **digits)
            told = not low == high == columns[head].cells[k]
            assert columns[head].below[k] == (f"{low} to {high}" if told else "")
            assert columns["Verdict"].cells[k] == row["verdict"]
        of_noise, levels = _columns(report, "Noise by noise"), report.decision()["levels"]
        shown = dict(zip(of_noise["Noise"].cells, range(99), strict=False))
        for level in levels:
            (k,) = (k for cell, k in shown.items() if cell.split(" ")[0] == number(level["noise"]))
            assert of_noise["People above the limit"].cells[k] == f"{level['n_above']:.0f}"
            assert of_noise[report.settings["utility_name"]].cells[k] == number(level["utility"])
        bounds = _columns(report, "All bounds for the stated prior")
        assert set(merged_bounds(report).columns) <= set(bounds.pop("Bound").cells)
        assert len(bounds) == len(levels)


@pytest.mark.slow
def test_exceeded_bounds_stand_out(audits_of_people, read_page):
    report = audits_of_people["categorical"]
    verdicts = report.results["verdict"].where(report.results.index != 3, EXCEEDED)
    report = dataclasses.replace(report, results=report.results.assign(verdict=verdicts))
    html = report.to_html()
    sharp = _columns(report, "All attacks")["Verdict"].sharp
    assert list(sharp) == (verdicts == EXCEEDED).tolist()
    assert html.count('<span class="sharp">bound exceeded</span>') == (verdicts == EXCEEDED).sum()
    assert EXCEEDED in read_page(html).words


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_pages_escape_names(make_audit, read_page, evil_names, kind):
    fields = ("attribute", "estimator", "utility_name", "prior", "preprocessing", "reweighting")
    shift = KINDS.index(kind)
    named = dict(zip(fields, np.roll(np.array(evil_names, dtype=object), 3 * shift), strict=False))
    attacks = tuple(name.replace("\ud800", "") for name in evil_names)
    report = make_audit(
        kind, noise=(1e-4, 1e-3), attacks=("prior", *attacks), values=list(evil_names), **named
    )
    report = dataclasses.replace(
        report, reproducibility=dict(zip(evil_names, evil_names, strict=True))
    )
    html = report.to_html()
    page = read_page(html)
    assert not {"script", "img", "i"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name == "onerror"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "{{ 7 * 7 }}" in html
    for letter in set(html) - {"\n"}:
        assert unicodedata.category(letter) not in {"Cc", "Cf", "Cs"}, repr(letter)


def test_equal_bounds_share_a_row_and_the_tightest_come_first(make_audit):
    bounds = merged_bounds(make_audit())
    assert bounds.columns[0] == "Bayes"
    assert bounds.columns[1] == "trade-off = Gaussian differential privacy"
    assert np.all(np.diff(bounds.mean()) >= 0.0)
    # An infinite bound on errors is a tight one, and one that is not known none.
    report = make_audit("numeric")
    assert merged_bounds(
        dataclasses.replace(report, results=report.results.assign(cramer_rao=np.nan))
    ).empty


@pytest.mark.slow
def test_thirty_thousand_records_take_a_moment(make_audit):
    report = make_audit(n_targets=30_000)
    report.to_html()
    start = time.process_time()
    html = report.to_html()
    report.to_text(full=True)
    assert time.process_time() - start < 3.0
    assert len(html) < 150_000


@pytest.mark.slow
def test_many_results_are_capped_with_a_note(make_audit, read_page):
    report = make_audit(noise=tuple(np.geomspace(1e-5, 1.0, 60)))
    html = report.to_html()
    assert "40 more rows" in read_page(html).words
    assert "… and 180 more rows" in report.to_text(full=True)
