"""Options of the commands: what they are, and how they are typed or read from a YAML file.

A command is a dataclass, its fields are the options, and its docstring is their help. A field that
sets a parameter of an auditor or of a private model has the type and the help of that parameter,
which are read from the source, as ``--help`` and a wrong option should not wait for imports.
"""

import argparse
import ast
import inspect
import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from skleak._version import __version__

REPORT, AUDIT = "skleak-report.html", "skleak-audit.html"
MODELS = ("auto", "linear", "logistic", "poisson")
PICKLES = (".pkl", ".pickle")
# What later files say of a parameter counts; these are read, not imported.
_SOURCES = ["linear_model/_measured", "linear_model/_linear", "audit/_auditors"]
_BRACKETS = {"left": ("[", ")"), "right": ("(", "]"), "both": ("[", "]"), "neither": ("(", ")")}
# The first option of each group of the help.
_GROUPS = {"target": "columns", "model": "model", "n_releases": "attack", "out": "run and output"}
_CODES = "Exit codes: 0 done; 2 unusable arguments or data; 3 --fail-above; 130 interrupted."
# Options that say most of what is asked.
_ASKS = ("noise-scale", "sensitive", "membership", "target")
_ENDINGS = (".html", ".htm", ".json")


class UsageError(ValueError):
    """An argument that cannot be used, in one line."""


class Parser(argparse.ArgumentParser):
    """A parser that raises its errors."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where to read what would be right."""
        text = " ".join(message.removeprefix("argument ").split())
        raise UsageError(f"{self.prog}: error: {text} (see `{self.prog} --help`)")


def number(kind: type, low: float, high: float | None, closed: str) -> Callable[[str], Any]:
    """Return a reader of numbers in an interval."""
    first, last = _BRACKETS[closed]
    high = math.inf if high is None else high

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        within = (value >= low if first == "[" else value > low) and value <= high
        if not (within and math.isfinite(value) and (last == "]" or value < high)):
            # Options of many values swallow a file name that follows them.
            advice = ". Put DATA first" if Path(text).is_file() else ""
            what = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(
                f"must be {what} in {first}{low:g}, {high:g}{last}; got {text!r}{advice}"
            )
        return value

    return read


def _whom(text: str) -> "str | float":
    if text in ("everyone", "average"):
        return text
    share = str(float(text[:-1]) / 100.0) if text.endswith("%") else text
    return float(number(float, 0, 1, "neither")(share))


def _model(text: str) -> str:
    if text in MODELS or text.lower().endswith(PICKLES) or all(text.partition(":")):
        return text
    known = f"{', '.join(MODELS)}, a pickle that ends in .pkl, or module:factory"
    raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {known})")


def _file(text: str, name: str = "", endings: tuple[str, ...] = ()) -> Path:
    """Find out before anything is computed whether a file has a place to go."""
    path = Path(text).expanduser()
    into = bool(name and text) and path.is_dir()
    path = path / name if into else path
    folder = text.endswith(("/", os.sep)) and not into
    problems = {
        "must be a file in a folder that exists": not text or folder or not path.parent.is_dir(),
        "must be a file": path.is_dir(),
        "must be in a folder that can be written to": not os.access(path.parent, os.W_OK),
        f"must end in {', '.join(endings)}": endings and path.suffix.lower() not in endings,
    }
    for problem, found in problems.items():
        if found:
            raise argparse.ArgumentTypeError(f"{problem}; got {text!r}")
    return path


