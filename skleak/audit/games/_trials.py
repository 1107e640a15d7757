"""One seeded trial of an attack: draw releases, let it guess, count what it got right."""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import ignoring_mismatches
from skleak.adversary.numbers import NumberEncodings
from skleak.attacks import CombinedAttributeInference, ImputationAttack, PriorAttack
from skleak.audit.noise._mechanism import ShapedNoise, colored
from skleak.audit.tables._rates import Found, Outcome
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, FloatArray, IntArray


@dataclass(frozen=True)
class FittedReleases:
    """Releases of real fits at one noise level, one for each game. Confidential."""

    parameters: FloatArray  # (n_games, p)
    # Whose secret was drawn in each game, and what: the position of a value, or a number. Of shape
    # (n_games,) each; empty with the records as they are.
    targets: IntArray
    secrets: Array


@dataclass(frozen=True)
class Level:
    """Releases of one noise level, as games are played with them. Confidential."""

    # Of shape (p,), a root of shape (p, p), noise that follows the secrets, or releases of fits.
    noise: FloatArray | ShapedNoise | FittedReleases
    noise_scale: float  # that attacks are told
    n_releases: int  # or games of each target
    seed: np.random.SeedSequence
    rare: Any = None  # value whose carriers are counted at few false alarms, if any

    def n_played(self, attack: Any) -> int:
        """Releases that an attack is played on: few where each has weights of its own, or one."""
        if type(attack) is not CombinedAttributeInference:
            return self.n_releases
        return min(self.n_releases, STACKED if self.is_random else 1)

    @property
    def is_random(self) -> bool:
        """True if releases differ, as far as is known: some fits that agree prove nothing."""
        return not isinstance(self.noise, np.ndarray) or bool(self.noise.any())

    def releases(
        self, noiseless: FloatArray, rows: slice, generator: np.random.Generator
    ) -> FloatArray:
        """Releases of some games about the records as they are, (n_rows, p)."""
        if isinstance(self.noise, FittedReleases):
            return self.noise.parameters[rows]
        assert isinstance(self.noise, np.ndarray)
        draws = generator.normal(size=(rows.stop - rows.start, len(noiseless)))
        return np.asarray(noiseless + colored(self.noise, draws))


# Releases of a noise level whose answers are stacked, each with weights of its own, at most.
STACKED = 5
# Entries of one block of releases or of guesses: 64 MB.
_ELEMENTS = 1 << 23
# Games of an attack that must read a release whole, at least: all targets take turns.
SINGLE_GAMES = 1000
# The bound for unbiased attacks is compared where it is at most this share of the spread. Elsewhere
# what is known of the records decides, if only their range, and any sensible attack is biased.
_SHARP = 0.1
# Squared errors are cut here so that their sums stay finite: a guess this far off is just wrong.
_FAR_OFF = 1e100


def play_actual(attack: Any, noiseless: FloatArray, secrets: Array, level: Level) -> Outcome:
    """Attack the data as they are: every release is about all records at once.

    Shapes: ``noiseless`` (p,); ``secrets`` (n_targets,); returns ``shares``, of right guesses in
    each release; ``counts``, over releases, of each target; ``hits`` and ``games``; ``exact``,
    whether the releases make no difference, as the attack ignores them or there is no noise, so
    that its success on these records is a fact; of carriers of the rare value, those whom the
    attack finds at one false alarm in a hundred; ``alone``, what imputation guesses right without
    the model, of an attack that stacks it.
    """
    played = _actual_games(attack, noiseless, len(secrets), level)
    found = tally(((guesses == secrets, odds) for guesses, odds in played), secrets == level.rare)
    exact = _ignores_releases(attack) or _is_constant(attack, level, found["shares"])
    return {**found, **alone(attack, secrets), "exact": np.array(exact)}


def _actual_games(
    attack: Any, noiseless: FloatArray, n_targets: int, level: Level, width: int = 1
) -> Iterator[tuple[Array, FloatArray | None]]:
    """Yield guesses about all targets, of so many numbers each, and log-odds of the rare value."""
    generator = np.random.default_rng(level.seed)
    for rows in row_blocks(level.n_played(attack), n_targets * width, _ELEMENTS):
        yield _guessed(attack, level.releases(noiseless, rows, generator), level, n_targets)


