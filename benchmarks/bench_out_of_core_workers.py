"""Two workers against one: linear fits of the same records in turns, medians of the seconds."""

import sys

import dask
import numpy as np
from _common import exit_status, make_parser, parse_options, print_table
from _out_of_core import ACCURACY, KEEP_MEMORY, fitted, made_records, note_load, relative_error
from _results import legend, note
from distributed import Client, LocalCluster

QUICK = {"n": 20_000, "d": 5, "rows": 5_000, "rounds": 1}
FULL = {"n": 10_000_000, "d": 50, "rows": 200_000, "rounds": 5}


def fit_on(client, size):
    """A linear fit on one cluster."""
    with client.as_current():
        X, y = made_records(size["n"], size["d"], size["rows"], "linear")
        return fitted("linear", X, y)[0]


def main():
    options = parse_options(__doc__, make_parser(__doc__))
    size = QUICK if options.quick else FULL
    limits = {"threads_per_worker": 1, "memory_limit": "2GB", "dashboard_address": None}
    warm = size | {"n": 2 * size["rows"]}
    with (
        dask.config.set(KEEP_MEMORY),
        LocalCluster(n_workers=1, **limits) as few,
        LocalCluster(n_workers=2, **limits) as many,
        Client(few, set_as_default=False) as one,
        Client(many, set_as_default=False) as two,
    ):
        for client in (one, two):
            fit_on(client, warm)
        rounds = [(fit_on(one, size), fit_on(two, size)) for _ in range(size["rounds"])]
    errors = [relative_error(b.coefficients, a.coefficients) for a, b in rounds]
    seconds = np.array([[fit.seconds for fit in pair] for pair in rounds])
    slow, fast = np.median(seconds, axis=0)
    ratios = seconds[:, 0] / seconds[:, 1]
    note("two workers: times as fast", slow / fast)
    header = ["workers", "seconds (median)", "smallest", "largest"]
    lines = [
        [str(k + 1), *(f"{f(seconds[:, k]):.1f}" for f in (np.median, np.min, np.max))]
        for k in range(2)
    ]
    print_table(f"Linear fit of {size['n']} x {size['d']} records by workers", header, lines)
    legend(
        f"{len(rounds)} rounds, one worker and then two; two were {slow / fast:.2f} times as fast "
        f"by the medians, and {ratios.min():.2f} .. {ratios.max():.2f} times within a round"
    )
    note_load("at the end")
    failures = [f"coefficients apart by {e:.1e}" for e in errors if not e <= ACCURACY]
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
