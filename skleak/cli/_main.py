"""Run a command, and turn what goes wrong into one line and an exit code."""

from collections.abc import Sequence

from skleak.cli._options import Audit, Demo, UsageError, parse
from skleak.cli._reading import check_columns, check_file, read_names
from skleak.cli._terminal import complain, one_line, say

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
        0 on success, 2 for arguments or data that cannot be used, 3 where the limit of
        ``--fail-above`` is not kept or nothing tells, 130 where the user interrupted.

    Examples
    --------
    >>> main(["--version"])
    skleak ...
    0
    """
    try:
        command, options = parse(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    except UsageError as error:
        complain(error)
        return _UNUSABLE
    try:
        if not command:
            say(options)
            return 0
        return _run(options)
    except KeyboardInterrupt as stop:
        complain(f"skleak {command}: {str(stop) or 'interrupted'}")
        return _INTERRUPTED
    except MemoryError:
        complain(f"skleak {command}: error: not enough memory. Attack fewer with --max-records")
    except (ValueError, TypeError, ArithmeticError, ImportError, OSError) as error:
        complain(f"skleak {command}: error: {one_line(error) or type(error).__name__}")
    return _UNUSABLE


def _run(options: Audit | Demo) -> int:
    # Imported here: neither help nor mistakes should wait for what computes.
    if not isinstance(options, Audit):
        from skleak.cli._demo import demo

        return demo(options)
    file = check_file(options.data)
    check_columns(read_names(file), options)
    from skleak.cli._audit import audit

    return audit(options, file)
