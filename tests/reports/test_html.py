import dataclasses
import json
import os
import re
import time
import unicodedata

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import Page

from skleak.linear_model import IRFIL, PrivateLinearRegression, PrivateLogisticRegression
from skleak.plotting import LeakageDisplay
from skleak.plotting.labels import number, percent
from skleak.report.document import Bullets, Document, Section, to_html


def _counts(html):
    """Records in each bin, as those hear it who do not see the figure."""
    told = re.findall(r"<desc>(.*?)</desc>", html, re.DOTALL)
    return [int(n.replace(",", "")) for n in re.findall(r": ([\d,]+) records?\.", "".join(told))]


@pytest.mark.slow
def test_html_is_well_formed_and_self_contained(fitted):
    _, _, report = fitted
    for html in (report.to_html(), report._repr_html_()):
        page, embedded = Page(html), not html.startswith("<!DOCTYPE html>")
        assert ("html" in page.tags) is not embedded
        assert not {"script", "link", "img", "iframe", "object", "form", "image"} & set(page.tags)
        assert not [name for _, name, _ in page.attributes if name.startswith("on")]
        # What is referred to stands in the page itself.
        asked = [v for _, name, v in page.attributes if name in {"src", "href", "xlink:href"}]
        asked += re.findall(r"url\(([^)]*)\)", html)
        ids = [value for _, name, value in page.attributes if name == "id"]
        assert {value.removeprefix("#") for value in asked} == set(ids)
        assert all(value.startswith("#") for value in asked)
        assert len(ids) == len(set(ids))
        for word in ("@import", "http:", "https:"):
            assert word not in html
        if not embedded:
            assert ("html", "lang", "en") in page.attributes
            assert "default-src 'none'" in html
    assert plt.get_fignums() == []
    assert report.to_html() == report.to_html()


