"""Encodings of a binary attribute for every record: skleak against a refit for each of them."""

import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
from _common import (
    Array,
    Loss,
    derivatives,
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

from skleak.datasets import fetch_adult
from skleak.influence import candidate_encodings
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

ALPHA = 1e-2
VALUES = (0.0, 1.0)
ACCURACY = 1e-8  # largest error of a coefficient
EVEN_ACCURACY = 1e-6  # of the same under a reweighting, relative to the distance of the values
MODELS = {"squared": PrivateLinearRegression, "logistic": PrivateLogisticRegression}
LIMITS = {"squared": 10.0, "logistic": 180.0}  # seconds for all records of Adult
HEADER = ["data", "n", "d", "loss", "skleak s", "refits s", "sample", "ratio", "range of ratio"]
HEADER += ["error", "peak GB"]
# Under a reweighting: all candidates of a sample at once, and each alone.
EVEN_HEADER = ["n", "d", "loss", "rule", "sample", "at once s", "each alone s", "ratio"]
EVEN_HEADER += ["range of ratio", "difference"]


@dataclass(frozen=True)
class Case:
    n: int
    d: int
    loss: Loss
    sample: int  # records that refitting is timed on
    rounds: int
    real: bool


def load(case):
    """Adult and its column `married`, else records of that shape with a 0/1 column."""
    data = fetch_or_none(fetch_adult, encoded=True) if case.real else None
    if data is not None:
        return (
            "adult",
            np.asarray(data[0], dtype=float),
            np.asarray(data[1], dtype=float),
            (list(data[0].columns).index("married")),
        )
    X, y = synthetic(case.n, case.d)
    X[:, 0] = np.random.default_rng(1).random(case.n) < 0.47
    return "synthetic", X, y, 0


def refit(x: Array, y: Array, loss: Loss, start: Array) -> Array:
    """Newton's method from a start, intercept last and not penalized; without code of skleak.

    The squared loss takes one step, the others two or three from the fit on the true record.
    """
    penalty = len(y) * ALPHA * np.append(np.ones(x.shape[1] - 1), 0.0)
    w = start.copy()
    for _ in range(30):
        first, second = derivatives(x @ w, y, loss)
        scaled = x if loss == "squared" else np.sqrt(second)[:, None] * x
        hessian = scaled.T @ scaled + np.diag(penalty)
        step = np.linalg.solve(hessian, x.T @ first + penalty * w)
        w -= step
        # Newton's step squares the error: after one of 1e-7 there is nothing left to do.
        if loss == "squared" or np.max(np.abs(step)) <= 1e-7:
            break
    return w


def refits(X: Array, y: Array, column: int, loss: Loss, start: Array, rows: Array) -> Array:
    """Encodings of some records; the value that a record has needs no refit."""
    x = np.column_stack([X, np.ones(len(y))])
    encodings = np.tile(start, (len(rows), len(VALUES), 1))
    for k, i in enumerate(rows):
        true = x[i, column]
        for m, value in enumerate(VALUES):
            if value != true:
                x[i, column] = value
                encodings[k, m] = refit(x, y, loss, start)
        x[i, column] = true
    return encodings


def measure(case):
    """One line of the table, the error, and the seconds for all records."""
    name, X, y, column = load(case)
    model = MODELS[case.loss](noise_scale=0.0, alpha=ALPHA).fit(X, y)
    start = np.append(np.ravel(model.coef_), model.intercept_)
    rows = np.random.default_rng(0).choice(len(y), case.sample, replace=False)
    timed = time_in_turns(
        {
            "skleak": partial(candidate_encodings, model, X, y, column, VALUES),
            "refits": partial(refits, X, y, column, case.loss, start, rows),
        },
        case.rounds,
    )
    fast, slow, scale = timed["skleak"], timed["refits"], len(y) / case.sample
    error = float(np.max(np.abs(fast.result[rows] - slow.result)))
    ratio, spread = ratio_and_range(slow, fast, scale)
    line = [name, f"{X.shape[0]}", f"{X.shape[1]}", case.loss, f"{fast.best:.2f}"]
    line += [f"{scale * slow.best:.0f}", f"{case.sample}", f"{ratio:.1f}", spread]
    return [*line, f"{error:.0e}", f"{peak_memory():.2f}"], error, fast.best


def measure_reweighted(n: int, d: int, rule: str, sample: int, rounds: int):
    """One line of the table of a reweighted fit, and the largest relative difference."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[:, 0] = X[:, 0] > 0.0
    y = X.sum(axis=1) + rng.logistic(size=n) > 0.0
    model = PrivateLogisticRegression(0.0, alpha=ALPHA, reweighting=rule).fit(X, y)
    some, labels = X[:sample], y[:sample]
    candidate_encodings(model, some[:1], labels[:1], 0, VALUES)  # finds the fixed point

    def alone() -> Array:
        each = (
            candidate_encodings(model, some[[i]], labels[[i]], 0, VALUES) for i in range(sample)
        )
        return np.concatenate(list(each))

    at_once = partial(candidate_encodings, model, some, labels, 0, VALUES)
    timed = time_in_turns({"at once": at_once, "alone": alone}, rounds)
    fast, slow = timed["at once"], timed["alone"]
    moved = np.linalg.norm(slow.result[:, 0] - slow.result[:, 1], axis=1)
    error = float(np.max(np.abs(fast.result - slow.result).max(axis=(1, 2)) / moved))
    ratio, spread = ratio_and_range(slow, fast, 1.0)
    line = [f"{n}", f"{d}", "logistic", rule, f"{sample}", f"{fast.best:.3f}", f"{slow.best:.3f}"]
    return [*line, f"{ratio:.1f}", spread, f"{error:.0e}"], error


def reweighted(quick: bool) -> list[str]:
    """Print the table of reweighted fits; what failed."""
    shapes = [(100, 4, 5, 1)] if quick else [(200, 4, 200, 5), (4_000, 14, 200, 3)]
    lines, failures = [], []
    for n, d, sample, rounds in shapes:
        for rule in ("irfil", "total"):
            line, error = in_fresh_process(measure_reweighted, n, d, rule, sample, rounds)
            lines.append(line)
            if not error <= EVEN_ACCURACY:
                failures.append(f"{rule}, n={n}: at once and alone differ by {error:.1e}")
    title = "Encodings of two values under a reweighting"
    print_table(title, EVEN_HEADER, lines, ["n", "d", "rule"])
    legend("at once: the candidates of all records in one call; each alone: a call for each record")
    legend("difference: the largest of a coefficient, relative to how far the values are apart")
    return failures


def main():
    options = parse_options(__doc__)
    if options.quick:
        cases = [Case(600, 12, loss, 20, 1, False) for loss in MODELS]
    else:
        cases = [
            Case(30_162, 86, "squared", 40, 5, True),
            Case(30_162, 86, "logistic", 40, 2, True),
        ]
    lines, goals, failures = [], [], []
    for case in cases:
        line, error, seconds = in_fresh_process(measure, case)
        lines.append(line)
        if not error <= ACCURACY:
            failures.append(f"{case.loss}: error {error:.1e}")
        slow = "" if seconds <= LIMITS[case.loss] else ", MISSED"
        goals.append(f"{case.loss} {seconds:.1f} s of {LIMITS[case.loss]:.0f}{slow}")
    title = "Encodings of two values of an attribute for every record"
    print_table(title, HEADER, lines, ["data", "loss"])
    legend(
        "refits s: Newton's method from the fit, once for each record, extrapolated from a sample"
    )
    if not options.quick:
        print(f"goals for all records of Adult on 2 cores: {'; '.join(goals)}")
    legend("error: largest difference of a coefficient over the sample")
    failures += reweighted(options.quick)
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
