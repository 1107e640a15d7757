"""What a release says of how it was made, in public numbers."""

import warnings
from typing import Any

from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.neural._plan import Plan
from skleak.neural.report import ABOUT
from skleak.utils._warnings import outer_stacklevel

_ASSUMES = (
    "The accounting assumes real numbers: noise and sums are in floating point. Batches are drawn "
    "afresh and independently in each step, and kept secret."
)


def provenance(estimator: Any, n_steps: int, *, guarantee: bool = False) -> dict[str, Any]:
    """Public parameters of a training of so many steps; with its guarantee on request."""
    plan: Plan = estimator._plan
    step = plan.mechanism
    made = {
        "estimator": type(estimator).__name__,
        "module": "linear" if estimator.module is None else type(estimator.module_).__name__,
        "loss": estimator._loss_name,
        "fit_intercept": True if estimator.module is None else None,
        "noise_multiplier": step.noise_multiplier,
        "noise_goal": plan.goal,
        "max_grad_norm": step.clipping.max_grad_norm,
        "clipping": step.clipping.name,
        "sensitivity": step.clipping.sensitivity,
        "sampling": step.sampling,
        "sampling_rate": step.sampling_rate,
        "n_steps": n_steps,
        "learning_rate": plan.descent.learning_rate,
        "momentum": plan.descent.momentum,
        "public": sorted(plan.public),
        "assumes": _ASSUMES,
    }
    if guarantee:
        made |= _guarantee(plan, n_steps)
    return made


def _guarantee(plan: Plan, n_steps: int) -> dict[str, Any]:
    """Return the guarantee of differential privacy, or why there is none."""
    reasons = list(plan.undeclared)
    if plan.mechanism.noise_multiplier == 0.0:
        reasons.append("no noise was added (`noise_multiplier=0`)")
    elif plan.seeded:
        reasons.append(
            "the noise came from a seed or a generator (`random_state`), and can be drawn again"
        )
    if not reasons:
        try:
            stated = {
                "epsilon": plan.epsilon(n_steps),
                "delta": plan.delta,
                "exact": False,
                "relation": "replace",
                "about": ABOUT,
            }
            return {"differential_privacy": stated, "no_guarantee": None}
        except ImportError as error:
            reasons.append(str(error))
    return {"differential_privacy": None, "no_guarantee": "; ".join(reasons)}


def require(made: dict[str, Any]) -> None:
    """Raise unless a guarantee is stated."""
    if made["differential_privacy"] is None:
        raise NoGuaranteeError(
            f"No differential-privacy guarantee holds for this release: {made['no_guarantee']}."
        )


def warn_of_noise(plan: Plan) -> None:
    """Warn where the noise of a release protects nobody."""
    if plan.mechanism.noise_multiplier == 0.0:
        message = (
            "Releasing a model trained without noise (`noise_multiplier=0`): its parameters are an "
            "exact function of the training records, and leakage is infinite. Fit with "
            "`noise_multiplier > 0` before you publish it."
        )
    elif plan.seeded:
        message = (
            "Releasing a model whose noise and batches came from a seed or a generator: whoever "
            "guesses or copies it can draw them again. Fit with `random_state=None`, which takes "
            "entropy from the operating system."
        )
    else:
        return
    warnings.warn(message, PrivacyLeakWarning, stacklevel=outer_stacklevel())
