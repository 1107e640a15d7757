"""Forms of reports of audits: frames, JSON, text and figures hold the same numbers."""

import dataclasses
import json
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.tree import DecisionTreeRegressor

from skleak.audit import LeakageAuditor
from skleak.metrics.verdicts import VACUOUS
from skleak.plotting import AuditDisplay
from skleak.report import AuditReport

KINDS = ("categorical", "numeric", "record")


def _reject(name):
    raise AssertionError(f"not strict JSON: {name}")


@pytest.mark.parametrize("kind", mostly_slow(KINDS))
def test_json_is_strict_and_loses_no_digit(make_audit, kind):
    report = make_audit(kind, noise=(0.0, 1e-3))
    loaded = json.loads(report.to_json(), parse_constant=_reject)
    assert loaded == json.loads(json.dumps(report.to_dict()))
    assert loaded["schema"] == "skleak.audit_report"
    assert loaded["confidential"] is True
    assert loaded["kind"] == kind
    assert loaded["findings"] == list(report.findings)
    assert loaded["settings"]["bounds"] == list(report.settings["bounds"])
    found = report.decision()
    for name in ("verdict", "passes", "n_above", "labels", "largest"):
        assert loaded["decision"][name] == found[name]
    for name in ("results", "records"):
        table = getattr(report, name)
        assert len(loaded[name]) == len(table)
        for row, (_, expected) in zip(loaded[name], table.iterrows(), strict=True):
            for column, value in expected.items():
                finite = not isinstance(value, float) or math.isfinite(value)
                assert row[column] == (value if finite else None)
    assert all(row["eta"] is None for row in loaded["records"] if row["noise_scale"] == 0.0)


