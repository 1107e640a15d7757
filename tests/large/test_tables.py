"""Tables as people have them: written by pandas and Dask, filtered, of types beside float64."""

import contextlib
from decimal import Decimal
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import mostly_slow
from large_tables import COLUMNS, MODELS, table
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.preprocessing import BlockwiseTransformer


@pytest.fixture
def frame():
    records, y, _ = table("squared")
    return records.assign(y=y)


def noiseless(model):
    return model._state.factor.coefficients


def assert_same(found, inside):
    expected = noiseless(inside)
    assert_allclose(noiseless(found), expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
    losses = np.asarray(found.fisher_information_loss_)
    assert_allclose(losses, inside.fisher_information_loss_, rtol=1e-9)


def files(folder, *parts):
    folder.mkdir()
    for k, part in enumerate(parts):
        part.to_parquet(folder / f"part-{k}.parquet")
    return folder


@pytest.mark.parametrize("kind", mostly_slow(MODELS))
def test_blocks_without_records_take_no_part(kind):
    records, y, weight = table(kind)
    X, y, chunks = records.to_numpy(), y.to_numpy(), (0, 7, 0, 0, 33, 20, 0)
    weight[:7] = 0.0  # nor does a block whose records do not count
    arrays = [da.from_array(v, chunks=(chunks, *v.shape[1:])) for v in (X, y, weight)]
    with dask.config.set(scheduler="sync"):
        found = MODELS[kind](random_state=0).fit(*arrays)
        assert_same(found, MODELS[kind](random_state=0).fit(X, y, weight))
        if kind == "squared":
            assert found.leakage_report().dataset["n_records"] == np.sum(weight > 0.0)


def test_a_filtered_frame_has_empty_partitions(frame):
    parts = dd.from_pandas(frame, npartitions=6)
    some = frame[(frame.index > 20) & (frame["age"] > 0.0)]
    found = PrivateLinearRegression().fit(
        parts[(parts.index.to_series() > 20) & (parts["age"] > 0.0)], "y"
    )
    assert_same(found, PrivateLinearRegression().fit(some[COLUMNS], some["y"]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask, as it writes
def test_the_index_of_a_file_is_no_column(frame, tmp_path):
    inside = PrivateLinearRegression().fit(frame[COLUMNS], frame["y"])
    shuffled = np.random.default_rng(0).permutation(len(frame))
    indexed = [frame.set_index(shuffled), frame.set_index(shuffled).rename_axis("id")]
    indexed.append(frame.set_index([shuffled, shuffled.astype(str)]))
    for k, written in enumerate(indexed):
        written.to_parquet(tmp_path / f"{k}.parquet")
        found = PrivateLinearRegression().fit(tmp_path / f"{k}.parquet", "y")
        assert_array_equal(found.feature_names_in_, COLUMNS)
        assert_same(found, inside)
    dd.from_pandas(frame, npartitions=3).to_parquet(tmp_path / "dask")
    assert_same(PrivateLinearRegression().fit(tmp_path / "dask", "y"), inside)
    # One of the files has an index of its own, the other has none to write.
    some = files(tmp_path / "rows", frame[:20], frame[20:].set_index(shuffled[20:]))
    assert_same(PrivateLinearRegression().fit(some, "y"), inside)


def test_hidden_files_are_no_part_of_a_table(frame, tmp_path):
    folder = files(tmp_path / "rows", frame[:20], frame[20:])
    (folder / "_temporary").mkdir()
    (folder / ".ipynb_checkpoints").mkdir()
    for name in ("_temporary/0", ".ipynb_checkpoints/part-0", ".part-0"):
        frame.to_parquet(folder / f"{name}.parquet")
    inside = PrivateLinearRegression().fit(frame[COLUMNS], frame["y"])
    assert_same(PrivateLinearRegression().fit(folder, "y"), inside)


def test_folders_by_the_value_of_a_column_are_read_by_others(frame, tmp_path):
    frame["ward"] = np.arange(len(frame)) // 30
    frame.to_parquet(tmp_path / "rows", partition_cols=["ward"])
    with pytest.raises(ValueError, match=r"'ward=0' says\. Pass polars\.scan_parquet"):
        PrivateLinearRegression().fit(tmp_path / "rows", "y")
    inside = PrivateLinearRegression().fit(frame[[*COLUMNS, "ward"]], frame["y"])
    lazy = pl.scan_parquet(tmp_path / "rows", hive_partitioning=True)
    parts = dd.read_parquet(tmp_path / "rows")
    for found in (lazy, parts):
        assert_same(PrivateLinearRegression().fit(found, "y"), inside)


@pytest.mark.parametrize("n_files", mostly_slow([2, 9], 0))
def test_columns_of_several_files_that_dask_would_fuse(n_files, frame, tmp_path):
    cuts = np.linspace(0, len(frame), n_files + 1).astype(int)
    parts = [frame[a:b] for a, b in pairwise(cuts)]
    rows = dd.read_parquet(files(tmp_path / "rows", *parts))
    inside = PrivateLinearRegression().fit(frame[COLUMNS], frame["y"])
    found = PrivateLinearRegression().fit(rows[COLUMNS], rows["y"])
    assert_same(found, inside)
    groups = np.where(np.arange(len(frame)) % 3, "a", "b")
    rows = dd.read_parquet(files(tmp_path / "g", *(p.assign(g=groups[p.index]) for p in parts)))
    expected = inside.fisher_information_loss(per="group", groups=groups)
    of_groups = found.fisher_information_loss(per="group", groups=rows["g"])
    pd.testing.assert_series_equal(of_groups, expected, check_index_type=False, rtol=1e-9)


@pytest.mark.slow
def test_types_of_columns_and_targets(frame, tmp_path):
    age = np.arange(len(frame)) % 5
    columns = {
        "decimal": [Decimal(int(v)) / 4 for v in age],
        "nullable": pd.array(age, "Int8"),
        "category": pd.Categorical(age),
    }
    for k, (name, values) in enumerate(columns.items()):
        typed = frame.assign(age=values)
        inside = PrivateLinearRegression().fit(typed[COLUMNS], typed["y"])
        typed.to_parquet(tmp_path / f"{k}.parquet")
        tables = [tmp_path / f"{k}.parquet", pl.scan_parquet(tmp_path / f"{k}.parquet")]
        if name != "category":  # polars casts none
            assert_same(PrivateLinearRegression().fit(tables[1], "y"), inside)
        tables[1] = dd.read_parquet(tables[0])
        for found in tables:
            assert_same(PrivateLinearRegression().fit(found, "y"), inside)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    mostly_slow(["int8", "bool", "Int8", "boolean", "category", "int64[pyarrow]"], 4),
)
def test_types_of_labels(kind, frame, tmp_path):
    codes = np.arange(len(frame)) % 2
    labels = pd.Series(codes).astype(kind)
    typed = frame.assign(y=labels)
    inside = PrivateLogisticRegression().fit(typed[COLUMNS], typed["y"])
    typed.to_parquet(tmp_path / "rows.parquet")
    path = tmp_path / "rows.parquet"
    parts = dd.from_pandas(typed, npartitions=3)
    wheres = [path, dd.read_parquet(path), parts]
    with contextlib.suppress(pl.exceptions.ComputeError):  # older Polars: only text is categorical
        pl.scan_parquet(path).collect()
        wheres.append(pl.scan_parquet(path))
    for where in wheres:
        found = PrivateLogisticRegression().fit(where, "y")
        assert_array_equal(found.classes_, inside.classes_)
        assert_same(found, inside)


def test_labels_that_the_type_of_the_first_file_cannot_hold(frame, tmp_path):
    parts = frame[:30].assign(y=np.int8(1)), frame[30:].assign(y=300)
    found = PrivateLogisticRegression().fit(files(tmp_path / "rows", *parts), "y")
    assert_array_equal(found.classes_, [1, 300])
    lazy = pl.from_pandas(frame).lazy().with_columns(y=pl.lit(1).cast(pl.Decimal(4, 1)))
    with pytest.raises(ValueError, match="Unknown label type: decimal"):
        PrivateLogisticRegression().fit(lazy, "y")


@pytest.mark.parametrize("chunks", [10_001, 5_001])
def test_labels_that_are_no_classes_are_refused_where_they_lie(chunks):
    X, y = (da.arange(10_001, chunks=chunks) for _ in range(2))
    with pytest.raises(ValueError, match="more than 10000 distinct values"):
        PrivateLogisticRegression().fit(X[:, None] / 1e4, y)


def test_longer_labels_that_begin_as_a_class_are_none(frame):
    y = np.where(np.arange(len(frame)) % 2, "yes", "no")
    X = da.from_array(frame[COLUMNS].to_numpy(), chunks=20)
    model = PrivateLogisticRegression().fit(X, da.from_array(y, chunks=20))
    other = da.from_array(np.where(y == "yes", "yes, twice", y), chunks=20)
    with pytest.raises(ValueError, match="not among `classes_`"):
        model.fisher_information_loss(X, other).compute()


def test_lazy_frames_whose_rows_come_in_another_order(frame):
    lazy = pl.from_pandas(frame).lazy()
    with pytest.raises(RuntimeError, match="other rows than before, or the same in another order"):
        PrivateLinearRegression().fit(lazy.select(pl.all().shuffle()), "y")
    inside = PrivateLinearRegression().fit(frame[COLUMNS], frame["y"])
    grouped = lazy.group_by("y", maintain_order=True).agg(pl.col(COLUMNS).first())
    assert_same(PrivateLinearRegression().fit(grouped, "y"), inside)


def test_a_lazily_read_file_that_changes_under_way(frame, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    model = PrivateLinearRegression().fit(pl.scan_parquet(tmp_path / "rows.parquet"), "y")
    (frame + 1.0).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(RuntimeError, match="Let nobody write to its files"):
        model.fisher_information_loss_.compute()


def test_names_of_columns(frame, tmp_path):
    numbered = frame.rename(columns={name: k for k, name in enumerate(COLUMNS)})
    found = PrivateLinearRegression().fit(dd.from_pandas(numbered, npartitions=2), "y")
    assert not hasattr(found, "feature_names_in_")
    twice = pd.concat([frame[["age"]], frame], axis=1)
    with pytest.raises(ValueError, match="several columns of the name 'age'"):
        PrivateLinearRegression().fit(dd.from_pandas(twice, npartitions=2), "y")
    with pytest.raises(TypeError, match="'y' names a column, as it does of a table outside"):
        PrivateLinearRegression().fit(frame, "y")
    (tmp_path / "rows.csv").write_text("age,y\n1,2\n")
    with pytest.raises(ValueError, match=r"rows\.csv' is no Parquet file"):
        PrivateLinearRegression().fit(tmp_path / "rows.csv", "y")


@pytest.mark.slow
def test_records_that_are_measured_go_by_their_index(frame, tmp_path):
    frame.index = [f"person {k}" for k in range(len(frame))]
    model = PrivateLinearRegression().fit(frame[COLUMNS], frame["y"])
    parts = dd.from_pandas(frame[::-1], npartitions=3, sort=False)
    model.fisher_information_loss(parts, "y", out=tmp_path / "losses.parquet")
    losses = pd.read_parquet(tmp_path / "losses.parquet")["fisher_information_loss"]
    assert losses.index.tolist() == frame.index[::-1].tolist()
    assert_allclose(losses[::-1], model.fisher_information_loss_, rtol=1e-9)
    assert model.leakage_report(parts, "y").records.index[0] == losses.idxmax()


def test_targets_in_other_containers_than_a_frame(frame):
    parts = dd.from_pandas(frame, npartitions=3)
    inside = PrivateLinearRegression().fit(frame[COLUMNS], frame["y"])
    for y in (parts[["y"]], frame["y"].tolist(), frame[["y"]].to_numpy()):
        assert_same(PrivateLinearRegression().fit(parts[COLUMNS], y), inside)
    with pytest.raises(ValueError, match="`sample_weight` are not aligned: expected 60 values"):
        PrivateLinearRegression().fit(parts[COLUMNS], parts["y"], 2.0)


@pytest.mark.parametrize("missing", mostly_slow([False, True], 1))
def test_text_that_is_missing_is_imputed_and_encoded_as_in_memory(missing, frame, tmp_path):
    ward = pd.Series(np.array(["A", "B", "C"])[np.arange(len(frame)) % 3])
    frame["ward"] = ward.where(np.arange(len(frame)) % 7 > 0)
    frame["yes"] = pd.Series(np.arange(len(frame)) % 2 > 0, dtype=object)
    frame.loc[5, "yes"] = None if missing else True
    columns = [*COLUMNS, "ward", "yes"]
    impute = SimpleImputer(strategy="most_frequent", missing_values=np.nan)
    unknown = SimpleImputer(strategy="constant", fill_value=True, missing_values=None)
    encoder = make_column_transformer(
        (make_pipeline(impute, OneHotEncoder()), ["ward"]),
        (make_pipeline(unknown, OneHotEncoder()), ["yes"]),
        remainder="passthrough",
    ).fit(frame[columns])
    model = PrivateLinearRegression()
    inside = model.fit(encoder.transform(frame[columns]), frame["y"])
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=13)
    for where in (tmp_path / "rows.parquet", pl.scan_parquet(tmp_path / "rows.parquet")):
        pipeline = make_pipeline(BlockwiseTransformer(encoder), PrivateLinearRegression())
        assert_same(pipeline.fit(where, y="y")[-1], inside)
    parts = dd.from_pandas(frame.drop(columns="yes"), npartitions=3)
    encoder = make_pipeline(impute, OneHotEncoder()).fit(frame[["ward"]])
    expected = encoder.transform(frame[["ward"]]).toarray()
    assert_allclose(BlockwiseTransformer(encoder).transform(parts[["ward"]]), expected)


@pytest.mark.slow
def test_dask_frames_whose_rows_come_in_another_order(frame):
    parts = dd.from_pandas(frame, npartitions=3)
    # As merges and shuffles give them: other rows first each time.
    mixed = parts.map_partitions(lambda part: part.sample(frac=1.0), meta=frame)
    for given in ((mixed, "y"), (mixed[COLUMNS], mixed["y"])):
        with pytest.raises(RuntimeError, match=r"other rows than before.*frame\.persist\(\)"):
            PrivateLinearRegression().fit(*given)
    turned = parts["y"].map_partitions(lambda part: part[::-1])
    with pytest.raises(RuntimeError, match="the same in another order"):
        PrivateLinearRegression().fit(parts[COLUMNS], turned)
    kept = mixed.persist()
    found = PrivateLinearRegression().fit(kept[COLUMNS], kept["y"])
    expected = noiseless(PrivateLinearRegression().fit(frame[COLUMNS], frame["y"]))
    assert_allclose(noiseless(found), expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
