"""What a release tells about one person."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak._version import __version__
from skleak.plotting.labels import number, numbers, percent, percents, plural, shorten
from skleak.report._document import Card, Column, Document, Pairs, Paragraph, Section, Table
from skleak.report._person import PersonalReport
from skleak.report._report import rows
from skleak.report.leakage._facts import LeakageFacts
from skleak.report.leakage._tables import meter
from skleak.report.measures._gain import LITTLE, MUCH, RARE
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.geometry._pairs import (
    gained,
    pair_success,
    success_even_odds,
    true_positives,
)

_EXACT = {
    "values": "exact separation",
    "number": "exact separation, ±1 std. dev.",
    "numbers": "exact separation, ±1 std. dev. of all",
}


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
        ``position`` (of the record), ``kind``, ``gain``, ``distance``, ``distance_from_own`` (from
        the value that the record has), ``success_even_odds``, ``success_prior``,
        ``true_positives_at_1pct``, ``share`` (of the records that have the same value), ``rare``
        (whether that is rare), ``bound`` (which bound says so) and ``exact``.
    membership : DataFrame
        One row per record of that label (index ``position``): ``distance`` (noise units between
        the models with and without it, the mu of Gaussian differential privacy of this record),
        ``advantage`` (``2 Phi(mu / 2) - 1``), ``true_positives_at_1pct``, and ``bound``.
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
    '(target)'
    """

    _schema = "person_report"

    label: Any
    estimator: str
    columns: pd.DataFrame
    membership: pd.DataFrame
    findings: tuple[str, ...] = field(default=())
    assumptions: tuple[str, ...] = field(default=())

    @property
    def _main(self) -> pd.DataFrame:
        return self.columns

    def _settings(self) -> dict[str, Any]:
        return {}

    def _tables(self) -> dict[str, Any]:
        membership = rows(self.membership, "position")
        return {"columns": rows(self.columns, "feature"), "membership": membership}

    def _document(self, *, figures: bool) -> Document:
        several = f", {plural(len(self.membership), 'record')}" if len(self.membership) > 1 else ""
        about = f"{self.estimator}, skleak {__version__}{several}"
        sections = (
            Section("What each column tells", self._table()),
            Section("Membership", (Pairs(self._memberships()),)),
        )
        return self._page("Leakage about a person", about, tuple(self._cards()), sections)

    def _cards(self) -> list[Card]:
        gain = self.columns["gain"].max()
        cards = [
            Card(
                "Most telling column",
                percent(gain, up=True),
                f"gained over guessing, from {shorten(self.columns.index[0], 30)}"
                if len(self.columns)
                else "no column",
                "bad" if gain > MUCH else "",
            )
        ]
        mu = self.membership["distance"].max()
        told = "noise units between the models with and without this record"
        return [*cards, Card("Membership", number(mu), told, "bad" if gained(mu) > MUCH else "")]

    def _table(self) -> tuple[Paragraph, Table]:
        table = self.columns
        sharp = tuple((table["gain"] > MUCH).tolist())
        several = self.columns["position"].nunique() > 1
        even, by_shares, found = (
            percents(table[name])
            for name in ("success_even_odds", "success_prior", "true_positives_at_1pct")
        )
        columns = (
            Column("Column", tuple(map(str, table.index)), short="column", kind="name"),
            *(
                [Column("Position", tuple(map(str, table["position"])), short="position")]
                if several
                else []
            ),
            Column("Gain", meter(table["gain"].fillna(0.0)), kind="meter", sharp=sharp),
            Column(
                "Gained over guessing", percents(table["gain"], up=True), short="gain", sharp=sharp
            ),
            Column("Noise units apart", numbers(table["distance"]), short="apart"),
            Column("Right at even odds", even, short="right"),
            Column("Has this value, by shares", by_shares, short="by shares"),
            Column("Found at 1% false alarms", found, short="found"),
            Column("By which bound", tuple(table["bound"]), kind="words"),
        )
        explained = (
            "For an attacker who knows everything else, whatever that is. Gained: 0% is guessing "
            "at even odds, 100% is certainty; bars of more than 50% stand out."
        )
        return Paragraph(explained, soft=True), Table("What each column tells", columns)

    def _memberships(self) -> tuple[tuple[str, str], ...]:
        told = []
        for position, row in self.membership.iterrows():
            name = "This record" if len(self.membership) == 1 else f"Record at position {position}"
            if np.isnan(row["distance"]):
                told.append((name, f"not known: {row['bound']}."))
                continue
            told.append(
                (
                    name,
                    f"{number(row['distance'])} noise units; a test at 1% false alarms finds it "
                    f"with probability {percent(row['true_positives_at_1pct'])} ({row['bound']}).",
                )
            )
        return tuple(told)


