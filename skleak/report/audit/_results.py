"""What the pages of an audit derive from its tables; nothing is measured anew.

``audit`` is a report of an audit: ``kind``, ``results``, ``records``, ``settings`` and ``bounds``.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from skleak.plotting.displays import counts_success
from skleak.plotting.labels import bound_label

# Attacks that do not look at the released model.
BASELINES = ("prior", "imputation")
# Column of the largest share of the squared error that attackers with a prior remove.
SHARE = "share_at_most"
# What is measured and its interval, by the ends of the names of their columns.
ENDS = {"value": "", "low": "_low", "high": "_high"}
# Bounds closer than this share a curve: equal in theory, computed by different roots.
_SAME_CURVE = 1e-7
# Lower limits that attacks on membership are ranked by, and from where on the first counts.
_RANKED, WORTH_A_RANK = ("tpr_at_1pct_fpr_least", "auc_least"), 0.02


@dataclass(frozen=True, repr=False)
class AuditFacts:
    """Fields of an `AuditReport`, which says what they hold."""

    estimator: str
    attribute: str | None
    kind: str
    results: pd.DataFrame
    records: pd.DataFrame
    settings: dict[str, Any]
    reproducibility: dict[str, str]
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)
    groups: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def bounds(self) -> tuple[str, ...]:
        """Columns of the results that hold bounds."""
        return tuple(map(str, self.settings["bounds"]))

    @property
    def noiseless(self) -> bool:
        """True if there is no noise to speak of: none of the model's own, and none added."""
        own = self.kind != "membership" and self.settings.get("has_noise", True)
        return not own and not self.results["noise_scale"].any()

    @property
    def unbounded(self) -> str:
        """Reason no bound applies; empty if one does."""
        return str(self.settings.get("no_bound", "") or self.settings.get("uncounted", ""))

    @property
    def mechanism_failed(self) -> bool:
        """True if the noise was found not to be what bounds suppose: none of them holds."""
        return not self.checks.empty and not bool(self.checks["passed"].astype(bool).all())


def levels(audit: Any) -> pd.DataFrame:
    """Select the first row of each noise scale, for what all attacks share; by ``noise_scale``."""
    return audit.results.drop_duplicates("noise_scale").set_index("noise_scale").sort_index()


def gained(audit: Any) -> pd.DataFrame:
    """Return what every attack gains over guessing: ``value``, ``low`` and ``high``.

    It is the advantage; of numbers with a prior the share of the squared error that is removed.
    """
    table = _with_ends(audit.results, "advantage")
    if "share_removed_low" not in audit.results:  # without a prior it is the same number
        return table
    removed = _with_ends(audit.results, "share_removed")
    return removed.where(removed["value"].notna(), table)


def _with_ends(results: pd.DataFrame, name: str) -> pd.DataFrame:
    columns = [f"{name}{end}" for end in ENDS.values()]
    return results.reindex(columns=columns).astype(float).set_axis(list(ENDS), axis=1)


def guess_success(audit: Any, records: pd.DataFrame) -> pd.Series:
    """Return how often a guess without the model is right about each record.

    About an actual secret it is right always or never: where the same guess names it, no model
    did.
    """
    prior = records["prior"].astype(float)
    actual = audit.kind == "categorical" and audit.settings.get("secrets") == "actual"
    if not actual or "success_prior" not in records:
        return prior
    return prior.combine(records["success_prior"].astype(float), np.fmax)


def merged_bounds(audit: Any) -> pd.DataFrame:
    """Return bounds over the noise, those that are equal in one column, the tightest first."""
    known = levels(audit)[list(audit.bounds)].astype(float).dropna(axis=1, how="all")
    groups: dict[str, list[str]] = {}
    # Whatever equals Bayes is Bayes.
    for name in sorted(known, key=lambda name: name.lower() != "bayes"):
        same: Any = {"rtol": 0.0, "atol": _SAME_CURVE, "equal_nan": True}
        equal = (leader for leader in groups if np.allclose(known[name], known[leader], **same))
        groups.setdefault(next(equal, name), []).append(name)
    labels = {leader: " = ".join(map(bound_label, names)) for leader, names in groups.items()}
    table = known[list(groups)].rename(columns=labels)
    # Bounds on errors are tight where they are large: an infinite one must not undo the means.
    mean = table.clip(-1e9, 1e9).mean()
    order = mean.sort_values(ascending=counts_success(audit), kind="stable").index
    # Beside bounds for all attacks, that for unbiased ones comes last, however tight.
    return table[sorted(order, key=bound_label("cramer_rao").__eq__)]


def failed_rows(audit: Any) -> pd.Series:
    """Return True for attacks on the model that do worse than guessing, beyond chance.

    A few hopeless records can ruin a mean error: an attack that comes closer than a guess to half
    of the records has not failed. Nor has one whose scores tell members from others.
    """
    results = audit.results
    worse = (gained(audit)["high"] < 0.0) & ~results["attack"].isin(BASELINES)
    if counts_success(audit):
        # Of many games a small surplus shows: a guess that was played in them must do better too.
        guess = results[results["attack"] == "prior"].set_index("noise_scale")["success_low"]
        worse &= ~(results["success_high"] >= results["noise_scale"].map(guess).astype(float))
        if _RANKED[0] in results:
            tpr, auc = (results[name].astype(float) for name in _RANKED)
            worse &= ~((tpr > 0.01) | (auc > 0.5))
        return worse
    for k in worse.index[worse]:
        own, records = f"mse_{results.loc[k, 'attack']}", audit.records
        at = records[records["noise_scale"] == results.loc[k, "noise_scale"]]
        if own in at:
            prior = at["prior"].astype(float)
            worse[k] = not (at[own].astype(float) / prior.where(prior > 0.0)).median() < 1.0
    return worse


def best_rows(audit: Any) -> pd.DataFrame:
    """Return the most successful attack that looks at the model, by ``noise_scale``.

    On membership it is the one that surely finds the most members at one false alarm in a hundred;
    where none surely finds 2 %, the one of the largest area under the curve, by lower limits of
    all attacks together. With what is ``gained`` (and ``_low``, ``_high``), and ``failed``: whether
    even it does worse than guessing. Where only baselines were played, the best of those.
    """
    results = audit.results.assign(failed=failed_rows(audit))
    results[["gained", "gained_low", "gained_high"]] = gained(audit)
    if not counts_success(audit):
        results["failed"] |= results["gained"] < 0.0
    seeing = results[~results["attack"].isin(BASELINES)]
    if audit.settings["secrets"] == "drawn" and "adds_over_imputation" in seeing:
        # Secrets as they are and drawn ones are not guessed equally well.
        seeing = seeing[seeing["adds_over_imputation"].isna()]
    played = seeing if len(seeing) else results
    by = ["success"] if counts_success(audit) else ["gained"]
    if _RANKED[0] in played:
        tpr, auc = (played[name].astype(float).fillna(-1.0) for name in _RANKED)
        enough = tpr.groupby(played["noise_scale"]).transform("max") >= WORTH_A_RANK
        played = played.assign(first=tpr.where(enough, auc), second=auc)
        by = ["first", "second", *by]
    order = played.sort_values(
        ["failed", *by], ascending=[True] + [False] * len(by), kind="stable", na_position="last"
    )
    return order.drop_duplicates("noise_scale").set_index("noise_scale").sort_index()
