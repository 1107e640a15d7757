"""Every example runs, and none of the checks that it makes fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skleak.datasets import fetch_adult, fetch_iwpc, fetch_mnist, fetch_pendigits

EXAMPLES = Path(__file__).parents[1] / "examples"
RESULTS = sorted((EXAMPLES / "3_papers" / "results").glob("*.json"))
SLOW = {"plot_dra22_figure3.py", "plot_fano23_figure3.py", "plot_fano23_figure4.py"}
SLOW |= {"plot_fil21_figure7.py", "plot_bil23_figure4.py", "plot_bil23_figure5.py"}
SLOW |= {"plot_fixed_point.py", "plot_equal_total.py", "plot_shaped_noise.py", "plot_audit.py"}
SLOW |= {"plot_membership_audit.py", "plot_many_classes.py", "plot_bil23_counterexample.py"}
SLOW |= {"plot_dra22_figure5.py"}
# Nothing of them without an extra, which may be absent.
TORCH = {"plot_dra22_figure5.py", "plot_bil23_figure4.py", "plot_bil23_figure5.py"}


def fetch_adult_and_iwpc(**options):
    fetch_adult(**options)
    fetch_iwpc(**options)


# Of real data, which may be absent.
DATA = {
    "plot_bil23_figure4.py": fetch_mnist,
    "plot_bil23_figure5.py": fetch_pendigits,
    "plot_dra22_figure2.py": fetch_mnist,
    "plot_dra22_figure3.py": fetch_mnist,
    "plot_dra22_figure5.py": fetch_mnist,
    "plot_equal_total.py": fetch_iwpc,
    "plot_fano23_figure4.py": fetch_iwpc,
    "plot_fil21_figure2.py": fetch_mnist,
    "plot_fil21_figure3.py": fetch_mnist,
    "plot_fil21_figure4.py": fetch_mnist,
    "plot_fil21_figure5.py": fetch_mnist,
    "plot_fil21_figure6.py": fetch_iwpc,
    "plot_fil21_figure7.py": fetch_iwpc,
    "plot_fil21_figure7_adult.py": fetch_adult,
    "plot_fil21_table1.py": fetch_mnist,
    "plot_fixed_point.py": fetch_adult_and_iwpc,
    "plot_shaped_noise.py": fetch_iwpc,
    "plot_total_leakage.py": fetch_iwpc,
    "plot_what_the_model_adds.py": fetch_iwpc,
}
# One thread each: many threads on few cores are slower, by far on a busy machine.
ENVIRONMENT = {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def example(path):
    marks = [pytest.mark.slow] if path.name in SLOW else []
    marks += [pytest.mark.data] if path.name in DATA else []
    return pytest.param(path, id=path.stem, marks=marks)


def run(path, folder, *arguments, needs_torch):
    """What a script prints; skip where its data or torch are not here."""
    if needs_torch:
        pytest.importorskip("torch")
    if path.name in DATA:
        try:
            DATA[path.name](download_if_missing=False)
        except FileNotFoundError as error:
            pytest.skip(str(error))
    environment = {**os.environ, **ENVIRONMENT}
    environment.pop("DISPLAY", None)  # with a screen, showing figures without a window warns
    script = subprocess.run(
        [sys.executable, "-W", "error", str(path), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert script.returncode == 0, script.stdout + script.stderr
    return script.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", [example(path) for path in sorted(EXAMPLES.glob("*/plot_*.py"))])
def test_example(path, tmp_path):
    printed = run(path, tmp_path, needs_torch=path.name in TORCH)
    assert printed, "an example prints its numbers"


def recomputed(path):
    """Results that do not take too long, with the mark that their time asks for."""
    seconds = json.loads(path.read_text(encoding="utf-8"))["seconds"]
    marks = [pytest.mark.slow, pytest.mark.data]
    marks += [pytest.mark.exhaustive] if seconds > 15.0 else []
    return [pytest.param(path, id=path.stem, marks=marks)] if seconds < 120.0 else []


@pytest.mark.parametrize("kept", [one for path in RESULTS for one in recomputed(path)])
def test_kept_results_are_those_of_the_scripts(kept, tmp_path):
    path = kept.parents[1] / f"plot_{kept.stem}.py"
    run(path, tmp_path, "--recompute", "--out", str(tmp_path), needs_torch=path.name in TORCH)
    before = json.loads(kept.read_text(encoding="utf-8"))["numbers"]
    after = json.loads((tmp_path / kept.name).read_text(encoding="utf-8"))["numbers"]
    assert [number["name"] for number in after] == [number["name"] for number in before]
    for old, new in zip(before, after, strict=True):
        if "not run" in (old["status"], new["status"]):
            continue  # data that are here, or were
        assert new["status"] == old["status"], new["name"]
        if not isinstance(old["here"], str):
            close = pytest.approx(old["here"], rel=0.05, abs=1e-6)
            assert new["here"] == close, new["name"]


def test_all_examples_are_found():
    found = {path.name for path in EXAMPLES.rglob("*.py")}
    assert {"plot_leakage_report.py", "plot_audit.py", "plot_fano23_figure2.py"} <= found
    helpers = {"_bil23.py", "_fil21.py", "_ladder.py", "_reproduction.py", "reproduce.py"}
    assert found - helpers == {path.name for path in EXAMPLES.glob("*/plot_*.py")}
    assert found >= SLOW | TORCH | set(DATA)
