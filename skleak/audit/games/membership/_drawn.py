"""The game of membership about one record at a time: all others are known to be members."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skleak.adversary._consistency import ignoring_mismatches
from skleak.adversary._encodings import PublicModel, noiseless
from skleak.adversary._knowledge import take_rows
from skleak.adversary._models import Shell, fit_shell, models_with
from skleak.attacks import LikelihoodRatioMembership
from skleak.audit.games._bounds import success_bounds
from skleak.audit.games._game import Outcome, draw_secrets
from skleak.audit.games._mechanism import colored
from skleak.audit.games.membership._attacks import MembershipAttack
from skleak.audit.games.membership._rates import normalized_losses, rates
from skleak.audit.games.membership._release import fitted_once
from skleak.audit.games.membership._subject import MembershipSubject
from skleak.audit.run._cells import Cell
from skleak.audit.run._plan import utility
from skleak.audit.tables._attribute import cell_key
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, FloatArray

__all__ = ["drawn_cells", "fit_drawn_attacks", "play_exact", "play_models"]

_ELEMENTS = 1 << 23
# Games about records that take turns, at least.
_SINGLE_GAMES = 1000
# Encodings are known to about this, relative to the parameters.
_ROUND_OFF = 1e-10
_GAMES, _UTILITY, _GAP = 0, 1, 3


def fit_drawn_attacks(
    subject: MembershipSubject, estimator: Any, attacks: Mapping[str, MembershipAttack]
) -> tuple[LikelihoodRatioMembership, dict[str, Any]]:
    """The exact test with its encodings, and the attacks on models.

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


def drawn_cells(
    subject: MembershipSubject,
    design: Any,
    exact: LikelihoodRatioMembership,
    attacks: Mapping[str, Any],
    passed: Collection[str],
    noise: Mapping[float, FloatArray],
    entropy: list[int],
) -> dict[str, Cell]:
    """All cells by key: attacks, bounds, gap and utility at every noise level."""
    encodings = exact.encodings_
    prior = np.broadcast_to([1.0 - subject.prior, subject.prior], (len(encodings), 2))
    public = PublicModel(None, noiseless(subject.trained), 0.0)
    shell = fit_shell(public, subject.X, subject.y, subject.weights)
    where = (subject.X, subject.y) if subject.reference is None else subject.reference[1:]
    own = (take_rows(subject.X, subject.targets), subject.y[subject.targets])
    cells: dict[str, Cell] = {}
    for k, level in enumerate(design.noise_scales):
        streams = [
            np.random.SeedSequence(entropy, spawn_key=(k, s)) for s in (_GAMES, _UTILITY, _GAP)
        ]
        names = [name for name in design.bounds if name != "dp"]
        cells[cell_key(level, "bounds")] = (success_bounds, (encodings, prior, level, names))
        games = (encodings, prior, noise[level])
        rest = (*games, design.n_releases, design.confidence_level, streams[0])
        for name, attack in attacks.items():
            if attack is exact:
                cells[cell_key(level, name)] = (play_exact, (level, *rest))
                continue
            # Attacks of ours ask the model, those that were passed all of the pipeline.
            raw = subject.preprocessing if name in passed else None
            cells[cell_key(level, name)] = (play_models, (attack, shell, raw, *rest))
        arguments = (shell, *own, subject.classifies, where, *games, streams[2])
        cells[cell_key(level, "gap")] = (drawn_losses, arguments)
        quiet = encodings[0, 1]
        releases = (shell, quiet, noise[level], design.n_releases, streams[1])
        cells[cell_key(level, "utility")] = (utility, (*releases, *where))
    none = (shell, quiet, np.zeros(len(quiet)), 1, streams[1])
    cells[cell_key(0.0, "noiseless")] = (utility, (*none, *where))
    return cells


