"""A game of an audit: what is secret, who attacks it, and what comes of it."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from skleak.adversary.hypotheses import (
    Learner,
    adds_noise,
    attack_weights,
    find_learner,
    last_step,
)
from skleak.audit.games._outside import Outside
from skleak.audit.noise._mechanism import is_ours
from skleak.audit.tables._design import Design, Outcome
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._typing import Array, FloatArray

# A function of a module and its arguments: it travels to another process.
Cell = tuple[Callable[..., Outcome], tuple[Any, ...]]

# Keys of cells that are no attacks.
RESERVED = ("bounds", "noiseless", "utility")
# Stream of the seeds of a training that was left to chance, beside those of the games.
_LEARNER = 20
_LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Task:
    """Parameters of an auditor, and the data that it was given. Confidential."""

    estimator: Any  # unfitted, and without a ledger
    table: Any  # raw records, (n, n_columns)
    y: Array  # (n,)
    sample_weight: FloatArray | None = None  # (n,)
    X_test: Any = None
    y_test: Any = None
    attribute: Any = None
    values: Any = None
    attacks: Any = "default"
    noise_scales: Any = None
    n_releases: int = 100
    secrets: str = "actual"
    releases: str = "auto"
    prior: Any = "marginal"
    max_advantage: float = 0.05
    groups: Any = None  # column by which records are grouped
    confidence_level: float = 0.95
    bounds: Any = "all"
    records: Any = None
    refit_preprocessing: bool = False
    n_jobs: int | None = None
    outside: Outside | None = None  # records outside memory; of these `table` then holds some
    learner: Learner | None = None  # what the estimator is without searches and the like

    def settled(self, *, drawn: bool) -> "Task":
        """Return the task with drawn or actual secrets where that was left to the game."""
        if self.secrets != "auto":
            return self
        return replace(self, secrets="drawn" if drawn else "actual")

    @property
    def n_records(self) -> int:
        """Number of training records."""
        return len(self.y) if self.outside is None else len(self.outside)

    @property
    def fitted(self) -> bool:
        """True if releases are those of real fits: by default where their noise is not ours."""
        stated = adds_noise(self.estimator)
        if self.releases == "fitted" and not stated:
            name = type(last_step(self.estimator)).__name__
            raise AttackNotApplicableError(
                f"`releases='fitted'` plays what fits of {name} release, which has no "
                "`noise_scale`: its noise is added by the audit. Pass `releases='auto'`."
            )
        unasked = self.releases == "auto" and not is_ours(self.estimator)
        return stated and (unasked or self.releases == "fitted")

    @property
    def drawn(self) -> bool:
        """True if secrets are drawn anew rather than those of the data."""
        return self.secrets == "drawn"

    def of_learner(self, entropy: list[int]) -> Self:
        """Take the model out of what is around it, and leave nothing of its training to chance."""
        generator = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(0, _LEARNER)))

        def draw(n: int) -> Array:
            return generator.integers(_LARGEST_SEED, size=n)

        data = (self.table, self.y, self.y_test, self.sample_weight)
        learner = find_learner(self.estimator, *data, draw)
        return replace(
            self,
            estimator=learner.seeded(draw),
            y=learner.y,
            y_test=learner.y_test,
            learner=learner,
        )


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Settings of a game as its report states them."""

    n_records: int
    n_columns: int
    n_targets: int
    n_releases: int
    secrets: str
    prior: str
    values: list[Any]
    confidence_level: float
    verdict_level: float
    bounds: tuple[str, ...]
    attacks: tuple[str, ...]
    utility_data: str
    noiseless_utility: float
    noise_covariance: str
    # Success of imputation with the secrets of the data, as they are.
    imputed: float = math.nan
    # Other columns that determine the secret one, and those that it determines, with the share of
    # what a guess gets wrong that they get right.
    determined_by: Mapping[str, float] = field(default_factory=dict)
    determines: Mapping[str, float] = field(default_factory=dict)
    target_counts: bool = False  # whether an attack guesses the target of the model as well
    has_noise: bool = True  # whether the model adds noise of its own
    wrappers: tuple[str, ...] = ()  # searches and target transformers that were taken off
    chosen: Mapping[str, str] = field(default_factory=dict)  # parameters that searches chose
    transformed: bool = False  # whether the model is of a function of the targets
    seeded: tuple[str, ...] = ()  # parameters left to chance that got seeds
    releases: str = "simulated"  # or "fitted", those of real fits
    n_fitted: int = (
        0  # games of each record in which a model was fitted; 0 where secrets are actual
    )
    outputs: Mapping[str, str] = field(default_factory=dict)  # what each attack was shown
    sampled: bool = False  # whether the records under attack are a random sample of all
    scale: str = ""  # what became of a noise scale that follows the records, in a sentence
    uncounted: str = ""  # why no bound counts what such a scale tells
    private_sgd: bool = False  # whether noise scales are noise multipliers of private SGD


