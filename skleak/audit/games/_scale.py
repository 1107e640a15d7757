"""What a noise scale tells that follows the records and is published.

The scale of a noise goal is a rung of a public ladder, and an attacker who knows all but one secret
computes it under every hypothesis: of those whose rung is not the one released, none is left. Given
the rung, the release is the Gaussian channel of those that have it. So the whole is one Gaussian
channel, in which a further coordinate, far beyond the noise, tells the rungs apart.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from skleak.adversary.hypotheses import last_step, weight_argument
from skleak.adversary.knowledge import take_rows
from skleak.mechanisms import CalibratedNoise, NoiseGoal, PublicNoiseGoal, ladder_rung
from skleak.solvers import Objective
from skleak.utils._confidential import without_ledger
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# Whole fits that are made to find the scale under every hypothesis, and their work, in entries of
# a table of records times parameters.
_MOST_FITS = 20_000
_MOST_WORK = 3e11
# Noise units between hypotheses of different rungs: a test that errs with probability 0 in doubles.
_FAR = 100.0


def goal_of(estimator: Any, noise_scales: Any) -> "NoiseGoal | CalibratedNoise | None":
    """Return what makes the noise scale of an audit a function of the records, if anything does."""
    own = last_step(estimator)
    own = own.get_params(deep=False).get("noise_scale") if hasattr(own, "get_params") else None
    given = own if noise_scales is None else noise_scales
    reads = isinstance(given, NoiseGoal) and not isinstance(given, PublicNoiseGoal)
    return given if reads or isinstance(given, CalibratedNoise) else None


def asked_goal(task: Any) -> "NoiseGoal | CalibratedNoise | None":
    """Return what makes the noise scale of the estimator itself a function of the records."""
    return goal_of(task.estimator, None)


def scale_sentence(goal: Any, missing: str, *, asked: Any = None) -> str:
    """Say first of all what became of a published scale in an audit; empty where it is public."""
    if goal is None:
        # Levels given by hand stand for the goal of the estimator, which has a scale of its own.
        if asked is None:
            return ""
        return (
            f"The estimator reads its noise scale off the records ({asked!r}) and publishes it; "
            "the noise scales audited are numbers that were given, and what its own tells is not "
            "counted."
        )
    what = "that was read off records" if isinstance(goal, CalibratedNoise) else repr(goal)
    said = f"The noise scale follows the records ({what}) and is published: "
    if missing:
        return f"{said}no bound counts what it tells, and none is stated, as {missing}."
    return (
        f"{said}it was found anew under every hypothesis, as `fit` finds it, attackers see it, and "
        "the bounds count it."
    )


CALIBRATED = (
    "how the number was found is not known; pass `float(noise_scale)` if the records that it was "
    "read off are public"
)
UNCOUNTED_OUTSIDE = (
    "it is not found anew for each value of records outside memory: games have the one of all "
    "records"
)
UNCOUNTED_NUMBERS = (
    "it jumps as a number moves, which the bounds on errors with a prior do not know; that of "
    "Cramér and Rao holds between its jumps"
)


@dataclass(frozen=True)
class PublishedScale:
    """The scale of a noise goal on any records, by whole fits. Confidential."""

    model: Any  # fitted, at unit noise but for the goal that its noise scale is

    @classmethod
    def of(cls, model: Any, goal: NoiseGoal, X: Any, y: Array, weights: FloatArray | None) -> Self:
        """Of an estimator that is the last step of a pipeline."""
        fitted = without_ledger(model).set_params(noise_scale=1.0, random_state=None)
        fitted = fitted.fit(X, y, **weight_argument(fitted, weights))
        fitted.noise_scale = goal
        return cls(fitted)

    @property
    def objective(self) -> Objective:
        """Objective of the fit on all records."""
        objective: Objective = self.model._confidential_state().objective
        return objective

    def missing(self, n_hypotheses: int) -> str:
        """Why the scale is not found under so many hypotheses; empty where it is."""
        objective = self.objective
        work = float(n_hypotheses) * objective.n_records * objective.n_parameters**2
        if n_hypotheses <= _MOST_FITS and work <= _MOST_WORK:
            return ""
        return (
            f"it would take {n_hypotheses} whole fits to find it under every hypothesis, more than "
            f"are made ({_MOST_FITS}, and fewer of large tables); attack fewer `records`"
        )

    def rung(self, objective: Objective) -> float:
        """Scale on other records; nan where `fit` would raise, and nothing be released."""
        try:
            return ladder_rung(self.model._needed_noise(objective))
        except ValueError:
            return np.nan

    def without(self, rows: IntArray, targets: IntArray) -> FloatArray:
        """Scales on some rows of all, with each target left out, or added where it is absent."""
        objective, found = self.objective, np.empty(len(targets))
        for k, target in enumerate(targets):
            inside = np.flatnonzero(rows == target)
            other = np.delete(rows, inside) if len(inside) else np.sort(np.append(rows, target))
            found[k] = self.rung(objective.take(other))
        return found

    def with_values(
        self, targets: IntArray, values: Callable[[Objective, int, int], Objective], n_values: int
    ) -> FloatArray:
        """Scales with each value of each target, (n_targets, n_values)."""
        objective, found = self.objective, np.empty((len(targets), n_values))
        for k, target in enumerate(targets):
            for m in range(n_values):
                found[k, m] = self.rung(values(objective, int(target), m))
        return found


def replaced_row(objective: Objective, target: int, row: Any) -> Objective:
    """Return the objective with another row of the table, as the model sees it, (1, d)."""
    ones = np.ones(len(objective.y))
    if sparse.issparse(objective.X):
        X = objective.X.tolil(copy=True)
        X[target] = row
        return replace(objective, X=sparse.csr_array(X), reweights=ones)
    X = objective.X.copy()
    X[target] = np.ravel(row)
    return replace(objective, X=X, reweights=ones)


def replaced_target(objective: Objective, target: int, value: float) -> Objective:
    """Return the objective with another target of one record."""
    y = objective.y.copy()
    y[target] = value
    return replace(objective, y=y, reweights=np.ones(len(y)))


def in_one_channel(
    encodings: FloatArray, scales: FloatArray, noise_scale: float
) -> tuple[FloatArray, BoolArray]:
    """Return encodings whose channel at one noise scale tells what release and scale tell.

    Shapes: ``encodings`` (n_targets, n_values, p); ``scales`` (n_targets, n_values), that of each
    hypothesis; returns (n_targets, n_values, p + 1), the further coordinate being 0 where the scale
    is ``noise_scale``; and whether it is, (n_targets, n_values).
    """
    same = scales == noise_scale
    # One that no release has is as far from all others.
    rungs = np.nan_to_num(2.0 * np.log2(np.maximum(scales, np.finfo(float).tiny)), nan=1e4)
    steps = np.where(same, 0.0, np.rint(rungs - 2.0 * np.log2(noise_scale)))
    ratio = np.where(np.isnan(scales) | (scales == 0.0), 1.0, noise_scale / scales)
    apart = (_FAR * noise_scale * steps)[:, :, None]
    return np.concatenate([encodings * ratio[:, :, None], apart], axis=2), same


def rows_with(tables: Any, positions: dict[int, int]) -> Callable[..., Objective]:
    """Return what puts row k of the m-th of some tables in the place of the k-th target."""

    def change(objective: Objective, target: int, m: int) -> Objective:
        row = take_rows(tables[m], np.array([positions[target]]))
        dense = row.toarray() if sparse.issparse(row) else np.asarray(row, dtype=float)
        return replaced_row(objective, target, dense)

    return change
