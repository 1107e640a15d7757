"""One seeded trial of an attack: draw releases, let it guess, count what it got right."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import ignoring_mismatches
from skleak.adversary.knowledge import NumberPrior
from skleak.adversary.reconstruction import NumberEncodings
from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    PosteriorMeanReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit.games._fitted import FittedReleases
from skleak.audit.noise._mechanism import colored
from skleak.audit.noise._shaped import ShapedNoise
from skleak.audit.tables._design import Outcome
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, FloatArray, IntArray

_BASELINES = (PriorAttack, ImputationAttack)
# Entries of one block of releases or of guesses: 64 MB.
_ELEMENTS = 1 << 23
# Games of an attack that must read a release whole, at least: all targets take turns.
SINGLE_GAMES = 1000
# The bound for unbiased attacks is compared where it is at most this share of the spread. Elsewhere
# what is known of the records decides, if only their range, and any sensible attack is biased.
_SHARP = 0.1
# Squared errors are cut here so that their sums stay finite: a guess this far off is just wrong.
_FAR_OFF = 1e100


def play_actual(
    attack: Any,
    noiseless: FloatArray,
    secrets: Array,
    noise: FloatArray | FittedReleases,
    noise_scale: float,
    n_releases: int,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Attack the data as they are: every release is about all records at once.

    Shapes: ``noiseless`` (p,); ``secrets`` (n_targets,); ``noise`` (p,) or (p, p), or the releases;
    returns ``shares``, of right guesses in each release; ``counts``, over releases, of each target;
    ``hits`` and ``games``; ``exact``, whether the releases make no difference, as the attack
    ignores them or there is no noise, so that its success on these records is a fact.
    """
    generator = np.random.default_rng(seed)
    shares, counts = [], np.zeros(len(secrets), dtype=np.int64)
    for rows in row_blocks(n_releases, len(secrets), _ELEMENTS):
        releases = _released(noiseless, noise, rows, generator)
        right = _guess(attack, releases, noise_scale, len(secrets)) == secrets
        shares.append(right.mean(axis=1))
        counts += right.sum(axis=0)
    return {
        "shares": np.concatenate(shares),
        "counts": counts,
        "hits": np.array(counts.sum()),
        "games": np.array(n_releases * len(secrets)),
        "exact": np.array(_ignores_releases(attack) or _is_constant(noise, shares)),
    }


