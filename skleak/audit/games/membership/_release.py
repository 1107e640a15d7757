"""One release of the game of membership: draw members, train on them, and attack the model."""

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    Shell,
    ignoring_mismatches,
    last_step,
    model_parameters,
    models_with,
    noiseless,
)
from skleak.adversary.knowledge import take_rows
from skleak.attacks.membership.shadow import record_scores
from skleak.audit.games._game import fit_copy
from skleak.audit.games._private_sgd import is_private_sgd, quick, with_public_size
from skleak.audit.games.membership._attacks import MembershipAttack
from skleak.audit.games.membership._exact import pair_test
from skleak.audit.games.membership._subject import (
    REFERENCE_SHARE,
    MembershipSubject,
    normalized_losses,
)
from skleak.audit.noise._mechanism import released_parameters
from skleak.audit.tables._design import Outcome
from skleak.exceptions import PrivacyLeakWarning
from skleak.mechanisms import NoiseGoal, ladder_rung
from skleak.report.guarantee import Promises, output_perturbation_guarantee
from skleak.utils._random import seeded
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.geometry._pairs import pair_success

# Streams of seeds of a release, beside those of noise levels in other audits.
_MEMBERS, _TRAINING, _NOISE = range(10, 13)
_NO_GUESS = -1
# Training sets that are drawn until one has two classes, at most.
_MOST_DRAWS = 1000
_SMALLEST = np.finfo(float).tiny


def play_release(
    subject: MembershipSubject,
    attacks: Mapping[str, MembershipAttack],
    levels: Sequence[float],
    entropy: list[int],
    release: int,
) -> Outcome:
    """Train on random members at every noise level, and attack all candidates.

    Returns ``member`` and ``attacked``, of shape (n_targets,); ``scores`` and ``guesses`` (-1 for
    none) of shape (n_attacks, n_levels, n_targets); ``bayes``, of shape (n_levels, n_targets), NaN
    but for members; ``separation``, likewise, the distance of models with and without; ``dp``
    (success that differential privacy allows), ``gap`` (mean normalised loss of non-members less
    that of members), ``off`` (distance of the parameters from what the exact test takes for those
    without noise), ``scale`` (of the noise) and ``utility``, of shape (n_levels,); ``noiseless``,
    a utility.
    """
    seeds = {
        stream: np.random.SeedSequence(entropy, spawn_key=(release, stream))
        for stream in (_MEMBERS, _TRAINING, _NOISE)
    }
    member, attacked = draw_members(subject, np.random.default_rng(seeds[_MEMBERS]))
    rows = np.sort(np.concatenate([subject.others, subject.targets[member]]))
    test = None
    if subject.objective is not None:
        test = pair_test(subject.objective, rows, subject.targets)
    shape = (len(attacks), len(levels), len(member))
    outcome: Outcome = {
        "member": member,
        "attacked": attacked,
        "scores": np.full(shape, np.nan),
        "guesses": np.full(shape, _NO_GUESS, dtype=np.int8),
        "bayes": np.full(shape[1:], np.nan),
        "separation": np.full(shape[1:], np.nan),
        "scale": np.array(levels, dtype=float),
        **{name: np.full(len(levels), np.nan) for name in ("dp", "gap", "off", "utility")},
    }
    view = _View(subject, attacks, member, attacked)
    models = _releases(subject, levels, rows, seeds)
    for k, (level, (fitted, model)) in enumerate(zip(levels, models, strict=True)):
        odds = None
        if subject.goal is not None:
            level = outcome["scale"][k] = float(last_step(fitted).noise_scale_)
        if test is not None:
            if subject.scale is not None and not subject.uncounted:
                test = test.told_apart(subject.scale.without(rows, subject.targets) != level)
            released = released_parameters(model, len(test.own))
            odds = test.log_odds(released, level, subject.prior)
            outcome["off"][k] = np.linalg.norm(released - test.own)
        view.answer(outcome, k, model, odds)
        outcome["dp"][k] = subject.allowed.get(level, np.nan)
        if subject.goal is None and hasattr(fitted, "_confidential_state"):
            mu = dp_parameter(fitted, fitted._confidential_state())
            if not np.isnan(mu):
                outcome["dp"][k] = pair_success(np.asarray(mu), subject.prior)
        if test is not None and not subject.uncounted:
            separation = test.separations(level)
            success = pair_success(separation, subject.prior)
            outcome["separation"][k] = np.where(member, separation, np.nan)
            outcome["bayes"][k] = np.where(member, success, np.nan)
    outcome["noiseless"] = np.array(view.noiseless_utility(rows))
    return outcome


