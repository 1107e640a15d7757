"""What the fetchers of images share: their classes, their parts, and pixels in [0, 1]."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from skleak.datasets._table import bundle
from skleak.utils._typing import Array

SUBSETS = {"train": ["train"], "test": ["test"], "all": ["train", "test"]}
N_CLASSES = 10


def check_classes(classes: Iterable[int] | None, noun: str) -> list[int]:
    """Distinct labels of ten; all of them for None."""
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


def select_images(images: dict[str, Array], subset: str, classes: list[int]) -> tuple[Array, Array]:
    """Flat images and labels of the chosen classes of one part or of both.

    Shapes: ``x_train`` and ``x_test`` (n, ...), ``y_train`` and ``y_test`` (n,), of uint8;
    returns: (n_chosen, n_pixels), still of uint8, and (n_chosen,) of int64.
    """
    pixels, labels = [], []
    for part in SUBSETS[subset]:
        chosen = np.isin(images[f"y_{part}"], classes)
        pixels.append(images[f"x_{part}"][chosen])
        labels.append(images[f"y_{part}"][chosen])
    joined = np.concatenate(pixels)
    return joined.reshape(len(joined), -1), np.concatenate(labels).astype(np.int64)


def bundle_images(
    X: Any,
    y: Any,
    *,
    feature_names: list[str],
    target_name: str,
    as_frame: bool,
    **fields: Any,
) -> Any:
    """Images (n, n_features) and labels (n,) as arrays or frames, a pair or a Bunch."""
    if as_frame:
        X, y = pd.DataFrame(X, columns=feature_names), pd.Series(y, name=target_name)
    return bundle(X, y, feature_names=feature_names, target_name=target_name, **fields)
