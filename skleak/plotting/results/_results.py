"""What tables, sentences and figures of an audit derive from its results; nothing is measured anew.

``audit`` is a report of an audit or its display: ``kind``, ``results`` and ``bounds``, the columns
of the results that hold bounds; where single records are asked about also ``records``.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skleak.plotting.labels import bound_label
from skleak.plotting.results._once import derived
from skleak.utils._typing import FloatArray

KINDS = ("categorical", "numeric", "record", "membership")
# Attacks that do not look at the released model.
BASELINES = ("prior", "imputation")
# Column of the largest share of the squared error that attackers with a prior remove.
SHARE = "share_at_most"
# Columns of the share that an attack removes, and of the squared error that it is a share of.
_REMOVED, _VARIANCE = "share_removed", "prior_variance"
# What is measured and its interval, by the ends of the names of their columns.
_ENDS = {"value": "", "low": "_low", "high": "_high"}
# An advantage that some attack surely reaches is mentioned from here.
_WORTH_A_WORD = 0.01
# Lower limits that attacks on membership are ranked by, the false positive rate of the first, and
# from where on it counts.
_RANKED, _AT_RATE, WORTH_A_RANK = ("tpr_at_1pct_fpr_least", "auc_least"), 0.01, 0.02
# Attacks and bounds closer than this are equal.
_SAME = 1e-9
# Bounds closer than this share a curve: equal in theory, computed by different roots.
_SAME_CURVE = 1e-7


def counts_success(audit: Any) -> bool:
    """Return True if guesses are right or wrong, rather than numbers off by an error."""
    return audit.kind in ("categorical", "membership")


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


@derived
def levels(audit: Any) -> pd.DataFrame:
    """Select the first row of each noise scale, for what all attacks share.

    Returns: index ``noise_scale``, ascending.
    """
    first = audit.results.drop_duplicates("noise_scale").set_index("noise_scale")
    return first.sort_index()


@derived
def gained(audit: Any) -> pd.DataFrame:
    """Return what every attack gains over the prior, on the scale of the bounds.

    It is the advantage; where attackers with the prior of a number are bounded, the share of the
    squared error that is removed, a mean over what the number may be.

    Returns ``value``, ``low`` and ``high``, in the order of the results.
    """
    results = audit.results
    table = _with_ends(results, "advantage")
    if not all(f"{_REMOVED}{end}" in results for end in _ENDS.values()):
        return table
    removed = _with_ends(results, _REMOVED)
    return removed.where(removed["value"].notna(), table)


def _with_ends(results: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return what was measured and the ends of its interval; NaN where a column is not there."""
    columns = [f"{name}{end}" for end in _ENDS.values()]
    return results.reindex(columns=columns).astype(float).set_axis(list(_ENDS), axis=1)


@derived
def mean_prior_error(audit: Any) -> pd.Series:
    """Return the mean squared error of guessing before the release, by noise scale.

    Where attackers with the prior of a number are bounded, it is the mean over what the number may
    be, of which their errors are means too; else it is that about these records.
    """
    first, own = levels(audit), prior_error(audit)
    if _VARIANCE not in first:
        return own
    return first[_VARIANCE].astype(float).fillna(own)


@derived
def prior_error(audit: Any) -> pd.Series:
    """Return the mean squared error of guessing the mean of the others, by noise scale."""
    results = audit.results
    # The advantage of an error is 1 less the error over that of the prior guess.
    relative, error = 1.0 - results["advantage"].astype(float), results["mse"].astype(float)
    known = np.isfinite(relative) & (relative > 0.0) & np.isfinite(error) & (error > 0.0)
    # Of the rows of a noise scale, the one that loses no digits to the difference.
    order = relative[known].sort_values(ascending=False, kind="stable").index
    best = results.loc[order].drop_duplicates("noise_scale")
    implied = (error / relative)[best.index].set_axis(best["noise_scale"])
    if (records := getattr(audit, "records", None)) is not None:
        implied = implied.combine_first(records.groupby("noise_scale")["prior"].mean())
    # Where all errors are 0, without noise, the prior guess is as at the other noise scales.
    implied = implied.reindex(levels(audit).index).astype(float)
    return implied.fillna(median(implied))


