"""Shadow models: trained like the one under attack, on sets whose members are known."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone
from tqdm import tqdm

from skleak.adversary._consistency import weight_argument
from skleak.adversary._encodings import last_step
from skleak.attacks.membership.shadow._records import Records
from skleak.attacks.membership.shadow._scores import Statistic, record_scores
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._typing import Array, BoolArray, FloatArray

__all__ = ["balanced_halves", "shadow_scores", "shadow_template"]

_LARGEST_SEED = 2**31 - 1


def shadow_template(estimator: Any) -> Any:
    """Unfitted copy that charges no ledger, at any depth: a shadow model is never released.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Fitted or not. Noise stays as it is: it is part of what makes scores spread.

    Returns
    -------
    estimator

    Raises
    ------
    AttackNotApplicableError
        For a released model, which cannot be trained anew.
    """
    if hasattr(last_step(estimator), "provenance_"):
        raise AttackNotApplicableError(
            "`estimator` is a released model, which does not know how it was trained. Pass the "
            "private estimator to the attack, and the released model to `predict`."
        )
    template = clone(estimator)
    parameters = template.get_params(deep=True)
    silent = {name: None for name in _named("ledger", parameters) if parameters[name] is not None}
    return template.set_params(**silent) if silent else template


def _named(name: str, parameters: dict[str, Any]) -> list[str]:
    """Parameters of that name, at any depth, in an order that is always the same."""
    return sorted(key for key in parameters if key == name or key.endswith(f"__{name}"))


def _with_own_seeds(template: Any, generator: np.random.Generator) -> Any:
    """Clone whose every ``random_state``, at any depth, is drawn anew."""
    model = clone(template)
    seeds = {
        key: int(generator.integers(_LARGEST_SEED))
        for key in _named("random_state", model.get_params(deep=True))
    }
    return model.set_params(**seeds) if seeds else model


def balanced_halves(
    strata: Array | None, n_records: int, n_models: int, generator: np.random.Generator
) -> BoolArray:
    """Random halves of the records, every record in half of the halves.

    Records are paired at random within their class, and of each pair a coin decides which one is
    trained on; the next model is trained on the others. So every record is in exactly half of an
    even number of training sets, and a class of two or more records is in all of them.

    Parameters
    ----------
    strata : ndarray of shape (n_records,) or None
        Classes of the records; None where there are none.
    n_records, n_models : int
        How many there are.
    generator : Generator
        Source of the coins.

    Returns
    -------
    ndarray of bool of shape (n_models, n_records)

    Examples
    --------
    >>> halves = balanced_halves(None, 5, 4, np.random.default_rng(0))
    >>> halves.sum(axis=0)
    array([2, 2, 2, 2, 2])
    >>> sorted(halves.sum(axis=1).tolist())
    [2, 2, 3, 3]
    """
    codes = np.zeros(n_records, dtype=np.intp) if strata is None else pd.factorize(strata)[0]
    halves = np.empty((n_models, n_records), dtype=bool)
    for k in range(0, n_models, 2):
        order = np.lexsort((generator.random(n_records), codes))
        coins = generator.random((n_records + 1) // 2) < 0.5
        sides = np.column_stack([coins, ~coins]).ravel()[:n_records]
        halves[k, order] = sides
        halves[k + 1 : k + 2] = ~halves[k]
    return halves


def shadow_scores(
    template: Any,
    records: Records,
    halves: BoolArray,
    asked: Records,
    statistic: Statistic | None,
    generators: Sequence[np.random.Generator],
    *,
    n_jobs: int | None,
    verbose: int,
) -> FloatArray:
    """Train shadow models, ask each about the targets, and keep the scores alone.

    Parameters
    ----------
    template : estimator
        Of `shadow_template`.
    records : Records of shape (n, ...)
        What training sets are taken from, with the weights of the fits.
    halves : ndarray of bool of shape (n_models, n)
        Training set of every model.
    asked : Records of shape (n_targets, ...)
        Those under attack.
    statistic : callable or None
        As of `record_scores`.
    generators : sequence of Generator
        One for each model.
    n_jobs : int or None
        Number of parallel jobs, as in joblib.
    verbose : int
        Above 0, a progress bar.

    Returns
    -------
    ndarray of shape (n_models, n_targets)
        The same for every `n_jobs`.

    Raises
    ------
    ValueError
        Where a model cannot be trained, or cannot answer.
    """
    tasks = (
        delayed(_scores_of_one)(template, records, half, asked, statistic, generator)
        for half, generator in zip(halves, generators, strict=True)
    )
    found = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    with tqdm(found, total=len(halves), desc="shadow models", disable=verbose <= 0) as bar:
        return np.stack(list(bar))


def _scores_of_one(
    template: Any,
    records: Records,
    half: BoolArray,
    asked: Records,
    statistic: Statistic | None,
    generator: np.random.Generator,
) -> FloatArray:
    own = records.at(np.flatnonzero(half))
    model = _with_own_seeds(template, generator)
    try:
        model.fit(own.X, own.y, **weight_argument(model, own.weights))
        return record_scores(model, asked.X, asked.y, statistic, strict=False)
    except AttackNotApplicableError:
        raise
    except ValueError as error:
        raise ValueError(
            f"A shadow model trained on {len(own.y)} of the {len(half)} records failed: {error} "
            "Shadow models see half of the records: pass more of them (`X_reference`), and "
            "preprocessing that takes categories it has not seen."
        ) from error
