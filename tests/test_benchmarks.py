"""Every benchmark runs at small sizes and finds its results correct; timings are not tested.

The page of the benchmarks is what their committed JSON gives.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
DOCS = BENCHMARKS.parent / "docs"
SCRIPTS = sorted(BENCHMARKS.glob("bench_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_results_are_correct(script):
    run = subprocess.run(
        [sys.executable, str(script), "--quick"], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "All results agree." in run.stdout
    assert "FAILED" not in run.stdout


def test_there_are_benchmarks():
    assert len(SCRIPTS) >= 4, f"no benchmarks found in {BENCHMARKS}"


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("_page")
    for name in ("_page", "_plots"):
        sys.modules.pop(name, None)


def test_the_page_is_what_the_committed_results_give(page):
    results = page.load_results(BENCHMARKS / "results")
    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == page.page(results)
    assert not any(result["quick"] for result in results.values())


@pytest.mark.slow
def test_the_figures_are_what_the_committed_results_give(page):
    plots, drawn = page.plots(page.load_results(BENCHMARKS / "results")), DOCS / "benchmarks"
    assert {path.name for path in drawn.glob("*.svg")} == set(plots)
    # Letters are drawn elsewhere by another matplotlib: what is compared are the numbers.
    for name, svg in plots.items():
        digest = svg[svg.index("<dc:description>") :][:40]
        assert digest in (drawn / name).read_text(encoding="utf-8"), f"{name} is out of date"


@pytest.fixture
def runner(page, monkeypatch):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        return importlib.import_module("run").main()

    yield run
    sys.modules.pop("run", None)


@pytest.mark.slow
def test_one_benchmark_at_a_time_and_what_is_there_is_kept(tmp_path, runner, capsys):
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--quick", "--out", str(tmp_path)]
    command += ["--only", "bench_scaling"]
    first = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "bench_scaling: runs" in first.stdout
    found = json.loads((tmp_path / "results" / "bench_scaling.json").read_text())
    assert found["quick"]
    assert found["curves"]
    assert "slope" in (tmp_path / "benchmarks" / "growth.svg").read_text()
    assert "### `benchmarks/bench_scaling.py`" in (tmp_path / "benchmarks.md").read_text()
    kept = runner("--only", "bench_scaling", "--quick", "--out", str(tmp_path))
    assert kept == 0
    assert "bench_scaling: kept" in capsys.readouterr().out


def test_small_sizes_do_not_replace_the_page(runner, capsys):
    with pytest.raises(SystemExit, match="2"):
        runner("--quick")
    assert "needs --out" in capsys.readouterr().err
