"""Docstrings as Sphinx needs them: formulas word for word, stars as stars.

In an editor an indented formula reads as it stands; here it would be a quotation.
"""

import re
from typing import Any

from sphinx.application import Sphinx


def indent(line: str) -> int:
    """Return the number of leading blanks."""
    return len(line) - len(line.lstrip())


def prepare(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Mark indented blocks as literal, and escape stars of shapes."""
    done: list[str] = []
    last = ""
    for number, line in enumerate(lines):
        after_blank = number > 0 and not lines[number - 1].strip()
        deeper = after_blank and line.strip() and last.strip() and indent(line) > indent(last)
        if deeper and not last.rstrip().endswith("::") and not last.lstrip().startswith(".."):
            done += [" " * indent(last) + "::", ""]
        if line.lstrip().startswith("ndarray"):
            line = re.sub(r"\(\*(?=\w)", r"(\\*", line)
        done.append(line)
        last = line if line.strip() else last
    lines[:] = done


def setup(app: Sphinx) -> dict[str, bool]:
    """Come before numpydoc."""
    app.connect("autodoc-process-docstring", prepare, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
