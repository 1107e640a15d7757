from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError

from skleak.plotting import AuditDisplay
from skleak.plotting._curves import STYLES

SCALES = [1e-4, 1e-3, 1e-2, 1e-1]
BASELINE, PRIOR_ERROR, SPREAD = 0.4, 4.2, 4.0
BOUNDS = ("bayes", "tradeoff", "gdp", "fano")
ALL_BOUNDS = (
    *BOUNDS,
    *("information_projection", "fano_pairwise", "fano_information_bound", "fano_order_1"),
    *("generalized_fano", "renyi_projection", "closed_form_fano", "reconstruction_robustness"),
)


def categorical(scales=SCALES, attacks=("prior", "imputation", "white_box"), bounds=BOUNDS):
    rows = []
    for scale in scales:
        bayes = BASELINE + (1 - BASELINE) * (2 * ndtr(1e-2 / scale if scale else np.inf) - 1)
        reached = {"prior": BASELINE, "imputation": 0.5, "white_box": bayes - 0.02}
        for attack in attacks:
            success = reached.get(attack, 0.3)
            row = {"noise_scale": scale, "attack": attack, "baseline": BASELINE}
            for end, shift in (("", 0.0), ("_low", -0.01), ("_high", 0.01)):
                row["success" + end] = success + shift
                row["advantage" + end] = (success + shift - BASELINE) / (1 - BASELINE)
            row |= {name: min(1.0, bayes * (1 + 0.1 * k)) for k, name in enumerate(bounds)}
            row |= {"tradeoff": bayes} if "tradeoff" in bounds else {}
            exceeded = success - 0.01 > bayes
            row["verdict"] = "bound exceeded" if exceeded else "consistent with the bound"
            row["utility"] = 0.6 - 2 * scale
            rows.append(row)
    return pd.DataFrame(rows)


def errors(scales=SCALES, attacks=("prior", "white_box", "informed")):
    rows = []
    for scale in scales:
        cramer_rao = 1e4 * scale**2
        biased = 1 / (1 / cramer_rao + 1 / 5) if scale else 0.0
        reached = {"prior": PRIOR_ERROR, "white_box": biased, "informed": 1.1 * cramer_rao}
        for attack in attacks:
            mse = reached[attack]
            row = {"noise_scale": scale, "attack": attack, "baseline": 1 - PRIOR_ERROR / SPREAD}
            row |= {"success": 1 - mse / SPREAD, "cramer_rao": cramer_rao, "mse": mse}
            row |= {"mse_low": 0.8 * mse, "mse_high": 1.2 * mse}
            if attack == "informed" and scale > 0.05:
                row["mse_high"] = np.inf
            row["advantage"] = 1 - mse / PRIOR_ERROR
            row["advantage_low"] = 1 - row["mse_high"] / PRIOR_ERROR
            row["advantage_high"] = 1 - row["mse_low"] / PRIOR_ERROR
            below = attack == "white_box" and row["mse_high"] < cramer_rao
            row["verdict"] = "below the unbiased bound" if below else "consistent with the bound"
            row["utility"] = 0.6 - 50 * scale
            rows.append(row)
    return pd.DataFrame(rows)


def report(results, kind="categorical", **settings):
    bounds = BOUNDS if kind == "categorical" else ("cramer_rao",)
    settings = {"bounds": bounds, "utility_name": "R²", "noiseless_utility": 0.61} | settings
    attribute = None if kind == "record" else "vkorc1"
    return SimpleNamespace(
        results=results,
        kind=kind,
        bounds=settings["bounds"],
        attribute=attribute,
        estimator="Model",
        settings=settings,
    )


def lines_of(ax):
    return {line.get_label(): line for line in ax.lines}


def legend_of(display):
    legends = [ax.get_legend() for ax in display.figure_.axes if ax.get_legend() is not None]
    return [text.get_text() for legend in legends for text in legend.get_texts()]


def rings_of(ax, verdict="bound exceeded"):
    found = [points for points in ax.collections if points.get_label() == verdict]
    return np.concatenate([points.get_offsets() for points in found]).tolist() if found else []


