"""The figures that the README shows: an audit, leakage over people, and three comparisons.

A model of the warfarin dose (IWPC) is audited for the gene VKORC1. Then it is released with noise
of three shapes at the same expected test error, and what every patient loses is compared. Last are
bounds on how well a secret token can be extracted from a language model, at the point of [FANO23].
"""

import sys
import time

import numpy as np
import pandas as pd
from _common import exit_status, fetch_or_none, parse_options, print_table
from _results import legend, note, note_picture
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.audit import LeakageAuditor
from skleak.bounds import fano_advantage, gdp_advantage, renyi_fano_advantage
from skleak.datasets import fetch_iwpc
from skleak.influence.noise import noise_covariance
from skleak.linear_model import PrivateLinearRegression

ALPHA, ATTRIBUTE = 1e-2, "vkorc1"
NOISE_SCALES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
SHOWN = 3e-3  # noise scale at which attack, bound and optimum are compared
COST = 0.02  # share by which noise raises the expected test error, for all shapes
SHAPES = {"isotropic": "the same in all directions", "curvature": "shape of the curvature"}
SHAPES |= {"minimax": "minimax shape"}
EPSILON, N_TOKENS = 6.0, 50_257  # of the canary in [FANO23] section 6.3
BOUNDS = {"bayes": "best possible attack", "tradeoff": "trade-off bound", "fano": "Fano's bound"}
BOUNDS |= {"renyi_projection": "Rényi bound"}


def load(quick):
    """Patients of IWPC, or a table like it."""
    data = None if quick else fetch_or_none(fetch_iwpc, encoded=False)
    if data is not None:
        return "IWPC", data[0], np.asarray(data[1], dtype=float)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["age", "height", "weight"])
    X[ATTRIBUTE] = rng.choice(["CC", "CT", "TT"], len(X), p=[0.3, 0.36, 0.34])
    y = X["age"] - 0.5 * (X[ATTRIBUTE] == "TT") + rng.normal(size=len(X))
    return "synthetic", X, y.to_numpy()


def pipeline(X, noise_scale, shape="isotropic"):
    nominal = list(X.columns[~X.dtypes.map(pd.api.types.is_numeric_dtype)])
    encode = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), nominal), remainder="passthrough"
    )
    model = PrivateLinearRegression(noise_scale, alpha=ALPHA, noise_covariance=shape)
    return make_pipeline(encode, model)


def audit(name, parts, quick):
    """Success of attacks and bounds over the noise, and the line of the noise that is shown."""
    X, X_test, y, y_test = parts
    start = time.perf_counter()
    auditor = LeakageAuditor(
        pipeline(X, SHOWN),
        ATTRIBUTE,
        noise_scales=NOISE_SCALES,
        n_releases=10 if quick else 200,
        records=np.arange(0, len(y), 10),
        random_state=0,
    ).fit(X, y, X_test, y_test)
    seconds, results = time.perf_counter() - start, auditor.results_
    of = {attack: rows.set_index("noise_scale") for attack, rows in results.groupby("attack")}
    white, column = of["white_box"], "success"
    curves = [{"label": "attack on the coefficients", "y": white[column], "kind": "attack"}]
    curves[0] |= {"low": white["success_low"], "high": white["success_high"]}
    curves += [{"label": label, "y": white[bound]} for bound, label in BOUNDS.items()]
    curves.append({"label": "guessing the most frequent value", "y": white["baseline"]})
    utility = {"label": "R² of the released model", "y": white["utility"]}
    note_picture("audit", x=NOISE_SCALES, curves=curves, utility=[utility], data=name)
    row = white.loc[SHOWN]
    found = {"attack": row[column], "best possible attack": row["bayes"]}
    found |= {"trade-off bound": row["tradeoff"], "Fano's bound": row["fano"]}
    found |= {"Rényi bound": row["renyi_projection"], "most frequent value": row["baseline"]}
    for label, value in found.items():
        note(f"{label}, share right", value)
    note("R² at the noise shown", row["utility"])
    note("R² without noise", auditor.report_.settings["noiseless_utility"])
    note("audit, seconds", seconds)
    title = f"{name}: {ATTRIBUTE!r} of {white['n_games'].iloc[0] // (10 if quick else 200)} "
    title += f"patients, noise scale {SHOWN:g}"
    lines = [[label, f"{100 * value:.1f} %"] for label, value in found.items()]
    print_table(title, ["who", "share of patients whose gene is named"], lines)
    wrong = [] if "bound exceeded" not in set(white["verdict"]) else ["an attack beats a bound"]
    return wrong + ([] if row["bayes"] <= row["tradeoff"] + 1e-6 else ["the bound is too small"])


