"""Newton's method for the weights of IRFIL: its direction, its steps, and when it leaves."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import every, mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skleak.influence.jacobian import Columns, FitFactor
from skleak.influence.reweighting import _search as module
from skleak.influence.reweighting import equalize, newton_direction
from skleak.influence.reweighting._total_system import Balance
from skleak.influence.state import WeightRule
from skleak.losses import LogisticLoss, PoissonLoss, SquaredLoss
from skleak.solvers import Objective, minimize
from skleak.utils._blocks import Blocks

LOSSES = {"squared": SquaredLoss(), "logistic": LogisticLoss(), "poisson": PoissonLoss()}
WHOLE = Columns(target=True)
BLOCKS = {"record": WHOLE, "columns": Columns(), "two columns": Columns(np.array([2, 0]))}


def fitted(objective):
    minimum = minimize(objective, tol=1e-13)
    assert minimum.converged
    return FitFactor(
        minimum.coefficients, minimum.inverse_hessian, objective.loss, objective.fit_intercept
    )


class Refits:
    """A problem as a reweighting sees it, with a count of what it asks for."""

    def __init__(self, objective, columns=WHOLE, norm="spectral", rule=WeightRule):
        self.objective, self.rule = objective, rule(columns, norm)
        self.n_directions = 0

    def measure(self, omega):
        factor = fitted(self.objective.reweighted(omega))
        kappa = self.rule.norms(factor, self.objective.X, self.objective.y)
        return self.rule.losses(omega, kappa, self.objective.sample_weight), factor

    def newton(self, omega, factor, residual, rtol):
        self.n_directions += 1
        objective = self.objective.reweighted(omega)
        return newton_direction(objective, factor, self.rule, residual, rtol=rtol).change

    def equalize(self, *, newton=True, **options):
        options = {"tol": 1e-10, "max_iter": 30, **options}
        return equalize(
            self.measure,
            self.objective.sample_weight,
            newton=self.newton if newton else None,
            **options,
        )


RULES = {"irfil": WeightRule, "total": WeightRule.total}


def hard_objective(rng, kind, alpha, *, fit_intercept=True, weighted=True, n=150, d=5):
    """Heavy-tailed records and targets, hardly any penalty, unequal weights, some zero."""
    X = rng.standard_t(3, size=(n, d))
    X[:, 0] = X[:, 0] > 0.5
    a = X @ rng.normal(size=d) / np.sqrt(d) + 0.3
    y = {
        "squared": a + rng.standard_t(3, size=n),
        "logistic": (rng.logistic(size=n) < a).astype(float),
        "poisson": rng.poisson(np.exp(np.clip(a, -3.0, 3.0))).astype(float),
    }[kind]
    s = rng.integers(0, 4, size=n).astype(float) if weighted else np.ones(n)
    return Objective(X, y, LOSSES[kind], alpha, fit_intercept, s, np.ones(n))


def spread_of(losses, s):
    mean = np.average(losses, weights=s)
    return np.sqrt(np.average((losses / mean - 1.0) ** 2, weights=s))


# The direction.


@pytest.mark.slow
@every("norm", ["spectral", "trace"])
@every("block", BLOCKS)
@every("fit_intercept", [True, False])
@every("kind", LOSSES)
@every("name", RULES)
def test_the_leakage_answers_as_the_direction_says(
    make_problem, name, kind, fit_intercept, block, norm
):
    # Along the direction the logarithms of the leakages change by what was asked for: by refits.
    problem = make_problem(kind, n=14, alpha=0.1, fit_intercept=fit_intercept)
    problem.s[3] = 0.0
    objective, rule = problem.objective, RULES[name](BLOCKS[block], norm)
    present, factor = problem.s > 0.0, fitted(objective)
    wanted = np.where(present, np.sin(np.arange(14.0)), 0.0)
    found = newton_direction(objective, factor, rule, wanted, rtol=1e-12)
    assert found.residual <= 1e-11
    assert found.change[3] == 0.0
    assert objective.weights @ found.change == pytest.approx(0.0, abs=1e-10)

    def logs(h):
        omega = objective.reweights * np.exp(h * found.change)
        kappa = rule.norms(fitted(objective.reweighted(omega)), problem.X, problem.y)
        return np.log(rule.losses(omega, kappa, problem.s))

    # Differences of the sixth order: their error is far below what is compared.
    h = 5e-4
    one, two, three = (logs(k * h) - logs(-k * h) for k in (1, 2, 3))
    slope = (45.0 * one - 9.0 * two + three) / (60.0 * h)
    gap = (slope - wanted)[present]
    assert_allclose(gap, gap.mean(), atol=1e-6)


@pytest.mark.parametrize("norm", ["spectral", "trace"])
@pytest.mark.parametrize("kind", LOSSES)
def test_the_direction_by_the_matrix_of_all_records(make_problem, kind, norm):
    # Written out with one row and one column per record, and a border for the sum of the weights.
    problem = make_problem(kind, n=20, d=3)
    objective, factor = problem.objective, problem.factor
    balance = Balance.of(factor, WeightRule(WHOLE, norm))
    g, t = balance.gradients(problem.X, problem.y), objective.weights
    wanted, bordered = np.cos(np.arange(20.0)), np.zeros((21, 21))
    for j in range(20):
        dw = -t[j] * g.r[j] * g.x[j]
        dh = t[j] * g.c[j] * np.outer(g.x[j], g.x[j])
        dh += (g.x.T * (t * g.third * (g.x @ dw))) @ g.x
        for i in range(20):
            by_hessian = g.common[i] * balance.common
            for left, right in g.pairs:
                by_hessian = by_hessian + np.outer(left[i % len(left)], right[i % len(right)])
            bordered[i, j] = g.coefficients[i] @ dw - np.sum(by_hessian * dh) + (i == j)
    bordered[:20, 20], bordered[20, :20] = 1.0, t
    expected = np.linalg.solve(bordered, np.append(wanted, 0.0))[:20]
    found = newton_direction(objective, factor, WeightRule(WHOLE, norm), wanted, rtol=1e-12)
    assert_allclose(found.change, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.slow
def test_blocks_tables_and_sparse_records_change_nothing(make_problem, monkeypatch):
    problem = make_problem("logistic", n=40, d=3)
    objective, factor, wanted = problem.objective, problem.factor, np.cos(np.arange(40.0))

    def change(X):
        moved = Objective(X, *[getattr(objective, name) for name in fields])
        return newton_direction(moved, factor, WeightRule(WHOLE), wanted, rtol=1e-12).change

    fields = ["y", "loss", "alpha", "fit_intercept", "sample_weight", "reweights"]
    expected = change(problem.X)
    assert_allclose(change(sparse.csr_array(problem.X)), expected, rtol=1e-9, atol=1e-11)
    for size in (7, 2):

        def cut(*records, width, size=size, **options):
            return Blocks.of(*records, width=width, elements=size * width, **options)

        monkeypatch.setattr(module, "Blocks", SimpleNamespace(of=cut))
        assert_allclose(change(problem.X), expected, rtol=1e-9, atol=1e-11)
    monkeypatch.setattr(module, "_KEPT_ELEMENTS", 0)  # as where there is no room for the tables
    assert_allclose(change(problem.X), expected, rtol=1e-9, atol=1e-11)


def test_copies_are_repeated_records(make_problem):
    problem = make_problem("poisson", n=12)
    copies = np.repeat(np.arange(12), problem.s.astype(int))
    o, wanted = problem.objective, np.sin(np.arange(12.0))
    repeated = Objective(
        o.X[copies], o.y[copies], o.loss, o.alpha, True, np.ones(len(copies)), o.reweights[copies]
    )
    rule = WeightRule.total(WHOLE, "trace")
    once = newton_direction(o, problem.factor, rule, wanted, rtol=1e-12)
    twice = newton_direction(repeated, problem.factor, rule, wanted[copies], rtol=1e-12)
    assert_allclose(once.change[copies], twice.change, rtol=1e-8, atol=1e-10)


def test_nothing_to_change(make_problem):
    problem = make_problem("squared")
    rule = WeightRule(WHOLE)
    found = newton_direction(problem.objective, problem.factor, rule, np.zeros(12), rtol=1e-2)
    assert_array_equal(found.change, 0.0)


# The steps.


@pytest.mark.parametrize("kind", LOSSES)
def test_the_fixed_point_is_that_of_the_iteration(make_problem, kind):
    refits = Refits(make_problem(kind, n=40, alpha=0.1).objective)
    slow = refits.equalize(newton=False, tol=1e-11, max_iter=300)
    assert refits.n_directions == 0
    fast = refits.equalize(tol=1e-11)
    assert refits.n_directions > 0
    assert slow.spread <= 1e-11
    assert fast.spread <= 1e-11
    assert len(fast.history) < len(slow.history)
    assert_allclose(fast.reweights, slow.reweights, rtol=1e-8)
    # By a fit of its own, and not only by the bookkeeping of the iteration.
    losses, _ = refits.measure(fast.reweights)
    assert spread_of(losses, refits.objective.sample_weight) <= 2e-11


@pytest.mark.parametrize("kind", LOSSES)
def test_convergence_is_quadratic(make_problem, kind):
    refits = Refits(make_problem(kind, n=60, alpha=0.1).objective)
    history = np.array(refits.equalize(tol=1e-12).history)
    small = history[(history < 0.05) & (history > 1e-12)]
    assert len(small) >= 2
    following = history[1:][(history[:-1] < 0.05) & (history[:-1] > 1e-6)]
    before = history[:-1][(history[:-1] < 0.05) & (history[:-1] > 1e-6)]
    assert np.all(following <= np.maximum(30.0 * before**2, 1e-12))


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_slow(range(4), 0))
@pytest.mark.parametrize("block", ["record", "columns", "trace"])
@pytest.mark.parametrize("kind", LOSSES)
def test_weak_penalties_and_heavy_tails(kind, block, seed):
    rng = np.random.default_rng([seed, len(kind), len(block)])
    columns, norm = (WHOLE, "trace") if block == "trace" else (BLOCKS[block], "spectral")
    alpha = 10.0 ** rng.uniform(-6.0, -3.0)
    objective = hard_objective(rng, kind, alpha, fit_intercept=seed % 2 == 0, weighted=seed < 2)
    refits = Refits(objective, columns, norm)
    result = refits.equalize()
    slow = refits.equalize(newton=False)
    assert result.spread <= 1e-10
    assert len(result.history) <= len(slow.history)
    s = objective.sample_weight
    assert s @ result.reweights == pytest.approx(s.sum(), rel=1e-12)
    assert_array_equal(result.reweights[s == 0.0], 1.0)
    losses, factor = refits.measure(result.reweights)
    assert spread_of(losses, s) <= 2e-10
    # The coefficients are the minimizer under the weights, and no approximation of it.
    reweighted = objective.reweighted(result.reweights)
    gradient = reweighted.at(result.state.coefficients).gradient
    assert np.linalg.norm(gradient) <= 1e-12 * max(1.0, np.abs(objective.y).max())
    assert_allclose(result.state.coefficients, factor.coefficients, rtol=1e-9, atol=1e-11)
    if slow.spread <= 1e-10:
        assert_allclose(result.reweights, slow.reweights, rtol=1e-6)


def test_weights_are_repeated_rows_all_along(make_problem):
    problem = make_problem("squared", n=14)
    copies = np.repeat(np.arange(14), problem.s.astype(int))
    twice = make_problem("squared", X=problem.X[copies], y=problem.y[copies], weighted=False)
    a = Refits(problem.objective).equalize()
    b = Refits(twice.objective).equalize()
    assert_allclose(a.reweights[copies], b.reweights, rtol=1e-8)
    # Only what the accuracy of a direction leaves open may differ on the way.
    assert len(a.history) == len(b.history)
    assert_allclose(a.history[:2], b.history[:2], rtol=1e-6)


def test_records_that_cannot_leak(make_problem):
    # Without intercept a record of zeros with target zero moves nothing, whatever its weight.
    problem = make_problem("squared", n=25, fit_intercept=False, weighted=False)
    problem.X[[4, 9]], problem.y[[4, 9]] = 0.0, 0.0
    refits = Refits(problem.objective)
    result = refits.equalize(max_iter=100)
    others = np.delete(np.arange(25), [4, 9])
    assert_array_equal(result.losses[[4, 9]], 0.0)
    # The spread of all feels that of the others by its square: its last digit is theirs at 1e-8.
    assert spread_of(result.losses[others], np.ones(23)) <= 1e-7
    # The best that there is: 23 equal losses and two of zero.
    assert result.spread == pytest.approx(np.sqrt(2.0 / 23.0), rel=1e-8)
    assert len(result.history) == 101
    assert np.all(np.isfinite(result.reweights))
    assert np.all(result.reweights > 0.0)
    # The others end where they would without those two, but for the penalty, which counts all.
    fewer = Objective(
        problem.X[others],
        problem.y[others],
        problem.objective.loss,
        problem.alpha * 25.0 / result.reweights[others].sum(),
        False,
        np.ones(23),
        np.ones(23),
    )
    alone = Refits(fewer).equalize().reweights
    share = result.reweights[others] / result.reweights[others].mean()
    assert_allclose(share, alone, rtol=1e-6)


# When it leaves.


@pytest.mark.parametrize("useless", [np.nan, np.inf, -1.0, 1e3, 0.0])
def test_a_useless_direction_costs_a_few_fits_and_nothing_else(make_problem, useless):
    # What the search throws away apart, the history is that of the plain iteration.
    refits = Refits(make_problem("squared", n=30, alpha=1e-4, weighted=False).objective)
    alone = refits.equalize(newton=False, max_iter=200).history
    asked = []

    def newton(omega, factor, residual, rtol):
        asked.append(omega)
        return useless * residual

    mixed = equalize(
        refits.measure, refits.objective.sample_weight, newton=newton, tol=1e-10, max_iter=200
    )
    assert asked
    assert mixed.spread <= 1e-10
    if useless != 1e3:  # cut to a length that may help by accident
        rest = list(mixed.history)
        for spread in alone:  # a subsequence, in order
            while not np.isclose(rest.pop(0), spread, rtol=1e-3, atol=1e-13):
                assert rest
    assert len(mixed.history) <= len(alone) + 8 * len(asked)


def test_a_step_too_long_is_shortened():
    # The direction is right and four times too long: the search must come down to a quarter.
    kappa = np.array([1.0, 1.3, 0.8, 1.1])
    result = equalize(
        lambda omega: (omega * kappa, None),
        np.ones(4),
        newton=lambda omega, state, residual, rtol: 4.0 * residual,
        tol=1e-12,
    )
    assert result.spread <= 1e-12
    assert len(result.history) <= 6


def test_records_without_weight_keep_a_factor_of_one():
    kappa = np.array([1.0, 1.3, 5.0, 0.8])
    result = equalize(lambda omega: (omega * kappa, None), np.array([1.0, 2.0, 0.0, 1.0]))
    assert result.reweights[2] == 1.0
    level = (result.reweights * kappa)[[0, 1, 3]]
    assert_allclose(level, level[0], rtol=1e-2)


def test_limits(make_problem):
    refits = Refits(make_problem("squared", n=30, alpha=1e-4).objective)
    for most in (1, 3, 7):
        result = refits.equalize(tol=1e-300, max_iter=most)
        assert len(result.history) == most + 1
        assert result.spread == min(result.history)
    there = refits.equalize(tol=1e-10)
    again = refits.equalize(tol=1e-8, start=there.reweights)
    assert len(again.history) == 1
    assert_allclose(again.reweights, there.reweights, rtol=1e-12)
    loose = refits.equalize(tol=10.0)
    assert len(loose.history) == 1
    assert_allclose(loose.reweights, 1.0)
