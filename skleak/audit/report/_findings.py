"""Facts: what the numbers of an audit mean. `_sentences` says them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from skleak.audit.report._decision import decision, mechanism_failed, surely_above
from skleak.audit.report._facts import AuditFacts
from skleak.audit.report._noise import noise_findings
from skleak.metrics import BIASED, EXCEEDED, INCOMPARABLE, VACUOUS
from skleak.plotting.results import (
    BASELINES,
    SHARE,
    WORTH_A_RANK,
    best_rows,
    counts_success,
    derived,
    failed_rows,
    floor_of,
    gives_away,
    imputation_error,
    levels,
    made_at_once,
    median,
    middle_noise,
    most_exposed,
    prior_error,
    tightest,
)
from skleak.report import Finding

# Share of what a guess gets wrong from which other columns (nearly) determine the secret one.
_NEARLY = 0.95
# Parts of a rate, by the ends of the names of their columns.
_RATE_ENDS = {"value": "", "low": "_low", "high": "_high", "least": "_least"}


Topic = Callable[[AuditFacts], Finding | None]


@derived
@made_at_once
def facts(report: AuditFacts) -> tuple[Finding, ...]:
    """Find what the numbers of an audit say; the first entry is the summary."""
    if report.results.empty:
        return (Finding("empty", {}),)
    specific: tuple[Topic, ...] = (_related, _failed, _imputed, _over_imputation)
    if report.kind == "membership":
        specific = (_rarely_wrong, _groups, _better_attack, _gap, _guarantee)
    topics = (
        *specific,
        _trained,
        _unbounded,
        _exceeded,
        _vacuous,
        _single_records,
        _power,
        _biased,
    )
    found = [_summary(report), *(topic(report) for topic in topics)]
    present = [finding for finding in found if finding is not None]
    noise = [Finding("noise", {"sentence": line}) for line in noise_findings(report)]
    exposed = _exposed(report)
    return (*present, *noise, *([] if exposed is None else [exposed]))


def _context(report: AuditFacts, noise: float) -> dict[str, Any]:
    """Say where numbers come from: noise, kind of audit, level of intervals."""
    settings = report.settings
    has_noise = settings.get("has_noise", True)
    return {
        "noise": noise,
        # A model that has no noise at all, of which no noise scale needs to be told.
        "quiet": noise == 0.0 and not has_noise and len(levels(report)) == 1,
        "unbounded": report.unbounded,
        "kind": report.kind,
        "guesses": counts_success(report),
        "attribute": report.attribute,
        "level": settings["confidence_level"],
        "secrets": settings["secrets"],
        "prior_name": settings["prior"],
    }


def _summary(report: AuditFacts) -> Finding:
    """Find which noise to choose, how the best attack does at the smallest, and what bounds it."""
    best = best_rows(report)
    noise, row = float(best.index[0]), best.iloc[0]
    bound, measured = tightest(report).loc[noise], "success" if counts_success(report) else "mse"
    at = report.records[report.records["noise_scale"] == noise]
    at_noise = report.results[report.results["noise_scale"] == noise]
    own = f"mse_{row['attack']}"
    imputation = float(row.get("imputation", np.nan))
    of_data = independent(report)
    if of_data:
        imputation = float(report.settings.get("imputed", np.nan))
    elif row["attack"] == "imputation":
        imputation = np.nan
    elif not counts_success(report) and not np.isnan(imputation):
        imputation = float(imputation_error(report).loc[noise])
    membership = report.kind == "membership"
    failed = mechanism_failed(report)
    found = {
        "attack": row["attack"],
        "failed": bool(row["failed"]),
        "value": row[measured],
        "low": row[f"{measured}_low"],
        "high": row[f"{measured}_high"],
        "half": median(at[own].astype(float)) if own in at else np.nan,
        "guess": row["baseline"] if counts_success(report) else prior_error(report).loc[noise],
        "imputation": imputation,
        "floor": row["lower_bound"] if membership and gives_away(row) else np.nan,
        "bound": None if failed else bound["bound"],
        "limit": bound["value"],
        "smallest": at["cramer_rao"].astype(float).min() if "cramer_rao" in at else np.nan,
        "with_prior": SHARE in at and not failed,
        **_least_error(at, levels(report).loc[noise]),
        "decision": decision(report),
        "beyond": _beyond(report, noise, float(bound["value"])),
        "of_data": of_data,
        "exceeded": bool((at_noise["verdict"] == EXCEEDED).any()),
        "uses_more": row["verdict"] == INCOMPARABLE,
        "sampled": bool(report.settings.get("sampled", False)),
        "scale": report.settings.get("scale", ""),
        "uncounted": report.settings.get("uncounted", ""),
        "n_targets": report.settings["n_targets"],
        "n_records": report.settings["n_records"],
    }
    if failed:
        found["unbounded"] = "the noise is not what the model states"
    return Finding("summary", _context(report, noise) | found)


def _least_error(at: pd.DataFrame, level: pd.Series) -> dict[str, Any]:
    """Find what attackers with the prior of a number get at most, of all records and of one.

    ``least``: their squared error on average over the records and what the number may be, and
    ``least_guess``: that of the guess before the release;
    ``least_of_one``, ``share_of_one`` and ``label``: of the record from which most is removed.
    """
    if SHARE not in at or at.empty:
        return {}
    share, prior = at[SHARE].astype(float), at["prior_variance"].astype(float)
    least = (1.0 - share) * prior
    one = share.fillna(-1.0).idxmax()
    return {
        "least": float((1.0 - level[SHARE]) * prior.mean()),
        "least_guess": float(prior.mean()),
        "least_of_one": float(least[one]),
        "share_of_one": float(share[one]),
        "label": at.loc[one, "label"],
    }


def _beyond(report: AuditFacts, noise: float, limit: float) -> list[str]:
    """Name attacks that are right more often than the bound, which need not be a contradiction."""
    at = report.results[report.results["noise_scale"] == noise]
    if not counts_success(report) or np.isnan(limit):
        return []
    return [str(name) for name in at["attack"][at["success"].astype(float) > limit]]


def _failed(report: AuditFacts) -> Finding | None:
    """Find attacks that are worse than guessing, and to how many records they came closer."""
    rows = failed_rows(report)
    if rows.empty:
        return None
    closer = [0]
    for _, row in rows.iterrows():
        at = report.records[report.records["noise_scale"] == row["noise_scale"]]
        if (own := f"mse_{row['attack']}") in at:
            closer.append(int((at[own].astype(float) < at["prior"].astype(float)).sum()))
    n_targets = report.settings["n_targets"]
    found = {"rows": _named(rows), "closer": max(closer), "n_targets": n_targets}
    return Finding("failed", _context(report, float(rows["noise_scale"].iloc[0])) | found)


def _over_imputation(report: AuditFacts) -> Finding | None:
    """Find what the model adds to what is known of the population."""
    row = best_rows(report).iloc[0]
    gain, low, high = (row[f"advantage_over_imputation{end}"] for end in ("", "_low", "_high"))
    if row["failed"] or np.isnan(gain) or row["attack"] in BASELINES or independent(report):
        return None
    context = _context(report, float(best_rows(report).index[0]))
    return Finding("over_imputation", context | {"value": gain, "low": low, "high": high})


def _related(report: AuditFacts) -> Finding | None:
    """Find the columns that tell the secret one without any model."""
    settings = report.settings
    by, follows = (dict(settings.get(name, {})) for name in ("determined_by", "determines"))
    known, baseline = float(settings.get("imputed", np.nan)), 0.0
    if report.kind == "categorical":
        baseline = float(levels(report)["baseline"].iloc[0])
    gain = (known - baseline) / (1.0 - baseline) if baseline < 1.0 else np.nan
    together = not by and bool(gain >= _NEARLY)
    if not (by or follows or together):
        return None
    found = {"attribute": report.attribute, "by": by, "together": together, "gain": gain}
    return Finding(
        "related", found | {"follows": {k: v for k, v in follows.items() if k not in by}}
    )


def _imputed(report: AuditFacts) -> Finding | None:
    """Find what the other columns tell without the model, where games do not count it."""
    value, row = float(report.settings.get("imputed", np.nan)), levels(report).iloc[0]
    if not independent(report) or not value > row["baseline"]:
        return None
    return Finding("imputed", {"value": value, "guess": float(row["baseline"])})


def _trained(report: AuditFacts) -> Finding | None:
    """Find what was done to train the model: searches, targets that are transformed, seeds."""
    names = ("wrappers", "chosen", "transformed", "seeded")
    found = {name: report.settings.get(name) for name in names}
    if not any(found.values()):
        return None
    found["random"] = report.settings.get("random")
    return Finding("trained", found | {"n_trainings": report.settings["n_releases"]})


def _unbounded(report: AuditFacts) -> Finding | None:
    """Find what each attack looked at, where no bound speaks of those that were not played."""
    if not report.unbounded:
        return None
    outputs = report.settings["outputs"]
    seen = {str(name): str(output) for name, output in outputs.items() if output != "nothing"}
    return Finding("unbounded", {"why": report.unbounded, "outputs": seen})


def _rarely_wrong(report: AuditFacts) -> Finding | None:
    """Find the few members found beyond doubt, whom a mean over all records hides."""
    best, name = best_rows(report), "tpr_at_1pct_fpr"
    row: Any = best.iloc[0]
    if np.isnan(row[name]):
        return None
    found = {part: row[f"{name}{end}"] for part, end in _RATE_ENDS.items()}
    found |= {f"auc_{part}": row[f"auc{end}"] for part, end in _RATE_ENDS.items()}
    found["by"] = "tpr" if found["least"] >= WORTH_A_RANK else "auc"
    context = _context(report, float(best.index[0]))
    return Finding("rarely_wrong", context | found | {"attack": row["attack"]})


def _groups(report: AuditFacts) -> Finding | None:
    """Find the groups that are told apart by more than chance explains, worst first."""
    table = report.groups
    if table.empty:
        return None
    above = table[table["p_value"] <= 1.0 - report.settings["confidence_level"]]
    # Each group by the attack, and at the noise, that shows most.
    above = above.sort_values("success", ascending=False, kind="stable")
    above = above.drop_duplicates(["kind", "group"])
    if above.empty:
        return None
    columns = ["kind", "group", "attack", "noise_scale", "n_records", "n_games", "n_right"]
    found = {"rows": above[columns].to_dict("records"), "of": len(table[["kind", "group"]]
             .drop_duplicates())}  # fmt: skip
    return Finding("groups", _context(report, float(above["noise_scale"].iloc[0])) | found)


def _better_attack(report: AuditFacts) -> Finding | None:
    """Find where the gap promises more than any attack played has reached."""
    parts = report.results.groupby("noise_scale")
    found = [
        (float(str(noise)), float(part["lower_bound"].iloc[0]), float(part["success_high"].max()))
        for noise, part in parts
    ]
    found = [each for each in found if each[1] > each[2]]
    if not found:
        return None
    noise, floor, reached = found[0]
    facts = {"floor": floor, "reached": reached, "n_scales": len(found)}
    return Finding("better_attack", _context(report, noise) | facts)


def _gap(report: AuditFacts) -> Finding | None:
    row = levels(report).iloc[0]
    if np.isnan(row["gap"]):
        return None
    found = {"value": row["gap"], "low": row["gap_low"], "high": row["gap_high"]}
    found |= {"loss": report.settings["gap_loss"], "gives_away": bool(gives_away(row))}
    noise = float(levels(report).index[0])
    return Finding("gap", _context(report, noise) | found | {"floor": float(floor_of(row))})


def _guarantee(report: AuditFacts) -> Finding | None:
    """Find what differential privacy promises, beside what is so for these records."""
    first = levels(report)
    if "dp" not in first or first["dp"].isna().all():
        return None
    noise = float(first.index[int(np.argmin(first["dp"].to_numpy(dtype=float)))])
    row: Any = first.loc[noise]
    bayes = row["bayes"] if "bayes" in first else np.nan
    return Finding("guarantee", _context(report, noise) | {"limit": row["dp"], "bayes": bayes})


def _exceeded(report: AuditFacts) -> Finding | None:
    """Find the comparisons that exceed their bound, or that none does."""
    judged = judged_rows(report)["verdict"]
    exceeded, n_bounded = judged_rows(report)[judged == EXCEEDED], int((judged != VACUOUS).sum())
    if not len(exceeded) and not n_bounded:
        return None
    noise = float(report.results["noise_scale"].iloc[0])
    found = {"n": len(exceeded), "of": len(judged), "n_bounded": n_bounded}
    found["with_prior"] = SHARE in report.records
    return Finding("exceeded", _context(report, noise) | found | {"rows": _named(exceeded)})


def _vacuous(report: AuditFacts) -> Finding | None:
    judged = judged_rows(report)["verdict"]
    n = int((judged == VACUOUS).sum())
    if report.unbounded:
        return None
    return Finding("vacuous", {"n": n, "of": len(judged)}) if n else None


def _single_records(report: AuditFacts) -> Finding | None:
    if "verdict" not in report.records:
        return None
    found = report.records[report.records["verdict"] == EXCEEDED].drop_duplicates("record")
    if found.empty:
        return None
    labels = found.sort_values("record")["label"].tolist()
    return Finding("single_records", {"labels": labels, "named_by": report.settings["labels"]})


def _power(report: AuditFacts) -> Finding | None:
    """Find how far above its bound an attack had to be, to be found; None without a bound."""
    if "detectable_excess" not in report.results:
        return None
    excess = report.results["detectable_excess"].to_numpy(dtype=float)
    excess = excess[~np.isnan(excess)]
    if not len(excess):
        return None
    finite = excess[np.isfinite(excess)]
    largest = float(finite.max()) if len(finite) else np.inf
    return Finding("power", {"excess": largest, "some_never": len(finite) < len(excess)})


def _biased(report: AuditFacts) -> Finding | None:
    rows = report.results[report.results["verdict"] == BIASED]
    if rows.empty:
        return None
    row = rows.iloc[0]
    found = {"squared_bias": row["squared_bias"], "variance": row["variance"]}
    return Finding("biased", found | {"rows": _named(rows)})


def _exposed(report: AuditFacts) -> Finding | None:
    top, membership = most_exposed(report, 5), report.kind == "membership"
    source = top.attrs["source"]
    if top.empty or (membership and source is None):
        return None
    first = top.iloc[0]
    unknown = source is None or np.isnan(first["exposure"])
    found = {
        "labels": top["label"].tolist(),
        "named_by": report.settings["labels"],
        "source": None if unknown and not membership else str(source),
        "eta": first["eta"],
        "value": first["value"],
        "guess": first["prior"],
        "share": first["exposure"],
        "n_targets": report.settings["n_targets"],
        "n_beyond": _beyond_chance(report, str(source)) if membership else 0,
        "n_releases": report.settings["n_releases"],
        "enough_releases": _enough_releases(report) if membership else 0,
        "failed": mechanism_failed(report),
    }
    return Finding("exposed", _context(report, middle_noise(report)) | found)


def _beyond_chance(report: AuditFacts, source: str) -> int:
    """Count records about which an attack is right more often than guessing."""
    if not source.startswith("success_"):
        return 0
    at = report.records[report.records["noise_scale"] == middle_noise(report)]
    return int(surely_above(report, at[source], at["n_games"], at["prior"]).sum())


def _enough_releases(report: AuditFacts) -> int:
    """Return how many releases tell for single records; 0 where any number does."""
    known = report.results.get("enough_releases", pd.Series(dtype=float)).dropna()
    return int(known.max()) if len(known) else 0


def judged_rows(report: AuditFacts) -> pd.DataFrame:
    """Select the results that a bound is about."""
    return report.results[report.results["verdict"] != INCOMPARABLE]


def independent(report: AuditFacts) -> bool:
    """Return True if secrets are drawn without what the other columns tell of them."""
    settings = report.settings
    drawn = report.kind == "categorical" and settings["secrets"] == "drawn"
    return drawn and settings["prior"] != "conditional"


def _named(rows: pd.DataFrame) -> dict[str, list[float]]:
    """Return attacks, each with its noise scales."""
    groups = rows.groupby("attack", sort=False)["noise_scale"]
    return {str(attack): part.tolist() for attack, part in groups}