def imputation_error(audit: Any) -> pd.Series:
    """Return the mean squared error of imputation without the model, by noise scale, or NaN."""
    first = levels(audit)
    rest = (1.0 - first["baseline"].astype(float)).where(lambda share: share > 0.0)
    return prior_error(audit) * (1.0 - first["imputation"].astype(float)) / rest


def points(audit: Any) -> pd.DataFrame:
    """Return what figures and tables compare: advantages, or errors over that of the prior guess.

    Returns ``value``, ``low`` and ``high``, in the order of the results.
    """
    if counts_success(audit):
        return gained(audit)
    results = audit.results
    # What is left: the more is gained, the less. Rounding may leave it below zero.
    left = 1.0 - gained(audit)[["value", "high", "low"]].set_axis(list(_ENDS), axis=1)
    left = left.clip(lower=0.0)
    if f"{_REMOVED}_low" in results:
        return left
    guess = results["noise_scale"].map(prior_error(audit).where(lambda error: error > 0.0))
    # Where the guess is not known, what the advantage says.
    return _with_ends(results, "mse").div(guess, axis=0).fillna(left)


def relative_bounds(audit: Any, names: "list[str] | None" = None) -> pd.DataFrame:
    """Return bounds in the units of `points`, a column each, index ``noise_scale``."""
    first = levels(audit)
    table = first[list(audit.bounds if names is None else names)].astype(float)
    if counts_success(audit):
        baseline = first["baseline"].astype(float)
        return table.sub(baseline, axis=0).div((1.0 - baseline).where(baseline < 1.0), axis=0)
    return table.div(mean_prior_error(audit).where(lambda error: error > 0.0), axis=0)


@derived
def bound_advantages(audit: Any) -> pd.DataFrame:
    """Return every bound as an advantage over the prior, index ``noise_scale``.

    For errors it is 1 minus the bound over the error of the prior guess; -inf where no unbiased
    attack has a finite error.
    """
    bounds = relative_bounds(audit)
    return bounds if counts_success(audit) else 1.0 - bounds


def drawn_bounds(audit: Any) -> list[str]:
    """Return columns of the bounds that figures set beside attacks: means, as errors are."""
    names = [str(name) for name in audit.bounds]
    if counts_success(audit):
        return names
    return [f"{name}_mean" if f"{name}_mean" in audit.results else name for name in names]


def equal_columns(tables: "Mapping[Any, pd.DataFrame] | pd.DataFrame") -> dict[str, list[str]]:
    """Group the columns that are equal everywhere, in all tables; whatever equals Bayes is Bayes.

    Returns: the members of each group, by its first.
    """
    parts = [tables] if isinstance(tables, pd.DataFrame) else list(tables.values())
    names = sorted(parts[0].columns, key=lambda name: str(name).lower() != "bayes")
    columns = {
        name: np.concatenate([part[name].to_numpy(dtype=float) for part in parts]) for name in names
    }
    groups: dict[str, list[str]] = {}
    for name, values in columns.items():
        for leader in groups:
            if np.allclose(values, columns[leader], rtol=0.0, atol=_SAME_CURVE, equal_nan=True):
                groups[leader].append(name)
                break
        else:
            groups[name] = [name]
    return groups


def merged_bounds(audit: Any) -> pd.DataFrame:
    """Return bounds over the noise as measured, those that are equal in one column, tightest first.

    Returns: columns named for people, without bounds that are nowhere known.
    """
    known = levels(audit)[list(audit.bounds)].astype(float).dropna(axis=1, how="all")
    table = pd.DataFrame(
        {
            " = ".join(map(bound_label, names)): known[leader]
            for leader, names in equal_columns(known).items()
        },
        index=known.index,
    )
    order = tightest_first(table, counts_success(audit))
    # Beside bounds for all attacks, that for unbiased ones comes last, however tight.
    return table[sorted(order, key=bound_label("cramer_rao").__eq__)]


