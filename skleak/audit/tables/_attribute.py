"""Tables of an audit from the outcomes of its cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from skleak.audit.games._game import Outcome
from skleak.audit.games._subject import Kind
from skleak.audit.tables._verdicts import (
    error_verdict,
    found_excess,
    record_verdicts,
    success_verdict,
)
from skleak.metrics import Interval, binomial_interval, mean_interval
from skleak.utils._typing import FloatArray

__all__ = ["Design", "cell_key", "records_table", "results_table"]

_ADVANTAGE = ("advantage", "advantage_low", "advantage_high")
_OVER_IMPUTATION = tuple(
    name.replace("advantage", "advantage_over_imputation") for name in _ADVANTAGE
)


@dataclass(frozen=True)
class Design:
    """What the tables need to know of an audit besides the outcomes of its cells.

    Parameters
    ----------
    kind : {"categorical", "numeric", "record"}
        What is secret.
    targets : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    unit_eta, prior_score : ndarray of shape (n_targets,)
        As in `Subject`.
    baseline, imputation, spread : float
        As in `Subject`.
    attacks : tuple of str
        Names of the attacks.
    noise_scales : tuple of float
        Noise levels, ascending.
    bounds : tuple of str
        Columns of bounds.
    n_releases : int
        Releases, or games of each target.
    drawn : bool
        Whether the secrets are drawn.
    confidence_level, verdict_level : float
        Of the intervals shown, and of those behind the verdicts.
    etas : dict of float to ndarray of shape (n_targets,), default={}
        Fisher information losses by noise level; by default ``unit_eta`` over the noise.
    """

    kind: Kind
    targets: Any
    unit_eta: FloatArray
    prior_score: FloatArray
    baseline: float
    imputation: float
    spread: float
    attacks: tuple[str, ...]
    noise_scales: tuple[float, ...]
    bounds: tuple[str, ...]
    n_releases: int
    drawn: bool
    confidence_level: float
    verdict_level: float
    etas: Mapping[float, FloatArray] = field(default_factory=dict)

    def eta(self, noise_scale: float) -> FloatArray:
        """Fisher information losses at a noise level, of shape (n_targets,)."""
        if noise_scale in self.etas:
            return self.etas[noise_scale]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.unit_eta > 0.0, self.unit_eta / noise_scale, self.unit_eta)


def cell_key(noise_scale: float, name: str) -> str:
    """Key of a cell: a noise level, and an attack or what else is computed there."""
    return f"{noise_scale!r}|{name}"


def results_table(design: Design, cells: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row for each noise level and attack whose cell is finished."""
    rows = []
    for noise in design.noise_scales:
        bounds = cells.get(cell_key(noise, "bounds"))
        utility = cells.get(cell_key(noise, "utility"), {}).get("utility", np.array(np.nan))
        for name in design.attacks:
            outcome = cells.get(cell_key(noise, name))
            if outcome is None:
                continue
            start = {"noise_scale": noise, "attack": name}
            row = _success_row if design.kind == "categorical" else _error_row
            rows.append(start | row(design, outcome, bounds, float(utility.mean())))
    return pd.DataFrame(rows)


def _success_row(
    design: Design, outcome: Outcome, bounds: Outcome | None, utility: float
) -> dict[str, Any]:
    means = dict.fromkeys(design.bounds, np.nan)
    error = 0.0
    if bounds is not None:
        means = {name: float(bounds[name].mean()) for name in design.bounds}
        # Points of quasi Monte Carlo are shared: errors of the records may all lie on one side.
        error = float(bounds["standard_error"].mean())
    shown = _success_interval(outcome, design.confidence_level)
    judged = _success_interval(outcome, design.verdict_level, "betting")
    tightest = min(means.values(), default=np.nan)
    n_secrets = 0 if design.drawn else len(design.targets)
    return {
        **_scores(design, shown),
        "verdict": success_verdict(
            judged.low, judged.high, tightest, error, n_secrets, design.verdict_level
        ),
        "utility": utility,
        "n_games": int(outcome["games"]),
        "detectable_excess": _detectable(design, outcome, tightest, error, n_secrets),
        **means,
    }


