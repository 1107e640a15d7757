"""A file of the finished cells of an audit, so that an interrupted one goes on where it was."""

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from skleak.audit.tables._design import Outcome
from skleak.utils._files import write_confidential
from skleak.utils._typing import Array

_HEADER = "header"
_BROKEN = (
    *(OSError, EOFError, KeyError, TypeError, ValueError),
    *(AttributeError, zipfile.BadZipFile, zlib.error),
)


def stored_entropy(path: "str | os.PathLike[str]") -> list[int] | None:
    """Entropy of the seeds of the audit that a file is of; None where it tells none."""
    try:
        with Path(path).expanduser().open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return [int(word) for word in json.loads(str(file[_HEADER]))["entropy"]]
    except _BROKEN:  # which `Checkpoint.load` tells
        return None


class Checkpoint:
    """Finished cells of one audit, on disk. Confidential, as it tells what attacks got right.

    The folder of the file must exist. `fingerprint` is what decides the results; cells of another
    audit are refused.
    """

    def __init__(self, path: "str | os.PathLike[str]", fingerprint: Mapping[str, str]) -> None:
        self.path = Path(path).expanduser()
        self.fingerprint = dict(fingerprint)
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise ValueError(
                f"`checkpoint` must be a file in a folder that exists; got {str(self.path)!r}. "
                "Create the folder first."
            )

    def load(self) -> tuple[dict[str, Outcome], list[int] | None]:
        """Read the finished cells and the entropy of the seeds.

        Returns ``cells``: outcomes by key; empty where there is no file yet; ``entropy``.
        """
        if not self.path.exists():
            return {}, None
        try:
            # Opened here: NumPy leaves a broken archive open.
            with self.path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                header = json.loads(str(file[_HEADER]))
                fingerprint, entropy = dict(header["fingerprint"]), list(header["entropy"])
                arrays = {name: file[name] for name in file.files if name != _HEADER}
        except _BROKEN as error:
            raise ValueError(
                f"`checkpoint` {str(self.path)!r} is not a checkpoint of an audit ({error}). "
                "Remove it, or name another file."
            ) from error
        self._check(fingerprint)
        cells: dict[str, Outcome] = {}
        for name, array in arrays.items():
            key, _, part = name.rpartition("/")
            cells.setdefault(key, {})[part] = array
        return cells, entropy

    def save(self, cells: Mapping[str, Outcome], entropy: list[int]) -> None:
        """Write all finished cells; the file is whole at any time, and its owner's alone."""
        header = json.dumps({"fingerprint": self.fingerprint, "entropy": entropy})
        arrays: dict[str, Array] = {_HEADER: np.array(header)}
        for key, outcome in cells.items():
            arrays |= {f"{key}/{part}": array for part, array in outcome.items()}
        write_confidential(self.path, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]

    def _check(self, found: Mapping[str, str]) -> None:
        for name, value in self.fingerprint.items():
            if found.get(name) != value:
                raise ValueError(
                    f"`checkpoint` {str(self.path)!r} is of another audit: its {name} differs "
                    f"(expected {_short(value)}, got {_short(found.get(name))}). Remove the "
                    "file, or name another one."
                )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
