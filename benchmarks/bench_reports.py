"""CPU time and peak memory of a leakage report, beside those of the fit that it is about.

The report without text and page. The largest distance between two values is checked by refits.
"""

import sys
import time
import tracemalloc
from dataclasses import dataclass
from functools import partial

import numpy as np
from _common import (
    exit_status,
    parse_options,
    print_table,
    ratio_and_range,
    synthetic,
    time_in_turns,
)

from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

ALPHA, NOISE, CLOSE = 1e-2, 1.0, 1e-6  # the last one relative, of solvers that stop at 1e-10
MODELS = {"squared": PrivateLinearRegression, "logistic": PrivateLogisticRegression}
HEADER = ["records, loss", "fit ms", "leakage ms", "report ms", "report / fit and leakage"]
HEADER += ["range of ratio", "report alone / fit and leakage before", "error"]
# CPU milliseconds that a fit with its leakage took at commit 2321c1f, on one thread of the machine
# of the kept results: what a report is held against, at most three times that.
BEFORE = {
    "20000 x 50, squared": 101.9,
    "20000 x 50, logistic": 130.7,
    "100000 x 20, squared": 208.8,
    "100000 x 20, logistic": 433.5,
}


@dataclass(frozen=True)
class Case:
    loss: str
    n: int
    d: int
    rounds: int

    def __str__(self):
        return f"{self.n} x {self.d}, {self.loss}"


def fitted(case, X, y):
    return MODELS[case.loss](alpha=ALPHA, noise_scale=NOISE, tol=1e-10).fit(X, y)


def with_leakage(case, X, y):
    """A fit, and the loss of every record."""
    model = fitted(case, X, y)
    return model, model.fisher_information_loss_


def measure(case):
    """One row of the table, and the relative error of the largest distance."""
    X, y = synthetic(case.n, case.d)
    timed = time_in_turns(
        {
            "fit": partial(fitted, case, X, y),
            "leakage": partial(with_leakage, case, X, y),
            # With its fit: what a fit has found once, it keeps.
            "report": lambda: fitted(case, X, y).leakage_report(),
        },
        case.rounds,
        time.process_time,
    )
    error = largest_error(case, X, y, timed["report"].result)
    ratio, reach = ratio_and_range(timed["report"], timed["leakage"])
    milliseconds = [f"{1e3 * each.best:.1f}" for each in timed.values()]
    alone = 1e3 * (timed["report"].best - timed["fit"].best)
    over = f"{alone / BEFORE[str(case)]:.2f}" if str(case) in BEFORE else ""
    return [str(case), *milliseconds, f"{ratio:.2f}", reach, over, f"{error:.1e}"], error


def largest_error(case, X, y, report):
    """Relative error of the largest distance of a 0/1 column, against a refit with it flipped."""
    features = report.features[report.features["n_values"] == 2.0].drop("(target)", errors="ignore")
    first = features.iloc[0]
    record, column = int(first["most_exposed_record"]), int(features.index[0].removeprefix("x"))
    changed = X.copy()
    changed[record, column] = 1.0 - changed[record, column]
    ends = [fitted(case, table, y)._state.factor.coefficients for table in (X, changed)]
    expected = np.linalg.norm(ends[1] - ends[0]) / NOISE
    return abs(first["distance"] / expected - 1.0)


def more_memory(case):
    """Peak of what a report allocates, and the size of the data, in MB."""
    X, y = synthetic(case.n, case.d)
    model = fitted(case, X, y)
    tracemalloc.start()
    model.leakage_report()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return X.nbytes / 1e6, peak / 1e6


def main():
    options = parse_options(__doc__)
    cases = [Case("squared", 100, 5, 2), Case("logistic", 100, 5, 2)]
    large = [Case("squared", 2000, 5, 1)]
    if not options.quick:
        small = [Case(loss, 200, 20, 9) for loss in MODELS]
        large = [Case("squared", 20_000, 50, 3), *(Case(loss, 100_000, 50, 1) for loss in MODELS)]
        sizes = (20_000, 50), (100_000, 20)
        cases = [*small, *(Case(loss, *size, 3) for size in sizes for loss in MODELS)]
    rows, errors = zip(*map(measure, cases), strict=True)
    print_table("CPU time of a leakage report, with its fit", HEADER, rows)
    lines = []
    for case in large:
        size, peak = more_memory(case)
        lines.append([str(case), f"{size:.1f}", f"{peak:.1f}", f"{peak / size:.2f}"])
    header = ["records, loss", "data MB", "peak of the report MB", "peak / data"]
    print_table("Peak memory of a leakage report", header, lines)
    pairs = zip(cases, errors, strict=True)
    return exit_status([f"{case}: error {error:.1e}" for case, error in pairs if error > CLOSE])


if __name__ == "__main__":
    sys.exit(main())
