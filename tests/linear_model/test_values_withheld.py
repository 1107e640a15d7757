"""Messages about records, as they stand in a log: rows and columns, and no value of anybody."""

import re
import traceback

import numpy as np
import pandas as pd
import pytest

from skleak.attacks import PriorAttack
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

SECRET = "HIV"


@pytest.fixture
def table(rng):
    names = [f"patient {i}" for i in range(20)]
    return pd.DataFrame(rng.normal(size=(20, 2)), columns=["age", "drug"], index=names)


def message(function, *arguments, **options):
    with pytest.raises((ValueError, TypeError)) as caught:
        function(*arguments, **options)
    # Whoever reads the log sees the whole traceback, but for lines of code.
    told = "".join(traceback.format_exception_only(caught.value))
    chained = caught.value.__cause__ or (
        None if caught.value.__suppress_context__ else caught.value.__context__
    )
    assert chained is None or SECRET not in str(chained)
    return told


@pytest.mark.parametrize("model", [PrivateLinearRegression(), PrivatePoissonRegressor()])
def test_text_among_numbers(model, table, rng):
    y = rng.poisson(2.0, 20).astype(float)
    words = table.astype(object)
    words.iloc[3, 1] = SECRET
    told = message(model.fit, words, y)
    assert SECRET not in told
    assert "column 'drug'" in told
    assert "row 'patient 3'" in told
    model.fit(table, y)
    for told in (
        message(model.fisher_information_loss, words, y),
        message(model.fit, words.to_numpy(), y),
    ):
        assert SECRET not in told
    labels = pd.Series(y, index=table.index).astype(object)
    labels.iloc[4] = SECRET
    for told in (
        message(model.fit, table, labels),
        message(model.fisher_information_loss, table, labels),
    ):
        assert SECRET not in told
        assert "the target" in told
        assert "row 'patient 4'" in told
    told = message(model.fit, table, y, sample_weight=labels)
    assert SECRET not in told
    assert "the sample weights" in told


@pytest.mark.parametrize(
    "X",
    [np.array([7.25, 8.5]), np.array([[7.25 + 1j, 8.5], [1.0, 7.25]]), 7.25],
    ids=["one dimension", "complex", "scalar"],
)
def test_tables_of_another_form(X):
    assert not re.search(r"7\.25", message(PrivateLinearRegression().fit, X, [1.0, 2.0]))


def test_labels(table):
    y = np.where(np.arange(20) % 2, "no", "yes").astype(object)
    model = PrivateLogisticRegression().fit(table, y)
    y[5] = SECRET
    told = message(model.fisher_information_loss, table, y)
    assert SECRET not in told
    assert "row 'patient 5'" in told
    declared = PrivateLogisticRegression(classes=["no", "yes"])
    told = message(declared.fit, table, y.astype(str))
    assert SECRET not in told
    assert "row 'patient 5'" in told
    assert SECRET not in message(model.fit, table, np.full(20, SECRET))
    weights = np.where(y == SECRET, 0.0, 1.0)
    assert SECRET not in message(model.fit, table, y, sample_weight=weights)
    mixed = np.array([[SECRET], 1.5, *range(18)], dtype=object)
    assert SECRET not in message(model.fit, table, mixed)


def test_counts_and_norms(table):
    y = np.ones(20)
    y[6] = -37.5
    told = message(PrivatePoissonRegressor().fit, table, y)
    assert "37.5" not in told
    assert "row 'patient 6'" in told
    table.iloc[7, 0] = 73.5
    told = message(PrivateLinearRegression(data_norm=50.0).fit, table, y)
    assert "73.5" not in told
    assert "row 'patient 7'" in told


def test_attributes(table):
    table["drug"] = np.where(np.arange(20) == 8, SECRET, "none")
    told = message(PriorAttack("drug", values=["none", "other"]).fit, table, np.ones(20))
    assert SECRET not in told
    assert "row 8" in told
    table["drug"] = SECRET
    assert SECRET not in message(PriorAttack("drug").fit, table, np.ones(20))


def test_text_where_numbers_are_expected_says_what_to_do(table, rng):
    y = rng.normal(size=20)
    words = table.assign(drug=["x", 1.0] * 10)
    said = message(PrivateLinearRegression(noise_scale=1.0).fit, words, y)
    assert (
        "column 'drug' to numbers: row 'patient 0' holds text, the first of 10 such in 20" in said
    )
    assert "OneHotEncoder" in said
    text = pd.Series(["ill", "well"] * 10, index=table.index)
    said = message(PrivateLinearRegression(noise_scale=1.0).fit, table, text)
    assert "the target to numbers: row 'patient 0' holds text, the first of 20 such in 20" in said
    assert "fit a classifier" in said
    assert "leave it out" not in said
