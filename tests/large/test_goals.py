"""Noise goals that read the records: the rungs and the errors of memory, outside of it."""

import warnings

import dask.array as da
import numpy as np
import pytest
from helpers import exhaustive, mostly_slow
from large_tables import MODELS, outside, records, table

from skleak.exceptions import PartialBlockWarning
from skleak.linear_model import PrivateLinearRegression
from skleak.mechanisms import MaxAdvantage, MaxLeakage

TOGETHER = "skleak.linear_model._goals._MOST_ENTRIES"
GOALS = [
    MaxLeakage(0.6, features=0),
    MaxLeakage(0.6),
    MaxLeakage(0.7, features=[0, 1]),
    MaxLeakage(0.5, quantile=0.9),
    MaxAdvantage(0.1, 0),
    MaxAdvantage(0.2, 0, prior="marginal"),
    MaxLeakage(-1.0),
    MaxAdvantage(0.2, 1, prior="uniform"),
    MaxAdvantage(0.2, "(target)"),
    MaxAdvantage(0.2, 2),  # a numeric column
]
LEAKAGES = [MaxLeakage(0.6), MaxLeakage(0.7, features=1), MaxLeakage(0.5, quantile=0.9)]


def outcome(model, *given):
    """The rung, or what was refused and why."""
    try:
        model.fit(*given)
    except ValueError as error:
        return str(error)
    return model.noise_scale_


def both(make, given, chunks=(1, 20, 9)):
    """The outcomes in memory and outside of it."""
    large = [da.from_array(v, chunks=(chunks, -1)[: v.ndim]) for v in given]
    return outcome(make(), *given), outcome(make(), *large)


@pytest.mark.parametrize("goal", mostly_slow(GOALS, 0, 1, 3, 4, 6), ids=repr)
@pytest.mark.parametrize(
    "kind",
    # Of several classes the worst prior of a number takes minutes.
    [*mostly_slow(["squared", "logistic", "poisson"], 0), *exhaustive([("softmax",)])],
)
def test_rungs_and_errors_are_those_of_memory(kind, goal, rng):
    given = records(kind, rng, 30)
    for intercept in (True, False):
        options = {"alpha": 0.1, "fit_intercept": intercept}
        expected, found = both(lambda o=options: MODELS[kind](goal, **o), given)
        assert found == expected


@pytest.mark.parametrize(
    "options", mostly_slow([{"reweighting": "irfil"}, {"noise_covariance": np.eye(4)}], 1)
)
def test_rungs_of_other_mechanisms(options, rng):
    given = records("squared", rng, 24)
    goal = MaxLeakage(3.0, features=0)
    expected, found = both(
        lambda: PrivateLinearRegression(goal, alpha=0.3, **options), given, (1, 3, 20)
    )
    assert found == expected


@pytest.mark.parametrize("where", mostly_slow(["frame", "parquet"]))
def test_tables_of_other_kinds(where, tmp_path):
    frame, y, weight = table("squared")
    frame["dose"] = (frame["dose"] > -1.0).astype(float)
    goal = MaxLeakage(40.0, features="dose")
    expected = outcome(PrivateLinearRegression(goal), frame, y, weight)
    found = outcome(PrivateLinearRegression(goal), *outside(where, frame, y, weight, tmp_path))
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("goal", LEAKAGES, ids=repr)
@pytest.mark.parametrize("kind", list(MODELS))
def test_rungs_are_those_of_memory_where_no_block_holds_all(kind, goal, rng, monkeypatch):
    monkeypatch.setattr(TOGETHER, 0)
    given = records(kind, rng, 60)
    expected, found = both(lambda: MODELS[kind](goal, alpha=0.1), given, (1, 50, 9))
    assert isinstance(found, str) == isinstance(expected, str)
    # Which records a bound names, and which a fit, may differ; here they do not.
    assert found == expected


@pytest.mark.slow
def test_bounds_settle_nearly_all_of_many_records(rng, monkeypatch):
    """Without a single whole fit: neither of the fits that are refused here is made."""
    X, y, weight = records("logistic", rng, 40_000)
    weight += 1.0
    goals = [MaxLeakage(eta, features=0) for eta in (0.01, 0.011, 0.013)]
    model = MODELS["logistic"]
    monkeypatch.setattr(TOGETHER, 0)
    monkeypatch.setattr("skleak.linear_model._goals._MOST_FITS", 0)
    large = [da.from_array(v, chunks=(10_000, -1)[: v.ndim]) for v in (X, y, weight)]
    plain = model(alpha=0.1).fit(X, y, weight)
    told = [outcome(model(goal, alpha=0.1), *large) for goal in goals]
    needed = [goal.noise_scale_of(plain) for goal in goals]
    assert sum(isinstance(found, float) for found in told) >= 2
    for found, least in zip(told, needed, strict=True):
        assert isinstance(found, str) or least <= found < least * 2**0.5


def test_noise_found_on_public_records(rng, monkeypatch):
    X, y, weight = records("squared", rng, 80)
    large = [da.from_array(v, chunks=(30, -1)[: v.ndim]) for v in (X, y, weight)]
    inside = PrivateLinearRegression().fit(X, y, weight)
    found = PrivateLinearRegression().fit(*large)
    goals = [MaxLeakage(0.5), MaxLeakage(0.5, quantile=0.7), MaxAdvantage(0.1, 1)]
    for goal in goals:
        expected = goal.noise_scale_of(inside)
        assert goal.noise_scale_of(found) == pytest.approx(expected, rel=1e-9)
    monkeypatch.setattr(TOGETHER, 0)
    for goal in goals[:2]:
        expected = goal.noise_scale_of(inside)
        assert goal.noise_scale_of(found) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="80 records outside memory are too many"):
        goals[2].noise_scale_of(found)


@pytest.mark.slow
def test_a_report_counts_records_that_may_move_the_rung(rng, monkeypatch):
    X, y, _ = records("squared", rng, 60)
    large = [da.from_array(v, chunks=(25, -1)[: v.ndim]) for v in (X, y)]
    goal = MaxLeakage(2.0, features=2)
    inside = PrivateLinearRegression(goal, alpha=0.5).fit(X, y)
    found = PrivateLinearRegression(goal, alpha=0.5).fit(*large)
    expected = inside.leakage_report().dataset["n_records_moving_rung"]
    assert found.leakage_report().dataset["n_records_moving_rung"] == expected
    monkeypatch.setattr(TOGETHER, 0)
    upper = found._rung_moves()
    assert upper.keys() == expected.keys()
    assert all(upper[name] >= n for name, n in expected.items())


@pytest.mark.parametrize("entries", mostly_slow([0, 1 << 23], 1))
def test_a_part_of_a_one_hot_block_is_told(entries, rng, monkeypatch):
    monkeypatch.setattr(TOGETHER, entries)
    monkeypatch.setattr("skleak.linear_model._goals._MOST_FITS", 0)
    codes = rng.integers(0, 3, 60)
    X = np.column_stack([rng.normal(size=60), np.eye(3)[codes], rng.normal(size=60) > 1.0])
    y = rng.normal(size=60)
    large = [da.from_array(v, chunks=(25, -1)[: v.ndim]) for v in (X.astype(float), y)]
    with pytest.warns(PartialBlockWarning, match=r"one column of the block \['x1', 'x2', 'x3'\]"):
        outcome(PrivateLinearRegression(MaxLeakage(2.0, features=1), alpha=0.5), *large)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for whole in ([1, 2, 3], 4, 0):
            outcome(PrivateLinearRegression(MaxLeakage(2.0, features=whole), alpha=0.5), *large)
