"""Tables of games from the outcomes of their cells: rates, intervals, verdicts, and rows.

What all games share comes first, then the tables of a secret of every record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq
from scipy.special import rel_entr

from skleak.metrics import binomial_interval, mean_interval, verdict
from skleak.metrics.intervals import Interval, detectable_excess
from skleak.metrics.verdicts import (
    BIASED,
    CONSISTENT,
    EXCEEDED,
    INCOMPARABLE,
    VACUOUS,
    multiplicity_correction,
    p_value_exceeds,
)
from skleak.utils._typing import Array, FloatArray

# Columns of true positive rates, and the false positive rates that they are at.
TPR = {"tpr_at_1pct_fpr": 0.01, "tpr_at_0.1pct_fpr": 0.001}
ROUND_OFF = 1e-12


UNKNOWN = Interval(np.nan, np.nan, np.nan)
# What is kept of a cell: a few small arrays by name.
Outcome = dict[str, Array]


class Found:
    """Carriers of a value whom attacks find with one false alarm in a hundred of others.

    A release has one threshold for all. With fewer others than a hundred it tells of none.
    """

    def __init__(self, n_targets: int) -> None:
        self._found, self._carried = np.zeros((2, n_targets), dtype=np.int64)
        self._shares: list[FloatArray] = []

    def count(self, odds: FloatArray | None, carries: Array) -> None:
        """Count some releases; both (n_releases, n_targets)."""
        if odds is None:
            return
        others, rate = (~carries).sum(axis=1), TPR["tpr_at_1pct_fpr"]
        allowed = np.floor(rate * others * (1.0 + ROUND_OFF)).astype(np.intp)
        order = np.partition(np.where(carries, np.inf, -odds), np.unique(allowed), axis=1)
        threshold = -order[np.arange(len(odds)), allowed]
        told = carries & (others >= 1.0 / rate)[:, None]
        found = told & (odds > threshold[:, None])
        self._found += found.sum(axis=0)
        self._carried += told.sum(axis=0)
        with np.errstate(invalid="ignore"):
            self._shares.append(found.sum(axis=1) / told.sum(axis=1))

    def outcome(self) -> dict[str, Array]:
        """Return ``found`` and ``carried``, (n_targets,), and ``found_shares`` of the releases."""
        if not self._carried.any():
            return {}
        shares = np.concatenate(self._shares)
        return {"found": self._found, "carried": self._carried, "found_shares": shares}


def ends(name: str, found: Sequence[float]) -> dict[str, float]:
    """Return columns of an interval: the estimate and both ends."""
    return dict(zip((name, f"{name}_low", f"{name}_high"), map(float, found), strict=True))


def found_columns(outcome: Mapping[str, Array], level: float) -> dict[str, float]:
    """Share of the carriers that are found, with its interval.

    Of drawn secrets every game is independent: Clopper and Pearson's interval. Of actual ones
    carriers count, however many releases find them, and releases: the wider of two of theirs with
    an effective number of outcomes.
    """
    if "found" not in outcome:
        return ends("tpr_at_1pct_fpr", [np.nan] * 3)
    found, carried = outcome["found"], outcome["carried"]
    share, low, high = binomial_interval(found.sum(), carried.sum(), level)
    if "shares" in outcome:
        of_people = (found / np.maximum(carried, 1))[carried > 0]
        of_releases = outcome["found_shares"]
        parts = [share_interval(of_people, len(of_people), level)]
        if pd.Series(of_releases).nunique() > 1:
            parts.append(share_interval(of_releases, len(of_people), level))
        low, high = min(part.low for part in parts), max(part.high for part in parts)
    return ends("tpr_at_1pct_fpr", (share, low, high))


def mean_utility(cells: Mapping[str, Outcome], noise: float) -> float:
    """Mean score of the releases of a noise level; NaN where it is not finished."""
    return float(np.mean(cells.get(cell_key(noise, "utility"), {"utility": np.nan})["utility"]))


def share_interval(values: FloatArray, n_outcomes: float, level: float) -> Interval:
    """Interval of a share of right outcomes by its values in releases, or pseudo-values.

    It is Clopper and Pearson's with the effective number of outcomes that the spread over releases
    tells (see `clustered_interval`). Where all are right, or all wrong, no spread tells of any
    dependence: the number is that of outcomes, less what the few releases do not tell of it.

    Shapes: ``values`` (n,), NaN of releases in which nothing was played.
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return UNKNOWN
    n, share = len(values), float(np.mean(values))
    if n > 1 and (np.all(values == 1.0) or np.all(values == 0.0)):
        tail = 0.5 * (1.0 - level)
        few = (stats.norm.isf(tail) / stats.t.isf(tail, n - 1)) ** 2
        number = max(float(np.floor(few * n_outcomes)), float(n))
        return binomial_interval(share * number, number, level)
    return mean_interval(
        values, confidence_level=level, value_range=(0.0, 1.0), method="korn_graubard"
    )


