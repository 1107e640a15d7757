"""Options from a YAML file: what is typed wins, and what is wrong is told with its line."""

import pytest

from skleak.cli._arguments import build_parser
from skleak.cli._config import parse


@pytest.fixture
def config(tmp_path):
    """Write a file of options beside a table, and parse a command line with it."""
    (tmp_path / "people.csv").write_text("age,ill\n1,2\n")

    def call(text, *typed):
        path = tmp_path / "audit.yaml"
        path.write_text(text, encoding="utf-8")
        return parse(build_parser(), ["audit", "--config", str(path), *map(str, typed)])[0]

    return call


ALL = """
data: people.csv
target: ill   # what is predicted
sensitive: no
id: "row"
drop: [first, second]
nominal: code
alpha: 1e-2
noise-scale: [0.1, 2]
test-size: 0
secrets: drawn
fail-above: 0.05
n-jobs: -1
no-intercept: true
quiet: yes
brief: false
out: report.html
"""


def test_every_option_is_read_as_if_it_were_typed(config, tmp_path):
    found = config(ALL)
    typed = build_parser().parse_args(
        [
            *("audit", str(tmp_path / "people.csv"), "--target", "ill", "--sensitive", "no"),
            *("--id", "row", "--drop", "first", "second", "--nominal", "code", "--alpha", "0.01"),
            *("--noise-scale", "0.1", "2", "--test-size", "0", "--secrets", "drawn"),
            *("--fail-above", "0.05", "--n-jobs", "-1", "--no-intercept", "--quiet"),
            *("--out", str(tmp_path / "report.html")),
        ]
    )
    ours, theirs = vars(found), vars(typed)
    assert {name: ours[name] for name in theirs if name != "config"} == {
        name: value for name, value in theirs.items() if name != "config"
    }


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


def test_what_is_missing_in_both_is_told(config, capsys):
    with pytest.raises(SystemExit) as stop:
        config("data: people.csv\n")
    assert stop.value.code == 2
    assert "--target" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        config("target: ill\n")
    assert "DATA" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, told",
    [
        ("target: a\nnoise_scale: 1\n", "line 2: there is no option `noise_scale`. Did you mean "
         "`noise-scale`?"),
        ("xyz: 1\n", "line 1: there is no option `xyz`. The options are alpha, brief, checkpoint"),
        ("config: a.yaml\n", "line 1: there is no option `config`"),
        ("target: a\n\nalpha: much\n", "line 3: `alpha`: must be a finite number, zero or more; "
         "got 'much'"),
        ("alpha: [1, 2]\n", "line 1: `alpha`: must be a single value; got a list of 2"),
        ("noise-scale: []\n", "line 1: `noise-scale`: must hold a value, or more"),
        ("noise-scale: [1, two]\n", "line 1: `noise-scale`: must be a finite number"),
        ("secrets: some\n", "line 1: `secrets`: must be one of auto, actual, drawn; got 'some'"),
        ("quiet: maybe\n", "line 1: `quiet`: must be true or false; got 'maybe'"),
        ("quiet: [true]\n", "line 1: `quiet`: must be true or false; got a list of 1"),
        ("target:\n", "line 1: `target` has no value"),
        ("target: {a: b}\n", "line 1: `target` must be a value, or a list of values"),
        ("target: a\ntarget: b\n", "line 2: `target` was set in line 1 before"),
        ("target: a\n b: c\n", "line 2: cannot be read as YAML"),
        ("- a\n- b\n", "expected a line for each option"),
        ("", "expected a line for each option"),
        ("target: !!python/object/apply:os.getcwd []\n", "must be"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(config, text, told):
    with pytest.raises(ValueError, match=r"audit\.yaml") as error:
        config(text)
    assert told in str(error.value)


def test_no_code_of_a_file_is_run(config, tmp_path):
    mark = tmp_path / "mark"
    text = f'data: people.csv\ntarget: !!python/object/apply:os.mkdir ["{mark}"]\n'
    with pytest.raises(ValueError, match="single value"):
        config(text)
    assert not mark.exists()


def test_paths_are_read_from_the_folder_of_the_file(config, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = config("data: people.csv\ntarget: ill\nout: ./\nmodel: model.pkl\n")
    assert found.data == str(tmp_path / "people.csv")
    assert found.out.parent == tmp_path
    assert found.model == str(tmp_path / "model.pkl")
    assert config("data: people.csv\ntarget: ill\nmodel: own:make\n").model == "own:make"
    assert config(f"data: {elsewhere}/a.csv\ntarget: ill\n").data == f"{elsewhere}/a.csv"


def test_errors_are_one_line_and_an_exit_code(run, tmp_path):
    code, out, err = run("audit", "--config", tmp_path / "none.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("skleak: error: --config: cannot read")
    assert run("audit", "--config")[0] == 2
    assert run("demo", "--config", "a.yaml")[0] == 2
