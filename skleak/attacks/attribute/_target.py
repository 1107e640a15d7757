"""The target of a record as the secret: what would have been released under every candidate."""

from typing import Any

import numpy as np

from skleak.adversary.hypotheses import PublicModel, refit_tables
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.refit import check_reached, target_encodings
from skleak.utils._predictions import label_positions
from skleak.utils._typing import Array, FloatArray, IntArray


def encode_targets(
    model: PublicModel,
    table: Any,
    y: Array,
    targets: IntArray,
    candidates: Array,
    sample_weight: FloatArray | None,
    *,
    refit_preprocessing: bool,
) -> FloatArray:
    """Noiseless parameters with each candidate as the target of each record under attack.

    In closed form for private models without a reweighting, by refits for others.

    Shapes: ``table`` (n, n_columns); ``y``, ``sample_weight`` (n,); ``targets`` (n_targets,);
    ``candidates`` (n_values,) or (n_values, n_targets); returns (n_targets, n_values, p).
    """
    covariance = model.noise_covariance
    if isinstance(covariance, str) and covariance != "isotropic":
        raise AttackNotApplicableError(
            f"What another target does to noise of `noise_covariance={covariance!r}` is not known. "
            "Use isotropic noise, or a covariance from public knowledge."
        )
    if refit_preprocessing:
        raise AttackNotApplicableError(
            "What preprocessing learns of another target is not known. Pass "
            "`refit_preprocessing=False`."
        )
    X = model.transform(table)
    if not model.has_closed_form or getattr(model.template, "reweighting", None) is not None:
        n_values, n = len(candidates), len(targets)
        values = np.broadcast_to(candidates.reshape(n_values, -1), (n_values, n))
        changed = (
            (X, _with_target(y, row, value))
            for row, own in zip(targets.tolist(), values.T, strict=True)
            for value in own
        )
        return refit_tables(model.template, changed, sample_weight).reshape(n, n_values, -1)
    fitted = model.template.fit(X, y, sample_weight=sample_weight)
    classes = getattr(fitted, "classes_", None)
    numbers = candidates.T if classes is None else label_positions(candidates, classes)
    if np.any(numbers < 0) and classes is not None:
        unknown = candidates[numbers < 0].tolist()[0]
        raise ValueError(
            f"`values` holds {unknown!r}, which is no class of the model; expected some of "
            f"{np.asarray(classes).tolist()[:10]}."
        )
    state = fitted._confidential_state()
    found = target_encodings(state, targets, numbers.astype(np.float64))
    check_reached(found, "What this attack compares a release with", AttackNotApplicableError)
    return found


def _with_target(y: Array, row: int, value: Any) -> Array:
    """Targets with that of one record replaced, of shape (n,)."""
    changed = y.copy()
    changed[row] = value
    return changed
