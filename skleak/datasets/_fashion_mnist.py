"""Fashion-MNIST: small grey images of clothes, pixels in [0, 1]."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from skleak.datasets._cache import SourceFile, load_file
from skleak.datasets._images import SUBSETS, bundle_images, check_classes, select_images
from skleak.utils._arguments import check_choice
from skleak.utils._typing import Array

SITE = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion"
# The four files are named as those of MNIST are, hence the folder.
FOLDER = "fashion-mnist"


def _file(name: str, sha256: str) -> SourceFile:
    return SourceFile(f"{FOLDER}/{name}.gz", f"{SITE}/{name}.gz", sha256, packed=True)


TRAIN_IMAGES = _file(
    "train-images-idx3-ubyte", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"
)
TRAIN_LABELS = _file(
    "train-labels-idx1-ubyte", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"
)
TEST_IMAGES = _file(
    "t10k-images-idx3-ubyte", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"
)
TEST_LABELS = _file(
    "t10k-labels-idx1-ubyte", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"
)
TARGET = "class"
CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

DESCR = """\
Fashion-MNIST
=============

60,000 training and 10,000 test images of clothes, of 28 x 28 pixels, in ten classes of equal size.

Source: https://github.com/zalandoresearch/fashion-mnist, four gzipped files in the IDX format.
Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine
Learning Algorithms, arXiv 1708.07747.
Licence: MIT (copyright Zalando SE).

Preprocessing: pixel / 255, 784 columns in row-major order.
"""


def fetch_fashion_mnist(
    classes: Iterable[int] | None = None,
    *,
    subset: str = "train",
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    download_if_missing: bool = True,
) -> Any:
    """Load images of chosen classes of Fashion-MNIST.

    Its four gzipped files are looked for in the folder ``fashion-mnist`` of the data home and else
    downloaded there, 31 MB in all. They are checked by SHA-256.

    Parameters
    ----------
    classes : iterable of int or None, default=None
        Distinct classes to keep, in the order of the source. None keeps all ten.
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
        False raises an error where a file is missing.

    Returns
    -------
    Bunch or tuple
        ``data`` of float64 and shape (n_images, 784), pixels in [0, 1]; ``target`` of int64, the
        classes, and shape (n_images,); ``frame`` (both, or None), ``feature_names``,
        ``target_names``, ``class_names`` (what the ten numbers stand for) and ``DESCR`` (source,
        licence).

    Raises
    ------
    FileNotFoundError
        Where a file is neither in the data home nor can be downloaded; says what to put where.
    TypeError
        Where ``classes`` is not an iterable of integers.
    ValueError
        Where a file is not the expected one, where ``subset`` is unknown, or where ``classes`` is
        empty, has repetitions or other numbers than classes.

    Examples
    --------
    >>> from skleak.datasets import fetch_fashion_mnist
    >>> X, y = fetch_fashion_mnist((0, 1), return_X_y=True)  # doctest: +SKIP
    >>> fetch_fashion_mnist(data_home="no/such/folder", download_if_missing=False)
    Traceback (most recent call last):
        ...
    FileNotFoundError: fashion-mnist/train-images-idx3-ubyte.gz is not in ...
    """
    chosen = check_classes(classes, "classes")
    check_choice("subset", subset, SUBSETS)
    sources = {"train": (TRAIN_IMAGES, TRAIN_LABELS), "test": (TEST_IMAGES, TEST_LABELS)}
    images = {}
    for part in SUBSETS[subset]:
        for name, source in zip("xy", sources[part], strict=True):
            content = load_file(source, data_home, download_if_missing)
            images[f"{name}_{part}"] = _read_idx(content)
    pixels, y = select_images(images, subset, chosen)
    return bundle_images(
        pixels / 255.0,
        y,
        feature_names=[f"pixel{j}" for j in range(pixels.shape[1])],
        target_name=TARGET,
        return_X_y=return_X_y,
        as_frame=as_frame,
        descr=DESCR,
        class_names=CLASS_NAMES,
    )


def _read_idx(content: bytes) -> Array:
    """Array of uint8 of a file in the IDX format.

    Two zeros, 8 for bytes, the number of axes, the length of each as 4 bytes, most significant
    first; then the entries in row-major order.
    """
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)
