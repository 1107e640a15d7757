import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from skleak.bounds import reconstruction_robustness_advantage
from skleak.channels import DiscreteChannel, GaussianChannel, RandomizedResponse
from skleak.plotting import BoundLadderDisplay
from skleak.plotting._curves import STYLES

PRIOR = [0.5, 0.3, 0.2]


@pytest.fixture
def encodings(rng):
    return rng.normal(size=(3, 5))


def lines_of(ax):
    return {line.get_label(): line for line in ax.lines}


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_ladder_holds_the_bounds_of_each_channel_and_draws_nothing(encodings):
    scales = [0.3, 2.0, 1.0]
    display = BoundLadderDisplay.from_encodings(encodings, scales, PRIOR)
    assert display.advantages.index.tolist() == scales
    for scale, row in display.advantages.iterrows():
        table = GaussianChannel(encodings, scale).advantage_bounds(PRIOR)
        expected = table.set_index("bound")["advantage"]
        assert set(row.index) == set(expected.index)
        np.testing.assert_allclose(row[expected.index], expected, atol=1e-12)
    assert not hasattr(display, "ax_")
    assert plt.get_fignums() == []


def test_ladder_of_two_values_is_the_closed_form():
    scales = np.geomspace(0.2, 9.0, 7)
    display = BoundLadderDisplay.from_encodings([[1.0, 2.0], [4.0, 6.0]], scales)
    np.testing.assert_allclose(display.advantages["Bayes"], 2 * ndtr(2.5 / scales) - 1, atol=1e-12)
    robust = reconstruction_robustness_advantage(12.5 * 2.0 / scales**2, 2.0, 2)
    assert np.all(display.advantages["reconstruction robustness"] <= robust + 1e-2)
    bounds = display.advantages.drop(columns="Bayes")
    assert bounds.ge(display.advantages["Bayes"] - 1e-9, axis=0).all(axis=None)


def test_ladder_of_randomised_response():
    flips = np.linspace(0.1, 0.9, 5)
    channels = [RandomizedResponse(flip, 20) for flip in flips]
    display = BoundLadderDisplay.from_channels(channels, flips, noise_name="flips", name="RR")
    np.testing.assert_allclose(display.advantages["Bayes"], 1 - flips, atol=1e-12)
    np.testing.assert_allclose(display.advantages["Fano, exact information"], 1 - flips, atol=1e-9)
    ax = display.plot().ax_
    assert (ax.get_xlabel(), ax.get_title(), ax.get_xscale()) == ("flips", "RR", "linear")


def test_prior_reaches_the_channels():
    channels = [RandomizedResponse(flip, 3) for flip in (0.1, 0.9)]
    display = BoundLadderDisplay.from_channels(channels, [0.1, 0.9], PRIOR)
    # At 0.9 the release is worth less than the prior: truth 0.4, others 0.3.
    expected = [channel.bayes_advantage(PRIOR) for channel in channels]
    np.testing.assert_allclose(display.advantages["Bayes"], expected)
    assert display.advantages["Bayes"].iloc[1] < 1e-9


def test_lines_are_the_numbers_in_ascending_noise(encodings):
    display = BoundLadderDisplay.from_encodings(encodings, [10.0, 0.1, 1.0], PRIOR)
    before = display.advantages.copy()
    figure, ax = plt.subplots()
    assert display.plot(ax) is display
    assert (display.ax_, display.figure_) == (ax, figure)
    lines = lines_of(ax)
    # Bounds that coincide share a line, which names them all.
    assert all(any(bound in label for label in lines) for bound in display.advantages.columns)
    for bound in ("Bayes", "trade-off", "reconstruction robustness"):
        line = next(line for label, line in lines.items() if bound in label)
        np.testing.assert_array_equal(line.get_xdata(), [0.1, 1.0, 10.0])
        np.testing.assert_allclose(
            line.get_ydata(), display.advantages[bound].sort_index(), atol=1e-3
        )
    assert ax.get_xscale() == "log"
    pd.testing.assert_frame_equal(display.advantages, before)
    display.plot(ax)
    assert len(plt.get_fignums()) == 1


@pytest.mark.slow
def test_legend_stands_beside_the_data_highest_bound_first(encodings):
    display = BoundLadderDisplay.from_encodings(encodings, np.geomspace(0.1, 10, 9), PRIOR).plot()
    display.figure_.canvas.draw()
    names = legend_of(display.ax_)
    means = display.advantages.mean()[[name.split("\n")[0] for name in names]]
    assert means.is_monotonic_decreasing
    assert names[-1].startswith("Bayes")
    box = display.ax_.get_legend().get_window_extent()
    assert box.x0 >= display.ax_.get_window_extent().x1
    assert box.x1 <= display.figure_.bbox.x1