def tightest_first(table: pd.DataFrame, success: bool) -> list[str]:
    """Order columns of bounds by their mean; those on errors are tight where they are large."""
    # An infinite bound on an error is the tightest there is: it must not make means undefined.
    mean = table.clip(-1e9, 1e9).mean().sort_values(ascending=success, kind="stable")
    return list(mean.index)


def floor_of(rows: Any) -> Any:
    """Return what some attack surely reaches by the generalization gap, as an advantage."""
    return (rows["lower_bound"] - rows["baseline"]) / (1.0 - rows["baseline"])


def gives_away(rows: Any) -> Any:
    """Return True where what some attack surely reaches is worth a word."""
    return floor_of(rows) >= _WORTH_A_WORD


def floor_advantages(audit: Any) -> pd.Series | None:
    """Return what some attack surely reaches at every noise scale, as an advantage over the prior.

    Returns: index ``noise_scale``; None where it is nowhere worth a word, or the audit is not
    about membership.
    """
    if audit.kind != "membership" or "lower_bound" not in audit.results:
        return None
    first = levels(audit)[["lower_bound", "baseline"]].astype(float)
    return floor_of(first) if gives_away(first).any() else None


@derived
def tightest(audit: Any) -> pd.DataFrame:
    """Return the smallest upper bound at every noise scale.

    That of Cramer and Rao counts only where none holds for attackers with a prior.

    Returns: index ``noise_scale``; ``bound`` (its column, None without any), ``value`` (success,
    or mean squared error) and ``advantage``.
    """
    first, advantages = levels(audit), bound_advantages(audit)
    names = list(audit.bounds)
    with_prior = [name for name in names if name != "cramer_rao" and first[name].notna().any()]
    names = with_prior or names
    advantages = advantages[names]
    bounds, gains = first[names].to_numpy(dtype=float), advantages.to_numpy(dtype=float)
    # Errors are bounded from below.
    loose = bounds if counts_success(audit) else -bounds
    rows: list[tuple[str | None, float, float]] = []
    for k in range(len(first)):
        if np.isnan(loose[k]).all():
            rows.append((None, np.nan, np.nan))
            continue
        best = np.nanmin(loose[k])
        # The first of those that are equal but for round-off: the Bayes value, where it is there.
        j = int(np.argmax(loose[k] <= best + (_SAME if np.isfinite(best) else 0.0)))
        rows.append((names[j], float(bounds[k, j]), float(gains[k, j])))
    return pd.DataFrame(rows, columns=["bound", "value", "advantage"], index=first.index)


@derived
def record_advantages(audit: Any) -> pd.DataFrame:
    """Return upper bounds on what an attack gains over the prior, on average and for one record.

    For a number it is the share of the squared error that attackers with its prior remove. Other
    errors count with the smaller of the bound and the error of guessing the mean: else records
    about which nothing can be learnt would hide the others in the mean.

    Returns ``mean`` and ``largest`` advantage, index ``noise_scale``; nan where no bound is known.
    """
    records = audit.records
    prior = records["prior"].astype(float)
    bound, advantage = _of_records(audit)
    if counts_success(audit):
        mean = tightest(audit)["advantage"].astype(float)
    elif SHARE in records:
        mean = levels(audit)[SHARE].astype(float)
    else:
        groups = [values.groupby(records["noise_scale"]).sum() for values in (bound, prior)]
        # Where the bound of any record is unknown, so is the mean.
        missing = bound.isna().groupby(records["noise_scale"]).any()
        mean = (1.0 - groups[0] / groups[1].where(groups[1] > 0.0)).mask(missing)
    largest = advantage.groupby(records["noise_scale"]).max()
    table = pd.DataFrame({"mean": mean, "largest": largest}, dtype=float)
    return table.reindex(levels(audit).index)


