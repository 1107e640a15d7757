"""Games of membership: of one record at a time, or of random training sets."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.hypotheses import encoding_error, last_step
from skleak.adversary.knowledge import column_names, raw_column, take_rows
from skleak.adversary.records import Records, row_codes
from skleak.attacks import LikelihoodRatioMembership
from skleak.audit.games._game import Cell, Game, Task
from skleak.audit.games._levels import GAP, LeveledGame
from skleak.audit.games._secret import success_bounds
from skleak.audit.games._trials import SINGLE_GAMES, drawn_releases
from skleak.audit.games.membership._release import (
    MembershipGame,
    Release,
    normalized_losses,
    pair_test,
)
from skleak.audit.noise._mechanism import (
    Hypotheses,
    ShapedNoise,
    check_distances,
    level_table,
    released_parameters,
)
from skleak.audit.tables._membership import DrawnDesign, ReleasedDesign, rates
from skleak.audit.tables._rates import Outcome, release_key
from skleak.utils._records import checked_labels, flat_labels, resolve_features, row_labels
from skleak.utils._typing import Array, BoolArray, FloatArray


def membership_game(task: Task) -> Game:
    """Return the game that the secrets of a task ask for."""
    return _DrawnMembership(task) if task.drawn else _ReleasedMembership(task)


class _DrawnMembership(LeveledGame, MembershipGame, DrawnDesign):
    """Draw one record at a time in or out: all others are known to be members."""

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks, check the noise, and learn how far models with and without are apart."""
        levels = self.noise_scales
        exact = LikelihoodRatioMembership(
            self.task.estimator, method="exact", prior=self.prior, records=self.targets
        )
        exact._fit_exact(Records(self.raw, self.y, self.weights), self.units)
        self.attacks |= {name: exact for name, rule in self.rules.items() if rule == "exact"}
        if self.known:
            supposed = Hypotheses.near(exact.encodings_[:, 1])
            steps = exact._test.steps
            self.hypotheses, self.directions = supposed, steps
        super().prepare(entropy)
        # What games about one record know without playing them.
        states = map(self.state.at_noise, levels)
        dp = tuple(self.dp_success(self.model, state) for state in states)
        scales = np.full(len(exact.distances_), levels[-1])
        if self.scale is not None:
            scales = self.scale.without(np.arange(len(self.y)), self.units)
        told = scales != levels[-1]
        distances = np.where(told, np.inf, exact.distances_)
        if self.uncounted:
            distances[:] = np.nan
        else:
            self.unit_distances = distances
        self.dp, self.distances = dp, distances
        where = (self.X, self.y) if self.reference is None else self.reference[1:]
        quiet = exact.encodings_[0, 1]
        self.released = self.shell, quiet, where
        self.scored = self.shell.model, self.y, where[1]
        self._exact, self._told = exact, told
        if told.any():  # at the one level that there is then
            both = np.stack([scales, np.full(len(scales), levels[-1])], axis=1)
            shaped = ShapedNoise.of_scales(both, levels[-1], self._noise[levels[-1]])
            self._fits = {levels[-1]: shaped}

    def games(self, scale: float, noise: Any, seed: np.random.SeedSequence) -> dict[str, Cell]:
        """Attacks, bounds and gap at one noise level."""
        cells, own = dict[str, Cell](), _DrawnMembership
        if not self.uncounted:
            cells["bounds"] = (own._bounds, (self, scale))
        for name, rule in self.rules.items():
            cells[name] = (own._asked, (self, noise, name, seed))
            if rule == "exact":
                cells[name] = (own._test, (self, scale, noise, seed))
        of_gap = self.seed(self.noise_scales.index(scale), GAP)
        return cells | {"gap": (own._losses, (self, noise, of_gap))}

    @property
    def _known(self) -> tuple[FloatArray, FloatArray]:
        """Parameters without and with each target, and the probabilities of these."""
        prior, encodings = self.prior, self._exact.encodings_
        return encodings, np.broadcast_to([1.0 - prior, prior], (len(encodings), 2))

    def _bounds(self, noise_scale: float) -> Outcome:
        """Bounds on the success about each target: none where the noise scale tells it."""
        names = [name for name in self.bounds if name != "dp"]
        found = success_bounds(*self._known, noise_scale, names)
        sure = {"standard_error": 0.0}
        return {k: np.where(self._told, sure.get(k, 1.0), each) for k, each in found.items()}

    def _test(self, noise_scale: float, noise: Any, seed: np.random.SeedSequence) -> Outcome:
        """Let the exact test guess, with releases of its own for every target.

        Returns as `_asked`, and ``counts`` of right guesses of each target.
        """
        scores, members, known = [], [], (self._known, noise, self.n_releases, seed)
        for _, secrets, released in drawn_releases(*known):
            odds = self._exact._test.log_odds(released, noise_scale, self.prior)
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
        known = self.rules[name], self.attacks[name]

        def ask(model: Any, target: int) -> list[Any]:
            return [each[target] for each in self.asked(*known, model)]

        said, member = self._answers(ask, noise, self.n_releases, seed)
        return self._rated(said[:, :1], member[:, None], said[:, 1:] == 1.0)

    def _rated(self, score: FloatArray, member: BoolArray, guess: BoolArray) -> Outcome:
        own = self.confidence_level, len(self.rules)
        found = rates(score, member, np.ones(member.shape, dtype=bool), *own, guesses=guess)
        hits, tabled = np.array(np.sum(guess == member)), np.array(list(found.values()))
        return {"hits": hits, "games": np.array(member.size), "rates": tabled}

    def _losses(self, noise: Any, seed: np.random.SeedSequence) -> Outcome:
        """Losses of records that were drawn in or out, under the model that was released.

        Returns ``losses`` in [0, 1] and ``member``, of shape (games,).
        """
        where = self.released[2]

        def ask(model: Any, target: int) -> float:
            X, y = self.data(self.units.take(np.array([target])).rows)
            return float(normalized_losses(model, X, y, self.classifies, where).mean())

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


