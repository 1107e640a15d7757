"""The leakage report: frozen numbers with their sentences, and the forms they can take."""

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from skleak.plotting import LeakageDisplay
from skleak.report._document import Document
from skleak.report._report import header, plain, rows
from skleak.report._shared import SharedReport
from skleak.report.leakage._document import leakage_document
from skleak.report.leakage._facts import LeakageFacts
from skleak.report.leakage._overview import leakage_metrics, leakage_overview
from skleak.report.leakage._person import PersonReport, person_report

_GUARANTEE = ("holds", "reasons", "sensitivity", "mu", "delta", "epsilon")


@dataclass(frozen=True, repr=False)
class LeakageReport(LeakageFacts, SharedReport):
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
        that were not trained on), ``gain`` (largest over the columns), ``most_telling`` (the
        column it is from), and ``group`` where groups were given. A row is one person: its
        loss is that of its whole weight, and in all statistics below it counts once if its weight
        is positive, else not at all.
    features : DataFrame
        One row per column or block (index ``feature``; ``(target)`` for a private target), the one
        of which an attacker who knows everything else gains most first: ``kind``, ``gain``,
        ``distance``, ``success_even_odds``, ``success_prior``, ``true_positives_at_1pct``,
        ``share_removed``, ``van_trees_error``, ``most_exposed_record`` (label), ``n_values``,
        ``share``, ``median_gain``, ``exact`` and ``note``, see Notes; then, for unbiased attackers
        and without a verdict, ``max_loss``, ``mean_loss``, ``min_loss``, ``spread`` (standard
        deviation over mean), ``standard_error`` (Cramer-Rao, in units of the column) and
        ``column_std`` (nan for blocks).
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
    findings : tuple of str
        What the numbers say, in plain words and units; the first is the answer.
    assumptions : tuple of str
        Conditions under which the numbers hold.
    facts : tuple of Finding
        What the first findings say, each as a ``topic`` with its ``facts`` by name.
    carriers : DataFrame
        One row for each record whose value of a column is rare (5 % of the records or fewer have
        it), in columns of which more than 2 % is gained: ``feature``, ``record`` (label),
        ``share``, ``distance`` (from its value to another), ``gain`` and
        ``true_positives_at_1pct``.
    persons : PersonTable or None
        What each column tells about each record; see `person`. None where there are too many.
    losses : LossBins or None
        Of records outside memory, how many have which loss: the table ``records`` then lists the
        most exposed ones alone. None where it lists all.

    Notes
    -----
    With D the largest distance, in noise units, between the noiseless models under two values of
    the column in one record (``distance``; of a number, one standard deviation below and above its
    own, and the mean), an attacker is right with probability ``Phi(D / 2)`` at even odds
    (``success_even_odds``), gains ``2 Phi(D / 2) - 1`` (``gain``), and finds a value with
    probability ``Phi(Phi^-1(0.01) + D)`` at 1 % false alarms. All are for the record of the largest
    distance, ``most_exposed_record``; ``median_gain`` is over records. ``success_prior``: share of
    right answers to whether it has its value, which a ``share`` of the records has, for who guesses
    by that share; for more than two values at most that. ``kind`` is "values" for a column of few
    values, "number", or "numbers", a block of them; ``exact`` is False where the distance is that
    of one Newton step or of first order, and ``note`` says why. ``share_removed``: of the
    squared error of an attacker who expects a normal law with the mean and the spread of the
    column, at most this share is removed (van Trees), and ``van_trees_error`` is left at least.

    Entries of ``dataset`` that not every fit has are None or nan elsewhere.
    ``conditional_mean_loss`` and ``conditional_max_loss`` hold the weights of a reweighting fixed.
    ``through_mean_mean_loss``, ``through_mean_max_loss``, ``through_covariance_mean_loss`` and
    ``through_covariance_max_loss`` separate what the mean and the covariance of a release leak,
    where the covariance depends on the data. ``n_records_moving_rung``, for each column and target
    that `fit` did not check under a goal that reads the records, counts the records that could
    have moved the published noise scale by another value of it; None where that was not counted.
    ``individual_privacy`` holds ``delta`` and ``baseline`` of the columns of records, and in
    ``missing`` why they are not known.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> report = PrivateLinearRegression(noise_scale=5.0).fit(X, y).leakage_report()
    >>> report.features.index[0]
    '(target)'
    >>> len(report.to_frame())
    442
    """

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
        return person_report(self, label)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            ``schema``, ``schema_version``, ``skleak`` (version), ``confidential``, and the fields
            of the report: tables as lists with one dictionary per row. Infinite and undefined
            numbers are None, so that it is valid JSON.
        """
        guarantee = asdict(self.differential_privacy)
        return header("leakage_report") | {
            "estimator": self.estimator,
            "dataset": plain(self.dataset),
            "differential_privacy": plain({name: guarantee[name] for name in _GUARANTEE}),
            "findings": list(self.findings),
            "assumptions": list(self.assumptions),
            "facts": [{"topic": one.topic, **plain(one.facts)} for one in self.facts],
            "carriers": rows(self.carriers),
            "features": rows(self.features, "feature"),
            "groups": rows(self.groups, "group"),
            "records": rows(self.records, "record"),
        }

    def to_metrics(self) -> dict[str, float]:
        """Return the numbers of the overview by name, none of which is about one person.

        Returns
        -------
        dict of str to float
            ``noise_scale``, ``mean_fisher_information_loss``, ``joint_fisher_information_loss``
            (of all records together), ``mean_gain`` (over the records, of the column that tells
            most of each), and with a guarantee ``epsilon`` and ``delta``. Three significant
            digits, rounded up. What is not known, or infinite, is left out.

        Raises
        ------
        ValueError
            Where means would be over fewer than ten records, or the fit did not converge.
        """
        return leakage_metrics(self)

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
        return leakage_document(self, figures=figures)

    def _overview(self) -> Document:
        return leakage_overview(self)
