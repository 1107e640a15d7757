"""Noise for a release: exact discrete Gaussian noise on a grid, against NumPy's in doubles."""

import sys
from functools import partial

import numpy as np
from _common import exit_status, parse_options, print_table, ratio_and_range, time_in_turns
from scipy.stats import kstest, norm

from skleak.mechanisms import release_on_grid

NOISE_SCALE = 0.1
LIMITS = {1_000: 0.05, 7_850: 0.4}  # seconds
LEVEL = 1e-6  # of the test that a draw is normal
HEADER = ["parameters", "grid s", "doubles s", "ratio", "range of ratio"]


def in_doubles(parameters):
    """The noise of a release as floating-point numbers, which gives the parameters away."""
    return parameters + NOISE_SCALE * np.random.default_rng().standard_normal(len(parameters))


def main():
    options = parse_options(__doc__)
    lines, goals, failures = [], [], []
    for n_parameters, limit in LIMITS.items():
        parameters = np.random.default_rng(0).normal(size=n_parameters)
        timed = time_in_turns(
            {
                "grid": partial(release_on_grid, parameters, NOISE_SCALE),
                "doubles": partial(in_doubles, parameters),
            },
            1 if options.quick else 10,
        )
        grid, doubles = timed["grid"], timed["doubles"]
        ratio, spread = ratio_and_range(grid, doubles)
        lines.append([f"{n_parameters}", f"{grid.best:.3f}", f"{doubles.best:.5f}"])
        lines[-1] += [f"{ratio:.0f}", spread]
        missed = "" if grid.best <= limit else ", MISSED"
        goals.append(f"{n_parameters} parameters {grid.best:.3f} s of {limit} s{missed}")
        noise = (grid.result.parameters - parameters) / NOISE_SCALE
        if kstest(noise, norm.cdf).pvalue < LEVEL:
            failures.append(f"{n_parameters} parameters: the noise is not normal")
        if np.any(grid.result.parameters % grid.result.step != 0.0):
            failures.append(f"{n_parameters} parameters: not multiples of {grid.result.step:g}")
    print_table("One release of noisy parameters", HEADER, lines)
    print(f"goals: {'; '.join(goals)}")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