@pytest.mark.slow
def test_files_are_written(make_audit, tmp_path):
    report = make_audit()
    html, text = tmp_path / "audit.html", tmp_path / "audit.json"
    assert report.to_html(html) == html.read_text(encoding="utf-8") == report.to_html()
    assert report.to_json(str(text)) == text.read_text(encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        report.to_html(tmp_path / "nowhere" / "audit.html")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        report.to_json(tmp_path)
    assert sorted(tmp_path.iterdir()) == [html, text]


def test_the_frame_is_a_copy(make_audit):
    report = make_audit()
    frame = report.to_frame()
    pd.testing.assert_frame_equal(frame, report.results)
    frame["success"] = 0.0
    assert (report.results["success"] > 0.0).any()
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.kind = "numeric"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_text_says_everything_and_fits_a_terminal(make_audit, kind):
    report = make_audit(kind)
    text = report.to_text(full=True)
    assert repr(report) == report.to_text()
    joined = " ".join(text.split())
    for sentence in (*report.findings, *report.assumptions):
        assert sentence in joined
    assert "CONFIDENTIAL" in text
    assert max(map(len, text.split("\n"))) <= 88
    assert "nan" not in text.split()
    for attack in ("prior guess", "imputation", "black box", "white box"):
        assert attack in text


@pytest.mark.slow
def test_text_of_many_rows_is_capped(make_audit):
    report = make_audit(noise=tuple(np.geomspace(1e-5, 1.0, 40)))
    assert "… and 100 more rows" in report.to_text(full=True)


@pytest.mark.slow
def test_text_steers_no_terminal(make_audit, evil_names):
    for name in evil_names:
        report = make_audit(
            attribute=name, estimator=name, attacks=("prior", name.replace("\ud800", ""))
        )
        for line in report.to_text(full=True).split("\n"):
            assert all(letter.isprintable() for letter in line)
            assert len(line) <= 110
        json.loads(report.to_json(), parse_constant=_reject)


def _nothing_known(report):
    names = [name for name in report.results.select_dtypes("float") if name != "noise_scale"]
    results = report.results.assign(**dict.fromkeys(names, np.nan), verdict=VACUOUS)
    names = [name for name in report.records.select_dtypes("float") if name != "noise_scale"]
    records = report.records.assign(**dict.fromkeys(names, np.nan))
    return dataclasses.replace(report, results=results, records=records)


def _infinite_errors(report):
    columns = {"success": -np.inf, "success_low": -np.inf, "advantage": -np.inf}
    columns |= {"advantage_low": -np.inf}
    if "mse" in report.results:
        columns |= {"mse": np.inf, "mse_high": np.inf, "mse_over_bound": np.inf}
        columns |= {"mse_over_bound_high": np.inf}
    return dataclasses.replace(report, results=report.results.assign(**columns))


def _absurd_errors(report):
    columns = {"success": -1e98, "success_low": -1e98, "advantage": -1e98, "advantage_low": -1e98}
    columns |= {"utility": -1e98}
    return dataclasses.replace(report, results=report.results.assign(**columns))


def _certain_prior(report):
    names = [f"advantage{end}" for end in ("", "_low", "_high")]
    columns = dict.fromkeys(names, np.nan) | {"baseline": 1.0, "success": 1.0}
    return dataclasses.replace(report, results=report.results.assign(**columns))


def _no_rows(report):
    results, records = report.results.iloc[:0], report.records.iloc[:0]
    return dataclasses.replace(report, results=results, records=records)


def _no_utility(report):
    settings = report.settings | {"noiseless_utility": np.nan}
    results = report.results.assign(utility=np.nan)
    return dataclasses.replace(report, results=results, settings=settings)


CHANGES = [
    _nothing_known,
    _infinite_errors,
    _absurd_errors,
    _certain_prior,
    _no_rows,
    _no_utility,
    lambda report: report,
]


OPTIONS = [
    {"noise": (0.0, 1e-3)},
    {"noise": (0.5,), "bounds": ()},
    {"noise": (1e-3, 1.1e-3), "attacks": ("mine",), "n_targets": 1},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", mostly_slow(OPTIONS, 0), ids=str)
@pytest.mark.parametrize("k", range(len(CHANGES)))
def test_every_form_copes_with_any_numbers(make_audit, read_page, k, options):
    for j, kind in enumerate(KINDS):
        report = CHANGES[k](make_audit(kind, **options))
        assert "nan" not in report.to_text(full=True).lower().split()
        json.loads(report.to_json(), parse_constant=_reject)
        if (j + k) % 3 == OPTIONS.index(options):  # drawing takes time
            page = read_page(report.to_html())
            assert "nan" not in page.words.lower().split()
            drawn = [v for tag, name, v in page.attributes if name in {"d", "x", "y", "transform"}]
            assert not [value for value in drawn if "nan" in value or "inf" in value]


@pytest.mark.slow
def test_a_model_without_a_prior_of_numbers_is_reported_on(people):
    tree = DecisionTreeRegressor(max_depth=2, random_state=0)
    report = LeakageAuditor(tree, "bmi", random_state=0).fit(*people).report_
    assert "share_removed_low" not in report.results
    np.testing.assert_allclose(report.results["share_removed"], report.results["advantage"])
    (level,) = report.decision()["levels"]
    at = report.results.set_index("attack").loc[level["attack"]]
    for end in ("low", "high"):
        np.testing.assert_array_equal(level[f"attack_{end}"], at[f"advantage_{end}"])
    assert "nan" not in report.to_text(full=True).lower().split()
    assert "– to –" not in report.to_html()


@pytest.mark.parametrize("kind", mostly_slow(KINDS))
def test_nothing_known_is_never_kept(make_audit, kind):
    found = _nothing_known(make_audit(kind)).decision()
    assert (found["verdict"], found["passes"]) == ("not_known", False)
    assert np.isnan(found["n_above"])
    assert np.isnan(found["largest"])


@pytest.mark.slow
def test_plot_draws_the_report_where_it_is_told(make_audit):
    report = make_audit()
    _, ax = plt.subplots()
    display = report.plot(ax=ax)
    assert isinstance(display, AuditDisplay)
    assert display.ax_ is ax
    pd.testing.assert_frame_equal(display.levels, pd.DataFrame(report.decision()["levels"]))


def test_reports_hold_only_what_they_are_given(make_audit):
    report = make_audit()
    names = [field.name for field in dataclasses.fields(AuditReport)]
    assert names == [
        "estimator",
        "attribute",
        "kind",
        "results",
        "records",
        "settings",
        "reproducibility",
        "checks",
        "groups",
    ]
    assert len(report.to_frame()) == 20
