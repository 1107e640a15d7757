"""A model of the user's: from a pickle or a function, and the columns that it takes."""

import pickle
import pkgutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import last_step
from skleak.cli._options import MODELS, PICKLES
from skleak.plotting.labels import shorten

_MOST_SHOWN = 5


def load_model(name: str) -> Any:
    """Load an estimator, by running code: that of a pickle, or of a module.

    Returns: None for the name of a model of ours.
    """
    if name in MODELS:
        return None
    model = _of_pickle(name) if name.lower().endswith(PICKLES) else _of_function(name)
    kind = type(model).__name__
    if isinstance(model, type):
        raise TypeError(f"--model: {name} gives the class {model.__name__}. Pass an instance of it")
    if not (hasattr(model, "fit") and hasattr(model, "predict")):
        raise TypeError(f"--model: {name} gives a {kind}; expected an estimator with `predict`")
    if hasattr(last_step(model), "provenance_"):
        raise ValueError(f"--model: {name} is a release. Pass the estimator that it was made by")
    return model


def _of_pickle(name: str) -> Any:
    path = Path(name).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"--model: there is no file {str(path)!r}. Check its name")
    try:
        return pickle.loads(path.read_bytes())
    except Exception as error:
        why = "cannot be read as a pickle, with the scikit-learn that is installed here"
        if isinstance(error, ImportError | AttributeError):
            why = "needs what is not here: install it, or put its module beside the command"
        raise ValueError(f"--model: {path.name} {why} ({error})") from error


def _of_function(name: str) -> Any:
    # As of `python -m`: a module beside the command is found.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        factory = pkgutil.resolve_name(name)
    except ImportError as error:
        raise ImportError(f"--model: the module of {name} cannot be imported: {error}") from error
    except AttributeError as error:
        raise ValueError(f"--model: {name} is not there: {error}. Name a function") from error
    try:
        return factory() if callable(factory) else factory
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"--model: calling {name} without arguments failed: {why}") from error


def own_columns(model: Any, frame: pd.DataFrame, sensitive: str | None) -> list[str] | None:
    """Columns of the table that a model takes as they are; None for one that takes numbers only.

    A pipeline prepares columns itself, and a model that was fitted on columns by name takes these.
    """
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return list(frame.columns) if _prepares(model) else None
    if lacking := [repr(shorten(name, 40)) for name in names if name not in frame.columns]:
        shown = ", ".join(lacking[:_MOST_SHOWN]) + (", …" if len(lacking) > _MOST_SHOWN else "")
        raise ValueError(
            f"--model: it was fitted on columns that are not in the table: {shown}. Put what "
            "encodes the columns into the pipeline, or pass an unfitted model"
        )
    return list(dict.fromkeys([*map(str, names), *filter(None, [sensitive])]))


def on_columns(model: Any, sensitive: str | None) -> Any:
    """Put a model behind what picks its columns, where the sensitive one is none of them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or sensitive is None or sensitive in names:
        return model
    pick = ColumnTransformer(
        [("used", "passthrough", list(names))], verbose_feature_names_out=False
    )
    return Pipeline([("columns", pick.set_output(transform="pandas")), ("model", model)])


def predicts(model: Any) -> str:
    """Return which of our models predicts the same: "logistic", "linear", or "auto"."""
    if not hasattr(model, "__sklearn_tags__"):
        return "auto"
    return "logistic" if is_classifier(model) else "linear" if is_regressor(model) else "auto"


def _prepares(model: Any) -> bool:
    """Return True if a model is a pipeline, whatever searches and the like are around it."""
    while not isinstance(model, Pipeline):
        model = getattr(model, "estimator", None) or getattr(model, "regressor", None)
        if model is None:
            return False
    return len(model.steps) > 1
