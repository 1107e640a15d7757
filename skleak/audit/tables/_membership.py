"""Tables of a game of membership from the outcomes of its cells.

Members of the releases of an audit are drawn independently. For an attack on one of them, all the
others are therefore what shadow models are to an attacker who trains them: models of the same
kind, on records drawn in the same way, whose members the attacker knows. No guess that is learned
from them looks at the memberships of the release under attack.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

from skleak.adversary.membership import score_limit
from skleak.adversary.shadow import LikelihoodRatios, Pooling, ShadowScores, dominated_shares
from skleak.audit.tables._rates import (
    N_ERRORS,
    ROUND_OFF,
    TPR,
    UNKNOWN,
    Design,
    Outcome,
    Played,
    bounded_columns,
    cell_key,
    ends,
    judged_columns,
    mean_utility,
    over_noise,
    release_key,
    share_interval,
    success_columns,
)
from skleak.bounds import membership_lower_bound_bounded
from skleak.metrics import binomial_interval, mean_interval, records_above
from skleak.metrics.intervals import Interval
from skleak.metrics.verdicts import (
    group_p_value,
    multiplicity_correction,
    simultaneous_confidence_level,
)
from skleak.utils._geometry import pair_success, true_positives
from skleak.utils._typing import Array, FloatArray

# Two others are the fewest whose scores tell a record's law without it from that with it.
FEWEST_RELEASES = 3
# From as many on, laws of scores find more members than ratios to their mean.
FEWEST_FOR_LAWS = 8
# By which a ratio must exceed another to dominate it.
_GAMMA = 1.0
# Rates of true positives and the area under the curve with their intervals, and lower limits that
# hold for all attacks together: those that stand beside the success, and those that come last.
_USUAL, _STRICT = ([name, f"{name}_low", f"{name}_high"] for name in TPR)
_FIRST = (*_USUAL, "auc")
RATES = (*_FIRST, *_STRICT, "auc_low", "auc_high", f"{_USUAL[0]}_least", "auc_least")
_N_RESAMPLES = 400
# Pairs of release and record above which fewer resamples have to do.
_MANY = 1 << 19
_FEW_RESAMPLES = 100
# Log-likelihood ratios beyond which nothing is looked for, and distances that are none, and sure.
_FARTHEST, _SAME, _APART = 700.0, 1e-12, 100.0
# Groups of releases that a jackknife leaves out in turn, at most.
_MOST_GROUPS = 20


def learned_guesses(scores: FloatArray, member: Array, attacked: Array) -> tuple[Array, FloatArray]:
    """Guess membership by the threshold of most right guesses in the other releases.

    Releases are dependent, since each teaches the thresholds of all others: the spread of their
    shares of right guesses understates the error of the mean up to threefold. The jackknife, which
    learns all thresholds anew without some releases, does not: its variance is too large, if
    anything (Efron and Stein, Annals of Statistics 1981).

    Shapes: ``scores`` (n_releases, n_targets); ``member`` (n_releases, n_targets); ``attacked``
    (n_releases, n_targets); returns ``guesses`` (n_releases, n_targets); ``pseudo`` (n_groups,),
    of mean share of right guesses, with the spread of the jackknife.
    """
    n = len(scores)
    release, record = np.nonzero(attacked)
    values = scores[release, record]
    order = np.argsort(-values, kind="stable")
    values, release = values[order], release[order]
    gain = np.where(member[release, record[order]], 1, -1)
    # Thresholds lie where the score changes, as ties are called alike; the first is above all.
    ends = np.flatnonzero(np.r_[values[1:] != values[:-1], True])

    def gains(of: Array) -> Array:
        return np.r_[0, np.cumsum(np.where(of, gain, 0), dtype=np.int32)[ends]]

    n_groups = min(n, _MOST_GROUPS)
    thresholds, total = np.r_[np.inf, values[ends]], gains(np.ones(len(gain), dtype=bool))
    left_out = np.array([gains(release % n_groups == g) for g in range(n_groups)])
    guesses, without = np.empty(scores.shape, dtype=bool), np.empty((n, n_groups))
    for r in range(n):
        own = gains(release == r)
        guesses[r] = scores[r] >= thresholds[np.argmax(total - own)]
        without[r] = own[np.argmax(total - own - left_out, axis=1)]
        without[r, r % n_groups] = np.nan
    # A gain counts members less others who are called members; others who are not are right, too.
    size, others = np.maximum(attacked.sum(axis=1), 1), (attacked & ~member).sum(axis=1)
    right = np.sum((guesses == member) & attacked, axis=1) / size
    if n_groups < 2:
        return guesses, right
    shares = np.nanmean((without + others[:, None]) / size[:, None], axis=0)
    return guesses, right.mean() + (n_groups - 1) * (shares.mean() - shares)


def likelihood_ratios(
    statistic: FloatArray, member: Array, prior: float, *, residuals: bool = False
) -> FloatArray:
    """Log posterior odds of membership from what the other releases teach.

    Each release is attacked as `LikelihoodRatioMembership` does, the others being its shadow
    models. With ``residuals`` statistics near zero speak for membership.

    Shapes: ``statistic`` (n_releases, n_targets), log odds may be infinite; ``member``
    (n_releases, n_targets); returns (n_releases, n_targets): prior odds where there are fewer than
    three releases.
    """
    ratios, n = np.zeros(statistic.shape), len(statistic)

    def known(rows: Any, pooling: Pooling | None = None) -> ShadowScores:
        limit = np.inf if residuals else score_limit(statistic[rows])
        return ShadowScores(
            statistic[rows], member[rows], "auto", limit, residuals=residuals, pooling=pooling
        )

    # Of each parity what laws share is learnt from the other alone.
    poolings: list[Pooling | None] = [None, None]
    for parity in (0, 1) if n > 3 else ():
        own = known(slice(1 - parity, None, 2))
        poolings[parity] = own.choose_pooling(np.arange(len(own.scores))[:, None])
    for release in range(n if n >= FEWEST_RELEASES else 0):
        others = np.delete(np.arange(n), release)
        # Of the other parity alone: where nothing leaks, weights from all others are large just
        # where the release itself speaks against them, and its guesses worse than chance.
        held_out = np.flatnonzero((others - release) % 2)
        evidence = known(others, poolings[release % 2]).evidence(held_out[:, None])
        ratios[release] = evidence.log_ratio(statistic[release])
    return ratios + np.log(prior) - np.log1p(-prior)


def scale_odds(scales: FloatArray, member: Array, prior: float) -> FloatArray:
    """Log posterior odds of membership from the noise scale of each release alone.

    How often each scale occurs with and without a candidate is learned from the other releases,
    half a release of each scale being added.

    Shapes: ``scales``, ``member`` (n_releases, n_targets); returns (n_releases, n_targets).
    """
    known, codes = np.unique(scales, return_inverse=True)
    seen = np.eye(len(known))[codes.reshape(scales.shape)]  # (n_releases, n_targets, n_scales)
    odds = np.full(scales.shape, np.log(prior) - np.log1p(-prior))
    for inside, sign in ((member, 1.0), (~member, -1.0)):
        each = seen * inside[:, :, None]
        counts = ((each.sum(axis=0) - each) * seen).sum(axis=2)
        total = inside.sum(axis=0) - inside
        odds += sign * np.log((counts + 0.5) / (total + 0.5 * len(known)))
    return odds


def robust_shares(statistic: FloatArray, member: Array, *, residuals: bool = False) -> FloatArray:
    """Share of the candidates that each dominates, with the other releases as reference models.

    Each release is attacked as `RobustMembershipInference` does, the candidates being its
    population.

    Shapes: ``statistic`` (n_releases, n_targets), log odds may be infinite; ``member``
    (n_releases, n_targets); returns (n_releases, n_targets).
    """
    shares = np.zeros(statistic.shape)
    for release in range(len(statistic) if len(statistic) >= FEWEST_RELEASES else 0):
        others = np.arange(len(statistic)) != release
        known = LikelihoodRatios(statistic[others], member[others], not residuals)
        ratios = known.under(statistic[release])
        shares[release] = dominated_shares(ratios, ratios, _GAMMA)
    return shares


def rates(
    scores: FloatArray,
    member: Array,
    attacked: Array,
    level: float,
    n_attacks: int = 1,
    *,
    guesses: Array | None = None,
) -> dict[str, float]:
    """Return `RATES` of one threshold for all releases and records.

    Shapes: ``scores`` (n_releases, n_targets); ``member``, ``attacked`` and ``guesses``
    (n_releases, n_targets); returns: NaN where there are no members or no others; without scores
    all but the lower limits, which are of the guesses then. The rate at one false positive in a
    thousand is NaN with fewer than a thousand others.

    The intervals of true positive rates are of the bootstrap over releases, each with all its
    records, with Student's quantile for their number, and never shorter than those of as many
    independent scores. That of the area is of its linear expansion in the releases. Lower limits
    of `n_attacks` hold together: each has its part of the level.
    """
    unknown = dict.fromkeys(RATES, np.nan)
    release, record = np.nonzero(attacked)
    values, truth = scores[release, record], member[release, record]
    if np.isnan(values).any() and guesses is not None:
        blind = rates(guesses.astype(float), member, attacked, level, n_attacks)
        return unknown | {name: blind[name] for name in RATES[-2:]}
    if np.isnan(values).any() or not 0 < truth.sum() < len(truth):
        return unknown
    order = np.argsort(-values, kind="stable")
    values, truth, release = values[order], truth[order], release[order]
    last = np.flatnonzero(np.r_[values[1:] != values[:-1], True])

    def curve(weights: FloatArray | float) -> list[FloatArray]:
        return [np.cumsum(np.where(side, weights, 0.0))[last] for side in (~truth, truth)]

    false, true = curve(1.0)
    # The second is not known with fewer others than one in a thousand.
    levels, n = np.array([*TPR.values()]), len(scores)
    levels = levels[: 1 + bool(levels[1] * false[-1] >= 1.0 - ROUND_OFF)]
    allowed = levels * (1.0 + ROUND_OFF)
    found = _share(false, true, allowed * false[-1])
    generator, resampled = np.random.default_rng(0), []
    for _ in range(_FEW_RESAMPLES if len(values) > _MANY else _N_RESAMPLES):
        counts = np.bincount(generator.integers(n, size=n), minlength=n).astype(float)
        others, members = curve(counts[release])
        if others[-1] > 0.0 and members[-1] > 0.0:
            resampled.append(_share(others, members, allowed * others[-1]))

    def limits(tail: float) -> FloatArray:
        # Few releases: Student's quantile in place of the normal one, and the spread of n - 1.
        factor = stats.t.isf(tail, max(n - 1, 1)) / stats.norm.isf(tail)
        factor *= np.sqrt(n / max(n - 1, 1))
        around = np.quantile(resampled, [tail, 1.0 - tail], axis=0)
        low, high = found + factor * (around - found)
        within = _independent(false, true, levels, tail)
        return np.clip([np.minimum(low, within[0]), np.maximum(high, within[1])], 0.0, 1.0)

    areas = _areas(values, truth, release, n)
    split = (1.0 - level) / max(n_attacks, 2)
    for name, *interval in zip(TPR, found, *limits(0.5 * (1.0 - level)), strict=False):
        unknown |= ends(name, interval)
    least = share_interval(*areas, 1.0 - 2.0 * split).low
    return (
        unknown
        | ends("auc", share_interval(*areas, level))
        | dict(zip(RATES[-2:], (float(limits(split)[0, 0]), least), strict=True))
    )


def _share(false: FloatArray, true: FloatArray, allowed: FloatArray) -> FloatArray:
    """Share of the true ones above the last thresholds with as many false ones, at most."""
    return np.r_[0.0, true][np.searchsorted(false, allowed, "right")] / true[-1]


def _areas(values: FloatArray, truth: Array, release: Array, n: int) -> tuple[FloatArray, float]:
    """Areas under the curve of n releases, of the mean and spread of that of all, and a number.

    Each record counts by the share of the others that it is ordered rightly with; the spread of
    the sums over releases is that of the area (Obuchowski, Biometrics 1997), and its interval is
    that of a share of as many independent outcomes as the number.
    """
    above = stats.rankdata(-values)
    for side in (truth, ~truth):  # of the other side, ties by halves
        above[side] -= stats.rankdata(-values[side])
    members, others = np.sum(truth), np.sum(~truth)
    right = np.where(truth, 1.0 - above / others, above / members)
    area = right[truth].mean()
    share = (right - area) / np.where(truth, members, others)
    own = n * np.bincount(release, weights=share, minlength=n)
    return area + own, float(min(members, others))


def _independent(
    false: FloatArray, true: FloatArray, rates: FloatArray, tail: float
) -> tuple[FloatArray, FloatArray]:
    """Intervals of true positive rates if all scores were independent.

    The number of non-members above the threshold sought is binomial, and so is that of members
    above it; the two errors are independent, and their squares add.
    """
    others, members = false[-1], true[-1]
    fewest, most = stats.binom.ppf([[tail], [1.0 - tail]], others, rates)
    # With `fewest` above it the threshold lies below that many non-members; with none it may lie
    # above all scores.
    allowed = np.array([fewest - 1.0, np.floor(rates * others * (1.0 + ROUND_OFF)), most])
    below, found, above = _share(false, true, allowed)
    _, low, high = binomial_interval(np.rint(found * members), members, 1.0 - 2.0 * tail)
    return found - np.hypot(found - below, found - low), found + np.hypot(
        above - found, high - found
    )


def best_rate(distances: FloatArray, rate: float) -> float:
    """Find the true positive rate of the best pooled test at a false positive rate, or NaN.

    Shapes: ``distances`` (...), each between N(0, 1) and N(distance, 1); infinite ones are told
    apart for sure, and NaN are left out.

    By Neyman and Pearson it thresholds the likelihood ratio of all pairs alike: at log ratio t a
    pair has ``Phi(-D / 2 - t / D)`` false positives and ``Phi(D / 2 - t / D)`` true ones.
    """
    known = distances[~np.isnan(distances)]
    if not known.size:
        return float("nan")
    apart = np.clip(known, _SAME, _APART)

    def called(t: float, sign: float) -> float:
        return float(ndtr(sign * 0.5 * apart - t / apart).mean())

    if called(-_FARTHEST, -1.0) <= rate:
        return 1.0
    # Pairs that cannot be told apart are called at random, by a threshold that is next to 0.
    t = brentq(lambda t: called(t, -1.0) - rate, -_FARTHEST, _FARTHEST, xtol=np.finfo(float).tiny)
    return called(float(t), 1.0)


class _Guessed(NamedTuple):
    """Answers of an attack at one level, (n_releases, n_targets) each."""

    scores: FloatArray
    guesses: Array
    right: FloatArray  # 1 where it was right, else 0; NaN where a record was held out
    shares: FloatArray  # of the games of each release in which it was right
    wider: FloatArray  # those, or values of the same mean that tell more of its error
    extra: float  # variance of the mean share beyond the spread among releases


@dataclass(kw_only=True, eq=False)
class MembershipDesign(Design):
    """A game about who was trained on."""

    rules: Mapping[str, str]  # by name of an attack, how it guesses
    prior: float  # probability of membership

    @property
    def baseline(self) -> float:
        """Success of the prior alone."""
        return max(self.prior, 1.0 - self.prior)

    def columns(
        self,
        played: Played,
        found: Mapping[str, float],
        above: Mapping[str, Any],
        *,
        bounds: Mapping[str, float],
        limits: Mapping[str, float],
        gap: Interval,
        utility: float,
        distances: FloatArray,
    ) -> dict[str, Any]:
        """Return columns of an attack: its success, rates, and how many are above the limit.

        All of a level share what bounds are, and may be where they are estimates, the gap, utility,
        and distances of models with and without over the noise.
        """
        return {
            **success_columns(played.shown, self.baseline),
            **{rate: found[rate] for rate in _FIRST},
            **ends("gap", gap),
            "lower_bound": surely_reached(gap, self.prior),
            **judged_columns(self, played, bounds, limits, utility),
            **above,
            **{rate: found[rate] for rate in RATES[len(_FIRST) :]},
            **{f"bayes_{at}": best_rate(distances, rate) for at, rate in TPR.items()},
        }


@dataclass(kw_only=True, eq=False)
class ReleasedDesign(MembershipDesign):
    """A game about all candidates at once, some of whom are members of each release."""

    max_advantage: float  # that is tolerated of a record
    parts: Mapping[str, Array]  # by kind of group, that of each target, (n_targets,); None for none
    classifies: bool  # whether labels are predicted

    def attack_columns(self, k: int, cells: Mapping[str, Outcome]) -> dict[str, dict[str, Any]]:
        """Return success of each attack, from what is finished."""
        done, level = self._finished(cells), self.confidence_level
        separation, bounds, limits = self._separation(done, k), dict[str, float](), {}
        success = _mean(pair_success(separation, self.prior), 1)
        for name in self.bounds:
            values = pd.Series(success if name == "bayes" else done["dp"][:, k])
            bounds[name] = float(values.mean())
            limits[name] = bounds[name] + N_ERRORS * np.sqrt(_error(values.dropna().to_numpy()))
        gaps = pd.Series(done["gap"][:, k]).dropna()
        shared: dict[str, Any] = {
            "bounds": bounds,
            "limits": limits,
            "gap": mean_interval(gaps, confidence_level=level) if len(gaps) else UNKNOWN,
            "utility": float(pd.Series(done["utility"][:, k]).mean()),
            "distances": separation,
        }
        found, n_games = self._played(done, k), int(done["attacked"].sum())
        # The count of records is that of the attack which shows most.
        each_level = simultaneous_confidence_level(level, len(found))
        limit = self.max_advantage, self.baseline, each_level
        betting: dict[str, Any] = {"value_range": (0.0, 1.0), "method": "betting"}
        attacks = {}
        for name, each in found.items():
            judged = mean_interval(each.shares, confidence_level=self.verdict_level, **betting)
            shown = share_interval(each.wider, n_games, level)
            asked = (done["member"], done["attacked"], level, len(found))
            above = records_above(each.right, *limit, extra_variance=each.extra)
            columns = {
                "records_above": above.at_least if above.tells else np.nan,
                "records_above_by": above.method,
                "design_effect": above.design_effect,
                "enough_releases": above.n_enough,
            }
            played = Played(shown, judged, n_games, each.shares)
            rated = rates(each.scores, *asked, guesses=each.guesses)
            attacks[name] = self.columns(played, rated, columns, **shared)
        return attacks

    def record_columns(self, k: int, cells: Mapping[str, Outcome]) -> dict[str, Any]:
        """Return success about each candidate."""
        done = self._finished(cells)
        separation = self._separation(done, k)
        played = self._played(done, k).items()
        return {
            "prior": self.baseline,
            "n_games": done["attacked"].sum(axis=0),
            "bayes": _mean(pair_success(separation, self.prior)),
            **{f"success_{name}": _mean(each.right) for name, each in played},
            **{f"bayes_{at}": _mean(true_positives(separation, rate)) for at, rate in TPR.items()},
        }

    def groups(self, cells: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level, attack and group, with p-values corrected for all."""
        done = self._finished(cells)
        groups = [
            (kind, group, places)
            for kind, labels in self.parts.items()
            for group, places in pd.Series(labels).groupby(labels).indices.items()
        ]
        rows = []
        for k, noise in enumerate(self.noise_scales if done and groups else ()):
            for name, each in self._played(done, k).items():
                for kind, group, places in groups:
                    right = each.right[:, places]
                    n_games = int(np.sum(~np.isnan(right)))
                    found = share_interval(_mean(right, 1), n_games, self.confidence_level)
                    row = {"noise_scale": noise, "attack": name, "kind": kind, "group": group}
                    row |= {"n_records": right.shape[1], "n_games": n_games}
                    row["n_right"] = int(np.nansum(right))
                    row |= ends("success", found) | {"baseline": self.baseline}
                    row["p_value"] = group_p_value(right, self.baseline, extra_variance=each.extra)
                    rows.append(row)
        table = pd.DataFrame(rows)
        if len(table):
            corrected = table.groupby("kind")["p_value"].transform(multiplicity_correction)
            table["p_value"] = np.minimum(corrected * table["kind"].nunique(), 1.0)
        return table

    def _separation(self, done: Mapping[str, Array], k: int) -> FloatArray:
        """Distances of models with and without over the noise, NaN but for members."""
        return np.where(done["member"], over_noise(done["distance"], self.noise_scales[k]), np.nan)

    def _finished(self, cells: Mapping[str, Outcome]) -> dict[str, Array]:
        """Arrays of the releases that are finished, (n_releases, ...) each; none without any."""
        keys = map(release_key, range(self.n_releases))
        done = [cells[key] for key in keys if key in cells]
        return {name: np.stack([cell[name] for cell in done]) for name in (done[0] if done else ())}

    def _played(self, done: Mapping[str, Array], k: int) -> dict[str, _Guessed]:
        """Answers of every attack."""
        member, attacked = done["member"], done["attacked"]
        played, residuals = {}, not self.classifies
        for j, (name, rule) in enumerate(self.rules.items()):
            scores, guesses, pseudo = done["scores"][:, j, k], done["guesses"][:, j, k], np.empty(0)
            if rule == "likelihood_ratio":
                scores = likelihood_ratios(scores, member, self.prior, residuals=residuals)
                guesses = scores > 0.0
            elif rule == "scale":
                scores = scale_odds(scores, member.astype(bool), self.prior)
                guesses = scores > 0.0
            elif rule == "robust":
                scores = robust_shares(scores, member, residuals=residuals)
            # A single release has no others to learn from.
            if rule == "robust" or (rule == "score" and len(member) > 1):
                guesses, pseudo = learned_guesses(scores, member, attacked)
            right = np.where(attacked, guesses == member, np.nan)
            shares = _mean(right, 1)
            wider = max(shares, pseudo, key=_error)
            extra = _error(wider) - _error(shares)
            played[name] = _Guessed(scores, guesses, right, shares, wider, extra)
        return played


