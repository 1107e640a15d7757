"""What can be typed: commands, options, and values that are refused before anything is computed."""

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from skleak._version import __version__

REPORT_NAME = "skleak-report.html"
AUDIT_NAME = "skleak-audit.html"
_NAMED = ("auto", "linear", "logistic", "poisson")
OWN_MODELS = (".pkl", ".pickle")
_FORMATS = (".html", ".htm", ".json")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where to read what would be right."""
        text = " ".join(message.split())
        self.exit(2, f"{self.prog}: error: {text} (see `{self.prog} --help`)\n")


def data_file(path: str) -> Path:
    """Find a file of data, or say that there is none."""
    file = Path(path).expanduser()
    if not file.exists():
        raise FileNotFoundError(f"there is no file {path!r}. Check its name and folder")
    if not file.is_file():
        raise ValueError(f"{path!r} is a folder. Name a CSV or Parquet file in it")
    return file


def build_parser() -> argparse.ArgumentParser:
    """Parser of all commands."""
    parser = Parser(
        prog="skleak",
        description="What a trained model leaks about every person and every attribute in its "
        "training data.",
    )
    parser.add_argument("--version", action="version", version=f"skleak {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", parser_class=Parser)
    _add_audit(commands)
    _add_demo(commands)
    return parser


def _add_demo(commands: "argparse._SubParsersAction[Parser]") -> None:
    demo = commands.add_parser(
        "demo",
        help="fit a private model on bundled medical data, report what it leaks, and attack it",
        description="Fit a private linear regression on scikit-learn's diabetes data (bundled, no "
        "network), report what it leaks about the patients, and audit it by attacks: on the "
        "terminal, and as two HTML pages.",
    )
    demo.add_argument(
        "--noise-scale",
        type=_noise_scale,
        default=2.0,
        metavar="FLOAT",
        help="standard deviation of the noise on each coefficient (default: 2.0)",
    )
    demo.add_argument(
        "--irfil",
        action="store_true",
        help="reweight the records until all leak the same, were their weights fixed",
    )
    demo.add_argument(
        "--out",
        type=_report_path,
        default=REPORT_NAME,
        metavar="PATH",
        help=f"HTML file to write, or the folder for {REPORT_NAME} (default: %(default)s); the "
        "audit lies beside it",
    )


def _add_audit(commands: "argparse._SubParsersAction[Parser]") -> None:
    audit = commands.add_parser(
        "audit",
        help="train a private model on a table of yours and attack its releases",
        description="Train a private model on a table, attack its releases at several noise "
        "scales, and set what the attacks learn beside what any attack could. Columns are "
        "prepared automatically, and every decision is said.",
        epilog="Exit codes: 0 done; 2 arguments or data that cannot be used; 3 --fail-above; "
        "130 interrupted.",
    )
    audit.add_argument(
        "data",
        metavar="DATA",
        help="CSV (also compressed; commas, semicolons or tabs) or Parquet; missing values are "
        "empty, NA or ?",
    )
    audit.add_argument(
        "--config",
        metavar="PATH",
        help="YAML file of options: a line for each, such as `target: income`, and `data` for "
        "DATA. What is typed here wins; paths in it are relative to its folder",
    )
    _add_columns(audit.add_argument_group("columns"))
    _add_model(audit.add_argument_group("model"))
    _add_attack(audit.add_argument_group("attack"))
    _add_output(audit.add_argument_group("run and output"))


def _add_columns(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--target", required=True, metavar="COLUMN", help="what the model predicts")
    group.add_argument(
        "--sensitive",
        metavar="COLUMN",
        help="what attackers are after (default: whole records are reconstructed)",
    )
    group.add_argument(
        "--membership",
        action="store_true",
        help="attackers are after who was trained on, instead of a column or whole records",
    )
    group.add_argument(
        "--id",
        dest="identity",
        metavar="COLUMN",
        help="names the records in the report, and is no feature (default: their number in the "
        "file, the first is 1)",
    )
    for option, meaning in (
        ("--drop", "columns to leave out"),
        ("--nominal", "columns of numbers that are codes, and are one-hot encoded"),
    ):
        group.add_argument(
            option, nargs="+", action="extend", default=[], metavar="COLUMN", help=meaning
        )


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--model",
        type=_model,
        default="auto",
        metavar="MODEL",
        help=f"{', '.join(_NAMED)}: a private estimator, auto being logistic where the target has "
        "two values or holds text, else linear (default: auto). Or any model of yours: a pickle of "
        "an estimator (model.pkl), or module:factory, a function that returns one. Loading it RUNS "
        "ITS CODE: only for files that you trust. It is trained anew on the training records",
    )
    group.add_argument(
        "--alpha",
        type=_non_negative,
        metavar="FLOAT",
        help="strength of the penalty, relative to the mean loss (default: 0.01)",
    )
    group.add_argument(
        "--noise-scale",
        type=_non_negative,
        nargs="+",
        metavar="FLOAT",
        help="standard deviations of the noise on each coefficient to audit (default: three, from "
        "what one record moves the coefficients by to a hundred times that; of a model of yours "
        "its own, if it adds any)",
    )
    group.add_argument(
        "--reweighting",
        choices=("irfil", "total"),
        help="reweight the records: irfil until all leak the same, were their weights fixed; total "
        "to even what they leak with the weights counted",
    )
    group.add_argument("--no-intercept", action="store_true", help="fit without an intercept")
    group.add_argument(
        "--test-size",
        type=_below_one,
        default=0.2,
        metavar="SHARE",
        help="share of the records held out to score the model; it is trained and audited on the "
        "rest (default: 0.2; 0 trains on all and scores there)",
    )


def _add_attack(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--n-releases",
        type=_positive,
        default=100,
        metavar="N",
        help="simulated releases at each noise scale (default: 100)",
    )
    group.add_argument(
        "--secrets",
        choices=("auto", "actual", "drawn"),
        default="auto",
        help="redraw each secret from its prior, where bounds and attacks speak of the same; or "
        "attack the data as they are (default: drawn for a column of few values, else actual)",
    )
    group.add_argument(
        "--prior",
        choices=("marginal", "uniform", "conditional"),
        default="marginal",
        help="what attackers know of the sensitive column beforehand: its frequencies, nothing, or "
        "what all other columns tell (default: marginal)",
    )
    group.add_argument(
        "--max-records",
        type=_positive,
        metavar="N",
        help="attack a random subset of the records (default: all)",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--out",
        type=_audit_path,
        default=AUDIT_NAME,
        metavar="PATH",
        help=f"HTML file, or JSON file, or the folder for {AUDIT_NAME} (default: %(default)s)",
    )
    group.add_argument(
        "--sarif",
        type=_file_path,
        metavar="PATH",
        help="also write what is above the limit as SARIF 2.1.0, for code scanning; without rows "
        "of persons",
    )
    group.add_argument(
        "--summary",
        type=_file_path,
        metavar="PATH",
        help="also append an overview as Markdown, for job summaries; without rows of persons",
    )
    group.add_argument(
        "--brief",
        action="store_true",
        help="print that overview and nothing else, for logs that others read: no name and no "
        "value of a record, also not in warnings and errors, of which only the type is printed",
    )
    group.add_argument(
        "--fail-above",
        type=_share,
        metavar="ADVANTAGE",
        help="exit with code 3 where at any noise scale audited the bounds allow attackers, or an "
        "attack has, a larger advantage over the prior than this (0 to 1), on average over "
        "records; of a number, a larger share of the squared error removed; and where no bound "
        "holds; the report then says which noise scale keeps it (default: 0.05, and no code)",
    )
    group.add_argument(
        "--checkpoint",
        type=_file_path,
        metavar="PATH",
        help="confidential file that keeps what is finished; the same command goes on from it",
    )
    group.add_argument(
        "--n-jobs", type=_jobs, metavar="N", help="parallel jobs; -1 takes all processors"
    )
    group.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="seed of the random splits and of the simulated noise, which protects nobody: the "
        "same command finds the same (default: 0)",
    )
    group.add_argument("--quiet", action="store_true", help="no progress bar")


def _number(
    text: str, accept: Callable[[float], bool], expected: str, advice: str, kind: type = float
) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and accept(value)):
        raise argparse.ArgumentTypeError(f"must be {expected}; got {text!r}. {advice}")
    return float(value) if kind is float else value


def _noise_scale(text: str) -> float:
    return _number(text, lambda v: v >= 0.0, "a finite number, zero or more", "Try 2")


def is_own_model(name: str) -> bool:
    """Return True for a model of the user's, and not the name of one of ours."""
    return name not in _NAMED


