"""Pages made from the code: the command line, the JSON files, and the layers.

Nothing is typed twice: options come from the parser of ``skleak``, fields from reports of a small
fit. A field without a description is a warning, and so an error of the build.
"""

import argparse
from pathlib import Path
from typing import Any

import layers_figure
import limits_tables
import peers
from json_fields import EXAMPLES, fields, meaning
from sphinx.application import Sphinx
from sphinx.util import logging

from skleak.cli._options import build_parser

logger = logging.getLogger(__name__)


def escaped(text: str) -> str:
    """Return text as reStructuredText takes it word for word."""
    for sign in "\\`*_|":
        text = text.replace(sign, f"\\{sign}")
    return text


def option(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    """Return an option with what it takes and what it does."""
    default = formatter._get_default_metavar_for_optional
    taken = formatter._format_args(action, default(action)) if action.option_strings else ""
    names = ", ".join(f"{name} {taken}".strip() for name in action.option_strings)
    names = names or str(action.metavar or action.dest)
    meaning = escaped(formatter._expand_help(action)) if action.help else ""
    return f"``{names}``\n   {meaning}\n"


def command_page(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the part of a command: usage, and its options by their groups."""
    formatter = argparse.HelpFormatter(parser.prog, width=76)
    usage = parser.format_usage().removeprefix("usage: ").rstrip().splitlines()
    text = f"skleak {name}\n{'-' * (7 + len(name))}\n\n{escaped(parser.description or '')}\n\n"
    text += ".. code-block:: text\n\n" + "\n".join(f"   {line.strip()}" for line in usage) + "\n\n"
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.dest != "help"]
        if actions:
            title = (group.title or "").capitalize()
            text += f"**{title}**\n\n"
            text += "\n".join(option(action, formatter) for action in actions) + "\n"
    return text + (f"{escaped(parser.epilog)}\n\n" if parser.epilog else "")


def cli_page() -> str:
    """Return the page of the command line."""
    parser, commands = build_parser()
    text = "Command line\n============\n\n" + escaped(parser.description or "") + "\n\n"
    text += "Made from the parser itself; ``skleak COMMAND --help`` says the same.\n\n"
    return text + "".join(command_page(name, each) for name, each in commands.items())


def json_page() -> str:
    """Return the page of the JSON files: every field, what it is, and of which kind."""
    text = (
        "# JSON files\n\n"
        "Fields of the files that skleak writes, read off files of a small fit. Numbers that are"
        " not finite are `null`; `schema_version` rises with every change that breaks a reader."
        " Reports hold numbers of persons and are confidential; a released model is not.\n"
    )
    for name, (title, call, document) in EXAMPLES.items():
        text += f"\n## {title}\n\nWritten by `{call}`.\n\n"
        text += "| field | kind | meaning |\n|---|---|---|\n"
        for path, value in fields(document()):
            told = meaning(name, path)
            if told is None:
                logger.warning("json_fields.py says nothing of the field %s of %s", path, name)
            text += f"| `{path}` | {kind(value)} | {told} |\n"
    return text


def kind(value: Any) -> str:
    """Return what kind of JSON value it is, in words."""
    names = {bool: "true or false", str: "text", int: "whole number", float: "number"}
    if isinstance(value, list):
        inner = {"object" if isinstance(each, dict) else kind(each) for each in value}
        return f"list of {inner.pop()}s" if len(inner) == 1 else "list"
    return names.get(type(value), "null" if value is None else "object")


def write_pages(app: Sphinx) -> None:
    """Write the pages of the reference, and the parts of the page about the architecture."""
    parts = {
        "reference/cli.rst": cli_page(),
        "reference/json.md": json_page(),
        "api/layers.svg": layers_figure.svg(),
        "api/layers.txt": layers_figure.table(),
        "api/limits.txt": limits_tables.constants(),
        "api/times.txt": limits_tables.times(),
        "api/peers.txt": peers.overview(),
        "api/peer_versions.txt": peers.versions(),
        "api/peer_commands.txt": peers.commands(),
    }
    for name, text in parts.items():
        path = Path(app.srcdir) / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