@dataclass(kw_only=True, eq=False)
class DrawnDesign(MembershipDesign):
    """A game about one candidate at a time, who is drawn in or out."""

    dp: tuple[float, ...]  # success that differential privacy allows at each level
    distances: FloatArray  # of the parameters with and without each target, (n_targets,)

    def attack_columns(self, k: int, cells: Mapping[str, Outcome]) -> dict[str, dict[str, Any]]:
        """Return success of each attack, from what is finished."""
        noise = self.noise_scales[k]
        computed = cells.get(cell_key(noise, "bounds"), {})
        known = computed | {"dp": self.dp[k]}
        shared: dict[str, Any] = {
            "bounds": {name: float(np.mean(known.get(name, np.nan))) for name in self.bounds},
            "limits": {},  # of two hypotheses bounds are no estimates
            "gap": _difference(cells.get(cell_key(noise, "gap")), self.confidence_level),
            "utility": mean_utility(cells, noise),
            "distances": over_noise(self.distances, noise),
        }
        attacks = {}
        for name in self.attacks:
            if (found := cells.get(cell_key(noise, name))) is not None:
                # Games about different records spread no more than a binomial of their mean
                # (Hoeffding 1956).
                rated = dict(zip(RATES, found["rates"].tolist(), strict=True))
                attacks[name] = self.columns(Played.of(self, found), rated, {}, **shared)
        return attacks

    def record_columns(self, k: int, cells: Mapping[str, Outcome]) -> dict[str, Any]:
        """Return success about each candidate, and bounds."""
        noise = self.noise_scales[k]
        separation = over_noise(self.distances, noise)
        return {
            "prior": self.baseline,
            "n_games": self.n_releases,
            **bounded_columns(self, cells, noise),
            **{f"bayes_{name}": true_positives(separation, rate) for name, rate in TPR.items()},
        }


