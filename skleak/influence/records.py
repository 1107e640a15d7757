"""Whole records: what attackers who know means and covariances of the columns may learn of one.

Of a record z with a normal prior of covariance S, any attacker errs by at least (van Trees)

    V = (E[F(z)] + S^-1)^-1 = R (1 + R^T E[F(z)] R)^-1 R^T ,      S = R R^T ,   F = J^T C^-1 J ,

in every direction: J is the Jacobian at z of the model that is fitted *with* z ([FIL21] eq. 29) and
C the covariance of the noise. The right side holds where S is singular too, as for the columns of
one category. Of the variance of column j no more is removed than ``1 - V_jj / S_jj``, of any
combination of columns no more than ``t / (1 + t)``, t the largest eigenvalue of ``R^T E[F] R``:
neither depends on the units. E[F] is a mean over draws from the prior, whose bias and error the
jackknife tells (Efron and Stein 1981): both are allowed for.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg

from skleak.influence.noise import noise_root
from skleak.influence.refit import candidate_encodings
from skleak.influence.reweighting import fitted_derivative, total_jacobian
from skleak.influence.state import FitState
from skleak.utils._arguments import check_numbers
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._linalg import augment, weighted_gram
from skleak.utils._typing import Array, FloatArray, IntArray

# Draws from the prior about each record, in groups of which the jackknife leaves out one.
DRAWS, _GROUPS = 64, 8
_N_ERRORS = 4.0
# Share of what any combination of columns loses from which on one of them is named.
_ALONE = 0.9


class NormalPrior(NamedTuple):
    """Normal prior of every record, from all others. Confidential."""

    mean: FloatArray  # (n_targets, d)
    covariance: FloatArray  # (n_targets, d, d)

    @classmethod
    def of(cls, prior: Any, X: FloatArray, y: FloatArray, targets: IntArray) -> Self | None:
        """Of records (n, d) with targets (n,); None where nothing is known of them."""
        named = isinstance(prior, str)
        if named and prior == "uniform":
            return None
        conditional = named and prior == "conditional"
        table = np.column_stack([X, y]) if conditional else X
        off, n, d = table - table.mean(axis=0), *X.shape
        own = off[targets]
        mean = table.mean(axis=0) - own / (n - 1)
        if not named:
            return cls(mean, np.broadcast_to(_covariance(prior, d), (len(own), d, d)))
        # Without the record itself.
        outer = own[:, :, None] * own[:, None, :] / (n - 1)
        joint = n / (n - 1) * (off.T @ off / n - outer)
        if not conditional:
            return cls(mean, joint)
        # Given the target, by a regression on it.
        spread, shared = joint[:, -1:, -1], joint[:, :d, -1]
        slopes = shared / np.where(spread > 0.0, spread, np.inf)
        found = mean[:, :d] + slopes * (y[targets, None] - mean[:, d:])
        return cls(found, joint[:, :d, :d] - slopes[:, :, None] * shared[:, None, :])

    def variance(self, units: FloatArray | float = 1.0) -> FloatArray:
        """Variance of a value of every target, the mean over its values in units, (n_targets,)."""
        own = np.diagonal(self.covariance, axis1=1, axis2=2)
        return np.asarray(np.maximum(own / units**2, 0.0).mean(axis=1))


def _covariance(prior: Any, d: int) -> FloatArray:
    """Check a covariance of whole records, (d, d)."""
    expected = (
        "`prior` of whole records must be 'marginal', 'conditional', 'uniform', or the covariance "
        f"of the {d} columns as the model sees them"
    )
    if hasattr(prior, "pdf"):
        raise ValueError(f"{expected}; got a distribution of one number. Pass its covariance.")
    matrix = check_numbers("prior", prior, finite=True)
    if matrix.shape != (d, d) or not np.allclose(matrix, matrix.T):
        raise ValueError(f"{expected}, symmetric; got shape {matrix.shape}.")
    values = np.linalg.eigvalsh(matrix)
    if values[0] < -1e-9 * max(values[-1], 0.0) or values[-1] < 0.0:
        raise ValueError(f"{expected}; got a matrix with a negative eigenvalue.")
    return 0.5 * (matrix + matrix.T)


class RecordBounds:
    """Information about records on the scale of their prior, for every noise scale. Confidential.

    Draw records from the prior, and refit with each; ``units`` (d,) of the columns. What is learned
    is of all draws first, then of all but a group, in the order of the groups.
    """

    def __init__(
        self,
        state: FitState,
        targets: IntArray,
        prior: NormalPrior,
        seed: np.random.SeedSequence,
        units: FloatArray | float = 1.0,
    ) -> None:
        generator = np.random.default_rng(seed)
        fits, d = _Fits(state), prior.mean.shape[1]
        # Eigenvalues of ``R^T E[F] R`` at unit noise, and the variance along each, the mean over
        # columns in units, (n_targets, 1 + n_groups, d); along each, of all draws, the shares of
        # the variance of each column, (n_targets, d, d).
        self.values, self.variances = np.empty((2, len(targets), 1 + _GROUPS, d))
        self.shares = np.zeros((len(targets), d, d))
        for i, target in enumerate(targets.tolist()):
            root = _root(prior.covariance[i])
            z = prior.mean[i] + generator.normal(size=(DRAWS, d)) @ root.T
            groups = fits.informations(target, z, root)
            total = groups.sum(axis=0)
            some = np.concatenate([[total / _GROUPS], (total - groups) / (_GROUPS - 1)])
            values, vectors = np.linalg.eigh(np.nan_to_num(some, nan=0.0, posinf=0.0, neginf=0.0))
            squares = (root @ vectors) ** 2
            self.values[i] = np.where(np.isfinite(some).all(), np.maximum(values, 0.0), np.inf)
            self.variances[i] = (squares.swapaxes(1, 2) / units**2).mean(axis=2)
            whole = squares[0].sum(axis=1, keepdims=True)
            np.divide(squares[0], whole, out=self.shares[i], where=whole > 0.0)

    def outcome(self, noise_scale: float) -> dict[str, Array]:
        """Lower bounds on the squared error of attackers who know means and covariances.

        Returns as `number_bounds`, of which no Bayes risk is known, and ``estimate``,
        ``draw_error``: the bound before four of its standard errors are taken off, (n_targets,).
        """
        bounds, error = _jackknife(
            (self.variances * (1.0 - self._removed(noise_scale))).sum(axis=2), -1.0
        )
        bounds, unknown = np.maximum(bounds, 0.0), np.full(len(bounds), np.nan)
        return {
            "van_trees": np.maximum(bounds - _N_ERRORS * error, 0.0),
            "estimate": bounds,
            "draw_error": error,
            "bayes_mse": unknown,
            "bayes_mse_error": unknown,
            "computed": np.ones(len(bounds), dtype=bool),
        }

    def exposures(self, noise_scale: float) -> FloatArray:
        """Bound the share of the variance of any combination of columns removed, (n_targets,)."""
        largest, error = _jackknife(self._removed(noise_scale)[:, :, -1], 1.0)
        return np.minimum(largest + _N_ERRORS * error, 1.0)

    def most_exposed(self, noise_scale: float) -> IntArray:
        """Find the column that loses most, (n_targets,); -1 where several together lose more."""
        removed = self._removed(noise_scale)[:, 0]
        columns = np.einsum("tjk,tk->tj", self.shares, removed)
        alone = columns.max(axis=1) >= _ALONE * removed[:, -1]
        return np.where(alone, columns.argmax(axis=1), -1)

    def _removed(self, noise_scale: float) -> FloatArray:
        """Shares of the variances along all eigenvectors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.values > 0.0, self.values / noise_scale**2, 0.0)
            return np.where(np.isinf(ratio), 1.0, ratio / (1.0 + ratio))


