import json
import os
import re
import shlex
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow

from skleak.audit import LeakageAuditor
from skleak.cli._audit import usual_noise

QUICK = ("--n-releases", "5", "--quiet", "--seed", "1")
ONE = ("--noise-scale", "1")


@pytest.mark.slow
def test_an_audit_says_what_it_did_and_writes_a_page(data, tmp_path, run):
    out = tmp_path / "r.html"
    code, text, err = run(
        *("audit", data, "--target", "cost", "--sensitive", "smoker?", "--out", out, *QUICK)
    )
    assert (code, err) == (0, "")
    for part in (
        "Read people.csv: 60 records, 10 columns (separated by commas).",
        "Target: `cost`; linear regression, as it has more than two values.",
        "Left out: 1 record without `cost`.",
        "Sensitive: `smoker?`, 2 values (no, yes).",
        "Trained and audited on 47 records; scored on 12 held out at random.",
        "Noise scales: 0.1, 1, 10, from what one record can move",
        "- Patient ID: dropped",
        "- constant: dropped, as every record has 'x'",
        "Leakage audit: Pipeline of ColumnTransformer, PrivateLinearRegression",
        "`smoker?`",
        "What the numbers say",
        f"Read the report, which is confidential: {out}",
        "PrivateLinearRegression(NOISE, alpha=0.01).fit(X, y).release()",
    ):
        assert part in text
    assert max(map(len, text.replace(str(out), "").split("\n"))) <= 88
    page = out.read_text(encoding="utf-8")
    assert "Leakage audit" in page
    assert "smoker?" in page


@pytest.mark.slow
def test_it_is_the_audit_that_the_library_makes(data, tmp_path, run):
    out = tmp_path / "r.json"
    scales = ("--noise-scale", "0.5", "5", "--no-intercept", "--alpha", "0.1")
    arguments = ("--target", "cost", "--sensitive", "gene", "--nominal", "gene")
    code, _, _ = run("audit", data, *arguments, *scales, "--out", out, *QUICK)
    assert code == 0
    told = json.loads(out.read_text())
    results = pd.DataFrame(told["results"])
    assert results["noise_scale"].unique().tolist() == [0.5, 5.0]
    assert "alpha=0.1" in told["reproducibility"]["estimator"]
    assert "fit_intercept=False" in told["reproducibility"]["estimator"]
    white_box = results[results["attack"] == "white_box"]["success"]
    assert white_box.iloc[0] > white_box.iloc[1]
    first = out.read_text()
    assert run("audit", data, *arguments, *scales, "--out", out, *QUICK)[0] == 0
    assert out.read_text() == first


@pytest.mark.parametrize(
    "arguments",
    mostly_slow(
        [
            "--target ill --sensitive 'city {x}' --prior conditional",
            "--target ill --sensitive 'height (cm)'",
            "--target cost --sensitive 'height (cm)'",
            "--target cost",
            "--target ill --prior uniform",
            "--target gene --model poisson --sensitive smoker?",
            "--target cost --sensitive smoker? --secrets drawn",
            "--target cost --sensitive smoker? --reweighting irfil",
            "--target cost --sensitive smoker? --reweighting total",
            "--target ill --sensitive smoker? --reweighting total",
            "--target cost --sensitive smoker? --noise-scale 0 --test-size 0",
            "--target cost --sensitive smoker? --max-records 10 --n-jobs 1",
        ],
        *(3,),
    ),
)
def test_all_kinds_of_audits_run_without_a_warning(data, tmp_path, run, arguments):
    code, text, err = run("audit", data, *ONE, *shlex.split(arguments), "--out", tmp_path, *QUICK)
    assert (code, err) == (0, "")
    assert "What the numbers say" in text
    assert os.path.exists(tmp_path / "skleak-audit.html")


@pytest.mark.parametrize(
    "prior, bounded", mostly_slow([("conditional", True), ("uniform", False)], 0)
)
def test_without_a_sensitive_column_whole_records_are_attacked(data, tmp_path, run, prior, bounded):
    arguments = ("--target", "cost", "--prior", prior, "--max-records", "3", "--out", tmp_path)
    code, text, err = run("audit", data, *ONE, *arguments, *QUICK)
    assert (code, err) == (0, "")
    text = " ".join(text.split())
    assert "Without --sensitive COLUMN attackers reconstruct whole records." in text
    assert ("--prior uniform bounds no attacker on them." in text) != bounded


