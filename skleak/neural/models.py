"""Networks of the papers, built by torch when they are called for.

Each function is a ``module=`` of the private estimators: it returns a new ``torch.nn.Module``, to
which rows of pixels go as the fetchers of `skleak.datasets` give them. Importing this package
imports no torch; building a network needs the extra ``torch``.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from skleak.utils._arguments import import_optional

__all__ = [
    "bil23_convnet",
    "bil23_writers",
    "dra22_cifar10",
    "dra22_mnist",
    "squared_probability_loss",
]

# The networks of [DRA22] appendix C, tables 1 and 2: tanh and average pooling throughout.
MNIST_SHAPE, CIFAR10_SHAPE = (1, 28, 28), (3, 32, 32)


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
    layers = ((16, 3, 2, 1), (2, 1), (32, 3, 2, 0), (2, 1))
    return _network(_check_shape(image_shape, 11), layers, (32, n_classes))


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
    layers = [layer for width in (32, 64, 128) for layer in ((width, 3, 1, 1),) * 2 + ((2, 2),)]
    return _network(_check_shape(image_shape, 8), layers, (128, n_classes))


def bil23_convnet(
    n_classes: int = 10,
    *,
    image_shape: tuple[int, int, int] = (1, 28, 28),
    batch_norm: bool = False,
) -> Any:
    """Build the convolutional network of [BIL23] section 4.2, for MNIST and CIFAR-10.

    Convolutions of 16, 32, 64 and 64 filters (kernels of 7, 6, 5 and 5 pixels a side, the second
    and fourth in steps of 2), layers of 64 and 32 units, each with ReLU, and a linear layer.

    Parameters
    ----------
    n_classes : int, default=10
        Number of outputs, at least 1.
    image_shape : tuple (channels, height, width), default=(1, 28, 28)
        What a row of pixels is, channels first; height and width at least 4.
    batch_norm : bool, default=False
        Normalize before each ReLU over the batch, as the paper's network does. Private SGD refuses
        such a network: it mixes the records of a batch, so that no gradient belongs to one record.

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
    Layers are those of the authors' published code, which trains with the mean of
    :func:`squared_probability_loss` over the classes, by Adam at a rate of 0.005 with batches of
    50, until the loss of an epoch changes by less than 0.001. With ReLU the gradients jump between
    images, and Fisher information misses that: under private SGD train it with
    ``accounting=None``, or take the networks of [DRA22].

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> bil23_convnet(image_shape=(3, 32, 32))(torch.zeros(2, 3072)).shape
    torch.Size([2, 10])
    """
    layers = ((16, 7, 1, 2), (32, 6, 2, 2), (64, 5, 1, 2), (64, 5, 2, 2))
    shape, dense = _check_shape(image_shape, 4), (64, 32, n_classes)
    return _network(shape, layers, dense, "ReLU", batch_norm=batch_norm)


def bil23_writers(n_inputs: int, n_classes: int = 10, *, batch_norm: bool = False) -> Any:
    """Build the dense network of [BIL23] section 4.3, for digits with their writer as an input.

    Layers of 32, 16 and 16 units, each with ReLU, and a linear layer.

    Parameters
    ----------
    n_inputs : int
        Columns of a record; of PenDigits 110: 32 points, strokes, duration and 44 writers one-hot.
    n_classes : int, default=10
        Number of outputs, at least 1.
    batch_norm : bool, default=False
        Normalize before each ReLU over the batch, as the paper's network does; see `bil23_convnet`.

    Returns
    -------
    torch.nn.Sequential
        Takes (n, n_inputs), returns scores (n, n_classes).

    Raises
    ------
    ImportError
        Where torch is not installed.

    See Also
    --------
    bil23_convnet : The network for images, and how the authors train both.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> bil23_writers(110)(torch.zeros(2, 110)).shape
    torch.Size([2, 10])
    """
    dense = (32, 16, 16, n_classes)
    return _network((n_inputs,), (), dense, "ReLU", batch_norm=batch_norm)


def _network(
    shape: tuple[int, ...],
    layers: Sequence[tuple[int, ...]],
    dense: Sequence[int],
    activation: str = "Tanh",
    *,
    batch_norm: bool = False,
) -> Any:
    """Build a network of rows of so many entries, or of rows of pixels of a shape.

    ``layers`` are convolutions (filters, side of the kernel, stride, border) or averages (side,
    stride), ``dense`` the widths of the layers after them, of which the last is linear.
    """
    nn = _load_torch().nn
    channels, *sides = shape
    built = [nn.Unflatten(1, shape)] if sides else []

    def activated(layer: Any, norm: Any, width: int) -> list[Any]:
        return [layer, *([norm(width)] if batch_norm else []), getattr(nn, activation)()]

    for layer in layers:
        *filters, side, stride, border = layer if len(layer) == 4 else (*layer, 0)
        if filters:
            convolution = nn.Conv2d(channels, filters[0], side, stride, border)
            built += activated(convolution, nn.BatchNorm2d, filters[0])
        else:
            built.append(nn.AvgPool2d(side, stride))
        channels = filters[0] if filters else channels
        sides = [(length + 2 * border - side) // stride + 1 for length in sides]
    if sides:
        built.append(nn.Flatten())
    widths = (channels * prod(sides), *dense)
    for inputs, width in pairwise(widths[:-1]):
        built += activated(nn.Linear(inputs, width), nn.BatchNorm1d, width)
    return nn.Sequential(*built, nn.Linear(*widths[-2:]))


def squared_probability_loss(outputs: Any, target: Any) -> Any:
    """Squared distance of the probabilities from the one-hot label, in [0, 2].

    [BIL23] theorem 2 bounds membership attacks from below by the generalization gap of a bounded
    loss over its range, which cross-entropy has not
    (`skleak.bounds.membership_lower_bound_bounded` with a range of 2). This is Brier's, which is
    proper: the expected loss is least at the true probabilities. The authors' code measures the gap
    with it and trains with its mean over the classes, a tenth of it for ten.

    Parameters
    ----------
    outputs : torch.Tensor of shape (..., n_classes)
        Scores; their softmax are the probabilities. At least two classes.
    target : torch.Tensor of shape (...)
        Class numbers, integers.

    Returns
    -------
    torch.Tensor of shape (...)
        The loss of every record.

    Raises
    ------
    ImportError
        Where torch is not installed.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> squared_probability_loss(torch.zeros(2), torch.tensor(1))
    tensor(0.5000)
    """
    torch = _load_torch()
    probabilities = torch.softmax(outputs, -1)
    own = torch.take_along_dim(probabilities, target.unsqueeze(-1), -1).squeeze(-1)
    return probabilities.square().sum(-1) - 2.0 * own + 1.0


def _load_torch() -> Any:
    """Return the module torch, or say what to install."""
    return import_optional("torch", "torch", "Building a network")


def _check_shape(image_shape: tuple[int, int, int], smallest: int) -> tuple[int, int, int]:
    """(channels, height, width) of images that a network can take."""
    shape = tuple(int(length) for length in image_shape)
    if len(shape) != 3 or shape[0] < 1 or min(shape[1:]) < smallest:
        raise ValueError(
            "`image_shape` must be (channels, height, width) of images of at least "
            f"{smallest} x {smallest} pixels; got {image_shape!r}."
        )
    return shape[0], shape[1], shape[2]