class _ReleasedMembership(MembershipGame, ReleasedDesign):
    """Train on random members, release the model, and attack all candidates."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.max_advantage, self.parts = float(task.max_advantage), self._parts(task)
        where = self.y if self.reference is None else self.reference[2]
        self.scored = self.model, self.y, where
        if self.private_sgd:
            self.n_curve, self.beyond = 12, 1.0  # each takes the accounting of a training

    def _parts(self, task: Task) -> dict[str, Array]:
        """Group candidates by class, by a column, and with copies of the same record."""
        targets, table = self.targets, task.table
        parts: dict[str, Array] = {"class": self.y[targets]} if self.classifies else {}
        n_columns, index = table.shape[1], row_labels(table)
        if task.groups is not None:
            names = column_names(table)
            place = int(resolve_features(task.groups, names, n_columns, "groups")[0])
            labels = checked_labels(raw_column(table, place), len(self.y))
            parts["group"] = labels[targets]
        if not self.units.is_single:
            return parts
        codes = pd.Series(row_codes(Records(take_rows(table, targets), self.y[targets])))
        several = codes.duplicated(keep=False)
        if several.any():
            # Called by the first of them.
            called = flat_labels(targets if index is None else index[targets].to_numpy())
            first = codes.groupby(codes).transform("idxmin")
            parts["copies"] = np.array(np.where(several, called.astype(object)[first], None))
        return parts

    def cells(self) -> dict[str, Cell]:
        """One release each."""
        numbers = range(self.n_releases)
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
        rules, attacks, goal = self.rules, self.attacks, self.goal
        game = Release(self, self._entropy, number)
        test, levels, rows = None, self.noise_scales, []
        if self.state is not None:
            test = pair_test(self.state.objective, game.rows, self.units)
        if self.reference is None:
            attacks = self.fitted(attacks, game.known)
        distance = np.full(len(game.member), np.nan)
        for level, (fitted, model) in zip(levels, game.models(levels), strict=True):
            scale = level if goal is None else float(last_step(fitted).noise_scale_)
            off, odds = np.nan, np.empty(0)
            if test is not None:
                if self.scale is not None:
                    told = self.scale.without(game.rows, self.units) != scale
                    test = replace(test, steps=np.where(told[:, None], np.inf, test.steps))
                if not self.uncounted:
                    # As at the level of the tables, where each release has a scale of its own.
                    unit = 1.0 if goal is None else level / scale
                    distance = np.where(test.separations(0.0) > 0.0, test.distances * unit, 0.0)
                released = released_parameters(model, len(test.own))
                odds = test.log_odds(released, scale, self.prior)
                off = float(np.linalg.norm(released - test.own))
            allowed = self.allowed.get(scale, np.nan)
            own = goal is None and not self.task.goals
            if own and hasattr(fitted, "_confidential_state"):
                allowed = self.dp_success(fitted, fitted._confidential_state())
            said = [
                (odds, odds > 0.0) if rule == "exact" else self.asked(rule, attacks[name], model)
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
        checks = self._checks
        done = [outcomes[key] for key in self.cells() if key in outcomes]
        if self.state is None or not self.known or not done:
            return checks
        wrong = set(checks["noise_scale"][~checks["passed"].astype(bool)])
        rows, error = checks.to_dict("records"), encoding_error(self.noiseless)
        for k, level in enumerate(self.noise_scales):
            if level > 0.0 and level not in wrong:
                off, scale = np.array([(each["off"][k], each["scale"][k]) for each in done]).T
                row = check_distances(off / scale, len(self.noiseless), error / scale.min())
                rows.append({"noise_scale": level, "n_releases": len(done), **row})
        table = level_table(self.model, rows)
        return table.sort_values("noise_scale", kind="stable", ignore_index=True)

    def attack_rows(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """One row for each noise level and attack; keep the largest distances over releases."""
        done = [outcomes[key]["distance"] for key in self.cells() if key in outcomes]
        if done and not np.isnan(done[0]).any():
            self.unit_distances = np.max(done, axis=0)
        return super().attack_rows(outcomes)

    def any_prior(self, noise: float) -> dict[str, Any] | None:
        """Columns that hold for every attacker: of private SGD from its trade-off curve."""
        if self.sgd is None or not self.allowed:
            return super().any_prior(noise)
        return self.sgd.columns(noise, len(self.targets), membership=True)

    def utility_at(self, noise: float) -> float:
        """Mean score of some trainings at any noise scale, on members of their own."""
        own, scores = copy.copy(self), []
        own.goal = None
        for number in self.few_releases:
            game = Release(own, self._entropy, number)
            _, model = next(game.models([noise]))
            scores.append(float(model.score(*game.reference)))
        return float(np.mean(scores))

    def noiseless_utility(self, outcomes: Mapping[str, Outcome]) -> float:
        # In the order of the releases, whichever was finished first.
        return float(pd.Series([float(outcomes[key]["noiseless"]) for key in self.cells()]).mean())