@pytest.mark.slow
def test_the_total_leakage_is_evened_where_that_is_asked_for(data, tmp_path, run):
    """With the noise that is asked for, and the recipe of what was audited."""
    out = {name: tmp_path / f"{name}.json" for name in ("total", "irfil")}
    arguments = ("audit", data, "--target", "cost", "--sensitive", "smoker?", "--noise-scale", "1")
    told = {}
    for name, path in out.items():
        code, text, err = run(*arguments, "--reweighting", name, "--out", path, *QUICK)
        assert (code, err) == (0, "")
        assert f"reweighting='{name}'" in text
        assert "try --reweighting" not in text
        told[name] = json.loads(path.read_text())
        assert told[name]["settings"]["reweighting"] == name
        assert f"reweighting='{name}'" in told[name]["reproducibility"]["estimator"]
    # (Imputation knows more than the prior that the bounds are for.)
    verdicts = {row["attack"]: row["verdict"] for row in told["total"]["results"]}
    assert verdicts["white_box"] == "consistent with the bound"
    eta = {name: [row["eta"] for row in report["records"]] for name, report in told.items()}
    assert np.abs(np.divide(eta["total"], eta["irfil"]) - 1.0).max() > 0.01


def test_an_unknown_reweighting(data, tmp_path, run):
    arguments = ("--target", "cost", "--reweighting", "totals", "--out", tmp_path)
    code, _, err = run("audit", data, *arguments, *QUICK)
    assert code == 2
    assert "choose from" in err
    assert "irfil" in err
    assert "total" in err


@pytest.mark.slow
def test_a_subset_is_attacked_and_said(data, tmp_path, run):
    out = tmp_path / "r.json"
    arguments = ("--target", "cost", *ONE, "--sensitive", "smoker?", "--max-records", "7")
    _, text, _ = run("audit", data, *arguments, "--out", out, *QUICK)
    assert "Attacked: 7 records of 47, chosen at random" in text
    assert json.loads(out.read_text())["settings"]["n_targets"] == 7


@pytest.mark.slow
def test_the_limit_decides_the_exit_code(data, tmp_path, run):
    arguments = ("--target", "cost", "--sensitive", "smoker?", "--prior", "conditional")
    rest = ("--out", tmp_path, *QUICK)
    code, text, err = run(
        "audit", data, *arguments, "--noise-scale", "0.01", "1000", "--fail-above", "0.05", *rest
    )
    assert (code, err) == (3, "")
    last = text.rstrip().split("\n")[-1]
    assert re.search(r"EXCEEDED\. These noise scales pass: 1,000 .*fail: 0\.01 \(bound", last)
    code, text, _ = run(
        "audit", data, *arguments, "--noise-scale", "1000", "--fail-above", "0.05", *rest
    )
    assert code == 0
    assert "Largest advantage allowed 5%: kept." in text.rstrip().split("\n")[-1]


@pytest.mark.slow
def test_the_progress_bar_is_on_standard_error(data, tmp_path, run):
    arguments = ("--target", "cost", *ONE, "--sensitive", "smoker?", "--out", tmp_path)
    code, text, err = run("audit", data, *arguments, "--n-releases", "5")
    assert code == 0
    assert "encodings" in err
    assert "record/s" in err
    assert "record/s" not in text


@pytest.mark.slow
def test_an_interrupted_audit_goes_on_from_its_checkpoint(data, tmp_path, run, monkeypatch):
    path, out = tmp_path / "c.npz", tmp_path / "r.json"
    arguments = ("audit", data, "--target", "cost", *ONE, "--sensitive", "smoker?", "--out", out)
    arguments += ("--n-releases", "5", "--quiet", "--checkpoint", path)

    class Stopped(joblib.Parallel):
        def __call__(self, *args, **kwargs):
            for k, result in enumerate(super().__call__(*args, **kwargs)):
                yield result
                if k == 1:
                    raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("skleak.audit.run._run.Parallel", Stopped)
        code, _, err = run(*arguments)
    assert code == 130
    assert err == (
        f"skleak audit: interrupted. What is finished is in '{path}': run the same command again "
        "to go on from it\n"
    )
    assert not out.exists()
    code, _, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.exists()


