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
from skleak.utils._typing import FloatArray, IntArray

# Fits under other noise: as many as take so many multiplications, and no more than are of use.
_WORK, _FEWEST, _MOST = 3e9, 16, 1024
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
    noise, (n, p) = state.noise_elsewhere, state.objective.X.shape
    n_draws = int(np.clip(_WORK / (_STEPS * max(1.0, float(n) * p * p)), _FEWEST, _MOST))
    warn_if_costly(
        f"What records leak by {n_draws} fits of {p} parameters",
        n_draws * dense_seconds(p, n, _STEPS),
        8.0 * n_draws * p**2,
        "Fit fewer columns.",
    )
    b = np.random.default_rng(0).standard_normal((n_draws // 2, p))
    b = np.concatenate([b, -b])  # the noise that is linear in b cancels
    records = state.objective.X, state.objective.y, state.objective.sample_weight
    w = np.stack([noise.minimum(*records, noise.gradient_noise_scale * one)[0] for one in b])
    inverses = np.empty((len(w), p, p))
    for k, one in enumerate(w):
        curvatures = noise.derivatives(records[0] @ one, records[1])[1]
        hessian = weighted_gram(records[0], records[2] * curvatures)
        inverses[k] = np.linalg.inv(hessian + noise.strength * np.eye(p))
    return Draws(w, inverses)


@dataclass(frozen=True)
class _Rows:
    """Rows of a dense block, and what their information is made of at every draw, (n, B) each."""

    x: FloatArray  # (n, p)
    s: FloatArray  # weights, (n, 1)
    g: FloatArray
    c: FloatArray
    q: FloatArray
    h: FloatArray  # minus the derivatives of g and of c in the target
    e: FloatArray
    u: FloatArray  # (n, B, p)
    v: FloatArray
    variance: float  # of the noise

    @classmethod
    def of(cls, state: FitState, batch: RecordBatch, draws: Draws) -> "_Rows":
        noise, x = state.noise_elsewhere, dense(batch.X)
        g, c, q = noise.derivatives(x @ draws.coefficients.T, batch.y[:, None])
        h, e = (np.ones_like(g), np.zeros_like(g)) if noise.width is None else (c, q)
        u = np.einsum("ni,bij->nbj", x, draws.inverse_hessians, optimize=True)
        v = np.einsum("nbj,nj->nb", u, x)
        variance = noise.gradient_noise_scale**2
        return cls(x, batch.factors[:, None], g, c, q, h, e, u, v, variance)

    def along(self, draws: Draws, a: FloatArray, t: FloatArray) -> FloatArray:
        """Information of each draw along directions a of rows, (n, p), and t of targets, (n,)."""
        w, target = a @ draws.coefficients.T, t[:, None]
        m, z = self.c * w - self.h * target, self.q * w - self.e * target
        x, size = np.sum(self.x * a, axis=1)[:, None], np.sum(a**2, axis=1)[:, None]
        mean = self.g**2 * size + 2.0 * self.g * m * x + m**2 * np.sum(self.x**2, axis=1)[:, None]
        u = np.einsum("nbj,nj->nb", self.u, a)
        spread = np.einsum("ni,bij,nj->nb", a, draws.inverse_hessians, a, optimize=True)
        both = (z * self.v) ** 2 + 4.0 * z * self.c * self.v * u
        both += 2.0 * self.c**2 * (u**2 + self.v * spread)
        return np.asarray(self.s**2 * (mean / self.variance + both))

    def traces(self, draws: Draws, basis: FloatArray, unit: float) -> FloatArray:
        """Sum of the information of each draw over all directions of a block, (n, B)."""
        w, x, u = draws.coefficients @ basis, self.x @ basis, self.u @ basis
        g, c, q, v, precision = self.g, self.c, self.q, self.v, self.variance
        size, inner = np.sum(self.x**2, axis=1)[:, None], np.einsum("nbk,bk->nb", u, w)
        squares = np.sum(w**2, axis=1)
        mean = g**2 * np.sum(basis**2) + 2.0 * g * c * (x @ w.T) + c**2 * size * squares
        inverse = np.einsum("ik,bij,jk->b", basis, draws.inverse_hessians, basis, optimize=True)
        both = (q * v) ** 2 * squares + 4.0 * q * c * v * inner
        both += 2.0 * c**2 * (np.sum(u**2, axis=2) + v * inverse)
        target = self.h**2 * size / precision + (self.e * v) ** 2
        return np.asarray(self.s**2 * (mean / precision + both + unit**2 * target))

    def information(self, draws: Draws, basis: FloatArray, unit: float) -> FloatArray:
        """Mean information over a block of columns, (p, k), and a target of some unit."""
        w, n_draws = draws.coefficients @ basis, len(draws.coefficients)
        x, u, k = self.x @ basis, self.u @ basis, basis.shape[1]
        inverse = (basis.T @ draws.inverse_hessians @ basis).reshape(n_draws, -1)
        outer = (w[:, :, None] * w[:, None]).reshape(n_draws, -1)
        g, c, q, h, e, v, precision = self.g, self.c, self.q, self.h, self.e, self.v, self.variance
        size = np.sum(self.x**2, axis=1)[:, None]
        found = np.zeros((len(x), k + (unit > 0.0), k + (unit > 0.0)))
        square = (c**2 * size / precision + (q * v) ** 2) @ outer + 2.0 * c**2 * v @ inverse
        cross = x[:, :, None] * (g * c @ w)[:, None] / precision
        cross += 2.0 * w.T @ ((q * c * v)[:, :, None] * u)
        block = square.reshape(len(x), k, k) + cross + cross.transpose(0, 2, 1)
        block += 2.0 * (u.transpose(0, 2, 1) * (c**2)[:, None]) @ u
        block += (np.sum(g**2, axis=1) / precision)[:, None, None] * (basis.T @ basis)
        found[:, :k, :k] = block
        if unit > 0.0:
            rows = -np.sum(h * g, axis=1)[:, None] * x / precision
            rows -= (h * c * size / precision + e * q * v**2) @ w
            rows -= 2.0 * np.einsum("nb,nbk->nk", e * c * v, u)
            found[:, :k, k] = found[:, k, :k] = unit * rows
            found[:, k, k] = unit**2 * np.sum(h**2 * size / precision + (e * v) ** 2, axis=1)
        return np.asarray(found * (self.s**2 / n_draws)[:, :, None])


def noisy_losses(
    state: FitState, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm
) -> tuple[FloatArray, FloatArray]:
    """Losses of each record over each block, and their standard errors, (n, n_blocks) each.

    A mean over draws: the largest eigenvalue of a mean is, on average, above that of what it
    estimates.
    """
    draws, d = state.once(noise_draws), state.n_features
    losses, errors = np.zeros((2, len(batch), len(blocks)))
    for which in row_blocks(len(batch), draws.coefficients.size + 2 * d * d, _ELEMENTS):
        rows = _Rows.of(state, batch.take(which), draws)
        for k, block in enumerate(blocks):
            basis, unit = block.basis(d), block.target_length
            found = rows.information(draws, basis, unit)
            if norm == "spectral":
                values, vectors = np.linalg.eigh(found)
                square, top = values[:, -1], vectors[:, :, -1]
                target = unit * top[:, -1] if unit > 0.0 else np.zeros(len(top))
                each = rows.along(draws, top[:, : basis.shape[1]] @ basis.T, target)
            else:
                square = np.trace(found, axis1=1, axis2=2) / len(found[0])
                each = rows.traces(draws, basis, unit) / len(found[0])
            losses[which, k] = loss = np.sqrt(np.maximum(square, 0.0))
            with np.errstate(divide="ignore", invalid="ignore"):
                errors[which, k] = np.nan_to_num(0.5 * _error(each) / loss)
    return losses, errors


def label_distances(state: FitState, batch: RecordBatch) -> FloatArray:
    """Distance of the releases under two labels that are one apart, in units of the noise, (n,).

    Exact for minimizers of the logistic loss; with what covers the error of a solver an upper
    bound. Infinite for another loss, in whose curvature the target is.
    """
    noise = state.noise_elsewhere
    lengths = batch.factors * np.linalg.norm(dense(batch.X), axis=1)
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
    longest, every = noise.sensitivity / slope, state.objective.sample_weight
    # A bound of moves rises with them, and falls with the least weight.
    least = float(min(every[every > 0.0].min(), weights.min(where=there, initial=np.inf)))
    cells = np.minimum(np.searchsorted(_LENGTHS, moved / longest), len(_LENGTHS) - 1)
    found = np.zeros(len(moved))
    for cell in np.unique(cells[there]):
        length = float(longest * _LENGTHS[cell])
        given = noise.gradient_noise_scale / (length * slope), noise.strength * least / length**2
        mu = objective_removal_mu(*given) if alone else objective_mu(*given, two_sided=two_sided)
        found[there & (cells == cell)] = np.hypot(min(mu, noise.mu), noise.output_mu)
    return found


def longest_lengths(X: FloatArray, columns: IntArray | None, values: FloatArray) -> FloatArray:
    """Largest norm of each row over values of some columns, (m, k) or (n, m, k), and its own."""
    squares = np.sum(X**2, axis=1)
    if columns is None:
        return np.sqrt(squares)
    given = np.sum(values**2, axis=-1).max(axis=-1)
    return np.asarray(
        np.sqrt(squares + np.maximum(given - np.sum(X[:, columns] ** 2, axis=1), 0.0))
    )


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
    lengths = longest_lengths(dense(batch.X), None if values is None else columns, given)
    return state.noise_scale * bounded_distances(state, lengths, batch.factors, leaves=True)


def noisy_joint_loss(
    state: FitState, batch: RecordBatch, columns: Columns, norm: Norm
) -> tuple[float, float]:
    """Loss of all records together, and its standard error."""
    draws, basis, unit = state.once(noise_draws), columns.basis(state.n_features), 0.0
    if norm == "trace":  # the mean over records of their mean squares, as if all erred together
        losses, errors = noisy_losses(state, batch, [columns], norm)
        loss = float(np.sqrt(np.mean(losses**2)))
        return loss, float(np.mean(losses * errors) / loss) if loss > 0.0 else 0.0
    unit, k = columns.target_length, basis.shape[1]
    together, shape = _Together.of(state, batch), (len(batch), k + (unit > 0.0))

    def applied(flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        moved = flat.reshape(shape)
        target = unit * moved[:, -1] if unit > 0.0 else np.zeros(len(moved))
        squares, rows, targets = together.applied(draws, moved[:, :k] @ basis.T, target)
        found = np.column_stack([rows @ basis, *([unit * targets] if unit > 0.0 else [])])
        return squares, found.ravel() / len(squares)

    size = shape[0] * shape[1]
    if not size or not np.any(batch.factors):
        return 0.0, 0.0
    start = np.random.default_rng(0).standard_normal(size)
    if size > 2:
        operator = LinearOperator((size, size), matvec=lambda v: applied(v)[1], dtype=float)
        start = eigsh(operator, 1, v0=start, tol=_REACHED)[1][:, 0]
    else:
        start = np.linalg.eigh(np.stack([applied(v)[1] for v in np.eye(size)]))[1][:, -1]
    squares = applied(start)[0]
    loss = float(np.sqrt(squares.mean()))
    return loss, float(0.5 * _error(squares) / loss) if loss > 0.0 else 0.0


def _error(each: FloatArray) -> FloatArray:
    """Find the standard error of the mean over draws (..., B), in pairs of opposite noise."""
    half = each.shape[-1] // 2
    pairs = 0.5 * (each[..., :half] + each[..., half:])
    return np.asarray(np.std(pairs, axis=-1, ddof=1) / np.sqrt(half))


@dataclass(frozen=True)
class _Together:
    """All rows of a batch, and the derivatives of their losses at every draw, (n, B) each."""

    x: FloatArray  # (n, p)
    g: FloatArray  # times the weights, as all derivatives
    c: FloatArray
    q: FloatArray
    h: FloatArray
    e: FloatArray
    variance: float

    @classmethod
    def of(cls, state: FitState, batch: RecordBatch) -> "_Together":
        noise, x = state.noise_elsewhere, dense(batch.X)
        w, s = state.once(noise_draws).coefficients, batch.factors[:, None]
        g, c, q = noise.derivatives(x @ w.T, batch.y[:, None])
        h, e = (np.ones_like(g), np.zeros_like(g)) if noise.width is None else (c, q)
        return cls(x, s * g, s * c, s * q, s * h, s * e, noise.gradient_noise_scale**2)

    def applied(
        self, draws: Draws, a: FloatArray, t: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Information of each draw along a direction of all records, (B,), and its gradient, half.

        The gradient is summed over draws, in rows, (n, p), and in targets, (n,).
        """
        x, squares = self.x, np.zeros(len(draws.coefficients))
        rows, targets = np.zeros_like(x), np.zeros(len(x))
        each = zip(draws.coefficients, draws.inverse_hessians, self.g.T, self.c.T, strict=True)
        for k, (w, inverse, g, c) in enumerate(each):
            q, h, e, along = self.q[:, k], self.h[:, k], self.e[:, k], a @ w
            mean = g @ a + (c * along - h * t) @ x
            cross = (x * c[:, None]).T @ a
            change = (x * (q * along - e * t)[:, None]).T @ x + cross + cross.T
            turned = inverse @ change @ inverse
            squares[k] = mean @ mean / self.variance + np.sum(turned * change)
            mean, moved = mean / self.variance, x @ turned
            own, both = x @ mean, np.sum(moved * x, axis=1)
            rows += np.outer(c * own + q * both, w) + np.outer(g, mean) + 2.0 * c[:, None] * moved
            targets -= h * own + e * both
        return squares, rows, targets


def candidate_log_densities(
    state: FitState, X: FloatArray, y: FloatArray, row: int, coefficients: FloatArray
) -> FloatArray:
    """Log densities of exact minimizers if a training record were each of some candidates.

    Shapes: ``X`` (m, p) and ``y`` (m,) of the candidates; ``coefficients`` (k, p); returns (k, m),
    up to a number for each minimizer. The others are what they are; the weight is that of the row.
    """
    noise, objective = state.noise_elsewhere, state.objective
    s = objective.sample_weight.copy()
    weight, s[row] = s[row], 0.0
    found = np.empty((len(coefficients), len(X)))
    for k, w in enumerate(coefficients):
        slope, curvature, _ = noise.derivatives(objective.X @ w, objective.y)
        rest = objective.X.T @ (s * slope) + noise.strength * w
        hessian = weighted_gram(objective.X, s * curvature) + noise.strength * np.eye(len(w))
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
        b = noise.gradient_noise_scale * generator.standard_normal((n, X.shape[1]))
        records = other.X, other.y, other.sample_weight
        w = np.stack([noise.minimum(*records, one)[0] for one in b])
        logs = candidate_log_densities(state, X[strata], y[strata], row, w) + np.log(prior[strata])
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        best = odds.max(axis=1) / odds.sum(axis=1)
        found += float(prior[m] * best.mean())
        variance += float(prior[m] ** 2 * best.var(ddof=1) / n)
    return found, float(np.sqrt(variance))
