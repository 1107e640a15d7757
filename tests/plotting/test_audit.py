"""The figure of an audit: people above the limit, the best attack, and what noise costs."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError

from skleak.plotting import AuditDisplay

SCALES = [0.01, 0.1, 1.0]
ATTACKS = pd.DataFrame({"attack": ["prior", "white_box", "mine"], "value": [0.0, 0.4, 0.2]}).assign(
    low=lambda t: t["value"] - 0.05, high=lambda t: t["value"] + 0.05
)


def levels(scales=SCALES, **columns):
    table = pd.DataFrame({"noise": scales, "attack": "white_box"})
    table["largest"] = 2.0 * ndtr(0.02 / table["noise"]) - 1.0
    table["attack_value"] = 0.9 * table["largest"]
    for end, shift in (("low", -0.02), ("high", 0.02)):
        table[f"attack_{end}"] = table["attack_value"] + shift
    table["utility"] = 0.6 - 0.2 * table["noise"]
    return table.assign(**columns)


def curve():
    noise = np.geomspace(0.01, 2.0, 30)
    return {"noise": noise, "above": noise < 0.3, "largest": 2.0 * ndtr(0.02 / noise) - 1.0}


def lines_of(ax):
    return {line.get_label(): line for line in ax.lines}


def test_curves_are_the_numbers_in_ascending_noise():
    shuffled = levels().sample(frac=1.0, random_state=0)
    display = AuditDisplay(shuffled, curve(), chosen=1.0, utility_name="R²").plot()
    top, bottom = display.axes_
    np.testing.assert_array_equal(lines_of(top)["people above limit"].get_ydata(), curve()["above"])
    np.testing.assert_allclose(lines_of(top)["largest gain"].get_ydata(), curve()["largest"])
    np.testing.assert_array_equal(bottom.lines[0].get_xdata(), SCALES)
    np.testing.assert_allclose(bottom.lines[0].get_ydata(), levels()["utility"])
    assert bottom.get_ylabel() == "R²"
    assert top.get_xscale() == "log"
    # At most five lines are named, and the noise of the decision is marked.
    names = [text.get_text() for text in top.get_legend().get_texts()]
    assert names == ["people above limit", "largest gain", "limit", "best attack tried"]
    assert any(np.all(np.asarray(line.get_xdata()) == 1.0) for line in top.lines)


def test_intervals_reach_from_low_to_high():
    display = AuditDisplay(levels()).plot()
    (bars,) = display.ax_.containers
    (segments,) = bars.lines[2]
    for (low, high), (_, row) in zip(segments.get_segments(), levels().iterrows(), strict=True):
        assert (low[1], high[1]) == pytest.approx((row["attack_low"], row["attack_high"]))


def test_without_a_bound_nobody_is_said_to_be_below_the_limit():
    display = AuditDisplay(levels()).plot()
    assert not {"people above limit", "largest gain"} & set(lines_of(display.ax_))
    assert "above the limit" not in display.caption


def test_one_noise_scale_has_a_row_for_each_attack():
    display = AuditDisplay(levels([0.1]), attacks=ATTACKS).plot()
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [
        "prior guess",
        "mine",
        "white box",
    ]
    assert len(display.axes_) == 1
    assert AuditDisplay(levels([0.1])).plot().ax_.get_yticklabels()[0].get_text() == "white box"


def test_noise_zero_far_values_and_missing_ones_are_drawn():
    heavy = levels([0.0, 0.1, 10.0], utility=[0.6, -50.0, -1e9])
    display = AuditDisplay(heavy, utility_name="R²", constant_utility=0.0).plot()
    assert display.axes_[0].get_xscale() == "symlog"
    assert display.axes_[1].get_ylim()[0] > -3.0
    other = AuditDisplay(heavy, utility_name="score").plot()
    assert other.axes_[1].get_ylim()[0] < -1e8
    missing = levels(attack_low=np.nan, attack_high=np.nan, utility=np.nan)
    assert len(AuditDisplay(missing).plot().axes_) == 1


def test_draws_where_it_is_told():
    display = AuditDisplay(levels(), curve())
    figure, ax = plt.subplots()
    display.plot(ax)
    assert (display.ax_, display.axes_, display.figure_) == (ax, [ax], figure)
    assert ax.get_xlabel() == "noise scale"
    _, axes = plt.subplots(2, 1)
    assert display.plot(axes).axes_ == list(axes)
    assert plt.get_fignums() == [1, 2]


def test_it_is_made_from_a_report():
    found = {"levels": levels().to_dict("records"), "limit": 0.1, "noise": 0.1, "failed": False}
    found["smallest"] = {"noiseless_utility": 0.61, "constant_utility": 0.0}
    results = ATTACKS.set_axis(["attack", "advantage", "advantage_low", "advantage_high"], axis=1)
    report = SimpleNamespace(
        decision=lambda: found,
        settings={"utility_name": "R²", "curve": curve()},
        kind="record",
        attribute=None,
        estimator="Model",
        results=results.assign(noise_scale=0.1),
    )
    display = AuditDisplay.from_auditor(SimpleNamespace(report_=report))
    assert (display.limit, display.chosen, display.noiseless_utility) == (0.1, 0.1, 0.61)
    assert display.name == "whole records: Model"
    assert display.plot().ax_.get_title(loc="left") == display.name
    with pytest.raises(NotFittedError, match=r"must be a fitted auditor.*Call `fit` first"):
        AuditDisplay.from_auditor(SimpleNamespace())
    # Where the noise is not what the model states, no curve holds.
    found["failed"] = True
    assert AuditDisplay.from_report(report).curve is None


def test_messages():
    with pytest.raises(ValueError, match=r"got 3 rows without \['utility'\]"):
        AuditDisplay(levels().drop(columns="utility"))
    with pytest.raises(ValueError, match="got 0 rows"):
        AuditDisplay(levels().iloc[:0])
    with pytest.raises(ValueError, match=r"`ax` must be one Axes, or two.*; got 3 Axes"):
        AuditDisplay(levels()).plot(plt.subplots(1, 3)[1])
    plt.close("all")
    with pytest.raises(ValueError, match="no attack has a known gain"):
        AuditDisplay(levels(attack_value=np.nan)).plot()
    assert plt.get_fignums() == []
