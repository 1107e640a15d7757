"""Fisher information about records where noise is in the objective, by fits under other noise.

The minimizer w of ``sum_i s_i l(x_i w, y_i) + lambda/2 |w|^2 + b w`` is in bijection with its noise
``b ~ N(0, sigma^2 I)``, with the Hessian H as the Jacobian. Moving an unknown t_j of a record moves
the gradient by K_j and the Hessian by dH_j, and the score of the release is

    b.K_j / sigma^2 + tr(H^-1 dH_j) .

As ``dw/db = -H^-1`` and dH_j is the derivative of K_j in w, it is the divergence of the field
``K_j(w(b))`` under the law of b. Integration by parts gives its second moments with far less spread
than its square has:

    I_jk = E[ K_j.K_k ] / sigma^2 + E[ tr(H^-1 dH_j H^-1 dH_k) ] .

With g, c and q the derivatives of the loss of a record in its predictor, weight s, ``u = H^-1 x``
and ``v = x.u``, moving the row along a direction a and the target by t has

    K = s [ g a + m x ],            m = c (w.a) - h t
    dH = s [ z x x^T + c (a x^T + x a^T) ],    z = q (w.a) - e t

where h is 1 and e is 0 for the logistic loss; c and q for one of the residual alone. A label of the
logistic loss is told by no more than ``s |x| / sigma``: b is shifted, whatever the rest is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from skleak.accounting.objective import objective_mu, objective_removal_mu
from skleak.influence.jacobian import Columns, Norm
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._linalg import dense_seconds, warn_if_costly, weighted_gram
from skleak.utils._typing import Data, FloatArray, IntArray

# Fits under other noise: as many as take so many multiplications, and no more than are of use.
_WORK, _FEWEST, _MOST = 3e9, 16, 1024
_GROUPS = 8  # of draws, from which standard errors are found
_STEPS = 10  # Newton steps of a fit, about
_ELEMENTS = 1 << 22  # entries of the tables of a block of rows: 32 MB
_REACHED = 1e-7  # relative, of the largest joint loss
# Lengths of records at which bounds are computed, as shares of the longest: others are rounded up.
_LENGTHS = np.append(np.geomspace(1e-3, 0.5, 10), np.linspace(0.5, 1.0, 17)[1:])


@dataclass(frozen=True)
class Draws:
    """Minimizers under noise that could have been drawn, with inverse Hessians. Confidential."""

    coefficients: FloatArray  # (B, p)
    inverse_hessians: FloatArray  # (B, p, p)


def noise_draws(state: FitState) -> Draws:
    """Minimize under independent draws of the noise; call by ``state.once``."""
    noise, X = state.noise_elsewhere, state.objective.X
    X = _with_constant(state, X) if noise.constant else X
    n, p = X.shape
    n_draws = int(np.clip(_WORK / (_STEPS * max(1.0, float(n) * p * p)), _FEWEST, _MOST))
    n_draws -= n_draws % (2 * _GROUPS)
    warn_if_costly(
        f"What records leak by {n_draws} fits of {p} parameters",
        n_draws * dense_seconds(p, n, _STEPS),
        8.0 * n_draws * p**2,
        "Fit fewer columns.",
    )
    b = np.random.default_rng(0).standard_normal((n_draws // 2, p))
    b = np.concatenate([b, -b])  # what is linear in b cancels
    records = X, state.objective.y, state.objective.sample_weight
    w = np.stack([noise.minimum(*records, noise.gradient_noise_scale * one)[0] for one in b])
    inverses = np.empty((len(w), p, p))
    for k, one in enumerate(w):
        curvatures = noise.derivatives(records[0] @ one, records[1])[1]
        hessian = weighted_gram(records[0], records[2] * curvatures)
        inverses[k] = np.linalg.inv(hessian + noise.strength * np.eye(p))
    return Draws(w, inverses)


def _with_constant(state: FitState, X: Data) -> FloatArray:
    """Return dense rows as the fit has them, with the constant column of an intercept last."""
    x, constant = dense(X), state.noise_elsewhere.constant
    return np.column_stack([x, np.full(len(x), constant)]) if constant else x


def _directions(state: FitState, block: Columns, p: int) -> FloatArray:
    """Directions of a block of columns in such rows, (p, k)."""
    basis = block.basis(state.n_features)
    return np.vstack([basis, np.zeros((p - len(basis), basis.shape[1]))])


def _derivatives(
    state: FitState, batch: RecordBatch, coefficients: FloatArray
) -> tuple[FloatArray, ...]:
    """Return dense rows, (n, p), and g, c, q, h and e of the module times the weights, (n, B)."""
    noise, x, s = state.noise_elsewhere, _with_constant(state, batch.X), batch.factors[:, None]
    g, c, q = (s * one for one in noise.derivatives(x @ coefficients.T, batch.y[:, None]))
    h, e = (s + 0.0 * g, 0.0 * g) if noise.width is None else (c, q)
    return x, g, c, q, h, e


def _information(
    state: FitState, batch: RecordBatch, draws: Draws, blocks: Sequence[Columns]
) -> list[FloatArray]:
    """Mean information about records over blocks of k columns, the target last, (n, k, k) each."""
    rows, g, c, q, h, e = _derivatives(state, batch, draws.coefficients)
    every = np.einsum("ni,bij->nbj", rows, draws.inverse_hessians, optimize=True)
    v = np.einsum("nbj,nj->nb", every, rows)
    variance, size = state.noise_elsewhere.gradient_noise_scale**2, np.sum(rows**2, axis=1)[:, None]
    found, n_draws = [], len(draws.coefficients)
    for block in blocks:
        basis, unit = _directions(state, block, rows.shape[1]), block.target_length
        w, x, u, k = draws.coefficients @ basis, rows @ basis, every @ basis, basis.shape[1]
        inverse = (basis.T @ draws.inverse_hessians @ basis).reshape(n_draws, k * k)
        outer = (w[:, :, None] * w[:, None]).reshape(n_draws, k * k)
        square = (c**2 * size / variance + (q * v) ** 2) @ outer + 2.0 * (c**2 * v) @ inverse
        cross = x[:, :, None] * (g * c @ w)[:, None] / variance
        cross += 2.0 * w.T @ ((q * c * v)[:, :, None] * u)
        one = np.zeros((len(x), k + (unit > 0.0), k + (unit > 0.0)))
        one[:, :k, :k] = square.reshape(len(x), k, k) + cross + cross.transpose(0, 2, 1)
        one[:, :k, :k] += 2.0 * (u.transpose(0, 2, 1) * (c**2)[:, None]) @ u
        one[:, :k, :k] += np.sum(g**2, axis=1)[:, None, None] / variance * (basis.T @ basis)
        if unit > 0.0:
            own = -np.sum(h * g, axis=1)[:, None] * x / variance
            own -= (h * c * size / variance + e * q * v**2) @ w
            own -= 2.0 * np.einsum("nb,nbk->nk", e * c * v, u)
            one[:, :k, k] = one[:, k, :k] = unit * own
            one[:, k, k] = unit**2 * np.sum(h**2 * size / variance + (e * v) ** 2, axis=1)
        found.append(one / n_draws)
    return found


def noisy_losses(
    state: FitState, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm
) -> tuple[FloatArray, FloatArray]:
    """Losses of each record over each block, and their standard errors, (n, n_blocks) each.

    The largest eigenvalue of a mean is, on average, above that of what it estimates.
    """
    draws, d = state.once(noise_draws), state.n_features
    groups = [Draws(*parts) for parts in zip(*map(_groups, vars(draws).values()), strict=True)]
    losses, errors = np.zeros((2, len(batch), len(blocks)))
    width = draws.coefficients.size + 2 * d * d * len(groups) * len(blocks)
    for which in row_blocks(len(batch), width, _ELEMENTS):
        parts = [_information(state, batch.take(which), one, blocks) for one in groups]
        for k, part in enumerate(zip(*parts, strict=True)):
            each = np.trace(part, axis1=2, axis2=3) / part[0].shape[1]
            if norm == "spectral":
                top = np.linalg.eigh(np.mean(part, axis=0))[1][:, :, -1]
                each = np.einsum("gnij,ni,nj->gn", part, top, top, optimize=True)
            losses[which, k], errors[which, k] = _roots(each)
    return losses, errors


def _groups(values: FloatArray) -> FloatArray:
    """Split what belongs to draws, (B, ...), into groups of as many pairs, (G, B / G, ...)."""
    pairs = values.reshape(2, _GROUPS, -1, *values.shape[1:])  # of opposite noise
    return np.concatenate(list(pairs), axis=1)


def _roots(squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Roots of means over groups, (G, ...), and their standard errors."""
    roots = np.sqrt(np.maximum(squares.mean(axis=0), 0.0))
    errors = np.std(squares, axis=0, ddof=1) / np.sqrt(len(squares))
    return roots, np.divide(0.5 * errors, roots, out=np.zeros_like(errors), where=roots > 0.0)


