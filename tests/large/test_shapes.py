"""Noise shaped by the records, where these lie outside memory, is that of memory, and leaks so."""

import dask.array as da
import numpy as np
import pytest
from helpers import mostly_slow
from large_tables import MODELS, outside, table
from numpy.testing import assert_allclose

from skleak.accounting import LeakageLedger
from skleak.influence.noise import fitted_noise, noise_covariance
from skleak.mechanisms import MaxLeakage

KINDS = ["squared", "logistic", "poisson"]
SHAPES = ["curvature", "minimax"]


def both(kind, shape, chunks=(1, 50, 9), **options):
    frame, y, weight = table(kind)
    given = frame.to_numpy(), y.to_numpy(), weight
    large = [da.from_array(v, chunks=(chunks, -1)[: v.ndim]) for v in given]
    options = {"noise_covariance": shape, "random_state": 0, "noise_scale": 0.1} | options
    inside, found = (MODELS[kind](**options).fit(*records) for records in (given, large))
    return inside, found


@pytest.mark.parametrize("chunks", mostly_slow([(1, 50, 9), (60,)]))
@pytest.mark.parametrize("intercept", mostly_slow([True, False]))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", mostly_slow(KINDS, 1))
def test_releases_and_losses_are_those_of_memory(kind, shape, intercept, chunks):
    inside, found = both(kind, shape, chunks, fit_intercept=intercept)
    states = [model._confidential_state() for model in (inside, found)]
    expected, covariance = map(noise_covariance, states)
    assert_allclose(covariance, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert_allclose(found.coef_, inside.coef_, rtol=1e-7)
    assert_allclose(found.intercept_, inside.intercept_, rtol=1e-7)
    for given in ({}, {"norm": "trace"}, {"features": [0, 2]}, {"per": "feature"}):
        losses = found.fisher_information_loss(**given)
        assert isinstance(losses, da.Array)
        assert_allclose(losses.compute(), inside.fisher_information_loss(**given), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shape", mostly_slow(SHAPES, 1))
@pytest.mark.parametrize("kind", mostly_slow(KINDS, 1))
def test_joint_losses_of_all_and_of_groups(kind, shape):
    inside, found = both(kind, shape)
    groups = np.arange(60) % 2
    for given in ({}, {"norm": "trace"}):
        expected = inside.fisher_information_loss(per="dataset", **given)
        assert found.fisher_information_loss(per="dataset", **given) == pytest.approx(
            expected, rel=1e-9
        )
    some = {"per": "group", "groups": groups, "features": 0}
    expected = inside.fisher_information_loss(**some)
    assert_allclose(found.fisher_information_loss(**some), expected, rtol=1e-9)


@pytest.mark.parametrize("shape", mostly_slow(SHAPES))
def test_a_file_and_other_records(shape, tmp_path):
    frame, y, weight = table("logistic")
    where = outside("parquet", frame, y, weight, tmp_path)
    options = {"noise_covariance": shape, "random_state": 0}
    inside = MODELS["logistic"](**options).fit(frame, y, weight)
    found = MODELS["logistic"](**options).fit(*where)
    other = frame[:7] + 0.5, y[:7]
    expected = inside.fisher_information_loss(*other)
    assert_allclose(found.fisher_information_loss(*other), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_report(shape):
    inside, found = both("logistic", shape)
    expected, report = inside.leakage_report(), found.leakage_report()
    names = ["max_loss", "mean_loss", "min_loss", "distance", "advantage_any_prior"]
    columns = expected.features.loc[report.features.index]
    assert_allclose(report.features[names], columns[names], rtol=1e-6)
    for name in ("max_loss", "joint_loss", "through_mean_mean_loss", "through_covariance_max_loss"):
        assert report.dataset[name] == pytest.approx(expected.dataset[name], rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_travels_has_no_record(shape):
    *_, found = both("logistic", shape)
    noise = fitted_noise(found._confidential_state()).alone()
    assert noise.objective is None
    assert noise.alone() is noise
    assert noise.tensor is not None


@pytest.mark.parametrize("shape", mostly_slow(SHAPES, 1))
def test_a_ledger_is_charged_the_largest_loss(shape, tmp_path):
    ledger = LeakageLedger(tmp_path / "ledger")
    inside, _ = both("poisson", shape)
    found = both("poisson", shape, ledger=ledger, random_state=None)[1]
    charged = ledger.history()["max_fisher_information_loss"].to_numpy()
    assert_allclose(charged, inside.fisher_information_loss_.max(), rtol=1e-9)
    assert found.fisher_information_loss_.max().compute() == pytest.approx(charged[1])


@pytest.mark.slow
@pytest.mark.parametrize("shape", mostly_slow(SHAPES, 0))
def test_a_goal(shape):
    told = []
    for chunks in ((60,), (1, 50, 9)):
        frame, y, _ = table("squared")
        X = frame.to_numpy().copy()
        X[:, 0] = X[:, 0] > 0.0
        records = [da.from_array(v, chunks=(chunks, -1)[: v.ndim]) for v in (X, y.to_numpy())]
        for given in ((X, y.to_numpy()), records):
            model = MODELS["squared"](MaxLeakage(3.0, features=0), noise_covariance=shape)
            try:
                told.append(model.fit(*given).noise_scale_)
            except ValueError as error:
                told.append(str(error))
    assert len(set(told)) == 1


def test_a_shape_that_is_singular():
    X, y = da.ones((1, 2), chunks=1), da.ones(1, chunks=1)
    with pytest.raises(ValueError, match="The minimax shape of the noise is singular"):
        MODELS["squared"](noise_covariance="minimax").fit(X, y)
