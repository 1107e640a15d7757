"""Raw columns of tables outside memory: the numbers that the same table in memory has."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, PolynomialFeatures

from skleak.exceptions import AttackNotApplicableError, CostWarning
from skleak.inspection import attribute_leakage, leakage_report
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.preprocessing import BlockwiseTransformer

dask = pytest.importorskip("dask")
frames = pytest.importorskip("dask.dataframe")
polars = pytest.importorskip("polars")
pytest.importorskip("pyarrow")

N = 40


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("skleak.utils.sources.BLOCK_ELEMENTS", 60)
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def table(rng):
    columns = {
        "age": rng.normal(5.0, 1.0, size=N),
        "ward": rng.choice(["A", "B", "C"], size=N),
        "bmi": rng.integers(18, 34, size=N),
    }
    frame = pd.DataFrame(columns)
    frame.loc[N - 1, "ward"] = "rare"
    noise = rng.normal(size=N)
    return frame.assign(cost=0.5 * frame["age"] + (frame["ward"] == "A") + noise)


@pytest.fixture
def encoder(table):
    bins = KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf")
    wards = OneHotEncoder(handle_unknown="ignore")
    columns = (PolynomialFeatures(2), ["age"]), (wards, ["ward"]), (bins, ["bmi"])
    return make_column_transformer(*columns).fit(table.drop(columns="cost"))


@pytest.fixture
def opened(table, tmp_path):
    def make(kind):
        if kind == "dask":
            return frames.from_pandas(table, npartitions=4, sort=False)
        if kind == "polars":
            return polars.from_pandas(table).lazy()
        table.to_parquet(tmp_path / "rows.parquet", row_group_size=7)
        return tmp_path / "rows.parquet"

    return make


def _both(encoder, model, table, source):
    held = make_pipeline(FrozenEstimator(encoder), clone(model))
    held.fit(table.drop(columns="cost"), table["cost"])
    return held, make_pipeline(BlockwiseTransformer(encoder), model).fit(source, y="cost")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["parquet", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("polars", "dask"))],
)
def test_every_number_of_every_record(table, encoder, opened, kind):
    source, model = opened(kind), PrivateLinearRegression(noise_scale=0.1)
    held, lazy = _both(encoder, model, table, source)
    expected = attribute_leakage(held, table.drop(columns="cost"), table["cost"])
    found = attribute_leakage(lazy, source, "cost")
    pd.testing.assert_frame_equal(found, expected, rtol=1e-8, check_dtype=False)


@pytest.mark.slow
def test_labels_of_a_classifier(table, encoder, opened):
    table["cost"] = (table["cost"] > table["cost"].median()).astype(int)
    model = PrivateLogisticRegression(noise_scale=0.1, alpha=0.1, private_target=True)
    source = opened("parquet")
    held, lazy = _both(encoder, model, table, source)
    expected = attribute_leakage(held, table.drop(columns="cost"), table["cost"])
    found = attribute_leakage(lazy, source, "cost")
    pd.testing.assert_frame_equal(found, expected, rtol=1e-8, check_dtype=False)


@pytest.mark.slow
def test_the_report_about_raw_columns(table, encoder, opened):
    source, model = opened("parquet"), PrivateLinearRegression(noise_scale=0.1)
    held, lazy = _both(encoder, model, table, source)
    expected = leakage_report(held, table.drop(columns="cost"), table["cost"], groups="ward")
    found = leakage_report(lazy, source, "cost", groups="ward")
    options = {"rtol": 1e-8, "check_dtype": False, "check_index_type": False}
    pd.testing.assert_frame_equal(found.features, expected.features, **options)
    pd.testing.assert_frame_equal(found.groups, expected.groups, **options)
    assert found.findings[0] == expected.findings[0]
    assert found.dataset["mean_loss"] == pytest.approx(expected.dataset["mean_loss"], rel=1e-9)


@pytest.mark.slow
def test_few_of_many_records_are_in_memory(table, encoder, opened, monkeypatch):
    monkeypatch.setattr("skleak.inspection._pipeline._MOST_RECORDS", 10)
    monkeypatch.setattr("skleak.inspection._pipeline._LEAST_RECORDS", 5)
    source, model = opened("parquet"), PrivateLinearRegression(noise_scale=0.1)
    held, lazy = _both(encoder, model, table, source)
    expected = attribute_leakage(held, table.drop(columns="cost"), table["cost"])
    with pytest.warns(CostWarning, match=f"of {N} records"):
        found = attribute_leakage(lazy, source, "cost")
    assert found["record"].nunique() <= 10
    loss = held[-1].fisher_information_loss_
    assert int(np.argmax(loss)) in found["record"].tolist()
    keys = ["record", "column"]
    both = found.merge(expected, on=keys, suffixes=("", "_held"))
    assert len(both) == len(found)
    numbers = ("distance", "fisher_information_loss", "sd", "share", "n_values")
    for name in numbers:
        np.testing.assert_allclose(both[name], both[f"{name}_held"], rtol=1e-8)


@pytest.mark.slow
def test_named_records(table, encoder, opened):
    source, model = opened("parquet"), PrivateLinearRegression(noise_scale=0.1)
    held, lazy = _both(encoder, model, table, source)
    rows = [N - 1, 3]
    expected = attribute_leakage(held, table.drop(columns="cost"), table["cost"], records=rows)
    found = attribute_leakage(lazy, source, "cost", records=rows)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-8, check_dtype=False)


@pytest.mark.slow
def test_other_records_and_what_needs_memory(table, encoder, opened, tmp_path):
    source, model = opened("parquet"), PrivateLinearRegression(noise_scale=0.1)
    held, lazy = _both(encoder, model, table, source)
    table[::-1].to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="must be the training data"):
        attribute_leakage(lazy, tmp_path / "other.parquet", "cost")
    table[:9].to_parquet(tmp_path / "short.parquet")
    with pytest.raises(ValueError, match="40 records; got 9"):
        attribute_leakage(lazy, tmp_path / "short.parquet", "cost")
    with pytest.raises(AttackNotApplicableError, match="all of them in memory"):
        attribute_leakage(lazy, source, "cost", refit_preprocessing=True)
    with pytest.raises(ValueError, match="fitted on records in memory"):
        attribute_leakage(held, source, "cost")
    with pytest.raises(ValueError, match=r"name the column 'price', which .* does not have"):
        attribute_leakage(lazy, source, "price")
    with pytest.raises(ValueError, match="joint values"):
        attribute_leakage(lazy, source, "cost", columns=[["ward", "bmi"]], nominal=["bmi"])
