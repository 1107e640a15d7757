"""What a fitted pipeline tells about each raw column of each training record."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import erf, ndtr, ndtri

from skleak.adversary.knowledge import column_names, resolve_records
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import leakage_model
from skleak.inspection._cells import Cells
from skleak.inspection._columns import RawColumn, read_column
from skleak.inspection._directions import block_width
from skleak.inspection._held import HeldBlock
from skleak.inspection._pipeline import Inspected, inspected
from skleak.inspection._refitted import MOST_RECORDS, Refits
from skleak.utils._blocks import row_blocks
from skleak.utils._features import resolve_features
from skleak.utils._typing import FloatArray, IntArray

# Entries of the largest table of one block of records: 64 MB.
_ELEMENTS = 1 << 23
# Encoded tables that differentiation holds at once.
_TABLES = 24


def attribute_leakage(
    pipeline: Any,
    X: Any,
    y: Any,
    columns: Any = None,
    *,
    sample_weight: Any = None,
    records: Any = None,
    refit_preprocessing: bool = False,
) -> pd.DataFrame:
    """Measure what a release of a fitted pipeline leaks about each raw column of each record.

    Follow a number through the fitted transformers to all encoded columns that it moves; compare
    the releases that each of a few values would give. Assume an attacker who knows all else: the
    other records, the rest of this one and its target, the transformers and the training. See the
    user guide, docs/theory.md, "Raw columns".

    Parameters
    ----------
    pipeline : estimator or Pipeline
        Fitted; ends in a private estimator of this library, which still has its training data
        (neither pickled nor copied).
    X : DataFrame or array-like of shape (n, n_columns)
        Raw training records of the pipeline, in the same order.
    y : array-like of shape (n,)
        Their targets.
    columns : str, int, slice, mask or list, default=None
        Raw columns, by name or by position; None for all.
    sample_weight : array-like of shape (n,), default=None
        Weights that the model was fitted with.
    records : array-like of int, boolean mask, slice or None, default=None
        Positions of the records to report on; name some of a large table. None reports on all, or
        on at most 20, evenly spaced, under ``refit_preprocessing``.
    refit_preprocessing : bool, default=False
        Hold the fitted transformers fixed, as public knowledge; or count what they learned from
        the record as well, by training the pipeline anew.

    Returns
    -------
    DataFrame
        One row for each record and column; ``attrs`` states the assumptions. Confidential.

        - ``record``, ``column``: label in the index of X and name, or positions.
        - ``kind``: "number", which is differentiated, or "values", a column of few values.
        - ``fisher_information_loss``: of a number, eta per unit of the raw column; infinite where
          the encoding jumps.
        - ``standard_error``: 1 / eta, the least of an unbiased attacker who knows all else.
        - ``sd``, ``n_values``, ``share``: standard deviation of a number; number of values
          distinguished, and share of the records that have the one of this record.
        - ``distance``: largest between the noiseless models of two values, over the noise (for a
          number of itself, one ``sd`` below and above, and the mean); ``distance_from_own``: the
          same from the model itself.
        - ``success_even_odds``: ``Phi(distance / 2)``, share of right guesses between the two.
        - ``true_positives_at_1pct``: ``Phi(Phi^-1(0.01) + distance)``, power at 1 % false alarms.
        - ``gain``: ``2 success_even_odds - 1``, in [0, 1], to compare columns of both kinds.
        - ``note``: remarks, such as on kinks and jumps of the encoding.

    Raises
    ------
    ValueError
        For records that are not the training data; a transformer that encodes them otherwise in
        ``fit_transform`` than in ``transform`` (TargetEncoder), where it is held fixed; unknown
        columns; and columns of more than 64 values that are no numbers.
    TypeError, NotFittedError
        For a pipeline that does not end in a private estimator, is not fitted, or was pickled or
        copied.
    AttackNotApplicableError
        Where distances have no exact answer: for values where the noise is a function of the
        records, in scale (a goal such as MaxLeakage) or shape ("curvature", "minimax"); and for
        ``refit_preprocessing`` with either, or with a reweighting.

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
    {'age': 0.96, 'ward': 0.34}
    """
    data = inspected(pipeline, X, y, sample_weight)
    n, n_columns = data.table.shape
    names = column_names(data.table)
    indices = (
        np.arange(n_columns)
        if columns is None
        else resolve_features(columns, names, n_columns, "columns")
    )
    rows = resolve_records(_default_records(n, records, refit_preprocessing), n)
    unequal = _why_unequal(data)
    if refit_preprocessing:
        _check_refits(data, unequal)
        refits = Refits(data, rows)
        refits.check()
        read = [read_column(data, j, probe=False) for j in indices.tolist()]
        cells = [[refits.cells(column)] for column in read]
    else:
        data.check_records()
        read = [read_column(data, j) for j in indices.tolist()]
        _check_comparable(read, unequal)
        cells = _held(data, read, rows, unequal)
    return _table(data, read, rows, cells, _assumptions(data, refit_preprocessing))


def _default_records(n: int, records: Any, refit: bool) -> Any:
    if records is None and refit:
        return np.unique(np.linspace(0, n - 1, min(n, MOST_RECORDS)).astype(int))
    return records


def _why_unequal(data: Inspected) -> str:
    """Say why the noise is not the same under two values of a record; nothing where it is."""
    if data.model._made_as["noise_goal"] is not None:
        return "no distances: the scale of the noise is a function of the records"
    equal = leakage_model(data.state).has_equal_noise
    return "" if equal else f"no distances: {equal.missing}"


def _check_comparable(columns: Sequence[RawColumn], unequal: str) -> None:
    """Refuse columns of few values where their encodings cannot be held against each other."""
    values = [column.label for column in columns if len(column.carriers) > 1]
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


def _held(
    data: Inspected, columns: Sequence[RawColumn], rows: IntArray, unequal: str
) -> list[list[Cells]]:
    """Compute the cells of every column, block by block of records."""
    state = data.state
    most = max([2, *(len(column.carriers) for column in columns)])
    encoded = max(_TABLES, most) * max(state.n_features, len(state.factor.coefficients))
    cells: list[list[Cells]] = [[] for _ in columns]
    for some in row_blocks(len(rows), max(block_width(state), encoded), _ELEMENTS):
        block = HeldBlock.of(data, rows[some], unequal)
        for own, column in zip(cells, columns, strict=True):
            own.append(block.cells(column))
    return cells


def _assumptions(data: Inspected, refit: bool) -> dict[str, Any]:
    """Collect what `attrs` states."""
    held = "held fixed, as public knowledge: what the transformers learned is not counted"
    refitted = "refitted: what the transformers learned counts as far as it moves the model"
    return {
        "preprocessing": refitted if refit else held,
        "derivatives": "extrapolated differences of "
        + ("refits of the pipeline" if refit else "the fitted transformers"),
        "attacker": "knows all other records, all else of this one, and the training",
        "noise_scale": float(data.state.noise_scale),
    }


def _table(
    data: Inspected,
    columns: Sequence[RawColumn],
    rows: IntArray,
    cells: Sequence[Sequence[Cells]],
    attrs: dict[str, Any],
) -> pd.DataFrame:
    """Lay out all columns of a record, then those of the next one."""
    table, k = data.table, len(columns)
    index = table.index if isinstance(table, pd.DataFrame) else pd.RangeIndex(len(table))

    def gathered(name: str) -> Any:
        parts = [np.concatenate([getattr(one, name) for one in own]) for own in cells]
        return np.stack(parts, axis=1).ravel()

    def of_columns(values: Sequence[Any]) -> list[Any]:
        return list(values) * len(rows)

    loss, distance = gathered("loss"), gathered("distance")
    with np.errstate(divide="ignore"):
        error = 1.0 / loss
    shares: FloatArray = np.stack([column.shares[rows] for column in columns], axis=1)
    result = pd.DataFrame(
        {
            "record": index[rows].to_flat_index().repeat(k),
            "column": of_columns([column.label for column in columns]),
            "kind": of_columns(["number" if c.is_number else "values" for c in columns]),
            "fisher_information_loss": loss,
            "standard_error": error,
            "sd": of_columns([column.sd for column in columns]),
            "n_values": of_columns([c.n_values for c in columns]),
            "share": shares.ravel(),
            "distance": distance,
            "distance_from_own": gathered("from_own"),
            "success_even_odds": ndtr(0.5 * distance),
            "true_positives_at_1pct": ndtr(ndtri(0.01) + distance),
            "gain": erf(distance / np.sqrt(8.0)),
            "note": gathered("notes"),
        }
    )
    result.attrs.update(attrs, records="all" if len(rows) == len(table) else "some")
    return result
