"""Random fits, and what is computed about them without the code under test."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit, softmax

from skleak.influence.jacobian import FitFactor, MultinomialFactor
from skleak.influence.jacobian._multinomial import label_directions
from skleak.losses import LogisticLoss, PoissonLoss, SoftmaxLoss, SquaredLoss
from skleak.solvers import MultinomialObjective, Objective, by_class, minimize

LOSSES = {"squared": SquaredLoss(), "logistic": LogisticLoss(), "poisson": PoissonLoss()}


@dataclass(frozen=True)
class Problem:
    """A fit, with its own first and second derivatives and its own solver."""

    X: np.ndarray
    y: np.ndarray
    kind: str
    alpha: float
    fit_intercept: bool
    s: np.ndarray
    omega: np.ndarray

    @property
    def objective(self):
        return Objective(
            self.X, self.y, LOSSES[self.kind], self.alpha, self.fit_intercept, self.s, self.omega
        )

    @property
    def minimum(self):
        minimum = minimize(self.objective)
        assert minimum.converged
        return minimum

    @property
    def factor(self):
        minimum = self.minimum
        return FitFactor(
            minimum.coefficients, minimum.inverse_hessian, LOSSES[self.kind], self.fit_intercept
        )

    def derivatives(self, a):
        """r and c of every record, by formulas of their own."""
        if self.kind == "squared":
            return a - self.y, np.ones_like(a)
        if self.kind == "poisson":
            return np.exp(a) - self.y, np.exp(a)
        # s(a) - y, written so that nothing cancels at y = 0 and y = 1.
        return (1.0 - self.y) * expit(a) - self.y * expit(-a), expit(a) * expit(-a)

    def resolve(self, start):
        """Solve for a zero of the gradient with MINPACK, in centred and scaled coordinates."""
        center = self.X.mean(axis=0) if self.fit_intercept else np.zeros(self.X.shape[1])
        scale = np.sqrt(np.mean((self.X - center) ** 2, axis=0))
        scale[scale == 0.0] = 1.0
        x = (self.X - center) / scale
        ridge = self.s.sum() * self.alpha / scale**2
        if self.fit_intercept:
            x, ridge = np.column_stack([x, np.ones(len(x))]), np.append(ridge, 0.0)
        weights = self.s * self.omega

        def gradient(v):
            return x.T @ (weights * self.derivatives(x @ v)[0]) + ridge * v

        def hessian(v):
            c = weights * self.derivatives(x @ v)[1]
            return (x.T * c) @ x + np.diag(ridge)

        d = len(scale)
        v = start.copy()
        v[:d] *= scale
        if self.fit_intercept:
            v[d] += center @ start[:d]
        v = optimize.root(gradient, v, jac=hessian, tol=1e-13).x
        for _ in range(3):
            v = v - np.linalg.solve(hessian(v), gradient(v))
        w = v.copy()
        w[:d] /= scale
        if self.fit_intercept:
            w[d] -= center @ w[:d]
        return w

    def moved(self, i, j, change, copies):
        """Minimizer after ``copies`` of record i moved by ``change`` in column j (the last: y)."""
        X, y = np.vstack([self.X, self.X[i]]), np.append(self.y, self.y[i])
        s, omega = np.append(self.s, copies), np.append(self.omega, self.omega[i])
        s[i] -= copies
        if j == self.X.shape[1]:
            y[-1] += change
        else:
            X[-1, j] += change
        changed = replace(self, X=X, y=y, s=s, omega=omega)
        return changed.resolve(self.start)

    @property
    def start(self):
        return self.minimum.coefficients

    def central_jacobian(self, i, copies=1.0, step=1e-3):
        """d(minimizer)/d(record i, target) by extrapolated central differences of re-solves.

        A step moves no predictor by more than ``step`` and no column by more than that share of
        its standard deviation.
        """
        d = self.X.shape[1]
        spread = np.append(np.std(self.X, axis=0), np.std(self.y))
        columns = []
        for j in range(d + 1):
            unit = spread[j] if spread[j] > 0.0 else 1.0
            slope = self._difference(i, j, 1e-7 * unit, copies)
            moves = (self.X - self.X.mean(axis=0)) @ slope[:d]
            if self.fit_intercept:
                moves += slope[d] + self.X.mean(axis=0) @ slope[:d]
            h = step * min(unit, 1.0 / max(np.abs(moves).max(), 1e-300))
            coarse, fine = (self._difference(i, j, g, copies) for g in (h, 0.5 * h))
            columns.append((4.0 * fine - coarse) / 3.0)
        return np.column_stack(columns)

    def _difference(self, i, j, h, copies):
        return (self.moved(i, j, h, copies) - self.moved(i, j, -h, copies)) / (2.0 * h)

    def dense_jacobian(self):
        """Every record's Jacobian from its definition, one by one, at omega = 1."""
        factor = self.factor
        A, w = factor.inverse_hessian, factor.coefficients[: self.X.shape[1]]
        jacobians = []
        for x, y in zip(self.X, self.y, strict=True):
            x = np.append(x, 1.0) if self.fit_intercept else x
            a = np.array([x @ factor.coefficients])
            r, c = replace(self, y=np.array([y])).derivatives(a)
            E = np.eye(len(x))[:, : len(w)]
            jacobians.append(-A @ np.column_stack([c * np.outer(x, w) + r * E, -x]))
        return np.array(jacobians)


