"""The image data and the two models of [FIL21] section 6, for the scripts of its figures."""

from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA

from skleak.datasets import fetch_cifar10, fetch_mnist
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

SOURCES = {"MNIST": fetch_mnist, "CIFAR-10": fetch_cifar10}
CLASSES = {"MNIST": ("0", "1"), "CIFAR-10": ("plane", "car")}
PENALTY = {"MNIST": 8e-4, "CIFAR-10": 8e-5}  # of logistic regression; the linear one has none
MISSING = "the file of CIFAR-10 is not in the data home"


class Images(NamedTuple):
    """Images of two classes in 20 principal components, and the pixels of the training images."""

    pixels: np.ndarray
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load(name):
    """Images of the first two classes, prepared as in the paper; None where there is no file.

    Each part is divided by the largest norm of its own images: the authors' published code does
    that to the test images too, and two of the printed accuracies need it.
    """
    try:
        parts = [
            SOURCES[name]((0, 1), subset=part, return_X_y=True, download_if_missing=name == "MNIST")
            for part in ("train", "test")
        ]
    except FileNotFoundError:
        return None
    (pixels, y_train), (other, y_test) = parts
    scaled = [part / np.linalg.norm(part, axis=1).max() for part in (pixels, other)]
    axes = PCA(20, svd_solver="covariance_eigh").fit(scaled[0])
    return Images(pixels, axes.transform(scaled[0]), y_train, axes.transform(scaled[1]), y_test)


def model(kind, name, **options):
    """Linear regression without a penalty, or logistic regression; noise 1, no intercept."""
    if kind == "linear":
        return PrivateLinearRegression(1.0, alpha=0.0, fit_intercept=False, **options)
    return PrivateLogisticRegression(1.0, alpha=PENALTY[name], fit_intercept=False, **options)


def targets(kind, y):
    """Classes as -1 and +1 for linear regression."""
    return 2.0 * y - 1.0 if kind == "linear" else y


def fit(kind, name, images, **options):
    """Fitted model with the noise of the paper, and the coefficients without noise."""
    y = targets(kind, images.y_train)
    fitted = model(kind, name, **options).fit(images.X_train, y)
    bare = clone(fitted).set_params(noise_scale=0.0).fit(images.X_train, y)
    return fitted, bare.coef_.ravel()
