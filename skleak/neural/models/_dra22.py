"""The networks of [DRA22] appendix C, tables 1 and 2: tanh and average pooling throughout."""

from typing import Any

from skleak.neural.models._torch import check_shape, load_torch

MNIST_SHAPE, CIFAR10_SHAPE = (1, 28, 28), (3, 32, 32)
_SMALLEST_MNIST, _SMALLEST_CIFAR10 = 11, 8


def dra22_mnist(n_classes: int = 10, *, image_shape: tuple[int, int, int] = MNIST_SHAPE) -> Any:
    """Build the network of [DRA22] table 1, for MNIST: two convolutions, 30,762 parameters.

    Rows of pixels go through a convolution of 16 filters and one of 32, each 3 x 3 with stride 2
    and followed by tanh and an average over 2 x 2 pixels with stride 1, a layer of 32 units with
    tanh, and a linear layer.

    Parameters
    ----------
    n_classes : int, default=10
        Number of outputs, at least 1.
    image_shape : tuple (channels, height, width), default=(1, 28, 28)
        What a row of pixels is; height and width at least 11. Fashion-MNIST has the default's.

    Returns
    -------
    torch.nn.Sequential
        Takes (n, channels * height * width), returns scores (n, n_classes).

    Raises
    ------
    ImportError
        Where torch is not installed.
    ValueError
        For a shape that is none, or too small.

    Notes
    -----
    What is known of the table is tanh, averages, and the number of parameters. The rest is
    inferred: widths, strides and dense layers are those of the usual network of private SGD on
    MNIST (Papernot et al., AAAI 2021), whose filters of 8 x 8 and 4 x 4 give 26,010 parameters;
    with filters of 3 x 3 they are 30,762. So many has also a network with stride 1 in its
    convolutions and stride 2 in its averages, which costs several times as much.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("torch")
    >>> sum(weights.numel() for weights in dra22_mnist().parameters())
    30762
    """
    nn = load_torch().nn
    channels, *sides = check_shape(image_shape, _SMALLEST_MNIST)
    rows, columns = (_after_two_strides(side) for side in sides)
    return nn.Sequential(
        nn.Unflatten(1, (channels, *sides)),
        nn.Conv2d(channels, 16, 3, stride=2, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2, stride=1),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.Tanh(),
        nn.AvgPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(32 * rows * columns, 32),
        nn.Tanh(),
        nn.Linear(32, n_classes),
    )


def _after_two_strides(side: int) -> int:
    """Pixels along a side after both convolutions and poolings: 28 gives 14, 13, 6, 5."""
    pooled = (side + 1) // 2 - 1
    return (pooled - 1) // 2 - 1


def dra22_cifar10(n_classes: int = 10, *, image_shape: tuple[int, int, int] = CIFAR10_SHAPE) -> Any:
    """Build the network of [DRA22] table 2, for CIFAR-10: six convolutions, 550,570 parameters.

    Three blocks of two convolutions, 3 x 3 with the size kept, each followed by tanh, and an
    average over 2 x 2 pixels with stride 2; they have 32, 64 and 128 filters. Then a layer of 128
    units with tanh, and a linear layer.

    Parameters
    ----------
    n_classes : int, default=10
        Number of outputs, at least 1.
    image_shape : tuple (channels, height, width), default=(3, 32, 32)
        What a row of pixels is, channels first; height and width at least 8.

    Returns
    -------
    torch.nn.Sequential
        Takes (n, channels * height * width), returns scores (n, n_classes).

    Raises
    ------
    ImportError
        Where torch is not installed.
    ValueError
        For a shape that is none, or too small.

    Notes
    -----
    What is known of the table is tanh and averages. The rest is inferred: the layers are those of
    the usual network of private SGD on CIFAR-10 (Papernot, Thakurta, Song, Chien, Erlingsson, AAAI
    2021), averages in place of maxima.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("torch")
    >>> sum(weights.numel() for weights in dra22_cifar10().parameters())
    550570
    """
    nn = load_torch().nn
    channels, *sides = check_shape(image_shape, _SMALLEST_CIFAR10)
    layers = [nn.Unflatten(1, (channels, *sides))]
    for width in (32, 64, 128):
        for inputs in (channels, width):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.Tanh()]
        layers.append(nn.AvgPool2d(2))
        channels = width
    rows, columns = (side // 8 for side in sides)
    layers += [nn.Flatten(), nn.Linear(channels * rows * columns, 128), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(128, n_classes))
