"""The minimiser of a reweighted fit had a record been different, weights and all.

The weights are functions of all records. A candidate in place of a record moves the fixed point of
the reweighting, which is found by chord steps on its closed system (`_closed_system`): the first
one, with all other records linearised, needs no pass over the data, and each further one a single
pass and shrinks the error about n times. What does not settle is refitted by the whole algorithm
from the weights of the fit, as is everything where the system is too large to be written out.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from skleak.influence.jacobian import FitFactor, record_norms
from skleak.influence.refit._chord import error_left
from skleak.influence.reweighting import ClosedSystem, Replacement, equalize, newton_direction
from skleak.influence.state import FitState
from skleak.solvers import Minimum, Objective, minimize
from skleak.utils._blocks import Blocks, dense, row_blocks, stacked
from skleak.utils._typing import BoolArray, Data, FloatArray, IntArray
from skleak.utils._warnings import outer_stacklevel

# Largest number of parameters for which the system is written out: its matrix takes 0.2 GB.
_LARGEST_DENSE = 100
# Entries of the largest table of one block of candidates: 32 MB.
_ELEMENTS = 1 << 22
# Error relative to the candidate's distance from the fit at which it is settled, and the relative
# step below which there is only rounding noise.
_TOLERANCE, _ROUNDING = 1e-8, 1e-13
_MOST_PASSES = 30
# Passes before a candidate may be given up, and by how much it must miss its tolerance.
_FIRST_PASSES, _HOPELESS = 4, 100.0
_REFIT_SPREAD, _MOST_REFITS = 1e-10, 60
# Largest relative deviation from the fixed point at which a fit has reached it.
_LARGEST_DEVIATION = 1e-3
# Entries of ``n x p^2`` tables over all candidates from which on it takes ten minutes, or hours.
_LONG = 1e11


def reweighted_encodings(
    state: FitState,
    X: Data,
    rows: IntArray,
    columns: IntArray,
    values: FloatArray,
) -> FloatArray:
    """Encode candidates in a reweighted fit; see `candidate_encodings`.

    Shapes: ``X`` (n, d); ``rows`` (n,); ``columns`` (k,); ``values`` (n, n_values, k);
    returns (n, n_values, p).
    """
    refits = _Refits.of(state)
    n_values, w = values.shape[1], state.factor.coefficients
    encodings = np.tile(w, (X.shape[0], n_values, 1))
    present = state.objective.sample_weight[rows] > 0.0

    def differs(X: FloatArray, present: BoolArray, values: FloatArray) -> BoolArray:
        return np.any(X[:, columns][:, None, :] != values, axis=2) & present[:, None]

    pairs = np.argwhere(Blocks.of(X, present, values, width=n_values * X.shape[1]).map(differs))
    blocks = row_blocks(len(pairs), refits.width, _ELEMENTS)
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
            i, m = pairs.T
            found = stacked("encodings of candidates", len(pairs), blocks, solve)
            encodings[i, m] = w + (found - refits.start)
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
        """Run the whole algorithm from the weights of the fit; NaN where a fit has no minimiser."""
        rule = self.state.balanced
        assert rule is not None
        base, copies = objective.reweights, objective.sample_weight
        start = self.state.factor.coefficients

        def weights(factors: FloatArray) -> FloatArray:
            product = base * factors
            return product * (copies.sum() / (copies @ product))

        def measure(factors: FloatArray) -> tuple[FloatArray, Minimum]:
            nonlocal start
            omega = weights(factors)
            minimum = minimize(objective.reweighted(omega), start=start, tol=_ROUNDING)
            start = minimum.coefficients
            kappa = rule.norms(FitFactor.of(objective, minimum), objective.X, objective.y)
            return rule.losses(omega, kappa, copies), minimum

        def newton(
            factors: FloatArray, minimum: Minimum, residual: FloatArray, rtol: float
        ) -> FloatArray:
            now = objective.reweighted(weights(factors))
            factor = FitFactor.of(objective, minimum)
            return newton_direction(now, factor, rule, residual, rtol=rtol).change

        result = equalize(
            measure,
            copies,
            max_iter=_MOST_REFITS,
            tol=_REFIT_SPREAD,
            newton=newton,
            eager=True,
        )
        self.n_unsettled += result.spread > 1e-6
        if not result.state.converged:
            return np.full_like(start, np.nan)
        return result.state.coefficients

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
        limit = np.maximum(_TOLERANCE * now, _ROUNDING * _scales(system))
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
