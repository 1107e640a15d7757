"""What a game of membership is about, and one release of it: members, training and attacks.

Of a record that was trained on, what the model would be without it is known in closed form; of
one that was not, what it would be with it. Both are a Newton step with a Hessian that differs by a
matrix of rank one; where the loss is not quadratic, further steps on the exact gradient follow.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    adds_noise,
    attack_weights,
    ignoring_mismatches,
    last_step,
    model_parameters,
    needs_goal,
    noiseless,
    weight_argument,
)
from skleak.adversary.knowledge import take_rows
from skleak.adversary.membership import PairTest, record_scores, removal_obstacle
from skleak.adversary.models import Shell
from skleak.attacks import MembershipInference
from skleak.audit.games._game import RESERVED, Facts, Game, Task, fit_copy, own_copy
from skleak.audit.games._levels import (
    CALIBRATED,
    PublishedScale,
    SGDBounds,
    check_one_row_each,
    goal_of,
    is_private_sgd,
    noise_levels,
    quick,
    reference_records,
    refuse_noise,
    scale_sentence,
    seed_of,
    set_goal,
    with_public_size,
)
from skleak.audit.games._secret import check_bounds
from skleak.audit.noise._mechanism import Trained, handed_out, noise_of_levels, shape_of_fit
from skleak.audit.tables._membership import FEWEST_FOR_LAWS, FEWEST_RELEASES, MembershipDesign
from skleak.audit.tables._rates import Outcome
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.removal import addition_steps, removal_steps
from skleak.influence.state import NoiseShape
from skleak.mechanisms import NoiseGoal
from skleak.mechanisms.calibration import ladder_rung
from skleak.metrics.scores import record_losses
from skleak.metrics.verdicts import simultaneous_confidence_level
from skleak.plotting.labels import BOUNDS
from skleak.report.document import sentences
from skleak.report.guarantee import Promises, output_perturbation_guarantee
from skleak.solvers import Objective, SingularHessianError, minimize
from skleak.utils._arguments import norm_of_bounds, seeded
from skleak.utils._geometry import pair_success
from skleak.utils._records import (
    Persons,
)
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# Share of the candidates that each release holds out as reference, without test records.
REFERENCE_SHARE = 0.25
_FEWEST = 8
# Probability below which no release lacks a class.
_UNLIKELY = 1e-9
_CERTAIN = 50.0
_SCORES = ("loss", "likelihood", "modified_entropy", "gradient_norm")
# They learn from the other releases; "scale" where the noise scale follows the records.
_LEARNING = ("likelihood_ratio", "robust", "scale")
ATTACKS = (*_SCORES, *_LEARNING, "exact")
_SMALLEST, _LARGEST = np.finfo(float).tiny, np.finfo(float).max
# Streams of seeds of a release, beside those of noise levels in other audits.
_MEMBERS, _TRAINING, _NOISE = range(10, 13)
# Training sets that are drawn until one has two classes, at most.
_MOST_DRAWS = 1000
_UNDEFINED = (
    "The training objective on the members of a release has no unique minimizer that could be "
    "reached: the exact test is not defined. Pass an estimator with a larger `alpha`, or leave "
    "'exact' out of `attacks`."
)


class MembershipGame(Game, MembershipDesign, Trained):
    """Tell who was trained on: candidates, how models are trained, what is known. Confidential."""

    kind = "membership"
    _about, _arguments = " on membership", "X, y, X_reference, y_reference"
    _reserved = (*RESERVED, "gap")
    attacks: dict[str, Any]
    # Whether the noise of the model is known; then, where there is an exact test, its state without
    # noise, and what releases are put into.
    known = False
    state: Any = None
    shell: Any = None
    noise = NoiseShape()
    # What a noise scale that is a function of the records is on any of them, where it is found; and
    # why no bound counts what it tells.
    scale: PublishedScale | None = None
    uncounted = ""
    two_classes = False  # True if nothing can be trained on a single class
    _noise: Mapping[float, FloatArray]  # by noise level, (p,) or (p, p)

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._learn(task)
        chosen = self._choose(task, ATTACKS, self.default_attacks(task))
        self.rules, self.attacks = self.attack_rules(chosen, task)
        self.noise_scales, self.bounds = self.levels(task.noise_scales), _asked(task.bounds)
        if not task.drawn:
            self.bound(asked="dp" in self.bounds and task.bounds != "all")
            self.bounds = tuple(name for name in self.bounds if name in ("dp", "bayes"))
        # A guarantee is about one row, and supposes that the noise scale is public.
        if task.persons is not None or self.goal is not None:
            kept = (name for name in self.bounds if name != "dp" and not self.uncounted)
            self.bounds = tuple(kept)
        n_verdicts = len(self.rules) * len(self.noise_scales)
        self.verdict_level = simultaneous_confidence_level(self.confidence_level, n_verdicts)

    def _learn(self, task: Task) -> None:
        """Learn who the candidates are, and how models are trained."""
        # Trained anew in each game, unfitted and without a ledger: the last step of a pipeline, or
        # all of it where the preprocessing is refitted. The fitted steps before it are public.
        self.model, self.preprocessing, self.X = task.estimator, None, task.table
        self.raw, self.y, self.weights = task.table, task.y, task.sample_weight
        self.units = task.attacked  # the candidates, with all of their rows
        self.prior = float(task.prior)  # probability of membership
        pipeline = isinstance(self.model, Pipeline) and len(self.model.steps) > 1
        if pipeline and not task.refit_preprocessing:
            self.preprocessing = clone(self.model[:-1]).fit(self.raw, self.y)
            self.X = self.preprocessing.transform(self.raw)
            self.model = last_step(self.model)
        # Raw records, records as the model takes them, and targets of records that no model was
        # trained on; None where each release holds out candidates.
        self.reference: tuple[Any, Any, Array] | None = None
        if (test := reference_records(task.X_test, task.y_test)) is not None:
            own = test[0] if self.preprocessing is None else self.preprocessing.transform(test[0])
            self.reference = test[0], own, test[1]
        self.classifies = bool(is_classifier(self.model))
        self.private_sgd = is_private_sgd(self.model)  # its noise is a multiplier
        self.has_noise = adds_noise(self.model) or self.private_sgd or bool(task.goals)
        # Why there is no exact test; empty where there is one.
        self.obstacle = (
            "the preprocessing is trained anew with the model (`refit_preprocessing=True`)"
            if isinstance(self.model, Pipeline)
            else removal_obstacle(self.model, self.y)
        )
        check_one_row_each(self.model, task.persons)
        if task.drawn and self.obstacle:
            raise AttackNotApplicableError(
                f"`secrets='drawn'` needs the exact test of membership: {self.obstacle}. Pass "
                "`secrets='actual'`, which trains anew for every release and takes any estimator."
            )
        if self.reference is None and not task.drawn and len(self.units) < _FEWEST:
            raise ValueError(
                "Without test records, a quarter of the candidates is held out of each release, "
                f"which takes at least {_FEWEST}; got {len(self.units)}. Pass `X_test` and "
                "`y_test`, or more `records`."
            )
        self.goal = goal_of(self.model, task.noise_scales)
        # Of all rows, where noise goals count them.
        self.persons = None if self.goal is None else task.persons
        self._keep_classes()
        self.targets = self.units.first  # positions, of persons those of their first rows
        # Records that are no candidates: every model is trained on them.
        self.others = np.setdiff1d(np.arange(len(self.y)), self.units.rows)
        held_out = 0 if self.reference is not None else int(REFERENCE_SHARE * len(self.units))
        self.n_reference = held_out if self.reference is None else len(self.reference[2])
        n_attacked = len(self.units) - held_out
        # Expected number of members, records that always are, and candidates.
        self.sizes = len(self.others) + self.prior * n_attacked, len(self.others), n_attacked
        # Of private SGD: what bounds attacks, and success that none exceeds, by noise level.
        self.sgd: SGDBounds | None = None
        self.allowed: dict[float, float] = {}
        weights = self.weight_argument()  # raises where they cannot be told
        if self.has_noise and hasattr(self.model, "_confidential_state") and not task.goals:
            self._learn_noise(weights)
        self._learn_scale(task)

    def prepare(self, entropy: list[int]) -> None:
        """Check the noise, and fit the attacks that one fit serves in all releases."""
        self._entropy, self._noise = entropy, {}
        if self.drawn or self.reference is not None:
            self.attacks = self.fitted(self.attacks, self.reference)
        if self.known:
            given = self.noise_scales, entropy, self.task.n_jobs
            self._noise, self._checks = noise_of_levels(self, *given)

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        """Say whom models are trained on, and what of their noise is known."""
        reference = utility = "test records"
        if self.reference is None:
            reference = "none" if self.drawn else "held out"
            utility = "training records" if self.drawn else "held-out candidates"
        noisy = self.has_noise and self.noise_scales[-1] > 0.0
        unchecked = {"noisy": noisy, "known": self.known}
        unchecked |= {name: getattr(self, name) for name in ("private_sgd", "obstacle")}
        unchecked["goals"] = bool(self.task.goals)
        return super().facts(outcomes) | {
            "prior": f"{self.prior:g}",
            "utility_data": utility,
            "noise_covariance": self.noise.name,
            "membership_prior": self.prior,
            "reference": reference,
            "n_reference": 0 if reference == "none" else self.n_reference,
            "n_always": len(self.others),  # records that are in every training set
            "gap_loss": "zero_one" if self.classifies else "clipped_squared",
            "exact_test": self.obstacle or self.uncounted,
            "scale": scale_sentence(self.goal, self.uncounted, self.task.estimator),
            "unchecked": "".join(sentences("audit_unchecked", unchecked)),
            **{name: getattr(self, name) for name in ("has_noise", "private_sgd", "uncounted")},
        }

    def weight_argument(self, rows: Any = slice(None)) -> dict[str, Any]:
        """Keywords of `fit` of what is trained, for the weights of some records."""
        weights, persons = None if self.weights is None else self.weights[rows], self.persons
        if persons is not None and not isinstance(rows, slice):
            persons = persons.among(rows)
        return weight_argument(self.model, weights, persons)

    def data(self, rows: IntArray) -> tuple[Any, Array]:
        """Return some records as the model takes them, and their targets."""
        return take_rows(self.X, rows), self.y[rows]

    def rows_of(self, which: BoolArray) -> IntArray:
        """Positions of all rows of some candidates, by a mask (n_targets,)."""
        return self.units.take(np.flatnonzero(which)).rows

    def fitted(self, attacks: Mapping[str, Any], reference: Any) -> dict[str, Any]:
        """Return attacks, those fitted that learn from reference records, given as `reference`."""
        (raw, X, y), rows, found = reference or (None,) * 3, self.targets, dict(attacks)
        weights = None if self.weights is None else self.weights[rows]
        for name, rule in self.rules.items():
            if rule == "score":
                found[name] = clone(attacks[name]).fit(*self.data(self.units.rows), X, y)
            elif rule == "own":
                own = take_rows(self.raw, rows), self.y[rows], raw, y
                found[name] = fit_copy(attacks[name], *own, sample_weight=weights)
        return found

    def asked(self, rule: str, attack: Any, model: Any) -> tuple[FloatArray, Array]:
        """Scores, NaN for none, and guesses, -1 for none yet, of an attack on a released model."""
        n_targets = len(self.targets)
        unsaid = np.full(n_targets, -1)
        if rule == "scale":
            rung = 2.0 * np.log2(float(last_step(model).noise_scale_))
            return np.full(n_targets, rung), unsaid
        if rule in _LEARNING:
            scores = record_scores(model, *self.data(self.units.rows), None, strict=False)
            return self.by_person(scores), unsaid
        if rule == "score":
            scores = self.by_person(attack.decision_function(model))
            return scores, scores >= attack.decision_threshold(model)
        said = {"decision_function": np.full(n_targets, np.nan)}
        for method in ("predict", "decision_function"):
            if not hasattr(attack, method):
                continue
            with ignoring_mismatches():
                # Attacks of ours ask the model, those that were passed all of the pipeline.
                whole = behind(getattr(self.preprocessing, "steps", ()), model)
                said[method] = np.asarray(getattr(attack, method)(whole))
            if said[method].shape != (n_targets,):
                raise ValueError(
                    f"{type(attack).__name__}.{method} must return one number for each of the "
                    f"{n_targets} candidates from one model; got shape {said[method].shape}."
                )
        if not np.all((said["predict"] == 0) | (said["predict"] == 1)):
            raise ValueError(
                f"{type(attack).__name__}.predict must return 1 for members and 0 for others, or "
                "booleans."
            )
        return said["decision_function"].astype(float), said["predict"]

    def by_person(self, values: FloatArray) -> FloatArray:
        """Mean over the rows of each candidate of numbers of `units.rows`, (n_targets,)."""
        if self.units.is_single:
            return values
        # A row of infinite log odds is certain, and does not speak for all others.
        most = _CERTAIN + np.abs(values, where=np.isfinite(values), out=np.zeros(len(values))).max()
        return self.units.sums(np.clip(values, -most, most)) / self.units.sizes

    def _lacks_classes(self) -> bool:
        """Return True if a training set may lack every record of a class."""
        if not self.classifies:
            return False
        candidates = np.setdiff1d(self.y, np.delete(self.y, self.units.rows))
        kept = 1.0 if self.reference is not None else 1.0 - REFERENCE_SHARE
        counts = [len(self.units.having(np.flatnonzero(self.y == each))) for each in candidates]
        return any((1.0 - kept * self.prior) ** n > _UNLIKELY for n in counts)

    def _keep_classes(self) -> None:
        """Keep a record without which nothing could be trained in every training set.

        That is the only one of a class, of two, where the estimator needs both.
        """
        labels, codes, counts = np.unique(self.y, return_inverse=True, return_counts=True)
        if len(labels) != 2 or not self._lacks_classes():
            return
        own = self.units.sums(np.eye(2)[codes[self.units.rows]])
        few = np.flatnonzero(codes == counts.argmax())[:_FEWEST]
        try:
            clone(self.model).fit(*self.data(few), **self.weight_argument(few))
            return  # it can be trained on a single class
        except Exception:
            self.two_classes = True
        alone = np.any(own == counts, axis=1)
        positions = self.units.first[alone].tolist()
        if alone.all():
            raise ValueError(
                "Each candidate is the only record of its class, and without it nothing could be "
                f"trained: {positions}. Pass more records of these classes."
            )
        if alone.any():
            warnings.warn(
                f"Records {positions} (positions) are each the only one of a class, and "
                f"{type(last_step(self.model)).__name__} cannot be trained without: they are in "
                "every training set, so that everybody knows their membership, and are not "
                "attacked.",
                UserWarning,
                stacklevel=outer_stacklevel(),
            )
        self.units = self.units.take(np.flatnonzero(~alone))

    def _learn_noise(self, weights: Mapping[str, Any]) -> None:
        """Learn what a check of the noise needs, of a model whose noise is known."""
        fitted = noiseless(self.model).fit(self.X, self.y, **weights)
        own = model_parameters(fitted)
        if not self.obstacle:
            self.state, self.shell = fitted._confidential_state(), Shell.of(fitted)
        noise = NoiseShape.of(getattr(self.model, "noise_covariance", "isotropic"), len(own))
        if noise.reads_data:
            noise = shape_of_fit(noise, fitted)
        self.noiseless, self.noise, self.known = own, noise, True

    def _learn_scale(self, task: Task) -> None:
        """Learn what a noise scale that follows the records tells, or why that is not known."""
        if not isinstance(self.goal, NoiseGoal):
            self.uncounted = "" if self.goal is None else CALIBRATED
            return
        self.uncounted = self.obstacle
        if not self.obstacle:
            given = self.goal, self.X, self.y, self.weights, self.persons
            scale = PublishedScale.of(self.model, *given)
            # Refits of each game, or of one.
            n_games = 1 if task.drawn else int(task.n_releases)
            self.uncounted = scale.missing(n_games * len(self.units))
            self.scale = None if self.uncounted else scale

    def levels(self, noise_scales: Any) -> tuple[float, ...]:
        """Noise levels of an audit of membership, ascending."""
        data, weights = (self.X, self.y), self.weight_argument()
        levels = noise_levels(noise_scales, self.model, *data, weights)
        if not self.has_noise and levels[-1] > 0.0:
            model = last_step(clone(self.model).fit(*data, **weights))
            if not hasattr(model, "coef_"):
                refuse_noise(model)
        return levels

    def bound(self, asked: bool) -> None:
        """Learn what no attack on private SGD exceeds; without dp-accounting only if asked for.

        Training sets differ in a record, and in nothing that was learned of it elsewhere: neither
        in preprocessing nor in which classes there are.
        """
        if not self.private_sgd or isinstance(self.model, Pipeline):
            return
        if self._lacks_classes() and not self.two_classes:
            return
        self.sgd = known = SGDBounds.of_members(self.model, self.prior, *self.sizes)
        try:
            self.allowed = {
                each: known.membership_success(each, self.prior) for each in self.noise_scales
            }
        except ImportError:
            if asked:
                raise

    def attack_rules(
        self, chosen: Mapping[str, Any], task: Task
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Return how each attack guesses, and what scores or guesses, unfitted, by name.

        The rule is "score", "likelihood_ratio", "robust", "scale", "exact", or "own" of a
        ``predict`` which was passed; those that only learn from other releases are their rule.
        """
        rules, made = {}, {}
        # Without enough reference records only the other releases can teach a threshold.
        enough = task.drawn or self.prior * (self.n_reference + 1) >= 1.0
        threshold = "calibrated" if enough else _LARGEST
        for name, attack in chosen.items():
            if not isinstance(attack, str):
                rules[name], made[name] = "own", own_copy(attack)
                attack_weights(made[name], sample_weight=self.weights)  # raises where it takes none
                continue
            self._check_attack(attack, task)
            rules[name], made[name] = attack, attack
            if attack in _SCORES:
                own: dict[str, Any] = {"statistic": attack, "threshold": threshold}
                rules[name], made[name] = "score", MembershipInference(prior=self.prior, **own)
        return rules, made

    def default_attacks(self, task: Task) -> list[str]:
        """Names of the attacks that are played by default."""
        # Of two classes the modified entropy orders records as the loss does.
        several = self.classifies and len(np.unique(self.y)) > 2
        scores = ["loss", "modified_entropy"] if several else ["loss"]
        exact = [] if self.obstacle else ["exact"]
        if task.drawn:
            return [*exact, *(scores if self.reference is not None else [])]
        # With few releases either may find more.
        learning = ["likelihood_ratio"]
        if task.n_releases < FEWEST_FOR_LAWS:
            learning.append("robust")
        if isinstance(self.goal, NoiseGoal):
            learning.append("scale")
        return [*scores, *(learning if task.n_releases >= FEWEST_RELEASES else []), *exact]

    def _check_attack(self, attack: str, task: Task) -> None:
        """Refuse an attack of ours that cannot be played."""
        name = type(self.model).__name__
        if attack == "exact" and self.obstacle:
            raise AttackNotApplicableError(
                f"The attack 'exact' is not known for this estimator: {self.obstacle}. Leave it "
                "out of `attacks`; 'likelihood_ratio' takes any estimator."
            )
        if attack == "scale" and not isinstance(self.goal, NoiseGoal):
            raise ValueError(
                "The attack 'scale' reads a noise scale that follows the records: it needs an "
                "estimator with a noise goal that reads the records, and `noise_scales=None`. "
                "Leave it out of `attacks`."
            )
        if attack in _LEARNING and (task.drawn or task.n_releases < FEWEST_RELEASES):
            raise ValueError(
                f"The attack {attack!r} learns from the other releases: it needs "
                f"`secrets='actual'` and `n_releases` of at least {FEWEST_RELEASES}; got "
                f"{task.n_releases} with `secrets={task.secrets!r}`."
            )
        if attack in _SCORES and task.drawn and self.reference is None:
            raise ValueError(
                f"With `secrets='drawn'` the attack {attack!r} calibrates its threshold on records "
                "that no model was trained on. Pass `X_test` and `y_test`, or attack with 'exact'."
            )
        needs = self.classifies and attack not in ("exact", "scale", "gradient_norm")
        needs |= attack == "modified_entropy"
        if needs and not hasattr(self.model, "predict_proba"):
            raise AttackNotApplicableError(
                f"The attack {attack!r} needs class probabilities, and {name} has no "
                "`predict_proba`. Wrap a classifier in CalibratedClassifierCV, or pass attacks of "
                "your own that read predictions; attack a regressor with 'loss', 'likelihood' or "
                "'gradient_norm'."
            )

    def dp_success(self, model: Any, state: Any) -> float:
        """Success that the differential privacy which an estimator states allows; NaN for none."""
        # The game's own seed is known to no attacker, its noise scale is a number, and whoever
        # plays it knows how many records there are and which classes.
        known = frozenset({"n_samples", "sample_weight"})
        bound = getattr(model, "target_bound", None)
        longest = norm_of_bounds(model.data_norm)
        promises = Promises(longest, known, tol=model.tol, target_bound=bound)
        guarantee = output_perturbation_guarantee(state, promises)
        return float(pair_success(guarantee.mu if guarantee.holds else np.nan, self.prior))


