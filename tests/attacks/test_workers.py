"""Attacks travel to workers: pickled without a warning, cloned, refitted in processes."""

import pickle

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    InformedReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.linear_model import PrivateLinearRegression

ATTACKS = {
    "prior": lambda pipe: PriorAttack("gene"),
    "imputation": lambda pipe: ImputationAttack(attribute="gene"),
    "white box": lambda pipe: WhiteBoxAttributeInference(pipe, "gene"),
    "white box, quantity": lambda pipe: WhiteBoxAttributeInference(pipe, "dose"),
    "black box": lambda pipe: BlackBoxAttributeInference(pipe, "gene"),
    "informed": lambda pipe: InformedAttributeInference(pipe, "gene"),
    "reconstruction": lambda pipe: InformedReconstruction(pipe),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_fitted_attacks_are_pickled_without_a_warning(name, make_table, make_pipe, rng):
    X, y = make_table()
    attack = ATTACKS[name](make_pipe(PrivateLinearRegression(0.05))).fit(X, y)
    released = rng.normal(size=(4, 8))
    again = pickle.loads(pickle.dumps(attack))
    np.testing.assert_array_equal(again.predict(released), attack.predict(released))
    if hasattr(attack, "predict_each"):
        each = rng.normal(size=(3, 60, 8))
        np.testing.assert_array_equal(again.predict_each(each), attack.predict_each(each))
    if hasattr(attack, "predict_proba"):
        np.testing.assert_array_equal(again.predict_proba(released), attack.predict_proba(released))


@pytest.mark.parametrize("name", ATTACKS)
def test_clones_learn_the_same(name, make_table, make_pipe, rng):
    X, y = make_table()
    attack = ATTACKS[name](make_pipe(PrivateLinearRegression(0.05)))
    attack.set_params(targets=[3, 8]).fit(X, y)
    copy = clone(attack)
    assert not hasattr(copy, "targets_")
    released = rng.normal(size=(4, 8))
    np.testing.assert_array_equal(copy.fit(X, y).predict(released), attack.predict(released))


def guess(attack, released):
    return attack.predict_each(released)


def test_worker_processes(make_table, make_pipe, rng):
    X, y = make_table(n=30)
    ours = make_pipe(PrivateLinearRegression(0.05))
    attacks = [ATTACKS[name](ours).fit(X, y) for name in ("white box", "informed")]
    released = rng.normal(size=(3, 30, 8))
    theirs = make_pipe(Ridge(alpha=1.5))
    alone = WhiteBoxAttributeInference(theirs, "gene", targets=slice(7)).fit(X, y)
    anew = WhiteBoxAttributeInference(theirs, "gene", targets=[2, 5], refit_preprocessing=True)
    anew.fit(X, y)
    with parallel_config("loky"):
        there = Parallel(n_jobs=2)(delayed(guess)(attack, released) for attack in attacks)
        together = clone(alone).set_params(n_jobs=2).fit(X, y)
        anew_together = clone(anew).set_params(n_jobs=2).fit(X, y)
    for attack, guesses in zip(attacks, there, strict=True):
        np.testing.assert_array_equal(guesses, attack.predict_each(released))
    np.testing.assert_array_equal(together.encodings_, alone.encodings_)
    np.testing.assert_array_equal(anew_together.encodings_, anew.encodings_)
