"""Fisher information of steps of private SGD about records."""

import numpy as np

from skleak.accounting import subsampled_fisher_factors
from skleak.neural.gradients import Gradients
from skleak.utils._typing import Array, FloatArray


def steps_information(
    gradients: Gradients,
    X: FloatArray,
    y: Array,
    parameters: FloatArray,
    noise_scale: float,
    sampling_rate: float,
) -> FloatArray:
    """Sum over steps of ``(q / s^2) G^T [along e e^T + across (1 - e e^T)] G``.

    Shapes: X (n, d), y (n,), parameters (T, p); returns
    (n, d, d).
    """

    def weigh(norms: FloatArray) -> tuple[Array, Array]:
        along, across = subsampled_fisher_factors(sampling_rate, norms / noise_scale)
        return np.asarray(along), np.asarray(across)

    found = gradients.summed_information(
        X, y, parameters, weigh, parts=("matrix",), private_target=False
    )
    total = found.get("matrix", np.zeros((*X.shape, X.shape[1])))  # no step tells nothing
    return sampling_rate * (total / noise_scale) / noise_scale
