"""What a noise goal may ask of a fit whose records lie outside memory.

Numbers of records are Dask arrays, with a row for every record; those that take no part are NaN, or
count as records that no other value would move.
"""

from typing import Any

import numpy as np

from skleak.influence.state import FitState
from skleak.linear_model.goals._distinct import Distinct, Listed, each_listed
from skleak.linear_model.goals._problem import LinearModelProblem
from skleak.mechanisms import Secret
from skleak.report import Promises
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, dense, positions_of
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray
from skleak.utils.blocks._dask import is_large


def problem_of(state: FitState, promises: Promises) -> LinearModelProblem:
    """Make the problem of a fit, wherever its records lie; ValueError where it did not converge."""
    kind = LargeProblem if is_large(state.objective.X) else LinearModelProblem
    return kind.of(state, promises)


class LargeProblem(LinearModelProblem):
    """A `LinearModelProblem` of records outside memory."""

    @property
    def positions(self) -> Any:
        """Positions of all records, (n,), lazily."""
        return positions_of(self.state.objective.X)

    @property
    def n_participants(self) -> int:
        """Number of records that take part."""
        return self.state.once(each_listed)[-1].n

    def sufficient_noise(self, eta: float, features: Any) -> Any:
        """Noise scale at which the loss of each record is eta, of shape (n,), lazily."""
        batch = self.state.training
        scales = self._leakage.sufficient_noise(batch, self._measured(features), eta)
        return np.where(batch.present, scales, np.nan)

    def own_values(self, secret: Secret) -> Any:
        """Mask of the value that each record has, (n, n_values), lazily."""
        objective = self.state.objective
        blocks = Blocks.of(objective.X, objective.y, objective.sample_weight, keep_sparse=True)
        return blocks.map(_own_values, secret.columns, secret.values)

    def attribute_codes(self, secret: Secret) -> Any:
        """Position of each record's own value among those of the secret, (n,), lazily."""
        return self.own_values(secret).argmax(axis=1)

    def _counts(self, secret: Secret) -> FloatArray:
        found = self._listed(secret.columns)
        return found.counts_of(secret.values) if found.is_complete else np.ones(len(secret.values))

    def _listed(self, columns: IntArray | None) -> Distinct:
        """Values of a block; of one column no more than show whether they are few."""
        if columns is None or len(columns) == 1:
            return self.state.once(each_listed)[-1 if columns is None else int(columns[0])]
        return self.state.once(Listed(tuple(columns.tolist())))

    def _values(self, columns: IntArray | None) -> tuple[FloatArray, FloatArray]:
        found = self._listed(columns)
        if not found.is_complete:
            named = None if columns is None else tuple(columns.tolist())
            found = self.state.once(Listed(named))
        return found.values, found.counts

    def _single(self, columns: IntArray | None) -> FloatArray:
        return self._listed(columns).values

    def one_hot_rows(self, columns: IntArray, j: int) -> tuple[IntArray, FloatArray]:
        """Columns of two values that are never set where column j is, and their distinct rows.

        None of them where these are too many for a one-hot block.
        """
        listed = self.state.once(each_listed)
        columns = np.array([k for k in columns if len(listed[k].values) == 2], dtype=np.intp)
        if j not in columns:
            return columns[:0], np.empty((1, 0))
        high = np.array([listed[k].values[-1, 0] for k in columns])
        records = self.state.objective.X, self.state.objective.sample_weight
        both = Blocks.of(*records, keep_sparse=True).map_reduce(
            _set_together, np.add, columns, high, int(np.flatnonzero(columns == j)[0])
        )
        columns = columns[(both == 0.0) | (columns == j)]
        found = self._listed(columns)
        return (columns, found.values) if found.is_complete else (columns[:0], np.empty((1, 0)))

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Refuse to bring together what has a vector of parameters for each record."""
        n = self.state.objective.n_records
        raise ValueError(
            f"`MaxAdvantage` measures a pair of models for each record, and {n} records outside "
            "memory are too many for the machine of one block. Use `MaxLeakage`, or find the noise "
            "on fewer public records by `goal.noise_scale_of(model)`."
        )

    def with_value(self, row: int, secret: Secret, value: FloatArray) -> Objective:
        """Give a record, which stays where it is, another value of a secret."""
        objective: Any = self.state.objective
        return objective.with_entries(row, secret.columns, value)


def _own_values(
    X: Data, y: FloatArray, s: FloatArray, columns: IntArray | None, values: FloatArray
) -> BoolArray:
    """Mask of the value that each record of a block has; all of them where it takes no part."""
    entries = y[:, None] if columns is None else dense(X[:, columns])
    own = np.all(entries[:, None, :] == values, axis=2)
    return np.asarray(own | (s <= 0.0)[:, None])


def _set_together(
    X: Data, s: FloatArray, columns: IntArray, high: FloatArray, j: int
) -> FloatArray:
    """Count records of a block with columns at their larger value along with the j-th, (k,)."""
    table = dense(X[:, columns])[s > 0.0] == high
    return np.asarray(table[table[:, j]].sum(axis=0), dtype=float)
