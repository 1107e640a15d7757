"""Which membership attacks an audit plays, and what each asks of a model."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from skleak.adversary._consistency import attack_weights
from skleak.attacks import MembershipInference
from skleak.audit.games.membership._subject import MembershipSubject
from skleak.exceptions import AttackNotApplicableError

__all__ = [
    "FEWEST_RELEASES",
    "MembershipAttack",
    "choose_membership_attacks",
]

Rule = Literal["score", "likelihood_ratio", "exact", "own"]

SCORES = ("loss", "likelihood", "modified_entropy", "gradient_norm")
NAMES = (*SCORES, "likelihood_ratio", "exact")
# Fewer releases than these teach too little about the others.
FEWEST_RELEASES = 8
_RESERVED = ("bounds", "noiseless", "utility", "gap")


@dataclass(frozen=True)
class MembershipAttack:
    """An attack as an audit plays it.

    Parameters
    ----------
    rule : {"score", "likelihood_ratio", "exact", "own"}
        How it guesses: by a threshold on a score, by the likelihood ratio of a confidence, by the
        exact test, or by a ``predict`` of its own.
    attack : attack or None
        What scores or guesses; unfitted.
    """

    rule: Rule
    attack: Any = None


def choose_membership_attacks(
    attacks: Any, subject: MembershipSubject, n_releases: int, drawn: bool
) -> dict[str, MembershipAttack]:
    """Attacks by name."""
    if isinstance(attacks, str) and attacks == "default":
        attacks = _default(subject, n_releases, drawn)
    if isinstance(attacks, Mapping):
        chosen = dict(attacks)
    else:
        single = isinstance(attacks, str) or hasattr(attacks, "predict")
        chosen = {}
        for attack in [attacks] if single else list(attacks):
            chosen[_free_name(attack, chosen)] = attack
    if not chosen:
        raise ValueError("`attacks` must hold at least one attack; got none. Pass 'default'.")
    made = {}
    for name, attack in chosen.items():
        if not isinstance(name, str) or name in _RESERVED:
            raise ValueError(
                f"Attacks must be named by strings other than {', '.join(_RESERVED)}; got {name!r}."
            )
        made[name] = _made(attack, subject)
        _check(made[name], attack, subject, n_releases, drawn)
    return made


def _default(subject: MembershipSubject, n_releases: int, drawn: bool) -> list[str]:
    # Of two classes the modified entropy orders records as the loss does.
    several = subject.classifies and len(np.unique(subject.y)) > 2
    scores = ["loss", "modified_entropy"] if several else ["loss"]
    exact = [] if subject.obstacle else ["exact"]
    if drawn:
        return [*exact, *(scores if subject.reference is not None else [])]
    ratio = ["likelihood_ratio"] if n_releases >= FEWEST_RELEASES else []
    return [*scores, *ratio, *exact]


def _made(attack: Any, subject: MembershipSubject) -> MembershipAttack:
    if isinstance(attack, str):
        if attack not in NAMES:
            raise ValueError(
                "`attacks` on membership must be 'default' or name some of "
                f"{list(NAMES)}, or hold attacks; got {attack!r}."
            )
        if attack in ("likelihood_ratio", "exact"):
            return MembershipAttack("exact" if attack == "exact" else "likelihood_ratio")
        # `attack` is one of the scores.
        statistic: Any = attack
        own = MembershipInference(statistic=statistic, prior=subject.prior)
        return MembershipAttack("score", own)
    if isinstance(attack, type) or not (hasattr(attack, "fit") and hasattr(attack, "predict")):
        raise TypeError(
            "`attacks` on membership must hold names or attacks with "
            "`fit(X_candidates, y_candidates, X_reference, y_reference)` and `predict(released)`; "
            f"got {attack.__name__ if isinstance(attack, type) else type(attack).__name__}."
        )
    own = clone(attack) if hasattr(attack, "get_params") else copy.deepcopy(attack)
    attack_weights(own, sample_weight=subject.weights)  # raises where they cannot be told
    return MembershipAttack("own", own)


def _check(
    made: MembershipAttack, attack: Any, subject: MembershipSubject, n_releases: int, drawn: bool
) -> None:
    name = type(subject.trained).__name__
    if made.rule == "exact":
        if subject.obstacle:
            raise AttackNotApplicableError(
                f"The attack 'exact' is not known for this estimator: {subject.obstacle}. Leave it "
                "out of `attacks`; 'likelihood_ratio' takes any estimator."
            )
        return
    if made.rule == "likelihood_ratio":
        if drawn or n_releases < FEWEST_RELEASES:
            raise ValueError(
                "The attack 'likelihood_ratio' learns from the other releases: it needs "
                f"`secrets='actual'` and `n_releases` of at least {FEWEST_RELEASES}; got "
                f"{n_releases} with `secrets={'drawn' if drawn else 'actual'!r}`."
            )
    elif drawn and subject.reference is None and made.rule == "score":
        raise ValueError(
            f"With `secrets='drawn'` the attack {attack!r} calibrates its threshold on records "
            "that no model was trained on. Pass `X_test` and `y_test`, or attack with 'exact'."
        )
    if attack == "modified_entropy" and not subject.classifies:
        raise AttackNotApplicableError(
            f"The attack 'modified_entropy' needs class probabilities; {name} is a regressor. Use "
            "'loss', 'likelihood' or 'gradient_norm'."
        )
    needs = made.rule == "likelihood_ratio" or attack in ("loss", "likelihood", "modified_entropy")
    if needs and subject.classifies and not hasattr(subject.trained, "predict_proba"):
        raise AttackNotApplicableError(
            f"The attack {attack!r} needs class probabilities, and {name} has no `predict_proba`. "
            "Wrap it in CalibratedClassifierCV, or pass attacks of your own that read predictions."
        )


def _free_name(attack: Any, taken: Mapping[str, Any]) -> str:
    name = attack if isinstance(attack, str) else type(attack).__name__
    free, k = name, 2
    while free in taken:
        free, k = f"{name}-{k}", k + 1
    return str(free)
