"""Facts: what the numbers of a leakage report say, most important first."""

import re
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from skleak.report._report import Finding
from skleak.report.leakage._facts import LeakageFacts
from skleak.report.measures._gain import LITTLE
from skleak.utils.geometry._pairs import true_positives

# People with a rare value that a sentence names, and columns whose carriers it names.
_MOST_NAMED = 20
_MOST_COLUMNS = 3
# Names of columns, and of blocks of them, where the data had none.
_MADE_UP = r"x\d+( \+ x\d+)*"


def facts(report: LeakageFacts, shows_most: tuple[Hashable, float] | None) -> tuple[Finding, ...]:
    """Find what the numbers of a report say; the first entry is the answer.

    ``shows_most`` is the record whose absence would show most, with the distance of the models with
    and without it over the noise, where that is known.
    """
    data, features = report.dataset, report.features
    if not data["converged"]:
        return (Finding("unknown", {"reweighting": data["reweighting"]}),)
    if data["max_loss"] == np.inf:
        return (Finding("no_noise", {}),)
    known = features[features["gain"].notna()]
    found = []
    if len(known) and known["distance"].iloc[0] > 0.0:
        found = [_answer(report, known), *_other_carriers(report, known), _telling(known)]
    elif not len(features) or len(known):
        found = [Finding("nothing", {})]
    if len(known) < len(features):
        found.append(_undecided(features[features["gain"].isna()]))
    return (*found, *_number(known), *_membership(shows_most))


def _answer(report: LeakageFacts, known: pd.DataFrame) -> Finding:
    """Name the column that tells most, what is gained, and of whom."""
    row = known.iloc[0]
    names = ("kind", "gain", "distance", "success_even_odds", "success_prior", "share", "exact")
    told: dict[str, Any] = {name: row[name] for name in names}
    told |= {"feature": known.index[0], "record": row["most_exposed_record"]}
    told |= {"true_positives_at_1pct": row["true_positives_at_1pct"], "n_columns": len(known)}
    columns = [str(name) for name in report.features.index if name != "(target)"]
    made_up = bool(columns) and all(re.fullmatch(_MADE_UP, name) for name in columns)
    told["unnamed"] = made_up and not report.dataset["raw_columns"]
    return Finding("answer", told | _carriers(report, known.index[0]))


def _carriers(report: LeakageFacts, feature: Any) -> dict[str, Any]:
    """Collect who has a rare value of a column, and how surely that is found."""
    rare = report.carriers[report.carriers["feature"] == feature]
    surely = rare["true_positives_at_1pct"].astype(float)
    found = rare[surely.notna()]
    told = {
        "n_carriers": len(found),
        "n_unmeasured": len(rare) - len(found),
        "n_found": int((surely > 0.5).sum()),
        "carriers": found["record"].iloc[:_MOST_NAMED].tolist(),
        "least_true_positives": float(surely.min()),
        "most_true_positives": float(surely.max()),
    }
    # The table may list the most exposed of them alone.
    every: dict[Any, dict[str, Any]] = report.dataset.get("carriers") or {}
    return told | every.get(feature, {})


def _other_carriers(report: LeakageFacts, known: pd.DataFrame) -> list[Finding]:
    """People whom a rare value of another column gives away."""
    found = []
    for feature in known.index[1:]:
        told = _carriers(report, feature)
        if told["n_carriers"]:
            found.append(Finding("carriers", {"feature": feature, **told}))
    return found[:_MOST_COLUMNS]


def _telling(known: pd.DataFrame) -> Finding:
    """Count the columns that tell something, and list those that tell little."""
    little = known[known["gain"] <= LITTLE]
    return Finding(
        "telling",
        {
            "n_columns": len(known),
            "n_telling": len(known) - len(little),
            "telling": known.index[: len(known) - len(little)].tolist(),
            "little": little.index.tolist(),
            "little_gains": little["gain"].tolist(),
        },
    )


def _undecided(features: pd.DataFrame) -> Finding:
    """Columns of which it is not known how far their values are apart."""
    told = {"features": features.index.tolist(), "note": features["note"].iloc[0]}
    return Finding("undecided", told)


def _number(known: pd.DataFrame) -> list[Finding]:
    """Return the number of which most is known to who has a prior."""
    removed = known["share_removed"].dropna()
    if not len(removed) or not removed.max() > 0.0:
        return []
    place = int(np.argmax(known["share_removed"].fillna(-1.0)))
    row = known.iloc[place]
    names = ("share_removed", "van_trees_error", "standard_error")
    told = {name: float(row[name]) for name in names}
    return [Finding("number", {"feature": known.index[place], "sd": row["column_std"], **told})]


def _membership(shows_most: tuple[Hashable, float] | None) -> list[Finding]:
    """Return the record whose absence would show most."""
    if shows_most is None:
        return []
    record, mu = shows_most
    told = {"distance": mu, "true_positives": float(true_positives(np.array(mu)))}
    return [Finding("membership", {"record": record, **told})]
