"""Privacy of single records outside memory: that of memory, or no less."""

import dask.array as da
import numpy as np
import pytest
from helpers import mostly_slow
from large_tables import MODELS, outside, records, table
from numpy.testing import assert_allclose
from sklearn.base import clone

from skleak.exceptions import AttackNotApplicableError
from skleak.mechanisms import MaxLeakage

NAMES = ["mu", "epsilon", "true_positives_at_1pct", "success_at_baseline", "once_in"]


def both(kind, rng, n=60, chunks=(1, 50, 9), **options):
    given = records(kind, rng, n)
    large = [da.from_array(v, chunks=(chunks, -1)[: v.ndim]) for v in given]
    options = {"noise_scale": 0.3, "alpha": 0.05} | options
    return [MODELS[kind](**options).fit(*records) for records in (given, large)]


@pytest.mark.parametrize("options", mostly_slow([{}, {"fit_intercept": False}, {"alpha": 0.0}]))
def test_all_records_under_the_squared_loss(options, rng):
    inside, found = both("squared", rng, **options)
    expected = inside.individual_privacy(delta=1e-5, baseline=0.01)
    lazy = found.individual_privacy(delta=1e-5, baseline=0.01)
    assert isinstance(lazy, da.Array)
    assert lazy.chunks == ((1, 50, 9),)
    table = lazy.compute()
    assert list(table.dtype.names) == NAMES
    for name in NAMES:
        assert_allclose(table[name], expected[name], rtol=1e-8)
    assert (expected["mu"] == 0.0).any()  # of weight zero
    mu = found.individual_privacy_["mu"].max().compute()
    assert mu == pytest.approx(inside.individual_privacy_["mu"].max(), rel=1e-9)


@pytest.mark.parametrize("shape", mostly_slow([np.eye(4), np.diag([1.0, 4.0, 0.5, 0.5])]))
@pytest.mark.parametrize("kind", mostly_slow(["logistic", "poisson"], 0))
def test_all_records_are_bounded_under_other_losses(kind, shape, rng):
    inside, found = both(kind, rng, 400, (200, 200), noise_covariance=shape)
    expected, bound = inside.individual_privacy_, found.individual_privacy_.compute()
    exact = expected["mu"].to_numpy()
    assert np.all(bound["mu"] >= exact * (1.0 - 1e-6))
    assert np.all(bound["epsilon"] >= expected["epsilon"] * (1.0 - 1e-6))
    assert np.all(bound["once_in"] <= expected["once_in"] * (1.0 + 1e-6))
    some = exact > 0.0
    assert np.median(bound["mu"][some] / exact[some]) < 1.5


@pytest.mark.parametrize(
    "kind, fit_intercept",
    [("squared", True), ("squared", False), ("logistic", False), ("poisson", False)],
)
def test_bounds_by_convexity_are_near_where_the_penalty_is_all_of_the_curvature(
    kind, fit_intercept, rng
):
    X = 1e-3 * (rng.normal(size=(7, 2)) + np.array([2.0, 0.0]))
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]) * (5.0 if kind == "poisson" else 1.0)
    given = X, y, np.array([5.0, 1.0, 3.0, 5.0, 1.0, 8.0, 0.0])
    large = [da.from_array(each, chunks=(3, 2)[: each.ndim]) for each in given]
    model = MODELS[kind](0.3, alpha=1.0, fit_intercept=fit_intercept, tol=1e-12)
    exact = clone(model).fit(*given).individual_privacy_["mu"].to_numpy()
    bound = clone(model).fit(*large).individual_privacy_["mu"].compute()
    assert np.all(bound >= exact * (1.0 - 1e-6))
    assert np.all(bound <= exact * (1.0 + 1e-4))


@pytest.mark.slow
def test_a_record_that_is_far_off_leaves_bounds_beyond_all_numbers(rng):
    """What overflows on the way is infinite, without a warning."""
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, size=60)
    X[5], y[5] = [1e5, 0.0], 1 - y[0]
    large = [da.from_array(each, chunks=(20, 2)[: each.ndim]) for each in (X, y)]
    inside, found = (
        MODELS["logistic"](0.5, alpha=1e-3, max_iter=1000).fit(*given) for given in ((X, y), large)
    )
    bound, exact = found.individual_privacy_["mu"].compute(), inside.individual_privacy_["mu"]
    assert np.all(bound >= exact * (1.0 - 1e-6))
    assert np.isinf(bound[5])


