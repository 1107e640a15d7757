"""Releases at every noise scale.

What a noise scale tells that follows the records and is published.

The scale of a noise goal is a rung of a public ladder, and an attacker who knows all but one secret
computes it under every hypothesis: of those whose rung is not the one released, none is left. Given
the rung, the release is the Gaussian channel of those that have it. So the whole is one Gaussian
channel, in which a further coordinate, far beyond the noise, tells the rungs apart.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn, Self

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.utils import check_consistent_length, column_or_1d

from skleak.adversary.hypotheses import (
    dense_table,
    goal_name,
    last_step,
    needs_goal,
    weight_argument,
)
from skleak.adversary.knowledge import as_table, take_rows
from skleak.adversary.models import Shell
from skleak.audit.games._game import FALSE_ALARMS, Cell, Game, Task, unequal_columns
from skleak.audit.noise._mechanism import colored
from skleak.audit.tables._rates import Outcome, cell_key
from skleak.bounds.priors import advantage_to_success
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.state import NoiseShape
from skleak.mechanisms import GaussianDP, NoiseGoal, PublicNoiseGoal
from skleak.mechanisms.calibration import ladder_rung
from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor, SGDGuarantee
from skleak.neural.gradients import make_clipping
from skleak.report.document import sentences
from skleak.solvers import Objective
from skleak.utils._arguments import OwnSeed
from skleak.utils._confidential import CalibratedNoise, without_ledger
from skleak.utils._predictions import utility_of
from skleak.utils._records import Persons
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# Probability with which a training set is smaller than is accounted for; added to the bound.
_UNLIKELY = 1e-9


def is_private_sgd(estimator: Any) -> bool:
    """Return True if a model, or the last step of a pipeline, is trained by private SGD."""
    return isinstance(last_step(estimator), PrivateSGDClassifier | PrivateSGDRegressor)


def check_one_row_each(estimator: Any, persons: Persons | None) -> None:
    """Refuse private SGD where persons have several rows."""
    if persons is not None and is_private_sgd(estimator):
        raise AttackNotApplicableError(
            f"What {type(last_step(estimator)).__name__} reveals of a person with several rows is "
            "not bounded: its accounting is that of one row. Leave `persons` out to audit rows, "
            "and say so, or train on one row for each person."
        )


def refuse_noise(model: Any) -> NoReturn:
    """Refuse noise where there is nothing to add it to."""
    raise AttackNotApplicableError(
        f"`noise_scales` must be None or 0 for {type(last_step(model)).__name__}: it adds no "
        "noise, and has no `coef_` after `fit` to add some to. Leave `noise_scales` out."
    )


def noise_multiplier(estimator: Any, X: Any, y: Any) -> float:
    """Noise multiplier of a model, unfitted, which may have a goal instead."""
    own = last_step(estimator).noise_multiplier
    if isinstance(own, int | float | np.number):
        return float(own)
    fitted = clone(estimator)
    quick(last_step(fitted))
    return float(last_step(fitted.fit(X, y)).noise_multiplier_)


def quick(model: Any) -> Any:
    """Set an unfitted model to what an audit needs: one training, and no account of leakage."""
    return model.set_params(accounting=None, n_runs=1, ledger=None, verbose=0)


def with_public_size(model: Any, n: int, usual: float) -> Any:
    """Set an unfitted model to divide its sums by a number that does not depend on its members.

    Batches have the size that they have with the usual number of records: in expectation they grow
    with n under Poisson sampling, and what they are divided by does not.
    """
    if model.sampling == "fixed":
        size = _batch_size(model, usual)
        return model.set_params(sampling_rate=min(1.0, size / n))
    return model.set_params(learning_rate=model.learning_rate * n / usual)


@dataclass(frozen=True)
class SGDBounds:
    """Bounds on what private SGD tells of a record whose share of a batch is known.

    They hold at any noise multiplier, and allow for the share being larger, which has probability
    ``slack``.
    """

    model: Any
    rate: float  # share of a batch that a record is, at most
    slack: float = 0.0

    @classmethod
    def of_column(cls, model: Any, n: int) -> Self:
        """Of a record's value, of n records that are all trained on."""
        fixed = model.sampling == "fixed"
        return cls(model, _batch_size(model, n) / n if fixed else float(model.sampling_rate))

    @classmethod
    def of_members(
        cls, model: Any, prior: float, usual: float, others: int, candidates: int
    ) -> Self:
        """Of a membership; ``usual`` is the expected number of members.

        ``others`` records are always trained on, each of the ``candidates`` with probability
        `prior`.
        """
        if model.sampling != "fixed":
            return cls(model, float(model.sampling_rate))
        # The share of a batch is largest in the smallest training set.
        fewest = others + int(stats.binom.ppf(_UNLIKELY, candidates, prior))
        return cls(model, min(1.0, _batch_size(model, usual) / max(fewest, 1)), _UNLIKELY)

    def guarantee(self, multiplier: float) -> SGDGuarantee | None:
        """Guarantee of a training; None without noise."""
        if multiplier == 0.0:
            return None
        over = make_clipping(self.model.clipping, 1.0).sensitivity
        steps = int(self.model.max_steps), self.model.sampling
        return _kept(multiplier / over, self.rate, *steps)

    def membership_success(self, multiplier: float, prior: float) -> float:
        """Bound the success of telling one member, of trainings on random members."""
        if (guarantee := self.guarantee(multiplier)) is None:
            return 1.0
        success = advantage_to_success(guarantee.membership_advantage(prior), [prior, 1.0 - prior])
        return float(min(1.0, success + self.slack))

    def column_success(self, multiplier: float, prior: FloatArray) -> FloatArray:
        """Bound the success of guessing a secret of each of some records; prior (n_targets, M)."""
        if (guarantee := self.guarantee(multiplier)) is None:
            return np.ones(len(prior))
        different, place = np.unique(prior, axis=0, return_inverse=True)
        certain = different.max(axis=1) >= 1.0 - 1e-12
        success = np.ones(len(different))
        if not certain.all():
            known = different[~certain]
            success[~certain] = advantage_to_success(guarantee.advantage(known), known)
        return np.asarray(success[place.ravel()])

    def columns(self, multiplier: float, n: int, *, membership: bool) -> dict[str, FloatArray]:
        """Columns that hold for every attacker and each of n records alike, from a trade-off curve.

        There is no distance, as the channel is not Gaussian.
        """
        guarantee, gain, found = self.guarantee(multiplier), 1.0, 1.0
        if guarantee is not None:
            alpha, beta = guarantee.membership_curve if membership else guarantee.curve
            gain = min(1.0, max(0.0, float(np.max(1.0 - alpha - beta))) + self.slack)
            power = float(guarantee.true_positives(FALSE_ALARMS, membership=membership))
            found = min(1.0, power + self.slack)
        return unequal_columns(np.full(n, gain), np.full(n, found))


