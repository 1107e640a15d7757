"""Refits for values far off, on small tables: all of them at once, against one after another."""

import sys
import warnings
from dataclasses import dataclass
from functools import partial
from unittest import mock

import numpy as np
from _common import exit_status, parse_options, print_table, ratio_and_range, time_in_turns

from skleak.exceptions import NoMinimizerWarning
from skleak.influence import candidate_encodings
from skleak.influence.refit._changes import Change
from skleak.linear_model import PrivateLogisticRegression, PrivatePoissonRegressor

ACCURACY = 1e-9  # largest error of a coefficient, relative to the largest one
MODELS = {"logistic": PrivateLogisticRegression, "poisson": PrivatePoissonRegressor}
HEADER = ["loss", "n", "d", "what", "at once s", "one by one s", "ratio", "range of ratio", "error"]


@dataclass(frozen=True)
class Case:
    loss: str
    n: int
    d: int
    rounds: int


def load(case):
    """Records, targets and values of the first column, 1 to 6 standard deviations off."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(case.n, case.d))
    a = X @ rng.normal(size=case.d)
    if case.loss == "logistic":
        y = (rng.random(case.n) < 1.0 / (1.0 + np.exp(-a))).astype(int)
    else:
        y = rng.poisson(np.exp(np.clip(0.3 * a, -3.0, 3.0)))
    return X, y, np.array([-6.0, -3.0, -1.0, 1.0, 3.0, 6.0])


def one_by_one(function):
    """The result of a function for which nothing is solved for at once."""

    def nothing(change, which):
        return np.full((len(which), len(change.w)), np.nan)

    with mock.patch.object(Change, "newton_steps", nothing):
        return function()


def largest_distances(model, X, y):
    """Distances that a report finds, for all columns and the target."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        features = model.leakage_report(X, y).features
    return features["distance"].to_numpy(dtype=float)


def measure(case):
    """Lines of the table, for the encodings alone and for a whole report, and the errors."""
    X, y, values = load(case)
    model = MODELS[case.loss](noise_scale=0.1, alpha=1e-3, private_target=True, random_state=0)
    model.fit(X, y)
    tasks = {
        "encodings": partial(candidate_encodings, model, X, y, 0, values),
        "report": partial(largest_distances, model, X, y),
    }
    lines, errors = [], []
    for what, task in tasks.items():
        timed = time_in_turns({"fast": task, "slow": partial(one_by_one, task)}, case.rounds)
        fast, slow = timed["fast"], timed["slow"]
        error = np.max(np.abs(fast.result - slow.result)) / np.max(np.abs(slow.result))
        ratio, spread = ratio_and_range(slow, fast)
        line = [case.loss, f"{case.n}", f"{case.d}", what, f"{fast.best:.3f}", f"{slow.best:.3f}"]
        lines.append([*line, f"{ratio:.1f}", spread, f"{error:.0e}"])
        errors.append(float(error))
    return lines, max(errors)


def main():
    options = parse_options(__doc__)
    sizes = [(60, 4)] if options.quick else [(60, 4), (200, 10), (1000, 20)]
    warnings.simplefilter("error", NoMinimizerWarning)
    rows, failures = [], []
    for loss in MODELS:
        for n, d in sizes:
            lines, error = measure(Case(loss, n, d, 1 if options.quick else 5))
            rows += lines
            if not error <= ACCURACY:
                failures.append(f"{loss}, {n} records: error {error:.1e}")
    print_table("Refits for values far off", HEADER, rows, ["loss", "n", "d", "what"])
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
