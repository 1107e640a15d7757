"""Checks of what the display of reconstructed records is given."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from skleak.utils._typing import FloatArray, IntArray


def check_list(name: str, values: npt.ArrayLike) -> FloatArray:
    """Squared errors as a copy, or say what is wrong with them."""
    array = np.array(values, dtype=float)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"`{name}` must hold one number per record; got shape {array.shape}.")
    if not np.all(array >= 0.0):
        raise ValueError(
            f"`{name}` must be mean squared errors, not negative and not NaN; got {array.min():g}."
        )
    return array


def check_shown(shown: npt.ArrayLike | None, n_shown: int, n_records: int) -> IntArray:
    """Positions of the records that are kept, or say what is wrong with them."""
    if shown is None:
        if n_shown != n_records:
            raise ValueError(
                f"`originals` must hold all {n_records} records; got {n_shown}. Say by `shown` "
                "which of them they are."
            )
        return np.arange(n_records)
    positions = np.array(shown)
    if positions.shape != (n_shown,) or positions.dtype.kind not in "iu":
        raise ValueError(
            f"`shown` must be the positions of the {n_shown} records of `originals`; got shape "
            f"{positions.shape} of type {positions.dtype}."
        )
    if n_shown and not 0 <= positions.min() <= positions.max() < n_records:
        raise ValueError(
            f"`shown` must be positions below {n_records}; got {positions.min()} to "
            f"{positions.max()}."
        )
    return positions.astype(np.intp)


def check_image_shape(shape: Sequence[int] | None, d: int) -> tuple[int, ...] | None:
    """Sizes of an image of d values, or say what is wrong with them."""
    if shape is None:
        return None
    sizes = tuple(int(size) for size in shape)
    if (
        len(sizes) not in (2, 3)
        or np.prod(sizes) != d
        or (len(sizes) == 3 and sizes[2] not in (3, 4))
    ):
        raise ValueError(
            "`image_shape` must be (height, width) or (height, width, 3) of images of "
            f"{d} values; got {sizes}. Pass None where records are no images."
        )
    return sizes


def check_count(n_images: int) -> int:
    """Check a number of images, or say what is wrong with it."""
    if isinstance(n_images, bool) or int(n_images) != n_images or n_images < 1:
        raise ValueError(f"`n_images` must be a whole number of at least 1; got {n_images!r}.")
    return int(n_images)