def surely_reached(gap: Interval, prior: float) -> float:
    """Success that some attack reaches, from a gap of losses in [0, 1] at its confidence."""
    if np.isnan(gap.estimate):
        return np.nan
    size = float(np.clip(max(gap.low, -gap.high, 0.0), 0.0, 1.0))
    baseline = max(prior, 1.0 - prior)
    gain = membership_lower_bound_bounded(size, 1.0, prior)
    return float(baseline + (1.0 - baseline) * gain)


def _error(shares: FloatArray) -> float:
    """Squared standard error of the mean of shares; 0 where there are too few."""
    return float(shares.var(ddof=1) / len(shares)) if len(shares) > 1 else 0.0


def _difference(lost: Outcome | None, level: float) -> Interval:
    """Mean loss of games without the record less that with it, with Welch's interval."""
    if lost is None:
        return UNKNOWN
    groups = [lost["losses"][lost["member"] == side] for side in (False, True)]
    if min(map(len, groups)) < 2:
        return UNKNOWN
    gap = float(groups[0].mean() - groups[1].mean())
    if not any(map(np.ptp, groups)):
        return Interval(gap, -np.inf, np.inf)
    test = stats.ttest_ind(*groups, equal_var=False)
    return Interval(gap, *map(float, test.confidence_interval(level)))


def _mean(values: FloatArray, axis: int = 0) -> FloatArray:
    """Mean of what is known along an axis of a table; NaN where nothing is."""
    return pd.DataFrame(values).mean(axis=axis).to_numpy()
