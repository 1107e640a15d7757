import numpy as np
import pandas as pd
import pytest

from skleak.bounds import gdp_advantage
from skleak.bounds.priors import success_to_advantage
from skleak.neural.canary._results import success_bounds
from skleak.neural.gradients import make_clipping
from skleak.plotting import CanaryDisplay

M = 1000


def results(sigmas):
    rows = []
    for sigma in sigmas:
        bounds = success_bounds(make_clipping("hard", 1.0), 1, sigma, M)
        for attack, success in {"log_likelihood": 0.0, "posterior": bounds["tradeoff"]}.items():
            advantage = success_to_advantage(min(success, 1.0), M)
            ends = {"advantage_low": 0.5 * advantage - 0.001, "advantage_high": 1.0}
            epsilon = 2.0 / sigma**2 if sigma else np.inf
            row = {"epsilon": epsilon, "attack": attack, "baseline": 1.0 / M} | bounds
            rows.append(row | {"advantage": advantage, "bayes": bounds["tradeoff"]} | ends)
    return pd.DataFrame(rows)


def test_bounds_are_advantages_over_the_levels_with_noise():
    display = CanaryDisplay(results([2.0, 0.5, 0.0]))
    assert display.bounds.index.tolist() == [0.5, 8.0]
    expected = gdp_advantage(np.array([1.0, 4.0]), M, np.array([0.5, 2.0]))
    np.testing.assert_allclose(display.bounds["trade-off"], expected)


@pytest.mark.slow
def test_marks_lie_where_games_were_won_and_lines_are_bounds():
    display = CanaryDisplay(results([2.0, 0.5]), name="tokens").plot()
    ax = display.ax_
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_allclose(lines["posterior"], lines["trade-off"])
    assert np.isnan(lines["rise of log-likelihood"]).all()
    assert {"Fano, order 1", "generalized Fano", "trade-off", "Bayes"} < set(lines)
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_title()) == ("log", "log", "tokens")
    shown = CanaryDisplay(results([2.0, 0.5])).plot(bounds=["trade-off"]).ax_
    assert len(shown.lines) == 3


def test_other_tables_are_refused():
    table = results([1.0])
    for wrong, message in (
        (table.drop(columns="attack"), "attack"),
        (results([0.0]), "with noise"),
        (pd.concat([table, table.assign(baseline=0.5)]), "same number"),
    ):
        with pytest.raises(ValueError, match=message):
            CanaryDisplay(wrong)
    with pytest.raises(ValueError, match="bounds"):
        CanaryDisplay(table).plot(bounds=["Fanoo"])
