"""Tables from outcomes that are known."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import stats

from skleak.audit.tables._rates import (
    SecretDesign,
    _bounds_on_errors,
    cell_key,
)
from skleak.metrics import binomial_interval, mean_interval
from skleak.metrics.intervals import detectable_excess
from skleak.metrics.verdicts import BIASED, CONSISTENT, EXCEEDED, VACUOUS
from skleak.plotting.displays import group_records

DESIGN = SecretDesign(
    targets=np.array([4, 2]),
    etas={0.0: np.array([np.inf, 0.0]), 0.5: np.array([6.0, 0.0])},
    prior_score=np.array([0.5, 0.7]),
    baseline=0.6,
    imputation=0.5,
    spread=1.0,
    attacks=("a", "b"),
    noise_scales=(0.0, 0.5),
    bounds=("bayes", "gdp"),
    n_releases=10,
    drawn=False,
    confidence_level=0.9,
    verdict_level=0.99,
)
NUMERIC = dataclasses.replace(
    DESIGN,
    attacks=("a",),
    noise_scales=(0.5,),
    bounds=(),
    spread=4.0,
    n_releases=20,
    estimates=True,
)


def success(shares):
    shares = np.asarray(shares, dtype=float)
    n = len(shares)
    counts = np.array([n, round(2 * float(shares.sum())) - n])
    hits = {"hits": np.array(counts.sum()), "games": np.array(2 * n), "exact": np.array(False)}
    return {"shares": shares, "counts": counts, **hits}


def cells(**more):
    bounds = {
        "bayes": np.array([0.7, 0.8]),
        "gdp": np.array([0.9, 1.0]),
        "standard_error": np.zeros(2),
    }
    found = {
        cell_key(0.5, "bounds"): bounds,
        cell_key(0.0, "bounds"): bounds | {"bayes": np.ones(2)},
        cell_key(0.5, "utility"): {"utility": np.array([0.1, 0.3])},
    }
    for scale in (0.0, 0.5):
        found[cell_key(scale, "a")] = success([1.0, 0.5] * 5)
        found[cell_key(scale, "b")] = success([0.5] * 10)
    return found | more


def test_rows_of_success():
    table = DESIGN.attack_rows(cells())
    assert table["attack"].tolist() == ["a", "b"] * 2
    row = table.iloc[2]
    expected = mean_interval([1.0, 0.5] * 5, confidence_level=0.9, value_range=(0.0, 1.0))
    assert tuple(row[["success", "success_low", "success_high"]]) == pytest.approx(expected)
    assert row["advantage"] == pytest.approx((0.75 - 0.6) / 0.4)
    assert row["advantage_over_imputation_low"] == pytest.approx((expected.low - 0.5) / 0.5)
    assert row["bayes"] == pytest.approx(0.75)
    assert row["gdp"] == pytest.approx(0.95)
    assert row["utility"] == pytest.approx(0.2)
    assert np.isnan(table["utility"][0])
    assert row["n_games"] == 20
    assert row["verdict"] == CONSISTENT


def test_unfinished_cells_are_left_out():
    found = cells()
    del found[cell_key(0.0, "b")]
    del found[cell_key(0.5, "bounds")]
    table = DESIGN.attack_rows(found)
    assert list(zip(table["noise_scale"], table["attack"], strict=True)) == [
        (0.0, "a"),
        (0.5, "a"),
        (0.5, "b"),
    ]
    assert table["bayes"].isna().tolist() == [False, True, True]
    assert table["verdict"][1] == VACUOUS
    assert DESIGN.attack_rows({}).empty


def test_facts_have_no_width_and_games_an_exact_interval():
    fact = success([0.5] * 10) | {"exact": np.array(True)}
    games = {"hits": np.array(13), "games": np.array(20)}
    found = cells(**{cell_key(0.5, "a"): fact, cell_key(0.5, "b"): games})
    table = DESIGN.attack_rows(found)
    assert (table["success_low"][2], table["success_high"][2]) == (0.5, 0.5)
    expected = binomial_interval(13.0, 20.0, 0.9)
    assert tuple(table.iloc[3][["success", "success_low", "success_high"]]) == pytest.approx(
        expected
    )


def test_certain_baselines_have_no_advantage():
    table = dataclasses.replace(DESIGN, baseline=1.0, imputation=np.nan).attack_rows(cells())
    for column in ("advantage", "advantage_low", "advantage_over_imputation_high"):
        assert table[column].isna().all()


@pytest.mark.slow
def test_verdicts_take_the_wider_interval():
    many = success([1.0] * 10)
    tight = {"bayes": np.full(2, 0.7), "gdp": np.ones(2), "standard_error": np.zeros(2)}
    found = cells(**{cell_key(0.5, "a"): many, cell_key(0.5, "bounds"): tight})
    drawn = dataclasses.replace(DESIGN, drawn=True)
    assert drawn.attack_rows(found)["verdict"][2] == CONSISTENT
    loose = dataclasses.replace(drawn, verdict_level=0.5)
    assert loose.attack_rows(found)["verdict"][2] == EXCEEDED
    # Two actual secrets prove nothing.
    actual = dataclasses.replace(loose, drawn=False, verdict_level=0.9)
    assert actual.attack_rows(found)["verdict"][2] == CONSISTENT


@pytest.mark.slow
def test_a_verdict_rests_on_the_proven_interval():
    # Of one hundred even releases Gaffke's limit, a conjecture, is above the bound already.
    shares = np.r_[[1.0, 0.5] * 50]
    drawn = dataclasses.replace(DESIGN, drawn=True, verdict_level=0.95)
    gaffke, betting = (
        mean_interval(shares, value_range=(0.0, 1.0), method=m).low for m in ("gaffke", "betting")
    )
    assert betting < gaffke < 0.75
    for bound, expected in (
        (0.5 * (betting + gaffke), CONSISTENT),
        (betting - 1e-6, EXCEEDED),
    ):
        tight = {"bayes": np.full(2, bound), "gdp": np.ones(2), "standard_error": np.zeros(2)}
        found = cells(**{cell_key(0.5, "a"): success(shares), cell_key(0.5, "bounds"): tight})
        row = drawn.attack_rows(found).iloc[2]
        assert row["verdict"] == expected
    # What is shown stays Gaffke's, at its own level.
    shown = mean_interval(shares, confidence_level=0.9, value_range=(0.0, 1.0))
    assert tuple(row[["success", "success_low", "success_high"]]) == pytest.approx(shown)


@pytest.mark.slow
def test_detectable_excess_of_a_row():
    drawn = dataclasses.replace(DESIGN, drawn=True, verdict_level=0.95)
    games = {"hits": np.array(60), "games": np.array(100)}
    fact = success([0.5] * 10) | {"exact": np.array(True)}
    found = cells(**{cell_key(0.5, "a"): success([1.0, 0.5] * 50), cell_key(0.5, "b"): games})
    table = drawn.attack_rows(found)
    spread = np.std([1.0, 0.5] * 50, ddof=1)
    expected = detectable_excess(100, 0.75, standard_deviation=spread)
    assert table["detectable_excess"][2] == pytest.approx(expected)
    binomial = detectable_excess(100, 0.75, method="binomial")
    assert table["detectable_excess"][3] == pytest.approx(binomial)
    # A bound near 1 is out of reach, and a fact has no error.
    assert (table["detectable_excess"][:2] == np.inf).all()
    found[cell_key(0.5, "a")] = fact
    assert drawn.attack_rows(found)["detectable_excess"][2] == 0.0
    # Two actual secrets prove nothing, however many releases; many prove less than drawn ones.
    found[cell_key(0.5, "a")] = success([1.0, 0.5] * 50)
    actual = dataclasses.replace(drawn, drawn=False).attack_rows(found)
    assert actual["detectable_excess"][2] == np.inf
    many = dataclasses.replace(drawn, drawn=False, targets=np.arange(100))
    assert many.attack_rows(found)["detectable_excess"][2] > expected + 0.05


def test_rows_of_records():
    table = DESIGN.record_rows(cells())
    assert table["record"].tolist() == [4, 2, 4, 2]
    assert table["eta"].tolist() == [np.inf, 0.0, 6.0, 0.0]
    assert table["bayes"].tolist() == [1.0, 1.0, 0.7, 0.8]
    assert table["tightest_bound"].tolist() == [0.9, 1.0, 0.9, 1.0]
    assert table["success_a"].tolist() == [1.0, 0.5] * 2
    assert "verdict" not in table
    drawn = dataclasses.replace(DESIGN, drawn=True, n_releases=200).record_rows(cells())
    assert drawn["verdict"].tolist() == [VACUOUS, VACUOUS, CONSISTENT, CONSISTENT]


def errors(values, bound, biased=False, exact=False):
    values = np.asarray(values, dtype=float)
    bound = np.asarray(bound, dtype=float)
    return {
        "mse_by_release": values,
        "ratio_by_release": values / bound.mean(),
        "mse": np.full(2, values.mean()),
        "variance": np.full(2, values.mean()),
        "squared_bias": np.zeros(2),
        "bound": bound,
        "ratio": np.array(values.mean() / bound.mean()),
        "bias_over_noise": np.array(float(len(values)) if biased else 0.0),
        "games": np.array(2 * len(values)),
        "exact": np.array(exact),
    }


def error_table(outcome):
    return error_table_of(NUMERIC, outcome)


def error_table_of(design, outcome):
    return design.attack_rows({cell_key(0.5, "a"): outcome}).iloc[0]


def test_rows_of_errors():
    values = np.linspace(0.5, 1.5, 20)
    row = error_table(errors(values, [1.0, 1.0]))
    expected = mean_interval(values, confidence_level=0.9)
    assert tuple(row[["mse", "mse_low", "mse_high"]]) == pytest.approx(expected)
    assert row["success"] == pytest.approx(1.0 - 1.0 / 4.0)
    assert row["success_low"] == pytest.approx(1.0 - expected.high / 4.0)
    assert row["advantage"] == pytest.approx((0.75 - 0.6) / 0.4)
    assert row["mse_over_bound"] == pytest.approx(1.0)
    assert row["verdict"] == CONSISTENT


def test_verdicts_of_errors():
    values = np.linspace(0.05, 0.15, 20)
    assert error_table(errors(values, [1.0, 1.0]))["verdict"] == EXCEEDED
    assert error_table(errors(values, [1.0, 1.0], biased=True))["verdict"] == BIASED
    assert error_table(errors(values, [1.0, 1.0], exact=True))["verdict"] == BIASED
    assert error_table(errors(values, [0.01, 0.01]))["verdict"] == CONSISTENT
    assert error_table(errors(values, [np.nan, np.nan]))["verdict"] == VACUOUS


def test_a_few_records_with_large_ratios_hide_nothing():
    """Most errors lie far below their bounds, and a few make up the mean."""
    values = np.linspace(19.0, 21.0, 20)
    outcome = errors(values, [1.0, 1.0], biased=True) | {"ratio": np.array(0.1)}
    assert error_table(outcome)["mse_over_bound"] == pytest.approx(0.1)
    assert error_table(outcome)["verdict"] == BIASED


@pytest.mark.parametrize("n", [5, 30])
def test_medians_of_independent_records_raise_no_false_alarm(n, rng):
    """Every record has noise of its own: the median of their errors is then always below 1."""
    design = dataclasses.replace(NUMERIC, n_releases=n)
    for _ in range(50):
        squares = stats.chi2.rvs(1, size=(n, 101), random_state=rng)
        outcome = errors(squares.mean(axis=1), [1.0, 1.0])
        outcome["ratio"] = np.median(squares.mean(axis=0))
        assert error_table_of(design, outcome)["verdict"] == CONSISTENT


@pytest.mark.slow
@pytest.mark.parametrize("n", mostly_slow([2, 5, 30, 200], 0, 2))
def test_skewed_errors_raise_no_false_alarm(n, rng):
    """All records share one noise, and the attack just meets the bound."""
    design = dataclasses.replace(NUMERIC, n_releases=n)
    alarms = 0
    for _ in range(400):
        outcome = errors(stats.chi2.rvs(1, size=n, random_state=rng), [1.0, 1.0])
        table = design.attack_rows({cell_key(0.5, "a"): outcome})
        alarms += table["verdict"].item() != CONSISTENT
    # A level of 99 % leaves half a per cent on this side: 2 of 400, and 4.5 deviations.
    assert alarms <= 2 + 7


def test_bounds_on_errors_have_a_median_and_a_mean_of_what_can_be_learnt():
    prior = np.array([1.0, 2.0, 3.0, 4.0])
    found = _bounds_on_errors(np.array([0.5, np.inf, 1.0, 9.0]), prior)
    assert found == {"cramer_rao": 5.0, "cramer_rao_mean": (0.5 + 2.0 + 1.0 + 4.0) / 4.0}
    # A bound that is not known is none.
    found = _bounds_on_errors(np.array([np.nan, np.inf, 1.0, 9.0]), prior)
    assert found == {"cramer_rao": 5.0, "cramer_rao_mean": (0.0 + 2.0 + 1.0 + 4.0) / 4.0}
    assert np.isnan(list(_bounds_on_errors(np.full(4, np.nan), prior).values())).all()


def test_groups_share_tied_records_out(rng):
    eta = rng.integers(0, 4, size=41).astype(float)
    values = rng.exponential(size=41)
    values[rng.random(41) < 0.2] = np.nan
    for statistic, plain in (("mean", np.nanmean), ("median", np.nanmedian)):
        # Without ties these are the means and medians of equal groups.
        apart = np.arange(41.0)
        found = group_records(apart, {"mine": values}, 7, statistic)["mine"]
        expected = [plain(part) for part in np.array_split(values, 7)]
        np.testing.assert_allclose(found, expected)
        # With ties the order of the records does not show.
        first = group_records(eta, {"mine": values}, 7, statistic)
        order = rng.permutation(41)
        pd.testing.assert_frame_equal(
            first, group_records(eta[order], {"mine": values[order]}, 7, statistic)
        )
        equal = group_records(np.ones(41), {"mine": values}, 7, statistic)["mine"]
        np.testing.assert_allclose(equal, plain(values))
