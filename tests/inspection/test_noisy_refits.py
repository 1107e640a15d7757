"""Refits that end a search within its tolerance: its noise is no jump, and jumps stay jumps."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

from skleak.inspection import attribute_leakage
from skleak.inspection._slopes import slopes
from skleak.linear_model import PrivateLinearRegression


@pytest.mark.slow
@pytest.mark.parametrize("method", mostly_slow(["yeo-johnson", "box-cox"]))
def test_a_power_transformer_is_smooth(method, rng):
    """Against differences of refits at steps that are far above the noise."""
    X = pd.DataFrame(20.0 + 5.0 * rng.gamma(4.0, size=(100, 2)), columns=["a", "b"])
    y = X["a"] - 0.5 * X["b"] + rng.normal(size=100)
    noise = 0.1
    pipe = make_pipeline(PowerTransformer(method=method), PrivateLinearRegression(noise)).fit(X, y)
    rows = [0, 30, 60, 90]
    found = attribute_leakage(pipe, X, y, ["a", "b"], records=rows, refit_preprocessing=True)
    assert np.isfinite(found["fisher_information_loss"]).all()

    def parameters(row, column, change):
        table = X.copy()
        table.loc[row, column] += change
        fit = make_pipeline(PowerTransformer(method=method), PrivateLinearRegression(0.0))
        model = fit.fit(table, y)[-1]
        return np.append(model.coef_, model.intercept_)

    for _, cell in found.iterrows():
        step = 0.02 * X[cell["column"]].std()
        ends = [parameters(cell["record"], cell["column"], side * step) for side in (1.0, -1.0)]
        expected = np.linalg.norm(ends[0] - ends[1]) / (2.0 * step) / noise
        # Both are differences of searches, which end a little elsewhere on other processors.
        assert cell["fisher_information_loss"] == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("noise", [1e-12, 1e-9, 1e-7])
def test_slopes_of_noisy_functions(noise, rng):
    x = rng.normal(size=40)
    scatter = np.random.default_rng(0)

    def function(values, which):
        exact = np.column_stack([np.sin(values), np.exp(0.3 * values)])
        return exact + noise * scatter.uniform(-1.0, 1.0, size=exact.shape)

    found = slopes(function, x, 0.05, 2, noisy=True)
    assert not found.jumps.any()
    expected = np.column_stack([np.cos(x), 0.3 * np.exp(0.3 * x)])
    # Noise over a step at which it is as large as what is extrapolated.
    np.testing.assert_allclose(found.right, expected, atol=100.0 * noise**0.5)

    def jumping(values, which):
        return function(values, which) + 1e-3 * (values > x[which])[:, None]

    assert slopes(jumping, x, 0.05, 2, noisy=True).jumps.all()
