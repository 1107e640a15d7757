"""The leakage report of private stochastic gradient descent."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from skleak._version import __version__
from skleak.bounds.errors import fisher_information_loss_mse
from skleak.neural.guarantee import SGDGuarantee
from skleak.plotting import LeakageDisplay
from skleak.plotting.labels import number, percent
from skleak.report.document import (
    Block,
    Bullets,
    Card,
    Document,
    Pairs,
    Paragraph,
    Section,
    sentences,
    terms,
)
from skleak.report.reports import Report, entries
from skleak.report.tables import columns_of, explained, loss_histogram
from skleak.utils._typing import Array, FloatArray

_N_MOST_EXPOSED = 10
# Secrets whose guesses are bounded: how they are called, and how many values they have.
_SECRETS = {"two values": 2, "ten values": 10, "a hundred values": 100}
_MEMBERSHIP = "trained on or not"
# A bound on what is gained that excludes nothing worth speaking of.
_VACUOUS = 0.99
# Candidates for the weights of the bound with a prior; any of them gives a valid one.
_N_CANDIDATES = 200
_LOSS, _DIAGONAL = "fisher_information_loss", "diagonal_fisher_information_loss"
_BOUNDS = {
    "most_exposed": "Fisher, most exposed record",
    "median": "Fisher, median record",
    "printed": "printed factor (not proved)",
    "renyi": "Rényi, any record",
    "van_trees": "normal prior, average record",
    "guess": "guessing the mean",
}
_FOOTER = (
    "To publish the model, publish what `release()` returns: the trained model and public numbers, "
    "and no record and no leakage."
)


class Told(TypedDict):
    """Largest gain and power against anybody, by the trade-off curve of the training."""

    advantage_any_prior: float
    found_at_1pct: float


class SGDDecision(TypedDict):
    """Decision of a report of private SGD, as facts. Confidential."""

    noise: float  # multiplier
    values: Told | None  # which of two values anybody has; None where it is not known
    membership: Told | None
    vacuous: bool
    reconstruction: dict[str, Any] | None  # of the most exposed record, by an unbiased attacker
    renyi: dict[str, float] | None  # of any record
    share_removed: float  # of the squared error of who expects normal laws; NaN if not known


@dataclass(frozen=True, repr=False)
class PrivateSGDReport(Report):
    """Leakage of a training by private SGD about every record, and its guarantees. Confidential.

    Objects of this kind come from the ``leakage_report()`` method of `PrivateSGDClassifier` and
    `PrivateSGDRegressor`. They hold no training record, but the leakage of every one.

    Parameters
    ----------
    estimator : str
        Name of the estimator.
    dataset : dict
        Settings of the training, counts, and ``scope``: whether the Fisher information is of "this
        run only" or a mean over runs; ``exact``, whether nothing in it was estimated; ``missing``,
        why it is not known, else empty.
    differential_privacy : dict
        ``holds``, ``reasons`` (why none does), ``relation``, ``epsilon``, ``delta``, ``renyi``
        (divergence of order 2, in nats), ``noise_multiplier`` (over the largest norm of a clipped
        gradient), ``sampling`` and ``sampling_rate``. Numbers are NaN where they are not known.
    facts : dict
        What the numbers say (`SGDDecision`): ``values`` and ``membership`` with
        ``advantage_any_prior`` and ``found_at_1pct``, ``reconstruction``, ``renyi`` and
        ``share_removed``; None or NaN where something is not known.
    guesses : DataFrame
        Upper bounds on guesses of any attacker, a row for each ``secret``: ``success_prior``,
        ``success``, ``advantage`` and, between two, ``true_positives_at_1pct``. Empty without
        noise, and without dp-accounting.
    reconstruction : DataFrame
        Lower bounds on the mean squared error per entry of whoever reconstructs a whole record
        (index ``bound``, see Notes): ``mse``, ``root``, and ``over_guess``, over that of who
        guesses every entry by its mean.
    records : DataFrame
        One row per training record (index ``record``, its position), NaN where it was not followed:
        ``fisher_information_loss``, ``diagonal_fisher_information_loss``, both with a column of
        the same name and ``_error`` (standard error), and ``unbiased_mse``, what an unbiased
        attacker errs by at least ([DRA22] theorem 2): the mean square over the entries of the
        record, and its target where that is private.

    Attributes
    ----------
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

    estimator: str
    dataset: dict[str, Any]
    differential_privacy: dict[str, Any]
    facts: SGDDecision
    guesses: pd.DataFrame
    reconstruction: pd.DataFrame
    records: pd.DataFrame

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences about the numbers, in plain words; the first is the answer."""
        return (*self._lead, *self._notes)

    @cached_property
    def _lead(self) -> tuple[str, ...]:
        return self._say("sgd_lead")

    @cached_property
    def _notes(self) -> tuple[str, ...]:
        return self._say("sgd_notes")

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """Conditions under which the numbers hold."""
        return self._say("sgd_assumptions")

    def _say(self, template: str, **more: Any) -> tuple[str, ...]:
        return sentences(template, {**self._given, **more})

    def _terms(self, part: str) -> tuple[tuple[str, str], ...]:
        return terms("sgd_made", {**self._given, "part": part})

    @property
    def _given(self) -> dict[str, Any]:
        more = {"estimator": self.estimator, "version": __version__}
        return {**self.facts, "data": self.dataset, "privacy": self.differential_privacy, **more}

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
        names = (one.name for one in fields(self))
        return entries(self, "private_sgd_report", ["findings", "assumptions", *names])

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
        return self._display().plot(ax=ax)

    def _display(self) -> LeakageDisplay:
        return LeakageDisplay(self.records[_LOSS].dropna().to_numpy(), name=self.estimator)

    def _document(self, *, figures: bool) -> Document:
        known = bool(self.records[_LOSS].notna().any())
        return _document(self, self._display() if figures and known else None)


def build_report(model: Any) -> PrivateSGDReport:
    """Measure what a training leaks and guarantees, and say what it means.

    Parameters
    ----------
    model : PrivateSGDClassifier or PrivateSGDRegressor
        Fitted, with its training records.

    Returns
    -------
    PrivateSGDReport
    """
    plan, n = model._plan, int(model._runs[0].X.shape[0])
    names = [f"{name}{part}" for name in (_LOSS, _DIAGONAL) for part in ("", "_error")]
    columns = {name: getattr(model, f"{name}_") for name in names}
    records = pd.DataFrame(columns, pd.RangeIndex(n, name="record"), dtype=float)
    known = records[_DIAGONAL].dropna()
    records["unbiased_mse"] = pd.Series(fisher_information_loss_mse(known.to_numpy()), known.index)
    guarantee = plan.guarantee(model.n_steps_)
    privacy = plan.privacy(model.n_steps_, model._gradients.n_parameters)
    guesses = pd.DataFrame()
    if guarantee is not None and not np.isnan(privacy["epsilon"]):
        guesses = _guesses(guarantee)
    bounds = _reconstruction(model, records, guarantee)
    dataset = _dataset(model, records)
    facts = _decision(records, guesses, bounds, privacy, dataset)
    name = type(model).__name__
    return PrivateSGDReport(name, dataset, privacy, facts, guesses, bounds, records)


def _guesses(guarantee: SGDGuarantee) -> pd.DataFrame:
    powers = dict.fromkeys(_SECRETS, np.nan) | {
        "two values": guarantee.true_positives(0.01),
        _MEMBERSHIP: guarantee.true_positives(0.01, membership=True),
    }
    gains = [*map(guarantee.advantage, _SECRETS.values()), guarantee.membership_advantage()]
    guess = np.array([*(1.0 / n for n in _SECRETS.values()), 0.5])
    table = pd.DataFrame({"secret": list(powers), "success_prior": guess})
    table["success"] = guess + np.array(gains) * (1.0 - guess)
    return table.assign(advantage=gains, true_positives_at_1pct=list(powers.values()))


def _reconstruction(
    model: Any, records: pd.DataFrame, guarantee: SGDGuarantee | None
) -> pd.DataFrame:
    """Lower bounds on the mean squared error per entry of a record."""
    totals, training, plan = model._totals, model._runs[0], model._plan
    unknowns = int(np.prod(training.X.shape[1:])) if totals is None else totals.n_unknowns
    spread = Spread.of(training.X, training.y, unknowns)
    found: dict[str, float] = {}
    bounds = records["unbiased_mse"].dropna()
    if len(bounds):
        found |= {"most_exposed": float(bounds.min()), "median": float(bounds.median())}
    if totals is not None:
        factor = plan.mechanism.printed_factor(plan.delta)
        printed = factor * float(totals.sums["plain"].max()) / totals.n_unknowns
        found["printed"] = float(fisher_information_loss_mse(np.sqrt(printed)))
    if guarantee is not None and spread.widths.max(initial=0.0) > 0.0:
        found["renyi"] = float(guarantee.reconstruction_mse(spread.widths))
    if totals is not None:
        found["van_trees"] = spread.van_trees_mse(float(totals.sums["trace"].mean()))
    found["guess"] = spread.guess_mse
    mse = pd.Series(found, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = mse / spread.guess_mse
    table = pd.DataFrame({"mse": mse, "root": np.sqrt(mse), "over_guess": over})
    return table.rename_axis("bound")


def _dataset(model: Any, records: pd.DataFrame) -> dict[str, Any]:
    plan, totals, loss = model._plan, model._totals, records[_LOSS]
    worst = records[_DIAGONAL].dropna().sort_values(ascending=False, kind="stable")
    return {
        "n_records": len(records),
        "n_followed": int(loss.notna().sum()),
        "n_entries": int(np.prod(model._runs[0].X.shape[1:])),
        "private_target": bool(model.private_target),
        **plan.mechanism.settings,
        "n_steps": model.n_steps_,
        "seeded": plan.seeded,
        **{name: getattr(totals, name, None) for name in ("scope", "n_runs", "exact")},
        "missing": model._missing(),
        "max_loss": float(loss.max()),
        "median_loss": float(loss.dropna().median()),
        "most_exposed_records": worst.index[:_N_MOST_EXPOSED].tolist(),
        "noise_goal": plan.goal,
        "arithmetic": plan.arithmetic,
    }


def _decision(
    records: pd.DataFrame,
    guesses: pd.DataFrame,
    bounds: pd.DataFrame,
    privacy: dict[str, Any],
    dataset: dict[str, Any],
) -> SGDDecision:
    """Find what the numbers say."""
    told: list[Told | None] = [None, None]
    if len(guesses):
        ends = guesses[["advantage", "true_positives_at_1pct"]].iloc[[0, -1]].to_numpy().tolist()
        told = [Told(advantage_any_prior=gain, found_at_1pct=found) for gain, found in ends]
    own, renyi, removed = None, None, np.nan
    if "most_exposed" in bounds.index:
        place = records["unbiased_mse"].idxmin()
        printed = float(bounds["mse"].get("printed", np.nan))
        numbers = [_DIAGONAL, f"{_DIAGONAL}_error", "unbiased_mse"]
        loss, error, mse = records.loc[place, numbers].tolist()
        own = {
            "record": place,
            "mse": mse,
            "root": float(np.sqrt(mse)),
            "over_guess": float(bounds.loc["most_exposed", "over_guess"]),
            "loss": loss,
            "loss_error": error,
            "relative_error": error / loss if loss > 0.0 else 0.0,
            "printed_ratio": mse / printed if printed > 0.0 else np.nan,
        }
    if "renyi" in bounds.index:
        renyi = {name: float(bounds.loc["renyi", name]) for name in bounds}
        renyi["divergence"] = float(privacy["renyi"])
    if "van_trees" in bounds.index and bounds.loc["guess", "mse"] > 0.0:
        removed = float(np.clip(1.0 - bounds.loc["van_trees", "over_guess"], 0.0, 1.0))
    return SGDDecision(
        noise=dataset["noise_multiplier"],
        values=told[0],
        membership=told[1],
        vacuous=told[0] is not None and told[0]["advantage_any_prior"] > _VACUOUS,
        reconstruction=own,
        renyi=renyi,
        share_removed=removed,
    )


def _document(report: PrivateSGDReport, display: LeakageDisplay | None) -> Document:
    """Put a report in order: the answer, tables, and what is folded away."""
    said, data, sections = dict(report._terms("captions")), report.dataset, []
    if len(report.guesses):
        table = explained(
            "Guesses", columns_of(report.guesses, said["guesses table"]), said["guesses"]
        )
        sections.append(Section("Guesses of any attacker", table))
    if data["noise_multiplier"] > 0.0:
        named = report.reconstruction.assign(
            bound=[_BOUNDS[k] for k in report.reconstruction.index]
        )
        table = explained("Errors", columns_of(named, said["errors table"]), said["reconstruction"])
        sections.append(Section("Reconstruction of a whole record", table, where="full"))
    loss = report.records[_LOSS].dropna().to_numpy()
    if len(loss) and np.isfinite(loss).any():
        drawn = (loss_histogram(loss, display),)
        worst = columns_of(report.records.loc[data["most_exposed_records"]], said["records table"])
        table = explained("Most exposed records", worst, said["records"])
        sections += [
            Section("Leakage over the records", drawn, where="full"),
            Section("Most exposed records", table, folded=True, where="page"),
        ]
    privacy = report.differential_privacy
    blocks: list[Block] = [Paragraph(said["promised"])]
    if not privacy["holds"]:
        blocks = [Paragraph(said["none"]), Bullets(privacy["reasons"])]
    if np.isfinite(privacy["renyi"]):
        blocks.append(Pairs(report._terms("guarantee"), grid=True))
    settings = (Pairs(report._terms("settings"), grid=True),)
    answer, *rest = report._lead
    return Document(
        "Leakage report of private SGD",
        report.estimator,
        report._say("sgd_made", part="made")[0],
        answer,
        _cards(report),
        (
            *sections,
            Section("What else the numbers say", (Bullets(report._notes),), folded=True),
            Section("Differential privacy", tuple(blocks), folded=True),
            Section("Assumptions", (Bullets(report.assumptions),), folded=True),
            Section("What the words mean", (Pairs(report._terms("words")),), folded=True),
            Section("How it was made", settings, folded=True, where="page"),
        ),
        _FOOTER,
        rest=" ".join(rest),
    )


def _cards(report: PrivateSGDReport) -> tuple[Card, ...]:
    privacy, facts, cards = report.differential_privacy, report.facts, []
    for told, what in ((facts["values"], "of two values"), (facts["membership"], "trained on?")):
        if told is not None:
            gain = told["advantage_any_prior"]
            tone = "bad" if gain > _VACUOUS else ""
            cards.append(Card(f"Gain: {what}", percent(gain, up=True), "at most, of anybody", tone))
    own = facts["reconstruction"]
    if own is not None:
        note = (
            f"root mean square per entry of record {own['record']}, at least; guessing the mean: "
            f"{number(report.reconstruction.loc['guess', 'root'])}"
        )
        cards.append(Card("Unbiased attacker errs by", number(own["root"]), note))
    tone = "" if facts["noise"] else "bad"
    cards.append(Card("Noise multiplier", number(facts["noise"]), "of the clipping norm", tone))
    stated = ("none", "no guarantee is stated; reasons below", "bad")
    if privacy["holds"]:
        stated = (f"ε = {number(privacy['epsilon'])}", f"at δ = {number(privacy['delta'])}", "good")
    return (*cards, Card("Differential privacy", *stated))


@dataclass(frozen=True)
class Spread:
    """Spread of the unknown entries of records over the training records. Confidential."""

    widths: FloatArray  # largest less smallest value of every entry, (u,)
    variances: FloatArray  # mean squared error of who guesses every entry by its mean, (u,)

    @classmethod
    def of(cls, X: Any, y: Array, n_unknowns: int) -> "Spread":
        """Measure records X (n, ...) and, where more is unknown than their entries, y (n,)."""
        if sparse.issparse(X):
            low, high = min_max_axis(X, axis=0)
            widths, variances = high - low, mean_variance_axis(X, axis=0)[1]
        else:
            flat = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
            widths, variances = np.ptp(flat, axis=0), flat.var(axis=0)
        more = n_unknowns - len(widths)
        if more > 0:
            # A class of two is one unknown, of more one less than there are; a number is itself.
            target = np.asarray(y, dtype=np.float64)[:, None]
            if more > 1:
                target = (np.asarray(y)[:, None] == np.arange(more)).astype(np.float64)
            widths = np.r_[widths, np.ptp(target, axis=0)]
            variances = np.r_[variances, target.var(axis=0)]
        return cls(widths, variances)

    @property
    def guess_mse(self) -> float:
        """Mean squared error per entry of who guesses the mean."""
        return float(self.variances.mean())

    def van_trees_mse(self, trace: float) -> float:
        """Bound the mean squared error per entry of who expects normal laws, from a trace alone.

        With J the inverse variances and A the Fisher information, for any weights w in [0, 1]

            tr (A + J)^-1 >= sum_j 1 / (A + J)_jj >= (sum w)^2 / (tr A + sum w^2 / v)

        by the inequality of Cauchy and Schwarz; the best have the form ``min(1, t v)``.
        """
        v = self.variances[self.variances > 0.0]
        if not len(v) or not np.isfinite(trace):
            return 0.0
        scales = np.geomspace(1.0 / v.max(), 1.0 / v.min(), _N_CANDIDATES)
        weights = (np.minimum(1.0, scale * v) for scale in scales)
        best = max(w.sum() ** 2 / (trace + (w**2 / v).sum()) for w in weights)
        return float(best) / len(self.variances)
