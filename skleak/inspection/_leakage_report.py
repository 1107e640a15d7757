"""A leakage report about the raw columns of a pipeline."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import column_names, raw_column
from skleak.influence.refit import whitened
from skleak.inspection._attribute_leakage import (
    check,
    chosen,
    leakage_table,
    nominal_columns,
    opened,
)
from skleak.inspection._columns import RawColumn, with_numbers
from skleak.inspection._counted import NO_REFIT, held
from skleak.inspection._pipeline import Inspected
from skleak.inspection._selection import Target, Unknown, read, resolved
from skleak.inspection._separation import encodings
from skleak.inspection._table import record_labels
from skleak.inspection.large import SomeRecords
from skleak.report import LeakageReport
from skleak.report.in_memory import MeasuredTable, build_leakage_report
from skleak.report.measures import (
    GOAL,
    Separation,
    Separator,
    averaged_information,
    loss_table,
    prior_ends,
    target,
)
from skleak.report.measures import Unknown as UnknownTarget
from skleak.utils._features import is_single_feature, resolve_features
from skleak.utils._records import checked_labels, named, row_labels, withholding
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

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

    Returns
    -------
    LeakageReport
        Confidential. Records go by their labels in the index of X.

    Raises
    ------
    ValueError, TypeError, NotFittedError
        As `attribute_leakage`; and for ``groups`` of another length.
    AttackNotApplicableError
        For ``refit_preprocessing`` where there is no exact answer.

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
    >>> report.person(17).columns["gain"].between(0.0, 1.0).all()
    np.True_
    """
    data, some = opened(pipeline, X, y, sample_weight, records, refit_preprocessing, queries)
    found = _Asked(data, columns, nominal, records, refit_preprocessing, some)
    separations, losses = found.measured()
    state, rows = data.state, found.rows
    labels = record_labels(data.table)[rows]
    return build_leakage_report(
        state,
        state.objective.X[rows],
        state.objective.y[rows],
        blocks=[],
        labels=[],
        promises=data.model._terms,
        groups=None if groups is None else _groups(groups, data, rows),
        estimator=type(data.model).__name__,
        index=labels,
        rows=rows,
        table_index=record_labels(data.table),
        raw=MeasuredTable(separations, losses, found.assumptions()),
    )


def _groups(groups: Any, data: Inspected, rows: IntArray) -> Array:
    """Group label of each of some records, (b,)."""
    n, n_columns = data.table.shape
    if data.facts is not None:
        groups = data.facts.own(groups)
    if is_single_feature(groups):
        names = column_names(data.table)
        groups = raw_column(data.table, int(resolve_features(groups, names, n_columns)[0]))
    return checked_labels(groups, n, named(row_labels(data.table)))[rows]


