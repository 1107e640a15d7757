"""What an audit learned about one person, and which bound says so."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skleak.audit.report._decision import mechanism_failed, surely_above
from skleak.audit.report._facts import AuditFacts
from skleak.audit.report._labels import find_label
from skleak.plotting.labels import (
    attack_label,
    beside_limit,
    bound_label,
    code,
    limit_text,
    number,
    percent,
    plural,
    root,
    shorten,
)
from skleak.plotting.results import BASELINES, SHARE, counts_success, guess_success
from skleak.report import Column, Document, Paragraph, PersonalReport, Section, Table, rows

_BOUNDS = ("bayes", "tightest_bound", "cramer_rao")
_CALLED = {"bayes": "exact Bayes value", "tightest_bound": "tightest bound"}
_CALLED["cramer_rao"] = "bound of Cramér and Rao"
# Bounds on errors that hold for every attacker with the prior of a number.
_WITH_PRIOR = ("bayes_mse", "van_trees")


@dataclass(frozen=True, repr=False)
class PersonAudit(PersonalReport):
    """Findings of attacks about one person, beside bounds. Confidential.

    Objects of this kind come from ``AuditReport.person``.

    Parameters
    ----------
    label : object
        Label of the person's records.
    estimator : str
        Name of the estimator.
    attribute : str or None
        Sensitive column; None where whole records or memberships were attacked.
    kind : {"categorical", "numeric", "record", "membership"}
        Type of the secret.
    max_advantage : float
        Advantage that is tolerated.
    table : DataFrame
        A row per noise scale and record of that label: ``noise_scale``, ``record``, ``prior``
        (success of a guess, or squared error of the mean), ``bound`` (on the success, or on the
        squared error of attackers with the prior of a number, a mean over what it may be, or where
        none is known of unbiased attacks), ``bound_name``, ``bound_advantage``, ``attack`` (the
        best one played that looks at the model), ``value`` (its success or squared error),
        ``advantage``, ``n_games``, and ``shows``: whether it was right more often than the prior
        by more than chance explains (None for errors).
    findings : tuple of str
        What the numbers say, the answer first.
    assumptions : tuple of str
        Conditions under which the numbers hold.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.audit import LeakageAuditor
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PrivateLinearRegression(noise_scale=0.1, alpha=1e-2)
    >>> auditor = LeakageAuditor(model, "sex", n_releases=5, records=range(20), random_state=0)
    >>> person = auditor.fit(X, y).report_.person(7)
    >>> person.table["record"].tolist()
    [7]
    """

    _schema = "person_audit"

    label: Any
    estimator: str
    attribute: str | None
    kind: str
    max_advantage: float
    table: pd.DataFrame
    findings: tuple[str, ...] = field(default=())
    assumptions: tuple[str, ...] = field(default=())

    @property
    def _main(self) -> pd.DataFrame:
        return self.table

    def _settings(self) -> dict[str, Any]:
        told = {"attribute": self.attribute, "kind": self.kind}
        return told | {"max_advantage": self.max_advantage}

    def _tables(self) -> dict[str, Any]:
        return {"table": rows(self.table)}

    def _document(self, *, figures: bool) -> Document:
        what = {"record": "whole record", "membership": "membership"}.get(self.kind)
        about = f"{self.estimator}, {what or f'attribute {shorten(self.attribute, 40)}'}"
        several = self.table["noise_scale"].nunique() > 1
        shown = Section("Noise by noise" if several else "In numbers", self._shown())
        return self._page("Audit of a person", about, (), (shown,))

    def _shown(self) -> tuple[Paragraph, Table]:
        table, guesses = self.table, counts_success(self)
        show = percent if guesses else root
        up: Callable[[Any], str] = partial(percent, up=True) if guesses else root
        bounds = [
            f"{up(value)} ({bound_name(name)})" if name else "none known"
            for value, name in zip(table["bound"], table["bound_name"], strict=True)
        ]
        noise = [number(scale) if scale else "none" for scale in table["noise_scale"]]
        games = tuple(map(_games, table["n_games"]))
        played = tuple(map(show, table["value"]))
        columns = [
            Column("Noise scale", tuple(noise), short="noise"),
            Column("By the prior alone", tuple(map(show, table["prior"])), short="prior"),
            Column("Best attack played", played, games, short="attack", terse=played),
            Column("Which", tuple(map(attack_label, table["attack"])), short="which", kind="words"),
            Column(
                "Bound on all attacks" if guesses else f"{_whose(self)} err by".capitalize(),
                tuple(bounds),
                short="bound",
                kind="words",
            ),
        ]
        said = "Shares of right guesses." if guesses else "Root mean squared errors."
        return Paragraph(said, soft=True), Table("Noise by noise", tuple(columns))


def _games(n_games: float) -> str:
    """Say how many games a share or an error is a mean of; a few may pass a bound by chance."""
    return f"over {plural(int(n_games), 'game')}" if n_games > 0.0 else "over no game"


def bound_name(name: str) -> str:
    """Name the column of a bound for people."""
    return _CALLED.get(name, bound_label(name))


def person_audit(report: AuditFacts, label: Any) -> PersonAudit:
    """Gather what an audit knows about the records of one label."""
    records = report.records
    found = find_label(records["label"], label)
    if not found.any():
        examples = ", ".join(repr(each) for each in records["label"].drop_duplicates()[:3])
        raise KeyError(
            f"No record under attack is called {label!r}. They are called by "
            f"{report.settings['labels']}: {examples}, ... See `report.records['label']`."
        )
    at = records[found].sort_values(["noise_scale", "record"], kind="stable")
    person = PersonAudit(
        label,
        report.estimator,
        report.attribute,
        report.kind,
        float(report.settings["max_advantage"]),
        _table(report, at),
        assumptions=report.assumptions,
    )
    return replace(person, findings=_findings(person))


def _table(report: AuditFacts, at: pd.DataFrame) -> pd.DataFrame:
    guesses, prior = counts_success(report), at["prior"].astype(float)
    known = at[[name for name in _BOUNDS if name in at]].astype(float)
    if failed := mechanism_failed(report):
        known = known * np.nan  # None holds.
    bound = known.min(axis=1) if guesses else known.min(axis=1).clip(upper=prior)
    names = [_first(row, guesses) for _, row in known.iterrows()]
    gain = _advantage(bound, prior, guesses)
    if SHARE in at and not failed:
        # The number may be any: its errors are means over the prior, not about the true one.
        gain = at[SHARE].astype(float)
        bound = (1.0 - gain) * at["prior_variance"].astype(float)
        known = at[list(_WITH_PRIOR)].astype(float)
        names = [_first(row, False) for _, row in known.iterrows()]
    start = "success_" if guesses else "mse_"
    own = [f"{start}{name}" for name in report.settings["attacks"] if name not in BASELINES]
    played = at[[name for name in own if name in at]].astype(float)
    best = [_first(row if not guesses else -row, True) for _, row in played.iterrows()]
    value = played.max(axis=1) if guesses else played.min(axis=1)
    guess = guess_success(report, at)
    settings = report.settings
    games = settings.get("n_fitted") or settings["n_releases"]
    games = at.get("n_games", games)
    table = pd.DataFrame(
        {
            "noise_scale": at["noise_scale"],
            "record": at["record"],
            "prior": guess.where(bound.isna(), prior),
            "bound": bound,
            "bound_name": names,
            "bound_advantage": gain,
            "attack": [name.removeprefix(start) for name in best],
            "value": value,
            "advantage": _advantage(value, guess, guesses),
            "n_games": games,
        }
    ).reset_index(drop=True)
    table["shows"] = None
    if guesses:
        n_attacks = max(played.shape[1], 1)  # of which the best was taken
        table["shows"] = surely_above(report, table["value"], table["n_games"], guess, n_attacks)
    return table


def _first(row: pd.Series, smallest: bool) -> str:
    """Name the first column of the smallest value, or of the largest; empty where none is known."""
    if not row.notna().any():
        return ""
    return str(row.idxmin() if smallest else row.idxmax())


def _advantage(value: pd.Series, prior: pd.Series, guesses: bool) -> pd.Series:
    if guesses:
        return (value - prior) / (1.0 - prior).where(prior < 1.0)
    return 1.0 - value / prior.where(prior > 0.0)


def _findings(person: PersonAudit) -> tuple[str, ...]:
    """Say what was learned, the answer first."""
    table, guesses = person.table, counts_success(person)
    said, first = [], table.iloc[0]
    who, show = shorten(person.label, 48), percent if guesses else root
    bounded = bool(first["bound_name"])
    if person.kind == "membership":
        shows = "shows" if table["shows"].any() else "was not found to show beyond chance"
        start = f"Whether {who} was trained on {shows}"
    else:
        what = "the whole record" if person.attribute is None else code(person.attribute)
        start = f"What releases tell of {what} of {who}"
    where = (
        "without noise"
        if first["noise_scale"] == 0.0
        else (f"at noise scale {number(first['noise_scale'])}")
    )
    does = "is right in" if guesses else "has a root mean squared error of"
    text = (
        f"{start}: {where} the best attack played, {code(first['attack'])}, {does} "
        f"{show(first['value'])} {_games(first['n_games'])}, and the prior alone "
        f"{show(first['prior'])}"
    )
    if not first["attack"]:
        text = f"{start}: {where} no attack on the model has a figure about this record"
    if bounded and guesses and first["bound"] >= 1.0:
        text += "; no bound rules out that some attack is always right"
    elif bounded:
        most = "no attack is right in more than" if guesses else f"{_whose(person)} err by at least"
        limit = percent(first["bound"], up=True) if guesses else root(first["bound"])
        mean = _on_average(person, first) if _with_prior(person) else ""
        text += f"; {most} {limit}{mean} ({bound_name(first['bound_name'])})"
    else:
        text += "; no bound says what others reach"
    said.append(f"{text}.")
    said += _kept(person)
    return tuple(said)


def _with_prior(person: PersonAudit) -> bool:
    return bool(person.table["bound_name"].isin(_WITH_PRIOR).any())


def _on_average(person: PersonAudit, first: Any) -> str:
    """Say what the errors of attackers with a prior are means over, beside that of a guess."""
    mean = f", on average over what the {'record' if person.kind == 'record' else 'number'} may be"
    left = 1.0 - first["bound_advantage"]
    return f"{mean}, where guessing errs by {root(first['bound'] / left)}" if left > 0.0 else mean


def _whose(person: PersonAudit) -> str:
    """Name the attackers that a bound on errors is about."""
    if _with_prior(person):
        known = "how the number is distributed"
        if person.kind == "record":
            known = "means and covariances of the columns"
        return f"attackers who know {known}"
    return "unbiased attacks"


def _kept(person: PersonAudit) -> list[str]:
    """Say from which noise on the bound of the person is within the limit."""
    table, limit = person.table, limit_text(person.max_advantage)
    of = "" if counts_success(person) else f" of {_whose(person)}"
    if table["bound_advantage"].isna().all():
        return []
    worst = table.groupby("noise_scale")["bound_advantage"].max()
    kept = worst[worst <= person.max_advantage]
    if kept.empty:
        return [
            f"At no noise scale audited is the bound on the advantage{of} about this person within "
            f"{limit}: it is {percent(worst.iloc[-1], up=True)} at {number(worst.index[-1])}."
        ]
    return [
        f"The bound on the advantage{of} about this person is within {limit} at noise scale "
        f"{number(kept.index[0])}: "
        f"{beside_limit(max(kept.iloc[0], 0.0), person.max_advantage, up=True)}."
    ]
