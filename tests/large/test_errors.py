"""Invalid records outside memory: what is wrong, where, and what to do."""

import sys

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from large_tables import COLUMNS, MODELS, outside, table

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)


@pytest.fixture
def records():
    frame, y, _ = table("squared")
    return frame.to_numpy().copy(), y.to_numpy().copy()


def arrays(*values, chunks=20):
    return [da.from_array(v, chunks=(chunks, *v.shape[1:])) for v in values]


def test_chunks_of_unknown_sizes(records):
    X, y = arrays(*records)
    unknown = X[X[:, 0] > 0.0]
    with pytest.raises(ValueError, match=r"unknown sizes.*X\.compute_chunk_sizes\(\)"):
        PrivateLinearRegression().fit(unknown, y)
    with pytest.raises(ValueError, match=r"y\.compute_chunk_sizes\(\)"):
        PrivateLinearRegression().fit(X, y[y > 0.0])


def test_records_and_targets_that_are_not_aligned(records):
    X, y = arrays(*records)
    with pytest.raises(ValueError, match=r"not aligned: expected 60 values.* got shape \(59,\)"):
        PrivateLinearRegression().fit(X, y[:-1])
    with pytest.raises(ValueError, match="X and `y` are not aligned: expected 60"):
        PrivateLinearRegression().fit(X, records[1][:-1])
    frame = pd.DataFrame(records[0], columns=COLUMNS)
    parts = dd.from_pandas(frame, npartitions=3)
    other = dd.from_pandas(pd.Series(records[1]), npartitions=4)
    with pytest.raises(ValueError, match=r"not aligned: the partitions of X have \(20, 20, 20\)"):
        PrivateLinearRegression().fit(parts, other)


def test_blocks_that_are_not_as_large_as_they_say(records):
    X, y = arrays(*records)
    short = da.map_blocks(lambda block: block[:-1], X, dtype=float, chunks=X.chunks)
    with pytest.raises(ValueError, match="block of X has 19 rows"):
        PrivateLinearRegression().fit(short, y)


@pytest.mark.parametrize("where", ["frame", "parquet", "polars"])
@pytest.mark.parametrize("value, held", [(np.nan, "NaN"), (np.inf, "infinity")])
def test_missing_values_are_named_by_position(where, value, held, tmp_path):
    frame, y, weight = table("squared")
    frame.iloc[37, 1] = frame.iloc[41, 2] = value
    expected = rf"Input X contains {held}.* row 37 of column 'year'; 2 records"
    with pytest.raises(ValueError, match=expected):
        PrivateLinearRegression().fit(*outside(where, frame, y, weight, tmp_path))


def test_invalid_targets_and_weights(records):
    X, y = records
    large, one = arrays(X)[0], np.ones(len(y))
    y[25] = np.nan
    with pytest.raises(ValueError, match="Input y contains NaN, first in row 25"):
        PrivateLinearRegression().fit(large, *arrays(y))
    y[25] = 0.0
    one[44] = -1.0
    with pytest.raises(ValueError, match=r"Negative values.*row 44"):
        PrivateLinearRegression().fit(large, *arrays(y, one))
    with pytest.raises(ValueError, match="only zeros"):
        PrivateLinearRegression().fit(large, *arrays(y, 0.0 * one))
    counts = np.arange(60.0)
    counts[[31, 50]] = -1.0
    with pytest.raises(ValueError, match="got 2 negative targets, the first of them in row 31"):
        PrivatePoissonRegressor().fit(large, *arrays(counts))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        PrivateLogisticRegression().fit(large, *arrays(y))
    mixed = np.where(np.arange(60) < 30, np.array("1", dtype=object), 2)
    with pytest.raises(TypeError, match="types of the target are mixed"):
        PrivateLogisticRegression().fit(large, *arrays(mixed))
    with pytest.raises(ValueError, match="only one class"):
        PrivateLogisticRegression().fit(large, *arrays(np.zeros(60)))
    with pytest.raises(ValueError, match=r"labels of 20 records are not among.*row 2\b"):
        PrivateLogisticRegression(classes=[0, 1]).fit(large, *arrays(np.arange(60) % 3))
    with pytest.raises(ValueError, match=r"rows are longer, the first of them row 0"):
        PrivateLinearRegression(data_norm=1.0).fit(large, *arrays(y))
    with pytest.raises(ValueError, match="singular"):
        PrivateLinearRegression(alpha=0.0).fit(da.ones_like(large), *arrays(y))
    with pytest.raises(ValueError, match="squares overflow"):
        PrivateLinearRegression().fit(large * 1e150, *arrays(y))


