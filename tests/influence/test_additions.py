"""How far a minimizer moves when a record is added, against fits with it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skleak.influence.removal import addition_steps
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

KINDS = {
    "squared": (PrivateLinearRegression, lambda a: a),
    "logistic": (PrivateLogisticRegression, lambda a: (a > 0.0).astype(int)),
    "softmax": (PrivateLogisticRegression, lambda a: np.digitize(a, [-1.0, 1.0])),
    "poisson": (PrivatePoissonRegressor, lambda a: np.round(np.exp(0.4 * a))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_record_by_itself(kind, rng):
    """Of several targets and weights, one of them zero."""
    estimator, target = KINDS[kind]
    X = rng.normal(size=(46, 2))
    y = target(X @ [1.0, -1.0] + rng.normal(size=46))
    weight = rng.integers(1, 4, size=46).astype(float)
    weight[45] = 0.0

    def state(rows):
        model = estimator(0.1, alpha=0.1, tol=1e-13)
        return model.fit(X[rows], y[rows], sample_weight=weight[rows])._confidential_state()

    without, more = state(np.arange(40)), np.arange(40, 46)
    own, encoded = without.factor.coefficients, state(np.arange(46)).objective.y
    found = addition_steps(without.objective, own, X[more], encoded[more], weight[more])
    expected = [state(np.r_[:40, k]).factor.coefficients - own for k in more]
    assert_allclose(found, expected, atol=1e-7)
    assert np.all(np.linalg.norm(found[:-1], axis=1) > 1e-4)
    assert np.all(found[-1] == 0.0)
