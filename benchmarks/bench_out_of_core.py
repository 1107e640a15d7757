"""Fits of records that outgrow memory, on a cluster of two workers with 2 GB each.

The records are made block by block as functions of the number of the block, anew in every pass, and
are never in memory together. A small table is fitted in memory as well, to compare.
"""

import sys
import time

import dask
import numpy as np
from _common import exit_status, make_parser, parse_options, peak_memory, print_table
from _out_of_core import (
    ACCURACY,
    KEEP_MEMORY,
    MODELS,
    SETTINGS,
    fitted,
    line_through,
    made_records,
    note_load,
    relative_error,
)
from _results import legend, note
from distributed import Client, LocalCluster

QUICK = {"sizes": (20_000, 40_000), "d": 5, "rows": 5_000, "compared": 20_000}
FULL = {"sizes": (1_000_000, 10_000_000, 20_000_000), "d": 50, "rows": 50_000, "compared": 200_000}
LIMIT = 2.0  # GB of each worker


def compare(kind, n, d, rows):
    """Largest relative errors of coefficients and leakage of a table that also fits in memory."""
    X, y = made_records(n, d, rows, kind)
    inside = MODELS[kind](**SETTINGS).fit(*dask.compute(X, y))
    _, model = fitted(kind, X, y)
    expected = inside._state.factor.coefficients
    coefficients = relative_error(model._state.factor.coefficients, expected)
    losses = model.fisher_information_loss_.compute()
    return coefficients, relative_error(losses, inside.fisher_information_loss_)


def measure(client, kind, n, size):
    """Fit, CPU seconds of the workers, the largest loss, and peak memory of the workers."""
    X, y = made_records(n, size["d"], size["rows"], kind)
    before = sum(client.run(time.process_time).values())
    fit, model = fitted(kind, X, y)
    cpu = sum(client.run(time.process_time).values()) - before + fit.cpu
    most = float(model.fisher_information_loss_.max().compute())
    return fit, cpu, most, sorted(client.run(peak_memory).values())


def note_line(name, sizes, seconds):
    """Keep the line through times over sizes, and say it below the table."""
    a, b, residuals = line_through(sizes, seconds)
    note(f"linear, {name}: a in seconds", a)
    note(f"linear, {name}: b in seconds per million records", 1e6 * b)
    note(f"linear, {name}: largest residual in percent", float(np.max(np.abs(residuals))))
    shown = ", ".join(f"{residual:+.1f} %" for residual in residuals)
    legend(f"linear, {name} = {a:.2f} s + {1e6 * b:.3f} s per million records; residuals {shown}")


def run(client, size, models):
    """Lines of the table, times of the linear fits, and what failed."""
    lines, failures, times = [], [], []
    for kind in models:
        errors = compare(kind, size["compared"], size["d"], size["rows"])
        if not (errors[0] <= ACCURACY and errors[1] <= 10.0 * ACCURACY):
            failures.append(f"{kind}: errors {errors[0]:.1e} and {errors[1]:.1e}")
        for n in size["sizes"] if kind == "linear" else size["sizes"][-1:]:
            fit, cpu, most, workers = measure(client, kind, n, size)
            cells = [f"{fit.seconds:.1f}", f"{cpu:.1f}", str(fit.passes), f"{most:.4g}"]
            memory = [f"{peak:.2f}" for peak in (fit.memory, *workers)]
            lines.append([f"{kind}, n={n}", *cells, *memory])
            print(lines[-1], flush=True)
            if kind == "linear":
                times.append((fit.seconds, cpu))
            if not workers[-1] < LIMIT:
                failures.append(f"{kind}, n={n}: a worker took {workers[-1]:.2f} GB")
        note(f"{kind}: seconds of the largest", fit.seconds)
        note(f"{kind}: CPU seconds per million records and pass", 1e6 * cpu / n / fit.passes)
    note("peak memory of the client in GB", fit.memory)
    note("peak memory of a worker in GB", workers[-1])
    return lines, np.array(times), failures


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parse_options(__doc__, parser)
    size = QUICK if options.quick else FULL
    limits = {"threads_per_worker": 1, "memory_limit": "2GB", "dashboard_address": ":0"}
    with (
        dask.config.set(KEEP_MEMORY),
        LocalCluster(n_workers=2, **limits) as cluster,
        Client(cluster) as client,
    ):
        lines, times, failures = run(client, size, options.models)
    gigabytes = 8e-9 * size["sizes"][-1] * size["d"]
    header = ["fit", "seconds", "CPU seconds", "passes", "largest loss"]
    header += ["client, GB", "worker, GB", "other, GB"]
    title = f"Up to {gigabytes:.3g} GB of records (d={size['d']}) on two workers of 2 GB each"
    print_table(title, header, lines)
    legend("GB: largest resident memory so far; the records are made anew in each pass")
    if "linear" not in options.models:
        return exit_status(failures)
    for name, seconds in zip(("seconds", "CPU seconds"), times.T, strict=True):
        note_line(name, size["sizes"], seconds)
    note_load("at the end")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
