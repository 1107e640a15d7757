"""Priors come from the other records alone."""

import numpy as np
import pandas as pd
import pytest

from skleak.adversary.knowledge._knowledge import find_secret
from skleak.adversary.knowledge._priors import (
    attribute_prior,
    conditional_prior,
    default_classifier,
    marginal_prior,
)


def test_marginal_counts_the_others(rng):
    codes = rng.choice(3, size=40, p=[0.6, 0.3, 0.1])
    prior = marginal_prior(codes, 4)
    np.testing.assert_allclose(prior.sum(axis=1), 1.0)
    for i in range(40):
        others = np.bincount(np.delete(codes, i), minlength=4)
        np.testing.assert_allclose(prior[i], (others + 0.25) / 40)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["marginal", "uniform", "conditional"])
def test_own_value_does_not_enter(prior, rng):
    known = pd.DataFrame({"k": rng.normal(size=30), "c": rng.choice(["u", "v"], 30)})
    y = rng.normal(size=30)
    column = rng.choice(["a", "b", "c"], 30)
    rows = np.arange(30)
    for i in (0, 11, 29):
        got = []
        for value in ("a", "b", "c"):
            changed = column.copy()
            changed[i] = value
            table = known.assign(s=changed)
            got.append(attribute_prior(prior, known, y, find_secret(table, "s"), rows)[i])
        np.testing.assert_array_equal(got[0], got[1])
        np.testing.assert_array_equal(got[0], got[2])


def test_conditional_is_calibrated_where_the_classifier_is(rng):
    known = rng.normal(size=(4000, 2))
    true = 1.0 / (1.0 + np.exp(-(known @ [2.0, -1.0])))
    codes = (rng.random(4000) < true).astype(int)
    prior = conditional_prior(default_classifier(), known, None, codes, 2)
    assert np.abs(prior[:, 1] - true).max() < 0.1
    assert np.mean(np.abs(prior[:, 1] - true)) < 0.02


def test_conditional_uses_the_target_and_copes_with_holes_and_rare_values(rng):
    y = rng.normal(size=60)
    codes = (y > 0).astype(int)
    codes[5] = 2  # carried by one record: no classifier of another fold knows it
    known = pd.DataFrame({"k": np.where(rng.random(60) < 0.2, np.nan, 1.0), "c": ["u", "v"] * 30})
    prior = conditional_prior(default_classifier(), known, y, codes, 3)
    right = np.delete(prior.argmax(axis=1) == codes, 5)
    assert right.mean() > 0.9
    assert np.all(prior > 0.0)
    np.testing.assert_allclose(prior.sum(axis=1), 1.0)


def test_without_anything_known_the_conditional_is_the_marginal(rng):
    codes = rng.integers(0, 2, 20)
    nothing = np.empty((20, 0))
    np.testing.assert_array_equal(
        conditional_prior(default_classifier(), nothing, None, codes, 2), marginal_prior(codes, 2)
    )


def test_arrays_and_errors(rng):
    table = np.column_stack([rng.integers(0, 2, 10), rng.normal(size=10)])
    secret, known = find_secret(table, 0), table[:, 1:]
    rows = np.array([1, 4])
    np.testing.assert_array_equal(
        attribute_prior([0.2, 0.8], known, None, secret, rows), [[0.2, 0.8]] * 2
    )
    own = [[0.2, 0.8], [0.5, 0.5]]
    np.testing.assert_array_equal(attribute_prior(own, known, None, secret, rows), own)
    with pytest.raises(ValueError, match=r"must sum to 1; got 0\.9"):
        attribute_prior([0.1, 0.8], known, None, secret, rows)
    with pytest.raises(ValueError, match="one row for each of the 2 targets"):
        attribute_prior([[0.2, 0.8]] * 3, known, None, secret, rows)
    with pytest.raises(ValueError, match="'marginal', 'uniform', 'conditional'"):
        attribute_prior("flat", known, None, secret, rows)
    with pytest.raises(TypeError, match="must have `predict_proba`"):
        conditional_prior(object(), known, None, secret.codes, 2)
