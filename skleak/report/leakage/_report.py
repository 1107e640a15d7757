"""The leakage report of a model, and that about a person."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd

from skleak._version import __version__
from skleak.plotting import LeakageDisplay
from skleak.plotting.labels import COVARIANCES, number, numbers, percent, plural, shorten
from skleak.report.document import (
    Block,
    Bullets,
    Card,
    Document,
    Pairs,
    Paragraph,
    Section,
    Table,
    overview,
    sentences,
    terms,
)
from skleak.report.guarantee import DifferentialPrivacy
from skleak.report.measures import BOUND, LIMIT, MUCH, RARE
from skleak.report.reports import PersonalReport, SharedReport, check_enough, entries, rounded
from skleak.report.tables import Separation, attacker, columns_of, explained, loss_histogram
from skleak.utils._geometry import gained, true_positives
from skleak.utils._summaries import Quantiles
from skleak.utils._typing import Array, FloatArray, IntArray

# Shapes of the noise that are functions of the records.
FITTED_SHAPES = {
    "curvature": "the shape of the curvature of this fit",
    "minimax": "the minimax shape of this fit, with equal weights",
    "least_mean": "the shape of the least mean squared loss of this fit",
}


_BOUNDS = {
    "values": "separation",
    "number": "separation, ±1 std. dev. given the other columns",
    "numbers": "separation, ±1 std. dev. of all",
}


class Told(TypedDict):
    """Gain about the most exposed record: of a column, or of its being trained on."""

    record: Any  # its label
    distance: float  # of the releases under two values, over the noise
    advantage_any_prior: float  # no attacker gains more
    found_at_1pct: float  # power of the best test at 1% false alarms


class ToldColumn(Told):
    """The same, of a column."""

    column: str
    kind: str
    step: float  # of a number, which is told from one lower and one higher
    exact: bool
    n_known: int  # records of which it is known


class LeakageDecision(TypedDict):
    """Decision of a leakage report, as facts. Confidential."""

    state: Literal["known", "nothing", "not_known", "no_noise", "not_converged"]
    noise: float
    limit: float  # gain from which on a column counts as told
    columns: int
    total: int  # records that take part, those of the table that were not measured among them
    most: ToldColumn | None  # of all columns
    above: list[str]  # columns of which more is gained than the limit
    # Who has a rare value of a column: ``column``, ``n_carriers``, ``n_unmeasured``, ``n_found``
    # (more often than not, at 1% false alarms), ``least_found``, ``most_found``, ``records``
    carriers: list[dict[str, Any]]
    membership: Told | None
    membership_missing: str  # why it is not known
    notes: list[tuple[str, list[str]]]  # what is not known, or not exactly, of which columns
    # The number that a Bayesian attacker estimates best: ``column``, ``column_std``,
    # ``share_removed``, ``van_trees_error``, ``standard_error``
    number: dict[str, Any] | None
    unnamed: bool  # columns have no names of their own
    weighted: bool  # some sample weight is not one
    doubts: list[str]  # why the losses should not be trusted
    conditions: list[str]  # under which they hold, beside those of every report


@dataclass(frozen=True)
class LossBins:
    """Numbers of records by loss, where a report lists the most exposed ones alone."""

    whole: Quantiles
    groups: Mapping[Any, Quantiles]  # by label; empty without groups

    def bins(self) -> tuple[FloatArray, IntArray, Array | None]:
        """Losses (k,), how many records have each, (k,), and the group of these, or None."""
        if not self.groups:
            return self.whole.values, self.whole.counts, None
        labels = np.empty(len(self.groups), dtype=object)
        labels[:] = list(self.groups)
        parts = list(self.groups.values())
        return (
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.repeat(labels, [len(part.counts) for part in parts]),
        )


@dataclass(frozen=True, repr=False)
class PersonReport(PersonalReport):
    """Report on what a release tells about one person, column by column. Confidential.

    Objects of this kind come from ``LeakageReport.person``.

    Parameters
    ----------
    label : object
        Label of the person's records.
    estimator : str
        Name of the estimator.
    columns : DataFrame
        One row per record of that label and column (index ``feature``), the most telling first:
        ``position`` (of the record), ``kind``, ``step`` (of a number, which is told from one lower
        and one higher by that much), ``advantage_any_prior``, ``distance``,
        ``distance_from_own`` (from the value that the record has), ``success_even_odds``,
        ``success_prior``, ``found_at_1pct``, ``share`` (of the records that have the same value),
        ``rare`` (whether that is rare), ``bound`` (which bound says so) and ``exact``.
    membership : DataFrame
        One row per record of that label (index ``position``): ``distance`` (noise units between
        the models with and without it, the mu of Gaussian differential privacy of this record),
        ``advantage_any_prior`` (``2 Phi(mu / 2) - 1``), ``found_at_1pct``, and ``bound``.
    findings : tuple of str
        What the numbers say; the first sentence is the answer.
    assumptions : tuple of str
        Conditions under which the numbers hold.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> report = PrivateLinearRegression(noise_scale=5.0).fit(X, y).leakage_report()
    >>> report.person(7).columns.index[0]
    'sex'
    """

    _schema = "person_report"
    _main = "columns"

    columns: pd.DataFrame
    membership: pd.DataFrame

    def _document(self, *, figures: bool) -> Document:
        n, several = len(self.membership), self.columns["position"].nunique() > 1
        about = f"{self.estimator}, skleak {__version__}"
        about += f", {plural(n, 'record')}" if n > 1 else ""
        given = {"rows": self.membership.reset_index(), "several": several}
        said = dict(terms("leakage_person_page", given))
        columns = columns_of(self.columns, said.pop("table"))
        table = explained("Columns", columns, said.pop("columns"))
        sections = (
            Section("What each column tells", table),
            Section("Membership", (Pairs(tuple(said.items())),)),
        )
        return self._page("Leakage about a person", about, (), sections)


def _rows_of(one: Separation, positions: IntArray) -> pd.DataFrame:
    """Rows of the table of a person about one column, for each record."""
    distance, own, share = (part[positions] for part in (one.distance, one.from_own, one.share))
    exact = one.exact[positions]
    columns = {
        "position": positions,
        "kind": one.kind,
        "step": one.step,
        **attacker(distance, own, share),
        "share": share,
        "rare": share <= RARE,
        "bound": [_tested_by(one, *each) for each in zip(exact, distance, strict=True)],
        "exact": exact,
    }
    index = pd.Index([one.name] * len(positions), name="feature", dtype=object)
    table = pd.DataFrame(columns, index)
    table.insert(5, "distance_from_own", own)
    return table


def _facts(
    columns: pd.DataFrame, membership: pd.DataFrame, report: "LeakageReport"
) -> dict[str, Any]:
    """Find what is learned about a person."""
    known = columns[columns["distance"].notna()]
    told = [
        {"column": str(name)}
        | row.to_dict()
        | {"found_at_1pct": float(true_positives(row["distance_from_own"]))}
        for name, row in known.iterrows()
    ]
    shown = membership.max(numeric_only=True)
    return {
        "noise": report.dataset["noise_scale"],
        "most": told[0] if told else None,
        "columns": report.facts["columns"],
        "rare": [one for one in told if one["rare"] and one["advantage_any_prior"] > LIMIT][:3],
        "membership": float(shown["advantage_any_prior"]),
        "found": float(shown["found_at_1pct"]),
    }


def _tested_by(one: Separation, exact: bool, distance: float) -> str:
    """Say which bound on an attacker the numbers of a column come from."""
    if np.isnan(distance):
        return f"not known: {one.note}" if one.note else "not known"
    said = f"{'exact ' if exact and BOUND not in one.note else ''}{_BOUNDS[one.kind]}"
    return f"{said}; {one.note}" if one.note else said


_FOOTER = (
    "To publish the model, publish what `release()` returns: noisy coefficients, and no record, no "
    "leakage and no noiseless number."
)
# Holders of a value below this number are single people: an overview does not name it.
_FEW = 3
_GUARANTEE = ("holds", "reasons", "sensitivity", "mu", "delta", "epsilon")
_ABOUT = ("estimator", "dataset", "differential_privacy", "findings", "assumptions", "facts")
_TABLES = ("carriers", "features", "groups", "records")


@dataclass(frozen=True, repr=False)
class LeakageReport(SharedReport):
    """Leakage of a fitted model about every record, column and group. Confidential.

    Objects of this kind come from the ``leakage_report()`` method of a private estimator, and
    from `skleak.inspection.leakage_report`. They hold no training record, but the leakage of every
    one, and name who has a rare value.

    Parameters
    ----------
    estimator : str
        Name of the estimator.
    records : DataFrame
        One row per record, in the order of the data (index ``record``): ``sample_weight``,
        ``fisher_information_loss``, ``diagonal_fisher_information_loss``, ``standard_error``
        (Cramer-Rao bound ``1 / loss`` on the worst direction), ``mu``, ``epsilon``,
        ``true_positives_at_1pct``, ``success_at_baseline`` and ``once_in`` (as the method
        `individual_privacy` of estimators has them; NaN where they are not known, and for records
        that were not trained on), ``advantage_any_prior`` (largest over the columns),
        ``most_telling`` (the column it is from), and ``group`` where groups were given. A row is
        one person: its loss is that of its whole weight, and in all statistics below it counts once
        if its weight is positive, else not at all.
    features : DataFrame
        One row per column or block (index ``feature``; ``(target)`` for a private target), the one
        of which an attacker who knows everything else gains most first: ``kind``,
        ``advantage_any_prior``, ``distance``, ``success_even_odds``, ``success_prior``,
        ``found_at_1pct``, ``step``, ``share_removed``, ``van_trees_error``, ``most_exposed_record``
        (label), ``n_values``, ``fewest``, ``share``, ``median_advantage``, ``n_above``,
        ``n_known``, ``exact`` and ``note``, see Notes; then, for unbiased attackers and without a
        verdict, ``max_loss``, ``mean_loss``, ``min_loss``, ``spread`` (standard deviation over
        mean), ``standard_error`` (Cramer-Rao, in units of the column) and ``column_std`` (nan for
        blocks).
    groups : DataFrame
        One row per group (index ``group``; empty without groups): ``n_records``, ``mean_loss``,
        ``max_loss``, ``spread``, ``joint_loss`` (all records of the group together),
        ``most_exposed_record`` and ``relative_mean`` (mean over the mean of all records).
    dataset : dict
        Summary: settings (``noise_scale``, ``noise_covariance``, ``alpha``, ``loss``,
        ``private_target``, ``reweighting``, ``noise_goal``, ``seeded``, ``converged``), counts
        (``n_records``, ``n_features``, ``labels``: "index" where records are called by that of
        their table of ``n_rows``, else "position"), ``mean_loss``, ``std_loss``, ``min_loss``,
        ``median_loss``, ``max_loss``, ``spread``, ``group_spread``, ``joint_loss`` (all records),
        ``loss_quantiles`` and their ``quantile_error`` (relative, as that of the median; 0 where
        they are exact),
        ``most_exposed_records`` (labels, most exposed first), ``raw_columns`` (whether columns are
        those before they were encoded), and the entries below in Notes.
    differential_privacy : DifferentialPrivacy
        The guarantee that holds, or why none does.
    facts : dict
        What the numbers say (`LeakageDecision`): ``state`` ("known", "nothing", "not_known",
        "no_noise", "not_converged"), ``limit``, ``most`` (of the most exposed record and column:
        ``column``, ``record``, ``distance``, ``advantage_any_prior``, ``found_at_1pct``, ...),
        ``membership`` (the same of being trained on), ``above`` (columns of which more is gained
        than the limit), ``carriers``, ``number``, and ``notes``: what is not known, or not exactly.
    carriers : DataFrame
        One row for each record whose value of a column is rare (5 % of the records or fewer have
        it), in columns of which more than the limit is gained: ``feature``, ``record`` (label),
        ``share``, ``distance`` (from its value to another), ``advantage_any_prior`` and
        ``found_at_1pct``.
    persons : tuple of Separation, or None
        What each column tells about each record; see `person`. None where there are too many.
    losses : LossBins or None
        Of records outside memory, how many have which loss: the table ``records`` then lists the
        most exposed ones alone. None where it lists all.

    Attributes
    ----------
    findings : tuple of str
        What the numbers say, in plain words and units; the first is the answer.
    assumptions : tuple of str
        Conditions under which the numbers hold.

    Notes
    -----
    With D the largest distance, in noise units, between the noiseless models under two values of
    the column in one record (``distance``; of a number, between its own and one a ``step`` lower
    or higher: one standard deviation given the other columns), no attacker, whatever is known of
    the record, gains more than ``2 Phi(D / 2) - 1`` (``advantage_any_prior``), which is reached at
    even odds, where one in ``Phi(D / 2)`` guesses is right (``success_even_odds``); a value is
    found with probability ``Phi(Phi^-1(0.01) + D)`` at 1 % false alarms (``found_at_1pct``). All
    are for the record of the largest distance, ``most_exposed_record``; ``median_advantage`` is
    over the ``n_known`` records of which it is known, of which ``n_above`` have more than 5 %.
    ``fewest``: records that have the rarest value. ``success_prior``, over a prior: share of right
    answers to whether it has its value, which a ``share`` of the records has, for who guesses by
    that share; for more than two values at most that. ``kind`` is "values" for a column of few
    values, "number", or "numbers", a block of them; ``exact`` is False where the distance is that
    of one Newton step or of first order, and ``note`` says why, or by which bound it is known.
    ``share_removed``: of the squared error of an attacker who expects a normal law with the mean
    and the spread of the column, at most this share is removed (van Trees), and ``van_trees_error``
    is left at least: in up to three records, which one Newton step, exact for the squared loss,
    finds the most exposed.

    Entries of ``dataset`` that not every fit has are None or nan elsewhere.
    ``conditional_mean_loss`` and ``conditional_max_loss`` hold the weights of a reweighting fixed.
    ``through_mean_mean_loss``, ``through_mean_max_loss``, ``through_covariance_mean_loss`` and
    ``through_covariance_max_loss`` separate what the mean and the covariance of a release leak,
    where the covariance depends on the data. ``plain_mean_loss``, ``plain_max_loss`` and
    ``plain_spread`` are those of a fit without reweighting and shape, at the same noise scale.
    ``n_records_moving_rung``, for each column and target that `fit` did not check under a goal that
    reads the records, counts the records that could have moved the published noise scale by another
    value of it; None where that was not counted.
    With noise that is not on the coefficients there are ``mechanism``, and where losses are means
    over simulated fits ``n_simulated_fits`` and ``simulation_error``, the largest standard error of
    the loss of a record relative to it.
    ``individual_privacy`` holds ``delta`` and ``baseline`` of the columns of records, and in
    ``missing`` why they are not known.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> report = PrivateLinearRegression(noise_scale=5.0).fit(X, y).leakage_report()
    >>> report.features.index[0]
    'sex'
    >>> len(report.to_frame())
    442
    """

    estimator: str
    records: pd.DataFrame
    features: pd.DataFrame
    groups: pd.DataFrame
    dataset: dict[str, Any]
    differential_privacy: DifferentialPrivacy
    facts: LeakageDecision
    carriers: pd.DataFrame
    persons: tuple[Separation, ...] | None = field(default=None)
    losses: LossBins | None = field(default=None)

    @cached_property
    def lead(self) -> tuple[str, ...]:
        """Say the answer, then its exceptions and what is not known."""
        return self.say("leakage_lead")

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Say what else the numbers say."""
        means = self.groups["mean_loss"].astype(float)
        groups = None
        if len(means):
            high, low = means.idxmax(), means.idxmin()
            groups = {"high": high, "low": low, "largest": means[high], "smallest": means[low]}
        return self.say("leakage_notes", groups=groups)

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences about the numbers, in plain words and units; the first is the answer."""
        return (*self.lead, *self.notes)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """Conditions under which the numbers hold."""
        return self.say("leakage_assumptions", shared=False)

    def say(self, template: str, **more: Any) -> tuple[str, ...]:
        """Say what the numbers say in the words of a template."""
        return sentences(template, {**self.facts, **self._given, **more})

    def made(self, part: str, shared: bool = False) -> tuple[str, ...]:
        """Say what was reported on, or what stands beside the tables."""
        return self.say("leakage_made", part=part, shared=shared)

    def terms(self, part: str) -> tuple[tuple[str, str], ...]:
        """Explain the terms of a part of the page."""
        return terms("leakage_made", {**self.facts, **self._given, "part": part, "shared": False})

    @property
    def _given(self) -> dict[str, Any]:
        return {
            "data": self.dataset,
            "privacy": self.differential_privacy,
            "shapes": FITTED_SHAPES,
            "covariance": COVARIANCES[self.dataset["noise_covariance"]],
            "estimator": self.estimator,
            "estimated": not self.features["exact"].all(),
            "version": __version__,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the table of records.

        Returns
        -------
        DataFrame of shape (n_records, n_columns)
        """
        return self.records.copy()

    def person(self, label: Any) -> PersonReport:
        """Report what the release tells about one person.

        Parameters
        ----------
        label : object
            Label of a record in the index of the DataFrame that was reported on, or its position
            where that has none. Where it occurs more than once, all its records are reported on.

        Returns
        -------
        PersonReport
            What each column tells, whether membership shows, and which bound says so.

        Raises
        ------
        KeyError
            Where no record has that label.
        ValueError
            Where the report is about too many records and columns to keep them all.
        """
        index, persons = self.records.index, self.persons
        try:
            place = index.get_loc(label)
        except (KeyError, TypeError, ValueError, pd.errors.InvalidIndexError):
            examples = ", ".join(repr(each) for each in index[:3].tolist())
            more = ", ..." if len(index) > 3 else ""
            raise KeyError(
                f"No record is labeled {label!r}. The labels are those of the DataFrame that was "
                f"reported on, or positions where it has none: {examples}{more}. See "
                "`report.records.index`."
            ) from None
        positions = np.arange(len(index))[[place] if isinstance(place, int) else place]
        if persons is None:
            raise ValueError(
                "This report keeps no numbers of single records and columns, as there are too "
                "many. Ask for a report on some of them, with `X` and `y` of the person alone."
            )
        each = [_rows_of(one, positions) for one in persons]
        # Of equal distance the first record and its first column come first.
        table = pd.concat(each).sort_values("position", kind="stable")
        order = np.argsort(-table["distance"].fillna(-1.0).to_numpy(), kind="stable")
        mu = self.records["mu"].to_numpy()[positions]
        missing = self.dataset["individual_privacy"]["missing"] or "the record was not trained on"
        known = "exact distance of the models with and without the record"
        if "mechanism" in self.dataset:
            known = "bound, from its own row, on the releases with and without the record"
        membership = {
            "distance": mu,
            "advantage_any_prior": gained(mu),
            "found_at_1pct": true_positives(mu),
            "bound": np.where(np.isnan(mu), missing, known).tolist(),
        }
        shown = pd.DataFrame(membership, pd.Index(positions, name="position"))
        table = table.iloc[order]
        absent = int(np.sum(self.records["sample_weight"].to_numpy()[positions] == 0.0))
        facts = _facts(table, shown, self) | {"who": label, "absent": absent}
        said = {"findings": sentences("leakage_person", facts), "assumptions": self.assumptions}
        return PersonReport(label, self.estimator, table, shown, **said)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            ``schema``, ``schema_version``, ``skleak`` (version), ``confidential``, and the fields
            of the report: tables as lists with one dictionary per row. Infinite and undefined
            numbers are None, so that it is valid JSON.
        """
        guarantee = {name: getattr(self.differential_privacy, name) for name in _GUARANTEE}
        return entries(self, "leakage_report", (*_ABOUT, *_TABLES), differential_privacy=guarantee)

    def to_metrics(self) -> dict[str, float]:
        """Return the numbers of the overview by name, none of which is about one person.

        Returns
        -------
        dict of str to float
            ``noise_scale``, ``mean_fisher_information_loss``, ``joint_fisher_information_loss``
            (of all records together), ``mean_advantage`` (over the records, of the column that
            tells most of each), and with a guarantee ``epsilon`` and ``delta``. Three significant
            digits, rounded up. What is not known, or infinite, is left out.

        Raises
        ------
        ValueError
            Where means would be over fewer than ten records, or the fit did not converge.
        """
        data, guarantee, gain = self.dataset, self.differential_privacy, _shared_gain(self)
        found = {
            "noise_scale": float(data["noise_scale"]),
            "mean_fisher_information_loss": rounded(float(data["mean_loss"]), up=True),
            "joint_fisher_information_loss": rounded(float(data["joint_loss"]), up=True),
            "mean_advantage": rounded(float(np.mean(gain)), up=True) if len(gain) else math.nan,
            "epsilon": rounded(float(guarantee.epsilon), up=True),
            "delta": float(guarantee.delta) if guarantee.holds else math.nan,
        }
        return {name: value for name, value in found.items() if math.isfinite(value)}

    def plot(self, *, ax: Any = None) -> Any:
        """Plot the distribution of leakage over records.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        LeakageDisplay
        """
        return LeakageDisplay.from_report(self).plot(ax=ax)

    def _document(self, *, figures: bool) -> Document:
        shown: tuple[Section, ...] = ()
        if self.dataset["converged"]:
            display = LeakageDisplay.from_report(self)
            drawn = loss_histogram(display.loss, display if figures else None, display.counts)
            features, said = self.features, dict(self.terms("captions"))
            exact = zip(numbers(features["distance"]), features["exact"], strict=True)
            apart = [told if sure else f"≈ {told}" for told, sure in exact]
            features = features.assign(apart=apart)
            loss = self.groups["mean_loss"].astype(float)
            part = (loss / (loss[np.isfinite(loss)].max() or 1.0)).clip(upper=1.0)
            order = np.argsort(-loss.to_numpy(), kind="stable")
            groups = self.groups.assign(part=part).iloc[order]

            def table(name: str, frame: pd.DataFrame, more: str, n: int = 30) -> tuple[Block, ...]:
                columns, of = columns_of(frame, said[f"{name} table"]), f"{more}s"
                return explained(name, columns, said[name], (8, n), more, of) if len(frame) else ()

            worst = table("records", _worst(self), "record")
            rare = table("carriers", self.carriers, "record", 40)
            shown = (
                Section("Columns", table("features", features, "column")),
                Section("Rare values", rare, where="full"),
                Section("Groups", table("groups", groups, "group"), where="full"),
                Section("Leakage over the records", (drawn,), where="full"),
                Section("Most exposed records", worst, folded=True, where="page"),
                Section("Unbiased attackers", table("unbiased", features, "column"), folded=True),
            )
        made = (Pairs(self.terms("settings"), grid=True),)
        answer, *rest = self.lead
        return Document(
            "Leakage report",
            self.estimator,
            self.made("made")[0],
            answer,
            _cards(self),
            (
                *(section for section in shown if section.blocks),
                Section("What else the numbers say", (Bullets(self.notes),), folded=True),
                Section("Differential privacy", _guarantee(self), folded=True),
                Section("Assumptions", (Bullets(self.assumptions),), folded=True),
                Section("What the words mean", (Pairs(self.terms("words")),), folded=True),
                Section("How it was made", made, folded=True, where="page"),
            ),
            _FOOTER,
            rest=" ".join(rest),
        )

    def _overview(self) -> Document:
        gain, features = _shared_gain(self), self.features
        known = len(gain) == len(self.records) > 0
        facts = {
            "noise": self.dataset["noise_scale"],
            "gain": float(gain.mean()) if known else math.nan,
            "n": len(gain),
            "n_much": int((gain > MUCH).sum()),
        }
        # The name of a 0/1 column is a value of the column that was encoded.
        single = (features["fewest"] < _FEW) & (not self.dataset["raw_columns"])
        means = columns_of(features[~single], dict(self.terms("captions"))["means table"])
        table = Table("Means over all records", means, more="column")
        left = plural(int(single.sum()), "column")
        few = f"{left} with a value of fewer than {_FEW} people: not named here."
        blocks = (table, Paragraph(few, soft=True)) if single.any() else (table,)
        assumed = self.say("leakage_assumptions", shared=True)
        return overview(
            "Leakage report",
            self.estimator,
            self.made("made", shared=True)[0],
            sentences("leakage_overview", facts)[0],
            Section("Means over all records", blocks),
            Section("Differential privacy", _guarantee(self)),
            Section("Assumptions", (Bullets(assumed),)),
        )


def _worst(report: LeakageReport) -> pd.DataFrame:
    mean, n_worst = report.dataset["mean_loss"], len(report.dataset["most_exposed_records"])
    records = report.records[report.records["sample_weight"] > 0.0]
    loss = records["fisher_information_loss"].to_numpy()
    ratio = loss / mean if 0.0 < mean < np.inf else np.nan
    return records.assign(ratio=ratio).iloc[np.argsort(-loss, kind="stable")[:n_worst]]


def _guarantee(report: LeakageReport) -> tuple[Block, ...]:
    said = dict(report.terms("captions"))
    if not report.differential_privacy.holds:
        return Paragraph(said["none"]), Bullets(report.differential_privacy.reasons)
    return Paragraph(said["promised"]), Pairs(report.terms("guarantee"), grid=True)


def _cards(report: LeakageReport) -> tuple[Card, ...]:
    data, guarantee, facts = report.dataset, report.differential_privacy, report.facts
    cards = []
    for told, what in ((facts["most"], "from {}"), (facts["membership"], "trained on?")):
        if told is not None and facts["state"] == "known":
            gain, column = told["advantage_any_prior"], shorten(told.get("column"), 30)
            note = f"record {shorten(told['record'], 40)}, more than of anybody else"
            tone = "bad" if gain > MUCH else ""
            cards.append(Card(f"Gain: {what.format(column)}", percent(gain, up=True), note, tone))
    if len(report.groups):
        note = f"spread of mean leakage over {plural(len(report.groups), 'group')}"
        cards.append(Card("Fairness over groups", number(data["group_spread"]), note))
    noisy = _NOISY.get(str(data.get("mechanism")), "each coefficient")
    of = f"standard deviation of the noise on {noisy}"
    if data["noise_covariance"] != "isotropic":
        of = "root mean square of the noise over the coefficients"
    tone = "bad" if facts["state"] == "no_noise" else ""
    shown = ("none", "no guarantee holds; reasons below", "bad")
    if guarantee.holds:
        shown = (f"ε = {number(guarantee.epsilon)}", f"at δ = {number(guarantee.delta)}", "good")
    noise = Card("Noise scale", number(data["noise_scale"]), of, tone)
    return (*cards, noise, Card("Differential privacy", *shown))


# What has the noise where it is not on the coefficients.
_NOISY = {"objective": "the gradient of the sum", "moments": "each sum with the target"}


def _shared_gain(report: LeakageReport) -> FloatArray:
    """Gain about each record that was trained on, (k,), where it is known; of many records."""
    if not report.dataset["converged"]:
        raise ValueError(
            "The fit did not converge: what it leaks is not known, and that it failed may be due "
            "to the records. Raise the number of steps or the penalty, and fit again before "
            "anything is handed on."
        )
    trained: pd.DataFrame = report.records[report.records["sample_weight"] > 0.0]
    check_enough(len(trained))
    gain: FloatArray = trained["advantage_any_prior"].dropna().to_numpy(dtype=float)
    return gain


CARRIERS = ("feature", "record", "share", "distance", "advantage_any_prior", "found_at_1pct")
# People with a rare value that a fact names.
MOST_NAMED = 20
# Names of columns, and of blocks of them, where the data had none.
_MADE_UP = r"x\d+( \+ x\d+)*"


def decision(
    features: pd.DataFrame,
    dataset: dict[str, Any],
    carriers: Sequence[dict[str, Any]],
    shows_most: tuple[Any, float] | None,
    *,
    total: int,
    weighted: bool,
    doubts: list[str],
    conditions: list[str],
) -> LeakageDecision:
    """Find what the numbers of a report say.

    ``shows_most`` is the record whose absence would show most, with the distance of the models with
    and without it over the noise, where that is known.
    """
    known = features[features["distance"].notna()]
    names = [str(name) for name in features.index if name != "(target)"]
    made_up = bool(names) and all(re.fullmatch(_MADE_UP, name) for name in names)
    notes: dict[str, list[str]] = {}
    for name, row in features.iterrows():
        inexact = not row["exact"] or BOUND in row["note"]
        if (inexact and row["note"]) or np.isnan(row["distance"]):
            notes.setdefault(row["note"], []).append(str(name))
    told = known["advantage_any_prior"] > LIMIT
    return LeakageDecision(
        state=_state(features, known, dataset),
        noise=dataset["noise_scale"],
        limit=LIMIT,
        columns=len(features),
        total=total,
        most=_most(known),
        above=known.index[told].tolist(),
        carriers=[one for one in carriers if one["n_carriers"]],
        membership=None if shows_most is None else _told(*shows_most),
        membership_missing=dataset["individual_privacy"]["missing"],
        notes=list(notes.items()),
        number=_number(known),
        unnamed=made_up and not dataset["raw_columns"],
        weighted=weighted,
        doubts=doubts,
        conditions=conditions,
    )


def _state(features: pd.DataFrame, known: pd.DataFrame, dataset: dict[str, Any]) -> Any:
    if not dataset["converged"]:
        return "not_converged"
    if dataset["max_loss"] == np.inf:
        return "no_noise"
    if len(known) and known["distance"].iloc[0] > 0.0:
        return "known"
    return "nothing" if len(known) == len(features) else "not_known"


def _told(record: Any, distance: float) -> Told:
    return Told(
        record=record,
        distance=distance,
        advantage_any_prior=float(gained(np.array(distance))),
        found_at_1pct=float(true_positives(np.array(distance))),
    )


def _most(known: pd.DataFrame) -> ToldColumn | None:
    if not len(known):
        return None
    row = known.iloc[0]
    told = _told(row["most_exposed_record"], float(row["distance"]))
    return ToldColumn(
        **told,
        column=str(known.index[0]),
        kind=row["kind"],
        step=float(row["step"]),
        exact=bool(row["exact"]),
        n_known=int(row["n_known"]),
    )


def _number(known: pd.DataFrame) -> dict[str, Any] | None:
    """Find the number that a Bayesian attacker estimates best."""
    removed = known["share_removed"].fillna(0.0)
    if not len(removed) or not removed.max() > 0.0:
        return None
    row = known.iloc[int(np.argmax(removed))]
    names = ("column_std", "share_removed", "van_trees_error", "standard_error")
    return {"column": str(row.name)} | {name: float(row[name]) for name in names}
