"""Games of membership: of one record at a time, or of random training sets."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.hypotheses import encoding_error, last_step
from skleak.adversary.knowledge import column_names, raw_column, take_rows
from skleak.adversary.records import Records, row_codes
from skleak.attacks import LikelihoodRatioMembership
from skleak.audit.games._game import RESERVED, Cell, Facts, Game, Task
from skleak.audit.games._levels import GAP, LeveledGame, constant_score, scale_sentence
from skleak.audit.games._secret import check_bounds, success_bounds
from skleak.audit.games._trials import SINGLE_GAMES, drawn_releases
from skleak.audit.games.membership._release import ATTACKS, MembershipSubject, Release, pair_test
from skleak.audit.noise._mechanism import (
    Hypotheses,
    ShapedNoise,
    check_distances,
    level_table,
    noise_of_levels,
    released_parameters,
)
from skleak.audit.tables._membership import (
    membership_groups,
    membership_records,
    membership_results,
    rates,
)
from skleak.audit.tables._rates import MembershipDesign, Outcome, release_key
from skleak.metrics.verdicts import simultaneous_confidence_level
from skleak.plotting.labels import BOUNDS
from skleak.report.document import sentences
from skleak.utils._records import checked_labels, flat_labels, resolve_features, row_labels
from skleak.utils._typing import Array, BoolArray, FloatArray


def membership_game(task: Task) -> Game:
    """Return the game that the secrets of a task ask for."""
    return _DrawnMembership(task) if task.drawn else _ReleasedMembership(task)


class _MembershipGame(Game):
    """Tell who was trained on."""

    kind = "membership"
    _about, _arguments = " on membership", "X, y, X_reference, y_reference"
    _reserved = (*RESERVED, "gap")
    design: MembershipDesign
    attacks: dict[str, Any]

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.subject = subject = MembershipSubject(task)
        chosen = self._choose(task, ATTACKS, subject.default_attacks(task))
        rules, self.attacks = subject.attack_rules(chosen, task)
        levels, bounds = subject.levels(task.noise_scales), _asked(task.bounds)
        if not task.drawn:
            subject.bound(levels, asked="dp" in bounds and task.bounds != "all")
            bounds = tuple(name for name in bounds if name in ("dp", "bayes"))
        # A guarantee is about one row, and supposes that the noise scale is public.
        if task.persons is not None or subject.goal is not None:
            bounds = tuple(name for name in bounds if name != "dp" and not subject.uncounted)
        level, n_verdicts = task.confidence_level, len(rules) * len(levels)
        self.design = MembershipDesign(
            targets=subject.targets,
            prior=subject.prior,
            max_advantage=float(task.max_advantage),
            parts={} if task.drawn else _parts(task, subject),
            attacks=rules,
            noise_scales=levels,
            bounds=bounds,
            n_releases=int(task.n_releases),
            drawn=task.drawn,
            confidence_level=level,
            classifies=subject.classifies,
            verdict_level=simultaneous_confidence_level(level, n_verdicts),
        )

    def prepare(self, entropy: list[int]) -> None:
        """Check the noise, and fit the attacks that one fit serves in all releases."""
        subject, self._entropy = self.subject, entropy
        self._noise: Mapping[float, FloatArray] = {}
        if self.design.drawn or subject.reference is not None:
            self.attacks = subject.fitted(self.design.attacks, self.attacks, subject.reference)
        if subject.known is not None:
            levels, n_jobs = self.design.noise_scales, self.task.n_jobs
            self._noise, self._checks = noise_of_levels(subject.known, levels, entropy, n_jobs)

    def attack_rows(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        return membership_results(self.design, outcomes)

    def record_rows(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        return membership_records(self.design, outcomes)

    def groups(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        return membership_groups(self.design, outcomes)

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        subject, reference, utility = self.subject, "test records", "test records"
        if subject.reference is None:
            reference = "none" if self.design.drawn else "held out"
            utility = "training records" if self.design.drawn else "held-out candidates"
        noisy = subject.has_noise and self.design.noise_scales[-1] > 0.0
        unchecked = {"noisy": noisy, "known": subject.known is not None}
        unchecked |= {name: getattr(subject, name) for name in ("private_sgd", "obstacle")}
        return Facts(
            **self.shared_facts(outcomes),
            prior=f"{subject.prior:g}",
            values=[],
            bounds=self.design.bounds,
            utility_data=utility,
            noiseless_utility=self.noiseless_utility(outcomes),
            noise_covariance=subject.noise.name,
            membership_prior=subject.prior,
            reference=reference,
            n_reference=0 if reference == "none" else subject.n_reference,
            n_always=len(subject.others),  # records that are in every training set
            gap_loss="zero_one" if subject.classifies else "clipped_squared",
            exact_test=subject.obstacle or subject.uncounted,
            scale=scale_sentence(subject.goal, subject.uncounted, self.task.estimator),
            unchecked="".join(sentences("audit_unchecked", unchecked)),
            **{name: getattr(subject, name) for name in ("has_noise", "private_sgd", "uncounted")},
        )

    @abstractmethod
    def noiseless_utility(self, outcomes: Mapping[str, Outcome]) -> float:
        """Mean score of models without noise; NaN where the estimator adds none."""


class _DrawnMembership(LeveledGame, _MembershipGame):
    """Draw one record at a time in or out: all others are known to be members."""

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, check the noise, and learn how far models with and without are apart."""
        subject, levels = self.subject, self.design.noise_scales
        exact = LikelihoodRatioMembership(
            self.task.estimator, method="exact", prior=subject.prior, records=subject.targets
        )
        exact._fit_exact(Records(subject.raw, subject.y, subject.weights), subject.units)
        self.attacks |= {
            name: exact for name, rule in self.design.attacks.items() if rule == "exact"
        }
        if subject.known is not None:
            supposed = Hypotheses.near(exact.encodings_[:, 1])
            steps = exact._test.steps
            subject.known = replace(subject.known, hypotheses=supposed, directions=steps)
        super().prepare(entropy)
        # What games about one record know without playing them.
        states = map(subject.state.at_noise, levels)
        dp = tuple(subject.dp_success(subject.trained, state) for state in states)
        scales = np.full(len(exact.distances_), levels[-1])
        if subject.scale is not None:
            scales = subject.scale.without(np.arange(len(subject.y)), subject.units)
        told = scales != levels[-1]
        distances = np.where(told, np.inf, exact.distances_)
        if subject.uncounted:
            distances[:] = np.nan
        else:
            self.unit_distances = distances
        self.design = replace(self.design, dp=dp, distances=distances)
        where = (subject.X, subject.y) if subject.reference is None else subject.reference[1:]
        quiet = exact.encodings_[0, 1]
        self.released, self.trained_on = (subject.shell, quiet, where), subject.y
        self._exact, self._told = exact, told
        if told.any():  # at the one level that there is then
            both = np.stack([scales, np.full(len(scales), levels[-1])], axis=1)
            shaped = ShapedNoise.of_scales(both, levels[-1], self._noise[levels[-1]])
            self._fits = {levels[-1]: shaped}

    def games(self, scale: float, noise: Any, seed: np.random.SeedSequence) -> dict[str, Cell]:
        """Attacks, bounds and gap at one noise level."""
        cells, own = dict[str, Cell](), _DrawnMembership
        if not self.subject.uncounted:
            cells["bounds"] = (own._bounds, (self, scale))
        for name, rule in self.design.attacks.items():
            cells[name] = (own._asked, (self, noise, name, seed))
            if rule == "exact":
                cells[name] = (own._test, (self, scale, noise, seed))
        of_gap = self.seed(self.design.noise_scales.index(scale), GAP)
        return cells | {"gap": (own._losses, (self, noise, of_gap))}

    @property
    def _known(self) -> tuple[FloatArray, FloatArray]:
        """Parameters without and with each target, and the probabilities of these."""
        prior, encodings = self.design.prior, self._exact.encodings_
        return encodings, np.broadcast_to([1.0 - prior, prior], (len(encodings), 2))

    def _bounds(self, noise_scale: float) -> Outcome:
        """Bounds on the success about each target: none where the noise scale tells it."""
        names = [name for name in self.design.bounds if name != "dp"]
        found = success_bounds(*self._known, noise_scale, names)
        sure = {"standard_error": 0.0}
        return {k: np.where(self._told, sure.get(k, 1.0), each) for k, each in found.items()}

    def _test(self, noise_scale: float, noise: Any, seed: np.random.SeedSequence) -> Outcome:
        """Let the exact test guess, with releases of its own for every target.

        Returns as `_asked`, and ``counts`` of right guesses of each target.
        """
        scores, members, known = [], [], (self._known, noise, self.design.n_releases, seed)
        for _, secrets, released in drawn_releases(*known):
            odds = self._exact._test.log_odds(released, noise_scale, self.design.prior)
            scores.append(np.where(self._told, np.where(secrets == 1, np.inf, -np.inf), odds))
            members.append(secrets == 1)
        score, member = np.concatenate(scores), np.concatenate(members)
        counts = ((score > 0.0) == member).sum(axis=0)
        return {"counts": counts, **self._rated(score, member, score > 0.0)}

    def _asked(self, noise: Any, name: str, seed: np.random.SeedSequence) -> Outcome:
        """Let an attack guess that asks models, about targets drawn at random.

        Returns ``hits``, right guesses; ``games``; ``rates``, see
        `skleak.audit.tables._membership.RATES`.
        """
        known = self.design.attacks[name], self.attacks[name]

        def ask(model: Any, target: int) -> list[Any]:
            return [each[target] for each in self.subject.asked(*known, model)]

        said, member = self._answers(ask, noise, self.design.n_releases, seed)
        return self._rated(said[:, :1], member[:, None], said[:, 1:] == 1.0)

    def _rated(self, score: FloatArray, member: BoolArray, guess: BoolArray) -> Outcome:
        own = self.design.confidence_level, len(self.design.attacks)
        found = rates(score, member, np.ones(member.shape, dtype=bool), *own, guesses=guess)
        hits, tabled = np.array(np.sum(guess == member)), np.array(list(found.values()))
        return {"hits": hits, "games": np.array(member.size), "rates": tabled}

    def _losses(self, noise: Any, seed: np.random.SeedSequence) -> Outcome:
        """Losses of records that were drawn in or out, under the model that was released.

        Returns ``losses`` in [0, 1] and ``member``, of shape (games,).
        """
        subject, where = self.subject, self.released[2]

        def ask(model: Any, target: int) -> float:
            X, y = subject.records(subject.units.take(np.array([target])).rows)
            return float(subject.normalized_losses(model, X, y, subject.classifies, where).mean())

        losses, member = self._answers(ask, noise, SINGLE_GAMES, seed)
        return {"losses": losses, "member": member}

    def _answers(
        self, ask: Callable[[Any, int], Any], noise: Any, n: int, seed: np.random.SeedSequence
    ) -> tuple[FloatArray, BoolArray]:
        """Ask each released model about one target drawn at random, and say if it was a member."""
        said, member, width = list[Any](), list[bool](), self._known[0].shape[2]
        for targets, secrets, released in drawn_releases(self._known, noise, n, seed, width):
            said += map(ask, self.released[0].models_with(released), targets.tolist())
            member += (secrets == 1).tolist()
        return np.array(said), np.array(member)