def label_distances(state: FitState, batch: RecordBatch) -> FloatArray:
    """Distance of the releases under two labels that are one apart, in units of the noise, (n,).

    Exact for minimizers of the logistic loss; with what covers the error of a solver an upper
    bound. Infinite for another loss, in whose curvature the target is.
    """
    noise = state.noise_elsewhere
    lengths = batch.factors * np.linalg.norm(_with_constant(state, batch.X), axis=1)
    shift = lengths / noise.gradient_noise_scale if noise.width is None else np.inf
    return np.where(lengths > 0.0, np.hypot(shift, noise.output_mu), 0.0)


def bounded_distances(
    state: FitState, lengths: FloatArray, weights: FloatArray, *, leaves: bool = False
) -> FloatArray:
    """Bound the mu of one record, in units of the noise, whatever the others are, (n,).

    Of its being replaced by another one that is no longer, or of its leaving, which is replacing it
    by zeros. Records are as long as is promised at most, and weigh as much as one of the fit.
    Shapes: ``lengths``, ``weights`` (n,).
    """
    noise, two_sided = state.noise_elsewhere, state.noise_elsewhere.width is not None
    moved, there, alone = lengths * weights, lengths * weights > 0.0, leaves and not two_sided
    slope = 1.0 if noise.width is None else noise.width
    longest = noise.sensitivity / slope
    cells = np.minimum(np.searchsorted(_LENGTHS, moved / longest), len(_LENGTHS) - 1)
    found = np.zeros(len(moved))
    for cell in np.unique(cells[there]):
        # A bound rises with the length times the weight, and falls with the weight at that.
        here = there & (cells == cell)
        length, least = float(longest * _LENGTHS[cell]), float(weights[here].min())
        given = noise.gradient_noise_scale / (length * slope), noise.strength * least / length**2
        mu = objective_removal_mu(*given) if alone else objective_mu(*given, two_sided=two_sided)
        found[here] = np.hypot(min(mu, noise.mu), noise.output_mu)
    return found


