"""The game of one column of records outside memory.

The model is fitted by passes. What is known of each attacked record (its value, guesses from its
other columns, its leakage, and the parameters under every value) is read block by block and held in
memory; the game is then that of records in memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    PublicModel,
    changed_columns,
    check_weights_known,
    closed_form_encodings,
    dense_table,
    last_step,
    model_parameters,
    noiseless,
    plain_table,
    weight_argument,
)
from skleak.adversary.knowledge import (
    CrossFitted,
    Population,
    Secret,
    marginal_prior,
    resolve_records,
    without_attribute,
)
from skleak.adversary.models import Shell
from skleak.attacks import ImputationAttack, PriorAttack, WhiteBoxAttributeInference
from skleak.audit.games._game import Facts, Outside, Task, codes_of
from skleak.audit.games._levels import SAMPLE, UNCOUNTED_OUTSIDE, Releases, goal_of
from skleak.audit.games._secret import unit_state
from skleak.audit.games.attribute._game import AttributeGame
from skleak.audit.games.attribute._subject import (
    AttributeSubject,
    columns_loss,
    known_values,
    related_columns,
)
from skleak.audit.noise._mechanism import Hypotheses
from skleak.audit.tables._rates import Outcome, cell_key
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.refit import operations_each, prepare_candidates
from skleak.influence.state import FitState, NoiseShape, RecordBatch, partial_state
from skleak.utils._blocks import row_blocks, stacked
from skleak.utils._predictions import label_positions
from skleak.utils._records import Persons
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.sources import RawRows

_NAMES = ("prior", "imputation", "white_box")
# Entries of a block of encodings, and of all of them: 2 GB.
_ELEMENTS, _MOST_ELEMENTS = 1 << 22, 1 << 28
# Records that are attacked unasked, and operations that their encodings may take then.
_MOST, _FEWEST, _WORK = 10_000, 100, 2e11
# Records in memory, from which imputation learns and on which utility is measured.
_LEARNT = 20_000
# Streams of the samples, beside that of bounds.
_TARGETS, _OTHERS = 1, 2


@dataclass(frozen=True, kw_only=True)
class Encoder(PublicModel):
    """A model that sees some columns of what its preprocessing makes of raw records."""

    names: Array | None  # of the columns of the model
    classes: Array | None  # of its labels; None where targets are numbers

    def transform(self, table: Any) -> FloatArray:
        """Raw records as the model sees them, (n, d)."""
        found = super().transform(table)
        if isinstance(found, pd.DataFrame) and self.names is not None:
            found = found[list(self.names)]
        return dense_table(plain_table(found)).astype(np.float64, copy=False)

    def candidates(self, raw: Any, index: int, values: Array) -> list[FloatArray]:
        """Raw records with each candidate value as the model sees them, (n, d) each."""
        kind = raw.dtypes.iloc[index] if isinstance(raw, pd.DataFrame) else None
        if isinstance(kind, pd.CategoricalDtype) and not set(values) <= set(kind.categories):
            raise ValueError(
                f"The categories of the column {raw.columns[index]!r} differ between the blocks of "
                f"the table: some have {kind.categories.tolist()[:10]}, and all records "
                f"{values.tolist()[:10]}. Call `.cat.as_known()` on the column of the frame first."
            )
        return self.candidate_rows(raw, np.arange(len(raw)), index, values)

    def batch(self, rows: RawRows) -> RecordBatch:
        """Raw records and their targets as the fit has them."""
        y = rows.y if self.classes is None else label_positions(rows.y, self.classes)
        ones = np.ones(len(y))
        weights = ones if rows.sample_weight is None else rows.sample_weight
        return RecordBatch(self.transform(rows.table), np.asarray(y, dtype=float), weights, ones)


@dataclass(frozen=True, kw_only=True)
class OutsideSubject(AttributeSubject):
    """A secret column of records outside memory. Confidential."""

    public: Encoder
    fitted: Any  # the model without noise
    rows: RawRows  # records in memory
    sampled: bool  # whether the targets are a random sample

    @property
    def own_records(self) -> tuple[Any, Array]:
        """Records in memory, on which utility is measured, and their targets."""
        return self.public.transform(self.rows.table), self.rows.y


class OutsideGame(AttributeGame):
    """Guess a column of records that lie outside memory, from releases of one model."""

    subject: OutsideSubject
    _named, _about = {}, " about records outside memory"

    def __init__(self, task: Task, entropy: list[int]) -> None:
        outside = task.outside
        assert outside is not None
        # The model is one of ours, and what fits of it release is known.
        task, self.kind = task.settled(drawn=True), "categorical"
        _check(task)
        if not all(isinstance(each, str) for each in self._choose(task, _NAMES, _NAMES).values()):
            raise AttackNotApplicableError(
                "An attack of your own is fitted on all training records, which are outside "
                f"memory. Name some of {list(_NAMES)}, or audit a random sample as a DataFrame."
            )
        self._n_all = len(outside)
        learnt = _some(self._n_all, _LEARNT, entropy, _OTHERS)
        rows = outside.records.at(learnt)
        self._part = len(learnt) < self._n_all
        subject = study(task, entropy, learnt, rows)
        super().__init__(replace(task, releases="simulated", table=rows.table, y=rows.y), subject)

    def _offered(self, task: Task, model: Any) -> tuple[list[str], list[str]]:
        self._classifies = is_classifier(model)
        return [*_NAMES], [*_NAMES]

    def made(self, name: str) -> Any:
        if name == "prior":
            return PriorAttack._of_prior(self.subject.values, self.subject.prior)
        return super().made(name)

    def _measured(self) -> Releases:
        X, y = self._where
        shell = Shell.of(self.subject.fitted)
        return Releases(shell, self.subject.noiseless, self._noise, (X, y), self.task.y)

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Outcomes with what tells a sample from all records."""
        found, n_games = dict(outcomes), self.design.n_releases
        for scale in self.design.noise_scales if self.subject.sampled else ():
            for name in {*self.design.attacks, "bounds"}:
                key = cell_key(scale, name)
                if key in found:
                    own = {"n_all": np.array(self._n_all)}
                    if name != "bounds":
                        own = {"by_record": found[key]["counts"] / n_games}
                    found[key] = {**found[key], **own}
        return found

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        facts = super().facts(outcomes) | {"sampled": self.subject.sampled}
        if self.task.X_test is None and self._part:
            facts["utility_data"] = "a random sample of the training records"
        return facts