def play_drawn(
    attack: Any,
    encodings: FloatArray,
    values: Array,
    prior: FloatArray,
    noise: FloatArray | ShapedNoise | FittedReleases,
    noise_scale: float,
    n_releases: int,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Play the game of [FANO23] figure 1: the secret of one record is drawn from its prior.

    Every release belongs to a game of its own, with fresh noise, so that all guesses are
    independent. Attacks that can be asked about one target a release play `n_releases` games
    for every target; others play at least a thousand games about targets drawn at random. Of
    these the library's own guess the target of a game, and any other attack guesses all.

    Shapes: ``encodings`` (n_targets, n_values, p); ``values`` (n_values,); ``prior`` (n_targets,
    n_values); ``noise`` (p,) or (p, p), or the releases of games that were fitted; returns ``hits``
    and ``games``, and ``counts`` of each target where each plays its own games.
    """
    generator = np.random.default_rng(seed)
    n_targets, _, p = encodings.shape
    if isinstance(noise, FittedReleases):
        right = _guess_fitted(attack, noise, noise_scale, n_targets) == values[noise.secrets]
        counts = np.bincount(noise.targets[right], minlength=n_targets)
        return {"counts": counts, "hits": np.array(right.sum()), "games": np.array(len(right))}
    if plays_each(attack):
        everyone, counts = np.arange(n_targets), np.zeros(n_targets, dtype=np.int64)
        for rows in row_blocks(n_releases, n_targets * p, _ELEMENTS):
            secrets = draw_secrets(prior, _length(rows), generator)
            if _ignores_releases(attack):
                releases = np.broadcast_to(encodings[:, 0], (_length(rows), n_targets, p))
            else:
                draws = generator.normal(size=(_length(rows), n_targets, p))
                if isinstance(noise, ShapedNoise):
                    releases = noise.of_each(secrets, draws)
                else:
                    releases = colored(noise, draws)
                releases += encodings[everyone, secrets]
            guesses = attack.predict_each(releases, noise_scale)
            counts += (guesses == values[secrets]).sum(axis=0)
        played = np.array(n_releases * n_targets)
        return {"counts": counts, "hits": np.array(counts.sum()), "games": played}
    games = max(n_releases, min(SINGLE_GAMES, n_releases * n_targets))
    targets = generator.integers(n_targets, size=games)
    width = p if _answers_some(attack) else n_targets
    secrets = draw_secrets(prior[targets], 1, generator)[0]
    hits = 0
    for rows in row_blocks(games, width, _ELEMENTS):
        drawn = targets[rows], secrets[rows]
        draws = generator.normal(size=(_length(rows), p))
        if isinstance(noise, ShapedNoise):
            releases = encodings[drawn] + noise.of_some(*drawn, draws)
        else:
            releases = encodings[drawn] + colored(noise, draws)
        own = _guess_some(attack, releases, targets[rows], noise_scale, n_targets)
        hits += int(np.sum(own == values[secrets[rows]]))
    return {"hits": np.array(hits), "games": np.array(games)}


def draw_secrets(prior: FloatArray, n_draws: int, generator: np.random.Generator) -> IntArray:
    """Draw secrets of all targets.

    Shapes: ``prior`` (n_targets, n_values); returns (n_draws, n_targets): positions among the
    values.
    """
    thresholds = np.cumsum(prior, axis=1)[:, :-1]
    # Uniform on (0, 1]: a value of probability zero is never drawn.
    uniform = 1.0 - generator.random((n_draws, len(prior)))
    secrets = np.zeros(uniform.shape, dtype=np.intp)
    for m in range(thresholds.shape[1]):
        secrets += uniform > thresholds[:, m]
    return secrets


def play_errors(
    attack: Any,
    noiseless: FloatArray,
    truth: FloatArray,
    bound: FloatArray,
    spread: float,
    noise: FloatArray | FittedReleases,
    noise_scale: float,
    n_releases: int,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Let an attack estimate numbers, and measure how far off it is.

    Shapes: ``noiseless`` (p,); ``truth`` (n_targets, d); ``bound`` (n_targets,); ``noise`` (p,) or
    (p, p), or the releases; returns ``mse_by_release``, mean over targets; ``mse``, ``variance``
    and ``squared_bias`` of each target; ``bound``; ``games``; ``exact``, as in `play_actual`; and
    over the targets whose bound is sharp (at most a tenth of the spread) ``ratio``, median of the
    error over the bound; ``ratio_by_release``, mean of it in each release; ``bias_over_noise``,
    median of the squared mean error over the variance of a mean of so many releases.
    """
    generator = np.random.default_rng(seed)
    usable = (bound > 0.0) & (bound <= _SHARP * spread)
    by_release, ratios = [], []
    total, squares = np.zeros(truth.shape), np.zeros(len(truth))
    for rows in row_blocks(n_releases, truth.size, _ELEMENTS):
        releases = _released(noiseless, noise, rows, generator)
        guesses = _guess(attack, releases, noise_scale, len(truth))
        error = _finite(guesses.reshape(-1, *truth.shape) - truth)
        square = (error**2).mean(axis=2)
        total += error.sum(axis=0)
        squares += square.sum(axis=0)
        by_release.append(square.mean(axis=1))
        ratio = square[:, usable] / bound[usable]
        ratios.append(ratio.mean(axis=1) if usable.any() else np.full(len(square), np.nan))
    mse, raw = squares / n_releases, ((total / n_releases) ** 2).mean(axis=1)
    variance = np.full(len(truth), np.nan)
    if n_releases > 1:
        variance = np.maximum(mse - raw, 0.0) * (n_releases / (n_releases - 1))
    return {
        "mse_by_release": np.concatenate(by_release),
        "ratio_by_release": np.concatenate(ratios),
        "mse": mse,
        "variance": variance,
        "squared_bias": mse - variance,
        "bound": bound,
        "ratio": _median_ratio(mse, bound, usable),
        "bias_over_noise": _median_ratio(raw, variance / n_releases, usable),
        "games": np.array(n_releases * len(truth)),
        "exact": np.array(_ignores_releases(attack) or _is_constant(noise, by_release)),
        "ignores": np.array(_ignores_releases(attack)),
    }


def play_drawn_errors(
    attack: Any,
    numbers: NumberEncodings,
    noise: FloatArray | FittedReleases,
    noise_scale: float,
    n_releases: int,
    seed: np.random.SeedSequence,
) -> Outcome:
    """Let an attack estimate numbers that are drawn from their priors, each in its own game.

    As `play_drawn`. Shapes: ``noise`` (p,) or (p, p), or the releases; returns ``mse_by_release``,
    mean errors of games that are independent; ``mse`` of each target, NaN where not each plays its
    own games; ``games``, and the rest of `play_errors`, NaN where the bias of drawn numbers has no
    meaning; ``removed``: the number of games, and sums over them of what the attack removes from
    the squared error of the mean of the prior, of that error less the variance, their squares and
    products.
    """
    generator = np.random.default_rng(seed)
    n_targets, _, p = numbers.points.shape
    nothing, sums = np.full(n_targets, np.nan), np.zeros(6)
    found = []
    if isinstance(noise, FittedReleases):
        guesses = _guess_fitted(attack, noise, noise_scale, n_targets)
        by_release = _finite(guesses - noise.secrets) ** 2
        sums = _removed(by_release, noise.secrets, numbers.prior.take(noise.targets))
        played = np.bincount(noise.targets, minlength=n_targets)
        mse = np.bincount(noise.targets, by_release, n_targets) / played
        games = len(by_release)
    elif plays_each(attack):
        for rows in row_blocks(n_releases, n_targets * p, _ELEMENTS):
            drawn = numbers.prior.draw(_length(rows), generator)
            draws = generator.normal(size=(*drawn.shape, p))
            guesses = attack.predict_each(numbers.at(drawn) + colored(noise, draws), noise_scale)
            found.append(_finite(guesses - drawn) ** 2)
            sums += _removed(found[-1], drawn, numbers.prior)
        squares = np.concatenate(found)
        by_release, mse, games = squares.mean(axis=1), squares.mean(axis=0), squares.size
    else:
        games = max(n_releases, min(SINGLE_GAMES, n_releases * n_targets))
        targets = generator.integers(n_targets, size=games)
        width = p if _answers_some(attack) else n_targets
        for rows in row_blocks(games, width, _ELEMENTS):
            own = numbers.take(targets[rows])
            drawn = own.prior.draw(1, generator)
            releases = own.at(drawn)[0] + colored(noise, generator.normal(size=(_length(rows), p)))
            guesses = _guess_some(attack, releases, targets[rows], noise_scale, n_targets)
            found.append(_finite(guesses - drawn[0]) ** 2)
            sums += _removed(found[-1], drawn[0], own.prior)
        by_release, mse = np.concatenate(found), nothing
    unknown = dict.fromkeys(("variance", "squared_bias", "bound"), nothing)
    unknown |= dict.fromkeys(("ratio", "bias_over_noise"), np.array(np.nan))
    shown = {"mse_by_release": by_release, "mse": mse, "games": np.array(games), "removed": sums}
    facts = {"exact": np.array(False), "ignores": np.array(_ignores_releases(attack))}
    return shown | unknown | facts


def _removed(squares: FloatArray, drawn: FloatArray, prior: NumberPrior) -> FloatArray:
    """Sum over games what is removed from the error of the mean of the prior, (6,).

    Shapes: ``squares``, ``drawn`` (..., n_targets), errors of an attack and the numbers.
    """
    guessed = (drawn - prior.mean) ** 2
    y, x = (guessed - squares).ravel(), (guessed - prior.variance).ravel()
    return np.array([y.size, y.sum(), x.sum(), y @ y, x @ x, y @ x])


def plays_each(attack: Any) -> bool:
    """Return True if an attack is asked about one target a release, which is cheap for these.

    Only the library's own attacks are trusted to answer there as in `predict`: a subclass may
    have changed it.
    """
    informed = (WhiteBoxAttributeInference, PosteriorMeanReconstruction)
    return type(attack) in (*_BASELINES, *informed)


def _answers_some(attack: Any) -> bool:
    """Return True if an attack guesses one target of a release at less cost than all; as above."""
    return type(attack) in (BlackBoxAttributeInference, InformedAttributeInference)


def _ignores_releases(attack: Any) -> bool:
    return type(attack) in _BASELINES


def _released(
    noiseless: FloatArray,
    noise: FloatArray | FittedReleases,
    rows: slice,
    generator: np.random.Generator,
) -> FloatArray:
    """Releases of some games about the records as they are, (n_rows, p)."""
    if isinstance(noise, FittedReleases):
        return noise.parameters[rows]
    draws = generator.normal(size=(_length(rows), len(noiseless)))
    return np.asarray(noiseless + colored(noise, draws))


def _is_constant(noise: FloatArray | FittedReleases, by_release: Sequence[Any]) -> bool:
    """Return True if all releases were the same, and so were the guesses about them."""
    # That some fits gave the same proves nothing of others.
    random = isinstance(noise, FittedReleases) or noise.any()
    return not random and bool(np.ptp(np.concatenate(by_release)) == 0.0)


def _guess_fitted(attack: Any, noise: FittedReleases, noise_scale: float, n_targets: int) -> Array:
    """Guess about the target of each release of a fit, (n_games,)."""
    width = 1 if _answers_some(attack) else n_targets
    return np.concatenate(
        [
            _guess_some(attack, noise.parameters[r], noise.targets[r], noise_scale, n_targets)
            for r in row_blocks(len(noise.targets), width, _ELEMENTS)
        ]
    )


def _guess(attack: Any, releases: FloatArray, noise_scale: float, n_targets: int) -> Array:
    stated = "noise_scale" in inspect.signature(attack.predict).parameters
    with ignoring_mismatches():
        guesses = attack.predict(releases, **({"noise_scale": noise_scale} if stated else {}))
    guesses = np.asarray(guesses)
    expected = (len(releases), n_targets)
    if guesses.shape[:2] != expected:
        raise ValueError(
            f"{type(attack).__name__}.predict must return one guess for each release and target, "
            f"shape {expected}; got {guesses.shape}. It was passed parameters of shape "
            f"{releases.shape}."
        )
    return guesses


def _guess_some(
    attack: Any, releases: FloatArray, targets: IntArray, noise_scale: float, n_targets: int
) -> Array:
    """Guess about one target of each release, (n_releases,); about all where there is no choice."""
    if _answers_some(attack):
        with ignoring_mismatches():
            return np.asarray(attack.predict_some(releases, targets))
    return _guess(attack, releases, noise_scale, n_targets)[np.arange(len(targets)), targets]


def _finite(error: FloatArray) -> FloatArray:
    far = np.sqrt(_FAR_OFF)
    return np.clip(np.nan_to_num(error, nan=far, posinf=far, neginf=-far), -far, far)


def _median_ratio(values: FloatArray, to: FloatArray, usable: Array) -> FloatArray:
    """Median over the usable targets; an error of zero is none, whatever it is compared with."""
    if not usable.any():
        return np.array(np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.median(np.where(values > 0.0, values / to, 0.0)[usable])


def _length(rows: slice) -> int:
    return int(rows.stop - rows.start)