def longest_lengths(
    state: FitState, batch: RecordBatch, columns: IntArray | None, values: FloatArray
) -> FloatArray:
    """Largest norm of each row over values of some columns, (m, k) or (n, m, k), and its own."""
    X = _with_constant(state, batch.X)
    squares = np.sum(X**2, axis=1)
    if columns is None:
        return np.sqrt(squares)
    given = np.sum(values**2, axis=-1).max(axis=-1)
    more = np.maximum(given - np.sum(X[:, columns] ** 2, axis=1), 0.0)
    return np.asarray(np.sqrt(squares + more))


def leaving_distances(
    state: FitState,
    rows: IntArray,
    columns: IntArray | None = None,
    values: FloatArray | None = None,
) -> FloatArray:
    """Bound what training records show by leaving, times the noise scale of the state, (n,).

    With values of some columns, the largest over these.
    """
    batch = state.training.take(rows)
    given = np.zeros((1, 1)) if values is None else values
    lengths = longest_lengths(state, batch, None if values is None else columns, given)
    return state.noise_scale * bounded_distances(state, lengths, batch.factors, leaves=True)


def noisy_joint_loss(
    state: FitState, batch: RecordBatch, columns: Columns, norm: Norm
) -> tuple[float, float]:
    """Loss of all records together, and its standard error."""
    draws = state.once(noise_draws)
    basis = _directions(state, columns, draws.coefficients.shape[1])
    if norm == "trace":  # the mean over records of their mean squares, as if all erred together
        losses, errors = noisy_losses(state, batch, [columns], norm)
        loss = float(np.sqrt(np.mean(losses**2)))
        return loss, float(np.mean(losses * errors) / loss) if loss > 0.0 else 0.0
    unit, k = columns.target_length, basis.shape[1]
    x, *derivatives = _derivatives(state, batch, draws.coefficients)
    variance = state.noise_elsewhere.gradient_noise_scale**2

    def applied(flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Information of each draw along a direction of all records, and the mean applied to it."""
        moved = np.column_stack([flat.reshape(len(x), -1), np.zeros(len(x))])
        a, t = moved[:, :k] @ basis.T, unit * moved[:, k]
        squares, rows, targets = np.zeros(len(draws.coefficients)), np.zeros_like(x), 0.0 * t
        for i, (w, inverse) in enumerate(zip(*vars(draws).values(), strict=True)):
            g, c, q, h, e = (one[:, i] for one in derivatives)
            mean = g @ a + (c * (a @ w) - h * t) @ x
            cross = (x * c[:, None]).T @ a
            change = (x * (q * (a @ w) - e * t)[:, None]).T @ x + cross + cross.T
            turned = inverse @ change @ inverse
            squares[i] = mean @ mean / variance + np.sum(turned * change)
            own, on = x @ mean / variance, x @ turned
            both = np.sum(on * x, axis=1)
            rows += np.outer(c * own + q * both, w) + np.outer(g, mean / variance)
            rows += 2.0 * c[:, None] * on
            targets -= h * own + e * both
        found = np.column_stack([rows @ basis, unit * targets])[:, : k + (unit > 0.0)]
        return squares, found.ravel() / len(squares)

    size = len(x) * (k + (unit > 0.0))
    if not np.any(batch.factors) or not size:
        return 0.0, 0.0
    operator = LinearOperator((size, size), matvec=lambda flat: applied(flat)[1], dtype=float)
    if size > 2:
        start = np.random.default_rng(0).standard_normal(size)
        top = eigsh(operator, 1, v0=start, tol=_REACHED)[1][:, 0]
    else:
        top = np.linalg.eigh(operator @ np.eye(size))[1][:, -1]
    found = _roots(_groups(applied(top)[0]).mean(axis=1))
    return float(found[0]), float(found[1])


def candidate_log_densities(
    state: FitState, X: FloatArray, y: FloatArray, row: int, coefficients: FloatArray
) -> FloatArray:
    """Log densities of exact minimizers if a training record were each of some candidates.

    Shapes: ``X`` (m, p) and ``y`` (m,) of the candidates; ``coefficients`` (k, p); returns (k, m),
    up to a number for each minimizer. The others are what they are; the weight is that of the row.
    """
    noise, objective = state.noise_elsewhere, state.objective
    X, rows = _with_constant(state, X), _with_constant(state, objective.X)
    s = objective.sample_weight.copy()
    weight, s[row] = s[row], 0.0
    found = np.empty((len(coefficients), len(X)))
    for k, w in enumerate(coefficients):
        slope, curvature, _ = noise.derivatives(rows @ w, objective.y)
        rest = rows.T @ (s * slope) + noise.strength * w
        hessian = weighted_gram(rows, s * curvature) + noise.strength * np.eye(len(w))
        slope, curvature, _ = noise.derivatives(X @ w, y)
        b = rest + weight * slope[:, None] * X
        leverage = np.sum(X * np.linalg.solve(hessian, X.T).T, axis=1)
        found[k] = np.log1p(weight * curvature * leverage)
        found[k] -= 0.5 * np.sum(b**2, axis=1) / noise.gradient_noise_scale**2
    return found


def candidate_success(
    state: FitState,
    X: FloatArray,
    y: FloatArray,
    row: int,
    prior: FloatArray,
    n_draws: int,
    random_state: Any = 0,
) -> tuple[float, float]:
    """Success of the best attack on which candidate a training record is, and its standard error.

    By releases of exact minimizers under noise drawn anew, about ``n_draws`` in all; what noise on
    the parameters, or rounding, adds can only lower it. Shapes as for `candidate_log_densities`;
    ``prior`` (m,).
    """
    noise, objective = state.noise_elsewhere, state.objective
    generator, strata = np.random.default_rng(random_state), np.flatnonzero(prior > 0.0)
    found, variance = 0.0, 0.0
    for m in strata:
        other = objective.with_record(row, X[m], float(y[m]))
        n = max(2, int(np.ceil(n_draws * prior[m])))
        rows = _with_constant(state, other.X)
        b = noise.gradient_noise_scale * generator.standard_normal((n, rows.shape[1]))
        records = rows, other.y, other.sample_weight
        w = np.stack([noise.minimum(*records, one)[0] for one in b])
        logs = candidate_log_densities(state, X[strata], y[strata], row, w) + np.log(prior[strata])
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        best = odds.max(axis=1) / odds.sum(axis=1)
        found += float(prior[m] * best.mean())
        variance += float(prior[m] ** 2 * best.var(ddof=1) / n)
    return found, float(np.sqrt(variance))
