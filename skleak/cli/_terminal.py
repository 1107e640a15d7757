"""What the commands print: text that any terminal can show, and errors of one line."""

import os
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skleak.report import Report

_WIDTH = 88
# Strings a terminal of an old code page cannot show, and what stands in for them.
_ASCII = str.maketrans(
    {"█": "#", "═": "=", "─": "-", "•": "*", "…": "~", "–": "-", "“": '"', "”": '"', "×": "x"}
    | {"é": "e"}
)
_PLAIN_DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_EXPONENT = re.compile("[⁻⁰-⁹¹²³]+")


def say(*texts: str) -> None:
    """Print texts, with stand-ins for letters that the terminal cannot show.

    A reader who has seen enough and left does not stop the command: its result counts still.
    """
    try:
        for text in texts:
            print(_shown(text, getattr(sys.stdout, "encoding", None)), flush=True)
    except BrokenPipeError:
        _mute()


def flush() -> None:
    """Write out what is printed, if anybody reads it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _mute()


def write(report: "Report", path: Path) -> None:
    """Write a report to a file, as JSON where its name ends in .json, else as HTML."""
    try:
        (report.to_json if path.suffix.lower() == ".json" else report.to_html)(path)
    except OSError as error:
        raise OSError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(_shown(one_line(text), getattr(sys.stderr, "encoding", None)), file=sys.stderr)


def one_line(text: object) -> str:
    r"""Put a message on one line."""
    return " ".join(str(text).split())


def section(title: str, text: str) -> str:
    """Put a title above a text."""
    return f"\n{title}\n{'─' * len(title)}\n{text}"


def wrap(sentences: Sequence[str], bullet: str = "") -> str:
    """Break sentences into lines that fit."""
    return "\n".join(
        textwrap.fill(
            sentence,
            _WIDTH,
            initial_indent=bullet,
            subsequent_indent=" " * len(bullet),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for sentence in sentences
    )


def _mute() -> None:
    """Send the rest to nobody, also what the interpreter flushes when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _shown(text: str, encoding: str | None) -> str:
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = _EXPONENT.sub(lambda found: "^" + found[0].translate(_PLAIN_DIGITS), text)
        text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text
