"""What an adversary knows beforehand: the attribute, its values and priors, other records."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import check_consistent_length, column_or_1d

from skleak.exceptions import AttackNotApplicableError
from skleak.utils._arguments import check_prior
from skleak.utils._confidential import without_ledger
from skleak.utils._records import (
    TARGET,
    Persons,
    check_table,
    feature_labels,
    is_single_feature,
    is_target,
    resolve_features,
)
from skleak.utils._typing import Array, FloatArray, IntArray

# More distinct values than this are not categories: almost every guess would be a bare guess.
MAX_VALUES = 64
# More whole numbers than this are a quantity, such as an age, and no codes of categories.
MAX_CODES = 10
# Position of the target where it is the secret.
TARGET_INDEX = -1
_SQUARE_ROOT_OF_ROUND_OFF = 1e-8


@dataclass(frozen=True)
class Secret:
    """The sensitive column and what an adversary considers possible. Confidential.

    Parameters
    ----------
    index : int
        Position of the column in the raw data; -1 for the target.
    column : ndarray of shape (n,)
        True value of every record.
    values : ndarray of shape (n_values,) or None
        Candidate values in ascending order; None for a numeric attribute.
    codes : ndarray of int of shape (n,)
        Position of every record's value among the candidates; empty for a numeric attribute.
    """

    index: int
    column: Array
    values: Array | None
    codes: IntArray

    @property
    def n_values(self) -> int:
        """Number of candidate values; 0 for a quantity."""
        return 0 if self.values is None else len(self.values)

    @property
    def numeric(self) -> bool:
        """True if the attribute is a quantity rather than one of a few values."""
        return self.values is None

    @property
    def is_target(self) -> bool:
        """True if the target is the secret."""
        return self.index == TARGET_INDEX


@dataclass(frozen=True)
class Population:
    """Records of which an adversary knows all but a secret, and who is attacked. Confidential."""

    table: Any  # raw records, those under attack first, (n, n_columns)
    y: Array | None  # their targets, (n,); None where these are not known, or the secret
    secret: Secret
    targets: IntArray  # positions of those under attack
    # Positions of reference records, whose secrets alone teach; None where all but one's own do.
    teachers: IntArray | None = None

    @property
    def known(self) -> Any:
        """All else about the records, but for their targets."""
        own = self.secret
        return self.table if own.is_target else without_attribute(self.table, own.index)

    def others(self, column: Array) -> tuple[Array, IntArray]:
        """Return values, and where each target is among them: all others teach of it.

        Without one more record than the teachers, the teachers are left.
        """
        if self.teachers is None:
            return column, self.targets
        values = np.append(column[self.teachers], column[self.teachers[0]])
        return values, np.full(len(self.targets), len(self.teachers))

    def prior(self, prior: Any) -> Array:
        """Prior of every target's attribute, from all records but its own, or those of reference.

        Shapes: ``prior`` (M,) or (n_targets, M); returns (n_targets, M).
        """
        n_values = self.secret.n_values
        if isinstance(prior, str):
            if prior == "uniform":
                return np.full((len(self.targets), n_values), 1.0 / n_values)
            if prior == "marginal":
                codes, places = self.others(self.secret.codes)
                return marginal_prior(codes, n_values)[places]
            return self.conditional_prior()[self.targets]
        table_of_priors = check_prior(prior, n_values)
        if table_of_priors.ndim == 2 and len(table_of_priors) != len(self.targets):
            raise ValueError(
                f"`prior` must have one row for each of the {len(self.targets)} targets, or be "
                f"shared; got shape {table_of_priors.shape}."
            )
        return np.array(np.broadcast_to(table_of_priors, (len(self.targets), n_values)))

    def conditional_prior(self, classifier: Any = None) -> FloatArray:
        """Probability of each value given what else is known of a record, by a classifier.

        Returns (n, M): positive, as `CrossFitted` says, of all records.
        """
        known, y, codes = self.known, self.y, self.secret.codes
        n_values, everyone = self.secret.n_values, np.arange(len(codes))
        if known.shape[1] == 0 and y is None:
            codes, places = replace(self, targets=everyone).others(codes)
            return marginal_prior(codes, n_values)[places]
        teachers = everyone if self.teachers is None else self.teachers
        own = take_rows(known, teachers), None if y is None else y[teachers], codes[teachers]
        fitted = CrossFitted.of(classifier, *own, n_values, teachers)
        return fitted.probabilities(known, y, everyone)

    def imputed(self, regressor: Any = None) -> FloatArray:
        """Guess of a number for every record, of shape (n,), by a regression on other folds.

        Of records beside those of reference by one on all of these.
        """
        model = without_ledger(on_encoded_columns(Ridge()) if regressor is None else regressor)
        features, column = known_features(self.known, self.y), self.secret.column
        if self.teachers is None:
            return np.asarray(cross_val_predict(model, features, column, cv=folds(len(column))))
        taught = take_rows(features, self.teachers), column[self.teachers]
        found = np.asarray(without_ledger(model).fit(*taught).predict(features), dtype=np.float64)
        found[self.teachers] = cross_val_predict(model, *taught, cv=folds(len(taught[1])))
        return found

    def imputed_normal(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of a number given all else about its record, (n,) each.

        Both without the number itself: residuals of the same fold come from a regression that has
        not seen the record, and its own residual is left out.
        """
        column = self.secret.column
        n, own = len(column), self.teachers
        spread = float(column[slice(None) if own is None else own].std())
        if known_features(self.known, self.y).shape[1] == 0:
            others, places = replace(self, targets=np.arange(n)).others(column)
            return means_of_others(others)[places], np.full(n, spread)
        mean = self.imputed()
        squares = (column - mean) ** 2
        if own is None:
            variance = means_of_others(squares)
            for _, test in folds(n).split(np.arange(n)):
                if len(test) > _ENOUGH:
                    variance[test] = means_of_others(squares[test])
        else:
            variance = np.full(n, squares[own].mean())
        return mean, np.sqrt(np.maximum(variance, (_NARROWEST * spread) ** 2))


