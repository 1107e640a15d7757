"""What a noise target may ask of the fit of a private linear model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skleak.influence import (
    Columns,
    FitState,
    Participation,
    candidate_encodings,
)
from skleak.reports import guarantee_obstacles, release_sensitivity
from skleak.utils._features import resolve_features
from skleak.utils._typing import Array, FloatArray, IntArray

__all__ = ["LinearModelProblem"]


@dataclass(frozen=True)
class LinearModelProblem:
    """A `skleak.mechanisms.FittedProblem` made from the state of a fit.

    Parameters
    ----------
    state : FitState
        State of the fit, at unit noise.
    data_norm : float or None
        Promised bound on the norm of a record.
    tol : float
        Gradient norm to which the fit was solved.
    """

    state: FitState
    data_norm: float | None
    tol: float

    @property
    def _rows(self) -> IntArray:
        """Records that take part in the fit."""
        return np.flatnonzero(self.state.objective.sample_weight > 0.0)

    def sufficient_noise(self, eta: float, features: Any) -> FloatArray:
        """Noise scale at which the loss of each participating record is eta, of shape (n,)."""
        state, rows, objective = self.state, self._rows, self.state.objective
        columns = state.whole_record
        if features is not None:
            columns = Columns(resolve_features(features, state.feature_names, state.n_features))
        part = Participation(objective.sample_weight[rows], objective.reweights[rows])
        X, y = objective.X[rows], objective.y[rows]
        return state.sufficient_noise(X, y, part, columns, eta)

    def attribute_values(self, attribute: Any) -> tuple[Array, FloatArray]:
        """Distinct values of an attribute, (n_values, k), and how often each occurs."""
        state, rows = self.state, self._rows
        columns = resolve_features(attribute, state.feature_names, state.n_features, "attribute")
        block = state.objective.X[rows][:, columns]
        block = block.toarray() if sparse.issparse(block) else block
        values, inverse = np.unique(block, axis=0, return_inverse=True)
        copies = state.objective.sample_weight[rows]
        counts = np.bincount(np.ravel(inverse), copies, minlength=len(values))
        return values, counts.astype(float)

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Encodings of the values for every participating record, (n, n_values, p).

        In coordinates in which the noise is isotropic.
        """
        if self.state.noise.reads_data:
            raise ValueError(
                "`MaxAdvantage` needs noise of a covariance that is the same under every value of "
                f"the attribute; got `noise_covariance={self.state.noise.name!r}`, which depends "
                "on the records. Use `MaxLeakage`, a number, or a covariance from public knowledge."
            )
        objective = self.state.objective
        everyone = candidate_encodings(self.state, objective.X, objective.y, attribute, values)
        return self.state.noise.whitened(everyone[self._rows])

    def sensitivity(self) -> float:
        """Largest change when a record is replaced, in units of the noise at scale 1.

        ValueError where there is none.
        """
        obstacles = guarantee_obstacles(self.state, self.data_norm)
        if obstacles or self.data_norm is None:
            reasons = "; ".join(obstacles)
            raise ValueError(
                f"No differential-privacy guarantee can be calibrated: {reasons}. Use "
                "PrivateLogisticRegression with `data_norm`, `fit_intercept=False`, `alpha > 0` "
                "no reweighting and no `noise_covariance` that depends on the data, or another "
                "target such as `MaxLeakage`."
            )
        sensitivity = release_sensitivity(self.state, self.data_norm, self.tol)
        return sensitivity / float(np.sqrt(self.state.noise.smallest_variance))
