"""The regress of reweighting, on a problem so small that it can be followed for some levels.

Level 0 is the leakage with the weights held fixed. The algorithm of a level chooses weights under
which the losses of that level are the same for every record, or in fixed proportions; the losses of
the next level are what that algorithm leaks, its weights counted, with the proportions held fixed:

    log L_k(omega, z) = log level + log m ,   sum omega = n ,   J_i = dw / dz_i .

IRFIL is the algorithm of level 0, and skleak's total leakage its true one, level 1. Everything is
for the squared loss without an intercept and the root mean square over the entries of a record,
and written for many problems at once: no code of skleak but the iteration that finds the weights.
"""

from collections.abc import Iterator

import numpy as np
from _common import Array

from skleak.influence.reweighting import equalize

# Steps of the central differences of the losses of levels 1, 2 and 3.
STEPS = {1: 1e-4, 2: 1e-3, 3: 4e-3}
TOLERANCES = (1e-12, 1e-11, 1e-7, 1e-4)  # of the spread at every level: differences have noise
ACCURACY = 1e-4
CHUNK = 4000  # problems at a time
COMPLEX_STEP = 1e-30


class Fits:
    """Weighted ridge fits: omega and y of shape (B, n), X of shape (B, n, d)."""

    def __init__(self, omega: Array, X: Array, y: Array, alpha: float):
        n, d = X.shape[1:]
        self.omega, self.X, self.y = omega, X, y
        weighted = omega[:, :, None] * X
        self.hessian = X.transpose(0, 2, 1) @ weighted + n * alpha * np.eye(d)
        self.inverse = np.linalg.inv(self.hessian)
        self.w = (self.inverse @ (weighted.transpose(0, 2, 1) @ y[:, :, None]))[:, :, 0]
        self.residual = (X @ self.w[:, :, None])[:, :, 0] - y

    def by_weights(self) -> Array:
        """Derivative of w in the log weights, of shape (B, d, n)."""
        return -self.inverse @ ((self.omega * self.residual)[:, :, None] * self.X).transpose(
            0, 2, 1
        )

    def conditional(self) -> Array:
        """Jacobians with the weights held fixed, of shape (B, n, d, d + 1)."""
        u = self.X @ self.inverse
        left = u[:, :, :, None] * self.w[:, None, None, :]
        left = left + self.residual[:, :, None, None] * self.inverse[:, None]
        jacobians = np.concatenate([left, -u[:, :, :, None]], axis=3)
        return -self.omega[:, :, None, None] * jacobians


def log_kappa(w: Array, hessian: Array, X: Array, y: Array) -> Array:
    """Logarithm of a record's conditional loss at omega = 1; analytic, as for complex steps."""
    inverse = np.linalg.inv(hessian)
    u = X @ inverse
    residual = (X @ w[..., None])[..., 0] - y
    squares = np.sum(u * u, axis=-1) * (np.sum(w * w, axis=-1)[..., None] + 1.0)
    squares = squares + 2.0 * residual * ((u @ inverse) @ w[..., None])[..., 0]
    squares = squares + residual**2 * np.sum(inverse * inverse, axis=(-1, -2))[..., None]
    return 0.5 * np.log(squares / (X.shape[-1] + 1.0))


def root_mean_squares(jacobians: Array) -> Array:
    return np.sqrt(np.sum(jacobians**2, axis=(2, 3)) / jacobians.shape[3])


