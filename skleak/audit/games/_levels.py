"""Cells of games in which noise of every level is added to parameters that are known."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_consistent_length, column_or_1d

from skleak.adversary.hypotheses import Shell, last_step, models_on, weight_argument
from skleak.adversary.knowledge import as_table
from skleak.audit.games._game import Cell
from skleak.audit.games._private_sgd import is_private_sgd, noise_multiplier
from skleak.audit.noise._mechanism import colored
from skleak.audit.tables._design import Design, Outcome, cell_key
from skleak.utils._predictions import utility_of
from skleak.utils._typing import Array, FloatArray

# Streams of seeds at every noise level; 2 are the checks of the noise, and a sample is that of all.
GAMES, UTILITY, GAP, SAMPLE, FITS = 0, 1, 3, 4, 5


def seed_of(entropy: list[int], level: int, stream: int) -> np.random.SeedSequence:
    """Seed of one stream at the noise level of that number."""
    return np.random.SeedSequence(entropy, spawn_key=(level, stream))


def noise_levels(
    noise_scales: Any, model: Any, X: Any, y: Array, sample_weight: FloatArray | None
) -> tuple[float, ...]:
    """Noise levels of an audit, ascending; by default that of the model, 0 where it adds none."""
    if noise_scales is None:
        own = last_step(model).get_params(deep=False)
        noise_scales = own.get("noise_scale", 0.0)
        if is_private_sgd(model):
            noise_scales = noise_multiplier(model, X, y)
        if not np.isscalar(noise_scales):
            fitted = clone(model).fit(X, y, **weight_argument(model, sample_weight))
            noise_scales = last_step(fitted).noise_scale_
    levels = np.unique(np.asarray(noise_scales, dtype=np.float64))
    if not levels.size or not np.all((levels >= 0.0) & np.isfinite(levels)):
        raise ValueError(
            "`noise_scales` must hold finite numbers, zero or more; got "
            f"{np.asarray(noise_scales).tolist()}."
        )
    return tuple(levels.tolist())


def reference_records(X: Any, y: Any) -> tuple[Any, Array] | None:
    """Raw records that no model is trained on, and their targets; None where there are none."""
    if X is None:
        return None
    if y is None:
        raise ValueError("`X_test` needs its targets: pass `y_test` too.")
    table, y = as_table(X), column_or_1d(y)
    check_consistent_length(table, y)
    return table, y


@dataclass(frozen=True)
class Releases:
    """Releases of every level, and the records on which their utility is measured."""

    shell: Shell
    noiseless: FloatArray  # (p,)
    noise: Mapping[float, FloatArray]  # by noise level, (p,) or (p, p)
    where: tuple[Any, Array]


def level_cells(
    design: Design,
    releases: Releases,
    entropy: list[int],
    games: Callable[[int, float, FloatArray], Mapping[str, Cell]],
) -> dict[str, Cell]:
    """All cells by key: the games of every noise level, and the utility with and without noise."""
    cells: dict[str, Cell] = {}
    own, n_releases = (releases.shell, releases.noiseless), design.n_releases
    for k, scale in enumerate(design.noise_scales):
        noise = releases.noise[scale]
        for name, cell in games(k, scale, noise).items():
            cells[cell_key(scale, name)] = cell
        seed = seed_of(entropy, k, UTILITY)
        played = (*own, noise, n_releases, seed, *releases.where)
        cells[cell_key(scale, "utility")] = (utility, played)
    quiet = np.zeros(len(releases.noiseless))
    cells[cell_key(0.0, "noiseless")] = (utility, (*own, quiet, 1, seed, *releases.where))
    return cells


def noiseless_utility(outcomes: Mapping[str, Outcome]) -> float:
    """Score of the model without noise, of which every game with noise levels has a cell."""
    return float(outcomes[cell_key(0.0, "noiseless")]["utility"].mean())


def utility(
    shell: Shell,
    noiseless: FloatArray,
    noise: FloatArray,
    n_releases: int,
    seed: np.random.SeedSequence,
    X: Any,
    y: Array,
) -> Outcome:
    """Score of released models.

    Shapes: ``noiseless`` (p,); ``noise`` (p,) or (p, p); ``X``, ``y`` (n, d); returns ``utility``,
    of shape (n_releases,).
    """
    draws = np.random.default_rng(seed).normal(size=(n_releases, len(noiseless)))
    models = models_on(shell, X, noiseless + colored(noise, draws))
    return {"utility": np.array([utility_of(model, table, y) for model, table in models])}