def test_lines_are_the_numbers_in_ascending_noise():
    results = categorical().sample(frac=1.0, random_state=0)
    display = AuditDisplay.from_report(report(results))
    assert not hasattr(display, "ax_")
    assert plt.get_fignums() == []
    before = results.copy()
    assert display.plot() is display
    lines = lines_of(display.ax_)
    for name, label in (("white_box", "white box"), ("imputation", "imputation")):
        rows = results[results["attack"] == name].sort_values("noise_scale")
        np.testing.assert_array_equal(lines[label].get_xdata(), rows["noise_scale"])
        np.testing.assert_array_equal(lines[label].get_ydata(), rows["advantage"])
    rows = results[results["attack"] == "prior"].sort_values("noise_scale")
    for column, label in (
        ("gdp", "Gaussian differential privacy"),
        ("bayes", "Bayes\n= trade-off"),
    ):
        expected = (rows[column] - BASELINE) / (1 - BASELINE)
        np.testing.assert_allclose(lines[label].get_ydata(), expected)
    utility = display.axes_[1].lines[1]
    np.testing.assert_array_equal(utility.get_ydata(), rows["utility"])
    assert display.axes_[1].lines[0].get_ydata()[0] == 0.61
    assert [ax.get_xscale() for ax in display.axes_] == ["log", "log"]
    assert (display.ax_.get_title("left"), display.axes_[1].get_ylabel()) == ("vkorc1: Model", "R²")
    pd.testing.assert_frame_equal(results, before)
    assert len(plt.get_fignums()) == 1


def test_intervals_reach_from_low_to_high():
    results = categorical(attacks=("white_box",))
    display = AuditDisplay(results).plot()
    segments = np.array(display.ax_.collections[0].get_segments())
    np.testing.assert_allclose(segments[:, 0, 1], results["advantage_low"])
    np.testing.assert_allclose(segments[:, 1, 1], np.minimum(results["advantage_high"], 1.0))


def test_attacks_above_the_bound_are_ringed():
    results = categorical()
    display = AuditDisplay.from_report(report(results)).plot()
    bad = results[results["verdict"] == "bound exceeded"]
    assert len(bad)
    assert rings_of(display.ax_) == bad[["noise_scale", "advantage"]].to_numpy().tolist()
    assert "bound exceeded" in legend_of(display)
    fine = display.plot(attacks=["white_box"])
    assert rings_of(fine.ax_) == []
    assert "bound exceeded" not in legend_of(fine)


def test_legend_stands_beside_and_names_every_bound_and_attack():
    results = categorical(attacks=("white_box", "mine_$x^", "_x"), bounds=ALL_BOUNDS)
    display = AuditDisplay.from_report(report(results, bounds=ALL_BOUNDS)).plot()
    display.figure_.canvas.draw()
    drawn = "\n= ".join(legend_of(display)).split("\n= ")
    assert len(drawn) == 3 + len(ALL_BOUNDS)
    assert {"white box", "mine_$x^", " _x"} <= set(drawn)
    assert set(drawn) - {"white box", "mine_$x^", " _x"} <= set(STYLES)
    box = display.ax_.get_legend().get_window_extent()
    assert box.x0 >= display.ax_.get_window_extent().x1
    assert box.x1 <= display.figure_.bbox.x1
    assert box.y0 >= 0.0
    assert box.y1 <= display.figure_.bbox.y1
    colors = {lines_of(display.ax_)[name].get_color() for name in ("white box", "mine_$x^", " _x")}
    assert len(colors) == 3


@pytest.mark.slow
def test_noise_zero_is_drawn():
    display = AuditDisplay.from_report(report(categorical([0.0, *SCALES]))).plot()
    assert display.ax_.get_xscale() == "symlog"
    assert lines_of(display.ax_)["white box"].get_xdata()[0] == 0.0
    display.figure_.canvas.draw()
    shown = display.ax_.transData.transform([(noise, 0.0) for noise in [0.0, *SCALES]])[:, 0]
    assert np.diff(shown).min() > 20.0
    near = AuditDisplay.from_report(report(categorical([0.0, 1.0, 2.0]))).plot()
    assert near.ax_.get_xscale() == "linear"
    alone = AuditDisplay.from_report(report(categorical([0.0]))).plot()
    alone.figure_.canvas.draw()