def _batch_size(model: Any, n: float) -> int:
    return max(1, round(float(model.sampling_rate) * n))


_kept = functools.lru_cache(maxsize=64)(SGDGuarantee)


# Streams of seeds at every noise level; 2 are the checks of the noise, and a sample is that of all.
GAMES, UTILITY, GAP, SAMPLE, FITS, SMALLEST, RECORDS = 0, 1, 3, 4, 5, 6, 7


def seed_of(entropy: list[int], level: int, stream: int) -> np.random.SeedSequence:
    """Seed of one stream at the noise level of that number."""
    return np.random.SeedSequence(entropy, spawn_key=(level, stream))


def noise_levels(
    noise_scales: Any, model: Any, X: Any, y: Array, weights: Mapping[str, Any]
) -> tuple[float, ...]:
    """Noise levels of an audit, ascending; by default that of the model, 0 where it adds none.

    ``weights`` are further keywords of `fit`.
    """
    if noise_scales is None:
        own = last_step(model).get_params(deep=False)
        noise_scales = own.get("noise_scale", 0.0)
        if is_private_sgd(model):
            noise_scales = noise_multiplier(model, X, y)
        if not np.isscalar(noise_scales):
            fitted = clone(model).fit(X, y, **weights)
            noise_scales = last_step(fitted).noise_scale_
    if any(isinstance(each, NoiseGoal) for each in np.ravel(np.asarray(noise_scales, object))):
        raise AttackNotApplicableError(_GOALS)
    levels = np.unique(np.asarray(noise_scales, dtype=np.float64))
    if not levels.size or not np.all((levels >= 0.0) & np.isfinite(levels)):
        raise ValueError(
            "`noise_scales` must hold finite numbers, zero or more; got "
            f"{np.asarray(noise_scales).tolist()}."
        )
    return tuple(levels.tolist())


