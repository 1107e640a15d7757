"""How far apart releases are under other values of one column, for every record of a fit."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skleak.exceptions import NoMinimizerWarning
from skleak.influence.jacobian import MultinomialFactor
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import (
    OneStep,
    candidate_encodings,
    largest_distances,
    target_encodings,
    whitened,
)
from skleak.influence.state import FitState, RecordBatch
from skleak.report.measures._gain import RARE
from skleak.report.measures._unknown import Unknown
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# Multiplications and additions that exact encodings of a report may take.
MOST_WORK = 1e10
_ROUNDS = 3
_PASSES, _REWEIGHTED_PASSES = 3.0, 30.0
_SYSTEM = 3e8  # as much as a system of its own takes for each value, however small it is
_MOST_PARAMETERS = 100  # of a fit whose reweighting is solved for
# Relative to the parameters, distances at unit noise below this are rounding.
_ROUND_OFF = 1e-13
# Nodes of the normal law of a number, and the step between its values, in standard deviations.
_N_NODES, _STEP = 7, 0.01

ESTIMATED = "by one Newton step: there are too many records to solve for each"
FIRST_ORDER = "to first order: a change of this kind has no exact answer under a reweighting"
SHAPE = "the covariance of the noise is a function of the records: what it tells comes on top"
GOAL = "the noise scale is a function of the records: what it tells comes on top"
UNREACHED = "another value has no minimiser that could be reached: nothing bounds what it tells"
TOGETHER = "a block of numbers, all of them moved together"
ONE_VALUE = "all records have the same value"


@dataclass(frozen=True)
class Separation:
    """Distances over the noise between values of one column of n records. Confidential."""

    name: str
    kind: str  # "values", "number", or "numbers", a block of them
    n_values: float  # how many values are told apart; NaN for numbers
    distance: FloatArray  # largest of two values, (n,)
    from_own: FloatArray  # largest from the record's own value, (n,)
    share: FloatArray  # share of the records with the same value; NaN for numbers, (n,)
    exact: BoolArray  # whether the distances are exact, (n,)
    note: str = ""
    sd: float = np.nan  # of a number
    information: float = np.nan  # about a number, averaged over its prior, for the most exposed

    @property
    def share_removed(self) -> float:
        """Share of the squared error of an attacker with a normal prior that is removed at most."""
        if self.information == np.inf:
            return 1.0 if self.sd > 0.0 else 0.0
        ratio = self.information * self.sd**2
        return ratio / (1.0 + ratio)


@dataclass(frozen=True)
class Separator:
    """Some records of a fit, and how far apart their values are."""

    state: FitState
    batch: RecordBatch
    rows: IntArray  # positions in the training data, -1 for records that were not trained on, (n,)
    work: float = MOST_WORK  # for each column
    note: str = ""  # what holds for all columns
    fewest: int = 8  # records of a column that are solved for, whatever the work

    @cached_property
    def one_step(self) -> OneStep | None:
        """All records, prepared for one Newton step; None where there is no such answer."""
        if isinstance(self.state.factor, MultinomialFactor):
            return None
        return OneStep.of(self.state, self.batch)

    def measure(self, unknown: Unknown) -> Separation:
        """Distances between the values of a column of every record."""
        own = unknown.entries(self.batch.X, self.batch.y)
        share = unknown.shares(own)
        n_values = np.nan if unknown.values is None else float(len(unknown.values))
        if self.state.converged:
            distances, exact = self._distances(unknown, own, share)
            lost = ~np.isfinite(distances[0]) & self.batch.present
            distances = self.over_noise(np.where(self.batch.present, distances, 0.0))
            information = self.information(unknown) if unknown.kind == "number" else np.nan
            told = bool(np.all((exact | lost)[self.batch.present]))
            why = self.why(unknown, told, bool(np.any(lost)))
        else:
            distances, exact = np.full((2, len(own)), np.nan), np.zeros(len(own), dtype=bool)
            information, why = np.nan, ""
        return Separation(
            unknown.name,
            unknown.kind,
            n_values,
            distances[0],
            distances[1],
            share,
            exact,
            "; ".join(filter(None, (why, self.note))),
            float(unknown.sd[0]) if unknown.kind == "number" else np.nan,
            information,
        )

    def estimates(self, columns: Sequence[Unknown]) -> FloatArray:
        """Largest distance between the values of each column, without solving for any record.

        Of columns of few values; over the noise; (n_columns,).
        """
        present = self.batch.present
        if self.one_step is None:
            unit = leakage_model(self.state.at_noise(1.0))
            loss = unit.feature_loss(self.batch, [one.block for one in columns])
            return self.over_noise(loss[present].max(axis=0) * [one.span for one in columns])
        largest = []
        for one in columns:
            own = one.entries(self.batch.X, self.batch.y)
            distances = self.estimated(one, own, one.candidates(own))[0][0]
            largest.append(distances[present].max())
        return self.over_noise(np.array(largest))

    def _distances(
        self, unknown: Unknown, own: FloatArray, share: FloatArray
    ) -> tuple[FloatArray, BoolArray]:
        """Distances at unit noise, (2, n), and which of them are exact, (n,)."""
        candidates = unknown.candidates(own)
        distances, exact = self.estimated(unknown, own, candidates)
        solvable = self.solvable(unknown) & (self.rows >= 0) & self.batch.present
        most = self.most_solved(candidates.shape[-2])
        rare = np.flatnonzero((share <= RARE) & solvable)[:most]
        lost = np.zeros(len(own), dtype=bool)
        for _ in range(_ROUNDS):
            open_ = np.flatnonzero(solvable & ~exact & ~lost)
            order = open_[np.argsort(-distances[0, open_], kind="stable")]
            which = np.union1d(order[:most], rare[~(exact | lost)[rare]])
            if not len(which):
                break
            some = candidates if candidates.ndim == 2 else candidates[which]
            distances[:, which] = self.solved(unknown, which, some)
            lost[which] = ~np.isfinite(distances[0, which])
            exact[which] = ~lost[which] & (not self.state.noise.reads_data)
            if (exact | lost)[distances[0].argmax()]:
                break
        return distances, exact

    def most_solved(self, n_values: int) -> int:
        """Return the records of a column to solve for in a round, at so many values each."""
        return max(self.fewest, int(self.work / self._cost(n_values)))

    def estimated(
        self, unknown: Unknown, own: FloatArray, candidates: FloatArray
    ) -> tuple[FloatArray, BoolArray]:
        """Distances at unit noise for all records without solving for any."""
        n, linear = len(own), self.state.objective.loss.quadratic
        fixed = self.state.balanced is None
        one = self.one_step
        if one is not None and own.shape[1] == 1 and (fixed or unknown.columns is not None):
            flat = candidates[..., 0]
            if flat.shape == (2,) and unknown.columns is not None:
                flat = flat.sum() - own  # of two values, the one that a record has is the fit
            if unknown.columns is None:
                found = one.targets(flat)
            else:
                found = one.column(int(unknown.columns[0]), flat)
            sharp = linear and fixed and not self.state.noise.reads_data
            done = sharp and one.compares_all(flat.shape[-1])
            return np.array(found), np.full(n, done) & (self.rows >= 0)
        loss = self.unit_losses(unknown, np.arange(n))
        return np.tile(loss * unknown.span, (2, 1)), np.zeros(n, dtype=bool)

    def unit_losses(self, unknown: Unknown, which: IntArray) -> FloatArray:
        """Fisher information loss of some records about a column, at unit noise, (b,)."""
        unit = leakage_model(self.state.at_noise(1.0))
        return unit.feature_loss(self.batch.take(which), [unknown.block])[:, 0]

    def solvable(self, unknown: Unknown) -> bool:
        """Return True if distances of a column have an exact answer."""
        if self.state.balanced is None:
            return True
        few = len(self.state.factor.coefficients) <= _MOST_PARAMETERS
        return unknown.columns is not None and few

    @property
    def n_training(self) -> int:
        """Return how many records the fit has."""
        return self.state.objective.n_records

    def _cost(self, n_values: int) -> float:
        """Work of one record."""
        n, p = self.n_training, self.state.factor.coefficients.size
        if self.state.balanced is not None:
            return n_values * (_SYSTEM + _REWEIGHTED_PASSES * n * p)
        passes = 0.0 if self.state.objective.loss.quadratic else _PASSES * n * p
        return p * p + n_values * (passes + p)

    def solved(self, unknown: Unknown, which: IntArray, values: FloatArray) -> FloatArray:
        """Exact distances of some records at unit noise, (2, b); infinite where not known."""
        points = self._points(unknown, which, values)
        fit = np.broadcast_to(self.state.factor.coefficients, (len(which), 1, points.shape[2]))
        white = whitened(self.state, np.concatenate([fit, points], axis=1))
        own = np.linalg.norm(white[:, 1:] - white[:, :1], axis=2).max(axis=1)
        found = np.stack([largest_distances(white), own])
        return np.where(np.isnan(found), np.inf, found)

    def _points(self, unknown: Unknown, which: IntArray, values: FloatArray) -> FloatArray:
        """Minimisers of some records at other values, (b, m, p)."""
        state, rows = self.state, self.rows[which]
        if unknown.columns is None:
            return target_encodings(state, rows, values[..., 0])
        X, y = state.objective.X[rows], state.objective.y[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
            return candidate_encodings(state, X, y, unknown.columns, values, rows=rows)

    def information(self, unknown: Unknown, exposed: IntArray | None = None) -> float:
        """Largest information about a number, averaged over a normal law of its mean and spread.

        ``exposed`` are the records to look at, (b,); by default those that may be known best.
        """
        sd = float(unknown.sd[0])
        if not sd > 0.0:
            return 0.0
        noise = self.state.noise_scale
        if exposed is None:
            order = np.argsort(-self.exposure(unknown), kind="stable")
            exposed = order[: self.n_exposed]
        squares = self._own_information(unknown, exposed)
        if self._differentiable:
            exposed = exposed[self.rows[exposed] >= 0]
            if len(exposed):
                squares = self._averaged(unknown, exposed)
        if noise == 0.0:
            return float(np.inf) if np.any(squares > 0.0) else 0.0
        return float(np.max(squares, initial=0.0)) / noise / noise  # its square may overflow

    @property
    def _differentiable(self) -> bool:
        """True if encodings tell all, and are sharp enough to be differentiated."""
        return not self.state.noise.reads_data and self.state.balanced is None

    def exposure(self, unknown: Unknown) -> FloatArray:
        """Estimate how well a number of each record may be known, (n,)."""
        mean, sd = float(unknown.mean[0]), float(unknown.sd[0])
        one = self.one_step if self._differentiable else None
        if one is not None and unknown.columns is not None:
            nodes, weights = _normal(mean, sd)
            squares = one.information(int(unknown.columns[0]), nodes, _STEP * sd) @ weights
        else:
            squares = self._own_information(unknown, np.arange(len(self.rows)))
        return np.where(self.batch.present, squares, 0.0)

    @property
    def n_exposed(self) -> int:
        """Return how many records are looked at to find what is known best."""
        return int(np.clip(self.work / self._cost(2 * _N_NODES), 1, 3))

    def _own_information(self, unknown: Unknown, which: IntArray) -> FloatArray:
        """Information at the actual number, at unit noise, (b,)."""
        return np.asarray(self.unit_losses(unknown, which) ** 2)

    def _averaged(self, unknown: Unknown, which: IntArray) -> FloatArray:
        """Information of some records averaged over the prior, at unit noise, (b,).

        Infinite where the prior reaches values without a minimiser, such as counts below zero that
        outweigh all others: on the way to them it moves without bound.
        """
        sd = float(unknown.sd[0])
        ends = prior_ends(float(unknown.mean[0]), sd)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoMinimizerWarning)  # that is what infinity says
                points = whitened(self.state, self._points(unknown, which, ends[:, None]))
        except FloatingPointError:
            return np.full(len(which), np.inf)
        return averaged_information(points, sd)

    def over_noise(self, distances: FloatArray) -> FloatArray:
        """Distances at unit noise in units of the noise; those that are rounding are zero."""
        size = max(1.0, float(np.linalg.norm(self.state.factor.coefficients)))
        moved = np.where(distances > _ROUND_OFF * size, distances, 0.0)
        if self.state.noise_scale > 0.0:
            return np.asarray(moved / self.state.noise_scale)
        return np.where(moved > 0.0, np.inf, 0.0)

    def why(self, unknown: Unknown, exact: bool, lost: bool = False) -> str:
        """Say what should be known of the distances of a column."""
        if unknown.values is not None and len(unknown.values) == 1:
            return ONE_VALUE
        told = TOGETHER if unknown.kind == "numbers" else "", UNREACHED if lost else ""
        said = "; ".join(filter(None, told))
        if self.state.noise.reads_data:
            return "; ".join(filter(None, (said, SHAPE)))
        if exact:
            return said
        how = ESTIMATED if self.solvable(unknown) else FIRST_ORDER
        return "; ".join(filter(None, (said, how)))


def prior_ends(mean: float, sd: float) -> FloatArray:
    """Values of a number around the nodes of its prior, (2 m,): below all, then above all."""
    nodes = _normal(mean, sd)[0]
    return np.concatenate([nodes - _STEP * sd, nodes + _STEP * sd])


def averaged_information(points: FloatArray, sd: float) -> FloatArray:
    """Squared speed of the minimiser, averaged over a prior, at its `prior_ends`.

    Shapes: ``points`` (b, 2 m, p), whitened; returns (b,).
    """
    below, above = np.split(points, 2, axis=1)
    speeds = np.linalg.norm(above - below, axis=2) / (2.0 * _STEP * sd)
    information = speeds**2 @ _normal(0.0, sd)[1]
    return np.asarray(np.where(np.isnan(information), np.inf, information))


def _normal(mean: float, sd: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of an expectation over a normal law, (m,) each."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_NODES)
    return mean + sd * nodes, weights / weights.sum()
