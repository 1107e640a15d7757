"""How large the advantage of attackers may be, at every noise scale."""

import math

import pandas as pd

from skleak.audit.report._facts import AuditFacts
from skleak.metrics import EXCEEDED
from skleak.rendering.results import BASELINES, SHARE, counts_success, record_advantages


def largest_advantages(report: AuditFacts) -> pd.DataFrame:
    """Return the largest advantage over the prior that an attacker may have, by noise scale.

    For one of a few values, or membership, it is that of the tightest bound, which no attack
    exceeds for secrets drawn from the prior; and that of an attack which was found to exceed it on
    the actual secrets, and knows more than imputation does without the model. Where there is no
    bound it is that of the best attack played. For a number it is the share of the squared error
    that attackers with its prior remove on average, or an attack that was played. Of whole records,
    for which there is a bound for unbiased attacks only, nothing is known of attackers with a
    prior. Attacks that do not look at the model do not count.

    Returns: index ``noise_scale``; ``advantage`` (NaN where nothing is known) and ``source``
    (``bound`` or the name of an attack).
    """
    bounds = record_advantages(report)["mean"]
    played = report.results[~report.results["attack"].isin(BASELINES)]
    rows = []
    if not counts_success(report) and SHARE not in report.records:
        bounds = bounds * math.nan
    for noise, bound in bounds.items():
        at = played[played["noise_scale"] == noise]
        if counts_success(report) and not math.isnan(bound):
            at = at[at["verdict"] == EXCEEDED]
            if report.kind == "categorical":
                at = at[~(at["advantage_over_imputation"] <= 0.0)]
        elif math.isnan(bound) and not counts_success(report):
            at = at[:0]
        known = at.loc[at["advantage"].notna(), ["advantage", "attack"]]
        found = [(float(advantage), str(name)) for advantage, name in known.to_numpy().tolist()]
        if not math.isnan(bound):
            found.insert(0, (float(bound), "bound"))
        rows.append(max(found, key=lambda each: each[0], default=(math.nan, "nothing")))
    return pd.DataFrame(rows, columns=["advantage", "source"], index=bounds.index)
