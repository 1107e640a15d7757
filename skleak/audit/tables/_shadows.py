"""What an attacker learns from other releases, whose members are known, about one more release.

Members of the releases of an audit are drawn independently. For an attack on one of them, all the
others are therefore what shadow models are to an attacker who trains them: models of the same
kind, on records drawn in the same way, whose members the attacker knows. None of what follows
looks at the memberships of the release under attack.
"""

from typing import Any

import numpy as np

from skleak.attacks.membership.shadow import (
    Pooling,
    choose_pooling,
    dominated_shares,
    fit_evidence,
    interpolation_of,
    likelihoods,
    residual_scale,
    score_limit,
    usual_likelihoods,
)
from skleak.utils._typing import Array, FloatArray

# Two others are the fewest whose scores tell a record's law without it from that with it.
FEWEST_RELEASES = 3
# From as many on, laws of scores find more members than ratios to their mean.
FEWEST_FOR_LAWS = 8
# By which a ratio must exceed another to dominate it.
_GAMMA = 1.0
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
    left_out = [gains(release % n_groups == g) for g in range(n_groups)]
    guesses, without = np.empty(scores.shape, dtype=bool), np.full((n, n_groups), np.nan)
    for r in range(n):
        own = gains(release == r)
        guesses[r] = scores[r] >= thresholds[np.argmax(total - own)]
        for g in range(n_groups):
            if g != r % n_groups:
                without[r, g] = own[np.argmax(total - own - left_out[g])]
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
    ratios = np.zeros(statistic.shape)
    n = len(statistic)
    # Of each parity what laws share is learnt from the other alone.
    poolings = [
        _pooling(statistic[side::2], member[side::2], residuals) if n > 3 else None
        for side in (1, 0)
    ]
    for release in range(n if n >= FEWEST_RELEASES else 0):
        others = np.delete(np.arange(n), release)
        known = statistic[others]
        limit = np.inf if residuals else score_limit(known)
        # Of the other parity alone: where nothing leaks, weights from all others are large just
        # where the release itself speaks against them, and its guesses worse than chance.
        groups = np.flatnonzero((others - release) % 2)[:, None]
        options: dict[str, Any] = {"limit": limit, "residuals": residuals, "groups": groups}
        options["pooling"] = poolings[release % 2]
        evidence = fit_evidence(known, member[others], **options)
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
        inside = member[others]
        scale = residual_scale(statistic[others], inside) if residuals else 1.0
        known = likelihoods(statistic, not residuals, scale)
        usual = usual_likelihoods(known[others], inside, interpolation_of(known[others], inside))
        ratios = known[release] / usual
        shares[release] = dominated_shares(ratios, ratios, _GAMMA)
    return shares


def _pooling(statistic: FloatArray, member: Array, residuals: bool) -> Pooling:
    """Learn from some releases (n_releases, n_targets) what the laws of records share."""
    limit = np.inf if residuals else score_limit(statistic)
    groups = np.arange(len(statistic))[:, None]
    return choose_pooling(statistic, member, limit=limit, residuals=residuals, groups=groups)
