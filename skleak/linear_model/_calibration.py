"""What a noise goal may ask of the fit of a private linear model."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from skleak.influence import candidate_encodings
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel, leakage_model
from skleak.influence.refit import distance_brackets, loss_brackets
from skleak.influence.state import FitState
from skleak.mechanisms import MOST_VALUES, Secret
from skleak.reports import Promises, guarantee_obstacles, release_sensitivity
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._features import feature_labels, resolve_features
from skleak.utils._typing import Array, FloatArray, IntArray

__all__ = ["LinearModelProblem"]


# Values within the range of a numeric column at which the noise that a goal needs is bounded.
_GRID = 5


@dataclass(frozen=True)
class LinearModelProblem:
    """A `skleak.mechanisms.FittedProblem` made from the state of a fit.

    Parameters
    ----------
    state : FitState
        State of the fit, at unit noise.
    promises : Promises
        What is public knowledge of the fit.
    """

    state: FitState
    promises: Promises

    @classmethod
    def of(cls, state: FitState, promises: Promises) -> Self:
        """Make the problem of a fit; ValueError where it did not converge."""
        if not state.converged:
            raise ValueError(
                "The fit did not converge, and a noise goal needs what the records leak at the "
                "minimiser. Raise `max_iter` or `alpha`, or scale the columns."
            )
        return cls(state, promises)

    @property
    def participants(self) -> IntArray:
        """Records that take part in the fit."""
        return np.flatnonzero(self.state.objective.sample_weight > 0.0)

    def sufficient_noise(self, eta: float, features: Any) -> FloatArray:
        """Noise scale at which the loss of each participating record is eta, of shape (n,)."""
        batch = self.state.training.take(self.participants)
        return self._leakage.sufficient_noise(batch, self._measured(features), eta)

    def _measured(self, features: Any) -> Columns:
        """Columns over which a loss is measured: a block, or the whole record."""
        state = self.state
        if features is None:
            return state.whole_record
        return Columns(resolve_features(features, state.feature_names, state.n_features))

    def secrets(self, features: Any) -> list[Secret]:
        """Secrets of few values: a block of columns, or each column and the target for None."""
        state, rows = self.state, self.participants
        names = feature_labels(state.feature_names, state.n_features)
        if features is not None:
            columns = resolve_features(features, state.feature_names, state.n_features)
            blocks = [(columns, ", ".join(names[j] for j in columns))]
        else:
            blocks = [(np.array([j]), names[j]) for j in range(state.n_features)]
        found = []
        for columns, label in blocks:
            values = np.unique(_dense(state.objective.X[rows][:, columns]), axis=0)
            found.append(Secret(columns, values, label))
        if features is None and state.private_target:
            values = self._target_values()
            found.append(Secret(None, values, "the target"))
        # Values that most records have for themselves are those of a numeric column.
        most = min(MOST_VALUES, len(rows) // 2)
        return [secret for secret in found if 2 <= len(secret.values) <= most]

    def numeric_secrets(self, features: Any) -> list[Secret]:
        """Numeric columns of a block, or of the whole record for None, at values in their range."""
        state, rows = self.state, self.participants
        names = feature_labels(state.feature_names, state.n_features)
        measured, most = self._measured(features), min(MOST_VALUES, len(rows) // 2)
        indices = range(state.n_features) if measured.indices is None else measured.indices
        columns: list[tuple[IntArray | None, FloatArray, str]] = [
            (np.array([j]), _dense(state.objective.X[rows][:, [j]]), names[j]) for j in indices
        ]
        if measured.target and state.factor.n_target_directions == 1:
            columns.append((None, state.objective.y[rows], "the target"))
        return [
            Secret(which, np.linspace(own.min(), own.max(), _GRID)[:, None], label)
            for which, own, label in columns
            if len(np.unique(own)) > most
        ]

    def _target_values(self) -> FloatArray:
        """Values that a target may have, of shape (n_values, 1)."""
        objective = self.state.objective
        if isinstance(objective, MultinomialObjective):
            return np.arange(objective.n_classes, dtype=float)[:, None]
        if objective.loss.name == "logistic":
            return np.array([[0.0], [1.0]])
        return np.unique(objective.y[self.participants])[:, None]

    def attribute_codes(self, secret: Secret) -> IntArray:
        """Position of each participating record's own value among those of the secret, (n,)."""
        objective, rows = self.state.objective, self.participants
        if secret.columns is None:
            own = objective.y[rows, None]
        else:
            own = _dense(objective.X[rows][:, secret.columns])
        _, codes = np.unique(np.vstack([secret.values, own]), axis=0, return_inverse=True)
        codes = np.ravel(codes)
        position = np.empty(len(secret.values), dtype=np.intp)
        position[codes[: len(position)]] = np.arange(len(position))
        return position[codes[len(position) :]]

    def with_value(self, i: int, secret: Secret, value: FloatArray) -> Objective:
        """The objective with another value of a secret in the i-th participating record."""
        objective, row = self.state.objective, self.participants[i]
        ones = np.ones(len(objective.y))
        if secret.columns is None:
            y = objective.y.copy()
            y[row] = value[0]
            return replace(objective, y=y, reweights=ones)
        sparse_rows = sparse.issparse(objective.X)
        X = objective.X.tolil(copy=True) if sparse_rows else objective.X.copy()
        X[row, secret.columns] = value
        return replace(objective, X=sparse.csr_array(X) if sparse_rows else X, reweights=ones)

    @property
    def _leakage(self) -> LeakageModel:
        return leakage_model(self.state)

    def loss_brackets(
        self, secret: Secret, features: Any, quantile: float
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bounds on a quantile of the losses at unit noise; None if unknown."""
        if not self._leakage.has_brackets:
            return None
        given = self.state, self.participants, secret.columns, secret.values
        return loss_brackets(*given, self._measured(features), quantile)

    def distance_brackets(self, secret: Secret) -> tuple[FloatArray, FloatArray] | None:
        """Bounds on the largest distance between two values of a record; None if unknown.

        None, too, where the values themselves are those of one record: without it there are fewer.
        """
        if not self._leakage.has_brackets or secret.columns is None:
            return None
        encodings = self.encodings(secret.columns, secret.values)
        distances = np.zeros(len(encodings))
        for m in range(len(secret.values) - 1):
            gaps = encodings[:, m + 1 :] - encodings[:, m, None]
            distances = np.maximum(distances, np.linalg.norm(gaps, axis=2).max(axis=1))
        given = self.state, self.participants, secret.columns, secret.values
        low, high = distance_brackets(*given, distances)
        own = self.attribute_codes(secret)
        alone = np.bincount(own, minlength=len(secret.values))[own] == 1
        return np.where(alone[:, None], 0.0, low), high

    def attribute_values(self, attribute: Any) -> tuple[Array, FloatArray]:
        """Distinct values of an attribute, (n_values, k), and how often each occurs."""
        state, rows = self.state, self.participants
        columns = resolve_features(attribute, state.feature_names, state.n_features, "attribute")
        block = _dense(state.objective.X[rows][:, columns])
        values, inverse = np.unique(block, axis=0, return_inverse=True)
        # A row is one person, whatever its weight.
        return values, np.bincount(np.ravel(inverse), minlength=len(values)).astype(float)

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Encodings of the values for every participating record, (n, n_values, p).

        In coordinates in which the noise is isotropic.
        """
        equal = self._leakage.has_equal_noise
        if not equal:
            raise ValueError(
                "`MaxAdvantage` needs noise of a covariance that is the same under every value of "
                f"the attribute; got `noise_covariance={self.state.noise.name!r}`: "
                f"{equal.missing}. Use `MaxLeakage`, a number, or a covariance from public "
                "knowledge."
            )
        objective = self.state.objective
        everyone = candidate_encodings(self.state, objective.X, objective.y, attribute, values)
        return self.state.noise.whitened(everyone[self.participants])

    @property
    def n_parameters(self) -> int:
        """Number of parameters that are released."""
        return self.state.factor.coefficients.size

    @property
    def relative_step(self) -> float:
        """Bound on the step of the grid of the noise, over its least standard deviation."""
        return 2.0**-30 / float(np.sqrt(self.state.noise.smallest_variance))

    def sensitivity(self) -> float:
        """Largest change when a record is replaced, in units of the noise at scale 1.

        ValueError where there is none.
        """
        obstacles = guarantee_obstacles(self.state, self.promises)
        if obstacles:
            reasons = "; ".join(obstacles)
            raise ValueError(
                f"No differential-privacy guarantee can be calibrated: {reasons}. Use "
                "PrivateLogisticRegression with `data_norm`, `classes`, `public=('n_samples',)`, "
                "`fit_intercept=False`, `alpha > 0`, no reweighting and no `noise_covariance` that "
                "depends on the data, or another goal such as `MaxLeakage`."
            )
        sensitivity = release_sensitivity(self.state, self.promises)
        return sensitivity / float(np.sqrt(self.state.noise.smallest_variance))


def _dense(block: Any) -> FloatArray:
    return block.toarray() if sparse.issparse(block) else block
