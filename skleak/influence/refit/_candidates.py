"""Fits for every candidate value of a record.

The minimizer of a reweighted fit had a record been different, weights and all.

The weights are functions of all records. A candidate in place of a record moves the fixed point of
the reweighting, which is found by chord steps on its closed system (`_closed_system`): the first
one, with all other records linearized, needs no pass over the data, and each further one a single
pass and shrinks the error about n times. What does not settle is refitted by the whole algorithm
from the weights of the fit, as is everything where the system is too large to be written out.

The minimizer had a record been different, without refitting.

Replacing ``x`` by ``x'`` changes the Hessian by a matrix of rank two (of rank 2 (K - 1) with one
predictor for each of K classes). For the squared loss one
Newton step with the changed Hessian is exact. For other losses it is the start of a chord
iteration with that Hessian, whose gradients over all data are matrix products for a whole block
of candidates at once. A candidate equal to the record's own value is the fit itself.
"""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from skleak.influence.jacobian import MultinomialFactor, record_norms
from skleak.influence.refit._changes import Change, Expansion, change_width, expansion_pays
from skleak.influence.refit._chord import centered_state, error_left, warn_of_unreached
from skleak.influence.reweighting import ClosedSystem, RecordSearch, Replacement
from skleak.influence.state import FitState, alone_in_class
from skleak.solvers import Objective, minimize
from skleak.utils._blocks import Blocks, dense, row_blocks, stacked
from skleak.utils._records import Persons, resolve_features
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import BoolArray, Data, FloatArray, IntArray

# Largest number of parameters for which the system is written out: its matrix takes 0.2 GB.
_LARGEST_DENSE = 100
# Entries of the largest table of one block of candidates: 32 MB.
_TABLE_ELEMENTS = 1 << 22
# Error relative to the candidate's distance from the fit at which it is settled, and the relative
# step below which there is only rounding noise.
_SETTLED_ERROR, _ROUNDING = 1e-8, 1e-13
_MOST_PASSES = 30
# Passes before a candidate may be given up, and by how much it must miss its tolerance.
_FIRST_PASSES, _HOPELESS = 4, 100.0
_REFIT_SPREAD, _MOST_REFITS = 1e-10, 60
# Largest relative deviation from the fixed point at which a fit has reached it.
_LARGEST_DEVIATION = 1e-3
# Entries of ``n x p^2`` tables over all candidates from which on it takes ten minutes, or hours.
_LONG = 1e11


def reweighted_encodings(
    state: FitState, X: Data, rows: "IntArray | Persons", columns: IntArray, values: FloatArray
) -> FloatArray:
    """Encode candidates in a reweighted fit; see `candidate_encodings`.

    Shapes: ``X`` (n, d); ``rows`` (n,), or persons, who are refitted one by one; ``columns`` (k,);
    ``values`` (n, n_values, k); returns (n, n_values, p).
    """
    refits = _Refits.of(state)
    n_values, w = values.shape[1], state.factor.coefficients
    if isinstance(rows, Persons):
        found = np.tile(w, (len(rows), n_values, 1))
        for i, (start, stop) in enumerate(pairwise(rows.starts)):
            members, own = rows.rows[start:stop], dense(X[start:stop])
            for m in range(n_values):
                new = own.copy()
                new[:, columns] = values[start:stop, m]
                moved = np.any(new != own, axis=1) & (state.objective.weights[members] > 0.0)
                if moved.any():
                    changed = state.objective.with_record(members[moved], new[moved])
                    found[i, m] += refits._refit(changed) - refits.start
        refits.warn()
        return found
    encodings = np.tile(w, (X.shape[0], n_values, 1))
    present = state.objective.sample_weight[rows] > 0.0

    def differs(X: FloatArray, present: BoolArray, values: FloatArray) -> BoolArray:
        return np.any(X[:, columns][:, None, :] != values, axis=2) & present[:, None]

    pairs = np.argwhere(Blocks.of(X, present, values, width=n_values * X.shape[1]).map(differs))
    blocks = row_blocks(len(pairs), refits.width, _TABLE_ELEMENTS)
    is_long = len(pairs) * len(state.objective.y) * float(len(w)) ** 2 > _LONG
    if is_long:
        warnings.warn(
            f"Under a reweighting each of the {len(pairs)} candidates takes a few passes over all "
            f"{len(state.objective.y)} training records: this may take hours. Attack fewer records "
            "(`targets`, or `--max-records` on the command line).",
            UserWarning,
            stacklevel=outer_stacklevel(),
        )
    hidden = not (state.verbose or is_long)
    with tqdm(total=len(pairs), desc="encodings", leave=False, disable=hidden) as bar:

        def solve(some: slice) -> FloatArray:
            i, m = pairs[some].T
            new = dense(state.objective.X[rows[i]])
            new[:, columns] = values[i, m]
            found = refits.solve(rows[i], new)
            bar.update(len(i))
            return found

        if len(pairs):
            found = stacked("encodings of candidates", len(pairs), blocks, solve)
            encodings[tuple(pairs.T)] = w + (found - refits.start)
    refits.warn()
    return encodings


