"""The game of one column: its values are guessed, or estimated where they are numbers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from skleak.adversary.hypotheses import adds_noise, is_linear, weight_argument
from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    PriorAttack,
)
from skleak.audit.games._bounds import success_bounds
from skleak.audit.games._game import Cell, Game, Task
from skleak.audit.games._levels import SAMPLE, seed_of
from skleak.audit.games._sampled import NAME, BoundsPlan, KnownBounds
from skleak.audit.games._secret import SecretGame
from skleak.audit.games._trials import play_actual, play_drawn, play_drawn_errors, play_errors
from skleak.audit.games.attribute._numbers import NumberBounds, number_bounds
from skleak.audit.games.attribute._predictions import BLACK_BOXES, PredictionsGame
from skleak.audit.games.attribute._subject import study
from skleak.audit.noise._shaped import ShapedNoise
from skleak.audit.tables._design import Outcome, cell_key
from skleak.utils._typing import FloatArray

# Attacks that read no parameter.
_ASKING = frozenset(map(repr, ("prior", "imputation", *BLACK_BOXES)))
_NAMES = ("prior", "imputation", "white_box", "black_box")


def attribute_game(task: Task, entropy: list[int]) -> Game:
    """Return the game of a column: against parameters where there are any, else answers."""
    learner = task.learner
    if learner is None or adds_noise(task.estimator) or _reads_parameters(task):
        return AttributeGame(task)
    return PredictionsGame(task, learner, entropy)


def _reads_parameters(task: Task) -> bool:
    """Return True if a model has parameters to read, and anything that is asked for reads them."""
    named = [task.attacks] if isinstance(task.attacks, str) else task.attacks
    without = isinstance(named, list | tuple) and set(map(repr, named)) <= _ASKING
    if without and task.noise_scales is None and not task.drawn:
        return False
    fitted = clone(task.estimator, safe=False)
    weights = weight_argument(fitted, task.sample_weight)
    return is_linear(fitted.fit(task.table, task.y, **weights) or fitted)


class AttributeGame(SecretGame):
    """Guess or estimate a column of every record under attack, from releases of one model."""

    def __init__(self, task: Task) -> None:
        self.subject = study(task)
        self.estimates = self.subject.numeric
        self.kind = "numeric" if self.estimates else "categorical"
        if self.estimates and task.drawn and self.subject.white_box._shaped is not None:
            raise ValueError(
                "`secrets='drawn'` is not played for a number where the covariance of the noise "
                "follows the data. Pass `secrets='actual'`."
            )
        known: tuple[str, ...] = (*_NAMES, "informed")
        default: tuple[str, ...] = _NAMES
        if self.estimates:
            known = default = (*_NAMES, "posterior_mean")
            # Labels cannot tell a quantity.
            if is_classifier(self.subject.model):
                default = tuple(name for name in known if name != "black_box")
        super().__init__(task, self.subject, known, default)

    def made(self, name: str) -> Any:
        """Return an attack of ours; the white box is fitted already."""
        task, subject = self.task, self.subject
        column, own = task.attribute, {"values": task.values, "records": subject.targets}
        # The prior of every target, computed once for all attacks.
        prior: Any = task.prior if self.estimates else subject.prior
        makers: dict[str, Callable[[], Any]] = {
            "prior": lambda: PriorAttack(column, prior=prior, **own),
            "imputation": lambda: ImputationAttack(column, **own),
            "white_box": lambda: subject.white_box,
            "posterior_mean": lambda: subject.posterior,
            "black_box": lambda: BlackBoxAttributeInference(
                task.estimator, column, prior="marginal" if self.estimates else prior, **own
            ),
            "informed": lambda: InformedAttributeInference(task.estimator, column, **own),
        }
        return makers[name]()

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, check the noise, and decide whose bounds are computed."""
        super().prepare(entropy)
        if self.subject.posterior is not None:
            self._numbers = NumberBounds.of(self.subject.posterior)
            return
        subject, design = self.subject, self.design
        points, shapes = subject.white_box.encodings_, subject.shapes
        places = points if shapes is not None else subject.noise.whitened(points)
        rest = (design.bounds, shapes, subject.unit_eta, design.noise_scales)
        self._known = KnownBounds.of(places, subject.prior, *rest)
        seed = seed_of(entropy, 0, SAMPLE)
        self._plan = BoundsPlan.of(*points.shape, shaped=shapes is not None, seed=seed)

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Return the outcomes with the bounds of every noise level as one."""
        if self.estimates:
            return outcomes
        whole = dict(outcomes)
        for scale in self.design.noise_scales:
            keys = {name: cell_key(scale, name) for name in (NAME, *self._plan.names)}
            found = {name: outcomes[key] for name, key in keys.items() if key in outcomes}
            bounds = self._plan.joined(found)
            if bounds is not None:
                whole[keys[NAME]] = bounds
        return whole

    def games(
        self, scale: float, noise: FloatArray, seed: np.random.SeedSequence
    ) -> Mapping[str, Cell]:
        """Return the cells of one noise level: all attacks, and bounds on guesses."""
        subject = self.subject
        rest = (noise, scale, self.design.n_releases, seed)
        if self.estimates:
            return self._estimations(scale, rest)
        points = subject.white_box.encodings_
        cells = self._plan.cells(self._known, scale, success_bounds)
        if not self.design.drawn:
            known: Any = (subject.noiseless, subject.secrets, *rest)
            return cells | {name: (play_actual, (a, *known)) for name, a in self.attacks.items()}
        played: Any = noise
        if subject.shapes is not None:
            played = ShapedNoise.of(subject.shapes, subject.noise.matrix_root, noise)
        known = (points, subject.values, subject.prior, played, *rest[1:])
        return cells | {name: (play_drawn, (a, *known)) for name, a in self.attacks.items()}

    def _estimations(self, scale: float, rest: tuple[Any, ...]) -> Mapping[str, Cell]:
        """Return the cells of one noise level about a quantity; `rest` ends in the seed."""
        subject, numbers, seed = self.subject, self._numbers, rest[-1]
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0))
        cells: dict[str, Cell] = {NAME: (number_bounds, (numbers, scale, own))}
        if self.design.drawn:
            raw = replace(numbers.encodings, points=subject.white_box.encodings_)
            return cells | {
                name: (play_drawn_errors, (a, raw, *rest)) for name, a in self.attacks.items()
            }
        truth = subject.secrets.reshape(-1, 1)
        known = (subject.noiseless, truth, subject.mse(scale), subject.spread)
        return cells | {name: (play_errors, (a, *known, *rest)) for name, a in self.attacks.items()}
