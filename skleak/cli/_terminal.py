"""What the commands print: text that any terminal can show, and errors of one line."""

import os
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skleak.report.reports import Report

_WIDTH = 88
# Strings a terminal of an old code page cannot show, and what stands in for them.
_ASCII = str.maketrans("█═─•…–“”×é", '#=-*~-""xe')
_DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def say(*texts: str) -> None:
    """Print texts, with stand-ins for letters that the terminal cannot show.

    A reader who has seen enough and left does not stop the command: its result counts still.
    """
    try:
        for text in texts:
            print(_shown(text, sys.stdout), flush=True)
    except BrokenPipeError:
        # The rest goes to nobody, also what the interpreter flushes when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: object) -> None:
    """Print one line on standard error."""
    print(_shown(one_line(text), sys.stderr), file=sys.stderr)


def write(report: "Report", path: Path) -> None:
    """Write a report to a file, as JSON where its name ends in .json, else as HTML."""
    try:
        (report.to_json if path.suffix.lower() == ".json" else report.to_html)(path)
    except OSError as error:
        raise OSError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def one_line(text: object) -> str:
    """Put a message on one line."""
    return " ".join(str(text).split())


def wrap(sentences: Iterable[str], indent: str = "") -> str:
    """Break sentences into lines that fit."""
    wrapper = textwrap.TextWrapper(
        _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(map(wrapper.fill, sentences))


def _shown(text: str, stream: object) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = re.sub("[⁻⁰-⁹¹²³]+", lambda found: "^" + found[0].translate(_DIGITS), text)
        text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text
