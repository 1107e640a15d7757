"""Columns about the squared error that attackers with a prior of a number may remove."""

import numpy as np
from scipy import stats

from skleak.audit.tables._design import Outcome, SecretDesign
from skleak.audit.tables._sampled import N_ERRORS
from skleak.metrics import BIASED, CONSISTENT, EXCEEDED, VACUOUS, Interval
from skleak.utils._typing import FloatArray

# Persons, or games, from which a regression tells more than a mean.
_FEWEST = 8
# Share of a mean square that sums lose.
_LOST = 1e-12
_ROUND_OFF = 1e-9


def least_errors(bounds: Outcome) -> FloatArray:
    """Tightest lower bound on the error about every record, (n_targets,); 0 where none is known.

    The Bayes risk less its error, or the bound of van Trees where that is larger.
    """
    risk = np.nan_to_num(bounds["bayes_mse"] - bounds["bayes_mse_error"], nan=0.0)
    return np.maximum(np.nan_to_num(bounds["van_trees"], nan=0.0), np.maximum(risk, 0.0))


def shares_at_most(design: SecretDesign, bounds: Outcome) -> FloatArray:
    """Largest share of the squared error about every record that is removed, (n_targets,).

    NaN where no bound was computed, of some of many records.
    """
    variance = design.prior_variance
    assert variance is not None
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.clip(1.0 - least_errors(bounds) / variance, 0.0, 1.0)
    return np.where(np.isnan(bounds["van_trees"]), np.nan, shares)


def number_columns(
    design: SecretDesign, outcome: Outcome, mse: float, bounds: Outcome | None
) -> dict[str, float]:
    """Share that an attack removes, bounds on errors, and the share that any attack removes."""
    error = float(np.mean(design.prior_score))
    if design.prior_variance is None or bounds is None:
        return {"share_removed": 1.0 - mse / error if error > 0.0 else np.nan}
    share = Interval(np.nan, np.nan, np.nan)
    if comparable(design, outcome):
        share = removed(design, outcome, design.confidence_level)
    ends = zip(("", "_low", "_high"), share, strict=True)
    columns = {f"share_removed{end}": float(value) for end, value in ends}
    most = share_at_most(design, bounds)
    columns |= _mean_bounds(design.prior_variance, bounds) | {"share_at_most": most}
    if "estimate" in bounds:
        columns["van_trees"] = (1.0 - most) * columns["prior_variance"]
    return columns


def comparable(design: SecretDesign, outcome: Outcome) -> bool:
    """Return True if an attack guesses the numbers that the prior is of, and nothing beside."""
    if design.prior_variance is None:
        return False
    return bool(outcome.get("of_prior", True))


def _mean_bounds(variance: FloatArray, bounds: Outcome) -> dict[str, float]:
    """Means over the records for which they are computed, and of how many they are not resolved."""
    some, known = bounds["computed"], ~np.isnan(bounds["bayes_mse"])
    columns = {
        "prior_variance": float(variance.mean()),
        "van_trees": _mean(bounds["van_trees"]),
        "bayes_mse": _mean(bounds["bayes_mse"][known]),
        "bayes_mse_error": _mean(bounds["bayes_mse_error"][known]),
    }
    if not some.all():
        columns["n_computed"] = int(some.sum())
    if "resolved" in bounds:
        columns["n_unresolved"] = int((some & ~bounds["resolved"]).sum())
    return columns


def _mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


def share_at_most(design: SecretDesign, bounds: Outcome) -> float:
    """Share of the squared error that is removed on average over all records, at most.

    Of many records those with bounds are a random sample, whose own error is allowed for.
    """
    variance, some, least = design.prior_variance, bounds["computed"], least_errors(bounds)
    assert variance is not None
    if variance.sum() <= 0.0:
        return np.nan
    share, drawn = 1.0 - float(least.sum() / variance.sum()), 0.0
    if "estimate" in bounds:
        # Draws are independent from record to record: less is allowed for in their mean.
        drawn = N_ERRORS * np.sqrt(np.sum(bounds["draw_error"][some] ** 2)) / variance[some].sum()
        least = np.where(some, bounds["estimate"], 0.0)
        share = min(share, 1.0 - float(least.sum() / variance.sum()) + drawn)
    n = int(some.sum())
    if 1 < n < len(some):
        ratio = least[some].sum() / variance[some].sum()
        rest = least[some] - ratio * variance[some]
        error = N_ERRORS * np.std(rest, ddof=1) / np.sqrt(n) / variance[some].mean()
        share = min(share, float(1.0 - ratio + error + drawn))
    return min(max(share, 0.0), 1.0)


