"""Cost is linear in n: times at n, 2n, 4n, 8n, and the exponent of the power law they follow."""

import sys
from functools import partial

import numpy as np
from _common import exit_status, parse_options, print_table, synthetic, time_in_turns
from _results import note, note_curve

from skleak.linear_model import PrivateLogisticRegression

ACCURACY = 1e-12  # relative
GRAINS = {
    "every record": {"per": "record"},
    "every record and column": {"per": "feature"},
    "whole data set": {"per": "dataset"},
}


def main():
    options = parse_options(__doc__)
    n, d, rounds = (200, 8, 2) if options.quick else (12_500, 50, 5)
    sizes = [n, 2 * n, 4 * n, 8 * n]
    X, y = synthetic(sizes[-1], d)
    # Doubled data sets are copies, so that all fits take the same steps to the same minimiser.
    data = {size: (np.tile(X[:n], (size // n, 1)), np.tile(y[:n], size // n)) for size in sizes}
    models = {size: PrivateLogisticRegression(alpha=1e-2).fit(*data[size]) for size in sizes}

    timed = {
        name: time_in_turns(
            {size: partial(models[size].fisher_information_loss, **query) for size in sizes}, rounds
        )
        for name, query in GRAINS.items()
    }
    timed["fit and every record"] = time_in_turns(
        {size: partial(PrivateLogisticRegression(alpha=1e-2).fit, *data[size]) for size in sizes},
        rounds,
    )

    lines = []
    for name, of_size in timed.items():
        seconds = [of_size[size].best for size in sizes]
        exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        note_curve(f"leakage, d = {d}", name, "n", sizes, seconds)
        note(f"{name}: exponent in n", exponent)
        worst = max(max(of_size[size].seconds) / of_size[size].best for size in sizes)
        times = [f"{value:.3f}" for value in seconds]
        lines.append([name, *times, f"{exponent:.2f}", f"{worst:.1f}"])
    header = ["seconds (best)", *[f"n={size}" for size in sizes], "exponent", "worst / best"]
    print_table(f"Cost against n, at d={d}", header, lines)
    return exit_status(check(timed, sizes))


def check(timed, sizes):
    """A record present k times leaks a k-th, and k copies of all of it: 1 / sqrt(k)."""
    failures = []
    for name, power in {**dict.fromkeys(list(GRAINS)[:2], 1.0), "whole data set": 0.5}.items():
        first = np.asarray(timed[name][sizes[0]].result)
        for size in sizes[1:]:
            copies = size // sizes[0]
            result = np.asarray(timed[name][size].result)
            result = result[: sizes[0]] if result.ndim else result
            error = float(np.max(np.abs(result * copies**power - first)) / np.max(first))
            if not error <= ACCURACY:
                failures.append(f"{name}, {copies} copies: relative error {error:.1e}")
    return failures


if __name__ == "__main__":
    sys.exit(main())