class _ReleasedMembership(_MembershipGame):
    """Train on random members, release the model, and attack all candidates."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        if self.subject.private_sgd:
            self.n_curve, self.beyond = 12, 1.0  # each takes the accounting of a training

    def cells(self) -> dict[str, Cell]:
        """One release each."""
        numbers = range(self.design.n_releases)
        return {release_key(k): (_ReleasedMembership._release, (self, k)) for k in numbers}

    def _release(self, number: int) -> Outcome:
        """Train on random members at every noise level, and attack all candidates.

        Returns ``member`` and ``attacked``, of shape (n_targets,); ``distance`` of models with and
        without each target, at unit noise, (n_targets,), NaN where it is not known; ``scores`` and
        ``guesses`` (-1 for none) of shape (n_attacks, n_levels, n_targets); ``dp`` (success that
        differential privacy allows), ``gap`` (mean normalized loss of non-members less that of
        members), ``off`` (distance of the parameters from what the exact test takes for those
        without noise), ``scale`` (of the noise) and ``utility``, of shape (n_levels,);
        ``noiseless``, a utility.
        """
        subject, rules, attacks = self.subject, self.design.attacks, self.attacks
        game, goal = Release(subject, self._entropy, number), self.subject.goal
        test, levels, rows = None, self.design.noise_scales, []
        if subject.state is not None:
            test = pair_test(subject.state.objective, game.rows, subject.units)
        if subject.reference is None:
            attacks = subject.fitted(rules, attacks, game.known)
        distance = np.full(len(game.member), np.nan)
        for level, (fitted, model) in zip(levels, game.models(levels), strict=True):
            scale = level if goal is None else float(last_step(fitted).noise_scale_)
            off, odds = np.nan, np.empty(0)
            if test is not None:
                if subject.scale is not None:
                    told = subject.scale.without(game.rows, subject.units) != scale
                    test = replace(test, steps=np.where(told[:, None], np.inf, test.steps))
                if not subject.uncounted:
                    # As at the level of the tables, where each release has a scale of its own.
                    unit = 1.0 if goal is None else level / scale
                    distance = np.where(test.separations(0.0) > 0.0, test.distances * unit, 0.0)
                released = released_parameters(model, len(test.own))
                odds = test.log_odds(released, scale, subject.prior)
                off = float(np.linalg.norm(released - test.own))
            allowed = subject.allowed.get(scale, np.nan)
            if goal is None and hasattr(fitted, "_confidential_state"):
                allowed = subject.dp_success(fitted, fitted._confidential_state())
            said = [
                (odds, odds > 0.0) if rule == "exact" else subject.asked(rule, attacks[name], model)
                for name, rule in rules.items()
            ]
            measured = game.gap(model), model.score(*game.reference)
            rows.append((*zip(*said, strict=True), allowed, off, scale, *measured))
        scores, guesses, *rest = map(np.array, zip(*rows, strict=True))
        return dict(zip(("dp", "off", "scale", "gap", "utility"), rest, strict=True)) | {
            "scores": scores.swapaxes(0, 1),
            "guesses": guesses.swapaxes(0, 1).astype(np.int8),
            "member": game.member,
            "attacked": game.attacked,
            "distance": distance,
            "noiseless": np.array(game.noiseless_utility()),
        }

    def checks(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """Add how far the models of the games are from what the exact test takes them for.

        Each is trained on members of its own. Where the noise is not as stated, that is what is
        said.
        """
        checks, design, own = self._checks, self.design, self.subject.known
        done = [outcomes[key] for key in self.cells() if key in outcomes]
        if self.subject.state is None or own is None or not done:
            return checks
        wrong = set(checks["noise_scale"][~checks["passed"].astype(bool)])
        rows, error = checks.to_dict("records"), encoding_error(own.noiseless)
        for k, level in enumerate(design.noise_scales):
            if level > 0.0 and level not in wrong:
                off, scale = np.array([(each["off"][k], each["scale"][k]) for each in done]).T
                row = check_distances(off / scale, len(own.noiseless), error / scale.min())
                rows.append({"noise_scale": level, "n_releases": len(done), **row})
        table = level_table(self.subject.trained, rows)
        return table.sort_values("noise_scale", kind="stable", ignore_index=True)

    def attack_rows(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level and attack; keep the largest distances over releases."""
        done = [outcomes[key]["distance"] for key in self.cells() if key in outcomes]
        if done and not np.isnan(done[0]).any():
            self.unit_distances = np.max(done, axis=0)
        return super().attack_rows(outcomes)

    def any_prior(self, noise: float) -> dict[str, Any] | None:
        """Columns that hold for every attacker: of private SGD from its trade-off curve."""
        subject = self.subject
        if subject.bounds is None or not subject.allowed:
            return super().any_prior(noise)
        return subject.bounds.columns(noise, len(subject.targets), membership=True)

    def utility_at(self, noise: float) -> float:
        """Mean score of some trainings at any noise scale, on members of their own."""
        subject, scores = copy.copy(self.subject), []
        subject.goal = None
        for number in self.few_releases:
            game = Release(subject, self._entropy, number)
            _, model = next(game.models([noise]))
            scores.append(float(model.score(*game.reference)))
        return float(np.mean(scores))

    def noiseless_utility(self, outcomes: Mapping[str, Outcome]) -> float:
        # In the order of the releases, whichever was finished first.
        return float(pd.Series([float(outcomes[key]["noiseless"]) for key in self.cells()]).mean())

    def constant_utility(self) -> float:
        """Score of the best constant, on test records or on those that there are."""
        subject = self.subject
        where = subject.y if subject.reference is None else subject.reference[2]
        return constant_score(subject.trained, subject.y, where)