_GOALS = (
    "Goals as `noise_scales` need records in memory, and a private estimator of "
    "skleak.linear_model. Pass numbers, or leave `noise_scales` out."
)


def leveled(task: Task) -> Task:
    """Return a task whose noise scales are numbers, where goals were given, or are needed.

    Of noise that is on no minimizer a level is 1 / mu of the guarantee of its goal: the noise, over
    its sensitivity, of a Gaussian release that is no more private than any two tables that differ
    in a row make this one. Other goals are the noise scales that they are resolved to.
    """
    model, own, learner = last_step(task.estimator), task.noise_scales, task.learner
    asks = needs_goal(model)
    name = goal_name(model) if asks else "noise_scale"
    if own is None and asks:
        own = getattr(model, name)
    goals = np.ravel(np.asarray(own, dtype=object)).tolist()
    if not asks and not any(isinstance(goal, NoiseGoal) for goal in goals):
        return task
    if not (asks or hasattr(model, "_chosen_mechanism")):
        raise AttackNotApplicableError(_GOALS)
    if not all(getattr(goal, "rows_per_person", 0) is None for goal in goals):
        raise ValueError(
            "`noise_scales` must be EpsilonDelta or GaussianDP, all of them and about one row, "
            f"where one is a goal or the noise of {type(model).__name__} is not on its minimizer, "
            f"so that no number sets it; got {own!r}. Pass for instance [GaussianDP(0.5)], or None "
            "to audit the goal of the estimator."
        )
    levels = {}
    for goal in goals:
        fitted = clone(task.estimator, safe=False)
        last_step(fitted).set_params(**{name: goal, "random_state": None})
        fitted.fit(task.table, task.y, **weight_argument(fitted, task.sample_weight))
        model = last_step(fitted)
        elsewhere = needs_goal(model)
        level = 1.0 / model._guarantee.composed_mu if elsewhere else model.noise_scale_
        levels[float(level)] = goal
    if not elsewhere:
        return replace(task, noise_scales=list(levels))
    # The mechanism is that of the goal, and nothing is ever trained without one.
    known = {name: goals[0], "random_state": None}
    known |= {"mechanism": model._kept} if getattr(model, "_kept", None) else {}
    for each in (task, learner):
        if each is not None:
            last_step(each.estimator).set_params(**known)
    return replace(task, noise_scales=list(levels), goals=levels)


def set_goal(estimator: Any, level: float, goals: Mapping[float, Any], seed: int) -> None:
    """Let an unfitted model, or the last step of a pipeline, be trained at a level, with a seed."""
    own = {goal_name(estimator): goals.get(level, GaussianDP(1.0 / level))}
    last_step(estimator).set_params(**own, random_state=OwnSeed(seed))


def reference_records(X: Any, y: Any) -> tuple[Any, Array] | None:
    """Raw records that no model is trained on, and their targets; None where there are none."""
    if X is None:
        return None
    if y is None:
        raise ValueError("`X_test` needs its targets: pass `y_test` too.")
    table, y = as_table(X), column_or_1d(y)
    check_consistent_length(table, y)
    return table, y


