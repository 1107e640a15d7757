"""Regression with noise in its objective, and what of it is public.

The loss is the logistic one of two classes, the softmax one of more, with all of its predictors
penalized, or the pseudo-Huber loss of a number. An intercept is the coefficient of a constant
column, penalized as all others are. The minimizer of
``sum_i s_i l_i(w) + lambda/2 |w|^2 + b w`` is released. Its guarantee
(`skleak.accounting.objective`) is one of exact minimizers under exact Gaussian b. Here b lies on a
grid, and the gradient at what is found is below a public number. Either is an error of the
gradient, g in all, and moves the minimizer by at most ``g / lambda``: Gaussian noise on the
parameters covers it, at a hundredth of mu.

Nothing depends on the records but the parameters: not the noise, not the number g, and no error.
Newton's method with a line search arrives at a gradient of rounding noise, whatever the records,
as the objective is strongly convex; a ridge too small for that is refused before any is seen.
"""

from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.special import expit

from skleak.accounting.discrete import (
    discrete_gaussian_cover,
    discretized_delta,
    discretized_epsilon,
)
from skleak.accounting.objective import (
    objective_delta,
    objective_epsilon,
    objective_mu,
    objective_noise_scale,
    objective_ridge,
)
from skleak.losses import SoftmaxLoss
from skleak.mechanisms.goals import EpsilonDelta, GaussianDP
from skleak.mechanisms.grids import Grid, GridRelease, release_on_grid
from skleak.mechanisms.protocol import Mechanism, PublicTable
from skleak.solvers import MultinomialObjective
from skleak.utils._arguments import check_scalar, make_generator
from skleak.utils._blocks import row_blocks
from skleak.utils._linalg import (
    dense_seconds,
    product,
    transpose_product,
    warn_if_costly,
    weighted_gram,
)
from skleak.utils._typing import Data, FloatArray, RandomState

# The mu of the noise on the parameters, over that of the noise in the objective.
_SHARE = 0.01
# Gradient at which Newton's method stops, over that of a record, rounding apart.
_GRADIENT = 1e-6
# Standard deviations beyond sqrt(p) that noise does not reach: exp(-37^2 / 2) is not counted.
_REACH = 37.0
_UNIT = float(np.finfo(np.float64).eps) / 2.0  # relative error of an operation
# Rows whose gradients are summed before blocks are; largest condition number of a Hessian.
_ROWS, _MOST_CONDITION = 4096, 1e10
_STEPS, _USUAL_STEPS, _HALVINGS = 100_000, 10, 60
# Widths of a pseudo-Huber loss that are taken, as shares of the bound on the target.
WIDTHS = (0.001, 1000.0)
# The constant column of an intercept, over the largest norm of a row.
_CONSTANT = 0.5
# What is kept of epsilon and delta for the grids, whose costs are far below.
_KEPT = 1e-8


