"""Sentences of evidence that the numbers of an audit support, about nobody in particular."""

import math
from collections.abc import Mapping
from typing import Any

from skleak.audit.report._advice import advice, for_how_many
from skleak.audit.report._decision import (
    decision,
    largest_advantages,
    limit_of,
    mechanism_failed,
    nothing_holds,
    utility,
)
from skleak.audit.report._facts import AuditFacts
from skleak.audit.report.overview._overview import allowed, what, with_interval
from skleak.plotting.labels import attack_label, count, limit_text, number, plural
from skleak.plotting.results import BASELINES, best_rows, levels

_INFERENCE = {
    "categorical": "attribute inference",
    "numeric": "attribute inference",
    "record": "reconstruction",
    "membership": "membership inference",
}

_NO_BOUND = "The noise is not what the model states: no bound of this audit holds."


def kind_of_attack(report: AuditFacts) -> str:
    """Name the kind of attack as texts about data protection do."""
    return _INFERENCE[report.kind]


def decided(report: AuditFacts) -> str:
    """Say which noise keeps the limit, at what cost, and for how many records it does not."""
    return advice(decision(report), names=False)


def every_record(report: AuditFacts) -> str:
    """Say for how many people the limit is passed, as a mean says nothing about one of them."""
    found = decision(report)
    n, of = found["n_above"], plural(int(report.settings["n_targets"]), "record")
    start = "A mean over records says nothing about a single one."
    confidential = (
        "The figure of each stands in the confidential report of the audit "
        "(`report.person(label)`)."
    )
    if found["by"] == "attack" and "enough_releases" in found:
        said = for_how_many(found)
        return f"{start} {said[:1].upper()}{said[1:]}. {confidential}"
    if math.isnan(n):
        return f"{start} What holds for each record by itself is not known. {confidential}"
    at = f"at noise scale {number(found['noise'])}" if found["noise"] else "without noise"
    return (
        f"{start} For {count(n)} of {of} the bound on the record itself is above "
        f"{limit_text(limit_of(report))}, {at}. {confidential}"
    )


def attacks_played(report: AuditFacts) -> tuple[str, ...]:
    """List the attacks that were played, with what each was shown and what it gained."""
    shown = report.settings.get("outputs", {})
    said = []
    for name in report.settings["attacks"]:
        if name in BASELINES:
            continue
        rows = report.results[report.results["attack"] == name]
        seen = f", shown {shown[name]}" if shown.get(name) else ""
        found = ", ".join(
            f"{_gain(report, row)} {_at(row['noise_scale'])}" for _, row in rows.iterrows()
        )
        said.append(f"{attack_label(name).capitalize()}{seen}: advantage {found}.")
    return tuple(said) or ("No attack that looks at the model was played.",)


def bounds_known(report: AuditFacts) -> str:
    """Say what bounds attacks that were not played."""
    if report.unbounded:
        return f"Nothing bounds attacks that were not played: {report.unbounded}."
    table = largest_advantages(report)
    told = ", ".join(
        f"{allowed(report, noise, row)} {_at(float(noise))}" for noise, row in table.iterrows()
    )
    if (table["source"] != "bound").any() or table["at_least"].any():
        return (
            "Attacks of any kind are not bounded at every noise scale, or one that was played "
            f"exceeds its bound: largest advantage known {told}. See the assumptions."
        )
    return (
        "Bounds hold for attacks of any kind that see the release, whether they read its "
        f"parameters or ask it: largest advantage {told}. See the assumptions."
    )


def queries(report: AuditFacts) -> str:
    """Say what bounds tell of answers to queries."""
    if mechanism_failed(report):
        return f"{_NO_BOUND} Nothing bounds what questions tell."
    if nothing_holds(report):
        return "Nothing bounds what questions tell that were not asked in this audit."
    return "Answers to queries are functions of the release: bounds on the release hold for them."


