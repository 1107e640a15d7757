"""The game of whole records: an adversary who knows all others reconstructs one."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import (
    closed_form_encodings,
    dense_table,
    last_step,
    model_parameters,
    plain_table,
)
from skleak.adversary.knowledge import few_valued, raw_column, take_rows, with_attribute
from skleak.attacks import InformedReconstruction
from skleak.audit.games._game import COLUMNS, Cell, Facts, Task
from skleak.audit.games._levels import RECORDS, SAMPLE, UNCOUNTED_NUMBERS, seed_of
from skleak.audit.games._secret import SecretGame, SecretSubject, determination, unit_state
from skleak.audit.games._trials import FittedReleases, Level, play_errors
from skleak.audit.noise._mechanism import Hypotheses, audited_shape
from skleak.audit.tables._rates import Outcome, over_noise
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import leakage_model
from skleak.influence.records import DRAWS, NormalPrior, RecordBounds, record_mse
from skleak.influence.refit import largest_distances
from skleak.influence.state import FitState
from skleak.solvers import MultinomialObjective
from skleak.utils._blocks import row_blocks
from skleak.utils._geometry import gained
from skleak.utils._records import feature_labels
from skleak.utils._typing import FloatArray, IntArray

# Multiplications for all records; where they would take more, some are attacked, drawn at random.
_MOST_WORK = 5e10
_FEWEST, _MOST = 30, 1000


# Records that tell which values of a column are the same to the model.
_SEEN = 8


def value_distances(subject: SecretSubject, state: FitState, table: Any) -> dict[str, FloatArray]:
    """Largest distance at unit noise between two values of each column of few, (n_targets,).

    Infinite where a value leaves the model without a minimiser.
    """
    targets, public, found = subject.targets, subject.public, {}

    def encoded(rows: IntArray, columns: list[int], first: IntArray) -> list[Any]:
        changed = take_rows(table, np.tile(rows, len(first)))
        for j in columns:
            values = np.repeat(raw_column(table, j)[first], len(rows))
            changed = with_attribute(changed, j, values)
        changed = plain_table(public.transform(changed))
        return [changed[k * len(rows) :][: len(rows)] for k in range(len(first))]

    for name, (columns, first) in few_valued(table).items():
        some = [dense_table(each).ravel() for each in encoded(targets[:_SEEN], columns, first)]
        # Rare categories, say, may be the same to the model.
        first = first[np.unique(some, axis=0, return_index=True)[1]]
        largest = np.zeros(len(targets))
        for part in row_blocks(len(targets), len(first) * len(subject.noiseless)):
            rows = encoded(targets[part], columns, first)
            points = closed_form_encodings(state, targets[part], rows, reached=False)
            largest[part] = largest_distances(subject.noise.whitened(points))
        found[name] = np.nan_to_num(largest, nan=np.inf, posinf=np.inf)
    return found


class RecordsGame(SecretGame):
    """Reconstruct records from releases of one model, each by one who knows all others."""

    kind = "record"
    estimates = True

    def __init__(self, task: Task, entropy: list[int]) -> None:
        if task.drawn:
            raise ValueError(
                "`secrets='drawn'` redraws one of a few values from its prior; whole records have "
                "no prior. Name an `attribute`, or pass `secrets='actual'`."
            )
        fitted, trained = SecretSubject.trained(task)
        public, goal = trained["public"], trained["goal"]
        if not public.has_closed_form:
            raise AttackNotApplicableError(
                "Without `attribute`, whole records are reconstructed from the training objective, "
                f"which is not known for {type(last_step(fitted)).__name__}. Pass a private "
                "estimator of skleak.linear_model, or name an `attribute`."
            )
        noise = audited_shape(public, fitted, None)
        # What is fitted has no noise, of any shape.
        self._state = state = unit_state(fitted, noise)
        if isinstance(state.objective, MultinomialObjective):
            raise AttackNotApplicableError(
                f"The model has {state.objective.n_classes} classes; whole records are audited "
                "for two. Name an `attribute`, or make the target binary."
            )
        # What weights, or noise, that follow the data tell is not bounded.
        bounded = state.balanced is None and not state.noise.reads_data and goal is None
        targets = self._attacked(task, bounded, seed_of(entropy, 0, RECORDS))
        X, y = dense_table(state.objective.X), state.objective.y
        # Of attackers who are not unbiased.
        self._normal = NormalPrior.of(task.prior, X, y, targets) if bounded else None
        mean = (X.sum(axis=0) - X[targets]) / (len(X) - 1)
        mean = mean if self._normal is None else self._normal.mean
        # Standard deviations, in which errors are measured, of the columns and of the target.
        sizes = np.append(X.std(axis=0), y.std())
        self._units = np.where(sizes > 0.0, sizes, 1.0)
        units = self._units[:-1]
        prior_score = (((mean - X[targets]) / units) ** 2).mean(axis=1)
        spread = float(((sizes[:-1] / units) ** 2).mean())
        self.subject = SecretSubject(
            **trained,
            noiseless=model_parameters(fitted),
            noise=noise,
            hypotheses=Hypotheses.near(state.factor.coefficients[None]),
            targets=targets,
            secrets=X[targets],
            unit_eta=leakage_model(state).record_loss(state.training.take(targets)),
            baseline=determination(prior_score, spread),
            prior_score=prior_score,
            spread=spread,
            prior_variance=None if self._normal is None else self._normal.variance(units),
            uncounted="" if goal is None else UNCOUNTED_NUMBERS,
        )
        super().__init__(task, self.subject, ("informed",), ("informed",))

    def _attacked(self, task: Task, bounded: bool, seed: np.random.SeedSequence) -> IntArray:
        """Positions of the records under attack: of many a random sample, where none are named."""
        objective = self._state.objective
        targets = task.rows
        n, p = objective.n_records, objective.n_parameters
        # Multiplications of all draws of a record.
        work = DRAWS * float(p**3 + (0 if objective.loss.quadratic else n * p**2))
        most = int(np.clip(_MOST_WORK / work, _FEWEST, _MOST))
        self._sampled = bounded and task.records is None and most < len(targets)
        if self._sampled:
            generator = np.random.default_rng(seed)
            targets = np.sort(generator.choice(targets, most, replace=False))
        return targets

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, check the noise, and learn what bounds need at every noise scale."""
        super().prepare(entropy)
        self._bounds: RecordBounds | None = None
        if self._normal is not None:
            known = self._state, self.subject.targets, self._normal
            self._bounds = RecordBounds(*known, seed_of(entropy, 0, SAMPLE), self._units[:-1])
            self._distances = value_distances(self.subject, self._state, self.task.table)

    def exposures(self, noise: float) -> FloatArray | None:
        """Return the share of the variance of a column, or combination of columns, that is removed.

        Of columns of few values it is the advantage of telling two of them apart.
        """
        if self._bounds is None:
            return None
        of_values = [gained(over_noise(each, noise)) for each in self._distances.values()]
        return np.max([self._bounds.exposures(noise), *of_values], axis=0)

    def any_prior(self, noise: float) -> dict[str, Any] | None:
        """Say what `exposures` are about, too: a column, or several together ("direction")."""
        exposure = self.exposures(noise)
        if self._bounds is None or exposure is None:
            return None
        found = np.array([*self._names(), "direction"], dtype=object)
        found = found[self._bounds.most_exposed(noise)]
        for name, each in self._distances.items():
            found[gained(over_noise(each, noise)) >= exposure] = name
        unknown = dict.fromkeys(COLUMNS, np.full(len(found), np.nan))
        return unknown | {"exposure": exposure, "exposed_column": found}

    def _names(self) -> list[str]:
        """Return the names of the columns as the model sees them."""
        names, preprocessing = self._state.feature_names, self.subject.public.preprocessing
        if names is None and hasattr(preprocessing, "get_feature_names_out"):
            with suppress(AttributeError, ValueError):  # of a step that has none
                names = preprocessing.get_feature_names_out()
        return feature_labels(names, self._state.n_features)

    def made(self, name: str) -> Any:
        """Return the attack of ours, which is not fitted."""
        return InformedReconstruction(self.task.estimator, records=self.subject.targets)

    def games(
        self, scale: float, noise: FloatArray | FittedReleases, seed: np.random.SeedSequence
    ) -> Mapping[str, Cell]:
        """Return the cells of one noise level, all attacks."""
        subject = self.subject
        rest = subject.spread, Level(noise, scale, self.design.n_releases, seed)
        cells: dict[str, Cell] = {}
        if self._bounds is not None:
            cells["bounds"] = (RecordBounds.outcome, (self._bounds, scale))
        for name, attack in self.attacks.items():
            truth, state, adds = subject.secrets, self._state, self._adds_target(attack)
            if adds:
                truth = np.column_stack([truth, state.objective.y[subject.targets]])
            units = self._units[: truth.shape[1]]
            # Of unbiased attacks at unit noise.
            bound = record_mse(state, subject.targets, private_target=adds, units=units)
            known = (attack, subject.noiseless, truth, bound * scale**2)
            cells[name] = (_play, (not adds, *known, *rest, units))
        return cells

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        """Say whether the records are a sample, and whether targets are reconstructed, too."""
        own = {"target_counts": any(map(self._adds_target, self.attacks.values()))}
        return super().facts(outcomes) | own | {"sampled": self._sampled}

    def _adds_target(self, attack: Any) -> bool:
        """Return True if an attack reconstructs the target of the model too."""
        d = self.subject.secrets.shape[1]
        return bool(getattr(attack, "n_reconstructed_", d) > d)


def _play(of_prior: bool, *known: Any) -> Outcome:
    """Play a game, and say whether what is guessed is what the prior of the bounds is about."""
    return play_errors(*known) | {"of_prior": np.array(of_prior)}
