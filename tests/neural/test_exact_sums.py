"""Sums of clipped gradients in integers: what a record adds depends on it alone, and is bounded."""

from fractions import Fraction

import numpy as np
import pytest
from helpers import mostly_slow
from scipy import sparse

from skleak.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skleak.neural.gradients import IntegerRows, LinearGradients, SumGrid, make_clipping
from skleak.neural.information import StepMechanism

LOSSES = {1: LogisticLoss(), 3: SoftmaxLoss(), 11: SoftmaxLoss()}


def _case(rng, n, d, k, *, clipping="smooth", loss=None, intercept=True, scale=1.0):
    clip = make_clipping(clipping, 0.7)
    loss = LOSSES[k] if loss is None else loss
    gradients = LinearGradients(loss, clip, d, k, intercept)
    gradients.parameters = rng.normal(size=gradients.n_parameters)
    # Rows of very different sizes, with zeros.
    X = rng.normal(size=(n, d)) * scale * 10.0 ** rng.uniform(-6, 6, (n, 1))
    X[rng.random(X.shape) < 0.2] = 0.0
    X[::7] = 0.0
    y = rng.integers(0, max(k, 2), n) if loss.name != "squared" else rng.normal(size=n)
    return gradients, X, y


def _grid(gradients, noise=1.3, rate=0.1, n=500):
    return StepMechanism(noise, gradients.clipping, "poisson", rate).grid(n)


def _norm(vector):
    """Squared norm in integers without end."""
    return sum(int(v) ** 2 for v in vector)


@pytest.mark.parametrize("k", LOSSES)
@pytest.mark.parametrize("intercept", [True, False])
def test_they_are_the_sums_of_clipped_gradients(k, intercept, rng):
    gradients, X, y = _case(rng, 200, 9, k, intercept=intercept)
    grid = _grid(gradients)
    total, losses = gradients.clipped_sum(X, y, grid)
    expected, plain = gradients.clipped_sum(X, y)
    # Rounded by about 2^-21 of the sensitivity for each record, with either sign.
    np.testing.assert_allclose(total * grid.unit, expected, atol=200 * 0.8 * 2.0**-20)
    np.testing.assert_allclose(losses, plain, rtol=1e-4, atol=1e-4)
    alone, _ = gradients.clipped_sum(sparse.csr_array(X), y, grid)
    np.testing.assert_array_equal(alone, total)


@pytest.mark.parametrize("k", LOSSES)
@pytest.mark.parametrize("clipping", ["smooth", "hard"])
@pytest.mark.parametrize("d", [1, 9, 300])
def test_what_a_record_adds_is_its_own(k, clipping, d, rng):
    """Whoever else is in a batch, and in which order: to the last bit, under any product."""
    gradients, X, y = _case(rng, 60, d, k, clipping=clipping)
    grid = _grid(gradients)
    own = np.stack([gradients.clipped_sum(X[[i]], y[[i]], grid)[0] for i in range(60)])
    assert own.dtype == np.int64
    for size in (0, 1, 2, 7, 31, 60):
        batch = rng.permutation(60)[:size]
        for records in (X, sparse.csr_array(X)):
            total, _ = gradients.clipped_sum(records[batch], y[batch], grid)
            np.testing.assert_array_equal(total, own[batch].sum(axis=0))


@pytest.mark.parametrize("k", mostly_slow(LOSSES))
@pytest.mark.parametrize("clipping", mostly_slow(["smooth", "hard"]))
def test_no_record_is_longer_than_the_bound(k, clipping, rng):
    """Under hard clipping most gradients have the largest norm but for round-off."""
    gradients, X, y = _case(rng, 400, 5, k, clipping=clipping, scale=1e3)
    for noise in (0.01, 1.3, 400.0):
        grid = _grid(gradients, noise)
        step = StepMechanism(noise, gradients.clipping, "poisson", 0.1)
        assert grid.longest <= 2**grid.log2_scale / Fraction(step.effective_noise_multiplier)
        norms = [_norm(gradients.clipped_sum(X[[i]], y[[i]], grid)[0]) for i in range(400)]
        assert max(norms) <= grid.longest**2
        if clipping == "hard" and noise < 10.0:
            assert max(norms) > (0.999 * grid.longest) ** 2