def _targets(kind, predictor, rng):
    if kind == "squared":
        return predictor + 0.5 * rng.normal(size=len(predictor))
    if kind == "poisson":
        y = rng.poisson(np.exp(np.clip(predictor, -20.0, 3.0))).astype(float)
        y[0] += 1.0
        return y
    y = (rng.random(len(predictor)) < expit(predictor)).astype(float)
    y[:2] = [0.0, 1.0]
    return y


@pytest.fixture
def make_problem(rng):
    """Factory of random problems; unequal weights and factors unless told otherwise."""

    def make(
        kind="squared",
        n=12,
        d=3,
        *,
        alpha=1e-2,
        fit_intercept=True,
        weighted=True,
        X=None,
        y=None,
        scale=1.0,
        offset=0.0,
    ):
        X = rng.normal(size=(n, d)) if X is None else X
        n, d = X.shape
        beta = np.linspace(1.0, -0.7, d)
        y = _targets(kind, X @ beta + 0.3, rng) if y is None else y
        s, omega = np.ones(n), np.ones(n)
        if weighted:
            s = rng.integers(1, 4, size=n).astype(float)
            omega = 0.5 + rng.random(n)
            omega *= s.sum() / (s @ omega)
        return Problem(X * scale + offset, y, kind, alpha, fit_intercept, s, omega)

    return make