def person_report(report: LeakageFacts, label: Any) -> PersonReport:
    """Gather what a report knows about the records of one label."""
    index, persons = report.records.index, report.persons
    positions = _positions(index, label)
    if persons is None:
        raise ValueError(
            "This report keeps no numbers of single records and columns, as there are too many. "
            "Ask for a report on some of them, with `X` and `y` of the person alone."
        )
    weight = report.records["sample_weight"].to_numpy()[positions]
    absent = int(np.sum(weight == 0.0))
    parts = []
    for position in positions.tolist():
        distance, own = persons.distance[position], persons.from_own[position]
        share, exact = persons.share[position], persons.exact[position]
        parts.append(
            pd.DataFrame(
                {
                    "position": position,
                    "kind": list(persons.kinds),
                    "gain": gained(distance),
                    "distance": distance,
                    "distance_from_own": own,
                    "success_even_odds": success_even_odds(distance),
                    "success_prior": pair_success(own, share),
                    "true_positives_at_1pct": true_positives(distance),
                    "share": share,
                    "rare": share <= RARE,
                    "bound": [
                        _tested_by(kind, sure, note, one)
                        for kind, sure, note, one in zip(
                            persons.kinds, exact, persons.notes, distance, strict=True
                        )
                    ],
                    "exact": exact,
                },
                index=pd.Index(persons.features, name="feature"),
            )
        )
    columns = pd.concat(parts)
    order = np.argsort(-columns["distance"].fillna(-1.0).to_numpy(), kind="stable")
    mu = report.records["mu"].to_numpy()[positions]
    membership = _membership(mu, positions, report.dataset["individual_privacy"]["missing"])
    person = PersonReport(
        label, report.estimator, columns.iloc[order], membership, assumptions=report.assumptions
    )
    return replace(person, findings=_findings(person, absent))


def _positions(index: pd.Index, label: Any) -> IntArray:
    """Positions of the records of a label; KeyError where there is none."""
    try:
        place = index.get_loc(label)
    except (KeyError, TypeError, ValueError, pd.errors.InvalidIndexError):
        examples = ", ".join(repr(each) for each in index[:3].tolist())
        more = ", ..." if len(index) > 3 else ""
        raise KeyError(
            f"No record is labelled {label!r}. The labels are those of the DataFrame that was "
            f"reported on, or positions where it has none: {examples}{more}. See "
            "`report.records.index`."
        ) from None
    return np.arange(len(index))[[place] if isinstance(place, int) else place]


def _membership(mu: FloatArray, positions: IntArray, obstacle: str) -> pd.DataFrame:
    known = "exact distance of the models with and without the record"
    unknown = obstacle or "the record was not trained on"
    return pd.DataFrame(
        {
            "distance": mu,
            "advantage": gained(mu),
            "true_positives_at_1pct": true_positives(mu),
            "bound": [unknown if np.isnan(one) else known for one in mu],
        },
        index=pd.Index(positions, name="position"),
    )


def _findings(found: PersonReport, absent: int) -> tuple[str, ...]:
    """Say what is learned about a person; the first sentence is the answer."""
    table, who = found.columns, shorten(found.label, 48)
    known = table[table["gain"].notna()]
    if not len(known):
        return (f"What the release tells about {who} is not known.",)
    row = known.iloc[0]
    telling = int((known["gain"] > LITTLE).sum())
    name = shorten(known.index[0], 48)
    if not telling:
        first = (
            f"The release tells little about {who}: an attacker who knows everything else gains at "
            f"most {percent(row['gain'], up=True)} over guessing, which is from {name} "
            f"({row['bound']})."
        )
    else:
        first = (
            f"About {who} the release tells most of {name}: an attacker who knows everything else "
            f"gains {percent(row['gain'], up=True)} over guessing at even odds, and is right "
            f"{percent(row['success_even_odds'])} of the time ({row['bound']})."
        )
    said = [first]
    rare = known[known["rare"] & (known["gain"] > LITTLE)]
    for feature, one in rare.head(3).iterrows():
        said.append(
            f"The value of {shorten(feature, 48)} is rare ({percent(one['share'])} of the records "
            "have it), and a test at 1% false alarms finds it with probability "
            f"{percent(float(true_positives(one['distance_from_own'])))}."
        )
    mu = found.membership["distance"].max()
    if not np.isnan(mu):
        shows = "shows" if gained(mu) > LITTLE else "hardly shows"
        said.append(
            f"That {who} was trained on {shows}: a test at 1% false alarms finds it with "
            f"probability {percent(float(true_positives(np.array(mu))))}."
        )
    if absent:
        said.append(f"{plural(absent, 'record')} of weight zero took no part: nothing is told.")
    return tuple(said)


def _tested_by(kind: str, exact: bool, note: str, distance: float) -> str:
    """Say which bound on an attacker the numbers of a column come from."""
    if np.isnan(distance):
        return f"not known: {note}" if note else "not known"
    said = _EXACT[kind] if exact else _EXACT[kind].replace("exact ", "", 1)
    return f"{said}; {note}" if note else said