def as_table(X: Any, name: str = "X") -> Any:
    """Return raw data as a DataFrame or a two-dimensional array, never a copy of the former.

    Shapes: ``X`` (n, n_columns); returns (n, n_columns).
    """
    if sparse.issparse(X):
        raise TypeError(
            f"`{name}` must be a dense array or a DataFrame of raw records; got a sparse matrix. "
            f"Pass `{name}.toarray()`, or put the sparse encoding into the pipeline."
        )
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    table = X if isinstance(X, pd.DataFrame) else np.asarray(X)
    if table.ndim != 2:
        raise ValueError(
            f"`{name}` must have two dimensions, records by columns; got shape {table.shape}. "
            f"Reshape a single column with `{name}.reshape(-1, 1)`."
        )
    if table.shape[0] < 2 or table.shape[1] == 0:
        raise ValueError(
            f"`{name}` must hold at least 2 records and 1 column; got shape {table.shape}. An "
            "adversary who knows all other records needs other records."
        )
    check_table(table)
    return table


def as_column(y: Any, table: Any) -> Array:
    """Return targets as one column, one for each record of a table."""
    y = column_or_1d(y)
    check_consistent_length(table, y)
    return y


def column_names(table: Any) -> Array | None:
    """Names of the columns, or None where the data have none (or not only strings)."""
    if isinstance(table, pd.DataFrame) and all(isinstance(name, str) for name in table.columns):
        return np.asarray(table.columns, dtype=object)
    return None


def remember_columns(fitted: Any, table: Any) -> None:
    """Set what an estimator keeps of the columns of raw records, and forget an earlier fit."""
    for name in ("n_features_in_", "feature_names_in_"):
        fitted.__dict__.pop(name, None)
    if len(table.shape) == 2:
        fitted.n_features_in_ = table.shape[1]
    names = column_names(table)
    if names is not None:
        fitted.feature_names_in_ = names


