"""Intervals of audits of membership hold what further audits of the same size find.

Whole audits are played, of models that leak much and that leak nothing, with few releases and with
more. Releases of one audit teach each other's thresholds: an interval that takes them for
independent misses the truth twice as often as it says, or more.
"""

import warnings
from copy import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skleak.audit.games._game import Task
from skleak.audit.games.membership._game import membership_game
from skleak.audit.tables import _membership
from skleak.audit.tables._rates import release_key

pytestmark = pytest.mark.slow

N_POOL = 240
SIZES = (3, 5, 8, 15)
# Audits of each size and problem whose intervals are looked at; the truth is of all in the pool.
N_AUDITS = 10
RULES = {"loss": "score", "robust": "robust", "likelihood_ratio": "likelihood_ratio"}


def sample(data, n):
    X, y = data(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    return scale(X)[rows], y[rows]


def noise_labels():
    rng = np.random.default_rng(1)
    return rng.normal(size=(60, 5)), rng.integers(2, size=60)


PROBLEMS = {
    "full tree": (DecisionTreeClassifier(), lambda: sample(load_digits, 60)),
    "shallow tree": (DecisionTreeClassifier(max_depth=3), lambda: sample(load_breast_cancer, 60)),
    "regression tree": (DecisionTreeRegressor(max_depth=3), lambda: sample(load_diabetes, 60)),
    "logistic": (LogisticRegression(), lambda: sample(load_breast_cancer, 60)),
    "noise labels": (KNeighborsClassifier(3), noise_labels),
    "ridge": (Ridge(), lambda: sample(load_diabetes, 50)),
    "nothing": (LogisticRegression(C=1e-4), noise_labels),
    "discriminant": (
        LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
        lambda: sample(load_digits, 80),
    ),
}


@cache
def releases(problem):
    """Game of an audit of many releases, and what each of them came to."""
    model, data = PROBLEMS[problem]
    X, y = data()
    task = Task(estimator=model, table=X, y=y, attacks=list(RULES), n_releases=N_POOL, prior=0.5)
    game = membership_game(task)
    game.prepare([3])
    with warnings.catch_warnings():
        # Small training sets lack classes.
        warnings.simplefilter("ignore")
        return game, [function(*known) for function, known in game.cells().values()]


@cache
def audits(problem, attack, n, wider=True):
    """Results of audits of n releases each, as the auditor reports them."""
    game, outcomes = releases(problem)
    place = list(RULES).index(attack)
    small = copy(game)
    small.n_releases, small.rules = n, {attack: RULES[attack]}
    found = []
    for k in range(N_POOL // n):
        part = outcomes[n * k : n * (k + 1)]
        own = [o | {name: o[name][[place]] for name in ("scores", "guesses")} for o in part]
        found.append(small.attack_rows({release_key(r): each for r, each in enumerate(own)}))
    return pd.concat(found, ignore_index=True)


def misses(attack, sizes, column, wider=True):
    """Audits whose interval of a column misses its mean over all audits, and their number."""
    missed = []
    for problem in PROBLEMS:
        for n in sizes:
            table = audits(problem, attack, n, wider)
            truth = table[column].mean()
            low, high = (table[f"{column}_{end}"] for end in ("low", "high"))
            missed.append((low > truth) | (high < truth))
    missed = np.concatenate([each[:N_AUDITS] for each in missed])
    return int(missed.sum()), len(missed)


@pytest.fixture(autouse=True)
def _without_rates(monkeypatch):
    """Resamples are for rates at few false alarms, which other tests are about."""
    monkeypatch.setattr(_membership, "_N_RESAMPLES", 2)


@pytest.mark.parametrize("column", ["success", "auc"])
@pytest.mark.parametrize(
    ("attack", "sizes"), [("loss", SIZES), ("robust", SIZES), ("likelihood_ratio", (3, 5))]
)
def test_intervals_hold_what_further_audits_find(attack, sizes, column):
    n_missed, n_audits = misses(attack, sizes, column)
    # More than 5 % by chance but once in a thousand.
    assert stats.binom.sf(n_missed - 1, n_audits, 0.05) > 1e-3


@pytest.mark.parametrize("attack", ["loss", "robust"])
def test_releases_that_teach_each_other_are_not_independent(attack, monkeypatch):
    """The interval that takes their shares for independent misses far more often than it says."""
    monkeypatch.setattr(_membership, "_error", lambda shares: 0.0)
    n_missed, n_audits = misses(attack, SIZES, "success", wider=False)
    assert stats.binom.sf(n_missed - 1, n_audits, 0.05) < 1e-3
