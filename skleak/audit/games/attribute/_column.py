"""A column that is secret: what is known of it, and its game where models are asked.

No parameter is read then, and nothing is bounded. A release is a trained model: where its training
is left to chance, each release is one more training; else there is a single one, and what attacks
get right of it is a fact.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    adds_noise,
    ignoring_mismatches,
    last_step,
    needs_goal,
    plain_table,
    weight_argument,
)
from skleak.adversary.knowledge import (
    MAX_VALUES,
    Population,
    Secret,
    column_names,
    of_first_rows,
    range_of_others,
    raw_column,
    read_secret,
    take_rows,
    with_attribute,
)
from skleak.adversary.models import Learner
from skleak.adversary.numbers import N_NODES
from skleak.attacks import (
    BlackBoxAttributeInference,
    CombinedAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    PriorAttack,
)
from skleak.audit.games._game import Cell, Facts, Task, columns_of
from skleak.audit.games._levels import (
    SGDBounds,
    check_one_row_each,
    is_private_sgd,
    noise_multiplier,
    quick,
    reference_records,
    refuse_noise,
    set_goal,
)
from skleak.audit.games._secret import ATTACKS, TabledGame, check_bounds, determination
from skleak.audit.games._trials import alone, errors_outcome, ranks_value, tally
from skleak.audit.tables._rates import Outcome, cell_key, release_key
from skleak.bounds import gdp_advantage
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._predictions import classifies, utility_of
from skleak.utils._typing import Array, FloatArray, IntArray

# Share of what a guess gets wrong that a column must get right to (nearly) determine another.
_NEARLY = 0.95
_TARGET = "(target)"


def related_columns(table: Any, y: Array, secret: Secret) -> dict[str, dict[str, float]]:
    """Find the columns that determine a secret by themselves, and those that it determines.

    Every record is predicted from the others, by one column at a time: by those of the same value
    where there are any, else by its neighbors along a column of numbers.

    Shapes: ``table`` (n, n_columns); ``y`` (n,), the target, counts as a column; returns by
    "determined_by" and "determines" the share of what a guess gets wrong that is got right.
    """
    names = column_names(table)
    others = {
        str(j if names is None else names[j]): raw_column(table, j)
        for j in range(table.shape[1])
        if j != secret.index
    }
    if not secret.is_target:
        others[_TARGET] = np.asarray(y)
    found: dict[str, dict[str, float]] = {"determined_by": {}, "determines": {}}
    for name, column in others.items():
        for key, (known, wanted) in {
            "determined_by": (column, secret.column),
            "determines": (secret.column, column),
        }.items():
            score = predicted_share(
                known, wanted, labels=key == "determined_by" and not secret.numeric
            )
            if score >= _NEARLY:
                found[key][name] = score
    return found


def predicted_share(known: Array, wanted: Array, *, labels: bool = False) -> float:
    """Share of what a guess gets wrong of a column that another gets right, each record left out.

    Shapes: ``known``, ``wanted`` (n,); ``labels`` takes numbers for names; returns: a gain over the
    commonest value, or a coefficient of determination; NaN for a column of one value, and for more
    names than a secret may have.
    """
    codes, numbers, classes = _codes(known), _numbers(known), _codes(wanted)
    values = None if labels else _numbers(wanted)
    few = 0 < 2 * codes.max() < len(codes)
    if np.array_equal(codes, classes) and (few or np.array_equal(known, wanted)):
        return 1.0  # a copy, or few values by other names: of a single carrier nobody else tells
    if values is None or len(np.unique(values[~np.isnan(values)])) <= 2:
        shares = np.bincount(classes) / len(classes)
        if not 2 <= len(shares) <= MAX_VALUES:
            return float("nan")
        guesses = _mean_of_others(codes, numbers, np.eye(len(shares))[classes]).argmax(axis=1)
        return float(1.0 - np.mean(guesses != classes) / (1.0 - shares.max()))
    some = ~np.isnan(values)
    codes, values, numbers = codes[some], values[some], None if numbers is None else numbers[some]
    if not np.ptp(values) > 0.0:
        return float("nan")
    errors = (_mean_of_others(codes, numbers, values[:, None])[:, 0] - values) ** 2
    return float(1.0 - errors.sum() / np.sum((values - values.mean()) ** 2))


def _codes(column: Array) -> IntArray:
    codes, _ = pd.factorize(pd.Series(column), use_na_sentinel=False)
    return np.asarray(codes, dtype=np.intp)


def _numbers(column: Array) -> FloatArray | None:
    """Return the column as numbers, NaN where they are missing; None where it has names."""
    series = pd.Series(column).infer_objects()
    if series.dtype.kind == "M":
        series = (series - series.min()) / pd.Timedelta(1, "D")
    if not pd.api.types.is_numeric_dtype(series) or pd.api.types.is_bool_dtype(series):
        return None
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _mean_of_others(codes: IntArray, numbers: FloatArray | None, values: FloatArray) -> FloatArray:
    """Mean of the others with the same value; alone, on the line between its two neighbors.

    Shapes: ``codes``, ``numbers`` (n,); ``values`` (n, k); returns (n, k). Without a number whoever
    is alone gets the mean of all others.
    """
    n, sizes = len(codes), np.bincount(codes)[codes][:, None]
    groups = sparse.csr_array((np.ones(n), (codes, np.arange(n))))
    mean = ((groups @ values)[codes] - values) / np.maximum(sizes - 1, 1)
    between = (values.sum(axis=0) - values) / (n - 1)
    if numbers is not None and np.sum(~np.isnan(numbers)) > 2:
        order = np.argsort(numbers, kind="stable")[: np.sum(~np.isnan(numbers))]
        # At an end both neighbors are the same record.
        low, high = np.r_[order[1], order[:-1]], np.r_[order[1:], order[-2]]
        width, beyond = numbers[high] - numbers[low], numbers[order] - numbers[low]
        share = np.divide(beyond, width, np.full(len(order), 0.5), where=width > 0.0)[:, None]
        between[order] = (1.0 - share) * values[low] + share * values[high]
    return np.where(sizes > 1, mean, between)


# Carriers of a value that is named in results, at least.
_CARRIERS = 3


def rare_value(named: Any, candidates: Array, counts: Array) -> Any:
    """Return the value that is named, or else that of fewest targets, three at least, if any.

    Shapes: ``candidates``, ``counts`` of the targets (n_values,).
    """
    values = candidates.tolist()
    if named is not None:
        if named not in values:
            raise ValueError(
                f"`rare_value` must be one of the values of the attribute, {values[:10]}; got "
                f"{named!r}."
            )
        return named
    enough = np.flatnonzero(counts >= _CARRIERS)
    return values[enough[counts[enough].argmin()]] if len(enough) else None


# Stream of the seeds of the trainings, beside those of other games.
_TRAINING = 21
_BASELINES = ("prior", "imputation")
# Attacks on answers, and the criterion by which each compares them.
BLACK_BOXES: dict[str, Any] = {
    "black_box": "performance",
    "black_box_proba": "proba",
    "black_box_margin": "margin",
}
# Attacks that read no parameter.
ASKING = (*_BASELINES, *BLACK_BOXES, "combined")
_FAR_OFF = 1e50
NO_BOUND = "no bound: the release is not a noisy channel that skleak knows"


class ColumnGame(TabledGame):
    """A game of one column, which its attacks are about. Confidential."""

    asked = False  # whether models are asked, and no parameter is read
    secret: Secret
    values: Array  # candidate values, (n_values,); empty for a quantity
    prior: FloatArray  # of every target, (n_targets, n_values)
    guesser: ImputationAttack  # fitted

    def _know_column(self) -> None:
        """Read the column, and measure what guessing without the model gets right."""
        task = self.task
        attribute, table, y, values, records = (
            task.attribute,
            task.table,
            task.y,
            task.values,
            task.records,
        )
        self.secret = secret = read_secret(table, y, attribute, values)
        self.targets = rows = task.rows
        known_y = None if secret.is_target else y
        if (persons := task.persons) is not None:
            # All is known from first rows: what is known of one row would tell the value of
            # another.
            table, known_y, secret = of_first_rows(table, known_y, secret, persons)
            y, values, records = y[persons.first], secret.values, persons.having(rows)
            rows = records
            self.targets = persons.first[rows]
        self.secrets = truth = secret.column[rows]
        self.guesser = ImputationAttack(attribute, values=values, records=records).fit(table, y)
        if secret.values is None:
            self.kind, self.estimates = "numeric", True
            self.values, self.prior = secret.column[:0], np.empty((len(rows), 0))
            mean = PriorAttack(attribute, prior=task.prior, records=records).fit(table, y).predict()
            self.spread, self.prior_score = float(secret.column.var()), (mean - truth) ** 2
            self.baseline = determination(self.prior_score, self.spread)
            errors = (self.guesser.predict() - truth) ** 2
            self.imputed = self.imputation = determination(errors, self.spread)
        else:
            prior = Population(table, known_y, secret, rows).prior(task.prior)
            guess = self.guesser.prior_.argmax(axis=1)
            self._know_values(secret.values, secret.codes[rows], prior, guess)
        self.related = related_columns(table, y, secret)

    def _know_values(
        self, values: Array, codes: IntArray, prior: FloatArray, guess: IntArray
    ) -> None:
        """Set what is known of guesses of a few values.

        Shapes: ``values`` (n_values,); ``codes``, ``guess`` of imputation (n_targets,); ``prior``
        (n_targets, n_values).
        """
        self.kind, self.values, self.prior = "categorical", values, prior
        self.prior_score = prior.max(axis=1)
        self.baseline = float(self.prior_score.mean())
        self.imputed = self.imputation = float(np.mean(guess == codes))
        if self.drawn:  # such a secret is guessed as often as its prior says
            self.imputation = float(prior[np.arange(len(codes)), guess].mean())
        counts = np.bincount(codes, minlength=len(values))
        self.rare = rare_value(self.task.rare_value, values, counts)

    def _offered(self, task: Task, model: Any) -> tuple[list[str], list[str]]:
        """Names of the attacks that can be played, and of those that are played by default."""
        self._classifies = classifies(model, task.y)
        left, unasked = set(), {"informed", "black_box_proba", "black_box_margin"}
        if task.about_target:
            left |= {*BLACK_BOXES, "combined", "informed"}
        if task.persons is not None:
            left |= {"combined", "informed"}
        left.add("informed" if self.estimates else "posterior_mean")
        if self.asked:
            left |= {*ATTACKS} - {*ASKING}
        elif self.estimates and self._classifies:
            # Labels tell a number by steps, on a grid that takes long at thousands of releases.
            unasked |= {"black_box", "combined"}
        if self.asked or not (self.estimates or task.noise_scales is not None or adds_noise(model)):
            unasked -= {*beyond_labels(model, task.y)}
        known = [name for name in ATTACKS if name not in left]
        return sorted(known), [name for name in known if name not in unasked]

    def made(self, name: str) -> Any:
        """Return an attack of ours; the white box is fitted already."""
        task = self.task
        given = (task.estimator, task.attribute)
        own = {"values": task.values, "records": self.targets}
        # The prior of every target, computed once for all attacks.
        prior: Any = task.prior if self.estimates else self.prior
        if name == "prior":
            return PriorAttack(task.attribute, prior=prior, **own)
        if name == "imputation":
            return self.guesser
        if name == "informed":
            return InformedAttributeInference(*given, **own)
        if name == "combined":
            return CombinedAttributeInference(*given, **own)
        asking = partial(BlackBoxAttributeInference, *given, criterion=BLACK_BOXES[name])
        if task.persons is not None and not self.estimates:
            whole = {"sample_weight": task.sample_weight, "persons": task.persons}
            return asking(prior=prior, **own).fit(task.table, task.y, **whole)
        return asking(prior=prior, **own)

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        """Say what of a release each attack is shown, too."""
        shown = {name: what for name, (_, what) in ATTACKS.items()}
        shown["black_box"] = "labels" if self._classifies else "predictions"
        most = [*beyond_labels(self.task.estimator, np.empty(0)), "black_box"][0]
        shown["combined"] = shown[most]
        outputs = {
            name: shown[attack] if isinstance(attack, str) else "the model"
            for name, attack in self._chosen.items()
        }
        return super().facts(outcomes) | {"outputs": outputs}


class PredictionsGame(ColumnGame):
    """Guess or estimate a column of every record under attack, from what models answer."""

    n_curve, beyond = 12, 1.0  # each takes the accounting of a training
    asked = True
    _named: Mapping[type, str] = {
        kind: name for kind, name in TabledGame._named.items() if name in (*_BASELINES, "combined")
    }

    def __init__(self, task: Task, learner: Learner, entropy: list[int]) -> None:
        super().__init__(task)
        if is_private_sgd(task.estimator):
            learner = replace(learner, estimator=clone(learner.estimator, safe=False))
            quick(last_step(learner.estimator))
        self._learner, self._entropy = learner, entropy
        # Whether preprocessing that is trained on the secrets as well is counted, too.
        steps = task.estimator.steps[:-1] if isinstance(task.estimator, Pipeline) else []
        self._whole = any(task.refit_preprocessing or needs_goal(step) for _, step in steps)
        check_settings(task)
        self._know_column()
        levels = tuple(sorted(task.goals)) or (0.0,)
        if is_private_sgd(task.estimator):
            levels = (noise_multiplier(learner.estimator, task.table, task.y),)
        self.noise_scales = levels
        model = self._trained(learner, 0, levels[0])
        self._about = f" on a model that is asked, such as {type(last_step(model)).__name__},"
        self._chosen = self._choose(task, *self._offered(task, model))
        self._where = reference_records(task.X_test, task.y_test) or (task.table, task.y)
        self.scored = learner.estimator, task.y, self._where[1]
        self.attacks = {name: self._fitted(name) for name in self._chosen}
        # Whether one more training answers differently, to any attack.
        other = self._trained(learner, 1, levels[0])
        first, second = (self._guesses(each)[0] for each in (model, other))
        self._random = bool(task.goals) or not all(map(np.array_equal, first, second))
        self.n_releases = self.n_releases if self._random else 1
        self.unseen = drops(task, self.secret)
        self._bound, self._no_bound = self._allowed()
        self.bounds = () if self._bound is None else ("dp",)
        self._plan(levels, compared=self._bound is not None)
        self.etas = dict.fromkeys(levels, np.full(len(self.targets), np.nan))

    def _trained(self, learner: Learner, release: int, noise: float) -> Any:
        """Train the model of one release, with seeds of its own, with the goal of a noise scale."""
        key = (release, _TRAINING)
        generator = np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=key))
        model = learner.seeded(lambda n: generator.integers(2**31 - 1, size=n))
        if self.task.goals:
            set_goal(model, noise, self.task.goals, int(generator.integers(2**31 - 1)))
        weights = weight_argument(model, self.task.sample_weight)
        # `fit` of a model from elsewhere may return nothing.
        return model.fit(self.task.table, learner.y, **weights) or model

    def _allowed(self) -> tuple[list[FloatArray] | None, str]:
        """Success about each record that no attack exceeds, by level, or None and why."""
        task = self.task
        if not (is_private_sgd(task.estimator) or task.goals):
            return None, NO_BOUND
        if self.estimates:
            return None, "no bound: of a number, `leakage_report()` says how far off attackers are"
        if task.goals and not task.attacked.is_single:
            return None, "no bound: the guarantee is about one row"
        if self._whole:
            return None, "no bound: the preprocessing is trained on the secrets as well"
        if not (isinstance(task.bounds, str) or "dp" in task.bounds):
            return None, "no bound: none was asked for"
        try:
            return [self._bounded(noise) for noise in self.noise_scales], ""
        except ImportError as error:
            if task.bounds != "all":
                raise
            return None, f"no bound: {error}"

    def _bounded(self, noise: float) -> FloatArray:
        """Success that the guarantee of a level allows about each record, (n_targets,)."""
        if not self.task.goals:
            return self._sgd.column_success(noise, self.prior)
        top = self.prior.max(axis=1)
        return np.asarray(top + gdp_advantage(1.0 / noise, self.prior) * (1.0 - top))

    @property
    def _sgd(self) -> SGDBounds:
        """Bounds of private SGD."""
        return SGDBounds.of_column(last_step(self._learner.estimator), len(self.task.y))

    def any_prior(self, noise: float) -> dict[str, Any] | None:
        """Columns that hold for every attacker, from the curve of private SGD; else None, or 0."""
        task, n = self.task, len(self.targets)
        if self.unseen:
            return columns_of(np.zeros(n))
        if self._whole or not (is_private_sgd(task.estimator) or task.goals):
            return None
        if task.goals:
            found = columns_of(np.full(n, 1.0 / noise)) | {"distance": np.full(n, np.nan)}
            return found if task.attacked.is_single else None
        try:
            return self._sgd.columns(noise, n, membership=False)
        except ImportError:
            return None

    def utility_at(self, noise: float) -> float:
        """Mean score of some trainings at a noise multiplier, or with a goal of its mu."""
        if not (is_private_sgd(self.task.estimator) or self.task.goals):
            return np.nan
        estimator = clone(self._learner.estimator, safe=False)
        if not self.task.goals:
            last_step(estimator).set_params(noise_multiplier=noise)
        learner = replace(self._learner, estimator=estimator)
        models = (self._trained(learner, release, noise) for release in self.few_releases)
        return float(np.mean([utility_of(model, *self._where) for model in models]))

    def prepare(self, entropy: list[int]) -> None:
        """Do nothing: all was prepared to learn how models are trained."""

    def cells(self) -> dict[str, Cell]:
        """One training each."""
        numbers = range(self.n_releases * len(self.noise_scales))
        return {release_key(k): (PredictionsGame._train, (self, k)) for k in numbers}

    def _train(self, release: int) -> Outcome:
        """Train a model, and let every attack ask it.

        Returns ``correct`` and the log-odds of the rare value (NaN where an attack has none), or
        ``errors`` of numbers, (n_attacks, n_targets), and ``utility``.
        """
        noise, truth = self.noise_scales[release // self.n_releases], self.secrets
        model = self._trained(self._learner, release, noise)
        guesses, odds = self._guesses(model)
        utility = np.array(utility_of(model, *self._where))
        if not self.estimates:
            right = np.stack([guess == truth for guess in guesses])
            return {"correct": right, "odds": np.stack(odds), "utility": utility}
        errors = np.stack([guess - truth for guess in guesses])
        errors = np.nan_to_num(errors, nan=_FAR_OFF, posinf=_FAR_OFF, neginf=-_FAR_OFF)
        return {"errors": np.clip(errors, -_FAR_OFF, _FAR_OFF), "utility": utility}

    def _guesses(self, model: Any) -> tuple[list[Array], list[FloatArray]]:
        """Guesses of every attack, and log-odds of the rare value, (n_targets,) each."""
        rows, ranks, truth = [], [], self.secrets
        for name, attack in self.attacks.items():
            odds = np.full((1, len(truth)), np.nan)
            with ignoring_mismatches():
                if ranks_value(attack, self.rare):
                    (guess,), odds = attack._ranked([model], None, self.rare)
                else:
                    guess = np.asarray(attack.predict(model))
            if guess.shape != truth.shape:
                raise ValueError(
                    f"The attack {name!r} must return one guess for each of the {len(truth)} "
                    f"targets from one model; got shape {guess.shape}."
                )
            rows.append(guess)
            ranks.append(odds[0])
        return rows, ranks

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Outcomes of every attack, from those of every model that was trained."""
        tabled: dict[str, Outcome] = {}
        for level, noise in enumerate(self.noise_scales):
            first = level * self.n_releases
            keys = map(release_key, range(first, first + self.n_releases))
            played = [outcomes[key] for key in keys if key in outcomes]
            if played:
                tabled |= self._joined_at(level, noise, played)
        return tabled

    def _joined_at(self, level: int, noise: float, played: list[Outcome]) -> dict[str, Outcome]:
        """Outcomes of every attack at a level."""
        truth = self.secrets
        utility = np.array([float(cell["utility"]) for cell in played])
        tabled = {cell_key(noise, "utility"): {"utility": utility}}
        for k, (name, attack) in enumerate(self.attacks.items()):
            exact = name in _BASELINES or not self._random
            if self.estimates:
                errors = np.stack([cell["errors"][k] for cell in played])
                variance = np.full(len(truth), 0.0 if exact else np.nan)
                if not exact and len(played) > 1:
                    variance = errors.var(axis=0, ddof=1)
                squares = errors**2
                means = squares.mean(axis=1), squares.mean(axis=0), variance
                own = errors_outcome(*means, squares.size, exact=exact)
            else:
                right = np.stack([cell["correct"][k] for cell in played])
                odds = np.stack([cell["odds"][k] for cell in played])
                known = None if np.isnan(odds).any() else odds
                own = tally([(right, known)], truth == self.rare) | {"exact": np.array(exact)}
            tabled[cell_key(noise, name)] = own | alone(attack, truth)
        if self._bound is not None:
            dp = self._bound[level]
            bounds = {"dp": dp, "bayes": np.full(len(dp), np.nan), "standard_error": 0.0 * dp}
            tabled[cell_key(noise, "bounds")] = bounds
        return tabled

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        """Say why there is no bound, too, and whether trainings are left to chance."""
        return super().facts(outcomes) | {
            "values": self.values.tolist(),
            "has_noise": self.noise_scales[0] > 0.0,
            "private_sgd": is_private_sgd(self.task.estimator),
            "no_bound": self._no_bound,
            "preprocessing": "in the model"
            if isinstance(self.task.estimator, Pipeline)
            else "none",
            "random": self._random,
        }