def store_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Set the parameters, as they are, from the names in the scope of a constructor."""
    vars(estimator).update({name: value for name, value in given.items() if name != "self"})


def take_rows(table: Any, rows: IntArray) -> Any:
    """Return some records by position, of tables, arrays, series and sparse matrices."""
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def evenly(values: Array, count: int) -> Array:
    """At most so many of some values, evenly spaced; of shape (count, ...)."""
    return values[np.linspace(0, len(values) - 1, min(count, len(values))).astype(np.intp)]


def raw_column(table: Any, index: int) -> Array:
    """One column as an array, of objects for strings and categories of strings."""
    return np.asarray(table.iloc[:, index] if isinstance(table, pd.DataFrame) else table[:, index])


def with_attribute(table: Any, index: int, values: Any) -> Any:
    """Return the records with one column replaced; the input is not changed.

    Shapes: ``table`` (n, n_columns); ``values`` (n,); returns (n, n_columns): A column of pandas
    categories stays one; an integer column becomes one of floats where the new values are not
    whole.
    """
    column = np.broadcast_to(np.asarray(values), table.shape[:1])
    if not isinstance(table, pd.DataFrame):
        changed = table.astype(np.result_type(table.dtype, column.dtype), copy=True)
        changed[:, index] = column
        return changed
    old = table.dtypes.iloc[index]
    new: Any = pd.Series(column, index=table.index)
    whole = column.dtype.kind != "f" or not pd.api.types.is_numeric_dtype(old)
    if whole or isinstance(old, pd.CategoricalDtype):
        new = new.astype(old)
    changed = table.copy(deep=False)
    changed.isetitem(index, new)
    return changed


def without_attribute(table: Any, index: int) -> Any:
    """Return the records without one column."""
    others = np.delete(np.arange(table.shape[1]), index)
    return table.iloc[:, others] if isinstance(table, pd.DataFrame) else table[:, others]


def resolve_records(records: Any, n: int) -> IntArray:
    """Positions of the records under attack.

    Returns (n_targets,).
    """
    if records is None or isinstance(records, slice):
        rows = np.arange(n)[slice(None) if records is None else records]
    else:
        chosen = np.atleast_1d(np.asarray(records))
        if chosen.size and chosen.dtype.kind not in "uib":
            raise TypeError(
                "`records` must be None, a slice, a boolean mask or positions of records; got "
                f"dtype {chosen.dtype}."
            )
        try:
            rows = np.arange(n)[chosen if chosen.size else []].ravel()
        except IndexError as error:
            raise ValueError(
                f"`records` must lie in {-n}, ..., {n - 1}, or be a mask with one entry for each "
                f"of the {n} records: {error}."
            ) from error
    if not len(rows):
        raise ValueError("`records` selects no record. Pass None to attack all of them.")
    return rows


def find_secret(table: Any, attribute: Any, values: Any = None) -> Secret:
    """Read the sensitive column and decide which values an adversary considers.

    Shapes: ``table`` (n, n_columns); ``values`` (n_values,).
    """
    if not is_single_feature(attribute):
        raise TypeError(
            "`attribute` must be the name or the position of one column of the raw data; got "
            f"{attribute!r}. Attack the column before it is encoded, through a pipeline."
        )
    index = int(resolve_features(attribute, column_names(table), table.shape[1], "attribute")[0])
    column = raw_column(table, index)
    missing = int(np.sum(pd.isna(column)))
    if missing:
        raise ValueError(
            f"The attribute {attribute!r} has {missing} missing values of {len(column)}. Drop "
            "those records, impute numbers, or give missing text a name of its own, such as "
            "'unknown'."
        )
    return secret_of(column, index, attribute, values)


def read_secret(table: Any, y: Any, attribute: Any, values: Any = None) -> Secret:
    """Read the secret of all records, which may be the target; see `find_secret`."""
    if is_target(attribute, column_names(table)):
        return secret_of(y, TARGET_INDEX, TARGET, values)
    return find_secret(table, attribute, values)


def any_secret(table: Any, y: Any, attribute: Any, values: Any) -> Secret:
    """Read the secret of all records; where no attribute is named, `y` is the secret."""
    if attribute is None:
        return secret_of(y, TARGET_INDEX, "y", values)
    return read_secret(table, y, attribute, values)


def of_first_rows(table: Any, y: Any, secret: Secret, persons: Persons) -> tuple[Any, Any, Secret]:
    """Return what is known of the first row of each person, whose secret all rows carry.

    What is known of one row of a person would tell the value of another.

    Shapes: ``table`` (n, n_columns); ``y`` (n,), or None; returns the same of the persons.
    """
    first, name = persons.first, "the target" if secret.is_target else "the attribute"
    if secret.values is None and not persons.is_single:
        raise AttackNotApplicableError(
            f"Of persons with several rows {name} is a number, and how far these move together is "
            "not known. Pass the values to choose from in `values`, or leave `persons` out to "
            "count each row by itself."
        )
    codes = secret.codes if len(secret.codes) else np.arange(len(secret.column))
    own = codes[persons.rows] != np.repeat(codes[first], persons.sizes)
    several = int(np.any(own)) and len(np.unique(persons.codes[own]))
    if several:
        raise AttackNotApplicableError(
            f"For {several} of {len(persons)} persons {name} differs between their rows: a "
            "person's secret is one value, which all rows carry. Name a column that belongs to the "
            "person, or leave `persons` out to count each row by itself."
        )
    own_codes = secret.codes[first] if len(secret.codes) else secret.codes
    shared = replace(secret, column=secret.column[first], codes=own_codes)
    return take_rows(table, first), None if y is None else y[first], shared


def secret_of(column: Array, index: int, attribute: Any, values: Any) -> Secret:
    """Candidate values of a column without missing values; see `find_secret`."""
    distinct = _ascending(column, attribute)
    if values is None:
        if len(distinct) < 2:
            raise ValueError(
                f"The attribute {attribute!r} has a single value: there is "
                "nothing to infer. Pass the values it may take in `values`."
            )
        if is_quantity(distinct, len(column)):
            return Secret(index, column.astype(np.float64), None, np.zeros(0, dtype=np.intp))
        if len(distinct) > MAX_VALUES:
            raise ValueError(
                f"The attribute {attribute!r} has too many values: expected at most {MAX_VALUES} "
                f"categories, got {len(distinct)}. Group rare ones, or convert numbers stored as "
                "text to a numeric column."
            )
        candidates = distinct
    else:
        candidates = _ascending(np.asarray(values).ravel(), attribute)
        if len(candidates) < 2:
            raise ValueError(
                f"`values` must hold at least 2 distinct values; got {candidates.tolist()}."
            )
    codes = pd.Index(candidates).get_indexer(pd.Index(column))
    if np.any(codes < 0):
        raise ValueError(
            f"`values` does not contain {int(np.sum(codes < 0))} records' values of {attribute!r}, "
            f"the first of them in row {int(np.argmax(codes < 0))} (by position). Add it, or drop "
            "those records."
        )
    return Secret(index, column, candidates, codes)


def _ascending(column: Array, attribute: Any) -> Array:
    try:
        return np.unique(column)
    except TypeError as error:
        raise TypeError(
            f"The attribute {attribute!r} mixes types that cannot be ordered ({error}). Convert "
            "the column to strings with `astype(str)`."
        ) from error


def is_quantity(distinct: Array, n: int) -> bool:
    """Tell a quantity from codes, by the distinct values of a column of n records."""
    if distinct.dtype.kind == "O" and all(isinstance(v, int | float) for v in distinct):
        distinct = distinct.astype(np.float64)
    if distinct.dtype.kind not in "iuf":
        return False
    if len(distinct) > MAX_VALUES:
        return True
    if np.all(np.mod(distinct, 1) == 0):
        return len(distinct) > MAX_CODES
    return len(distinct) > np.sqrt(n)


def few_valued(table: Any) -> dict[str, tuple[list[int], IntArray]]:
    """Find the columns of raw records that have few values, as an attribute would.

    Columns of 0 and 1 next to each other, of which no record has two, may be the categories of one
    column, and are taken for one. Returns, by name, positions of the columns, and of the first
    record with each of the values.
    """
    blocks: list[list[int]] = []
    codes, ones = {}, None
    for j in range(table.shape[1]):
        column = pd.Series(raw_column(table, j))
        codes[j], distinct = pd.factorize(column, use_na_sentinel=False)
        known = np.asarray(distinct)[~pd.isna(distinct)]
        if len(distinct) < 2 or known.dtype.kind in "mM" or is_quantity(known, len(column)):
            ones = None
            continue
        own = column.to_numpy(np.float64) if set(distinct.tolist()) == {0, 1} else None
        if ones is not None and own is not None and (ones + own).max() <= 1.0:
            blocks[-1].append(j)
            ones = ones + own
        else:
            blocks.append([j])
            ones = own
    names, found = feature_labels(column_names(table), table.shape[1]), {}
    for block in blocks:
        name = names[block[0]] if len(block) == 1 else f"{names[block[0]]} to {names[block[-1]]}"
        values = pd.DataFrame({j: codes[j] for j in block}).drop_duplicates()
        found[name] = block, values.index.to_numpy(np.intp)
    return found


def range_of_others(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ranges of quantities among the *other* records, wider by half their width on both sides.

    The largest value would be told by a range that it sets itself.

    Shapes: ``values`` (n,) or (n, d); returns the same, twice.
    """
    least, largest = np.partition(values, 1, axis=0), -np.partition(-values, 1, axis=0)
    low, high = (np.where(values == end[0], end[1], end[0]) for end in (least, largest))
    return widened(low, high)


