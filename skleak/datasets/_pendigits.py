"""Handwritten digits as movements of a pen, with the person who wrote them (UCI PenDigits)."""

import os
import re
from typing import Any

import numpy as np
import pandas as pd

from skleak.datasets._cache import SOURCES, bundle, load_file
from skleak.utils._arguments import check_choice
from skleak.utils._typing import FloatArray, IntArray

SUBSETS = ["train", "test", "all"]
N_WRITERS, N_TRAIN_WRITERS, N_POINTS = 44, 30, 32
WRITER, TARGET = "writer", "digit"
SAMPLE = re.compile(rb'\.SEGMENT DIGIT +[\d-]+ \? "(\d)"\s+\.COMMENT +\d+ +(\d+)[^\n]*\n')
PEN_DOWN, PEN_UP = b".PEN_DOWN", b".PEN_UP"


def fetch_pendigits(
    *,
    subset: str = "all",
    writers: bool = True,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
    as_frame: bool = True,
    download_if_missing: bool = True,
) -> Any:
    """Load the PenDigits data: digits from the movement of a pen, and who held it.

    The files ``pendigits-orig.tra.gz`` and ``pendigits-orig.tes.gz`` are looked for in the data
    home and else downloaded. Their uncompressed content is checked by SHA-256.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        The part of the source: "train" has writers 1 to 30, "test" writers 31 to 44, "all" is the
        training part followed by the test part. No writer is in both parts, so a study of the
        writers splits all of it at random.
    writers : bool, default=True
        Give the writer as 44 one-hot columns ``writer_1`` to ``writer_44``.
    data_home : str or path-like, default=None
        Folder of the data files. None takes the environment variable ``SKLEAK_DATA``, and where
        that is unset ``~/skleak_data``.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Return a DataFrame and a Series; else arrays.
    download_if_missing : bool, default=True
        False raises an error where a file is missing.

    Returns
    -------
    Bunch or tuple
        ``data`` of float64 and shape (n_samples, 110), or (n_samples, 66) without writers, with
        7,494 training and 3,498 test samples: ``x_0`` to ``x_31``, ``y_0`` to ``y_31`` in [0, 1],
        ``strokes``, ``duration`` and the writers (see ``DESCR``); ``target``, the digits, of int64
        and shape (n_samples,); ``writer``, an array of int64 and shape (n_samples,), 1 to 44;
        ``points``, the recorded points in pixels of the tablet, of float64 and shape
        (n_points, 2), those of one digit after those of another, ``duration`` of them each;
        ``frame``, the raw table, or None: the columns of ``data`` with one categorical column
        ``writer`` in place of the one-hot ones (none of it without writers), then ``digit``;
        ``feature_names``, ``target_names``, ``categorical_features``, ``one_hot_blocks``
        (``writer`` to the names of its one-hot columns), ``sensitive`` (``writer``) and ``DESCR``
        (source, license, columns).

    Raises
    ------
    FileNotFoundError
        Where a file is neither in the data home nor can be downloaded; says what to put where.
    ValueError
        Where the content of a file is not the expected one, or where ``subset`` is unknown.

    Examples
    --------
    >>> from skleak.datasets import fetch_pendigits
    >>> raw = fetch_pendigits().frame  # doctest: +SKIP
    >>> raw.groupby("writer")["duration"].mean()  # doctest: +SKIP
    >>> fetch_pendigits(data_home="no/such/folder", download_if_missing=False)
    Traceback (most recent call last):
        ...
    FileNotFoundError: pendigits-orig.tra.gz is not in ...
    """
    check_choice("subset", subset, SUBSETS)
    # Each file counts its writers from 1.
    both = [("pendigits-orig.tra.gz", 0), ("pendigits-orig.tes.gz", N_TRAIN_WRITERS)]
    parts = [
        _parse(load_file(SOURCES[name], data_home, download_if_missing), offset)
        for name, offset in {"train": both[:1], "test": both[1:], "all": both}[subset]
    ]
    samples = pd.concat([part for part, _ in parts], ignore_index=True)
    raw = pd.concat([_features(*part) for part in parts], ignore_index=True)
    X, y, blocks = raw, samples[TARGET], {}
    if writers:
        column = pd.Categorical(samples[WRITER], categories=np.arange(1, N_WRITERS + 1))
        indicators = pd.get_dummies(column, prefix=WRITER, dtype=np.float64)
        X, blocks = pd.concat([raw, indicators], axis=1), {WRITER: list(indicators)}
        raw = raw.assign(**{WRITER: column})
    result = bundle(
        "pendigits",
        X,
        y,
        X.columns.tolist(),
        TARGET,
        as_frame,
        return_X_y,
        writer=samples[WRITER].to_numpy(copy=True),
        points=np.concatenate([points for _, points in parts]),
        categorical_features=list(blocks),
        one_hot_blocks=blocks,
        sensitive=list(blocks),
    )
    if as_frame and not return_X_y:
        result.frame = raw.assign(**{TARGET: y})
    return result