def draw_members(subject: MembershipSubject, generator: np.random.Generator) -> tuple[Array, Array]:
    """Draw the candidates that are members, and those that are attacked rather than held out."""
    for _ in range(_MOST_DRAWS):
        n = len(subject.targets)
        attacked = np.ones(n, dtype=bool)
        if subject.reference is None:
            attacked[generator.permutation(n)[: int(REFERENCE_SHARE * n)]] = False
        member = (generator.random(n) < subject.prior) & attacked
        # Given all others a membership is still drawn with the prior, but where a class would be
        # missing without: there it is known, as the exact test says.
        if not subject.two_classes or _trainable(subject, member):
            return member, attacked
    raise ValueError(
        f"Of {_MOST_DRAWS} training sets drawn all were of a single class, on which nothing can be "
        "trained. Pass more records of the rare class, or a larger `prior`."
    )


def _trainable(subject: MembershipSubject, member: Array) -> bool:
    """Return True if members and those who always are have two labels between them."""
    rows = np.concatenate([subject.others, subject.targets[member]])
    return len(np.unique(subject.y[rows])) > 1


def _releases(
    subject: MembershipSubject,
    levels: Sequence[float],
    rows: IntArray,
    seeds: Mapping[int, np.random.SeedSequence],
) -> Iterator[tuple[Any, Any]]:
    """Train at every level, and yield what is trained beside what of it is released."""
    X, y = take_rows(subject.X, rows), subject.y[rows]
    weights = subject.weight_argument(rows)
    if subject.has_noise:
        for level in levels:
            fresh = seeded(subject.trained, seeds[_TRAINING].generate_state)
            model = last_step(fresh)
            if isinstance(subject.goal, NoiseGoal):
                # As `fit` finds it, on these members; what its refusals tell is not played.
                unit = clone(fresh)
                last_step(unit).set_params(noise_scale=1.0)
                found = subject.goal.noise_scale_of(last_step(_fit(unit, X, y, weights)))
                level = ladder_rung(found)
            if subject.private_sgd:
                with_public_size(quick(model), len(rows), subject.usual_size)
                model.set_params(noise_multiplier=level)
            else:
                model.set_params(noise_scale=level)
            fitted = _fit(fresh, X, y, weights)
            yield fitted, _released(fitted)
        return
    fitted = _fit(seeded(subject.trained, seeds[_TRAINING].generate_state), X, y, weights)
    draws = None
    for level in levels:
        if level == 0.0:
            yield fitted, fitted
            continue
        parameters = model_parameters(fitted)
        if draws is None:
            draws = np.random.default_rng(seeds[_NOISE]).normal(size=len(parameters))
        shell = Shell(last_step(fitted), len(parameters))
        noisy = next(models_with(shell, (parameters + level * draws)[None]))
        yield fitted, _with_last_step(fitted, noisy)


def _fit(estimator: Any, X: Any, y: Array, weights: dict[str, FloatArray]) -> Any:
    try:
        return estimator.fit(X, y, **weights)
    except Exception as error:
        error.add_note(
            f"This was a training on the {len(y)} members of one release. Every candidate is a "
            "member with the probability `prior`: with few `targets`, or a small `prior`, a "
            "training set can lack a class, or be empty."
        )
        raise


def _released(fitted: Any) -> Any:
    """Release what may be published, so that no attack can read more."""
    model = last_step(fitted)
    if not hasattr(model, "release"):
        return fitted
    with warnings.catch_warnings():
        # Seeds of an audit are its own.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        released = model.release()
    if is_private_sgd(model):
        # They follow the number of members, which is no part of the game.
        hidden = ("learning_rate", "sampling_rate")
        made = released.provenance_.items()
        released.provenance_ = {name: value for name, value in made if name not in hidden}
    return _with_last_step(fitted, released)


def _with_last_step(fitted: Any, model: Any) -> Any:
    if not isinstance(fitted, Pipeline):
        return model
    other = copy.copy(fitted)
    other.steps = [*fitted.steps[:-1], (fitted.steps[-1][0], model)]
    return other


def dp_parameter(model: Any, state: Any) -> float:
    """Gaussian differential privacy, mu, that an estimator states for itself; NaN for none."""
    # The game's own seed is known to no attacker, its noise scale is a number, and whoever plays
    # it knows how many records there are and which classes.
    promises = Promises(model.data_norm, frozenset({"n_samples", "sample_weight"}), tol=model.tol)
    guarantee = output_perturbation_guarantee(state, promises)
    return guarantee.mu if guarantee.holds else np.nan


def fitted_once(
    each: MembershipAttack, subject: MembershipSubject, raw_reference: Any, y_reference: Any
) -> MembershipAttack:
    """Return an attack that was passed, fitted on what it knows whatever the release.

    Shapes: ``raw_reference``, ``y_reference`` (m, n_columns).
    """
    raw = take_rows(subject.raw, subject.targets)
    known = (raw, subject.y[subject.targets], raw_reference, y_reference)
    weights = None if subject.weights is None else subject.weights[subject.targets]
    return MembershipAttack("own", fit_copy(each.attack, *known, sample_weight=weights))


