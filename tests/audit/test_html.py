import dataclasses
import re
import time
import unicodedata

import numpy as np
import pytest
from helpers import mostly_slow

from skleak.audit.report._format import percent
from skleak.audit.report._html import to_html
from skleak.audit.report.figure._axes import noise_axis, value_axis
from skleak.audit.report.figure._chart import audit_chart, merged
from skleak.audit.report.figure._rows_chart import rows_chart
from skleak.metrics._verdict import EXCEEDED

KINDS = ["categorical", "numeric", "record"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize("noise", [(1e-4, 1e-3, 1e-2), (1e-3,)])
def test_html_is_well_formed_and_self_contained(make_audit, read_page, kind, embedded, noise):
    html = to_html(make_audit(kind, noise=noise), embedded=embedded)
    page = read_page(html)
    assert ("html" in page.tags) is not embedded
    assert not {"script", "link", "img", "iframe", "object", "form", "image"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert not [name for _, name, _ in page.attributes if name in {"src", "href", "xlink:href"}]
    for word in ("url(", "@import", "http:", "https:"):
        assert word not in html
    if not embedded:
        assert html.startswith("<!DOCTYPE html>")
        assert ("html", "lang", "en") in page.attributes
        assert "default-src 'none'" in html
        assert ("meta", "content", "no-referrer") in page.attributes


def test_notebook_fragment_touches_nothing_outside_itself(make_audit, read_page):
    report = make_audit()
    html = report._repr_html_()
    assert html == to_html(report, embedded=True)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    selectors = re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]*\{", "", style))
    for selector in ",".join(selectors).split(","):
        assert ".skleak-report" in selector, selector
    assert not [name for _, name, _ in read_page(html).attributes if name == "id"]


@pytest.mark.parametrize("kind", KINDS)
def test_html_says_what_an_officer_needs(make_audit, read_page, kind):
    report = make_audit(kind)
    words = read_page(report.to_html()).words
    for heading in (
        "Confidential",
        "Leakage audit",
        "What the numbers say",
        "Results",
        "Bounds and baselines",
        "Who is exposed",
        "Most exposed records",
        "Assumptions",
        "Reproducibility",
    ):
        assert heading in words
    for sentence in (*report.findings, *report.assumptions, *report.reproducibility.values()):
        assert " ".join(sentence.replace("`", "").split()) in words
    assert words.index(report.findings[0][:20]) < words.index("Best attack at noise")
    assert words.index("Best attack at noise") < words.index("Results")
    assert "safe" not in words.lower()


def test_html_shows_every_result_with_its_interval(make_audit, read_page):
    report = make_audit()
    words = read_page(report.to_html()).words
    for _, row in report.results.iterrows():
        low, high = percent(row["success_low"]), percent(row["success_high"])
        assert f"{percent(row['success'])}{low} to {high}" in words
    html = report.to_html()
    assert html.count('rowspan="4"') == 5
    assert html.count('<td class="verdict">') == 20


def test_exceeded_bounds_stand_out(make_audit, read_page):
    report = make_audit(noise=(1e-4, 1e-3))
    verdicts = report.results["verdict"].where(report.results.index != 3, EXCEEDED)
    report = dataclasses.replace(report, results=report.results.assign(verdict=verdicts))
    html = report.to_html()
    assert html.count('<span class="sharp">bound exceeded</span>') == 1
    assert html.count('<circle class="ring" cx="0"') == 1
    assert "1 of 8" in read_page(html).words
    one = make_audit(noise=(1e-3,))
    one = dataclasses.replace(one, results=one.results.assign(verdict=EXCEEDED))
    assert read_page(one.to_html()).words.count(", bound exceeded") == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", mostly_slow([[1e-4, 1e-3], [1e-3]], 0))
def test_html_escapes_names(make_audit, read_page, evil_names, kind, noise):
    for name in evil_names:
        report = make_audit(
            kind,
            noise=noise,
            attribute=name,
            estimator=name,
            attacks=("prior", name.replace("\ud800", "")),
            values=list(evil_names),
            utility_name=name,
            prior=name,
            preprocessing=name,
            reweighting=name,
        )
        report = dataclasses.replace(
            report,
            findings=(*report.findings, *evil_names),
            assumptions=(*report.assumptions, *evil_names),
            reproducibility=dict.fromkeys(evil_names, name),
        )
        html = report.to_html()
        page = read_page(html)
        assert not {"script", "img", "i"} & set(page.tags)
        assert not [name for _, name, _ in page.attributes if name == "onerror"]
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "{{ 7 * 7 }}" in html
        for letter in set(html) - {"\n"}:
            assert unicodedata.category(letter) not in {"Cc", "Cf", "Cs"}, repr(letter)


def test_the_chart_places_results_where_they_are(make_audit):
    report = make_audit()
    chart = audit_chart(report)
    panel = chart.panels[0]
    assert [series.name for series in panel.series] == [
        "prior guess",
        "imputation",
        "black box",
        "white box",
    ]
    assert chart.logarithmic
    assert chart.n_omitted == 0
    points = [point for series in panel.series for point in series.points]
    y = np.array([point.y for point in points])
    order = report.results.sort_values("attack", kind="stable", key=lambda names: names.map(_ORDER))
    advantage = order["advantage"].to_numpy()
    slope, offset = np.polyfit(advantage, y, 1)
    np.testing.assert_allclose(y, slope * advantage + offset, atol=1e-9)
    assert slope < 0.0
    np.testing.assert_allclose(panel.reference.position, offset, atol=1e-9)
    low = np.array([point.low for point in points])
    np.testing.assert_allclose(low, slope * order["advantage_low"] + offset, atol=1e-9)
    x = np.array([point.x for point in panel.series[0].points])
    np.testing.assert_allclose(np.diff(x), np.diff(x)[0])
    assert np.all((x > 0.0) & (x < 100.0))


_ORDER = {name: k for k, name in enumerate(("prior", "imputation", "black_box", "white_box"))}


def test_the_chart_has_utility_below_on_the_same_axis(make_audit):
    chart = audit_chart(make_audit())
    assert len(chart.panels) == 2
    first, last = chart.panels
    assert last.title == "Utility: R^2 on training records"
    assert [p.x for p in last.series[0].points] == [p.x for p in first.series[0].points]
    assert last.reference.label == "without noise 0.55"
    # A score that falls without end does not press the rest into a line.
    report = make_audit()
    utility = report.results["utility"].where(report.results["noise_scale"] < 0.1, -1e6)
    chart = audit_chart(dataclasses.replace(report, results=report.results.assign(utility=utility)))
    assert len(chart.panels[1].series[0].points) == 4


def test_equal_bounds_share_a_curve_and_the_tightest_are_strong(make_audit):
    bounds = merged(make_audit().advantages())
    assert bounds.table.columns[0] == "Bayes"
    assert bounds.table.columns[1] == "trade-off = Gaussian differential privacy"
    assert bounds.styles == (1, 2, 3, *[0] * 8)
    chart = audit_chart(make_audit())
    assert [curve.style for curve in chart.panels[0].curves] == list(bounds.styles)


def test_errors_are_drawn_relative_to_the_prior_and_to_the_bound(make_audit):
    chart = audit_chart(make_audit("numeric"))
    assert [panel.logarithmic for panel in chart.panels] == [True, True, False]
    prior = chart.panels[0].series[0].points
    np.testing.assert_allclose([p.y for p in prior], chart.panels[0].reference.position, atol=1e-6)
    bound = chart.panels[0].curves[0]
    assert bound.style == 1
    # On logarithmic axes a bound in proportion to the squared noise is a straight line.
    places = np.array([pair.split(",") for pair in bound.lines[0].split()], dtype=float)
    first, second, *_ = np.diff(places[:, 1])
    assert first == pytest.approx(second, abs=0.05)
    # In the mean no record counts with more than guessing it.
    assert places[-1, 1] == pytest.approx(chart.panels[0].reference.position, abs=0.01)


def test_noise_of_zero_has_its_place():
    axis = noise_axis(np.array([0.0, 1e-4, 1e-2]))
    x = axis.position(np.array([0.0, 1e-4, 1e-2]))
    assert axis.ticks[0] == (0.0, "0")
    assert np.all(np.diff(x) > 0.1)
    linear = noise_axis(np.array([0.0, 1.0]))
    assert not linear.logarithmic
    assert np.all(np.isfinite(linear.position(np.array([0.0, 1.0]))))
    assert noise_axis(np.array([1.0, 2.0])).logarithmic is False


@pytest.mark.parametrize(
    "values", [[0.5], [0.0, 0.0], [1e-12, 1e-12], [-3.0, 5.0], [1e-300, 1e300]]
)
@pytest.mark.parametrize("logarithmic", [False, True])
def test_value_axes_hold_their_values(values, logarithmic):
    axis = value_axis(np.array([*values, np.nan, np.inf]), logarithmic)
    kept = np.array([v for v in values if v > 0.0 or not logarithmic])
    if not len(kept):
        assert axis is None
        return
    assert len(axis.ticks) >= 2
    place = axis.position(kept.max())
    assert 0.0 <= place <= 1.0
    for value, _ in axis.ticks:
        assert -1e-9 <= axis.position(value) <= 1.0 + 1e-9


def test_a_hopeless_attack_does_not_hide_the_bound():
    axis = value_axis(np.array([0.04, 1.0, 2.3e7]), logarithmic=True)
    assert np.all(axis.position(np.array([0.04, 2.3e7])) >= 0.0)


def test_one_noise_scale_gives_a_bar_for_each_attack(make_audit):
    report = make_audit(noise=(1e-3,))
    assert audit_chart(report) is None
    chart = rows_chart(report)
    assert [row.name for row in chart.rows] == [
        "prior guess",
        "imputation",
        "black box",
        "white box",
    ]
    ends = np.array([row.left + row.width for row in chart.rows])
    advantage = report.results["advantage"].to_numpy()
    slope = (ends[3] - ends[1]) / (advantage[3] - advantage[1])
    np.testing.assert_allclose(ends, chart.reference + slope * advantage, atol=1e-9)
    marks = [mark.position for mark in chart.marks]
    assert chart.marks[0].name == "Bayes"
    # The three tightest are on the axis, and none is drawn where it is not.
    assert len([mark for mark in marks if mark is not None]) >= 3
    assert marks[-1] is None
    assert marks[:3] == sorted(marks[:3])
    assert chart.rows[3].low < ends[3] < chart.rows[3].high


def test_a_bar_of_an_error_ends_at_the_error(make_audit):
    chart = rows_chart(make_audit("numeric", noise=(1e-3,)))
    assert chart.rows[0].width == pytest.approx(0.0, abs=1e-6)
    white = chart.rows[3]
    assert white.left + white.width == pytest.approx(chart.reference)
    assert chart.marks[0].position < white.left


def test_thirty_thousand_records_take_a_moment(make_audit):
    report = make_audit(n_targets=30_000)
    report.to_html()
    start = time.process_time()
    html = report.to_html()
    report.to_text()
    assert time.process_time() - start < 2.0
    assert len(html) < 150_000


def test_many_results_are_capped_with_a_note(make_audit, read_page):
    report = make_audit(noise=tuple(np.geomspace(1e-5, 1.0, 60)))
    html = report.to_html()
    assert html.count('<td class="verdict">') == 200
    assert "40 more rows" in read_page(html).words