@dataclass
class _Refits:
    """Fixed points of the reweighting with records replaced.

    Differences are taken from the fixed point itself, as a fit is only that close to it as its
    tolerance says, which may be a good part of what one record does.
    """

    state: FitState
    system: ClosedSystem | None  # None where it is too large, or its fixed point was not found
    start: FloatArray  # coefficients of the fixed point
    deviation: float
    n_unsettled: int = 0

    @classmethod
    def of(cls, state: FitState) -> "_Refits":
        return replace(state.once(cls._found), n_unsettled=0)

    @classmethod
    def _found(cls, state: FitState) -> "_Refits":
        objective, balanced = state.objective, state.balanced
        assert balanced is not None
        kappa = balanced.norms(state.factor, objective.X, objective.y)
        losses = balanced.losses(objective.reweights, kappa, objective.sample_weight)
        losses = losses[objective.sample_weight > 0.0]
        mean = losses.mean()
        if mean == 0.0:  # all weights are one; where something leaks all the same, not for long
            whole = record_norms(state.factor, objective.X, objective.y, state.whole_record)
            leaks = np.any(whole[objective.sample_weight > 0.0] > 0.0)
            return cls(state, None, state.factor.coefficients, np.inf if leaks else 0.0)
        deviation = float(np.max(np.abs(losses / mean - 1.0)))
        if len(state.factor.coefficients) <= _LARGEST_DENSE and deviation <= _LARGEST_DEVIATION:
            system = _fixed_point(state)
            if system is not None:
                return cls(state, system, system.factor.coefficients, deviation)
        refits = cls(state, None, state.factor.coefficients, deviation)
        refits.start = refits._refit(objective)
        return refits

    @property
    def width(self) -> int:
        """Entries of the largest table that a candidate needs."""
        p = len(self.start)
        return p if self.system is None else 4 * self.system.system.packing.size

    def solve(self, rows: IntArray, new: FloatArray) -> FloatArray:
        """Coefficients with each of the candidates ``new`` (b, d) in place of a training record.

        Returns (b, p).
        """
        found = np.full((len(rows), len(self.start)), np.nan)
        if self.system is not None:
            with np.errstate(all="ignore"):  # what overflows does not settle
                _settle(self.system, self.system.replacement(rows, new), found)
        for k in np.flatnonzero(np.isnan(found).any(axis=1)):
            found[k] = self._refit(self.state.objective.with_record(int(rows[k]), new[k]))
        return found

    def _refit(self, objective: Objective) -> FloatArray:
        """Run the whole algorithm from the weights of the fit; NaN where a fit has no minimizer."""
        rule = self.state.balanced
        assert rule is not None
        search = RecordSearch(
            objective,
            rule,
            False,
            _MOST_REFITS,
            _REFIT_SPREAD,
            partial(minimize, tol=_ROUNDING),
            last=self.state.factor.coefficients,
        )
        search.run()
        assert search.best is not None
        self.n_unsettled += search.best.spread > 1e-6
        minimum = search.best.minimum
        return minimum.coefficients if minimum.converged else np.full_like(self.start, np.nan)

    def warn(self) -> None:
        """Say what makes the encodings unreliable."""
        if not self.deviation <= _LARGEST_DEVIATION:
            warnings.warn(
                "The encodings of this reweighted fit are unreliable. They are those of the fixed "
                "point of the reweighting, from which the balanced leakage of a record deviates by "
                f"up to {self.deviation:.1e} (relative), expected at most {_LARGEST_DEVIATION:g}. "
                "Raise the reweighting's `max_iter` or `alpha`, or lower its `tol`.",
                ConvergenceWarning,
                stacklevel=outer_stacklevel(),
            )
        elif self.n_unsettled:
            warnings.warn(
                f"The reweighting did not reach its fixed point for {self.n_unsettled} candidates: "
                "their encodings are unreliable. Raise `alpha`.",
                ConvergenceWarning,
                stacklevel=outer_stacklevel(),
            )