class _View:
    """Records of one release, of which some are members, as attackers see them."""

    def __init__(
        self,
        subject: MembershipSubject,
        attacks: Mapping[str, MembershipAttack],
        member: Array,
        attacked: Array,
    ) -> None:
        self.subject, self.member, self.attacked = subject, member, attacked
        targets = subject.targets
        self.X, self.y = take_rows(subject.X, targets), subject.y[targets]
        if subject.reference is None:
            held_out = targets[~attacked]
            self.reference = (take_rows(subject.X, held_out), subject.y[held_out])
            raw = take_rows(subject.raw, held_out)
        else:
            raw, *known = subject.reference
            self.reference = (known[0], known[1])
        self.attacks = [self._fitted(each, raw) for each in attacks.values()]

    def _fitted(self, each: MembershipAttack, raw_reference: Any) -> MembershipAttack:
        X, y = self.reference
        if each.rule == "score":
            enough = self.subject.prior * (len(y) + 1) >= 1.0
            # Without enough reference records only the other releases can teach a threshold.
            attack = clone(each.attack).set_params(threshold="calibrated" if enough else _SMALLEST)
            return MembershipAttack("score", attack.fit(self.X, self.y, X, y))
        if each.rule == "own" and self.subject.reference is None:
            return fitted_once(each, self.subject, raw_reference, y)
        return each

    def answer(self, outcome: Outcome, k: int, model: Any, odds: FloatArray | None) -> None:
        """Enter what the attacks say of a release at one level, its gap and its utility."""
        for j, each in enumerate(self.attacks):
            scores, guesses = self._play(each, model, odds)
            if scores is not None:
                outcome["scores"][j, k] = scores
            if guesses is not None:
                outcome["guesses"][j, k] = guesses
        outcome["gap"][k] = self._gap(model)
        outcome["utility"][k] = float(model.score(*self.reference))

    def _play(
        self, each: MembershipAttack, model: Any, odds: FloatArray | None
    ) -> tuple[FloatArray | None, Array | None]:
        if each.rule == "exact" and odds is not None:
            return odds, odds > 0.0
        if each.rule == "scale":
            scale = float(last_step(model).noise_scale_)
            return np.full(len(self.member), 2.0 * np.log2(scale)), None
        if each.rule in ("likelihood_ratio", "robust"):
            return record_scores(model, self.X, self.y, None, strict=False), None
        if each.rule == "score":
            scores = each.attack.decision_function(model)
            calibrated = each.attack.threshold == "calibrated"
            return scores, each.attack.predict(model) if calibrated else None
        return self._ask(each.attack, behind(self.subject.preprocessing, model))

    def _ask(self, attack: Any, model: Any) -> tuple[FloatArray | None, Array]:
        """Guesses, and scores where there are any, of an attack that was passed."""
        n_targets = len(self.member)
        guesses = answer(attack, "predict", model, n_targets)
        if not np.all((guesses == 0) | (guesses == 1)):
            raise ValueError(
                f"{type(attack).__name__}.predict must return 1 for members and 0 for others, or "
                "booleans."
            )
        if not hasattr(attack, "decision_function"):
            return None, guesses
        return answer(attack, "decision_function", model, n_targets).astype(float), guesses

    def _gap(self, model: Any) -> float:
        """Mean normalised loss of attacked non-members less that of members; NaN without any."""
        outside = self.attacked & ~self.member
        if not self.member.any() or not outside.any():
            return np.nan
        known = (self.subject.classifies, self.reference)
        losses = normalized_losses(model, self.X, self.y, *known)
        return float(losses[outside].mean() - losses[self.member].mean())

    def noiseless_utility(self, rows: IntArray) -> float:
        """Score of a model of the same members without noise; NaN where there is none to add."""
        subject = self.subject
        if not subject.has_noise:
            return np.nan
        known = take_rows(subject.X, rows), subject.y[rows]
        model = noiseless(subject.trained)
        if subject.private_sgd:
            quick(last_step(model)).set_params(noise_multiplier=0.0)
        model = model.fit(*known, **subject.weight_argument(rows))
        return float(model.score(*self.reference))


def behind(preprocessing: Any, model: Any) -> Any:
    """Put a model behind the steps that count as public, where there are any."""
    if preprocessing is None:
        return model
    return Pipeline([*preprocessing.steps, ("model", model)])


def answer(attack: Any, method: str, model: Any, n_targets: int) -> Array:
    """Ask an attack about all candidates, and check the shape of what it says."""
    with ignoring_mismatches():
        said = np.asarray(getattr(attack, method)(model))
    if said.shape != (n_targets,):
        raise ValueError(
            f"{type(attack).__name__}.{method} must return one number for each of the {n_targets} "
            f"candidates from one model; got shape {said.shape}."
        )
    return said
