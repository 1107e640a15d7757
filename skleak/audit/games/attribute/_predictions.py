"""The game of one column against a model that is asked: no parameter is read, nothing is bounded.

A release is a trained model. Where its training is left to chance, each release is one more
training; else there is a single one, and what attacks get right of it is a fact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    N_NODES,
    Learner,
    ignoring_mismatches,
    last_step,
    plain_table,
    weight_argument,
)
from skleak.adversary.knowledge import (
    Secret,
    column_names,
    range_of_others,
    take_rows,
    with_attribute,
)
from skleak.attacks import BlackBoxAttributeInference, ImputationAttack, PriorAttack
from skleak.audit.games._bounds import check_bounds
from skleak.audit.games._game import Cell, Facts, Task, fit_copy, named_attacks
from skleak.audit.games._levels import reference_records
from skleak.audit.games._private_sgd import (
    attribute_success,
    is_private_sgd,
    noise_multiplier,
    quick,
)
from skleak.audit.games._secret import uses_more
from skleak.audit.games._tabled import TabledGame
from skleak.audit.games.attribute._known import known_column
from skleak.audit.tables._design import Outcome, cell_key, release_key
from skleak.audit.tables._predictions import by_attack
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._features import is_target
from skleak.utils._predictions import classifies, utility_of
from skleak.utils._typing import Array, FloatArray, IntArray

# Stream of the seeds of the trainings, beside those of other games.
_TRAINING = 21
_BASELINES = ("prior", "imputation")
_WHOLE = ("white_box", "posterior_mean", "informed")
# Attacks on answers: what of them each compares, and by which criterion.
BLACK_BOXES = {
    "black_box": "performance",
    "black_box_proba": "proba",
    "black_box_margin": "margin",
}
_CLASSES: dict[type, str] = {PriorAttack: "prior", ImputationAttack: "imputation"}
_FAR_OFF = 1e50
NO_BOUND = "no bound: the release is not a noisy channel that skleak knows"


@dataclass(frozen=True, kw_only=True)
class PredictionsFacts(Facts):
    """Settings of a game against answers as its report states them."""

    no_bound: str  # why no attack is bounded
    preprocessing: str  # whether it is part of what is asked
    random: bool  # whether trainings differ


@dataclass(frozen=True)
class Training:
    """Training of every model of the game. Confidential."""

    learner: Learner
    table: Any  # raw records, (n, n_columns)
    sample_weight: FloatArray | None  # (n,)
    entropy: list[int]

    def fitted(self, release: int) -> Any:
        """Model of one release, with seeds of its own."""
        key = (release, _TRAINING)
        generator = np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=key))
        model = self.learner.seeded(lambda n: generator.integers(2**31 - 1, size=n))
        weights = weight_argument(model, self.sample_weight)
        # `fit` of a model from elsewhere may return nothing.
        return model.fit(self.table, self.learner.y, **weights) or model


class PredictionsGame(TabledGame):
    """Guess or estimate a column of every record under attack, from what models answer."""

    def __init__(self, task: Task, learner: Learner, entropy: list[int]) -> None:
        super().__init__(task)
        if is_private_sgd(task.estimator):
            learner = replace(learner, estimator=clone(learner.estimator, safe=False))
            quick(last_step(learner.estimator))
        self._training = Training(learner, task.table, task.sample_weight, entropy)
        check_settings(task)
        self._known = known = known_column(task)
        self.estimates = known.secret.numeric
        self.kind = "numeric" if self.estimates else "categorical"
        model = self._training.fitted(0)
        self._classifies = classifies(model, task.y)
        self._chosen = named_attacks(
            task.attacks,
            lambda: [*_BASELINES, "black_box", *beyond_labels(model, task.y)],
            known=sorted((*_BASELINES, *BLACK_BOXES)),
            names=_CLASSES,
            kind=self.kind,
            about=f" on a model that is asked, such as {type(last_step(model)).__name__},",
        )
        self._fit_attacks()
        self._random = self._differs(model)
        self.unseen = drops(task, known.secret, known.targets)
        nothing = np.full(len(known.targets), np.nan)
        noise = 0.0
        if is_private_sgd(task.estimator):
            noise = noise_multiplier(learner.estimator, task.table, task.y)
        self._bound, self._no_bound = self._allowed(noise)
        incomparable: frozenset[str] = frozenset()
        if self._bound is not None:
            chosen = self._chosen.items()
            incomparable = frozenset(name for name, each in chosen if uses_more(each, task))
        self.design = self._designed(
            self._chosen,
            incomparable,
            (noise,),
            targets=known.targets,
            bounds=() if self._bound is None else ("dp",),
            n_releases=int(task.n_releases) if self._random else 1,
            etas={noise: nothing},
            prior_score=known.prior_score,
            baseline=known.baseline,
            imputation=known.imputation,
            spread=known.spread,
        )

    def _allowed(self, noise: float) -> tuple[FloatArray | None, str]:
        """Success about each record that no attack exceeds, or None and why none is known."""
        task, known = self.task, self._known
        if not is_private_sgd(task.estimator):
            return None, NO_BOUND
        if self.estimates:
            return None, "no bound: of a number, `leakage_report()` says how far off attackers are"
        if isinstance(task.estimator, Pipeline) and task.refit_preprocessing:
            return None, "no bound: the preprocessing is trained on the secrets as well"
        if not (isinstance(task.bounds, str) or "dp" in task.bounds):
            return None, "no bound: none was asked for"
        model, prior = last_step(self._training.learner.estimator), known.prior
        try:
            return attribute_success(model, noise, prior, len(task.y)), ""
        except ImportError as error:
            if task.bounds != "all":
                raise
            return None, f"no bound: {error}"

    def _fit_attacks(self) -> None:
        self.attacks = {}
        weights = self.task.sample_weight
        for name, attack in self._chosen.items():
            own = self._made(attack) if isinstance(attack, str) else attack
            known = (self.task.table, self.task.y)
            if own is not self._known.guesser:
                own = fit_copy(own, *known, sample_weight=weights)
            self.attacks[name] = own

    def _made(self, name: str) -> Any:
        task, known = self.task, self._known
        own = {"values": task.values, "records": known.targets}
        prior: Any = self.task.prior if self.estimates else known.prior
        if name == "prior":
            return PriorAttack(task.attribute, prior=prior, **own)
        if name == "imputation":
            return known.guesser
        criterion: Any = BLACK_BOXES[name]
        return BlackBoxAttributeInference(
            task.estimator, task.attribute, criterion=criterion, prior=prior, **own
        )

    def _differs(self, model: Any) -> bool:
        """Return True if one more training answers differently, to any attack."""
        first, second = (
            _guesses(self.attacks, each, self._known.truth)
            for each in (model, self._training.fitted(1))
        )
        return not all(map(np.array_equal, first, second))

    def prepare(self, entropy: list[int]) -> None:
        """Do nothing: all was prepared to learn how models are trained."""

    def cells(self) -> dict[str, Cell]:
        """One training each."""
        task = self.task
        test = reference_records(task.X_test, task.y_test)
        where = (task.table, task.y) if test is None else test
        known = (self._training, self.attacks, self._known.truth, self.estimates, where)
        numbers = range(self.design.n_releases)
        return {release_key(number): (play_training, (*known, number)) for number in numbers}

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        facts = self.design.attacks if not self._random else _BASELINES
        tabled = by_attack(self.design, outcomes, facts, self.estimates)
        if self._bound is not None:
            unknown, (noise,) = np.full(len(self._bound), np.nan), self.design.noise_scales
            bounds = {"dp": self._bound, "bayes": unknown, "standard_error": 0.0 * self._bound}
            tabled[cell_key(noise, "bounds")] = bounds
        return tabled

    def facts(self, outcomes: Mapping[str, Outcome]) -> PredictionsFacts:
        return PredictionsFacts(
            **(self.shared_facts() | self._known.related),
            values=self._known.values.tolist(),
            bounds=self.design.bounds,
            utility_data="training records" if self.task.X_test is None else "test records",
            noiseless_utility=float("nan"),
            noise_covariance="isotropic",
            has_noise=self.design.noise_scales[0] > 0.0,
            private_sgd=is_private_sgd(self.task.estimator),
            imputed=self._known.imputed,
            outputs=shown_to(self._chosen, self._classifies),
            no_bound=self._no_bound,
            preprocessing="in the model" if isinstance(self.task.estimator, Pipeline) else "none",
            random=self._random,
        )


def drops(task: Task, secret: Secret, targets: IntArray) -> bool:
    """Return True if a pipeline trains its model on the same numbers whatever a column holds.

    The encoded records are compared bit by bit: those under attack with every value that they may
    have, and all records with preprocessing that is fitted on the column in another order, or with
    one value in the place of all.
    """
    pipeline = task.estimator
    if not isinstance(pipeline, Pipeline) or len(pipeline.steps) < 2:
        return False
    try:
        fitted = clone(pipeline[:-1])
        known = plain_table(fitted.fit_transform(task.table, task.y))
        values: Any = secret.values
        ends = values
        if values is None:
            low, high = (end[targets] for end in range_of_others(secret.column))
            values, ends = np.linspace(low, high, N_NODES), np.array([low.min(), high.max()])
        for value in values:
            rows = with_attribute(take_rows(task.table, targets), secret.index, value)
            if not _same(fitted.transform(rows), known[targets]):
                return False
        for column in (secret.column[::-1], np.roll(secret.column, 1), *ends):
            table = with_attribute(task.table, secret.index, column)
            if not _same(clone(pipeline[:-1]).fit_transform(table, task.y), known):
                return False
    except (TypeError, ValueError):
        return False  # what cannot be encoded otherwise is seen
    return True


def _same(found: Any, known: Any) -> bool:
    """Return True if tables, sparse or dense, are equal bit by bit."""
    found = plain_table(found)
    if sparse.issparse(found) or sparse.issparse(known):
        return found.shape == known.shape and abs(found - known).max() == 0.0
    return bool(np.array_equal(found, known, equal_nan=True))


def beyond_labels(model: Any, y: Array) -> list[str]:
    """Name the black box that sees most of a classifier, fitted or not: no more than one."""
    if not classifies(model, y):
        return []
    if hasattr(model, "predict_proba"):
        return ["black_box_proba"]
    return ["black_box_margin"] if hasattr(model, "decision_function") else []


def shown_to(attacks: Mapping[str, Any], classes: bool) -> dict[str, str]:
    """Say what of a model each attack is shown."""
    shown = dict.fromkeys(_BASELINES, "nothing") | dict.fromkeys(_WHOLE, "parameters")
    shown |= {"black_box_proba": "probabilities", "black_box_margin": "margins"}
    shown["black_box"] = "labels" if classes else "predictions"
    return {
        name: shown[attack] if isinstance(attack, str) else "the model"
        for name, attack in attacks.items()
    }


def check_settings(task: Task) -> None:
    """Refuse what only a model with parameters and noise can be audited for."""
    name = type(last_step(task.estimator)).__name__
    if is_private_sgd(task.estimator):
        if task.noise_scales is not None:
            raise AttackNotApplicableError(
                f"`noise_scales` must be None for {name}: an audit of a column trains with the "
                "noise of the estimator. Set its `noise_multiplier`."
            )
    elif task.noise_scales is not None and np.any(np.asarray(task.noise_scales) != 0.0):
        raise AttackNotApplicableError(
            f"`noise_scales` must be None or 0 for {name}: it adds no noise, and has no `coef_` "
            "after `fit` to add some to. Leave `noise_scales` out."
        )
    if is_target(task.attribute, column_names(task.table)):
        raise AttackNotApplicableError(
            f"The target of the model is inferred from parameters, and {name} is asked for "
            "predictions, which are of the target. Name a column, or audit membership."
        )
    if task.drawn:
        raise AttackNotApplicableError(
            f"`secrets='drawn'` redraws a secret and releases the parameters that follow; "
            f"{name} is asked for predictions. Pass `secrets='actual'`."
        )
    asked = () if isinstance(task.bounds, str) and task.bounds == "all" else task.bounds
    if is_private_sgd(task.estimator):
        asked = () if asked == "dp" else [name for name in asked if name != "dp"]
    if check_bounds(asked):
        raise AttackNotApplicableError(
            f"`bounds` must be 'all' or empty for {name}; got {asked!r}. There is {NO_BOUND}. "
            "Leave `bounds` out."
        )


def play_training(
    training: Training,
    attacks: Mapping[str, Any],
    truth: Array,
    estimates: bool,
    where: tuple[Any, Array],
    release: int,
) -> Outcome:
    """Train a model, and let every attack ask it.

    Shapes: ``truth`` (n_targets,); returns ``correct``, or ``errors`` of numbers, (n_attacks,
    n_targets), and ``utility``.
    """
    model = training.fitted(release)
    guesses = _guesses(attacks, model, truth)
    utility = np.array(utility_of(model, *where))
    if not estimates:
        return {"correct": np.stack([guess == truth for guess in guesses]), "utility": utility}
    errors = np.stack([guess - truth for guess in guesses])
    errors = np.nan_to_num(errors, nan=_FAR_OFF, posinf=_FAR_OFF, neginf=-_FAR_OFF)
    return {"errors": np.clip(errors, -_FAR_OFF, _FAR_OFF), "utility": utility}


def _guesses(attacks: Mapping[str, Any], model: Any, truth: Array) -> list[Array]:
    """Guesses of every attack about a model, (n_targets,) each."""
    rows = []
    for name, attack in attacks.items():
        with ignoring_mismatches():
            guess = np.asarray(attack.predict(model))
        if guess.shape != truth.shape:
            raise ValueError(
                f"The attack {name!r} must return one guess for each of the {len(truth)} targets "
                f"from one model; got shape {guess.shape}."
            )
        rows.append(guess)
    return rows