@pytest.mark.parametrize("kind", mostly_slow(MODELS, 0, 1))
def test_chosen_records_are_exact(kind, rng):
    inside, found = both(kind, rng)
    rows = [50, 3, 17, 3]
    every, some = inside.individual_privacy_, inside.individual_privacy(records=rows)
    assert_allclose(some, every.loc[rows], rtol=1e-5)
    large = found.individual_privacy(records=rows)
    assert large.index.tolist() == rows
    assert_allclose(large, some, rtol=1e-5)
    secret = {"features": 0, "records": rows}
    expected = inside.individual_privacy(features=0).loc[rows]
    assert_allclose(inside.individual_privacy(**secret), expected, rtol=1e-5)
    assert_allclose(found.individual_privacy(**secret), expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_slow(["squared", "logistic"]))
def test_secrets_and_queries_of_chosen_records(kind, rng):
    inside, found = both(kind, rng)
    queries, rows = rng.normal(size=(2, 3)), [1, 30]
    for given in (
        {"queries": queries},
        {"features": "(target)"} if kind == "logistic" else {"features": 1},
        {"features": [0, 1], "values": [[0.0, 1.0], [1.0, 2.0]]},
    ):
        expected = inside.individual_privacy(**given).loc[rows]
        assert_allclose(found.individual_privacy(**given, records=rows), expected, rtol=1e-5)
    expected = inside.individual_privacy(queries=queries)["mu"]
    mu = found.individual_privacy(queries=queries)["mu"].compute()
    assert np.all(mu >= expected * (1.0 - 1e-6))


@pytest.mark.slow
def test_labels_of_files_and_frames(tmp_path):
    frame, y, weight = table("squared")
    found = MODELS["squared"](0.3).fit(*outside("frame", frame, y, weight, tmp_path))
    inside = MODELS["squared"](0.3).fit(frame, y, weight)
    some = found.individual_privacy(records=[7, 2])
    expected = inside.individual_privacy().loc[[7, 2]]
    assert some.index.equals(expected.index)
    assert_allclose(some, expected, rtol=1e-8)


@pytest.mark.slow
def test_what_has_no_exact_answer_says_so(rng):
    inside, found = both("softmax", rng)
    with pytest.raises(AttackNotApplicableError, match="Name some of them by `records`"):
        found.individual_privacy()
    with pytest.raises(AttackNotApplicableError, match="Name those that it is about by `records`"):
        found.individual_privacy(features=0)
    for model in (inside, found):
        for bad in ([60], [-1], [0.5], [], [[1]], True):
            with pytest.raises(ValueError, match=r"must be positions of .* 0 to 59"):
                model.individual_privacy(records=bad)
        with pytest.raises(ValueError, match="name the columns as well"):
            model.individual_privacy(values=[1.0])
    for options in ({"reweighting": "irfil"}, {"noise_covariance": "curvature"}):
        messages = []
        for model in both("squared", rng, **options):
            with pytest.raises(AttackNotApplicableError, match="no exact answer") as error:
                model.individual_privacy()
            messages.append(str(error.value))
        assert messages[0] == messages[1]


def test_no_goal(rng):
    given = records("squared", rng, 30)
    large = [da.from_array(v, chunks=7) for v in given]
    model = MODELS["squared"](MaxLeakage(3.0, features=2), alpha=0.5).fit(*large)
    with pytest.raises(AttackNotApplicableError, match="scale of the noise is a function"):
        model.individual_privacy()


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_slow(["squared", "softmax"]))
def test_the_most_exposed_records_of_a_report(kind, rng):
    inside, found = both(kind, rng)
    expected, report = inside.leakage_report(), found.leakage_report()
    assert report.dataset["individual_privacy"] == expected.dataset["individual_privacy"]
    rows = report.records.index
    assert_allclose(report.records[NAMES], expected.records.loc[rows, NAMES], rtol=1e-5)
