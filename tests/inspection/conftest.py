"""Pipelines of a few records, and brute force about them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from skleak.influence.noise import noise_covariance


@pytest.fixture
def patients():
    """Sixty patients of the diabetes study: DataFrame with labels of its own, and a target."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X[["age", "sex", "bmi", "bp", "s5"]].iloc[:60]
    X.index = pd.Index([f"patient {i}" for i in range(60)])
    return X, ((y[:60] - y.mean()) / y.std()).to_numpy()


class BruteForce:
    """The last step of a pipeline, trained anew on encoded records of which one is changed."""

    def __init__(self, pipeline, X, y, sample_weight=None):
        self.model, self.encoder = pipeline[-1], pipeline[:-1]
        self.X, self.y, self.weight = X, y, sample_weight
        self.encoded = self.encode(X)

    def encode(self, X):
        encoded = self.encoder.transform(X)
        return encoded.toarray() if hasattr(encoded, "toarray") else np.asarray(encoded, float)

    def state(self, row, column, value, **noise):
        """State of the model with another value in one cell of the raw table."""
        one = self.X.iloc[[row]].copy()
        # Whole columns change their type where a value is not whole.
        one[column] = pd.Series([value], index=one.index)
        encoded = self.encoded.copy()
        encoded[row] = self.encode(one)[0]
        quiet = {"noise_scale": 0.0, "tol": 1e-13, "max_iter": 1000} | noise
        twin = clone(self.model).set_params(**quiet)
        return twin.fit(encoded, self.y, sample_weight=self.weight)._confidential_state()

    def parameters(self, row, column, value):
        return self.state(row, column, value).factor.coefficients

    def slope(self, row, column, step, of=None):
        """Derivative by differences of the fourth order."""
        of = self.parameters if of is None else of
        x = float(self.X[column].iloc[row])
        gaps = [of(row, column, x + h) - of(row, column, x - h) for h in (step, 2.0 * step)]
        return (8.0 * gaps[0] - gaps[1]) / (12.0 * step)

    def information(self, row, column, step, noise_scale):
        """Root of the information of mean and covariance about a number."""
        shape = self.model.noise_covariance

        def moments(row, column, value):
            state = self.state(row, column, value, noise_covariance=shape)
            return np.vstack([state.factor.coefficients, noise_covariance(state)])

        slope = self.slope(row, column, step, moments)
        covariance = moments(row, column, float(self.X[column].iloc[row]))[1:]
        inner = np.linalg.solve(covariance, slope[1:])
        mean = slope[0] @ np.linalg.solve(covariance, slope[0]) / noise_scale**2
        return np.sqrt(mean + 0.5 * np.trace(inner @ inner))


@pytest.fixture
def trained_anew():
    """The class that trains the last step of a pipeline anew."""
    return BruteForce
