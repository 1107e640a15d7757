"""What the page of an audit says, from facts that are computed once."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skleak._version import __version__
from skleak.metrics.verdicts import BIASED, EXCEEDED
from skleak.plotting import AuditDisplay
from skleak.plotting.displays import counts_success, inline_svg
from skleak.plotting.labels import attack_label, code, count, number, percent, plural, root, shorten
from skleak.report.audit._decision import Decision, exposures
from skleak.report.audit._results import (
    BASELINES,
    ENDS,
    SHARE,
    AuditFacts,
    best_rows,
    failed_rows,
    levels,
    merged_bounds,
)
from skleak.report.document import (
    Block,
    Bullets,
    Card,
    Column,
    Document,
    Figure,
    Pairs,
    Paragraph,
    Section,
    Table,
    sentences,
    terms,
)
from skleak.report.reports import rounded
from skleak.report.tables import columns_of, explained

_up = partial(percent, up=True)
_FOOTER = "To publish the model, publish what `release()` returns, and nothing of this report."
# An advantage that some attack surely reaches is mentioned from here.
_WORTH_A_WORD = 0.01
# Share of what a guess gets wrong from which other columns (nearly) determine the secret one.
_NEARLY = 0.95
# The check that is no fault of the noise.
_OFF = "hypotheses"
_ADDS = "adds_over_imputation"
_N_NAMED = 5
_N_PEOPLE = 10
_N_GROUPS = 20
_TARGET = "TransformedTargetRegressor"


def page_facts(report: AuditFacts, decision: Decision) -> dict[str, Any]:
    """Compute everything that the sentences of the page say."""
    s, results = report.settings, report.results
    level: Any = next(each for each in decision["levels"] if each["noise"] == decision["noise"])
    smallest, column = decision["smallest"], level["exposed_column"]
    best: Any = best_rows(report).loc[decision["noise"]]
    at = results[results["noise_scale"] == decision["noise"]]
    own = report.records[report.records["noise_scale"] == decision["noise"]]
    imputation = float(s.get("imputed", math.nan))
    half = 0.5 * float(best.get("success_high", math.nan) - best.get("success_low", math.nan))
    noise = _noise_facts(report)
    return {
        **decision,
        **{name: level[name] for name in ("utility", "attack", "attack_success", "attack_value")},
        **{name: s[name] for name in ("utility_name", "secrets", "n_releases")},
        # As it is read, it is enough.
        "smallest": smallest | {"noise": rounded(smallest["noise"], up=True)},
        "kind": report.kind,
        "guesses": counts_success(report),
        "attribute": report.attribute,
        "n_values": len(s.get("values", ())),
        "step": float(own["step"].iloc[0]) if "step" in own else math.nan,
        "quiet": report.noiseless,
        "noiseless_utility": float(s["noiseless_utility"]),
        "partial": decision["n_attacked"] < decision["n_records"] and not decision["sampled"],
        "names": names_of(decision["labels"]),
        "named_by": shorten(s["labels"], 60),
        "column": "a combination of columns" if column == "direction" else code(column),
        "success_half": half,
        "attack_half": 0.5 * (level["attack_high"] - level["attack_low"]),
        "attack_failed": bool(best["failed"]),
        "guess": float(best.get("baseline", math.nan)),
        "imputation": imputation if report.kind == "categorical" else math.nan,
        "level": s["confidence_level"],
        "unseen": s["preprocessing"] if decision["verdict"] == "unseen" else "",
        "scale": s.get("scale", ""),
        **{name: s.get(name, False) for name in ("private_sgd", "repeated", "replayable")},
        "why": report.unbounded,
        "outputs": {k: v for k, v in s.get("outputs", {}).items() if v != "nothing"},
        "exceeded": _named(at[at["verdict"] == EXCEEDED]),
        "biased": _named(results[results["verdict"] == BIASED].drop_duplicates("attack")),
        "failed_attacks": _named(at[failed_rows(report)[at.index]]),
        "adds": _adds(at),
        "related": _related(report, imputation),
        "count": _count(best, s),
        "rate": _rate(report, best),
        "told_apart": _told_apart(report),
        "gap": _gap(report, best, float(at.get("success_high", pd.Series([math.nan])).max())),
        "guarantee": float(best.get("dp", math.nan)),
        "trained": _trained(s),
        "power": _power(results),
        "shared": False,
        "trained_otherwise": bool(noise["off"]) and not noise["wrong"],
        "noise_lines": sentences("audit_noise", noise),
    }


def _adds(at: pd.DataFrame) -> dict[str, Any] | None:
    """Find what the model adds to the other columns, by the attack that uses both."""
    added = at.reindex(columns=[f"{_ADDS}{end}" for end in ENDS.values()]).dropna(subset=_ADDS)
    return _with_ends(added.iloc[0], _ADDS) if len(added) else None


def _trained(settings: dict[str, Any]) -> dict[str, Any]:
    """Describe how the model was trained."""
    return {
        "searches": [name for name in settings.get("wrappers", ()) if name != _TARGET],
        "chosen": ", ".join(f"{k}={v}" for k, v in settings.get("chosen", {}).items()),
        "transformed": settings.get("transformed", False),
        "seeded": list(settings.get("seeded", ()))[:_N_NAMED],
        "random": settings.get("random"),
    }


def names_of(labels: "list[Any]") -> str:
    """Name the first of some records by their labels."""
    named = [shorten(label, 24) for label in labels[:_N_NAMED]]
    return ", ".join(named) + (", …" if len(labels) > _N_NAMED else "")


def assumption_facts(report: AuditFacts, decided: bool) -> dict[str, Any]:
    """Compute what the assumptions depend on."""
    s, results = report.settings, report.results
    names = ["n_computed", "n_bounded", "n_unresolved"]
    counts = results.reindex(columns=names).astype(float)
    return {
        "s": {"random": False, "sampled": False, "private_sgd": False, "exact_test": ""}
        | {"n_rows": 0, "releases": "simulated", "reweighting": None}
        | {"noise_covariance": "isotropic", "goals": {}}
        | s,
        "kind": report.kind,
        "unbounded": str(s.get("no_bound", "")),
        "decided": decided,
        "has_guarantee": "dp" in report.bounds and bool(results["dp"].notna().any()),
        "with_prior": SHARE in results,
        "n_computed": int(np.nan_to_num(counts["n_computed"].min())),
        "n_bounded": int(np.nan_to_num(counts["n_bounded"].min())),
        "n_unresolved": int(counts["n_unresolved"].fillna(0.0).max()),
        "noisy": s.get("has_noise", True) or bool((results["noise_scale"] > 0.0).any()),
        "level": s["confidence_level"],
        "has_eta": "eta" in report.records and bool(report.records["eta"].notna().any()),
    }


def words(report: AuditFacts, decision: Decision) -> tuple[tuple[str, str], ...]:
    """List the words of the page and what they mean."""
    bounds = {name for name in report.bounds if report.results[name].notna().any()}
    return terms(
        "audit_words",
        {
            "kind": report.kind,
            "quiet": report.noiseless,
            "private_sgd": report.settings.get("private_sgd", False),
            "goals": report.settings.get("goals", {}),
            "decided": not math.isnan(decision["largest"]),
            "limit": decision["limit"],
            "guesses": counts_success(report),
            "attacks": set(report.results["attack"]),
            "bounds": bounds,
            "fano": any("fano" in name for name in bounds),
            "verdicts": set(report.results["verdict"]),
        },
    )


def audit_document(
    report: Any, decision: Decision, facts: dict[str, Any], *, figures: bool
) -> Document:
    """Put the page in order: the answer, noise by noise, people, and what is folded away."""
    lead, notes = facts["lead"], facts["notes"]
    sections = [
        Section("Noise by noise", (_levels_table(report, decision),)),
        Section("What leaks, and what noise costs", (_figure(report, figures),), where="page"),
        Section("People", _people(report, decision)),
        Section("By class, group and copies", _parts(report), where="full"),
        Section("What else the numbers say", (Bullets(notes),), where="full"),
        Section("All attacks", _attacks(report), folded=True),
        Section("All bounds for the stated prior", _bounds(report), folded=True),
        Section("Assumptions", (Bullets(report.assumptions),), folded=True),
        Section("What the words mean", (Pairs(words(report, decision)),), folded=True),
        Section(
            "Reproducibility", (Pairs(_reproducibility(report), grid=True),), True, where="page"
        ),
    ]
    kept = [each for each in sections if each.blocks and each.blocks != (Bullets(()),)]
    return Document(
        "Leakage audit",
        report.estimator,
        made(report),
        lead[0],
        _cards(decision, facts),
        tuple(kept),
        _FOOTER,
        rest=" ".join(lead[1:]),
    )


def made(report: AuditFacts) -> str:
    """Say in one line what was audited."""
    s = report.settings
    return ", ".join(
        [
            what(report),
            plural(s["n_records"], "record"),
            plural(s["n_columns"], "column"),
            f"{count(s['n_targets'])} judged" + (" (drawn at random)" if s.get("sampled") else ""),
            plural(s["n_releases"], "training" if s.get("no_bound") else "release"),
            f"preprocessing {shorten(s['preprocessing'], 20)}",
            *([f"reweighted ({shorten(s['reweighting'], 20)})"] if s["reweighting"] else []),
        ]
    )


def what(report: AuditFacts) -> str:
    """Name what was attacked."""
    if report.kind == "membership":
        return "membership"
    if report.attribute is None:
        return "whole records"
    return f"column {shorten(report.attribute, 40)}"


def _cards(decision: Decision, facts: dict[str, Any]) -> tuple[Card, ...]:
    """Cards about the chosen noise."""
    at = f" at noise {number(decision['noise'])}" if decision["noise"] else ""
    shown = "none known"
    if not math.isnan(decision["n_above"]):
        shown = f"{count(int(decision['n_above']))} of {count(decision['n_attacked'])}"
        shown = shown if not math.isnan(decision["largest"]) else f"≥ {shown}"
    tone = {"everyone": "good", "unseen": "good", "not_known": ""}.get(decision["verdict"], "bad")
    largest, utility = decision["largest"], facts["noiseless_utility"]
    known = "" if facts["kind"] in ("numeric", "record") else ", whatever else is known"
    value = percent(facts["attack_value"], within=facts["attack_half"])
    note = "" if math.isnan(utility) else f"{number(utility)} without noise"
    found = decision["found_at_1pct"]
    cards = (
        Card(f"People above {_up(decision['limit'])}{at}", shown, "limit of the gain", tone),
        None if math.isnan(largest) else Card("Largest gain", _up(largest), f"most exposed{known}"),
        None if math.isnan(found) else Card("Found at 1% false alarms", _up(found), "most exposed"),
        Card("Best attack tried", value, f"{attack_label(facts['attack'])}, over guessing"),
        Card(str(facts["utility_name"]), number(facts["utility"]), note),
    )
    return tuple(card for card in cards if card is not None)


def _levels_table(report: AuditFacts, decision: Decision) -> Table:
    """Tabulate what holds at every noise scale, the chosen one marked."""
    table, smallest = pd.DataFrame(decision["levels"]), decision["smallest"]
    chosen = (table["noise"] == decision["noise"]) & (len(table) > 1)
    marks = chosen.map({True: " ◂", False: ""})
    table["name"] = [
        ("none" if report.noiseless else number(noise)) + mark
        for noise, mark in zip(table["noise"], marks, strict=True)
    ]
    if 0.0 < smallest["noise"] < math.inf and smallest["noise"] not in table["noise"].tolist():
        name = f"{number(rounded(smallest['noise'], up=True))} (smallest that keeps)"
        kept = {"name": name, "n_above": 0.0, "largest": decision["limit"], "attack": ""}
        kept |= {one: smallest[one] for one in ("noise", "utility")}
        table = pd.concat([table, pd.DataFrame([kept])]).sort_values("noise", kind="stable")
    table["above"] = ["–" if math.isnan(n) else count(int(n)) for n in table["n_above"]]
    parts = table[["attack_value", "attack_low", "attack_high", "attack"]].itertuples(index=False)
    table["played"], table["played_below"] = zip(*(_played(*part) for part in parts), strict=True)
    columns = columns_of(table, specs(known=table["largest"].notna().any())["levels"])
    name = str(report.settings["utility_name"])
    utility = Column(name, tuple(map(number, table["utility"])), short=name)
    return Table("Noise by noise", (*columns, utility), limits=(8, 200))


def _played(value: float, low: float, high: float, attack: str) -> tuple[str, str]:
    """Write what an attack gained, and its interval."""
    shown = percent(value, within=0.5 * (high - low)) + (
        f" {attack_label(attack)}" if attack else ""
    )
    return shown, "" if math.isnan(low) else f"{percent(low)} to {percent(high)}"


def specs(**facts: Any) -> dict[str, str]:
    """Return the columns of each table of an audit, as `columns_of` takes them."""
    asked = dict.fromkeys(("known", "guesses", "actual", "judged", "failed", "n", "level"), 0)
    return dict(terms("audit_tables", asked | {"names": (), "show": "", "named": ""} | facts))


def _figure(report: Any, figures: bool) -> Block:
    display = AuditDisplay.from_report(report)
    if not display.draws:
        return Paragraph("Not drawn: no number is finite.")
    svg = inline_svg(display, display.title, display.description) if figures else ""
    return Figure(svg, display.caption)


def _people(report: AuditFacts, decision: Decision) -> tuple[Block, ...]:
    """Tabulate the most exposed people at the chosen noise."""
    table = exposures(report, decision["noise"])
    if not table["exposure"].notna().any() or decision["verdict"] == "unseen":
        return ()
    at = report.records.loc[table.index]
    order = table["exposure"].fillna(np.inf).sort_values(ascending=False, kind="stable").index
    top = table.loc[order[:_N_PEOPLE]].join(at.reindex(columns=["n_rows"]))
    attack = f"success_{best_rows(report).loc[decision['noise'], 'attack']}"
    top["tried"] = at.get(attack, math.nan)
    columns = columns_of(top, specs()["people"])
    said = specs(n=decision["n_attacked"], named=report.settings["labels"])["people caption"]
    return Table("People", columns, (3, _N_PEOPLE), "person"), Paragraph(said, soft=True)


def _parts(report: AuditFacts) -> tuple[Block, ...]:
    """Tabulate the attack that shows most about every class, group and set of copies."""
    if report.groups.empty:
        return ()
    table = report.groups.sort_values(
        ["p_value", "success"], ascending=[True, False], kind="stable"
    )
    shown = table.drop_duplicates(["kind", "group"]).head(_N_GROUPS)
    shown = shown.assign(name=[_group_name(row) for _, row in shown.iterrows()])
    said = specs()
    return explained("By group", columns_of(shown, said["groups"]), said["groups caption"])


def _group_name(row: Any) -> str:
    label = number(row["group"]) if isinstance(row["group"], float) else shorten(row["group"], 40)
    return f"{ {'copies': 'copies of'}.get(row['kind'], row['kind']) } {label}"


def _attacks(report: AuditFacts) -> tuple[Block, ...]:
    """Tabulate every attack at every noise scale, with its intervals."""
    results, s = report.results, report.settings
    noise = ["none" if report.noiseless else number(scale) for scale in results["noise_scale"]]
    said = specs(
        guesses=counts_success(report),
        actual=report.kind != "membership" and s["secrets"] == "actual",
        judged=not s.get("no_bound"),
        names=set(results),
        level=s["confidence_level"],
    )
    alarming = tuple(results["verdict"].isin([EXCEEDED, BIASED]))
    columns = tuple(
        replace(column, sharp=alarming) if column.head == "Verdict" else column
        for column in columns_of(results.assign(noise=noise), said["attacks"])
    )
    where = "in the table `results` of the report and in its JSON."
    return Table("All attacks", columns, where=where), Paragraph(said["attacks caption"], soft=True)


def _bounds(report: AuditFacts) -> tuple[Block, ...]:
    """Tabulate every bound at every noise scale, the tightest first, and guessing below."""
    first, bounds, guesses = levels(report), merged_bounds(report), counts_success(report)
    if bounds.empty:
        return ()
    caption = specs(guesses=guesses, failed=report.mechanism_failed)["bounds caption"]
    table = bounds.T.map(_up if guesses else root)
    guess = first["baseline"].astype(float)
    if not guesses:
        number_of = "prior_variance" in report.records and report.records["prior_variance"].notna()
        spread = "prior_variance" if np.any(number_of) else "prior"
        guess = report.records.groupby("noise_scale")[spread].mean().reindex(first.index)
    name = "Guessing from the prior" if guesses else "Guessing the mean"
    table.loc[name] = guess.map(percent if guesses else root)
    columns = [Column("Bound", tuple(map(str, table.index)), short="bound", kind="words")]
    for noise, cells in table.items():
        head = "none" if report.noiseless else number(noise)
        columns.append(Column(f"Noise {head}", tuple(cells), short=head))
    return Paragraph(caption, soft=True), Table("All bounds", tuple(columns))


def _reproducibility(report: AuditFacts) -> tuple[tuple[str, str], ...]:
    s = report.settings
    rows = [(str(name), str(value)) for name, value in report.reproducibility.items()]
    if report.kind == "membership":
        rows.append(("Members", f"{s['secrets']}, probability {percent(s['membership_prior'])}"))
    else:
        rows.append(("Secrets", str(s["secrets"])))
        rows.append(("Prior", str(s["prior"])))
    if report.kind == "categorical":
        # Values that identify few are in the confidential tables only, which this page is.
        values = [shorten(value, 48) for value in s["values"][:20]]
        more = len(s["values"]) - len(values)
        listed = ", ".join(values) + (f" and {count(more)} more" if more else "")
        rows.append(("Candidate values", listed))
    rows += [("Preprocessing", str(s["preprocessing"])), ("Reweighting", str(s["reweighting"]))]
    return (*rows, ("Report made by", f"skleak {__version__}"))


def _with_ends(row: Any, name: str, **more: Any) -> dict[str, Any] | None:
    """Read what was measured, and its interval with half of its width; None where nothing was."""
    if name not in row or pd.isna(row[name]):
        return None
    value, low, high = (float(row[f"{name}{end}"]) for end in ENDS.values())
    return {"value": value, "low": low, "high": high, "half": 0.5 * (high - low)} | more


def _related(report: AuditFacts, imputed: float) -> dict[str, Any]:
    """Find the columns that tell the secret one without any model."""
    by, follows = (dict(report.settings.get(n, {})) for n in ("determined_by", "determines"))
    baseline = 0.0
    if report.kind == "categorical":
        baseline = float(levels(report)["baseline"].iloc[0])
    gain = (imputed - baseline) / (1.0 - baseline) if baseline < 1.0 else math.nan
    return {
        "by": list(by)[:_N_NAMED],
        "exact": bool(by) and min(by.values()) >= 1.0,
        "together": not by and gain >= _NEARLY,
        "follows": [name for name in follows if name not in by][:_N_NAMED],
    }


def _count(best: Any, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Find how many people attacks show to be above the limit."""
    if "records_above" not in best or pd.isna(best["enough_releases"]):
        return None
    return {
        "n": float(best["records_above"]),
        "by": str(best["records_above_by"]),
        "effect": float(best["design_effect"]),
        "enough": int(best["enough_releases"]),
        "releases": int(settings["n_releases"]),
    }