@pytest.mark.slow
def test_equal_bounds_share_a_curve_and_bayes_leads():
    flips = np.linspace(0.1, 0.9, 5)
    channels = [RandomizedResponse(flip, 10) for flip in flips]
    display = BoundLadderDisplay.from_channels(channels, flips).plot()
    shared = next(name for name in legend_of(display.ax_) if name.startswith("Bayes"))
    assert {"= Fano, exact information", "= information projection"} <= set(shared.split("\n"))
    drawn = "\n= ".join(legend_of(display.ax_)).split("\n= ")
    assert sorted(drawn) == sorted(display.advantages.columns)
    uneven = BoundLadderDisplay.from_channels(channels, flips, [0.19, *[0.09] * 9]).plot()
    assert {"Fano, exact information", "information projection"} <= set(legend_of(uneven.ax_))


def test_some_bounds_can_be_drawn_and_unknown_ones_too():
    table = pd.DataFrame({"mine": [0.5, 0.2], "yours": [0.6, 0.3]}, index=[1.0, 2.0])
    display = BoundLadderDisplay(table)
    assert legend_of(display.plot().ax_) == ["yours", "mine"]
    lines = lines_of(display.ax_)
    assert lines["mine"].get_linestyle() != lines["yours"].get_linestyle()
    assert legend_of(display.plot(bounds=["mine"]).ax_) == ["mine"]
    single = BoundLadderDisplay(table.iloc[:1]).plot()
    single.figure_.canvas.draw()


def test_every_bound_of_the_channels_has_a_style_of_its_own():
    table = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]])
    channels = [
        GaussianChannel(np.eye(3), 1.0),
        RandomizedResponse(0.5, 3),
        DiscreteChannel(table),
    ]
    for channel in channels:
        names = channel.advantage_bounds()["bound"].tolist()
        assert set(names) <= set(STYLES)
        styles = [str(STYLES[name]) for name in names]
        assert len(set(styles)) == len(names)


def test_messages(encodings, monkeypatch):
    many = np.stack([encodings, encodings])
    with pytest.raises(ValueError, match=r"those of one record.*shape \(2, 3, 5\).*encodings\[i\]"):
        BoundLadderDisplay.from_encodings(many, [1.0])
    for scales in (1.0, [], [[1.0]]):
        with pytest.raises(ValueError, match="must be a list of noise scales; got shape"):
            BoundLadderDisplay.from_encodings(encodings, scales)
    with pytest.raises(ValueError, match="`noise_scale` must be positive"):
        BoundLadderDisplay.from_encodings(encodings, [0.0, 1.0])
    response = RandomizedResponse(0.5, 3)
    with pytest.raises(ValueError, match=r"one level for each of the 1 channels; got shape \(2,\)"):
        BoundLadderDisplay.from_channels([response], [0.5, 0.6])
    with pytest.raises(ValueError, match="got several records in one channel"):
        BoundLadderDisplay.from_channels([GaussianChannel(many, 1.0)], [1.0])
    with pytest.raises(ValueError, match="must be of one kind"):
        BoundLadderDisplay.from_channels([response, GaussianChannel(encodings, 1.0)], [0.5, 1.0])
    with pytest.raises(ValueError, match="at least one level and one bound"):
        BoundLadderDisplay(pd.DataFrame())
    with pytest.raises(ValueError, match=r"the noise level, must be .* not negative; got -1 to 1"):
        BoundLadderDisplay(pd.DataFrame({"Bayes": [0.1, 0.2]}, index=[-1.0, 1.0]))
    for wrong in (1.5, -0.1, np.nan):
        with pytest.raises(ValueError, match=r"must lie in \[0, 1\].*success_to_advantage"):
            BoundLadderDisplay(pd.DataFrame({"Bayes": [wrong]}, index=[1.0]))
    display = BoundLadderDisplay(pd.DataFrame({"Bayes": [0.1]}, index=[1.0]))
    for bounds in (["Fanno"], []):
        with pytest.raises(ValueError, match=r"`bounds` must name some of 'Bayes'; got"):
            display.plot(bounds=bounds)
    assert plt.get_fignums() == []
