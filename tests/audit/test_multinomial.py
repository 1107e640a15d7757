"""Audits of models with several classes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.audit import LeakageAuditor
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLogisticRegression
from skleak.metrics.verdicts import EXCEEDED


@pytest.fixture
def trees(rng):
    n = 40
    X = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, n),
            "gene": rng.choice(["A", "B"], n),
            "dose": rng.normal(size=n),
        }
    )
    score = (X["age"] - 50.0) / 10.0 + (X["gene"] == "A") + rng.normal(size=n)
    return X, np.array(["ash", "elm", "oak"])[np.digitize(score, [-0.3, 1.0])]


def _pipe(noise_scale=0.1, **options):
    encode = make_column_transformer(
        (StandardScaler(), ["age", "dose"]), (OneHotEncoder(drop="if_binary"), ["gene"])
    )
    return make_pipeline(encode, PrivateLogisticRegression(noise_scale, **options))


@pytest.mark.slow
def test_an_attribute_from_no_noise_to_much(trees):
    X, y = trees
    auditor = LeakageAuditor(
        _pipe(), "gene", noise_scales=[1e-4, 1e2], n_releases=20, random_state=0
    )
    report = auditor.fit(X, y).report_
    table = report.results
    assert not (table["verdict"] == EXCEEDED).any()
    white = table[table["attack"] == "white_box"].sort_values("noise_scale")
    assert white["success"].iloc[0] == 1.0
    assert white["success"].iloc[1] == pytest.approx(white["baseline"].iloc[1], abs=0.05)
    assert set(table["attack"]) >= {"white_box", "black_box", "prior", "imputation"}
    assert np.all(report.records["eta"] > 0.0)
    assert "gene" in report.to_text(full=True)
    assert "<html" in report.to_html().lower()


@pytest.mark.slow
def test_a_quantity(trees):
    X, y = trees
    auditor = LeakageAuditor(_pipe(), "dose", noise_scales=[1e-6], n_releases=10, random_state=0)
    report = auditor.fit(X, y).report_
    assert not (report.results["verdict"] == EXCEEDED).any()


def test_whole_records_take_two_classes(trees):
    X, y = trees
    auditor = LeakageAuditor(_pipe(), noise_scales=[0.1], n_releases=2)
    with pytest.raises(AttackNotApplicableError, match="3 classes; whole"):
        auditor.fit(X, y)
