"""Leakage by group, as Fairlearn shows metrics: by group, overall, differences and ratios."""

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any, Literal

import numpy.typing as npt
import pandas as pd

from skleak.inspection.scoring._measures import (
    checked,
    group_labels,
    groups_of,
    labels_of,
    of_audit,
)
from skleak.inspection.scoring._scorer import training_losses
from skleak.metrics import mean_interval
from skleak.utils._arguments import check_level

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
        Measures that lie in [0, 1], such as ``gain``.
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
        cls,
        estimator: Any,
        groups: Any,
        *,
        columns: Any = None,
        confidence_level: float = 0.95,
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
            records, ``gain``, without records of weight 0; of an audit with ``bound_advantage``
            (what the bound on each record allows over the prior) where it is known, and
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
        names = ("fisher_information_loss", "gain", "bound_advantage", "attack_advantage")
        known = {
            name: table[name].to_numpy(dtype=float)
            for name in names
            if name in table and table[name].notna().all()
        }
        if not known:
            raise ValueError("Nothing is known of each record of this report by itself.")
        bounded = tuple(name for name in ("gain", "bound_advantage") if name in known)
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
