import numpy as np
import pandas as pd
import pytest

from skleak.datasets._cache import bundle
from skleak.datasets._tables import one_hot, one_hot_blocks
from skleak.utils._arguments import check_choice


@pytest.fixture
def frame():
    gene = pd.Categorical(["TT", "CC", "TT"], categories=["CC", "CT", "TT"])
    return pd.DataFrame({"gene": gene, "age": [30, 40, 50], "sex": pd.Categorical(list("mfm"))})


def test_one_hot(frame):
    encoded = one_hot(frame)
    assert list(encoded) == ["age", "gene_CT", "gene_TT", "sex_m"]
    expected = [[30, 0, 1, 1], [40, 0, 0, 0], [50, 0, 1, 1]]
    np.testing.assert_array_equal(encoded, expected)
    assert set(encoded.dtypes) == {np.dtype(np.float64)}


def test_blocks_name_the_columns(frame):
    blocks = one_hot_blocks(frame)
    assert blocks == {"gene": ["gene_CT", "gene_TT"], "sex": ["sex_m"]}
    assert set().union(*blocks.values()) < set(one_hot(frame))


def test_arrays_are_writable_and_own_their_data(frame):
    encoded, age = one_hot(frame), frame["age"]
    X, y = bundle("iwpc", encoded, age, list(encoded), "age", False, True)
    assert X.dtype == np.float64
    X[:], y[:] = 0, 0
    assert frame["age"].tolist() == [30, 40, 50]
    assert encoded.to_numpy().any()
    assert bundle("iwpc", frame, age, list(frame), "age", False, True)[0].dtype == object


def test_bundle(frame):
    y = pd.Series([1.0, 2.0, 3.0], name="dose")
    about = list(frame), "dose"
    bunch = bundle("iwpc", frame, y, *about, True, False, sensitive=["gene"])
    assert list(bunch.frame) == ["gene", "age", "sex", "dose"]
    assert bunch.target_names == ["dose"]
    assert bunch.sensitive == ["gene"]
    assert bunch.DESCR.startswith("IWPC")
    assert bundle("iwpc", np.eye(3), y, *about, False, False).frame is None
    X, target = bundle("iwpc", frame, y, *about, True, True)
    pd.testing.assert_frame_equal(X, frame)
    pd.testing.assert_series_equal(target, y)


@pytest.mark.parametrize("value", ["Train", None, 1, ["train"]])
def test_unknown_choice(value):
    with pytest.raises(ValueError, match=r"`subset` must be one of 'train', 'test'; got"):
        check_choice("subset", value, ["train", "test"])