def _detectable(
    design: Design, outcome: Outcome, bound: float, error: float, n_secrets: int
) -> float:
    """Excess over the bound that these games would find; a fact is found without error."""
    shares, games = outcome.get("shares"), int(outcome["games"])
    if outcome.get("exact", False):
        shares, games = None, 0
    return found_excess(shares, games, bound, error, n_secrets, design.verdict_level)


def _success_interval(outcome: Outcome, level: float, method: str = "gaffke") -> Interval:
    """Clustered by release where records share one; else exact, as all games are independent.

    Games about different records differ in their chance of success. The sum of such trials
    spreads no more than a binomial of the mean chance (Hoeffding 1956).
    """
    if outcome.get("exact", False):
        fact = float(outcome["hits"] / outcome["games"])
        return Interval(fact, fact, fact)
    if "shares" in outcome:
        return mean_interval(
            outcome["shares"], confidence_level=level, value_range=(0.0, 1.0), method=method
        )
    return binomial_interval(float(outcome["hits"]), float(outcome["games"]), level)


def _scores(design: Design, success: Interval) -> dict[str, Any]:
    names = ("success", "success_low", "success_high")
    return {
        **dict(zip(names, map(float, success), strict=True)),
        "baseline": design.baseline,
        **_gain(_ADVANTAGE, success, design.baseline),
        "imputation": design.imputation,
        **_gain(_OVER_IMPUTATION, success, design.imputation),
    }


def _gain(names: Sequence[str], success: Interval, baseline: float) -> dict[str, float]:
    if np.isnan(baseline) or baseline >= 1.0:
        return dict.fromkeys(names, np.nan)
    gain = ((float(value) - baseline) / (1.0 - baseline) for value in success)
    return dict(zip(names, gain, strict=True))


def _error_row(
    design: Design, outcome: Outcome, bounds: Outcome | None, utility: float
) -> dict[str, Any]:
    level = design.confidence_level
    mse = _error_interval(outcome, "mse_by_release", level)
    # More error is less success.
    success = Interval(*(1.0 - value / design.spread for value in (mse[0], mse[2], mse[1])))
    success = Interval(success[0], success[1], min(success[2], 1.0))
    ratio = judged = Interval(np.nan, np.nan, np.nan)
    if not np.isnan(outcome["ratio"]):
        ratio = _ratio_interval(outcome, level)
        judged = _ratio_interval(outcome, design.verdict_level)
    return {
        **_scores(design, success),
        "verdict": error_verdict(judged.low, judged.high, _is_biased(design, outcome)),
        "utility": utility,
        "n_games": int(outcome["games"]),
        "mse": mse.estimate,
        "mse_low": mse.low,
        "mse_high": mse.high,
        "variance": float(outcome["variance"].mean()),
        "squared_bias": float(outcome["squared_bias"].mean()),
        "mse_over_bound": ratio.estimate,
        "mse_over_bound_low": ratio.low,
        "mse_over_bound_high": ratio.high,
        **_bounds_on_errors(outcome["bound"], design.prior_score),
    }


def _bounds_on_errors(bounds: FloatArray, prior_score: FloatArray) -> dict[str, float]:
    """Median and mean of lower bounds, where one that is not known is none: 0.

    Whoever cannot learn about a record guesses it: in the mean it counts with no more than that.
    """
    if np.isnan(bounds).all():
        return {"cramer_rao": np.nan, "cramer_rao_mean": np.nan}
    known = np.nan_to_num(bounds, nan=0.0, posinf=np.inf)
    return {
        "cramer_rao": float(np.median(known)),
        "cramer_rao_mean": float(np.minimum(known, prior_score).mean()),
    }