def test_a_gradient_that_is_too_long_is_cut(rng):
    """Whatever floating point returned for it."""
    X = rng.normal(size=(50, 6))
    rows, grid = IntegerRows(X, True), SumGrid(40, 1.0, 2**30)
    for k in (1, 4):
        factors = 10.0 ** rng.uniform(0, 30, (50, k)) * rng.choice([-1, 1], (50, k))
        for i in range(50):
            one = IntegerRows(X[[i]], True).weighted_sum(factors[[i]], grid)
            assert _norm(one.ravel()) <= grid.longest**2
    assert np.any(rows.weighted_sum(factors, grid) != 0)
    for wild in (np.inf, -np.inf, np.nan, 1e200):
        with np.errstate(all="ignore"):
            one = IntegerRows(X[:1], True).weighted_sum(np.array([[1.0, wild]]), grid)
        assert np.all(one == 0)


def test_entries_that_are_stored_in_parts_are_added_first():
    parts = sparse.csr_array(([3.0, 4.0, -1.0, 1.0], [1, 1, 0, 0], [0, 4]), shape=(1, 2))
    gradients = LinearGradients(SquaredLoss(), make_clipping("hard", 1.0), 2, fit_intercept=False)
    grid = _grid(gradients)
    total, _ = gradients.clipped_sum(parts, np.array([5.0]), grid)
    whole, _ = gradients.clipped_sum(np.array([[0.0, 7.0]]), np.array([5.0]), grid)
    np.testing.assert_array_equal(total, whole)
    assert (0.99 * grid.longest) ** 2 < _norm(total) <= grid.longest**2
    assert parts.nnz == 4


def test_records_of_nearly_nothing_and_of_extreme_size():
    for intercept in (True, False):
        gradients = LinearGradients(SquaredLoss(), make_clipping("hard", 1.0), 2, 1, intercept)
        grid = _grid(gradients)
        for size in (0.0, 5e-324, 1e-310, 1e-200, 1e200, 1e307):
            X, y = np.array([[size, -size]]), np.array([1.0])
            total, _ = gradients.clipped_sum(X, y, grid)
            assert _norm(total) <= grid.longest**2
            if size == 1e200:
                assert _norm(total) > (0.99 * grid.longest) ** 2


def test_numbers_that_are_not_finite_are_refused():
    gradients = LinearGradients(SquaredLoss(), make_clipping("smooth", 1.0), 2)
    with pytest.raises(FloatingPointError):
        gradients.clipped_sum(np.ones((1, 2)), np.array([np.inf]), _grid(gradients))


@pytest.mark.parametrize("rate", [0.01, 1.0])
@pytest.mark.parametrize("n", [1, 1000, 10**7])
@pytest.mark.parametrize("noise", [1e-6, 0.1, 30.0, 1e6])
def test_the_grid_leaves_room_for_sums_and_noise(rate, n, noise):
    mechanism = StepMechanism(noise, make_clipping("smooth", 2.0), "poisson", rate)
    grid = mechanism.grid(n)
    if grid is None:
        assert n * 1.1 / noise > 2.0**36
        return
    assert grid.unit * 2.0**grid.log2_scale == mechanism.noise_scale
    reach = 1 / Fraction(mechanism.effective_noise_multiplier)
    assert grid.longest <= reach * 2**grid.log2_scale
    batch = min(n, rate * n + 12.0 * np.sqrt(rate * n) + 100.0)
    assert batch * grid.longest + 40 * 2**grid.log2_scale < 2**63


def test_without_noise_there_is_no_grid():
    assert StepMechanism(0.0, make_clipping("smooth", 2.0), "poisson", 0.1).grid(10) is None
