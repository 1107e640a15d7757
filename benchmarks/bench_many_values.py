"""Audit of a column with many values: bounds of a sample of the records against those of all."""

import sys
import time

import numpy as np
from _common import exit_status, fetch_or_none, parse_options, print_table
from _results import legend
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.audit import LeakageAuditor
from skleak.channels import GaussianChannel
from skleak.datasets import fetch_adult
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

ATTRIBUTE = "marital-status"
NOISE_SCALES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
LIMITS = {"linear": 180.0, "logistic": 360.0}  # seconds on 2 cores
HEADER = ["loss", "n", "values", "audit s", "of them bounded", "one record ms", "ratio", "error"]


def load(n):
    """Adult with all its marital statuses; fewer records where `n` says so, None without data."""
    data = fetch_or_none(fetch_adult)
    if data is None:
        return None
    X, y = data
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    X = X.drop(columns=["married", "relationship"]).iloc[rows]
    hours = X.pop("hours-per-week").to_numpy(dtype=float)
    income = (y.iloc[rows] == ">50K").to_numpy().astype(int)
    return X, {"linear": (hours - hours.mean()) / hours.std(), "logistic": income}


def measure(loss, X, y, n_releases, n_jobs):
    """One line of the table, and the seconds of the audit."""
    kind = {"linear": PrivateLinearRegression, "logistic": PrivateLogisticRegression}[loss]
    nominal = make_column_selector(dtype_exclude=np.number)
    one_hot = OneHotEncoder(drop="first", sparse_output=False)
    encode = make_column_transformer((one_hot, nominal), remainder=StandardScaler())
    model = make_pipeline(encode, kind(noise_scale=NOISE_SCALES[0], alpha=1e-4))
    begin = time.perf_counter()
    auditor = LeakageAuditor(
        model, ATTRIBUTE, noise_scales=NOISE_SCALES, n_releases=n_releases, n_jobs=n_jobs
    ).fit(X, y)
    seconds = time.perf_counter() - begin
    white_box, results = auditor.attacks_["white_box"], auditor.results_
    # Straightforward: every bound of every record, here of a few of them.
    some = np.random.default_rng(1).choice(len(y), 20, replace=False)
    begin = time.perf_counter()
    points, prior = white_box.encodings_[some], white_box.prior_[some]
    for scale in NOISE_SCALES:
        GaussianChannel(points, scale).advantage_bounds(prior)
    each = (time.perf_counter() - begin) / len(some)
    bounded = results.get("n_bounded", results["bayes"] * 0 + len(y)).max()
    error = results["bound_error"].max() if "bound_error" in results else 0.0
    line = [loss, f"{len(y)}", f"{prior.shape[1]}", f"{seconds:.1f}", f"{bounded:.0f}"]
    return [*line, f"{1e3 * each:.0f}", f"{each * len(y) / seconds:.1f}", f"{error:.1e}"], seconds


def main():
    options = parse_options(__doc__)
    data = load(120 if options.quick else None)
    if data is None:
        print("Adult is not there: nothing to measure")
        return exit_status([])
    X, targets = data
    lines, failures = [], []
    for loss in ["linear"] if options.quick else LIMITS:
        line, seconds = measure(
            loss, X, targets[loss], 5 if options.quick else 100, None if options.quick else 2
        )
        lines.append(line)
        if not options.quick and seconds > LIMITS[loss]:
            failures.append(f"{loss}: {seconds:.0f} s, more than {LIMITS[loss]:.0f}")
    print_table(f"Audit of {ATTRIBUTE!r}, {len(NOISE_SCALES)} noise scales", HEADER, lines)
    legend(
        "one record ms: all bounds of a record at all noise scales, mean of 20 records\n"
        "ratio: seconds for the bounds of all records over those of the whole audit\n"
        "error: largest standard error of the mean of the tightest bound"
    )
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
