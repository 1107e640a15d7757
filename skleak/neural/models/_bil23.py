"""The networks of [BIL23] section 4, and a loss with bounds."""

from itertools import pairwise
from typing import Any

from skleak.neural.models._torch import check_shape, load_torch

_SMALLEST = 4
# Filters, side of the kernel and step of the four convolutions; all with a border of 2 pixels.
_CONVOLUTIONS = ((16, 7, 1), (32, 6, 2), (64, 5, 1), (64, 5, 2))
_DENSE = (64, 32)
_WRITERS_DENSE = (32, 16, 16)


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
        Normalise before each ReLU over the batch, as the paper's network does. Private SGD refuses
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
    nn = load_torch().nn
    channels, *sides = check_shape(image_shape, _SMALLEST)
    layers = [nn.Unflatten(1, (channels, *sides))]
    for width, kernel, step in _CONVOLUTIONS:
        layers += [nn.Conv2d(channels, width, kernel, step, padding=2)]
        layers += [nn.BatchNorm2d(width)] if batch_norm else []
        layers += [nn.ReLU()]
        channels, sides = width, [(side + 4 - kernel) // step + 1 for side in sides]
    rows, columns = sides
    layers += [nn.Flatten(), *_dense(nn, (channels * rows * columns, *_DENSE), batch_norm)]
    return nn.Sequential(*layers, nn.Linear(_DENSE[-1], n_classes))


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
        Normalise before each ReLU over the batch, as the paper's network does; see `bil23_convnet`.

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
    nn = load_torch().nn
    layers = _dense(nn, (n_inputs, *_WRITERS_DENSE), batch_norm)
    return nn.Sequential(*layers, nn.Linear(_WRITERS_DENSE[-1], n_classes))


def _dense(nn: Any, widths: tuple[int, ...], batch_norm: bool) -> list[Any]:
    """Linear layers from each width to the next, with ReLU."""
    layers = []
    for inputs, width in pairwise(widths):
        layers += [nn.Linear(inputs, width)]
        layers += [nn.BatchNorm1d(width)] if batch_norm else []
        layers += [nn.ReLU()]
    return layers


def squared_probability_loss(outputs: Any, target: Any) -> Any:
    """Squared distance of the probabilities from the one-hot label, in [0, 2].

    [BIL23] theorem 2 bounds membership attacks from below by the generalisation gap of a bounded
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
    torch = load_torch()
    probabilities = torch.softmax(outputs, -1)
    own = torch.take_along_dim(probabilities, target.unsqueeze(-1), -1).squeeze(-1)
    return probabilities.square().sum(-1) - 2.0 * own + 1.0
