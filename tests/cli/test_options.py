"""Options: typed, or from a YAML file, where what is wrong is told with its line."""

from dataclasses import fields
from pathlib import Path

import pytest
from helpers import mostly_slow

from skleak.audit import LeakageAuditor
from skleak.cli._options import PARAMETERS, Audit, UsageError, build_parser, parse
from skleak.linear_model import PrivateLinearRegression


@pytest.fixture
def config(tmp_path):
    """Write a file of options beside a table, and parse a command line with it."""
    (tmp_path / "people.csv").write_text("age,ill\n1,2\n")

    def call(text, *typed):
        path = tmp_path / "audit.yaml"
        path.write_text(text, encoding="utf-8")
        return parse(["audit", "--config", str(path), *map(str, typed)])[1]

    return call


def typed(*words):
    return parse(["audit", *map(str, words)])[1]


def test_options_have_types_and_help_of_the_parameters_they_set():
    parameters = LeakageAuditor(None).get_params() | PrivateLinearRegression().get_params()
    actions = {action.dest: action for action in build_parser()[1]["audit"]._actions}
    for option, parameter in PARAMETERS.items():
        assert parameter in parameters
        assert actions[option].help, option
    assert actions["secrets"].choices == ["auto", "actual", "drawn"]
    assert actions["prior"].choices[-3:] == ["marginal", "uniform", "conditional"]
    assert actions["reweighting"].choices == ["irfil", "total"]
    assert actions["n_releases"].type("7") == 7
    assert actions["n_jobs"].type("-1") == -1
    assert actions["person"].type is None
    assert actions["fail_above"].type("0.05") == 0.05
    assert "(default: 100)" in actions["n_releases"].help
    # Every option is said, and nothing else is.
    assert {each.name for each in fields(Audit)} - set(actions) == {"asked_in"}


@pytest.mark.parametrize(
    "whom, of", mostly_slow([("everyone",) * 2, ("average",) * 2, ("99%", 0.99)])
)
def test_for_whom_a_limit_has_to_hold(whom, of):
    assert typed("a.csv", "--target", "t", "--of", whom).of == of
    assert typed("a.csv", "--target", "t", "--of=0.9").of == 0.9
    for wrong in ("nobody", "101%", "0", "1", "x%"):
        with pytest.raises(UsageError, match="--of"):
            typed("a.csv", "--target", "t", "--of", wrong)


ALL = """
data: people.csv
target: ill   # what is predicted
sensitive: no
id: "row"
drop: [first, -second]
nominal: code
alpha: 1e-2
noise-scale: [0.1, 2]
test-size: 0
secrets: drawn
fail-above: 0.05
of: 99%
n-jobs: -1
no-intercept: true
quiet: yes
brief: false
out: report.html
"""


def test_every_option_is_read_as_if_it_were_typed(config, tmp_path):
    found = vars(config(ALL))
    expected = typed(
        *(tmp_path / "people.csv", "--target", "ill", "--sensitive", "no"),
        *("--id", "row", "--drop", "first", "--drop=-second", "--nominal", "code"),
        *("--alpha", "0.01", "--noise-scale", "0.1", "2", "--test-size", "0"),
        *("--secrets", "drawn", "--fail-above", "0.05", "--of", "99%", "--n-jobs", "-1"),
        *("--no-intercept", "--quiet", "--out", tmp_path / "report.html"),
    )
    assert found.pop("asked_in") == (tmp_path / "audit.yaml", 9)
    assert found.pop("config")
    assert {name: vars(expected)[name] for name in found} == found


def test_the_command_line_wins(config, tmp_path):
    other = tmp_path / "other.csv"
    found = config(ALL, other, "--drop", "third", "--noise-scale", "7", "--target=age")
    assert found.data == str(other)
    assert (found.drop, found.noise_scale, found.target) == (["third"], [7.0], "age")
    # Also where what is typed is the default.
    assert config(ALL, "--secrets", "auto").secrets == "auto"
    assert config(ALL).secrets == "drawn"


def test_what_a_file_says_is_text_where_text_is_meant(config):
    found = config("data: people.csv\ntarget: 1.50\nsensitive: yes\n")
    assert (found.target, found.sensitive) == ("1.50", "yes")


@pytest.mark.parametrize(
    "text, line, told",
    [
        ("targte: ill\n", 1, "Did you mean `target`"),
        ("target: ill\nzzz: 1\n", 2, "There are .*noise-scale"),
        ("target: [a, b]\n", 1, "single value"),
        ("drop: []\n", 1, "a value, or a list of values"),
        ("noise-scale: [1, two]\n", 1, "must be a number in"),
        ("secrets: some\n", 1, "choose from"),
        ("quiet: maybe\n", 1, "true or false"),
        ("quiet: [true]\n", 1, "true or false"),
        ("target:\n", 1, "no value"),
        ("target: {a: b}\n", 1, "a value, or a list of values"),
        ("target: a\ntarget: b\n", 2, "set in line 1 before"),
        ("target: a\n b: c\n", 2, "cannot be read as YAML"),
        ("target: !!python/object/apply:os.getcwd []\n", 1, "single value|list of values"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(config, text, line, told):
    with pytest.raises(UsageError, match=rf"audit\.yaml, line {line}: .*(?:{told})"):
        config(text)


@pytest.mark.parametrize("text", ["- a\n- b\n", ""])
def test_a_file_that_is_no_list_of_options(config, text):
    with pytest.raises(UsageError, match="expected a line for each option"):
        config(text)


def test_no_code_of_a_file_is_run(config, tmp_path):
    mark = tmp_path / "mark"
    text = f'data: people.csv\ntarget: !!python/object/apply:os.mkdir ["{mark}"]\n'
    with pytest.raises(UsageError, match="single value"):
        config(text)
    assert not mark.exists()


def test_paths_are_read_from_the_folder_of_the_file(config, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = config("data: people.csv\ntarget: ill\nout: ./\nmodel: model.pkl\ncheckpoint: c\n")
    assert found.checkpoint == tmp_path / "c"
    assert Path(found.data) == tmp_path / "people.csv"
    assert found.out.parent == tmp_path
    assert Path(found.model) == tmp_path / "model.pkl"
    assert config("data: people.csv\ntarget: ill\nmodel: own:make\n").model == "own:make"
    assert config(f"data: {elsewhere}/a.csv\ntarget: ill\n").data == f"{elsewhere}/a.csv"


def test_errors_are_one_line_and_an_exit_code(run, tmp_path):
    for words, told in (
        (("audit", "--config", tmp_path / "none.yaml"), "--config: cannot read"),
        (("audit", "--config"), "--config: expected one argument"),
        (("audit",), "are required: DATA, --target"),
        (("demo", "--config", "a.yaml"), "unrecognized arguments"),
    ):
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert told in err