def _model(text: str) -> str:
    module, _, factory = text.partition(":")
    if text in _NAMED or text.lower().endswith(OWN_MODELS) or (module and factory):
        return text
    raise argparse.ArgumentTypeError(
        f"invalid choice: {text!r} (choose from {', '.join(_NAMED)}, a pickle that ends in .pkl, "
        "or module:factory)"
    )


def _non_negative(text: str) -> float:
    # Options of many values swallow a file name that follows them.
    advice = "Put DATA first" if Path(text).is_file() else "Try 0.01"
    return _number(text, lambda v: v >= 0.0, "a finite number, zero or more", advice)


def _share(text: str) -> float:
    return _number(text, lambda v: 0.0 <= v <= 1.0, "a number from 0 to 1", "Try 0.05")


def _below_one(text: str) -> float:
    return _number(text, lambda v: 0.0 <= v < 1.0, "a number from 0 to below 1", "Try 0.2")


def _positive(text: str) -> int:
    return int(_number(text, lambda v: v >= 1, "a whole number, 1 or more", "Try 100", int))


def _seed(text: str) -> int:
    fits = range(2**32)
    return int(_number(text, lambda v: v in fits, "a whole number, 0 or more", "Try 0", int))


def _jobs(text: str) -> int:
    return int(_number(text, lambda v: v != 0, "a whole number other than 0", "Try -1", int))


def _report_path(text: str) -> Path:
    """Find out before the fit whether the report has a place to go."""
    return _placed(text, REPORT_NAME)


def _audit_path(text: str) -> Path:
    path = _placed(text, AUDIT_NAME)
    if path.suffix.lower() not in _FORMATS:
        raise argparse.ArgumentTypeError(
            f"must end in {', '.join(_FORMATS)}, or be a folder; got {text!r}. Try {AUDIT_NAME}"
        )
    return path


def _file_path(text: str) -> Path:
    path = _placed(text, "")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"must be a file; got the folder {text!r}. Name a file")
    return path


def _placed(text: str, name: str) -> Path:
    path = Path(text).expanduser()
    if path.is_dir() and text:
        path = path / name
    elif text.endswith(("/", os.sep)) or not text or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"must be a file in a folder that exists; got {text!r}. Create the folder first"
        )
    if not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(
            f"must be in a folder that can be written to; got {text!r}. Choose another one"
        )
    return path
