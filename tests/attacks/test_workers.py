"""Attacks travel to workers: pickled, which warns, cloned, refitted in processes."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge

from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    InformedReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.exceptions import PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression

# Releases of tests that are no model of the data.
elsewhere = pytest.mark.filterwarnings("ignore::skleak.exceptions.ReleaseMismatchWarning")


ATTACKS = {
    "prior": lambda pipe: PriorAttack("gene"),
    "imputation": lambda pipe: ImputationAttack("gene"),
    "white box": lambda pipe: WhiteBoxAttributeInference(pipe, "gene"),
    "white box, quantity": lambda pipe: WhiteBoxAttributeInference(pipe, "dose"),
    "black box": lambda pipe: BlackBoxAttributeInference(pipe, "gene"),
    "informed": lambda pipe: InformedAttributeInference(pipe, "gene"),
    "reconstruction": lambda pipe: InformedReconstruction(pipe),
}


@pytest.mark.slow
@elsewhere
@pytest.mark.parametrize("name", ATTACKS)
def test_a_pickle_of_a_fitted_attack_is_confidential(name, make_table, make_pipe, rng):
    X, y = make_table()
    attack = ATTACKS[name](make_pipe(PrivateLinearRegression(0.05))).fit(X, y)
    released = rng.normal(size=(4, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.dumps(clone(attack))  # knows nothing
        copy.deepcopy(clone(attack))
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.warns(PrivacyLeakWarning, match="holds training records, or what") as caught:
            duplicate(attack)
        assert len(caught) == 1
    with pytest.warns(PrivacyLeakWarning) as caught:
        again = pickle.loads(pickle.dumps(attack))
    assert [warning.filename for warning in caught] == [__file__]
    np.testing.assert_array_equal(again.predict(released), attack.predict(released))
    if hasattr(attack, "predict_each"):
        each = rng.normal(size=(3, 60, 8))
        np.testing.assert_array_equal(again.predict_each(each), attack.predict_each(each))
    if hasattr(attack, "predict_proba"):
        np.testing.assert_array_equal(again.predict_proba(released), attack.predict_proba(released))


@pytest.mark.slow
@elsewhere
@pytest.mark.parametrize("name", ATTACKS)
def test_clones_learn_the_same(name, make_table, make_pipe, rng):
    X, y = make_table()
    attack = ATTACKS[name](make_pipe(PrivateLinearRegression(0.05)))
    attack.set_params(records=[3, 8]).fit(X, y)
    twin = clone(attack)
    assert not hasattr(twin, "records_")
    released = rng.normal(size=(4, 8))
    np.testing.assert_array_equal(twin.fit(X, y).predict(released), attack.predict(released))


def guess(attack, released):
    return attack.predict_each(released)


@pytest.mark.slow
def test_worker_processes(make_table, make_pipe, rng):
    X, y = make_table(n=30)
    ours = make_pipe(PrivateLinearRegression(0.05))
    attacks = [ATTACKS[name](ours).fit(X, y) for name in ("white box", "informed")]
    released = rng.normal(size=(3, 30, 8))
    theirs = make_pipe(Ridge(alpha=1.5))
    alone = WhiteBoxAttributeInference(theirs, "gene", records=slice(7)).fit(X, y)
    anew = WhiteBoxAttributeInference(theirs, "gene", records=[2, 5], refit_preprocessing=True)
    anew.fit(X, y)
    with parallel_config("loky"), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # these workers are the user's
        there = Parallel(n_jobs=2)(delayed(guess)(attack, released) for attack in attacks)
        together = clone(alone).set_params(n_jobs=2).fit(X, y)
        anew_together = clone(anew).set_params(n_jobs=2).fit(X, y)
    for attack, guesses in zip(attacks, there, strict=True):
        np.testing.assert_array_equal(guesses, attack.predict_each(released))
    np.testing.assert_array_equal(together.encodings_, alone.encodings_)
    np.testing.assert_array_equal(anew_together.encodings_, anew.encodings_)


@pytest.mark.slow
def test_refits_of_many_records_are_made_one_after_the_other(monkeypatch, rng):
    """Where blocks of records may have threads: whoever fits may do anything, and joblib is one."""
    monkeypatch.setattr("skleak.utils._blocks._blas_threads", lambda: 2)
    X = np.column_stack([rng.integers(0, 2, 600), rng.normal(size=600)]).astype(float)
    attack = WhiteBoxAttributeInference(LinearRegression(), 0).fit(X, X.sum(axis=1))
    assert attack.encodings_.shape == (600, 2, 3)
