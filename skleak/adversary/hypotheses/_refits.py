"""Encodings of candidates by brute force: one fit for every target and candidate value."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib import hash as joblib_hash
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses._consistency import weight_argument
from skleak.adversary.hypotheses._encodings import (
    dense_table,
    model_parameters,
    noiseless,
    plain_table,
)
from skleak.adversary.knowledge import raw_column, with_attribute
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._blocks import row_blocks, stacked
from skleak.utils._typing import Array, FloatArray, IntArray

# Records that are refitted between two looks at the progress.
_BLOCK = 64


def refit_encodings(
    template: Any,
    X: Any,
    y: Array,
    targets: IntArray,
    candidates: Sequence[Any],
    n_jobs: int | None,
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Return the encodings by brute force: one fit for every target and candidate value.

    Shapes: ``X`` (n, d); ``y`` (n,); ``targets`` (n_targets,); ``candidates`` (n_targets, d);
    ``sample_weight`` (n,); returns (n_targets, n_values, n_parameters).
    """
    X, weights = plain_table(X), weight_argument(template, sample_weight)
    tables = [dense_table(plain_table(rows)) for rows in candidates]
    with Parallel(n_jobs=n_jobs) as pool:

        def refit(block: slice) -> FloatArray:
            chunks = [block.start + part for part in _chunks(block.stop - block.start, n_jobs)]
            parts = pool(
                delayed(_refit_chunk)(
                    template, X, y, targets[part], [rows[part] for rows in tables], weights
                )
                for part in chunks
            )
            return np.concatenate(parts)

        blocks = row_blocks(len(targets), 1, _BLOCK)
        return stacked("encodings", len(targets), blocks, refit, threads=False)


def _refit_chunk(
    template: Any,
    X: Any,
    y: Array,
    targets: IntArray,
    tables: Sequence[FloatArray],
    weights: dict[str, FloatArray],
) -> FloatArray:
    changed = sparse.lil_array(X) if sparse.issparse(X) else X.copy()
    encodings = []
    for position, row in enumerate(targets.tolist()):
        own = changed[[row]]
        found: dict[bytes, FloatArray] = {}
        for rows in tables:
            # The same record, bit for bit, makes the same fit: rounding tells no values apart.
            known = rows[position].tobytes()
            if known not in found:
                changed[row] = rows[position]
                data = changed.tocsr() if sparse.issparse(changed) else changed
                found[known] = model_parameters(clone(template).fit(data, y, **weights))
            encodings.append(found[known])
        changed[[row]] = own
    return np.stack(encodings).reshape(len(targets), len(tables), -1)


def refit_pipelines(
    estimator: Any,
    table: Any,
    y: Array,
    targets: IntArray,
    index: int,
    candidates: Array,
    n_jobs: int | None,
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Return the encodings by refitting everything, preprocessing and reweighting included.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); ``targets`` (n_targets,); ``candidates``
    (n_values,) or (n_values, n_targets); ``sample_weight`` (n,); returns (n_targets, n_values,
    n_parameters).
    """
    template = noiseless(estimator)
    weights = weight_argument(template, sample_weight)
    per_target = np.broadcast_to(
        candidates.reshape(len(candidates), -1), (len(candidates), len(targets))
    )
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_refit_pipeline_chunk)(
            template, table, y, targets[part], index, per_target[:, part], weights
        )
        for part in _chunks(len(targets), n_jobs)
    )
    fits = [fit for part in parts for fit in part]
    return _comparable(fits).reshape(len(targets), len(candidates), -1)


def refit_tables(
    estimator: Any, data: Iterable[tuple[Any, Array]], sample_weight: FloatArray | None = None
) -> FloatArray:
    """Noiseless parameters of an estimator trained anew, preprocessing included, on several data.

    Shapes: ``data`` of tables (n, n_columns) and targets (n,); ``sample_weight`` (n,); returns
    (n_data, n_parameters).
    """
    template = noiseless(estimator)
    weights = weight_argument(template, sample_weight)
    return _comparable(
        [model_parameters(clone(template).fit(table, y, **weights)) for table, y in data]
    )


def _comparable(fits: Sequence[FloatArray]) -> FloatArray:
    """Parameters of several fits, of shape (n_fits, p), if they have the same number of them."""
    widths = {len(fit) for fit in fits}
    if len(widths) > 1:
        raise AttackNotApplicableError(
            f"Refitted preprocessing gives between {min(widths)} and {max(widths)} parameters, "
            "depending on one record's value: encodings cannot be compared. Fix the encoded "
            "columns, for instance with `OneHotEncoder(categories=...)`."
        )
    return np.stack(fits)


def _refit_pipeline_chunk(
    template: Any,
    table: Any,
    y: Array,
    targets: IntArray,
    index: int,
    candidates: Array,
    weights: dict[str, FloatArray],
) -> list[FloatArray]:
    column, fits = raw_column(table, index), []
    found: dict[str, FloatArray] = {}
    splits = isinstance(template, Pipeline) and len(template.steps) > 1
    splits = splits and getattr(template, "transform_input", None) is None
    last = {name.rpartition("__")[2]: weight for name, weight in weights.items()}
    for position, row in enumerate(targets.tolist()):
        for value in candidates[:, position]:
            changed = column.astype(np.result_type(column.dtype, np.asarray(value).dtype))
            changed[row] = value
            given = with_attribute(table, index, changed)
            if not splits:
                fits.append(model_parameters(clone(template).fit(given, y, **weights)))
                continue
            # The same numbers, bit for bit, make the same fit: rounding tells no values apart.
            encoded = clone(template[:-1]).fit_transform(given, y)
            known = str(joblib_hash(encoded))
            if known not in found:
                model = clone(template.steps[-1][1]).fit(encoded, y, **last)
                found[known] = model_parameters(model)
            fits.append(found[known])
    return fits


def _chunks(n: int, n_jobs: int | None) -> list[Array]:
    """Consecutive positions, a few chunks for each worker."""
    return np.array_split(np.arange(n), min(n, 4 * effective_n_jobs(n_jobs)))