def _parts(task: Task, subject: MembershipSubject) -> dict[str, Array]:
    """Group candidates by class, by a column, and with copies of the same record."""
    targets, table = subject.targets, task.table
    parts: dict[str, Array] = {"class": subject.y[targets]} if subject.classifies else {}
    n_columns, index = table.shape[1], row_labels(table)
    if task.groups is not None:
        names = column_names(table)
        place = int(resolve_features(task.groups, names, n_columns, "groups")[0])
        labels = checked_labels(raw_column(table, place), len(subject.y))
        parts["group"] = labels[targets]
    if not subject.units.is_single:
        return parts
    codes = pd.Series(row_codes(Records(take_rows(table, targets), subject.y[targets])))
    several = codes.duplicated(keep=False)
    if several.any():
        # Called by the first of them.
        called = flat_labels(targets if index is None else index[targets].to_numpy())
        first = codes.groupby(codes).transform("idxmin")
        parts["copies"] = np.array(np.where(several, called.astype(object)[first], None))
    return parts


def _asked(bounds: Any) -> tuple[str, ...]:
    """Names of bounds: those of other audits, and ``dp``."""
    if isinstance(bounds, str):
        bounds = ["dp", *BOUNDS] if bounds == "all" else [bounds]
    rest = check_bounds([name for name in bounds if name != "dp"])
    return ("dp", *rest) if "dp" in bounds else rest