def tally(played: Iterable[tuple[Array, FloatArray | None]], carries: Array) -> Outcome:
    """Outcome of guesses about all targets from every release; see `play_actual`.

    Shapes: ``played`` (n_releases, n_targets) each, which guesses are right and log-odds of the
    rare value, of some releases at a time; ``carries`` (n_targets,), who has it.
    """
    shares, counts, found = [], np.zeros(len(carries), dtype=np.int64), Found(len(carries))
    for right, odds in played:
        shares.append(right.mean(axis=1))
        counts += right.sum(axis=0)
        found.count(odds, np.broadcast_to(carries, right.shape))
    by_release, hits = np.concatenate(shares), np.array(counts.sum())
    games = np.array(len(by_release) * len(counts))
    own = {"shares": by_release, "counts": counts, "hits": hits, "games": games}
    return {**found.outcome(), **own}


def play_drawn(
    attack: Any, encodings: FloatArray, values: Array, prior: FloatArray, level: Level
) -> Outcome:
    """Play the game of [FANO23] figure 1: the secret of one record is drawn from its prior.

    Every release belongs to a game of its own, with fresh noise, so that all guesses are
    independent. Attacks that can be asked about one target a release play their games for every
    target; others play at least a thousand games about targets drawn at random. Of
    these the library's own guess the target of a game, and any other attack guesses all.

    Shapes: ``encodings`` (n_targets, n_values, p); ``values`` (n_values,); ``prior`` (n_targets,
    n_values); returns ``hits`` and ``games``, and ``counts`` of each target where each plays its
    own games.
    """
    counts, hits, games = np.zeros(len(prior), dtype=np.int64), 0, 0
    found, ranked, rare = Found(len(prior)), [], level.rare
    for targets, secrets, guesses, odds in _drawn_games(attack, (encodings, prior), level):
        right = guesses == values[secrets]
        hits, games = hits + int(right.sum()), games + right.size
        if right.ndim == 2:
            counts += right.sum(axis=0)
            found.count(odds, values[secrets] == rare)
        else:
            counts += np.bincount(targets[right], minlength=len(prior))
            ranked += [] if odds is None else [(odds, values[secrets][None] == rare)]
    if ranked:
        # The games of all blocks have one threshold.
        found = Found(games)
        found.count(*(np.concatenate(parts, axis=1) for parts in zip(*ranked, strict=True)))
    outcome = {"hits": np.array(hits), "games": np.array(games), **found.outcome()}
    own_games = played_by(attack) == "each" or isinstance(level.noise, FittedReleases)
    return {"counts": counts, **outcome} if own_games else outcome


def _drawn_games(
    attack: Any, known: tuple[FloatArray, FloatArray] | NumberEncodings, level: Level
) -> Iterator[tuple[IntArray, Array, Array, FloatArray | None]]:
    """Play games about secrets that are drawn, and yield some at a time.

    Yields targets and secrets as `drawn_releases`, guesses, and log-odds of the rare value.
    """
    n_targets, p = _points(known).shape[::2]
    noise: FloatArray | ShapedNoise | FittedReleases | None = level.noise
    fits, width = isinstance(noise, FittedReleases), None
    level = replace(level, rare=None) if fits else level
    each = played_by(attack) == "each" and not fits
    if not each:
        width = p if played_by(attack) == "some" else n_targets
    if not fits and _ignores_releases(attack):
        noise = None
    drawn = drawn_releases(known, noise, level.n_releases, level.seed, width)
    for about, secrets, releases in drawn:
        asked = (attack, releases, level, n_targets, None if each else about)
        yield about, secrets, *_guessed(*asked)


def _points(known: tuple[FloatArray, FloatArray] | NumberEncodings) -> FloatArray:
    return known.points if isinstance(known, NumberEncodings) else known[0]


