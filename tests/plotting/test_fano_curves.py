import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.special import rel_entr

from skleak.bounds import closed_form_fano_advantage, fano_advantage, renyi_fano_advantage
from skleak.plotting import FanoCurvesDisplay


def lines_of(ax):
    return {line.get_label(): line for line in ax.lines}


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_fano_curves_hold_the_bounds_and_draw_nothing():
    levels = [0.0, 0.3, 2.0, 30.0]
    display = FanoCurvesDisplay.from_sizes([7, 10**10], levels, orders=[3.0])
    for name, size in (("M = 7", 7), ("M = 10^10", 10**10)):
        curves = display.advantages[name]
        np.testing.assert_array_equal(curves["Fano"], fano_advantage(levels, size))
        np.testing.assert_array_equal(
            curves["closed-form Fano"], closed_form_fano_advantage(levels, size)
        )
        np.testing.assert_array_equal(
            curves["Rényi-Fano, order 3"], renyi_fano_advantage(levels, 3.0, size, refine=False)
        )
    assert display.advantages.index.tolist() == levels
    assert plt.get_fignums() == []


@pytest.mark.parametrize("size", [2, 10, 10**10])
def test_fano_curves_solve_fano_inequality(size):
    name = f"M = {size}" if size < 10**10 else "M = 10^10"
    levels = np.linspace(0.1, 0.9, 5) * np.log(size)
    curves = FanoCurvesDisplay.from_sizes([size], levels).advantages[name]
    success = 1 / size + (1 - 1 / size) * curves["Fano"].to_numpy()
    entropy = -rel_entr(success, 1) - rel_entr(1 - success, 1)
    remaining = entropy + (1 - success) * np.log(size - 1)
    np.testing.assert_allclose(remaining, np.log(size) - levels, atol=1e-6)
    np.testing.assert_allclose(curves["information projection"], curves["Fano"], atol=1e-9)
    # An order of infinity would be success = exp(level) / M: high orders approach it from above.
    assert np.all(curves["Rényi-Fano, order 8"] <= curves["Rényi-Fano, order 2"])
    assert np.all(curves["Rényi-Fano, order 2"] <= curves["Fano"])
    assert np.all(curves["Fano"] <= curves["closed-form Fano"] + 1e-9)


def test_default_levels_reach_the_entropy_of_the_largest_secret():
    display = FanoCurvesDisplay.from_sizes()
    priors = display.advantages.columns.unique(0).tolist()
    assert priors == ["M = 2", "M = 10", "M = 100", "M = 10^10"]
    assert display.advantages.index.max() > np.log(10.0**10)
    assert display.advantages.iloc[-1].min() == 1.0
    assert display.advantages.xs("Fano", level=1, axis=1).diff().min(axis=None) >= 0.0


def test_panels_one_for_each_prior():
    display = FanoCurvesDisplay.from_sizes([2, 10**6], [3.0, 0.1, 1.0])
    assert display.plot() is display
    assert len(display.axes_) == 2
    for ax, prior in zip(display.axes_, ("M = 2", "M = 10^6"), strict=True):
        drawn = lines_of(ax)["Fano\n= information projection"]
        np.testing.assert_array_equal(drawn.get_xdata(), [0.1, 1.0, 3.0])
        np.testing.assert_array_equal(
            drawn.get_ydata(), display.advantages[prior, "Fano"].sort_index()
        )
    assert [ax.get_title() for ax in display.axes_] == ["M = 2", "M = $10^{6}$"]
    assert display.axes_[0].get_legend() is None
    display.figure_.canvas.draw()
    box = display.axes_[1].get_legend().get_window_extent()
    assert box.x0 >= display.axes_[1].get_window_extent().x1
    assert box.x1 <= display.figure_.bbox.x1


def test_all_priors_in_one_or_in_given_axes():
    display = FanoCurvesDisplay.from_sizes([2, 10, 50], [0.1, 0.5, 1.0])
    before = display.advantages.copy()
    figure, ax = plt.subplots()
    display.plot(ax, bounds=["Fano", "closed-form Fano"])
    assert list(display.axes_) == [ax]
    assert legend_of(ax) == ["M = 2", "M = 10", "M = 50", "Fano", "closed-form Fano"]
    curves = [line for line in ax.lines if len(line.get_xdata())]
    assert len(curves) == 6
    assert len({str(line.get_color()) for line in curves}) == 3
    assert len({line.get_linestyle() for line in curves}) == 2
    figure, axes = plt.subplots(1, 3)
    display.plot(axes)
    assert display.figure_ is figure
    assert plt.get_fignums() == [1, 2]
    pd.testing.assert_frame_equal(display.advantages, before)
    single = FanoCurvesDisplay.from_sizes([5], [0.1, 1.0]).plot(plt.subplots()[1])
    assert single.axes_[0].get_title() == "M = 5"


def test_messages():
    with pytest.raises(ValueError, match="`sizes` must hold at least one"):
        FanoCurvesDisplay.from_sizes([])
    for size, information in ((1, [0.1]), (1, None), (-3, None)):
        with pytest.raises(ValueError, match=rf"lie in \[2, 1e300\]; got {size}"):
            FanoCurvesDisplay.from_sizes([size], information)
    with pytest.raises(ValueError, match="`information` must be non-negative"):
        FanoCurvesDisplay.from_sizes([2], [-0.1])
    with pytest.raises(ValueError, match=r"a list of levels; got shape \(\)"):
        FanoCurvesDisplay.from_sizes([2], 0.1)
    with pytest.raises(ValueError, match=r"two levels of columns.*got 1"):
        FanoCurvesDisplay(pd.DataFrame({"Fano": [0.1]}, index=[1.0]))
    display = FanoCurvesDisplay.from_sizes([2, 5, 9], [0.1, 1.0])
    with pytest.raises(ValueError, match=r"one for each of the 3 priors; got 2"):
        display.plot(plt.subplots(1, 2)[1])
    plt.close("all")
    for bounds in (["Fanno"], []):
        with pytest.raises(ValueError, match=r"`bounds` must name some of 'Fano', .*; got"):
            display.plot(bounds=bounds)
    assert plt.get_fignums() == []