def _root(covariance: FloatArray) -> FloatArray:
    """Return R with ``R R^T`` the covariance, the same in all units."""
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    units = np.where(spread > 0.0, spread, 1.0)
    sizes, axes = np.linalg.eigh(covariance / np.outer(units, units))
    return np.asarray(units[:, None] * (axes * np.sqrt(np.maximum(sizes, 0.0))) @ axes.T)


def _jackknife(values: FloatArray, sign: float) -> tuple[FloatArray, FloatArray]:
    """Take a bias of the other sign off what all draws tell (n, 1 + n_groups), with its error."""
    bias = (_GROUPS - 1) * (values[:, 1:].mean(axis=1) - values[:, 0])
    error = np.sqrt(_GROUPS - 1) * values[:, 1:].std(axis=1)
    return values[:, 0] + sign * np.maximum(-sign * bias, 0.0), np.asarray(error)


class _Fits:
    """Fits with one record changed, and what their releases tell of it at unit noise."""

    def __init__(self, state: FitState) -> None:
        self.state, objective = state, state.objective
        X = dense(objective.X).astype(np.float64, copy=False)
        # With a column of ones where there is an intercept, (n, p).
        self.X = augment(X, objective.fit_intercept)
        self.root = noise_root(state)  # lower triangular, of the covariance of the noise, (p, p)
        # Of all records, where it is the same under all parameters, (p, p).
        self.hessian: FloatArray | None = None
        if objective.loss.quadratic:
            self.hessian = self._hessian(state.factor.coefficients)

    def informations(self, row: int, z: FloatArray, root: FloatArray) -> FloatArray:
        """``R^T F R``, the mean over each group of draws z (n_draws, d), (n_groups, d, d)."""
        objective, d = self.state.objective, z.shape[1]
        y, weight = objective.y[[row]], float(objective.weights[row])
        own, at = self.X[[row], :d], np.array([row])
        fitted = candidate_encodings(self.state, own, y, np.arange(d), z[None], rows=at)[0]
        x = augment(z, objective.fit_intercept)
        a = (x * fitted).sum(axis=1)
        r, c = objective.loss.residual(a, y), objective.loss.curvature(a)
        # [FIL21] eq. 29, in the coordinates of the prior.
        images = fitted[:, :d] @ root
        right = c[:, None, None] * x[:, :, None] * images[:, None, :]
        right[:, :d] += r[:, None, None] * root
        hessians = np.stack([self._without(row, w) for w in fitted])
        hessians = hessians + (weight * c)[:, None, None] * x[:, :, None] * x[:, None, :]
        moved = weight * np.linalg.solve(hessians, right)
        flat = moved.swapaxes(0, 1).reshape(len(self.root), -1)
        # NaN where no minimizer is reached: nothing is known of how much such draws tell.
        seen = linalg.solve_triangular(self.root, flat, lower=True, check_finite=False)
        seen = seen.reshape(len(self.root), len(z), -1).swapaxes(0, 1)
        each = np.matmul(seen.swapaxes(1, 2), seen)
        return np.asarray(each.reshape(_GROUPS, -1, d, d).mean(axis=1))

    def _without(self, row: int, w: FloatArray) -> FloatArray:
        """Hessian of all records but one, (p, p)."""
        objective, x = self.state.objective, self.X[row]
        hessian = self._hessian(w) if self.hessian is None else self.hessian
        curvature = objective.loss.curvature(np.array([x @ w]))[0]
        return np.asarray(hessian - objective.weights[row] * curvature * np.outer(x, x))

    def _hessian(self, w: FloatArray) -> FloatArray:
        """Hessian of all records as they are, at some parameters, (p, p)."""
        objective = self.state.objective
        weights = objective.weights * objective.loss.curvature(self.X @ w)
        return weighted_gram(self.X, weights) + np.diag(objective.total * objective.penalty)


