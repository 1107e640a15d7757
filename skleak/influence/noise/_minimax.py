"""Noise of the minimax shape with equal weights, and what records tell under it."""

from dataclasses import dataclass

import numpy as np

from skleak.influence.jacobian import Columns, FitFactor
from skleak.influence.noise._minimax_coordinates import MinimaxCoordinates
from skleak.influence.noise._minimax_records import MinimaxFrame, MinimaxJoint, MinimaxRecords
from skleak.influence.state import RecordBatch
from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class MinimaxNoise(MinimaxCoordinates):
    """Leakage of all records under the shape ``A # M``. Confidential.

    See `MinimaxCoordinates` for its parameters.
    """

    @property
    def shape(self) -> FloatArray:
        """``S`` with trace p, of shape (p, p)."""
        half = self.root * np.sqrt(self.axes / self.scale)
        return half @ half.T

    @property
    def noise_root(self) -> FloatArray:
        """Lower triangular root of it, of shape (p, p)."""
        # A product of triangles keeps the digits of columns in units far apart.
        middle = (self.rotation * self.axes) @ self.rotation.T
        return self.triangle @ np.linalg.cholesky(middle) / np.sqrt(self.scale)

    @property
    def mean_factor(self) -> FitFactor:
        """Measure of the first term: leakage through the mean alone."""
        response = np.sqrt(self.scale / self.axes)[:, None] * self.root.T
        return self.factor.with_response(response)

    def frame(self, columns: Columns) -> MinimaxFrame:
        """Return a block of columns in these coordinates."""
        return MinimaxFrame.within(self, columns)

    def joint(self, batch: RecordBatch, columns: Columns, noise_scale: float) -> MinimaxJoint:
        """Return the information of many records together."""
        return MinimaxJoint.of(self, batch, columns, noise_scale)

    def records(self, X: FloatArray, y: FloatArray) -> MinimaxRecords:
        """Prepare a dense block of records."""
        return MinimaxRecords.of(self, X, y)

    @property
    def width(self) -> int:
        """Entries of the largest table of a record."""
        p = len(self.axes)
        return 4 * p * (p + 1)
