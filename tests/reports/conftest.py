"""A report of any losses, and one of a fit, for the tests of what reports look like."""

import numpy as np
import pandas as pd
import pytest

from skleak.linear_model import PrivateLinearRegression
from skleak.report import LeakageReport
from skleak.report.guarantee import DifferentialPrivacy
from skleak.report.leakage._report import CARRIERS, decision


@pytest.fixture
def make_report():
    """Build a report with the statistics that follow from given losses."""
    return _make_report


@pytest.fixture
def fitted(rng):
    X = pd.DataFrame(rng.normal(50.0, 10.0, size=(60, 3)).round(6), columns=["age", "bmi", "bp"])
    y = (X @ [1.0, -2.0, 0.5] + rng.normal(size=60)).round(6)
    groups = np.where(X["age"] > 50.0, "old", "young")
    model = PrivateLinearRegression(noise_scale=0.5).fit(X, y)
    return X, y, model.leakage_report(groups=groups)


def _make_report(loss, *, features=("age", "bmi"), groups=None, copies=None):
    """A report with the statistics that follow from given losses, for any losses."""
    loss = np.asarray(loss, dtype=float)
    copies = np.ones(len(loss)) if copies is None else np.asarray(copies, dtype=float)
    with np.errstate(all="ignore"):
        records = pd.DataFrame(
            {
                "sample_weight": copies,
                "fisher_information_loss": loss,
                "diagonal_fisher_information_loss": loss / 2.0,
                "standard_error": 1.0 / loss,
                "mu": loss,
                "advantage_any_prior": 0.5,
                "most_telling": features[0],
            },
            index=pd.RangeIndex(len(loss), name="record"),
        )
        if groups is not None:
            records["group"] = groups
        shares = 0.5 ** np.arange(len(features))
        bound = 1.0 / (shares * loss.max())
        table = pd.DataFrame(
            {
                "kind": "number",
                "advantage_any_prior": 0.8 * shares,
                "distance": 3.0 * shares,
                "success_even_odds": 0.5 + 0.4 * shares,
                "success_prior": np.nan,
                "found_at_1pct": 0.5 * shares,
                "step": 2.0,
                "share_removed": 0.25 * shares,
                "van_trees_error": bound / 2.0,
                "n_values": np.nan,
                "fewest": np.nan,
                "share": np.nan,
                "median_advantage": 0.1 * shares,
                "n_above": 1,
                "n_known": len(loss),
                "exact": True,
                "note": "",
                "max_loss": shares * loss.max(),
                "mean_loss": shares * loss.mean(),
                "min_loss": shares * loss.min(),
                "spread": np.nan,
                "most_exposed_record": int(loss.argmax()),
                "standard_error": bound,
                "column_std": 2.0,
            },
            index=pd.Index(list(features), name="feature", dtype=object),
        )
        spread = loss.std() / loss.mean()
    columns = ["n_records", "mean_loss", "max_loss", "spread", "joint_loss"]
    by_group = pd.DataFrame(columns=[*columns, "most_exposed_record", "relative_mean"], dtype=float)
    if groups is not None:
        by_group = records.groupby("group")["fisher_information_loss"].agg(
            n_records="size", mean_loss="mean", max_loss="max"
        )
        by_group = by_group.assign(
            spread=0.5, joint_loss=9.0, most_exposed_record=0, relative_mean=1.0
        )
    dataset = {
        "n_records": int((copies > 0).sum()),
        "n_features": len(features),
        "noise_scale": 0.0 if np.isinf(loss.max()) else 0.5,
        "noise_covariance": "isotropic",
        "alpha": 0.01,
        "loss": "squared",
        "private_target": False,
        "reweighting": None,
        "noise_goal": None,
        "seeded": False,
        "converged": True,
        "mean_loss": float(loss.mean()),
        "std_loss": float(loss.std()) if np.isfinite(loss).all() else np.nan,
        "min_loss": float(loss.min()),
        "median_loss": float(np.median(loss)),
        "max_loss": float(loss.max()),
        "spread": float(spread),
        "conditional_mean_loss": None,
        "conditional_max_loss": None,
        "through_mean_mean_loss": None,
        "through_mean_max_loss": None,
        "through_covariance_mean_loss": None,
        "through_covariance_max_loss": None,
        "plain_mean_loss": None,
        "plain_max_loss": None,
        "plain_spread": None,
        "joint_loss": 3.0 * float(loss.max()),
        "raw_columns": False,
        "individual_privacy": {"missing": "", "delta": 1e-6, "baseline": 1e-3},
        "n_rows": len(loss),
        "labels": "position",
        "unequal_weights": False,
        "n_records_moving_rung": None,
        "group_spread": np.nan if groups is None else 0.25,
        "most_exposed_records": np.argsort(-loss, kind="stable")[:10].tolist(),
    }
    return LeakageReport(
        estimator="PrivateLinearRegression",
        records=records,
        features=table,
        groups=by_group.rename_axis("group"),
        dataset=dataset,
        differential_privacy=DifferentialPrivacy(False, ("no `data_norm` was given",)),
        facts=decision(
            table,
            dataset,
            [],
            (0, 2.0),
            total=dataset["n_records"],
            weighted=False,
            doubts=[],
            conditions=[],
        ),
        carriers=pd.DataFrame(columns=list(CARRIERS)),
    )