def own_advantages(audit: Any, noise: float) -> pd.DataFrame:
    """Return upper bounds on what an attack gains over the prior about each record, at one noise.

    Returns ``record``, ``label`` and ``advantage``; nan where no bound is known.
    """
    at = audit.records["noise_scale"] == noise
    table = audit.records.loc[at, ["record", "label"]]
    return table.assign(advantage=_of_records(audit)[1][at].to_numpy(dtype=float))


def _of_records(audit: Any) -> tuple[pd.Series, pd.Series]:
    """Return the bound of every row of the records, and the advantage that it allows."""
    records = audit.records
    prior = records["prior"].astype(float)
    if counts_success(audit):
        known = [name for name in ("bayes", "tightest_bound") if name in records]
        bound = records[known].astype(float).min(axis=1)
        return bound, (bound - prior) / (1.0 - prior).where(lambda rest: rest > 0.0)
    if SHARE in records:
        share = records[SHARE].astype(float)
        return (1.0 - share) * prior, share
    known = [name for name in ("cramer_rao",) if name in records]
    bound = records[known].astype(float).min(axis=1).clip(upper=prior)
    return bound, 1.0 - bound / prior.where(prior > 0.0)


@derived
def failed_rows(audit: Any) -> pd.DataFrame:
    """Return rows of attacks on the model that do worse than guessing, beyond chance.

    Of many games a small surplus shows: a guess that was played in them must do better too. A few
    hopeless records can ruin a mean error: an attack that comes closer than a guess to half of the
    records has not failed. Nor has one whose scores tell members from others, wherever its
    threshold lies.
    """
    results = audit.results
    worse = (gained(audit)["high"] < 0.0) & ~results["attack"].isin(BASELINES)
    if counts_success(audit):
        guess = results[results["attack"] == "prior"].set_index("noise_scale")["success_low"]
        least = results["noise_scale"].map(guess).astype(float)
        worse &= ~(results["success_high"].astype(float) >= least)
        if _RANKED[0] in results:
            tpr, auc = (results[name].astype(float) for name in _RANKED)
            worse &= ~((tpr > _AT_RATE) | (auc > 0.5))
    else:
        typical: FloatArray = np.array(
            [
                _median_over_guess(audit.records, noise, attack)
                for noise, attack in zip(results["noise_scale"], results["attack"], strict=True)
            ]
        )
        worse &= ~(typical < 1.0)
    return results[worse]


def _median_over_guess(records: pd.DataFrame, noise: float, attack: str) -> float:
    """Median over the records of the error over that of the prior guess; NaN if not known."""
    column = f"mse_{attack}"
    if column not in records:
        return np.nan
    at = records[records["noise_scale"] == noise]
    prior = at["prior"].astype(float)
    return median(at[column].astype(float) / prior.where(prior > 0.0))


def median(values: pd.Series) -> float:
    """Return the median of what is known; NaN, and no warning of an older pandas, without any."""
    known = values.dropna()
    return float(known.median()) if len(known) else np.nan


@derived
def best_rows(audit: Any) -> pd.DataFrame:
    """Return the most successful attack at every noise scale, among those that look at the model.

    On membership it is the one that surely finds the most members at one false alarm in a hundred,
    which a mean over all records hides; where none surely finds 2 %, the one of the largest area
    under the curve, by lower limits of all attacks together.

    Returns: rows of the results, index ``noise_scale``, with what is ``gained`` (with ``_low`` and
    ``_high``), and ``failed``: True if even the best has, see `failed_rows`, or errs more on
    average than the best guess before the release. Where only baselines were played, the best of
    those.
    """
    results = audit.results.assign(failed=False)
    results.loc[failed_rows(audit).index, "failed"] = True
    results[["gained", "gained_low", "gained_high"]] = gained(audit)
    if not counts_success(audit):
        results["failed"] |= results["gained"] < 0.0
    seeing = results[~results["attack"].isin(BASELINES)]
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
    best = order.drop_duplicates("noise_scale").drop(columns=by[:-1])
    return best.set_index("noise_scale").sort_index()
