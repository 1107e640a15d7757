"""The report of an audit as one HTML page, or as a fragment for a notebook."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jinja2 import ChoiceLoader, Environment, PackageLoader

from skleak._version import __version__
from skleak.audit.report._exposure import middle_noise, most_exposed, vulnerability
from skleak.audit.report._format import attack_label, bound_label, percent
from skleak.audit.report._tables import (
    best_rows,
    counts_success,
    imputation_error,
    levels,
    prior_error,
    record_advantages,
    relative_errors,
    tightest,
)
from skleak.audit.report.figure._chart import audit_chart, merged
from skleak.audit.report.figure._rows_chart import rows_chart
from skleak.audit.tables._verdicts import BIASED
from skleak.metrics._verdict import EXCEEDED, VACUOUS
from skleak.rendering._format import number
from skleak.reports import _html as leakage_html

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["to_html"]

_N_RESULTS = 200


def to_html(report: "AuditReport", embedded: bool = False) -> str:
    """Write the report of an audit as HTML that needs nothing else: no script, font or picture."""
    several = report.results["noise_scale"].nunique() > 1
    categorical, exposed = counts_success(report), most_exposed(report)
    return (
        _environment()
        .get_template("audit_report.html.j2")
        .render(
            embedded=embedded,
            version=__version__,
            report=report,
            settings=report.settings,
            categorical=categorical,
            membership=report.kind == "membership",
            cards=_cards(report) if len(report.results) else [],
            chart=audit_chart(report) if several else None,
            bars=None if several or report.results.empty else rows_chart(report),
            attacks=[attack_label(name) for name in report.results["attack"].unique()],
            results=_results(report),
            n_more=max(len(report.results) - _N_RESULTS, 0),
            bounds=_bounds(report),
            groups=_groups(report),
            exposed=exposed.to_dict("records"),
            source=exposed.attrs["source"],
            distances=report.kind != "membership" or bool(exposed["eta"].notna().any()),
            middle=middle_noise(report),
        )
    )


@cache
def _environment() -> Environment:
    base = leakage_html._environment()
    loader = ChoiceLoader([PackageLoader("skleak.audit"), PackageLoader("skleak.reports")])
    environment = base.overlay(loader=loader)
    # An overlay shares its tables with the environment below: new ones, so as not to change that.
    environment.globals = {**base.globals, "EXCEEDED": EXCEEDED, "BIASED": BIASED}
    environment.filters = {
        **base.filters,
        "percent": percent,
        "root": lambda error: number(np.sqrt(np.maximum(error, 0.0))),
    }
    return environment


def _cards(report: "AuditReport") -> list[dict[str, str]]:
    best, bound, first = best_rows(report), tightest(report), levels(report)
    scales = [best.index[0]] if len(best) == 1 else [best.index[0], best.index[-1]]
    cards = [_attack_card(report, noise, best.loc[noise]) for noise in scales]
    cards.append(_bound_card(report, bound))
    if report.kind == "membership":
        cards.append(_floor_card(first))
    name = report.settings["utility_name"]
    noiseless = report.settings["noiseless_utility"]
    others = [f"{number(first['utility'].iloc[-1])} at the largest"] if len(first) > 1 else []
    if not np.isnan(noiseless):
        others.append(f"{number(noiseless)} without noise")
    cards.append(
        {
            "term": f"Utility at noise {number(first.index[0])}",
            "value": number(first["utility"].iloc[0]),
            "note": "; ".join([str(name), *others]),
            "mood": "",
        }
    )
    judged = report.results["verdict"]
    n_exceeded, n_vacuous = int((judged == EXCEEDED).sum()), int((judged == VACUOUS).sum())
    n_biased = int((judged == BIASED).sum())
    notes = ["comparisons exceed the bound" if n_exceeded != 1 else "comparison exceeds the bound"]
    notes += [f"{n_biased} below the unbiased bound"] if n_biased else []
    notes += [f"{n_vacuous} vacuous"] if n_vacuous else []
    cards.append(
        {
            "term": "Verdicts",
            "value": f"{n_exceeded} of {len(judged)}",
            "note": "; ".join(notes),
            "mood": "bad" if n_exceeded else "",
        }
    )
    if report.kind == "membership" and not first.index.any():
        # Nothing to tell apart by its noise.
        cards = [card | {"term": card["term"].removesuffix(" at noise 0")} for card in cards]
    return cards


def _attack_card(report: "AuditReport", noise: float, row: pd.Series) -> dict[str, str]:
    term = f"Best attack at noise {number(noise)}"
    if row["failed"]:
        note = "every attack on the model that was played does worse than guessing"
        return {"term": term, "value": "none", "note": note, "mood": ""}
    ends = f"{percent(row['advantage_low'])} to {percent(row['advantage_high'])}"
    over = "the prior" if counts_success(report) else "guessing the mean"
    return {
        "term": term,
        "value": percent(row["advantage"]),
        "note": f"advantage of {attack_label(row['attack'])} over {over} ({ends})",
        "mood": "",
    }


def _bound_card(report: "AuditReport", bound: pd.DataFrame) -> dict[str, str]:
    name, advantages = bound["bound"].iloc[0], record_advantages(report)["mean"].to_numpy()
    if name is None:
        note, value = "no bound is known", "none"
        if report.kind != "membership":
            note = "no bound was computed"
    else:
        value, last = (percent(np.maximum(advantages[k], 0.0), up=True) for k in (0, -1))
        note = f"largest mean advantage by {bound_label(name)}"
        note += f"; {last} at {number(bound.index[-1])}" if len(bound) > 1 else ""
    term = f"Tightest bound at noise {number(bound.index[0])}"
    return {"term": term, "value": value, "note": note, "mood": ""}


def _floor_card(first: pd.DataFrame) -> dict[str, str]:
    row: Any = first.iloc[0]
    gain = (row["lower_bound"] - row["baseline"]) / (1.0 - row["baseline"])
    ends = f"{number(row['gap_low'])} to {number(row['gap_high'])}"
    return {
        "term": f"Surely leaks at noise {number(first.index[0])}",
        "value": percent(gain),
        "note": f"advantage of some attack, from a generalisation gap of {number(row['gap'])} "
        f"({ends})",
        "mood": "",
    }


def _results(report: "AuditReport") -> list[dict[str, Any]]:
    table = report.results.assign(label=report.results["attack"].map(attack_label))
    bound = tightest(report)
    table["tightest"] = table["noise_scale"].map(bound["value"])
    if not counts_success(report):
        table = pd.concat([table, relative_errors(report)], axis=1)
    shown = table.head(_N_RESULTS)
    # The noise scale stands in the first of its rows, across them all.
    starts = ~shown["noise_scale"].duplicated()
    spans = shown.groupby("noise_scale")["noise_scale"].transform("size").where(starts, 0)
    shown = shown.assign(span=spans.astype(int))
    return [{str(key): value for key, value in row.items()} for row in shown.to_dict("records")]


def _bounds(report: "AuditReport") -> dict[str, Any] | None:
    """Every bound at every noise scale, the tightest first, and the baselines below."""
    first = levels(report)
    if first.empty:
        return None
    categorical = counts_success(report)
    table = first[list(report.settings["bounds"])].astype(float)
    bounds = merged(table, ascending=categorical).table
    guess = first["baseline"].astype(float) if categorical else prior_error(report)
    others = [("Guessing from the prior" if categorical else "Guessing the mean", guess.tolist())]
    if report.kind == "membership":
        known, name = first["lower_bound"].astype(float), "Some attack reaches at least"
    else:
        known = first["imputation"].astype(float) if categorical else imputation_error(report)
        name = "Imputation, without the model"
    if known.notna().any():
        others.append((name, known.tolist()))
    rows = [(name, bounds[name].tolist()) for name in bounds.columns]
    return {"noise": list(bounds.index), "rows": rows, "others": others}


def _groups(report: "AuditReport") -> dict[str, Any] | None:
    table = vulnerability(report)
    if table is None:
        return None
    start = "success_" if counts_success(report) else "mse_"
    names = {"prior": "Prior", "bayes": "Bayes", "cramer_rao": "Bound"}
    about = ["n_records", "eta", "eta_low", "eta_high"]
    columns = [name for name in table.columns if name not in about]
    heads = [names.get(name) or attack_label(name.removeprefix(start)) for name in columns]
    values = table[columns].to_numpy(dtype=float).tolist()
    made = table[["n_records", "eta_low", "eta_high"]].to_dict("records")
    return {
        "heads": heads,
        "rows": list(zip(table.index, made, values, strict=True)),
        "equal": bool(np.isclose(table["eta_low"].min(), table["eta_high"].max(), rtol=1e-6)),
    }
