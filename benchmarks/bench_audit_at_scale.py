"""An audit of a column of records in Parquet, by blocks: seconds and peak memory.

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
import pandas as pd
from _common import (
    exit_status,
    in_fresh_process,
    make_parser,
    parse_options,
    peak_memory,
    print_table,
)
from _out_of_core import SETTINGS, made_block, note_load
from _results import legend, note, note_curve

from skleak.audit import LeakageAuditor
from skleak.linear_model import PrivateLogisticRegression

QUICK = {"sizes": (2_000, 4_000), "rows": 1_000, "d": 3, "attacked": (100, 200), "memory": 500}
FULL = {
    "sizes": (1_000_000, 5_000_000, 20_000_000),
    "rows": 500_000,
    "d": 20,
    "attacked": (10_000, 100_000),
    "memory": 20_000,
}
LIMIT = 3.0  # GB of the process
SECRET = "smokes"


def write_block(folder, block, rows, d):
    """Write one file of columns, a label, and a secret that has a part in it."""
    table = made_block(block, rows, d, "linear")
    secret = (np.random.default_rng([block, d, 1]).random(rows) < 0.3).astype(int)
    frame = pd.DataFrame(table[:, :-1].astype(np.float32), columns=[f"x{j}" for j in range(d)])
    frame[SECRET], frame["y"] = secret, (table[:, -1] + 0.5 * secret > 0.0).astype(int)
    path = folder / f"part-{block:05d}.parquet"
    frame.to_parquet(path, compression=None, row_group_size=100_000)
    return path


def audited(source, y, records):
    """Seconds, peak memory in GB, and the table of an audit, in a process of its own."""
    attacks = {"attacks": ["prior", "imputation", "white_box"], "bounds": ["bayes"]}
    model = PrivateLogisticRegression(**SETTINGS | {"noise_scale": 1e-4})
    auditor = LeakageAuditor(model, SECRET, n_releases=20, records=records, **attacks)
    start = time.perf_counter()
    with dask.config.set(scheduler="threads", num_workers=os.cpu_count()):
        auditor.fit(source, y)
    return time.perf_counter() - start, peak_memory(), auditor.results_


def in_memory(files, records):
    """The same of the same files as one table in memory."""
    table = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    return audited(table.drop(columns="y"), table["y"], records)


def main():
    options = parse_options(__doc__, make_parser(__doc__))
    size = QUICK if options.quick else FULL
    sizes, rows, d = size["sizes"], size["rows"], size["d"]
    needed = 2.0 * (4.0 * d + 16.0) * sizes[-1]
    if shutil.disk_usage(tempfile.gettempdir()).free < needed:
        sys.exit(f"The folder for temporary files needs {needed / 1e9:.0f} GB of free disk.")
    lines, seconds, failures, memory = [], [], [], 0.0
    with tempfile.TemporaryDirectory() as scratch:
        files, folders = [], []
        for n in sizes:
            folder = Path(scratch) / f"n{n}"
            folder.mkdir()
            # A smaller table is the beginning of a larger one: the same files by other names.
            for file in files:
                os.link(file, folder / file.name)
            files += [write_block(folder, k, rows, d) for k in range(len(files), n // rows)]
            folders.append(folder)
        for n, folder in zip(sizes, folders, strict=True):
            for attacked in size["attacked"]:
                chosen = slice(None, None, max(n // attacked, 1))
                took, peak, _ = in_fresh_process(audited, folder, "y", chosen)
                lines.append([f"n={n}, {attacked} attacked", f"{took:.1f}", f"{peak:.2f}"])
                print(lines[-1], flush=True)
                memory = max(memory, peak)
                if attacked == size["attacked"][0]:
                    seconds.append(took)
        some = slice(0, size["memory"] // 20)
        first = sorted(folders[0].glob("*.parquet"))[:1]
        outside, inside = audited(first[0], "y", some)[2], in_memory(first, some)[2]
        error = float(np.abs(outside["bayes"] - inside["bayes"]).max())
    if not error <= 1e-9:
        failures.append(f"bounds apart from those in memory by {error:.1e}")
    if not memory < LIMIT:
        failures.append(f"peak memory {memory:.2f} GB")
    note("peak memory of the process in GB", memory)
    note("seconds of the largest, fewest attacked", seconds[-1])
    note_curve(f"audit from Parquet, d = {d}", "skleak", "n", sizes, seconds)
    title = f"Audit of a column of records in Parquet, d={d}, 20 releases, one noise scale"
    print_table(title, ["audit", "seconds", "peak memory in GB"], lines)
    legend(f"each audit in a process of its own; passes by {os.cpu_count()} threads")
    note_load("at the end")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
