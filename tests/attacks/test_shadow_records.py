"""Candidates and reference records in one table, of any kind, and in one coding."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.naive_bayes import GaussianNB

from skleak.adversary.knowledge import take_rows
from skleak.adversary.records import Records, check_apart, stack_records, stack_targets
from skleak.attacks import LikelihoodRatioMembership

KINDS = {
    "array": np.asarray,
    "frame": lambda X: pd.DataFrame(X, columns=["a", "b"]),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b"]),
    "sparse": sparse.csr_array,
    "matrix": sparse.csr_matrix,
}


def apart(X, y, X_reference, y_reference):
    """Check that candidates are not among reference records."""
    everyone = Records(X, y).and_others(Records(X_reference, y_reference))
    check_apart(everyone, np.arange(len(y)), np.arange(len(y), len(everyone.y)))


def plain(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


@pytest.mark.parametrize("kind", KINDS)
def test_stacking_and_picking(kind, rng):
    X, other = rng.normal(size=(5, 2)), rng.normal(size=(3, 2))
    both = stack_records(KINDS[kind](X), KINDS[kind](other))
    assert isinstance(both, type(KINDS[kind](X))) or kind == "matrix"
    np.testing.assert_array_equal(plain(both), np.vstack([X, other]))
    rows = np.array([6, 0, 3])
    np.testing.assert_array_equal(plain(take_rows(both, rows)), np.vstack([X, other])[rows])


def test_rows_go_by_place_not_by_index(rng):
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[2, 1, 0])
    assert take_rows(X, np.array([0]))["a"].tolist() == [1.0]
    assert take_rows(X["a"], np.array([0])).tolist() == [1.0]
    both = stack_records(X, X + 10.0)
    assert take_rows(both, np.array([0, 3]))["a"].tolist() == [1.0, 11.0]


def test_mixed_kinds(rng):
    X = rng.normal(size=(4, 2))
    frame, polars = KINDS["frame"](X), KINDS["polars"](X)
    np.testing.assert_array_equal(stack_records(frame, polars), np.vstack([X, X]))
    assert sparse.issparse(stack_records(X, sparse.csr_array(X)))
    for one, other in ((frame, X), (X, frame)):
        with pytest.raises(TypeError, match="both be DataFrames or both be arrays"):
            stack_records(one, other)


def test_categories_of_both():
    one = pd.DataFrame({"c": pd.Categorical(["x", "y"]), "n": [1, 2]})
    other = pd.DataFrame({"c": pd.Categorical(["z", "x"]), "n": [3, 4]})
    both = stack_records(one, other)
    assert isinstance(both["c"].dtype, pd.CategoricalDtype)
    assert both["c"].tolist() == ["x", "y", "z", "x"]
    assert both["n"].tolist() == [1, 2, 3, 4]


def test_texts_and_images(rng):
    texts = np.array(["a b", "c"], dtype=object)
    assert stack_records(texts, np.array(["d"])).tolist() == ["a b", "c", "d"]
    assert stack_records(pd.Series(["a"]), pd.Series(["b"])).tolist() == ["a", "b"]
    assert stack_records(np.zeros((2, 3, 3)), np.ones((1, 3, 3))).shape == (3, 3, 3)


def test_targets_in_one_coding():
    assert stack_targets(np.array([1, 0]), np.array([True])).tolist() == [1, 0, 1]
    assert stack_targets(np.array(["a"]), np.array(["bb"], dtype=object)).tolist() == ["a", "bb"]
    for other in (["0", "1"], np.array(["0", "1"], dtype=object)):
        with pytest.raises(ValueError, match="must be coded alike"):
            stack_targets(np.array([0, 1]), np.asarray(other))


def test_labels_in_common():
    X, model = np.arange(16.0)[:, None], GaussianNB()
    attack = LikelihoodRatioMembership(model, n_shadow_models=4, random_state=0)
    y = np.arange(8) % 2
    attack.fit(X[:8], np.ones(8, int), X[8:], y == 1)
    attack.fit(X[:8], np.array(["a"] * 8), X[8:], np.array(["a", "b"])[y])
    with pytest.raises(ValueError, match="no label in common"):
        attack.fit(X[:8], np.array(["yes", "no"])[y], X[8:], np.array(["Yes", "No"])[y])


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_among_the_references(kind, rng):
    X, other = rng.normal(size=(8, 2)), rng.normal(size=(20, 2))
    y, y_other = np.arange(8) % 2, np.arange(20) % 2
    make = KINDS[kind]
    apart(make(X), y, make(other), y_other)
    other[3] = X[5]
    y_other[3] = 1 - y[5]
    apart(make(X), y, make(other), y_other)  # another target: another record
    y_other[3] = y[5]
    with pytest.warns(UserWarning, match="1 of 8 candidates equal a reference record"):
        apart(make(X), y, make(other), y_other)
    with pytest.raises(ValueError, match="8 of 8 candidates are among the reference records"):
        apart(make(X), y, make(np.vstack([other, X])), np.append(y_other, y))


def test_records_are_compared_by_value():
    number = np.array([[0.0, 1.0], [2.0, np.nan]])
    frame = pd.DataFrame({"a": [-0.0, 2.0], "b": [1.0, np.nan]})
    with pytest.raises(ValueError, match="2 of 2"):
        apart(frame, np.array([0, 1]), frame.abs(), np.array([False, True]))
    # Another NaN than that of NumPy, as hardware makes it of 0 / 0.
    number[1, 1] = -np.nan
    for form in (np.asarray, sparse.csr_array):
        with pytest.raises(ValueError, match="2 of 2"):
            apart(form(frame.to_numpy()), np.array([0, 1]), form(number), np.array([0, 1]))
    whole = pd.DataFrame({"a": np.array([1, 2], dtype=np.int8), "c": ["x", "y"]})
    other = pd.DataFrame({"a": [1.0, 2.0], "c": pd.Categorical(["x", "y"])})
    with pytest.raises(ValueError, match="2 of 2"):
        apart(whole, np.array(["a", "b"]), other, np.array(["a", "b"], dtype=object))
    stored = sparse.csr_array((np.array([0.0, 3.0]), (np.array([0, 0]), np.array([0, 1]))), (1, 2))
    with pytest.raises(ValueError, match="1 of 1"):
        apart(stored, np.array([1.0]), sparse.csr_array([[0.0, 3.0]]), np.array([1]))


def test_columns_are_not_interchangeable():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart(np.array([[1.0, 2.0]]), np.array([0]), np.array([[2.0, 1.0]]), np.array([0]))