def drawn_releases(
    known: tuple[FloatArray, FloatArray] | NumberEncodings,
    noise: FloatArray | ShapedNoise | FittedReleases | None,
    n_releases: int,
    seed: np.random.SeedSequence,
    width: int | None = None,
) -> Iterator[tuple[IntArray, Array, FloatArray]]:
    """Draw secrets and what is released of them, and yield some at a time.

    What is ``known`` are encodings and priors, of values or of numbers. Yields targets, secrets
    and releases (..., p): secrets are (n_games, n_targets) where each target plays its own games,
    else (n_games,), as the targets are, of whom each game is about one drawn at random; ``width``
    is then what a game takes of memory. Without noise to draw, releases are all zero.
    """
    points = _points(known)
    (n_targets, _, p), generator = points.shape, np.random.default_rng(seed)

    def draw(targets: IntArray, n: int) -> Array:
        if isinstance(known, NumberEncodings):
            return known.prior.take(targets).draw(n, generator)
        return draw_secrets(known[1][targets], n, generator)

    about, games, each = np.arange(n_targets), n_releases, width is None
    if isinstance(noise, FittedReleases):
        everyone, own = noise.targets, noise.secrets
        games = len(everyone)
    elif not each:
        games = max(n_releases, min(SINGLE_GAMES, n_releases * n_targets))
        everyone = generator.integers(n_targets, size=games)
        own = draw(everyone, 1)[0]
    for rows in row_blocks(games, width or n_targets * p, _ELEMENTS):
        if each:
            secrets = draw(about, rows.stop - rows.start)
        else:
            about, secrets = everyone[rows], own[rows]
        if isinstance(noise, FittedReleases):
            releases = noise.parameters[rows]
        elif noise is None:
            releases = np.broadcast_to(0.0, (*secrets.shape, p))
        else:
            draws = generator.normal(size=(*secrets.shape, p))
            if isinstance(noise, ShapedNoise):
                releases = noise.color(about, secrets, draws)
            else:
                releases = colored(noise, draws)
            if isinstance(known, NumberEncodings):
                releases += known.take(about).at(np.atleast_2d(secrets)).reshape(draws.shape)
            else:
                releases += points[about, secrets]
        yield about, secrets, releases


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
    level: Level,
    units: FloatArray | float = 1.0,
    of_prior: bool = True,
) -> Outcome:
    """Let an attack estimate numbers, and measure how far off it is.

    Shapes: ``noiseless`` (p,); ``truth`` (n_targets, d); ``bound`` (n_targets,); ``units`` (d,), in
    which errors are measured; ``of_prior`` says that the prior of the bounds is about what is
    guessed, and is returned; returns ``mse_by_release``, mean over targets; ``mse``, ``variance``
    and ``squared_bias`` of each target; ``bound``; ``games``; ``exact``, as in `play_actual`; and
    over the targets whose bound is sharp (at most a tenth of the spread) ``ratio``, median of the
    error over the bound; ``ratio_by_release``, mean of it in each release; ``bias_over_noise``,
    median of the squared mean error over the variance of a mean of so many releases.
    """
    usable = (bound > 0.0) & (bound <= _SHARP * spread)
    by_release, ratios = [], []
    total, squares = np.zeros(truth.shape), np.zeros(len(truth))
    for guesses, _ in _actual_games(attack, noiseless, len(truth), level, truth.shape[1]):
        error = _finite((guesses.reshape(-1, *truth.shape) - truth) / units)
        square = (error**2).mean(axis=2)
        total += error.sum(axis=0)
        squares += square.sum(axis=0)
        by_release.append(square.mean(axis=1))
        ratio = square[:, usable] / bound[usable]
        ratios.append(ratio.mean(axis=1) if usable.any() else np.full(len(square), np.nan))
    errors, n_releases = np.concatenate(by_release), level.n_played(attack)
    mse, raw = squares / n_releases, ((total / n_releases) ** 2).mean(axis=1)
    variance = np.full(len(truth), np.nan)
    if n_releases > 1:
        variance = np.maximum(mse - raw, 0.0) * (n_releases / (n_releases - 1))
    ignores = _ignores_releases(attack)
    exact, games = ignores or _is_constant(attack, level, errors), n_releases * len(truth)
    return {
        **errors_outcome(errors, mse, variance, games, exact=exact),
        "ratio_by_release": np.concatenate(ratios),
        "bound": bound,
        "ratio": _median_ratio(mse, bound, usable),
        "bias_over_noise": _median_ratio(raw, variance / n_releases, usable),
        "ignores": np.array(ignores),
        "of_prior": np.array(of_prior),
        **alone(attack, truth),
    }


def errors_outcome(
    by_release: FloatArray, mse: FloatArray, variance: FloatArray, games: int, *, exact: Any
) -> Outcome:
    """Outcome of estimates of numbers, of which no bound is known; see `play_errors`."""
    return {
        "mse_by_release": by_release,
        "ratio_by_release": np.full(len(by_release), np.nan),
        "mse": mse,
        "variance": variance,
        "squared_bias": mse - variance,
        "bound": np.full(len(mse), np.nan),
        **dict.fromkeys(("ratio", "bias_over_noise"), np.array(np.nan)),
        "games": np.array(games),
        "exact": np.array(exact),
    }


