"""Clipped gradients of one record under a linear model, at the parameters of many steps."""

import numpy as np

from skleak.neural.gradients import LinearGradients
from skleak.neural.inversion._base import Pullback, StepGradients
from skleak.utils._typing import FloatArray


class LinearSteps(StepGradients):
    """Of a linear model: with x~ = [x, 1], residual r and clipping h all is ``r x~^T / h``."""

    def __init__(self, gradients: LinearGradients, parameters: FloatArray) -> None:
        self.gradients, self.clipping = gradients, gradients.clipping
        self.fit_intercept = gradients.fit_intercept
        stacked = [gradients.split(each) for each in parameters]
        self.weights = np.stack([weights for weights, _ in stacked])  # (T, K, d)
        self.intercepts = np.stack([intercept for _, intercept in stacked])  # (T, K)

    def split(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Cut (T, p) into the parts of the weights (T, K, d) and of the intercepts (T, K)."""
        n_steps, n_outputs, d = self.weights.shape
        weights = values[:, : n_outputs * d].reshape(self.weights.shape)
        if not self.fit_intercept:
            return weights, np.zeros((n_steps, n_outputs))
        return weights, values[:, n_outputs * d :]

    def at(self, record: FloatArray, target: float) -> tuple[FloatArray, Pullback]:
        """Apply the chain rule through residual, length and clipping: closed form, no autograd."""
        x, fit_intercept = record, self.fit_intercept
        a = self.weights @ x + self.intercepts
        r = self.gradients.residual(a, np.full(len(a), target))
        curvature = self.gradients.curvature(a)
        length = np.sqrt(x @ x + fit_intercept)
        size = np.linalg.norm(r, axis=1)
        h, slope = self.clipping.divisor(size * length), self.clipping.slope(size * length)
        scaled = r / h[:, None]
        parts = [(scaled[:, :, None] * x).reshape(len(r), -1)]
        gradients = np.hstack([*parts, scaled] if fit_intercept else parts)

        def pullback(u: FloatArray) -> FloatArray:
            along_x, along_one = self.split(u)
            q = along_x @ x + along_one  # (T, K)
            # The weighted sum is r.q / h: q moves with x, r with a, h with |r| and |x~|.
            shrink = np.sum(scaled * q, axis=1) * slope / h
            unit = np.divide(r, size[:, None], out=np.zeros_like(r), where=size[:, None] > 0.0)
            moved = q / h[:, None] - (shrink * length)[:, None] * unit
            through_a = np.einsum("tkl,tl->tk", curvature, moved)
            result = np.einsum("tkd,tk->d", self.weights, through_a)
            result += np.einsum("tkd,tk->d", along_x, scaled)
            stretch = x / length if length > 0.0 else np.zeros_like(x)
            return np.asarray(result - np.sum(shrink * size) * stretch)

        return gradients, pullback

    def start(self, signals: FloatArray) -> FloatArray | None:
        """Gradient of the weights over that of the intercept, all steps taken together."""
        along_x, along_one = self.split(signals)
        total = np.sum(along_one**2)
        if not self.fit_intercept or total == 0.0:
            return None
        return np.asarray(np.einsum("tkd,tk->d", along_x, along_one) / total)
