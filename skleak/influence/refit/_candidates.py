"""The minimiser had a record been different, without refitting.

Replacing ``x`` by ``x'`` changes the Hessian by a matrix of rank two (of rank 2 (K - 1) with one
predictor for each of K classes). For the squared loss one
Newton step with the changed Hessian is exact. For other losses it is the start of a chord
iteration with that Hessian, whose gradients over all data are matrix products for a whole block
of candidates at once. A candidate equal to the record's own value is the fit itself.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from skleak.influence.jacobian import MultinomialFactor, check_one_predictor
from skleak.influence.refit._changes import Change
from skleak.influence.refit._chord import ChordSolver, warn_of_unreached
from skleak.influence.refit._expansion import Expansion, expansion_pays
from skleak.influence.refit._multinomial_changes import MultinomialChange
from skleak.influence.refit._reweighted import reweighted_encodings
from skleak.influence.state import FitState
from skleak.utils._blocks import Blocks, dense
from skleak.utils._features import resolve_features
from skleak.utils._linalg import SingularMatrixError
from skleak.utils._typing import Data, FloatArray, IntArray

# Entries of the n x B table of predictors of a block of B candidates: 32 MB.
TABLE_ELEMENTS = 1 << 22
# Error, relative to the coefficients, at which a candidate is settled, and relative to the step.
_TOLERANCE, _LARGEST_TOLERANCE = 1e-11, 1e-7
# The same relative to the step, where it is that of rounding alone.
_SETTLED = 1e-8
# Passes over the data that a candidate takes; operations for one under a reweighting, at least.
_PASSES, _SYSTEM = 3, 3e8


def candidate_encodings(
    estimator_state: Any,
    X: Data,
    y: FloatArray,
    attribute: Any,
    values: Any,
    *,
    rows: IntArray | None = None,
) -> FloatArray:
    """Minimisers of the training objective with one record's attribute set to each value.

    Row ``[i, m]`` is what the fit would have returned had record i carried ``values[m]`` in the
    columns of the attribute, all else equal: the encoding of value m in the Gaussian channel of
    output perturbation. All copies of a weighted record change together. Under a reweighting the
    weights change with the record: the encodings are those of the whole algorithm.

    Parameters
    ----------
    estimator_state : FitState or fitted private estimator
        State of the fit.
    X : ndarray or CSR of shape (n, d)
        Training records to encode, all or some of them.
    y : ndarray of shape (n,)
        Their targets.
    attribute : str, int, slice, mask or list
        Column of the attribute, or the block of its columns (one-hot).
    values : array-like of shape (n_values,), (n_values, k) or (n, n_values, k)
        Candidate values, of a block of k columns; the last for values of each record's own.
    rows : ndarray of int of shape (n,), default=None
        Their positions in the training data. By default they are found by value, and of equal
        rows the one of the largest weight is taken.

    Returns
    -------
    ndarray of shape (n, n_values, n_parameters)
        Noiseless coefficients, then the intercept where there is one (with several classes, the
        coefficients class by class, then the intercepts). Confidential. NaN for a value with which
        no unique minimiser is reached.

    Raises
    ------
    ValueError
        For records that are not in the training data, or values of the wrong shape.

    Warns
    -----
    NoMinimizerWarning
        Where values have no minimiser that could be reached; it says of how many records.
    ConvergenceWarning
        Where a reweighting is not at its fixed point: encodings are then unreliable.

    Notes
    -----
    Squared loss: O(p) per candidate after one matrix product ([FANO23] 6.2 needs these
    encodings; refitting costs O(n p^2) each). Other losses: two or three passes over the data
    per candidate, as matrix products. A candidate so far off that the chord iteration does not
    settle is refitted.

    Under a reweighting the closed system of its fixed point is solved for every candidate in turn:
    one linear step for all, then one or two passes over the data each. Up to 100 parameters; beyond
    that every candidate is refitted by the whole algorithm. The fit itself is as close to its fixed
    point as the tolerance of the reweighting says; all encodings are shifted by what it lacks, so
    that their differences are those of fixed points.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> X[:, 0] = X[:, 0] > 0
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(size=50)
    >>> model = PrivateLinearRegression().fit(X, y)
    >>> candidate_encodings(model, X, y, 0, [0.0, 1.0]).shape
    (50, 2, 4)
    """
    return Candidates.of(estimator_state, X, y, attribute, values, rows).encodings()


@dataclass(frozen=True)
class Candidates:
    """Training records, and the values that an attribute of each might have had."""

    state: FitState
    X: Data  # (n, d)
    y: FloatArray  # (n,)
    rows: IntArray  # positions in the training data, (n,)
    columns: IntArray  # of the attribute, (k,)
    values: FloatArray  # (n, n_values, k)

    @classmethod
    def of(
        cls,
        estimator_state: Any,
        X: Data,
        y: Any,
        attribute: Any,
        values: Any,
        rows: IntArray | None = None,
    ) -> Self:
        """Resolve the arguments of `candidate_encodings`, or say what is wrong with them."""
        if isinstance(estimator_state, FitState):
            state, y = estimator_state, np.asarray(y, dtype=float)
        else:
            X, y = estimator_state._records(X, y)
            state = estimator_state._confidential_state()
        columns = resolve_features(attribute, state.feature_names, state.n_features, "attribute")
        values = _check_values(values, X.shape[0], len(columns))
        rows = _training_rows(state, X, y) if rows is None else rows
        return cls(state, X, y, rows, columns, values)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of records, and of values."""
        return self.values.shape[0], self.values.shape[1]

    def encodings(self) -> FloatArray:
        """Minimisers, of shape (n, n_values, p); NaN, with a warning, where none is reached."""
        state = self.state
        if state.balanced is not None:
            found = reweighted_encodings(state, self.X, self.rows, self.columns, self.values)
        else:
            found = self._unweighted()
        warn_of_unreached(found)
        return found

    def _unweighted(self) -> FloatArray:
        """Minimisers without a reweighting, of shape (n, n_values, p)."""
        state = self.state
        kind = MultinomialChange if isinstance(state.factor, MultinomialFactor) else Change
        n_values, (centered, shift) = self.shape[1], state.once(centered_state)
        if shift is not None:
            X, values = dense(self.X) - shift, self.values - shift[self.columns]
            there = replace(self, state=centered, X=X, values=values)
            return state.objective.moved(there._unweighted(), -shift)
        expansion = None
        if kind is Change and _expands(state, len(self.y) * n_values):
            expansion = state.once(Expansion.of)

        def encode(X: FloatArray, y: FloatArray, rows: IntArray, values: FloatArray) -> FloatArray:
            change = kind.of(state, X, y, rows, self.columns, values)
            found = encoded(change, expansion)
            return found.reshape(len(y), n_values, -1)

        records, width = (self.X, self.y, self.rows, self.values), n_values * kind.width(state)
        return Blocks.of(*records, width=width, elements=TABLE_ELEMENTS, part="encodings").map(
            encode
        )

    def changes(self) -> Change:
        """All changes at once, for a model with one predictor."""
        check_one_predictor(self.state.factor)
        X = dense(self.X)
        return Change.of(self.state, X, self.y, self.rows, self.columns, self.values)