def play_exact(
    noise_scale: float,
    encodings: FloatArray,
    prior: FloatArray,
    noise: FloatArray,
    n_releases: int,
    confidence_level: float,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Let the exact test guess, with releases of its own for every target.

    Shapes: ``encodings`` (n_targets, 2, p); ``prior`` (n_targets, 2); ``noise`` (p,) or (p, p);
    returns ``counts`` of right guesses of each target, ``hits`` and ``games``; ``rates``, see
    `skleak.audit.games.membership._rates.Rates`.
    """
    generator = np.random.default_rng(seed)
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
        released = colored(noise, generator.normal(size=(n, n_targets, p)))
        released += encodings[everyone, secrets] - own
        odds = half - np.einsum("rtp,tp->rt", released, steps)
        scores.append(odds / max(noise_scale, floor) ** 2 + log_odds)
        members.append(secrets == 1)
    score, member = np.concatenate(scores), np.concatenate(members)
    counts = ((score > 0.0) == member).sum(axis=0)
    everything = np.ones(member.shape, dtype=bool)
    return {
        "counts": counts,
        "hits": np.array(counts.sum()),
        "games": np.array(n_releases * n_targets),
        "rates": np.array(rates(score, member, everything, confidence_level)),
    }


def play_models(
    attack: Any,
    shell: Shell,
    preprocessing: Any,
    encodings: FloatArray,
    prior: FloatArray,
    noise: FloatArray,
    n_releases: int,
    confidence_level: float,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Let an attack guess that asks models, about targets drawn at random.

    Returns ``hits``, ``games`` and ``rates``.
    """
    members, guesses, scores = [], [], []
    games = max(n_releases, min(_SINGLE_GAMES, n_releases * len(encodings)))
    for target, member, model in _games(shell, encodings, prior, noise, games, seed):
        asked = _behind(preprocessing, model)
        members.append(member)
        guesses.append(bool(_answer(attack, "predict", asked, len(encodings))[target]))
        score = np.nan
        if hasattr(attack, "decision_function"):
            score = _answer(attack, "decision_function", asked, len(encodings))[target]
        scores.append(float(score))
    truth = np.array(members)
    each = (np.array(scores)[:, None], truth[:, None], np.ones((games, 1), dtype=bool))
    return {
        "hits": np.array(np.sum(np.array(guesses) == truth)),
        "games": np.array(games),
        "rates": np.array(rates(*each, confidence_level)),
    }


def drawn_losses(
    shell: Shell,
    X: Any,
    y: Array,
    classifies: bool,
    reference: tuple[Any, Array],
    encodings: FloatArray,
    prior: FloatArray,
    noise: FloatArray,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Losses of records that were drawn in or out, under the model that was released.

    Shapes: ``X``, ``y`` (n_targets, d); returns ``losses`` in [0, 1] and ``member``, of shape
    (games,).
    """
    losses, members = [], []
    for target, member, model in _games(shell, encodings, prior, noise, _SINGLE_GAMES, seed):
        row = (take_rows(X, np.array([target])), y[[target]])
        losses.append(normalized_losses(model, *row, classifies, reference)[0])
        members.append(member)
    return {"losses": np.array(losses), "member": np.array(members)}


def _games(
    shell: Shell,
    encodings: FloatArray,
    prior: FloatArray,
    noise: FloatArray,
    n_games: int,
    seed: np.random.SeedSequence,
) -> Iterator[tuple[int, bool, Any]]:
    """A target, whether it was trained on, and the model that was released; for each game."""
    generator = np.random.default_rng(seed)
    targets = generator.integers(len(encodings), size=n_games)
    secrets = draw_secrets(prior[targets], 1, generator)[0]
    draws = generator.normal(size=(n_games, encodings.shape[-1]))
    releases = encodings[targets, secrets] + colored(noise, draws)
    for target, secret, model in zip(targets, secrets, models_with(shell, releases), strict=True):
        yield int(target), bool(secret), model


def _behind(preprocessing: Any, model: Any) -> Any:
    if preprocessing is None:
        return model
    return Pipeline([*preprocessing.steps, ("model", model)])


def _answer(attack: Any, method: str, model: Any, n_targets: int) -> Array:
    with ignoring_mismatches():
        answer = np.asarray(getattr(attack, method)(model))
    if answer.shape != (n_targets,):
        raise ValueError(
            f"{type(attack).__name__}.{method} must return one number for each of the {n_targets} "
            f"candidates from one model; got shape {answer.shape}."
        )
    return answer
