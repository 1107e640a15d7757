"""The same numbers in any container give the same model, and no container is changed."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skleak.influence.reweighting import total_jacobian
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

# A fit that evens its total leakage says how even it is, whenever that is asked for.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.reweighting='total'. evens:skleak.exceptions.UnevenLeakageWarning"
)

NAMES = ["age", "bmi", "bp", "dose"]


def _fit(cls, X, y, **options):
    weights = options.pop("sample_weight", None)
    return cls(0.1, random_state=0, **options).fit(X, y, sample_weight=weights)


def _assert_same(model, expected, rtol=1e-9):
    assert_allclose(model.coef_, expected.coef_, rtol=rtol)
    assert_allclose(model.intercept_, expected.intercept_, rtol=rtol)
    for name in ("fisher_information_loss_", "diagonal_fisher_information_loss_"):
        assert_allclose(getattr(model, name), getattr(expected, name), rtol=rtol)


CONTAINERS = {
    "list": lambda X: X.tolist(),
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES, index=np.arange(len(X))[::-1]),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csc_array": sparse.csc_array,
    "coo_matrix": sparse.coo_matrix,
}


@pytest.mark.parametrize("container", mostly_slow(CONTAINERS, 0, 3, 4, 5))
@pytest.mark.parametrize("reweighting", mostly_slow([None, "irfil", "total"], 0))
def test_containers_of_records(estimator_class, make_data, rng, container, reweighting):
    data = make_data(estimator_class, rng, n=60 if reweighting else 30)
    options = {"reweighting": reweighting, "alpha": 0.3}
    expected = _fit(estimator_class, data.X, data.y, **options)
    X = CONTAINERS[container](data.X)
    model = _fit(estimator_class, X, data.y, **options)
    _assert_same(model, expected, rtol=1e-6 if reweighting else 1e-9)
    named = container in ("pandas", "polars")
    assert hasattr(model, "feature_names_in_") == named
    assert_allclose(model.predict(X), expected.predict(data.X), rtol=1e-6)
    for per in ("record", "feature", "dataset"):
        assert_allclose(
            model.fisher_information_loss(X, data.y, per=per),
            expected.fisher_information_loss(per=per),
            rtol=1e-6,
        )
    if named:
        assert_array_equal(model.feature_names_in_, NAMES)
        assert_allclose(
            model.fisher_information_loss(features=["dose", "age"]),
            expected.fisher_information_loss(features=[3, 0]),
            rtol=1e-6,
        )
    report = model.leakage_report()
    assert len(report.records) == len(data.X)
    assert_allclose(report.records["fisher_information_loss"], model.fisher_information_loss_)


@pytest.mark.slow
def test_sparse_records_that_are_sparse(estimator_class, data, rng):
    X = data.X * (rng.random(data.X.shape) < 0.4)
    X[:, 0] += 1.0 + np.arange(60) / 60.0  # no two rows alike
    expected = _fit(estimator_class, X, data.y)
    model = _fit(estimator_class, sparse.csr_array(X), data.y)
    _assert_same(model, expected)
    assert_allclose(
        model.leakage_report().features["max_loss"].sort_index(),
        expected.leakage_report().features["max_loss"].sort_index(),
        rtol=1e-9,
    )
    # Sparse and dense rows of the training data are the same records.
    weights = np.arange(60) % 3 + 1.0
    weighted = _fit(estimator_class, sparse.csr_array(X), data.y, sample_weight=weights)
    found = weighted.fisher_information_loss(X[:7], np.asarray(data.y)[:7], per="dataset")
    by_group = weighted.fisher_information_loss(per="group", groups=np.arange(60) < 7)
    assert found == pytest.approx(by_group[True])


def test_sparse_duplicates_and_unsorted_indices(numbers):
    X = numbers.X.copy()
    rows, columns = np.indices(X.shape)
    values = np.concatenate([0.25 * X.ravel(), 0.75 * X.ravel()])
    order = np.random.default_rng(0).permutation(len(values))
    triplets = (
        values[order],
        (np.tile(rows.ravel(), 2)[order], np.tile(columns.ravel(), 2)[order]),
    )
    untidy = sparse.csr_matrix(triplets, shape=X.shape)
    stretched = sparse.csr_array(
        (
            np.tile(untidy.data[:, None] / 2, 2).ravel(),
            np.repeat(untidy.indices, 2),
            2 * untidy.indptr,
        ),
        shape=X.shape,
    )
    assert not stretched.has_canonical_format
    expected = _fit(PrivateLinearRegression, X, numbers.y)
    _assert_same(_fit(PrivateLinearRegression, stretched, numbers.y), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, bool])
def test_types_of_numbers(estimator_class, data, dtype):
    X = np.abs(np.round(data.X)).astype(dtype)
    expected = _fit(estimator_class, X.astype(float), data.y)
    model = _fit(estimator_class, X, data.y)
    _assert_same(model, expected, rtol=1e-12)
    assert model.coef_.dtype == np.float64
    assert model.fisher_information_loss_.dtype == np.float64


def test_single_precision_is_measured_in_double(estimator_class, data):
    expected = _fit(estimator_class, data.X, data.y)
    model = _fit(estimator_class, data.X.astype(np.float32), data.y)
    _assert_same(model, expected, rtol=1e-4)
    assert_allclose(model.predict(data.X.astype(np.float32)), expected.predict(data.X), rtol=1e-3)


@pytest.mark.parametrize(
    "encode",
    mostly_slow(
        [
            lambda y: y.astype(bool),
            lambda y: y.astype(np.int8),
            lambda y: 2 * y - 1,
            lambda y: y.astype(float) * 7.0,
            lambda y: np.where(y == 1, "yes", "no"),
            lambda y: np.where(y == 1, "yes", "no").astype(object),
            lambda y: np.where(y == 1, "yes", "no").tolist(),
            lambda y: pd.Series(np.where(y == 1, "yes", "no"), index=np.arange(60)[::-1]),
            lambda y: pd.Series(pd.Categorical(np.where(y == 1, "yes", "no"))),
            lambda y: pl.Series(np.where(y == 1, "yes", "no")),
            lambda y: pl.Series(y.astype(bool)),
        ]
    ),
    ids=(
        [
            "bool",
            "int8",
            "signs",
            "float",
            "str",
            "object",
            "list",
            "pandas",
            "categorical",
            "polars",
            "polars_bool",
        ]
    ),
)
def test_labels_of_any_kind_leak_the_same(classes, encode):
    expected = _fit(PrivateLogisticRegression, classes.X, classes.y)
    y = encode(classes.y)
    model = _fit(PrivateLogisticRegression, classes.X, y)
    _assert_same(model, expected, rtol=0.0)
    assert_array_equal(model.classes_, np.unique(np.asarray(y)))
    assert_array_equal(
        np.asarray(model.predict(classes.X)) == model.classes_[1], expected.predict(classes.X) == 1
    )
    found = model.fisher_information_loss(classes.X, y)
    assert_array_equal(found, expected.fisher_information_loss_)
    assert_array_equal(
        model.leakage_report(classes.X, y).records["fisher_information_loss"],
        expected.fisher_information_loss_,
    )


def test_targets_of_any_container(numbers):
    expected = _fit(PrivateLinearRegression, numbers.X, numbers.y)
    index = np.arange(60)[::-1]
    for y in (numbers.y.tolist(), pd.Series(numbers.y, index=index), pl.Series(numbers.y)):
        _assert_same(_fit(PrivateLinearRegression, numbers.X, y), expected, rtol=0.0)


def _snapshot(things):
    return [bytes(np.ascontiguousarray(thing)) for thing in things]


# Of so few records the search may not come to its end, which is another matter.
few_records = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@few_records
@pytest.mark.parametrize(
    "order, reweighting",
    mostly_slow(itertools.product("CF", [None, "irfil", "total"]), 0),
)
def test_inputs_are_not_modified(estimator_class, make_data, rng, order, reweighting):
    data = make_data(estimator_class, rng, n=10, d=2)
    X = np.array(data.X, order=order)
    y, weights = np.array(data.y), np.array(data.weights)
    groups = np.arange(10) % 3
    before = _snapshot([X, y, weights, groups])
    model = _fit(estimator_class, X, y, sample_weight=weights, reweighting=reweighting, alpha=0.3)
    model.fisher_information_loss(X, y)
    model.fisher_information_loss(X, y, per="group", groups=groups)
    model.leakage_report(X, y, groups=groups)
    model.predict(X)
    assert _snapshot([X, y, weights, groups]) == before


@pytest.mark.parametrize("container", mostly_slow(["pandas", "csr_array", "csr_matrix"], 0, 1))
def test_containers_are_not_modified(estimator_class, data, container):
    X = CONTAINERS[container](data.X)
    original = X.copy()
    model = _fit(estimator_class, X, data.y)
    model.leakage_report(X, data.y)
    if container == "pandas":
        pd.testing.assert_frame_equal(X, original)
    else:
        assert_array_equal(X.toarray(), original.toarray())


@pytest.mark.slow
def test_read_only_memory_maps(estimator_class, data, tmp_path):
    maps = []
    for name, array in (("X", data.X), ("y", np.asarray(data.y)), ("w", data.weights)):
        np.save(tmp_path / f"{name}.npy", array)
        maps.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    X, y, weights = maps
    model = _fit(estimator_class, X, y, sample_weight=weights)
    expected = _fit(estimator_class, data.X, data.y, sample_weight=data.weights)
    _assert_same(model, expected, rtol=0.0)
    model.fisher_information_loss(X, y)
    model.leakage_report(X, y)
    model.predict(X)


def test_later_edits_do_not_reach_the_model(estimator_class, data):
    X, y, weights = data.X.copy(), np.array(data.y), data.weights.copy()
    model = _fit(estimator_class, X, y, sample_weight=weights)
    before = model.fisher_information_loss()
    X[:], y[:], weights[:] = 0.0, y[::-1].copy(), 7.0
    assert_array_equal(model.fisher_information_loss(), before)
    # Nor do edits of what the model gave away.
    model.fisher_information_loss_[:] = 0.0
    assert_array_equal(model.fisher_information_loss(), before)
    if hasattr(model, "sample_reweights_"):
        model.sample_reweights_[:] = 0.0
    assert_array_equal(model.fisher_information_loss(), before)


@pytest.mark.slow
@few_records
def test_the_global_random_state_is_untouched(estimator_class, make_data, rng):
    data = make_data(estimator_class, rng, n=10, d=2)
    for random_state in (None, 3, np.random.default_rng(0), np.random.RandomState(0)):
        before = np.random.get_state()  # noqa: NPY002
        even = estimator_class(0.1, random_state=random_state, reweighting="irfil", alpha=0.3)
        even.fit(data.X, data.y).fisher_information_loss()
        model = estimator_class(0.1, random_state=random_state, alpha=0.3)
        model.fit(data.X, data.y).leakage_report(groups=np.arange(10) % 2)
        after = np.random.get_state()  # noqa: NPY002
        assert_array_equal(before[1], after[1])
        assert before[2:] == after[2:]


def test_integer_weights_are_repeated_rows(estimator_class, data):
    copies = np.repeat(np.arange(60), data.weights.astype(int))
    weighted = _fit(estimator_class, data.X, data.y, sample_weight=data.weights)
    repeated = _fit(estimator_class, data.X[copies], np.asarray(data.y)[copies])
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)
    # For the fit a weight is so many copies; one person stands behind them, and moves them all.
    expected = data.weights[copies] * repeated.fisher_information_loss_
    assert_allclose(weighted.fisher_information_loss_[copies], expected, rtol=1e-9)
    first = np.unique(copies, return_index=True)[1]
    jacobians = data.weights[:, None, None] * total_jacobian(repeated._state, first) / 0.1
    groups = np.arange(60) % 4
    joint = weighted.fisher_information_loss(per="group", groups=groups)
    for label in range(4):
        together = np.hstack(list(jacobians[groups == label]))
        assert joint[label] == pytest.approx(np.linalg.norm(together, 2), rel=1e-9)
    found = weighted.fisher_information_loss(per="dataset", norm="trace")
    expected = np.sqrt(np.mean(np.sum(jacobians**2, axis=1)))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_weights_of_zero_are_absent_rows(estimator_class, data):
    weights = data.weights.copy()
    weights[[0, 7, 30]] = 0.0
    present = weights > 0.0
    a = _fit(estimator_class, data.X, data.y, sample_weight=weights)
    y = np.asarray(data.y)[present]
    b = _fit(estimator_class, data.X[present], y, sample_weight=weights[present])
    assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    assert_allclose(a.fisher_information_loss_[present], b.fisher_information_loss_, rtol=1e-9)
    assert_array_equal(a.fisher_information_loss_[~present], 0.0)
    assert a.fisher_information_loss(per="dataset") == pytest.approx(
        b.fisher_information_loss(per="dataset"), rel=1e-9
    )
    assert a.leakage_report().dataset["max_loss"] == pytest.approx(
        b.leakage_report().dataset["max_loss"], rel=1e-9
    )


def test_the_unit_of_weights(estimator_class, data):
    a = _fit(estimator_class, data.X, data.y, sample_weight=data.weights)
    b = _fit(estimator_class, data.X, data.y, sample_weight=10.0 * data.weights)
    assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    assert_allclose(a.fisher_information_loss_, b.fisher_information_loss_, rtol=1e-9)
    scalar = _fit(estimator_class, data.X, data.y, sample_weight=2.0)
    plain = _fit(estimator_class, data.X, data.y)
    assert_allclose(plain.fisher_information_loss_, scalar.fisher_information_loss_)


def test_the_order_of_records_does_not_matter(estimator_class, data, rng):
    order = rng.permutation(60)
    a = _fit(estimator_class, data.X, data.y)
    b = _fit(estimator_class, data.X[order], np.asarray(data.y)[order])
    assert_allclose(a.fisher_information_loss_[order], b.fisher_information_loss_, rtol=1e-9)


def test_swapping_the_classes_changes_no_leakage(classes):
    a = _fit(PrivateLogisticRegression, classes.X, classes.y)
    b = _fit(PrivateLogisticRegression, classes.X, 1 - classes.y)
    assert_allclose(a.fisher_information_loss_, b.fisher_information_loss_, rtol=1e-10)
