"""Preprocessing of tables outside memory gives what it gives in memory, block by block."""

import pickle

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.preprocessing import BlockwiseTransformer, PublicOneHotEncoder, PublicScaler

dask = pytest.importorskip("dask")
frames = pytest.importorskip("dask.dataframe")
array = pytest.importorskip("dask.array")
polars = pytest.importorskip("polars")
pytest.importorskip("pyarrow")

KINDS = ["parquet", "folder", "polars", "dask"]
BOUNDS = {"age": (18.0, 100.0), "dose": (0.0, 9.0)}


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def table(rng):
    n = 40
    columns = {
        "age": rng.normal(50.0, 15.0, size=n),
        "ward": rng.choice(["A", "B", "C"], size=n),
        "dose": rng.uniform(0.0, 10.0, size=n),
        "weight": rng.integers(1, 4, size=n).astype(float),
        "cost": rng.normal(size=n),
    }
    # A category that only the last block has, and one that is missing.
    columns["ward"][-1], columns["ward"] = "rare", columns["ward"].astype(object)
    columns["ward"][3] = None
    return pd.DataFrame(columns)


@pytest.fixture
def opened(table, tmp_path):
    """The table outside memory, in blocks of some rows."""

    def make(kind):
        if kind == "dask":
            return frames.from_pandas(table, npartitions=5, sort=False)
        if kind == "polars":
            return polars.from_pandas(table).lazy()
        if kind == "parquet":
            table.to_parquet(tmp_path / "rows.parquet", row_group_size=7)
            return str(tmp_path / "rows.parquet")
        folder = tmp_path / "rows"
        folder.mkdir()
        for k, part in enumerate((table[:1], table[1:30], table[30:])):
            part.to_parquet(folder / f"part-{k}.parquet")
        return folder

    return make


@pytest.fixture
def encoder():
    """Fitted on public data."""
    public = pd.DataFrame({"age": [20.0, 50.0, 80.0], "ward": ["A", "B", "rare"]})
    return make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["ward"])
    ).fit(public)


def _public():
    wards = PublicOneHotEncoder({"ward": ["A", "B", "C", "rare"]})
    return make_column_transformer((PublicScaler(BOUNDS), ["age", "dose"]), (wards, ["ward"]))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("skleak.utils.sources.BLOCK_ELEMENTS", 60)


@pytest.mark.parametrize("kind", mostly_slow(KINDS))
def test_rows_are_encoded_as_in_memory(table, opened, encoder, kind, small_blocks):
    found = BlockwiseTransformer(encoder).fit_transform(opened(kind), y="cost")
    assert found.npartitions > 1
    whole = found.compute()
    assert list(whole.columns) == [*encoder.get_feature_names_out(), "cost"]
    assert_allclose(whole["cost"], table["cost"])
    assert_allclose(whole.drop(columns="cost"), encoder.transform(table), rtol=1e-15)
    assert whole.index.tolist() == list(range(len(table)))


@pytest.mark.parametrize(
    "kind, public",
    [
        pytest.param(kind, public, marks=() if kind == "parquet" else pytest.mark.slow)
        for kind in KINDS
        for public in (True, False)
    ],
)
def test_a_pipeline_is_fitted_as_in_memory(table, opened, encoder, kind, public):
    steps = _public() if public else encoder
    held = make_pipeline(
        clone(steps) if public else FrozenEstimator(steps), PrivateLinearRegression(noise_scale=0.0)
    )
    held.fit(table, table["cost"])
    pipeline = make_pipeline(
        BlockwiseTransformer(steps), PrivateLinearRegression(noise_scale=0.0)
    ).fit(opened(kind), y="cost")
    assert_allclose(pipeline[-1].coef_, held[-1].coef_, rtol=1e-10, atol=1e-12)
    assert_allclose(pipeline.predict(table), held.predict(table), rtol=1e-9, atol=1e-12)
    expected = held[-1].fisher_information_loss(norm="trace")
    assert np.all(np.isinf(expected))


@pytest.mark.slow
def test_weights_are_handed_on(table, opened, encoder):
    model = PrivateLinearRegression(noise_scale=1.0)
    transformer = BlockwiseTransformer(encoder, keep=["weight"])
    pipeline = make_pipeline(transformer, clone(model))
    weight = {"privatelinearregression__sample_weight": "weight"}
    pipeline.fit(opened("parquet"), y="cost", **weight)
    X = encoder.transform(table)
    model.fit(np.asarray(X), table["cost"], sample_weight=table["weight"])
    assert_allclose(
        np.asarray(pipeline[-1].fisher_information_loss_), model.fisher_information_loss_, rtol=1e-9
    )


