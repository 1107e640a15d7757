"""One run plays any game: here that of the recipe in CONTRIBUTING.md, which is read from there."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from skleak.audit._run import Checkpoint, play
from skleak.audit.games._game import Task
from skleak.exceptions import IncompleteAuditWarning
from skleak.linear_model import PrivateLinearRegression

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def recipe(monkeypatch):
    section = CONTRIBUTING.read_text().split("### A game\n")[1].split("\n### ")[0]
    module = types.ModuleType("recipe")
    monkeypatch.setitem(sys.modules, "recipe", module)
    exec(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], module.__dict__)
    return module


@pytest.fixture
def task(rng):
    X = rng.normal(size=(40, 3))
    y = X.sum(axis=1) + rng.normal(size=40)
    options = {"noise_scales": [0.02, 0.1], "n_releases": 4000}
    return Task(estimator=PrivateLinearRegression(alpha=0.1), table=X, y=y, **options)


def played(game, store):
    game.prepare(store.entropy)
    play(game, store, n_jobs=None, verbose=0)
    return game, store


def test_a_game_of_one_file_is_played(recipe, task):
    game, store = played(recipe.GroupGame(task), Checkpoint(None, [0]))
    table = game.results(store.cells)
    distance = np.linalg.norm(np.diff(game.points, axis=0))
    np.testing.assert_allclose(table["bayes"], ndtr(0.5 * distance / table["noise_scale"]))
    assert table["verdict"].tolist() == ["consistent with the bound"] * 2
    # The attack is the best there is: five standard deviations.
    spread = np.sqrt(table["bayes"] * (1.0 - table["bayes"]) / 4000)
    assert (np.abs(table["success"] - table["bayes"]) <= 5.0 * spread + 1e-9).all()
    assert game.facts(store.cells)["n_targets"] == 10


def test_what_is_finished_is_kept_and_gone_on_with(recipe, task, tmp_path, monkeypatch):
    whole, of_all = played(recipe.GroupGame(task), Checkpoint(None, [0]))
    play_cell, path = recipe.play, tmp_path / "game.npz"

    def breaks(points, noise_scale, *rest):
        if noise_scale == 0.1:
            raise RuntimeError("a cell that fails")
        return play_cell(points, noise_scale, *rest)

    monkeypatch.setattr(recipe, "play", breaks)
    game, first = recipe.GroupGame(task), Checkpoint(path, [0])
    with pytest.warns(IncompleteAuditWarning, match="1 of 2 cells"), pytest.raises(RuntimeError):
        played(game, first)
    assert game.results(first.cells)["noise_scale"].tolist() == [0.02]
    monkeypatch.setattr(recipe, "play", play_cell)
    # The seeds come from the file, whatever the seed is now.
    second = Checkpoint(path, [1])
    assert list(second.cells) == list(first.cells)
    game, second = played(recipe.GroupGame(task), second)
    pd.testing.assert_frame_equal(game.results(second.cells), whole.results(of_all.cells))
