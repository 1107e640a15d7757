"""What others read of an audit: the overview, SARIF, logs. The attack: look for a person in it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import skleak

QUICK = ("--n-releases", "5", "--seed", "1", "--noise-scale", "1", "--max-records", "15")
ROOT = Path(skleak.__file__).parent.parent
# What SARIF 2.1.0 requires of each object (the ``required`` of its JSON schema).
REQUIRED = {
    "log": {"version", "runs"},
    "run": {"tool"},
    "tool": {"driver"},
    "driver": {"name"},
    "rule": {"id"},
    "result": {"message"},
    "invocation": {"executionSuccessful"},
}
LEVELS = {"none", "note", "warning", "error"}


def check_sarif(log):
    """Hold a log to the structure that the SARIF schema requires, and that code scanning needs."""
    assert REQUIRED["log"] <= log.keys()
    assert log["version"] == "2.1.0"
    for run in log["runs"]:
        assert REQUIRED["run"] <= run.keys()
        driver = run["tool"]["driver"]
        assert REQUIRED["driver"] <= driver.keys()
        assert re.fullmatch(r"\d+(\.\d+){1,3}.*", driver["version"])
        ids = [rule["id"] for rule in driver["rules"]]
        assert len(set(ids)) == len(ids)
        for rule in driver["rules"]:
            for name in ("shortDescription", "fullDescription", "help"):
                assert rule[name]["text"]
            assert rule["defaultConfiguration"]["level"] in LEVELS
        for invocation in run["invocations"]:
            assert isinstance(invocation["executionSuccessful"], bool)
        for result in run["results"]:
            assert result["message"]["text"]
            assert result["level"] in LEVELS
            assert ids[result["ruleIndex"]] == result["ruleId"]
            place = result["locations"][0]["physicalLocation"]
            assert place["region"]["startLine"] >= 1
            assert " " not in place["artifactLocation"]["uri"]
            assert all(isinstance(text, str) for text in result["partialFingerprints"].values())


def persons_in(text, people, names=("Patient ID", "admitted", "city {x}", "height (cm)", "cost")):
    """List labels and values of the records that stand in a text."""
    told = {str(value) for name in names for value in people[name].dropna()}
    return sorted(value for value in told if re.search(rf"(?<![\w.]){re.escape(value)}\b", text))


@pytest.fixture
def unusual(people):
    """The same people, with a number of their own each, that nothing else is equal to."""
    rng = np.random.default_rng(0)
    people["height (cm)"] = 170.0 + 10.0 * rng.normal(size=len(people)).round(7)
    people["cost"] = people["height (cm)"] + 20.0 * (people["smoker?"] == "yes") + 0.1234567
    return people


@pytest.mark.slow
def test_what_is_shared_tells_of_no_person(unusual, tmp_path, run):
    data = tmp_path / "people.csv"
    unusual.to_csv(data, index=False)
    config = tmp_path / "audit.yaml"
    config.write_text("data: people.csv\ntarget: cost\n\nnoise-scale: 1\nid: Patient ID\n")
    shared = (tmp_path / "out.sarif", tmp_path / "summary.md")
    shared[1].write_text("# before\n")
    code, text, err = run(
        *(
            "audit",
            "--config",
            config,
            "--sensitive",
            "smoker?",
            "--fail-above",
            "0.001",
            "--of",
            "99%",
        ),
        *("--sarif", shared[0], "--summary", shared[1], "--out", tmp_path, "--brief", *QUICK),
    )
    assert code == 3
    summary = shared[1].read_text()
    assert summary.startswith("# before\n# Leakage audit, overview")
    overview, _, line = text.strip().rpartition("\n")
    assert overview.strip() in summary
    assert "NOT KEPT" in line
    log = json.loads(shared[0].read_text())
    check_sarif(log)
    result = log["runs"][0]["results"][0]
    assert result["ruleId"] == "advantage-above-limit"
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 4
    for told in (text, err, summary, shared[0].read_text()):
        assert not persons_in(told, unusual)
    # The attack finds what there is to be found: the whole report names people.
    page = (tmp_path / "skleak-audit.html").read_text()
    assert len(persons_in(page, unusual, ("Patient ID",))) > 3


def test_brief_errors_and_warnings_quote_nothing(people, tmp_path, run, monkeypatch):
    data = tmp_path / "people.csv"
    people.to_csv(data, index=False)
    (tmp_path / "own.py").write_text(
        "from sklearn.linear_model import Ridge\n"
        "class Own(Ridge):\n"
        "    def fit(self, X, y):\n"
        "        raise AttributeError(f'cannot use {X[0]!r}')\n"
        "def make():\n    return Own()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = ("--target", "cost", "--sensitive", "smoker?", "--model", "own:make")
    code, out, err = run("audit", data, *own, "--brief", *QUICK)
    assert (code, out) == (2, "")
    assert err.startswith("skleak audit: error: AttributeError. What it says may name records")
    # A file without a head has a person in the place of its names.
    people.to_csv(data, index=False, header=False)
    code, out, err = run("audit", data, "--target", "Patient", "--brief")
    assert (code, out) == (2, "")
    assert not persons_in(err, people)
    assert "--target: there is no column 'Patient'" in err


@pytest.mark.slow
def test_brief_workers_quote_nothing(people, tmp_path):
    """Workers print their warnings themselves, past what the command does with its own."""
    people.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "own.py").write_text(
        "import warnings\n"
        "from sklearn.tree import DecisionTreeClassifier\n"
        "class Own(DecisionTreeClassifier):\n"
        "    def fit(self, X, y):\n"
        "        warnings.warn(f'QUOTED {X[0][0]!r}')\n"
        "        return super().fit(X, y)\n"
        "def make():\n    return Own()\n"
    )
    words = [
        "people.csv",
        "--target",
        "ill",
        "--membership",
        "--model",
        "own:make",
        "--n-jobs",
        "2",
    ]
    found = {}
    for option in ("--brief", "--quiet"):
        found[option] = subprocess.run(
            [sys.executable, "-m", "skleak", "audit", *words, option, "--n-releases", "4"],
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert found[option].returncode == 0, found[option].stderr
    assert "QUOTED" not in found["--brief"].stdout + found["--brief"].stderr
    assert "skleak audit: warning: UserWarning" in found["--brief"].stderr
    # The attack finds what there is: without `--brief` the workers print it.
    assert "QUOTED" in found["--quiet"].stderr


def test_overviews_of_few_are_refused_before_anything_is_computed(data, tmp_path, run):
    few = ("--target", "cost", "--max-records", "9", "--summary", tmp_path / "s.md")
    code, _, err = run("audit", data, *few, "--quiet")
    assert code == 2
    assert "means over fewer than 10 are about single people" in err
    assert not (tmp_path / "s.md").exists()


@pytest.fixture(scope="module")
def action():
    return yaml.safe_load((ROOT / "action.yml").read_text())


def _steps(action, inputs, runner):
    """Environment and script of each step, as GitHub resolves them."""
    values = {name: each.get("default", "") for name, each in action["inputs"].items()} | inputs
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"], "an input in a script is code of whoever sets it"
        found = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m[1]], text)
            for name, text in step.get("env", {}).items()
        }
        yield step["name"], {**os.environ, **runner, **found}, step["run"]


def _play(script, env, folder):
    # As GitHub runs `shell: bash`.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True)


@pytest.fixture
def runner(tmp_path):
    for name in ("temp", "work"):
        (tmp_path / name).mkdir()
    files = {"GITHUB_STEP_SUMMARY": "summary.md", "GITHUB_OUTPUT": "output"}
    env = {name: str(tmp_path / file) for name, file in files.items()}
    for path in env.values():
        Path(path).touch()
    return env | {
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_WORKSPACE": str(tmp_path / "work"),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "PYTHONPATH": str(ROOT),
    }


def test_the_action_says_what_it_takes_and_gives(action):
    assert action["runs"]["using"] == "composite"
    for each in (*action["inputs"].values(), *action["outputs"].values()):
        assert each["description"].strip()
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
    written = action["runs"]["steps"][1]["run"]
    for name in action["outputs"]:
        assert f'echo "{name}=' in written


@pytest.mark.slow
def test_the_action_fails_above_the_limit_and_shares_no_person(action, unusual, runner, tmp_path):
    work = Path(runner["GITHUB_WORKSPACE"])
    unusual.to_csv(work / "my people.csv", index=False)
    (work / "audit.yaml").write_text("target: cost\nsensitive: smoker?\nn-releases: 5\n")
    inputs = {
        "python": sys.executable,
        "config": "audit.yaml",
        "data": "my people.csv",
        "fail-above": "0.01",
        "arguments": "--noise-scale\n1\n--id\nPatient ID\n",
    }
    (_, _, install), (_, env, audit) = _steps(action, inputs, runner)
    assert "pip install" in install
    played = _play(audit, env, work)
    assert played.returncode == 3, played.stderr
    told = Path(runner["GITHUB_OUTPUT"]).read_text().split()
    sarif = Path(runner["RUNNER_TEMP"], "skleak.sarif")
    assert told == ["status=not-kept", f"sarif={sarif}"]
    log = json.loads(sarif.read_text())
    check_sarif(log)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "audit.yaml"
    summary = Path(runner["GITHUB_STEP_SUMMARY"]).read_text()
    assert "# Leakage audit, overview" in summary
    for text in (played.stdout, played.stderr, summary, sarif.read_text()):
        assert not persons_in(text, unusual)
    assert Path(runner["RUNNER_TEMP"], "skleak-audit.html").exists()
    assert not list(work.glob("*.html"))


@pytest.mark.slow
def test_the_action_passes_below_the_limit_and_runs_no_input(action, people, runner):
    work = Path(runner["GITHUB_WORKSPACE"])
    people.to_csv(work / "people.csv", index=False)
    inputs = {
        "python": sys.executable,
        "data": "people.csv",
        "target": "cost",
        "sensitive": "smoker?",
        "fail-above": "0.5",
        "of": "99%",
        "arguments": "--noise-scale\n100\n--n-releases\n5",
    }
    (_, env, audit) = list(_steps(action, inputs, runner))[1]
    played = _play(audit, env, work)
    assert played.returncode == 0, played.stderr
    assert "status=kept" in Path(runner["GITHUB_OUTPUT"]).read_text()
    hostile = {"target": "$(touch hit)`touch hit`; touch hit #", "arguments": "$(touch hit)"}
    (_, env, audit) = list(_steps(action, inputs | hostile, runner))[1]
    played = _play(audit, env, work)
    assert played.returncode == 2
    assert "status=failed" in Path(runner["GITHUB_OUTPUT"]).read_text()
    assert not (work / "hit").exists()
    # A file whose name looks like an option is a file.
    option = inputs | {"data": "--model=own:make", "arguments": "--drop\ngene"}
    (_, env, audit) = list(_steps(action, option, runner))[1]
    played = _play(audit, env, work)
    assert played.returncode == 2
    assert "there is no file '--model=own:make'" in played.stderr