@pytest.mark.parametrize("kind", mostly_slow(["folder", "polars", "dask"]))
def test_public_transformers_take_the_tables_themselves(table, opened, kind, tmp_path):
    columns = ["age", "dose", "cost"]
    if kind == "dask":
        source = opened(kind)[columns]
    elif kind == "polars":
        source = opened(kind).select(columns)
    else:
        source = opened("dask")[columns]
        source.to_parquet(tmp_path / "some", write_index=False)
        source = tmp_path / "some"
    pipeline = make_pipeline(PublicScaler(BOUNDS), PrivateLogisticRegression(noise_scale=1.0))
    pipeline.set_output(transform="pandas")
    found = pipeline[0].fit_transform(source, y="cost").compute()
    expected = PublicScaler(BOUNDS).fit_transform(table[["age", "dose"]])
    assert_allclose(found[["age", "dose"]], expected, rtol=1e-15)
    assert_allclose(found["cost"], table["cost"])


def test_dask_arrays_stay_arrays(rng):
    X = rng.normal(size=(30, 3))
    lazy = array.from_array(X, chunks=((1, 20, 9), (2, 1)))
    scaler = PublicScaler([(-1.0, 1.0)] * 3)
    found = scaler.fit(lazy).transform(lazy)
    assert found.chunks == ((1, 20, 9), (3,))
    assert_allclose(found.compute(), PublicScaler([(-1.0, 1.0)] * 3).fit_transform(X))
    pipeline = make_pipeline(scaler, PrivateLinearRegression(noise_scale=1.0))
    pipeline.fit(lazy, lazy[:, 0])
    assert pipeline[-1].n_features_in_ == 3


def test_columns_go_by_name(table, opened, encoder):
    blockwise = BlockwiseTransformer(encoder).fit(table)
    other = table[["cost", "ward", "dose", "age"]]
    assert_allclose(blockwise.transform(other), encoder.transform(table))
    with pytest.raises(ValueError, match=r"lack columns.*'age'"):
        blockwise.fit(table.drop(columns="age"))
    with pytest.raises(ValueError, match="`y` names the column 'price', which the table does not"):
        blockwise.fit(opened("polars"), y="price")


def test_clones_keep_what_is_fitted(table, encoder):
    blockwise = BlockwiseTransformer(encoder, keep=["weight"]).set_output(transform="pandas")
    twin = clone(blockwise)
    assert twin.transformer is encoder
    assert twin.keep == ["weight"]
    assert_allclose(twin.transform(table), encoder.transform(table))
    assert list(twin.transform(table).columns) == list(encoder.get_feature_names_out())
    public = clone(BlockwiseTransformer(_public()))
    assert not hasattr(public, "transformer_")
    again = pickle.loads(pickle.dumps(blockwise))
    assert_allclose(again.transform(table), encoder.transform(table))


def test_what_learns_from_records_is_refused(table, opened):
    learning = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["ward"]))
    with pytest.raises(ValueError, match=r"\['StandardScaler', 'OneHotEncoder'\] would learn"):
        BlockwiseTransformer(learning).fit(opened("polars"))


def test_what_mixes_rows_is_refused(table, opened):
    """Attack: a transformer without state that looks at the rows beside a row."""
    centered = FunctionTransformer(lambda X: X[["age"]] - X[["age"]].mean())
    with pytest.raises(ValueError, match="beside other rows"):
        BlockwiseTransformer(centered).fit(opened("parquet"))


def test_names_that_clash_are_refused(table, opened):
    twice = FunctionTransformer(
        lambda X: X[["age"]].to_numpy(), feature_names_out=lambda *_: ["cost"]
    )
    with pytest.raises(ValueError, match="are handed on have"):
        BlockwiseTransformer(twice).fit_transform(opened("polars"), y="cost")


@pytest.mark.parametrize("public", [True, False])
def test_a_served_pipeline_opens_no_file(table, opened, encoder, public, tmp_path):
    """Attack: ask a model that is served about a file of its machine."""
    first = BlockwiseTransformer(_public() if public else encoder)
    model = PrivateLinearRegression(noise_scale=1.0)
    pipeline = make_pipeline(first, model).fit(opened("parquet"), y="cost")
    scaled = make_pipeline(PublicScaler({"age": (0.0, 100.0)}), model)
    scaled.fit(table[["age"]], table["cost"])
    for served in (pipeline, scaled):
        for path in (str(tmp_path / "rows.parquet"), tmp_path / "rows.parquet"):
            with pytest.raises(TypeError, match="opens no file"):
                served.predict(path)


def test_nothing_is_loaded_but_a_few_rows(table, opened, encoder, monkeypatch, small_blocks):
    """Attack: count what is read from the file before anything is computed."""
    from pyarrow.parquet import ParquetFile

    read, load = [], ParquetFile.read_row_groups

    def counted(self, groups, **options):
        found = load(self, groups, **options)
        read.append(found.num_rows)
        return found

    monkeypatch.setattr(ParquetFile, "read_row_groups", counted)
    BlockwiseTransformer(encoder).fit_transform(opened("parquet"), y="cost")
    assert 0 < sum(read) <= len(table)
