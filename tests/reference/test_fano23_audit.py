"""Attribute inference on IWPC: genotype from a linear model of the warfarin dose ([FANO23] 6.2)."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.audit import LeakageAuditor
from skleak.datasets import fetch_iwpc
from skleak.linear_model import PrivateLinearRegression
from skleak.metrics.verdicts import EXCEEDED

pytestmark = [pytest.mark.data, pytest.mark.slow]

NOISE = [1e-5, 1e-4, 1e-3, 1.0]


@pytest.fixture(scope="module")
def records():
    try:
        X, y = fetch_iwpc(encoded=False, return_X_y=True, download_if_missing=False)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    X_train, _, y_train, _ = train_test_split(X, y, train_size=0.8, random_state=0)
    return X_train, y_train


def audit(records, attacks, **options):
    encode = make_column_transformer(
        (OneHotEncoder(drop="first"), ["race", "cyp2c9", "vkorc1"]), remainder="passthrough"
    )
    model = make_pipeline(encode, PrivateLinearRegression(alpha=1e-2, fit_intercept=False))
    options = {"noise_scales": NOISE, "bounds": "bayes"} | options
    auditor = LeakageAuditor(model, "vkorc1", attacks=attacks, random_state=0, **options)
    table = auditor.fit(*records).results_
    return table.set_index(["attack", "noise_scale"])


@pytest.fixture(scope="module")
def actual(records):
    attacks = ["prior", "white_box", "black_box", "informed"]
    return audit(records, attacks, n_releases=200, secrets="actual")


def test_the_white_box_goes_from_certain_to_the_prior(actual):
    success = actual.loc["white_box", "success"]
    assert success[1e-5] == pytest.approx(1.0, abs=0.01)
    assert success[1e-4] == pytest.approx(0.99, abs=0.01)
    assert success[1e-3] == pytest.approx(0.53, abs=0.04)
    baseline = actual["baseline"].iloc[0]
    assert baseline == pytest.approx(0.367, abs=0.01)
    assert success[1.0] == pytest.approx(baseline, abs=0.03)


def test_the_black_box_hardly_sees_the_noise(actual):
    np.testing.assert_allclose(actual.loc["black_box", "success"][:3], 0.49, atol=0.02)


def test_the_informed_attack_is_weaker(actual):
    informed, white = actual.loc["informed"], actual.loc["white_box"]
    for scale in (1e-4, 1e-3):
        assert informed.loc[scale, "success_high"] < white.loc[scale, "success_low"]


def test_a_uniform_prior_costs_success_where_noise_is_large(records, actual):
    options = {"secrets": "actual", "n_releases": 30, "noise_scales": 1.0, "prior": "uniform"}
    uniform = audit(records, "white_box", **options)
    assert uniform["success"].item() < actual.loc[("white_box", 1.0), "success"]


@pytest.mark.exhaustive
def test_no_attack_exceeds_a_bound(records):
    attacks = ["prior", "imputation", "white_box", "black_box", "informed"]
    options = {"secrets": "drawn", "n_releases": 5, "bounds": ["bayes", "tradeoff", "fano"]}
    table = audit(records, attacks, **options)
    assert EXCEEDED not in set(table["verdict"])
    for bound in ("bayes", "tradeoff", "fano"):
        assert (table["success_low"] <= table[bound] + 1e-3).all()
    # Nothing beats the Bayes success, and the white box reaches it.
    white = table.loc["white_box"]
    assert (white["success_high"] >= white["bayes"] - 1e-3).all()
