"""Whether it is known what a model would have released without a record."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier


def removal_obstacle(model: Any, y: Any) -> str:
    """Say why it is not known what a model would release without a record; empty where it is.

    Known are the two Gaussian laws of output perturbation with isotropic noise, without a
    reweighting and with one prediction for each record. ``y`` of shape (n,) holds the targets as
    the user passes them; the model need not be fitted.
    """
    if not hasattr(model, "_confidential_state"):
        return f"the training objective and the noise of {type(model).__name__} are not known"
    if model.reweighting is not None:
        return "a reweighting makes the weights of all records change with each"
    covariance = model.noise_covariance
    if not (isinstance(covariance, str) and covariance == "isotropic"):
        return "the noise has a `noise_covariance`"
    if is_classifier(model):
        declared = getattr(model, "classes", None)
        labels = np.ravel(np.asarray(y if declared is None else declared))
        n_classes = len(set(labels.tolist()))
        if n_classes > 2:
            return f"the model has {n_classes} classes"
    return ""