def _fixed_point(state: FitState) -> ClosedSystem | None:
    """Return the closed system at the fixed point next to a fit; None where it was not found."""
    objective = state.objective
    if sparse.issparse(objective.X):
        objective = replace(objective, X=objective.X.toarray())
    assert state.balanced is not None
    system = ClosedSystem.of(objective, state.factor, state.balanced_level, state.balanced)
    v, last = np.zeros(system.system.packing.size), np.inf
    try:
        for _ in range(_MOST_PASSES):
            step = system.solve(system.residual(v[None])[0])
            size = float(np.linalg.norm(step))
            if not size < 0.5 * last:  # nothing but rounding noise is left, or it diverges
                return system.moved(v) if last <= 1e-9 else None
            v, last = v - step, size
        return system.moved(v) if last <= 1e-9 else None
    except (np.linalg.LinAlgError, ValueError):
        return None


def _settle(system: ClosedSystem, change: Replacement, found: FloatArray) -> None:
    """Put in the coefficients with each candidate in place of its record, where steps tell them."""
    v = change.step
    pending, last = np.arange(len(v)), _sizes(system, v)
    for done in range(1, _MOST_PASSES + 1):
        pending = pending[np.isfinite(v[pending]).all(axis=1)]
        if not len(pending):
            return
        some = change.take(pending)
        try:
            step = some.correct(system.solve(system.residual(v[pending], some).T).T)
        except (np.linalg.LinAlgError, ValueError):
            return
        v[pending] -= step
        size, now = _sizes(system, step), _sizes(system, v[pending])
        limit = np.maximum(_SETTLED_ERROR * now, _ROUNDING * _scales(system))
        settled = np.all(error_left(size, last[pending]) <= limit, axis=1)
        over = pending[settled]
        found[over] = system.factor.coefficients + system.coefficients(v[over])
        if done >= _FIRST_PASSES:
            # Steps shrink by about the same factor each: too slowly for the passes that are left?
            shrink = np.minimum(size / last[pending], 1.0)
            missed = size * shrink ** (_MOST_PASSES - done) > _HOPELESS * limit
            settled |= np.any(missed, axis=1)
        last[pending] = size
        pending = pending[~settled]


def _sizes(system: ClosedSystem, v: FloatArray) -> FloatArray:
    """Size of steps (b, size), and of their parts in the coefficients, of shape (b, 2)."""
    return np.column_stack(
        [np.linalg.norm(v, axis=1), np.linalg.norm(system.coefficients(v), axis=1)]
    )


def _scales(system: ClosedSystem) -> FloatArray:
    """Sizes to which rounding noise of either is relative."""
    w = system.factor.coefficients
    whitened = np.linalg.solve(system.balance.root, w)
    return np.array([np.linalg.norm(whitened) + np.sqrt(len(w)), np.linalg.norm(w)])


