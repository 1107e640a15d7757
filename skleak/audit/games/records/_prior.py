"""What attackers who know means and covariances of the columns may learn of whole records.

Of a record z with a normal prior of covariance S, any attacker errs by at least (van Trees)

    tr (E[F(z)] + S^-1)^-1 = tr R (1 + R^T E[F(z)] R)^-1 R^T ,      S = R R^T ,   F = J^T C^-1 J ,

J being the Jacobian at z of the model that is fitted *with* z ([FIL21] eq. 29) and C the covariance
of the noise. The right side holds where S is singular too, as for the columns of one category.
E[F] is a mean over draws from the prior, which would make the bound too large on average, as it is
convex in F: the jackknife takes that off, and tells its error (Efron and Stein 1981).
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import linalg

from skleak.audit.tables._design import Outcome
from skleak.influence import candidate_encodings
from skleak.influence.noise import noise_root
from skleak.influence.state import FitState
from skleak.losses import SquaredLoss
from skleak.utils._arguments import check_numbers
from skleak.utils._blocks import dense
from skleak.utils._linalg import augment, weighted_gram
from skleak.utils._typing import FloatArray, IntArray

# Draws from the prior about each record, in groups of which the jackknife leaves out one.
_DRAWS, _GROUPS = 64, 8
# Multiplications for all records; beyond, the bound is computed for some, drawn at random.
_MOST_WORK = 5e10
_FEWEST, _MOST = 30, 1000
_N_ERRORS = 4.0


@dataclass(frozen=True)
class NormalPrior:
    """Normal prior of every record, from all others. Confidential."""

    mean: FloatArray  # (n_targets, d)
    n: int  # records
    scatter: FloatArray  # covariance of all records, and of a known target last, (k, k)
    offsets: FloatArray  # of the targets from the mean of all, (n_targets, k)
    given: FloatArray | None = None  # covariance by whoever asks, (d, d)

    @classmethod
    def of(cls, prior: Any, X: FloatArray, y: FloatArray, targets: IntArray) -> Self | None:
        """Of records (n, d) with targets (n,); None where nothing is known of them."""
        if isinstance(prior, str) and prior == "uniform":
            return None
        conditional = isinstance(prior, str) and prior == "conditional"
        table = np.column_stack([X, y]) if conditional else X
        off = table - table.mean(axis=0)
        n, own, d = len(table), off[targets], X.shape[1]
        mean = table.mean(axis=0) - own / (n - 1)
        given = None if isinstance(prior, str) else _covariance(prior, d)
        found = cls(mean[:, :d], n, off.T @ off / n, own, given)
        if not conditional:
            return found
        slopes = np.stack([found._slope(i) for i in range(len(targets))])
        gaps = y[targets] - mean[:, -1]
        return cls(found.mean + slopes * gaps[:, None], n, found.scatter, own)

    def covariance(self, i: int) -> FloatArray:
        """Covariance of the prior of one target, (d, d)."""
        if self.given is not None:
            return self.given
        d, joint = self.mean.shape[1], self._joint(i)
        if len(joint) == d:
            return joint
        return np.asarray(joint[:d, :d] - np.outer(self._slope(i), joint[:d, -1]))

    def variance(self) -> FloatArray:
        """Variance of a value of every target, the mean over its values, (n_targets,)."""
        d = self.mean.shape[1]
        traces = [np.trace(self.covariance(i)) for i in range(len(self.mean))]
        return np.maximum(np.array(traces), 0.0) / d

    def _joint(self, i: int) -> FloatArray:
        """Covariance of all records but one, (k, k)."""
        outer = np.outer(self.offsets[i], self.offsets[i]) / (self.n - 1)
        return np.asarray(self.n / (self.n - 1) * (self.scatter - outer))

    def _slope(self, i: int) -> FloatArray:
        """Regression of the columns on the target, (d,)."""
        joint = self._joint(i)
        return np.asarray(joint[:-1, -1] / (joint[-1, -1] if joint[-1, -1] > 0.0 else np.inf))


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


@dataclass(frozen=True)
class RecordBounds:
    """Information about records on the scale of their prior, for every noise scale. Confidential.

    Of all draws first, then of all but a group, in the order of the groups.
    """

    rows: IntArray  # targets whose bounds are known, (m,)
    n_targets: int
    values: FloatArray  # eigenvalues of ``R^T E[F] R`` at unit noise, (m, 1 + n_groups, d)
    shares: FloatArray  # of the variance along each, (m, 1 + n_groups, d)

    @classmethod
    def of(
        cls, state: FitState, targets: IntArray, prior: NormalPrior, seed: np.random.SeedSequence
    ) -> Self:
        """Draw records from the prior, and refit with each."""
        generator = np.random.default_rng(seed)
        fits, d = _Fits.of(state), prior.mean.shape[1]
        most = int(np.clip(_MOST_WORK / (_DRAWS * fits.work), _FEWEST, _MOST))
        n = len(targets)
        rows = np.arange(n) if n <= most else np.sort(generator.choice(n, most, replace=False))
        found = np.empty((2, len(rows), 1 + _GROUPS, d))
        for k, i in enumerate(rows):
            sizes, axes = np.linalg.eigh(prior.covariance(i))
            root = axes * np.sqrt(np.maximum(sizes, 0.0))
            z = prior.mean[i] + generator.normal(size=(_DRAWS, d)) @ root.T
            groups = fits.informations(int(targets[i]), z, root)
            total = groups.sum(axis=0)
            some = np.concatenate([[total / _GROUPS], (total - groups) / (_GROUPS - 1)])
            values, vectors = np.linalg.eigh(np.nan_to_num(some, nan=0.0, posinf=0.0, neginf=0.0))
            found[0, k] = np.where(np.isfinite(some).all(), np.maximum(values, 0.0), np.inf)
            found[1, k] = ((root @ vectors) ** 2).sum(axis=1)
        return cls(rows, n, *found)

    def errors(self, noise_scale: float) -> tuple[FloatArray, FloatArray]:
        """Bound on the mean squared error of a value, and its standard error, (m,) each."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.values > 0.0, self.values / noise_scale**2, 0.0)
        bounds = (self.shares / (1.0 + ratio)).mean(axis=2)
        whole, left = bounds[:, 0], bounds[:, 1:]
        bias = (_GROUPS - 1) * (left.mean(axis=1) - whole)
        return np.maximum(whole - np.maximum(bias, 0.0), 0.0), np.sqrt(_GROUPS - 1) * left.std(
            axis=1
        )


