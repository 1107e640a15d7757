"""Questions about leakage in the user's words, answered from the state of a fit."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import sparse

from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.state import FitState
from skleak.utils._blocks import Blocks
from skleak.utils._features import feature_labels, is_single_feature, resolve_features
from skleak.utils._records import checked_labels, label_array, named
from skleak.utils._typing import Array, FloatArray
from skleak.utils.blocks._dask import aligned_chunks, is_large
from skleak.utils.sources import is_large_source, series_array

Norm = Literal["spectral", "trace"]
_GRAINS = ("record", "feature", "dataset", "group")


@dataclass(frozen=True)
class Query:
    """Columns that an attacker is after, and the norm that measures them."""

    names: Array | None  # column names of the model
    features: Any  # reference to columns; None for the whole record
    norm: Norm  # norm of the Jacobian
    constrained: bool  # whether blocks are measured on the tangent of the simplex
    conditional: bool  # whether the weights of a reweighting are held fixed


def leakage(
    state: FitState, X: Any, y: FloatArray, per: str, query: Query, groups: Array | None
) -> "FloatArray | float | pd.Series":
    """Fisher information loss at one grain; see ``PrivateLinearModel.fisher_information_loss``.

    Shapes: ``X`` (n, d); ``y`` (n,); ``groups`` (n,).
    """
    if per not in _GRAINS:
        raise ValueError(f"`per` must be one of {list(_GRAINS)}; got {per!r}.")
    if query.norm not in ("spectral", "trace"):
        raise ValueError(f"`norm` must be 'spectral' or 'trace'; got {query.norm!r}.")
    model, batch = leakage_model(state), state.batch(X, y)
    model = model.conditional if query.conditional else model
    if per == "feature":
        blocks, _ = feature_blocks(query.features, query.names, state.n_features)
        blocks = [_constrain(block, X, query) for block in blocks]
        return model.feature_loss(batch, blocks, query.norm)
    columns = state.whole_record
    if query.features is not None:
        columns = Columns(resolve_features(query.features, query.names, state.n_features))
    columns = _constrain(columns, X, query)
    if per == "record":
        return model.record_loss(batch, columns, query.norm)
    if groups is None:
        return model.joint_loss(batch, columns, query.norm)
    return model.group_loss(batch, groups, columns, query.norm)


def feature_blocks(
    features: Any, names: Array | None, n_features: int
) -> tuple[list[Columns], list[str]]:
    """Blocks of a table of columns, and their labels.

    Returns ``blocks``: one per column of the table; ``labels``: the column's name, or the names of
    a block joined by " + ".
    """
    items: list[Any]
    if features is None:
        items = [[j] for j in range(n_features)]
    elif _is_list_of_references(features):
        items = [
            resolve_features(item, names, n_features)
            for item in (features.tolist() if hasattr(features, "tolist") else features)
        ]
    else:  # one reference, or an error that says what is wrong with it
        items = [[j] for j in resolve_features(features, names, n_features)]
    known = feature_labels(names, n_features)
    blocks = [Columns(np.asarray(item)) for item in items]
    return blocks, [" + ".join(known[j] for j in item) for item in items]


def group_labels(groups: Any, X: Any, names: Array | None, index: pd.Index | None = None) -> Array:
    """Group label of each record; ``index`` has the labels of the records.

    Shapes: ``groups`` (n,); ``X`` (n, d); returns (n,).
    """
    if groups is None:
        raise ValueError(
            "`per='group'` needs `groups`: one label per record, or the column that holds it."
        )
    if is_large(X):
        return _large_labels(groups, X, names)
    if is_single_feature(groups):
        column = X[:, [resolve_features(groups, names, X.shape[1], "groups")[0]]]
        groups = np.ravel(column.toarray() if sparse.issparse(column) else column)
    elif is_large_source(groups):
        raise TypeError(
            "`groups` lie outside memory, and the records do not. Pass one array of labels."
        )
    return checked_labels(groups, X.shape[0], named(index))


def _large_labels(groups: Any, X: Any, names: Array | None) -> Any:
    """Group label of each record outside memory, (n,), in the chunks of these."""
    if is_single_feature(groups):
        return X[:, int(resolve_features(groups, names, X.shape[1], "groups")[0])]
    if not is_large(groups) and not hasattr(groups, "to_dask_array"):
        groups = label_array(groups)
    elif not is_large(groups):
        groups = series_array(groups, "groups")
    if groups.ndim != 1 or groups.shape[0] != X.shape[0]:
        raise ValueError(
            f"`groups` must hold one label per record: expected {X.shape[0]}, got shape "
            f"{groups.shape}. Call `groups.compute_chunk_sizes()` where sizes are not known."
        )
    return aligned_chunks(X, [groups])[1]


def _is_list_of_references(features: Any) -> bool:
    """Return True if an object lists columns and blocks: no name, index, slice or mask."""
    if is_single_feature(features) or not hasattr(features, "__len__"):
        return False
    listed = list(features)
    return bool(listed) and not all(isinstance(item, bool | np.bool_) for item in listed)


def _constrain(columns: Columns, X: Any, query: Query) -> Columns:
    """Put a one-hot block on the tangent of the simplex, after a look at whether it is one."""
    if not query.constrained:
        return columns
    if columns.indices is None or len(columns.indices) < 2:
        raise ValueError(
            "`constrained=True` measures a one-hot block of at least two columns on the tangent "
            "of the simplex. Pass all columns of the block as a list in `features`."
        )
    indices = columns.indices
    worst = Blocks.of(X).map_reduce(
        lambda X: float(np.max(np.abs(X[:, indices].sum(axis=1) - 1.0), initial=0.0)), max
    )
    if worst > 1e-6:
        known = feature_labels(query.names, X.shape[1])
        raise ValueError(
            "`constrained=True` needs columns that sum to one in every record, but "
            f"{[known[j] for j in columns.indices]} miss it by up to {worst:.3g}. Pass the whole "
            "one-hot block, encoded without `drop`."
        )
    return Columns(columns.indices, constrained=True)
