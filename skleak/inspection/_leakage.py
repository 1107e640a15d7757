"""Leakage of raw columns, with and without what the preprocessing learned.

What it learned is counted in closed form where that is known, which gives all records at once, and
by refits of the whole pipeline elsewhere. Where nothing was learned, holding it fixed is exact.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

from skleak._release import what_was_learned
from skleak.adversary.knowledge import as_table as as_raw_table
from skleak.adversary.knowledge import column_names, raw_column, resolve_records
from skleak.exceptions import AttackNotApplicableError, CostWarning
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import whitened
from skleak.influence.state import FitState, RecordBatch, seen_through
from skleak.inspection._columns import Cells, Unknown, read, resolved, with_numbers
from skleak.inspection._held import HeldBlock, Learned, all_known, held, learns_nothing_of
from skleak.inspection._pipeline import Inspected, encodings, inspected, most_records, some_records
from skleak.inspection._slopes import person_blocks
from skleak.inspection.refits import Refits
from skleak.report import LeakageReport
from skleak.report.leakage import MeasuredTable, build_leakage_report
from skleak.report.measures import GOAL, Separator, averaged_information, prior_ends
from skleak.report.tables import Separation
from skleak.report.unknowns import Unknown as UnknownTarget
from skleak.report.unknowns import target
from skleak.utils._blocks import is_large_source
from skleak.utils._geometry import gained, success_even_odds, true_positives
from skleak.utils._records import (
    TARGET,
    Persons,
    checked_labels,
    is_single_feature,
    named,
    resolve_features,
    row_labels,
    values_withheld,
    withholding,
)
from skleak.utils._summaries import Moments
from skleak.utils._typing import Array, FloatArray, IntArray


def record_labels(table: Any) -> pd.Index:
    """Labels of the records in their index, or their positions."""
    return table.index if isinstance(table, pd.DataFrame) else pd.RangeIndex(len(table))


def _frame(unknown: Unknown, rows: IntArray, cells: Cells, index: pd.Index) -> pd.DataFrame:
    """Rows of the table about some records (b,); ``index`` has the labels of all."""
    with np.errstate(divide="ignore"):
        error = 1.0 / cells.loss
    columns = {
        "record": index[rows].to_flat_index(),
        "column": pd.Series([unknown.label] * len(rows)),
        "kind": unknown.kind,
        "fisher_information_loss": cells.loss,
        "standard_error": error,
        "sd": unknown.sd,
        "step": unknown.step,
        "n_values": unknown.n_values,
        "share": unknown.shares[rows],
        "distance": cells.distance,
        "distance_from_own": cells.from_own,
        "success_even_odds": success_even_odds(cells.distance),
        "true_positives_at_1pct": true_positives(cells.distance),
        "gain": gained(cells.distance),
        "note": cells.notes,
    }
    return pd.DataFrame(columns)


# Records that are refitted where none are named, and at least; fits for the slope of a number.
_MOST_RECORDS, _LEAST_RECORDS, _FITS_SLOPE = 20, 2, 42
# Seconds of refits that a call takes unasked: a few minutes.
_MOST_SECONDS = 300.0
CLOSED = "what was learned counts in closed form"
NO_REFIT = "no distances: they need refits of the record, which has to be named in `records`"
REFITTED = "by refits of the pipeline"


def _exposed_and_others(
    data: Inspected, rows: IntArray, most: int, unknown: Sequence[Unknown]
) -> IntArray:
    """At most so many of some records, half of them those of largest loss, others evenly spaced.

    Of these, records that alone carry some value come first: without them a transformer that learns
    the values of a column learns others.
    """
    if len(rows) <= most:
        return rows
    loss = np.nan_to_num(data.model.fisher_information_loss_[rows])
    exposed = np.argsort(-loss, kind="stable")[: most // 2]
    alone = np.zeros(len(rows), dtype=bool)
    for one in unknown:
        if not one.is_number:
            alone |= one.shares[rows] * len(data.y) < 1.5
    alone[exposed] = False
    exposed = np.append(exposed, np.flatnonzero(alone)[: most - len(exposed)])
    others = np.setdiff1d(np.arange(len(rows)), exposed)
    spaced = np.linspace(0, len(others) - 1, most - len(exposed)).astype(int)
    return rows[np.union1d(exposed, others[spaced])]


def _to_refit(
    data: Inspected, rows: IntArray, seconds: float, named: bool, unknown: Sequence[Unknown]
) -> IntArray:
    """Choose the records to refit: those named, or as many as can be afforded; say what it takes.

    ``seconds``: what one record takes.
    """
    if named:
        if seconds * len(rows) > _MOST_SECONDS:
            warnings.warn(
                f"The preprocessing is refitted for {len(rows)} records, which takes about "
                f"{seconds * len(rows) / 60.0:.0f} minutes of one core. Name fewer `records`, or "
                "fewer `columns`, where that is too long.",
                CostWarning,
                stacklevel=2,
            )
        return rows
    most = _MOST_RECORDS
    while most > _LEAST_RECORDS and seconds * most > _MOST_SECONDS:
        most = max(most // 2, _LEAST_RECORDS)
    some = _exposed_and_others(data, rows, most, unknown)
    if most < min(_MOST_RECORDS, len(rows)):
        warnings.warn(
            f"What takes refits of the preprocessing is measured for {len(some)} of "
            f"{len(data.y)} records: each takes about {seconds:.0f} seconds of one core. Name "
            "others in `records`.",
            CostWarning,
            stacklevel=2,
        )
    return some


def _fits(data: Inspected, one: Unknown, learned: Learned) -> int:
    """Fits of the pipeline that one record takes."""
    if learns_nothing_of(data, one):
        return 0
    if not one.is_number:
        return int(one.n_values)
    if learned.covers(one):
        return 3
    return 3 + _FITS_SLOPE * max(len(one.parts), 1)


def _refitted(
    data: Inspected, unknown: Sequence[Unknown], rows: IntArray, named: bool
) -> list[tuple[IntArray, Cells]]:
    """Measure everything with what the transformers learned; by refits of all that were named."""
    started = process_time()
    Refits(data, rows).check()
    each = process_time() - started
    numbers = [part for one in unknown if one.is_number for part in one.parts]
    learned = Learned.of(data, numbers)
    fits = sum(_fits(data, one, learned) for one in unknown)
    few = _to_refit(data, rows, each * fits, named, unknown)
    found = []
    for one in unknown:
        if learns_nothing_of(data, one):
            found.append((rows, held(data, [one], Persons.single(rows), "")[0]))
        elif learned.covers(one):
            found.append((rows, _closed(learned, one, rows, few)))
        else:
            found.append((few, Refits(data, few).cells(one).noted((True, REFITTED))))
    return found


def _closed(learned: Learned, unknown: Unknown, rows: IntArray, few: IntArray) -> Cells:
    """Leakage of numbers, what was learned in closed form; distances of a few by refits."""
    data, parts, cells = learned.data, unknown.parts, []
    known, apart = all_known(parts, rows), np.isin(rows, few)
    for some in person_blocks(data.state, Persons.single(rows), np.nan):
        own = rows[some][known[some]]
        block = HeldBlock.of(data, Persons.single(own), "") if len(own) else None
        slopes = [learned.slopes(column, block) for column in parts] if block else []
        cells.append(Refits(data, rows[some]).numbers(unknown, slopes, apart[some]))
    found = Cells.of_all(cells, np.arange(len(rows)))
    return found.noted((known, CLOSED), (known & ~apart, NO_REFIT))


@dataclass(frozen=True)
class Question:
    """Columns asked about in some records of a fitted pipeline. Confidential."""

    data: Inspected
    unknown: list[Unknown]
    persons: Persons  # who is measured; without persons the records
    n: int  # all records, or persons
    refit: bool  # whether what the transformers learned counts
    named: bool  # whether the records were named
    unequal: str  # Why the noise differs under two values of a record; empty where it does not

    @property
    def rows(self) -> IntArray:
        """Positions of the records, or of the first ones of persons, (b,)."""
        return self.persons.first

    def cells(self, unknown: Sequence[Unknown]) -> list[tuple[IntArray, Cells]]:
        """Measure some of what is asked, each in the records at some positions."""
        if self.refit:
            return _refitted(self.data, unknown, self.rows, self.named)
        found = held(self.data, unknown, self.persons, self.unequal)
        return [(self.rows, cells) for cells in found]


@withholding
def attribute_leakage(
    pipeline: Any,
    X: Any,
    y: Any,
    columns: Any = None,
    *,
    sample_weight: Any = None,
    records: Any = None,
    nominal: Any = (),
    refit_preprocessing: bool = False,
    queries: Any = None,
) -> pd.DataFrame:
    """Measure what a release of a fitted pipeline leaks about each raw column of each record.

    Follow a number through the fitted transformers to all encoded columns that it moves; compare
    the releases that each of a few values would give. Assume an attacker who knows all else: the
    other records, the rest of this one and its target, the transformers and the training. See the
    user guide, docs/theory/raw_columns.md.

    Parameters
    ----------
    pipeline : estimator or Pipeline
        Fitted; ends in a private estimator of this library, which still has its training data
        (neither pickled nor copied), perhaps inside a search, whose choice counts as public, a
        FrozenEstimator or a TransformedTargetRegressor. Targets then are those after their
        transformer.
    X : DataFrame, array-like, path, Polars lazy frame or Dask frame of shape (n, n_columns)
        Raw training records of the pipeline, in the same order.
    y : array-like of shape (n,), or str
        Their targets; of a table outside memory, perhaps the column that holds them.
    columns : str, int, slice, mask, list or mapping, default=None
        Raw columns, by name or by position; "(target)" is the target. A list within the list is a
        block of columns, asked about together; ``{"place": ["lat", "lon"]}`` names it. None for all
        columns, and the target where the model has ``private_target=True``.
    sample_weight : array-like of shape (n,) or str, default=None
        Weights that the model was fitted with.
    records : array-like of int, boolean mask, slice or None, default=None
        Positions of the records to report on. None for all, or where these would take more than a
        few minutes, for those of largest loss and others, evenly spaced. Under
        ``refit_preprocessing`` what needs refits is then found of at most 20 of them.
    nominal : str, int, slice, mask or list, default=()
        Columns whose numbers are codes, told apart as values. Without it more than 10 whole numbers
        are a quantity, and so are other numbers of more than 64 values, or more than the square
        root of the number of records.
    refit_preprocessing : bool, default=False
        Hold the fitted transformers fixed, as public knowledge; or count what they learned from
        the record as well: in closed form what StandardScaler, and SimpleImputer by mean or median,
        learned about numbers, alone, one after the other or in a ColumnTransformer; by training the
        pipeline anew all else.
    queries : DataFrame or array-like of shape (k, n_columns), default=None
        Raw records: the attacker sees what the released pipeline predicts for these, as scores or
        probabilities, and not the model. Only with the transformers held fixed.

    Returns
    -------
    DataFrame
        One row for each record and column; without those of records that were not refitted where
        that takes refits. ``attrs`` states the assumptions. Confidential.

        - ``record``, ``column``: label in the index of X (of a person's first row) and name, or
          positions.
        - ``kind``: "number", which is differentiated, "numbers", a block of them, or "values", a
          column, block or label of few values.
        - ``fisher_information_loss``: of a number, eta per unit of the raw column; of numbers, the
          largest over all directions, with each in standard deviations; infinite where the encoding
          jumps.
        - ``standard_error``: 1 / eta, the least of an unbiased attacker who knows all else.
        - ``sd``, ``step``, ``n_values``, ``share``: standard deviation of a number, and the one
          that is left given the other columns; number of values distinguished, and share of the
          records that have the one of this record.
        - ``distance``: largest between the noiseless models of two values, over the noise (for a
          number of itself and one a ``step`` lower or higher; for numbers, along the direction in
          which most is told, by one ``sd`` each); ``distance_from_own``: the same from the model
          itself.
        - ``success_even_odds``: ``Phi(distance / 2)``, share of right guesses between the two.
        - ``true_positives_at_1pct``: ``Phi(Phi^-1(0.01) + distance)``, power at 1 % false alarms.
        - ``gain``: ``2 success_even_odds - 1``, in [0, 1], to compare columns of both kinds.
        - ``note``: remarks, such as on kinks and jumps of the encoding.

    Raises
    ------
    ValueError
        For records that are not the training data; a transformer that encodes them otherwise in
        ``fit_transform`` than in ``transform`` (TargetEncoder), where it is held fixed; unknown
        columns; columns of more than 64 values that are no numbers; and blocks of both kinds.
    TypeError, NotFittedError
        For a pipeline that does not end in a private estimator, is not fitted, or was pickled or
        copied.
    AttackNotApplicableError
        Where distances have no exact answer: for values where the noise is a function of the
        records, in scale (a goal such as MaxLeakage) or shape ("curvature", "minimax",
        "least_mean"); and for ``refit_preprocessing`` with either, with a reweighting, or with a
        transformer that learned from the targets.

    Warns
    -----
    CostWarning
        Where not all records are measured, or those that were named take long.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures
    >>> from skleak.inspection import attribute_leakage
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(size=100), "ward": rng.choice(["A", "B"], size=100)})
    >>> y = X["age"] ** 2 + (X["ward"] == "A") + rng.normal(size=100)
    >>> squares, wards = (PolynomialFeatures(2), ["age"]), (OneHotEncoder(), ["ward"])
    >>> encoder = make_column_transformer(squares, wards)
    >>> pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
    >>> leakage = attribute_leakage(pipeline, X, y)
    >>> leakage.groupby("column")["gain"].max().round(2).to_dict()
    {'(target)': 0.35, 'age': 0.91, 'ward': 0.34}
    """
    asked = ask(
        pipeline, X, y, columns, sample_weight, records, nominal, refit_preprocessing, queries
    )
    data, rows, index = asked.data, asked.rows, record_labels(asked.data.table)
    if not refit_preprocessing:
        _check_comparable(asked.unknown, asked.unequal)
    if records is None and len(rows) < asked.n:
        warnings.warn(
            f"Measured for {len(rows)} of {asked.n} records, half of them those of largest "
            "information loss, the others evenly spaced: all would take long. Name others in "
            "`records`, or all by slice(None).",
            CostWarning,
            stacklevel=2,
        )
    found = asked.cells(asked.unknown)
    pairs = zip(asked.unknown, found, strict=True)
    table = pd.concat([_frame(one, *each, index) for one, each in pairs], ignore_index=True)
    # All columns of a record, then those of the next one.
    place = pd.Index(rows).get_indexer(np.concatenate([some for some, _ in found]))
    table = table.iloc[np.argsort(place, kind="stable")].reset_index(drop=True)
    everyone = all(len(some) == len(index) for some, _ in found)
    table.attrs.update(
        _assumptions(data, refit_preprocessing), records="all" if everyone else "some"
    )
    return table


def ask(
    pipeline: Any,
    X: Any,
    y: Any,
    columns: Any,
    sample_weight: Any,
    records: Any,
    nominal: Any,
    refit: bool,
    queries: Any,
    persons: Any = None,
) -> Question:
    """Read the arguments of `attribute_leakage`, and of `leakage_report`."""
    if is_large_source(X):
        data, some, n = some_records(pipeline, X, y, sample_weight, records, refit)
    else:
        data = inspected(pipeline, X, y, sample_weight)
        some, n = None, len(data.y)
    if queries is not None:
        data = _through(data, queries, refit)
    names, n_columns = column_names(data.table), data.table.shape[1]
    whose = data.state.persons
    if persons is not None:
        by_column = is_single_feature(persons)
        if by_column:
            place = int(resolve_features(persons, names, n_columns, "persons")[0])
            if columns is None:
                every = np.arange(n_columns) if names is None else names
                columns = [*np.delete(every, place), TARGET]
        given = raw_column(data.table, place) if by_column and data.facts is None else persons
        whose = Persons.of(given, len(data.y), named(row_labels(data.table)))
        data = data.with_state(replace(data.state, persons=whose))
    items = resolved(columns, data)
    codes = np.zeros(0, dtype=np.intp)
    if not isinstance(nominal, Sequence) or len(nominal):
        codes = resolve_features(nominal, names, n_columns, "nominal")
    unequal = _why_unequal(data)
    if refit:
        _check_refits(data, unequal)
    else:
        data.check_records()
    unknown = read(data, items, codes, refit=refit)
    if whose is not None and (refit or some is not None):
        raise AttackNotApplicableError(
            "What several rows of a person tell together is known of tables in memory, with "
            "the transformers held fixed. Pass `refit_preprocessing=False` and a table in "
            "memory, or leave `persons` out to count rows."
        )
    if whose is not None:
        n, some = len(whose), resolve_records(records, len(data.y))
    elif some is None and records is None:
        # All, or the most exposed and some more.
        values = sum(3 if one.is_number else int(one.n_values) for one in unknown)
        some = _exposed_and_others(data, np.arange(n), most_records(data.state, n, values), unknown)
    elif some is None:
        some = resolve_records(records, n)
    chosen = Persons.attacked(whose, some)
    return Question(data, unknown, chosen, n, refit, records is not None, unequal)


def _through(data: Inspected, queries: Any, refit: bool) -> Inspected:
    """Return the same pipeline as seen through its predictions for some raw records."""
    if refit:
        raise AttackNotApplicableError(
            "What predictions leak has no exact answer with `refit_preprocessing=True`: the "
            "queries would be encoded otherwise, too. Pass one of the two."
        )
    with values_withheld(queries, None, "the queries"):
        encoded = data.encode(as_raw_table(queries))
    return data.with_state(seen_through(data.state, encoded))


def _why_unequal(data: Inspected) -> str:
    """Say why the noise is not the same under two values of a record; nothing where it is."""
    if data.model._made_as["noise_goal"] is not None:
        return "no distances: the scale of the noise is a function of the records"
    equal = leakage_model(data.state).has_equal_noise
    return "" if equal else f"no distances: {equal.missing}"


def _check_comparable(unknown: Sequence[Unknown], unequal: str) -> None:
    """Refuse columns of few values where their encodings cannot be held against each other."""
    values = [one.label for one in unknown if one.parts and one.n_values > 1]
    if unequal and values:
        raise AttackNotApplicableError(
            f"How well the values of {values[:5]} can be told apart has no exact answer here "
            f"({unequal}). Name other columns in `columns`; fit with a number as `noise_scale` and "
            "isotropic noise; or play the game itself with LeakageAuditor."
        )


def _check_refits(data: Inspected, unequal: str) -> None:
    if learned := [reason for one in data.targets if (reason := what_was_learned(one))]:
        raise AttackNotApplicableError(
            "`refit_preprocessing=True` does not count what the transformer of the target learned "
            f"({learned[0]}). Pass False, or one of public parameters such as PublicTargetScaler."
        )
    if unequal or data.state.balanced is not None:
        why = unequal or "under a reweighting refits are not exact enough to differentiate"
        raise AttackNotApplicableError(
            f"`refit_preprocessing=True` has no exact answer for this model ({why}). Pass False "
            "with transformers that were fitted on public data; or fit with a number as "
            "`noise_scale`, isotropic noise and no reweighting."
        )


def _assumptions(data: Inspected, refit: bool) -> dict[str, Any]:
    """Collect what `attrs` states."""
    held = "held fixed, as public knowledge: what the transformers learned is not counted"
    refitted = "refitted: what the transformers learned counts as far as it moves the model"
    differences = "extrapolated differences of the fitted transformers"
    learned = "; what they learned in closed form, or by differences of refits, as `note` says"
    return {
        "preprocessing": refitted if refit else held,
        "derivatives": differences + (learned if refit else ""),
        **({"targets": _TARGETS} if data.targets else {}),
        "attacker": "knows all other records, all else of this one, and the training",
        "sees": "the released model" if data.state.noise.seen is None else "its predictions",
        "noise_scale": float(data.state.noise_scale),
    }


_TARGETS = "as the model received them: their transformer is held fixed, as public knowledge"
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
        Fitted; ends in a private estimator of this library, which still has its training data, in
        the wrappers that `attribute_leakage` takes.
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
        groups = data.facts.own_labels(groups)
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
        if self.asked.data.targets:
            some.append(f"Targets are {_TARGETS}.")
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
            return self._separator.information([(self._target, None)])[0]
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