def record_bounds(known: RecordBounds, noise_scale: float) -> Outcome:
    """Lower bounds on the squared error of attackers who know means and covariances.

    Returns as `number_bounds`, of which no Bayes risk is known, and ``estimate``, ``draw_error``:
    the bound before four of its standard errors are taken off, (n_targets,) each.
    """
    unknown = np.full(known.n_targets, np.nan)
    outcome = {name: unknown.copy() for name in ("van_trees", "estimate", "draw_error")}
    bound, error = known.errors(noise_scale)
    outcome["van_trees"][known.rows] = np.maximum(bound - _N_ERRORS * error, 0.0)
    outcome["estimate"][known.rows], outcome["draw_error"][known.rows] = bound, error
    computed = np.isin(np.arange(known.n_targets), known.rows)
    return {**outcome, "bayes_mse": unknown, "bayes_mse_error": unknown, "computed": computed}


@dataclass(frozen=True)
class _Fits:
    """Fits with one record changed, and what their releases tell of it at unit noise."""

    state: FitState
    X: FloatArray  # with a column of ones where there is an intercept, (n, p)
    root: FloatArray  # lower triangular, of the covariance of the noise, (p, p)
    hessian: FloatArray | None  # of all records, where it is the same under all parameters, (p, p)

    @classmethod
    def of(cls, state: FitState) -> Self:
        objective = state.objective
        X = augment(dense(objective.X).astype(np.float64, copy=False), objective.fit_intercept)
        fits = cls(state, X, noise_root(state), None)
        if not isinstance(objective.loss, SquaredLoss):
            return fits
        return cls(state, X, fits.root, fits._hessian(state.factor.coefficients))

    @property
    def work(self) -> float:
        """Multiplications of one draw."""
        n, p = self.X.shape
        return float(p**3 + (n * p**2 if self.hessian is None else 0))

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
        # NaN where no minimiser is reached: nothing is known of how much such draws tell.
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
        curvature = objective.weights * objective.loss.curvature(self.X @ w)
        return np.asarray(
            weighted_gram(self.X, curvature) + np.diag(objective.total * objective.penalty)
        )
