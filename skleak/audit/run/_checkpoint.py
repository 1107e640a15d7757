"""A file of the finished cells of an audit, so that an interrupted one goes on where it was."""

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from skleak.audit.tables._design import Outcome
from skleak.utils._files import write_confidential
from skleak.utils._typing import Array

_HEADER = "header"
# Names of arrays that are no cells: what games are computed from.
_PART = "parts:"
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
    audit are refused. `identity` is what decides the parts: arrays that a game is made from, which
    are kept as they are computed, before its fingerprint is known.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        fingerprint: Mapping[str, str],
        identity: str = "",
    ) -> None:
        self.path = Path(path).expanduser()
        self.fingerprint, self.identity = dict(fingerprint), identity
        self.parts: dict[str, Array] = {}
        self._before: tuple[dict[str, Any], dict[str, Array]] | None = None
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
        header, arrays = self._read(parts=False)
        if not header["fingerprint"] and header.get("identity") == self.identity != "":
            return {}, None  # of this audit, before its game was known
        self._check(header["fingerprint"])
        cells: dict[str, Outcome] = {}
        for name, array in arrays.items():
            key, _, part = name.rpartition("/")
            cells.setdefault(key, {})[part] = array
        return cells, header["entropy"]

    def load_parts(self) -> bool:
        """Read the parts that an audit of the same identity left; False where it was another."""
        if not self.path.exists():
            return True
        header, arrays = self._read(parts=True)
        if header.get("identity") != self.identity or not self.identity:
            return False
        self._before = header, {k: v for k, v in arrays.items() if not k.startswith(_PART)}
        self.parts = {k.removeprefix(_PART): v for k, v in arrays.items() if k.startswith(_PART)}
        return True

    def save(self, cells: Mapping[str, Outcome], entropy: list[int]) -> None:
        """Write all finished cells; the file is whole at any time, and its owner's alone."""
        header = {"fingerprint": self.fingerprint, "entropy": entropy, "identity": self.identity}
        found = cells.items()
        self._write(header, {f"{k}/{part}": v for k, each in found for part, v in each.items()})

    def save_parts(self, entropy: list[int]) -> None:
        """Write the parts beside what the file holds; before the game is known, they are all."""
        empty = {"fingerprint": {}, "entropy": entropy, "identity": self.identity}
        self._write(*(self._before or (empty, {})))

    def _read(self, *, parts: bool) -> tuple[dict[str, Any], dict[str, Array]]:
        try:
            # Opened here: NumPy leaves a broken archive open.
            with self.path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                header = json.loads(str(file[_HEADER]))
                header |= {"fingerprint": dict(header["fingerprint"])}
                header |= {"entropy": list(header["entropy"])}
                names = [n for n in file.files if parts or not n.startswith(_PART)]
                return header, {name: file[name] for name in names if name != _HEADER}
        except _BROKEN as error:
            raise ValueError(
                f"`checkpoint` {str(self.path)!r} is not a checkpoint of an audit ({error}). "
                "Remove it, or name another file."
            ) from error

    def _write(self, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        def fill(file: BinaryIO) -> None:
            np.savez_compressed(file, **{_HEADER: np.array(json.dumps(header)), **arrays})  # type: ignore[arg-type]
            if not self.parts or not file.readable():  # a pipe is not gone back in
                return
            # As they are: numbers like these do not shrink, and there may be many.
            with zipfile.ZipFile(file, "a") as archive:
                for name, array in self.parts.items():
                    with archive.open(f"{_PART}{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)

        write_confidential(self.path, fill)

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
