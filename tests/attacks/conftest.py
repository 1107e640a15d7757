"""Small mixed tables: a nominal secret, nominal and numeric columns, three kinds of target."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.datasets import fetch_iwpc
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

TARGETS = {
    PrivateLinearRegression: lambda a, rng: a + rng.normal(size=len(a)),
    PrivateLogisticRegression: lambda a, rng: (a + rng.logistic(size=len(a)) > 0).astype(int),
    PrivatePoissonRegressor: lambda a, rng: rng.poisson(np.exp(0.5 * a)),
}


@pytest.fixture
def make_table(rng):
    def make(estimator=PrivateLinearRegression, n=60):
        X = pd.DataFrame(
            {
                "age": rng.normal(50.0, 10.0, size=n),
                "gene": rng.choice(["A", "B", "C"], size=n, p=[0.5, 0.3, 0.2]),
                "city": rng.choice(["x", "y"], size=n),
                "dose": rng.normal(size=n),
            }
        )
        a = (X["age"] - 50) / 10 + (X["gene"] == "A") - X["dose"] * 0.5
        return X, TARGETS[estimator](a.to_numpy(), rng)

    return make


@pytest.fixture(scope="session")
def raw_iwpc(iwpc):
    """Four in five of the raw records of IWPC, their doses, and the encoding of the papers."""
    X, y = fetch_iwpc(return_X_y=True, download_if_missing=False)
    X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=0)
    encode = make_column_transformer(
        (OneHotEncoder(drop="first"), ["race", "cyp2c9", "vkorc1"]), remainder="passthrough"
    )
    return X, y, encode


@pytest.fixture
def make_pipe():
    def make(model):
        encode = make_column_transformer(
            (StandardScaler(), ["age", "dose"]), (OneHotEncoder(), ["gene", "city"])
        )
        return make_pipeline(encode, model)

    return make
