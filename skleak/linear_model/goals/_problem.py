"""What a noise goal may ask of the fit of a private linear model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from skleak.influence import candidate_encodings
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel, leakage_model
from skleak.influence.refit import (
    check_reached,
    distance_brackets,
    largest_distances,
    loss_brackets,
    target_encodings,
)
from skleak.influence.state import FitState
from skleak.mechanisms import MOST_VALUES, PublicProblem, Secret
from skleak.report.guarantee import Promises, guarantee_obstacles, release_sensitivity
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._features import TARGET, feature_labels, is_target, resolve_features
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# Values within the range of a numeric column at which the noise that a goal needs is bounded.
_GRID = 5


@dataclass(frozen=True)
class LinearModelProblem:
    """A `skleak.mechanisms.FittedProblem` made from the state of a fit."""

    state: FitState  # state of the fit, at unit noise
    promises: Promises  # what is public knowledge of the fit

    @classmethod
    def of(cls, state: FitState, promises: Promises) -> Self:
        """Make the problem of a fit; ValueError where it did not converge."""
        if not state.converged:
            raise ValueError(
                f"{state.failure}, and a noise goal needs what the records leak at the minimiser. "
                f"{state.remedy}"
            )
        return cls(state, promises)

    @property
    def participants(self) -> IntArray:
        """Records that take part in the fit."""
        return np.flatnonzero(self.state.objective.sample_weight > 0.0)

    @property
    def positions(self) -> IntArray:
        """Positions of the records for which numbers are known, (n,)."""
        return self.participants

    @property
    def n_participants(self) -> int:
        """Number of records that take part."""
        return len(self.participants)

    def sufficient_noise(self, eta: float, features: Any) -> FloatArray:
        """Noise scale at which the loss of each participating record is eta, of shape (n,)."""
        batch = self.state.training.take(self.participants)
        return self._leakage.sufficient_noise(batch, self._measured(features), eta)

    def _measured(self, features: Any) -> Columns:
        """Columns over which a loss is measured: a block, or the whole record."""
        if features is None:
            return self.state.whole_record
        return Columns(self._columns(features, "features"))

    def _columns(self, features: Any, parameter: str) -> IntArray:
        """Positions of columns that a goal names, (k,)."""
        state = self.state
        try:
            return resolve_features(features, state.feature_names, state.n_features, parameter)
        except ValueError as error:
            if parameter == "features" and self._is_target(features):
                raise ValueError(
                    "`MaxLeakage.features` names the target, which is not a column of the records "
                    "that the model is given. Inside `fit` use MaxAdvantage(..., "
                    "attribute='(target)') for labels; or find the noise for MaxLeakage(..., "
                    "features='(target)') by skleak.mechanisms.calibrate(pipeline, goal, X, y)."
                ) from error
            raise ValueError(
                f"{error} A goal inside `fit` is about the columns that the model is given, as "
                "transformers before it have made and named them: pass one of these, or the block "
                "of them that a raw column became. The noise for a goal about raw columns is found "
                "by skleak.mechanisms.calibrate(pipeline, goal, X, y)."
            ) from error

    def _is_target(self, reference: Any) -> bool:
        return is_target(reference, self.state.feature_names)

    def _target(self) -> Secret:
        return Secret(
            None, self._target_values(lambda target: self._values(target)[0]), "the target"
        )

    def block(self, features: Any) -> Secret:
        """Find a block of columns at the values that participating records have; the target."""
        state = self.state
        if self._is_target(features):
            return self._target()
        columns = self._columns(features, "features")
        names = feature_labels(state.feature_names, state.n_features)
        return Secret(columns, self._values(columns)[0], ", ".join(names[j] for j in columns))

    def secrets(self, features: Any) -> list[Secret]:
        """List a block of few values, else its columns of few; for None all entries of few."""
        if features is None:
            secrets = self._single_entries()
        else:
            block = self.block(features)
            if self._has_few(block):
                return [block]
            secrets = [secret for secret in self._single_entries() if secret.is_in(block)]
        return [secret for secret in secrets if self._has_few(secret)]

    def entries(self) -> list[Secret]:
        """Each column and a private target, at its values or, if they are many, in their range."""
        found = []
        for secret in self._single_entries():
            if len(secret.values) > 1 and not self._has_few(secret):
                ends = secret.values.min(), secret.values.max()
                secret = replace(secret, values=np.linspace(*ends, _GRID)[:, None])
            found.append(secret)
        return [secret for secret in found if len(secret.values) > 1]

    def _single_entries(self) -> list[Secret]:
        state = self.state
        names = feature_labels(state.feature_names, state.n_features)
        columns = [np.array([j]) for j in range(state.n_features)]
        found = [Secret(j, self._single(j), names[j[0]]) for j in columns]
        if state.private_target:
            found.append(Secret(None, self._target_values(self._single), "the target"))
        return found

    def _single(self, columns: IntArray | None) -> FloatArray:
        """Values of one column, or of the target; enough of them to tell whether they are few."""
        return self._values(columns)[0]

    def _has_few(self, secret: Secret) -> bool:
        """Return True for a secret of few values.

        Values that most records have for themselves are those of a numeric column. One that a
        single record has does not count: that record's own value must not settle what is few.
        """
        counts = self._counts(secret)
        n_values = len(counts) - bool(np.any(counts == 1))
        return len(counts) > 1 and n_values <= min(MOST_VALUES, self.n_participants // 2)

    def _counts(self, secret: Secret) -> FloatArray:
        """Return how many participating records have each value of a secret, (n_values,)."""
        counts = np.bincount(self.attribute_codes(secret), minlength=len(secret.values))
        return counts.astype(float)

    def _values(self, columns: IntArray | None) -> tuple[FloatArray, FloatArray]:
        """Values that participating records have, (n_values, k), and how many have each."""
        entries = self._entries_of(columns)
        values, codes = np.unique(entries, axis=0, return_inverse=True)
        return values, np.bincount(np.ravel(codes), minlength=len(values)).astype(float)

    def _entries_of(self, columns: IntArray | None) -> FloatArray:
        """Entries of the participating records, of shape (n, k); the target for None."""
        objective, rows = self.state.objective, self.participants
        if columns is None:
            return objective.y[rows, None]
        if sparse.issparse(objective.X):
            return objective.X[:, columns].toarray()[rows]
        return objective.X[np.ix_(rows, columns)]

    def one_hot_rows(self, columns: IntArray, j: int) -> tuple[IntArray, FloatArray]:
        """Columns that may be one-hot together with column j, (k,), and their entries, (n, k)."""
        return columns, self._entries_of(columns)

    def _target_values(self, found: Callable[[None], FloatArray]) -> FloatArray:
        """Values that a target may have, (n_values, 1): the classes, or those that are found."""
        objective = self.state.objective
        if isinstance(objective, MultinomialObjective):
            return np.arange(objective.n_classes, dtype=float)[:, None]
        if objective.loss.name == "logistic":
            return np.array([[0.0], [1.0]])
        return found(None)

    def own_values(self, secret: Secret) -> BoolArray:
        """Mask of the value that each record has, which need not be listed, (n, n_values)."""
        own = self._entries_of(secret.columns)
        return np.all(own[:, None, :] == secret.values, axis=2)

    def attribute_codes(self, secret: Secret) -> IntArray:
        """Position of each participating record's own value among those of the secret, (n,)."""
        own = self._entries_of(secret.columns)
        _, codes = np.unique(np.vstack([secret.values, own]), axis=0, return_inverse=True)
        codes = np.ravel(codes)
        position = np.empty(len(secret.values), dtype=np.intp)
        position[codes[: len(position)]] = np.arange(len(position))
        return position[codes[len(position) :]]

    def with_value(self, row: int, secret: Secret, value: FloatArray) -> Objective:
        """Give the record at a position another value of a secret."""
        objective = self.state.objective
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
        given = self.state, self.positions, secret.columns, secret.values
        return loss_brackets(*given, self._measured(features), quantile)

    def distance_brackets(
        self, secret: Secret, attribute: Secret
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bounds on the largest distance of two values of an attribute; None if unknown."""
        if not self._leakage.has_brackets:
            return None
        if attribute.columns is None and secret.columns is not None:
            return None
        state, rows = self.state, self.participants
        named = TARGET if attribute.columns is None else attribute.columns
        encodings = self.encodings(named, attribute.values)
        low, high = distance_brackets(
            state,
            rows,
            (secret.columns, secret.values),
            (attribute.columns, attribute.values),
            largest_distances(encodings),
        )
        if secret.is_in(attribute):
            # Without the only record that has a value there are fewer.
            own = self.attribute_codes(secret)
            alone = np.bincount(own, minlength=len(secret.values))[own] == 1
            low = np.where(alone[:, None], 0.0, low)
        return low, high

    def attribute_values(self, attribute: Any) -> tuple[Array, FloatArray]:
        """Distinct values of an attribute, (n_values, k), and how often each occurs."""
        if self._is_target(attribute):
            target = self._target()
            return target.values, self._counts(target)
        # A row is one person, whatever its weight.
        return self._values(self._columns(attribute, "attribute"))

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Encode the values for every participating record, (n, n_values, p).

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
        if self._is_target(attribute):
            found = target_encodings(self.state, self.participants, values[:, 0])
        else:
            objective = self.state.objective
            found = candidate_encodings(self.state, objective.X, objective.y, attribute, values)
            found = found[self.participants]
        check_reached(found, "The noise that `MaxAdvantage` needs")
        return self.state.noise.whitened(found)

    @property
    def n_parameters(self) -> int:
        """Number of parameters that are released."""
        return self.state.factor.coefficients.size

    @property
    def public(self) -> PublicProblem:
        """Public knowledge of the fit: no number in it is a function of the records."""
        state, promises = self.state, self.promises
        step, sensitivity, n_samples = np.nan, np.nan, None
        if not state.noise.reads_data:
            least = float(np.sqrt(state.noise.smallest_variance))
            step = 2.0**-30 / least
        obstacles = guarantee_obstacles(state, promises)
        if not obstacles:
            sensitivity = release_sensitivity(state, promises) / least
        if "n_samples" in promises.public:
            n_samples = state.objective.n_records
        return PublicProblem(self.n_parameters, step, n_samples, sensitivity, tuple(obstacles))