def normalized_losses(
    model: Any, X: Any, y: Array, classifies: bool, reference: tuple[Any, Array]
) -> FloatArray:
    """Loss of every record in [0, 1], of which a gap says what surely leaks.

    Shapes: ``X``, ``y`` (n, d); returns (n,): 1 for a wrong label, else 0. Of a regressor the
    squared error, cut at the median squared error of the reference records and divided by it: a
    function of the record, the model and what the attacker knows anyway, as [BIL23] theorem 2
    needs it.
    """
    if classifies:
        return record_losses(model, X, y, "zero_one")
    losses = record_losses(model, X, y, "squared")
    usual = float(np.median(record_losses(model, *reference, "squared")))
    return np.minimum(losses / max(usual, _SMALLEST), 1.0)


def _asked(bounds: Any) -> tuple[str, ...]:
    """Names of bounds: those of other audits, and ``dp``."""
    if isinstance(bounds, str):
        bounds = ["dp", *BOUNDS] if bounds == "all" else [bounds]
    rest = check_bounds([name for name in bounds if name != "dp"])
    return ("dp", *rest) if "dp" in bounds else rest


def pair_test(objective: Objective, rows: IntArray, targets: Persons) -> PairTest:
    """Models with and without all rows of each of the targets, of the members (n_members,)."""
    held = objective.take(rows)
    try:
        minimum = minimize(held)
    except SingularHessianError as error:
        raise AttackNotApplicableError(_UNDEFINED) from error
    if not minimum.converged:
        raise AttackNotApplicableError(_UNDEFINED)
    own = np.asarray(minimum.coefficients)
    place = np.full(len(objective.y), -1)
    place[rows] = np.arange(len(rows))
    member = place[targets.first] >= 0
    steps = np.empty((len(targets), len(own)))
    inside, outside = (targets.take(np.flatnonzero(side)) for side in (member, ~member))
    # Without the last record of a class, for instance, nothing could have been trained.
    found = removal_steps(held, own, replace(inside, rows=place[inside.rows]))
    steps[member] = np.where(np.isnan(found), np.inf, found)
    new, among = objective.take(outside.rows), replace(outside, rows=np.arange(len(outside.rows)))
    steps[~member] = -addition_steps(held, own, new.X, new.y, new.sample_weight, among)
    if np.any(np.isnan(steps)):
        raise AttackNotApplicableError(_UNDEFINED)
    return PairTest(own, steps, member)