def drops(task: Task, secret: Secret) -> bool:
    """Return True if a pipeline trains its model on the same numbers whatever a column holds.

    The encoded records are compared bit by bit: those under attack with every value that they may
    have, and all records with preprocessing that is fitted on the column in another order, or with
    one value in the place of all.
    """
    pipeline, targets = task.estimator, task.attacked.rows
    if not isinstance(pipeline, Pipeline) or len(pipeline.steps) < 2:
        return False
    try:
        fitted = clone(pipeline[:-1])
        encoded = plain_table(fitted.fit_transform(task.table, task.y))
        values: Any = secret.values
        ends = values
        if values is None:
            low, high = (end[targets] for end in range_of_others(secret.column))
            values, ends = np.linspace(low, high, N_NODES), np.array([low.min(), high.max()])
        for value in values:
            rows = with_attribute(take_rows(task.table, targets), secret.index, value)
            if not _same(fitted.transform(rows), encoded[targets]):
                return False
        # In the order of the targets, half of each end: what selects columns would see this one.
        later = np.argsort(np.argsort(task.y, kind="stable")) >= len(task.y) // 2
        told = np.where(later, ends[-1], ends[0])
        for column in (secret.column[::-1], np.roll(secret.column, 1), *ends, told, told[::-1]):
            table = with_attribute(task.table, secret.index, column)
            if not _same(clone(pipeline[:-1]).fit_transform(table, task.y), encoded):
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


def check_settings(task: Task) -> None:
    """Refuse what only a model with parameters and noise can be audited for."""
    name = type(last_step(task.estimator)).__name__
    check_one_row_each(task.estimator, task.persons)
    if task.noise_scales is not None and is_private_sgd(task.estimator):
        raise AttackNotApplicableError(
            f"`noise_scales` must be None for {name}: an audit of a column trains with the noise "
            "of the estimator. Set its `noise_multiplier`."
        )
    scales = None if task.goals else task.noise_scales
    if scales is not None and np.any(np.asarray(scales) != 0.0):
        refuse_noise(task.estimator)
    if task.about_target:
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
    if is_private_sgd(task.estimator) or task.goals:
        asked = () if asked == "dp" else [name for name in asked if name != "dp"]
    if check_bounds(asked):
        raise AttackNotApplicableError(
            f"`bounds` must be 'all' or empty for {name}; got {asked!r}. There is {NO_BOUND}. "
            "Leave `bounds` out."
        )
