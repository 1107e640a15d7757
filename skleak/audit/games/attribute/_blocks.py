"""The game of one column of records outside memory, which is played block by block."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    changed_columns,
    check_weights_known,
    last_step,
    model_parameters,
    noiseless,
    shell_of,
    weight_argument,
)
from skleak.adversary.knowledge import (
    CrossFitted,
    Secret,
    default_classifier,
    resolve_records,
    without_attribute,
)
from skleak.audit.games._bounds import check_bounds, mean_tolerance
from skleak.audit.games._game import Cell, Facts, Task, named_attacks
from skleak.audit.games._levels import (
    SAMPLE,
    Releases,
    level_cells,
    noise_levels,
    noiseless_utility,
    reference_records,
)
from skleak.audit.games._outside import Outside
from skleak.audit.games._scale import UNCOUNTED_OUTSIDE, asked_goal, goal_of, scale_sentence
from skleak.audit.games._secret import uses_more
from skleak.audit.games._tabled import TabledGame
from skleak.audit.games.attribute._block import Encoder, KnownGame, play_block, stacked
from skleak.audit.games.attribute._dependence import related_columns
from skleak.audit.noise._hypotheses import Hypotheses
from skleak.audit.noise._mechanism import Trained, noise_of_levels
from skleak.audit.tables._design import Outcome, SecretDesign, cell_key
from skleak.audit.tables._rows import over_noise
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.refit import operations_each, prepare_candidates
from skleak.influence.state import NoiseShape
from skleak.utils._arguments import check_prior
from skleak.utils._typing import FloatArray, IntArray

_NAMES = ("prior", "imputation", "white_box")
# Entries of the encodings of a block, and records of one, at most.
_ELEMENTS, _MOST_OF_BLOCK = 1 << 22, 1000
# Records that are attacked unasked, and operations that their encodings may take then.
_MOST, _FEWEST, _WORK = 10_000, 100, 2e11
# Records in memory, from which imputation learns and on which utility is measured.
_LEARNT = 20_000
# Streams of the samples, beside that of bounds.
_TARGETS, _OTHERS = 1, 2


class BlocksGame(TabledGame):
    """Guess a column of records that lie outside memory, from releases of one model.

    The model is fitted once, by passes. A block of records is read, encoded and attacked where it
    is played; what comes back is a few numbers for each record.
    """

    kind = "categorical"

    def __init__(self, task: Task, entropy: list[int]) -> None:
        assert task.outside is not None
        outside = task.outside
        task = task.settled(drawn=True)
        self._check(task)
        self._chosen = named_attacks(
            task.attacks,
            lambda: _NAMES,
            known=_NAMES,
            names={},
            kind=self.kind,
            about=" about records outside memory",
        )
        if not all(isinstance(attack, str) for attack in self._chosen.values()):
            raise AttackNotApplicableError(
                "An attack of your own is fitted on all training records, which are outside "
                f"memory. Name some of {list(_NAMES)}, or audit a random sample as a DataFrame."
            )
        self._fit(task, outside)
        targets = self._targets(task, outside, entropy)
        self._sampled = task.records is None and len(targets) < len(outside)
        generator = np.random.default_rng(_seed(entropy, _OTHERS))
        learnt = _some(len(outside), _LEARNT, generator)
        self._known_rows = outside.records.at(learnt).together()
        self._learnt = learnt
        super().__init__(replace(task, table=self._known_rows.table, y=self._known_rows.y))
        self.attacks = dict(self._chosen)
        self._prior = check_stated(task.prior, len(outside.values), len(targets))
        self.design = self._plan(targets)

    @staticmethod
    def _check(task: Task) -> None:
        """Refuse what cannot be played by blocks."""
        model = last_step(task.estimator)
        if not hasattr(model, "_confidential_state"):
            raise AttackNotApplicableError(
                f"{type(model).__name__} is trained in memory; records outside of it are audited "
                "for the private estimators of skleak.linear_model, at the end of a pipeline too. "
                "Pass one of these, or a random sample of some thousands of records as a DataFrame."
            )
        if getattr(model, "reweighting", None) is not None:
            raise AttackNotApplicableError(
                "Under a reweighting every candidate value takes passes over all records. Audit a "
                "random sample of some thousands of records as a DataFrame."
            )
        shape = getattr(model, "noise_covariance", "isotropic")
        if isinstance(shape, str) and shape != "isotropic":
            raise AttackNotApplicableError(
                f"Under `noise_covariance={shape!r}` each candidate value has a covariance of its "
                "own, which is audited in memory only. Audit a random sample of some thousands of "
                "records as a DataFrame, or choose isotropic noise or a matrix."
            )
        if task.releases == "fitted":
            raise AttackNotApplicableError(
                "`releases='fitted'` trains anew for each game, on records in memory. Pass "
                "`releases='auto'`, or audit a random sample of some thousands of records as a "
                "DataFrame."
            )
        if not task.drawn:
            raise AttackNotApplicableError(
                "`secrets='actual'` attacks all records as they are at once; records outside "
                "memory are attacked one at a time. Pass `secrets='drawn'`, or audit a random "
                "sample of some thousands of records as a DataFrame."
            )
        if task.refit_preprocessing:
            raise AttackNotApplicableError(
                "`refit_preprocessing=True` trains the pipeline anew for each record, which takes "
                "all of them in memory. Pass False, with transformers that were fitted before."
            )

    def _fit(self, task: Task, outside: Outside) -> None:
        """Fit the model without noise: passes over all records."""
        X, y, weights = outside.given
        check_weights_known(last_step(task.estimator), weighted=weights is not None)
        pipeline = noiseless(task.estimator)
        fitted = pipeline.fit(X, y, **weight_argument(pipeline, weights))
        steps = fitted[:-1] if isinstance(fitted, Pipeline) and len(fitted.steps) > 1 else None
        self._model = model = last_step(fitted)
        names = getattr(model, "feature_names_in_", None)
        self._encoder = Encoder(steps, names, getattr(model, "classes_", None))
        self._noise = NoiseShape.of(
            getattr(last_step(task.estimator), "noise_covariance", "isotropic"),
            len(model_parameters(model)),
        )
        # Whoever plays a block needs no labels of rows.
        state = model._confidential_state().at_noise(1.0)
        self._state = replace(state, row_labels=None)

    def _targets(self, task: Task, outside: Outside, entropy: list[int]) -> IntArray:
        """Positions of the records under attack, (n_targets,): unasked a random sample."""
        n = len(outside)
        if task.records is not None:
            return resolve_records(task.records, n)
        work = operations_each(self._state, _MOST * len(outside.values)) * len(outside.values)
        most = int(np.clip(_WORK / work, _FEWEST, _MOST))
        return _some(n, most, np.random.default_rng(_seed(entropy, _TARGETS)))

    def _plan(self, targets: IntArray) -> SecretDesign:
        task, objective = self.task, self._state.objective
        self._goal = goal_of(task.estimator, task.noise_scales)
        y: Any = objective.y.astype(int) if is_classifier(self._model) else objective.y
        self._training = (objective.X, y, objective.sample_weight)
        model = last_step(task.estimator)
        scales = noise_levels(task.noise_scales, model, *self._training)
        incomparable = frozenset(name for name in self._chosen.values() if uses_more(name, task))
        nothing = np.full(len(targets), np.nan)
        return self._designed(
            self._chosen,
            incomparable,
            scales,
            targets=targets,
            bounds=() if self._goal is not None else check_bounds(task.bounds),
            n_releases=int(task.n_releases),
            # Found when the blocks are played, see `design_of`.
            etas=dict.fromkeys(scales, nothing),
            prior_score=nothing,
            baseline=np.nan,
            imputation=np.nan,
            spread=1.0,
        )

    def prepare(self, entropy: list[int]) -> None:
        """Learn imputation from some records, and check the noise."""
        task, outside = self.task, self._outside
        rows, design = self._known_rows, self.design
        self._entropy = entropy
        noiseless_parameters = model_parameters(self._model)
        X, y, weights = self._training
        trained = Trained(
            model=last_step(task.estimator),
            X=X,
            y=y,
            weights=weights,
            noiseless=noiseless_parameters,
            noise=self._noise,
            # In closed form the hypothesis of every record at its true value is the fit itself.
            hypotheses=Hypotheses.near(noiseless_parameters[None]),
        )
        self._noises, self._checks = noise_of_levels(trained, design.noise_scales, entropy)
        codes = outside.codes(rows.table)
        others = without_attribute(rows.table, outside.index)
        n_values, learnt = len(outside.values), self._learnt
        guesser = CrossFitted.of(default_classifier(), others, rows.y, codes, n_values, learnt)
        secret = Secret(outside.index, np.asarray(outside.values)[codes], outside.values, codes)
        self._related = related_columns(rows.table, rows.y, secret)
        table = self._encoder.table(rows.table)
        candidates = self._encoder.candidates(rows.table, outside.index, outside.values)
        columns = changed_columns(table, candidates)
        prepare_candidates(self._state, len(design.targets) * n_values)
        self._known = KnownGame(
            encoder=self._encoder,
            state=self._state,
            index=outside.index,
            values=outside.values,
            counts=outside.counts,
            columns=columns,
            prior="given" if np.ndim(self._prior) == 2 else self._prior,
            guesser=guesser,
            attacks=tuple(self._chosen),
            bounds=design.bounds,
            noise=self._noise,
            scales=design.noise_scales,
            noises=tuple(self._noises[scale] for scale in design.noise_scales),
            n_releases=design.n_releases,
            tolerance=mean_tolerance(len(design.targets)),
            entropy=entropy,
        )
        test = reference_records(task.X_test, task.y_test)
        self._where = (table, rows.y) if test is None else (self._encoder.table(test[0]), test[1])

    @property
    def _outside(self) -> Outside:
        assert self.task.outside is not None
        return self.task.outside

    @property
    def _blocks(self) -> dict[str, slice]:
        """Targets of each block."""
        width = len(self._outside.values) * len(model_parameters(self._model))
        size = int(np.clip(_ELEMENTS // width, 1, _MOST_OF_BLOCK))
        n = len(self.design.targets)
        edges = range(0, n, size)
        return {f"block {k}": slice(a, min(a + size, n)) for k, a in enumerate(edges)}

    def cells(self) -> dict[str, Cell]:
        """Games and bounds of every block, and the utility at every noise level."""
        found: dict[str, Cell] = {}
        for k, (name, block) in enumerate(self._blocks.items()):
            positions = self.design.targets[block]
            prior = self._prior[block] if np.ndim(self._prior) == 2 else None
            place = self._outside.records.at(positions)
            found[name] = (play_block, (self._known, place, positions, prior, k))
        parameters = model_parameters(self._model)
        releases = Releases(shell_of(self._model), parameters, self._noises, self._where)
        return found | level_cells(self.design, releases, self._entropy, lambda *_: {})

    def phase(self, key: str) -> tuple[str, int]:
        """Return the phase of a cell and the records that it is about."""
        block = self._blocks.get(key)
        return super().phase(key) if block is None else ("attacks", block.stop - block.start)

    def outlook(self) -> list[str]:
        """Say who is attacked, and in how many blocks."""
        n, of = len(self.design.targets), len(self._outside)
        chosen = ", drawn at random," if self._sampled else ""
        return [f"attacks: {n:,} of {of:,} records{chosen} in {len(self._blocks)} blocks"]

    def results(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        if not all(name in outcomes for name in self._blocks):
            return pd.DataFrame()
        return super().results(outcomes)

    def _parts(self, outcomes: Mapping[str, Outcome]) -> list[Outcome]:
        return [outcomes[name] for name in self._blocks]

    def design_of(self, outcomes: Mapping[str, Outcome]) -> SecretDesign:
        """Return the design with what is known of the records once their blocks are played."""
        parts = self._parts(outcomes)
        top, eta = stacked(parts, "top"), stacked(parts, "eta")
        return replace(
            self.design,
            etas={scale: over_noise(eta, scale) for scale in self.design.noise_scales},
            prior_score=top,
            baseline=float(top.mean()),
            imputation=float(stacked(parts, "right").mean()),
        )

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Outcomes of all records by noise level, as those of games without blocks."""
        parts, design = self._parts(outcomes), self.design
        found = {k: v for k, v in outcomes.items() if k not in self._blocks}
        games = np.array(design.n_releases * len(design.targets))
        sample = {"n_all": np.array(len(self._outside))} if self._sampled else {}
        for k, scale in enumerate(design.noise_scales):
            for name in design.attacks:
                counts = stacked(parts, f"{k}:{name}")
                played = {"counts": counts, "hits": counts.sum(), "games": games}
                if sample:
                    played["by_record"] = counts / design.n_releases
                found[cell_key(scale, name)] = played
            start = f"{k}:bounds:"
            names = [name for name in parts[0] if name.startswith(start)]
            bounds = {name.removeprefix(start): stacked(parts, name) for name in names}
            if self._goal is not None:  # none is stated
                bounds["bayes"] = np.full(len(design.targets), np.nan)
            found[cell_key(scale, "bounds")] = bounds | sample
        return found

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        task, parts = self.task, self._parts(outcomes)
        guess, codes = stacked(parts, "guess"), stacked(parts, "codes")
        whole = len(self._learnt) == len(self._outside)
        data = "training records" if whole else "a random sample of the training records"
        return Facts(
            **(self.shared_facts() | self._related),
            values=np.asarray(self._outside.values).tolist(),
            bounds=self.design.bounds,
            utility_data=data if task.X_test is None else "test records",
            noiseless_utility=noiseless_utility(outcomes),
            noise_covariance=self._noise.name,
            imputed=float(np.mean(guess == codes)),
            sampled=self._sampled,
            scale=scale_sentence(self._goal, UNCOUNTED_OUTSIDE, asked=asked_goal(self.task)),
            uncounted="" if self._goal is None else UNCOUNTED_OUTSIDE,
        )


def check_stated(prior: Any, n_values: int, n_targets: int) -> Any:
    """Return the prior by name, or its probabilities, (M,) or (n_targets, M)."""
    if isinstance(prior, str):
        return prior
    table: FloatArray = check_prior(prior, n_values)
    if table.ndim == 2 and len(table) != n_targets:
        raise ValueError(
            f"`prior` must have one row for each of the {n_targets} records under attack, or be "
            f"shared; got shape {table.shape}. Name them in `records`."
        )
    return table


def _seed(entropy: list[int], stream: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(entropy, spawn_key=(0, SAMPLE, stream))


def _some(n: int, most: int, generator: np.random.Generator) -> IntArray:
    """Positions of all records, or of a random sample, ascending."""
    if n <= most:
        return np.arange(n)
    return np.sort(generator.choice(n, most, replace=False))