# Entries of the n x B table of predictors of a block of B candidates: 32 MB. Of encodings, whose
# passes go by blocks of records, there are more at once: each block costs as much as a hundred.
TABLE_ELEMENTS, _AT_ONCE = 1 << 22, 64
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
    rows: "IntArray | Persons | None" = None,
) -> FloatArray:
    """Minimizers of the training objective with one record's attribute set to each value.

    Row ``[i, m]`` is what the fit would have returned had record i carried ``values[m]`` in the
    columns of the attribute, all else equal: the encoding of value m in the Gaussian channel of
    output perturbation. All copies of a weighted record change together, and so do all rows of a
    person. Under a reweighting the weights change with the record: the encodings are those of the
    whole algorithm.

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
    rows : ndarray of int of shape (n,) or Persons, default=None
        Their positions in the training data, or whose rows they are, in the order of X. By default
        they are found by value, and of equal rows the one of the largest weight is taken.

    Returns
    -------
    ndarray of shape (n, n_values, n_parameters)
        For each record, or person: noiseless coefficients, then the intercept where there is one
        (with several classes, the coefficients class by class, then the intercepts). Confidential.
        NaN for a value with which no unique minimizer is reached.

    Raises
    ------
    ValueError
        For records that are not in the training data, or values of the wrong shape.

    Warns
    -----
    NoMinimizerWarning
        Where values have no minimizer that could be reached; it says of how many records.
    ConvergenceWarning
        Where a reweighting is not at its fixed point: encodings are then unreliable.

    Notes
    -----
    Squared loss: O(p) per candidate after one matrix product ([FANO23] 6.2 needs these
    encodings; refitting costs O(n p^2) each), O(k^2 p) for k rows, and O(k p^2) for many. Other
    losses: two or three passes over the data per candidate, as matrix products. A candidate so far
    off that the chord iteration does not settle is refitted.

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
    persons: Persons | None = None  # where several rows are of one
    targets: FloatArray | None = None  # that change with the values, (n, n_values); None for y

    @classmethod
    def of(
        cls,
        estimator_state: Any,
        X: Data,
        y: Any,
        attribute: Any,
        values: Any,
        rows: IntArray | Persons | None = None,
    ) -> Self:
        """Resolve the arguments of `candidate_encodings`, or say what is wrong with them."""
        if isinstance(estimator_state, FitState):
            state, y = estimator_state, np.asarray(y, dtype=float)
        else:
            X, y = estimator_state._records(X, y)
            state = estimator_state._confidential_state()
        columns = resolve_features(attribute, state.feature_names, state.n_features, "attribute")
        values = _check_values(values, X.shape[0], len(columns))
        if isinstance(rows, Persons) and rows.is_single:
            rows = rows.rows
        if isinstance(rows, Persons):
            return cls(state, X, y, rows.rows, columns, values, rows)
        rows = _training_rows(state, X, y) if rows is None else rows
        return cls(state, X, y, rows, columns, values)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of records or persons, and of values."""
        n = len(self.rows) if self.persons is None else len(self.persons)
        return n, self.values.shape[1]

    def encodings(self) -> FloatArray:
        """Minimizers, of shape (n, n_values, p); NaN, with a warning, where none is reached."""
        state = self.state
        if state.balanced is not None:
            rows = self.rows if self.persons is None else self.persons
            found = reweighted_encodings(state, self.X, rows, self.columns, self.values)
        else:
            found = self._unweighted()
        warn_of_unreached(found)
        return found

    def _unweighted(self) -> FloatArray:
        """Minimizers without a reweighting, of shape (n, n_values, p)."""
        state, n_values, persons = self.state, self.shape[1], self.persons
        centered, shift = state.once(centered_state)
        if shift is not None:
            X, values = dense(self.X) - shift, self.values - shift[self.columns]
            there = replace(self, state=centered, X=X, values=values)
            return state.objective.moved(there._unweighted(), -shift)
        expands = _expands(state, self.shape[0] * n_values)
        expansion = state.once(Expansion.of) if expands else None

        def encode(
            X: FloatArray,
            y: FloatArray,
            rows: IntArray,
            values: FloatArray,
            targets: FloatArray | None = None,
        ) -> FloatArray:
            change = Change.of(state, X, y, rows, self.columns, values, targets)
            found = encoded(change, expansion)
            return found.reshape(len(y), -1, found.shape[1])

        width = n_values * change_width(state, _AT_ONCE)
        if persons is None:
            records = [self.X, self.y, self.rows, self.values]
            records += [] if self.targets is None else [self.targets]
            blocks = Blocks.of(*records, width=width, elements=TABLE_ELEMENTS, part="encodings")
            return blocks.map(encode)
        result = np.empty((*self.shape, len(state.factor.coefficients)))
        for which in persons.blocks(width, TABLE_ELEMENTS):
            places = persons.places(which)
            X = dense(self.X[places.ravel()]).reshape(*places.shape, -1)
            rows = np.where(places < 0, -1, self.rows[places])
            values, put = self.values[places].transpose(0, 2, 1, 3), None
            if self.targets is not None:
                put = np.swapaxes(self.targets[places], 1, 2)
            # Of a person with many rows one value after the other.
            for m in np.array_split(np.arange(n_values), n_values if len(which) == 1 else 1):
                given = values[:, m], None if put is None else put[:, m]
                result[which[:, None], m] = encode(X, self.y[places], rows, *given)
        return result

    def changes(self) -> Change:
        """All changes at once, for a model with one predictor."""
        self.state.factor.check_one_predictor()
        if self.persons is not None:
            raise ValueError("The shape of noise is not known where several rows change together.")
        given = dense(self.X), self.y, self.rows, self.columns, self.values
        return Change.of(self.state, *given)


