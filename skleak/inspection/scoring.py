"""Scores of leakage for searches."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from skleak.inspection._pipeline import flat_steps
from skleak.metrics import mean_interval
from skleak.plotting.displays import middle_noise
from skleak.utils._arguments import check_level, check_numbers
from skleak.utils._records import checked_labels, named, resolve_features, row_labels
from skleak.utils._sklearn_compat import input_positions, one_hot_widths
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# Each output is a function of the input in its place alone. Not so all that scikit-learn calls
# one-to-one: Normalizer divides by the length of the whole record. Subclasses may do anything.
_COLUMN_BY_COLUMN = (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
)


def dependence(transformer: Any, n_in: int, n_out: int) -> BoolArray:
    """Return which outputs each input can move, of shape (n_in, n_out).

    Where a transformer is not known to keep columns apart, any input may move any output: too
    many columns are then counted, never too few.
    """
    if transformer is None or transformer == "passthrough":
        return np.eye(n_in, dtype=bool)
    if type(transformer) is Pipeline:
        return of_steps([step for _, step in transformer.steps], n_in, n_out)
    if type(transformer) is ColumnTransformer:
        return _of_columns(transformer, n_in, n_out)
    plain = not getattr(transformer, "add_indicator", False)
    if type(transformer) in _COLUMN_BY_COLUMN and n_in == n_out and plain:
        return np.eye(n_in, dtype=bool)
    if type(transformer) is OneHotEncoder:
        # The outputs of each column follow one another, one for each level that is kept apart.
        widths = one_hot_widths(transformer)
        if len(widths) == n_in and sum(widths) == n_out:
            return np.repeat(np.eye(n_in, dtype=bool), widths, axis=1)
    return np.ones((n_in, n_out), dtype=bool)


def of_steps(steps: Sequence[Any], n_in: int, n_out: int) -> BoolArray:
    """Return which outputs of transformers, one after the other, each input can move."""
    steps = [step for step in steps if step is not None and step != "passthrough"]
    moved = np.eye(n_in, dtype=bool)
    for step, after in zip(steps, [*steps, None][1:], strict=True):
        width = n_out if after is None else getattr(after, "n_features_in_", None)
        if width is None:
            return np.ones((n_in, n_out), dtype=bool)
        moved = moved @ dependence(step, moved.shape[1], int(width))
    return moved


def _of_columns(transformer: ColumnTransformer, n_in: int, n_out: int) -> BoolArray:
    moved = np.zeros((n_in, n_out), dtype=bool)
    for name, part, _ in transformer.transformers_:
        outputs = np.arange(n_out)[transformer.output_indices_[name]]
        if len(outputs):
            inputs = input_positions(transformer, name)
            moved[np.ix_(inputs, outputs)] = dependence(part, len(inputs), len(outputs))
    return moved


def checked(measures: Mapping[str, npt.ArrayLike]) -> dict[str, FloatArray]:
    """Read the measures; each has a number for every record, (n,)."""
    if not isinstance(measures, Mapping) or not measures:
        raise TypeError(
            "`measures` must be a mapping from names to one number per record; got "
            f"{type(measures).__name__}. Pass `{{'loss': loss}}`."
        )
    values = {
        str(name): check_numbers(f"measures[{name!r}]", value, empty=False)
        for name, value in measures.items()
    }
    shapes = {value.shape for value in values.values()}
    if len(shapes) > 1 or any(value.ndim != 1 for value in values.values()):
        raise ValueError(
            f"`measures` must hold one number per record each; got shapes {sorted(shapes)}."
        )
    for name, value in values.items():
        if n_other := int((~np.isfinite(value)).sum()):
            raise ValueError(
                f"`measures[{name!r}]` is infinite for {n_other} of {len(value)} "
                "records: no mean is known. Without noise leakage is infinite: fit with a noise "
                "scale above zero, or leave the measure out."
            )
    return values


def labels_of(measures: Mapping[str, npt.ArrayLike]) -> pd.Index | None:
    """Return the labels of the records that measures are of; None where they have none."""
    found = [index for index in map(row_labels, measures.values()) if index is not None]
    if any(not index.equals(found[0]) for index in found):
        raise ValueError(
            "`measures` hold Series of different indexes: which record is meant is not clear. Pass "
            "arrays in one order."
        )
    return found[0] if found else None


def group_labels(
    groups: Any, n: int, index: pd.Index | None = None, rows: IntArray | None = None
) -> "pd.Series":
    """Label of each record's group, (n,), by position or by the labels of the records.

    Of several columns a label of each combination; with ``rows`` of the records at these.
    """
    if isinstance(groups, Mapping | pd.DataFrame):
        parts = {str(name): group_labels(groups[name], n, index, rows) for name in groups}
        table = pd.DataFrame(parts)
        name = "\n".join(map(str, table.columns))
        labels = pd.Series(list(zip(*(table[one] for one in table), strict=True)), name=name)
        return labels
    name = str(getattr(groups, "name", None) or "group")
    return pd.Series(checked_labels(groups, n, named(index), rows), name=name)


def of_audit(report: Any, noise_scale: float | None) -> pd.DataFrame:
    """Leakage of every attacked record at a noise scale: ``label`` and ``exposure``."""
    scales = sorted(set(report.records["noise_scale"].tolist()))
    noise = middle_noise(report) if noise_scale is None else float(noise_scale)
    if noise not in scales:
        raise ValueError(
            f"`noise_scale` must be one that was audited, of {scales}; got {noise_scale!r}."
        )
    at = report.records[report.records["noise_scale"] == noise]
    table = at.reindex(columns=["record", "label", "exposure"]).reset_index(drop=True)
    level = next(each for each in report.decision()["levels"] if each["noise"] == noise)
    start = "success_" if report.kind in ("categorical", "membership") else "mse_"
    if f"{start}{level['attack']}" in at:
        value, prior = (at[f"{start}{level['attack']}"].astype(float), at["prior"].astype(float))
        gain = (value - prior) / (1.0 - prior).where(prior < 1.0)
        if start == "mse_":
            gain = 1.0 - value / prior.where(prior > 0.0)
        table["attack_advantage"] = gain.to_numpy(dtype=float)
    return table


def groups_of(report: Any, table: pd.DataFrame, groups: Any) -> Any:
    """Return the groups of the records of a report, (n,): by their labels, or their positions."""
    if groups is None:
        if "group" not in table:
            raise ValueError(
                "`groups` is needed: this report was made without. Pass one label per record, or a "
                "Series by the labels of the records."
            )
        return table["group"]
    labels = pd.Index(table["label"])
    if hasattr(report, "kind"):
        n, rows = int(report.settings["n_records"]), table["record"].to_numpy(dtype=np.intp)
        own = named(labels) is not None and bool(np.any(labels.to_numpy() != rows))
    else:
        n, own = int(report.dataset["n_rows"]), report.dataset["labels"] == "index"
        # Some rows that are called by an index of their own stand nobody knows where.
        n, rows = (len(table), np.arange(len(table))) if own else (n, labels.to_numpy(np.intp))
    return group_labels(groups, n, labels if own else None, rows)


Statistic = Literal["mean", "max"] | Callable[[FloatArray], float]
_STATISTICS: dict[str, Callable[[FloatArray], float]] = {"mean": np.mean, "max": np.max}


def make_leakage_scorer(
    columns: "Hashable | Sequence[Hashable] | None" = None, *, statistic: Statistic = "mean"
) -> "LeakageScorer":
    """Make a scorer of how little a fit leaks about the records that it was trained on.

    The score is minus the Fisher information loss, so that greater is better, as scikit-learn
    wants it: 0 is no leakage, and a model without noise has minus infinity.

    Parameters
    ----------
    columns : str, int, list of them or None, default=None
        Raw columns of what the scored estimator takes, by name or position, which are unknown
        together; all encoded columns that they can move form one block. None for whole records:
        all encoded columns, and the target where it is private.
    statistic : {"mean", "max"} or callable, default="mean"
        Over the training records: their mean, the most exposed one, or what a function makes of
        their losses, an array of shape (n,).

    Returns
    -------
    LeakageScorer
        Callable as ``scorer(estimator, X, y)``.

    Raises
    ------
    ValueError
        For an unknown statistic; when scoring, for unknown columns.

    See Also
    --------
    attribute_leakage : What is told about raw columns, on one scale from 0 to 1.

    Notes
    -----
    **Searches hide errors.** Where a scorer fails, say for a column that is misspelled,
    `GridSearchCV` warns and goes on with NaN, and may then choose any parameters. Pass it
    ``error_score="raise"``.

    **It measures the fit, not the test fold.** Leakage is about the records that a model was
    trained on: those of the training folds. The scorer takes them from the fit that it is given,
    and ignores ``X`` and ``y`` but for the names of the columns. The score is the same on training
    and test folds, so that ``return_train_score`` adds nothing, and is not noisy as accuracy on a
    small fold is. Models of cross-validation are trained on fewer records than the one that is
    fitted in the end, and a record moves these more: with k folds the loss is larger than that
    of the final model, by about k / (k - 1) with noise of the same scale.

    **Choosing by it is a function of the data.** The loss is computed from the training records,
    without noise, and so is whatever is chosen by it, as what is chosen by accuracy is: the
    parameters that win tell something of the records, which neither the losses of the final model
    nor a guarantee of differential privacy count. The numbers in ``cv_results_`` are confidential.
    Choose on public data, from few candidates, or by a rule known beforehand (`calibrate`) where
    that matters.

    A loss of encoded columns is in their units. Where a transformer mixes columns, such as PCA,
    all that it returns may be moved by each: the loss of one is then that of all of them, never
    too small. The transformers count as public.

    Estimators that were pickled or copied after ``fit`` drop what leakage is computed from:
    ``scoring`` works in parallel jobs, as each scores its own fit, but the scorer refuses the
    estimators that ``cross_validate(..., return_estimator=True, n_jobs=2)`` returns.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skleak.inspection import make_leakage_scorer
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> scoring = {"r2": "r2", "leakage": make_leakage_scorer("sex")}
    >>> model = PrivateLinearRegression(noise_scale=2.0, random_state=0)
    >>> search = GridSearchCV(model, {"alpha": [0.01, 1.0]}, scoring=scoring, refit="leakage")
    >>> search.fit(X, y).best_params_
    {'alpha': 1.0}
    """
    known = statistic in _STATISTICS if isinstance(statistic, str) else callable(statistic)
    if not known:
        raise ValueError(
            f'`statistic` must be "mean", "max" or a function of an array; got {statistic!r}.'
        )
    return LeakageScorer(columns, statistic=statistic)


class LeakageScorer(BaseEstimator):
    """Minus the Fisher information loss of the training records of a fit.

    Objects of this kind come from `make_leakage_scorer`, which says what they measure.

    Parameters
    ----------
    columns : str, int, list of them or None, default=None
        Raw columns that are unknown together.
    statistic : {"mean", "max"} or callable, default="mean"
        What is made of the losses of the records.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.inspection import make_leakage_scorer
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scorer = make_leakage_scorer(statistic="max")
    >>> model = PrivateLinearRegression(noise_scale=2.0).fit(X, y)
    >>> bool(scorer(model, X, y) == -model.fisher_information_loss_.max())
    True
    """

    def __init__(self, columns: Any = None, *, statistic: Statistic = "mean") -> None:
        self.columns = columns
        self.statistic = statistic

    def __call__(self, estimator: Any, X: Any = None, y: Any = None, **_: Any) -> float:
        """Return the score of a fitted estimator; the records that are passed do not count."""
        loss, trained, _labels = training_losses(estimator, self.columns)
        statistic = self.statistic
        made = _STATISTICS[statistic] if isinstance(statistic, str) else statistic
        return -float(made(loss[trained]))


def training_losses(
    estimator: Any, columns: Any = None
) -> tuple[FloatArray, BoolArray, pd.Index | None]:
    """Return the loss of each training record of a fit, which count in it, and their labels, (n,).

    Labels are those of the table that the model itself received, if any.
    """
    steps, model = _split(estimator)
    state = model._confidential_state()
    features = None
    if columns is not None:
        features = _moved(estimator, steps, state.n_features, columns).tolist()
    loss: FloatArray = np.asarray(model.fisher_information_loss(features=features))
    return loss, state.objective.sample_weight > 0.0, state.row_labels


def _split(estimator: Any) -> tuple[list[Any], Any]:
    """Take a fitted pipeline apart: transformers, and the private model."""
    *steps, (_, model) = flat_steps(estimator)
    while hasattr(model, "best_estimator_"):  # a search within a pipeline, or as a whole
        *more, (_, model) = flat_steps(model.best_estimator_)
        steps += more
    if not (hasattr(model, "_confidential_state") and hasattr(model, "fisher_information_loss")):
        raise TypeError(
            "A leakage scorer takes private linear estimators of skleak, and pipelines that end in "
            f"one; got {type(model).__name__}. A released model knows nothing of its training: "
            "score the estimator that was fitted."
        )
    return [step for _, step in steps if step is not None and step != "passthrough"], model


def _moved(estimator: Any, steps: list[Any], n_out: int, columns: Any) -> IntArray:
    """Positions of the encoded columns that some raw columns can move, (k,)."""
    first = steps[0] if steps else estimator
    names = getattr(first, "feature_names_in_", getattr(estimator, "feature_names_in_", None))
    n_in = int(getattr(first, "n_features_in_", n_out))
    raw = resolve_features(columns, names, n_in, "columns")
    moved = of_steps(steps, n_in, n_out)
    found: IntArray = np.flatnonzero(moved[raw].any(axis=0))
    if not len(found):
        raise ValueError(
            f"The preprocessing drops {columns!r}: no encoded column depends on it. Name another "
            "column, or none."
        )
    return found


Method = Literal["between_groups", "to_overall"]


class LeakageFrame:
    """Leakage by group of people: means with intervals, their differences and ratios. Confidential.

    Parameters
    ----------
    measures : mapping from str to array-like of shape (n,)
        Leakage of every record, by name; no value is missing or infinite.
    groups : array-like of shape (n,), Series or mapping from str to array-like
        Label of the group of each record, in their order; of Series by the labels of measures that
        are Series as well. Several columns make a group of each combination.
    bounded : tuple of str, default=()
        Measures that lie in [0, 1], such as ``advantage_any_prior``.
    confidence_level : float, default=0.95
        Probability that an interval holds the mean, in (0, 1).

    Attributes
    ----------
    by_group : DataFrame
        A row for each group: ``n_records`` and for each measure its mean under its name, with
        ``<name>_low`` and ``<name>_high``.
    overall : Series
        The same of all records together.

    See Also
    --------
    skleak.report.LeakageReport : Its ``groups`` have the largest and the joint loss of groups.

    Notes
    -----
    The means are those of these records, without error. Intervals are about the group that the
    records are a sample of: they say what other people of the same group would change, not what
    other noise would. Without a known range they are Student's, which take means of groups to be
    near normal (of ten records with lognormal losses of spread 1 an interval at 95% holds in 84% of
    samples), and of a group of one record are infinite; of `bounded` measures they are those of
    Gaffke, which suppose nothing of the distribution (`skleak.metrics.mean_interval`). Records
    count as independent, though one model was made of all of them.

    Intervals of differences and ratios hold simultaneously over all groups: each mean is given an
    interval at level ``1 - (1 - confidence_level) / n_groups`` (Bonferroni), and the ends are the
    smallest and the largest that means within these can give. They are wider than a bootstrap's,
    which for the largest of several differences covers less than it states.

    A group of a few people tells of each of them: keep the frame as confidential as the report.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.inspection import LeakageFrame
    >>> loss = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    >>> frame = LeakageFrame({"loss": loss}, ["a", "a", "a", "b", "b", "b"])
    >>> frame.by_group["loss"].round(2).to_dict()
    {'a': 0.2, 'b': 0.5}
    >>> round(frame.overall["loss"], 2)
    np.float64(0.35)
    >>> frame.difference().round(2)
          difference  low  high
    loss         0.3  0.0  1.02
    """

    def __init__(
        self,
        measures: Mapping[str, npt.ArrayLike],
        groups: Any,
        *,
        bounded: tuple[str, ...] = (),
        confidence_level: float = 0.95,
    ) -> None:
        self.confidence_level = check_level(confidence_level)
        self._values = checked(measures)
        self._bounded = bounded
        n = len(next(iter(self._values.values())))
        self._groups = group_labels(groups, n, labels_of(measures))
        self.by_group = self._means(self.confidence_level)
        overall = self._means(self.confidence_level, _everybody(n))
        self.overall = overall.iloc[0].rename("overall")

    @classmethod
    def from_estimator(
        cls, estimator: Any, groups: Any, *, columns: Any = None, confidence_level: float = 0.95
    ) -> "LeakageFrame":
        """Take the Fisher information loss of the training records of a fitted estimator.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted; ends in a private linear estimator, which still has its training data.
        groups : array-like of shape (n,), Series or mapping from str to array-like
            Label of each training record's group, in their order, or a Series by the labels of
            the DataFrame that the model itself was fitted on.
        columns : str, int, list of them or None, default=None
            Raw columns that are unknown together, as `make_leakage_scorer` takes them.
        confidence_level : float, default=0.95
            Probability that an interval holds the mean.

        Returns
        -------
        LeakageFrame
            With the measure ``fisher_information_loss``, without records of weight 0.

        Raises
        ------
        ValueError
            For groups of another length, and models without noise, whose loss is infinite.
        """
        loss, trained, index = training_losses(estimator, columns)
        labels = group_labels(groups, len(loss), index)
        measures = {"fisher_information_loss": loss[trained]}
        labels = labels[trained].reset_index(drop=True)
        return cls(measures, labels, confidence_level=confidence_level)

    @classmethod
    def from_report(
        cls,
        report: Any,
        groups: Any = None,
        *,
        noise_scale: float | None = None,
        confidence_level: float = 0.95,
    ) -> "LeakageFrame":
        """Take the leakage of records from a leakage report, or from the report of an audit.

        Parameters
        ----------
        report : LeakageReport or AuditReport
            With the records.
        groups : array-like, Series or None, default=None
            Label of the group of each training record, in their order (of a report about some
            records of a labeled table in theirs); a Series by the labels of the records, which the
            report must have from the index of their table. Any other Series is refused. None takes
            the groups that a leakage report was made with.
        noise_scale : float, default=None
            Of an audit; by default the one in the middle.
        confidence_level : float, default=0.95
            Probability that an interval holds the mean.

        Returns
        -------
        LeakageFrame
            Of a leakage report with ``fisher_information_loss`` and, where it is known of all
            records, ``advantage_any_prior``, without records of weight 0; of an audit with
            ``exposure`` (what is held against the limit) where it is known, and
            ``attack_advantage`` (of the best attack, which may be below 0).

        Raises
        ------
        ValueError
            Without groups, for groups of another length, for a noise scale that was not audited,
            and where nothing is known of each record.
        """
        if hasattr(report, "kind"):
            table = of_audit(report, noise_scale)
        else:
            table = report.records.rename_axis("label").reset_index()
        labels = groups_of(report, table, groups)
        if "sample_weight" in table:
            trained = table["sample_weight"].to_numpy() > 0.0
            table, labels = table[trained], labels[trained].reset_index(drop=True)
        names = ("fisher_information_loss", "advantage_any_prior", "exposure", "attack_advantage")
        known = {
            name: table[name].to_numpy(dtype=float)
            for name in names
            if name in table and table[name].notna().all()
        }
        if not known:
            raise ValueError("Nothing is known of each record of this report by itself.")
        bounded = tuple(name for name in ("advantage_any_prior", "exposure") if name in known)
        return cls(known, labels, bounded=bounded, confidence_level=confidence_level)

    def difference(self, method: Method = "between_groups") -> pd.DataFrame:
        """Return how far apart the means of groups are.

        Parameters
        ----------
        method : {"between_groups", "to_overall"}, default="between_groups"
            Largest less smallest mean; or the largest distance of a group from all records.

        Returns
        -------
        DataFrame
            A row for each measure: ``difference``, ``low`` and ``high``; 0 is fair.
        """
        return self._compared(method, "difference")

    def ratio(self, method: Method = "between_groups") -> pd.DataFrame:
        """Return the ratio of the means of groups.

        Parameters
        ----------
        method : {"between_groups", "to_overall"}, default="between_groups"
            Smallest over largest mean; or the smallest ratio of a group and all records, the
            smaller of both over the larger.

        Returns
        -------
        DataFrame
            A row for each measure: ``ratio``, ``low`` and ``high``; 1 is fair. NaN where a mean is
            negative, or all are 0.
        """
        return self._compared(method, "ratio")

    def _compared(self, method: str, what: str) -> pd.DataFrame:
        if method not in ("between_groups", "to_overall"):
            raise ValueError(f'`method` must be "between_groups" or "to_overall"; got {method!r}.')
        to_overall = method == "to_overall"
        # All means that are looked at lie within their intervals together.
        rest = (1.0 - self.confidence_level) / (len(self.by_group) + to_overall)
        table = self._means(1.0 - rest)
        overall = self._means(1.0 - rest, _everybody(len(self._groups)))
        rows = {}
        for name in self._values:
            ends = [name, f"{name}_low", f"{name}_high"]
            groups: list[Any] = table[ends].to_numpy(dtype=float).tolist()
            pairs = list(combinations(groups, 2))
            if to_overall:
                pairs = [(group, overall[ends].iloc[0].tolist()) for group in groups]
            rows[name] = _differences(pairs) if what == "difference" else _ratios(pairs)
        return pd.DataFrame.from_dict(rows, orient="index", columns=[what, "low", "high"])

    def _means(self, level: float, groups: "pd.Series | None" = None) -> pd.DataFrame:
        """Means and intervals of each group."""
        labels = self._groups if groups is None else groups
        rows = {}
        for label, places in labels.groupby(labels, sort=True).indices.items():
            row: dict[str, float] = {"n_records": len(places)}
            for name, values in self._values.items():
                unit = (0.0, 1.0) if name in self._bounded else None
                own = values[places]
                found = mean_interval(own, confidence_level=level, value_range=unit)
                row |= {name: own.mean(), f"{name}_low": found.low, f"{name}_high": found.high}
            rows[label] = row
        table = pd.DataFrame.from_dict(rows, orient="index")
        if isinstance(table.index, pd.MultiIndex):
            table.index.names = str(labels.name).split("\n")
        else:
            table.index.name = labels.name
        return table.astype({"n_records": int})


def _everybody(n: int) -> "pd.Series":
    return pd.Series("all", index=range(n), name="group")


def _differences(pairs: list[Any]) -> tuple[float, float, float]:
    """Largest distance of two means, and its ends; a mean is (estimate, low, high)."""
    apart = [
        (abs(a[0] - b[0]), max(a[1] - b[2], b[1] - a[2], 0.0), max(a[2] - b[1], b[2] - a[1]))
        for a, b in pairs
    ]
    if not apart:  # one group is as itself
        return 0.0, 0.0, 0.0
    estimate, low, high = (max(ends) for ends in zip(*apart, strict=True))
    return estimate, low, high


def _ratios(pairs: list[Any]) -> tuple[float, float, float]:
    """Smallest ratio of two means, the smaller over the larger, and its ends."""
    if not pairs:
        return 1.0, 1.0, 1.0
    means = [mean[0] for pair in pairs for mean in pair]
    if min(means) < 0.0 or max(means) == 0.0:
        return math.nan, math.nan, math.nan
    found = []
    for a, b in pairs:
        # What is measured is not negative, whatever Student's interval says.
        (a_low, a_high), (b_low, b_high) = ((max(m[1], 0.0), max(m[2], 0.0)) for m in (a, b))
        least = min(_quotient(a_low, b_high), _quotient(b_low, a_high), 1.0)
        # Means that may be equal have a ratio of 1 at most; of others the nearest ends count.
        most = 1.0
        if a_high < b_low or b_high < a_low:
            most = min(_quotient(a_high, b_low), _quotient(b_high, a_low))
        found.append((min(_quotient(a[0], b[0]), _quotient(b[0], a[0])), least, most))
    estimate, low, high = (min(ends) for ends in zip(*found, strict=True))
    return estimate, low, high


def _quotient(part: float, whole: float) -> float:
    if whole == 0.0:
        return 1.0 if part == 0.0 else math.inf
    return 0.0 if math.isinf(whole) else part / whole
