"""Bounds on the leakage after one entry of one record has changed, against refits."""

import numpy as np
import pytest

from skleak.influence.jacobian import Columns
from skleak.influence.noise._fixed import fixed_losses
from skleak.influence.refit import loss_brackets
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression


@pytest.mark.parametrize("quantile", [1.0, 0.5])
@pytest.mark.parametrize("estimator", [PrivateLinearRegression, PrivateLogisticRegression])
def test_refits_lie_within_narrow_brackets(estimator, quantile, rng):
    """At the second of the two values a few records leak more than any did before."""
    n, measured, values = 2000, Columns(), np.array([[-0.5], [6.0]])
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.logistic(size=n)
    y = y if estimator is PrivateLinearRegression else (y > 0).astype(int)
    weights = rng.integers(1, 3, size=n).astype(float)

    def fit(X):
        state = estimator(1.0, alpha=0.1).fit(X, y, weights)._confidential_state()
        losses = fixed_losses(state.at_noise(1.0), state.training, [measured])[:, 0]
        return state, np.quantile(losses, quantile, method="higher")

    state, actual = fit(X)
    low, high = loss_brackets(state, np.arange(n), np.array([0]), values, measured, quantile)
    for i in {0, low[:, 1].argmax(), high[:, 1].argmax(), low[:, 0].argmin()}:
        for m, value in enumerate(values[:, 0]):
            changed = X.copy()
            changed[i, 0] = value
            assert low[i, m] <= fit(changed)[1] <= high[i, m]
    np.testing.assert_allclose(np.median(low, axis=0), actual, rtol=0.3)
    np.testing.assert_allclose(np.median(high, axis=0), actual, rtol=0.3)
    assert (low[:, 1].max() > actual) == (quantile == 1.0)
