"""Total leakage of a reweighted fit: skleak against differences of refits of it all."""

import sys
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from _common import (
    Array,
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
from sklearn.exceptions import ConvergenceWarning

from skleak.datasets import fetch_adult, fetch_iwpc
from skleak.influence.leakage import leakage_model
from skleak.influence.reweighting._total import (
    total_derivative,
    total_feature_norms,
    total_jacobian,
)
from skleak.linear_model import IRFIL, PrivateLinearRegression, PrivateLogisticRegression

ACCURACY = 1e-3  # of the columns of Jacobians that refits give, relative to the largest of them
SOLVERS = 1e-8  # between the norms by the two solvers of the adjoint system, relative
MODELS = {"squared": PrivateLinearRegression, "logistic": PrivateLogisticRegression}
HEADER = ["data", "n", "d", "loss", "skleak s", "refits s", "sample", "ratio", "range of ratio"]
HEADER += ["error", "peak GB", "total / conditional"]


@dataclass(frozen=True)
class Case:
    data: str
    n: int
    d: int
    loss: str
    records: int  # whose Jacobians are refitted, in some columns
    columns: int
    step: float
    tol: float  # of the reweighting
    rounds: int
    limit: float | None = None  # seconds for all records


def load(case):
    """IWPC or Adult where they are, else records of that shape."""
    fetch = {"iwpc": fetch_iwpc, "adult": fetch_adult}.get(case.data)
    data = fetch_or_none(fetch, encoded=True) if fetch else None
    if data is not None:
        rows = np.random.default_rng(0).permutation(len(data[1]))[: case.n]
        X, y = (np.asarray(part, dtype=float)[rows] for part in data)
        return case.data, X, y
    X, y = synthetic(case.n, case.d)
    if case.loss == "squared":
        rng = np.random.default_rng(1)
        y = X @ rng.normal(size=case.d) + rng.normal(size=case.n)
    return "synthetic", X, y


def fit(case, X, y):
    """The reweighted fit, without noise."""
    model = MODELS[case.loss](
        noise_scale=0.0,
        alpha=1e-2,
        fit_intercept=False,
        reweighting=IRFIL(tol=case.tol, max_iter=60),
        tol=1e-13,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding noise may be larger
        return model.fit(X, y)


def unit_noise(model: Any) -> Any:
    """State of a fit, its noise scale set to one: without noise every loss is infinite."""
    return model._confidential_state().at_noise(1.0)


def all_norms(state: Any, solver: Literal["auto", "dense", "krylov"] = "auto") -> Array:
    """Total leakage of every record, and all that it takes."""
    derivative = total_derivative(state, solver=solver)
    if derivative.doubts:
        raise RuntimeError(" ".join(derivative.doubts))
    whole = [state.whole_record]
    return total_feature_norms(state, state.training, whole, derivative=derivative)[:, 0]


def refits(case: Case, X: Array, y: Array, entries: list[tuple[int, int]]) -> Array:
    """Central differences of the whole algorithm in some entries of X, one row each."""
    slopes = []
    for i, j in entries:
        coefficients = []
        for step in (case.step, -case.step):
            moved = X.copy()
            moved[i, j] += step
            coefficients.append(np.ravel(fit(case, moved, y).coef_))
        slopes.append((coefficients[0] - coefficients[1]) / (2.0 * case.step))
    return np.array(slopes)


def measure(case):
    """One line of the table, the error, that between the solvers, and the seconds."""
    name, X, y = load(case)
    model = fit(case, X, y)
    state = unit_noise(model)
    rng = np.random.default_rng(0)
    records = rng.choice(len(y), case.records, replace=False)
    entries = [(int(i), int(j)) for i in records for j in rng.choice(X.shape[1], case.columns)]
    timed = time_in_turns(
        {
            "skleak": partial(all_norms, state),
            "refits": partial(refits, case, X, y, entries),
        },
        case.rounds,
    )
    memory = peak_memory()
    fast, slow = timed["skleak"], timed["refits"]
    jacobians = total_jacobian(state, np.array([i for i, _ in entries]))
    found = np.array([J[:, j] for J, (_, j) in zip(jacobians, entries, strict=True)])
    error = float(np.max(np.abs(found - slow.result)) / np.max(np.abs(slow.result)))
    solvers = float(np.max(np.abs(all_norms(state, "krylov") / fast.result - 1.0)))
    conditional = leakage_model(state).conditional.record_loss(state.training)
    ratios = fast.result / conditional
    low, middle, high = np.quantile(ratios, [0.0, 0.5, 1.0])
    scale = X.size / len(entries)
    ratio, spread = ratio_and_range(slow, fast, scale)
    line = [name, f"{X.shape[0]}", f"{X.shape[1]}", case.loss, f"{fast.best:.2f}"]
    line += [f"{scale * slow.best:.0f}", f"{len(entries)} columns", f"{ratio:.0f}", spread]
    line += [f"{error:.0e}", f"{memory:.2f}", f"{low:.2f} {middle:.2f} {high:.2f}"]
    return line, error, solvers, fast.best


def main():
    options = parse_options(__doc__)
    if options.quick:
        cases = [Case("synthetic", 300, 6, loss, 2, 3, 1e-3, 1e-11, 1) for loss in MODELS]
    else:
        cases = [
            Case("iwpc", 3_855, 14, "squared", 4, 5, 1e-3, 1e-11, 2),
            Case("adult", 30_162, 86, "logistic", 1, 2, 2e-2, 1e-11, 1, limit=600.0),
        ]
    lines, goals, failures = [], [], []
    for case in cases:
        line, error, solvers, seconds = in_fresh_process(measure, case)
        lines.append(line)
        if not error <= ACCURACY:
            failures.append(f"{case.data} {case.loss}: error {error:.1e}")
        if not solvers <= SOLVERS:
            failures.append(f"{case.data} {case.loss}: the two solvers are {solvers:.1e} apart")
        if case.limit is not None:
            slow = "" if seconds <= case.limit else ", MISSED"
            goals.append(f"{case.data} {seconds:.0f} s of {case.limit:.0f}{slow}")
    title = "Total leakage of every record of a reweighted fit"
    print_table(title, HEADER, lines, ["data", "loss"])
    legend(
        "refits s: central differences in every column of every record, from a sample of columns"
    )
    legend("error: largest over the sample, relative to the largest entry of it")
    legend("total / conditional: least, median and largest")
    if goals:
        print(f"goals for all records on 2 cores: {'; '.join(goals)}")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