def test_an_interrupt_without_a_checkpoint(data, tmp_path, run, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LeakageAuditor, "fit", stop)
    arguments = ("audit", data, "--target", "cost", "--out", tmp_path)
    code, _, err = run(*arguments)
    assert code == 130
    assert "with --checkpoint PATH the same command would go on" in err
    code, _, err = run(*arguments, "--checkpoint", tmp_path / "c.npz")
    assert "Nothing was finished yet" in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--target", "costs"], "there is no column 'costs'. Did you mean 'cost'"),
        (["--target", "cost", "--sensitive", "smoke"], "Did you mean 'smoker?'"),
        (["--target", "city {x}", "--model", "linear"], "takes a target of numbers"),
        (["--target", "city {x}"], "--sensitive: name a column. Whole records"),
        (["--target", "cost", "--sensitive", "constant"], "single value"),
        (["--target", "cost", "--secrets", "drawn"], "cannot redraw whole records"),
        (["--target", "cost", "--sensitive", "cost"], "target itself"),
        (["--target", "cost", "--alpha", "-1"], "--alpha: must be a finite number"),
        (["--target", "cost", "--noise-scale", "0.1", "nan"], "zero or more; got 'nan'"),
        (["--target", "cost", "--fail-above", "5"], "from 0 to 1; got '5'"),
        (["--target", "cost", "--test-size", "1"], "below 1; got '1'"),
        (["--target", "cost", "--n-releases", "0"], "1 or more; got '0'"),
        (["--target", "cost", "--n-jobs", "0"], "other than 0"),
        (["--target", "cost", "--seed", "-1"], "0 or more"),
        (["--target", "cost", "--out", "r.pdf"], "must end in .html, .htm, .json"),
        (["--target", "cost", "--out", "no/such/folder.html"], "folder that exists"),
        (["--target", "cost", "--checkpoint", "."], "must be a file"),
        (["--target", "cost", "--model", "cubic"], "invalid choice"),
        ([], "arguments are required: --target"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_get_one_line_and_code_2(data, tmp_path, run, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("audit", data, *arguments, *(QUICK if arguments else ()))
    assert code == 2
    assert err.startswith("skleak audit: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["data"]


def test_a_missing_file_and_a_file_that_a_number_was_expected_for(data, run):
    code, out, err = run("audit", "nowhere.csv", "--target", "cost")
    assert (code, out) == (2, "")
    assert err == (
        "skleak audit: error: there is no file 'nowhere.csv'. Check its name and folder\n"
    )
    code, _, err = run("audit", "--target", "cost", "--noise-scale", "1", data)
    assert code == 2
    assert "Put DATA first" in err


def test_a_wrong_path_is_told_before_anything_heavy_is_imported(tmp_path):
    code = (
        "import sys; from skleak.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'numpy', 'pandas', 'sklearn', 'scipy', 'matplotlib', 'joblib'}; "
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    for path in (tmp_path / "nowhere.csv", tmp_path):
        command = [sys.executable, "-c", code, "audit", path, "--target", "cost"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "2 []\n"
        assert done.stderr.count("\n") == 1


def test_a_singular_model_gets_one_line(people, tmp_path, run):
    people["double"] = 2.0 * people["height (cm)"]
    path = tmp_path / "d.csv"
    people.dropna().to_csv(path, index=False)
    arguments = ("--target", "cost", "--sensitive", "smoker?", "--alpha", "0")
    code, _, err = run("audit", path, *arguments, "--out", tmp_path, *QUICK)
    assert code == 2
    assert err.count("\n") == 1


@pytest.mark.slow
def test_warnings_are_told_in_one_line(data, tmp_path, run, monkeypatch):
    fit = LeakageAuditor.fit

    def warn(self, *data):
        import warnings

        for _ in range(2):
            warnings.warn("something\n odd", UserWarning, stacklevel=2)
        return fit(self, *data)

    monkeypatch.setattr(LeakageAuditor, "fit", warn)
    arguments = ("--target", "cost", *ONE, "--sensitive", "smoker?", "--out", tmp_path)
    code, _, err = run("audit", data, *arguments, *QUICK)
    assert (code, err) == (0, "skleak audit: warning: something odd\n")


@pytest.mark.slow
def test_a_report_that_cannot_be_written_is_still_on_the_terminal(data, tmp_path, run, monkeypatch):
    def fail(*_):
        raise PermissionError(13, "Permission denied", "a draft")

    monkeypatch.setattr(os, "replace", fail)
    out = tmp_path / "r.html"
    arguments = ("--target", "cost", *ONE, "--sensitive", "smoker?", "--out", out)
    code, text, err = run("audit", data, *arguments, *QUICK)
    assert code == 2
    assert "What the numbers say" in text
    assert err == f"skleak audit: error: cannot write '{out}': Permission denied\n"


@pytest.mark.slow
def test_a_reader_who_stops_early_changes_no_exit_code(data, tmp_path):
    command = [sys.executable, "-m", "skleak", "audit", data, "--target", "cost", *QUICK]
    command += ["--sensitive", "smoker?", "--noise-scale", "0", "--fail-above", "0"]
    command += ["--out", tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 3
    assert "skleak-audit.html" in os.listdir(tmp_path)


@pytest.mark.parametrize("model", ["linear", "logistic", "poisson"])
def test_usual_noise_goes_with_the_target_and_the_records(model):
    y = np.tile([0.0, 1.0, 2.0, 5.0], 250)
    levels = usual_noise(model, y)
    assert levels[1:] == pytest.approx([10.0 * levels[0], 100.0 * levels[0]])
    assert usual_noise(model, np.tile(y, 100))[0] == pytest.approx(levels[0] / 100.0)
    if model == "linear":
        assert usual_noise(model, 1000.0 * y)[0] == pytest.approx(1000.0 * levels[0])


@pytest.mark.slow
@pytest.mark.data
def test_warfarin_dosing(tmp_path, run):
    folder = os.environ.get("SKLEAK_DATA", os.path.expanduser("~/skleak_data"))
    path = os.path.join(folder, "iwpc-scaled.csv")
    if not os.path.exists(path):
        pytest.skip("the data are not there")
    out = tmp_path / "r.json"
    arguments = ("--target", "dose", "--sensitive", "vkorc1", "--noise-scale", "0.0001", "0.01")
    code, text, err = run("audit", path, *arguments, "--nominal", "cyp2c9", "--out", out, *QUICK)
    assert (code, err) == (0, "")
    assert "Sensitive: `vkorc1`, 3 values (CC, CT, TT)." in text
    results = pd.DataFrame(json.loads(out.read_text())["results"])
    white_box = results[results["attack"] == "white_box"]["success"].tolist()
    assert white_box[0] > 0.9
    assert white_box[1] < 0.5


@pytest.mark.slow
def test_the_most_exposed_records_are_found_in_the_file(people, tmp_path, run):
    # One record is far from all others, and the only one that is.
    people.loc[41, "height (cm)"] = 400.0
    path = tmp_path / "far.csv"
    people.to_csv(path, index=False)
    arguments = ("--target", "cost", "--sensitive", "height (cm)", "--test-size", "0")
    _, text, _ = run("audit", path, *arguments, "--out", tmp_path, *QUICK)
    told = " ".join(text.split())
    found = re.search(r"most exposed records are ([\d, ]+) \(by number in the file", told)[1]
    listed = [int(place) - 1 for place in found.split(", ")]
    assert 41 in listed
    out = tmp_path / "r.json"
    assert run("audit", path, *arguments, "--id", "Patient ID", "--out", out, *QUICK)[0] == 0
    report = json.loads(out.read_text())
    assert report["settings"]["labels"] == "Patient ID"
    kept = people[people["cost"].notna() & people["height (cm)"].notna()]
    assert [row["label"] for row in report["records"]][: len(kept)] == kept["Patient ID"].tolist()
    assert report["settings"]["n_columns"] == 6
