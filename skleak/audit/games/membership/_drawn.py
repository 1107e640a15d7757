"""The game of membership about one record at a time: all others are known to be members."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import Shell, models_with
from skleak.adversary.knowledge import take_rows
from skleak.attacks import LikelihoodRatioMembership
from skleak.audit.games._bounds import success_bounds
from skleak.audit.games._game import Cell
from skleak.audit.games._levels import GAMES, GAP, seed_of
from skleak.audit.games._trials import SINGLE_GAMES, draw_secrets
from skleak.audit.games.membership._attacks import MembershipAttack
from skleak.audit.games.membership._release import answer, behind, fitted_once
from skleak.audit.games.membership._subject import MembershipSubject, normalized_losses
from skleak.audit.noise._mechanism import colored
from skleak.audit.tables._design import MembershipDesign, Outcome
from skleak.audit.tables._rates import rates
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, BoolArray, FloatArray

_ELEMENTS = 1 << 23
# Encodings are known to about this, relative to the parameters.
_ROUND_OFF = 1e-10


def fit_drawn_attacks(
    subject: MembershipSubject, estimator: Any, attacks: Mapping[str, MembershipAttack]
) -> tuple[LikelihoodRatioMembership, dict[str, Any]]:
    """Return the exact test with its encodings, and the attacks on models.

    Returns ``exact``: fitted; ``fitted``: attacks by name; the exact test is the very same object.
    """
    exact = LikelihoodRatioMembership(
        estimator, method="exact", prior=subject.prior, records=subject.targets
    )
    exact.fit(subject.raw, subject.y, sample_weight=subject.weights)
    X, y = take_rows(subject.X, subject.targets), subject.y[subject.targets]
    raw, *reference = (None, None, None) if subject.reference is None else subject.reference
    fitted: dict[str, Any] = {}
    for name, each in attacks.items():
        if each.rule == "exact":
            fitted[name] = exact
        elif each.rule == "score":
            fitted[name] = each.attack.fit(X, y, *reference)
        else:
            fitted[name] = fitted_once(each, subject, raw, reference[1]).attack
    return exact, fitted


@dataclass(frozen=True)
class DrawnGames:
    """Parts that the games of all noise levels share; `passed` attacks are the caller's."""

    subject: MembershipSubject
    design: MembershipDesign
    exact: LikelihoodRatioMembership
    attacks: Mapping[str, Any]
    passed: Collection[str]
    shell: Shell
    where: tuple[Any, Array]
    entropy: list[int]
    told: BoolArray  # targets that the noise scale tells, (n_targets,)
    ratios: FloatArray  # noise without and with each target, over that of all records

    def at_level(self, k: int, scale: float, noise: FloatArray) -> dict[str, Cell]:
        """Cells of attacks, bounds and the gap of losses at one noise level."""
        subject, design, encodings = self.subject, self.design, self.exact.encodings_
        prior = np.broadcast_to([1.0 - subject.prior, subject.prior], (len(encodings), 2))
        names = [name for name in design.bounds if name != "dp"]
        known = (self.told, encodings, prior, scale, names)
        cells: dict[str, Cell] = {} if subject.uncounted else {"bounds": (_told_bounds, known)}
        draws = _Draws(encodings, prior, noise, self.told, self.ratios)
        seed = seed_of(self.entropy, k, GAMES)
        rest = (draws, design.n_releases, design.confidence_level, len(self.attacks), seed)
        for name, attack in self.attacks.items():
            if attack is self.exact:
                cells[name] = (play_exact, (scale, *rest))
                continue
            # Attacks of ours ask the model, those that were passed all of the pipeline.
            raw = subject.preprocessing if name in self.passed else None
            cells[name] = (play_models, (attack, self.shell, raw, *rest))
        own = (take_rows(subject.X, subject.targets), subject.y[subject.targets])
        asked = (self.shell, *own, subject.classifies, self.where)
        cells["gap"] = (drawn_losses, (*asked, draws, seed_of(self.entropy, k, GAP)))
        return cells