def test_new_records_are_checked_as_they_are_walked_through(records):
    X, y = records
    model = PrivateLinearRegression().fit(*arrays(X, y))
    X[33, 2] = np.nan
    losses = model.fisher_information_loss(*arrays(X, y))
    with pytest.raises(ValueError, match="X contains NaN, first in row 33 of column 'x2'"):
        losses.compute()
    with pytest.raises(ValueError, match="has 2 features, but"):
        model.fisher_information_loss(*arrays(X[:, :2], y))
    with pytest.raises(ValueError, match="pass `X` and `y` together"):
        model.fisher_information_loss(arrays(X)[0])
    labels = PrivateLogisticRegression().fit(*arrays(X[:, :2], np.arange(60) % 2))
    losses = labels.fisher_information_loss(*arrays(X[:, :2], np.arange(60) % 3))
    with pytest.raises(ValueError, match=r"of .* records are not among `classes_`"):
        losses.compute()


def test_mixed_types(records, tmp_path):
    frame, y, weight = table("squared")
    parts = dd.from_pandas(frame.assign(y=y), npartitions=3)

    def spoilt(part, partition_info=None):
        return part.astype({"age": str}) if partition_info and partition_info["number"] else part

    mixed = parts.map_partitions(spoilt, meta=parts._meta)
    with pytest.raises(TypeError, match="types of column 'age' are mixed between partitions"):
        PrivateLinearRegression().fit(mixed, "y")
    with pytest.raises(TypeError, match="outside memory, and X does not"):
        PrivateLinearRegression().fit(*records[:1], arrays(records[1])[0])
    with pytest.raises(TypeError, match="X is a Dask array and `y` a Dask series"):
        PrivateLinearRegression().fit(arrays(records[0])[0], parts["y"])
    labels = np.array([1, "b"] * 30, dtype=object)
    with pytest.raises(TypeError, match="some labels are text and others are not"):
        PrivateLogisticRegression().fit(*arrays(records[0], labels))
    with pytest.raises(TypeError, match="must hold numbers; got dtype"):
        PrivateLinearRegression().fit(*arrays(records[0].astype(str), records[1]))
    folder, *rest = outside("folder", frame, y, weight, tmp_path)
    frame[:20].assign(y=y, w=weight[:20], age="old").to_parquet(f"{folder}/part-1.parquet")
    with pytest.raises(
        TypeError, match="types of column 'age' are mixed between partitions: expected float64"
    ):
        PrivateLinearRegression().fit(folder, *rest)
    frame[:20].assign(y=y).to_parquet(f"{folder}/part-1.parquet")
    with pytest.raises(ValueError, match=r"different columns.*differ by \['w'\]"):
        PrivateLinearRegression().fit(folder, *rest)


@pytest.mark.slow
def test_categories_that_differ_between_partitions():
    frame, y, _ = table("logistic")
    parts = dd.from_pandas(frame.assign(y=y.astype("category")), npartitions=3)
    assert PrivateLogisticRegression().fit(parts, "y").classes_.tolist() == ["no", "yes"]

    def other(part, partition_info=None):
        renamed = part["y"].cat.rename_categories({"yes": "si"})
        return part.assign(y=renamed) if partition_info and partition_info["number"] else part

    mixed = parts.map_partitions(other, meta=parts._meta)
    with pytest.raises(ValueError, match="categories of y differ between partitions"):
        PrivateLogisticRegression().fit(mixed, "y")


def test_categories_of_files_are_united(tmp_path):
    frame, y, _ = table("logistic")
    for k, label in enumerate(("no", "yes")):
        some = frame[y == label].assign(y=pd.Categorical([label] * int(np.sum(y == label))))
        some.to_parquet(tmp_path / f"{k}.parquet")
    model = PrivateLogisticRegression().fit(tmp_path, "y")
    assert model.classes_.tolist() == ["no", "yes"]


