"""Leakage written to Parquet files: aligned with the records, whole or not at all."""

import os
import stat

import numpy as np
import pandas as pd
import pytest

from skleak.linear_model import PrivateLinearRegression
from skleak.utils._files import write_table

pytest.importorskip("pyarrow")
dask = pytest.importorskip("dask")
array = pytest.importorskip("dask.array")
frames = pytest.importorskip("dask.dataframe")

CHUNKS = [(1,) * 12, (5, 1, 6), (12,)]


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def X(rng):
    names = [f"person {k}" for k in range(12)]
    return pd.DataFrame(rng.normal(size=(12, 3)), columns=["age", "bmi", "bp"], index=names)


@pytest.fixture
def y(X, rng):
    return X["age"] + rng.normal(size=12)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("per", ["record", "feature"])
def test_the_file_has_what_memory_has(X, y, chunks, per, tmp_path):
    held = PrivateLinearRegression(noise_scale=1.0).fit(X.to_numpy(), y)
    lazy = PrivateLinearRegression(noise_scale=1.0).fit(
        array.from_array(X.to_numpy(), chunks=(chunks, -1)),
        array.from_array(y.to_numpy(), chunks=(chunks,)),
    )
    path = lazy.fisher_information_loss(per=per, out=tmp_path / "leakage.parquet")
    found = pd.read_parquet(path)
    assert found.index.name == "record"
    assert found.index.tolist() == list(range(12))
    expected = held.fisher_information_loss(per=per).reshape(12, -1)
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-9)
    assert path == tmp_path / "leakage.parquet"


def test_labels_of_frames_are_the_index(X, y, tmp_path):
    frame = frames.from_pandas(X, npartitions=3, sort=False)
    target = frames.from_pandas(y, npartitions=3, sort=False)
    lazy = PrivateLinearRegression(noise_scale=1.0).fit(frame, target)
    held = PrivateLinearRegression(noise_scale=1.0).fit(X, y)
    for name, model in (("lazy", lazy), ("held", held)):
        path = model.fisher_information_loss(per="feature", out=str(tmp_path / f"{name}.parquet"))
        found = pd.read_parquet(path)
        assert list(found.columns) == ["age", "bmi", "bp"]
        assert found.index.tolist() == X.index.tolist()
        np.testing.assert_allclose(found, held.fisher_information_loss(per="feature"), rtol=1e-9)


def test_only_the_owner_may_read_it(X, y, tmp_path):
    model = PrivateLinearRegression(noise_scale=1.0).fit(X, y)
    path = model.fisher_information_loss(out=tmp_path / "leakage.parquet")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr("skleak.utils._files._ELEMENTS", 400)


def test_a_block_that_fails_leaves_nothing_behind(tmp_path, small_groups):
    """Attack: the third block cannot be computed, when two are written already."""

    def fails(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 2:
            raise OSError("the disk is gone")
        return block

    zeros = array.zeros((300, 4), chunks=(100, 4)).map_blocks(fails, dtype=float)
    older = tmp_path / "leakage.parquet"
    write_table(older, np.ones((2, 4)), list("abcd"))
    before = older.read_bytes()
    with pytest.raises(OSError, match="gone"):
        write_table(older, zeros, list("abcd"))
    assert older.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["leakage.parquet"]


def test_one_group_of_rows_is_in_memory_at_once(tmp_path, small_groups):
    parquet = pytest.importorskip("pyarrow.parquet")
    wide = array.zeros((600, 4), chunks=(20, 4))
    path = write_table(tmp_path / "wide.parquet", wide, list("abcd"))
    footer = parquet.ParquetFile(path).metadata
    sizes = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
    assert sum(sizes) == 600
    assert sizes == [100] * 6


@pytest.mark.parametrize(
    "index", [pd.MultiIndex.from_product([["a", "b"], range(6)]), pd.RangeIndex(5, 17, name="id")]
)
def test_other_labels(X, y, index, tmp_path):
    model = PrivateLinearRegression(noise_scale=1.0).fit(X.set_axis(index), y.set_axis(index))
    found = pd.read_parquet(model.fisher_information_loss(out=tmp_path / "leakage.parquet"))
    if index.nlevels == 1:
        assert (found.index.tolist(), found.index.name) == (index.tolist(), "id")
    else:
        assert found.index[7] == "('b', 1)"


def test_what_cannot_be_written_is_refused(X, y, tmp_path):
    model = PrivateLinearRegression(noise_scale=1.0).fit(X, y)
    with pytest.raises(ValueError, match="per='dataset'"):
        model.fisher_information_loss(per="dataset", out=tmp_path / "leakage.parquet")
    with pytest.raises(FileNotFoundError, match="no folder"):
        model.fisher_information_loss(out=tmp_path / "nowhere" / "leakage.parquet")
    with pytest.raises(IsADirectoryError, match="is the folder"):
        model.fisher_information_loss(out=tmp_path)
    mixed = X.set_axis(["a", 1, 2.5, *range(9)])
    with pytest.raises(TypeError, match="mixed types"):
        PrivateLinearRegression(noise_scale=1.0).fit(mixed, y).fisher_information_loss(
            out=tmp_path / "leakage.parquet"
        )
    assert not list(tmp_path.iterdir())


def test_only_its_own_files_are_replaced(X, y, tmp_path):
    """Attack on the user's own data: the path of the training records as that of the losses."""
    people, notes = tmp_path / "people.parquet", tmp_path / "notes.txt"
    X.assign(dose=y).to_parquet(people)
    notes.write_text("mine")
    model = PrivateLinearRegression(noise_scale=1.0).fit(people, "dose")
    for path in (people, notes):
        before = path.read_bytes()
        with pytest.raises(FileExistsError, match="another path"):
            model.fisher_information_loss(per="feature", out=path)
        assert path.read_bytes() == before
    own = tmp_path / "leakage.parquet"
    model.fisher_information_loss(out=own)
    model.fisher_information_loss(per="feature", out=own)
    assert list(pd.read_parquet(own).columns) == ["age", "bmi", "bp"]
