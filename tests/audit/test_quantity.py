"""Numbers at their true values: what they encode to, and how fast that changes."""

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.polynomial import chebyshev
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skleak.adversary.hypotheses import model_parameters
from skleak.adversary.numbers import N_NODES, at_truth, slope_at_truth
from skleak.audit import LeakageAuditor
from skleak.audit.games._game import Task
from skleak.audit.games.attribute._game import AttributeGame
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)


def subject(model, X, y, **options):
    known = {"attribute": 1, "records": [0, 1, 2]}
    return AttributeGame(Task(estimator=model, table=X, y=y, **known | options), [0])


def by_refits(model, X, y, weights, step=1e-3):
    ends = []
    for sign in (1.0, -1.0):
        moved = X.copy()
        moved[0, 1] += sign * step
        ends.append(model_parameters(clone(model).fit(moved, y, sample_weight=weights)))
    return np.linalg.norm(ends[0] - ends[1]) / (2.0 * step)


@pytest.mark.slow
@pytest.mark.parametrize("far", mostly_slow([1.0, 6.0, 60.0], 1))
def test_the_loss_about_an_outlier_is_that_of_refits(far, rng):
    """A value outside of the range of the others is on no polynomial through theirs."""
    X = rng.normal(size=(30, 3))
    X[0, 1] = far
    weights = rng.uniform(0.5, 2.0, size=30)
    mean = X @ [1.0, 0.1, -0.5]
    for model, y in (
        (PrivateLinearRegression(0.0, alpha=0.1), mean + rng.normal(size=30)),
        (
            PrivateLogisticRegression(0.0, alpha=0.1),
            (mean + rng.logistic(size=30) > 0.0).astype(int),
        ),
        (PrivatePoissonRegressor(0.0, alpha=0.1), rng.poisson(np.exp(np.minimum(mean, 1.0)))),
    ):
        found = subject(model, X, y, sample_weight=weights)
        assert found.unit_eta[0] == pytest.approx(by_refits(model, X, y, weights), rel=1e-3)
        # And the hypothesis at the truth is the fit itself, or nothing is known of it.
        off = np.linalg.norm(found.hypotheses.points - found.noiseless, axis=1)
        assert (off <= found.hypotheses.errors).all()
        assert np.isinf(found.hypotheses.errors[0]) == (far > 1.0)


@pytest.mark.slow
def test_a_loss_that_refits_do_not_tell_is_not_known(rng):
    X = rng.normal(size=(30, 3))
    X[0, 1] = 60.0
    y = X[:, 0] + rng.normal(size=30)
    known = subject(PrivateLinearRegression(alpha=1.0 / 30), X, y)
    found = subject(Ridge(alpha=1.0), X, y)
    assert np.isnan(found.unit_eta[0])
    told = ~np.isnan(found.unit_eta)
    assert_allclose(found.unit_eta[told], known.unit_eta[told], rtol=0.1)
    auditor = LeakageAuditor(Ridge(), 1, noise_scales=0.1, n_releases=5, attacks="white_box")
    report = auditor.fit(X, y).report_
    # A bound that is not known is none: the median of the others is smaller for it.
    bounds = report.records["cramer_rao"].to_numpy()
    assert report.results["cramer_rao"].item() == np.median(np.nan_to_num(bounds))


def test_values_and_slopes_are_those_of_the_function():
    low, high = np.array([-2.0, 0.0, 1.0]), np.array([2.0, 5.0, 3.0])
    places = 0.5 * (chebyshev.chebpts2(N_NODES) + 1.0)
    at = low[:, None] + (high - low)[:, None] * places
    nodes = np.stack([np.exp(at), np.sin(at)], axis=2)
    for share in (0.0, 0.3, 1.0):
        truth = low + share * (high - low)
        values, errors = at_truth(nodes, low, high, truth)
        expected = np.stack([np.exp(truth), np.sin(truth)], axis=1)
        assert (np.linalg.norm(values - expected, axis=1) <= errors + 1e-12).all()
        slope = slope_at_truth(nodes, low, high, truth)
        assert_allclose(slope, np.stack([np.exp(truth), np.cos(truth)], axis=1), atol=1e-9)
    outside = high + 0.1
    assert np.isinf(at_truth(nodes, low, high, outside)[1]).all()
    assert np.isnan(slope_at_truth(nodes, low, high, outside)).all()
    # A jump is on no polynomial.
    assert np.isnan(slope_at_truth(np.sign(at - 0.1)[:1, :, None], low[:1], high[:1], np.ones(1)))
