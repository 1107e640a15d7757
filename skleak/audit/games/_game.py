"""What a game of an audit needs."""

import copy
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy.special import erfinv
from sklearn.base import clone
from sklearn.metrics import d2_tweedie_score, r2_score

from skleak.adversary.hypotheses import adds_noise, attack_weights, last_step
from skleak.adversary.knowledge import MAX_VALUES, column_names, raw_column, resolve_records
from skleak.adversary.models import Learner, find_learner
from skleak.audit.noise._mechanism import is_ours
from skleak.audit.tables._rates import Design, Outcome, over_noise
from skleak.exceptions import AttackNotApplicableError
from skleak.report.unknowns import ColumnFacts
from skleak.utils._arguments import dask_module
from skleak.utils._blocks import aligned_chunks, computed, is_large
from skleak.utils._geometry import gained, true_positives
from skleak.utils._predictions import classifies
from skleak.utils._records import Persons, is_single_feature, is_target, resolve_features
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.sources import Table, check_columns, check_known, settled

COLUMNS = ("distance", "advantage_any_prior", "found_at_1pct", "exposure")
FALSE_ALARMS = 0.01  # at which ``found_at_1pct`` is the power
ABOVE = 1.0 + 1e-9  # a limit is met up to round-off
# Noise scales beyond which none is looked for, relative to the first, and how well it is found.
_FARTHEST, _STEP, _PRECISION = 1e9, 2.0, 1e-3


def columns_of(distances: FloatArray) -> dict[str, FloatArray]:
    """Return columns of `records_` from largest distances in noise units, (n,)."""
    power = true_positives(distances, FALSE_ALARMS)
    return unequal_columns(gained(distances), power) | {"distance": distances}


def unequal_columns(gain: FloatArray, power: FloatArray) -> dict[str, FloatArray]:
    """Return columns of a channel that is not Gaussian of one covariance: it has no distance."""
    unknown = np.full(len(gain), np.nan)
    return dict(zip(COLUMNS, (unknown, gain, power, gain), strict=True))


def least_noise(unit_distance: float, limit: float) -> float:
    """Return the smallest noise scale at which a distance at unit noise keeps a limit."""
    if unit_distance == 0.0:
        return 0.0
    allowed = np.sqrt(8.0) * float(erfinv(limit))
    return float(unit_distance / allowed) if allowed > 0.0 else np.inf


def search_noise(largest: Callable[[float], float], limit: float, start: float) -> float:
    """Find the smallest noise scale at which the largest exposure keeps a limit, rounded up.

    Infinite where none does, NaN where it is not known.
    """

    def kept(noise: float) -> bool:
        return largest(noise) <= limit * ABOVE

    if np.isnan(largest(start)):
        return np.nan
    low = high = start
    if kept(start):
        while kept(low):
            low, high = low / _STEP, low
            if low < start / _FARTHEST:
                return high
    while not kept(high):
        low, high = high, high * _STEP
        if high > start * _FARTHEST:
            return np.inf
    while high / low > 1.0 + _PRECISION:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high


_SAMPLE = "Draw a random sample of some thousands of records, and audit it as a DataFrame."


