"""Discrete Gaussian noise, drawn exactly by OpenDP from the operating system's randomness."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

# OpenDP's feature flags are one set for the whole process: threads take turns in changing it.
_FLAGS = threading.Lock()


def discrete_gaussian(scale: float, size: int) -> npt.NDArray[np.int64]:
    """Draw integers z with probabilities proportional to ``exp(-z^2 / (2 scale^2))``.

    The sampler of Canonne, Kamath and Steinke (The Discrete Gaussian for Differential Privacy,
    NeurIPS 2020, algorithms 1 to 3) in OpenDP: integers and rational coin flips only, made of
    random bits of the operating system. There is no seed.

    Parameters
    ----------
    scale : float, positive and at most 2^48
        Scale parameter, in units of the integers; taken as exactly this double.
    size : int, at least 0
        Number of independent draws.

    Returns
    -------
    ndarray of int64 of shape (size,)

    Raises
    ------
    ValueError
        For a scale out of range: beyond it the tails would leave the integers of 64 bits.

    Examples
    --------
    >>> from skleak.mechanisms import discrete_gaussian
    >>> discrete_gaussian(2.0**30, 1000).shape
    (1000,)
    """
    if not 0.0 < scale <= 2.0**48:
        raise ValueError(
            f"`scale` must be positive and at most 2**48; got {scale!r}. Draw on a coarser grid."
        )
    # Loaded late: models that add no noise need no shared library.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    with _contributed_features():
        measurement = make_gaussian(
            vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=float(scale)
        )
    return np.array(measurement([0] * size), dtype=np.int64)


@contextmanager
def _contributed_features() -> Iterator[None]:
    """Allow OpenDP's contributed parts, and leave its flags as they were."""
    from opendp.mod import GLOBAL_FEATURES

    with _FLAGS:
        enabled = "contrib" in GLOBAL_FEATURES
        GLOBAL_FEATURES.add("contrib")
        try:
            yield
        finally:
            if not enabled:
                GLOBAL_FEATURES.discard("contrib")
