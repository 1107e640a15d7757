"""Losses of a linear predictor ``a = x.w + b`` and their derivatives with respect to ``a``.

Every method takes the predictor ``a`` and the target ``y``, both of shape (n,), and returns an
array of shape (n,). The curvature is exact, never its absolute value: an influence Jacobian
needs the true one.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, xlogy

from skleak.utils._typing import FloatArray

# Half of a step of a predictor up to which the continued fraction of its tanh is exact, and that.
_NEAR = 0.5
_ABOVE, _BELOW = (378.0, 17325.0, 135135.0), (28.0, 3150.0, 62370.0, 135135.0)


@dataclass(frozen=True)
class PointwiseLoss(ABC):
    """A loss ``l(a, y)`` that is convex and three times differentiable in ``a``.

    The mixed derivative ``q = d2 l / (da dy)`` is -1 for all canonical links.

    Attributes
    ----------
    name : str
        Short name.
    lipschitz : float
        Supremum of ``|dl/da|`` over all predictors and admissible targets; infinite where
        there is none, and then output perturbation has no global sensitivity.
    quadratic : bool
        Whether the curvature is constant, so that one Newton step is exact.

    Examples
    --------
    >>> LogisticLoss().lipschitz
    1.0
    """

    name: ClassVar[str]
    lipschitz: ClassVar[float]
    quadratic: ClassVar[bool] = False

    @abstractmethod
    def value(self, a: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each record."""

    @abstractmethod
    def inverse_link(self, a: FloatArray) -> FloatArray:
        """Mean of the target given the predictor."""

    @abstractmethod
    def curvature(self, a: FloatArray) -> FloatArray:
        """Second derivative in ``a`` (``c`` in the formulas)."""

    @abstractmethod
    def third_derivative(self, a: FloatArray) -> FloatArray:
        """Third derivative in ``a``."""

    @abstractmethod
    def initial_intercept(self, mean_target: float) -> float:
        """Minimizer over a lone intercept, where a fit starts."""

    def residual(self, a: FloatArray, y: FloatArray) -> FloatArray:
        """First derivative in ``a`` (``r`` in the formulas)."""
        return self.inverse_link(a) - y

    def mean_change(self, a: FloatArray, t: FloatArray) -> FloatArray:
        """Change of the mean as the predictor moves from ``a`` by ``t``.

        Subclasses keep the digits that a difference of two means would lose for a small ``t``.

        Parameters
        ----------
        a : ndarray of shape (n,)
            Predictors.
        t : ndarray of shape (n,)
            Their changes; any shapes that broadcast will do.
        """
        return self.inverse_link(a + t) - self.inverse_link(a)

    def cross(self, a: FloatArray) -> FloatArray:
        """Mixed second derivative in ``a`` and ``y`` (``q`` in the formulas)."""
        return np.full_like(a, -1.0)