@dataclass(frozen=True)
class ObjectivePerturbation(Mechanism):
    """Noise in the objective, as the ``mechanism`` of an estimator.

    Parameters
    ----------
    huber : float or None, default=None
        For linear regression: the width h of its pseudo-Huber loss ``h^2 (sqrt(1 + r^2/h^2) - 1)``
        of a residual r, as a share of ``target_bound``, between 0.001 and 1000. The loss is
        quadratic within h and linear beyond, so that a record moves the gradient by h times its
        norm at most, and the noise is in proportion to h. A small h estimates a median more than a
        mean. None for logistic regression.

    Examples
    --------
    >>> ObjectivePerturbation(huber=0.1).huber
    0.1
    """

    huber: float | None = None

    name: ClassVar[str] = "objective"
    title: ClassVar[str] = "objective perturbation"
    unmeasured: ClassVar[str] = (
        "Attacks on noise in the objective are not known, nor goals that measure: the formulas of "
        "noise on the parameters do not hold for it."
    )

    def calibrate(self, goal: "EpsilonDelta | GaussianDP", public: PublicTable) -> "ObjectiveNoise":
        """Find the least noise of a goal, from public numbers alone.

        Parameters
        ----------
        goal : EpsilonDelta or GaussianDP
            The goal.
        public : PublicTable
            Public numbers of the table, with ``target_bound`` under a ``huber``. An intercept is
            the coefficient of a column of half of ``data_norm``, which then counts in the norm.

        Returns
        -------
        ObjectiveNoise

        Raises
        ------
        ValueError
            For a goal out of range, or a ridge that is too small for it or for the solver.
        """
        constant = _CONSTANT * public.data_norm if public.fit_intercept else 0.0
        n_records, n_classes, weight = public.n_records, public.n_classes, public.largest_weight
        n_parameters = public.n_features if public.n_parameters is None else public.n_parameters
        total = float(n_records) if public.total is None else public.total
        longest = float(np.hypot(public.data_norm, constant)) if constant else public.data_norm
        width = target_bound = None
        if self.huber is not None and public.target_bound is not None:
            width, target_bound = self.huber * public.target_bound, public.target_bound
        kind = {"two_sided": width is not None, "n_classes": n_classes, "rows": goal.rows}
        slope = _largest_slope(width, n_classes)
        least, target = _public_target(goal, n_parameters, kind)
        check_scalar("data_norm", longest, low=1e-100, high=1e100, hint="Rescale the data.")
        check_scalar("huber * target_bound", slope, low=1e-100, high=1e100, hint="Rescale both.")
        sensitivity = longest * weight * slope
        unit = longest**2 * weight  # of lambda
        strength = least * unit if public.alpha is None else public.alpha * total
        if not total * longest**2 <= _MOST_CONDITION * strength:
            raise ValueError(
                f"`alpha` must be at least {longest**2 / _MOST_CONDITION:.3g} here: with less no "
                "solver is certain to arrive at the minimizer, and whether it does would reveal "
                "the records. Raise `alpha`."
            )
        noise = objective_noise_scale(strength / unit, **target, output_share=_SHARE, **kind)
        # Rounding to the grid of the parameters adds sqrt(p) 2^-30 to the distance at most.
        output_mu = 2.0 * _SHARE * goal.rows / noise - np.sqrt(n_parameters) * 2.0**-30
        if not output_mu > 0.0:
            remedy = (
                f"raise `alpha` to {least * unit / total:.3g}, from which on noise is least, or "
                'pass `alpha="auto"`'
            )
            remedy = remedy if strength < least * unit else "pass a larger goal"
            raise ValueError(
                f"{goal} is out of reach of noise in the objective at `alpha="
                f"{strength / total:.3g}`: {remedy}."
            )
        sigma = noise * sensitivity
        step = Grid.for_noise(sigma).step
        b = sigma * (np.sqrt(n_parameters) + _REACH)
        # F(w) <= F(0) bounds the minimizer, and twice that what is near it.
        # The loss at w = 0, and its largest curvature.
        first, most = np.log(float(n_classes)), 0.25 if n_classes == 2 else 0.5
        if width is not None and target_bound is not None:
            first, most = target_bound**2 / (1.0 + np.hypot(1.0, target_bound / width)), 1.0
        w = 2.0 * (b + np.sqrt(b**2 + 2.0 * strength * total * first)) / strength
        curvature = strength + most * total * longest**2
        summed = (
            _ROWS + n_records / _ROWS + 20.0 + n_classes
        ) * slope + 2.0 * most * n_parameters * longest * w
        rounding = 2.0 * _UNIT * (total * longest * summed + 4.0 * (strength * w + b))
        tolerance = _GRADIENT * sensitivity + 4.0 * (rounding + _UNIT * curvature * w)
        error = tolerance + rounding + 0.5 * np.sqrt(n_parameters) * step
        scale = 2.0 * error / strength / output_mu
        own = sigma, strength, sensitivity, longest, float(tolerance), float(scale), float(error)
        kept = n_parameters, width, target_bound, n_classes, constant, goal.rows_per_person
        return ObjectiveNoise(*own, *kept)

    def obstacles(self, given: dict[str, Any]) -> dict[str, bool]:
        """Say what of the public parameters of an estimator does not go with it, and if it is so.

        Parameters
        ----------
        given : dict
            Parameters of the estimator by name.

        Returns
        -------
        dict of str to bool
        """
        least, most = WIDTHS
        width: Any = self.huber
        if "classes" in given:
            return {
                "`mechanism` must have no `huber`, which is the width of a loss of numbers": (
                    width is not None
                ),
                "`classes` must be passed, as public knowledge": given["classes"] is None,
            }
        by_name = isinstance(given["mechanism"], str)
        is_number = isinstance(width, Real) and not isinstance(width, bool)
        return {
            "`mechanism` must be asked for as `ObjectivePerturbation(huber=0.1)` of "
            "skleak.mechanisms: what is minimized is the pseudo-Huber loss in place of the squared "
            "one, which estimates no conditional mean": by_name,
            f"`huber` must be a number from {least} to {most}, the width of the loss as a share of "
            f"`target_bound`; got {width!r}": (
                not by_name and not (is_number and least <= float(width) <= most)
            ),
            "`target_bound` must be promised, a public bound on the absolute target": (
                given["target_bound"] is None
            ),
        }