def _rate(report: AuditFacts, best: Any) -> dict[str, Any] | None:
    """Find the few that are found beyond doubt, whom a mean over all records hides."""
    whom = "the members"
    if report.kind != "membership":
        whom = f"those with {code(report.attribute)} = {shorten(best.get('rare_value', ''), 24)}"
    return _with_ends(best, "tpr_at_1pct_fpr", whom=whom)


def _told_apart(report: AuditFacts) -> dict[str, Any] | None:
    """Find the groups that are told apart by more than chance explains, worst first."""
    table = report.groups
    if table.empty:
        return None
    above = table[table["p_value"] <= 1.0 - report.settings["confidence_level"]]
    above = above.sort_values("success", ascending=False, kind="stable")
    above = above.drop_duplicates(["kind", "group"])
    if above.empty:
        return None
    names = ("n_records", "attack", "n_right", "n_games")
    rows = [
        {"name": _group_name(row), **{name: row[name] for name in names}}
        for _, row in above.head(_N_NAMED).iterrows()
    ]
    of = len(table[["kind", "group"]].drop_duplicates())
    return {"rows": rows, "of": of, "more": len(above) - len(rows)}


def _gap(report: AuditFacts, best: Any, reached: float) -> dict[str, Any] | None:
    if "gap" not in best or pd.isna(best["gap"]):
        return None
    baseline, loss = float(best["baseline"]), report.settings["gap_loss"]
    reached = (reached - baseline) / (1.0 - baseline)
    floor = (float(best.get("lower_bound", math.nan)) - baseline) / (1.0 - baseline)
    floor = floor if floor >= _WORTH_A_WORD else math.nan
    return _with_ends(best, "gap", loss=loss, floor=floor, reached=reached)


