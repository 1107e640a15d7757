"""A leakage report about the raw columns of a pipeline."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import column_names, raw_column
from skleak.influence.refit import whitened
from skleak.influence.state import FitState, RecordBatch
from skleak.inspection._attribute_leakage import NO_REFIT, Question, ask, record_labels
from skleak.inspection._columns import Cells, Unknown, with_numbers
from skleak.inspection._held import held
from skleak.inspection._large import own_labels
from skleak.inspection._pipeline import Inspected, encodings
from skleak.report import LeakageReport
from skleak.report.leakage import MeasuredTable, build_leakage_report
from skleak.report.measures import (
    GOAL,
    Separation,
    Separator,
    averaged_information,
    prior_ends,
    target,
)
from skleak.report.measures import Unknown as UnknownTarget
from skleak.utils._records import (
    Persons,
    checked_labels,
    is_single_feature,
    named,
    resolve_features,
    row_labels,
    withholding,
)
from skleak.utils._summaries import Moments
from skleak.utils._typing import Array, FloatArray, IntArray

# Records of which the information about a number is averaged over what it might be.
_MOST_AVERAGED = 2
_FIRST_ORDER = "to first order"
_UNKNOWN = "the covariance of the noise is a function of the records"


@withholding
def leakage_report(
    pipeline: Any,
    X: Any,
    y: Any,
    columns: Any = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    records: Any = None,
    nominal: Any = (),
    refit_preprocessing: bool = False,
    queries: Any = None,
    persons: Any = None,
) -> LeakageReport:
    """Report what a release of a fitted pipeline leaks about the columns that a person has.

    Columns are raw ones, before they were encoded, as `attribute_leakage` measures them: a nominal
    column is one, whatever its encoding. All else in the report is about the records as the model
    received them.

    Parameters
    ----------
    pipeline : estimator or Pipeline
        Fitted; ends in a private estimator of this library, which still has its training data.
    X : DataFrame, array-like, path, Polars lazy frame or Dask frame of shape (n, n_columns)
        Raw training records of the pipeline, in the same order.
    y : array-like of shape (n,), or str
        Their targets; of a table outside memory, perhaps the column that holds them.
    columns : str, int, slice, mask, list or mapping, default=None
        Columns to report on, as in `attribute_leakage`.
    sample_weight : array-like of shape (n,) or str, default=None
        Weights that the model was fitted with.
    groups : array-like of shape (n,), str or int, default=None
        Label of each record's group, or the raw column that holds it.
    records : array-like of int, boolean mask, slice or None, default=None
        Positions of the records to report on. None for all, or where these would take more than
        a minute or two, for those of largest loss, those that alone carry a value, and others.
    nominal : str, int, slice, mask or list, default=()
        Columns whose numbers are codes.
    refit_preprocessing : bool, default=False
        Count what the transformers learned from a record, too.
    queries : DataFrame or array-like of shape (k, n_columns), default=None
        Raw records for which the attacker sees predictions, and not the model, as in
        `attribute_leakage`.
    persons : array-like of shape (n,), str or int, default=None
        Whose row each is, or the raw column that says so, which is then not reported on; a Series
        is read by the index of X. Results are about persons: of values that they share, all of
        their rows have each in turn, and a number moves by as much in all of them. None takes what
        the model was fitted with, else each row for a person.

    Returns
    -------
    LeakageReport
        Confidential. Records go by their labels in the index of X, and persons by their own.

    Raises
    ------
    ValueError, TypeError, NotFittedError
        As `attribute_leakage`; and for ``groups`` of another length.
    AttackNotApplicableError
        For ``refit_preprocessing`` where there is no exact answer; with persons of several rows
        for that, blocks of numbers, and tables outside memory.

    See Also
    --------
    attribute_leakage : The numbers of every record and column.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
    >>> from skleak.inspection import leakage_report
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(50, 9, 200), "ward": rng.choice(["A", "B"], 200)})
    >>> y = 0.1 * X["age"] + (X["ward"] == "A") + rng.normal(size=200)
    >>> encoder = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["ward"]))
    >>> pipeline = make_pipeline(encoder, PrivateLinearRegression(0.05)).fit(X, y)
    >>> report = leakage_report(pipeline, X, y)
    >>> sorted(report.features.index)
    ['(target)', 'age', 'ward']
    >>> report.person(17).columns["advantage_any_prior"].between(0.0, 1.0).all()
    np.True_
    """
    how = records, nominal, refit_preprocessing, queries, persons
    asked = ask(pipeline, X, y, columns, sample_weight, *how)
    data, rows, whose = asked.data, asked.rows, asked.data.state.persons
    found = _Separations.of(asked)
    everyone = record_labels(data.table) if whose is None else pd.Index(whose.labels)
    labels = everyone[rows if whose is None else np.searchsorted(whose.first, rows)]
    return build_leakage_report(
        data.state,
        data.state.objective.X[rows],
        data.state.objective.y[rows],
        blocks=[],
        labels=[],
        promises=data.model._terms,
        groups=None if groups is None else _groups(groups, data, rows),
        estimator=type(data.model).__name__,
        index=labels,
        rows=rows,
        table_index=everyone,
        raw=MeasuredTable(*found.measured(), found.assumptions()),
    )


def _groups(groups: Any, data: Inspected, rows: IntArray) -> Array:
    """Group label of each of some records, (b,)."""
    n, n_columns = data.table.shape
    if data.facts is not None:
        groups = own_labels(groups, data.facts.positions)
    if is_single_feature(groups):
        names = column_names(data.table)
        groups = raw_column(data.table, int(resolve_features(groups, names, n_columns)[0]))
    return checked_labels(groups, n, named(row_labels(data.table)))[rows]


@dataclass(frozen=True)
class _Separations:
    """Distances between the values of what is asked about, for a report."""

    asked: Question
    batch: RecordBatch  # records, or persons, that are asked about
    # What was measured of each, in records at some positions; None where there is no answer
    cells: list[tuple[IntArray, Cells] | None]

    @classmethod
    def of(cls, asked: Question) -> "_Separations":
        """Measure all that has an answer, exact or to first order."""
        state = asked.data.state
        batch = state.training.take(asked.rows)
        batch = batch if state.persons is None else state.by_person(asked.persons)
        unequal = _has_goal(asked) or state.noise.reads_data
        some = [one for one in asked.unknown if not unequal or one.is_number or one.n_values == 1]
        found = iter(asked.cells(some) if some else ())
        return cls(asked, batch, [next(found) if one in some else None for one in asked.unknown])

    @property
    def _state(self) -> FitState:
        return self.asked.data.state

    def assumptions(self) -> tuple[str, ...]:
        """Of which records the columns are known, and what became of the transformers."""
        n, rows, some = self.asked.n, self.asked.rows, []
        if (seen := self._state.noise.seen) is not None:
            some.append(
                "The attacker sees predictions for some queries, and not the model: of its "
                f"{seen.shape[0]} parameters {seen.shape[1]} combinations. Whoever asks more "
                "learns more."
            )
        if not self.asked.named and len(rows) < n:
            some.append(
                f"All is about {len(rows)} of {n} records, half of them those of largest "
                "information loss, the others evenly spaced: all would take long. Name others, or "
                "all, in `records`."
            )
        if not self.asked.refit:
            return (
                *some,
                "Columns are raw ones, followed through the fitted transformers, which are held "
                "fixed and count as public: what they learned from the records is not counted.",
            )
        notes = [one[1].notes for one in self.cells if one]
        fewest = min((sum(NO_REFIT not in note for note in some) for some in notes), default=n)
        if not self.asked.named and fewest < len(rows):
            some.append(
                "What takes refits of the preprocessing is known of few records alone, half of "
                f"them those of largest information loss, the others evenly spaced: {fewest}. "
                "Of others more may be learned; name them in `records`."
            )
        return (
            *some,
            "Columns are raw ones; what the transformers learned from a record counts as far as it "
            "moves the model.",
        )

    def measured(self) -> tuple[list[Separation], list[Moments]]:
        """Separations of all that is asked about, and statistics of their losses."""
        separations, losses = [], []
        for unknown, cells in zip(self.asked.unknown, self.cells, strict=True):
            loss, separation = self._one(unknown, cells)
            separations.append(separation)
            seen = self.batch.present & ~np.isnan(loss)
            losses.append(Moments.of((loss[seen] if np.any(seen) else np.full(1, np.nan))[:, None]))
        return separations, losses

    def _one(
        self, unknown: Unknown, cells: tuple[IntArray, Cells] | None
    ) -> tuple[FloatArray, Separation]:
        """Losses of all records, and distances."""
        rows, goal = self.asked.rows, _has_goal(self.asked)
        loss, distance, from_own = np.full((3, len(rows)), np.nan)
        notes: list[str] = []
        if cells is not None:
            # Records that were not refitted are not among them.
            place, found = pd.Index(rows).get_indexer(cells[0]), cells[1]
            loss[place], distance[place] = found.loss, found.distance
            from_own[place] = found.from_own
            notes = [note for note in pd.unique(found.notes) if note]
        exact = ~np.isnan(distance)
        if unknown.is_target and not np.any(exact):
            return loss, self._target_alone(unknown)
        if goal:
            distance, from_own, notes = self._at_this_scale(unknown)
            exact = ~np.isnan(distance)
        elif cells is None:
            notes = [_UNKNOWN]
        elif unknown.is_number and not np.any(exact):
            step = unknown.sd if unknown.kind == "numbers" else unknown.step
            distance = from_own = step * loss
            notes = [*notes, _FIRST_ORDER]
        single = unknown.kind == "number"
        return loss, Separation(
            str(unknown.label),
            unknown.kind,
            unknown.n_values,
            distance,
            from_own,
            unknown.shares[rows],
            exact,
            "; ".join(notes[:3]),
            unknown.sd if single else np.nan,
            unknown.step,
            self._information(unknown, loss) if single else np.nan,
            column_std=unknown.sd if single else np.nan,
        )

    def _target_alone(self, unknown: Unknown) -> Separation:
        """Return the target as the model received it, where the pipeline tells nothing of it."""
        found = self._separator.measure(self._target)
        note = GOAL if _has_goal(self.asked) else found.note
        return replace(found, name=str(unknown.label), kind=unknown.kind, note=note)

    @property
    def _separator(self) -> Separator:
        return Separator(self._state, self.batch, self.asked.rows)

    @property
    def _target(self) -> UnknownTarget:
        """Return the target as the model received it."""
        facts = self.asked.data.facts
        return target(self._state) if facts is None else facts.target

    def _at_this_scale(self, unknown: Unknown) -> tuple[FloatArray, FloatArray, list[str]]:
        """Distances at the noise of this fit, (b,) each, where it is a function of the records."""
        if self._state.noise.reads_data:
            return *np.full((2, len(self.asked.rows)), np.nan), [_UNKNOWN]
        cells = held(self.asked.data, [unknown], self.asked.persons, "")[0]
        return cells.distance, cells.from_own, [GOAL]

    def _information(self, unknown: Unknown, loss: FloatArray) -> float:
        """Information about a number, averaged over its prior for the most exposed records."""
        state = self._state
        known = np.where(self.batch.present, np.nan_to_num(loss, nan=0.0, posinf=np.inf), 0.0)
        if not unknown.sd > 0.0:
            return 0.0
        most = float(known.max(initial=0.0))
        if unknown.is_target:
            return self._separator.information(self._target)
        fixed = not self.asked.refit and not state.noise.reads_data and state.balanced is None
        if not fixed or state.persons is not None or not np.isfinite(most):
            return most**2
        some = self.asked.rows[np.argsort(-known, kind="stable")[:_MOST_AVERAGED]]
        averaged = self._averaged(unknown, some)
        return most**2 if averaged is None else averaged

    def _averaged(self, column: Unknown, rows: IntArray) -> float | None:
        """Largest average of some records; None where the encoding is undefined somewhere."""
        data, state, noise = self.asked.data, self._state, self._state.noise_scale
        own = data.encode(data.rows(rows))
        ends = prior_ends(column.mean, column.sd)
        candidates = [with_numbers(data, [column], rows, [np.full(len(rows), end)]) for end in ends]
        if not np.all([np.all(np.isfinite(each)) for each in candidates]):
            return None
        points = whitened(state, encodings(state, Persons.single(rows), own, candidates))
        squares = averaged_information(points, column.sd)
        if noise == 0.0:
            return float(np.inf) if np.any(squares > 0.0) else 0.0
        return float(squares.max()) / noise**2


def _has_goal(asked: Question) -> bool:
    return asked.data.model._terms.noise_goal is not None
