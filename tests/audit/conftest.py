"""Audit reports with plausible numbers of all three kinds, for the tests of what reports say."""

import numpy as np
import pandas as pd
import pytest
from helpers import Page
from scipy.special import ndtr

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.linear_model import PrivateLinearRegression
from skleak.metrics.verdicts import BIASED, CONSISTENT, EXCEEDED, VACUOUS
from skleak.report import AuditReport

NOISE = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
ATTACKS = ("prior", "imputation", "black_box", "white_box")
BOUNDS = (
    "bayes",
    "tradeoff",
    "gdp",
    "fano",
    "information_projection",
    "fano_pairwise",
    "fano_information_bound",
    "fano_order_1",
    "generalized_fano",
    "renyi_projection",
    "closed_form_fano",
    "reconstruction_robustness",
)


@pytest.fixture
def make_audit():
    """Build a report: kind, noise scales, attacks and bounds; settings by name."""
    return _make_audit


@pytest.fixture(scope="session")
def people():
    """People with unusual names and numbers, (24, 3), and a target."""
    rng = np.random.default_rng(5)
    n = 24
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["age", "bmi", "smoker"])
    X["smoker"] = (X["bmi"] + rng.normal(size=n) > 0.0).astype(float)
    X.index = [f"person-{k:03d}" for k in rng.permutation(n)]
    return X, X @ [1.0, -2.0, 1.5] + rng.normal(size=n)


@pytest.fixture(scope="session")
def audits_of_people(people):
    """Reports of small audits of each kind on these people, with two noise scales each."""
    model = PrivateLinearRegression(noise_scale=0.5, alpha=0.1)
    made = {"noise_scales": [0.1, 2.0], "n_releases": 3, "random_state": 0}
    return {
        "categorical": LeakageAuditor(model, "smoker", **made).fit(*people).report_,
        "numeric": LeakageAuditor(model, "bmi", **made).fit(*people).report_,
        "record": LeakageAuditor(model, **made).fit(*people).report_,
        "membership": MembershipAuditor(model, **made).fit(*people).report_,
    }


@pytest.fixture(scope="session")
def pages(audits_of_people):
    """HTML of the small audits."""
    return {name: report.to_html() for name, report in audits_of_people.items()}


@pytest.fixture
def read_page():
    """Parse HTML; fails on tags that do not match."""
    return Page


def _make_audit(kind="categorical", noise=NOISE, attacks=ATTACKS, bounds=BOUNDS, **settings):
    n_targets = settings.pop("n_targets", 40)
    attribute = settings.pop("attribute", None if kind == "record" else "vkorc1")
    estimator = settings.pop("estimator", "Pipeline of ColumnTransformer, PrivateLinearRegression")
    if kind != "categorical":
        bounds = ("cramer_rao",) if len(bounds) else ()
    settings = _settings(kind, n_targets, attacks, bounds) | settings
    make_results, make_records = (
        (_success_results, _success_records)
        if kind == "categorical"
        else (_error_results, _error_records)
    )
    rng = np.random.default_rng(7)
    eta = np.sort(rng.gamma(2.0, 2e-3, size=n_targets))[::-1]
    records = make_records(noise, attacks, bounds, eta, settings["secrets"])
    return AuditReport(
        estimator=estimator,
        attribute=attribute,
        kind=kind,
        results=make_results(noise, attacks, bounds),
        records=_with_exposures(records, kind, bool(len(bounds))),
        settings=settings,
        reproducibility={
            "skleak": "0.1.0",
            "Python": "3.11.9",
            "estimator": "PrivateLinearRegression(alpha=0.01, fit_intercept=False)",
            "seed": "0",
            "data": "3855 records, 8 columns",
        },
    )


def _with_exposures(records, kind, known):
    """Add what no attacker exceeds; of whole records it is a share of a column."""
    distance = 0.2 * records["eta"] if known else records["eta"] * np.nan
    gain = 2.0 * ndtr(distance / 2.0) - 1.0
    records["distance"] = distance
    records["advantage_any_prior"] = records["exposure"] = gain
    records["found_at_1pct"] = ndtr(-2.3263478740408408 + distance)
    if kind == "record":
        records["exposed_column"] = "age"
        records[["distance", "advantage_any_prior", "found_at_1pct"]] = np.nan
    return records


def _settings(kind, n_targets, attacks, bounds):
    return {
        "n_records": 3855,
        "n_columns": 8,
        "n_targets": n_targets,
        "n_releases": 100,
        "secrets": "actual",
        "prior": "marginal",
        "values": ["CC", "CT", "TT"] if kind == "categorical" else [],
        "confidence_level": 0.95,
        "bounds": tuple(bounds),
        "attacks": tuple(attacks),
        "utility_name": "R²",
        "utility_data": "training records",
        "noiseless_utility": 0.55,
        "preprocessing": "public",
        "reweighting": None,
        "target_counts": False,
        "verdict_level": 0.9975,
        "labels": "position in the data, from 0",
        "max_advantage": 0.05,
    }


def _bayes(noise):
    """Success of the best attack on three values: certain without noise, the prior with much."""
    with np.errstate(divide="ignore"):
        return 0.37 + 0.63 * (2.0 * ndtr(4e-4 / np.asarray(noise)) - 1.0)


