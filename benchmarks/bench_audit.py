"""A whole audit of a binary attribute: skleak against the refits that a plain audit would need."""

import sys
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
from _common import (
    Array,
    Loss,
    exit_status,
    fetch_or_none,
    in_fresh_process,
    parse_options,
    peak_memory,
    print_table,
)
from _results import legend
from bench_encodings import ALPHA, MODELS, refits
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.audit import LeakageAuditor
from skleak.datasets import fetch_adult

ATTRIBUTE = "married"
NOISE_SCALES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
N_RELEASES = 100
ACCURACY = 1e-8  # largest error of a coefficient
LIMIT = 300.0  # seconds for a whole audit of Adult
KEYS = ["data", "loss"]
HEADER = ["data", "n", "d", "loss", "audit s", "one refit s", "refits", "refits s", "ratio"]
HEADER += ["range of ratio", "error", "peak GB"]


@dataclass(frozen=True)
class Case:
    n: int
    loss: Loss
    sample: int  # refits that are timed
    n_releases: int
    real: bool


def load(case):
    """Adult as the papers cut it, raw; else a table like it."""
    data = fetch_or_none(fetch_adult) if case.real else None
    if data is not None:
        X, y = data
        X = X.drop(columns=["marital-status", "relationship"])
        return "adult", X, (y == ">50K").to_numpy().astype(float)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(case.n, 5)), columns=[f"x{j}" for j in range(5)])
    X["job"] = rng.choice(["clerk", "farmer", "nurse"], case.n)
    X[ATTRIBUTE] = (rng.random(case.n) < 0.47).astype(int)
    score = X["x0"] + X[ATTRIBUTE] + rng.logistic(size=case.n)
    return "synthetic", X, (score > np.median(score)).to_numpy().astype(float)


def make_model(loss, noise_scale):
    nominal = make_column_selector(dtype_exclude=np.number)
    encode = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), nominal),
        ("passthrough", [ATTRIBUTE]),
        remainder=StandardScaler(),
        verbose_feature_names_out=False,
    )
    model = MODELS[loss](noise_scale=noise_scale, alpha=ALPHA)
    return make_pipeline(encode, model).set_output(transform="pandas")


def time_refits(loss: Loss, X, y: Array, rows: Array):
    """Encodings of some records by refitting, and the seconds of each."""
    model = make_model(loss, 0.0).fit(X, y)
    encoded = model[:-1].transform(X)
    column = list(encoded.columns).index(ATTRIBUTE)
    start = np.append(np.ravel(model[-1].coef_), model[-1].intercept_)
    matrix = encoded.to_numpy(dtype=float)
    refits(matrix, y, column, loss, start, rows[:1])  # warm-up
    encodings, seconds = [], []
    copy = time.perf_counter()
    np.column_stack([matrix, np.ones(len(y))])  # made in each call, and once in a real audit
    copy = time.perf_counter() - copy
    for i in rows:
        begin = time.perf_counter()
        encodings.append(refits(matrix, y, column, loss, start, np.array([i]))[0])
        seconds.append(max(time.perf_counter() - begin - copy, 1e-9))
    return np.array(encodings), np.array(seconds), matrix.shape[1]


def measure(case):
    """One line of the table, what failed, and the seconds of the audit."""
    name, X, y = load(case)
    begin = time.perf_counter()
    auditor = LeakageAuditor(
        make_model(case.loss, NOISE_SCALES[0]),
        ATTRIBUTE,
        noise_scales=NOISE_SCALES,
        n_releases=case.n_releases,
        random_state=0,
    ).fit(X, y)
    seconds, memory = time.perf_counter() - begin, peak_memory()

    rows = np.random.default_rng(0).choice(len(y), case.sample, replace=False)
    expected, refit_seconds, d = time_refits(case.loss, X, y, rows)
    error = float(np.max(np.abs(auditor.attacks_["white_box"].encodings_[rows] - expected)))
    failures = [] if error <= ACCURACY else [f"{case.loss}: error {error:.1e}"]
    results = auditor.results_
    white = results[results["attack"] == "white_box"]
    if len(results) != 5 * len(NOISE_SCALES) or "bound exceeded" in set(white["verdict"]):
        failures.append(f"{case.loss}: rows are missing, or the white box beats a bound")
    if white["success"].iloc[0] < 0.99 or not white["bayes"].is_monotonic_decreasing:
        failures.append(f"{case.loss}: the white box fails almost without noise")

    # With two values one refit a record is enough: the true value is that of the fit.
    one, total = np.median(refit_seconds), len(y) * np.median(refit_seconds)
    low, high = len(y) * refit_seconds.min() / seconds, len(y) * refit_seconds.max() / seconds
    line = [name, f"{len(y)}", f"{d}", case.loss, f"{seconds:.1f}", f"{one:.4f}", f"{len(y)}"]
    line += [f"{total:.0f}", f"{total / seconds:.1f}", f"{low:.1f} .. {high:.1f}"]
    line += [f"{error:.0e}", f"{memory:.2f}"]
    return line, failures, seconds


def main():
    options = parse_options(__doc__)
    if options.quick:
        cases = [Case(300, loss, 10, 10, False) for loss in MODELS]
    else:
        cases = [Case(30_162, loss, 20, N_RELEASES, True) for loss in MODELS]
    lines, goals, failures = [], [], []
    for case in cases:
        line, new_failures, seconds = in_fresh_process(measure, case)
        lines.append(line)
        failures += new_failures
        slow = "" if seconds <= LIMIT else ", MISSED"
        goals.append(f"{case.loss} {seconds:.0f} s of {LIMIT:.0f}{slow}")
    title = f"Audit of {ATTRIBUTE!r}: 5 attacks, all bounds, {len(NOISE_SCALES)} noise scales, "
    print_table(f"{title}{cases[0].n_releases} releases each", HEADER, lines, KEYS)
    legend(
        "audit s: everything, from the raw table to the report; once\n"
        "refits s: Newton's method from the fit, once for each record, for the encodings alone,\n"
        f"without attacks or bounds; extrapolated from the median of {cases[0].sample} refits, the "
        "range\nfrom the fastest and the slowest of them"
    )
    if not options.quick:
        print(f"goals for Adult on 2 cores: {'; '.join(goals)}")
    legend("error: largest difference of a coefficient over the sample")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
