"""Which membership attacks an audit plays, and what each asks of a model."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from skleak.attacks import MembershipInference
from skleak.attacks._membership_scores import is_probabilistic
from skleak.audit._membership_subject import MembershipSubject
from skleak.exceptions import AttackNotApplicableError
from skleak.metrics._record_losses import (
    class_probabilities,
    complements,
    label_positions,
    log_probabilities,
    residuals,
    with_unseen,
)
from skleak.utils._typing import Array, FloatArray

__all__ = [
    "FEWEST_RELEASES",
    "MembershipAttack",
    "choose_membership_attacks",
    "confidences",
]

Rule = Literal["score", "likelihood_ratio", "exact", "own"]

SCORES = ("loss", "likelihood", "modified_entropy", "gradient_norm")
NAMES = (*SCORES, "likelihood_ratio", "exact")
# Fewer releases than these teach too little about the others.
FEWEST_RELEASES = 8
# Confidences beyond this are round-off of a probability in double precision.
_LARGEST_LOGIT = 37.0
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
    """Attacks by name.

    Parameters
    ----------
    attacks : "default", str, attack, list of them, or dict of name to attack
        As passed by the user.
    subject : MembershipSubject
        What is audited.
    n_releases : int
        Number of releases.
    drawn : bool
        Whether one record at a time is drawn in or out.

    Returns
    -------
    dict of str to MembershipAttack

    Raises
    ------
    ValueError
        For an unknown name, no attack, too few releases for an attack, or records that it needs.
    TypeError
        For objects that are no attacks.
    AttackNotApplicableError
        For attacks that the estimator does not admit.
    """
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
                f"With `target='membership'`, `attacks` must be 'default' or name some of "
                f"{list(NAMES)}, or hold attacks; got {attack!r}."
            )
        if attack in ("likelihood_ratio", "exact"):
            return MembershipAttack("exact" if attack == "exact" else "likelihood_ratio")
        # `attack` is one of the scores.
        score: Any = attack
        return MembershipAttack("score", MembershipInference(score, prior=subject.prior))
    if isinstance(attack, type) or not (hasattr(attack, "fit") and hasattr(attack, "predict")):
        raise TypeError(
            "With `target='membership'`, `attacks` must hold names or attacks with "
            "`fit(X_candidates, y_candidates, X_reference, y_reference)` and `predict(model)`; got "
            f"{attack.__name__ if isinstance(attack, type) else type(attack).__name__}."
        )
    own = clone(attack) if hasattr(attack, "get_params") else copy.deepcopy(attack)
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
                f"`secret='actual'` and `n_releases` of at least {FEWEST_RELEASES}; got "
                f"{n_releases} with `secret={'drawn' if drawn else 'actual'!r}`."
            )
    elif drawn and subject.reference is None and made.rule == "score":
        raise ValueError(
            f"With `secret='drawn'` the attack {attack!r} calibrates its threshold on records that "
            "no model was trained on. Pass `X_test` and `y_test`, or attack with 'exact'."
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


def confidences(model: Any, X: Any, y: Array) -> FloatArray:
    """What the likelihood-ratio attack measures of each record under a model.

    Parameters
    ----------
    model : estimator
        Fitted.
    X, y : records of shape (n, ...), ndarray of shape (n,)
        Records and their targets.

    Returns
    -------
    ndarray of shape (n,)
        Of a classifier the log odds of the true label, ``log(p / (1 - p))``, which is near normal
        over models where p is not (Carlini et al. 2022); of a regressor the residual, with its
        sign: what noise and other training records do to a prediction is near normal, its square
        is not.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier().fit([[0.0]] * 4, ["a", "a", "a", "b"])
    >>> confidences(model, [[0.0], [1.0]], np.array(["a", "b"])).round(4)
    array([ 1.0986, -1.0986])
    """
    if not is_probabilistic(model):
        return np.nan_to_num(residuals(model, X, y))
    p = class_probabilities(model, X)
    positions = label_positions(y, model.classes_)
    p = with_unseen(p, positions)
    rows, q = np.arange(len(p)), complements(p)
    own, other = p[rows, positions], q[rows, positions]
    logits = log_probabilities(own, other) - log_probabilities(other, own)
    return np.clip(logits, -_LARGEST_LOGIT, _LARGEST_LOGIT)