@dataclass(frozen=True)
class MultinomialProblem:
    """A fit with several classes; labels are rows of probabilities, which may move."""

    X: np.ndarray
    Y: np.ndarray  # (n, K)
    alpha: float
    fit_intercept: bool
    s: np.ndarray
    omega: np.ndarray

    @property
    def n_classes(self):
        return self.Y.shape[1]

    @property
    def y(self):
        return self.Y.argmax(axis=1).astype(float)

    @property
    def objective(self):
        return MultinomialObjective(
            self.X,
            self.y,
            SoftmaxLoss(),
            self.alpha,
            self.fit_intercept,
            self.s,
            self.omega,
            self.n_classes,
        )

    @property
    def factor(self):
        minimum = minimize(self.objective)
        assert minimum.converged
        return MultinomialFactor(
            minimum.coefficients,
            minimum.inverse_hessian,
            SoftmaxLoss(),
            self.fit_intercept,
            self.n_classes,
        )

    @property
    def positions(self):
        return by_class(self.n_classes, self.X.shape[1], self.fit_intercept)

    def parts(self, W):
        """Records with their constant, probabilities, and the Hessian, class by class."""
        n, d = self.X.shape
        x = np.column_stack([self.X, np.ones(n)]) if self.fit_intercept else self.X
        p = softmax(x @ W.T, axis=1)
        size = x.shape[1]
        penalty = np.where(np.arange(size) < d, self.s.sum() * self.alpha, 0.0)
        hessian = np.kron(np.eye(self.n_classes), np.diag(penalty))
        for i, weight in enumerate(self.s * self.omega):
            C = np.diag(p[i]) - np.outer(p[i], p[i])
            hessian += weight * np.kron(C, np.outer(x[i], x[i]))
        return x, p, penalty, hessian

    def resolve(self, W):
        """Newton's method with dense matrices, on parameters that sum to zero over classes."""
        size = W.shape[1]
        same = np.kron(np.ones((self.n_classes, self.n_classes)), np.eye(size))
        for _ in range(8):
            x, p, penalty, hessian = self.parts(W)
            gradient = (p - self.Y).T @ (x * (self.s * self.omega)[:, None]) + W * penalty
            scale = np.trace(hessian) / len(hessian)
            step = np.linalg.solve(hessian + scale * same, gradient.ravel())
            W = W - step.reshape(W.shape)
        return W.ravel()

    def moved(self, i, change, copies):
        """Minimizer after ``copies`` of record i moved by ``change`` in [x, label]."""
        d = self.X.shape[1]
        s = np.append(self.s, copies)
        s[i] -= copies
        changed = MultinomialProblem(
            np.vstack([self.X, self.X[i] + change[:d]]),
            np.vstack([self.Y, self.Y[i] + change[d:]]),
            self.alpha,
            self.fit_intercept,
            s,
            np.append(self.omega, self.omega[i]),
        )
        return changed.resolve(self.factor.coefficients[self.positions])

    def central_jacobian(self, i, copies=1.0, step=1e-3):
        """By extrapolated central differences, in the flat order of the parameters."""
        d, T = self.X.shape[1], label_directions(self.n_classes)
        columns = []
        for j in range(d + T.shape[1]):
            unit = (
                np.append(np.eye(d)[j], 0.0 * T[:, 0])
                if j < d
                else np.append(np.zeros(d), T[:, j - d])
            )
            h = step * (np.std(self.X[:, j]) if j < d else 1.0)
            coarse, fine = (
                (self.moved(i, g * unit, copies) - self.moved(i, -g * unit, copies)) / (2.0 * g)
                for g in (h, 0.5 * h)
            )
            columns.append((4.0 * fine - coarse) / 3.0)
        jacobian = np.empty((len(columns[0]), len(columns)))
        jacobian[self.positions.ravel()] = np.column_stack(columns)
        return jacobian

    def dense_jacobian(self):
        """Every record's Jacobian from its definition, with a pseudo-inverse of its own."""
        w = self.factor.coefficients[self.positions]
        x, p, _, hessian = self.parts(w)
        n, size, d = self.n_classes, w.shape[1], self.X.shape[1]
        basis = np.kron(label_directions(n), np.eye(size))  # of what sums to zero
        A = basis @ np.linalg.solve(basis.T @ hessian @ basis, basis.T)
        E, T = np.eye(size)[:, :d], label_directions(n)
        jacobians = np.empty((len(x), n * size, d + n - 1))
        for i in range(len(x)):
            # One minus a probability is the sum of the others: nothing cancels.
            off = -np.outer(p[i], p[i]) * (1.0 - np.eye(n))
            C = off - np.diag(off.sum(axis=1))
            r = np.where(self.Y[i] == 1.0, 0.0, p[i])
            r -= self.Y[i] * r.sum()
            mixed = np.kron(C @ w[:, :d], x[i][:, None]) + np.kron(r[:, None], E)
            jacobians[i, self.positions.ravel()] = -A @ np.column_stack(
                [mixed, -np.kron(T, x[i][:, None])]
            )
        return jacobians


@pytest.fixture
def make_multinomial(rng):
    """Factory of random problems; unequal weights and factors unless told otherwise."""

    def make(
        n=40, d=3, n_classes=4, *, alpha=1e-2, fit_intercept=True, weighted=True, X=None, slope=1.0
    ):
        X = rng.normal(size=(n, d)) if X is None else X
        n, d = X.shape
        logits = slope * X @ rng.normal(size=(d, n_classes)) + rng.gumbel(size=(n, n_classes))
        y = logits.argmax(axis=1)
        y[:n_classes] = np.arange(n_classes)
        s, omega = np.ones(n), np.ones(n)
        if weighted:
            s = rng.integers(1, 4, size=n).astype(float)
            omega = 0.5 + rng.random(n)
            omega *= s.sum() / (s @ omega)
        return MultinomialProblem(X, np.eye(n_classes)[y], alpha, fit_intercept, s, omega)

    return make
