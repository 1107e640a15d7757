"""Which membership attacks an audit plays, and what each asks of a model."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from skleak.adversary.hypotheses import attack_weights
from skleak.attacks import MembershipInference
from skleak.audit.games._game import RESERVED, named_attacks, own_copy
from skleak.audit.games.membership._subject import MembershipSubject
from skleak.audit.tables._shadows import FEWEST_FOR_LAWS, FEWEST_RELEASES
from skleak.exceptions import AttackNotApplicableError
from skleak.mechanisms import NoiseGoal

_SCORES = ("loss", "likelihood", "modified_entropy", "gradient_norm")
# They learn from the other releases.
_LEARNING = ("likelihood_ratio", "robust")
_SCALE = "scale"  # of the noise, where it follows the records: it learns likewise


@dataclass(frozen=True)
class MembershipAttack:
    """An attack as an audit plays it: how it guesses, and what scores or guesses, unfitted.

    The rule "own" is that of a ``predict`` which was passed.
    """

    rule: Literal["score", "likelihood_ratio", "robust", "scale", "exact", "own"]
    attack: Any = None


def choose_membership_attacks(
    attacks: Any, subject: MembershipSubject, n_releases: int, drawn: bool
) -> dict[str, MembershipAttack]:
    """Attacks by name."""
    chosen = named_attacks(
        attacks,
        lambda: _default(subject, n_releases, drawn),
        known=(*_SCORES, *_LEARNING, _SCALE, "exact"),
        names={},
        reserved=(*RESERVED, "gap"),
        about=" on membership",
        arguments="X_candidates, y_candidates, X_reference, y_reference",
    )
    made = {name: _made(attack, subject) for name, attack in chosen.items()}
    for name, attack in chosen.items():
        _check(made[name], attack, subject, n_releases, drawn)
    return made


def _default(subject: MembershipSubject, n_releases: int, drawn: bool) -> list[str]:
    # Of two classes the modified entropy orders records as the loss does.
    several = subject.classifies and len(np.unique(subject.y)) > 2
    scores = ["loss", "modified_entropy"] if several else ["loss"]
    exact = [] if subject.obstacle else ["exact"]
    if drawn:
        return [*exact, *(scores if subject.reference is not None else [])]
    # With few releases either may find more.
    learning = _LEARNING if n_releases < FEWEST_FOR_LAWS else _LEARNING[:1]
    if isinstance(subject.goal, NoiseGoal):
        learning = (*learning, _SCALE)
    return [*scores, *(learning if n_releases >= FEWEST_RELEASES else []), *exact]


def _made(attack: Any, subject: MembershipSubject) -> MembershipAttack:
    if isinstance(attack, str):
        if attack == "exact":
            return MembershipAttack("exact")
        if attack == _SCALE:
            return MembershipAttack("scale")
        if attack in _LEARNING:
            return MembershipAttack("robust" if attack == "robust" else "likelihood_ratio")
        statistic: Any = attack  # one of the scores
        scores = MembershipInference(statistic=statistic, prior=subject.prior)
        return MembershipAttack("score", scores)
    own = own_copy(attack)
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
    if made.rule == "scale":
        if drawn or not isinstance(subject.goal, NoiseGoal) or n_releases < FEWEST_RELEASES:
            raise ValueError(
                "The attack 'scale' reads a noise scale that follows the records, and learns from "
                "the other releases what it is with and without each: it needs an estimator with "
                "a noise goal that reads the records, `noise_scales=None`, `secrets='actual'` and "
                f"`n_releases` of at least {FEWEST_RELEASES}. Leave it out of `attacks`."
            )
        return
    if made.rule in _LEARNING:
        if drawn or n_releases < FEWEST_RELEASES:
            raise ValueError(
                f"The attack {made.rule!r} learns from the other releases: it needs "
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
    needs = made.rule in _LEARNING or attack in ("loss", "likelihood", "modified_entropy")
    if needs and subject.classifies and not hasattr(subject.trained, "predict_proba"):
        raise AttackNotApplicableError(
            f"The attack {attack!r} needs class probabilities, and {name} has no `predict_proba`. "
            "Wrap it in CalibratedClassifierCV, or pass attacks of your own that read predictions."
        )
