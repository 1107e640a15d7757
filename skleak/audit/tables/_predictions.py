"""What attackers got out of the answers of models, as the tables of a secret take it."""

from collections.abc import Collection, Mapping

import numpy as np

from skleak.audit.tables._design import Outcome, SecretDesign, cell_key, release_key
from skleak.utils._typing import FloatArray


def by_attack(
    design: SecretDesign, cells: Mapping[str, Outcome], facts: Collection[str], estimates: bool
) -> dict[str, Outcome]:
    """Outcomes of every attack, from those of every model that was trained.

    Attacks among the `facts` answer the same whatever is drawn. A cell holds ``correct``, or
    ``errors`` of numbers, (n_attacks, n_targets), and ``utility``.
    """
    keys = [release_key(k) for k in range(design.n_releases)]
    played = [cells[key] for key in keys if key in cells]
    if not played:
        return {}
    name = "errors" if estimates else "correct"
    found = np.stack([cell[name] for cell in played])
    outcome = _estimated if estimates else _guessed
    (scale,) = design.noise_scales
    answers = {
        cell_key(scale, attack): outcome(found[:, k], attack in facts)
        for k, attack in enumerate(design.attacks)
    }
    utility = np.array([float(cell["utility"]) for cell in played])
    return answers | {cell_key(scale, "utility"): {"utility": utility}}


def _guessed(correct: FloatArray, exact: bool) -> Outcome:
    """Outcome of an attack on values; ``correct`` (n_releases, n_targets)."""
    counts = correct.sum(axis=0, dtype=np.int64)
    return {
        "shares": correct.mean(axis=1),
        "counts": counts,
        "hits": np.array(counts.sum()),
        "games": np.array(correct.size),
        "exact": np.array(exact),
    }


def _estimated(errors: FloatArray, exact: bool) -> Outcome:
    """Outcome of an attack on numbers; ``errors`` (n_releases, n_targets). No bound is known."""
    mse, variance = (errors**2).mean(axis=0), np.zeros(errors.shape[1])
    if not exact:
        variance = np.full(errors.shape[1], np.nan)
        if len(errors) > 1:
            variance = errors.var(axis=0, ddof=1)
    unknown = np.full(len(mse), np.nan)
    return {
        "mse_by_release": (errors**2).mean(axis=1),
        "ratio_by_release": np.full(len(errors), np.nan),
        "mse": mse,
        "variance": variance,
        "squared_bias": mse - variance,
        "bound": unknown,
        "ratio": np.array(np.nan),
        "bias_over_noise": np.array(np.nan),
        "games": np.array(errors.size),
        "exact": np.array(exact),
    }
