"""The files of the data sets, found or downloaded once and always checked; and their bundles."""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pooch
from sklearn.utils import Bunch

DATA_HOME_VARIABLE = "SKLEAK_DATA"
DOWNLOAD_TIMEOUT = 60.0  # seconds without an answer, not for the whole file


@dataclass(frozen=True)
class SourceFile:
    """A file of the data home and where it comes from."""

    # Name under the data home, maybe in a folder of it. ``.gz`` is unpacked to bytes, ``.npz`` to a
    # dict of arrays, ``.tar.gz`` to one of arrays of bytes, any other file is taken as it is.
    name: str
    # Public source. A ``.gz`` file stands there as it is, or in the old Unix format ``.Z``, and may
    # also lie in the data home as it is downloaded, or unpacked.
    url: str
    # Hexadecimal SHA-256 of the unpacked content (see :func:`content_hash`): containers of the same
    # content differ from one copy to the next
    sha256: str
    # The hash is that of the file as it stands at the source: where nobody publishes another
    packed: bool = False

    @property
    def names(self) -> list[str]:
        """Names under which the file is looked for; it is downloaded under the second."""
        folder, slash, _ = self.name.rpartition("/")
        downloaded = folder + slash + self.url.rsplit("/", 1)[-1]
        return [self.name, downloaded, downloaded.removesuffix(".Z")]


def _registry() -> dict[str, SourceFile]:
    """Read the table of all files, by their names."""
    lines = Path(__file__).with_name("registry.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {name: SourceFile(name, url, sha, what == "file") for name, what, sha, url in rows}


SOURCES = _registry()


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Folder that holds the data files; it need not exist."""
    if data_home is not None and not isinstance(data_home, str | os.PathLike):
        raise TypeError(
            f"`data_home` must be None, a string or a path; got {type(data_home).__name__}. "
            "Pass the folder that holds the data files."
        )
    chosen = data_home or os.environ.get(DATA_HOME_VARIABLE) or Path("~", "skleak_data")
    return Path(chosen).expanduser()


def content_hash(content: bytes | dict[str, np.ndarray]) -> str:
    """Hexadecimal SHA-256 of bytes, or of the bytes of arrays in the order of their names.

    Returns 64 hexadecimal digits.
    """
    parts: list[Any] = [content]
    if isinstance(content, dict):
        parts = [np.ascontiguousarray(content[name]) for name in sorted(content)]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def load_file(
    source: SourceFile,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
) -> Any:
    """Unpacked and checked content of a file of the data home.

    Returns: a dict for ``.npz`` files.
    """
    home = get_data_home(data_home)
    for path in (home / name for name in source.names):
        if path.exists():
            remedy = f"Delete the file to download it again from {source.url}, or replace it."
            return _checked(source, path, remedy)
    if not download_if_missing:
        raise FileNotFoundError(_how_to_supply(source, home, "`download_if_missing` is False"))
    name = source.names[1]
    # No hash of the file as it is downloaded is known.
    shelf = pooch.create(home, base_url="", registry={name: None}, urls={name: source.url})
    downloader = pooch.HTTPDownloader(timeout=DOWNLOAD_TIMEOUT)
    try:
        path = Path(shelf.fetch(name, downloader=downloader))
    except OSError as error:
        reason = f"it could not be downloaded ({type(error).__name__}: {error})"
        raise FileNotFoundError(_how_to_supply(source, home, reason)) from error
    try:
        return _checked(source, path, _how_to_supply(source, home, "nothing was stored"))
    except ValueError:
        path.unlink()
        raise


def _how_to_supply(source: SourceFile, home: Path, reason: str) -> str:
    return (
        f"{source.name} is not in {home} and {reason}. Get {source.url} and put it there as "
        f"{source.names[1]}, or name a folder that holds it through `data_home` or the environment "
        f"variable {DATA_HOME_VARIABLE}."
    )


def _checked(source: SourceFile, path: Path, remedy: str) -> Any:
    """Return the content of a file if it has the expected hash."""
    raw = path.read_bytes()
    what = "be the file" if source.packed else "hold content"
    expected = f"{path} must {what} with SHA-256 {source.sha256}"
    if source.packed and (got := content_hash(raw)) != source.sha256:
        raise ValueError(f"{expected}; got {got}. {remedy}")
    try:
        content = _unpack(path.name, raw)
        got = source.sha256 if source.packed else content_hash(content)
    except Exception as error:  # whatever the unpacker objects to, it is not the expected file
        raise ValueError(
            f"{expected}; got a file with SHA-256 {content_hash(raw)} that cannot be unpacked "
            f"({error}). {remedy}"
        ) from error
    if got != source.sha256:
        raise ValueError(f"{expected}; got {got}. {remedy}")
    return content


def _unpack(name: str, raw: bytes) -> bytes | dict[str, np.ndarray]:
    if name.endswith(".tar.gz"):  # in memory: no path of the archive is ever written to
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as archive:
            files = [(member.name, archive.extractfile(member)) for member in archive.getmembers()]
            return {
                path.rsplit("/", 1)[-1]: np.frombuffer(file.read(), np.uint8)
                for path, file in files
                if file is not None
            }
    if name.endswith(".gz"):
        return gzip.decompress(raw)
    if name.endswith(".Z"):  # of the old Unix `compress`, which Python does not read
        if shutil.which("gzip") is None:
            raise OSError("that takes the program `gzip`; install it, or unpack the file elsewhere")
        gunzip = subprocess.run(["gzip", "-dc"], input=raw, capture_output=True, check=True)
        return gunzip.stdout
    if name.endswith(".npz"):
        if not zipfile.is_zipfile(io.BytesIO(raw)):
            raise zipfile.BadZipFile("not an npz archive")
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    return raw


def bundle(
    name: str,
    X: Any,
    y: Any,
    feature_names: list[str],
    target_name: str,
    as_frame: bool,
    return_X_y: bool,
    **details: Any,
) -> Any:
    """Return ``(X, y)``, or a Bunch with the fields of scikit-learn's ``fetch_openml``.

    Frames, or writable arrays: of float64 where every column is numeric, else of objects.
    """
    if as_frame:
        X, y = pd.DataFrame(X, columns=feature_names), pd.Series(y, name=target_name)
    else:
        X, y = (np.require(values, requirements=["O", "W"]) for values in (X, y))
    if return_X_y:
        return X, y
    descr = Path(__file__).with_name("descr") / f"{name}.rst"
    return Bunch(
        data=X,
        target=y,
        frame=pd.concat([X, y], axis=1) if as_frame else None,
        feature_names=feature_names,
        target_names=[target_name],
        DESCR=descr.read_text(encoding="utf-8"),
        **details,
    )