@dataclass(frozen=True)
class Audit:
    """Train a private model on a table of yours and attack its releases.

    At several noise scales, what attacks learn is set beside what any attack could. Columns are
    prepared automatically, and what was not plain about one is said.

    Parameters
    ----------
    data : DATA
        CSV (also compressed; commas, semicolons or tabs) or Parquet; missing values are empty, NA
        or ?
    config : PATH
        YAML file of options: a line for each, such as `target: income`, and `data` for DATA. What
        is typed here wins; paths in it are relative to its folder
    target : COLUMN
        What the model predicts
    sensitive : COLUMN
        What attackers are after (default: whole records are reconstructed)
    membership : flag
        Attackers are after who was trained on, instead of a column or whole records
    person : COLUMN
        Names the person of each row: all rows of a person change or leave together, results are
        about persons, and the column is no feature (default: every row is a person)
    id : COLUMN
        Names the records in the report, and is no feature (default: their number in the file, the
        first is 1)
    drop : COLUMN
        Columns to leave out
    nominal : COLUMN
        Columns of numbers that are codes, and are one-hot encoded
    model : MODEL
        auto, linear, logistic, poisson: a private estimator, auto being logistic where the target
        has two values or holds text, else linear (default: auto). Or any model of yours: a pickle
        of an estimator (model.pkl), or module:factory, a function that returns one. Loading it RUNS
        ITS CODE: only for files that you trust. It is trained anew on the training records
    noise_scale : FLOAT
        Standard deviations of the noise on each coefficient to audit (default: three, from what one
        record moves the coefficients by to a hundred times that; with --fail-above, and of a model
        of yours, its own)
    no_intercept : flag
        Fit without an intercept
    test_size : SHARE
        Share of the records held out to score the model; it is trained and audited on the rest
        (default: 0.2; 0 trains on all and scores there)
    max_records : N
        Attack a random subset of the records, or of the persons (default: all)
    out : PATH
        HTML file, or JSON file, or the folder for skleak-audit.html (default: skleak-audit.html)
    full : flag
        Print the whole report, and all that was decided on the columns
    sarif : PATH
        Also write at which noise scales the limit is not kept as SARIF 2.1.0, for code scanning;
        without rows of persons
    summary : PATH
        Also append an overview as Markdown, for job summaries; without rows of persons
    brief : flag
        Print that overview and nothing else, for logs that others read: no name and no value of a
        record, also not in warnings and errors, of which only the type is printed
    fail_above : LIMIT
        Exit with code 3 unless no attacker, whatever is known of a record, gains more than this (0
        to 1) over a coin at any noise scale audited: not kept and not known both fail (default:
        0.05, and no code)
    of : WHOM
        For whom --fail-above has to hold: everyone attacked, a share of them such as 99%, or their
        average (default: everyone)
    seed : N
        Seed of the random splits and of the simulated noise, which protects nobody: the same
        command finds the same (default: 0)
    quiet : flag
        No progress bar
    """

    data: str
    target: str
    sensitive: str | None = None
    membership: bool = False
    person: str | None = None
    id: str | None = None
    drop: Sequence[str] = ()
    nominal: Sequence[str] = ()
    model: str = "auto"
    alpha: float | None = None
    noise_scale: Sequence[float] | None = None
    reweighting: str | None = None
    no_intercept: bool = False
    test_size: float = 0.2
    n_releases: int | None = None
    secrets: str | None = None
    prior: str | None = None
    max_records: int | None = None
    out: Path = Path(AUDIT)
    full: bool = False
    sarif: Path | None = None
    summary: Path | None = None
    brief: bool = False
    fail_above: float | None = None
    of: "str | float | None" = None
    checkpoint: Path | None = None
    n_jobs: int | None = None
    seed: int = 0
    quiet: bool = False
    config: str | None = None
    # The file that asked for the audit, and the line that says most of it.
    asked_in: tuple[Path, int] | None = None


@dataclass(frozen=True)
class Demo:
    """Ask of a private model on bundled medical data what it tells of one column.

    Fit a private linear regression on scikit-learn's diabetes data (bundled, no network), and say
    whether the sex of a patient can be read from it: on the terminal, and as two HTML pages.

    Parameters
    ----------
    noise_scale : FLOAT
        Standard deviation of the noise on each coefficient (default: 2.0)
    out : PATH
        HTML file to write, or the folder for skleak-report.html (default: skleak-report.html); the
        audit lies beside it
    """

    noise_scale: float = 2.0
    out: Path = Path(REPORT)