def released_utility(
    shell: Shell,
    noiseless: FloatArray,
    where: tuple[Any, Array],
    noise: FloatArray,
    n_releases: int,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Score of released models on some records.

    Shapes: ``noiseless`` (p,); ``noise`` (p,) or (p, p); returns ``utility``, of shape
    (n_releases,).
    """
    draws = np.random.default_rng(seed).normal(size=(n_releases, len(noiseless)))
    models = shell.models_on(where[0], noiseless + colored(noise, draws))
    return {"utility": np.array([utility_of(model, table, where[1]) for model, table in models])}


class LeveledGame(Game):
    """A game of releases with noise of every level, whose utility is measured on some records."""

    noise: NoiseShape

    # What releases are put into, parameters without noise, (p,), and the records on which utility
    # is measured, their targets coded as those that were trained on.
    released: tuple[Shell, FloatArray, tuple[Any, Array]]
    _noise: Mapping[float, FloatArray]  # by noise level, (p,) or (p, p)
    # By noise level what games are played with in place of that noise, where fits are.
    _fits: Mapping[float, Any] = {}

    def seed(self, level: int, stream: int) -> np.random.SeedSequence:
        """Seed of one stream at the noise level of that number."""
        return seed_of(self._entropy, level, stream)

    def games(self, scale: float, noise: Any, seed: np.random.SeedSequence) -> Mapping[str, Cell]:
        """Return the cells of one noise level: all attacks, and bounds where there are any.

        ``noise`` (p,) or (p, p), or the releases that the games are played with.
        """
        return {}

    def cells(self) -> dict[str, Cell]:
        """All cells by key: the games of every level, and the utility with and without noise."""
        cells: dict[str, Cell] = {}
        for k, scale in enumerate(self.noise_scales):
            noise = self._noise[scale]
            played, seed = self._fits.get(scale, noise), self.seed(k, GAMES)
            for name, cell in self.games(scale, played, seed).items():
                cells[cell_key(scale, name)] = cell
            seed = self.seed(k, UTILITY)
            known = (*self.released, noise, self.n_releases, seed)
            cells[cell_key(scale, "utility")] = (released_utility, known)
        quiet = (*self.released, np.zeros(len(noise)), 1, seed)
        cells[cell_key(0.0, "noiseless")] = (released_utility, quiet)
        return cells

    def utility_at(self, noise: float) -> float:
        """Mean score at any noise scale, with noise as it is stated."""
        shape = self.noise
        unit = np.ones(len(self.released[1])) if shape.is_identity else shape.matrix_root
        rest = self.n_releases, self.seed(0, SMALLEST)
        played = released_utility(*self.released, noise * unit, *rest)
        return float(played["utility"].mean())

    def noiseless_utility(self, outcomes: Mapping[str, Outcome]) -> float:
        """Mean score of the model without noise."""
        return float(outcomes[cell_key(0.0, "noiseless")]["utility"].mean())


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


def scale_sentence(goal: Any, missing: str, estimator: Any) -> str:
    """Say first of all what became of a published scale in an audit; empty where it is public."""
    # Levels given by hand stand for the goal of the estimator, which has a scale of its own.
    asked = goal_of(estimator, None)
    if goal is None and asked is None:
        return ""
    what = "that was read off records" if isinstance(goal, CalibratedNoise) else repr(goal)
    facts = {"goal": "" if goal is None else what, "asked": repr(asked), "missing": missing}
    return " ".join(sentences("audit_scale", facts))


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
    objective: Objective  # of the fit on all records
    persons: Persons | None  # whose rows are whose there

    @classmethod
    def of(
        cls,
        model: Any,
        goal: NoiseGoal,
        X: Any,
        y: Array,
        weights: FloatArray | None,
        persons: Persons | None = None,
    ) -> Self:
        """Of an estimator that is the last step of a pipeline."""
        fitted = without_ledger(model).set_params(noise_scale=1.0, random_state=None)
        fitted = fitted.fit(X, y, **weight_argument(fitted, weights, persons))
        fitted.noise_scale = goal
        state = fitted._confidential_state()
        return cls(fitted, state.objective, state.persons)

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

    def rung(self, objective: Objective, persons: Persons | None = None) -> float:
        """Scale on other records; nan where `fit` would raise, and nothing be released."""
        try:
            return ladder_rung(self.model._needed_noise(objective, persons))
        except ValueError:
            return np.nan

    def without(self, rows: IntArray, targets: Persons) -> FloatArray:
        """Scales on some rows of all, with each target left out, or added where it is absent."""
        objective, persons, found = self.objective, self.persons, np.empty(len(targets))
        for k, (start, stop) in enumerate(pairwise(targets.starts)):
            own = targets.rows[start:stop]
            inside = np.isin(own, rows).all()
            other = np.setdiff1d(rows, own) if inside else np.union1d(rows, own)
            left = None if persons is None else persons.among(other)
            found[k] = self.rung(objective.take(other), left)
        return found

    def with_values(self, persons: Persons, values: Any) -> FloatArray:
        """Scales with each value of each person, (n_persons, n_values).

        Values are numbers, as the target of all rows of a person, or encoded tables, whose rows
        take the place of those of all persons.
        """
        found = np.empty((len(persons), len(values)))
        for k, (start, stop) in enumerate(pairwise(persons.starts)):
            own = persons.rows[start:stop]
            for m, value in enumerate(values):
                if np.ndim(value) == 0:
                    y = self.objective.y.copy()
                    y[own] = value
                    changed = replace(self.objective, y=y)
                else:
                    rows = dense_table(take_rows(value, np.arange(start, stop))).astype(float)
                    changed = self.objective.with_record(own, rows)
                changed = replace(changed, reweights=np.ones(len(changed.y)))
                found[k, m] = self.rung(changed, self.persons)
        return found


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
