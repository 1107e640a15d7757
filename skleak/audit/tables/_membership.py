"""Tables of a game of membership from the outcomes of its cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from skleak.audit.tables._design import MembershipDesign, Outcome, cell_key, release_key
from skleak.audit.tables._rates import TPR, Rates, best_rate, rates, share_interval
from skleak.audit.tables._rows import (
    Played,
    bounded_columns,
    judged_columns,
    over_noise,
    record_table,
    success_columns,
)
from skleak.audit.tables._sampled import N_ERRORS
from skleak.audit.tables._shadows import (
    learned_guesses,
    likelihood_ratios,
    robust_shares,
    scale_odds,
)
from skleak.bounds import membership_lower_bound_bounded
from skleak.metrics import (
    Interval,
    RecordsAbove,
    group_p_value,
    mean_interval,
    multiplicity_correction,
    records_above,
    simultaneous_confidence_level,
)
from skleak.utils._typing import Array, FloatArray
from skleak.utils.geometry._pairs import pair_success, true_positives

_UNKNOWN = Interval(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class _Level:
    """Games of all attacks at one level, and the numbers that these share."""

    games: Mapping[str, tuple[Played, Rates]]
    above: Mapping[str, RecordsAbove]  # how many records are above the limit; none where drawn
    bounds: Mapping[str, float]
    limits: Mapping[str, float]  # what bounds may be that are estimates
    gap: Interval
    utility: float
    distances: FloatArray  # of models with and without, over the noise; any shape


def membership_results(design: MembershipDesign, cells: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row for each noise level and attack, from what is finished."""
    rows = []
    for k, noise in enumerate(design.noise_scales):
        level = (_drawn_level if design.drawn else _actual_level)(design, cells, k)
        for name, (played, rates_) in level.games.items():
            row = _row(design, level, name, played, rates_)
            rows.append({"noise_scale": noise, "attack": name} | row)
    return pd.DataFrame(rows)