def grounds(report: AuditFacts) -> str:
    """Say on what the results rest: bounds, or the attacks that were played."""
    if mechanism_failed(report):
        return f"{_NO_BOUND} The results are those of the attacks played."
    if nothing_holds(report):
        return "The results of this audit are those of the attacks played; none is a bound."
    return "The bounds of this audit are theoretical: they hold under the assumptions below."


def processing(report: AuditFacts) -> tuple[str, ...]:
    """Describe the model and the data, as far as the audit knows them."""
    settings = report.settings
    records = plural(settings["n_records"], "record")
    return (
        f"A model ({report.estimator}) is trained on {records} with "
        f"{plural(settings['n_columns'], 'column')}; preprocessing: {settings['preprocessing']}.",
        f"Audited with regard to {what(report)}: {count(settings['n_targets'])} of {records} were "
        f"attacked in {_played(settings)} at each of "
        f"{plural(len(levels(report)), 'noise scale')}.",
    )


def _played(settings: Mapping[str, Any]) -> str:
    """Say what the games were played with at each noise scale."""
    if settings.get("releases") != "fitted":
        return plural(settings["n_releases"], "simulated release")
    games = settings["n_fitted"] * settings["n_targets"] or settings["n_releases"]
    return plural(games, "release") + " of real fits"


def measures(report: AuditFacts) -> tuple[str, ...]:
    """Describe the measures that the audit saw: noise, reweighting and checks of the noise."""
    settings, scales = report.settings, list(levels(report).index)
    said = []
    noise = [number(float(scale)) for scale in scales if scale]
    if noise:
        unit = "noise multipliers" if settings.get("private_sgd") else "noise scales"
        by = "" if settings.get("has_noise", True) else ", added by the audit and not by the model"
        said.append(f"Random noise on what is released ({unit} audited: {', '.join(noise)}){by}.")
    else:
        said.append("No noise is added to what is released.")
    if settings["reweighting"] is not None:
        said.append(f"The records were reweighted ({settings['reweighting']}).")
    return (*said, *noise_checks(report))


def noise_checks(report: AuditFacts) -> tuple[str, ...]:
    """Say whether the noise was found to be what is stated."""
    if report.checks.empty:
        return ("Whether the noise is what is stated was not checked.",)
    passed = report.checks["passed"].astype(bool)
    names = ", ".join(sorted(set(map(str, report.checks["check"]))))
    n, of = count(int(passed.sum())), plural(len(passed), "check")
    return (f"{n} of {of} of the noise passed ({names}).",)


def use(report: AuditFacts) -> str:
    """Say how useful releases are, at each noise scale and without noise."""
    first, settings = levels(report), report.settings
    found = [f"{number(value)} {_at(float(noise))}" for noise, value in first["utility"].items()]
    noiseless = utility(report, float(first.index[0]))["noiseless"]
    without = "" if math.isnan(noiseless) else f"; {number(noiseless)} without noise"
    return f"{settings['utility_name']} on {settings['utility_data']}: {', '.join(found)}{without}."


def made_with(report: AuditFacts) -> str:
    """Name the software; data and seeds stand in the report itself."""
    kept = {name: report.reproducibility[name] for name in ("skleak", "Python", "scikit-learn")
            if name in report.reproducibility}  # fmt: skip
    versions = ", ".join(f"{name} {version}" for name, version in kept.items())
    return (
        f"The audit can be repeated: {versions}; the confidential report holds all versions, "
        "parameters and seeds, and a digest of the data."
    )


def _at(noise: float) -> str:
    return f"at noise {number(noise)}" if noise else "without noise"


def _gain(report: AuditFacts, row: Any) -> str:
    """Advantage of an attack, with its interval."""
    best = best_rows(report)
    names = ("gained", "gained_low", "gained_high")
    if best.loc[row["noise_scale"], "attack"] == row["attack"]:
        value, low, high = (float(best.loc[row["noise_scale"], name]) for name in names)
    else:
        value, low, high = (float(row[f"advantage{end}"]) for end in ("", "_low", "_high"))
    return with_interval(value, low, high)
