import dataclasses
import re

import numpy as np
import pandas as pd

from skleak.report.document import Card, Document, Paragraph, Section, to_text


def test_text_fits_a_terminal_and_steers_it_nowhere(make_report, rng, evil_names):
    groups = np.array(list(evil_names[:5]) * 2, dtype=object)
    report = make_report(rng.exponential(size=10), features=evil_names, groups=groups)
    report = dataclasses.replace(report, estimator=evil_names[3])
    text = report.to_text(full=True)
    for line in text.split("\n"):
        assert len(line) <= 100
        assert all(letter.isprintable() for letter in line)
    assert repr(report) == report.to_text()


def test_text_lines_up_under_wide_letters(make_report):
    text = make_report([1.0, 2.0], features=["年龄年龄", "age"]).to_text(full=True)
    table = text.partition("Columns")[2].partition("For an")[0]
    wide, narrow = (line for line in table.split("\n") if line.startswith(("年龄", "age ")))
    assert len(wide) + 4 == len(narrow)


def test_text_says_everything_in_order(fitted):
    _, _, report = fitted
    text = report.to_text(full=True)
    joined = " ".join(text.split())
    for sentence in (*report.findings, *report.assumptions):
        assert sentence in joined
    places = [text.index(part) for part in ("CONFIDENTIAL", "\nColumns", "What else the n")]
    assert places == sorted(places)
    bars = re.findall(r"^ *[\d.]+ to +[\d.]+  █* (\d+)$", text, re.MULTILINE)
    assert sum(map(int, bars)) == 60
    assert len(report.to_text().split("\n")) <= 25


def test_rendering_leaves_the_report_as_it_was(fitted):
    _, _, report = fitted
    before = [report.records.copy(), report.features.copy(), report.groups.copy()]
    report.to_html(), report.to_text(full=True), report.to_dict()
    for old, new in zip(before, [report.records, report.features, report.groups], strict=True):
        pd.testing.assert_frame_equal(old, new)


def test_a_terminal_shows_all_but_figures_only_when_asked():
    parts = {"both": False, "full": False, "page": False, "folded": True}
    sections = tuple(
        Section(f"In {name}", (Paragraph("said"),), folded, "both" if folded else name)
        for name, folded in parts.items()
    )
    document = Document(
        "Report", "x", "made", "The answer.", (Card("Card", "1", "note"),), sections
    )
    brief, full = to_text(document), to_text(document, full=True)
    assert [name for name in parts if f"In {name}" in brief] == ["both"]
    assert [name for name in parts if f"In {name}" in full] == ["both", "full", "folded"]
    assert ("Card" in brief, "Card" in full) == (False, True)
    assert brief.endswith("All of it: to_text(full=True), or the HTML page.")
    assert "All of it" not in full + to_text(dataclasses.replace(document, cards=(), sections=()))
