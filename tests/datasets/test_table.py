import numpy as np
import pandas as pd
import pytest

from skleak.datasets._table import bundle, bundle_frame, one_hot, one_hot_blocks
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
    X, y = bundle_frame(one_hot(frame), frame["age"], False, True, "Words.")
    assert X.dtype == np.float64
    X[:], y[:] = 0, 0
    assert frame["age"].tolist() == [30, 40, 50]
    assert bundle_frame(frame, frame["gene"], False, True, "Words.")[0].dtype == object


def test_bundle(frame):
    y = pd.Series([1.0, 2.0, 3.0], name="dose")
    options = {"feature_names": list(frame), "target_name": "dose", "descr": "Words."}
    bunch = bundle(frame, y, return_X_y=False, sensitive=["gene"], **options)
    assert list(bunch.frame) == ["gene", "age", "sex", "dose"]
    assert bunch.target_names == ["dose"]
    assert bunch.sensitive == ["gene"]
    assert bundle(np.eye(3), y, return_X_y=False, **options).frame is None
    assert bundle(frame, y, return_X_y=True, **options) == (frame, y)


@pytest.mark.parametrize("value", ["Train", None, 1, ["train"]])
def test_unknown_choice(value):
    with pytest.raises(ValueError, match=r"`subset` must be one of 'train', 'test'; got"):
        check_choice("subset", value, ["train", "test"])
