"""Precision of a membership attack at the recall that it is asked to reach."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import as_result, check_numbers
from skleak.utils._typing import FloatArray, IntArray


def precision_at_recall(
    scores: npt.ArrayLike,
    membership: npt.ArrayLike,
    recall: npt.ArrayLike = 0.5,
    *,
    prior: float | None = None,
) -> Any:
    """Largest precision of a threshold on scores that finds the wanted share of members.

    Precision is the share of members among the candidates called members, recall the share of
    members that are called so ([BIL23] table 1). An attack that is sure of few records has a
    precision near 1 at a small recall, which its overall success does not show.

    Parameters
    ----------
    scores : array-like of shape (n_candidates,)
        One score for each candidate, larger for those more likely to be members; infinite ones are
        allowed.
    membership : array-like of shape (n_candidates,)
        Who is a member: booleans, or 0 and 1. At least one member and one other.
    recall : float or array-like of shape (...), default=0.5
        Share of the members to be found at least, in (0, 1].
    prior : float, default=None
        Probability that a candidate is a member, in (0, 1), where that differs from the share
        among these candidates: a benchmark of as many members as others makes every attack look
        precise. None takes that share.

    Returns
    -------
    float or ndarray of shape (...)
        In [`prior`, 1]; it does not increase with the recall, and is `prior` at least, since
        whoever calls everybody a member finds all of them.

    Raises
    ------
    TypeError
        For scores or a recall that are not numbers.
    ValueError
        For shapes that do not match, NaN, memberships other than 0 and 1 or all alike, or a recall
        or prior out of range.

    Notes
    -----
    With t the share of members and f the share of others that a threshold calls members, precision
    is ``prior t / (prior t + (1 - prior) f)``. Candidates of equal scores are called together, and
    the best of the thresholds with ``t >= recall`` counts. As it is chosen on the same candidates,
    the result is an optimistic estimate for the attacker with few of them; for an unbiased one,
    find the threshold on other models and count.

    Examples
    --------
    >>> scores = [0.9, 0.8, 0.7, 0.3, 0.2, 0.1]
    >>> membership = [1, 1, 0, 1, 0, 0]
    >>> precision_at_recall(scores, membership, [0.5, 1.0])
    array([1.  , 0.75])

    Among ten times as many others as members, the last would be rarer:

    >>> round(precision_at_recall(scores, membership, 1.0, prior=1 / 11), 4)
    0.2308
    """
    values, member = _check_candidates(scores, membership)
    wanted = check_numbers("recall", recall)
    if np.any((wanted <= 0.0) | (wanted > 1.0)):
        raise ValueError(
            f"`recall` must lie in (0, 1]; got {wanted.min():g} to {wanted.max():g}. Without any "
            "candidate called a member no precision is defined."
        )
    n_members, n_others = int(member.sum()), int((~member).sum())
    odds = n_members / len(member) if prior is None else _check_prior(prior)
    hits, alarms = _counts(values, member)
    found, false = odds * hits / n_members, (1.0 - odds) * alarms / n_others
    # The best from each threshold on; where none has found a member, the precision is zero.
    best = np.maximum.accumulate((found / (found + false))[::-1])[::-1]
    # As many members as the recall asks for, up to the round-off of recall times their number.
    needed = np.ceil(wanted * n_members * (1.0 - 1e-12))
    return as_result(best[np.searchsorted(hits, needed)])


def _counts(scores: FloatArray, member: npt.NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Members and others called at every threshold, one for each score, the largest first."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)
    called = np.cumsum(member[order])[ends]
    return called, ends + 1 - called


def _check_candidates(
    scores: npt.ArrayLike, membership: npt.ArrayLike
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    values = check_numbers("scores", scores, empty=False)
    member = check_numbers("membership", membership, empty=False)
    if values.ndim != 1 or member.shape != values.shape:
        raise ValueError(
            "`scores` and `membership` must have one entry for each candidate; got shapes "
            f"{values.shape} and {member.shape}."
        )
    if not np.all((member == 0.0) | (member == 1.0)):
        raise ValueError("`membership` must hold True and False, or 1 and 0, and nothing else.")
    if np.all(member == member[0]):
        raise ValueError(
            "`membership` must hold both members and others; got "
            f"{'members' if member[0] else 'others'} only. Add candidates of the other kind."
        )
    return values, member == 1.0


def _check_prior(prior: float) -> float:
    odds = check_numbers("prior", prior)
    if odds.ndim > 0 or not 0.0 < float(odds) < 1.0:
        raise ValueError(f"`prior` must be one probability in (0, 1), ends excluded; got {prior}.")
    return float(odds)
