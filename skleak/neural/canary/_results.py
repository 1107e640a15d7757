"""Tables of what was played: games, and success against bounds."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from skleak.metrics import (
    attack_advantage,
    binomial_interval,
    simultaneous_confidence_level,
    verdict,
)
from skleak.neural.canary._bounds import divergence, success_bounds
from skleak.neural.gradients import Clipping
from skleak.utils._typing import FloatArray, IntArray

# Of the standard error of a simulated value, so many are allowed for in a verdict.
_ERRORS = 4.0


@dataclass(frozen=True)
class Training:
    """Rules of private SGD on one sequence, all of them public."""

    clipping: Clipping
    n_steps: int
    learning_rate: float


@dataclass(frozen=True)
class Played:
    """Games at one noise level; secrets and guesses are places among the candidates."""

    noise_multiplier: float
    secrets: IntArray  # (n_games,)
    guesses: dict[str, IntArray]  # by attack, (n_games,)
    top: FloatArray  # largest posterior probability, (n_games,); empty without that attack
    bayes: tuple[float, float]  # success of the best attack and its standard error, or NaN


def game_table(played: list[Played], candidates: IntArray) -> pd.DataFrame:
    """One row for each noise level and game."""
    parts = []
    for level in played:
        start = {"noise_multiplier": level.noise_multiplier, "secret": candidates[level.secrets]}
        guesses = {f"guess_{name}": candidates[each] for name, each in level.guesses.items()}
        top = {"top_posterior": level.top} if len(level.top) else {}
        parts.append(pd.DataFrame({**start, **guesses, **top}))
    return pd.concat(parts, ignore_index=True)


def result_table(
    played: list[Played], training: Training, n_candidates: int, confidence_level: float
) -> pd.DataFrame:
    """One row for each noise level and attack."""
    n_rows = sum(len(level.guesses) for level in played)
    strict = simultaneous_confidence_level(confidence_level, n_rows)
    rows = []
    for level in played:
        public = (training.clipping, training.n_steps, level.noise_multiplier)
        bounds = success_bounds(*public, n_candidates)
        value, error = level.bayes
        tightest = np.nanmin([value + _ERRORS * error, *bounds.values()])
        for name, guesses in level.guesses.items():
            counts = int(np.sum(guesses == level.secrets)), len(guesses)
            success = binomial_interval(*counts, confidence_level)
            judged = binomial_interval(*counts, strict)
            rows.append(
                {
                    "noise_multiplier": level.noise_multiplier,
                    "n_steps": training.n_steps,
                    "epsilon": divergence(*public),
                    "attack": name,
                    **_interval_columns("success", success),
                    "baseline": 1.0 / n_candidates,
                    **_interval_columns("advantage", attack_advantage(success, 1.0 / n_candidates)),
                    "verdict": verdict(judged.low, judged.high, min(tightest, 1.0)),
                    "n_games": counts[1],
                    "bayes": value,
                    "bayes_error": error,
                    **bounds,
                }
            )
    return pd.DataFrame(rows)


def _interval_columns(name: str, interval: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), interval, strict=True))
