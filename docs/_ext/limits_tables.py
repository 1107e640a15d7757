"""The tables of the page about limits: constants of the code, and committed results."""

import importlib
import json
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
# Module, constant, and what it limits.
CONSTANTS = [
    (
        "linear_model._base",
        "_MOST_PARAMETERS",
        "parameters of a private linear model, refused above",
    ),
    (
        "linear_model._measured",
        "_MOST_SHAPED",
        'parameters under `noise_covariance="minimax"` or `"least_mean"`',
    ),
    (
        "adversary.knowledge",
        "MAX_VALUES",
        "values of a column that is told apart by value",
    ),
    ("adversary.knowledge", "MAX_CODES", "whole numbers of a column that may be codes"),
    ("mechanisms.goals", "MOST_VALUES", "values of a column of a noise goal"),
    (
        "linear_model._goals",
        "_MOST_FITS",
        "fits to see that a noise goal gives nobody away",
    ),
    ("adversary.numbers", "_RISKS", "records of a number whose Bayes risk is computed"),
    ("audit.games.attribute._game", "_MOST_TRAININGS", "trainings to read a model without noise"),
    (
        "cli._columns",
        "MAX_LEVELS",
        "levels of a column of text that the command line encodes apart",
    ),
    ("cli._preparation", "_MOST_CLASSES", "classes of a target on the command line"),
]


def constants() -> str:
    """Return a table of the limits that are constants, with their present values."""
    text = "| at most | of what |\n|---:|---|\n"
    for module, name, meaning in CONSTANTS:
        value = getattr(importlib.import_module(f"skleak.{module}"), name)
        text += f"| {value:,} | {meaning} |\n"
    return text


def times() -> str:
    """Return the largest sizes that were timed, from the committed results."""
    text = "| what | size | seconds | grows like |\n|---|---|---:|---|\n"
    for name in ("bench_scaling", "bench_growth"):
        result = json.loads((RESULTS / f"{name}.json").read_text())
        for curve in result["curves"]:
            if curve["label"] in ("dense", "refits"):
                continue
            own = curve["label"] == "skleak"
            label = f"{curve['panel']}: skleak" if own else curve["label"]
            power = result["figures"][f"{label}: exponent in {curve['over']}"]
            what = curve["panel"] if own else f"{curve['panel']}: {curve['label']}"
            size = f"{curve['over']} = {curve['sizes'][-1]:,.0f}"
            text += f"| {what} | {size} | {curve['seconds'][-1]:.2g} | "
            text += f"{curve['over']}^{power:.1f} |\n"
    return text
