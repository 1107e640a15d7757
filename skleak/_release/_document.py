"""The document of a release."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

import skleak.preprocessing as preprocessing
from skleak._released import ReleasedModel
from skleak.utils._files import read_document
from skleak.utils._sklearn_compat import (
    COLUMN_TRANSFORMER_SCHEMA,
    BaseSearchCV,
    copy_attributes,
    input_positions,
    output_container,
    unwrapped,
)

Leaf = Callable[[str, Any], Any]


def is_skipped(step: Any) -> bool:
    """Return True for the words that stand for no step."""
    return step is None or (isinstance(step, str) and step in ("passthrough", "drop"))


def children(node: Any) -> list[tuple[str, Any]]:
    """Return the fitted steps of a composition by name; none for anything else.

    Classes are compared exactly: what a subclass learns is not known.
    """
    if type(node) is Pipeline or getattr(type(node), "_is_released_pipeline", False) is True:
        return list(node.steps)
    if type(node) is ColumnTransformer:
        return [(name, step) for name, step, _ in node.transformers_ if input_positions(node, name)]
    if type(node) is FeatureUnion:
        return list(node.transformer_list)
    if type(node) is TransformedTargetRegressor:
        return [("transformer", node.transformer_), ("regressor", node.regressor_)]
    if type(node) is FrozenEstimator:
        return [("estimator", node.estimator)]
    if isinstance(node, BaseSearchCV) and hasattr(node, "best_estimator_"):
        return [("best_estimator_", node.best_estimator_)]
    return []


def walk(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a composition and all that it is made of, with names as of `get_params`."""
    yield path, node
    for name, child in children(node):
        yield from walk(child, f"{path}__{name}" if path else name)


def chain(node: Any) -> tuple[list[tuple[str, Any]], list[Any]]:
    """Return the steps that records take, the model behind all wrappers last, and their targets'.

    It looks into pipelines, searches, frozen estimators and regressors of transformed targets.
    """
    steps: list[tuple[str, Any]] = [("model", node)]
    targets = []
    while True:
        name, last = steps.pop()
        last = unwrapped(last)
        if isinstance(last, Pipeline):
            steps += last.steps
        elif isinstance(last, TransformedTargetRegressor):
            check_is_fitted(last)
            targets.append(last.transformer_)
            steps.append((name, last.regressor_))
        else:
            return [*(pair for pair in steps if not is_skipped(pair[1])), (name, last)], targets


def of_several(*parts: Any) -> str:
    """Say why a part of a composition that wraps private models is not one; nothing without."""
    first = next((p for p in parts if any(m is not p for m in _private_models(p))), None)
    if first is None:
        return ""
    n = sum(hasattr(model, "n_features_in_") for model in _private_models(parts))
    return (
        f"{type(first).__name__} wraps private models; {n} of them are trained. Each fit, kept or "
        "not, is a release of its own on shared records, and all may reveal more than a report of "
        "one says. Pass one private model in its place (such as its `estimator_`), or attack the "
        "whole by MembershipAuditor or LeakageAuditor, where only predictions leave; a `ledger` "
        "of its estimators adds up all fits (to infinity, where it writes seeds into them)."
    )


def _private_models(parts: Any) -> list[Any]:
    """Return the private models that estimators are or hold, at any depth, each once."""
    seen, waiting = {}, [parts]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += part
        elif hasattr(part, "get_params") or hasattr(part, "predict_proba"):
            waiting += () if id(part) in seen or hasattr(part, "release") else vars(part).values()
            seen[id(part)] = part
    return [part for part in seen.values() if hasattr(part, "release")]


def final_estimator(node: Any) -> Any:
    """Return the estimator that predicts."""
    return chain(node)[0][-1][1]