@dataclass(frozen=True)
class SquaredLoss(PointwiseLoss):
    """Half squared error, ``(a - y)^2 / 2``.

    Examples
    --------
    >>> import numpy as np
    >>> SquaredLoss().value(np.array([1.0, 3.0]), np.array([0.0, 1.0]))
    array([0.5, 2. ])
    """

    name: ClassVar[str] = "squared"
    lipschitz: ClassVar[float] = np.inf
    quadratic: ClassVar[bool] = True

    def value(self, a: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each record."""
        return 0.5 * (a - y) ** 2

    def inverse_link(self, a: FloatArray) -> FloatArray:
        """Return the predictor itself."""
        return a

    def mean_change(self, a: FloatArray, t: FloatArray) -> FloatArray:
        """Return the change of the predictor."""
        return np.broadcast_to(t, np.broadcast_shapes(a.shape, t.shape)).copy()

    def curvature(self, a: FloatArray) -> FloatArray:
        """Second derivative: one everywhere."""
        return np.ones_like(a)

    def third_derivative(self, a: FloatArray) -> FloatArray:
        """Third derivative: zero everywhere."""
        return np.zeros_like(a)

    def initial_intercept(self, mean_target: float) -> float:
        """Return the mean of the target."""
        return mean_target


@dataclass(frozen=True)
class LogisticLoss(PointwiseLoss):
    """Negative log-likelihood of a Bernoulli target in {0, 1}, ``log(1 + e^a) - y a``.

    Examples
    --------
    >>> import numpy as np
    >>> LogisticLoss().residual(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    name: ClassVar[str] = "logistic"
    lipschitz: ClassVar[float] = 1.0

    def value(self, a: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each record."""
        return np.logaddexp(0.0, a) - y * a

    def inverse_link(self, a: FloatArray) -> FloatArray:
        """Probability of class 1."""
        return expit(a)

    def residual(self, a: FloatArray, y: FloatArray) -> FloatArray:
        """First derivative, without cancellation for confident correct predictions."""
        return np.where(y == 1.0, -expit(-a), expit(a) - y)

    def mean_change(self, a: FloatArray, t: FloatArray) -> FloatArray:
        """Change of the probability, ``2 c(a) h / (1 + tanh(a / 2) h)`` with ``h = tanh(t / 2)``.

        For small ``t`` h is a continued fraction, which doubles do not tell from it; else the
        change is ``expm1(t) s(a) s(-a - t)``, which loses nothing far out.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            half = 0.5 * t
            square = half * half
            above, below = square + _ABOVE[0], _BELOW[0] * square
            below += _BELOW[1]
            for up, down in zip(_ABOVE[1:], _BELOW[2:], strict=True):
                above *= square
                above += up
                below *= square
                below += down
            above *= half
            below = below + np.tanh(0.5 * a) * above  # of any shape that both have
            above = above / below
        change = np.asarray(2.0 * self.curvature(a) * above)
        far = np.broadcast_to(~(square <= _NEAR**2), change.shape)
        if far.any():
            a, t = (np.broadcast_to(one, change.shape)[far] for one in (a, t))
            rises, size = t > 0.0, -np.expm1(-np.abs(t))  # and not of t, which might overflow
            size *= expit(np.where(rises, a + t, -a - t))
            change[far] = np.where(rises, expit(-a), -expit(a)) * size
        return change

    def curvature(self, a: FloatArray) -> FloatArray:
        """Second derivative, ``s(a) s(-a)``: accurate far into both tails."""
        tail = np.exp(-np.abs(a))
        return np.asarray(tail / (1.0 + tail) ** 2)

    def third_derivative(self, a: FloatArray) -> FloatArray:
        """Third derivative, ``s(a) s(-a) (1 - 2 s(a))``."""
        return expit(a) * expit(-a) * -np.tanh(0.5 * a)

    def initial_intercept(self, mean_target: float) -> float:
        """Log-odds of the mean target."""
        tiny = np.finfo(float).eps  # one class may outweigh the other by more than doubles hold
        mean_target = min(max(mean_target, tiny), 1.0 - tiny)
        return float(np.log(mean_target) - np.log1p(-mean_target))


@dataclass(frozen=True)
class PoissonLoss(PointwiseLoss):
    """Poisson negative log-likelihood with log link, ``e^a - y a``, up to a function of ``y``.

    The constant ``y - y log y`` is added so that a perfect fit has loss zero.

    Examples
    --------
    >>> import numpy as np
    >>> PoissonLoss().value(np.array([0.0]), np.array([1.0]))
    array([0.])
    """

    name: ClassVar[str] = "poisson"
    lipschitz: ClassVar[float] = np.inf

    def value(self, a: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each record."""
        # What is below zero is no count, but the loss goes on there: a prior may reach beyond.
        counts = np.maximum(y, 0.0)
        return self.inverse_link(a) - y * a - y + xlogy(counts, counts)

    def inverse_link(self, a: FloatArray) -> FloatArray:
        """Mean count; infinite, silently, where the predictor overflows."""
        with np.errstate(over="ignore"):
            return np.exp(a)

    def mean_change(self, a: FloatArray, t: FloatArray) -> FloatArray:
        """Change of the mean count, ``e^a expm1(t)``, as ``t`` is added to ``a``."""
        with np.errstate(over="ignore", invalid="ignore"):
            near = self.inverse_link(a) * np.expm1(np.minimum(t, 1.0))
            return np.where(t <= 1.0, near, self.inverse_link(a + t) - self.inverse_link(a))

    def curvature(self, a: FloatArray) -> FloatArray:
        """Second derivative: the mean count."""
        return self.inverse_link(a)

    def third_derivative(self, a: FloatArray) -> FloatArray:
        """Third derivative: the mean count."""
        return self.inverse_link(a)

    def initial_intercept(self, mean_target: float) -> float:
        """Logarithm of the mean count."""
        return float(np.log(mean_target))
