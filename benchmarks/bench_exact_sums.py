"""What a guarantee to the last bit costs private SGD: sums and noise of integers, against floats.

One linear model of 785 numbers, on MNIST 0/1, with secret noise, with and without its accounting.
"""

import sys
from functools import partial
from unittest import mock

import numpy as np
from _common import (
    exit_status,
    fetch_or_none,
    parse_options,
    print_table,
    ratio_and_range,
    time_in_turns,
)

from skleak.datasets import fetch_mnist
from skleak.mechanisms.grids import discrete_gaussian, dyadic_discrete_gaussian
from skleak.neural import PrivateSGDClassifier
from skleak.neural.information import StepMechanism

RATES, SIZE = (0.01, 0.1, 1.0), 785
LIMIT, MILLISECONDS = 3.0, 15.0
HEADER = ["sampling rate, accounting", "floats, ms a step", "integers, ms a step", "ratio", "range"]


def load(n):
    """Images of zeros and ones, or as many random numbers."""
    if (real := fetch_or_none(fetch_mnist)) is not None:
        return real[0][:n], real[1][:n]
    rng = np.random.default_rng(0)
    return rng.random((n, SIZE - 1)) * (rng.random((n, SIZE - 1)) < 0.2), np.arange(n) % 2


def train(X, y, n_steps, rate, accounting, exact):
    """Fit with secret noise, in integers or in floating point."""
    model = PrivateSGDClassifier(max_steps=n_steps, sampling_rate=rate, accounting=accounting)
    if exact:
        return model.fit(X, y)
    with mock.patch.object(StepMechanism, "grid", return_value=None):
        return model.fit(X, y)


def steps(X, y, n_steps, rounds):
    """Print times a step both ways, and return what is wrong."""
    lines, goals, failures = [], [], []
    for rate in RATES:
        for accounting in ("exact", None):
            count = max(2, n_steps // 5) if rate == 1.0 else n_steps
            fit = partial(train, X, y, count, rate, accounting)
            ways = {"floats": partial(fit, False), "integers": partial(fit, True)}
            timed = time_in_turns(ways, rounds)
            ratio, spread = ratio_and_range(timed["integers"], timed["floats"])
            name = f"{rate:g}, {'with' if accounting else 'without'}"
            lines.append([name, *(f"{1e3 * t.best / count:.1f}" for t in timed.values())])
            lines[-1] += [f"{ratio:.2f}", spread]
            if accounting:
                missed = "" if ratio <= LIMIT else ", MISSED"
                goals.append(f"{name} {ratio:.2f} of {LIMIT:g}{missed}")
            if timed["floats"].result._plan.grid is not None:
                failures.append(f"{name}: floats were not timed")
    print_table(f"Private SGD, {len(y)} records, {SIZE} parameters", HEADER, lines)
    print(f"goals: {'; '.join(goals)}")
    return failures


def draws(rounds):
    """Print the time of the noise of one step, and return what is wrong."""
    ways = {
        "OpenDP, any scale": partial(discrete_gaussian, 2.0**46, SIZE),
        "powers of two": partial(dyadic_discrete_gaussian, 46, SIZE),
    }
    timed = time_in_turns(ways, rounds)
    slow, fast = timed.values()
    lines = [[name, f"{1e3 * each.best:.2f}"] for name, each in timed.items()]
    print_table(f"Discrete Gaussian noise, {SIZE} numbers", ["sampler", "ms"], lines)
    missed = "" if 1e3 * fast.best <= MILLISECONDS else ", MISSED"
    print(f"goals: noise of a step {1e3 * fast.best:.2f} of {MILLISECONDS:g} ms{missed}")
    return [] if fast.best < slow.best else ["powers of two are not faster"]


def main():
    options = parse_options(__doc__)
    n, n_steps, rounds = (1_000, 5, 1) if options.quick else (12_665, 100, 5)
    X, y = load(n)
    return exit_status([*steps(X, y, n_steps, rounds), *draws(3 * rounds)])


if __name__ == "__main__":
    sys.exit(main())
