"""Options of a command from a YAML file: its keys are their names, and the command line wins."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

# Options that name files, which lie beside the file of options where they are relative.
_FILES = ("data", "out", "checkpoint", "sarif", "summary")
_MAX_SHOWN = 40


@dataclass(frozen=True)
class Entry:
    """A value of the file, as text or a list of texts, and where it stands."""

    key: str  # Name of the option
    line: int  # From 1
    texts: tuple[str, ...]
    is_list: bool
    flag: bool | None  # The value, where it is true or false


@dataclass(frozen=True)
class Config:
    """A file of options."""

    path: Path
    entries: tuple[Entry, ...]

    def line_of(self, *keys: str) -> int:
        """Return the line of the first of these keys that is there, else the first line."""
        lines = {entry.key: entry.line for entry in self.entries}
        return next((lines[key] for key in keys if key in lines), 1)


def parse(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> tuple[argparse.Namespace, Config | None]:
    """Parse a command line, and fill in what a file of options says beside it."""
    given = sys.argv[1:] if argv is None else list(argv)
    command = _command(parser, given)
    path = None if command is None else _path(given)
    if command is None or path is None:
        return parser.parse_args(given), None
    config = read_config(path)
    values = _values(command, config)
    for action in command._actions:
        if action.dest in values:
            # What is not typed stays out of the result, and is taken from the file.
            action.required, action.default = False, argparse.SUPPRESS
            if not action.option_strings:
                action.nargs = "?"
    arguments = parser.parse_args(given)
    for name, value in values.items():
        if not hasattr(arguments, name):
            setattr(arguments, name, value)
    return arguments, config


def _command(
    parser: argparse.ArgumentParser, given: Sequence[str]
) -> argparse.ArgumentParser | None:
    """Return the parser of the command that is called, where it takes a file of options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and given:
            found = action.choices.get(given[0])
            if found is not None and "--config" in found._option_string_actions:
                return found
    return None


def _path(given: Sequence[str]) -> str | None:
    alone = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    alone.add_argument("--config")
    try:
        found = alone.parse_known_args(given[1:])[0].config
    except argparse.ArgumentError:  # without its value: the whole parser says so
        return None
    return None if found is None else str(found)


def read_config(path: str) -> Config:
    """Read a file of options; what cannot be one is told with its line."""
    import yaml

    file = Path(path).expanduser()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ValueError(f"--config: cannot read {path!r}: {why}") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        why = getattr(error, "problem", None) or "it is not YAML"
        raise ValueError(f"{path}{where}: cannot be read as YAML: {why}") from error
    if not isinstance(root, yaml.MappingNode):
        raise ValueError(f"{path}: expected a line for each option, such as `target: income`")
    entries = tuple(_entry(path, key, value) for key, value in root.value)
    for k, entry in enumerate(entries):
        if first := [other for other in entries[:k] if other.key == entry.key]:
            raise ValueError(
                f"{path}, line {entry.line}: `{entry.key}` was set in line {first[0].line} before. "
                "Keep one of the two"
            )
    return Config(file, entries)


def _entry(path: str, key: Any, value: Any) -> Entry:
    """Take the texts as they are written: a column called "no" is no truth value."""
    import yaml

    line = key.start_mark.line + 1
    is_list = isinstance(value, yaml.SequenceNode)
    nodes = value.value if is_list else [value]
    if not all(isinstance(node, yaml.ScalarNode) for node in (key, *nodes)):
        name = f"`{key.value}`" if isinstance(key, yaml.ScalarNode) else "an option"
        raise ValueError(f"{path}, line {line}: {name} must be a value, or a list of values")
    if any(node.tag.endswith(":null") for node in nodes):
        raise ValueError(
            f"{path}, line {line}: `{key.value}` has no value. Give one, or leave out the line"
        )
    flag = None
    if not is_list and value.tag.endswith(":bool"):
        flag = yaml.SafeLoader.bool_values[value.value.lower()]
    return Entry(str(key.value), line, tuple(node.value for node in nodes), is_list, flag)


def _values(command: argparse.ArgumentParser, config: Config) -> dict[str, Any]:
    options = dict(_options(command))
    values: dict[str, Any] = {}
    for entry in config.entries:
        where = f"{config.path}, line {entry.line}"
        if entry.key not in options:
            raise ValueError(f"{where}: there is no option `{entry.key}`. {_near(entry, options)}")
        try:
            values[options[entry.key].dest] = _value(options[entry.key], entry, config.path.parent)
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"{where}: `{entry.key}`: {error}") from error
    return values


def _options(command: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    for action in command._actions:
        name = action.option_strings[-1].removeprefix("--") if action.option_strings else ""
        if name not in ("help", "config"):
            yield name or action.dest, action


def _near(entry: Entry, options: dict[str, argparse.Action]) -> str:
    near = get_close_matches(entry.key.replace("_", "-"), options, 1, 0.6)
    if near:
        return f"Did you mean `{near[0]}`?"
    return f"The options are {', '.join(sorted(options)[:_MAX_SHOWN])}"


def _value(action: argparse.Action, entry: Entry, folder: Path) -> Any:
    if action.nargs == 0:
        if entry.flag is None:
            raise argparse.ArgumentTypeError(
                f"must be true or false; got {_shown(entry)}. Leave out the line for false"
            )
        return entry.flag
    several = action.nargs == "+"
    if entry.is_list and not several:
        raise argparse.ArgumentTypeError(f"must be a single value; got {_shown(entry)}")
    if several and not entry.texts:
        raise argparse.ArgumentTypeError("must hold a value, or more; got an empty list")
    texts = entry.texts
    if action.dest in _FILES or (action.dest == "model" and "." in Path(texts[0]).name):
        texts = tuple(_beside(text, folder, action.dest) for text in texts)
    values = [_single(action, text) for text in texts]
    return values if several else values[0]


def _shown(entry: Entry) -> str:
    return f"a list of {len(entry.texts)}" if entry.is_list else repr(entry.texts[0])


def _beside(text: str, folder: Path, name: str) -> str:
    """Read a relative path from the folder of the file of options."""
    if name == "model" and ":" in text:  # module:factory
        return text
    path = Path(text).expanduser()
    joined = str(path if path.is_absolute() else folder / path)
    return joined + ("/" if text.endswith("/") else "")


def _single(action: argparse.Action, text: str) -> Any:
    read: Any = action.type or str
    try:
        value = read(text)
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(f"cannot be {text!r}") from error
    if action.choices is not None and value not in action.choices:
        raise argparse.ArgumentTypeError(
            f"must be one of {', '.join(map(str, action.choices))}; got {text!r}"
        )
    return value