def widened(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a range, wider by half its width on both sides, and never empty."""
    width = np.maximum(high - low, _SQUARE_ROOT_OF_ROUND_OFF * (1.0 + np.abs(high)))
    return low - 0.5 * width, high + 0.5 * width


_N_FOLDS = 5


def marginal_prior(codes: IntArray, n_values: int, counts: FloatArray | None = None) -> FloatArray:
    """Relative frequencies of the values among all *other* records.

    With a record's own value among the counts, the prior would tell it. Its vote is spread
    evenly over the values instead, which also leaves a value that nobody else carries possible.

    Shapes: ``codes`` (n,); ``counts`` (M,), of the values in all records, where these are some of
    them; returns (n, M): ``(count of m among the others + 1 / M) / number of all``.
    """
    if counts is None:
        counts = np.bincount(codes, minlength=n_values).astype(np.float64)
    others = np.tile(counts, (len(codes), 1))
    others[np.arange(len(codes)), codes] -= 1.0
    return (others + 1.0 / n_values) / counts.sum()


@dataclass(frozen=True)
class CrossFitted:
    """Classifiers of a secret value by all else about a record, each of other folds. Confidential.

    The probabilities of a record come from a classifier that was fitted on other folds, and the
    folds do not look at the secret. A share of 1 / n_train is spread evenly over the values, as
    for the marginal prior.
    """

    fitted: tuple[Any, ...]  # a classifier for each fold; where it knows one value, its code
    n_train: IntArray  # records that each was fitted on, (n_folds,)
    n_values: int  # M
    positions: IntArray  # of the records among all, ascending, (n,)
    fold: IntArray  # of each of them, (n,)

    @classmethod
    def of(
        cls,
        classifier: Any,
        known: Any,
        y: Any,
        codes: IntArray,
        n_values: int,
        positions: IntArray,
    ) -> "CrossFitted":
        """Fit one classifier without each fold, logistic regression where none is given.

        Positions are those of the records among all.
        """
        if classifier is None:
            classifier = on_encoded_columns(LogisticRegression(max_iter=1000))
        if not hasattr(classifier, "predict_proba"):
            raise TypeError(
                f"`classifier` must have `predict_proba`; got {type(classifier).__name__}. Wrap it "
                "in sklearn.calibration.CalibratedClassifierCV."
            )
        n, features = len(codes), known_features(known, y)
        fold = np.zeros(n, dtype=np.intp)
        models: list[Any] = []
        sizes: list[int] = []
        for k, (train, test) in enumerate(folds(n).split(np.arange(n))):
            fold[test] = k
            present = np.unique(codes[train])
            sizes.append(len(train))
            if len(present) == 1:
                models.append(int(present[0]))
            else:
                with warnings.catch_warnings():
                    # Of few records many values are no regression.
                    warnings.filterwarnings("ignore", message="The number of unique classes")
                    model = without_ledger(classifier)
                    models.append(model.fit(take_rows(features, train), codes[train]))
        return cls(tuple(models), np.array(sizes), n_values, positions, fold)

    def probabilities(self, known: Any, y: Any, positions: IntArray) -> FloatArray:
        """Probabilities of records at some positions; of others than those fitted on, too.

        Shapes: ``known`` (b, n_columns - 1); ``y``, ``positions`` (b,); returns (b, M).
        """
        features, n_values = known_features(known, y), self.n_values
        at = np.minimum(np.searchsorted(self.positions, positions), len(self.positions) - 1)
        own = np.where(self.positions[at] == positions, self.fold[at], positions % len(self.fitted))
        prior = np.empty((len(positions), n_values))
        for k, model in enumerate(self.fitted):
            rows = np.flatnonzero(own == k)
            if not len(rows):
                continue
            guess = np.zeros((len(rows), n_values))
            if isinstance(model, int):
                guess[:, model] = 1.0
            else:
                guess[:, model.classes_] = model.predict_proba(take_rows(features, rows))
            prior[rows] = (self.n_train[k] * guess + 1.0 / n_values) / (self.n_train[k] + 1)
        return prior


def folds(n: int) -> KFold:
    """Folds that look at nothing but the position: stratified ones would tell the secret."""
    return KFold(min(_N_FOLDS, n), shuffle=True, random_state=0)


def on_encoded_columns(model: Any) -> Any:
    """Pipeline that imputes and scales numbers, encodes all else one-hot, and fits the model."""
    numeric = make_pipeline(SimpleImputer(), StandardScaler())
    nominal = OneHotEncoder(handle_unknown="ignore", min_frequency=2)
    encode = make_column_transformer(
        (numeric, make_column_selector(dtype_include="number")),
        (nominal, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(encode, model)


def known_features(known: Any, y: Any) -> pd.DataFrame:
    """Return the other columns, and the target last, as one table with names of its own."""
    frame = pd.DataFrame(known).infer_objects()
    frame.columns = [f"known{j}" for j in range(frame.shape[1])]
    return frame if y is None else frame.assign(**{f"known{frame.shape[1]}": np.asarray(y)})


# Records of a fold from which its residuals tell how far imputed values are off.
_ENOUGH = 20
# A normal prior, and a step, is at least so wide, as a share of the spread of the column.
_NARROWEST = 1e-6
# Records, evenly spaced, that tell how much other columns leave of the spread of a number.
_MOST_RECORDS = 4096


def means_of_others(column: FloatArray) -> FloatArray:
    """Mean of all records but each, of shape (n,)."""
    return (column.sum() - column) / (len(column) - 1)


def spaced_records(n: int) -> IntArray:
    """Positions of the records from which `spread_left` learns, ascending."""
    return evenly(np.arange(n), _MOST_RECORDS)


def spread_left(table: Any, y: Any = None) -> FloatArray:
    """Share of the standard deviation of every number that is left given all other columns.

    A number is held against itself one such conditional standard deviation lower and higher. It is
    the error of a ridge regression on the other columns by generalized cross-validation (Golub,
    Heath and Wahba, 1979), for all columns from one inverse: that of the j-th is its j-th column
    over the j-th diagonal entry. What is no number has 1. With ``y`` it comes last, as a column.
    """
    rows = spaced_records(table.shape[0])
    frame = known_features(take_rows(table, rows), None if y is None else np.asarray(y)[rows])
    frame = frame.replace([np.inf, -np.inf], np.nan)
    numbers = frame.select_dtypes("number").dropna(axis=1, how="all")
    names = frame.select_dtypes(exclude="number").astype(str)
    encoded = StandardScaler().fit_transform(numbers.fillna(numbers.mean()))
    if names.shape[1]:
        one_hot = OneHotEncoder(min_frequency=2, sparse_output=False).fit_transform(names)
        encoded = np.hstack([encoded, one_hot - one_hot.mean(axis=0)])
    found = np.ones(frame.shape[1])
    left = standardized_spread_left(encoded)[: numbers.shape[1]]
    found[frame.columns.get_indexer(numbers.columns)] = left
    return found


def standardized_spread_left(encoded: FloatArray) -> FloatArray:
    """Share of the spread that is left of every column, which has mean 0 and spread 1, (k,)."""
    n, k = encoded.shape
    inverse = np.linalg.inv(encoded.T @ encoded + np.eye(k))
    own = inverse.diagonal()
    seen = own - (inverse**2).sum(axis=1)
    freedom = n - 1 - (k - inverse.trace()) + seen / own
    left = np.sqrt(n * np.maximum(seen, 0.0)) / own / np.maximum(freedom, _NARROWEST)
    return np.clip(left, _NARROWEST, 1.0)