class RawRows(NamedTuple):
    """Raw records in memory, with their targets and weights."""

    table: Any  # DataFrame, or array where the columns have no names, (n, n_columns)
    y: Array  # (n,)
    sample_weight: FloatArray | None  # (n,)


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Raw records outside memory, of which one column is secret. Confidential."""

    given: tuple[Any, Any, Any]  # table, targets and weights, as `fit` takes them
    blocks: tuple[Any, ...]  # delayed frames of records, see `_block`, which hold none
    starts: IntArray  # position of the first record of each, and the number of all
    columns: Array | None  # names of the raw columns
    n_columns: int
    index: int  # of the secret column
    values: Array  # its candidate values, ascending, (M,)
    counts: FloatArray  # records that have each, (M,)
    digest: str  # of all records

    def __len__(self) -> int:
        return int(self.starts[-1])

    @classmethod
    def open(
        cls, X: Any, y: Any, sample_weight: Any, attribute: Any, values: Any = None
    ) -> "Outside":
        """Look at all records once: at the values of the secret column, and at what tells them."""
        given, delayed = (X, y, sample_weight), dask_module("dask").delayed
        for name, value in zip(("X", "y", "sample_weight"), given, strict=True):
            if is_large(value):
                check_known(value, name)
        if is_large(X):
            (chunked,) = aligned_chunks(X, [])
            held, sizes = chunked.to_delayed().ravel().tolist(), chunked.chunks[0]
        else:
            table = Table.of(X)
            named = [value for value in (y, sample_weight) if isinstance(value, str)]
            check_columns(table.frame, named, table.name, "`y` or the weights name")
            held, sizes = table.frame.to_delayed(), table.lengths
        aligned = [_parts_of(value, sizes) for value in (y, sample_weight)]
        blocks = tuple(map(delayed(_block), held, *aligned))
        if (n := sum(sizes)) < 2:
            raise ValueError(f"`X` must hold at least 2 records; got {n}.")
        n_more = 2 - (sample_weight is None)
        head = blocks[int(np.flatnonzero(sizes)[0])].compute().iloc[:, :-n_more]
        names = None if is_large(X) else column_names(head)
        if is_target(attribute, names):
            raise AttackNotApplicableError(
                f"The target of the model is audited in memory only; got {attribute!r} for records "
                f"outside of it. {_SAMPLE}"
            )
        if not is_single_feature(attribute):
            raise TypeError(
                "`attribute` must be the name or the position of one column of the raw data; got "
                f"{attribute!r}."
            )
        index = int(resolve_features(attribute, names, head.shape[1], "attribute")[0])
        looks = computed(delayed(_look)(index, block) for block in blocks)
        total = hashlib.sha256(repr([names, n]).encode())
        for _, own in looks:
            total.update(own)
        facts: list[Any] = [found for found, _ in looks if found is not None]
        secret = _candidates(reduce(ColumnFacts.merged, facts), attribute, values)
        return cls(
            given=given,
            blocks=blocks,
            starts=np.cumsum([0, *sizes]),
            columns=names,
            n_columns=head.shape[1],
            index=index,
            values=secret[0],
            counts=secret[1],
            digest=total.hexdigest(),
        )

    def at(self, positions: IntArray) -> RawRows:
        """Read the records at some positions, in that order, (m,); only these rows come here."""
        order = np.argsort(positions, kind="stable")
        edges, take = np.searchsorted(positions[order], self.starts), pd.DataFrame.take
        some = [
            dask_module("dask").delayed(take)(block, positions[order[low:high]] - start)
            for block, start, low, high in zip(
                self.blocks, self.starts[:-1], edges[:-1], edges[1:], strict=True
            )
            if high > low
        ]
        rows = pd.concat(computed(some)).iloc[np.argsort(order)]
        table, (y, *weight) = rows.iloc[:, : self.n_columns], rows.iloc[:, self.n_columns :].items()
        own = table.to_numpy() if self.columns is None else table
        return RawRows(own, y[1].to_numpy(), weight[0][1].to_numpy() if weight else None)


def _block(X: Any, y: Any, sample_weight: Any) -> pd.DataFrame:
    """Put behind the records of a block their targets and weights, which may be columns of it."""
    held = [name for name in (y, sample_weight) if isinstance(name, str)]
    y, weight = (X[v] if isinstance(v, str) else v for v in (y, sample_weight))
    frame = pd.DataFrame(X.drop(columns=held) if held else X)
    more = [np.asarray(y).ravel()]
    more += [] if weight is None else [np.asarray(weight, dtype=np.float64).ravel()]
    return pd.concat([frame, *(pd.Series(each, frame.index) for each in more)], axis=1)


def _parts_of(values: Any, sizes: Sequence[int]) -> list[Any]:
    """Targets or weights of each block; a name and None are those of all."""
    if values is None or isinstance(values, str):
        return [values] * len(sizes)
    if hasattr(values, "to_delayed"):
        values = values.rechunk((tuple(sizes),)) if is_large(values) else settled(values)
        parts: list[Any] = np.ravel(values.to_delayed()).tolist()
        if len(parts) != len(sizes):
            raise ValueError(
                f"Targets or weights have {len(parts)} partitions, and the table {len(sizes)}. "
                "Take them from one frame, or pass the names of its columns."
            )
        return parts
    return np.split(np.asarray(values), np.cumsum(sizes)[:-1])


def codes_of(table: Any, index: int, values: Array) -> IntArray:
    """Position of the value of each record (n,) among the candidates."""
    found = pd.Index(values).get_indexer(pd.Index(raw_column(table, index)))
    return np.asarray(found, dtype=np.intp)


def _look(index: int, block: pd.DataFrame) -> tuple[ColumnFacts | None, bytes]:
    """Facts of the secret column of a block, and a hash of all of it."""
    facts = ColumnFacts.of_series(block.iloc[:, index], 0) if len(block) else None
    return facts, hash_of(block).digest()


def hash_of(frame: pd.DataFrame, *columns: Array, start: bytes = b"") -> Any:
    """Hash records, (n, n_columns), and further columns of them, (n,) each."""
    total = hashlib.sha256(start)
    for column in (*(frame.iloc[:, j] for j in range(frame.shape[1])), *map(pd.Series, columns)):
        total.update(pd.util.hash_pandas_object(column, index=False).to_numpy().tobytes())
    return total


def _candidates(facts: ColumnFacts, attribute: Any, values: Any) -> tuple[Array, FloatArray]:
    """Candidate values of a column, ascending, and how many records have each, (M,)."""
    if facts.values is None and facts.moments is None:
        raise ValueError(
            f"The attribute {attribute!r} has too many values: expected at most {MAX_VALUES} "
            "categories. Group rare ones, or convert numbers stored as text to a numeric column."
        )
    if facts.values is None or (values is None and facts.is_quantity):
        raise AttackNotApplicableError(
            f"The attribute {attribute!r} is a quantity, which is audited in memory only. Pass the "
            f"`values` to choose from, if they are few (at most {MAX_VALUES}). {_SAMPLE}"
        )
    missing = np.asarray(pd.isna(facts.values))
    if missing.any():
        raise ValueError(
            f"The attribute {attribute!r} has {int(facts.counts[missing].sum())} missing values of "
            f"{facts.n}. Drop those records, or give missing text a name of its own, such as "
            "'unknown'."
        )
    known = np.array(facts.values.tolist())
    known = known.astype(object) if known.dtype.kind == "U" else known
    candidates = np.unique(known if values is None else np.asarray(values).ravel())
    if len(candidates) < 2:
        raise ValueError(
            f"The attribute {attribute!r} must have at least 2 values; got {candidates.tolist()}. "
            "Pass the values it may take in `values`."
        )
    places = pd.Index(candidates).get_indexer(pd.Index(known))
    if np.any(places < 0):
        raise ValueError(
            f"`values` does not contain {int(facts.counts[places < 0].sum())} records' values of "
            f"{attribute!r}. Add them, or drop those records."
        )
    counts = np.zeros(len(candidates))
    np.add.at(counts, places, facts.counts)
    return candidates, counts


# A function of a module and its arguments: it travels to another process.
Cell = tuple[Callable[..., Outcome], tuple[Any, ...]]
# Keys of cells that are no attacks.
RESERVED = ("bounds", "noiseless", "utility")
# Stream of the seeds of a training that was left to chance, beside those of the games.
_LEARNER = 20
_LARGEST_SEED = 2**31 - 1
_MOST_TRAININGS = 20


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
    # What models are trained with at each level, where their noise is set by goals alone.
    goals: Mapping[float, Any] = field(default_factory=dict)
    n_releases: int = 100
    secrets: str = "actual"
    releases: str = "auto"
    prior: Any = "marginal"
    max_advantage: float = 0.05
    rare_value: Any = None
    groups: Any = None  # column by which records are grouped
    confidence_level: float = 0.95
    bounds: Any = "all"
    records: Any = None
    refit_preprocessing: bool = False
    n_jobs: int | None = None
    outside: Outside | None = None  # records outside memory; of these `table` then holds some
    learner: Learner | None = None  # what the estimator is without searches and the like
    persons: Persons | None = None  # whose rows are whose; each row is a person's by default

    def settled(self, *, drawn: bool, prior: str = "marginal") -> "Task":
        """Return the task with secrets drawn or not, and a prior, where that was left to a game."""
        secrets = self.secrets
        if secrets == "auto":
            secrets = "drawn" if drawn else "actual"
        if not (isinstance(self.prior, str) and self.prior == "auto"):
            prior = self.prior
        return replace(self, secrets=secrets, prior=prior)

    @property
    def n_records(self) -> int:
        """Number of training records, or of the persons that these are of."""
        if self.persons is not None:
            return len(self.persons)
        return len(self.y) if self.outside is None else len(self.outside)

    @property
    def rows(self) -> IntArray:
        """Positions of the records under attack, (n_targets,), of persons of some of their rows."""
        return resolve_records(self.records, len(self.y))

    @property
    def attacked(self) -> Persons:
        """Who is under attack: persons with all of their rows, or else records."""
        return Persons.attacked(self.persons, self.rows)

    @property
    def about_target(self) -> bool:
        """True if the target of the model is the secret."""
        return is_target(self.attribute, column_names(self.table))

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


# Settings of a game as its report states them, and those of a game that knows no better.
Facts = dict[str, Any]
DEFAULTS: Facts = {
    "values": [],
    "noise_covariance": "isotropic",
    # Success of imputation with the secrets of the data, as they are.
    "imputed": math.nan,
    # Other columns that determine the secret one, and those that it determines, with the share of
    # what a guess gets wrong that they get right.
    "determined_by": {},
    "determines": {},
    "target_counts": False,  # whether an attack guesses the target of the model as well
    "has_noise": True,  # whether the model adds noise of its own
    # Searches and target transformers that were taken off, parameters that searches chose, whether
    # the model is of a function of the targets, and parameters left to chance that got seeds.
    "wrappers": (),
    "chosen": {},
    "transformed": False,
    "seeded": (),
    # Releases may be "fitted", in so many games of each record with drawn secrets.
    "releases": "simulated",
    "n_fitted": 0,
    "outputs": {},  # what each attack was shown
    "sampled": False,  # whether the records under attack are a random sample of all
    # What became of a noise scale that follows the records, in a sentence, and why no bound counts
    # what such a scale tells.
    "scale": "",
    "uncounted": "",
    "private_sgd": False,  # whether noise scales are noise multipliers of private SGD
    # Smallest noise scale at which all attacked keep the limit, and the score there; that of the
    # best constant on the same data; and by `noise` the share of people `above` the limit and the
    # `largest` exposure.
    **dict.fromkeys(("smallest_noise", "smallest_noise_utility", "constant_utility"), math.nan),
    "curve": {},
}


def constant_score(model: Any, y: Array, where: Array) -> float:
    """Score on some targets of the constant that fits others best, by the measure of a model.

    Shapes: ``y`` (n,), learned from; ``where`` (m,).
    """
    if classifies(model, y):
        labels, counts = np.unique(y, return_counts=True)
        return float(np.mean(where == labels[counts.argmax()]))
    constant = np.full(len(where), np.mean(y, dtype=float))
    if "Poisson" in type(last_step(model)).__name__:
        if np.ptp(where) == 0 or not constant[0] > 0.0:
            return np.nan  # no deviance to explain, or no positive rate to explain it by
        return float(d2_tweedie_score(where, constant, power=1))
    return float(r2_score(where, constant))


class Game(Design, ABC):
    """One game of an audit, which `skleak.audit._run` plays.

    The constructor learns what is under attack, refuses what cannot be audited, and sets the fields
    of the self. Then come `prepare`, which sets the attacks, the cells, which are played in any
    order and in any process, and the tables of what is finished.
    """

    kind: str  # what is secret, in the words of the report
    attacks: Mapping[str, Any]  # by name, fitted where one fit serves all releases
    # Noise scales of a curve, and how far beyond those of the audit and the smallest they reach.
    n_curve, beyond = 60, 4.0
    # Largest distance between releases under two values of each secret, at unit noise,
    # (n_targets,): None where the noise has no fixed shape, and where it is not known (yet).
    unit_distances: FloatArray | None = None
    # A model, the targets that it is trained on, and those that its utility is measured by.
    scored: tuple[Any, Array, Array] | None = None
    unseen: bool = False  # whether the model is the same, bit for bit, whatever the secret is

    # Names of attacks that are passed, by their class, what messages about them begin with and say
    # of `fit`, and names of cells that are no attacks.
    _named: Mapping[type, str] = {}
    _about, _arguments = "", "X, y"
    _reserved: tuple[str, ...] = RESERVED

    _entropy: list[int]  # of all seeds

    def __init__(self, task: Task) -> None:
        self.task, self._checks = task, pd.DataFrame()
        self.n_releases, self.drawn = int(task.n_releases), task.drawn
        self.confidence_level = task.confidence_level

    def _choose(
        self, task: Task, known: Sequence[str], default: Sequence[str]
    ) -> Mapping[str, Any]:
        """Return the attacks of a task by name, those of ours as strings."""
        attacks = task.attacks
        if isinstance(attacks, Mapping):
            chosen = dict(attacks)
        else:
            if isinstance(attacks, str) and attacks == "default":
                attacks = default
            single = isinstance(attacks, str) or hasattr(attacks, "predict")
            chosen = {}
            for attack in [attacks] if single else list(attacks):
                own = self._named.get(type(attack), type(attack).__name__)
                name = free = attack if isinstance(attack, str) else own
                k = 2
                while free in chosen:
                    free, k = f"{name}-{k}", k + 1
                chosen[free] = attack
        if not chosen:
            raise ValueError("`attacks` must hold at least one attack; got none. Pass 'default'.")
        for name, attack in chosen.items():
            if isinstance(attack, str) and attack not in known:
                of_kind = f" for a {self.kind} secret" if attack in self._named.values() else ""
                raise ValueError(
                    f"`attacks`{self._about} must be 'default' or name some of {list(known)}, or "
                    f"hold attacks; got {attack!r}{of_kind}."
                )
            plays = hasattr(attack, "fit") and hasattr(attack, "predict")
            if isinstance(attack, type) or not (isinstance(attack, str) or plays):
                got = attack.__name__ if isinstance(attack, type) else type(attack).__name__
                raise TypeError(
                    f"`attacks`{self._about} must hold names or attacks with "
                    f"`fit({self._arguments})` and `predict(released)`; got {got}."
                )
            if not isinstance(name, str) or name in self._reserved:
                raise ValueError(
                    f"Attacks must be named by strings other than {', '.join(self._reserved)}; got "
                    f"{name!r}."
                )
        passed = [name for name, attack in chosen.items() if not isinstance(attack, str)]
        if passed and task.persons is not None:
            raise AttackNotApplicableError(
                f"With `persons` attacks guess once for each person; the attack {passed[0]!r} that "
                "was passed guesses rows. Name attacks of the library, or leave `persons` out."
            )
        return chosen

    @abstractmethod
    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, and check the noise; all seeds come from the entropy."""

    @abstractmethod
    def cells(self) -> dict[str, Cell]:
        """Return what is to be played, by keys that stay the same in a checkpoint."""

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Return the outcomes by noise level and attack, where they were played otherwise."""
        return outcomes

    def any_prior(self, noise: float) -> dict[str, Any] | None:
        """Columns of `records_` that hold for every attacker, at any noise scale.

        None where the channel is not known; at least those of `COLUMNS`, (n_targets,) each.
        """
        distances = self.unit_distances
        return None if distances is None else columns_of(over_noise(distances, noise))

    def exposures(self, noise: float) -> FloatArray | None:
        """Return the exposure of every target at any noise scale, (n_targets,); None if unknown."""
        columns = self.any_prior(noise)
        return None if columns is None else np.asarray(columns["exposure"])

    def smallest_noise(self) -> float:
        """Smallest noise scale at which all targets keep the limit; infinite if none, NaN unknown.

        In closed form where the noise has a fixed shape, else searched for and rounded up.
        """
        limit, distances = float(self.task.max_advantage), self.unit_distances
        if distances is not None:
            return least_noise(float(distances.max()), limit)
        start = max(self.noise_scales) or 1.0

        def largest(noise: float) -> float:
            found = self.exposures(noise)
            return math.nan if found is None else float(found.max())

        return search_noise(largest, limit, start)

    @property
    def few_releases(self) -> range:
        """Trainings in which the utility at a noise scale is measured that is no level."""
        return range(min(self.n_releases, _MOST_TRAININGS))

    def utility_at(self, noise: float) -> float:
        """Score of released models at any noise scale; NaN where it is not known."""
        return math.nan

    def noiseless_utility(self, outcomes: Mapping[str, Outcome]) -> float:
        """Mean score of models without noise; NaN where it is not known."""
        return math.nan

    def results(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level and attack, of what is finished."""
        table = self.attack_rows(self.joined(outcomes))
        if table.empty:
            return table
        largest = {}
        for noise in self.noise_scales:
            columns = self._judged(noise, outcomes)
            exposure, limit = columns["exposure"], float(self.task.max_advantage)
            n_above = float((exposure > limit * ABOVE).sum())
            largest[noise] = {name: float(np.max(columns[name])) for name in COLUMNS}
            largest[noise]["n_above"] = math.nan if np.isnan(exposure).any() else n_above
        return table.join(pd.DataFrame(largest).T, on="noise_scale")

    def records(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level and record under attack."""
        table = self.record_rows(self.joined(outcomes))
        parts = [self._judged(noise, outcomes) for noise in self.noise_scales]
        return table.assign(
            **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        )

    def _judged(self, noise: float, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
        """Columns that hold for every attacker; NaN where the noise is not as stated."""
        columns = self.any_prior(noise)
        if columns is None or not self._as_stated(outcomes):
            return dict.fromkeys(COLUMNS, np.full(len(self.targets), math.nan))
        return columns

    def _as_stated(self, outcomes: Mapping[str, Outcome]) -> bool:
        checks = self.checks(outcomes)
        return checks.empty or bool(checks["passed"].astype(bool).all())

    def checks(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each comparison of the noise with what is stated of it."""
        return self._checks

    def phase(self, key: str) -> tuple[str, int]:
        """Return the name of what a cell is part of, and the records that it is about."""
        name = key.rpartition("|")[2]
        known = {"bounds": "bounds", "utility": "utility", "noiseless": "utility"}
        return known.get(name.partition("/")[0], "attacks"), len(self.targets)

    def noise_facts(self, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
        """Return the smallest noise that keeps the limit, what it costs, and a curve over noise."""
        constant: Facts = {}
        if self.scored is not None:
            constant = {"constant_utility": constant_score(*self.scored)}
        if not self._as_stated(outcomes) or math.isnan(smallest := self.smallest_noise()):
            return constant
        limit, utility = float(self.task.max_advantage) * ABOVE, math.nan
        if math.isfinite(smallest):
            utility = self.utility_at(smallest)
        around = [s for s in (*self.noise_scales, smallest) if 0.0 < s < math.inf]
        curve: dict[str, list[float]] = {}
        if around:
            grid = np.geomspace(min(around) / self.beyond, max(around) * self.beyond, self.n_curve)
            found = [np.asarray(self.exposures(noise)) for noise in grid.tolist()]
            above = [float((each > limit).mean()) for each in found]
            largest = [float(each.max()) for each in found]
            curve = {"noise": grid.tolist(), "above": above, "largest": largest}
        known = {"smallest_noise": smallest, "smallest_noise_utility": utility}
        return constant | known | {"curve": curve}

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        """Return what the report states of the game."""
        task, learner = self.task, self.task.learner
        trained: Facts = {}
        if learner is not None:
            chosen = {name: repr(value) for name, value in learner.chosen.items()}
            trained = {"wrappers": learner.wrappers, "chosen": chosen, "seeded": learner.seeds}
            trained["transformed"] = learner.transformed
        return {
            **DEFAULTS,
            **self.noise_facts(outcomes),
            "noiseless_utility": self.noiseless_utility(outcomes),
            "bounds": self.bounds,
            "goals": {level: repr(goal) for level, goal in task.goals.items()},
            "n_records": task.n_records,
            "n_columns": task.table.shape[1],
            "n_targets": len(self.targets),
            "n_releases": self.n_releases,
            "secrets": task.secrets,
            "confidence_level": float(self.confidence_level),
            "verdict_level": float(self.verdict_level),
            "attacks": tuple(self.attacks),
            "n_rows": 0 if task.persons is None else len(task.y),
            **trained,
        }


def own_copy(attack: Any) -> Any:
    """Unfitted copy of an attack that was passed."""
    return clone(attack) if hasattr(attack, "get_params") else copy.deepcopy(attack)


def fit_copy(attack: Any, *known: Any, sample_weight: FloatArray | None) -> Any:
    """Fitted copy of an attack that was passed; `fit` may return nothing."""
    own = own_copy(attack)
    return own.fit(*known, **attack_weights(own, sample_weight=sample_weight)) or own
