"""The gradients and the noise of what is attacked."""

import copy
from typing import Any

from sklearn.utils.validation import check_is_fitted

from skleak.neural.gradients import Gradients


def gradients_of(model: Any) -> Gradients:
    """Return a copy of the gradients that are passed, or those of a fitted estimator."""
    if isinstance(model, Gradients):
        return copy.deepcopy(model)
    check_is_fitted(model)
    found = getattr(model, "_gradients", None)
    if not isinstance(found, Gradients):
        raise TypeError(
            "`model` must be a fitted PrivateSGDClassifier or PrivateSGDRegressor, or Gradients; "
            f"got {type(model).__name__}."
        )
    return copy.deepcopy(found)


def noise_scale_of(model: Any, noise_scale: float | None) -> float:
    """Return the scale that is given, or that of a fitted estimator."""
    if noise_scale is not None:
        return float(noise_scale)
    if isinstance(model, Gradients):
        raise ValueError(
            "`noise_scale` must be given with Gradients, which have none; got None. Pass the noise "
            "multiplier times the clipping norm."
        )
    return float(model.noise_multiplier_) * float(model.max_grad_norm)
