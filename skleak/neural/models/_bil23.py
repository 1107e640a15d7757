"""The convolutional network of [BIL23] section 4.2, and a loss with bounds."""

from typing import Any

from skleak.neural.models._torch import check_shape, load_torch

_SMALLEST = 4


def bil23_convnet(n_classes: int = 10, *, image_shape: tuple[int, int, int] = (1, 28, 28)) -> Any:
    """Build a convolutional network as in [BIL23] section 4.2.

    Two convolutions of 32 and 64 filters, 3 x 3 with the size kept, each followed by ReLU and a
    maximum over 2 x 2 pixels; a layer of 128 units with ReLU; a linear layer.

    Parameters
    ----------
    n_classes : int, default=10
        Number of outputs, at least 1.
    image_shape : tuple (channels, height, width), default=(1, 28, 28)
        What a row of pixels is, channels first; height and width at least 4.

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
    The paper's text names a convolutional network for small images; widths and depth are ours, the
    usual ones. Its bound needs a bounded loss: :func:`squared_probability_loss`. With ReLU and
    maxima the gradients jump between images, and Fisher information misses that: train it with
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
    rows, columns = (side // 4 for side in sides)
    layers = [nn.Unflatten(1, (channels, *sides))]
    for inputs, width in ((channels, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(64 * rows * columns, 128), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, n_classes))


def squared_probability_loss(outputs: Any, target: Any) -> Any:
    """Squared distance of the probabilities from the one-hot label, in [0, 2].

    [BIL23] theorem 2 bounds membership attacks from below by the generalisation gap of a bounded
    loss over its range, which cross-entropy has not
    (`skleak.bounds.membership_lower_bound_bounded` with a range of 2). Which bounded loss the
    paper trains with its text does not settle; this is Brier's, which is proper: the expected loss
    is least at the true probabilities.

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
