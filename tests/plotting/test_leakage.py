import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.linear_model import PrivateLinearRegression
from skleak.plotting import LeakageDisplay
from skleak.plotting.displays import inline_svg


@pytest.fixture
def data(rng):
    X = pd.DataFrame(rng.normal(size=(80, 3)) * [1.0, 5.0, 0.2], columns=["age", "bmi", "cost$_{"])
    y = X @ [1.0, 0.3, -4.0] + rng.normal(size=80)
    return X, y, np.where(X["age"] > 0.0, "old", "young")


@pytest.fixture
def model(data):
    return PrivateLinearRegression(noise_scale=0.3).fit(*data[:2])


def test_from_report_holds_the_numbers_and_draws_nothing(model, data):
    report = model.leakage_report(groups=data[2])
    display = LeakageDisplay.from_report(report)
    np.testing.assert_array_equal(display.loss, model.fisher_information_loss_)
    np.testing.assert_array_equal(display.groups, data[2])
    assert display.mean == report.dataset["mean_loss"]
    assert display.gain.equals(report.features["advantage_any_prior"])
    assert not hasattr(display, "ax_")
    assert plt.get_fignums() == []


@pytest.mark.slow
def test_histogram_bars_hold_all_records_and_marks_stand_right(model):
    display = model.leakage_report().plot()
    assert isinstance(display, LeakageDisplay)
    assert sum(patch.get_height() for patch in display.ax_.patches) == 80
    mean, largest = (line.get_xdata()[0] for line in display.ax_.lines)
    assert mean == pytest.approx(model.fisher_information_loss_.mean())
    assert largest == model.fisher_information_loss_.max()
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == [f"mean {mean:.3g}", f"max {largest:.3g}"]
    display.figure_.canvas.draw()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["histogram", "features", "groups"])
def test_plot_draws_where_it_is_told_and_changes_no_number(model, data, kind):
    display = LeakageDisplay.from_report(model.leakage_report(groups=data[2]))
    before = display.loss.copy(), display.groups.copy(), display.gain.copy()
    figure, ax = plt.subplots()
    assert display.plot(ax, kind=kind) is display
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert len(plt.get_fignums()) == 1
    assert "PrivateLinearRegression" in ax.get_title()
    assert ax.get_xlabel()
    figure.canvas.draw()
    display.plot(kind=kind).figure_.canvas.draw()
    assert len(plt.get_fignums()) == 2
    np.testing.assert_array_equal(display.loss, before[0])
    np.testing.assert_array_equal(display.groups, before[1])
    assert display.gain.equals(before[2])


def test_features_are_drawn_most_exposed_first(model):
    report = model.leakage_report()
    display = LeakageDisplay.from_report(report).plot(kind="features")
    points = display.ax_.collections[-1].get_offsets()
    gain = report.features["advantage_any_prior"].sort_values(ascending=False, kind="stable")
    np.testing.assert_array_equal(points[:, 0], gain)
    np.testing.assert_array_equal(points[:, 1], np.arange(4))
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == gain.index.tolist()
    assert display.ax_.yaxis_inverted()


def test_groups_show_their_quantiles_largest_mean_first(rng):
    loss = np.r_[rng.exponential(size=40), 3.0 + rng.exponential(size=20)]
    display = LeakageDisplay(loss, groups=np.repeat([0, 1], [40, 20])).plot(kind="groups")
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels == ["1 (n=20)", "0 (n=40)"]
    medians, means = (points.get_offsets()[:, 0] for points in display.ax_.collections[-2:])
    np.testing.assert_allclose(medians, [np.median(loss[40:]), np.median(loss[:40])])
    np.testing.assert_allclose(means, [loss[40:].mean(), loss[:40].mean()])
    ranges = [path[:, 0].tolist() for path in display.ax_.collections[0].get_segments()]
    assert ranges == [[loss[40:].min(), loss[40:].max()], [loss[:40].min(), loss[:40].max()]]


def test_from_estimator_measures_and_plots(model, data):
    X, y, groups = data
    display = LeakageDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.loss, model.fisher_information_loss_)
    assert display.ax_.get_ylabel() == "records"
    some = LeakageDisplay.from_estimator(
        model, X[:10], y[:10], features=["bmi"], groups=groups[:10], kind="groups"
    )
    np.testing.assert_allclose(some.loss, model.fisher_information_loss(X[:10], y[:10]))
    assert "bmi" in some.gain


def test_records_of_weight_zero_are_not_drawn(data):
    X, y, _ = data
    weight = np.r_[np.zeros(30), np.full(50, 2.0)]
    model = PrivateLinearRegression(noise_scale=0.3).fit(X, y, sample_weight=weight)
    display = model.leakage_report().plot()
    assert sum(patch.get_height() for patch in display.ax_.patches) == 50


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss", [[2.0], [0.0, 0.0], [0.37] * 9, [1e-9, 1.0, 1.0, 1e4], [np.inf, 1]]
)
def test_histogram_copes_with_any_losses(loss):
    display = LeakageDisplay(loss).plot()
    drawn = sum(patch.get_height() for patch in display.ax_.patches)
    assert drawn == np.isfinite(loss).sum()
    display.figure_.canvas.draw()


def test_hundreds_of_columns_and_groups_are_capped(rng):
    gain = pd.Series(rng.uniform(size=300), index=[f"column_{j}" for j in range(300)])
    display = LeakageDisplay(rng.exponential(size=900), groups=np.arange(900) % 90, gain=gain)
    for kind in ("features", "groups"):
        assert len(display.plot(kind=kind).ax_.get_yticks()) == 30


def test_messages(model):
    display = LeakageDisplay([1.0, 2.0])
    with pytest.raises(ValueError, match=r"`kind` must be one of 'histogram', .*; got 'pie'\."):
        display.plot(kind="pie")
    with pytest.raises(ValueError, match="needs `gain`, which is None"):
        display.plot(kind="features")
    with pytest.raises(ValueError, match=r"needs a group for each record.*Pass `groups` to"):
        display.plot(kind="groups")
    with pytest.raises(ValueError, match="of no column it is known what an attacker gains"):
        LeakageDisplay([1.0], gain=pd.Series([np.nan])).plot(kind="features")
    with pytest.raises(ValueError, match=r"no record has a finite loss.*`noise_scale > 0`"):
        LeakageDisplay([np.inf, np.inf]).plot()
    with pytest.raises(ValueError, match=r"one number per record; got an array of shape \(1, 2\)"):
        LeakageDisplay([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"one label per record, shape \(2,\); got shape \(3,\)"):
        LeakageDisplay([1.0, 2.0], groups=[0, 1, 2])
    with pytest.raises(TypeError, match=r"got Pipeline\. Of a pipeline, pass the last step"):
        LeakageDisplay.from_estimator(make_pipeline(StandardScaler(), model))
    assert plt.get_fignums() == []


@pytest.mark.slow
def test_letters_of_a_figure_on_a_page_are_legible_however_narrow_it_is(rng):
    svg = inline_svg(LeakageDisplay(rng.uniform(size=30)), "Leakage", "Losses.")
    width = float(re.search(r"min-width:(\d+)px", svg)[1])
    scale = width / float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg)]
    assert sizes
    assert min(sizes) * scale >= 9.0