def received(node: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return records and targets as they come to the model at the end of a composition.

    Shapes: ``X`` (n, n_columns); ``y`` (n,) or None.
    """
    steps, targets = chain(node)
    for _, step in steps[:-1]:
        X = step.transform(X)
    return X, None if y is None else received_targets(targets, y)


def received_targets(transformers: Iterable[Any], y: Any) -> Any:
    """Return targets as they come out of their transformers, (n,)."""
    for transformer in transformers:
        targets = np.asarray(y)
        made = transformer.transform(targets.reshape(len(targets), -1))
        y = made[:, 0] if made.ndim == 2 and made.shape[1] == 1 else made
    return y


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
    if type(node) is FrozenEstimator or isinstance(node, BaseSearchCV):
        return steps[0][1]
    if type(node) is ColumnTransformer:
        made = _column_transformer(node, dict(steps))
    elif type(node) is FeatureUnion:
        made = FeatureUnion(
            steps,
            transformer_weights=node.transformer_weights,
            verbose_feature_names_out=node.verbose_feature_names_out,
        )
    elif type(node) is TransformedTargetRegressor:
        made = _target_regressor(**dict(steps), n_dim=node._training_dim)
        copy_attributes(node, made, ("feature_names_in_",))
    else:
        made = Pipeline(steps)
    return with_output(made, output_container(node))


def with_output(step: Any, container: str | None) -> Any:
    """Set a step to the kind of output of a container, where there is one."""
    return step if container is None else step.set_output(transform=container)


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
    ends = map(final_estimator, steps.values())
    is_sparse = any(getattr(last, "sparse_output", False) is True for last in ends)
    made.sparse_output_ = bool(node.sparse_threshold >= 1.0 and is_sparse)
    return made


def _target_regressor(regressor: Any, transformer: Any, n_dim: int) -> TransformedTargetRegressor:
    """Build a fitted one of fitted parts."""
    made = TransformedTargetRegressor(regressor, transformer=transformer, check_inverse=False)
    made.regressor_, made.transformer_, made._training_dim = regressor, transformer, n_dim
    return made


_KIND = "ReleasedPipeline"
_ENCODER = preprocessing.PublicOneHotEncoder
_OURS = {name: getattr(preprocessing, name) for name in preprocessing.__all__}


def pipeline_from_json(text: "str | bytes") -> tuple[list[tuple[str, Any]], str | None]:
    """Read the steps of a released pipeline, and the kind of output that it was set to."""
    kind, content = read_document(text)
    if kind != _KIND:
        raise ValueError(f"Expected a document of a {_KIND}; got one of {kind!r}.")
    try:
        steps = _read_steps(content["steps"])
        last = steps[-1][1]
        model = last.regressor_ if isinstance(last, TransformedTargetRegressor) else last
        if not isinstance(model, ReleasedModel | Pipeline):
            raise ValueError(f"the last step is a {type(model).__name__}")
        return steps, content["container"]
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"This document is no released pipeline, or damaged: {type(error).__name__}: {error}."
        ) from error


def _written(step: Any, path: str) -> Any:
    """Describe a step in plain values."""
    if is_skipped(step):
        return step
    name = type(step).__name__
    if isinstance(step, ReleasedModel):
        return {"class": name, "fields": step._content()}
    if type(step) is _OURS.get(name):
        parameters = {**step.get_params(deep=False), **step._used_parameters()}
        names = getattr(step, "feature_names_in_", None)
        columns = {"n_features": step.n_features_in_, "names": names}
        container = output_container(step)
        return {"class": name, "parameters": parameters, **columns, "container": container}
    if isinstance(step, Pipeline):
        return {"class": "Pipeline", **written_pipeline(step, path)}
    if type(step) is ColumnTransformer:
        return {"class": name, **_written_columns(step, path)}
    if type(step) is TransformedTargetRegressor:
        parts = {"transformer": step.transformer_, "regressor": step.regressor_}
        written = {part: _written(child, f"{path}__{part}") for part, child in parts.items()}
        return {"class": name, "n_dim": step._training_dim, **written}
    raise TypeError(
        f"Step {path!r} is a {name}, which cannot be written to JSON: only released models, the "
        "transformers of skleak.preprocessing, and a Pipeline, ColumnTransformer or "
        "TransformedTargetRegressor of them can. Use `to_sklearn()`, or a pickle of the release."
    )


def written_pipeline(pipeline: Any, path: str = "") -> dict[str, Any]:
    """Describe a released pipeline in plain values."""
    prefix = f"{path}__" if path else ""
    steps = [[name, _written(step, prefix + name)] for name, step in pipeline.steps]
    return {"steps": steps, "container": output_container(pipeline)}


def _written_columns(step: ColumnTransformer, path: str) -> dict[str, Any]:
    names = getattr(step, "feature_names_in_", None)
    labels = range(step.n_features_in_) if names is None else names.tolist()
    steps = []
    for name, child, _ in step.transformers_:
        chosen = [labels[k] for k in input_positions(step, name)]
        is_passed = isinstance(child, FunctionTransformer) and child.func is None
        written = "passthrough" if is_passed else _written(child, f"{path}__{name}")
        steps.append([name, written, chosen])
    return {
        "steps": steps,
        "n_features": step.n_features_in_,
        "names": names,
        "transformer_weights": step.transformer_weights,
        "verbose_feature_names_out": step.verbose_feature_names_out,
        "sparse_output": step.sparse_output_,
        "container": output_container(step),
    }


def _read(node: Any) -> Any:
    """Make the step that `_written` described."""
    if is_skipped(node):
        return node
    name = node["class"]
    if name in _OURS:
        step = _OURS[name](**node["parameters"]).on_columns(node["n_features"], node["names"])
        return with_output(step, node["container"])
    if name == "Pipeline":
        return with_output(Pipeline(_read_steps(node["steps"])), node["container"])
    if name == "ColumnTransformer":
        return _read_columns(node)
    if name == "TransformedTargetRegressor":
        parts = _read(node["regressor"]), _read(node["transformer"])
        return _target_regressor(*parts, node["n_dim"])
    return ReleasedModel.from_content(name, node["fields"])


def _read_steps(steps: Any) -> list[tuple[str, Any]]:
    read = [(name, _read(step)) for name, step in steps]
    Pipeline([])._validate_names([name for name, _ in read])
    return read


def _read_columns(node: dict[str, Any]) -> ColumnTransformer:
    """Make a ColumnTransformer by fitting it on a row made of its own public parameters."""
    steps = [(name, _read(step), columns) for name, step, columns in node["steps"]]
    made = ColumnTransformer(
        [step for step in steps if step[0] != "remainder"],
        remainder=next((step for name, step, _ in steps if name == "remainder"), "drop"),
        transformer_weights=node["transformer_weights"],
        verbose_feature_names_out=node["verbose_feature_names_out"],
    )
    names = node["names"]
    row = pd.DataFrame(np.zeros((1, node["n_features"])), columns=names, dtype=object)
    encoders_last = sorted(steps, key=lambda step: isinstance(_first(step[1]), _ENCODER))
    for _, step, columns in encoders_last:
        if not is_skipped(step) and len(columns):
            row.loc[:, columns] = _example(_first(step))
    with_output(made, node["container"]).fit(row if names is not None else row.to_numpy())
    made.sparse_output_ = bool(node["sparse_output"])
    return made


def _first(step: Any) -> Any:
    return _first(step.steps[0][1]) if isinstance(step, Pipeline) else step


def _example(step: Any) -> list[Any]:
    """Return raw values that a transformer of ours takes, from its public parameters."""
    used = step._used_parameters()
    if "categories" in used:
        return [[*values, 0.0][0] for values in used["categories"]]
    if "values" in used:
        return list(used["values"])
    return [0.0] * step.n_features_in_