def losses(level: int, omega: Array, X: Array, y: Array, alpha: float) -> Array:
    """Losses of a level, of shape (B, n)."""
    if level == 0:
        return root_mean_squares(Fits(omega, X, y, alpha).conditional())
    inner = 1 if level == 1 else 2 * X.shape[1] * (X.shape[2] + 2)
    size = max(1, CHUNK // inner)
    parts = []
    for k in range(0, len(omega), size):
        some = omega[k : k + size], X[k : k + size], y[k : k + size], alpha
        parts.append(first_level(*some) if level == 1 else next_level(level, *some))
    return np.concatenate(parts)


def first_level(omega: Array, X: Array, y: Array, alpha: float) -> Array:
    """Total loss: the closed system of (w, H, level), differentiated by complex steps."""
    fits = Fits(omega, X, y, alpha)
    n, d = X.shape[1:]
    i, j = np.triu_indices(d)
    q = d + len(i)
    by_fit, own = np.empty((len(X), n, q)), np.empty((len(X), n, d + 1))
    for k in range(q):
        w, hessian = fits.w.astype(complex), fits.hessian.astype(complex)
        if k < d:
            w[:, k] += 1j * COMPLEX_STEP
        else:
            hessian[:, i[k - d], j[k - d]] += 1j * COMPLEX_STEP
            if i[k - d] != j[k - d]:
                hessian[:, j[k - d], i[k - d]] += 1j * COMPLEX_STEP
        by_fit[:, :, k] = log_kappa(w, hessian, X, y).imag / COMPLEX_STEP
    for k in range(d + 1):
        moved, target = X.astype(complex), y.astype(complex)
        if k < d:
            moved[:, :, k] += 1j * COMPLEX_STEP
        else:
            target += 1j * COMPLEX_STEP
        own[:, :, k] = log_kappa(fits.w, fits.hessian, moved, target).imag / COMPLEX_STEP
    # What a log weight, and a record through its own terms, do to (w, H, sum of weights).
    pairs = omega[:, None, :] * (X[:, :, i] * X[:, :, j]).transpose(0, 2, 1)
    writes = np.concatenate([fits.by_weights(), pairs, omega[:, None, :]], axis=1)
    reads = np.concatenate([-by_fit, np.ones((len(X), n, 1))], axis=2)
    system = np.diag(np.append(np.ones(q), 0.0)) - writes @ reads
    adjoint = np.linalg.inv(system)[:, :d]
    jacobians = np.einsum("bij,bnjk->bnik", adjoint[:, :, :d], fits.conditional())
    for k in range(d):
        unit = np.eye(d)[k]
        change = X[:, :, i] * unit[j] + X[:, :, j] * unit[i]
        change = change * omega[:, :, None]
        jacobians[:, :, :, k] += change @ adjoint[:, :, d:q].transpose(0, 2, 1)
    by_weight = (adjoint @ writes).transpose(0, 2, 1)
    jacobians -= by_weight[:, :, :, None] * own[:, :, None, :]
    return root_mean_squares(jacobians)


def next_level(level: int, omega: Array, X: Array, y: Array, alpha: float) -> Array:
    """True losses of the algorithm below, whose losses are differentiated by differences."""
    b, n, d = X.shape
    step = STEPS[level - 1]
    moved = [part for sign in (step, -step) for part in changed(omega, X, y, sign)]
    stacked = [np.concatenate(parts) for parts in zip(*moved, strict=True)]
    found = np.log(losses(level - 1, *stacked, alpha)).reshape(2, -1, b, n)
    slopes = ((found[0] - found[1]) / (2.0 * step)).transpose(1, 2, 0)  # (b, n, directions)
    fits = Fits(omega, X, y, alpha)
    system = np.zeros((b, n + 1, n + 1))
    system[:, :n, :n], system[:, :n, n], system[:, n, :n] = slopes[:, :, :n], -1.0, omega
    padded = np.concatenate([fits.by_weights(), np.zeros((b, d, 1))], axis=2)
    adjoint = np.linalg.solve(system.transpose(0, 2, 1), padded.transpose(0, 2, 1))
    through = adjoint[:, :n].transpose(0, 2, 1) @ slopes[:, :, n:]
    through = through.reshape(b, d, n, d + 1).transpose(0, 2, 1, 3)
    return root_mean_squares(fits.conditional() - through)


def changed(omega: Array, X: Array, y: Array, step: float) -> Iterator[tuple[Array, Array, Array]]:
    """All log weights, then all entries of all records, each moved by ``step``."""
    for k in range(X.shape[1]):
        moved = omega.copy()
        moved[:, k] *= np.exp(step)
        yield moved, X, y
    for i in range(X.shape[1]):
        for j in range(X.shape[2] + 1):
            records, targets = X.copy(), y.copy()
            if j < X.shape[2]:
                records[:, i, j] += step
            else:
                targets[:, i] += step
            yield omega, records, targets


def equalized(
    level: int, X: Array, y: Array, alpha: float, start: Array, tol: float
) -> tuple[Array, float, int]:
    """Weights of the algorithm of a level, of shape (n,), the spread they reach, and the fits."""

    def weights(factors: Array) -> Array:
        product = start * factors
        return product * (len(y) / product.sum())

    def measure(factors: Array) -> tuple[Array, None]:
        return losses(level, weights(factors)[None], X[None], y[None], alpha)[0], None

    result = equalize(measure, np.ones(len(y)), max_iter=1000, tol=tol)
    return weights(result.reweights), result.spread, len(result.history)


def problem(n: int, d: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


def follow_regress(quick: bool) -> tuple[list[list[str]], list[str], list[str]]:
    """Lines of a table for the algorithms of level 0, 1, ...; what failed; and its header."""
    header = ["records, columns, seed", "level", "fits", "spread", "least", "median", "largest"]
    header += ["deviation", "largest true / level 0"]
    if quick:
        problems = [(8, 2, 0, 1)]
    else:
        problems = [(30, 3, seed, 2) for seed in (0, 1, 2)] + [(12, 2, 0, 3)]
    lines, failures = [], []
    for n, d, seed, most in problems:
        (X, y), alpha, weights = problem(n, d, seed), 0.1, np.ones(n)
        name, first = f"{n}, {d}, {seed}", 0.0
        for level in range(most + 1):
            tol = TOLERANCES[level]
            weights, spread, fits = equalized(level, X, y, alpha, weights, tol)
            if not spread <= tol:
                failures.append(f"{name}: level {level} stops at a spread of {spread:.0e}")
            stated, true = (
                losses(k, weights[None], X[None], y[None], alpha)[0] for k in (level, level + 1)
            )
            ratios = true / stated
            first = first if level else true.max()
            line = [name, f"{level}", f"{fits}", f"{spread:.0e}"]
            line += [f"{value:.2f}" for value in np.quantile(ratios, [0.0, 0.5, 1.0])]
            lines.append([*line, f"{ratios.std():.2f}", f"{true.max() / first:.2f}"])
            if level == 1:
                row = int(np.argmax(ratios))
                error = abs(true_by_refits(X, y, alpha, weights, row) / true[row] - 1.0)
                if not error <= ACCURACY:
                    failures.append(f"{name}: refits of the algorithm differ by {error:.0e}")
    return lines, failures, header


def true_by_refits(X: Array, y: Array, alpha: float, weights: Array, row: int) -> float:
    """What the algorithm of level 1 leaks of a record, by differences of all of it."""
    slopes = []
    for j in range(X.shape[1] + 1):
        coefficients = []
        for step in (STEPS[1], -STEPS[1]):
            moved, target = X.copy(), y.copy()
            if j < X.shape[1]:
                moved[row, j] += step
            else:
                target[row] += step
            found = equalized(1, moved, target, alpha, weights, TOLERANCES[1])[0]
            coefficients.append(Fits(found[None], moved[None], target[None], alpha).w[0])
        slopes.append((coefficients[0] - coefficients[1]) / (2.0 * STEPS[1]))
    return float(np.sqrt(np.sum(np.square(slopes)) / len(slopes)))
