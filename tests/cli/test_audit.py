import json
import os
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
from skleak.linear_model import PrivateLinearRegression

QUICK = ("--n-releases", "5", "--quiet", "--seed", "1")
ONE = ("--noise-scale", "1")


@pytest.mark.slow
def test_an_audit_says_what_it_did_and_writes_a_page(data, tmp_path, run):
    out = tmp_path / "r.html"
    words = ("audit", data, "--target", "cost", "--sensitive", "smoker?", "--out", out, *QUICK)
    code, text, err = run(*words)
    assert (code, err) == (0, "")
    for fact in ("60 records", "10 columns", "1 record without `cost`", "no, yes", "47", "12 held"):
        assert fact in " ".join(text.split())
    # Of a column that was plain nothing is said, unless all is asked for.
    assert "- Patient ID: dropped" in text
    assert "smoker?: 2 levels" not in text
    assert "smoker?, ill: 2 levels" in run(*words, "--full")[1]
    assert str(out) in text
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


@pytest.mark.slow
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
    assert "Leakage audit" in text
    assert os.path.exists(tmp_path / "skleak-audit.html")


@pytest.mark.slow
def test_without_a_sensitive_column_whole_records_are_attacked(data, tmp_path, run):
    out = tmp_path / "r.json"
    arguments = ("--target", "cost", "--prior", "conditional", "--max-records", "3", "--out", out)
    code, _, err = run("audit", data, *ONE, *arguments, *QUICK)
    assert (code, err) == (0, "")
    told = json.loads(out.read_text())
    assert (told["kind"], told["settings"]["n_targets"]) == ("record", 3)


@pytest.mark.slow
def test_the_total_leakage_is_evened_where_that_is_asked_for(data, tmp_path, run):
    """With the noise that is asked for, and the recipe of what was audited."""
    out = {name: tmp_path / f"{name}.json" for name in ("total", "irfil")}
    arguments = ("audit", data, "--target", "cost", "--sensitive", "smoker?", "--noise-scale", "1")
    told = {}
    for name, path in out.items():
        code, _, err = run(*arguments, "--reweighting", name, "--out", path, *QUICK)
        assert (code, err) == (0, "")
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
def test_a_subset_is_attacked_and_speaks_for_no_one_else(data, tmp_path, run):
    out = tmp_path / "r.json"
    arguments = ("--target", "cost", "--sensitive", "smoker?", "--max-records", "7", "--out", out)
    gate = ("--noise-scale", "1e6", "--fail-above", "0.9", "--of")
    code, text, _ = run("audit", data, *arguments, *gate, "everyone", *QUICK)
    assert code == 3
    assert "7 records of them, chosen at random" in " ".join(text.split())
    settings = json.loads(out.read_text())["settings"]
    assert (settings["n_targets"], settings["sampled"]) == (7, True)
    # Of seven nobody above: of all at most a third, with a confidence of 95 %.
    assert run("audit", data, *arguments, *gate, "0.6", *QUICK)[0] == 0


@pytest.mark.slow
def test_the_limit_decides_the_exit_code(data, tmp_path, run):
    arguments = ("audit", data, "--target", "cost", "--sensitive", "smoker?", "--out", tmp_path)
    limit = ("--fail-above", "0.05", *QUICK)
    for scales, whom, expected in (
        (("0.01", "1000"), "everyone", 3),
        (("1000",), "everyone", 0),
        (("1000",), "99%", 0),
        (("0.01", "1000"), "average", 3),
    ):
        code, text, err = run(*arguments, "--noise-scale", *scales, *limit, "--of", whom)
        assert (code, err) == (expected, "")
        last = text.rstrip().split("\n")[-1]
        assert ("NOT KEPT at noise 0.01" in last) == (expected == 3)
    # Without `--of` it is said once that everyone is meant.
    code, _, err = run(*arguments, "--noise-scale", "1000", *limit)
    assert (code, err.count("\n")) == (0, 1)
    assert "--of average" in err


