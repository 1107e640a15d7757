"""Fisher information of steps of private SGD about records."""

import numpy as np

from skleak.accounting import subsampled_fisher_factors
from skleak.neural.gradients import Gradients, Part
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

    The parameters of ``gradients`` are set. Shapes: X (n, d), y (n,), parameters (T, p); returns
    (n, d, d).
    """

    def weigh(norms: FloatArray) -> tuple[Array, Array]:
        along, across = subsampled_fisher_factors(sampling_rate, norms / noise_scale)
        return np.asarray(along), np.asarray(across)

    parts: tuple[Part, ...] = ("matrix",)
    total = np.zeros((*X.shape, X.shape[1]))
    for point in parameters:
        gradients.parameters = point
        found = gradients.information(X, y, weigh, parts=parts, private_target=False)
        total += sampling_rate * (found["matrix"] / noise_scale) / noise_scale
    return total
