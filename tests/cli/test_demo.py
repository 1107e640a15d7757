import io
import os
import subprocess
import sys

import pytest

import skleak
from skleak.cli._terminal import say

BOTH = ["skleak-audit.html", "skleak-report.html"]


@pytest.fixture(autouse=True)
def few_releases(monkeypatch):
    monkeypatch.setattr("skleak.cli._demo._N_RELEASES", 5)


@pytest.mark.slow
def test_demo_asks_a_question_and_gives_a_verdict(tmp_path, run):
    path = tmp_path / "r.html"
    code, out, err = run("demo", "--noise-scale", "3", "--out", str(path))
    assert (code, err) == (0, "")
    lines = out.rstrip().split("\n")
    assert len(lines) < 25
    assert max(len(line.replace(str(tmp_path), "")) for line in lines) <= 88
    assert sum(line.endswith("?") or "? " in line for line in lines) == 1
    # The first sentence of the audit is the verdict, on the noise that was asked about.
    assert "With noise 3" in out
    assert "release()" in out
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert html.count("<svg") == 1
    assert sorted(os.listdir(tmp_path)) == ["r-audit.html", "r.html"]
    assert "Leakage audit" in (tmp_path / "r-audit.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_demo_writes_into_a_folder_and_by_default_into_the_current_one(tmp_path, run, monkeypatch):
    (tmp_path / "folder").mkdir()
    assert run("demo", "--out", str(tmp_path / "folder"))[0] == 0
    assert sorted(os.listdir(tmp_path / "folder")) == BOTH
    monkeypatch.chdir(tmp_path)
    assert run("demo", "--noise-scale", "0")[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["folder", *BOTH]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["demo", "--noise-scale", "-1"], "in [0, inf); got '-1'"),
        (["demo", "--noise-scale=-1e-9"], "in [0, inf); got '-1e-9'"),
        (["demo", "--noise-scale", "nan"], "must be a number"),
        (["demo", "--noise-scale", "inf"], "must be a number"),
        (["demo", "--noise-scale", "much"], "got 'much'"),
        (["demo", "--out", "/nonexistent/folder/r.html"], "folder that exists"),
        (["demo", "--out", "nonexistent/"], "folder that exists"),
        (["demo", "--out", ""], "folder that exists"),
        (["demo", "--no-such-option"], "unrecognized arguments"),
        (["no-such-command"], "invalid choice"),
    ],
)
def test_bad_arguments_get_one_line_and_code_2(tmp_path, monkeypatch, run, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("skleak")
    assert "error:" in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_report_that_cannot_be_written_gets_one_line_and_code_2(tmp_path, monkeypatch, run):
    def fail(*_):
        raise PermissionError(13, "Permission denied", "a draft")

    monkeypatch.setattr(os, "replace", fail)
    code, out, err = run("demo", "--out", str(tmp_path / "r.html"))
    assert (code, out) == (2, "")
    assert err == f"skleak demo: error: cannot write '{tmp_path}/r.html': Permission denied\n"
    assert os.listdir(tmp_path) == []


def test_version_and_help(run):
    assert run("--version") == (0, f"skleak {skleak.__version__}\n", "")
    assert "demo" in run("--help")[1]
    assert run()[:2] == run("--help")[:2]
    code, out, _ = run("demo", "--help")
    assert code == 0
    for option in ("--noise-scale", "--out"):
        assert option in out


def test_a_terminal_without_block_letters_is_served(monkeypatch):
    screen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen, encoding="ascii"))
    say("R² ═ 1.5 × 10⁻⁶ … “é” ██")
    assert screen.getvalue().decode("ascii") == 'R^2 = 1.5 x 10^-6 ~ "e" ##\n'


@pytest.mark.slow
def test_a_reader_who_stops_early_sees_no_traceback(tmp_path):
    command = [sys.executable, "-m", "skleak", "demo", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert sorted(os.listdir(tmp_path)) == BOTH


@pytest.mark.slow
def test_the_audit_of_the_demo_needs_no_extra(tmp_path):
    code = (
        "import sys; sys.modules['dp_accounting'] = None\n"
        "from skleak.cli import main; sys.exit(main(['demo', '--out', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(os.listdir(tmp_path)) == BOTH


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from skleak.cli import main; main(['audit', '--help'])\n"
        "print('heavy', [m for m in ('numpy', 'pandas', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "heavy []" in done.stdout
