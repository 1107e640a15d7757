"""What a private linear model says of the privacy of each of its training records."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.exceptions import AttackNotApplicableError
from skleak.influence.removal import (
    distances_without,
    removal_bounds,
    removal_distances,
    secret_distances,
)
from skleak.influence.state import FitState, without_records
from skleak.linear_model._measured import MeasuredModel
from skleak.mechanisms import MOST_VALUES
from skleak.report.guarantee import individual_obstacle, individual_privacy
from skleak.utils._arguments import check_scalar
from skleak.utils._blocks import Blocks
from skleak.utils._features import TARGET, is_target, resolve_features
from skleak.utils._predictions import label_positions
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.blocks._dask import is_large
from skleak.utils.summaries._rows import fetched


class IndividuallyMeasuredModel(MeasuredModel):
    """Privacy of every training record of a fitted model, for the data that there are."""

    @property
    def individual_privacy_(self) -> pd.DataFrame:
        """Privacy of each training record, as `individual_privacy` gives it. Confidential."""
        return self.individual_privacy()

    def individual_privacy(
        self,
        *,
        delta: float = 1e-6,
        baseline: float = 1e-3,
        features: Any = None,
        values: npt.ArrayLike | None = None,
        queries: Any = None,
        records: npt.ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Privacy of each training record: what its presence makes possible at most.

        The release is compared with that of the same fit without the record, all other records
        being what they are. Whatever an attack tries, if it is right with probability b on a model
        without this person, it is right with at most ``Phi(Phi^-1(b) + mu)`` on the model with
        them. Nobody else is covered: the numbers depend on the data, and are confidential.

        Parameters
        ----------
        delta : float in [0, 1], default=1e-6
            Delta at which epsilon is stated.
        baseline : float in (0, 1), default=1e-3
            Probability b that an attack is right on a model without the record.
        features : str, int, slice, mask or list, default=None
            Column or block of columns, or "(target)", that the attack is to guess from a prior:
            ``mu`` is then the largest over all values that the record might have in it. By default
            the record has the values that it has: a bound for attacks on membership.
        values : array-like of shape (n_values,) or (n_values, k), default=None
            Values that the block of k columns might have. By default those that occur, of which
            there may be at most 64.
        queries : array-like or sparse matrix of shape (k, n_features), default=None
            What an attacker sees are predictions for these records, and not the coefficients: see
            `fisher_information_loss`.
        records : array-like of int of shape (m,), default=None
            Positions of the training records to state it of; by default all.

        Returns
        -------
        DataFrame
            One row for each training record, by the index of the training data where they had one
            (else by position), and in its ``attrs`` the ``delta`` and the ``baseline``. Of all
            records outside memory a Dask array, (n,), with these names as its fields: exact for the
            squared loss, an upper bound for others (``epsilon`` too; ``once_in`` is a lower one).

            - ``mu``: distance of the noiseless parameters with and without the record over the
              noise. Infinite without noise, for a record without which there is no model, and for
              the only one of its class, where ``classes`` were not declared; else 0 for one of
              weight zero. A row is one person: it leaves with all of its weight.
            - ``epsilon``: at ``delta``, the rounding to the grid of the noise counted.
            - ``true_positives_at_1pct``: ``Phi(Phi^-1(0.01) + mu)``, share of releases with the
              record that the best test of membership finds at 1 % false alarms.
            - ``success_at_baseline``: ``Phi(Phi^-1(baseline) + mu)``.
            - ``once_in``: its inverse. An attack that is right once in ``1 / baseline`` on a model
              without this person is right at most once in this many on the model with them.

        Raises
        ------
        AttackNotApplicableError
            Where there is no exact answer: with noise whose scale or covariance is a function of
            the records, a reweighting, or a fit that did not converge. For all records outside
            memory with ``features``, or of several classes: name some by ``records``.
        NotFittedError
            Before ``fit``, and after unpickling, which drops what is confidential.
        ValueError
            For arguments out of range, unknown columns, or too many values.

        Notes
        -----
        Kulynych et al. (2025), arXiv:2507.06969. Noise from a seed or a generator can be drawn
        again, and protects nobody, whatever is stated here. Of the squared loss all records cost
        O(n p^2); of others up to O(n^2 p), as matrix products.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skleak.linear_model import PrivateLinearRegression
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = PrivateLinearRegression(noise_scale=20.0).fit(X, y)
        >>> privacy = model.individual_privacy(baseline=0.001)
        >>> privacy.loc[privacy["mu"].idxmax(), ["mu", "once_in"]].round(1).tolist()
        [0.3, 381.9]
        """
        state = self._seen_state(queries)
        limits = {
            "delta": check_scalar("delta", delta, high=1.0),
            "baseline": check_scalar("baseline", baseline, low_open=True, high=1.0, high_open=True),
        }
        obstacle = individual_obstacle(state, self._terms)
        if obstacle:
            raise AttackNotApplicableError(
                f"The privacy of one record has no exact answer here: {obstacle}. Fit with a "
                "number as `noise_scale`, isotropic noise or a matrix, and no reweighting; or "
                "measure attacks with MembershipAuditor."
            )
        if features is None and values is not None:
            raise ValueError("`values` are those of `features`: name the columns as well.")
        if records is None and is_large(state.objective.X):
            return self._lazily_private(state, features, limits)
        rows = None if records is None else _positions(records, state.objective.n_records)
        if features is not None:
            distances = secret_distances(state, *self._secret(features, values), rows)
        elif rows is None:
            distances = state.once(removal_distances)
        else:
            distances = distances_without(state, rows)
        table = individual_privacy(distances, state, **limits)
        table.index = self._row_index(rows)
        table.attrs.update(limits)
        return table

    @staticmethod
    def _lazily_private(state: FitState, features: Any, limits: dict[str, float]) -> Any:
        """Privacy of all records outside memory, (n,), lazily."""
        if features is not None:
            raise AttackNotApplicableError(
                "What an attack on a secret finds out is solved for record by record, and these "
                "lie outside memory. Name those that it is about by `records`."
            )
        distances = Blocks.of(removal_bounds(state), width=1)
        return distances.map(_as_fields, without_records(state), limits)

    def _row_index(self, rows: IntArray | None) -> pd.Index:
        """Index of training records, of all for None."""
        state = self._confidential_state()
        labels = state.row_labels
        if labels is None:
            every = pd.RangeIndex(state.objective.n_records, name="record")
            return every if rows is None else every[rows]
        if is_large(labels):
            assert rows is not None  # those of all stay where they are
            labels = pd.Index(fetched(rows, labels)[0])
        elif rows is not None:
            labels = labels[rows]
        unnamed = labels.nlevels == 1 and labels.name is None
        return labels.rename("record") if unnamed else labels

    def _secret(
        self, features: Any, values: npt.ArrayLike | None
    ) -> tuple[IntArray | None, FloatArray]:
        """Columns of a secret, (k,), and the values that it may have, (n_values, k)."""
        state = self._confidential_state()
        if is_target(features, state.feature_names):
            return None, self._target_values(values)
        columns = resolve_features(features, state.feature_names, state.n_features)
        if values is not None:
            given = np.asarray(values, dtype=float)
            return columns, given[:, None] if given.ndim == 1 and len(columns) == 1 else given
        return columns, self._found_values(columns)

    def _target_values(self, values: npt.ArrayLike | None) -> FloatArray:
        """Values that a target may have, in the numbers of the loss, (n_values, 1)."""
        if values is None:
            return self._found_values(TARGET)
        given, classes = np.ravel(np.asarray(values)), getattr(self, "classes_", None)
        if classes is None:
            return given.astype(float)[:, None]
        codes = label_positions(given, classes)
        if np.any(codes < 0):
            raise ValueError(
                f"`values` must be classes of the model, {np.asarray(classes).tolist()[:10]}; got "
                f"{given[codes < 0].tolist()[:5]}."
            )
        return codes.astype(float)[:, None]

    def _found_values(self, columns: Any) -> FloatArray:
        """Values that occur in a block of columns, or the target, (n_values, k)."""
        found = self._fitted_problem().block(columns).values
        if len(found) > MOST_VALUES:
            raise ValueError(
                f"`features` has {len(found)} distinct values, more than {MOST_VALUES}. Pass those "
                "that a record might have as `values`."
            )
        return found


def _positions(records: npt.ArrayLike, n: int) -> IntArray:
    """Positions of chosen records, (m,)."""
    rows = np.asarray(records)
    valid = rows.ndim == 1 and rows.dtype.kind in "iu" and len(rows) > 0
    if not valid or rows.min() < 0 or rows.max() >= n:
        raise ValueError(
            f"`records` must be positions of training records, whole numbers from 0 to {n - 1}; "
            f"got {records!r}. Pass a list of positions."
        )
    return rows.astype(np.intp)


def _as_fields(distances: FloatArray, state: FitState, limits: dict[str, float]) -> Array:
    """Privacy of the records of a block, (b,), a field for each number."""
    table = individual_privacy(distances, state, **limits)
    fields = np.empty(len(table), dtype=[(name, np.float64) for name in table])
    for name in table:
        fields[name] = table[name]
    return fields