def record_mse(
    state: FitState, targets: IntArray, *, private_target: bool, units: FloatArray | float = 1.0
) -> FloatArray:
    """Bound the mean squared error of unbiased attacks on records, per number: tr(F^-1) / d.

    Shapes: ``targets`` (n_targets,); ``units`` (d,), in which the columns are measured, and a
    private target last; returns (n_targets,): [DRA22] theorem 2, at the noise scale of the state.
    Infinite where the information about a record is singular, which leaves no unbiased attack a
    finite error: inverting it would lose twice the digits that singular values of Jacobians lose.
    """
    derivative = fitted_derivative(state)
    if derivative.unbounded:
        return np.zeros(len(targets))
    n, p = state.n_features + private_target, len(state.factor.coefficients)
    if p < n:
        return np.full(len(targets), np.inf)
    root, traces = noise_root(state), np.empty(len(targets))
    for some in row_blocks(len(targets), p * (state.n_features + 1)):
        jacobians = total_jacobian(state, targets[some], derivative=derivative)[:, :, :n] * units
        values = np.linalg.svd(np.linalg.solve(root, jacobians), compute_uv=False)
        singular = values[:, -1] <= p * np.finfo(float).eps * values[:, 0]
        with np.errstate(divide="ignore"):
            traces[some] = np.where(singular, np.inf, (1.0 / values**2).sum(axis=1))
    return np.asarray(traces * state.noise_scale**2 / n)