COMMANDS: dict[str, Any] = {"audit": Audit, "demo": Demo}
# Parameters of auditors and of our models by the options that set them.
_SAME = "alpha checkpoint n_jobs n_releases prior reweighting secrets"
PARAMETERS = {name: name for name in _SAME.split()}
PARAMETERS |= {"fail_above": "max_advantage", "noise_scale": "noise_scales", "person": "persons"}
_TYPES: dict[str, Callable[[str], Any]] = {
    "max_records": number(int, 1, None, "left"),
    "model": _model,
    "of": _whom,
    "seed": number(int, 0, 2**32 - 1, "both"),
    "test_size": number(float, 0, 1, "left"),
}


def parse(argv: Sequence[str] | None) -> tuple[str, Any]:
    """Return a command and its options, of which those typed win over those of a file.

    Without a command it is "", and the help of all stands in the place of its options.
    """
    parser, commands = build_parser()
    typed = vars(parser.parse_args(argv))
    if (name := typed.pop("command")) is None:
        return "", parser.format_help().rstrip()
    if "config" in typed:
        typed = _from_file(commands[name], typed) | typed
    needed = {"data": "DATA", "target": "--target"} if name == "audit" else {}
    if absent := [shown for option, shown in needed.items() if option not in typed]:
        commands[name].error(f"the following arguments are required: {', '.join(absent)}")
    return name, COMMANDS[name](**typed)


def build_parser() -> tuple[Parser, dict[str, Any]]:
    """Parser of all commands, and that of each by its name."""
    about = "What a trained model leaks about every person and attribute in its training data."
    parser = Parser(prog="skleak", description=about)
    parser.add_argument("--version", action="version", version=f"skleak {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", parser_class=Parser)
    known = _parameters()
    for name, options in COMMANDS.items():
        doc = inspect.getdoc(options) or ""
        about, own = doc.partition("\n\nParameters\n")[0], _documented(doc)
        texts: dict[str, Any] = {
            "help": about.partition("\n")[0],
            "description": about,
            "epilog": _CODES,
        }
        group: Any = commands.add_parser(name, argument_default=argparse.SUPPRESS, **texts)
        command = group
        for option in fields(options):
            if option.name in _GROUPS:
                group = command.add_argument_group(_GROUPS[option.name])
            flag = option.name if option.name == "data" else f"--{option.name.replace('_', '-')}"
            if option.name in own or option.name in PARAMETERS:
                group.add_argument(flag, **_arguments(option, own, known))
    return parser, dict(commands.choices)