def test_columns_that_are_not_there(tmp_path):
    frame, y, weight = table("squared")
    path, *_ = outside("parquet", frame, y, weight, tmp_path)
    for where in (path, pl.scan_parquet(path), dd.read_parquet(path)):
        with pytest.raises(ValueError, match="`y` names the column 'target'"):
            PrivateLinearRegression().fit(where, "target")
        with pytest.raises(ValueError, match="requires y to be passed"):
            PrivateLinearRegression().fit(where, None)
    model = PrivateLinearRegression().fit(path, "y", "w")
    frame.drop(columns="year").assign(y=y).to_parquet(tmp_path / "less.parquet")
    with pytest.raises(ValueError, match="X needs the column 'year'"):
        model.fisher_information_loss(tmp_path / "less.parquet", "y")
    frame.assign(y=y, name="x").to_parquet(tmp_path / "text.parquet")
    with pytest.raises(ValueError, match="Could not convert column 'name'"):
        PrivateLinearRegression().fit(tmp_path / "text.parquet", "y")
    for nowhere in ("nowhere.parquet", ""):
        with pytest.raises(FileNotFoundError, match="no file or folder"):
            PrivateLinearRegression().fit(nowhere, "y")
    with pytest.raises(ValueError, match="whose columns have no names"):
        PrivateLinearRegression().fit(da.ones((4, 2), chunks=2), "y")


def test_a_file_that_changes_under_way(tmp_path):
    frame, y, weight = table("squared")
    path, *rest = outside("parquet", frame, y, weight, tmp_path)
    model = PrivateLinearRegression().fit(path, *rest)
    losses = model.fisher_information_loss_
    outside("parquet", frame + 1.0, y, weight, tmp_path)
    with pytest.raises(RuntimeError, match=r"rows\.parquet' changed under way"):
        losses.compute()
    path.unlink()
    with pytest.raises(RuntimeError, match="changed under way"):
        losses.compute()


def test_dask_is_named_where_it_is_not_installed(tmp_path, monkeypatch):
    frame, y, weight = table("squared")
    path, *rest = outside("parquet", frame, y, weight, tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "dask"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"skleak\[parquet\]"):
        PrivateLinearRegression().fit(path, *rest)


def test_a_failed_fit_leaves_the_fit_before(records):
    model = PrivateLinearRegression().fit(*records)
    coef = model.coef_
    with pytest.raises(ValueError, match="not aligned"):
        model.fit(*arrays(records[0], records[1][:-1]))
    assert model.coef_ is coef
    assert not hasattr(model.fit(*arrays(*records)).fit(*records), "n_passes_")


@pytest.mark.parametrize("auditor", [LeakageAuditor, MembershipAuditor])
def test_audits_of_all_records_at_once_take_a_sample(auditor, records):
    X, y = records
    with pytest.raises(AttackNotApplicableError, match="in memory"):
        auditor(PrivateLinearRegression(0.1)).fit(*arrays(X, y))
    with pytest.raises(TypeError, match="`y` of this audit must be in memory; got Array"):
        auditor(PrivateLinearRegression(0.1)).fit(X, arrays(X, y)[1])
    with pytest.raises(TypeError, match="`X_test` of this audit must be in memory; got str"):
        auditor(PrivateLinearRegression(0.1)).fit(X, y, "rows.parquet", y)


def test_labels_of_groups_in_partitions_of_their_own():
    frame, y, _ = table("squared")
    labels = pd.Series(np.where(np.arange(len(y)) % 3, "a", "b"), name="ward")
    parts = dd.from_pandas(frame.assign(y=y), npartitions=4)
    model = MODELS["squared"](noise_scale=1.0, random_state=0).fit(parts[list(frame)], parts["y"])
    inside = MODELS["squared"](noise_scale=1.0, random_state=0).fit(frame, y)
    expected = inside.fisher_information_loss(per="group", groups=labels)
    for npartitions in (1, 4, 7):
        groups = dd.from_pandas(labels, npartitions=npartitions)
        found = model.fisher_information_loss(per="group", groups=groups)
        pd.testing.assert_series_equal(found, expected, check_index_type=False, rtol=1e-9)
    with pytest.raises(ValueError, match="one label per record"):
        model.fisher_information_loss(per="group", groups=dd.from_pandas(labels[1:], npartitions=4))


def test_a_target_of_several_numbers():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.0, 2.0, 4.0], "b": [1.0, 3.0, 2.0]}).lazy()
    both = frame.with_columns(y=polars.struct("a", "b"))
    with pytest.raises(ValueError, match="target to numbers"):
        PrivateLinearRegression().fit(both, "y")
