"""The one place where the networks get torch from."""

from typing import Any

from skleak.utils._optional import import_optional


def load_torch() -> Any:
    """Return the module torch, or say what to install."""
    return import_optional("torch", "torch", "Building a network")


def check_shape(image_shape: tuple[int, int, int], smallest: int) -> tuple[int, int, int]:
    """(channels, height, width) of images that a network can take."""
    shape = tuple(int(length) for length in image_shape)
    if len(shape) != 3 or shape[0] < 1 or min(shape[1:]) < smallest:
        raise ValueError(
            "`image_shape` must be (channels, height, width) of images of at least "
            f"{smallest} x {smallest} pixels; got {image_shape!r}."
        )
    return shape[0], shape[1], shape[2]
