"""What an attacker learns from other releases, whose members are known, about one more release.

Members of the releases of an audit are drawn independently. For an attack on one of them, all the
others are therefore what shadow models are to an attacker who trains them: models of the same
kind, on records drawn in the same way, whose members the attacker knows. None of what follows
looks at the memberships of the release under attack.
"""

import numpy as np

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, FloatArray

__all__ = ["learned_guesses", "likelihood_ratios"]

# Weight of the variance of all records beside that of one, in observations.
_SHRINKAGE = 16.0
_ELEMENTS = 1 << 20


def learned_guesses(scores: FloatArray, member: Array, attacked: Array) -> Array:
    """Guess membership by the threshold of most right guesses in the other releases.

    Parameters
    ----------
    scores : ndarray of shape (n_releases, n_targets)
        Larger for members.
    member : ndarray of bool of shape (n_releases, n_targets)
        Whether each record was trained on.
    attacked : ndarray of bool of shape (n_releases, n_targets)
        Others are not counted.

    Returns
    -------
    ndarray of bool of shape (n_releases, n_targets)

    Examples
    --------
    >>> member = np.array([[True, False, False], [False, True, True]])
    >>> scores = np.where(member, 2.0, 1.0)
    >>> bool((learned_guesses(scores, member, np.ones((2, 3), dtype=bool)) == member).all())
    True
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


def likelihood_ratios(statistic: FloatArray, member: Array, prior: float) -> FloatArray:
    """Log posterior odds of membership from normal laws that other releases teach.

    Parameters
    ----------
    statistic : ndarray of shape (n_releases, n_targets)
        Of every record in every release, see `confidences`.
    member : ndarray of bool of shape (n_releases, n_targets)
        Whether each record was trained on.
    prior : float
        Probability of membership.

    Returns
    -------
    ndarray of shape (n_releases, n_targets)
        Prior odds where fewer than two other releases have the record, or have it not.

    Notes
    -----
    The online attack of Carlini et al. 2022: for every record a normal law with it and one
    without. A variance is that of the record's own releases and, with the weight of 16
    observations, that of all records: with few releases nearly one for all, with many its own.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random((40, 5)) < 0.5
    >>> odds = likelihood_ratios(rng.normal(3.0 * member), member, 0.5)
    >>> bool(np.mean((odds > 0.0) == member) > 0.85)
    True
    """
    centred = statistic - statistic.mean(axis=0)
    spread = centred.std()
    if not spread > 0.0:
        return np.full(statistic.shape, np.log(prior) - np.log1p(-prior))
    centred = centred / spread
    common = [_common_variance(centred, group) for group in (member, ~member)]
    odds = np.empty(statistic.shape)
    for columns in row_blocks(statistic.shape[1], len(statistic), _ELEMENTS):
        own, known = centred[:, columns], np.ones(centred[:, columns].shape, dtype=bool)
        logs = []
        for group, shared in zip((member, ~member), common, strict=True):
            density, enough = _log_density(own, group[:, columns], shared)
            logs.append(density)
            known &= enough
        odds[:, columns] = np.where(known, logs[0] - logs[1], 0.0)
    return odds + np.log(prior) - np.log1p(-prior)


def _without_own(values: FloatArray, group: Array) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Number, mean and sum of squares about it in a group of the other releases, for each."""
    inside = group.astype(float)
    number = inside.sum(axis=0) - inside
    total = (inside * values).sum(axis=0) - inside * values
    square = (inside * values**2).sum(axis=0) - inside * values**2
    mean = total / np.maximum(number, 1.0)
    return number, mean, np.maximum(square - number * mean**2, 0.0)


def _common_variance(values: FloatArray, group: Array) -> FloatArray:
    """Variance within records over the other releases, pooled, of shape (n_releases, 1)."""
    squares, freedom = np.zeros(len(values)), np.zeros(len(values))
    for columns in row_blocks(values.shape[1], len(values), _ELEMENTS):
        number, _, square = _without_own(values[:, columns], group[:, columns])
        squares += square.sum(axis=1)
        freedom += np.maximum(number - 1.0, 0.0).sum(axis=1)
    # In units of the spread of all: what is less is round-off.
    return np.maximum(squares / np.maximum(freedom, 1.0), 1e-12)[:, None]


def _log_density(values: FloatArray, group: Array, shared: FloatArray) -> tuple[FloatArray, Array]:
    number, mean, square = _without_own(values, group)
    freedom = np.maximum(number - 1.0, 0.0)
    variance = (_SHRINKAGE * shared + square) / (_SHRINKAGE + freedom)
    # The mean is estimated too, so that the statistic of another release spreads more about it.
    variance = variance * (1.0 + 1.0 / np.maximum(number, 1.0))
    return -0.5 * (np.log(variance) + (values - mean) ** 2 / variance), number >= 2.0
