import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import skleak
from skleak.cli import _demo, main
from skleak.linear_model import PrivateLinearRegression

BOTH = ["skleak-audit.html", "skleak-report.html"]


@pytest.fixture(autouse=True)
def few_releases(monkeypatch):
    monkeypatch.setattr("skleak.cli._demo._N_RELEASES", 5)


@pytest.fixture(scope="module")
def audited():
    """The audit of one demo with noise of scale 3, for demos whose audit is not the question."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    data = train_test_split(X.astype({"sex": int}), y, random_state=1)
    X_train, X_test, y_train, y_test = data
    model = _demo._pipeline(PrivateLinearRegression(3.0, alpha=0.1))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_demo, "_N_RELEASES", 5)
        return _demo._audit(model, 3.0, (X_train, y_train, X_test, y_test))


@pytest.fixture
def no_audit(audited, monkeypatch):
    monkeypatch.setattr(_demo, "_audit", lambda *_: audited)


@pytest.mark.slow
def test_demo_reports_on_the_terminal_and_as_html(tmp_path, run):
    path = tmp_path / "r.html"
    code, out, err = run("demo", "--out", str(path))
    assert (code, err) == (0, "")
    for part in (
        "Leakage report: PrivateLinearRegression",
        "Exposed columns",
        "s1",
        "sex 1",
        "z-scores",
        "years for age",
        "pipeline[-1].release()",
        str(path),
        "guesses `sex` right for",
        "imputation",
        str(tmp_path / "r-audit.html"),
    ):
        assert part in out
    assert max(map(len, out.replace(str(tmp_path), "").split("\n"))) <= 88
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert html.count("<svg") == 1
    assert sorted(os.listdir(tmp_path)) == ["r-audit.html", "r.html"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_audit")
def test_demo_has_a_useful_model_whose_noise_is_never_the_same(tmp_path, run):
    scores = []
    for _ in range(5):
        _, out, _ = run("demo", "--out", str(tmp_path))
        private, ordinary = map(float, re.search(r"R²: ([\d.-]+) .*; ([\d.-]+) by", out).groups())
        scores.append(private)
        assert ordinary > 0.4
    assert np.mean(scores) > 0.38
    assert len(set(scores)) > 1


@pytest.mark.slow
@pytest.mark.usefixtures("no_audit")
def test_demo_writes_into_a_folder_and_by_default_into_the_current_one(tmp_path, run, monkeypatch):
    (tmp_path / "folder").mkdir()
    assert run("demo", "--out", str(tmp_path / "folder"))[0] == 0
    assert sorted(os.listdir(tmp_path / "folder")) == BOTH
    monkeypatch.chdir(tmp_path)
    assert run("demo")[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["folder", *BOTH]


def leakage(out):
    return float(re.search(r"Typical record: ([\d.]+)", out)[1])


@pytest.mark.slow
@pytest.mark.usefixtures("no_audit")
def test_twice_the_noise_is_half_the_leakage(tmp_path, run):
    small, large = (
        leakage(run("demo", "--noise-scale", scale, "--out", str(tmp_path))[1])
        for scale in ("0.5", "1")
    )
    assert small == pytest.approx(2.0 * large, rel=0.01)


@pytest.mark.slow
def test_an_attack_above_the_bound_is_told_from_chance(audited):
    told = {}
    for verdict in ("consistent", "bound exceeded"):
        above = replace(audited, results=audited.results.assign(success=1.0, verdict=verdict))
        told[verdict] = " ".join(_demo._attacked(above).split())
    assert "it is so by no more than chance explains." in told["consistent"]
    assert "it is so by more than chance explains." in told["bound exceeded"]
    below = replace(audited, results=audited.results.assign(success=0.0))
    assert "chance explains" not in _demo._attacked(below)


def test_the_last_words_of_the_demo():
    words = {noise: _demo._next_steps(noise, False, Path("r.html")) for noise in (0.0, 2.0)}
    assert words[2.0].endswith("draws new noise, and the leakage of both adds up.")
    assert "try --irfil" in words[2.0]
    assert "try --irfil" not in _demo._next_steps(2.0, True, Path("r.html"))
    assert words[0.0].endswith("Fit with noise: try --noise-scale 2.")


@pytest.mark.slow
@pytest.mark.usefixtures("no_audit")
def test_irfil_shows_the_spread_before_and_after(tmp_path, run):
    code, out, err = run("demo", "--irfil", "--out", str(tmp_path))
    assert (code, err) == (0, "")
    pattern = r"spread over records +([\d.]+) +([\d.]+) × 10⁻([⁰-⁹]+) +([\d.]+)\n"
    before, mantissa, exponent, in_all = re.search(pattern, out).groups()
    assert float(before) > 0.3
    assert 0.1 < float(in_all) < 0.5 * float(before)
    assert float(mantissa) < 10.0
    assert int("".join(str("⁰¹²³⁴⁵⁶⁷⁸⁹".index(digit)) for digit in exponent)) >= 6
    assert "in all, the loss is not equal" in out


@pytest.mark.slow
def test_without_noise_the_demo_says_what_to_do(tmp_path, run):
    code, out, _ = run("demo", "--noise-scale", "0", "--out", str(tmp_path))
    assert code == 0
    assert "leakage is infinite" in out
    assert "try --noise-scale 2" in out
    private, ordinary = re.search(r"R²: ([\d.]+) .*; ([\d.]+) by", out).groups()
    assert private == ordinary


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["demo", "--noise-scale", "-1"], "zero or more; got '-1'"),
        (["demo", "--noise-scale=-1e-9"], "zero or more; got '-1e-9'"),
        (["demo", "--noise-scale", "nan"], "must be a finite number"),
        (["demo", "--noise-scale", "inf"], "must be a finite number"),
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
@pytest.mark.usefixtures("no_audit")
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
    for option in ("--noise-scale", "--irfil", "--out"):
        assert option in out


@pytest.mark.slow
@pytest.mark.usefixtures("no_audit")
def test_a_terminal_without_block_letters_is_served(tmp_path, monkeypatch):
    screen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen, encoding="ascii"))
    assert main(["demo", "--out", str(tmp_path)]) == 0
    shown = screen.getvalue().decode("ascii")
    assert re.search(r"0 to 0\.2  #+ \d+", shown)
    # What a letter that the terminal lacks would become, inside of a word or alone.
    assert not re.search(r"\w\?\w|\s\?|\?\?", shown)


@pytest.mark.slow
def test_a_reader_who_stops_early_sees_no_traceback(tmp_path):
    command = [sys.executable, "-m", "skleak", "demo", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert sorted(os.listdir(tmp_path)) == BOTH


@pytest.mark.slow
def test_demo_ends_with_an_audit_at_more_noise_and_at_less(tmp_path, run):
    code, out, err = run("demo", "--noise-scale", "3", "--out", tmp_path)
    assert (code, err) == (0, "")
    attacked = out[out.index("Attacked:") : out.index("What next")]
    table = [line.split() for line in attacked.splitlines() if re.match(r"[\d.]+ +\d+%", line)]
    assert [row[0] for row in table] == ["0.3", "3", "30"]
    white_box = [float(row[4].strip("<>%")) for row in table]
    bound = [float(row[5].strip("<>%")) for row in table]
    assert white_box[0] > white_box[2]
    assert bound == sorted(bound, reverse=True)
    page = (tmp_path / "skleak-audit.html").read_text(encoding="utf-8")
    assert "Leakage audit" in page


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