def _parse(content: bytes, offset: int) -> tuple[pd.DataFrame, FloatArray]:
    """Return the samples of one UNIPEN file and the points of all, (n_points, 2), in pixels.

    A sample is a line ``.SEGMENT DIGIT 3-4 ? "7"`` with its label, a line ``.COMMENT 7 12 224``
    with the label again, the writer and a counter, and then its strokes: lines ``x  y`` between
    ``.PEN_DOWN`` and ``.PEN_UP``. ``offset`` is added to its writer numbers; ``duration`` is the
    number of its points, which follow those of the sample before.
    """
    # Text before the first sample, then label, writer and strokes of each.
    pieces = SAMPLE.split(content)
    rows, coordinates = [], []
    for digit, writer, piece in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        drawn = [stroke.partition(PEN_UP)[0] for stroke in piece.split(PEN_DOWN)[1:]]
        numbers = b" ".join(drawn).split()
        rows.append((int(digit), int(writer) + offset, len(drawn), len(numbers) // 2))
        coordinates += numbers
    samples = pd.DataFrame(rows, columns=[TARGET, WRITER, "strokes", "duration"], dtype=np.int64)
    return samples, np.array(coordinates, dtype=np.float64).reshape(-1, 2)


def _features(samples: pd.DataFrame, points: FloatArray) -> pd.DataFrame:
    """Movement of the pen, number of strokes and duration, all of float64."""
    lengths = samples["duration"].to_numpy()
    path = _resampled(_normalized(points, lengths), lengths)
    names = [f"{axis}_{k}" for axis in "xy" for k in range(N_POINTS)]
    table = pd.DataFrame(path.transpose(0, 2, 1).reshape(len(path), -1), columns=names)
    return pd.concat([table, samples[["strokes", "duration"]].astype(np.float64)], axis=1)


def _normalized(points: FloatArray, lengths: IntArray) -> FloatArray:
    """Points of every sample in a box that starts at 0 and whose larger side is 1.

    A sample without extent is at 0.
    """
    starts = np.cumsum(lengths) - lengths
    low = np.minimum.reduceat(points, starts)
    side = (np.maximum.reduceat(points, starts) - low).max(axis=1, keepdims=True)
    side[side == 0.0] = 1.0
    return (points - np.repeat(low, lengths, axis=0)) / np.repeat(side, lengths, axis=0)


def _resampled(points: FloatArray, lengths: IntArray) -> FloatArray:
    """Points of every sample equidistant along its path, of shape (n_samples, 32, 2).

    The path is the polygon through all points; the first and the last point are kept. A path
    without length is its point, 32 times.
    """
    n_samples = len(lengths)
    ends = np.cumsum(lengths) - 1
    starts = ends - lengths + 1
    steps = np.zeros(len(points))
    steps[1:] = np.hypot(*np.diff(points, axis=0).T)
    steps[starts] = 0.0
    along = np.cumsum(steps)
    way = along - np.repeat(along[starts], lengths)
    total = way[ends]
    # All paths at once: that of sample i runs from 2 i to 2 i + 1 on one axis, or stays at 2 i.
    sample = 2.0 * np.arange(n_samples)
    way = np.repeat(sample, lengths) + way / np.repeat(np.where(total > 0.0, total, 1.0), lengths)
    wanted = sample[:, None] + np.where(total[:, None] > 0.0, np.linspace(0.0, 1.0, N_POINTS), 0.0)
    return np.stack([np.interp(wanted, way, points[:, axis]) for axis in (0, 1)], axis=2)
