"""Reports at noise scales whose squares overflow, and facts that do not depend on the builder."""

import warnings

import numpy as np
import pytest
from helpers import mostly_slow
from sklearn.datasets import load_diabetes

from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

X, Y = (part[:60] for part in load_diabetes(return_X_y=True))
CASES = {
    "squared": (PrivateLinearRegression, Y),
    "logistic": (PrivateLogisticRegression, (Y > 140.0).astype(int)),
    "poisson": (PrivatePoissonRegressor, Y),
}
LOSSES = ("max_loss", "mean_loss", "joint_loss")


@pytest.mark.parametrize("noise_scale", mostly_slow([1e290, 1e155, 1e-155, 1e-290]))
@pytest.mark.parametrize("case", mostly_slow(CASES))
def test_losses_are_those_at_unit_noise_over_the_noise(case, noise_scale):
    estimator, y = CASES[case]
    unit = estimator(1.0, alpha=1e-2).fit(X, y).leakage_report()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = estimator(noise_scale, alpha=1e-2)
        warnings.simplefilter("ignore", UserWarning)  # the step of the release
        model.fit(X, y)
        warnings.simplefilter("error")
        report = model.leakage_report()
        report.to_text(full=True)
    for name in LOSSES:
        expected = unit.dataset[name] / noise_scale
        assert report.dataset[name] == pytest.approx(expected, rel=1e-9)
    assert report.dataset["spread"] == pytest.approx(unit.dataset["spread"], rel=1e-9)
    mu = report.records["mu"]
    np.testing.assert_allclose(mu, unit.records["mu"] / noise_scale, rtol=1e-9)


@pytest.mark.parametrize("case", mostly_slow(CASES))
def test_outside_memory_the_same_record_shows_most(case):
    da = pytest.importorskip("dask.array")
    estimator, y = CASES[case]
    options = {"classes": [0, 1]} if case == "logistic" else {}
    model = estimator(1.0, alpha=1e-2, **options)
    found = []
    for data in ((X, y), (da.from_array(X, chunks=25), da.from_array(y, chunks=25))):
        report = model.fit(*data).leakage_report()
        fact = report.facts["membership"]
        found.append((fact["record"], fact["distance"]))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-5)
