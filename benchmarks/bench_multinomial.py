"""Leakage of every record under many classes: skleak against a dense Jacobian per record."""

import sys
import time
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from _common import (
    Array,
    exit_status,
    fetch_or_none,
    in_fresh_process,
    parse_options,
    peak_memory,
    print_table,
    ratio_and_range,
    time_in_turns,
)
from _results import legend
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from skleak.datasets import fetch_adult, fetch_mnist
from skleak.linear_model import PrivateLogisticRegression

ALPHA, SIGMA = 1e-2, 0.5
ACCURACY = 1e-8  # relative
MEMORY = 2.0  # GB
HEADER = ["data", "n", "d", "K", "fit s", "skleak s", "dense s", "sample", "ratio"]
HEADER += ["range of ratio", "error", "peak GB"]
# Fits: strength of the penalty and norm of the gradient; records, columns, classes and rounds.
FIT_ALPHA, TOL = 1e-2, 1e-10
FITS = [(200, 20, 3, 30), (2_000, 100, 3, 5), (2_000, 100, 10, 5), (10_000, 100, 5, 5)]
FIT_HEADER = ["fit", "fit ms", "with leakage ms", "scikit-learn ms", "solver", "ratio of fits"]
FIT_HEADER += ["ratio with leakage", "range of ratio"]


@dataclass(frozen=True)
class Case:
    data: str
    n: int
    d: int
    n_classes: int
    sample: int  # records that the dense method is timed on
    rounds: int


def load(case):
    """Ten digits on twenty axes, Adult's occupation, or records of such a shape."""
    if case.data == "mnist":
        data = fetch_or_none(fetch_mnist, classes=None, preprocessing="pca20")
        if data is not None:
            return "mnist", *data
    if case.data == "occupation":
        raw, table = fetch_or_none(fetch_adult), fetch_or_none(fetch_adult, encoded=True)
        if raw is not None and table is not None:
            others = [name for name in table[0] if not name.startswith("occupation")]
            return "occupation", table[0][others].to_numpy(), raw[0]["occupation"].astype(str)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(case.n, case.d))
    logits = X @ rng.normal(size=(case.d, case.n_classes)) / np.sqrt(case.d)
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    y[: case.n_classes] = np.arange(case.n_classes)
    return "synthetic", X, y


@dataclass(frozen=True)
class DenseReference:
    """The textbook way, from the definitions alone and without any code of skleak.

    Newton's method with a dense Hessian; for every record the Jacobian of shape
    (K (d + 1), d + K - 1) is built, and its largest singular value taken. Parameters class by
    class, every class with its intercept last, not penalized; private target.
    """

    records: Array  # with the column of ones, (n, d + 1)
    inverse: Array  # (p, K, d + 1)
    coefficients: Array  # (K, d + 1)
    probabilities: Array  # (n, K)
    own: Array  # one-hot classes, (n, K)
    tangent: Array  # orthonormal directions of the simplex, (K, K - 1)

    @classmethod
    def fit(cls, X: Array, codes: Array, alpha: float) -> "DenseReference":
        (n, d), n_classes = X.shape, int(codes.max()) + 1
        x, own = np.column_stack([X, np.ones(n)]), np.eye(n_classes)[codes]
        penalty = n * alpha * np.append(np.ones(d), 0.0)
        tangent = np.linalg.svd(np.ones((1, n_classes)))[2][1:].T
        basis = np.kron(tangent, np.eye(d + 1))
        w = np.zeros((n_classes, d + 1))
        for _ in range(30):
            p = softmax(x @ w.T, axis=1)
            gradient = (p - own).T @ x + penalty * w
            hessian = basis.T @ (curvature(x, p) + np.diag(np.tile(penalty, n_classes))) @ basis
            step = (basis @ np.linalg.solve(hessian, basis.T @ gradient.ravel())).reshape(w.shape)
            if np.max(np.abs(step)) <= 1e-12 * max(1.0, np.max(np.abs(w))):
                break
            w -= step
        inverse = basis @ np.linalg.solve(hessian, basis.T)
        return cls(x, inverse.reshape(-1, n_classes, d + 1), w, p, own, tangent)

    def jacobians(self, rows: Array) -> Array:
        """Jacobians of some records, up to a common sign."""
        p, w = self.probabilities[rows], self.coefficients[:, :-1]
        c = -p[:, :, None] * p[:, None, :]
        k = np.arange(p.shape[1])
        c[:, k, k] += p
        u = np.einsum("pkj,nj->npk", self.inverse, self.records[rows], optimize=True)
        x = u @ (c @ w)
        x += np.tensordot(p - self.own[rows], self.inverse[:, :, :-1], axes=(1, 1))
        return np.concatenate([x, -(u @ self.tangent)], axis=2)

    def norms(self, rows: Array, batch: int = 64) -> Array:
        """Spectral norms, with Jacobians and singular values of a batch of records at a time."""
        batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        return np.concatenate(
            [np.linalg.norm(self.jacobians(some), 2, axis=(1, 2)) for some in batches]
        )


