"""The fixed point of IRFIL: what it equalizes, how fast, and what it does when it cannot."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skleak.influence.jacobian import Columns, FitFactor, record_norms
from skleak.influence.reweighting import equalize, relative_spread
from skleak.solvers import minimize


def _refit(problem, columns=Columns(target=True), norm="spectral"):  # noqa: B008
    """What a reweighting calls at every step."""

    def measure(omega):
        minimum = minimize(problem.objective.reweighted(omega))
        factor = FitFactor(
            minimum.coefficients,
            minimum.inverse_hessian,
            problem.objective.loss,
            problem.fit_intercept,
        )
        return omega * record_norms(factor, problem.X, problem.y, columns, norm), factor

    return measure


@pytest.mark.parametrize("kind", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("columns", [Columns(target=True), Columns(np.array([0, 2]))], ids=str)
def test_all_records_leak_the_same(make_problem, kind, columns):
    problem = make_problem(kind, n=40, weighted=False, alpha=0.1)
    result = equalize(_refit(problem, columns), problem.s, tol=1e-9, max_iter=400)
    assert result.spread <= 1e-9
    assert_allclose(result.losses, result.losses.mean(), rtol=1e-7)
    assert result.reweights.sum() == pytest.approx(40.0, rel=1e-12)
    assert result.reweights.min() > 0.0
    # By a fit of its own, and not only by the bookkeeping of the iteration.
    losses, _ = _refit(problem, columns)(result.reweights)
    assert np.std(losses) / np.mean(losses) < 2e-9


def test_the_plain_iteration_is_that_of_the_paper(make_problem):
    problem = make_problem("squared", n=15, weighted=False)
    measure, omega = _refit(problem), np.ones(15)
    history = []
    for _ in range(6):
        losses, _ = measure(omega)
        history.append(np.std(losses) / np.mean(losses))
        omega = omega / losses
        omega *= 15.0 / omega.sum()
    result = equalize(measure, problem.s, max_iter=5, tol=1e-14)
    assert_allclose(result.history, history, rtol=1e-9)


def test_a_weight_of_two_is_the_record_twice(make_problem):
    problem = make_problem("squared", n=14)
    copies = np.repeat(np.arange(14), problem.s.astype(int))
    assert len(copies) > 14
    twice = make_problem("squared", X=problem.X[copies], y=problem.y[copies], weighted=False)
    weighted = equalize(_refit(problem), problem.s, tol=1e-10, max_iter=400)
    repeated = equalize(_refit(twice), twice.s, tol=1e-10, max_iter=400)
    assert_allclose(weighted.reweights[copies], repeated.reweights, rtol=1e-7)
    # Not only where it ends.
    assert_allclose(weighted.history[:8], repeated.history[:8], rtol=1e-6)
    assert problem.s @ weighted.reweights == pytest.approx(problem.s.sum(), rel=1e-12)


def test_records_of_weight_zero_do_not_count(make_problem):
    problem = make_problem("squared", n=16, weighted=False)
    s = problem.s.copy()
    s[[2, 9]] = 0.0
    present = s > 0.0
    fewer = make_problem("squared", X=problem.X[present], y=problem.y[present], weighted=False)
    with_zeros = make_problem("squared", X=problem.X, y=problem.y, weighted=False)
    object.__setattr__(with_zeros, "s", s)
    a = equalize(_refit(with_zeros), s, tol=1e-10, max_iter=400)
    b = equalize(_refit(fewer), fewer.s, tol=1e-10, max_iter=400)
    assert_allclose(a.reweights[present], b.reweights, rtol=1e-7)
    assert_allclose(a.reweights[~present], 1.0)
    assert a.reweights[present].sum() == pytest.approx(14.0)


def test_the_history_starts_with_the_plain_fit_and_the_best_step_is_kept(make_problem):
    problem = make_problem("poisson", n=25, weighted=False)
    seen = []
    result = equalize(_refit(problem), problem.s, tol=1e-8, max_iter=60, callback=seen.append)
    assert seen == result.history
    first, _ = _refit(problem)(np.ones(25))
    assert result.history[0] == pytest.approx(np.std(first) / np.mean(first), rel=1e-12)
    assert result.spread == min(result.history)
    assert relative_spread(result.losses, problem.s) == pytest.approx(result.spread, rel=1e-6)


def test_limits_of_the_iteration(make_problem):
    problem = make_problem("squared", n=20, weighted=False)
    for most in (1, 3):
        result = equalize(_refit(problem), problem.s, tol=1e-15, max_iter=most)
        assert len(result.history) == most + 1
    loose = equalize(_refit(problem), problem.s, tol=10.0)
    assert loose.history == loose.history[:1]
    assert_allclose(loose.reweights, 1.0)


def test_a_record_that_cannot_leak_breaks_nothing():
    # No weight makes it leak as much as the others: the spread stays, and all numbers are finite.
    kappa = np.array([0.0, 1.0, 2.0, 3.0])
    result = equalize(lambda omega: (omega * kappa, None), np.ones(4), max_iter=20)
    assert np.all(np.isfinite(result.reweights))
    assert result.reweights.sum() == pytest.approx(4.0)
    assert result.spread > 1e-6
    nothing = equalize(lambda omega: (0.0 * omega, None), np.ones(3))
    assert nothing.history == [0.0]
    assert_allclose(nothing.reweights, 1.0)


def test_back_from_where_there_is_no_fit():
    # Weights far from the first ones have no fit: half of the plain step has.
    kappa, asked = np.array([1.0, 3.0, 0.5]), []

    def measure(omega):
        asked.append(omega)
        return np.full(3, np.inf) if omega.min() < 0.3 else omega**0.5 * kappa**0.25, None

    result = equalize(measure, np.ones(3), tol=1e-9, max_iter=100)
    assert result.spread <= 1e-9
    assert_allclose(result.reweights, kappa**-0.5 * 3.0 / np.sum(kappa**-0.5), rtol=1e-8)


def test_relative_spread():
    losses = np.array([1.0, 2.0, 4.0])
    assert relative_spread(losses, np.ones(3)) == pytest.approx(np.std(losses) / np.mean(losses))
    repeated = np.array([1.0, 2.0, 2.0, 2.0, 4.0])
    expected = np.std(repeated) / np.mean(repeated)
    assert relative_spread(losses, np.array([1.0, 3.0, 1.0])) == pytest.approx(expected)
    assert relative_spread(np.array([1.0, 1.0, 7.0]), np.array([1.0, 1.0, 0.0])) == 0.0
    assert relative_spread(np.zeros(2), np.ones(2)) == 0.0
    assert relative_spread(np.array([1.0, np.inf]), np.ones(2)) == np.inf
