"""What an attacker learns from other releases, whose members are known, about one more release.

Members of the releases of an audit are drawn independently. For an attack on one of them, all the
others are therefore what shadow models are to an attacker who trains them: models of the same
kind, on records drawn in the same way, whose members the attacker knows. None of what follows
looks at the memberships of the release under attack.
"""

from typing import Any

import numpy as np

from skleak.attacks.membership.shadow import Pooling, choose_pooling, fit_evidence, score_limit
from skleak.utils._typing import Array, FloatArray

# Fewer releases than these teach too little about the others.
FEWEST_RELEASES = 8


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


def _pooling(statistic: FloatArray, member: Array, residuals: bool) -> Pooling:
    """What the laws of records share, learnt from some releases (n_releases, n_targets)."""
    limit = np.inf if residuals else score_limit(statistic)
    groups = np.arange(len(statistic))[:, None]
    return choose_pooling(statistic, member, limit=limit, residuals=residuals, groups=groups)
