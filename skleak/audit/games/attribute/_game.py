"""The game of one column: its values are guessed, or estimated where they are numbers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from sklearn.base import clone

from skleak.adversary.hypotheses import N_NODES, adds_noise, is_linear, weight_argument
from skleak.adversary.knowledge import column_names, read_secret, resolve_records
from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    PriorAttack,
)
from skleak.audit.games._bounds import success_bounds
from skleak.audit.games._fitted import FittedReleases
from skleak.audit.games._game import Cell, Game, Task
from skleak.audit.games._levels import SAMPLE, seed_of
from skleak.audit.games._private_sgd import is_private_sgd
from skleak.audit.games._sampled import NAME, BoundsPlan, KnownBounds
from skleak.audit.games._scale import in_one_channel
from skleak.audit.games._secret import SecretGame
from skleak.audit.games._trials import (
    draw_secrets,
    play_actual,
    play_drawn,
    play_drawn_errors,
    play_errors,
)
from skleak.audit.games.attribute._numbers import NumberBounds, number_bounds
from skleak.audit.games.attribute._predictions import (
    BLACK_BOXES,
    PredictionsGame,
    beyond_labels,
    shown_to,
)
from skleak.audit.games.attribute._subject import study
from skleak.audit.noise._shaped import ShapedNoise
from skleak.audit.tables._design import Outcome, cell_key
from skleak.influence.state import NoiseShape
from skleak.utils._features import is_target
from skleak.utils._predictions import classifies
from skleak.utils._typing import Array, FloatArray, IntArray

# Trainings that find what a model without noise tells, of which nobody has asked for parameters.
_MOST_TRAININGS = 4000
# Attacks that read no parameter.
_ASKING = frozenset(map(repr, ("prior", "imputation", *BLACK_BOXES)))
_NAMES = ("prior", "imputation", "white_box", "black_box")
_BEYOND = ("black_box_proba", "black_box_margin")
# Those that can be about the target of the model itself.
_OF_TARGETS = ("prior", "imputation", "white_box")


def attribute_game(task: Task, entropy: list[int]) -> Game:
    """Return the game of a column: against parameters where there are any, else answers."""
    learner = task.learner
    if learner is not None and is_private_sgd(task.estimator):
        # A training with another value is another one: parameters without noise tell nothing.
        return PredictionsGame(task.settled(drawn=False), learner, entropy)
    if learner is None or adds_noise(task.estimator) or _reads_parameters(task):
        given = task.table, task.y, task.attribute, task.values
        few = not read_secret(*given)[0].numeric
        return AttributeGame(task.settled(drawn=few))
    return PredictionsGame(task.settled(drawn=False), learner, entropy)


def _reads_parameters(task: Task) -> bool:
    """Return True if a model has parameters to read, and anything that is asked for reads them.

    Where nothing is, and there is no noise, it is not trained anew more than some thousands of
    times to find out that parameters tell the secret.
    """
    named = [task.attacks] if isinstance(task.attacks, str) else task.attacks
    asking = isinstance(named, list | tuple) and set(map(repr, named)) <= _ASKING
    if isinstance(task.attacks, str) and task.attacks == "default":
        secret, *_ = read_secret(task.table, task.y, task.attribute, task.values)
        n_targets = len(resolve_records(task.records, len(task.y)))
        n_values = N_NODES if secret.values is None else len(secret.values)
        asking = n_targets * n_values > _MOST_TRAININGS
    if asking and task.noise_scales is None and task.secrets != "drawn":
        return False
    fitted = clone(task.estimator, safe=False)
    weights = weight_argument(fitted, task.sample_weight)
    return is_linear(fitted.fit(task.table, task.y, **weights) or fitted)


class AttributeGame(SecretGame):
    """Guess or estimate a column of every record under attack, from releases of one model."""

    _numbers: NumberBounds | None = None

    def __init__(self, task: Task) -> None:
        self.subject = study(task)
        self.estimates = self.subject.numeric
        self.kind = "numeric" if self.estimates else "categorical"
        points, shapes = self.subject.white_box.encodings_, self.subject.shapes
        made = [points] if shapes is None else [points, shapes]
        self.unseen = all(bool((each == each[:, :1]).all()) for each in made)
        if self.estimates and task.drawn and self.subject.white_box._shaped is not None:
            raise ValueError(
                "`secrets='drawn'` is not played for a number where the covariance of the noise "
                "follows the data. Pass `secrets='actual'`."
            )
        if self.estimates and task.drawn and self.subject.goal is not None:
            raise ValueError(
                "`secrets='drawn'` is not played for a number where the noise scale follows the "
                "records. Pass `secrets='actual'`, or numbers as `noise_scales`."
            )
        model = self.subject.model
        self._classifies = classifies(model, task.y)
        known: tuple[str, ...] = (*_NAMES, *_BEYOND, "informed")
        usual: tuple[str, ...] = _NAMES
        if self.estimates:
            usual = (*_NAMES, "posterior_mean")
            known = (*usual, *_BEYOND)
            # Labels tell a number by steps, on a grid that takes long at thousands of releases.
            if self._classifies:
                usual = tuple(name for name in usual if name != "black_box")
        elif task.noise_scales is None and not adds_noise(model):
            usual = (*usual, *beyond_labels(model, task.y))
        if is_target(task.attribute, column_names(task.table)):
            known = usual = (*_OF_TARGETS, "posterior_mean") if self.estimates else _OF_TARGETS
        super().__init__(task, self.subject, known, usual)

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
            "informed": lambda: InformedAttributeInference(task.estimator, column, **own),
        }
        if name in makers:
            return makers[name]()
        own |= {"prior": prior, "criterion": BLACK_BOXES[name]}
        return BlackBoxAttributeInference(task.estimator, column, **own)

    def _outputs(self) -> Mapping[str, str]:
        return shown_to(self._chosen, self._classifies)

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, check the noise, and decide whose bounds are computed."""
        if self.subject.posterior is not None and not self.subject.uncounted:
            self._numbers = NumberBounds.of(self.subject.posterior)
        super().prepare(entropy)
        if self.estimates:
            return
        subject, design = self.subject, self.design
        points, shapes = subject.white_box.encodings_, subject.shapes
        places = points
        if shapes is None:
            same = (points == points[:, :1]).all(axis=2, keepdims=True)
            places = subject.noise.whitened(points)
            places = np.where(same, places[:, :1], places)
        if subject.scales is not None:
            places, _ = in_one_channel(places, subject.scales, design.noise_scales[-1])
        rest = (design.bounds, shapes, subject.unit_eta, design.noise_scales)
        self._known = KnownBounds.of(places, subject.prior, *rest)
        seed = seed_of(entropy, 0, SAMPLE)
        self._plan = BoundsPlan.of(*places.shape, shaped=shapes is not None, seed=seed)

    def drawn(self, targets: IntArray, generator: np.random.Generator) -> tuple[int, Array, Array]:
        """Draw secrets of targets: their column, positions among the values or numbers, values."""
        subject = self.subject
        if self._numbers is not None:
            numbers = self._numbers.encodings.prior.take(targets).draw(1, generator)[0]
            return subject.index, numbers, numbers
        secrets = draw_secrets(subject.prior[targets], 1, generator)[0]
        return subject.index, secrets, subject.values[secrets]

    def phase(self, key: str) -> tuple[str, int]:
        """Return the phase of a cell; bounds count the records of their own cell."""
        phase, count = super().phase(key)
        name = key.rpartition("|")[2]
        if self.estimates:
            return phase, count
        return phase, self._plan.sizes.get(name, count) if phase == NAME else count

    def outlook(self) -> list[str]:
        """Say whose bounds are computed, and how long that takes."""
        if self.estimates or not self.design.bounds:
            return []
        n_levels = sum(scale > 0.0 for scale in self.design.noise_scales)
        return [self._plan.outlook(n_levels)]

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Return the outcomes with the bounds of every noise level as one."""
        if self.estimates or self.subject.uncounted:
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
        self, scale: float, noise: FloatArray | FittedReleases, seed: np.random.SeedSequence
    ) -> Mapping[str, Cell]:
        """Return the cells of one noise level: all attacks, and bounds on guesses."""
        subject = self.subject
        rest = (noise, scale, self.design.n_releases, seed)
        if self.estimates:
            return self._estimations(scale, rest)
        points = subject.white_box.encodings_
        cells: dict[str, Cell] = {}
        if not subject.uncounted:
            cells |= self._plan.cells(self._known, scale, success_bounds)
        if not self.design.drawn:
            cells |= self._each(play_actual, subject.noiseless, subject.secrets, *rest)
            return cells | self._seeing(play_actual, noise, *rest[1:])
        played: Any = noise
        if subject.scales is not None and isinstance(noise, np.ndarray):
            ratio = np.where(np.isnan(subject.scales), scale, subject.scales) / scale
            unit = np.eye(points.shape[2])
            played = ShapedNoise.of(ratio[:, :, None, None] ** 2 * unit, unit, noise)
        if subject.shapes is not None and not isinstance(noise, FittedReleases):
            played = ShapedNoise.of(subject.shapes, subject.noise.matrix_root, noise)
        known = (points, subject.values, subject.prior, played, *rest[1:])
        cells |= self._each(play_drawn, *known)
        return cells | self._seeing(play_drawn, noise, *rest[1:])

    def _seeing(
        self, play: Callable[..., Outcome], noise: FloatArray | FittedReleases, *rest: Any
    ) -> dict[str, Cell]:
        """Return the cell of the white box where it sees a noise scale that tells of values."""
        subject, points = self.subject, self.subject.white_box.encodings_
        names = [name for name, attack in self.attacks.items() if attack is subject.white_box]
        if subject.scales is None or not names or isinstance(noise, FittedReleases):
            return {}
        seen, _ = in_one_channel(points, subject.scales, rest[0])
        p = points.shape[2]
        wide = np.zeros((p + 1, p + 1))
        wide[:p, :p] = np.diag(noise) if noise.ndim == 1 else noise
        wide[p, p] = rest[0]
        shape = subject.noise
        if shape.matrix is not None and not shape.is_identity:
            shape = NoiseShape.of(block_diag(shape.matrix, 1.0), p + 1)
        attack = type(subject.white_box)._of_encodings(seen, subject.values, subject.prior, shape)
        attack._kind = subject.white_box._kind
        if play is play_drawn:
            known = (seen, subject.values, subject.prior, wide, *rest)
            return dict.fromkeys(names, (play, (attack, *known)))
        own = np.append(subject.noiseless, 0.0)
        return dict.fromkeys(names, (play, (attack, own, subject.secrets, wide, *rest)))

    def _each(self, play: Callable[..., Outcome], *known: Any) -> dict[str, Cell]:
        """Return a cell for each attack, which `play` takes first."""
        return {name: (play, (attack, *known)) for name, attack in self.attacks.items()}

    def _estimations(self, scale: float, rest: tuple[Any, ...]) -> Mapping[str, Cell]:
        """Return the cells of one noise level about a quantity; `rest` ends in the seed."""
        subject, numbers, seed = self.subject, self._numbers, rest[-1]
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0))
        cells: dict[str, Cell] = {}
        if numbers is not None:
            cells[NAME] = number_bounds, (numbers, scale, own)
        if self.design.drawn and numbers is not None:
            raw = replace(numbers.encodings, points=subject.white_box.encodings_)
            return cells | self._each(play_drawn_errors, raw, *rest)
        truth = subject.secrets.reshape(-1, 1)
        known = (subject.noiseless, truth, subject.mse(scale), subject.spread)
        return cells | self._each(play_errors, *known, *rest)
