"""Leakage of the whole data set: skleak against one Gram product, and the n(d+1)-wide matrix."""

import sys
from functools import partial

import numpy as np
from _common import (
    DenseReference,
    Loss,
    exit_status,
    in_fresh_process,
    parse_options,
    peak_memory,
    print_table,
    ratio_and_range,
    synthetic,
    time_in_turns,
)

from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

ALPHA, SIGMA = 1e-2, 0.5
ACCURACY = 1e-9  # relative
MODELS = {"logistic": PrivateLogisticRegression, "squared": PrivateLinearRegression}


def fit(X, y, loss: Loss):
    return MODELS[loss](noise_scale=SIGMA, alpha=ALPHA).fit(X, y)


def against_gram_product(n, d, loss: Loss, rounds):
    """One line: time of the leakage of all records together in products ``X.T @ X``."""
    X, y = synthetic(n, d)
    model = fit(X, y, loss)
    leakage = partial(model.fisher_information_loss, per="dataset")
    timed = time_in_turns({"skleak": leakage, "gram": lambda: X.T @ X}, rounds)
    ratio, spread = ratio_and_range(timed["skleak"], timed["gram"])
    wide = 8 * n * (d + 1) ** 2 / 1e9
    line = [f"{n}", f"{d}", loss, f"{timed['skleak'].best:.3f}", f"{timed['gram'].best:.3f}"]
    return [*line, f"{ratio:.1f}", spread, f"{peak_memory():.2f}", f"{wide:.1f}"]


def against_wide_matrix(n, d, loss: Loss, rounds):
    """One line, and the relative error against all Jacobians side by side."""
    X, y = synthetic(n, d)
    model = fit(X, y, loss)
    reference = DenseReference.fit(X, y, loss, ALPHA)

    def wide():
        jacobians = reference.jacobians(np.arange(n))
        return np.linalg.norm(np.concatenate(list(jacobians), axis=1), 2)

    leakage = partial(model.fisher_information_loss, per="dataset")
    timed = time_in_turns({"skleak": leakage, "wide": wide}, rounds)
    ratio, spread = ratio_and_range(timed["wide"], timed["skleak"])
    error = abs(timed["skleak"].result / (timed["wide"].result / SIGMA) - 1.0)
    line = [f"{n}", f"{d}", loss, f"{timed['skleak'].best:.4f}", f"{timed['wide'].best:.3f}"]
    return [*line, f"{ratio:.0f}", spread, f"{error:.0e}"], error


def main():
    options = parse_options(__doc__)
    large, small, rounds = (
        ((2_000, 20), (100, 10), 2) if options.quick else ((100_000, 100), (2_000, 30), 7)
    )
    lines = [in_fresh_process(against_gram_product, *large, loss, rounds) for loss in MODELS]
    header = ["n", "d", "loss", "skleak s", "X.T @ X s", "ratio", "range of ratio", "peak GB"]
    print_table("Whole data set, in Gram products", [*header, "wide matrix GB"], lines, ["loss"])
    lines, failures = [], []
    for loss in MODELS:
        line, error = in_fresh_process(against_wide_matrix, *small, loss, rounds)
        lines.append(line)
        if not error <= ACCURACY:
            failures.append(f"n={small[0]} {loss}: relative error {error:.1e}")
    header = ["n", "d", "loss", "skleak s", "wide s", "ratio", "range of ratio", "error"]
    print_table(
        "Whole data set, against the SVD of the n(d+1)-wide matrix", header, lines, ["loss"]
    )
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
