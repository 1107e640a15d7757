"""Walk through what scikit-learn builds of steps, and build it anew of other ones."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.pipeline import FeatureUnion, Pipeline

from skleak.utils._sklearn_compat import (
    COLUMN_TRANSFORMER_SCHEMA,
    copy_attributes,
    output_container,
)

Leaf = Callable[[str, Any], Any]


def is_skipped(step: Any) -> bool:
    """Return True for the words that stand for no step."""
    return step is None or (isinstance(step, str) and step in ("passthrough", "drop"))


def children(node: Any) -> list[tuple[str, Any]]:
    """Return the fitted steps of a composition by name; none for anything else.

    Classes are compared exactly: what a subclass learns is not known.
    """
    if type(node) is Pipeline or _is_released_pipeline(node):
        return list(node.steps)
    if type(node) is ColumnTransformer:
        return [(name, step) for name, step, cols in node.transformers_ if not _is_empty(cols)]
    if type(node) is FeatureUnion:
        return list(node.transformer_list)
    if type(node) is TransformedTargetRegressor:
        return [("transformer", node.transformer_), ("regressor", node.regressor_)]
    return []


def walk(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a composition and all that it is made of, with names as of `get_params`."""
    yield path, node
    for name, child in children(node):
        yield from walk(child, f"{path}__{name}" if path else name)


def final_estimator(node: Any) -> Any:
    """Return the estimator that predicts."""
    steps = children(node)
    if not steps or type(node) in (ColumnTransformer, FeatureUnion):
        return node
    return final_estimator(steps[-1][1])


def received(node: Any, model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return records and targets as they come to the model at the end of a composition.

    Shapes: ``X`` (n, n_columns); ``y`` (n,) or None.
    """
    if node is model:
        return X, y
    if type(node) is TransformedTargetRegressor:
        if y is not None:
            targets = np.asarray(y)
            made = node.transformer_.transform(targets.reshape(len(targets), -1))
            y = made[:, 0] if made.ndim == 2 and made.shape[1] == 1 else made
        return received(node.regressor_, model, X, y)
    steps = [step for _, step in node.steps]
    for step in steps[:-1]:
        X = X if is_skipped(step) else step.transform(X)
    return received(steps[-1], model, X, y)


def rebuilt(node: Any, leaf: Leaf, path: str = "") -> Any:
    """Build a composition of what ``leaf(path, step)`` makes of its steps.

    Of the composition itself only parameters and the schema of the table are taken over.
    """
    steps = [
        (name, rebuilt(child, leaf, f"{path}__{name}" if path else name))
        for name, child in children(node)
    ]
    if not steps:
        return leaf(path, node)
    if type(node) is ColumnTransformer:
        made = _column_transformer(node, dict(steps))
    elif type(node) is FeatureUnion:
        made = FeatureUnion(
            steps,
            transformer_weights=node.transformer_weights,
            verbose_feature_names_out=node.verbose_feature_names_out,
        )
    elif type(node) is TransformedTargetRegressor:
        made = _target_regressor(node, dict(steps))
    else:
        made = Pipeline(steps)
    return with_output(made, output_container(node))


def with_output(step: Any, container: str | None) -> Any:
    """Set a step to the kind of output of a container, where there is one."""
    return step if container is None else step.set_output(transform=container)


def _is_released_pipeline(node: Any) -> bool:
    return getattr(type(node), "_is_released_pipeline", False) is True


def _column_transformer(node: Any, steps: dict[str, Any]) -> ColumnTransformer:
    """Build a fitted ColumnTransformer of other steps.

    Its choice between sparse and dense output is by the share of zeros in the records: a
    function of them. The one built here gives dense output, unless every density was sparse
    enough for the original and a step says that it is sparse.
    """
    columns = {name: selected for name, _, selected in node.transformers_}
    named = [name for name, _, _ in node.transformers]
    made = ColumnTransformer(
        [(name, steps.get(name, "drop"), columns.get(name, [])) for name in named],
        remainder=steps.get("remainder", "drop"),
        sparse_threshold=node.sparse_threshold,
        transformer_weights=node.transformer_weights,
        verbose_feature_names_out=node.verbose_feature_names_out,
    )
    copy_attributes(node, made, COLUMN_TRANSFORMER_SCHEMA)
    made.transformers_ = [
        (name, steps.get(name, "drop"), selected) for name, selected in columns.items()
    ]
    made._remainder = ("remainder", made.remainder, columns.get("remainder", []))
    is_sparse = any(_says_sparse(step) for step in steps.values())
    made.sparse_output_ = bool(node.sparse_threshold >= 1.0 and is_sparse)
    return made


def _is_empty(columns: Any) -> bool:
    """Return True for a selection of no column, whose transformer was never fitted."""
    if isinstance(columns, str | int | slice):
        return False
    selected = np.asarray(columns)
    return not selected.any() if selected.dtype == bool else selected.size == 0


def _says_sparse(step: Any) -> bool:
    last = final_estimator(step)
    return getattr(last, "sparse_output", False) is True


def _target_regressor(node: Any, steps: dict[str, Any]) -> TransformedTargetRegressor:
    made = TransformedTargetRegressor(
        steps["regressor"], transformer=steps["transformer"], check_inverse=False
    )
    made.regressor_, made.transformer_ = steps["regressor"], steps["transformer"]
    made._training_dim = node._training_dim
    copy_attributes(node, made, ("feature_names_in_",))
    return made