def curvature(x: Array, p: Array) -> Array:
    """Sum of ``(diag(p) - p p^T) (x) x x^T`` over the records, class by class."""
    n_classes, size = p.shape[1], x.shape[1]
    hessian = np.empty((n_classes, size, n_classes, size))
    for k in range(n_classes):
        for m in range(k + 1):
            weights = p[:, k] * ((k == m) - p[:, m])
            hessian[k, :, m] = x.T @ (weights[:, None] * x)
            hessian[m, :, k] = hessian[k, :, m].T
    return hessian.reshape(n_classes * size, -1)


def measure(case):
    """One line of the table, the relative error and the peak memory in GB."""
    name, X, y = load(case)
    start = time.perf_counter()
    model = PrivateLogisticRegression(noise_scale=SIGMA, alpha=ALPHA).fit(X, y)
    fitting = time.perf_counter() - start
    memory = peak_memory()

    codes = np.unique(y, return_inverse=True)[1]
    reference = DenseReference.fit(np.asarray(X, dtype=float), codes, ALPHA)
    rows = np.random.default_rng(0).choice(len(codes), case.sample, replace=False)
    timed = time_in_turns(
        {"skleak": model.fisher_information_loss, "dense": partial(reference.norms, rows)},
        case.rounds,
    )
    fast, dense, scale = timed["skleak"], timed["dense"], len(codes) / case.sample
    error = float(np.max(np.abs(fast.result[rows] / (dense.result / SIGMA) - 1.0)))
    ratio, spread = ratio_and_range(dense, fast, scale)
    line = [name, f"{X.shape[0]}", f"{X.shape[1]}", f"{codes.max() + 1}", f"{fitting:.1f}"]
    line += [f"{fast.best:.3f}", f"{scale * dense.best:.1f}", f"{case.sample}", f"{ratio:.1f}"]
    return [*line, spread, f"{error:.0e}", f"{memory:.2f}"], error, memory


def gradient_norm(model, X, y):
    """Norm of the gradient at the coefficients of a fit by scikit-learn."""
    residuals = softmax(X @ model.coef_.T + model.intercept_, axis=1) - np.eye(y.max() + 1)[y]
    gradient = residuals.T @ X / len(y) + FIT_ALPHA * model.coef_
    return np.hypot(np.linalg.norm(gradient), np.linalg.norm(residuals.mean(axis=0)))


def rivals(X, y):
    """Each solver of scikit-learn at the first tolerance that leaves so small a gradient."""
    found = {}
    for solver in ("newton-cholesky", "newton-cg", "lbfgs"):
        for tol in (1e-8, 1e-10, 1e-11, 1e-12):
            given = {"solver": solver, "tol": tol, "max_iter": 1000}
            model = LogisticRegression(C=1.0 / (len(y) * FIT_ALPHA), **given)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, y)
            if gradient_norm(model, X, y) <= TOL:
                found[solver] = model
                break
    return found


def measure_fit(n, d, n_classes, rounds):
    """One line of the table of fits, by CPU time, and whether coefficients differ."""
    _, X, y = load(Case("synthetic", n, d, n_classes, 0, 0))
    own = PrivateLogisticRegression(noise_scale=1e-12, alpha=FIT_ALPHA, tol=TOL)
    others = rivals(X, y)
    functions = {name: partial(model.fit, X, y) for name, model in others.items()}
    functions["fit"] = partial(own.fit, X, y)
    functions["both"] = lambda: own.fit(X, y).fisher_information_loss_
    timed = time_in_turns(functions, rounds, time.process_time)
    name = min(others, key=lambda solver: timed[solver].best)
    ratio, spread = ratio_and_range(timed["both"], timed[name])
    best = [f"{1e3 * timed[key].best:.1f}" for key in ("fit", "both", name)]
    line = [f"{n} x {d}, {n_classes} classes", *best, name]
    line += [f"{timed['fit'].best / timed[name].best:.1f}", f"{ratio:.1f}", spread]
    return line, not np.allclose(own.coef_, others[name].coef_, rtol=1e-5, atol=1e-7)


def main():
    options = parse_options(__doc__)
    if options.quick:
        cases = [Case("synthetic", 400, 8, 10, 60, 1), Case("synthetic", 300, 20, 4, 60, 1)]
    else:
        cases = [Case("mnist", 60_000, 20, 10, 1000, 3)]
        cases += [Case("occupation", 30_162, 73, 14, 300, 3)]
    lines, failures = [], []
    for case in cases:
        line, error, memory = in_fresh_process(measure, case)
        lines.append(line)
        if not error <= ACCURACY:
            failures.append(f"{case.data}: relative error {error:.1e}")
        if memory > MEMORY:
            failures.append(f"{case.data}: peak memory {memory:.2f} GB")
    print_table("Fisher information loss of every record, many classes", HEADER, lines)
    legend("fit s: solver, spectral and trace norm of every record; dense s: from the sample")
    legend("peak GB: of a process that imports, loads, fits and measures, before the dense method")
    lines = []
    for case in FITS[:1] if options.quick else FITS:
        line, differs = in_fresh_process(measure_fit, *case)
        lines.append(line)
        failures += [f"{line[0]}: other coefficients"] if differs else []
    print_table("Fits with several classes, CPU time", FIT_HEADER, lines)
    legend(f"scikit-learn: its fastest solver to a gradient of norm {TOL:g}, without any leakage")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
