"""Leakage of every record: skleak against a dense Jacobian and singular value per record."""

import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
from _common import (
    DenseReference,
    Loss,
    exit_status,
    fetch_or_none,
    in_fresh_process,
    parse_options,
    peak_memory,
    print_table,
    ratio_and_range,
    synthetic,
    time_in_turns,
)
from _results import legend

from skleak.datasets import fetch_adult, fetch_mnist
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

ALPHA, SIGMA = 1e-2, 0.5
ACCURACY = 1e-9  # relative
MEMORY = 1.5  # GB
MODELS = {"logistic": PrivateLogisticRegression, "squared": PrivateLinearRegression}
HEADER = ["data", "n", "d", "loss", "skleak s", "dense s", "way, sample", "ratio", "range of ratio"]
HEADER += ["error", "peak GB"]


@dataclass(frozen=True)
class Case:
    data: str
    n: int
    d: int
    loss: Loss
    sample: int  # records that the dense method is timed on
    rounds: int


def load(case):
    """Adult or raw MNIST 0/1 where they are, else records of that shape."""
    if case.data == "adult":
        return fetch_or_none(fetch_adult, encoded=True)
    if case.data == "mnist 0/1":
        return fetch_or_none(fetch_mnist)
    return None


def measure(case):
    """One line of the table, the relative error and the peak memory in GB."""
    data, name = load(case), case.data
    if data is None:
        # Of 784 pixels of the digits 0 and 1, 151 are zero in every image.
        data, name = synthetic(case.n, case.d, constant=case.d // 5), "synthetic"
    X, y = (np.asarray(part, dtype=float) for part in data)
    model = MODELS[case.loss](noise_scale=SIGMA, alpha=ALPHA).fit(X, y)
    model.fisher_information_loss()
    memory = peak_memory()

    reference = DenseReference.fit(X, y, case.loss, ALPHA)
    rows = np.random.default_rng(0).choice(len(y), case.sample, replace=False)
    timed = time_in_turns(
        {
            "skleak": model.fisher_information_loss,
            "batched": partial(reference.norms_batched, rows),
            "one by one": partial(reference.norms_one_by_one, rows),
        },
        case.rounds,
    )
    way = min(("batched", "one by one"), key=lambda name: timed[name].best)
    fast, dense, scale = timed["skleak"], timed[way], len(y) / case.sample
    expected = dense.result / SIGMA
    error = float(np.max(np.abs(fast.result[rows] / expected - 1.0)))
    ratio, spread = ratio_and_range(dense, fast, scale)
    line = [name, f"{X.shape[0]}", f"{X.shape[1]}", case.loss, f"{fast.best:.3f}"]
    line += [f"{scale * dense.best:.1f}", f"{way}, {case.sample}", f"{ratio:.0f}", spread]
    return [*line, f"{error:.0e}", f"{memory:.2f}"], error, memory


def main():
    options = parse_options(__doc__)
    if options.quick:
        cases = [Case("synthetic", 400, 30, loss, 60, 1) for loss in MODELS]
    else:
        cases = [Case("adult", 30_162, 86, loss, 500, 5) for loss in MODELS]
        cases += [Case("mnist 0/1", 12_665, 784, loss, 6, 3) for loss in MODELS]
    lines, failures = [], []
    for case in cases:
        line, error, memory = in_fresh_process(measure, case)
        lines.append(line)
        if not error <= ACCURACY:
            failures.append(f"{case.data} {case.loss}: relative error {error:.1e}")
        if memory > MEMORY:
            failures.append(f"{case.data} {case.loss}: peak memory {memory:.2f} GB")
    title = "Fisher information loss of every record (spectral norm)"
    print_table(title, HEADER, lines, ["data", "loss"])
    legend("dense s: extrapolated from the sample; the faster of two ways")
    legend("peak GB: of a process that imports, loads, fits and measures, before the dense method")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
