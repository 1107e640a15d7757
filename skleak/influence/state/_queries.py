"""A fit of which an attacker sees what the model answers, and not its parameters.

The answers to k queries are functions of the predictors ``Q w~`` of the released parameters, at
whose noise ``sigma^2 Q S Q^T`` the information about a record is, with P the projection on the rows
of ``Q L`` and ``S = L L^T``,

    (Q J)^T (Q S Q^T)^+ Q J = (L^-1 J)^T P (L^-1 J) :

that of the parameters themselves, confined to at most k directions of the noise.
"""

from dataclasses import replace

import numpy as np
from scipy import linalg

from skleak.influence.jacobian import MultinomialFactor
from skleak.influence.state._state import FitState
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray


def seen_through(state: FitState, queries: FloatArray) -> FitState:
    """Return the same fit, as seen through its predictors at some records.

    Shapes: ``queries`` (k, d).
    """
    obstacle = ""
    if state.noise.reads_data:
        obstacle = f"with `noise_covariance={state.noise.name!r}`, a function of the records"
    elif state.balanced is not None:
        obstacle = "under a reweighting"
    if obstacle:
        raise ValueError(
            f"What predictions leak is not known {obstacle}. Leave out `queries`: whoever has the "
            "parameters knows all that predictions tell."
        )
    rows = augment(queries, state.factor.fit_intercept)
    directions = _row_space(state.noise.whitened_dual(rows))
    if isinstance(state.factor, MultinomialFactor):
        # Noise is isotropic there, and every class has a predictor of its own.
        by_class, r = state.factor.by_class, directions.shape[1]
        several = np.zeros((len(state.factor.coefficients), len(by_class), r))
        for k, positions in enumerate(by_class):
            several[positions, k] = directions
        directions = several.reshape(len(several), -1)
    return replace(state, noise=replace(state.noise, seen=directions))


def _row_space(rows: FloatArray) -> FloatArray:
    """Orthonormal basis of the span of rows (k, p), of shape (p, r)."""
    sizes = np.linalg.norm(rows, axis=1)
    rows = rows[sizes > 0.0] / sizes[sizes > 0.0, None]
    if not len(rows):
        return np.zeros((rows.shape[1], 0))
    if len(rows) > rows.shape[1]:
        rows = linalg.qr(rows, mode="r", check_finite=False)[0][: rows.shape[1]]
    _, values, basis = linalg.svd(rows, full_matrices=False)
    # What is told apart by rounding alone is no other query.
    kept = values > 4.0 * max(rows.shape) * np.finfo(float).eps * values[0]
    return np.asarray(basis[kept].T)
