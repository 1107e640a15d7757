"""Models that predict with given parameters, such as those of many releases."""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from skleak.adversary.hypotheses._consistency import weight_argument
from skleak.adversary.hypotheses._encodings import PublicModel, model_parameters
from skleak.exceptions import PrivacyLeakWarning
from skleak.utils._typing import Array, FloatArray


@dataclass(frozen=True)
class Shell:
    """A fitted model whose parameters are to be replaced. Confidential: its own have no noise."""

    model: Any  # Released where it can be, so that copies are cheap and know no record
    n_parameters: int  # Number of coefficients, and the intercept where there is one


def fit_shell(
    model: PublicModel, X: Any, y: Array, sample_weight: FloatArray | None = None
) -> Shell:
    """Fit once what many releases are put into.

    Shapes: ``X`` (n, d); ``y`` (n,); ``sample_weight`` (n,).
    """
    weights = weight_argument(model.template, sample_weight)
    fitted = clone(model.template).fit(X, y, **weights)
    width = len(model_parameters(fitted))
    if hasattr(fitted, "release"):
        with warnings.catch_warnings():
            # Its noiseless parameters are replaced before anything leaves.
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            fitted = fitted.release()
    return Shell(fitted, width)


def models_with(shell: Shell, parameters: FloatArray) -> Iterator[Any]:
    """Models that predict with given parameters, one after the other.

    Shapes: ``parameters`` (n_releases, n_parameters); yields: with ``predict`` and ``score`` on
    preprocessed records.
    """
    coef, intercept = shell.model.coef_, getattr(shell.model, "intercept_", 0.0)
    size = np.size(coef)
    for row in parameters:
        one = copy.copy(shell.model)
        one.coef_ = row[:size].reshape(np.shape(coef))
        if shell.n_parameters > size:
            own = row[size:].reshape(np.shape(intercept))
            one.intercept_ = own if own.ndim else float(own)
        yield one
