"""Noise goals that read the records: the rungs and the errors of memory, outside of it."""

import re

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from large_tables import MODELS, records
from numpy.testing import assert_allclose

from skleak.mechanisms import MaxAdvantage, MaxLeakage

COLUMNS = ["a", "b", "c"]
GOALS = [
    MaxLeakage(0.6, features="a"),
    MaxLeakage(0.7, features="b"),
    MaxLeakage(0.6),
    MaxLeakage(0.5, quantile=0.9),
    MaxAdvantage(0.1, "a"),
    MaxAdvantage(0.2, "b"),
    MaxAdvantage(0.2, "a", prior="marginal"),
    MaxAdvantage(0.2, "b", prior="uniform"),
    MaxAdvantage(0.2, "(target)"),
    MaxAdvantage(0.2, "c"),
]


def outcome(model, *given):
    """The rung, or what was refused and why."""
    try:
        model.fit(*given)
    except ValueError as error:
        return str(error)
    return model.noise_scale_


def both(model, X, y, weight, chunks):
    """The outcomes in memory and outside of it; of one seed."""
    large = [da.from_array(v, chunks=(chunks, -1)[: v.ndim]) for v in (X, y, weight)]
    return outcome(model(), X, y, weight), outcome(model(), *large)


@pytest.mark.parametrize("goal", GOALS, ids=repr)
@pytest.mark.parametrize("kind", MODELS)
def test_rungs_and_errors_are_those_of_memory(kind, goal, rng):
    X, y, weight = records(kind, rng, 80)
    names = ["a", "b", "c"]
    position = {name: k for k, name in enumerate(names)}
    changes = {k: position[v] for k, v in goal.get_params().items() if v in names}

    def model():
        return MODELS[kind](goal.__class__(**goal.get_params() | changes), alpha=0.1)

    expected, found = both(model, X, y, weight, (1, 50, 29))
    assert found == expected