def _success_results(noise, attacks, bounds):
    share = {"prior": 0.0, "imputation": 0.0, "black_box": 0.6, "white_box": 0.97}
    rows = []
    for scale in noise:
        best, baseline = float(_bayes(scale)), 0.37
        for attack in attacks:
            success = baseline + share.get(attack, 0.8) * (best - baseline)
            if attack == "imputation":
                success = 0.49
            low, high = max(success - 0.015, 0.0), min(success + 0.015, 1.0)
            row = {"noise_scale": scale, "attack": attack}
            row |= {"success": success, "success_low": low, "success_high": high}
            row["baseline"] = baseline
            for end, value in (("", success), ("_low", low), ("_high", high)):
                row[f"advantage{end}"] = (value - baseline) / (1.0 - baseline)
            row["imputation"] = 0.49 if "imputation" in attacks else np.nan
            for end, value in (("", success), ("_low", low), ("_high", high)):
                over = (value - 0.49) / 0.51
                row[f"advantage_over_imputation{end}"] = over if "imputation" in attacks else np.nan
            limits = {
                name: baseline + (1.0 - baseline) * min((best - baseline) / 0.63 * (1 + k / 8), 1.0)
                for k, name in enumerate(bounds)
            }
            if "gdp" in limits and "tradeoff" in limits:
                limits["gdp"] = limits["tradeoff"]
            tight = min(limits.values(), default=np.nan)
            row["verdict"] = VACUOUS if not tight < 1.0 else EXCEEDED if low > tight else CONSISTENT
            row["utility"] = 0.55 - 30.0 * scale**1.5
            row["n_games"] = 100 * 40
            rows.append(row | limits)
    return pd.DataFrame(rows)


def _success_records(noise, attacks, bounds, eta, secrets):
    tables = []
    for scale in noise:
        bayes = 0.37 + 0.63 * (2.0 * ndtr(0.1 * eta / max(scale, 1e-300)) - 1.0)
        with np.errstate(divide="ignore"):
            table = pd.DataFrame(
                {
                    "noise_scale": scale,
                    "record": np.arange(len(eta)) * 7 + 3,
                    "label": np.arange(len(eta)) * 7 + 3,
                    "prior": 0.37,
                    "eta": eta / np.asarray(scale),
                }
            )
        if "bayes" in bounds:
            table["bayes"] = bayes
        if len(bounds) > 1:
            table["tightest_bound"] = np.minimum(bayes * 1.1, 1.0)
        for attack in attacks:
            table[f"success_{attack}"] = {"prior": 0.37, "imputation": 0.49}.get(attack, bayes)
        if secrets == "drawn":
            table["verdict"] = CONSISTENT
        tables.append(table)
    return pd.DataFrame() if not tables else pd.concat(tables, ignore_index=True)


def _error_results(noise, attacks, bounds):
    spread, guess, rows = 100.0, 101.0, []
    for scale in noise:
        limit = 2e7 * scale**2
        for attack in attacks:
            variance, bias = {
                "prior": (0.2, guess - 0.2),
                "imputation": (0.5, 60.0),
                "black_box": (5.0, 40.0),
            }.get(attack, (1.05 * limit, 0.01))
            mse = variance + bias
            low, high = 0.97 * mse, 1.03 * mse
            row = {"noise_scale": scale, "attack": attack}
            ends = (("", mse, mse), ("_low", high, low), ("_high", low, high))
            for end, error, own in ends:
                row[f"success{end}"] = 1.0 - error / spread
                row[f"advantage{end}"] = row[f"share_removed{end}"] = 1.0 - error / guess
                over = 1.0 - error / 60.5 if "imputation" in attacks else np.nan
                row[f"advantage_over_imputation{end}"] = over
                row[f"mse{end}"] = own
                row[f"mse_over_bound{end}"] = own / limit if limit else np.nan
            row |= {"baseline": 1.0 - guess / spread, "variance": variance, "squared_bias": bias}
            row["imputation"] = 1.0 - 60.5 / spread if "imputation" in attacks else np.nan
            row["verdict"] = BIASED if high < limit else CONSISTENT if limit else VACUOUS
            row |= {"utility": 0.55 - 30.0 * scale**1.5, "n_games": 4000}
            if bounds:
                row |= {"cramer_rao": limit, "cramer_rao_mean": min(limit, guess)}
            rows.append(row)
    return pd.DataFrame(rows)


def _error_records(noise, attacks, bounds, eta, secrets):
    tables = []
    for scale in noise:
        with np.errstate(divide="ignore"):
            table = pd.DataFrame(
                {
                    "noise_scale": scale,
                    "record": np.arange(len(eta)) * 7 + 3,
                    "label": np.arange(len(eta)) * 7 + 3,
                    "prior": 101.0,
                    "eta": eta / np.asarray(scale),
                }
            )
        limit = 1e7 * scale**2 * (eta.mean() / eta) ** 2
        for name in bounds:
            table[name] = limit
        for attack in attacks:
            table[f"mse_{attack}"] = {"prior": 101.0, "imputation": 60.5}.get(attack, 1.1 * limit)
            table[f"variance_{attack}"] = table[f"squared_bias_{attack}"] = 0.5
        tables.append(table)
    return pd.concat(tables, ignore_index=True)
