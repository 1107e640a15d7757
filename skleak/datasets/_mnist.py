"""MNIST digits: pixels in [0, 1], or the 20 principal components of [FIL21]."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from skleak.datasets._cache import SourceFile, load_file
from skleak.datasets._images import SUBSETS, bundle_images, check_classes, select_images
from skleak.utils._arguments import check_choice
from skleak.utils._typing import FloatArray

# The hash is that of the four arrays, in the order of their names: the archives in circulation
# hold the same arrays and differ in their zip headers.
MNIST = SourceFile(
    name="mnist.npz",
    url="https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
    sha256="c868f4cc70f1ec2961bd3b26437ea3a5d0e93cba4d95b336c6d475dd9dabb021",
)
PREPROCESSING = {"unit_interval": "pixel", "pca20": "component"}
N_COMPONENTS = 20
TARGET = "digit"

DESCR = """\
MNIST handwritten digits
========================

60,000 training and 10,000 test images of 28 x 28 pixels. The digits 0 and 1, which the papers use,
have 12,665 training and 2,115 test images.

Source: LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist; here as the archive
https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz with the arrays x_train,
y_train, x_test, y_test of uint8.
Licence: CC BY-SA 3.0 (copyright Yann LeCun and Corinna Cortes).

Preprocessing
-------------
unit_interval  pixel / 255, 784 columns in row-major order ([DRA22]).
pca20          [FIL21]: pixel / 255, divided by the largest norm of a training image, centred with
               the training mean, projected on the 20 principal axes of the training images: 20
               columns, by decreasing variance. The training images are those of the chosen digits;
               the test part is transformed with the training statistics.
"""


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
        ``target_names`` and ``DESCR`` (source, licence, preprocessing).

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
    digits = check_classes(classes, "digits")
    check_choice("subset", subset, SUBSETS)
    check_choice("preprocessing", preprocessing, PREPROCESSING)
    images = load_file(MNIST, data_home, download_if_missing)
    pixels, y = select_images(images, subset, digits)
    X = pixels / 255.0
    if preprocessing == "pca20":
        X = _principal_components(select_images(images, "train", digits)[0] / 255.0, X)
    return bundle_images(
        X,
        y,
        feature_names=[f"{PREPROCESSING[preprocessing]}{j}" for j in range(X.shape[1])],
        target_name=TARGET,
        return_X_y=return_X_y,
        as_frame=as_frame,
        descr=DESCR,
    )


def _principal_components(train: FloatArray, X: FloatArray) -> FloatArray:
    """Scores of ``X`` (n, 784) on the principal axes of ``train`` (n_train, 784)."""
    largest_norm = np.sqrt(np.einsum("ij,ij->i", train, train).max())
    pca = PCA(N_COMPONENTS, svd_solver="covariance_eigh").fit(train / largest_norm)
    return pca.transform(X / largest_norm)
