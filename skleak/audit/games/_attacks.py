"""Which attacks an audit plays: by name, as objects, or the usual ones."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from skleak.adversary._consistency import attack_weights
from skleak.adversary._encodings import last_step
from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    InformedReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit.games._subject import Kind, Subject
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.state import NoiseShape

__all__ = ["RESERVED", "choose_attacks", "fit_attacks"]

_DEFAULT = {
    "categorical": ("prior", "imputation", "white_box", "black_box"),
    "numeric": ("prior", "imputation", "white_box", "black_box"),
    "record": ("informed",),
}
# Keys of cells that are no attacks.
RESERVED = ("bounds", "noiseless", "utility")
_NAMES = {
    PriorAttack: "prior",
    ImputationAttack: "imputation",
    WhiteBoxAttributeInference: "white_box",
    BlackBoxAttributeInference: "black_box",
    InformedAttributeInference: "informed",
    InformedReconstruction: "informed",
}


def choose_attacks(attacks: Any, kind: Kind, classifies: bool) -> dict[str, Any]:
    """Attacks by name; those given by a name of ours are strings still."""
    if isinstance(attacks, Mapping):
        chosen = dict(attacks)
    else:
        if isinstance(attacks, str) and attacks == "default":
            useless = {"black_box"} if kind == "numeric" and classifies else set()
            attacks = [name for name in _DEFAULT[kind] if name not in useless]
        single = isinstance(attacks, str) or hasattr(attacks, "predict")
        chosen = {}
        for attack in [attacks] if single else list(attacks):
            chosen[_free_name(attack, chosen)] = attack
    if not chosen:
        raise ValueError("`attacks` must hold at least one attack; got none. Pass 'default'.")
    known = sorted(_makers(kind))
    for name, attack in chosen.items():
        if isinstance(attack, str) and attack not in known:
            raise ValueError(
                f"`attacks` must be 'default' or name some of {known}, or hold attacks; got "
                f"{attack!r}" + (f" for a {kind} secret." if attack in _NAMES.values() else ".")
            )
        if not isinstance(attack, str) and not (
            hasattr(attack, "fit") and hasattr(attack, "predict")
        ):
            raise TypeError(
                "`attacks` must hold names or attacks with `fit(X, y)` and `predict(released)`; "
                f"got {type(attack).__name__}."
            )
        if not isinstance(name, str) or name in RESERVED:
            raise ValueError(
                f"Attacks must be named by strings other than {', '.join(RESERVED)}; got {name!r}."
            )
    return chosen


def fit_attacks(
    chosen: Mapping[str, Any],
    subject: Subject,
    estimator: Any,
    table: Any,
    y: Any,
    attribute: Any,
    values: Any,
) -> dict[str, Any]:
    """Fit every attack on what the adversary knows.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); returns: fitted attacks by name; those passed as
    objects are copies.
    """
    makers = _makers(subject.kind)
    fitted = {}
    for name, attack in chosen.items():
        if isinstance(attack, str):
            own = makers[attack](subject, estimator, attribute, values)
        else:
            own = clone(attack) if hasattr(attack, "get_params") else copy.deepcopy(attack)
            _check_covariance(name, own, subject)
        # The encodings of the white box are those of the bounds, and were computed with them.
        if own is not subject.white_box:
            own = own.fit(table, y, **attack_weights(own, sample_weight=subject.weights)) or own
        fitted[name] = own
    return fitted


def _check_covariance(name: str, attack: Any, subject: Subject) -> None:
    """Refuse an attack that supposes noise of another covariance than the games have."""
    estimator = getattr(attack, "estimator", None)
    if estimator is None or isinstance(attack, BlackBoxAttributeInference):  # predictions only
        return
    supposed = getattr(last_step(estimator), "noise_covariance", "isotropic")
    p = len(subject.noiseless)
    supposed = NoiseShape.of(supposed, p)
    if supposed.reads_data or subject.noise.reads_data:
        # A function of the data: the matrices differ wherever the attack makes a hypothesis.
        same = supposed.name == subject.noise.name
    else:
        same = np.allclose(
            np.eye(p) if supposed.matrix is None else supposed.matrix,
            np.eye(p) if subject.noise.matrix is None else subject.noise.matrix,
        )
    if not same:
        raise AttackNotApplicableError(
            f"The attack {name!r} supposes noise of another covariance than that of the estimator "
            "under audit. Give its estimator the same `noise_covariance`."
        )


def _free_name(attack: Any, taken: Mapping[str, Any]) -> str:
    name = attack if isinstance(attack, str) else _NAMES.get(type(attack), type(attack).__name__)
    free, k = name, 2
    while free in taken:
        free, k = f"{name}-{k}", k + 1
    return str(free)


def _makers(kind: Kind) -> dict[str, Callable[..., Any]]:
    """How the attacks with names of ours are made."""
    if kind == "record":
        return {"informed": _informed_reconstruction}
    makers = {"prior": _prior, "imputation": _imputation}
    makers |= {"white_box": _fitted_already, "black_box": _black_box}
    return makers | ({"informed": _informed} if kind == "categorical" else {})


def _stated(subject: Subject) -> Any:
    """The prior of every target, computed once for all attacks."""
    return subject.prior if subject.kind == "categorical" else "marginal"


def _prior(subject: Subject, estimator: Any, attribute: Any, values: Any) -> Any:
    prior = _stated(subject)
    return PriorAttack(attribute, values=values, prior=prior, records=subject.targets)


def _imputation(subject: Subject, estimator: Any, attribute: Any, values: Any) -> Any:
    return ImputationAttack(attribute, values=values, records=subject.targets)


def _fitted_already(subject: Subject, estimator: Any, attribute: Any, values: Any) -> Any:
    return subject.white_box


def _black_box(subject: Subject, estimator: Any, attribute: Any, values: Any) -> Any:
    return BlackBoxAttributeInference(
        estimator, attribute, values=values, prior=_stated(subject), records=subject.targets
    )


def _informed(subject: Subject, estimator: Any, attribute: Any, values: Any) -> Any:
    return InformedAttributeInference(estimator, attribute, values=values, records=subject.targets)


def _informed_reconstruction(subject: Subject, estimator: Any, attribute: Any, values: Any) -> Any:
    return InformedReconstruction(estimator, records=subject.targets)
