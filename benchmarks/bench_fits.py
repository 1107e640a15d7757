"""One fit without leakage, against scikit-learn's solver of the same problem: CPU time."""

import sys
import time
from functools import partial

import numpy as np
from _common import exit_status, parse_options, print_table, ratio_and_range, time_in_turns
from sklearn.linear_model import LogisticRegression, Ridge

from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

ALPHA, TOL = 1e-2, 1e-10
NOISE_SCALE = 1e-12  # so little that coefficients can be compared
# Records, columns and rounds.
SIZES = [(200, 20, 100), (100_000, 100, 10)]
HEADER = ["fit", "skleak ms", "scikit-learn ms", "ratio", "range of ratio"]


def make_problems(n, d):
    """Estimators of both, and the records they are fitted on, by loss."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d) / np.sqrt(d)
    target = X @ w + rng.normal(size=n)
    labels = (X @ w + rng.logistic(size=n) > 0.0).astype(int)
    newton = LogisticRegression(C=1.0 / (n * ALPHA), solver="newton-cholesky", tol=TOL)
    given = {"alpha": ALPHA, "tol": TOL}
    ridge = Ridge(alpha=n * ALPHA, solver="cholesky")
    return {
        "squared": (PrivateLinearRegression(NOISE_SCALE, **given), ridge, X, target),
        "logistic": (PrivateLogisticRegression(NOISE_SCALE, **given), newton, X, labels),
    }


def main():
    options = parse_options(__doc__)
    lines, failures = [], []
    for n, d, rounds in SIZES[:1] if options.quick else SIZES:
        for loss, (own, rival, X, y) in make_problems(n, d).items():
            timed = time_in_turns(
                {"own": partial(own.fit, X, y), "rival": partial(rival.fit, X, y)},
                3 if options.quick else rounds,
                time.process_time,
            )
            ratio, spread = ratio_and_range(timed["own"], timed["rival"])
            name = f"{loss}, {n} x {d}"
            best = [f"{1e3 * timed[key].best:.2f}" for key in ("own", "rival")]
            lines.append([name, *best, f"{ratio:.2f}", spread])
            if not np.allclose(np.ravel(own.coef_), np.ravel(rival.coef_), rtol=1e-5, atol=1e-7):
                failures.append(f"{name}: other coefficients")
    print_table("One fit, leakage not asked for", HEADER, lines)
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
