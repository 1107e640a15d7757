"""Confidential files: there whole or not at all, and only their owner may read them."""

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

# The owner alone; the umask may take more away.
_OWNER = 0o600
# Windows would write "\r\n" for "\n".
_BINARY = getattr(os, "O_BINARY", 0)


def write_confidential(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file that is there whole or not at all, and that only its owner may read.

    A file that is there already keeps a stricter mode, and loses a laxer one. Pipes and devices
    are written to as they are.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():  # a pipe or a terminal; a folder raises
        with target.open("wb") as stream:
            fill(stream)
        return
    draft = target.with_name(f".{secrets.token_hex(8)}.skleak")
    try:
        # Made with its mode, so that at no moment anybody else may open it.
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, _OWNER)
        with os.fdopen(handle, "w+b") as file:
            fill(file)
        if target.exists():
            mode = stat.S_IMODE(draft.stat().st_mode) & stat.S_IMODE(target.stat().st_mode)
            draft.chmod(mode)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
