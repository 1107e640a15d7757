"""Sparse records of many columns: a fit, and what chosen records leak, without a dense Hessian."""

import sys
import time

import numpy as np
from _common import exit_status, parse_options, peak_memory, print_table
from scipy import sparse

from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

ALPHA, DENSITY, CHOSEN = 1e-2, 1e-3, 50
SIZES = (100_000, 10_000), (2_000, 1_200)
HEADER = ["loss", "fit s", "50 records s", "one column s", "largest gradient", "peak GB"]


def make_problems(n, d):
    """Estimators, records and targets, by loss."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=DENSITY, format="csr", rng=rng)
    X.data = rng.normal(size=X.nnz)
    a = 0.2 + X @ rng.normal(scale=0.3, size=d)
    return X, {
        "squared": (PrivateLinearRegression, a + rng.normal(size=n)),
        "logistic": (PrivateLogisticRegression, (a + rng.logistic(size=n) > 0.0).astype(int)),
        "poisson": (PrivatePoissonRegressor, rng.poisson(np.exp(a))),
    }


def timed(f, *args, **options):
    start = time.process_time()
    result = f(*args, **options)
    return result, time.process_time() - start


def against_dense(kind, X, y, found, options):
    """Relative excess of the losses over those of the dense way, the least and the largest."""
    dense = kind(**options).fit(X.toarray(), y)
    exact = dense.fisher_information_loss(X[:CHOSEN].toarray(), y[:CHOSEN])
    known = exact > 0.0
    excess = found[known] / exact[known] - 1.0
    return float(excess.min()), float(excess.max())


def main():
    options = parse_options(__doc__)
    n, d = SIZES[options.quick]
    X, problems = make_problems(n, d)
    lines, failures = [], []
    for loss, (kind, y) in problems.items():
        given = {"noise_scale": 1.0, "alpha": ALPHA, "random_state": 0}
        model, fit = timed(kind(**given).fit, X, y)
        found, chosen = timed(model.fisher_information_loss, X[:CHOSEN], y[:CHOSEN])
        _, column = timed(model.fisher_information_loss, X[:CHOSEN], y[:CHOSEN], features=[0])
        state = model._state
        gradient = np.abs(state.objective.at(state.factor.coefficients).gradient).max()
        seconds = [f"{value:.1f}" for value in (fit, chosen, column)]
        lines.append([loss, *seconds, f"{gradient:.0e}", f"{peak_memory():.2f}"])
        if gradient > model.tol:
            failures.append(f"{loss}: gradient {gradient:.1e}")
        if options.quick:
            least, largest = against_dense(kind, X, y, found, given)
            if least < 0.0 or largest > 1e-7:
                failures.append(f"{loss}: {least:.1e} to {largest:.1e} above the dense losses")
    print_table(f"{n:,} x {d:,} records, {X.nnz:,} entries, CPU time", HEADER, lines)
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
