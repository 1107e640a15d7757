"""Public files that stand in the old Unix ``compress`` format (.Z), which Python does not read."""

import gzip
import os
from http.client import HTTPException
from typing import Any
from urllib.request import urlopen

from skleak.datasets._cache import (
    DATA_HOME_VARIABLE,
    DOWNLOAD_TIMEOUT,
    SourceFile,
    _store,
    content_hash,
    get_data_home,
    load_file,
)

__all__ = ["load_unix_compressed", "uncompress"]

MAGIC = b"\x1f\x9d"
CLEAR, FIRST_BITS = 256, 9


def load_unix_compressed(
    source: SourceFile,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
) -> Any:
    """Unpacked and checked content of a ``.gz`` file whose public copy is a ``.Z`` file.

    Parameters
    ----------
    source : SourceFile
        Its name ends in ``.gz`` and its address in ``.Z``.
    data_home : str or path-like, default=None
        As of `load_file`.
    download_if_missing : bool, default=True
        Whether a missing file is downloaded, and stored in the data home with gzip.

    Returns
    -------
    bytes

    Raises
    ------
    FileNotFoundError
        Where the file is missing and is not or cannot be downloaded and stored.
    ValueError
        Where the content, local or downloaded, has another hash than expected.

    Examples
    --------
    >>> source = SourceFile("a.gz", "https://example.org/a.Z", content_hash(b"ab"))
    >>> load_unix_compressed(source, "no/such/folder", download_if_missing=False)
    Traceback (most recent call last):
        ...
    FileNotFoundError: a.gz is not in ...
    """
    path = get_data_home(data_home) / source.name
    if path.exists():
        return load_file(source, data_home, download_if_missing=False)
    remedy = (
        f"Get {source.url}, unpack it with `gzip -d`, compress it with gzip and put it there as "
        f"{source.name}, or name a folder that holds it through `data_home` or the environment "
        f"variable {DATA_HOME_VARIABLE}."
    )
    missing = f"{source.name} is not in {path.parent} and"
    if not download_if_missing:
        raise FileNotFoundError(f"{missing} `download_if_missing` is False. {remedy}")
    try:
        with urlopen(source.url, timeout=DOWNLOAD_TIMEOUT) as response:
            raw = response.read()
        content = _checked(source, raw, f"{missing} nothing was stored. {remedy}")
        _store(path, gzip.compress(content, mtime=0))  # no time stamp: equal content, equal file
    except (OSError, HTTPException) as error:
        reason = f"it could not be downloaded ({type(error).__name__}: {error})"
        raise FileNotFoundError(f"{missing} {reason}. {remedy}") from error
    return content


def _checked(source: SourceFile, raw: bytes, remedy: str) -> bytes:
    expected = f"{source.url} must hold content with SHA-256 {source.sha256}"
    try:
        content = uncompress(raw)
    except ValueError as error:
        raise ValueError(f"{expected}; got a file that cannot be unpacked. {remedy}") from error
    if content_hash(content) != source.sha256:
        raise ValueError(f"{expected}; got {content_hash(content)}. {remedy}")
    return content


def uncompress(raw: bytes) -> bytes:
    """Undo Unix ``compress``: LZW with codes of 9 to at most 16 bits.

    Parameters
    ----------
    raw : bytes
        A whole ``.Z`` file.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        Where it is no such file, or is damaged.

    Notes
    -----
    Codes are packed from the least significant bit, in groups of eight. Where the number of bits
    changes, the rest of the group is padding. Code 256 forgets all words. Files of before 1985,
    without that code, are refused.

    Examples
    --------
    >>> uncompress(bytes.fromhex("1f9d9061c40404"))
    b'abab'
    """
    if (
        raw[:2] != MAGIC
        or len(raw) < 3
        or not (raw[2] & 0x80 and FIRST_BITS <= raw[2] & 0x1F <= 16)
    ):
        raise ValueError("A .Z file must start with 1f 9d and a byte from 89 to 90; got another.")
    most_bits = raw[2] & 0x1F
    words = [bytes([byte]) for byte in range(CLEAR)] + [b""]
    n_first, pieces, last = len(words), [], b""
    bits, position, group = FIRST_BITS, 24, 24  # positions and starts of groups, in bits
    while position + bits <= 8 * len(raw):
        start = position >> 3
        window = int.from_bytes(raw[start : start + 4], "little") >> (position & 7)
        code = window & ((1 << bits) - 1)
        position += bits
        if code == CLEAR:
            del words[n_first:]
            position = group = _next_group(position, group, bits)
            bits, last = FIRST_BITS, b""
            continue
        if code > len(words) or (code == len(words) and not last):
            raise ValueError(f"A .Z file must use words that it has built; got code {code}.")
        word = words[code] if code < len(words) else last + last[:1]
        pieces.append(word)
        if last and len(words) < 1 << most_bits:
            words.append(last + word[:1])
            if len(words) == 1 << bits and bits < most_bits:
                position = group = _next_group(position, group, bits)
                bits += 1
        last = word
    return b"".join(pieces)


def _next_group(position: int, group: int, bits: int) -> int:
    """First bit after the group of eight codes that was begun."""
    width = 8 * bits
    return group + -(-(position - group) // width) * width