def _power(results: pd.DataFrame) -> float:
    """Find how far above its bound an attack had to be, to be found; NaN without a bound."""
    if "detectable_excess" not in results:
        return math.nan
    excess = results["detectable_excess"].astype(float).dropna()
    finite = excess[np.isfinite(excess)]
    return float(finite.max()) if len(finite) else math.inf if len(excess) else math.nan


def _noise_facts(report: AuditFacts) -> dict[str, Any]:
    """Compute what the checks of the noise found."""
    columns = ["check", "statistic", "noise_scale"]
    checks = report.checks
    if checks.empty:
        checks = pd.DataFrame(columns=[*columns, "passed", "n_releases", "level"])
    failed, own = checks[~checks["passed"].astype(bool)], checks[checks["check"] != _OFF]
    wrong = failed[failed["check"] != _OFF]
    faults = {}
    if "smallest_fault" in own:
        least = own.groupby("check", sort=False)["smallest_fault"].min()
        faults = {name: value for name, value in least.items() if np.isfinite(value)}
    odds = 1.0 / float(own["level"].sum()) if len(own) else math.inf
    unit = 10.0 ** math.floor(math.log10(odds * (1.0 + 1e-9))) if math.isfinite(odds) else 1.0
    return {
        "off": failed.loc[failed["check"] == _OFF, columns].to_dict("records"),
        "wrong": [
            {
                "noise": float(noise),
                "n_releases": int(part["n_releases"].iloc[0]),
                "rows": part[columns].to_dict("records"),
            }
            for noise, part in wrong.groupby("noise_scale")
        ],
        "n_failed": len(wrong),
        "n_checks": len(checks),
        "n_levels": int(checks["noise_scale"].nunique()),
        "n_releases": int(own["n_releases"].iloc[0]) if len(own) else 0,
        "names": list(checks["check"].unique()),
        "odds": int(odds / unit * (1.0 + 1e-9)) * int(unit) if math.isfinite(odds) else 0,
        "faults": {k: v for k, v in faults.items() if k not in ("missing", "replayed", "shape")},
        "releases": report.settings.get("releases", "simulated"),
        "unchecked": report.settings.get("unchecked", ""),
    }


def _named(rows: pd.DataFrame) -> list[str]:
    return [code(name) for name in rows["attack"] if name not in BASELINES]
