"""Errors of a ledger's file in words: what happened, what it means, what to do."""

import errno
import os
import sqlite3

_RESTORE = "Restore the file from a backup; nothing was recorded, so release nothing."


def never_made(path: str) -> FileNotFoundError:
    """Error for a path at which there is no ledger to open."""
    return FileNotFoundError(
        f"There is no ledger {path}. Opening does not make one, as it would be without ceilings "
        "and without past releases: make it once with LeakageLedger(path, max_leakage=...). "
        "A relative path starts in the current folder."
    )


def lost(path: str, what: str) -> FileNotFoundError:
    """Error for a ledger that was there before."""
    return FileNotFoundError(
        f"The ledger {path} {what}, and with it what was released. Nothing may be released. Put "
        "the file back before fitting again."
    )


def not_a_ledger(path: str, reason: str = "") -> ValueError:
    """Error for a file that LeakageLedger did not make, or that lost its contents."""
    return ValueError(
        f"{path} is not a leakage ledger{reason}. Give `path` a new file, or one that "
        "LeakageLedger made; if it was one, restore it from a backup."
    )


def damaged(what: str, expected: str) -> ValueError:
    """Error for an entry that cannot be trusted, for instance a total that is NaN."""
    return ValueError(f"The ledger is damaged: {what} must be {expected}. {_RESTORE}")


def explain(error: Exception, path: str, timeout: float, write: bool) -> Exception:
    """Error to raise in place of one of SQLite, by its primary code."""
    code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return TimeoutError(
                f"The ledger {path} stayed locked by another process for more than {timeout:g} s. "
                "Nothing was recorded. Try again, or raise `timeout`."
            )
        case sqlite3.SQLITE_NOTADB:
            return not_a_ledger(path)
        case sqlite3.SQLITE_FULL:
            return OSError(
                errno.ENOSPC,
                f"The disk of the ledger {path} is full. Nothing was recorded, so release "
                "nothing. Make room, and fit again.",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return _no_access(path, write)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM:
            return OSError(
                f"The ledger {path} could not be {'written' if write else 'read'} ({error}). "
                "Nothing may be released. Check the disk, and fit again."
            )
        case _:
            return ValueError(f"The ledger {path} is damaged ({error}). {_RESTORE}")


def _no_access(path: str, write: bool) -> PermissionError:
    if not write and os.path.exists(f"{path}-journal"):
        return PermissionError(
            f"A process was stopped while it wrote to the ledger {path}, and `{path}-journal` is "
            "needed to undo its half of an entry. Read the ledger once as a user who may write "
            "both the file and its folder."
        )
    done = "written: its file or folder is read-only" if write else "read: the file is protected"
    return PermissionError(
        f"The ledger {path} cannot be {done} for this user. Nothing was recorded, so release "
        "nothing. Run as the owner of the file, in a folder that may be written."
    )
