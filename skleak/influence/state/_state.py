"""The state that a fit leaves.

What makes the weight of a record from what it leaks: IRFIL, and a rule that evens the total.

A reweighting balances the norm ``kappa`` of the Jacobian of each record at omega = 1. IRFIL
([FIL21] algorithm 1) sets ``omega = level / kappa``, so that with fixed weights all leak ``level``.
But weights are functions of the data. What a record leaks through them is large in two cases, and
a rule without them evens the total leakage, which counts it:

- A small ``kappa`` asks for a huge weight. Such a record rules the Hessian, and by it all other
  weights. So weights are bounded, smoothly: ``1 / omega^2 = (kappa / level)^2 + 1 / bound^2``.
- A large residual r asks for a small weight, through the part ``r A E`` of the Jacobian. As such a
  record moves, its weight and its residual move against each other, which cancels part of what
  ``kappa`` counts; relative to it, others leak too much. So r enters by a factor below one.

Bound and factor are constants of this file. They are not fitted to the data, of which they would be
functions then.

A fit of which an attacker sees what the model answers, and not its parameters.

The answers to k queries are functions of the predictors ``Q w~`` of the released parameters, at
whose noise ``sigma^2 Q S Q^T`` the information about a record is, with P the projection on the rows
of ``Q L`` and ``S = L L^T``,

    (Q J)^T (Q S Q^T)^+ Q J = (L^-1 J)^T P (L^-1 J) :

that of the parameters themselves, confined to at most k directions of the noise.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import linalg, optimize

from skleak.influence.jacobian import Columns, FitFactor, MultinomialFactor, Norm, record_norms
from skleak.solvers import Objective
from skleak.utils._arguments import dask_module
from skleak.utils._blocks import Blocks, add, is_large, positions_of
from skleak.utils._linalg import ScaledCholesky, SingularMatrixError, augment
from skleak.utils._records import Persons, row_keys, same_numbers
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray


@dataclass(frozen=True)
class RecordBatch:
    """Records, and how they take part in a fit.

    A row is one person. For the fit a weight of 2 is the record twice; the person behind it has
    one unknown value all the same, which moves both.
    """

    X: Data  # records, (n, d)
    y: FloatArray  # targets, (n,)
    sample_weight: FloatArray  # ``s``: how many times each record counts in the fit, (n,)
    reweights: FloatArray  # ``omega``: its reweighting factor, (n,)
    # Whose first rows these are, of the training records; their weights are those of all rows.
    persons: Persons | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def present(self) -> BoolArray:
        """Mask of the records that take part: those of positive weight."""
        return self.sample_weight > 0.0

    @property
    def factors(self) -> FloatArray:
        """``s omega``: the Jacobian of a row over that of a unit record; 0 where absent."""
        return np.where(self.present, self.sample_weight * self.reweights, 0.0)

    def participants(self) -> "RecordBatch":
        """Return those that take part, or all of records outside memory: the others count zero."""
        if is_large(self.X) or np.all(self.present):
            return self
        return self.take(np.flatnonzero(self.present))

    def n_present(self) -> int:
        """Return how many take part."""
        return Blocks.of(self.sample_weight, width=1).map_reduce(_count_positive, add)

    def take(self, rows: "IntArray | BoolArray | slice") -> "RecordBatch":
        """Return some of the records."""
        persons = self.persons
        if persons is not None:
            persons = persons.take(np.arange(len(persons))[rows])
        parts = self.X[rows], self.y[rows], self.sample_weight[rows], self.reweights[rows]
        return RecordBatch(*parts, persons)


def batches_by_group(batch: RecordBatch, groups: Any) -> Iterator[tuple[Any, RecordBatch]]:
    """Yield each label of some groups (n,), ascending, and the records of its group.

    Of records outside memory all, the others with a weight of zero.
    """
    if not is_large(batch.X):
        for label, members in (
            pd.Series(range(len(batch))).groupby(groups, sort=True).indices.items()
        ):
            yield label, batch.take(members)
        return
    for label in group_names(groups):
        weights = np.where(groups == label, batch.sample_weight, 0.0)
        yield label, replace(batch, sample_weight=weights)


def group_names(groups: Any) -> list[Any]:
    """Distinct labels, ascending; one pass over labels (n,) outside memory."""
    found: set[Any] = Blocks.of(groups, width=1).map_reduce(_distinct_labels, set.union)
    return sorted(found)


def _distinct_labels(labels: Array) -> set[Any]:
    missing = int(pd.isna(labels).sum())
    if missing:
        raise ValueError(
            f"`groups` has missing labels, {missing} of them in one block. Give those records a "
            "label of their own, for instance 'unknown'."
        )
    return set(pd.unique(labels).tolist())


def _count_positive(weights: FloatArray) -> int:
    return int(np.count_nonzero(weights > 0.0))


def same_table(X: Any, y: Any, objective: Objective) -> bool:
    """Return True for the Dask arrays that an objective has: the same computation of each."""
    if not (is_large(X) and is_large(objective.X)):
        return False
    own: Any = objective.y
    return bool(X.name == objective.X.name and y.name == own.name)


def _rows_of(objective: Objective, X: Data, y: FloatArray) -> IntArray:
    """Positions in the training records, wherever they lie, of records in memory, -1 if unknown.

    Found by value; of equal training rows the one that counts most, and the first of these.
    Returns (n,).
    """
    own = row_keys(X, y)
    keys = np.unique(own)
    training = objective.X, objective.y, objective.sample_weight, objective.reweights
    blocks = Blocks.of(*training, positions_of(objective.X), width=0, keep_sparse=True)
    found = _at(blocks.map_reduce(_places, _better, keys), keys, own)
    return np.where(found[:, 0] > 0.0, found[:, 1], -1.0).astype(np.intp)


def _places(
    X: Data, y: FloatArray, s: FloatArray, omega: FloatArray, position: IntArray, keys: Array
) -> FloatArray:
    """Weight and position of training records of a block at the keys of records, (k, 2)."""
    known, parts = _distinct(row_keys(X, y), np.column_stack([s * omega, position]))
    return _at(parts, known, keys)


def _parts_of(objective: Objective, X: Any, y: Any) -> tuple[Any, Any]:
    """Weight and factor in the fit of each of many records, lazily, (n,); 0 if unknown.

    Each block of records is looked up in all blocks of training records, as `_rows_of` does.
    """
    array = dask_module("dask.array")
    training = objective.X, objective.y, objective.sample_weight, objective.reweights
    known: Any = Blocks.of(*training, width=0, keep_sparse=True).map(_as_table)
    known = known if is_large(known) else array.from_array(known, chunks=-1)
    # As bits: keys are 64-bit integers, in one table with numbers.
    keys = Blocks.of(X, y, width=0).map(row_keys)
    options = {"concatenate": None, "align_arrays": False}
    found = array.blockwise(
        _look_up, "ij", keys, "i", known, "jk", dtype=object, meta=np.empty((0, 0), object),
        **options,
    )  # fmt: skip
    best = array.blockwise(
        _best, "ik", found, "ij", new_axes={"k": 3}, dtype=np.float64, meta=np.empty((0, 0)),
        **options,
    )  # fmt: skip
    return best[:, 1], best[:, 2]


def _as_table(X: Data, y: FloatArray, s: FloatArray, omega: FloatArray) -> FloatArray:
    return np.column_stack([row_keys(X, y).view(np.float64), s * omega, s, omega])


def _look_up(keys: Array, known: Any) -> FloatArray:
    """Parts of the records of one block as one block of training records has them, (n, 3)."""
    (table,) = known if isinstance(known, list) else (known,)
    own, parts = _distinct(np.ascontiguousarray(table[:, 0]).view(keys.dtype), table[:, 1:])
    return _at(parts, own, keys)


def _best(parts: list[FloatArray]) -> FloatArray:
    return reduce(_better, parts)


def _distinct(keys: Array, parts: FloatArray) -> tuple[Array, FloatArray]:
    """Ascending keys, once each, and of equal ones the parts (k, m) of the largest first entry."""
    order = np.lexsort((-parts[:, 0], keys))
    keys, first = np.unique(keys[order], return_index=True)
    return keys, parts[order[first]]


def _better(parts: FloatArray, other: FloatArray) -> FloatArray:
    """Of two parts (k, m) of each record those of the larger first entry."""
    return np.where(other[:, :1] > parts[:, :1], other, parts)


def _at(parts: FloatArray, keys: Array, wanted: Array) -> FloatArray:
    """Parts (k, m) that belong to keys (k,), at the keys that are wanted; zeros for unknown ones.

    Returns (n, m).
    """
    if not len(keys):
        return np.zeros((len(wanted), parts.shape[1]))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[at] == wanted)[:, None], parts[at], 0.0)


def balanced_weights(rule: Any, factor: Any, level: float, X: Data, y: Any) -> Any:
    """Factors that the rule of a reweighting would give to records, (n,)."""
    return Blocks.of(X, y).map(partial(_balanced, rule, factor, level))


def _balanced(rule: Any, factor: Any, level: float, X: Data, y: FloatArray) -> FloatArray:
    found: FloatArray = rule.weights(rule.norms(factor, X, y), level)
    return found


# Of "total": a compromise between IWPC, MNIST and Adult, two losses, and penalties from 0.1 to
# 1e-5. The factor matters under a strong penalty, the bound under a weak one.
_RESIDUAL_FACTOR, _MOST = 0.8, 4.0
# Relative accuracy of the level under which bounded weights have their sum, and the largest mean
# of such weights, relative to their bound.
_ACCURACY, _LARGEST_MEAN = 1e-14, 0.9


@dataclass(frozen=True)
class WeightRule:
    """Weights ``omega = level / hypot(kappa, level / largest_weight)`` of balanced norms kappa."""

    # what is balanced; by default all columns without the target
    columns: Columns = field(default_factory=Columns)
    norm: Norm = "spectral"  # in which norm
    residual_factor: float = 1.0  # by which the residual enters the balanced norm
    largest_weight: float = np.inf  # bound of all weights, relative to their mean of one
    name: Literal["irfil", "total"] = "irfil"  # what users call it

    @classmethod
    def total(cls, columns: Columns, norm: Norm) -> Self:
        """Return the rule that evens the total leakage."""
        return cls(columns, norm, _RESIDUAL_FACTOR, _MOST, "total")

    def norms(self, factor: FitFactor, X: Data, y: FloatArray) -> FloatArray:
        """``kappa`` of each record: the balanced norm at omega = 1 and unit noise.

        Returns (n,).
        """
        return record_norms(self.damped(factor), X, y, self.columns, self.norm)

    def damped(self, factor: FitFactor) -> FitFactor:
        """Return the factor whose Jacobians are balanced."""
        if self.residual_factor == 1.0:
            return factor
        solution = factor.coefficients, factor.inverse_hessian
        return _DampedFactor(*solution, factor.loss, factor.fit_intercept, self.residual_factor)

    def weights(self, kappa: FloatArray, level: float | FloatArray) -> FloatArray:
        """``omega`` of records; one for those that cannot leak what is balanced.

        Shapes: ``kappa`` (n,) or (n, b), of b fits with a level each; returns the same.
        """
        leaks = kappa > 0.0
        size = np.hypot(kappa, level / self.largest_weight)
        return np.divide(level, size, out=np.ones_like(kappa), where=leaks)

    def follows(self, kappa: FloatArray, level: float) -> FloatArray:
        """Minus the derivative of ``log omega`` in ``log kappa``, and that in ``log level``.

        Returns (n,): between 0, for a weight that is fixed or at its bound, and 1, for ``level /
        kappa``.
        """
        size = np.hypot(kappa, level / self.largest_weight)
        share = np.divide(kappa, size, out=np.zeros_like(kappa), where=kappa > 0.0)
        return np.asarray(share**2)

    def losses(self, reweights: FloatArray, kappa: FloatArray, copies: FloatArray) -> FloatArray:
        """Losses that the rule makes equal: ``omega hypot(kappa, level / largest_weight)``.

        Returns (n,): with unbounded weights, the leakage were the weights fixed. Equal to the level
        for all records that leak, if the factors are those of the rule.
        """
        floor = (
            self.level(reweights, kappa, copies) / self.largest_weight
            if np.isfinite(self.largest_weight)
            else 0.0
        )
        return np.where(kappa > 0.0, reweights * np.hypot(kappa, floor), 0.0)

    def level(self, reweights: FloatArray, kappa: FloatArray, copies: FloatArray) -> float:
        """Return the level under which the weights of the rule have the sum that they have now.

        Zero where no record leaks.
        """
        some = (kappa > 0.0) & (copies > 0.0)
        if not np.any(some):
            return 0.0
        kappa, copies = kappa[some], copies[some]
        # No weight can be larger than the bound, and so neither can their mean.
        wanted = float(np.average(reweights[some], weights=copies))
        wanted = min(wanted, _LARGEST_MEAN * self.largest_weight)
        low = float(np.log(wanted / np.average(1.0 / kappa, weights=copies)))
        if not np.isfinite(self.largest_weight):
            return float(np.exp(low))

        def excess(log_level: float) -> float:
            weights = self.weights(kappa, np.exp(log_level))
            return float(np.average(weights, weights=copies)) - wanted

        high = low + 1.0
        while excess(high) < 0.0:
            high += 1.0
        found = optimize.brentq(excess, low - 1e-9, high, xtol=_ACCURACY, rtol=_ACCURACY)
        return float(np.exp(found))


@dataclass(frozen=True)
class _DampedFactor(FitFactor):
    """A fit whose residuals count by a factor."""

    residual_factor: float = 1.0

    def derivatives(
        self, X: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        x, r, c, q = super().derivatives(X, y)
        return x, self.residual_factor * r, c, q


# Shapes of the noise that are functions of the training records.
FITTED_SHAPES = ("curvature", "minimax", "least_mean")
# Largest relative difference of a matrix from its transpose that is taken for round-off.
_ASYMMETRY = 1e-8


@dataclass(frozen=True)
class NoiseShape:
    """Covariance of the noise over its variance, ``S`` with ``tr S = p``."""

    # the identity; a matrix that does not depend on the data; or one that does: ``p A / tr A`` of
    # the fit itself, the minimax shape with equal weights, or that of the least mean squared loss
    # (see `skleak.influence.noise`)
    name: Literal["isotropic", "given", "curvature", "minimax", "least_mean"] = "isotropic"
    # ``S`` where it is given, symmetric positive definite of trace p, (p, p)
    matrix: FloatArray | None = None
    # Orthonormal directions, in coordinates in which the noise is isotropic, to which an attacker's
    # view of the release is confined; None where all of it is seen, (p, r)
    seen: FloatArray | None = None

    @classmethod
    def of(cls, value: Any, n_parameters: int) -> "NoiseShape":
        """From the parameter of an estimator.

        Shapes: ``value`` (p, p) where it is a matrix; a `NoiseKind` makes one.
        """
        # A kind of noise is the rule for its matrix.
        rule = getattr(value, "covariance", None)
        if callable(rule) and not isinstance(value, type):
            return cls("given", given_shape(rule(n_parameters), n_parameters))
        if not isinstance(value, str):
            return cls("given", given_shape(value, n_parameters))
        if value in ("isotropic", *FITTED_SHAPES):
            return cls(value)  # type: ignore[arg-type]
        raise ValueError(
            "The shape of the noise must be 'isotropic', 'curvature', 'minimax', 'least_mean' or a "
            f"matrix of shape ({n_parameters}, {n_parameters}); got {value!r}."
        )

    @property
    def reads_data(self) -> bool:
        """True if the covariance is a function of the training records."""
        return self.name in FITTED_SHAPES

    @property
    def is_identity(self) -> bool:
        """True if the noise is isotropic, by name or by number."""
        if self.matrix is None:
            return self.name == "isotropic"
        return np.array_equal(self.matrix, self.matrix[0, 0] * np.eye(len(self.matrix)))

    @property
    def smallest_variance(self) -> float:
        """A lower bound on the smallest eigenvalue of S; that of a given shape, or 1."""
        if self.matrix is None or self.is_identity:
            return 1.0
        values = np.linalg.eigvalsh(self.matrix)
        # Less what rounding may have added to it.
        return float(max(values[0] - 1e-14 * len(values) * values[-1], 0.0))

    def widest(self, p: int) -> float:
        """Largest length that a step of length one of p parameters has in `whitened`."""
        if self.seen is None and (self.matrix is None or self.is_identity):
            return 1.0
        return float(np.linalg.norm(self.whitened(np.eye(p)), 2))

    @cached_property
    def matrix_root(self) -> FloatArray:
        """Lower triangular ``L`` with ``L L^T = S`` where it is given, of shape (p, p)."""
        if self.matrix is None:
            raise ValueError(f"Noise that is {self.name!r} has no matrix that was given.")
        cholesky = ScaledCholesky.of(self.matrix)
        root: FloatArray = cholesky.factor * cholesky.scale[:, None]
        return root

    def whitened_dual(self, x: FloatArray) -> FloatArray:
        """Gradients and records, of shape (..., p), in the coordinates of `whitened`."""
        return x if self.matrix is None or self.is_identity else x @ self.matrix_root

    def whitened(self, points: FloatArray) -> FloatArray:
        """Parameters of shape (..., p) in coordinates in which given noise is isotropic.

        Where only some directions are seen, the coordinates are those along them, (..., r).
        """
        if self.seen is not None:
            return np.asarray(replace(self, seen=None).whitened(points) @ self.seen)
        if self.matrix is None or self.is_identity:
            return points
        root = self.matrix_root
        flat = points.reshape(-1, len(root)).T
        flat = linalg.solve_triangular(root, flat, lower=True, check_finite=False)
        return np.asarray(flat.T.reshape(points.shape))


ISOTROPIC = NoiseShape()


def given_shape(shape: npt.ArrayLike, p: int) -> FloatArray:
    """Return a covariance from public knowledge, scaled to a trace of p.

    Shapes: ``shape`` (p, p); returns (p, p): exactly symmetric.
    """
    matrix = _check_symmetric(np.asarray(shape), p)
    try:
        ScaledCholesky.of(matrix)
    except SingularMatrixError as error:
        raise ValueError(
            "The shape of the noise must be a positive definite matrix: a direction without "
            f"noise shows the training data; got one that is not ({error}). Add a small "
            "multiple of the identity."
        ) from error
    return matrix * (p / np.trace(matrix))


def _check_symmetric(matrix: FloatArray, p: int) -> FloatArray:
    """Validate a matrix and return it exactly symmetric."""
    if matrix.dtype.kind not in "buif":
        raise TypeError(f"The shape of the noise must hold real numbers; got {matrix.dtype}.")
    if matrix.shape != (p, p):
        raise ValueError(
            f"The shape of the noise must be a matrix of shape ({p}, {p}), one row for each "
            f"parameter, the intercept last; got shape {matrix.shape}."
        )
    matrix = matrix.astype(float)
    if not np.all(np.isfinite(matrix)):
        raise ValueError("The shape of the noise must be finite; got NaN or infinity.")
    # Relative to the diagonal, so that the units of the columns do not matter.
    sizes = np.sqrt(np.abs(np.outer(np.diag(matrix), np.diag(matrix))))
    if np.any(np.abs(matrix - matrix.T) > _ASYMMETRY * np.maximum(sizes, np.abs(matrix))):
        raise ValueError(
            "The shape of the noise must be a symmetric matrix; got one that is not. Pass "
            "`(matrix + matrix.T) / 2` if it is a covariance."
        )
    return 0.5 * (matrix + matrix.T)


Found = TypeVar("Found")


@dataclass(frozen=True)
class FitState:
    """Everything about a fit that must not leave: training records, minimizer, inverse Hessian.

    What it leaks is for `skleak.influence.leakage` to say.
    """

    objective: Objective  # training records with their weights, loss and penalty
    factor: FitFactor  # minimizer and inverse Hessian
    # standard deviation of the noise on each parameter; their root mean square where they differ
    noise_scale: float
    private_target: bool  # whether an attacker is after the target too
    balanced: WeightRule | None = None  # what the reweighting balances and how, if there is one
    balanced_level: float = np.nan  # the leakage to which it is balanced, at unit noise
    feature_names: Array | None = None  # column names, where the training data had them
    # whether the minimizer is one and, under a reweighting, that of its fixed point
    converged: bool = True
    verbose: bool = False  # whether to show the progress of what takes long
    # shape of the noise; another one only without a reweighting and for one predictor
    noise: NoiseShape = ISOTROPIC
    row_labels: pd.Index | None = None  # labels of the records, where the training data had them
    reads_classes: bool = False  # whether the classes are the labels that occur, and none declared
    at_fixed_point: bool = True  # False where only a reweighting did not converge
    persons: Persons | None = None  # whose rows are whose; each row is a person's by default
    # the fit without the reweighting, where there is one, and that fit converged
    plain: FitFactor | None = None
    # Public numbers of noise that is not on the minimizer, which the factor does not know then
    noise_elsewhere: Any = None
    _found: dict[Callable[..., Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def at_noise(self, noise_scale: float) -> "FitState":
        """Return the same fit with noise of another scale; the two share what is costly to find."""
        other = replace(self, noise_scale=noise_scale)
        object.__setattr__(other, "_found", self._found)
        return other

    @property
    def failure(self) -> str:
        """Start of a message: the part that did not converge."""
        if self.at_fixed_point:
            return "The fit did not converge"
        return "The reweighting did not reach its fixed point"

    @property
    def remedy(self) -> str:
        """Advice on such a failure."""
        if self.at_fixed_point:
            return "Raise `max_iter` or `alpha`, or scale the columns."
        return "Raise `alpha` or the reweighting's `max_iter`, or lower its `tol`."

    def once(self, find: Callable[["FitState"], Found]) -> Found:
        """Return what a function finds of this fit, which is called once at all noise scales.

        It may read anything of the state but its noise scale.
        """
        if find not in self._found:
            self._found[find] = find(self)
        found: Found = self._found[find]
        return found

    def knows(self, find: Callable[["FitState"], Any]) -> bool:
        """Return True if `once` has found this already."""
        return find in self._found

    def remember(self, find: Callable[["FitState"], Found], found: Found) -> None:
        """Take what a function found of this fit where its records are, as `once` would."""
        self._found[find] = found

    @property
    def units(self) -> Persons:
        """Who changes, or leaves, as a whole: persons, or else records."""
        if self.persons is not None:
            return self.persons
        return Persons.single(np.arange(len(self.objective.y)))

    @property
    def n_features(self) -> int:
        """Number of columns of a record."""
        return self.factor.n_features

    @property
    def whole_record(self) -> Columns:
        """All columns an attacker is after."""
        return Columns(target=self.private_target)

    @property
    def training(self) -> RecordBatch:
        """All training records, with their weights."""
        objective = self.objective
        return RecordBatch(objective.X, objective.y, objective.sample_weight, objective.reweights)

    def by_person(self, persons: Persons) -> RecordBatch:
        """Return persons, by their first rows, with the weights of all of theirs."""
        first = self.training.take(persons.first)
        weights = persons.sums(self.objective.sample_weight[persons.rows])
        return replace(first, sample_weight=weights, persons=persons)

    def batch(self, X: Data, y: FloatArray) -> RecordBatch:
        """Return records with the part that they take, or would take, in this fit.

        Records of the training data carry their own weights. Others have a weight of one; under a
        reweighting their factor is the one its fixed point would give them,
        a function of what it would leak (`WeightRule`).
        """
        if is_large(X):
            return self._batch_outside(X, y)
        s, omega = np.ones((2, len(y)))
        if not self._is_weighted:
            return RecordBatch(X, y, s, omega)
        rows = self.training_rows(X, y)
        found, new = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
        some = self.objective.parts(rows[found])
        s[found], omega[found] = some.sample_weight, some.reweights
        if self.balanced is not None and len(new):
            kappa = self.balanced.norms(self.factor, X[new], y[new])
            omega[new] = self.balanced.weights(kappa, self.balanced_level)
        return RecordBatch(X, y, s, omega)

    @property
    def _is_weighted(self) -> bool:
        """True if some records count otherwise than others."""
        return self.balanced is not None or self.objective.weight_range != (1.0, 1.0)

    def _batch_outside(self, X: Data, y: FloatArray) -> RecordBatch:
        """Return the same for records outside memory."""
        if same_table(X, y, self.objective):
            return self.training
        if not self._is_weighted:
            ones: Any = dask_module("dask.array").ones(X.shape[0], chunks=(X.chunks[0],))
            return RecordBatch(X, y, ones, ones)
        (s, omega), new = _parts_of(self.objective, X, y), 1.0
        if self.balanced is not None:
            new = balanced_weights(self.balanced, self.factor, self.balanced_level, X, y)
        return RecordBatch(X, y, np.where(s > 0.0, s, 1.0), np.where(s > 0.0, omega, new))

    def training_rows(self, X: Data, y: FloatArray) -> IntArray:
        """Position of each record in the training data, -1 where it is not there.

        The training data as a whole are themselves, row by row. Other records are found by
        value; a training row of weight zero took no part, so that one like it is new.

        Returns (n,).
        """
        objective = self.objective
        same = not is_large(objective.X) and same_numbers(X, objective.X)
        if same and np.array_equal(y, objective.y):
            return np.arange(X.shape[0])
        return _rows_of(objective, X, y)


def alone_in_class(state: FitState, rows: "IntArray | Persons") -> BoolArray:
    """Mask of the training records, by positions, or persons, (n,), with which a class would go.

    Where classes are read off the labels, the classes of a release tell of the only record of one,
    whatever the noise. Where they were declared, nobody is alone.
    """
    counts = state.once(_class_counts)
    persons = rows if isinstance(rows, Persons) else Persons.single(rows)
    if not len(counts) or not len(persons):
        return np.zeros(len(persons), dtype=bool)
    some = state.objective.parts(persons.rows)
    own = np.eye(len(counts))[some.y.astype(np.intp)] * (some.sample_weight > 0.0)[:, None]
    own = persons.sums(own)
    return np.any((own == counts) & (own > 0.0), axis=1)


def lone_classes(state: FitState) -> FloatArray:
    """Labels, in numbers, that one training record of some weight has, (k,); none if declared."""
    return np.flatnonzero(state.once(_class_counts) == 1.0).astype(float)


def _class_counts(state: FitState) -> FloatArray:
    """Count the records of some weight in each class, (K,); empty if these are declared."""
    if not state.reads_classes:
        return np.empty(0)
    several = int(getattr(state.objective, "n_classes", 2))

    def count(y: FloatArray, s: FloatArray) -> FloatArray:
        return np.bincount(y[s > 0.0].astype(np.intp), minlength=several).astype(float)

    records = state.objective.y, state.objective.sample_weight
    return Blocks.of(*records, width=1).map_reduce(count, add)


def seen_through(state: FitState, queries: FloatArray) -> FitState:
    """Return the same fit, as seen through its predictors at some records.

    Shapes: ``queries`` (k, d).
    """
    obstacle = ""
    if state.noise.reads_data:
        obstacle = f"with `noise_covariance={state.noise.name!r}`, a function of the records"
    elif state.balanced is not None:
        obstacle = "under a reweighting"
    elif state.noise_elsewhere is not None:
        obstacle = "with noise that is not on the minimizer"
    if obstacle:
        raise ValueError(
            f"What predictions leak is not known {obstacle}. Leave out `queries`: whoever has the "
            "parameters knows all that predictions tell."
        )
    rows = augment(queries, state.factor.fit_intercept)
    directions = _row_space(state.noise.whitened_dual(rows))
    if isinstance(state.factor, MultinomialFactor):
        # Noise is isotropic there, and every class has a predictor of its own.
        by_class, r = state.factor.by_class, directions.shape[1]
        several = np.zeros((len(state.factor.coefficients), len(by_class), r))
        for k, positions in enumerate(by_class):
            several[positions, k] = directions
        directions = several.reshape(len(several), -1)
    return replace(state, noise=replace(state.noise, seen=directions))


def _row_space(rows: FloatArray) -> FloatArray:
    """Orthonormal basis of the span of rows (k, p), of shape (p, r)."""
    sizes = np.linalg.norm(rows, axis=1)
    rows = rows[sizes > 0.0] / sizes[sizes > 0.0, None]
    if not len(rows):
        return np.zeros((rows.shape[1], 0))
    if len(rows) > rows.shape[1]:
        rows = linalg.qr(rows, mode="r", check_finite=False)[0][: rows.shape[1]]
    _, values, basis = linalg.svd(rows, full_matrices=False)
    # What is told apart by rounding alone is no other query.
    kept = values > 4.0 * max(rows.shape) * np.finfo(float).eps * values[0]
    return np.asarray(basis[kept].T)
