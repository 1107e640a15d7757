"""Every code block of the README and of the documentation runs, and prints what stands below it.

A page is one session: its blocks share names, a folder and a shell whose ``skleak`` is this one. A
``text`` block right after a block is what that one prints; ``...`` stands for anything. What
installs something, runs the tests or needs another library is preceded by
``<!-- not run: why -->``, and a page that takes long says ``<!-- slow -->``. What needs torch is
run where it is installed.
"""

import contextlib
import doctest
import importlib.util
import io
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"^(?P<marks>(?:<!--[^\n]*-->\n+)*)(?P<fence>```+)(?P<kind>\S*)[^\n]*\n"
    r"(?P<code>.*?)^(?P=fence)$\n?"
    r"(?:\n*```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
RUN = {"python", "bash"}
HAS_TORCH = importlib.util.find_spec("torch") is not None
# Formulas, outputs, parts of files, and directives of the pages.
SHOWN = {"text", "yaml", "json", "toml", "csv", "bibtex"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    kind: str
    code: str
    output: str | None
    skipped: str | None
    line: int


def pages():
    """The README and all pages that somebody wrote."""
    written = (ROOT / "docs").rglob("*.md")
    generated = {"_build", "api", "auto_examples"}
    found = [p for p in written if not generated & set(p.relative_to(ROOT / "docs").parts)]
    return [ROOT / "README.md", *sorted(p for p in found if p.name != "json.md")]


def blocks(text):
    """Blocks of a page in their order."""
    found = []
    for match in FENCE.finditer(text):
        skipped = NOT_RUN.search(match["marks"])
        line = text[: match.start("code")].count("\n") + 1
        reason = skipped[1] if skipped else None
        reason = None if HAS_TORCH and reason == "needs torch" else reason
        found.append(Block(match["kind"], match["code"], match["output"], reason, line))
    return found


def run_python(block, page, names):
    code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def run_bash(block, page, folder):
    command = f'skleak() {{ "{sys.executable}" -m skleak "$@"; }}\n' + block.code
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "88",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{page}:{block.line}\n{done.stdout}{done.stderr}"
    return done.stdout


def parameters():
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if any(block.kind in RUN and not block.skipped for block in blocks(text)):
            slow = page.name == "README.md" or "<!-- slow -->" in text
            marks = [pytest.mark.slow] if slow else []
            yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", list(parameters()))
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda *_, **__: None)
    names = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind not in RUN or block.skipped:
            continue
        if block.kind == "python":
            with warnings.catch_warnings():
                printed = run_python(block, page, names)
        else:
            printed = run_bash(block, page, tmp_path)
        if block.output is not None:
            same = doctest.OutputChecker().check_output(block.output, printed, OPTIONS)
            assert same, f"{page}:{block.line} prints\n{printed}"


def test_every_block_is_run_or_says_why_not():
    for page in pages():
        for block in blocks(page.read_text(encoding="utf-8")):
            where = f"{page}:{block.line}"
            if block.kind in RUN:
                assert block.skipped is None or len(block.skipped) > 5, where
            else:
                assert block.kind in SHOWN or block.kind.startswith("{"), where


def test_blocks_are_found():
    page = "<!-- not run: installs -->\n```bash\npip\n```\n\n```python\n1\n```\n\n```text\n2\n```\n"
    first, second = blocks(page)
    assert first.skipped == "installs"
    assert first.kind == "bash"
    assert (second.kind, second.code, second.output, second.skipped) == (
        "python",
        "1\n",
        "2\n",
        None,
    )