@pytest.mark.parametrize("kind", ["categorical", "numeric"])
def test_one_noise_scale_gives_a_column_for_each_attack(kind):
    results = categorical([1e-2]) if kind == "categorical" else errors([1e-2])
    display = AuditDisplay.from_report(report(results, kind)).plot()
    ticks = [text.get_text() for text in display.ax_.get_xticklabels()]
    names = {"categorical": ["prior\nguess", "imputation", "white\nbox"]}
    assert ticks == names.get(kind, ["prior\nguess", "white\nbox", "informed"])
    assert display.ax_.get_xlabel() == "attack at noise scale 0.01"
    values = [line.get_ydata()[0] for line in display.ax_.lines if len(line.get_xdata()) == 1]
    wanted = results["advantage"] if kind == "categorical" else results["mse"] / PRIOR_ERROR
    np.testing.assert_allclose(values, wanted)
    bound = lines_of(display.ax_)[legend_of(display)[-1].strip()]
    assert np.ptp(bound.get_ydata()) == 0.0
    low, high = display.ax_.get_xlim()
    assert (bound.get_xdata()[0], bound.get_xdata()[-1]) == (low, high)
    display.figure_.canvas.draw()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numeric", "record"])
def test_errors_are_relative_to_the_prior_guess(kind):
    results = errors()
    display = AuditDisplay.from_report(report(results, kind)).plot()
    lines = lines_of(display.ax_)
    white = results[results["attack"] == "white_box"]
    np.testing.assert_allclose(lines["white box"].get_ydata(), white["mse"] / PRIOR_ERROR)
    np.testing.assert_allclose(lines["prior guess"].get_ydata(), 1.0)
    bound = lines["Cramér–Rao (unbiased attacks)"]
    np.testing.assert_allclose(bound.get_ydata(), white["cramer_rao"] / PRIOR_ERROR)
    assert display.ax_.get_yscale() == "log"
    low = white[white["verdict"] == "below the unbiased bound"]
    assert len(low)
    ringed = rings_of(display.ax_, "below the unbiased bound")
    np.testing.assert_allclose(ringed, np.c_[low["noise_scale"], low["mse"] / PRIOR_ERROR])
    # The interval without an end goes to the edge.
    display.figure_.canvas.draw()
    # Beside means of errors stand means of bounds, where they are known.
    known = report(results.assign(cramer_rao_mean=0.7 * results["cramer_rao"]), kind)
    bound = lines_of(AuditDisplay.from_report(known).plot().ax_)[
        "Cramér–Rao, mean (unbiased attacks)"
    ]
    np.testing.assert_allclose(bound.get_ydata(), 0.7 * white["cramer_rao"] / PRIOR_ERROR)


def test_errors_of_zero_stand_at_the_edge():
    display = AuditDisplay.from_report(report(errors([0.0, *SCALES]), "numeric")).plot()
    low = display.ax_.get_ylim()[0]
    assert low > 0.0
    assert lines_of(display.ax_)["informed"].get_ydata()[0] == low
    arrows = [
        points
        for points in display.ax_.collections
        if points.get_paths() and np.array_equal(points.get_offsets(), [[0.0, low]])
    ]
    assert len(arrows) == 2  # white box and informed
    assert not lines_of(display.ax_)["informed"].get_markevery()[0]
    rounded = errors([0.0, *SCALES])
    rounded.loc[rounded["mse"] == 0.0, "mse"] = 1e-25
    again = AuditDisplay.from_report(report(rounded, "numeric")).plot()
    assert again.ax_.get_ylim() == display.ax_.get_ylim()
    # The prior guess, told by the noisy rows, serves the noiseless one too.
    assert lines_of(display.ax_)["prior guess"].get_ydata()[0] == pytest.approx(1.0)
    informed = errors([0.0, 1e-3], ["informed"])
    curve = AuditDisplay(informed, kind="numeric", bounds=["cramer_rao"]).bound_advantages
    assert curve["cramer_rao"].tolist() == pytest.approx([0.0, 1e-2 / PRIOR_ERROR])


@pytest.mark.slow
def test_unknown_and_infinite_bounds():
    results = errors()
    results[["cramer_rao", "verdict"]] = np.nan, ""
    display = AuditDisplay.from_report(report(results, "record")).plot()
    assert legend_of(display) == ["prior guess", "white box", "informed"]
    results.loc[results["noise_scale"] > 1e-3, "cramer_rao"] = np.inf
    AuditDisplay.from_report(report(results, "record")).plot().figure_.canvas.draw()
    values = categorical()
    values["fano"] = np.nan
    display = AuditDisplay.from_report(report(values)).plot()
    assert "fano" not in display.bound_advantages
    display.figure_.canvas.draw()


