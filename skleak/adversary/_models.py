"""Models that predict with given parameters, such as those of many releases."""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from skleak.adversary._consistency import weight_argument
from skleak.adversary._encodings import PublicModel, model_parameters
from skleak.exceptions import PrivacyLeakWarning
from skleak.utils._typing import Array, FloatArray

__all__ = ["Shell", "fit_shell", "models_with"]


@dataclass(frozen=True)
class Shell:
    """A fitted model whose parameters are to be replaced. Confidential: its own have no noise.

    Parameters
    ----------
    model : estimator
        Released where it can be, so that copies are cheap and know no record.
    n_parameters : int
        Number of coefficients, and the intercept where there is one.
    """

    model: Any
    n_parameters: int


def fit_shell(
    model: PublicModel, X: Any, y: Array, sample_weight: FloatArray | None = None
) -> Shell:
    """Fit once what many releases are put into.

    Parameters
    ----------
    model : PublicModel
        How the model is trained.
    X : table of shape (n, d)
        Preprocessed records.
    y : ndarray of shape (n,)
        Targets.
    sample_weight : ndarray of shape (n,), default=None
        Weights of the records, so that the model states that it had some.

    Returns
    -------
    Shell

    Raises
    ------
    AttackNotApplicableError
        For a model without coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 3.0])
    >>> shell = fit_shell(PublicModel(None, Ridge(), 0.0), X, y)
    >>> [float(m.predict(X)[-1]) for m in models_with(shell, np.array([[1.0, 0.5], [2.0, 0.0]]))]
    [3.5, 6.0]
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

    Parameters
    ----------
    shell : Shell
        Of `fit_shell`; it is not changed.
    parameters : ndarray of shape (n_releases, n_parameters)
        Coefficients, then the intercept where there is one.

    Yields
    ------
    estimator
        With ``predict`` and ``score`` on preprocessed records.
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
