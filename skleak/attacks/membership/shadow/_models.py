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
    """Unfitted copy that charges no ledger, at any depth: a shadow model is never released."""
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

    Shapes: ``strata`` (n_records,); returns (n_models, n_records).
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

    Shapes: ``records`` (n, ...); ``halves`` (n_models, n); ``asked`` (n_targets, ...); returns
    (n_models, n_targets): the same for every `n_jobs`.
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