def test_far_below_guessing_stands_at_the_edge():
    results = categorical()
    for column in ("advantage", "advantage_low", "advantage_high"):
        results.loc[results["attack"] == "imputation", column] = -9.0
    display = AuditDisplay.from_report(report(results)).plot()
    np.testing.assert_array_equal(lines_of(display.ax_)["imputation"].get_ydata(), -0.5)
    assert -0.6 < display.ax_.get_ylim()[0] < -0.5
    heavy = categorical()
    heavy["utility"] = [-(10.0**k) for k in range(len(heavy))]
    axes = AuditDisplay.from_report(report(heavy)).plot().axes_
    assert -3.0 < axes[1].get_ylim()[0] < -1.0
    other = AuditDisplay.from_report(report(heavy, utility_name="score", noiseless_utility=None))
    assert other.plot().axes_[1].get_ylim()[0] < -1e8


def test_draws_where_it_is_told():
    display = AuditDisplay.from_report(report(categorical()))
    figure, ax = plt.subplots()
    display.plot(ax)
    assert (display.ax_, display.axes_, display.figure_) == (ax, [ax], figure)
    assert ax.get_xlabel() == "noise scale"
    figure, axes = plt.subplots(1, 2)
    display.plot(axes)
    assert display.axes_ == list(axes)
    assert [each.get_xlabel() for each in axes] == ["noise scale"] * 2
    assert axes[0].get_legend() is None
    assert axes[1].get_legend() is not None
    assert plt.get_fignums() == [1, 2]
    for results in (categorical().drop(columns="utility"), categorical().assign(utility=np.nan)):
        alone = AuditDisplay.from_report(report(results)).plot()
        assert len(alone.axes_) == 1
        with pytest.raises(ValueError, match=r"no utility is known of the released models; got 2"):
            alone.plot(axes)


def test_choice_of_attacks_and_bounds_keeps_their_colours():
    results = categorical(attacks=("mine", "yours", "white_box"))
    display = AuditDisplay.from_report(report(results)).plot()
    before = lines_of(display.ax_)["yours"].get_color()
    display.plot(attacks=["yours"], bounds=["fano"])
    assert legend_of(display) == ["yours", "Fano, exact information"]
    assert lines_of(display.ax_)["yours"].get_color() == before


def test_from_auditor_reads_the_report():
    found = report(categorical())
    display = AuditDisplay.from_auditor(SimpleNamespace(report_=found))
    assert display.bounds == BOUNDS
    assert display.noiseless_utility == 0.61
    with pytest.raises(NotFittedError, match=r"must be a fitted auditor.*Call `fit` first"):
        AuditDisplay.from_auditor(SimpleNamespace())
    record = AuditDisplay.from_report(report(errors(), "record"))
    assert record.name == "whole records: Model"


def test_messages():
    results = categorical()
    with pytest.raises(ValueError, match=r"`kind` must be one of 'categorical', .*; got 'pie'"):
        AuditDisplay(results, kind="pie")
    with pytest.raises(TypeError, match=r"must be a DataFrame.*got list"):
        AuditDisplay([1.0])
    with pytest.raises(ValueError, match=r"got 12 rows without 'hcr'\."):
        AuditDisplay(results, bounds=["hcr"])
    with pytest.raises(ValueError, match="got 12 rows without 'mse', 'mse_low', 'mse_high'"):
        AuditDisplay(results, kind="numeric")
    with pytest.raises(ValueError, match=r"got 0 rows\."):
        AuditDisplay(results.iloc[:0])
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="must be finite and not negative"):
            AuditDisplay(results.assign(noise_scale=wrong))
    with pytest.raises(ValueError, match="one row for each noise scale and attack; got several of"):
        AuditDisplay(results.assign(noise_scale=1.0))
    display = AuditDisplay(results, bounds=["bayes"])
    for wrong in (["grey_box"], []):
        with pytest.raises(ValueError, match=r"`attacks` must name some of 'prior', .*; got"):
            display.plot(attacks=wrong)
    with pytest.raises(ValueError, match=r"`bounds` must name some of 'bayes'; got \['fano'\]"):
        display.plot(bounds=["fano"])
    with pytest.raises(ValueError, match=r"`ax` must be one Axes, or two.*; got 3 Axes"):
        display.plot(plt.subplots(1, 3)[1])
    plt.close("all")
    with pytest.raises(ValueError, match=r"no attack has a known advantage"):
        AuditDisplay(results.assign(advantage=np.nan)).plot()
    assert plt.get_fignums() == []