@dataclass(frozen=True)
class ObjectiveNoise:
    """Public numbers of a release by objective perturbation.

    Parameters
    ----------
    gradient_noise_scale : float
        Standard deviation of the noise b in the objective, in units of a gradient.
    strength : float
        ``lambda``, the penalty of the summed objective.
    sensitivity : float
        ``R s h``: largest norm of a record times the largest weight, and the largest slope of the
        loss, 1 of the logistic one and ``sqrt(2)`` of that of more classes.
    longest : float
        ``R``, the largest norm of a record.
    tolerance : float
        Norm of the computed gradient at which the search stops.
    noise_scale : float
        Standard deviation of the noise on the parameters.
    error : float
        ``g``: bound on the gradient at the parameters found, for exact Gaussian noise.
    n_parameters : int
        Number of parameters.
    width, target_bound : float or None, default=None
        The h of the pseudo-Huber loss, and the largest absolute target; None for classes.
    n_classes : int, default=2
        Number of classes. Of more than two each has parameters of its own.
    constant : float, default=0.0
        The column that stands for an intercept, counted in ``longest``; zero without one.
    rows_per_person : int or None, default=None
        As of the goal.

    Examples
    --------
    >>> from skleak.mechanisms import GaussianDP
    >>> noise = ObjectivePerturbation().calibrate(GaussianDP(1.0), PublicTable(100, 3, 1.0))
    >>> round(noise.gradient_noise_scale, 3), round(noise.strength, 3)
    (2.0, 8.001)
    >>> noise.composed_mu <= 1.0
    True
    """

    gradient_noise_scale: float
    strength: float
    sensitivity: float
    longest: float
    tolerance: float
    noise_scale: float
    error: float
    n_parameters: int
    width: float | None = None
    target_bound: float | None = None
    n_classes: int = 2
    constant: float = 0.0
    rows_per_person: int | None = None

    mechanism: ClassVar[type[Mechanism]] = ObjectivePerturbation

    @property
    def ridge(self) -> float:
        """``lambda / (R^2 s)``, as `skleak.accounting.objective` takes it."""
        slope = _largest_slope(self.width, self.n_classes)
        return self.strength * slope / (self.longest * self.sensitivity)

    @property
    def noise(self) -> float:
        """``sigma / (R s h)``, as `skleak.accounting.objective` takes it."""
        return self.gradient_noise_scale / self.sensitivity

    @property
    def mu(self) -> float:
        """The mu of exact minimizers under exact noise."""
        return (self.rows_per_person or 1) * objective_mu(self.noise, self.ridge, **self._kind)

    @property
    def _kind(self) -> dict[str, Any]:
        return {"two_sided": self.width is not None, "n_classes": self.n_classes}

    @property
    def _all(self) -> dict[str, Any]:
        return {"output_mu": self.output_mu, "rows": self.rows_per_person or 1, **self._kind}

    @property
    def output_mu(self) -> float:
        """The mu of the noise on the parameters, the rounding to their grid counted."""
        moved = 2.0 * self.error / self.strength
        rounded = np.sqrt(self.n_parameters) * Grid.for_noise(self.noise_scale).step
        return float((moved + rounded) / self.noise_scale)

    @property
    def composed_mu(self) -> float:
        """A mu at which Gaussian noise is no more private than the release."""
        both = float(np.hypot(self.mu, self.output_mu))
        return float(discrete_gaussian_cover(both, n_parameters=2 * self.n_parameters))

    def epsilon(self, delta: float) -> float:
        """Bound epsilon of the release at a delta.

        Parameters
        ----------
        delta : float in (0, 1)
            Probability that the bound may fail.

        Returns
        -------
        float
        """
        return discretized_epsilon(
            lambda rest: objective_epsilon(self.noise, self.ridge, rest, **self._all),
            delta,
            n_parameters=self.n_parameters,
            n_steps=2,
        )

    def profile(self, epsilon: npt.ArrayLike) -> Any:
        """Bound delta of the release at an epsilon.

        Parameters
        ----------
        epsilon : float or array-like, at least 0
            Bound on the log-likelihood ratio, in nats; finite.

        Returns
        -------
        float or ndarray
        """
        return discretized_delta(
            lambda loss: objective_delta(self.noise, self.ridge, loss, **self._all),
            epsilon,
            n_parameters=self.n_parameters,
            n_steps=2,
        )

    def release(
        self, X: Data, y: FloatArray, sample_weight: FloatArray, random_state: RandomState = None
    ) -> tuple[GridRelease, int]:
        """Draw noise, minimize, and add noise to the minimizer.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, p)
            Records, none longer than ``longest``, the constant column counted.
        y : ndarray of shape (n,)
            Numbers of the classes, or numbers no larger than ``target_bound``.
        sample_weight : ndarray of shape (n,)
            Weights, with the sum and the largest of the calibration.
        random_state : None, int, RandomState or Generator, default=None
            None draws from the operating system's randomness.

        Returns
        -------
        release : GridRelease
            What may be published.
        n_iter : int
            Newton steps. Confidential.
        """
        generator = None if random_state is None else make_generator(random_state)
        still = np.zeros(self.n_parameters)
        b = release_on_grid(still, self.gradient_noise_scale, generator).parameters
        if self.constant:
            column = np.full((X.shape[0], 1), self.constant)
            stack = partial(sparse.hstack, format="csr") if sparse.issparse(X) else np.hstack
            X = stack([X, column])
        w, n_iter = self.minimum(X, y, sample_weight, b)
        return release_on_grid(w, self.noise_scale, generator), n_iter

    def _losses(self, predictor: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each record, (n,)."""
        if self.n_classes > 2:
            return SoftmaxLoss().value(predictor, y)
        if self.width is None:
            return np.asarray(np.logaddexp(0.0, predictor) - y * predictor)
        residual = predictor - y
        return np.asarray(residual**2 / (1.0 + np.hypot(1.0, residual / self.width)))

    def _predictor(self, X: Data, w: FloatArray) -> FloatArray:
        """Predictors of each record, (n,), or (n, K) of many classes."""
        return product(X, w if self.n_classes == 2 else w.reshape(self.n_classes, -1).T)

    def _class_step(
        self, X: Data, y: FloatArray, s: FloatArray, predictor: FloatArray, gradient: FloatArray
    ) -> FloatArray:
        """Newton step of many classes, whose common part has the curvature of the penalty alone."""
        given = 1.0, False, s, np.ones(len(s)), self.n_classes
        objective = MultinomialObjective(X, y, SoftmaxLoss(), *given)
        rows = gradient.reshape(self.n_classes, -1)
        mean = np.broadcast_to(rows.mean(axis=0), rows.shape)
        hessian = objective.curvature_sums(predictor).factor(self.strength)
        return -hessian.solve((rows - mean).ravel()) - mean.ravel() / self.strength

    def derivatives(
        self, predictor: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Differentiate the loss of each record in its predictor, once, twice and three times.

        Parameters
        ----------
        predictor, y : ndarray of shape (n,)
            Predictors, and labels or numbers.

        Returns
        -------
        slope, curvature, third : ndarrays of shape (n,)
            Of many classes (n, K), slopes alone.
        """
        if self.n_classes > 2:
            slopes = SoftmaxLoss().residual(predictor, y)
            return slopes, slopes, slopes
        if self.width is None:
            p = expit(predictor)
            return p - y, p * (1.0 - p), p * (1.0 - p) * (1.0 - 2.0 * p)
        residual = predictor - y
        root = np.hypot(1.0, residual / self.width)
        return residual / root, root**-3.0, -3.0 * (residual / self.width**2) * root**-5.0

    def minimum(
        self, X: Data, y: FloatArray, s: FloatArray, b: FloatArray
    ) -> tuple[FloatArray, int]:
        """Minimize by Newton's method; steps are halved where rounding lets the descent be seen.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, p)
            Records.
        y, s : ndarray of shape (n,)
            Labels or numbers, and weights.
        b : ndarray of shape (p,)
            Noise in the objective.

        Returns
        -------
        w : ndarray of shape (p,)
            Minimizer. Confidential.
        n_iter : int
            Newton steps. Confidential.
        """
        warn_if_costly(
            f"A fit of {len(b)} parameters with noise in the objective",
            _USUAL_STEPS * dense_seconds(len(b), len(y), 1.0),
            16.0 * len(b) ** 2,
            "Fit fewer columns.",
        )
        w, many = np.zeros(len(b)), self.n_classes > 2
        predictor = self._predictor(X, w)
        penalized = np.arange(len(b))

        def value(w: FloatArray, predictor: FloatArray) -> tuple[float, float]:
            losses = s @ self._losses(predictor, y)
            parts = np.array([losses, 0.5 * self.strength * (w @ w), b @ w])
            return float(parts.sum()), float(np.abs(parts).sum())

        rounded = float(len(y)) if self.width is None else self.width * float(s @ np.abs(y))
        for n_iter in range(_STEPS):
            slopes, curvatures, _ = self.derivatives(predictor, y)
            residuals, gradient = (s * slopes.T).T, self.strength * w + b
            for rows in row_blocks(len(y), 1, _ROWS):
                gradient += transpose_product(X[rows], residuals[rows]).T.ravel()
            if np.linalg.norm(gradient) <= self.tolerance:
                return w, n_iter
            if many:
                step = self._class_step(X, y, s, predictor, gradient)
            else:
                hessian = weighted_gram(X, s * curvatures)
                hessian[penalized, penalized] += self.strength
                step = -linalg.solve(hessian, gradient, assume_a="pos")
            along, slope, share = self._predictor(X, step), float(gradient @ step), 1.0
            before, size = value(w, predictor)
            noise = 16.0 * float(np.finfo(float).eps) * (size + rounded)
            for _ in range(_HALVINGS):
                after, _ = value(w + share * step, predictor + share * along)
                if after <= before + 1e-4 * share * slope + noise:
                    break
                share *= 0.5
            w = w + share * step
            predictor = self._predictor(X, w)
        raise ArithmeticError(
            f"Newton's method left a gradient of {np.linalg.norm(gradient):.2g} after {_STEPS} "
            "steps, which exact arithmetic rules out. Report it, and publish nothing of it."
        )


def _largest_slope(width: float | None, n_classes: int) -> float:
    """Largest norm of the slope of a loss."""
    if width is not None:
        return width
    return 1.0 if n_classes == 2 else SoftmaxLoss.lipschitz


def _public_target(
    goal: "EpsilonDelta | GaussianDP", n_parameters: int, kind: dict[str, Any]
) -> tuple[float, dict[str, Any]]:
    """Least ridge, over R^2 s, that a goal takes, and the goal as arguments of accounting.

    A little is kept for the grids.
    """
    goal.check(persons=True)
    if isinstance(goal, GaussianDP):
        # What the cover of discrete noise adds to it.
        mu = goal.mu * (1.0 - _KEPT) - np.sqrt(2.0 * n_parameters) * 2.0**-30
        if not mu > 0.5 * goal.mu:
            raise ValueError(
                f"`GaussianDP.mu={goal.mu:g}` is out of reach: the grid of the noise alone costs "
                "as much. Pass a larger value."
            )
        return objective_ridge(mu=mu / np.hypot(1.0, _SHARE), **kind), {"mu": mu}
    target = {"epsilon": goal.epsilon * (1.0 - _KEPT), "delta": goal.delta * (1.0 - _KEPT)}
    return objective_ridge(epsilon=goal.epsilon, **kind), target
