"""Images of digits, clothes and things, pixels in [0, 1]: MNIST, Fashion-MNIST and CIFAR-10."""

import os
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from skleak.datasets._cache import SOURCES, bundle, load_file
from skleak.utils._arguments import check_choice
from skleak.utils._typing import Array, FloatArray, IntArray

SUBSETS = {"train": ["train"], "test": ["test"], "all": ["train", "test"]}
N_CLASSES = 10
# How images are given, and what their columns are called.
PREPROCESSING = {"unit_interval": "pixel", "pca20": "component"}
N_COMPONENTS = 20
# The names of the parts of MNIST in its files.
PARTS = {"train": "train", "test": "t10k"}
CLOTHES = "T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Ankle boot"
BATCHES = {"train": [f"data_batch_{k}.bin" for k in range(1, 6)], "test": ["test_batch.bin"]}
COLOURS, SIDE = ("red", "green", "blue"), 32
THINGS = "airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck"


def fetch_mnist(
    classes: Iterable[int] | None = (0, 1),
    *,
    subset: str = "train",
    preprocessing: str = "unit_interval",
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    download_if_missing: bool = True,
) -> Any:
    """Load images of chosen MNIST digits.

    The file ``mnist.npz`` is looked for in the data home and else downloaded. The content of its
    arrays is checked by SHA-256.

    Parameters
    ----------
    classes : iterable of int or None, default=(0, 1)
        Distinct digits to keep, in the order of the source. None keeps all ten.
    subset : {"train", "test", "all"}, default="train"
        The part of the source; "all" is the training part followed by the test part.
    preprocessing : {"unit_interval", "pca20"}, default="unit_interval"
        "unit_interval" gives 784 pixels in [0, 1] ([DRA22]). "pca20" gives the recipe of [FIL21]:
        pixels in [0, 1] divided by the largest norm of a training image, centred with the training
        mean, and projected on the top 20 principal axes of the training images of the chosen
        digits; every part is transformed with these training statistics. The sign of an axis is
        such that its largest loading is positive.
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
        ``data`` of float64 and shape (n_images, 784) or (n_images, 20); ``target`` of int64, the
        digits, and shape (n_images,); ``frame`` (both, or None), ``feature_names``,
        ``target_names`` and ``DESCR`` (source, license, preprocessing).

    Raises
    ------
    FileNotFoundError
        Where the file is neither in the data home nor can be downloaded; says what to put where.
    TypeError
        Where ``classes`` is not an iterable of integers.
    ValueError
        Where the content of the file is not the expected one, where ``subset`` or
        ``preprocessing`` is unknown, or where ``classes`` is empty, has repetitions or other
        numbers than digits.

    Examples
    --------
    >>> from skleak.datasets import fetch_mnist
    >>> X, y = fetch_mnist((3, 8), subset="test", return_X_y=True)  # doctest: +SKIP
    >>> fetch_mnist(data_home="no/such/folder", download_if_missing=False)
    Traceback (most recent call last):
        ...
    FileNotFoundError: mnist.npz is not in ...
    """
    digits = _check_arguments(classes, subset, "digits")
    check_choice("preprocessing", preprocessing, PREPROCESSING)
    arrays = load_file(SOURCES["mnist.npz"], data_home, download_if_missing)

    def read(part: str) -> tuple[Array, Array]:
        return arrays[f"x_{part}"], arrays[f"y_{part}"]

    X, y = _select(read, subset, digits)
    if preprocessing == "pca20":
        train, _ = _select(read, "train", digits)
        largest_norm = np.sqrt(np.einsum("ij,ij->i", train, train).max())
        pca = PCA(N_COMPONENTS, svd_solver="covariance_eigh").fit(train / largest_norm)
        X = pca.transform(X / largest_norm)
    names = [f"{PREPROCESSING[preprocessing]}{j}" for j in range(X.shape[1])]
    return bundle("mnist", X, y, names, "digit", as_frame, return_X_y)


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
        license).

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
    chosen = _check_arguments(classes, subset, "classes")

    def read_idx(part: str, kind: str) -> Array:
        source = SOURCES[f"fashion-mnist/{PARTS[part]}-{kind}-ubyte.gz"]
        content = load_file(source, data_home, download_if_missing)
        # Two zeros, 8 for bytes, the number of axes, the length of each as 4 bytes, most
        # significant first; then the entries in row-major order.
        shape = np.frombuffer(content, ">u4", content[3], 4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)

    def read(part: str) -> tuple[Array, Array]:
        return read_idx(part, "images-idx3"), read_idx(part, "labels-idx1")

    X, y = _select(read, subset, chosen)
    names = [f"pixel{j}" for j in range(X.shape[1])]
    classes_ = tuple(CLOTHES.split(", "))
    return bundle("fashion_mnist", X, y, names, "class", as_frame, return_X_y, class_names=classes_)


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
        ``DESCR`` (source, license, columns).

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
    chosen = _check_arguments(classes, subset, "classes")
    files = load_file(SOURCES["cifar-10-binary.tar.gz"], data_home, download_if_missing)

    def read(part: str) -> tuple[Array, Array]:
        # A record is its label and then its pixels, one byte each.
        records = np.concatenate([files[name] for name in BATCHES[part]])
        records = records.reshape(-1, 1 + len(COLOURS) * SIDE**2)
        return records[:, 1:], records[:, 0]

    X, y = _select(read, subset, chosen)
    names = [f"{color}{j}" for color in COLOURS for j in range(SIDE**2)]
    classes_ = tuple(THINGS.split(", "))
    return bundle("cifar10", X, y, names, "class", as_frame, return_X_y, class_names=classes_)


def _check_arguments(classes: Iterable[int] | None, subset: str, noun: str) -> list[int]:
    """Check the subset, and return distinct labels of ten: all of them for None."""
    check_choice("subset", subset, SUBSETS)
    if classes is None:
        return list(range(N_CLASSES))
    expected = f"`classes` must be None or an iterable of distinct {noun} 0 to 9"
    advice = "Pass for instance `classes=(0, 1)`."
    if not isinstance(classes, Iterable):
        raise TypeError(f"{expected}; got {classes!r}. {advice}")
    labels = list(classes)
    for label in labels:
        if not isinstance(label, Integral) or isinstance(label, bool):
            raise TypeError(f"{expected}; got the entry {label!r}. {advice}")
    if not labels or len(set(labels)) < len(labels) or not set(labels) <= set(range(N_CLASSES)):
        raise ValueError(f"{expected}; got {labels!r}. {advice}")
    return [int(label) for label in labels]


def _select(
    read: Callable[[str], tuple[Array, Array]], subset: str, classes: list[int]
) -> tuple[FloatArray, IntArray]:
    """Flat images in [0, 1] and labels of the chosen classes of one part or of both."""
    pixels, labels = [], []
    for part in SUBSETS[subset]:
        x, y = read(part)
        chosen = np.isin(y, classes)
        pixels.append(x[chosen])
        labels.append(y[chosen])
    joined = np.concatenate(pixels)
    return joined.reshape(len(joined), -1) / 255.0, np.concatenate(labels).astype(np.int64)
