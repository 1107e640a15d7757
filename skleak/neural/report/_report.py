"""The report: frozen numbers with their sentences, and the forms they can take."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from skleak.neural.report._document import document
from skleak.neural.report._facts import SGDFacts
from skleak.plotting import LeakageDisplay
from skleak.report import Document, Report, header, plain, rows


@dataclass(frozen=True, repr=False)
class PrivateSGDReport(SGDFacts, Report):
    """Leakage of a training by private SGD about every record, and its guarantees. Confidential.

    Objects of this kind come from the ``leakage_report()`` method of `PrivateSGDClassifier` and
    `PrivateSGDRegressor`. They hold no training record, but the leakage of every one.

    Parameters
    ----------
    estimator : str
        Name of the estimator.
    records : DataFrame
        One row per training record (index ``record``, its position), NaN where it was not followed:
        ``fisher_information_loss``, ``diagonal_fisher_information_loss``, both with a column of
        the same name and ``_error`` (standard error), and ``unbiased_mse``, what an unbiased
        attacker errs by at least ([DRA22] theorem 2): the mean square over the entries of the
        record, and its target where that is private.
    guesses : DataFrame
        Upper bounds on guesses of any attacker, a row for each ``secret``: ``success_prior``,
        ``success``, ``advantage`` and, between two, ``true_positives_at_1pct``. Empty without
        noise, and without dp-accounting.
    reconstruction : DataFrame
        Lower bounds on the mean squared error per entry of whoever reconstructs a whole record
        (index ``bound``, see Notes): ``mse``, ``root``, and ``over_guess``, over that of who
        guesses every entry by its mean.
    differential_privacy : dict
        ``holds``, ``reasons`` (why none does), ``relation``, ``epsilon``, ``delta``, ``renyi``
        (divergence of order 2, in nats), ``noise_multiplier`` (over the largest norm of a clipped
        gradient), ``sampling`` and ``sampling_rate``. Numbers are NaN where they are not known.
    dataset : dict
        Settings of the training, counts, and ``scope``: whether the Fisher information is of "this
        run only" or a mean over runs; ``exact``, whether nothing in it was estimated; ``missing``,
        why it is not known, else empty.
    facts : tuple of Finding
        What the first findings say, each as a ``topic`` with its ``facts`` by name.
    findings : tuple of str
        What the numbers say, in plain words; the first is the answer.
    assumptions : tuple of str
        Conditions under which the numbers hold.

    Notes
    -----
    Bounds on reconstruction: "most_exposed", the record of the largest diagonal loss, and "median",
    by [DRA22] theorem 2; "printed", the most exposed with the factor of [DRA22] theorem 4, which is
    not proved for Gaussian noise, for comparison; "renyi", every record by [DRA22] theorem 1, with
    the widths of the columns in the training records; "van_trees", for attackers who expect every
    entry to follow a normal law with the spread of its column, on average over records; "guess",
    who guesses the mean of every entry.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from skleak.neural import PrivateSGDClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PrivateSGDClassifier(sampling_rate=0.1, max_steps=2).fit(scale(X), y)
    >>> report = model.leakage_report()
    >>> report.dataset["scope"], len(report.to_frame())
    ('this run only', 569)
    """

    facts: tuple[Any, ...] = field(default=())
    findings: tuple[str, ...] = field(default=())
    assumptions: tuple[str, ...] = field(default=())

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the table of records.

        Returns
        -------
        DataFrame of shape (n_records, n_columns)
        """
        return self.records.copy()

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            ``schema``, ``schema_version``, ``skleak`` (version), ``confidential``, and the fields
            of the report: tables as lists with one dictionary per row. Infinite and undefined
            numbers are None, so that it is valid JSON.
        """
        return header("private_sgd_report") | {
            "estimator": self.estimator,
            "dataset": plain(self.dataset),
            "differential_privacy": plain(self.differential_privacy),
            "findings": list(self.findings),
            "assumptions": list(self.assumptions),
            "facts": [{"topic": one.topic, **plain(one.facts)} for one in self.facts],
            "guesses": rows(self.guesses),
            "reconstruction": rows(self.reconstruction, "bound"),
            "records": rows(self.records, "record"),
        }

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
        return self.display().plot(ax=ax)

    def display(self) -> LeakageDisplay:
        """Return the figure, not drawn yet.

        Returns
        -------
        LeakageDisplay
        """
        loss = self.records["fisher_information_loss"].dropna()
        return LeakageDisplay(loss.to_numpy(), name=self.estimator)

    def _document(self, *, figures: bool) -> Document:
        display = None
        if figures and self.records["fisher_information_loss"].notna().any():
            display = self.display()
        return document(self, self.findings, self.assumptions, display)
