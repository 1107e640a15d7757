"""Scores of leakage for searches."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator

from skleak.inspection._pipeline import (
    combined_labels,
    group_labels,
    label_parts,
    training_groups,
    training_losses,
)
from skleak.metrics import mean_interval
from skleak.plotting.displays import check_some, group_axes, middle_noise
from skleak.utils._arguments import check_level, check_numbers
from skleak.utils._records import named, row_labels
from skleak.utils._typing import FloatArray


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


def groups_of(report: Any, table: pd.DataFrame, groups: Any, name: str = "groups") -> "pd.Series":
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
    return group_labels(groups, n, labels if own else None, rows, name)


Statistic = str | float | Callable[[FloatArray], Any]
_STATISTICS: dict[str, Any] = {"mean": np.mean, "max": np.max, "largest": np.max}
_OF_GROUPS = ("group_max", "group_ratio")


def _function(statistic: Any, name: str, *others: str) -> Callable[[FloatArray], Any]:
    """Return what makes one number of some losses."""
    if isinstance(statistic, str) and statistic in _STATISTICS:
        return cast(Callable[[FloatArray], Any], _STATISTICS[statistic])
    if isinstance(statistic, float) and 0.0 < statistic < 1.0:
        return lambda losses: np.quantile(losses, statistic)
    if callable(statistic):
        return statistic
    known = ", ".join(f'"{one}"' for one in (*_STATISTICS, *others))
    raise ValueError(
        f"`{name}` must be {known}, a quantile such as 0.95, or a function of an array; got "
        f"{statistic!r}."
    )


def _named(statistics: Any) -> dict[str, Any]:
    """Return several statistics by their names."""
    pairs = (
        [*statistics.items()]
        if isinstance(statistics, Mapping)
        else [
            (f"q{one:g}" if isinstance(one, float) else getattr(one, "__name__", one), one)
            for one in statistics
        ]
    )
    found = {str(name): one for name, one in pairs}
    if not found or len(found) < len(pairs):
        raise ValueError(
            "`statistics` must be one or more, each of a name of its own; got "
            f"{[name for name, _ in pairs]}. Pass a dict from names to statistics."
        )
    return found


def make_leakage_scorer(
    columns: "Hashable | Sequence[Hashable] | None" = None,
    *,
    statistic: Statistic = "mean",
    groups: Any = None,
) -> "LeakageScorer":
    """Make a scorer of how little a fit leaks about the records that it was trained on.

    The score is minus the Fisher information loss, so that greater is better, as scikit-learn
    wants it: 0 is no leakage, and a model without noise has minus infinity. The ratio of groups is
    from 0 to 1, where 1 is fair, and 0 without noise.

    Parameters
    ----------
    columns : str, int, list of them or None, default=None
        Raw columns of what the scored estimator takes, by name or position, which are unknown
        together; all encoded columns that they can move form one block. None for whole records:
        all encoded columns, and the target where it is private.
    statistic : str, float or callable, default="mean"
        Over the training records: their "mean", the most exposed one ("max", or "largest"), a
        quantile such as 0.95, or what a function makes of their losses, an array of shape (n,).
        With groups the mean of the group that leaks most, "group_max", or the smallest mean of a
        group over the largest, "group_ratio".
    groups : str, int, array-like of shape (n,), Series or mapping of these, default=None
        For the statistics of groups: the raw column that has the group of each record, by name or
        position, whatever the steps of a pipeline make of it; or labels, as `LeakageFrame` takes
        them: those of a Series are found by the labels of the table that the model itself receives.
        In a search name a column, or pass such a Series: an array is not cut into folds.

    Returns
    -------
    LeakageScorer
        Callable as ``scorer(estimator, X, y)``.

    Raises
    ------
    ValueError
        For an unknown statistic, or one of groups without these; when scoring, for unknown columns,
        and where the groups of the training records are not known.
    TypeError
        When scoring what is no private linear estimator, nor a Pipeline, fitted search,
        TransformedTargetRegressor or FrozenEstimator that ends in one.

    See Also
    --------
    LeakageFrame : All groups, with intervals.
    attribute_leakage : What is told about raw columns, on one scale from 0 to 1.

    Notes
    -----
    **Searches hide errors.** Where a scorer fails, say for a column that is misspelled,
    `GridSearchCV` warns and goes on with NaN, and may then choose any parameters. Pass it
    ``error_score="raise"``.

    **It measures the fit, not the test fold.** Leakage is about the records that a model was
    trained on: those of the training folds. The scorer takes them from the fit that it is given,
    and ignores ``X`` and ``y``. A column of groups is that of the training fold, which is found
    within the searches and ``cross_validate`` of scikit-learn; elsewhere pass the training records
    for ``X``, or labels for `groups`. The score is the same on training
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

    A loss of encoded columns is in their units, and a private target counts as it comes out of its
    transformer. Where a transformer mixes columns, such as PCA,
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

    By the group that leaks most:

    >>> scoring["leakage"] = make_leakage_scorer(statistic="group_max", groups="sex")
    >>> ways = {"reweighting": [None, "irfil", "total"], "alpha": [1.0]}
    >>> search = GridSearchCV(model, ways, scoring=scoring, refit="leakage").fit(X, y)
    >>> search.best_params_
    {'alpha': 1.0, 'reweighting': None}
    """
    of_groups = isinstance(statistic, str) and statistic in _OF_GROUPS
    if not of_groups:
        _function(statistic, "statistic", *_OF_GROUPS)
    if of_groups != (groups is not None):
        raise ValueError(
            f"`groups` are needed by, and serve, the statistics {', '.join(_OF_GROUPS)} alone; got "
            f"`statistic={statistic!r}` and {'no groups' if groups is None else 'groups'}."
        )
    return LeakageScorer(columns, statistic=statistic, groups=groups)


class LeakageScorer(BaseEstimator):
    """Minus the Fisher information loss of the training records of a fit.

    Objects of this kind come from `make_leakage_scorer`, which says what they measure.

    Parameters
    ----------
    columns : str, int, list of them or None, default=None
        Raw columns that are unknown together.
    statistic : str, float or callable, default="mean"
        What is made of the losses of the records.
    groups : str, int, array-like, Series or mapping, default=None
        Groups of the records.

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

    def __init__(self, columns: Any = None, *, statistic: Any = "mean", groups: Any = None) -> None:
        self.columns = columns
        self.statistic = statistic
        self.groups = groups

    def __call__(self, estimator: Any, X: Any = None, y: Any = None, **_: Any) -> float:
        """Return the score of a fitted estimator; the records that are passed do not count."""
        loss, trained, index = training_losses(estimator, self.columns)
        if self.groups is None:
            return -float(_function(self.statistic, "statistic")(loss[trained]))
        labels = training_groups(estimator, self.groups, trained, index, X)
        means = [loss[trained][own].mean() for own in labels.groupby(labels).indices.values()]
        if self.statistic == "group_max":
            return -float(np.max(means))
        return _quotient(float(np.min(means)), float(np.max(means)))


