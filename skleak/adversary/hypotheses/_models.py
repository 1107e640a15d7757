"""Models that predict with given parameters, such as those of many releases."""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge

from skleak._released import (
    ReleasedLinearRegression,
    ReleasedLogisticRegression,
    ReleasedPoissonRegressor,
)
from skleak.adversary.hypotheses._consistency import weight_argument
from skleak.adversary.hypotheses._encodings import PublicModel, model_parameters, plain_table
from skleak.exceptions import PrivacyLeakWarning
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, FloatArray, IntArray

# Models that are known to see nothing of a record but its linear predictors. A subclass may.
_LINEAR = (
    ReleasedLinearRegression,
    ReleasedPoissonRegressor,
    ReleasedLogisticRegression,
    LinearRegression,
    Ridge,
    PoissonRegressor,
    LogisticRegression,
)
# Linear predictors of one block of releases: 64 MB.
_PREDICTORS = 1 << 23


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
    return shell_of(clone(model.template).fit(X, y, **weights))


def shell_of(fitted: Any) -> Shell:
    """Return what many releases are put into, of a fitted model."""
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


def models_on(shell: Shell, X: Any, parameters: FloatArray) -> Iterator[tuple[Any, Any]]:
    """Models that answer about the records as those with given parameters, and records for them.

    A linear model sees the linear predictors of a record alone. Those of many releases are one
    matrix product, and the model whose coefficients are the identity takes them for records.

    Shapes: ``X`` (n, d), preprocessed; ``parameters`` (n_releases, n_parameters); yields a model
    and a table (n, ...) for each release.
    """
    if type(shell.model) not in _LINEAR:
        yield from ((model, X) for model in models_with(shell, parameters))
        return
    table, coef = plain_table(X), np.shape(shell.model.coef_)
    identity = _on_predictors(shell)
    k = np.size(identity.intercept_)
    for rows in row_blocks(len(parameters), k * table.shape[0], _PREDICTORS):
        some = parameters[rows]
        slopes = some[:, : np.prod(coef, dtype=int)].reshape(len(some) * k, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            predictors = np.asarray(slopes @ table.T).reshape(len(some), k, -1)
            predictors += _intercepts(shell, some)[:, :, None]
        for own, model in zip(predictors, models_with(shell, some), strict=True):
            # What is not finite is no record, and the model itself says what is wrong.
            yield (identity, own.T) if np.isfinite(own).all() else (model, X)


def rows_for(
    shell: Shell, X: Any, places: IntArray, parameters: FloatArray
) -> tuple[Any, FloatArray] | None:
    """One model, and rows for it: its answers are those of many, each about rows of its own.

    Shapes: ``X`` (n, d), preprocessed; ``places`` (n_models, k); ``parameters`` (n_models,
    n_parameters); the rows (n_models * k, ...). None unless the model is known to be linear, and
    its predictors are finite.
    """
    if type(shell.model) not in _LINEAR:
        return None
    table, identity = plain_table(X), _on_predictors(shell)
    slopes = parameters[:, : np.size(shell.model.coef_)]
    slopes = slopes.reshape(len(parameters), np.size(identity.intercept_), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        each = [table[at] @ own.T for at, own in zip(places, slopes, strict=True)]
        predictors = np.stack(each) + _intercepts(shell, parameters)[:, None, :]
    rows = predictors.reshape(-1, slopes.shape[1])
    return (identity, rows) if np.isfinite(rows).all() else None


def _on_predictors(shell: Shell) -> Any:
    """Make a model that predicts from linear predictors, (n, k), as the shell does from records."""
    coef = np.asarray(shell.model.coef_)
    k = 1 if coef.ndim == 1 else len(coef)
    one = copy.copy(shell.model)
    one.__dict__.pop("feature_names_in_", None)
    one.coef_ = np.ones(1) if coef.ndim == 1 else np.eye(k)
    one.intercept_, one.n_features_in_ = np.zeros(k), k
    return one


def _intercepts(shell: Shell, parameters: FloatArray) -> FloatArray:
    """Return intercepts of releases, (n_releases, k), or of the shell where none are released."""
    size = np.size(shell.model.coef_)
    if shell.n_parameters > size:
        return parameters[:, size:]
    return np.reshape(getattr(shell.model, "intercept_", 0.0), (1, -1))
