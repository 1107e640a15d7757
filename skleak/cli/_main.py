"""Run a command, and turn what goes wrong into one line and an exit code."""

import argparse
from collections.abc import Sequence

from skleak.cli._arguments import build_parser, data_file
from skleak.cli._config import Config, parse
from skleak.cli._terminal import complain, flush, one_line, say

_UNUSABLE, _INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments without the name of the program; None takes those of the process.

    Returns
    -------
    int
        0 on success, 2 for arguments or data that cannot be used, 3 where ``--fail-above`` is
        exceeded, 130 where the user interrupted.

    Examples
    --------
    >>> main(["--version"])
    skleak ...
    0
    """
    parser = build_parser()
    try:
        arguments, config = parse(parser, argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    except ValueError as error:
        complain(f"skleak: error: {one_line(error)}")
        return _UNUSABLE
    if arguments.command is None:
        say(parser.format_help().rstrip())
        return 0
    command = arguments.command
    try:
        code = _run(arguments, config)
    except KeyboardInterrupt as stop:
        complain(f"skleak {command}: {str(stop) or 'interrupted'}")
        return _INTERRUPTED
    except (ValueError, TypeError, ArithmeticError, ImportError, OSError, MemoryError) as error:
        complain(f"skleak {command}: error: {_told(error)}")
        return _UNUSABLE
    flush()
    return code


def _run(arguments: argparse.Namespace, config: Config | None) -> int:
    # Here, as `--help` and `--version` need none of it.
    other = ("command", "config")
    options = {name: value for name, value in vars(arguments).items() if name not in other}
    if arguments.command == "demo":
        from skleak.cli._demo import demo

        return demo(**options)
    data_file(arguments.data)  # told before anything takes seconds to import
    from skleak.cli._audit import Options, audit

    asked_in = None
    if config is not None:
        asked_in = (config.path, config.line_of("noise-scale", "sensitive", "membership", "target"))
    return audit(Options(**options, asked_in=asked_in))


def _told(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return (
            "not enough memory for this audit. Attack fewer records with --max-records, or take "
            "fewer --n-jobs"
        )
    return one_line(error) or type(error).__name__