def removed(design: SecretDesign, outcome: Outcome, level: float) -> Interval:
    """Share of the squared error that an attack removes, on the scale of `share_at_most`.

    It is by how much it errs less than the mean of the prior, over the variance of the prior, and
    so both are means over what the numbers may be. The numbers that were played with are some of
    these, by chance further off from their means than others: what an attack removes is regressed
    on how far they are, and read off at the mean square that the prior expects (Cochran 1977,
    chapter 7). Actual numbers that are no draws from the prior, by more than chance explains, are
    taken as they are. The interval is Student's, over persons and over releases; NaN of one.
    """
    assert design.prior_variance is not None
    variance = float(design.prior_variance.mean())
    if variance <= 0.0:
        return Interval(np.nan, np.nan, np.nan)
    if design.drawn:
        count, *sums = outcome["removed"].tolist()
        shared, n_releases = 0.0, np.inf
    else:
        # From the mean of the variances: each was learned without the number that it is about.
        gains, off = design.prior_score - outcome["mse"], design.prior_score - variance
        count, n_releases = float(len(gains)), float(len(outcome["mse_by_release"]))
        sums = [gains.sum(), off.sum(), gains @ gains, off @ off, gains @ off]
        shared = 0.0
        if outcome["exact"]:
            n_releases = np.inf
        elif n_releases > 1.0:
            shared = float(np.var(outcome["mse_by_release"], ddof=1)) / n_releases
    mean, error, degrees = _regressed(count, *sums, always=design.drawn)
    degrees = min(degrees, n_releases - 1.0)
    share = mean / variance
    if degrees < 1.0:
        return Interval(share, np.nan, np.nan)
    half = float(stats.t.isf(0.5 * (1.0 - level), degrees)) * np.sqrt(error + shared) / variance
    return Interval(share, share - half, min(share + half, 1.0))


def _regressed(
    n: float, y: float, x: float, yy: float, xx: float, xy: float, *, always: bool
) -> tuple[float, float, float]:
    """Mean of y where x is 0, its variance, and degrees of freedom, from sums over n."""
    mean, off = y / n, x / n
    var_y, var_x, both = yy / n - mean**2, xx / n - off**2, xy / n - mean * off
    var_y, var_x = max(var_y, 0.0), max(var_x, 0.0)
    if n < _FEWEST or var_x <= _LOST * xx / n:
        return mean, var_y / max(n - 1.0, 1.0), n - 1.0
    if not always and off**2 > N_ERRORS**2 * var_x / (n - 1.0):
        return mean, var_y / (n - 1.0), n - 1.0
    slope = both / var_x
    residual = max(var_y - slope * both, 0.0) * n / (n - 2.0)
    return mean - slope * off, residual / n * (1.0 + off**2 / var_x), n - 2.0


def number_record_columns(design: SecretDesign, bounds: Outcome | None) -> dict[str, FloatArray]:
    """Bounds about every record, and the largest share that any attack removes."""
    if design.prior_variance is None or bounds is None:
        return {}
    names = ("van_trees", "bayes_mse", "bayes_mse_error")
    columns = {name: bounds[name] for name in names}
    if not bounds["computed"].all():
        columns["computed"] = bounds["computed"]
    columns["prior_variance"] = design.prior_variance
    return columns | {"share_at_most": shares_at_most(design, bounds)}


def number_verdict(
    design: SecretDesign, outcome: Outcome, bounds: Outcome | None, unbiased: str
) -> str:
    """Judge an error by the bounds that hold for it.

    By that of Cramer and Rao, `unbiased`, where it is sharp and the attack is not biased; else by
    the largest share that attackers with the prior remove, which the whole interval of the share
    that this one removes has to be above.
    """
    if bounds is None or not comparable(design, outcome):
        return unbiased
    most, ignores = share_at_most(design, bounds), bool(outcome.get("ignores", True))
    # Attacks that ignore the releases use what the prior leaves out, or nothing.
    share = removed(design, outcome, design.verdict_level)
    if not ignores and share.low > most + _ROUND_OFF:
        return EXCEEDED
    if unbiased not in (VACUOUS, BIASED):
        return unbiased
    if not most < 1.0 or ignores or np.isnan(share.low):
        return unbiased
    return CONSISTENT