def _check(task: Task) -> None:
    """Refuse what takes all records in memory."""
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


def study(task: Task, entropy: list[int], learnt: IntArray, rows: RawRows) -> OutsideSubject:
    """Fit the model without noise, by passes over all records, and study who is attacked.

    The `rows` in memory, from which imputation learns, are those at the positions `learnt`.
    """
    outside = task.outside
    assert outside is not None
    X, y, weights = outside.given
    own = last_step(task.estimator)
    check_weights_known(own, weighted=weights is not None)
    pipeline = noiseless(task.estimator)
    fitted = pipeline.fit(X, y, **weight_argument(pipeline, weights))
    steps = fitted[:-1] if isinstance(fitted, Pipeline) and len(fitted.steps) > 1 else None
    model = last_step(fitted)
    coefficients = model_parameters(model)
    noise = NoiseShape.of(getattr(own, "noise_covariance", "isotropic"), len(coefficients))
    # Whoever is attacked needs no labels of rows.
    state = replace(unit_state(model, noise), row_labels=None)
    n, values = len(outside), outside.values
    each = len(values) * len(coefficients)
    if task.records is not None:
        targets = resolve_records(task.records, n)
    else:
        work = operations_each(state, _MOST * len(values)) * len(values)
        most = min(int(np.clip(_WORK / work, _FEWEST, _MOST)), _MOST_ELEMENTS // each)
        targets = _some(n, most, entropy, _TARGETS)
    if len(targets) * each > _MOST_ELEMENTS:
        raise AttackNotApplicableError(
            f"The parameters under every value of {len(targets):,} records take more than "
            f"{_MOST_ELEMENTS >> 27} GB. Name at most {_MOST_ELEMENTS // each:,} `records`."
        )
    sampled = task.records is None and len(targets) < n
    names, classes = (getattr(model, each, None) for each in ("feature_names_in_", "classes_"))
    public = {"preprocessing": steps, "template": own, "noise_scale": np.nan}
    encoder = Encoder(**public, names=names, classes=classes)
    known = _known(task, outside, encoder, state, targets, learnt, rows)
    if sampled:
        known["rare"] = None
    objective, goal = state.objective, goal_of(task.estimator, task.noise_scales)
    return OutsideSubject(
        model=own,
        X=objective.X,
        y=objective.y.astype(int) if is_classifier(model) else objective.y,
        weights=objective.sample_weight,
        noiseless=coefficients,
        noise=noise,
        # In closed form the hypothesis of every record at its true value is the fit itself.
        hypotheses=Hypotheses.near(coefficients[None]),
        public=encoder,
        targets=targets,
        white_box=WhiteBoxAttributeInference._of_encodings(
            known.pop("encodings"), values, known["prior"], noise
        ),
        **known,
        goal=goal,
        uncounted="" if goal is None else UNCOUNTED_OUTSIDE,
        fitted=model,
        rows=rows,
        sampled=sampled,
    )


def _known(
    task: Task,
    outside: Outside,
    encoder: Encoder,
    state: FitState,
    targets: IntArray,
    learnt: IntArray,
    rows: RawRows,
) -> dict[str, Any]:
    """Return what is known of the targets, and the parameters without noise under every value."""
    index, values = outside.index, outside.values
    codes = codes_of(rows.table, index, values)
    related = related_columns(rows.table, rows.y, Secret(index, values[codes], values, codes))
    given = without_attribute(rows.table, index), rows.y, codes, len(values), learnt
    guesser = CrossFitted.of(None, *given)
    candidates = encoder.candidates(rows.table, index, values)
    columns = changed_columns(encoder.transform(rows.table), candidates)
    prepare_candidates(state, len(targets) * len(values))
    width, n_values = len(values) * len(state.factor.coefficients), len(values)

    def read(some: slice) -> FloatArray:
        """Return of some targets the value, the leakage, the guesses and the parameters."""
        own = outside.records.at(targets[some])
        guesses = guesser.probabilities(without_attribute(own.table, index), own.y, targets[some])
        tables = encoder.candidates(own.table, index, values)
        everyone = Persons.single(np.arange(len(guesses)))
        part = partial_state(state, targets[some], encoder.batch(own))
        eta = columns_loss(part, tables, everyone, columns)["unit_eta"]
        encodings = closed_form_encodings(part, everyone, tables).reshape(len(guesses), -1)
        return np.column_stack([codes_of(own.table, index, values), eta, guesses, encodings])

    blocks = row_blocks(len(targets), max(width, outside.n_columns), _ELEMENTS)
    found = stacked("records outside memory", len(targets), blocks, read, threads=False)
    codes, guesses = found[:, 0].astype(np.intp), found[:, 2 : 2 + n_values]
    secret = Secret(index, values[codes], values, codes)
    if isinstance(task.prior, str) and task.prior in ("marginal", "conditional"):
        marginal = marginal_prior(codes, n_values, outside.counts)
        prior = marginal if task.prior == "marginal" else guesses
    else:
        prior = Population(None, None, secret, np.arange(len(targets))).prior(task.prior)
    return {
        **known_values(task, values, codes, prior, guesses.argmax(axis=1)),
        "secret": secret,
        "secrets": secret.column,
        "guesser": ImputationAttack._of_prior(values, guesses),
        "related": related,
        "unit_eta": found[:, 1],
        "encodings": found[:, 2 + n_values :].reshape(len(targets), n_values, -1),
    }


def _some(n: int, most: int, entropy: list[int], stream: int) -> IntArray:
    """Positions of all records, or of a random sample, ascending."""
    if n <= most:
        return np.arange(n)
    seed = np.random.SeedSequence(entropy, spawn_key=(0, SAMPLE, stream))
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