def _expands(state: FitState, n_candidates: int) -> bool:
    """Return True if third derivatives of all losses are worth their while."""
    if state.balanced is not None or isinstance(state.factor, MultinomialFactor):
        return False
    return state.knows(Expansion.of) or expansion_pays(state.objective, n_candidates)


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
    """Minimizers with each of some changes, of shape (b, p); NaN where none is reached."""
    w = change.w
    result = np.tile(w, (len(change.y), 1))
    active = np.flatnonzero(change.moves)
    if not len(active):
        return result
    change = change.take(active)
    # A step that overflows is not settled, and its candidate is refitted.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # At the old minimizer only the changed record's own gradient is left: no pass is needed.
        steps = change.first_steps()
        if change.objective.loss.quadratic:
            change.settle(steps, _SETTLED)
        else:
            moved = error = np.linalg.norm(steps, axis=1)
            if expansion is not None:
                steps, moved, error = expansion.improved(change, steps)
            # In small units steps are below any absolute limit.
            limit = _TOLERANCE * max(1.0, float(np.linalg.norm(w))) / np.linalg.norm(steps, axis=1)
            change.settle(steps, np.clip(limit, _TOLERANCE, _LARGEST_TOLERANCE), error, moved=moved)
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


def target_encodings(
    state: FitState, rows: "IntArray | Persons", targets: FloatArray
) -> FloatArray:
    """Minimizers with the target of each record set to each of its values, without a reweighting.

    All rows of a person get the same.

    Shapes: ``rows`` (n,), positions in the training data, or persons; ``targets`` (n_values,), or
    (n, n_values) for values of each record's own, of persons for each of their rows; returns (n,
    n_values, p): NaN, with a warning, where no minimizer is reached, or where a class that was read
    off the labels would be gone.
    """
    if state.balanced is not None:
        raise ValueError("Under a reweighting, what another target does is not known in this form.")
    persons = rows if isinstance(rows, Persons) else Persons.single(rows)
    targets = np.broadcast_to(targets, (len(persons.rows), np.shape(targets)[-1]))
    some, none = state.objective.parts(persons.rows), np.zeros((*targets.shape, 0))
    given = state, some.X, some.y, persons.rows, np.zeros(0, dtype=np.intp), none
    whose = None if persons.is_single else persons
    result = Candidates(*given, whose, targets)._unweighted()
    gone = alone_in_class(state, persons)[:, None]
    moved = persons.sums((targets != some.y[:, None]).astype(float)) > 0.0
    result[np.broadcast_to(gone, moved.shape) & moved] = np.nan
    warn_of_unreached(result)
    return result


# Relative error by rounding of an inverse Hessian, from which on it is found anew.
_INVERSE_ROUNDED = 1e-8


def inverse_hessians(candidates: Candidates, encodings: FloatArray | None = None) -> FloatArray:
    """Inverse Hessians of the fits with one record's attribute set to each value.

    Matrix ``[i, m]`` is the inverse of the unnormalized Hessian that the fit would have had with
    record i carrying ``values[m]``: together with the encodings, found if they are not given, it
    makes the hypotheses of an attacker on noise that is shaped by the curvature. Under a
    reweighting the weights are held fixed.

    Squared loss: O(p^2) per candidate, exact. Other losses: one pass over the data per candidate,
    O(N p^2) for N training records, because the curvature of all of them changes.
    """
    state, change = candidates.state, candidates.changes()
    p = len(state.factor.coefficients)
    if state.objective.loss.quadratic:
        hessian = change.hessian
        result = hessian.inverse - hessian.basis.transpose(0, 2, 1) @ hessian.core @ hessian.basis
        result = 0.5 * (result + result.transpose(0, 2, 1))
        still = np.zeros((len(result), p))
        rounded = np.flatnonzero(change.rounding_error(still, moved=False) > _INVERSE_ROUNDED)
        if len(rounded):
            result[rounded] = _refactorized(state, change.take(rounded), still[rounded])
    else:
        encodings = candidates.encodings() if encodings is None else encodings
        result = _refactorized(state, change, np.asarray(encodings).reshape(-1, p))
    return result.reshape(*candidates.shape, p, p)


def _refactorized(state: FitState, change: Change, encodings: FloatArray) -> FloatArray:
    """Return the Hessian of every changed objective at its own minimizer, factorized anew."""
    p = encodings.shape[1]
    result = np.empty((len(change.y), p, p))
    for k, moves in enumerate(change.moves):
        if not moves:
            result[k] = state.factor.inverse_hessian
            continue
        record = change.x[k, 1, : state.n_features]
        objective = state.objective.with_record(int(change.rows[k, 0]), record)
        result[k] = objective.at(encodings[k]).hessian.inverse()
    return result
