"""What a fitted pipeline tells about each raw column of each training record."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import as_table as as_raw_table
from skleak.adversary.knowledge import column_names, resolve_records
from skleak.exceptions import AttackNotApplicableError, CostWarning
from skleak.influence.leakage import leakage_model
from skleak.influence.state import seen_through
from skleak.inspection._counted import affordable, counted, held
from skleak.inspection._pipeline import Inspected, inspected
from skleak.inspection._selection import Unknown, read, resolved
from skleak.inspection._table import as_table, record_labels
from skleak.inspection.large import SomeRecords, some_records
from skleak.utils._features import resolve_features
from skleak.utils._records import values_withheld, withholding
from skleak.utils._typing import IntArray
from skleak.utils.sources import is_large_source


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
        (neither pickled nor copied).
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
        the record as well: in closed form what scalers, imputers by mean or median and PCA learned
        about numbers, alone or one after the other; by training the pipeline anew all else.
    queries : DataFrame or array-like of shape (k, n_columns), default=None
        Raw records: the attacker sees what the released pipeline predicts for these, as scores or
        probabilities, and not the model. Only with the transformers held fixed.

    Returns
    -------
    DataFrame
        One row for each record and column; without those of records that were not refitted where
        that takes refits. ``attrs`` states the assumptions. Confidential.

        - ``record``, ``column``: label in the index of X and name, or positions.
        - ``kind``: "number", which is differentiated, "numbers", a block of them, or "values", a
          column, block or label of few values.
        - ``fisher_information_loss``: of a number, eta per unit of the raw column; of numbers, the
          largest over all directions, with each in standard deviations; infinite where the encoding
          jumps.
        - ``standard_error``: 1 / eta, the least of an unbiased attacker who knows all else.
        - ``sd``, ``n_values``, ``share``: standard deviation of a number; number of values
          distinguished, and share of the records that have the one of this record.
        - ``distance``: largest between the noiseless models of two values, over the noise (for a
          number of itself, one ``sd`` below and above, and the mean; for numbers, along the
          direction in which most is told); ``distance_from_own``: the same from the model itself.
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
        records, in scale (a goal such as MaxLeakage) or shape ("curvature", "minimax"); and for
        ``refit_preprocessing`` with either, or with a reweighting.

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
    {'(target)': 0.88, 'age': 0.96, 'ward': 0.34}
    """
    data, some = opened(pipeline, X, y, sample_weight, records, refit_preprocessing, queries)
    items = resolved(columns, data)
    codes = nominal_columns(nominal, data)
    check(data, refit_preprocessing)
    unknown = read(data, items, codes, refit=refit_preprocessing)
    if not refit_preprocessing:
        _check_comparable(unknown, _why_unequal(data))
    rows, n = chosen(data, unknown, records, some)
    if records is None and len(rows) < n:
        warnings.warn(
            f"Measured for {len(rows)} of {n} records, half of them those of largest "
            "information loss, the others evenly spaced: all would take long. Name others in "
            "`records`, or all by slice(None).",
            CostWarning,
            stacklevel=2,
        )
    return leakage_table(data, unknown, rows, refit_preprocessing, records is not None)


def opened(
    pipeline: Any, X: Any, y: Any, sample_weight: Any, records: Any, refit: bool, queries: Any
) -> tuple[Inspected, SomeRecords | None]:
    """Take a pipeline apart; of a table outside memory, tell which records are in memory."""
    some = None
    if is_large_source(X):
        some = some_records(pipeline, X, y, sample_weight, records, refit)
    data = inspected(pipeline, X, y, sample_weight) if some is None else some.data
    return data if queries is None else _through(data, queries, refit), some


def chosen(
    data: Inspected, unknown: Sequence[Unknown], records: Any, some: SomeRecords | None
) -> tuple[IntArray, int]:
    """Positions of the records to measure, (b,), of those in memory, and the number of all."""
    if some is not None:
        return some.rows, some.n
    n = len(data.y)
    return affordable(data, unknown) if records is None else resolve_records(records, n), n


def check(data: Inspected, refit: bool) -> None:
    """Raise for other records than the training data, or where refits have no exact answer."""
    if refit:
        _check_refits(data, _why_unequal(data))
    else:
        data.check_records()


def leakage_table(
    data: Inspected, unknown: Sequence[Unknown], rows: IntArray, refit: bool, named: bool
) -> pd.DataFrame:
    """Measure some records, of which few are refitted unless they were named."""
    if refit:
        measured = counted(data, unknown, rows, named)
    else:
        measured = held(data, unknown, rows, _why_unequal(data))
    return as_table(measured, rows, record_labels(data.table), _assumptions(data, refit))


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


def nominal_columns(nominal: Any, data: Inspected) -> IntArray:
    """Positions of the columns of codes, of shape (k,)."""
    if isinstance(nominal, Sequence) and not len(nominal):
        return np.zeros(0, dtype=np.intp)
    table = data.table
    return resolve_features(nominal, column_names(table), table.shape[1], "nominal")


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
        "attacker": "knows all other records, all else of this one, and the training",
        "sees": "the released model" if data.state.noise.seen is None else "its predictions",
        "noise_scale": float(data.state.noise_scale),
    }
