"""What a release says of how it was made, in public numbers."""

import warnings
from typing import Any

from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.neural._plan import Plan
from skleak.neural.report import ABOUT
from skleak.utils._warnings import outer_stacklevel

_BATCHES = "Batches are drawn afresh and independently in each step, and kept secret."
_REAL_NUMBERS = "The accounting assumes real numbers: noise and sums are in floating point."
_EXACT = (
    "Noise and sums are integers, to the last bit: every clipped gradient is rounded to multiples "
    "of `noise_step`, within the sensitivity."
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
        "noise_step": None if plan.grid is None else plan.grid.unit,
        "noise_sampler": _sampler(plan),
        "assumes": f"{_REAL_NUMBERS if plan.grid is None else _EXACT} {_BATCHES}",
    }
    if guarantee:
        made |= _guarantee(plan, n_steps, estimator._gradients.n_parameters)
    return made


def _sampler(plan: Plan) -> str:
    """Source of the noise, in words."""
    if plan.mechanism.noise_multiplier == 0.0:
        return "none"
    if plan.seeded:
        return "Gaussian, NumPy, seeded" + ("" if plan.grid is None else ", rounded")
    return "Gaussian, floating point" if plan.grid is None else "discrete Gaussian, exact"


def _guarantee(plan: Plan, n_steps: int, n_parameters: int) -> dict[str, Any]:
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
                "epsilon": plan.stated_epsilon(n_steps, n_parameters),
                "delta": plan.delta,
                "exact": plan.grid is not None,
                "arithmetic": plan.arithmetic,
                "relation": "replace",
                "about": ABOUT,
            }
            return {"differential_privacy": stated, "no_guarantee": None}
        except ImportError as error:
            reasons.append(str(error))
    return {"differential_privacy": None, "no_guarantee": "; ".join(reasons)}


def require(made: dict[str, Any], real_arithmetic: bool) -> None:
    """Raise unless a guarantee is stated, of real numbers only where that is accepted; say so."""
    stated = made["differential_privacy"]
    if stated is None:
        raise NoGuaranteeError(
            f"No differential-privacy guarantee holds for this release: {made['no_guarantee']}."
        )
    if stated["exact"]:
        return
    if not real_arithmetic:
        raise NoGuaranteeError(
            "The guarantee of this release is one of real numbers: sums and noise of a module, or "
            "beside noise that is very small, are in floating point, and the last bits of the "
            "parameters can tell more than it allows. Use the default module, or accept that by "
            "`real_arithmetic=True`; the release then says so."
        )
    stated["arithmetic"] = "real numbers, accepted by who released it"


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