def _expands(state: FitState, n_candidates: int) -> bool:
    return state.knows(Expansion.of) or expansion_pays(state.objective, n_candidates)


def centered_state(state: FitState) -> tuple[FitState, FloatArray | None]:
    """Return the same fit with columns far from zero centred, and what was subtracted, (d,)."""
    shift = state.objective.far_means()
    if shift is None:
        return state, None
    objective = state.objective.shifted(shift)
    w = objective.moved(state.factor.coefficients, shift)
    try:
        inverse = objective.at(w).hessian.inverse()
    except SingularMatrixError:
        return state, None
    factor = replace(state.factor, coefficients=w, inverse_hessian=inverse, shaped=None)
    return replace(state, objective=objective, factor=factor), shift


def prepare_candidates(state: FitState, n_candidates: int) -> None:
    """Find what so many candidates have in common, before they are encoded in parts."""
    one_predictor = not isinstance(state.factor, MultinomialFactor)
    if state.balanced is None and one_predictor and _expands(state, n_candidates):
        state.once(Expansion.of)


def operations_each(state: FitState, n_candidates: int) -> float:
    """Estimate how many multiplications and additions one of some candidates takes."""
    objective, p = state.objective, state.factor.coefficients.size
    if state.balanced is not None:
        return float(_SYSTEM + _PASSES * len(objective.y) * p)
    if objective.loss.quadratic:
        return float(p)
    one_predictor = not isinstance(state.factor, MultinomialFactor)
    if one_predictor and expansion_pays(objective, n_candidates):
        return float(p**3)
    return float(_PASSES * len(objective.y) * p)


def encoded(change: Change, expansion: Expansion | None = None) -> FloatArray:
    """Minimisers with each of some changes, of shape (b, p); NaN where none is reached."""
    state, w = change.state, change.state.factor.coefficients
    result = np.tile(w, (len(change.y), 1))
    active = np.flatnonzero(change.moves & (change.weight > 0.0))
    if not len(active):
        return result
    change = change.take(active)
    # A step that overflows is not settled, and its candidate is refitted.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        hessian = change.hessian()
        # At the old minimiser only the changed record's own gradient is left: no pass is needed.
        gradient = change.own_gradient(result[active])
        steps = -hessian.solve(gradient)
        solver = ChordSolver(hessian, change.gradient, change.refit)
        if state.objective.loss.quadratic:
            solver.settle_rounded(steps, change.rounding_error(gradient, steps), _SETTLED)
        else:
            rounding = change.rounding_error(gradient, steps)
            moved = error = np.linalg.norm(steps, axis=1)
            if expansion is not None:
                steps, moved, error = expansion.improved(change, hessian, steps)
            # In small units steps are below any absolute limit.
            limit = _TOLERANCE * max(1.0, float(np.linalg.norm(w))) / np.linalg.norm(steps, axis=1)
            limit = np.clip(limit, _TOLERANCE, _LARGEST_TOLERANCE)
            solver.settle_rounded(steps, rounding, limit, error, moved=moved)
        result[active] += steps
    return result


def _check_values(values: Any, n: int, n_columns: int) -> FloatArray:
    """Candidates of every record, of shape (n, n_values, n_columns)."""
    values = np.asarray(values, dtype=float)
    if values.ndim == 1 and n_columns == 1:
        values = values[:, None]
    own = values.ndim == 3 and len(values) == n
    if not (own or values.ndim == 2) or values.shape[-1] != n_columns or not values.shape[-2]:
        raise ValueError(
            f"`values` must have shape (n_values, {n_columns}) for an attribute of {n_columns} "
            f"columns; got {values.shape}. Pass one row per candidate."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError("`values` must be finite; got NaN or infinity. Drop those candidates.")
    return np.broadcast_to(values, (n, *values.shape[-2:]))


def _training_rows(state: FitState, X: Data, y: FloatArray) -> IntArray:
    rows = state.training_rows(X, y)
    missing = int(np.sum(rows < 0))
    if missing:
        raise ValueError(
            f"{missing} of {len(rows)} records are not in the training data. Encodings replace a "
            "training record: pass rows of the data the model was fitted on, with their true "
            "targets."
        )
    return rows