class Game(ABC):
    """One game of an audit, which `skleak.audit.run` plays.

    The constructor learns what is under attack, refuses what cannot be audited, and sets `design`.
    Then come `prepare`, the cells, which are played in any order and in any process, and the tables
    of what is finished.
    """

    kind: str  # what is secret, in the words of the report
    design: Design
    attacks: Mapping[str, Any]  # by name, fitted where one fit serves all releases
    unseen: bool = False  # whether the model is the same, bit for bit, whatever the secret is

    def __init__(self, task: Task) -> None:
        self.task = task
        self._checks = pd.DataFrame()

    @abstractmethod
    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, and check the noise; all seeds come from the entropy."""

    @abstractmethod
    def cells(self) -> dict[str, Cell]:
        """Return what is to be played, by keys that stay the same in a checkpoint."""

    @abstractmethod
    def results(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level and attack, of what is finished."""

    @abstractmethod
    def records(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level and record under attack."""

    @abstractmethod
    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        """Return what the report states of the game."""

    def checks(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each comparison of the noise with what is stated of it."""
        return self._checks

    def groups(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level, attack and group of records."""
        return pd.DataFrame()

    def phase(self, key: str) -> tuple[str, int]:
        """Return the name of what a cell is part of, and the records that it is about."""
        name = key.rpartition("|")[2]
        known = {"bounds": "bounds", "utility": "utility", "noiseless": "utility"}
        return known.get(name.partition("/")[0], "attacks"), len(self.design.targets)

    def outlook(self) -> list[str]:
        """Return what is known of the cost before the cells are played."""
        return []

    def shared_facts(self) -> dict[str, Any]:
        """Return the facts that the task and the design tell of any game."""
        task, design = self.task, self.design
        return {
            "n_records": task.n_records,
            "n_columns": task.table.shape[1],
            "n_targets": len(design.targets),
            "n_releases": design.n_releases,
            "secrets": task.secrets,
            "confidence_level": float(design.confidence_level),
            "verdict_level": float(design.verdict_level),
            "attacks": tuple(design.attacks),
            **learner_facts(task.learner),
        }


def learner_facts(learner: Learner | None) -> dict[str, Any]:
    """Return what a report says of how the model was trained."""
    if learner is None:
        return {}
    return {
        "wrappers": learner.wrappers,
        "chosen": {name: repr(value) for name, value in learner.chosen.items()},
        "transformed": learner.transformed,
        "seeded": learner.seeds,
    }


def named_attacks(
    attacks: Any,
    default: Callable[[], Sequence[str]],
    *,
    known: Sequence[str],
    names: Mapping[type, str],
    reserved: Sequence[str] = RESERVED,
    kind: str = "",
    about: str = "",
    arguments: str = "X, y",
) -> dict[str, Any]:
    """Attacks by name, those of ours as strings; `names` are those of our classes."""
    if isinstance(attacks, Mapping):
        chosen = dict(attacks)
    else:
        if isinstance(attacks, str) and attacks == "default":
            attacks = default()
        single = isinstance(attacks, str) or hasattr(attacks, "predict")
        chosen = {}
        for attack in [attacks] if single else list(attacks):
            own = names.get(type(attack), type(attack).__name__)
            chosen[_free_name(attack if isinstance(attack, str) else own, chosen)] = attack
    if not chosen:
        raise ValueError("`attacks` must hold at least one attack; got none. Pass 'default'.")
    for name, attack in chosen.items():
        if isinstance(attack, str) and attack not in known:
            of_kind = f" for a {kind} secret" if attack in names.values() else ""
            raise ValueError(
                f"`attacks`{about} must be 'default' or name some of {list(known)}, or hold "
                f"attacks; got {attack!r}{of_kind}."
            )
        plays = hasattr(attack, "fit") and hasattr(attack, "predict")
        if isinstance(attack, type) or not (isinstance(attack, str) or plays):
            got = attack.__name__ if isinstance(attack, type) else type(attack).__name__
            raise TypeError(
                f"`attacks`{about} must hold names or attacks with `fit({arguments})` and "
                f"`predict(released)`; got {got}."
            )
        if not isinstance(name, str) or name in reserved:
            raise ValueError(
                f"Attacks must be named by strings other than {', '.join(reserved)}; got {name!r}."
            )
    return chosen


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    free, k = name, 2
    while free in taken:
        free, k = f"{name}-{k}", k + 1
    return free


def own_copy(attack: Any) -> Any:
    """Unfitted copy of an attack that was passed."""
    return clone(attack) if hasattr(attack, "get_params") else copy.deepcopy(attack)


def fit_copy(attack: Any, *known: Any, sample_weight: FloatArray | None) -> Any:
    """Fitted copy of an attack that was passed; `fit` may return nothing."""
    own = own_copy(attack)
    return own.fit(*known, **attack_weights(own, sample_weight=sample_weight)) or own