def test_notebook_fragment_touches_nothing_outside_itself(fitted):
    _, _, report = fitted
    html = report._repr_html_()
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    selectors = re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]*\{", "", style))
    for selector in ",".join(selectors).split(","):
        assert ".skleak-report" in selector, selector
    assert html.count("<style") == 1


def test_html_says_what_an_officer_needs(fitted):
    _, _, report = fitted
    html = report.to_html()
    words = Page(html).words
    for heading in (
        "Confidential",
        "Leakage report",
        "Columns",
        "Groups",
        "What else the numbers say",
        "Most exposed records",
        "Differential privacy",
        "Assumptions",
        "What the words mean",
        "Cramér–Rao bound",
        "How it was made",
    ):
        assert heading in words
    for sentence in (*report.findings, *report.assumptions, *report.differential_privacy.reasons):
        assert " ".join(sentence.replace("`", "").split()) in words
    cells = re.findall(r'<td class="number">(?:<span[^>]*>)?([^<]+)', html)
    top = report.features.iloc[0]
    assert cells[:4] == [
        percent(top["advantage_any_prior"], up=True),
        percent(top["found_at_1pct"]),
        str(top["n_above"]),
        number(top["distance"]),
    ]
    for position in report.dataset["most_exposed_records"]:
        assert f'scope="row"><bdi>{position}</bdi></th>' in html


def test_html_shows_no_record(fitted):
    X, y, report = fitted
    for html in (
        report.to_html(),
        report._repr_html_(),
        report.to_text(full=True),
        report.to_json(),
    ):
        for value in (*X.to_numpy().ravel(), *y):
            assert f"{value:.6f}".rstrip("0") not in html


def test_html_histogram_counts_every_record_once(fitted):
    _, _, report = fitted
    html = report.to_html()
    page = Page(html)
    bars = LeakageDisplay.from_report(report).plot().ax_.patches
    assert _counts(html) == [int(bar.get_height()) for bar in bars if bar.get_height()]
    assert sum(_counts(html)) == len(report.records)
    assert ("svg", "role", "img") in page.attributes
    assert [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    for mark in ("mean_loss", "max_loss"):
        assert f"{mark[:-5]} {report.dataset[mark]:.3g}" in page.words


@pytest.mark.slow
def test_html_escapes_names(make_report, rng, evil_names):
    groups = rng.permutation(np.array(list(evil_names[:3]) * 4, dtype=object))
    report = make_report(rng.exponential(size=12), features=evil_names, groups=groups)
    report = dataclasses.replace(report, estimator="<i>x</i>")
    for html in (report.to_html(), report._repr_html_()):
        page = Page(html)
        assert not {"script", "img", "i"} & set(page.tags)
        assert not [name for _, name, _ in page.attributes if name == "onerror"]
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        for letter in set(html) - {"\n"}:
            assert unicodedata.category(letter) not in {"Cc", "Cf", "Cs"}, repr(letter)
    report.to_html(os.devnull)
    json.loads(report.to_json())


def test_sentences_set_code_but_trust_no_markup():
    said = ("pass `a < b` now", "a lone ` of <b>`a`</b> name")
    html = to_html(Document("Report", "x", "made", sections=(Section("s", (Bullets(said),)),)))
    assert "pass <code>a &lt; b</code> now" in html
    assert "a lone ` of &lt;b&gt;`a`&lt;/b&gt; name" in html


LOSSES = [
    [1.5],
    [0.0],
    [np.inf],
    [np.inf] * 4,
    [0.0] * 5,
    [0.37] * 50,
    [0.37, 0.37 * (1 + 1e-12), 0.37],
    [0.0, 0.0, 5.0],
    [1e-300, 1e-5, 1.0, 1e6],
    [1e-310, 0.0],
    [np.inf, 1.0, 2.0],
    [np.nan, 1.0, 2.0],
    [1e150, 2e150],
]


@pytest.mark.slow
def test_every_form_copes_with_any_losses(make_report):
    for k, loss in enumerate(LOSSES):
        report = make_report(loss, groups=np.arange(len(loss)) % 2)
        html = report.to_html() if k % 2 else report._repr_html_()
        page, drawn = Page(html), np.isfinite(loss).sum()
        assert page.tags.count("svg") == (1 if drawn else 0)
        shapes = [v for _, name, v in page.attributes if name in {"d", "x", "y", "transform"}]
        assert not [value for value in shapes if "nan" in value or "inf" in value]
        assert sum(_counts(html)) == drawn
        assert "nan" not in page.words.split()
        assert "nan" not in report.to_text(full=True).split()
        json.loads(report.to_json())


def test_no_noise_is_said_first(make_report):
    words = Page(make_report([np.inf, np.inf]).to_html()).words
    assert "This model carries no noise" in words
    assert "the leakage of all 2 records is infinite" in words


@pytest.mark.slow
def test_what_the_weights_reveal_is_said_to_be_counted(rng):
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=40)
    model = PrivateLinearRegression(reweighting=IRFIL(max_iter=100)).fit(X, y)
    report = model.leakage_report()
    words = Page(report.to_html()).words
    assert "what the weights reveal is counted" in words
    assert "With the weights held fixed" in words
    assert "what the weights reveal is counted" in report.to_text(full=True)
    assert "All records leak the same" not in report.to_text(full=True)
    assert "All records leak the same" not in words


@pytest.mark.slow
def test_how_even_the_total_leakage_is_is_said(rng):
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=40)
    report = PrivateLinearRegression(reweighting="total").fit(X, y).leakage_report()
    words, text = Page(report.to_html()).words, " ".join(report.to_text(full=True).split())
    spread = f"its relative spread is {report.dataset['spread']:.3g}"
    for told in (words, text):
        assert "The reweighting evens what records leak with its weights counted" in told
        assert spread in told
        assert "what the weights reveal is counted" in told
        assert "All records leak the same" not in told
        assert "which is what the reweighting balances" not in told
    assert "total; what the weights reveal is counted" in words