def _arguments(option: Any, own: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Describe an option to argparse; what it says of itself wins over its parameter."""
    given = known.get(PARAMETERS.get(option.name, ""), {}).copy()
    kind, text = own.get(option.name, ("", ""))
    given |= {"metavar": kind, "help": text.replace("%", "%%")} if text else {}
    if option.name in _TYPES:
        given["type"] = _TYPES[option.name]
    elif "Path" in str(option.type):
        name = getattr(option.default, "name", "")
        given["type"] = partial(_file, name=name, endings=_ENDINGS if name else ())
        given["metavar"] = "PATH"
    if "Sequence" in str(option.type):
        given |= {"nargs": "+", "action": "extend"}
    elif option.name == "data":
        given["nargs"] = "?"
    elif option.type is bool:
        given = {"action": "store_true", "help": given["help"]}
    return given


def _parameters() -> dict[str, dict[str, Any]]:
    """Types and help of the parameters of auditors and private models, for argparse."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for source in _SOURCES:
        text = (Path(__file__).parent.parent / f"{source}.py").read_text(encoding="utf-8")
        classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
        # The first class of a file wins.
        for node in (part for one in reversed(classes) for part in (one, *one.body)):
            if isinstance(node, ast.ClassDef):
                for name, (kind, meaning) in _documented(ast.get_docstring(node) or "").items():
                    found[name]["help"] = _short(kind, meaning)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    name = getattr(key, "value", "")
                    found[name] = {"help": found[name].get("help", "")} | _constraint(value)
    return found


def _short(kind: str, meaning: str) -> str:
    """First sentence of a description, and the default."""
    first = re.split(r"(?<=[.]) (?=[A-Z\"])", meaning)[0].rstrip(".")
    default = kind.partition("default=")[2].strip('"')
    shown = "" if default in ("", "None") else f" (default: {default})"
    return first.replace("`", "").replace("%", "%%") + shown


def _documented(doc: str) -> dict[str, tuple[str, str]]:
    """Return kind and description of what a docstring lists, by name."""
    entry = r"^(\w[\w, ]*) : (.+)\n((?:    .+\n?)+)"
    return {
        name: (kind, " ".join(text.split()))
        for names, kind, text in re.findall(entry, doc, re.M)
        for name in names.split(", ")
    }


def _constraint(node: ast.expr) -> dict[str, Any]:
    """Translate a constraint of scikit-learn into a type or choices of argparse."""
    kinds: dict[str, type] = {"Integral": int, "Real": float}
    for each in getattr(node, "elts", ()):
        match each:
            case ast.Call(ast.Name("StrOptions"), [ast.Set(choices)]):
                return {"choices": [ast.literal_eval(choice) for choice in choices]}
            case ast.Call(ast.Name("Interval"), [ast.Name(kind), low, high], [closed]):
                ends = [ast.literal_eval(end) for end in (low, high, closed.value)]
                return {"type": number(kinds[kind], *ends), "metavar": kinds[kind].__name__.upper()}
            case ast.Name("str"):
                return {}
            case ast.Name(kind) if kind in kinds:
                return {"type": kinds[kind], "metavar": kinds[kind].__name__.upper()}
    return {}


def _from_file(command: argparse.ArgumentParser, typed: dict[str, Any]) -> dict[str, Any]:
    """Read the options of a YAML file that are not typed; what is wrong is told with its line."""
    import yaml

    path = Path(typed["config"]).expanduser()
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"--config: cannot read {str(path)!r}: {why}") from error
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        raise UsageError(f"{path}, line {line}: cannot be read as YAML") from error
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(f"{path}: expected a line for each option, such as `target: income`")
    actions = {action.dest.replace("_", "-"): action for action in command._actions}
    actions = {name: actions[name] for name in actions if name not in ("help", "config")}
    found, lines = argparse.Namespace(), dict[str, int]()
    for key, value in root.value:
        name, line = str(key.value), key.start_mark.line + 1
        try:
            if name in lines:
                raise UsageError(f"it was set in line {lines[name]} before. Keep one of the two")
            lines[name] = line
            words = _words(name, value, actions, path.parent)
            if actions[name].dest not in typed:
                command.parse_args(words, found)
        except UsageError as error:
            why = str(error).removeprefix(f"{command.prog}: error: --{name}: ")
            raise UsageError(f"{path}, line {line}: `{name}`: {why}") from error
    line = next((lines[name] for name in _ASKS if name in lines), 1)
    return vars(found) | {"asked_in": (path, line)}


def _words(name: str, value: Any, actions: dict[str, argparse.Action], folder: Path) -> list[str]:
    """Write an entry of a file as it would be typed: a column called "no" is no truth value."""
    import yaml

    action, is_list = actions.get(name), isinstance(value, yaml.SequenceNode)
    nodes = value.value if is_list else [value]
    problem = ""
    if action is None:
        near = get_close_matches(name.replace("_", "-"), actions, 1, 0.6)
        advice = f"Did you mean `{near[0]}`?" if near else f"There are {', '.join(actions)}"
        problem = f"there is no such option. {advice}"
    elif not nodes or not all(isinstance(node, yaml.ScalarNode) for node in nodes):
        problem = "must be a value, or a list of values"
    elif any(node.tag.endswith(":null") for node in nodes):
        problem = "has no value. Give one, or leave out the line"
    elif action.nargs == 0 and (is_list or not value.tag.endswith(":bool")):
        problem = "must be true or false"
    elif is_list and action.nargs != "+":
        problem = "must be a single value"
    if problem or action is None:
        raise UsageError(problem)
    if action.nargs == 0:
        return [f"--{name}"] * yaml.SafeLoader.bool_values[value.value.lower()]
    texts = [str(node.value) for node in nodes]
    if action.metavar in ("PATH", "DATA") or (name == "model" and texts[0].endswith(PICKLES)):
        texts = [os.path.join(folder, os.path.expanduser(text)) for text in texts]
    return [f"--{name}={text}" for text in texts] if action.option_strings else ["--", *texts]
