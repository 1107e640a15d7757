"""Raw tables of patients, and pipelines whose preprocessing is public."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from skleak.preprocessing import PublicImputer, PublicOneHotEncoder, PublicScaler, RowNormClipper

NUMBERS, WORDS = ["age", "weight"], ["gene", "smoker"]


def _make_patients(rng, n=60):
    return pd.DataFrame(
        {
            "age": np.append(rng.normal(50.0, 15.0, size=n - 1).round(), np.nan),
            "weight": rng.normal(75.0, 12.0, size=n),
            "gene": pd.Series([None, *rng.choice(["AA", "AB", "BB"], size=n - 1)], dtype=object),
            "smoker": pd.Series(rng.choice(["yes", "no"], size=n), dtype=object),
        }
    )


def _preparation(clipper=True, drop=None):
    numbers = Pipeline(
        [("impute", PublicImputer([50, 75])), ("scale", PublicScaler([(18, 100), (30, 200)]))]
    )
    words = PublicOneHotEncoder({"gene": ["AA", "AB", "BB"], "smoker": ["no", "yes"]}, drop=drop)
    columns = ColumnTransformer([("numbers", numbers, NUMBERS), ("words", words, WORDS)])
    steps = [("columns", columns), ("rows", RowNormClipper(1.0))]
    return Pipeline(steps if clipper else steps[:1])


@pytest.fixture
def make_patients():
    """Factory of raw tables: ``make_patients(rng, n=60)``."""
    return _make_patients


@pytest.fixture
def patients(rng):
    return _make_patients(rng)


@pytest.fixture
def make_preparation():
    """Factory of public preprocessing: ``make_preparation(clipper=True, drop=None)``."""
    return _preparation
