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

# Fewer releases than these teach too little about the others: with eight and more, laws of scores
# find more members than ratios to their mean, with fewer less.
FEWEST_RELEASES = 8
# Three others: in one case of four a record is in all of them, or in none.
FEWEST_FOR_MEANS = 4
# By which a ratio must exceed another to dominate it.
_GAMMA = 2.0


def learned_guesses(scores: FloatArray, member: Array, attacked: Array) -> Array:
    """Guess membership by the threshold of most right guesses in the other releases.

    Shapes: ``scores`` (n_releases, n_targets); ``member`` (n_releases, n_targets); ``attacked``
    (n_releases, n_targets); returns (n_releases, n_targets).
    """
    release, record = np.nonzero(attacked)
    values = scores[release, record]
    order = np.argsort(-values, kind="stable")
    values, release = values[order], release[order]
    gain = np.where(member[release, record[order]], 1, -1)
    # Thresholds lie where the score changes: ties are called alike.
    ends = np.flatnonzero(np.r_[values[1:] != values[:-1], True])
    guesses = np.empty(scores.shape, dtype=bool)
    for r in range(len(scores)):
        total = np.cumsum(np.where(release == r, 0, gain))[ends]
        best = int(np.argmax(total))
        guesses[r] = scores[r] >= values[ends[best]] if total[best] > 0 else False
    return guesses


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
    for release in range(n if n > 2 else 0):
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
    for release in range(len(statistic) if len(statistic) >= FEWEST_FOR_MEANS else 0):
        others = np.arange(len(statistic)) != release
        inside = member[others]
        scale = residual_scale(statistic[others], inside) if residuals else 1.0
        known = likelihoods(statistic, not residuals, scale)
        usual = usual_likelihoods(known[others], inside, interpolation_of(known[others], inside))
        ratios = known[release] / usual
        shares[release] = dominated_shares(ratios, ratios, _GAMMA)
    return shares


def ranked_guesses(scores: FloatArray, prior: float) -> Array:
    """Guess in each release that the share `prior` of the largest scores are members.

    Shapes: ``scores`` (n_releases, n_targets); returns (n_releases, n_targets).
    """
    number = int(prior * scores.shape[1])
    if not number:
        return np.zeros(scores.shape, dtype=bool)
    least = np.sort(scores, axis=1)[:, -number]
    return scores >= least[:, None]


def _pooling(statistic: FloatArray, member: Array, residuals: bool) -> Pooling:
    """Learn from some releases (n_releases, n_targets) what the laws of records share."""
    limit = np.inf if residuals else score_limit(statistic)
    groups = np.arange(len(statistic))[:, None]
    return choose_pooling(statistic, member, limit=limit, residuals=residuals, groups=groups)
