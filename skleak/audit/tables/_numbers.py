"""Columns about the squared error that attackers with a prior of a number may remove."""

import numpy as np

from skleak.audit.tables._design import Outcome, SecretDesign
from skleak.audit.tables._sampled import N_ERRORS
from skleak.metrics import BIASED, CONSISTENT, EXCEEDED, VACUOUS
from skleak.utils._typing import FloatArray


def least_errors(bounds: Outcome) -> FloatArray:
    """Tightest lower bound on the error about every record, (n_targets,).

    The Bayes risk less its error, or the bound of van Trees where that is larger.
    """
    risk = np.nan_to_num(bounds["bayes_mse"] - bounds["bayes_mse_error"], nan=0.0)
    return np.maximum(bounds["van_trees"], np.maximum(risk, 0.0))


def shares_at_most(design: SecretDesign, bounds: Outcome) -> FloatArray:
    """Largest share of the squared error about every record that is removed, (n_targets,)."""
    variance = design.prior_variance
    assert variance is not None
    return np.clip(1.0 - least_errors(bounds) / variance, 0.0, 1.0)


def number_columns(design: SecretDesign, mse: float, bounds: Outcome | None) -> dict[str, float]:
    """Share that an attack removes, bounds on errors, and the share that any attack removes."""
    error = float(np.mean(design.prior_score))
    columns = {"share_removed": 1.0 - mse / error if error > 0.0 else np.nan}
    if design.prior_variance is None or bounds is None:
        return columns
    risk, off = bounds["bayes_mse"], bounds["bayes_mse_error"]
    some = ~np.isnan(risk)
    return columns | {
        "van_trees": float(bounds["van_trees"].mean()),
        "bayes_mse": float(risk[some].mean()) if some.any() else np.nan,
        "bayes_mse_error": float(off[some].mean()) if some.any() else np.nan,
        "share_at_most": _mean_share(design.prior_variance, least_errors(bounds), some),
    }


def _mean_share(variance: FloatArray, least: FloatArray, some: FloatArray) -> float:
    """Share of the squared error that is removed on average over all records, at most.

    Shapes: (n_targets,) each; ``some`` are the records whose risk is known. Of many records these
    are a sample, whose own error is allowed for.
    """
    share = 1.0 - float(least.sum() / variance.sum())
    n = int(some.sum())
    if 1 < n < len(some):
        ratio = least[some].sum() / variance[some].sum()
        rest = least[some] - ratio * variance[some]
        error = N_ERRORS * np.std(rest, ddof=1) / np.sqrt(n) / variance[some].mean()
        share = min(share, float(1.0 - ratio + error))
    return min(max(share, 0.0), 1.0)


def number_record_columns(design: SecretDesign, bounds: Outcome | None) -> dict[str, FloatArray]:
    """Bounds about every record, and the largest share that any attack removes."""
    if design.prior_variance is None or bounds is None:
        return {}
    names = ("van_trees", "bayes_mse", "bayes_mse_error")
    columns = {name: bounds[name] for name in names}
    columns["prior_variance"] = design.prior_variance
    return columns | {"share_at_most": shares_at_most(design, bounds)}


def number_verdict(unbiased: str, highest: float, least: float | None) -> str:
    """Judge an error by the bounds that hold for it.

    By that of Cramer and Rao, `unbiased`, where it is sharp and the attack is not biased; else by
    the mean `least` of the bounds for attackers with a prior, None where there is none, against the
    upper end of the interval of the mean error.
    """
    if least is not None and highest < least * (1.0 - 1e-9):
        return EXCEEDED
    if unbiased not in (VACUOUS, BIASED):
        return unbiased
    if least is None or least <= 0.0 or np.isinf(highest):
        return unbiased
    return CONSISTENT
