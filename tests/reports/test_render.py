import json
import math
import os

import numpy as np
import pandas as pd
import pytest

from skleak.report import reports as render


def reject_constant(name):
    raise AssertionError(f"not strict JSON: {name}")


def test_json_is_strict_and_loses_no_digit(fitted):
    _, _, report = fitted
    loaded = json.loads(report.to_json(), parse_constant=reject_constant)
    assert loaded == report.to_dict()
    assert set(loaded) >= {
        "schema_version",
        "estimator",
        "dataset",
        "differential_privacy",
        "findings",
        "assumptions",
        "features",
        "groups",
        "records",
    }
    records = pd.DataFrame(loaded["records"]).set_index("record")
    pd.testing.assert_frame_equal(records, report.records, check_names=False)
    features = pd.DataFrame(loaded["features"]).set_index("feature")
    features = features.astype(report.features.dtypes)
    pd.testing.assert_frame_equal(features, report.features, check_names=False, check_dtype=False)
    groups = pd.DataFrame(loaded["groups"]).set_index("group")
    pd.testing.assert_frame_equal(groups, report.groups, check_names=False, check_dtype=False)
    assert loaded["dataset"]["max_loss"] == report.dataset["max_loss"]
    assert loaded["differential_privacy"]["holds"] is False
    assert loaded["findings"] == list(report.findings)
    assert loaded["confidential"] is True


@pytest.mark.parametrize("loss", [[np.inf, np.inf], [0.0, 0.0], [np.nan, 1.0, np.inf]])
def test_json_has_none_for_what_is_infinite_or_undefined(make_report, loss):
    loaded = json.loads(make_report(loss).to_json(), parse_constant=reject_constant)
    stored = [row["fisher_information_loss"] for row in loaded["records"]]
    assert stored == [value if math.isfinite(value) else None for value in loss]
    assert loaded["dataset"]["group_spread"] is None


@pytest.mark.parametrize(
    "labels",
    [
        np.array([True, False, True]),
        np.array([1, 2, 1]),
        np.array([0.5, 2.5, 0.5]),
        np.array(["2020-01-01", "2021-01-01", "2020-01-01"], dtype="datetime64[ns]"),
        pd.Categorical(["a", "b", "a"], categories=["a", "b"]),
    ],
    ids=["bool", "int", "float", "date", "category"],
)
@pytest.mark.filterwarnings("ignore:The default of observed")
def test_json_takes_group_labels_of_any_type(make_report, labels):
    loaded = json.loads(make_report([1.0, 2.0, 3.0], groups=labels).to_json())
    assert [row["n_records"] for row in loaded["groups"]] in ([2, 1], [1, 2])
    assert len({row["group"] for row in loaded["records"]}) == 2


@pytest.mark.slow
def test_write_replaces_a_file_and_leaves_no_draft(tmp_path, fitted):
    _, _, report = fitted
    path = tmp_path / "report.html"
    path.write_text("old")
    assert report.to_html(path) == report.to_html()
    assert path.read_text(encoding="utf-8") == report.to_html()
    assert report.to_json(str(tmp_path / "report.json")) == report.to_json()
    assert sorted(os.listdir(tmp_path)) == ["report.html", "report.json"]


def test_write_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        render.write("new", path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_write_names_the_folder_that_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere' does not exist\. Create"):
        render.write("text", tmp_path / "nowhere" / "report.html")
    with pytest.raises(IsADirectoryError):
        render.write("text", tmp_path)


def test_write_follows_links_and_pipes(tmp_path):
    target, link = tmp_path / "target.html", tmp_path / "link.html"
    target.write_text("old")
    link.symlink_to(target)
    render.write("ü", link)
    assert link.is_symlink()
    assert target.read_bytes() == "ü".encode()
    render.write("to nowhere", os.devnull)
