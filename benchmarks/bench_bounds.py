"""Upper bounds on the advantage against what the best attack reaches, for Gaussian channels."""

import sys
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
from _common import exit_status, parse_options, print_table

from skleak.channels import GaussianChannel

OURS, BAYES = "trade-off", "Bayes"
MEDIAN, EQUIDISTANT = 1.06, 1.15  # largest ratios of the trade-off bound that are allowed
# Below this advantage a ratio compares two numbers near zero, and sampling errors with them.
SMALLEST = 0.01
TOLERANCE = 1e-4  # standard error of what is sampled


@dataclass(frozen=True)
class Grid:
    sizes: tuple[int, ...]  # numbers of values, all of the same weight
    noise_scales: tuple[float, ...]
    dimensions: tuple[int, ...]  # of the random encodings
    repeats: int  # channels for each kind of prior


FULL = Grid((2, 3, 5, 10, 50), (0.25, 0.5, 1.0, 2.0, 4.0), (3, 30), 2)
QUICK = Grid((2, 3, 5), (0.5, 2.0), (3,), 1)


def make_priors(size, repeats, rng):
    """Uniform, random and lopsided priors in turns, of shape (3 * repeats, size)."""
    lopsided = np.full((repeats, size), 0.5 / size)
    lopsided[:, 0] += 0.5
    uniform, uneven = (
        np.full((repeats, size), 1.0 / size),
        rng.dirichlet(np.full(size, 2.0), repeats),
    )
    return np.concatenate([uniform, uneven, lopsided])


def make_encodings(size, n, dimension, rng):
    """Random encodings, two of them sqrt(2) apart on average; one-hot without a dimension."""
    if dimension is None:
        return np.broadcast_to(np.eye(size), (n, size, size))
    return rng.normal(size=(n, size, dimension)) / np.sqrt(dimension)


def measure(grid):
    """A row for each channel and bound, with the Bayes value beside the bound."""
    rng = np.random.default_rng(0)
    tables = []
    for size in grid.sizes:
        for dimension in (*grid.dimensions, None):
            for noise_scale in grid.noise_scales:
                priors = make_priors(size, grid.repeats, rng)
                encodings = make_encodings(size, len(priors), dimension, rng)
                channel = GaussianChannel(encodings, noise_scale, tolerance=TOLERANCE)
                table = channel.advantage_bounds(priors)
                bayes = table[table["bound"] == BAYES].set_index("record")
                table["bayes"] = table["record"].map(bayes["advantage"])
                table["error"] = table["standard_error"] + table["record"].map(
                    bayes["standard_error"]
                )
                kind = "equidistant" if dimension is None else "random"
                tables.append(table.assign(values=size, kind=kind))
    return pd.concat(tables, ignore_index=True)


def ratio_lines(bounds):
    """A line for each bound: quantiles of its ratio over random and equidistant channels."""
    lines = []
    for name, rows in bounds.groupby("bound"):
        line = [name]
        for kind in ("random", "equidistant"):
            ratio = rows.loc[rows["kind"] == kind, "ratio"]
            line += [ratio.median(), ratio.quantile(0.95), ratio.max()]
        lines.append(line)
    lines.sort(key=lambda line: line[1])
    return [[line[0], *(f"{value:.3f}" for value in line[1:])] for line in lines]


def failures_of(bounds, counted):
    ours = counted[counted["bound"] == OURS]
    failures = []
    below = bounds["advantage"] < bounds["bayes"] - 5.0 * bounds["error"] - 1e-9
    if below.any():
        names = ", ".join(sorted(set(bounds.loc[below, "bound"])))
        failures.append(f"{below.sum()} bounds below the Bayes value: {names}")
    for kind, rows in ours.groupby("kind"):
        if not rows["ratio"].median() < MEDIAN:
            failures.append(f"{OURS}, {kind}: median ratio {rows['ratio'].median():.4f}")
    largest = ours.loc[ours["kind"] == "equidistant", "ratio"].max()
    if not largest <= EQUIDISTANT:
        failures.append(f"{OURS}, equidistant: largest ratio {largest:.4f}")
    medians = counted.groupby("bound")["ratio"].median()
    if medians.idxmin() != OURS:
        failures.append(f"{medians.idxmin()} is tighter than {OURS} in the median")
    return failures


def main():
    options = parse_options(__doc__)
    start = time.perf_counter()
    bounds = measure(QUICK if options.quick else FULL)
    bounds = bounds[bounds["bound"] != BAYES]
    counted = bounds[bounds["bayes"] >= SMALLEST]
    counted = counted.assign(ratio=counted["advantage"] / counted["bayes"])
    n_channels = (bounds["bound"] == OURS).sum()
    n_counted = (counted["bound"] == OURS).sum()

    header = ["bound / Bayes"]
    header += [
        f"{kind}: {name}"
        for kind in ("random", "equidistant")
        for name in ("median", "95 %", "largest")
    ]
    print_table("Ratio of each bound to the Bayes advantage", header, ratio_lines(counted))
    ours = counted[counted["bound"] == OURS]
    lines = [
        [
            f"M = {size}, {kind}",
            str(len(rows)),
            *(f"{q:.3f}" for q in rows["ratio"].quantile([0.5, 1])),
        ]
        for (size, kind), rows in ours.groupby(["values", "kind"])
    ]
    print_table(f"The {OURS} bound by size", ["channels", "number", "median", "largest"], lines)
    rest = bounds[(bounds["bayes"] < SMALLEST) & (bounds["bound"] == OURS)]
    gap = (rest["advantage"] - rest["bayes"]).max() if len(rest) else 0.0
    print(
        f"\n{n_counted} of {n_channels} channels; the others have a Bayes value below {SMALLEST}."
    )
    print(f"There the {OURS} bound exceeds it by {gap:.1e} at most.")
    print(f"{time.perf_counter() - start:.0f} s in all")
    return exit_status(failures_of(bounds, counted))


if __name__ == "__main__":
    sys.exit(main())
