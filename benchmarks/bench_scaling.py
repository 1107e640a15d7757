"""Cost is linear in n: CPU time at n, 2n, 4n, 8n, and the exponent of the power law it follows.

And what a fit costs beside one of scikit-learn's that solves for the same coefficients. A fit
measures no leakage: that is computed when it is first asked for.
"""

import sys
import time
from functools import partial

import numpy as np
from _common import exit_status, parse_options, print_table, synthetic, time_in_turns
from _results import legend, note, note_curve
from sklearn.linear_model import LogisticRegression, Ridge

from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

ACCURACY = 1e-12  # relative
ALPHA, CLOSE = 1e-2, 1e-6
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
    # Doubled data sets are copies, so that all fits take the same steps to the same minimizer.
    data = {size: (np.tile(X[:n], (size // n, 1)), np.tile(y[:n], size // n)) for size in sizes}
    models = {size: PrivateLogisticRegression(alpha=ALPHA).fit(*data[size]) for size in sizes}

    timed = {
        name: time_in_turns(
            {size: partial(models[size].fisher_information_loss, **query) for size in sizes},
            rounds,
            time.process_time,
        )
        for name, query in GRAINS.items()
    }
    timed["fit"] = time_in_turns(
        {size: partial(PrivateLogisticRegression(alpha=ALPHA).fit, *data[size]) for size in sizes},
        rounds,
        time.process_time,
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
    header = ["CPU seconds (best)", *[f"n={size}" for size in sizes], "exponent", "worst / best"]
    print_table(f"Cost against n, at d={d}", header, lines)
    fits = [(50, 5, 3), (100, 5, 3)] if options.quick else [(200, 20, 60), (100_000, 100, 9)]
    return exit_status([*check(timed, sizes), *beside_scikit_learn(fits)])


def beside_scikit_learn(sizes):
    """Print what fits cost in turns, and return where coefficients differ."""
    lines, failures = [], []
    for n, d, rounds in sizes:
        X, y = synthetic(n, d)
        newton = LogisticRegression(C=1.0 / (n * ALPHA), solver="newton-cholesky", tol=1e-10)
        rivals = {PrivateLinearRegression: Ridge(n * ALPHA), PrivateLogisticRegression: newton}
        for kind, rival in rivals.items():
            fits = {"own": partial(kind(alpha=ALPHA).fit, X, y), "other": partial(rival.fit, X, y)}
            own, other = time_in_turns(fits, rounds, time.process_time).values()
            ratios, name = np.divide(own.seconds, other.seconds), f"{n} x {d}, {kind._loss.name}"
            note(f"{name}: CPU time of a fit, times scikit-learn's", float(np.median(ratios)))
            milliseconds = [f"{1e3 * np.median(timed.seconds):.1f}" for timed in (own, other)]
            reach = f"{ratios.min():.2f} .. {ratios.max():.2f}"
            lines.append([name, *milliseconds, f"{np.median(ratios):.2f}", reach])
            found = own.result._state.factor.coefficients
            expected = np.append(rival.coef_, rival.intercept_)
            if not np.max(np.abs(found - expected)) <= CLOSE * np.max(np.abs(expected)):
                failures.append(f"{name}: other coefficients than scikit-learn's")
    header = ["records, loss", "skleak ms", "scikit-learn ms", "ratio", "range of ratio"]
    print_table("CPU time of a fit, beside Ridge and LogisticRegression", header, lines)
    legend("medians of fits in turns; LogisticRegression by newton-cholesky, both to tol=1e-10")
    return failures


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
