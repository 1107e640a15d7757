"""Fits from Parquet in one process below 2 GB, and time against the number of records.

The files are written block by block into a temporary folder, and deleted afterwards.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import exit_status, in_fresh_process, make_parser, parse_options, print_table
from _out_of_core import (
    ACCURACY,
    MODELS,
    SETTINGS,
    fitted,
    line_through,
    made_block,
    note_load,
    relative_error,
)
from _results import legend, note, note_curve

QUICK = {"sizes": (10_000, 20_000, 40_000), "rows": 10_000, "d": 4}
FULL = {"sizes": (1_000_000, 10_000_000, 100_000_000), "rows": 500_000, "d": 20}
LIMIT = 2.0  # GB of the process


def write_block(folder, block, rows, d):
    """Write one file of float32 columns."""
    table = made_block(block, rows, d, "linear").astype(np.float32)
    names = [*(f"x{j}" for j in range(d)), "y"]
    columns = pa.table({name: table[:, j] for j, name in enumerate(names)})
    path = folder / f"part-{block:05d}.parquet"
    # Random digits: nothing to compress, and no word to look up.
    pq.write_table(columns, path, compression="none", use_dictionary=False, row_group_size=100_000)
    return path


def fit_file(folder, threads):
    """Linear fit of a folder, in a process of its own."""
    with dask.config.set(scheduler="threads", num_workers=threads):
        return fitted("linear", folder, "y")[0]


def in_memory(files):
    """Coefficients of the same records in memory."""
    table = np.vstack([pq.read_table(file).to_pandas().to_numpy(dtype=float) for file in files])
    model = MODELS["linear"](**SETTINGS).fit(table[:, :-1], table[:, -1])
    return np.array(model._state.factor.coefficients)


def main():
    options = parse_options(__doc__, make_parser(__doc__))
    size = QUICK if options.quick else FULL
    sizes, rows, d = size["sizes"], size["rows"], size["d"]
    needed = 2.0 * 4.0 * sizes[-1] * (d + 1)
    if shutil.disk_usage(tempfile.gettempdir()).free < needed:
        sys.exit(f"The folder for temporary files needs {needed / 1e9:.0f} GB of free disk.")
    lines, fits, failures = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        files = []
        for n in sizes:
            folder = Path(scratch) / f"n{n}"
            folder.mkdir()
            # A smaller table is the beginning of a larger one: the same files by other names.
            for file in files:
                os.link(file, folder / file.name)
            files += [write_block(folder, k, rows, d) for k in range(len(files), n // rows)]
        written = time.perf_counter() - start
        gigabytes = sum(file.stat().st_size for file in files) / 1e9
        print(f"written: {gigabytes:.2f} GB in {written:.0f} s", flush=True)
        for n in sizes:
            fits.append(in_fresh_process(fit_file, Path(scratch) / f"n{n}", os.cpu_count()))
            lines.append([f"n={n}", f"{fits[-1].seconds:.2f}", f"{fits[-1].cpu:.2f}"])
            lines[-1] += [str(fits[-1].passes), f"{fits[-1].memory:.2f}"]
            print(lines[-1], flush=True)
        error = relative_error(fits[0].coefficients, in_memory(files[: sizes[0] // rows]))
    if not error <= ACCURACY:
        failures.append(f"coefficients apart by {error:.1e}")
    if not fits[-1].memory < LIMIT:
        failures.append(f"peak memory {fits[-1].memory:.2f} GB")
    seconds = [fit.seconds for fit in fits]
    a, b, residuals = line_through(sizes, seconds)
    note("gigabytes of Parquet", gigabytes)
    note("seconds of the largest", seconds[-1])
    note("CPU seconds of the largest", fits[-1].cpu)
    note("passes", fits[-1].passes)
    note("peak memory of the process in GB", fits[-1].memory)
    note("a in seconds", a)
    note("b in seconds per million records", 1e6 * b)
    note("largest residual in percent", float(np.max(np.abs(residuals))))
    note_curve(f"linear fit from Parquet, d = {d}", "skleak", "n", sizes, seconds)
    header = ["records", "seconds", "CPU seconds", "passes", "peak memory in GB"]
    print_table(f"Linear fit from {gigabytes:.3g} GB of Parquet, d={d}, float32", header, lines)
    shown = ", ".join(f"{residual:+.1f} %" for residual in residuals)
    legend(f"time = {a:.2f} s + {1e6 * b:.3f} s per million records; residuals {shown}")
    legend(f"each fit in a process of its own with {os.cpu_count()} threads")
    note_load("at the end")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