def _error_interval(outcome: Outcome, name: str, level: float) -> Interval:
    """Student's interval over releases, not below zero."""
    values = outcome[name]
    if outcome["exact"]:
        return Interval(*[float(values[0])] * 3)
    estimate, low, high = mean_interval(values, confidence_level=level)
    return Interval(estimate, max(low, 0.0), high)


def _ratio_interval(outcome: Outcome, level: float) -> Interval:
    """Interval of the median over the records of the error over its bound.

    All records may share one noise: their mean errors are then as skewed as a chi-squared variable
    over its degrees of freedom, one a release. A median lies beyond a value only if half of the
    records do, which is at most twice as likely as that one does (Markov). Student's interval of
    the mean ratio allows for errors that are spread wider than those of a linear attack.
    """
    median = float(outcome["ratio"])
    if outcome["exact"]:
        return Interval(median, median, median)
    n, tail = len(outcome["ratio_by_release"]), 0.25 * (1.0 - level)
    mean, *ends = _error_interval(outcome, "ratio_by_release", level)
    low, high = (n / float(quantile(tail, n)) for quantile in (stats.chi2.isf, stats.chi2.ppf))
    if mean > 0.0:
        low, high = min(low, ends[0] / mean), max(high, ends[1] / mean)
    return Interval(median, median * low, median * high)


def _is_biased(design: Design, outcome: Outcome) -> bool:
    """Return True if the mean errors are larger than the noise of so many releases explains.

    Were there no bias, the mean square of a record over the variance of a mean would be a weighted
    mean of chi-squared variables, of which a single one has the heaviest tail. A median lies in it
    at most twice as likely as one record does (Markov).
    """
    n = design.n_releases
    if outcome["exact"]:
        return True
    if n < 2 or np.isnan(outcome["bias_over_noise"]):
        return False
    return bool(
        outcome["bias_over_noise"] > stats.f.isf(0.5 * (1.0 - design.verdict_level), 1, n - 1)
    )


def records_table(design: Design, cells: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row for each noise level and target."""
    parts = []
    for noise in design.noise_scales:
        start = {
            "noise_scale": np.full(len(design.targets), noise),
            "record": design.targets,
            "prior": design.prior_score,
            "eta": design.eta(noise),
        }
        columns = _record_successes if design.kind == "categorical" else _record_errors
        parts.append(pd.DataFrame(start | columns(design, cells, noise)))
    table = pd.concat(parts, ignore_index=True)
    if design.drawn:
        table["verdict"] = _drawn_verdicts(design, table)
    return table


def _record_successes(
    design: Design, cells: Mapping[str, Outcome], noise: float
) -> dict[str, FloatArray]:
    bounds = cells[cell_key(noise, "bounds")]
    others = [bounds[name] for name in design.bounds if name != "bayes"]
    nothing = np.full(len(design.targets), np.nan)
    columns = {
        "bayes": bounds["bayes"],
        "tightest_bound": np.min(others, axis=0) if others else nothing,
    }
    for name in design.attacks:
        counts = cells[cell_key(noise, name)].get("counts", nothing)
        columns[f"success_{name}"] = counts / design.n_releases
    return columns


def _record_errors(
    design: Design, cells: Mapping[str, Outcome], noise: float
) -> dict[str, FloatArray]:
    first = cells[cell_key(noise, design.attacks[0])]
    columns = {"cramer_rao": first["bound"]}
    for name in design.attacks:
        outcome = cells[cell_key(noise, name)]
        columns |= {f"{what}_{name}": outcome[what] for what in ("mse", "variance", "squared_bias")}
    return columns


def _drawn_verdicts(design: Design, table: pd.DataFrame) -> Any:
    """Of every record in the games of its own; all records and levels are corrected together."""
    played = [
        f"success_{name}" for name in design.attacks if table[f"success_{name}"].notna().all()
    ]
    counts = np.rint(table[played].to_numpy().T * design.n_releases)
    bound = table["bayes"].fillna(1.0).to_numpy()
    if not played:
        counts = np.zeros((1, len(table)))
    return record_verdicts(counts, design.n_releases, bound, design.confidence_level)
