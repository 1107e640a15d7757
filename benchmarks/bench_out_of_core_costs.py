"""CPU time of a record in a pass against the columns, t + u p + v p^2, and what larger tables cost.

The records are in memory, in blocks, so that nothing is loaded. Differences of two numbers of
records take out what does not grow with them. The line is extended to 10^9 records and 10^3 columns
on paper.
"""

import sys
import time

import dask
import numpy as np
from _common import exit_status, make_parser, parse_options, print_table
from _out_of_core import ACCURACY, MODELS, SETTINGS, fitted, made_records, note_load, relative_error
from _results import legend, note
from scipy.optimize import nnls

QUICK = {"columns": (4, 8, 16), "values": 100_000, "rounds": 1}
FULL = {"columns": (10, 20, 50, 100, 200, 500, 1000), "values": 10_000_000, "rounds": 1}
PAPER = 1e9, 1e3  # records and columns


def cpu_of_fit(kind, records):
    """CPU seconds of a fit and its passes."""
    start = time.process_time()
    model = MODELS[kind](**SETTINGS).fit(*records)
    return time.process_time() - start, model.n_passes_


def cost(kind, d, size):
    """CPU seconds for each record and pass, the median of some rounds; and the passes."""
    rows = size["values"] // d // 10
    few, many = (dask.persist(*made_records(rows * k, d, rows, kind)) for k in (5, 15))
    found = []
    for _ in range(size["rounds"]):
        (short, passes), (long, more) = cpu_of_fit(kind, few), cpu_of_fit(kind, many)
        found.append((long / more - short / passes) / (10 * rows))
    return float(np.median(found)), more


def error_of(kind, size):
    """Largest relative error of coefficients against a fit in memory; the first call warms up."""
    d = size["columns"][0]
    X, y = made_records(4_000, d, 500, kind)
    inside = MODELS[kind](**SETTINGS).fit(*dask.compute(X, y))
    return relative_error(fitted(kind, X, y)[0].coefficients, inside._state.factor.coefficients)


def main():
    options = parse_options(__doc__, make_parser(__doc__))
    size = QUICK if options.quick else FULL
    p = np.array(size["columns"]) + 1.0
    lines, shown, failures = [], [], []
    with dask.config.set(scheduler="sync"):
        for kind in MODELS:
            error = error_of(kind, size)
            if not error <= ACCURACY:
                failures.append(f"{kind}: coefficients apart by {error:.1e}")
            costs, passes = np.array([cost(kind, d, size) for d in size["columns"]]).T
            design = np.column_stack([np.ones_like(p), p, p**2])
            t, u, v = nnls(design / costs[:, None], np.ones(len(p)))[0]
            residuals = 100.0 * (costs / (t + u * p + v * p**2) - 1.0)
            lines += [[f"{kind}: microseconds", *(f"{1e6 * c:.3g}" for c in costs)]]
            lines += [[f"{kind}: residual, %", *(f"{r:+.0f}" for r in residuals)]]
            lines += [[f"{kind}: passes", *(f"{k:.0f}" for k in passes)]]
            n, wide = PAPER[0], PAPER[1] + 1.0
            hours = n * (t + u * wide + v * wide**2) / 3600.0
            note(f"{kind}: t in nanoseconds", 1e9 * t)
            note(f"{kind}: u in nanoseconds", 1e9 * u)
            note(f"{kind}: v in nanoseconds", 1e9 * v)
            note(f"{kind}: core hours of a pass over 1e9 x 1e3", hours)
            note(f"{kind}: largest residual in percent", float(np.max(np.abs(residuals))))
            shown.append(f"{kind}: {1e9 * t:.0f} + {1e9 * u:.2f} p + {1e9 * v:.3f} p^2 nanoseconds")
            shown.append(f"{kind}: a pass over 1e9 x 1e3 would take {hours:.0f} core hours")
    header = ["a record in a pass", *(f"d={d}" for d in size["columns"])]
    print_table("CPU time of a record in a pass, against the columns", header, lines)
    for text in shown:
        legend(text)
    note_load("at the end")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
