"""Shadow models: trained like the one under attack, on sets whose members are known."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

from skleak.adversary.hypotheses import check_private, weight_argument
from skleak.attacks.membership.shadow._records import Records
from skleak.attacks.membership.shadow._scores import Statistic, record_scores
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._confidential import without_ledger
from skleak.utils._random import seeded
from skleak.utils._typing import Array, BoolArray, FloatArray

_LARGEST_SEED = 2**31 - 1


def shadow_template(estimator: Any) -> Any:
    """Unfitted copy that charges no ledger: a shadow model is never released."""
    check_private(estimator)
    return without_ledger(estimator)


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
    model = seeded(template, lambda n: generator.integers(_LARGEST_SEED, size=n))
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