class _Asked:
    """Items asked about some records, and the way to measure them."""

    def __init__(
        self,
        data: Inspected,
        columns: Any,
        nominal: Any,
        asked: Any,
        refit: bool,
        some: SomeRecords | None = None,
    ) -> None:
        self.data, self.refit = data, refit
        self._items = resolved(columns, data)
        codes = nominal_columns(nominal, data)
        check(data, refit)
        self._unknown = read(data, self._items, codes, refit=refit)
        self._unasked = asked is None
        self.rows, self._n = chosen(data, self._unknown, asked, some)
        self._refitted = len(self.rows)
        self._goal = data.model._terms.noise_goal is not None
        self._present = data.state.objective.sample_weight[self.rows] > 0.0

    def assumptions(self) -> tuple[str, ...]:
        """Of which records the columns are known, and what became of the transformers."""
        n, some = self._n, []
        if (seen := self.data.state.noise.seen) is not None:
            some.append(
                "The attacker sees predictions for some queries, and not the model: of its "
                f"{seen.shape[0]} parameters {seen.shape[1]} combinations. Whoever asks more "
                "learns more."
            )
        if self._unasked and len(self.rows) < n:
            some.append(
                f"All is about {len(self.rows)} of {n} records, half of them those of largest "
                "information loss, the others evenly spaced: all would take long. Name others, or "
                "all, in `records`."
            )
        if not self.refit:
            return (
                *some,
                "Columns are raw ones, followed through the fitted transformers, which are held "
                "fixed and count as public: what they learned from the records is not counted.",
            )
        if self._unasked and self._refitted < len(self.rows):
            some.append(
                "What takes refits of the preprocessing is known of few records alone, half of "
                f"them those of largest information loss, the others evenly spaced: "
                f"{self._refitted}. Of others more may be learned; name them in "
                "`records`."
            )
        return (
            *some,
            "Columns are raw ones; what the transformers learned from a record counts as far as it "
            "moves the model.",
        )

    def measured(self) -> tuple[list[Separation], pd.DataFrame]:
        """Separations of all items, and statistics of their losses."""
        table = self._table()
        if self.refit and len(table):
            there = table[~table["note"].str.contains(NO_REFIT)]
            self._refitted = int(there.groupby("column").size().min())
        separations, losses = [], []
        for k, (unknown, (_, label)) in enumerate(zip(self._unknown, self._items, strict=True)):
            loss, separation = self._one(unknown, str(label), table[table["column"] == k])
            separations.append(separation)
            scale = np.array([unknown.sd if unknown.kind == "number" else np.nan])
            seen = self._present & ~np.isnan(loss)
            some = loss[seen] if np.any(seen) else np.full(1, np.nan)
            losses.append(loss_table(some[:, None], scale, [separation.name]))
        return separations, pd.concat(losses)

    def _table(self) -> pd.DataFrame:
        """Table of `attribute_leakage`, records by position and items by number."""
        asked = [
            replace(unknown, label=k)
            for k, unknown in enumerate(self._unknown)
            if self._comparable(unknown)
        ]
        if not asked:
            return pd.DataFrame({"column": []})
        data = self.data
        if isinstance(data.table, pd.DataFrame):
            by_position = data.table.set_axis(pd.RangeIndex(len(data.table)))
            data = replace(data, table=by_position)
        return leakage_table(data, asked, self.rows, self.refit, not self._unasked)

    def _comparable(self, unknown: Unknown) -> bool:
        """Return True if there is an answer, exact or to first order."""
        unequal = self._goal or self.data.state.noise.reads_data
        return not unequal or unknown.is_number or unknown.n_values == 1

    def _one(
        self, unknown: Unknown, name: str, cells: pd.DataFrame
    ) -> tuple[FloatArray, Separation]:
        """Losses of all records, and distances."""
        n = len(self.rows)
        loss, distance, from_own = np.full((3, n), np.nan)
        notes: list[str] = []
        if len(cells):
            # Records that were not refitted are not in the table.
            place = pd.Index(self.rows).get_indexer(pd.Index(cells["record"]))
            loss[place], distance[place] = cells["fisher_information_loss"], cells["distance"]
            from_own[place] = cells["distance_from_own"]
            notes = [note for note in cells["note"].unique() if note]
        exact = ~np.isnan(distance)
        if isinstance(unknown, Target) and not np.any(exact):
            return loss, self._target_alone(unknown, name)
        if self._goal:
            distance, from_own, notes = self._at_this_scale(unknown)
            exact = ~np.isnan(distance)
        elif not unknown.is_number and not len(cells):
            notes = [_UNKNOWN]
        elif unknown.is_number and not np.any(exact):
            distance, from_own = 2.0 * unknown.sd * loss, unknown.sd * loss
            notes = [*notes, _FIRST_ORDER]
        return loss, Separation(
            name,
            unknown.kind,
            unknown.n_values,
            distance,
            from_own,
            unknown.shares[self.rows],
            exact,
            "; ".join(notes[:3]),
            float(unknown.sd) if unknown.kind == "number" else np.nan,
            self._information(unknown, loss) if unknown.kind == "number" else np.nan,
        )

    def _target_alone(self, unknown: Target, name: str) -> Separation:
        """Return the target as the model received it, where the pipeline tells nothing of it."""
        state = self.data.state
        found = Separator(state, state.training.take(self.rows), self.rows).measure(self._target())
        note = GOAL if self._goal else found.note
        return replace(found, name=name, kind=unknown.kind, note=note)

    def _target(self) -> UnknownTarget:
        """Return the target as the model received it."""
        facts = self.data.facts
        return target(self.data.state) if facts is None else facts.encoded_target(self.data)

    def _at_this_scale(self, unknown: Unknown) -> tuple[FloatArray, FloatArray, list[str]]:
        """Distances at the noise of this fit, (b,) each, where it is a function of the records."""
        if self.data.state.noise.reads_data:
            return *np.full((2, len(self.rows)), np.nan), [_UNKNOWN]
        cells = held(self.data, [unknown], self.rows, "")[0].cells
        return cells.distance, cells.from_own, [GOAL]

    def _information(self, unknown: Unknown, loss: FloatArray) -> float:
        """Information about a number, averaged over its prior for the most exposed records."""
        state = self.data.state
        known = np.where(self._present, np.nan_to_num(loss, nan=0.0, posinf=np.inf), 0.0)
        if not unknown.sd > 0.0:
            return 0.0
        most = float(known.max(initial=0.0))
        if isinstance(unknown, Target):
            batch = state.training.take(self.rows)
            return Separator(state, batch, self.rows).information(self._target())
        fixed = not self.refit and not state.noise.reads_data and state.balanced is None
        if not fixed or not np.isfinite(most) or not isinstance(unknown, RawColumn):
            return most**2
        some = self.rows[np.argsort(-known, kind="stable")[:_MOST_AVERAGED]]
        averaged = self._averaged(unknown, some)
        return most**2 if averaged is None else averaged

    def _averaged(self, column: RawColumn, rows: IntArray) -> float | None:
        """Largest average of some records; None where the encoding is undefined somewhere."""
        state, noise = self.data.state, self.data.state.noise_scale
        own = self.data.encode(self.data.rows(rows))
        ends = prior_ends(column.mean, column.sd)
        candidates = [
            with_numbers(self.data, [column], rows, [np.full(len(rows), end)]) for end in ends
        ]
        defined: BoolArray = np.array([np.all(np.isfinite(each)) for each in candidates])
        if not np.all(defined):
            return None
        points = whitened(state, encodings(state, rows, own, candidates))
        squares = averaged_information(points, column.sd)
        if noise == 0.0:
            return float(np.inf) if np.any(squares > 0.0) else 0.0
        return float(squares.max()) / noise**2
