"""Raw tables of patients: numbers and texts, with values that are missing."""

import numpy as np
import pandas as pd
import pytest

GENES = ["AA", "AB", "BB"]


def _make_patients(rng, n=60):
    X = pd.DataFrame(
        {
            "age": rng.normal(50.0, 15.0, size=n).round(),
            "weight": rng.normal(75.0, 12.0, size=n),
            "gene": pd.Series(rng.choice(GENES, size=n), dtype=object),
            "smoker": pd.Series(rng.choice(["yes", "no"], size=n), dtype=object),
        }
    )
    X.loc[3, "age"] = np.nan
    X.loc[5, "gene"] = None
    return X


def _strange_records(rng, n):
    """Records as an adversary would choose them: extreme, unknown, missing."""
    numbers = [0.0, -1e308, 1e308, np.inf, -np.inf, np.nan, 5e-324, 50.0, 1e3]
    texts = ["AA", "BB", "no", "", "a gene nobody has heard of", None, np.nan, pd.NA]
    return pd.DataFrame(
        {
            "age": rng.choice(numbers, size=n),
            "weight": rng.choice(numbers, size=n),
            "gene": pd.Series([texts[k] for k in rng.integers(len(texts), size=n)], dtype=object),
            "smoker": pd.Series([texts[k] for k in rng.integers(len(texts), size=n)], dtype=object),
        }
    )


@pytest.fixture
def patients(rng):
    return _make_patients(rng)


@pytest.fixture
def make_patients():
    """Factory of raw tables: ``make_patients(rng, n=60)``."""
    return _make_patients


@pytest.fixture
def strange_records():
    """Factory of adversarial records: ``strange_records(rng, n)``."""
    return _strange_records