class Release:
    """Members of one release, what is trained on them, and the records that attackers see."""

    def __init__(self, game: MembershipGame, entropy: list[int], release: int) -> None:
        members, self._training, self._noise = (
            seed_of(entropy, release, stream) for stream in (_MEMBERS, _TRAINING, _NOISE)
        )
        self.game = game
        # Who is a member, and who is attacked rather than held out, (n_targets,).
        self.member, self.attacked = self._drawn(np.random.default_rng(members))
        self.rows = np.sort(np.concatenate([game.others, game.rows_of(self.member)]))
        # Reference records, raw and as they are taken, and their targets.
        self.known = game.reference
        if self.known is None:
            held_out = game.rows_of(~self.attacked)
            self.known = take_rows(game.raw, held_out), *game.data(held_out)
        self.reference = self.known[1:]

    def _drawn(self, generator: np.random.Generator) -> tuple[Array, Array]:
        game, n = self.game, len(self.game.targets)
        for _ in range(_MOST_DRAWS):
            attacked = np.ones(n, dtype=bool)
            if game.reference is None:
                attacked[generator.permutation(n)[: game.n_reference]] = False
            member = (generator.random(n) < game.prior) & attacked
            # Given all others a membership is still drawn with the prior, but where a class would
            # be missing without: there it is known, as the exact test says.
            rows = np.concatenate([game.others, game.rows_of(member)])
            if not game.two_classes or len(np.unique(game.y[rows])) > 1:
                return member, attacked
        raise ValueError(
            f"Of {_MOST_DRAWS} training sets drawn all were of a single class, on which nothing "
            "can be trained. Pass more records of the rare class, or a larger `prior`."
        )

    def models(self, levels: Sequence[float]) -> Iterator[tuple[Any, Any]]:
        """Train at every level, and yield what is trained beside what of it is released."""
        game = self.game
        if game.has_noise:
            for level in levels:
                fresh = seeded(game.model, self._training.generate_state)
                model = last_step(fresh)
                if isinstance(game.goal, NoiseGoal):
                    # As `fit` finds it, on these members; what its refusals tell is not played.
                    unit = clone(fresh)
                    last_step(unit).set_params(noise_scale=1.0)
                    level = ladder_rung(game.goal.noise_scale_of(last_step(self._fit(unit))))
                if game.private_sgd:
                    with_public_size(quick(model), len(self.rows), game.sizes[0])
                    model.set_params(noise_multiplier=level)
                elif game.task.goals:
                    seed = int(self._noise.generate_state(1)[0])
                    set_goal(model, level, game.task.goals, seed)
                else:
                    model.set_params(noise_scale=level)
                fitted = self._fit(fresh)
                yield fitted, _released(fitted)
            return
        fitted = self._fit(seeded(game.model, self._training.generate_state))
        for level in levels:
            if level == 0.0:
                yield fitted, fitted
                continue
            parameters = model_parameters(fitted)
            # The same at every level.
            draws = np.random.default_rng(self._noise).normal(size=len(parameters))
            shell = Shell(last_step(fitted), len(parameters))
            noisy = next(shell.models_with((parameters + level * draws)[None]))
            yield fitted, behind(getattr(fitted, "steps", ())[:-1], noisy)

    def _fit(self, estimator: Any) -> Any:
        X, y = self.game.data(self.rows)
        try:
            return estimator.fit(X, y, **self.game.weight_argument(self.rows))
        except Exception as error:
            error.add_note(
                f"This was a training on the {len(y)} members of one release. Every candidate is a "
                "member with the probability `prior`: with few `targets`, or a small `prior`, a "
                "training set can lack a class, or be empty."
            )
            raise

    def noiseless_utility(self) -> float:
        """Score of a model of the same members without noise; NaN where there is none to add."""
        if not self.game.has_noise or self.game.task.goals:
            return np.nan
        model = seeded(noiseless(self.game.model), self._training.generate_state)
        if self.game.private_sgd:
            quick(last_step(model)).set_params(noise_multiplier=0.0)
        return float(self._fit(model).score(*self.reference))

    def gap(self, model: Any) -> float:
        """Mean normalized loss of attacked non-members less that of members; NaN without any."""
        outside = self.attacked & ~self.member
        if not self.member.any() or not outside.any():
            return np.nan
        X, y = self.game.data(self.game.units.rows)
        known = self.game.classifies, self.reference
        losses = normalized_losses(model, X, y, *known)
        losses = self.game.by_person(losses)
        return float(losses[outside].mean() - losses[self.member].mean())


def _released(fitted: Any) -> Any:
    """Release what may be published, so that no attack can read more."""
    released = handed_out(last_step(fitted))
    if is_private_sgd(last_step(fitted)) or needs_goal(last_step(fitted)):
        # They follow the number of members, which is no part of the game.
        hidden = ("learning_rate", "sampling_rate", "alpha")
        made = released.provenance_.items()
        released.provenance_ = {name: value for name, value in made if name not in hidden}
    return behind(getattr(fitted, "steps", ())[:-1], released)


def behind(steps: Sequence[Any], model: Any) -> Any:
    """Put a model behind the steps of a pipeline, where there are any."""
    return Pipeline([*steps, ("model", model)]) if len(steps) else model