Method = Literal["between_groups", "to_overall"]


class LeakageFrame:
    """Leakage by group of people, with intervals, differences and ratios. Confidential.

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
    statistics : str, float, callable, or list or dict of these, default="mean"
        What is made of the losses of a group: their "mean", the "max" (or "largest"), a quantile
        such as 0.95, or a number by a function of an array. Several make columns
        ``<measure>_<statistic>``, a quantile's called "q0.95" unless a dict names it.
    control : array-like of shape (n,), Series or mapping from str to array-like, default=None
        Levels within which groups are compared, such as ages where these are known to differ.

    Attributes
    ----------
    by_group : DataFrame
        A row for each group, within levels of ``control`` if any: ``n_records`` and for each
        measure its statistic under its name; of a mean with ``<name>_low`` and ``<name>_high``.
    overall : Series or DataFrame
        The same of all records together; with ``control`` a row for each level.

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

    Statistics are those of fairlearn's ``MetricFrame`` over the same groups. Intervals are of means
    alone: about the largest loss of other people the records say nothing.

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
    >>> most = LeakageFrame({"loss": loss}, ["a", "b", "c"] * 2, statistics=["max", 0.5])
    >>> most.group_max().round(2).to_dict(), most.group_min().round(2).to_dict()
    ({'loss_max': 0.6, 'loss_q0.5': 0.45}, {'loss_max': 0.4, 'loss_q0.5': 0.25})
    >>> age = ["young"] * 3 + ["old"] * 3
    >>> within = LeakageFrame({"loss": loss}, ["a", "b", "c"] * 2, control=age)
    >>> within.group_max()["loss"].to_dict()
    {'old': 0.6, 'young': 0.3}
    """

    def __init__(
        self,
        measures: Mapping[str, npt.ArrayLike],
        groups: Any,
        *,
        bounded: tuple[str, ...] = (),
        confidence_level: float = 0.95,
        statistics: Any = "mean",
        control: Any = None,
    ) -> None:
        self.confidence_level = check_level(confidence_level)
        self._values = checked(measures)
        self._bounded = bounded
        n, index = len(next(iter(self._values.values()))), labels_of(measures)
        several = isinstance(statistics, Mapping | Sequence) and not isinstance(statistics, str)
        asked = _named(statistics) if several else {"": statistics}
        # Of each column of the tables the measure, whether it is its mean, and what makes it.
        self._columns = {
            f"{name}_{one}" if one else name: (name, each == "mean", _function(each, "statistics"))
            for name in self._values
            for one, each in asked.items()
        }
        self._groups, self._controls = group_labels(groups, n, index), 0
        self._whole = pd.Series("all", index=range(n), name="group")
        if control is not None:
            self._whole = group_labels(control, n, index, name="control")
            self._controls = len(str(self._whole.name).split("\n"))
            self._groups = combined_labels([self._whole, self._groups])
        self.by_group = self._table(self.confidence_level, self._groups)
        overall = self._table(self.confidence_level, self._whole)
        self.overall = overall if self._controls else overall.iloc[0].rename("overall")

    def __repr__(self) -> str:
        """Say whom the table is about, above it."""
        n, within = len(self._groups), f" within {len(self.overall)} levels" * bool(self._controls)
        return f"Leakage of {n} records in {len(self.by_group)} groups{within}\n{self.by_group}"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        groups: Any,
        *,
        columns: Any = None,
        confidence_level: float = 0.95,
        statistics: Any = "mean",
        control: Any = None,
    ) -> "LeakageFrame":
        """Take the Fisher information loss of the training records of a fitted estimator.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted; ends in a private linear estimator, which still has its training data. It may be
            in a fitted search, TransformedTargetRegressor or FrozenEstimator.
        groups : array-like of shape (n,), Series, mapping from str to array-like, str or int
            Label of each training record's group, in their order, or a Series by the labels of
            the DataFrame that the model itself was fitted on, or a column of that DataFrame.
        columns : str, int, list of them or None, default=None
            Raw columns that are unknown together, as `make_leakage_scorer` takes them.
        confidence_level : float, default=0.95
            Probability that an interval holds the mean.
        statistics : str, float, callable, or list or dict of these, default="mean"
            What is made of the losses of a group.
        control : array-like, Series, mapping, str or int, default=None
            Levels within which groups are compared, as `groups`.

        Returns
        -------
        LeakageFrame
            With the measure ``fisher_information_loss``, without records of weight 0.

        Raises
        ------
        ValueError
            For groups of another length, or in a column that a step of the pipeline has taken up,
            and models without noise, whose loss is infinite.
        TypeError
            For other estimators, among them ensembles, whose members reveal more together.
        """
        loss, trained, index = training_losses(estimator, columns)
        labels = training_groups(estimator, groups, trained, index)
        if control is not None:
            control = training_groups(estimator, control, trained, index, name="control")
        how: Any = {"statistics": statistics, "confidence_level": confidence_level}
        return cls({"fisher_information_loss": loss[trained]}, labels, control=control, **how)

    @classmethod
    def from_report(
        cls,
        report: Any,
        groups: Any = None,
        *,
        noise_scale: float | None = None,
        confidence_level: float = 0.95,
        statistics: Any = "mean",
        control: Any = None,
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
        statistics : str, float, callable, or list or dict of these, default="mean"
            What is made of the losses of a group.
        control : array-like or Series, default=None
            Levels within which groups are compared, as `groups`.

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
        levels = None if control is None else groups_of(report, table, control, "control")
        if "sample_weight" in table:
            trained = table["sample_weight"].to_numpy() > 0.0
            table, labels = table[trained], labels[trained].reset_index(drop=True)
            levels = None if levels is None else levels[trained].reset_index(drop=True)
        names = ("fisher_information_loss", "advantage_any_prior", "exposure", "attack_advantage")
        known = {
            name: table[name].to_numpy(dtype=float)
            for name in names
            if name in table and table[name].notna().all()
        }
        if not known:
            raise ValueError("Nothing is known of each record of this report by itself.")
        bounded = tuple(name for name in ("advantage_any_prior", "exposure") if name in known)
        how: Any = {"statistics": statistics, "confidence_level": confidence_level}
        return cls(known, labels, bounded=bounded, control=levels, **how)

    def group_max(self) -> "pd.Series | pd.DataFrame":
        """Return the largest value over the groups.

        Returns
        -------
        Series or DataFrame
            An entry for each measure and statistic; a row for each level of ``control``.
        """
        return self._extreme("max")

    def group_min(self) -> "pd.Series | pd.DataFrame":
        """Return the smallest value over the groups.

        Returns
        -------
        Series or DataFrame
            An entry for each measure and statistic; a row for each level of ``control``.
        """
        return self._extreme("min")

    def plot(self, ax: Any = None, *, measure: str | None = None) -> Any:
        """Draw a measure by group, with its interval, and that of all records as a tick.

        Parameters
        ----------
        ax : Axes, default=None
            Of matplotlib; None makes a figure.
        measure : str, default=None
            Column of ``by_group``; by default the first one.

        Returns
        -------
        Axes
        """
        name = check_some("measure", measure and [measure], self._columns)[0]
        levels = self._levels(self.confidence_level)
        ticks = np.concatenate([np.full(len(own), whole[name]) for _, own, whole in levels])
        return group_axes(ax, pd.concat([own for _, own, _ in levels]), ticks, name)

    def difference(self, method: Method = "between_groups") -> pd.DataFrame:
        """Return how far apart the means of groups are.

        Parameters
        ----------
        method : {"between_groups", "to_overall"}, default="between_groups"
            Largest less smallest mean; or the largest distance of a group from all records.

        Returns
        -------
        DataFrame
            A row for each measure and statistic, within each level of ``control``: ``difference``,
            and for means ``low`` and ``high``; 0 is fair.
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
            A row for each measure and statistic, within each level of ``control``: ``ratio``, and
            for means ``low`` and ``high``; 1 is fair. NaN where a value is negative, or all are 0.
        """
        return self._compared(method, "ratio")

    def _compared(self, method: str, what: str) -> pd.DataFrame:
        if method not in ("between_groups", "to_overall"):
            raise ValueError(f'`method` must be "between_groups" or "to_overall"; got {method!r}.')
        to_overall = method == "to_overall"
        compare = _differences if what == "difference" else _ratios
        # All means that are looked at lie within their intervals together.
        n_levels = len(self.overall) if self._controls else 1
        level = 1.0 - (1.0 - self.confidence_level) / (len(self.by_group) + to_overall * n_levels)
        rows = {}
        for label, own, whole in self._levels(level):
            for name, (_, is_mean, _) in self._columns.items():
                ends = [name, f"{name}_low", f"{name}_high"] if is_mean else [name] * 3
                groups: list[Any] = own[ends].to_numpy(dtype=float).tolist()
                pairs: list[Any] = list(combinations(groups, 2))
                if to_overall:
                    pairs = [(group, whole[ends].tolist()) for group in groups]
                found = compare(pairs)
                key = (*label, name) if label else name
                rows[key] = found if is_mean else (found[0], math.nan, math.nan)
        names = [*self.by_group.index.names[: self._controls], "measure"]
        index = (
            pd.MultiIndex.from_tuples(rows, names=names) if self._controls else pd.Index([*rows])
        )
        return pd.DataFrame(list(rows.values()), index=index, columns=[what, "low", "high"])

    def _levels(self, level: float) -> "list[tuple[tuple[Any, ...], pd.DataFrame, pd.Series]]":
        """Return each level of control, its groups, and all of its records; one () without."""
        table, whole = self._table(level, self._groups), self._table(level, self._whole)
        if not self._controls:
            return [((), table, whole.iloc[0])]
        rows = {label_parts(label): row for label, row in whole.iterrows()}
        own = self._within_controls(table)
        return [(key, some, rows[key]) for label, some in own if (key := label_parts(label))]

    def _extreme(self, which: str) -> "pd.Series | pd.DataFrame":
        """Largest or smallest of each column over the groups, within levels of control."""
        values = self.by_group[list(self._columns)]
        if self._controls:
            values = self._within_controls(values)
        return values.agg(which)

    def _within_controls(self, table: pd.DataFrame) -> Any:
        """Group the rows by their levels of control."""
        # pandas 2 warns of a list with one level: its labels are scalars, as in pandas 3 tuples.
        return table.groupby(
            level=list(range(self._controls)) if self._controls > 1 else 0, sort=False
        )

    def _table(self, level: float, labels: "pd.Series") -> pd.DataFrame:
        """Statistics of each group, with intervals of means."""
        rows = {}
        for label, places in labels.groupby(labels, sort=True).indices.items():
            row: dict[str, float] = {"n_records": len(places)}
            for key, (name, is_mean, function) in self._columns.items():
                own = self._values[name][places]
                made = function(own)
                if np.ndim(made) or np.isnan(made):
                    raise ValueError(f"{key!r} must be one number; got {np.shape(made) or 'NaN'}.")
                row[key] = float(made)
                if is_mean:
                    unit = (0.0, 1.0) if name in self._bounded else None
                    found = mean_interval(own, confidence_level=level, value_range=unit)
                    row |= {f"{key}_low": found.low, f"{key}_high": found.high}
            rows[label] = row
        table = pd.DataFrame.from_dict(rows, orient="index")
        if isinstance(table.index, pd.MultiIndex):
            table.index.names = str(labels.name).split("\n")
        else:
            table.index.name = labels.name
        return table.astype({"n_records": int})


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
