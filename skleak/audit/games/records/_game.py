"""The game of whole records: an adversary who knows all others reconstructs one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import dense_table, last_step, model_parameters
from skleak.adversary.knowledge import resolve_records, take_rows
from skleak.attacks import InformedReconstruction
from skleak.audit.games._fitted import FittedReleases
from skleak.audit.games._game import Cell, Task
from skleak.audit.games._levels import SAMPLE, seed_of
from skleak.audit.games._sampled import NAME
from skleak.audit.games._scale import UNCOUNTED_NUMBERS, goal_of
from skleak.audit.games._secret import (
    SecretGame,
    SecretSubject,
    determination,
    fit_quietly,
    unit_state,
)
from skleak.audit.games._trials import play_errors
from skleak.audit.games.records._bound import record_mse
from skleak.audit.games.records._prior import NormalPrior, RecordBounds, record_bounds
from skleak.audit.noise._hypotheses import Hypotheses
from skleak.audit.noise._shape import audited_shape
from skleak.audit.tables._design import Outcome
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import leakage_model
from skleak.influence.state import FitState
from skleak.solvers import MultinomialObjective
from skleak.utils._typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class RecordSubject(SecretSubject):
    """Whole records, as the model sees them. Confidential."""

    labels: FloatArray  # targets of the model as numbers, (n_targets,)
    # Lower bounds on the mean squared error of unbiased attacks at unit noise, (n_targets,): where
    # the target of the model is known, and where it is reconstructed too.
    unit_mse: FloatArray
    unit_mse_with_target: FloatArray
    state: FitState  # of the model without noise, as if it had noise of scale 1
    normal: NormalPrior | None = None  # prior of attackers who are not unbiased
    variance: FloatArray | None = None  # of it, per value, (n_targets,)

    @property
    def prior_variance(self) -> FloatArray | None:
        """Variance of a value of every record under its prior, (n_targets,)."""
        return self.variance


def study(task: Task) -> RecordSubject:
    """Fit the model without noise, and learn what a release tells of records."""
    public, X, fitted = fit_quietly(task)
    if not public.has_closed_form:
        raise AttackNotApplicableError(
            "Without `attribute`, whole records are reconstructed from the training objective, "
            f"which is not known for {type(last_step(fitted)).__name__}. Pass a private estimator "
            "of skleak.linear_model, or name an `attribute`."
        )
    noise = audited_shape(public, fitted, None)
    # What is fitted has no noise, of any shape.
    state = unit_state(fitted, noise)
    if isinstance(state.objective, MultinomialObjective):
        raise AttackNotApplicableError(
            f"The model has {state.objective.n_classes} classes; whole records are audited "
            "for two. Name an `attribute`, or make the target binary."
        )
    targets = resolve_records(task.records, task.table.shape[0])
    truth = dense_table(take_rows(state.objective.X, targets))
    everything = dense_table(state.objective.X)
    mean = (everything.sum(axis=0) - truth) / (len(everything) - 1)
    normal = NormalPrior.of(task.prior, everything, state.objective.y, targets)
    goal = goal_of(task.estimator, task.noise_scales)
    if state.balanced is not None or state.noise.reads_data or goal is not None:
        normal = None  # what weights, or noise, that follow the data tell is not bounded
    if normal is not None:
        mean = normal.mean
    prior_score = ((mean - truth) ** 2).mean(axis=1)
    spread = float(everything.var(axis=0).mean())
    return RecordSubject(
        model=last_step(task.estimator),
        public=public,
        X=X,
        y=task.y,
        weights=task.sample_weight,
        noiseless=model_parameters(fitted),
        noise=noise,
        hypotheses=Hypotheses.near(state.factor.coefficients[None]),
        targets=targets,
        secrets=truth,
        labels=state.objective.y[targets],
        unit_eta=leakage_model(state).record_loss(state.training.take(targets)),
        unit_mse=record_mse(state, targets, private_target=False),
        unit_mse_with_target=record_mse(state, targets, private_target=True),
        baseline=determination(prior_score, spread),
        imputation=np.nan,
        prior_score=prior_score,
        spread=spread,
        state=state,
        normal=normal,
        goal=goal,
        uncounted="" if goal is None else UNCOUNTED_NUMBERS,
        variance=None if normal is None else normal.variance(),
    )


class RecordsGame(SecretGame):
    """Reconstruct records from releases of one model, each by one who knows all others."""

    kind = "record"
    estimates = True

    def __init__(self, task: Task) -> None:
        self.subject = study(task)
        if task.drawn:
            raise ValueError(
                "`secrets='drawn'` redraws one of a few values from its prior; whole records have "
                "no prior. Name an `attribute`, or pass `secrets='actual'`."
            )
        super().__init__(task, self.subject, ("informed",), ("informed",))

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, check the noise, and learn what bounds need at every noise scale."""
        super().prepare(entropy)
        subject = self.subject
        self._bounds: RecordBounds | None = None
        if subject.normal is not None:
            seed = seed_of(entropy, 0, SAMPLE)
            self._bounds = RecordBounds.of(subject.state, subject.targets, subject.normal, seed)

    def made(self, name: str) -> Any:
        """Return the attack of ours, which is not fitted."""
        return InformedReconstruction(self.task.estimator, records=self.subject.targets)

    def games(
        self, scale: float, noise: FloatArray | FittedReleases, seed: np.random.SeedSequence
    ) -> Mapping[str, Cell]:
        """Return the cells of one noise level, all attacks."""
        subject = self.subject
        rest = (subject.spread, noise, scale, self.design.n_releases, seed)
        cells: dict[str, Cell] = {}
        if self._bounds is not None:
            cells[NAME] = (record_bounds, (self._bounds, scale))
        for name, attack in self.attacks.items():
            truth, bound, adds = subject.secrets, subject.unit_mse, self._adds_target(attack)
            if adds:
                truth = np.column_stack([truth, subject.labels])
                bound = subject.unit_mse_with_target
            known = (attack, subject.noiseless, truth, bound * scale**2)
            cells[name] = (_play, (not adds, *known, *rest))
        return cells

    def _adds_target(self, attack: Any) -> bool:
        """Return True if an attack reconstructs the target of the model too."""
        d = self.subject.secrets.shape[1]
        return bool(getattr(attack, "n_reconstructed_", d) > d)

    def _guesses_target(self) -> bool:
        return any(map(self._adds_target, self.attacks.values()))


def _play(of_prior: bool, *known: Any) -> Outcome:
    """Play a game, and say whether what is guessed is what the prior of the bounds is about."""
    return play_errors(*known) | {"of_prior": np.array(of_prior)}
