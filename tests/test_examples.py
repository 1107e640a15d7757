"""Every example runs, and none of the checks that it makes fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skleak.datasets import fetch_adult, fetch_iwpc, fetch_mnist, fetch_pendigits

EXAMPLES = Path(__file__).parents[1] / "examples"
SLOW = {"plot_dra22_figure3.py", "plot_fano23_figure3.py", "plot_fano23_figure4.py"}
SLOW |= {"plot_fil21_figure7.py", "plot_bil23_figure4.py", "plot_bil23_figure5.py"}
SLOW |= {"plot_fixed_point.py", "plot_equal_total.py", "plot_shaped_noise.py", "plot_audit.py"}
SLOW |= {"plot_membership_audit.py", "plot_many_classes.py", "plot_bil23_counterexample.py"}
SLOW |= {"plot_dra22_figure5.py"}
# Nothing of them without an extra, which may be absent.
TORCH = {"plot_dra22_figure5.py"}


def fetch_adult_and_iwpc(**options):
    fetch_adult(**options)
    fetch_iwpc(**options)


# Of real data, which may be absent.
DATA = {
    "plot_bil23_figure4.py": fetch_mnist,
    "plot_bil23_figure5.py": fetch_pendigits,
    "plot_dra22_figure3.py": fetch_mnist,
    "plot_dra22_figure5.py": fetch_mnist,
    "plot_equal_total.py": fetch_iwpc,
    "plot_fano23_figure4.py": fetch_iwpc,
    "plot_fil21_figure6.py": fetch_iwpc,
    "plot_fil21_figure7.py": fetch_iwpc,
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


@pytest.mark.slow
@pytest.mark.parametrize("path", [example(path) for path in sorted(EXAMPLES.glob("*/plot_*.py"))])
def test_example(path, tmp_path):
    if path.name in TORCH:
        pytest.importorskip("torch")
    if path.name in DATA:
        try:
            DATA[path.name](download_if_missing=False)
        except FileNotFoundError as error:
            pytest.skip(str(error))
    environment = {**os.environ, **ENVIRONMENT}
    environment.pop("DISPLAY", None)  # with a screen, showing figures without a window warns
    script = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert script.returncode == 0, script.stdout + script.stderr
    assert script.stdout, "an example prints its numbers"


def test_all_examples_are_found():
    found = {path.name for path in EXAMPLES.rglob("*.py")}
    assert {"plot_leakage_report.py", "plot_audit.py", "plot_fano23_figure2.py"} <= found
    assert found == {path.name for path in EXAMPLES.glob("*/plot_*.py")}
    assert found >= SLOW | TORCH | set(DATA)