@pytest.mark.slow
def test_the_rows_of_a_person_count_together(tmp_path, run):
    rng = np.random.default_rng(0)
    sex = np.repeat(rng.choice(["f", "m"], 40), 3)
    frame = pd.DataFrame({"who": np.repeat([f"P{k}" for k in range(40)], 3), "sex": sex})
    frame["age"] = rng.normal(size=120)
    frame["cost"] = frame["age"] + (sex == "m") + rng.normal(size=120)
    data, out = tmp_path / "visits.csv", tmp_path / "r.json"
    frame.to_csv(data, index=False)
    largest = {}
    for person in ((), ("--person", "who")):
        words = ("audit", data, "--target", "cost", "--sensitive", "sex", "--test-size", "0")
        drop = () if person else ("--drop", "who")
        run(*words, *person, *drop, "--noise-scale", "1", "--out", out, *QUICK)
        records = pd.DataFrame(json.loads(out.read_text())["records"])
        largest[len(records)] = records["exposure"].max()
    assert set(records["label"]) == set(frame["who"])
    assert (records["n_rows"] == 3).all()
    assert largest[40] > 1.5 * largest[120]


@pytest.mark.slow
def test_the_gate_judges_the_noise_of_the_model_and_none_chosen_here(data, tmp_path, run):
    out = tmp_path / "r.json"
    arguments = ("audit", data, "--target", "cost", "--sensitive", "smoker?", "--out", out)
    code, _, _ = run(*arguments, "--fail-above", "0.05", *QUICK)
    assert code == 3
    scales = {row["noise_scale"] for row in json.loads(out.read_text())["results"]}
    assert scales == {PrivateLinearRegression().noise_scale}


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
        patched.setattr("skleak.audit._run.Parallel", Stopped)
        code, _, err = run(*arguments)
    assert code == 130
    assert err == (
        f"skleak audit: interrupted. What is finished is in '{path}': the same command goes on "
        "from it\n"
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


@pytest.mark.parametrize(
    "arguments, message",
    mostly_slow(
        [
            (["--target", "costs"], "there is no column 'costs'. Did you mean 'cost'"),
            (["--target", "cost", "--sensitive", "smoke"], "Did you mean 'smoker?'"),
            (["--target", "city {x}", "--model", "linear"], "takes a target of numbers"),
            (["--target", "city {x}"], "--sensitive: name a column. Whole records"),
            (["--target", "cost", "--sensitive", "constant"], "single value"),
            (["--target", "cost", "--secrets", "drawn"], "cannot redraw whole records"),
            (["--target", "cost", "--sensitive", "cost"], "target itself"),
            (["--target", "cost", "--alpha", "-1"], "--alpha: must be a number in [0, inf)"),
            (["--target", "cost", "--noise-scale", "0.1", "nan"], "[0, inf); got 'nan'"),
            (["--target", "cost", "--fail-above", "5"], "[0, 1]; got '5'"),
            (["--target", "cost", "--test-size", "1"], "[0, 1); got '1'"),
            (["--target", "cost", "--n-releases", "0"], "[1, inf); got '0'"),
            (["--target", "cost", "--n-jobs", "0"], "n_jobs"),
            (["--target", "cost", "--seed", "-1"], "must be a whole number"),
            (["--target", "cost", "--out", "r.pdf"], "must end in .html"),
            (["--target", "cost", "--out", "no/such/folder.html"], "folder that exists"),
            (["--target", "cost", "--checkpoint", "."], "must be a file"),
            (["--target", "cost", "--model", "cubic"], "invalid choice"),
            (["--target", "cost", "--of", "nobody"], "--of"),
            ([], "arguments are required: --target"),
        ]
    ),
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


@pytest.mark.slow
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
    assert "Leakage audit" in text
    assert err == f"skleak audit: error: cannot write '{out}': Permission denied\n"


@pytest.mark.slow
def test_a_reader_who_stops_early_changes_no_exit_code(data, tmp_path):
    command = [sys.executable, "-m", "skleak", "audit", data, "--target", "cost", *QUICK]
    command += ["--sensitive", "smoker?", "--noise-scale", "0", "--fail-above", "0"]
    command += ["--of", "everyone", "--out", tmp_path]
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
    assert "3 values (CC, CT, TT)" in text
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
    out = tmp_path / "r.json"
    assert run("audit", path, *arguments, "--out", out, *QUICK)[0] == 0
    records = pd.DataFrame(json.loads(out.read_text())["records"])
    # By its number in the file, the first is 1.
    assert records["label"][records["eta"].idxmax()] == 42
    assert run("audit", path, *arguments, "--id", "Patient ID", "--out", out, *QUICK)[0] == 0
    report = json.loads(out.read_text())
    assert report["settings"]["labels"] == "Patient ID"
    kept = people[people["cost"].notna() & people["height (cm)"].notna()]
    assert [row["label"] for row in report["records"]][: len(kept)] == kept["Patient ID"].tolist()
    assert report["settings"]["n_columns"] == 6
