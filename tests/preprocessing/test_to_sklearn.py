"""scikit-learn's own transformers in place of ours."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skleak.preprocessing import (
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    PublicTargetScaler,
    RowNormClipper,
)

TABLE = pd.DataFrame({"a": [0.0, 1.0, np.nan, 5.0, -2.0], "b": [1.0, np.nan, 0.0, 1e300, -1e300]})
WORDS = pd.DataFrame(
    {"a": pd.Series(["x", "y", np.nan, "z"], dtype=object), "b": [1.0, 0.0, 7.0, np.nan]}
)
CASES = [
    (PublicScaler({"a": (0, 3), "b": (-1, 1)}, feature_range=(0, 1)), TABLE),
    (PublicTargetScaler((0, 3)), TABLE[["a"]].dropna()),
    (PublicImputer({"a": 0.5, "b": 2}, add_indicator=True), TABLE),
    (PublicImputer(["u", "v"]), WORDS),
    (PublicOneHotEncoder({"a": ["y", "x"], "b": [0, 1]}), WORDS),
    (PublicOneHotEncoder({"a": ["y", "x", None], "b": [0, 1, None]}), WORDS),
    (PublicOneHotEncoder({"a": ["y", "x"], "b": [False, True]}), WORDS.dropna().iloc[:2]),
]


@pytest.mark.parametrize(("ours", "table"), CASES, ids=lambda case: repr(case)[:40])
@pytest.mark.parametrize("named", [True, False])
def test_they_transform_alike(ours, table, named):
    if not named:
        parameter = next(iter(ours._parameter_constraints))
        value = getattr(ours, parameter)
        value = list(value.values()) if isinstance(value, dict) else value
        ours, table = type(ours)(**{**ours.get_params(), parameter: value}), table.to_numpy()
    ours.fit(table)
    theirs = ours.to_sklearn()
    assert type(theirs).__module__.startswith("sklearn.")
    assert_array_equal(theirs.transform(table), ours.transform(table))
    assert theirs.n_features_in_ == ours.n_features_in_
    assert hasattr(theirs, "feature_names_in_") == named
    copy = ours.public_copy()
    assert_array_equal(copy.transform(table), ours.transform(table))
    assert list(copy.get_feature_names_out()) == list(ours.get_feature_names_out())


def test_names_that_scikit_learn_would_give_otherwise():
    encoder = PublicOneHotEncoder({"b": [0, 1, None]}).set_output(transform="pandas")
    with pytest.raises(ValueError, match=r"would name its columns otherwise, \['b_0.0'"):
        encoder.fit(WORDS[["b"]]).to_sklearn()


def test_a_clipper_has_no_counterpart():
    with pytest.raises(NotImplementedError, match="shortens long rows only"):
        RowNormClipper(1.0).fit([[1.0]]).to_sklearn()


def test_a_copy_is_of_what_was_fitted():
    scaler = PublicScaler((0, 2)).fit([[1.0, 1.0]])
    scaler.set_params(bounds=(0, 200))
    assert scaler.public_copy().bounds == [[0.0, 2.0], [0.0, 2.0]]
