"""What channels of points with Gaussian noise share, of one record or of n at once."""

import numpy as np
import numpy.typing as npt

from skleak.channels._base import Channel, repeat_secrets
from skleak.utils._arguments import check_finite
from skleak.utils._typing import FloatArray, IntArray, RandomState


class PointsChannel(Channel):
    """A channel that adds Gaussian noise to a point for each value of the secret."""

    n_records: int | None

    def _set_up(
        self, points: FloatArray, tolerance: float, max_points: int, random_state: RandomState
    ) -> None:
        """Keep the shape of the points, (M, d) or (n, M, d), and how integrals are sampled."""
        if not tolerance > 0:
            raise ValueError(f"`tolerance` must be positive; got {tolerance}.")
        self.n_values = points.shape[-2]
        self.n_records = len(points) if points.ndim == 3 else None
        self.tolerance = tolerance
        self.max_points = max_points
        self.random_state = random_state

    def _secrets(self, secret: npt.ArrayLike, n_releases: int | None) -> IntArray:
        """Validate secrets, one for each record at least, and repeat them for the releases."""
        array = np.asarray(secret)
        if self.n_records is not None and array.ndim == 0:
            array = np.full(self.n_records, array)
        array = repeat_secrets(array, self.n_values, n_releases)
        self._check_first_axis("secret", array.shape)
        return array

    def _releases(self, releases: npt.ArrayLike, dimension: int) -> FloatArray:
        """Validate releases, (..., d)."""
        y = check_finite("releases", releases)
        if y.ndim == 0 or y.shape[-1] != dimension:
            raise ValueError(
                f"`releases` must have shape (..., {dimension}), the dimension of the encodings; "
                f"got shape {y.shape}."
            )
        self._check_first_axis("releases", y.shape[:-1])
        return y

    def _check_first_axis(self, name: str, shape: tuple[int, ...]) -> None:
        """Refuse what has no entry for each record, where there are several."""
        if self.n_records is not None and (not shape or shape[0] != self.n_records):
            raise ValueError(
                f"`{name}` must have a first axis of length {self.n_records}, one entry for each "
                f"record; got shape {shape}."
            )


def check_points(name: str, points: npt.ArrayLike) -> FloatArray:
    """Return points of shape (M, d) or (n, M, d), finite and of two values at least."""
    array = check_finite(name, points)
    if array.ndim not in (2, 3) or array.shape[-2] < 2 or array.size == 0:
        raise ValueError(
            f"`{name}` must have shape (M, d), or (n, M, d) for n records, with M >= 2; got "
            f"shape {array.shape}. A secret with one value has nothing to hide."
        )
    return array
