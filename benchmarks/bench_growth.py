"""How cost grows: leakage over the columns, and encodings of a column over the records.

Each beside the straightforward method: a dense Jacobian and singular values for each record, and a
refit for each record. The exponent is that of the power law that fits the times best.
"""

import sys
from functools import partial

import numpy as np
from _common import (
    DenseReference,
    exit_status,
    parse_options,
    print_table,
    synthetic,
    time_in_turns,
)
from _results import legend, note, note_curve
from bench_encodings import ALPHA, refits

from skleak.influence import candidate_encodings
from skleak.linear_model import PrivateLogisticRegression

SIGMA = 0.5
ACCURACY = 1e-8
SAMPLE = {"columns": 40, "records": 3}  # records that the straightforward method is timed on
QUICK = {"columns": (5, 10, 20), "records": (100, 200, 400)}
FULL = {"columns": (25, 50, 100, 200, 400), "records": (1_000, 2_000, 4_000, 8_000, 16_000)}


def over_columns(n, d, rounds):
    """Seconds of leakage of all records, by both methods, and the largest relative error."""
    X, y = synthetic(n, d)
    model = PrivateLogisticRegression(noise_scale=SIGMA, alpha=ALPHA).fit(X, y)
    reference = DenseReference.fit(X, y, "logistic", ALPHA)
    rows = np.random.default_rng(0).choice(n, min(n, SAMPLE["columns"]), replace=False)
    timed = time_in_turns(
        {
            "skleak": model.fisher_information_loss,
            "dense": partial(reference.norms_batched, rows),
        },
        rounds,
    )
    fast, dense = timed["skleak"], timed["dense"]
    error = np.max(np.abs(fast.result[rows] / (dense.result / SIGMA) - 1.0))
    return fast.best, dense.best * n / len(rows), float(error)


def over_records(n, d, rounds):
    """Seconds of the encodings of a 0/1 column, by both methods, and the largest error."""
    X, y = synthetic(n, d)
    X[:, 0] = np.random.default_rng(1).random(n) < 0.47
    model = PrivateLogisticRegression(noise_scale=0.0, alpha=ALPHA).fit(X, y)
    start = np.append(np.ravel(model.coef_), model.intercept_)
    rows = np.random.default_rng(0).choice(n, SAMPLE["records"], replace=False)
    timed = time_in_turns(
        {
            "skleak": partial(candidate_encodings, model, X, y, 0, (0.0, 1.0)),
            "refits": partial(refits, X, y, 0, "logistic", start, rows),
        },
        rounds,
    )
    fast, slow = timed["skleak"], timed["refits"]
    error = np.max(np.abs(fast.result[rows] - slow.result))
    return fast.best, slow.best * n / len(rows), float(error)


def grow(panel, over, sizes, rival, measured):
    """Keep the curves; lines of the table, and what failed."""
    lines, failures = [], []
    for k, name in enumerate(("skleak", rival)):
        seconds = [row[k] for row in measured]
        exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        note_curve(panel, name, over, sizes, seconds)
        note(f"{panel}: {name}: exponent in {over}", exponent)
        cells = [f"{value:.3g}" for value in (*seconds, exponent)]
        lines.append([f"{panel}: {name}", *cells])
    ratios = [slow / fast for fast, slow, _ in measured]
    note(f"{panel}: ratio at the largest", ratios[-1])
    lines.append([f"{panel}: ratio", *(f"{ratio:.3g}" for ratio in ratios), ""])
    for size, (_, _, error) in zip(sizes, measured, strict=True):
        if not error <= ACCURACY:
            failures.append(f"{panel}, {over} = {size}: error {error:.1e}")
    return lines, failures


def main():
    options = parse_options(__doc__)
    sizes, rounds = (QUICK, 1) if options.quick else (FULL, 3)
    n, d = (100, 4) if options.quick else (4_000, 20)
    failures = []
    for over, which, panel, rival, measure in (
        ("d", "columns", f"leakage of every record, n = {n}", "dense", over_columns),
        ("n", "records", f"encodings of every record, d = {d}", "refits", over_records),
    ):
        fixed = {"d": (lambda size: (n, size)), "n": (lambda size: (size, d))}[over]
        measured = [measure(*fixed(size), rounds) for size in sizes[which]]
        lines, wrong = grow(panel, over, sizes[which], rival, measured)
        header = ["seconds (best)", *(f"{over}={size}" for size in sizes[which]), "exponent"]
        print_table(f"Growth over {which}", header, lines)
        legend("dense, refits: extrapolated from a few records")
        failures += wrong
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