@dataclass(frozen=True)
class _Draws:
    """Parameters without and with each target, (n_targets, 2, p), their prior, and the noise."""

    encodings: FloatArray
    prior: FloatArray  # (n_targets, 2)
    noise: FloatArray  # (p,) or (p, p)
    told: BoolArray
    ratios: FloatArray

    def models(
        self, shell: Shell, n_games: int, seed: np.random.SeedSequence
    ) -> Iterator[tuple[int, bool, Any]]:
        """Draw for each game a target, whether it was trained on, and the released model."""
        generator = np.random.default_rng(seed)
        targets = generator.integers(len(self.encodings), size=n_games)
        secrets = draw_secrets(self.prior[targets], 1, generator)[0]
        draws = generator.normal(size=(n_games, self.encodings.shape[-1]))
        draws *= self.ratios[targets, secrets][:, None]
        releases = self.encodings[targets, secrets] + colored(self.noise, draws)
        models = models_with(shell, releases)
        for target, secret, model in zip(targets, secrets, models, strict=True):
            yield int(target), bool(secret), model


def _told_bounds(told: BoolArray, *known: Any) -> Outcome:
    """Bounds on the success about each record: none where the noise scale tells it."""
    return {
        name: np.where(told, 0.0 if name == "standard_error" else 1.0, values)
        for name, values in success_bounds(*known).items()
    }


def play_exact(
    noise_scale: float,
    draws: _Draws,
    n_releases: int,
    level: float,
    n_attacks: int,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Let the exact test guess, with releases of its own for every target.

    Returns ``counts`` of right guesses of each target, ``hits`` and ``games``; ``rates``, see
    `skleak.audit.tables._rates.Rates`.
    """
    generator, encodings, prior = np.random.default_rng(seed), draws.encodings, draws.prior
    n_targets, _, p = encodings.shape
    everyone = np.arange(n_targets)
    own = encodings[:, 1]
    steps = encodings[:, 0] - own
    half = 0.5 * (steps**2).sum(axis=1)
    # As in the test itself: what differs by less is not told apart, even without noise.
    floor = _ROUND_OFF * max(1.0, float(np.linalg.norm(own[0])))
    log_odds = np.log(prior[:, 1]) - np.log(prior[:, 0])
    scores, members = [], []
    for rows in row_blocks(n_releases, n_targets * p, _ELEMENTS):
        n = rows.stop - rows.start
        secrets = draw_secrets(prior, n, generator)
        released = colored(draws.noise, generator.normal(size=(n, n_targets, p)))
        released += encodings[everyone, secrets] - own
        odds = half - np.einsum("rtp,tp->rt", released, steps)
        odds = odds / max(noise_scale, floor) ** 2 + log_odds
        scores.append(np.where(draws.told, np.where(secrets == 1, np.inf, -np.inf), odds))
        members.append(secrets == 1)
    score, member = np.concatenate(scores), np.concatenate(members)
    counts = ((score > 0.0) == member).sum(axis=0)
    everything = np.ones(member.shape, dtype=bool)
    return {
        "counts": counts,
        "hits": np.array(counts.sum()),
        "games": np.array(n_releases * n_targets),
        "rates": np.array(rates(score, member, everything, level, n_attacks)),
    }


def play_models(
    attack: Any,
    shell: Shell,
    preprocessing: Any,
    draws: _Draws,
    n_releases: int,
    level: float,
    n_attacks: int,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Let an attack guess that asks models, about targets drawn at random: hits and rates."""
    members, guesses, scores = [], [], []
    n_targets = len(draws.encodings)
    games = max(n_releases, min(SINGLE_GAMES, n_releases * n_targets))
    for target, member, model in draws.models(shell, games, seed):
        asked = behind(preprocessing, model)
        members.append(member)
        guesses.append(bool(answer(attack, "predict", asked, n_targets)[target]))
        score = np.nan
        if hasattr(attack, "decision_function"):
            score = answer(attack, "decision_function", asked, n_targets)[target]
        scores.append(float(score))
    truth = np.array(members)
    found = rates(
        np.array(scores)[:, None],
        truth[:, None],
        np.ones((games, 1), dtype=bool),
        level,
        n_attacks,
        guesses=np.array(guesses)[:, None],
    )
    return {
        "hits": np.array(np.sum(np.array(guesses) == truth)),
        "games": np.array(games),
        "rates": np.array(found),
    }


def drawn_losses(
    shell: Shell,
    X: Any,
    y: Array,
    classifies: bool,
    reference: tuple[Any, Array],
    draws: _Draws,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Losses of records that were drawn in or out, under the model that was released.

    Shapes: ``X``, ``y`` (n_targets, d); returns ``losses`` in [0, 1] and ``member``, of shape
    (games,).
    """
    losses, members = [], []
    for target, member, model in draws.models(shell, SINGLE_GAMES, seed):
        row = (take_rows(X, np.array([target])), y[[target]])
        losses.append(normalized_losses(model, *row, classifies, reference)[0])
        members.append(member)
    return {"losses": np.array(losses), "member": np.array(members)}
