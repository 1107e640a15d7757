"""Games of membership: of one record at a time, or of random training sets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.hypotheses import PublicModel, encoding_error, fit_shell, noiseless
from skleak.adversary.knowledge import column_names, raw_column, take_rows
from skleak.audit.games._bounds import check_bounds
from skleak.audit.games._game import Cell, Facts, Game, Task
from skleak.audit.games._levels import Releases, level_cells, noiseless_utility
from skleak.audit.games._scale import asked_goal, scale_sentence
from skleak.audit.games.membership._attacks import choose_membership_attacks
from skleak.audit.games.membership._drawn import DrawnGames, fit_drawn_attacks
from skleak.audit.games.membership._release import dp_parameter, fitted_once, play_release
from skleak.audit.games.membership._subject import (
    MembershipSubject,
    bounded,
    membership_levels,
    study,
)
from skleak.audit.noise._hypotheses import Hypotheses, check_distances, warn_of_hypotheses
from skleak.audit.noise._mechanism import Trained, check_rows, noise_of_levels
from skleak.audit.tables._design import MembershipDesign, Outcome, release_key
from skleak.audit.tables._membership import (
    membership_groups,
    membership_records,
    membership_results,
)
from skleak.metrics import simultaneous_confidence_level
from skleak.utils._features import resolve_features
from skleak.utils._records import checked_labels, row_labels
from skleak.utils._typing import Array, FloatArray


@dataclass(frozen=True, kw_only=True)
class MembershipFacts(Facts):
    """Settings of a game of membership as its report states them."""

    membership_prior: float
    reference: str
    n_reference: int
    n_always: int  # records that are in every training set
    gap_loss: str
    has_noise: bool
    exact_test: str  # why there is none
    unchecked: str  # what nothing was compared of, although releases had noise of the estimator


def membership_game(task: Task) -> Game:
    """Return the game that the secrets of a task ask for."""
    return _DrawnMembership(task) if task.drawn else _ReleasedMembership(task)


class _MembershipGame(Game):
    """Tell who was trained on."""

    kind = "membership"
    design: MembershipDesign
    elsewhere: str  # what utility is measured on without test records
    reference: str  # what attacks are calibrated on then

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.subject = subject = study(task)
        self.played = choose_membership_attacks(
            task.attacks, subject, int(task.n_releases), task.drawn
        )
        levels, bounds = membership_levels(task.noise_scales, subject), _asked(task.bounds)
        if "dp" in bounds and not task.drawn:
            self.subject = subject = bounded(subject, levels, asked=task.bounds != "all")
        bounds = tuple(name for name in bounds if task.drawn or name in ("dp", "bayes"))
        if subject.scale is not None:
            # Refits of each game, or of one.
            n_games = 1 if task.drawn else int(task.n_releases)
            missing = subject.scale.missing(n_games * len(subject.targets))
            self.subject = subject = replace(subject, uncounted=missing)
        if subject.goal is not None:
            # A guarantee supposes that the noise scale is public.
            bounds = () if subject.uncounted else tuple(name for name in bounds if name != "dp")
        level, n_verdicts = task.confidence_level, len(self.played) * len(levels)
        self.design = MembershipDesign(
            targets=subject.targets,
            prior=subject.prior,
            max_advantage=float(task.max_advantage),
            parts={} if task.drawn else _parts(task, subject),
            attacks={name: attack.rule for name, attack in self.played.items()},
            noise_scales=levels,
            bounds=bounds,
            n_releases=int(task.n_releases),
            drawn=task.drawn,
            confidence_level=level,
            classifies=subject.classifies,
            verdict_level=simultaneous_confidence_level(level, n_verdicts),
        )
        self._noise: dict[float, FloatArray] = {}

    def _check_noise(
        self,
        entropy: list[int],
        hypotheses: Hypotheses | None,
        directions: FloatArray | None = None,
    ) -> None:
        subject = self.subject
        if subject.noiseless is not None:
            trained = Trained(
                model=subject.trained,
                X=subject.X,
                y=subject.y,
                weights=subject.weights,
                noiseless=subject.noiseless,
                noise=subject.noise,
                hypotheses=hypotheses,
                directions=directions,
            )
            known = (self.design.noise_scales, entropy, self.task.n_jobs)
            self._noise, self._checks = noise_of_levels(trained, *known)

    def results(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        return membership_results(self.design, outcomes)

    def records(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        return membership_records(self.design, outcomes)

    def groups(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        return membership_groups(self.design, outcomes)

    def facts(self, outcomes: Mapping[str, Outcome]) -> MembershipFacts:
        subject, tested = self.subject, self.subject.reference is not None
        reference = "test records" if tested else self.reference
        return MembershipFacts(
            **self.shared_facts(),
            prior=f"{subject.prior:g}",
            values=[],
            bounds=self.design.bounds,
            utility_data="test records" if tested else self.elsewhere,
            noiseless_utility=self._noiseless_utility(outcomes),
            noise_covariance=subject.noise.name,
            membership_prior=subject.prior,
            reference=reference,
            n_reference=0 if reference == "none" else subject.n_reference,
            n_always=len(subject.others),
            gap_loss="zero_one" if subject.classifies else "clipped_squared",
            has_noise=subject.has_noise,
            exact_test=subject.obstacle or subject.uncounted,
            scale=scale_sentence(subject.goal, subject.uncounted, asked=asked_goal(self.task)),
            uncounted=subject.uncounted,
            unchecked=self._unchecked(),
            private_sgd=subject.private_sgd,
        )

    def _noiseless_utility(self, outcomes: Mapping[str, Outcome]) -> float:
        raise NotImplementedError

    def _unchecked(self) -> str:
        subject = self.subject
        if not subject.has_noise or self.design.noise_scales[-1] == 0.0:
            return ""
        if subject.private_sgd:
            return "whether the estimator adds the noise that it states to its gradients"
        if subject.noiseless is None:
            return (
                "whether the estimator adds the noise that it states, since the audit does not "
                "know its parameters without noise"
            )
        if subject.obstacle:
            return (
                "whether attacks suppose the training that the estimator does, since there is no "
                "exact test to hold releases against"
            )
        return ""


class _DrawnMembership(_MembershipGame):
    """Draw one record at a time in or out: all others are known to be members."""

    elsewhere, reference = "training records", "none"

    def prepare(self, entropy: list[int]) -> None:
        subject, levels = self.subject, self.design.noise_scales
        self._entropy = entropy
        self._exact, self.attacks = fit_drawn_attacks(subject, self.task.estimator, self.played)
        without, own = np.moveaxis(self._exact.encodings_, 1, 0)
        self._check_noise(entropy, Hypotheses.near(own), without - own)
        # What games about one record know without playing them.
        model = noiseless(subject.trained).fit(subject.X, subject.y, **subject.weight_argument())
        state = model._confidential_state()
        dp = tuple(dp_parameter(subject.trained, state.at_noise(level)) for level in levels)
        distances = self._exact.distances_
        self._told = np.zeros(len(distances), dtype=bool)
        self._ratios = np.ones((len(distances), 2))
        if subject.scale is not None and not subject.uncounted:
            everyone = np.arange(len(subject.y))
            scales = subject.scale.without(everyone, subject.targets)
            self._told = scales != levels[-1]
            self._ratios[:, 0] = np.where(np.isnan(scales), 1.0, scales / levels[-1])
            distances = np.where(self._told, np.inf, distances)
        if subject.uncounted:
            distances = np.full(len(distances), np.nan)
        self.design = replace(self.design, dp=dp, distances=distances)

    def cells(self) -> dict[str, Cell]:
        """Attacks, bounds, gap and utility at every noise level."""
        subject, quiet = self.subject, self._exact.encodings_[0, 1]
        public = PublicModel(None, noiseless(subject.trained), 0.0)
        shell = fit_shell(public, subject.X, subject.y, subject.weights)
        where = (subject.X, subject.y) if subject.reference is None else subject.reference[1:]
        games = DrawnGames(
            subject,
            self.design,
            self._exact,
            self.attacks,
            [name for name, attack in self.played.items() if attack.rule == "own"],
            shell,
            where,
            self._entropy,
            self._told,
            self._ratios,
        )
        releases = Releases(shell, quiet, self._noise, where)
        return level_cells(self.design, releases, self._entropy, games.at_level)

    def _noiseless_utility(self, outcomes: Mapping[str, Outcome]) -> float:
        return noiseless_utility(outcomes)


class _ReleasedMembership(_MembershipGame):
    """Train on random members, release the model, and attack all candidates."""

    elsewhere, reference = "held-out candidates", "held out"

    def prepare(self, entropy: list[int]) -> None:
        """Fit the attacks that one fit serves in all releases, and check the noise."""
        subject = self.subject
        self._entropy = entropy
        self._check_noise(entropy, None)
        if subject.reference is not None:
            raw, _, known = subject.reference
            for name, attack in self.played.items():
                if attack.rule == "own":
                    self.played[name] = fitted_once(attack, subject, raw, known)
        self.attacks = {name: each.attack or each.rule for name, each in self.played.items()}

    def cells(self) -> dict[str, Cell]:
        """One release each."""
        shared = (self.subject, self.played, self.design.noise_scales, self._entropy)
        numbers = range(self.design.n_releases)
        return {release_key(number): (play_release, (*shared, number)) for number in numbers}

    def checks(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        """Add how far the models of the games are from what the exact test takes them for.

        Each is trained on members of its own. Where the noise is not as stated, that is what is
        said.
        """
        checks, design, own = self._checks, self.design, self.subject.noiseless
        if self.subject.objective is None or own is None:
            return checks
        off = np.stack([outcomes[release_key(r)]["off"] for r in range(design.n_releases)])
        error = encoding_error(own)
        wrong = set(checks["noise_scale"][~checks["passed"].astype(bool)])
        scales = np.stack([outcomes[release_key(r)]["scale"] for r in range(design.n_releases)])
        found = {
            level: check_distances(off[:, k] / scales[:, k], len(own), error / scales[:, k].min())
            for k, level in enumerate(design.noise_scales)
            if level > 0.0 and level not in wrong
        }
        warn_of_hypotheses(self.subject.trained, found)
        rows = [check_rows(level, design.n_releases, [check]) for level, check in found.items()]
        order = pd.concat([checks, *rows]).sort_values("noise_scale", kind="stable")
        return order.reset_index(drop=True)

    def _noiseless_utility(self, outcomes: Mapping[str, Outcome]) -> float:
        """Mean score of models without noise; NaN where the estimator adds none."""
        # In the order of the releases, whichever was finished first.
        scores = [float(outcomes[key]["noiseless"]) for key in self.cells()]
        known = [score for score in scores if not np.isnan(score)]
        return float(np.mean(known)) if known else np.nan


def _parts(task: Task, subject: MembershipSubject) -> dict[str, Array]:
    """Group candidates by class, by a column, and with copies of the same record."""
    targets, rows_of = subject.targets, row_labels(task.table)
    parts: dict[str, Array] = {}
    if subject.classifies:
        parts["class"] = subject.y[targets]
    names, n_columns = column_names(task.table), task.table.shape[1]
    if task.groups is not None:
        place = int(resolve_features(task.groups, names, n_columns, "groups")[0])
        labels = checked_labels(raw_column(task.table, place), len(subject.y))
        parts["group"] = labels[targets]
    rows = pd.DataFrame(take_rows(task.table, targets)).reset_index(drop=True)
    rows.columns = range(n_columns)
    rows[n_columns] = subject.y[targets]
    hashes = pd.util.hash_pandas_object(rows, index=False).to_numpy()
    _, first, same, counts = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    if np.any(counts > 1):
        # Called by the first of them.
        called: Array = np.empty(len(targets), dtype=object)
        called[:] = [
            ", ".join(map(str, label)) if isinstance(label, tuple) else label
            for label in (targets if rows_of is None else rows_of[targets])
        ]
        copies = called[first[same]]
        copies[counts[same] == 1] = None
        parts["copies"] = copies
    return parts


def _asked(bounds: Any) -> tuple[str, ...]:
    """Names of bounds: those of other audits, and ``dp``."""
    if isinstance(bounds, str) and bounds == "all":
        return ("dp", *check_bounds("all"))
    names = [bounds] if isinstance(bounds, str) else list(bounds)
    rest = check_bounds([name for name in names if name != "dp"])
    return ("dp", *rest) if "dp" in names else rest