def cell_key(noise_scale: float, name: str) -> str:
    """Key of a cell: a noise level, and an attack or what else is computed there."""
    return f"{noise_scale!r}|{name}"


def release_key(release: int) -> str:
    """Key of a cell in which a model is trained and released."""
    return f"release {release}"


@dataclass(kw_only=True, eq=False)
class Design:
    """Plan of any game: who is attacked, by what, at which levels."""

    targets: Any  # positions of the records under attack, (n_targets,)
    attacks: Any  # by name, or names, in the order of the tables
    noise_scales: tuple[float, ...]  # ascending
    bounds: tuple[str, ...]  # columns of bounds
    n_releases: int  # or games of each target
    drawn: bool  # whether secrets are drawn rather than actual
    # Of the intervals shown, and of those behind the verdicts.
    confidence_level: float
    verdict_level: float
    # Names of attacks that use what the prior of the bounds leaves out.
    incomparable: frozenset[str] = frozenset()
    # Names of attacks on the secrets as they are, even where those of others are drawn.
    stacked: frozenset[str] = frozenset()
    n_fitted: int = 0  # games of each target in which a model is fitted; 0 where none is

    @property
    def games_each(self) -> int:
        """Games of each target, where each plays its own."""
        return self.n_fitted or self.n_releases

    def attack_columns(self, k: int, cells: Mapping[str, Outcome]) -> dict[str, dict[str, Any]]:
        """Return what is known of each attack whose cell at one noise level is finished."""
        raise NotImplementedError

    def record_columns(self, k: int, cells: Mapping[str, Outcome]) -> dict[str, Any]:
        """Return what is known of each record under attack at one noise level."""
        return {}

    def attack_rows(self, cells: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level and attack whose cell is finished."""
        rows = []
        for k, noise in enumerate(self.noise_scales if cells else ()):
            for name, found in self.attack_columns(k, cells).items():
                rows.append({"noise_scale": noise, "attack": name, **found})
        return pd.DataFrame(rows)

    def record_rows(self, cells: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level and target.

        Drawn secrets have verdicts by records: each in the games of its own, all of them and all
        levels corrected together.
        """
        parts = []
        for k, noise in enumerate(self.noise_scales):
            start = {"noise_scale": noise, "record": self.targets}
            parts.append(pd.DataFrame({**start, **self.record_columns(k, cells)}))
        table = pd.concat(parts, ignore_index=True)
        if self.drawn and "bayes" in table:
            names = [f"success_{name}" for name in self.attacks if name not in self.stacked]
            played = [name for name in names if table[name].notna().all()]
            counts = np.zeros((1, len(table)))
            if played:
                counts = np.rint(table[played].to_numpy().T * self.games_each)
            bound, level = table["bayes"].fillna(1.0).to_numpy(), self.confidence_level
            table["verdict"] = record_verdicts(counts, self.games_each, bound, level)
        return table

    def groups(self, cells: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level, attack and group of records."""
        return pd.DataFrame()


@dataclass(kw_only=True, eq=False)
class SecretDesign(Design):
    """A game about a secret of every record: a column of it, or all."""

    etas: Mapping[float, FloatArray]  # Fisher information losses by noise level, (n_targets,)
    # Largest prior probability, or squared error of the mean of the others, (n_targets,).
    prior_score: FloatArray
    baseline: float = np.nan  # success of the prior
    imputation: float = np.nan  # success of imputation without the model
    spread: float = 1.0  # variance of the numbers that are guessed; 1 for categories
    rare: Any = None  # value, rare or named, whose carriers are counted at few false alarms, if any
    # Variance of the prior of every number, (n_targets,); None where there is no prior of one.
    prior_variance: FloatArray | None = None
    estimates: bool = False  # numbers, whose errors are measured

    def attack_columns(self, k: int, cells: Mapping[str, Outcome]) -> dict[str, dict[str, Any]]:
        """Return success or errors of each attack, with intervals, bounds and a verdict."""
        noise, rows = self.noise_scales[k], {}
        bounds, utility = cells.get(cell_key(noise, "bounds")), mean_utility(cells, noise)
        for name in self.attacks:
            if (outcome := cells.get(cell_key(noise, name))) is None:
                continue
            row = _error_row if self.estimates else _success_row
            rows[name] = found = row(self, outcome, bounds, utility)
            if name in self.incomparable:
                # There is no verdict on an attack that uses what the prior leaves out.
                found["verdict"] = INCOMPARABLE
                found |= {"detectable_excess": np.nan} if "detectable_excess" in found else {}
        return rows

    def record_columns(self, k: int, cells: Mapping[str, Outcome]) -> dict[str, Any]:
        """Return success or errors about each record, and bounds."""
        noise = self.noise_scales[k]
        own = {"prior": self.prior_score, "eta": self.etas[noise]}
        if not self.estimates:
            return own | bounded_columns(self, cells, noise)
        outcomes = {name: cells[cell_key(noise, name)] for name in self.attacks}
        own["cramer_rao"] = next(iter(outcomes.values()))["bound"]
        for name, found in outcomes.items():
            own |= {f"{k}_{name}": found[k] for k in ("mse", "variance", "squared_bias")}
        return own | number_record_columns(self, cells.get(cell_key(noise, "bounds")))


def success_verdict(low: float, high: float, limit: float, n_secrets: int, level: float) -> str:
    """Judge a success probability against its tightest bound, or the most that this may be.

    The bound is an average over secrets drawn from the prior. Where the actual ones are attacked,
    they are a single draw, by chance easier or harder than the average: with ``low`` the true
    success on them, chance alone explains it with probability at most
    ``exp(-n_secrets KL(low || limit))`` (Hoeffding 1963), and the verdict allows for that.
    """
    if np.isnan(limit):
        return VACUOUS
    judged = str(verdict(low, high, limit))
    if judged == EXCEEDED and n_secrets > 0 and low <= _chance_limit(limit, n_secrets, level):
        return CONSISTENT
    return judged


def _chance_limit(bound: float, n_secrets: int, level: float) -> float:
    """Success on secrets that were not drawn anew up to which chance alone explains it."""

    def surplus(success: float) -> float:
        divergence = rel_entr(success, bound) + rel_entr(1.0 - success, 1.0 - bound)
        return float(n_secrets * divergence + np.log1p(-level))

    if bound <= 0.0:
        return 0.0
    return 1.0 if surplus(1.0) <= 0.0 else float(brentq(surplus, bound, 1.0))


def found_excess(
    shares: FloatArray | None, games: int, limit: float, n_secrets: int, level: float
) -> float:
    """Excess of the success over the limit that `success_verdict` would find in 80% of audits.

    Shapes: ``shares`` (n_releases,); returns: NaN where there is no bound to exceed, infinite
    where no success would be found.
    """
    if np.isnan(limit) or limit >= 1.0:
        return np.nan
    least = _chance_limit(limit, n_secrets, level) if n_secrets > 0 else limit
    if shares is None and games == 0:
        excess = 0.0 if least < 1.0 else np.inf
    elif shares is None:
        excess = detectable_excess(games, least, level, method="binomial")
    else:
        spread = float(np.std(shares, ddof=1)) if len(shares) > 1 else None
        excess = detectable_excess(len(shares), least, level, standard_deviation=spread)
    return least - limit + excess


def error_verdict(low: float, high: float, biased: bool) -> str:
    """Judge a mean squared error, relative to its lower bound for unbiased attacks."""
    if np.isnan(low) or np.isnan(high):
        return VACUOUS
    judged = str(verdict(low, high, 1.0, side="lower"))
    return BIASED if judged == EXCEEDED and biased else judged


def record_verdicts(counts: FloatArray, trials: int, bounds: FloatArray, level: float) -> Array:
    """Judge every record by itself, in games of its own.

    Shapes: ``counts`` (n_attacks, n_records); ``bounds`` (n_records,); returns (n_records,): the
    worst over the attacks. Exact binomial tests, corrected by Holm's method over all records and
    attacks.
    """
    p_values = p_value_exceeds(counts, trials, np.minimum(bounds, 1.0))
    adjusted: Any = multiplicity_correction(np.ravel(p_values)).reshape(counts.shape)
    exceeded = (adjusted <= 1.0 - level).any(axis=0)
    return np.select([exceeded, bounds >= 1.0], [EXCEEDED, VACUOUS], CONSISTENT)


# Standard errors of a bound that are allowed for.
N_ERRORS = 4.0


@dataclass(frozen=True)
class Played:
    """Success of one attack at one level: intervals to show and to judge by, and the games.

    `shares` is the success by release, None where every game has a release of its own. A `fact` is
    the success of an attack that ignores the releases.
    """

    shown: Interval
    judged: Interval
    n_games: int
    shares: FloatArray | None = None
    fact: bool = False

    @classmethod
    def of(cls, design: Design, outcome: Outcome) -> "Played":
        """Intervals of the outcome of a cell."""
        # Of a sample, verdicts compare its records with their own bounds; what is shown is of all.
        of_all = {"shares": outcome["by_record"]} if "by_record" in outcome else {}
        shown = _interval(outcome | of_all, design.confidence_level, "gaffke")
        judged = _interval(outcome, design.verdict_level, "betting")
        fact = bool(outcome.get("exact", False))
        return cls(shown, judged, int(outcome["games"]), outcome.get("shares"), fact)


def _interval(outcome: Outcome, level: float, method: str) -> Interval:
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


def gains(name: str, success: Interval, baseline: float) -> dict[str, float]:
    """Advantage over a baseline, with its interval; NaN over one that cannot be beaten."""
    lacks = 1.0 - baseline if baseline < 1.0 else np.nan
    return ends(name, [(float(value) - baseline) / lacks for value in success])


def success_columns(success: Interval, baseline: float) -> dict[str, Any]:
    """Success and advantage with their intervals."""
    over = gains("advantage", success, baseline)
    return ends("success", success) | {"baseline": baseline} | over


def judged_columns(
    design: Design,
    played: Played,
    bounds: Mapping[str, float],
    limits: Mapping[str, float],
    utility: float,
    n_secrets: int = 0,
) -> dict[str, Any]:
    """Verdict by the tightest bound, the games behind it, and the bounds.

    `limits` are what bounds may be that are estimates; `n_secrets` counts those not drawn.
    """
    known = {name: value for name, value in bounds.items() if not np.isnan(value)}
    tightest = min(known.values(), default=np.nan)
    limit = limits.get(min(known, key=lambda bound: known[bound], default=""), tightest)
    rest = (limit, n_secrets, design.verdict_level)
    # A fact is found without error.
    shares, n_games = (None, 0) if played.fact else (played.shares, played.n_games)
    return {
        "verdict": success_verdict(played.judged.low, played.judged.high, *rest),
        "utility": utility,
        "n_games": played.n_games,
        "detectable_excess": found_excess(shares, n_games, *rest) + (limit - tightest),
        **bounds,
    }


def over_noise(values: FloatArray, noise: float) -> FloatArray:
    """Distances or losses at unit noise over the noise, infinite without any; NaN stays."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0.0, values / noise, values)


def bounded_columns(
    design: Design, cells: Mapping[str, Outcome], noise: float
) -> dict[str, FloatArray]:
    """Bounds of every record, the smallest of the others, and the success of the attacks."""
    nothing = np.full(len(design.targets), np.nan)
    bounds = cells.get(cell_key(noise, "bounds"), {"bayes": nothing})
    others = [bounds[name] for name in design.bounds if name != "bayes" and name in bounds]
    tightest = np.min(others, axis=0) if others else nothing
    columns = {"bayes": bounds["bayes"], "tightest_bound": tightest}
    for name in design.attacks:
        outcome = cells[cell_key(noise, name)]
        games = outcome["games"] / len(nothing) if "alone" in outcome else design.games_each
        columns[f"success_{name}"] = outcome.get("counts", nothing) / games
    return columns


# Persons, or games, from which a regression tells more than a mean.
_FEWEST = 8
# Share of a mean square that sums lose.
_LOST = 1e-12
_SHARE_ROUND_OFF = 1e-9
_ON_ERRORS = ("van_trees", "bayes_mse", "bayes_mse_error")


def least_errors(bounds: Outcome) -> FloatArray:
    """Tightest lower bound on the error about every record, (n_targets,); 0 where none is known.

    The Bayes risk less its error, or the bound of van Trees where that is larger.
    """
    risk = np.nan_to_num(bounds["bayes_mse"] - bounds["bayes_mse_error"], nan=0.0)
    return np.maximum(np.nan_to_num(bounds["van_trees"], nan=0.0), np.maximum(risk, 0.0))


def number_columns(
    design: SecretDesign, outcome: Outcome, mse: float, bounds: Outcome | None, unbiased: str
) -> dict[str, Any]:
    """Share that an attack removes, bounds on errors, the share that any removes, and a verdict.

    Bounds are means over the records for which they are computed. The verdict is that by the bound
    of Cramer and Rao, `unbiased`, where it is sharp and the attack is not biased; else that by the
    largest share that attackers with the prior remove, which the whole interval of the share that
    this one removes has to be above.
    """
    error, variance = float(np.mean(design.prior_score)), design.prior_variance
    if variance is None or bounds is None:
        share = 1.0 - mse / error if error > 0.0 else np.nan
        return {"verdict": unbiased, "share_removed": share}
    most, shares = share_at_most(design, bounds), [UNKNOWN, UNKNOWN]
    # Of what the prior is of: the numbers, and nothing beside.
    if outcome.get("of_prior", True) and (not design.drawn or "removed" in outcome):
        levels = design.confidence_level, design.verdict_level
        shares = [removed(design, outcome, level) for level in levels]
    # Attacks that ignore the releases use what the prior leaves out, or nothing.
    least = np.nan if outcome.get("ignores", True) else shares[1].low
    verdict = unbiased
    if least > most + _SHARE_ROUND_OFF:
        verdict = EXCEEDED
    elif most < 1.0 and not np.isnan(least) and unbiased in (VACUOUS, BIASED):
        verdict = CONSISTENT
    means = {name: float(pd.Series(bounds[name]).mean()) for name in _ON_ERRORS}
    columns = {"prior_variance": float(variance.mean()), **means}
    if "estimate" in bounds:
        columns["van_trees"] = (1.0 - most) * columns["prior_variance"]
    some = bounds["computed"]
    if not some.all():
        columns["n_computed"] = int(some.sum())
    if "resolved" in bounds:
        columns["n_unresolved"] = int((some & ~bounds["resolved"]).sum())
    shown = ends("share_removed", shares[0])
    return {"verdict": verdict, **shown, **columns, "share_at_most": most}


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
        return UNKNOWN
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
    few = n < _FEWEST or var_x <= _LOST * xx / n
    if few or (not always and off**2 > N_ERRORS**2 * var_x / (n - 1.0)):
        return mean, var_y / max(n - 1.0, 1.0), n - 1.0
    slope = both / var_x
    residual = max(var_y - slope * both, 0.0) * n / (n - 2.0)
    return mean - slope * off, residual / n * (1.0 + off**2 / var_x), n - 2.0


def number_record_columns(design: SecretDesign, bounds: Outcome | None) -> dict[str, FloatArray]:
    """Bounds about every record, and the largest share that any attack removes.

    NaN where no bound was computed, of some of many records.
    """
    variance = design.prior_variance
    if variance is None or bounds is None:
        return {}
    columns = {name: bounds[name] for name in _ON_ERRORS}
    if not bounds["computed"].all():
        columns["computed"] = bounds["computed"]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.clip(1.0 - least_errors(bounds) / variance, 0.0, 1.0)
    shares = np.where(np.isnan(bounds["van_trees"]), np.nan, shares)
    return columns | {"prior_variance": variance, "share_at_most": shares}


def _success_row(
    design: SecretDesign, outcome: Outcome, bounds: Outcome | None, utility: float
) -> dict[str, Any]:
    known, sampled = bounds or {}, {}
    # Points of quasi Monte Carlo are shared: errors of the records may all lie on one side.
    error = float(np.mean(known.get("standard_error", 0.0)))
    means = {name: float(np.mean(known.get(name, np.nan))) for name in design.bounds}
    limits = {name: _at_most(value, error) for name, value in means.items()}
    if "n_all" in known and means:
        # Verdicts are about the sample; what is shown for all records allows for the others.
        tightest = min(means, key=lambda name: np.nan_to_num(means[name], nan=np.inf))
        sampled = _sample_columns(known[tightest], error, int(known["n_all"]))
    played = Played.of(design, outcome)
    n_secrets = 0 if design.drawn else len(design.targets)
    judged = judged_columns(design, played, means, limits, utility, n_secrets)
    alone, imputation = outcome.get("alone"), design.imputation
    if alone is not None:
        # Of the secrets as they are, whoever else is asked about drawn ones.
        imputation = float(alone.mean())
        differences = outcome["counts"] * len(alone) / outcome["games"] - alone
        judged |= _added(differences, outcome["shares"] - imputation, design.confidence_level)
    found = found_columns(outcome, design.confidence_level) | {"rare_value": design.rare}
    scores = _scores(design, played.shown, imputation)
    if alone is not None and imputation < 1.0:
        # Of the same records: their differences are known better than either.
        for end in ("_low", "_high"):
            added = judged[f"adds_over_imputation{end}"]
            scores[f"advantage_over_imputation{end}"] = added / (1.0 - imputation)
    return scores | judged | found | sampled


def _sample_columns(values: FloatArray, error: float, n: int) -> dict[str, Any]:
    """Bound the mean of a bound over n records, of which those with `values` are a random sample.

    One more record as far off as any could be is counted with the sample, so that it is never taken
    for a better one than it may be.
    """
    m, furthest = len(values), 1.0 - float(values.min())
    variance = (1.0 - m / n) * (float(values.var(ddof=1)) + furthest**2 / m) / m
    error += float(np.sqrt(variance))
    limit = _at_most(float(values.mean()), error)
    return {"bound_error": error, "bound_limit": limit, "n_bounded": m}


def _at_most(value: float, error: float) -> float:
    return max(value, min(value + N_ERRORS * error, 1.0))


def _scores(design: SecretDesign, success: Interval, imputation: float) -> dict[str, Any]:
    over = gains("advantage_over_imputation", success, imputation)
    return success_columns(success, design.baseline) | {"imputation": imputation} | over


def _added(differences: FloatArray, by_release: FloatArray, level: float) -> dict[str, float]:
    """Success beyond imputation of the same records, with Student's interval over the records.

    It is no narrower than that over releases, and where no two differ than three records make it.
    Shapes: ``differences`` (n_targets,); ``by_release`` (n_releases,).
    """
    around = [mean_interval(each, confidence_level=level) for each in (differences, by_release)]
    known = [end for end in around if np.isfinite(end.low)]
    least, added = 3.0 / len(differences), float(differences.mean())
    low = min([added - least, *(added + end.low - end.estimate for end in known)])
    high = max([added + least, *(added + end.high - end.estimate for end in known)])
    return ends("adds_over_imputation", Interval(added, low, high))


def _error_row(
    design: SecretDesign, outcome: Outcome, bounds: Outcome | None, utility: float
) -> dict[str, Any]:
    level, spread = design.confidence_level, design.spread
    mse = _error_interval(outcome, "mse_by_release", level)
    # More error is less success.
    most = min(1.0 - mse.low / spread, 1.0)
    success = Interval(1.0 - mse.estimate / spread, 1.0 - mse.high / spread, most)
    ratio = judged = UNKNOWN
    if not np.isnan(outcome["ratio"]):
        ratio = _ratio_interval(outcome, level)
        judged = _ratio_interval(outcome, design.verdict_level)
    unbiased = error_verdict(judged.low, judged.high, _is_biased(design, outcome))
    added = {}
    if "alone" in outcome:
        less = (outcome["alone"] - outcome["mse"]) / spread
        by_release = (outcome["alone"].mean() - outcome["mse_by_release"]) / spread
        added = _added(less, by_release, level)
    return {
        **_scores(design, success, design.imputation),
        **added,
        "verdict": unbiased,
        "utility": utility,
        "n_games": int(outcome["games"]),
        **ends("mse", mse),
        "variance": float(outcome["variance"].mean()),
        "squared_bias": float(outcome["squared_bias"].mean()),
        **ends("mse_over_bound", ratio),
        **_bounds_on_errors(outcome["bound"], design.prior_score),
        **number_columns(design, outcome, mse.estimate, bounds, unbiased),
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
    mean, *around = _error_interval(outcome, "ratio_by_release", level)
    low, high = (n / float(quantile(tail, n)) for quantile in (stats.chi2.isf, stats.chi2.ppf))
    if mean > 0.0:
        low, high = min(low, around[0] / mean), max(high, around[1] / mean)
    return Interval(median, median * low, median * high)


def _is_biased(design: SecretDesign, outcome: Outcome) -> bool:
    """Return True if the mean errors are larger than the noise of so many releases explains.

    Were there no bias, the mean square of a record over the variance of a mean would be a weighted
    mean of chi-squared variables, of which a single one has the heaviest tail. A median lies in it
    at most twice as likely as one record does (Markov).
    """
    n, tail = design.n_releases, 0.5 * (1.0 - design.verdict_level)
    known = n > 1 and outcome["bias_over_noise"] > stats.f.isf(tail, 1, n - 1)
    return bool(outcome["exact"] or known)