def membership_records(design: MembershipDesign, cells: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row for each noise level and candidate."""
    columns = _drawn_records if design.drawn else _actual_records
    return record_table(design, lambda k: columns(design, cells, k), design.baseline)


def membership_groups(design: MembershipDesign, cells: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row for each noise level, attack and group, with p-values that are corrected for all."""
    done = [] if design.drawn else _finished(design, cells)
    rows = []
    for k, noise in enumerate(design.noise_scales if done and design.parts else ()):
        for name, each in _played(design, done, k).items():
            for kind, labels in design.parts.items():
                for label, places in pd.Series(labels).groupby(labels).indices.items():
                    start = {"noise_scale": noise, "attack": name, "kind": kind, "group": label}
                    right = each.right[:, places]
                    rows.append(start | _group_columns(design, right, _extra(each)))
    table = pd.DataFrame(rows)
    if len(table):
        corrected = table.groupby("kind")["p_value"].transform(multiplicity_correction)
        table["p_value"] = np.minimum(corrected * table["kind"].nunique(), 1.0)
    return table


def _group_columns(
    design: MembershipDesign, right: FloatArray, extra_variance: float
) -> dict[str, Any]:
    """Games about the records of a group, (n_releases, n), and their test of chance."""
    shares = _mean(right, axis=1)
    shares = shares[~np.isnan(shares)]
    n_games, found = int(np.sum(~np.isnan(right))), _UNKNOWN
    if n_games:
        found = share_interval(shares, n_games, design.confidence_level)
    return {
        "n_records": right.shape[1],
        "n_games": n_games,
        "n_right": int(np.nansum(right)),
        **dict(zip(("success", "success_low", "success_high"), found, strict=True)),
        "baseline": design.baseline,
        "p_value": group_p_value(right, design.baseline, extra_variance=extra_variance),
    }


def _row(
    design: MembershipDesign, level: _Level, name: str, played: Played, found: Rates
) -> dict[str, Any]:
    usual, strict = found.columns()
    return {
        **success_columns(played.shown, design.baseline),
        **usual,
        **dict(zip(("gap", "gap_low", "gap_high"), level.gap, strict=True)),
        "lower_bound": surely_reached(level.gap, design.prior),
        **judged_columns(design, played, level.bounds, level.limits, level.utility),
        **_above_columns(level.above.get(name)),
        **strict,
        **{f"bayes_{at}": best_rate(level.distances, rate) for at, rate in TPR.items()},
    }


def _above_columns(found: RecordsAbove | None) -> dict[str, Any]:
    """Return columns on how many records are above the limit, at least."""
    if found is None:
        return {}
    return {
        "records_above": found.at_least if found.tells else np.nan,
        "records_above_by": found.method,
        "design_effect": found.design_effect,
        "enough_releases": found.n_enough,
    }


def surely_reached(gap: Interval, prior: float) -> float:
    """Success that some attack reaches, from a gap of losses in [0, 1] at its confidence."""
    if np.isnan(gap.estimate):
        return np.nan
    size = float(np.clip(max(gap.low, -gap.high, 0.0), 0.0, 1.0))
    baseline = max(prior, 1.0 - prior)
    gain = membership_lower_bound_bounded(size, 1.0, prior)
    return float(baseline + (1.0 - baseline) * gain)


def _actual_level(design: MembershipDesign, cells: Mapping[str, Outcome], k: int) -> _Level:
    done = _finished(design, cells)
    if not done:
        return _Level({}, {}, {}, {}, _UNKNOWN, np.nan, np.array([]))
    member, attacked = _drawn_members(done)
    played = _played(design, done, k)
    level, games, above = design.confidence_level, {}, {}
    for name, each in played.items():
        shares = _mean(each.right, axis=1)
        n_games = int(attacked.sum())
        shown = share_interval(_wider(shares, each.pseudo), n_games, level)
        judged = mean_interval(
            shares,
            confidence_level=design.verdict_level,
            value_range=(0.0, 1.0),
            method="betting",
        )
        known = (member, attacked, level, len(played))
        found = rates(each.scores, *known, guesses=each.guesses)
        games[name] = Played(shown, judged, n_games, shares), found
        # The count is that of the attack which shows most.
        corrected = simultaneous_confidence_level(level, len(played))
        limits = (design.max_advantage, design.baseline, corrected)
        above[name] = records_above(each.right, *limits, extra_variance=_extra(each))
    of_releases = {
        "dp": _stacked(done, "dp", k),
        "bayes": _mean(_stacked(done, "bayes", k), axis=1),
    }
    means = {name: float(_mean(of_releases[name])) for name in design.bounds}
    errors = {name: _standard_error(of_releases[name]) for name in design.bounds}
    return _Level(
        games,
        above,
        means,
        {name: mean + N_ERRORS * errors[name] for name, mean in means.items()},
        _over_releases(_stacked(done, "gap", k), level),
        float(_mean(_stacked(done, "utility", k))),
        _stacked(done, "separation", k),
    )


def _actual_records(
    design: MembershipDesign, cells: Mapping[str, Outcome], k: int
) -> dict[str, Array]:
    done = _finished(design, cells)
    _, attacked = _drawn_members(done)
    columns = {
        "n_games": attacked.sum(axis=0),
        "distance": _mean(_stacked(done, "separation", k)),
        "bayes": _mean(_stacked(done, "bayes", k)),
    }
    played = _played(design, done, k)
    columns |= {f"success_{name}": _mean(each.right) for name, each in played.items()}
    separation = _stacked(done, "separation", k)
    return columns | {f"bayes_{name}": _mean(true_positives(separation, TPR[name])) for name in TPR}


def _finished(design: MembershipDesign, cells: Mapping[str, Outcome]) -> list[Outcome]:
    keys = map(release_key, range(design.n_releases))
    return [cells[key] for key in keys if key in cells]


def _stacked(done: Sequence[Outcome], name: str, k: Any = ...) -> Array:
    """One array of all releases, (n_releases, ...), at one level where it has levels."""
    return np.stack([outcome[name][k] for outcome in done])


def _drawn_members(done: Sequence[Outcome]) -> tuple[Array, Array]:
    return _stacked(done, "member"), _stacked(done, "attacked")


class _Guessed(NamedTuple):
    """Answers of an attack at one level, (n_releases, n_targets) each."""

    scores: FloatArray
    guesses: Array
    right: FloatArray  # 1 where it was right, else 0; NaN where a record was held out
    pseudo: FloatArray | None  # of `learned_guesses`, (n_groups,)


def _played(design: MembershipDesign, done: Sequence[Outcome], k: int) -> dict[str, _Guessed]:
    """Answers of every attack."""
    member, attacked = _drawn_members(done)
    played = {}
    for j, (name, rule) in enumerate(design.attacks.items()):
        scores, guesses = (_stacked(done, part, (j, k)) for part in ("scores", "guesses"))
        residuals, pseudo = not design.classifies, None
        if rule == "likelihood_ratio":
            scores = likelihood_ratios(scores, member, design.prior, residuals=residuals)
            guesses = scores > 0.0
        elif rule == "scale":
            scores = scale_odds(scores, member.astype(bool), design.prior)
            guesses = scores > 0.0
        elif rule == "robust":
            scores = robust_shares(scores, member, residuals=residuals)
        # A single release has no others to learn from.
        if rule == "robust" or (rule == "score" and (len(done) > 1 or np.any(guesses < 0))):
            guesses, pseudo = learned_guesses(scores, member, attacked)
        right = np.where(attacked, guesses == member, np.nan)
        played[name] = _Guessed(scores, guesses, right, pseudo)
    return played


def _wider(shares: FloatArray, pseudo: FloatArray | None) -> FloatArray:
    """Return those of two samples of equal mean that have the larger standard error."""
    if pseudo is None or len(pseudo) < 2:
        return shares
    errors = [values.std(ddof=1) / np.sqrt(len(values)) for values in (shares, pseudo)]
    return pseudo if errors[1] > errors[0] else shares


def _extra(guessed: _Guessed) -> float:
    """Variance of the mean share of right guesses beyond the spread among releases."""
    shares, pseudo = _mean(guessed.right, axis=1), guessed.pseudo
    if pseudo is None or len(pseudo) < 2:
        return 0.0
    return max(0.0, float(pseudo.var(ddof=1) / len(pseudo) - shares.var(ddof=1) / len(shares)))


def _drawn_level(design: MembershipDesign, cells: Mapping[str, Outcome], k: int) -> _Level:
    noise = design.noise_scales[k]
    computed = cells.get(cell_key(noise, "bounds"))
    bounds, limits = dict.fromkeys(design.bounds, np.nan), {}
    if computed is not None:
        bounds |= {name: float(computed[name].mean()) for name in bounds if name != "dp"}
        if "bayes" in bounds:
            error = float(computed["standard_error"].mean())
            limits["bayes"] = bounds["bayes"] + N_ERRORS * error
    if "dp" in bounds:
        bounds["dp"] = _pair(design.dp[k], design.prior)
    lost = cells.get(cell_key(noise, "gap"))
    utility = cells.get(cell_key(noise, "utility"), {}).get("utility", np.array(np.nan))
    outcomes = {name: cells.get(cell_key(noise, name)) for name in design.attacks}
    # Games about different records spread no more than a binomial of their mean (Hoeffding 1956).
    games = {
        name: (Played.of(design, found), Rates(*map(float, found["rates"])))
        for name, found in outcomes.items()
        if found is not None
    }
    gap = _difference(lost, design.confidence_level)
    distances = np.array([]) if design.distances is None else over_noise(design.distances, noise)
    return _Level(games, {}, bounds, limits, gap, float(utility.mean()), distances)


def _drawn_records(
    design: MembershipDesign, cells: Mapping[str, Outcome], k: int
) -> dict[str, Any]:
    noise = design.noise_scales[k]
    nothing = np.full(len(design.targets), np.nan)
    separation = nothing if design.distances is None else over_noise(design.distances, noise)
    others = [name for name in design.bounds if name not in ("dp", "bayes")]
    return {
        "n_games": np.full(len(design.targets), design.n_releases),
        "distance": separation,
        **bounded_columns(design, cells, noise, others),
        **{f"bayes_{name}": true_positives(separation, rate) for name, rate in TPR.items()},
    }


def _difference(lost: Outcome | None, level: float) -> Interval:
    """Mean loss of games without the record less that with it, with Welch's interval."""
    if lost is None:
        return _UNKNOWN
    groups = [lost["losses"][lost["member"] == side] for side in (False, True)]
    sizes = np.array([len(group) for group in groups], dtype=float)
    if sizes.min() < 2:
        return _UNKNOWN
    gap = float(groups[0].mean() - groups[1].mean())
    parts = np.array([group.var(ddof=1) for group in groups]) / sizes
    half = np.inf
    if parts.sum() > 0.0:
        freedom = parts.sum() ** 2 / np.sum(parts**2 / (sizes - 1.0))
        half = float(stats.t.isf(0.5 * (1.0 - level), freedom) * np.sqrt(parts.sum()))
    return Interval(gap, gap - half, gap + half)


def _over_releases(values: FloatArray, level: float) -> Interval:
    """Student's interval over releases, of those that have the value."""
    known = values[~np.isnan(values)]
    if not len(known):
        return _UNKNOWN
    return mean_interval(known, confidence_level=level)


def _pair(mu: float, prior: float) -> float:
    return float("nan") if np.isnan(mu) else float(pair_success(np.asarray(mu), prior))


def _mean(values: FloatArray, axis: int = 0) -> FloatArray:
    """Mean of what is known; NaN where nothing is."""
    known = ~np.isnan(values)
    number = known.sum(axis=axis)
    total = np.where(known, values, 0.0).sum(axis=axis)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _standard_error(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else 0.0