def play_drawn_errors(attack: Any, numbers: NumberEncodings, level: Level) -> Outcome:
    """Let an attack estimate numbers that are drawn from their priors, each in its own game.

    As `play_drawn`. Returns ``mse_by_release``, mean errors of games that are independent; ``mse``
    of each target, NaN where not each plays its own games; ``games``, and the rest of
    `play_errors`, NaN where the bias of drawn numbers has no meaning; ``removed``: the number of
    games, and sums over them of what the attack removes from the squared error of the mean of the
    prior, of that error less the variance, their squares and products.
    """
    n_targets, sums, found = len(numbers.points), np.zeros(6), []
    for targets, drawn, guesses, _ in _drawn_games(attack, numbers, level):
        found.append(_finite(guesses - drawn) ** 2)
        own = numbers.prior.take(targets)
        guessed = (drawn - own.mean) ** 2
        y, x = (guessed - found[-1]).ravel(), (guessed - own.variance).ravel()
        sums += [y.size, y.sum(), x.sum(), y @ y, x @ x, y @ x]
    squares, mse = np.concatenate(found), np.full(n_targets, np.nan)
    if isinstance(level.noise, FittedReleases):
        played = np.bincount(level.noise.targets, minlength=n_targets)
        mse = np.bincount(level.noise.targets, squares, n_targets) / played
    elif played_by(attack) == "each":
        mse = squares.mean(axis=0)
    nothing, by_release = np.full(n_targets, np.nan), squares.reshape(len(squares), -1).mean(axis=1)
    return {
        **errors_outcome(by_release, mse, nothing, squares.size, exact=False),
        "removed": sums,
        "ignores": np.array(_ignores_releases(attack)),
    }


def played_by(attack: Any) -> str | None:
    """Return how games ask an attack of ours; None of any other one, a subclass included.

    Only the library's own attacks are trusted to answer there as in `predict`.
    """
    return vars(type(attack)).get("_games")


def ranks_value(attack: Any, rare: Any) -> bool:
    """Return True for an attack of ours that says how likely the rare value is, if there is one."""
    return rare is not None and played_by(attack) is not None and hasattr(attack, "predict_proba")


def _guessed(
    attack: Any, releases: FloatArray, level: Level, n_targets: int, targets: IntArray | None = None
) -> tuple[Array, FloatArray | None]:
    """Guess, and say the log-odds of the rare value where an attack of ours has any.

    Shapes: ``releases`` (n_releases, p), or (n_releases, n_targets, p), of every target its own;
    returns (n_releases, n_targets) each; or about one of the ``targets`` (n_releases,) of each
    release, (n_releases,) and (1, n_releases): about all where there is no choice.
    """
    if targets is not None and played_by(attack) == "some":
        one = attack._about(targets)
        (guess,), odds = _guessed(one, releases[None], level, len(targets))
        return guess, odds
    each, noise_scale = releases.ndim == 3, level.noise_scale
    with ignoring_mismatches():
        if targets is None and ranks_value(attack, level.rare):
            ranked: tuple[Array, FloatArray] = attack._ranked(
                releases, noise_scale, level.rare, each=each
            )
            return ranked
        if each:
            return attack.predict_each(releases, noise_scale), None
    guesses = _guess(attack, releases, noise_scale, n_targets)
    return guesses if targets is None else guesses[np.arange(len(targets)), targets], None


def alone(attack: Any, truth: Array) -> Outcome:
    """Say what imputation gets right without the model, of an attack that stacks it."""
    if type(attack) is not CombinedAttributeInference:
        return {}
    error = (attack.imputed_ - truth.ravel()) ** 2 if attack.numeric_ else attack.imputed_ == truth
    return {"alone": error}


def _ignores_releases(attack: Any) -> bool:
    return type(attack) in (PriorAttack, ImputationAttack)


def _is_constant(attack: Any, level: Level, by_release: FloatArray) -> bool:
    """Return True if all releases were the same, and so were the guesses about them.

    Of numbers also if an attack that stacks fell back on imputation.
    """
    stacks_numbers = type(attack) is CombinedAttributeInference and attack.numeric_
    random = level.is_random and not stacks_numbers
    return not random and bool(np.ptp(by_release) == 0.0)


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


def _finite(error: FloatArray) -> FloatArray:
    far = np.sqrt(_FAR_OFF)
    return np.clip(np.nan_to_num(error, nan=far, posinf=far, neginf=-far), -far, far)


def _median_ratio(values: FloatArray, to: FloatArray, usable: Array) -> FloatArray:
    """Median over the usable targets; an error of zero is none, whatever it is compared with."""
    if not usable.any():
        return np.array(np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.median(np.where(values > 0.0, values / to, 0.0)[usable])
