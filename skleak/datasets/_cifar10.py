"""CIFAR-10: small colour images of ten kinds of things, pixels in [0, 1]."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from skleak.datasets._cache import SourceFile, load_file
from skleak.datasets._images import SUBSETS, bundle_images, check_classes, select_images
from skleak.utils._arguments import check_choice
from skleak.utils._typing import Array

# The binary version: the one for Python is made of pickles, which run what is in them.
CIFAR10 = SourceFile(
    name="cifar-10-binary.tar.gz",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    packed=True,
)
FILES = {"train": [f"data_batch_{k}.bin" for k in range(1, 6)], "test": ["test_batch.bin"]}
COLOURS, SIDE = ("red", "green", "blue"), 32
TARGET = "class"
CLASS_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

DESCR = """\
CIFAR-10
========

50,000 training and 10,000 test images of 32 x 32 pixels in colour, in ten classes of equal size.

Source: https://www.cs.toronto.edu/~kriz/cifar.html, the binary version. Krizhevsky (2009),
Learning Multiple Layers of Features from Tiny Images.
Licence: none is stated; a subset of the withdrawn collection 80 Million Tiny Images.

Preprocessing: value / 255, 3,072 columns: the red values of the image in row-major order, the
green ones, the blue ones; ``data.reshape(-1, 3, 32, 32)`` gives images with channels first.
"""


def fetch_cifar10(
    classes: Iterable[int] | None = None,
    *,
    subset: str = "train",
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    download_if_missing: bool = True,
) -> Any:
    """Load images of chosen classes of CIFAR-10.

    The archive ``cifar-10-binary.tar.gz`` is looked for in the data home and else downloaded, 170
    MB. It is checked by SHA-256 and read in memory, and holds no pickles.

    Parameters
    ----------
    classes : iterable of int or None, default=None
        Distinct classes to keep, in the order of the source. None keeps all ten; as float64 the
        training part then takes 1.2 GB.
    subset : {"train", "test", "all"}, default="train"
        The part of the source; "all" is the training part followed by the test part.
    data_home : str or path-like, default=None
        Folder of the data files. None takes the environment variable ``SKLEAK_DATA``, and where
        that is unset ``~/skleak_data``.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Return a DataFrame and a Series instead of arrays.
    download_if_missing : bool, default=True
        False raises an error where the file is missing.

    Returns
    -------
    Bunch or tuple
        ``data`` of float64 and shape (n_images, 3072), values in [0, 1], channels first;
        ``target`` of int64, the classes, and shape (n_images,); ``frame`` (both, or None),
        ``feature_names``, ``target_names``, ``class_names`` (what the ten numbers stand for) and
        ``DESCR`` (source, licence, columns).

    Raises
    ------
    FileNotFoundError
        Where the file is neither in the data home nor can be downloaded; says what to put where.
    TypeError
        Where ``classes`` is not an iterable of integers.
    ValueError
        Where the file is not the expected one, where ``subset`` is unknown, or where ``classes`` is
        empty, has repetitions or other numbers than classes.

    Examples
    --------
    >>> from skleak.datasets import fetch_cifar10
    >>> X, y = fetch_cifar10(subset="test", return_X_y=True)  # doctest: +SKIP
    >>> fetch_cifar10(data_home="no/such/folder", download_if_missing=False)
    Traceback (most recent call last):
        ...
    FileNotFoundError: cifar-10-binary.tar.gz is not in ...
    """
    chosen = check_classes(classes, "classes")
    check_choice("subset", subset, SUBSETS)
    files = load_file(CIFAR10, data_home, download_if_missing)
    images: dict[str, Array] = {}
    for part in SUBSETS[subset]:
        records = np.concatenate([files[name] for name in FILES[part]])
        # A record is its label and then its pixels, one byte each.
        records = records.reshape(-1, 1 + len(COLOURS) * SIDE**2)
        images[f"x_{part}"], images[f"y_{part}"] = records[:, 1:], records[:, 0]
    pixels, y = select_images(images, subset, chosen)
    return bundle_images(
        pixels / 255.0,
        y,
        feature_names=[f"{colour}{j}" for colour in COLOURS for j in range(SIDE**2)],
        target_name=TARGET,
        return_X_y=return_X_y,
        as_frame=as_frame,
        descr=DESCR,
        class_names=CLASS_NAMES,
    )