def people(name, parts):
    """What every patient loses under noise of three shapes, at the same expected test error."""
    X, X_test, y, y_test = parts
    rows, curves, failures = [], [], []
    noiseless = pipeline(X, 0.0).fit(X, y)
    error = np.mean((noiseless.predict(X_test) - y_test) ** 2)
    encoded = noiseless[:-1].transform(X_test)
    encoded = np.column_stack([np.asarray(encoded, dtype=float), np.ones(len(y_test))])
    for shape, label in SHAPES.items():
        unit = pipeline(X, 1.0, shape).fit(X, y)[-1]
        covariance = noise_covariance(unit._confidential_state())  # at unit scale
        added = np.trace(covariance @ encoded.T @ encoded) / len(y_test)
        scale = float(np.sqrt(COST * error / added))
        losses = pipeline(X, scale, shape).fit(X, y)[-1].fisher_information_loss_
        failures += drawn_error(label, pipeline(X, scale, shape), parts, (1.0 + COST) * error)
        rows.append([label, losses.max(), np.median(losses)])
        counts, edges = np.histogram(np.log10(losses), bins=40)
        curve = {"label": label, "counts": counts, "edges": 10.0**edges, "largest": losses.max()}
        curves.append(curve)
    variance = np.var(y_test)
    note("R² of all three", 1.0 - (1.0 + COST) * error / variance)
    for label, largest, _ in rows:
        note(f"largest loss, {label}", largest)
        note(f"less than with {rows[0][0]}: {label}", rows[0][1] / largest)
    note_picture("people", curves=curves, data=name)
    lines = [[a, f"{b:.3g}", f"{c:.3g}", f"{rows[0][1] / b:.1f}"] for a, b, c in rows]
    header = ["noise", "largest loss of a patient", "median", "times less (largest)"]
    print_table(f"{name}: {len(y):,} patients, the same expected test error", header, lines)
    legend(f"noise raises the expected squared error on the test patients by {100 * COST:g} %")
    return failures


def drawn_error(label, model, parts, expected):
    """What is wrong if the mean test error of drawn noise is not the expected one."""
    X, X_test, y, y_test = parts
    errors = []
    for seed in range(40):
        drawn = model.set_params(privatelinearregression__random_state=seed).fit(X, y)
        errors.append(np.mean((drawn.predict(X_test) - y_test) ** 2))
    apart = (np.mean(errors) - expected) / (np.std(errors, ddof=1) / np.sqrt(len(errors)))
    return [] if abs(apart) < 5.0 else [f"{label}: the error is {apart:.1f} standard errors off"]


def canary():
    """Bounds on the advantage of whoever extracts one of 50,257 tokens."""
    orders = np.concatenate([[1.0], 1.0 + np.geomspace(1e-3, 255.0, 200)])
    mu = np.sqrt(EPSILON / 2.0)
    found = {
        "Fano, order 1 (paper)": fano_advantage(EPSILON, N_TOKENS),
        "generalized Fano (paper)": renyi_fano_advantage(
            EPSILON * orders, orders, N_TOKENS, refine=False
        ),
        "trade-off (skleak)": gdp_advantage(2.0 * mu, N_TOKENS, reference_mu=mu),
    }
    for label, value in found.items():
        note(f"canary, {label}", float(value))
    ratio = found["generalized Fano (paper)"] / found["trade-off (skleak)"]
    note("canary, times below the paper", float(ratio))
    lines = [[label, f"{float(value):.4f}"] for label, value in found.items()]
    title = f"A secret token of {N_TOKENS:,} at epsilon = {EPSILON:g}"
    print_table(title, ["bound", "advantage that it allows"], lines)
    return [] if ratio > 1.0 else ["the trade-off bound is not below the paper's"]


def main():
    options = parse_options(__doc__)
    name, X, y = load(options.quick)
    size = 3_855 if name == "IWPC" else 300
    parts = train_test_split(X, y, train_size=size, random_state=0)
    failures = audit(name, parts, options.quick) + people(name, parts) + canary()
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
