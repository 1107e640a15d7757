"""What an adversary who tests membership knows: candidates, reference records, models."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils import column_or_1d

from skleak.adversary.hypotheses import is_model
from skleak.utils._typing import Array, IntArray
from skleak.utils._warnings import outer_stacklevel


def as_records(X: Any, name: str) -> Any:
    """Return records as the model is to be asked about them: frames and sparse matrices stay so."""
    if sparse.issparse(X):
        X = X.tocsr()
    elif not hasattr(X, "columns"):
        X = np.asarray(X) if not isinstance(X, pd.Series) else X
    if not X.shape or not X.shape[0]:
        raise ValueError(f"`{name}` must hold at least one record; got shape {X.shape}.")
    return X


def as_targets(y: Any, X: Any, name: str) -> Array:
    """Targets or labels of the records, one each, of shape (n,), none of them missing."""
    if y is None:
        raise ValueError(
            f"`{name}` is needed: an adversary who tests whether a record was trained on knows "
            "its target. Pass the true targets or labels."
        )
    y = np.array(column_or_1d(np.asarray(y)))
    if len(y) != X.shape[0]:
        raise ValueError(
            f"`{name}` must have one entry for each of the {X.shape[0]} records; got {len(y)}."
        )
    absent = int(np.sum(pd.isna(y)))
    if absent:
        raise ValueError(
            f"`{name}` has {absent} missing values of {len(y)}. Drop those records: nothing can "
            "be compared with what the model says of them."
        )
    return y


def check_coding(y: Array, classes: Any) -> None:
    """Warn where labels look coded in another way than the classes of a model.

    A label that a model has not seen is no fault, nor is a class of which there is no candidate;
    the two together are what -1 and 1 in place of 0 and 1 look like.

    Shapes: ``y`` (n,); ``classes`` (n_classes,).
    """
    own, known = set(y.tolist()), set(np.asarray(classes).tolist())
    if own - known and known - own:
        unseen, missing = len(own - known), len(known - own)
        warnings.warn(
            f"The model knows {unseen} labels of the candidates not, and there is no candidate of "
            f"{missing} of its classes. Unseen labels have probability 0: where the two stand "
            "for one another, recode the labels as in the training data.",
            UserWarning,
            stacklevel=outer_stacklevel(),
        )


def released_models(released: Any) -> tuple[list[Any], bool]:
    """Models under attack, and whether a single one was given."""
    if _answers(released):
        return [released], True
    models = list(released) if isinstance(released, list | tuple) else [released]
    for model in models:
        if not _answers(model):
            raise TypeError(
                "`released` must be a fitted model or a list of them; got "
                f"{type(model).__name__}. Put parameters into a model that predicts with them."
            )
    if not models:
        raise ValueError("`released` is an empty list; pass at least one fitted model.")
    return models, False


def _answers(model: Any) -> bool:
    """Return True if an object can be asked about records, and is no class of such objects."""
    return not isinstance(model, type) and (is_model(model) or hasattr(model, "predict_proba"))


def as_reference(
    candidates: Any, X: Any, y: Any, name: str = "X_candidates"
) -> tuple[Any, Array] | None:
    """Return the reference records and their targets, with the columns of the candidates, or None.

    The name is that of the candidates, in messages.
    """
    if X is None:
        if y is not None:
            raise ValueError("`y_reference` is given without `X_reference`. Pass both.")
        return None
    X = as_records(X, "X_reference")
    y = as_targets(y, X, "y_reference")
    if X.shape[1:] != candidates.shape[1:]:
        raise ValueError(
            f"`X_reference` must have the columns of `{name}`, shape "
            f"{candidates.shape[1:]} a record; got {X.shape[1:]}."
        )
    if not (hasattr(candidates, "columns") and hasattr(X, "columns")):
        return X, y
    names, own = list(candidates.columns), list(X.columns)
    odd = sorted(map(str, set(names) ^ set(own)))
    if odd:
        raise ValueError(
            f"`X_reference` must have the columns of `{name}`, by name; only one of the two "
            f"has {odd[:5]}."
        )
    return X if names == own else X[names], y


def as_membership(truth: Any, shape: tuple[int, ...]) -> IntArray:
    """Truth of every pair of model and candidate, 1 for members, of the shape of the guesses."""
    members = np.asarray(truth)
    if members.shape not in (shape, shape[-1:]):
        raise ValueError(
            f"`truth` must have one entry for each of the {shape[-1]} candidates, shape "
            f"{shape[-1:]}{f' or {shape}' if len(shape) == 2 else ''}; got {members.shape}."
        )
    if not np.all((members == 0) | (members == 1)):
        raise ValueError("`truth` must hold 1 for members and 0 for others, or booleans.")
    return np.broadcast_to(members.astype(np.intp), shape)
