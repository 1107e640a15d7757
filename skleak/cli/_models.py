"""A model of the user's: from a pickle or a function, and the columns that it takes."""

import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import last_step
from skleak.cli._arguments import OWN_MODELS, is_own_model
from skleak.plotting.labels import shorten

_MOST_SHOWN = 5


def load_model(name: str) -> Any:
    """Load an estimator, by running code: that of a pickle, or of a module.

    Returns: None for the name of a model of ours.
    """
    if not is_own_model(name):
        return None
    model = _of_pickle(Path(name).expanduser()) if _is_file(name) else _of_function(name)
    if isinstance(model, type):
        raise TypeError(
            f"--model: {name} gives the class {model.__name__}; expected an estimator. Make one, "
            f"such as {model.__name__}()"
        )
    if not (hasattr(model, "fit") and hasattr(model, "predict")):
        raise TypeError(
            f"--model: {name} gives a {type(model).__name__}; expected an estimator with `fit` and "
            "`predict`, such as a scikit-learn pipeline"
        )
    if hasattr(last_step(model), "provenance_"):
        raise ValueError(
            f"--model: {name} is a release, which does not know how it was trained. Pass the "
            "estimator that it was released from; `clone` leaves out what it learned"
        )
    return model


def called(model: Any) -> str:
    """Name of a model for people, and whether it was fitted."""
    fitted = "a fitted" if _is_fitted(model) else "an unfitted"
    return f"{fitted} {type(model).__name__}"


def own_columns(model: Any, frame: pd.DataFrame, sensitive: str | None) -> list[str] | None:
    """Columns of the table that a model takes as they are; None for one that takes numbers only.

    A pipeline prepares columns itself, and a model that was fitted on columns by name takes these.
    """
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return list(frame.columns) if _prepares(model) else None
    lacking = [str(name) for name in names if name not in frame.columns]
    if lacking:
        shown = ", ".join(repr(shorten(name, 40)) for name in lacking[:_MOST_SHOWN])
        more = ", …" if len(lacking) > _MOST_SHOWN else ""
        raise ValueError(
            f"--model: it was fitted on columns that the table lacks, or that --drop leaves out: "
            f"{shown}{more}. Put what encodes the columns into the pipeline, or pass an unfitted "
            "model"
        )
    also = [] if sensitive is None or sensitive in names else [sensitive]
    return [*map(str, names), *also]


def on_columns(model: Any, sensitive: str | None) -> Any:
    """Put a model behind what picks its columns, where the sensitive one is none of them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or sensitive is None or sensitive in names:
        return model
    pick = ColumnTransformer(
        [("used", "passthrough", list(names))], verbose_feature_names_out=False
    )
    return Pipeline([("columns", pick.set_output(transform="pandas")), ("model", model)])


def predicts_classes(model: Any) -> bool | None:
    """Tell whether labels are predicted; None where a model does not say."""
    if not hasattr(model, "__sklearn_tags__"):
        return None
    return True if is_classifier(model) else False if is_regressor(model) else None


def _is_file(name: str) -> bool:
    return name.lower().endswith(OWN_MODELS)


def _of_pickle(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"--model: there is no file {str(path)!r}. Check its name")
    with path.open("rb") as file:
        try:
            return pickle.load(file)
        except (ImportError, AttributeError) as error:
            raise ImportError(
                f"--model: {path.name} needs what is not here: {error}. Install it, or put the "
                "module that defines the model beside the command"
            ) from error
        except Exception as error:
            raise ValueError(
                f"--model: {path.name} cannot be read as a pickle ({error}). Write it with "
                "`pickle.dump(estimator, file)`, with the scikit-learn that is installed here"
            ) from error


def _of_function(name: str) -> Any:
    module, _, path = name.partition(":")
    # As of `python -m`: a module beside the command is found.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        factory: Any = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"--model: the module {module!r} cannot be imported: {error}. Run the command in its "
            "folder, or install it"
        ) from error
    for part in path.split("."):
        if not hasattr(factory, part):
            raise ValueError(
                f"--model: {module!r} has no {path!r}. Name a function without arguments that "
                "returns the estimator"
            )
        factory = getattr(factory, part)
    if not callable(factory):
        return factory
    try:
        return factory()
    except Exception as error:
        raise ValueError(
            f"--model: calling {name} without arguments failed: {type(error).__name__}: {error}. "
            "It must return the estimator"
        ) from error


def _prepares(model: Any) -> bool:
    """Return True if a model is a pipeline, whatever searches and the like are around it."""
    while not isinstance(model, Pipeline):
        inner = getattr(model, "estimator", None) or getattr(model, "regressor", None)
        if inner is None:
            return False
        model = inner
    return len(model.steps) > 1


def _is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except Exception:  # `NotFittedError`, and what estimators from elsewhere raise
        return False
    return True
