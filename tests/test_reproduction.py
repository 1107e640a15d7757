"""The page of published and recomputed numbers is what the kept results of the scripts give."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "examples" / "3_papers"
RESULTS = sorted(PAPERS.glob("results/*.json"))


@pytest.fixture(scope="module")
def tools():
    """The two helpers of the folder: how a script reports, and what writes the page."""
    sys.path.insert(0, str(PAPERS))
    try:
        return importlib.import_module("_reproduction"), importlib.import_module("reproduce")
    finally:
        sys.path.remove(str(PAPERS))


@pytest.fixture
def page(tools, tmp_path, monkeypatch):
    """What a script starts with, in a folder of its own."""
    monkeypatch.setattr(sys, "argv", ["plot_new.py"])

    def start(*arguments):
        monkeypatch.setattr(sys, "argv", ["plot_new.py", *arguments])
        return tools[0].Reproduction(tmp_path / "plot_new.py", "FIL21", "figure 0", "new", "few")

    return start


def test_the_page_is_what_the_kept_results_give(tools):
    current = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert current == tools[1].render(tools[1].load())


def test_every_script_keeps_results():
    names = {script.stem.removeprefix("plot_") for script in PAPERS.glob("plot_*.py")}
    assert {path.stem for path in RESULTS} == names


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_verdicts_follow_from_the_numbers(tools, path):
    facts = json.loads(path.read_text(encoding="utf-8"))
    assert facts["paper"] in tools[1].PAPERS
    assert facts["sizes"]
    assert path.stat().st_size < 200_000
    for number in facts["numbers"]:
        status, published = number["status"], number["published"]
        if status in ("differs", "not run"):
            assert number["why"], number["name"]
        if status == "not run":
            continue
        assert (published is None) == (status == "no published number")
        if number["tolerance"] is not None:
            close = abs(number["here"] - float(published)) <= 1.0001 * number["tolerance"]
            assert status == ("agrees" if close else "differs"), number["name"]


def test_printed_digits_are_the_tolerance(page):
    one = page()
    one.number("near", "0.040", 0.0404)
    one.number("given", 0.5, 0.52, 0.03, source="figure")
    one.number("unknown", None, 1.0)
    one.number("absent", "1", None, why="no data")
    one.claim("said", "more", 2.0, holds=True)
    with pytest.raises(ValueError, match=r"far: 0\.042 against 0\.040\. Say why"):
        one.number("far", "0.040", 0.042)
    statuses = [number["status"] for number in one.numbers]
    assert statuses == ["agrees", "agrees", "no published number", "not run", "agrees"]
    assert one.numbers[0]["tolerance"] == 0.0005


def test_results_are_kept_and_taken(page):
    first = page()
    assert first.results(lambda: {"a": [1.0, 2.0]}) == {"a": [1.0, 2.0]}
    first.number("sum", "3", 3.0)
    first.close()
    second = page()
    assert second.results(pytest.fail) == {"a": [1.0, 2.0]}
    second.number("sum", "3", 2.9)
    with pytest.raises(ValueError, match="--compare"):
        second.close()
    third = page("--compare")
    third.results(pytest.fail)
    third.number("sum", "3", 2.9)
    third.close()
    assert page().kept["numbers"][0]["here"] == 2.9
    assert page("--recompute").results(lambda: {"a": 5}) == {"a": 5}


def test_another_folder(page, tmp_path):
    one = page("--out", str(tmp_path / "other"))
    one.results(dict)
    one.number("n", "3", 3.0)
    one.close()
    assert (tmp_path / "other" / "new.json").exists()
    assert not one.source.exists()
