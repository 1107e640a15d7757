"""Released pipelines as JSON: parameters, names of columns, and the released model."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import skleak.preprocessing as preprocessing
from skleak._release._tree import is_skipped, with_output
from skleak._released import ReleasedModel
from skleak.utils._json import read_document, write_document
from skleak.utils._sklearn_compat import output_container
from skleak.utils._typing import Array

_KIND = "ReleasedPipeline"
_ENCODER = preprocessing.PublicOneHotEncoder
_OURS = {name: getattr(preprocessing, name) for name in preprocessing.__all__}


def pipeline_to_json(pipeline: Any) -> str:
    """Write a released pipeline."""
    return write_document(_KIND, _written_pipeline(pipeline))


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
        return {"class": "Pipeline", **_written_pipeline(step, path)}
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


def _written_pipeline(pipeline: Any, path: str = "") -> dict[str, Any]:
    prefix = f"{path}__" if path else ""
    steps = [[name, _written(step, prefix + name)] for name, step in pipeline.steps]
    return {"steps": steps, "container": output_container(pipeline)}


def _written_columns(step: ColumnTransformer, path: str) -> dict[str, Any]:
    names = getattr(step, "feature_names_in_", None)
    steps = []
    for name, child, columns in step.transformers_:
        chosen = _plain_columns(columns, step.n_features_in_, names)
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


def _plain_columns(columns: Any, n_features: int, names: Array | None) -> list[Any]:
    """Return columns as a list of names, or of places where they have none."""
    labels = np.arange(n_features) if names is None else names
    if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
        places = pd.Index(labels).slice_indexer(columns.start, columns.stop)
        return list(labels[places].tolist())
    chosen = np.asarray(columns) if not isinstance(columns, slice) else columns
    if isinstance(chosen, np.ndarray) and chosen.dtype.kind in "UO" and chosen.size:
        return list(chosen.tolist())
    is_empty = isinstance(chosen, np.ndarray) and chosen.size == 0
    return [] if is_empty else list(labels[chosen].tolist())


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
        regressor, transformer = _read(node["regressor"]), _read(node["transformer"])
        step = TransformedTargetRegressor(regressor, transformer=transformer, check_inverse=False)
        step.regressor_, step.transformer_ = regressor, transformer
        step._training_dim = node["n_dim"]
        return step
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
        return [values[0] for values in used["categories"]]
    if "values" in used:
        return list(used["values"])
    return [0.0] * step.n_features_in_