@pytest.mark.slow
def test_noise_read_off_the_data_is_said_to_be(make_report):
    report = make_report([1.0, 2.0])
    assert "calibrated" not in Page(report.to_html()).words + report.to_text(full=True)
    dataset = {**report.dataset, "noise_goal": "max_loss <= 2"}
    report = dataclasses.replace(report, dataset=dataset)
    for text in (Page(report.to_html()).words, " ".join(report.to_text(full=True).split())):
        assert "calibrated to the training records (max_loss <= 2)" in text


def test_no_groups_no_group_table(make_report):
    report = make_report([1.0, 2.0])
    assert "Groups" not in Page(report.to_html()).words
    assert "Groups" not in report.to_text(full=True)
    assert report.to_dict()["groups"] == []


@pytest.mark.slow
def test_hundreds_of_columns_are_capped_with_a_note(make_report):
    report = make_report([1.0, 2.0], features=[f"column_{j:03}" for j in range(300)])
    html = report.to_html()
    rows = re.findall(r"<bdi>(column_\d+)</bdi></th>", html)
    assert rows == [f"column_{j:03}" for j in range(30)] * 2  # and of unbiased attackers
    assert "270 more columns" in html
    assert "292 more columns" in report.to_text(full=True)
    assert len(report.to_dict()["features"]) == 300


def test_groups_are_shown_most_exposed_first(make_report, rng):
    labels = rng.permutation(np.repeat(np.arange(50), 2))
    report = make_report(rng.exponential(size=100), groups=labels)
    html = report.to_html().partition("Most exposed records")[0].partition("<h2>Groups")[2]
    shown = [int(label) for label in re.findall(r"<bdi>(\d+)</bdi></th>", html)]
    expected = report.groups["mean_loss"].sort_values(ascending=False).index[:30]
    assert shown == expected.tolist()
    assert "20 more groups" in report.to_html()
    assert "42 more groups" in report.to_text(full=True)


def test_records_of_weight_zero_are_not_counted(make_report):
    report = make_report([1.0, 2.0, 3.0, 40.0], copies=[1.0, 2.0, 0.5, 0.0])
    assert sum(_counts(report.to_html())) == 3
    bars = re.findall(r"█ (\d+)$", report.to_text(full=True), re.MULTILINE)
    assert sum(map(int, bars)) == 3


def test_bars_are_longer_where_more_is_gained(make_report):
    html = make_report([1.0, 2.0], features=["a", "b", "c"]).to_html()
    widths = [
        float(width) for width in re.findall(r'class="fill[^"]*" style="width:([\d.]+)%', html)
    ]
    assert widths == [80.0, 40.0, 20.0]
    assert html.count('class="fill sharp"') == 1


def test_a_guarantee_is_shown_with_its_numbers(rng):
    X = rng.normal(size=(80, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    model = PrivateLogisticRegression(
        noise_scale=0.5,
        alpha=0.1,
        data_norm=1.0,
        fit_intercept=False,
        classes=[False, True],
        public="n_samples",
    )
    report = model.fit(X, X[:, 0] + 0.5 * X[:, 1] > 0).leakage_report()
    guarantee = report.differential_privacy
    words = Page(report.to_html()).words
    assert guarantee.holds
    for value in (guarantee.epsilon, guarantee.rho, guarantee.sensitivity):
        assert f"{value:.3g}" in words
    assert "1 × 10⁻⁶" in words
    assert "No guarantee" not in words
    assert report.to_dict()["differential_privacy"]["epsilon"] == guarantee.epsilon


def test_a_hundred_thousand_records_take_a_moment(make_report, rng):
    report = make_report(rng.exponential(size=100_000), groups=rng.integers(0, 5, 100_000))
    report.to_html()
    start = time.process_time()
    html, text = report.to_html(), report.to_text(full=True)
    assert time.process_time() - start < 3.0
    assert len(html) < 60_000
    assert len(text) < 10_000
