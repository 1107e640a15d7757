import dataclasses
import re

import numpy as np
import pandas as pd


def test_text_fits_a_terminal_and_steers_it_nowhere(make_report, rng, evil_names):
    groups = np.array(list(evil_names[:5]) * 2, dtype=object)
    report = make_report(rng.exponential(size=10), features=evil_names, groups=groups)
    report = dataclasses.replace(
        report, estimator=evil_names[3], findings=evil_names[:6], assumptions=evil_names[3:5]
    )
    text = report.to_text()
    for line in text.split("\n"):
        assert len(line) <= 100
        assert all(letter.isprintable() for letter in line)
    assert repr(report) == text


def test_text_lines_up_under_wide_letters(make_report):
    text = make_report([1.0, 2.0], features=["年龄年龄", "age"]).to_text()
    wide, narrow = (line for line in text.split("\n") if line.startswith(("年龄", "age ")))
    assert len(wide) + 4 == len(narrow)


def test_text_says_everything_in_order(fitted):
    _, _, report = fitted
    text = report.to_text()
    joined = " ".join(text.split())
    for sentence in (*report.findings, *report.assumptions):
        assert sentence in joined
    places = [text.index(part) for part in ("CONFIDENTIAL", "What the n", "Exposed columns")]
    assert places == sorted(places)
    bars = re.findall(r"^ *[\d.]+ to +[\d.]+  █* (\d+)$", text, re.MULTILINE)
    assert sum(map(int, bars)) == 60
    assert f"Most exposed record: {report.dataset['max_loss']:.3g};" in text


def test_rendering_leaves_the_report_as_it_was(fitted):
    _, _, report = fitted
    before = [report.records.copy(), report.features.copy(), report.groups.copy()]
    report.to_html(), report.to_text(), report.to_dict()
    for old, new in zip(before, [report.records, report.features, report.groups], strict=True):
        pd.testing.assert_frame_equal(old, new)
