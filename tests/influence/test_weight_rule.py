"""Weights that a rule makes of balanced norms: bounds, sums, the level, and what is equal."""

import numpy as np
import pytest
from helpers import every
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import fsolve

from skleak.influence.jacobian import Columns
from skleak.influence.reweighting import relative_spread
from skleak.influence.state import WeightRule
from skleak.influence.state._state import _LARGEST_MEAN

RULES = {
    "irfil": WeightRule(),
    "total": WeightRule.total(Columns(), "spectral"),
    "tight": WeightRule(largest_weight=1.2),
    "loose": WeightRule(largest_weight=1e6),
}
CASES = range(40)


def random_norms(seed, n=30):
    """Norms of any spread, up to twelve orders of magnitude; ties, zeros, copies, weights."""
    rng = np.random.default_rng([seed, 77])
    kappa = 10.0 ** rng.uniform(-0.5, 0.5, n) ** rng.integers(1, 3)
    kappa *= 10.0 ** (rng.uniform(-6.0, 6.0, n) * rng.choice([0.0, 0.1, 1.0]))
    kappa *= 10.0 ** rng.uniform(-8.0, 8.0)
    kappa[rng.random(n) < 0.3] = kappa[0]
    kappa[1:][rng.random(n - 1) < rng.choice([0.0, 0.3])] = 0.0
    copies = rng.integers(0, 4, n).astype(float)
    copies[0] = 2.0
    given = rng.lognormal(sigma=0.5, size=n)
    return kappa, copies, given * (copies.sum() / (copies @ given))


def mean_of(values, kappa, copies):
    some = kappa > 0.0
    return np.average(values[some], weights=copies[some])


@every("rule", RULES.values())
@every("seed", CASES)
def test_the_level_keeps_the_sum_of_the_weights(rule, seed):
    kappa, copies, given = random_norms(seed)
    level = rule.level(given, kappa, copies)
    weights = rule.weights(kappa, level)
    mean = mean_of(given, kappa, copies)
    # All weights at their bound have no larger mean than that: only then the sum is another.
    expected = min(mean, _LARGEST_MEAN * rule.largest_weight)
    assert mean_of(weights, kappa, copies) == pytest.approx(expected, rel=1e-12)
    if np.isfinite(rule.largest_weight):
        assert weights.max() <= max(1.0, rule.largest_weight)
    assert weights.min() > 0.0
    assert_array_equal(weights[kappa == 0.0], 1.0)
    order = np.argsort(kappa[kappa > 0.0])
    assert np.all(np.diff(weights[kappa > 0.0][order]) <= 0.0)


@every("rule", RULES.values())
@every("seed", CASES)
def test_under_its_own_weights_a_rule_finds_all_losses_equal(rule, seed):
    kappa, copies, given = random_norms(seed)
    leaks = (kappa > 0.0) & (copies > 0.0)
    level = rule.level(given, kappa, copies)
    weights = rule.weights(kappa, level)
    losses = rule.losses(weights, kappa, copies)
    assert_allclose(losses[leaks], level, rtol=1e-11)
    assert_array_equal(losses[kappa == 0.0], 0.0)
    assert relative_spread(losses[kappa > 0.0], copies[kappa > 0.0]) <= 1e-11
    # And under no other: the losses of the weights that were given tell the two apart.
    others = rule.losses(given, kappa, copies)
    assert relative_spread(others[kappa > 0.0], copies[kappa > 0.0]) > 1e-3


@every("seed", CASES)
def test_irfil_is_the_level_over_the_norm(seed):
    kappa, copies, given = random_norms(seed)
    rule, leaks = WeightRule(), kappa > 0.0
    level = rule.level(given, kappa, copies)
    inverse = np.average(1.0 / kappa[leaks], weights=copies[leaks])
    assert level == pytest.approx(mean_of(given, kappa, copies) / inverse, rel=1e-12)
    weights = rule.weights(kappa, level)
    assert_allclose(weights[leaks], level / kappa[leaks], rtol=1e-15)
    assert_allclose(rule.losses(given, kappa, copies), given * kappa, rtol=1e-15)
    assert_array_equal(rule.follows(kappa, level), leaks.astype(float))


@every("seed", CASES)
def test_bounded_weights_by_their_definition(seed):
    kappa, copies, given = random_norms(seed)
    rule = WeightRule(largest_weight=3.0)
    level = rule.level(given, kappa, copies)
    leaks = kappa > 0.0
    expected = 1.0 / np.sqrt((kappa[leaks] / level) ** 2 + 1.0 / 9.0)
    assert_allclose(rule.weights(kappa, level)[leaks], expected, rtol=1e-14)
    # Without a bound they are those of IRFIL, which a large bound approaches.
    unbounded = WeightRule()
    far = WeightRule(largest_weight=1e30)
    assert_allclose(
        far.weights(kappa, far.level(given, kappa, copies)),
        unbounded.weights(kappa, unbounded.level(given, kappa, copies)),
        rtol=1e-11,
    )


@every("rule", RULES.values())
@every("seed", CASES)
def test_follows_is_minus_the_slope_of_the_weights(rule, seed):
    kappa, copies, given = random_norms(seed)
    level = rule.level(given, kappa, copies)
    found = rule.follows(kappa, level)
    h = 1e-5

    def logs(by_norm, by_level):
        return np.log(rule.weights(kappa * np.exp(by_norm), level * np.exp(by_level)))

    leaks = kappa > 0.0
    assert_allclose(found, -(logs(h, 0.0) - logs(-h, 0.0)) / (2.0 * h), atol=1e-9)
    # A record that cannot leak has a weight of one, whatever the level.
    assert_allclose(found, (logs(0.0, h) - logs(0.0, -h)) / (2.0 * h), atol=1e-9)
    assert np.all((found[leaks] >= 0.0) & (found[leaks] <= 1.0))
    assert_array_equal(found[~leaks], 0.0)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_neither_the_unit_of_norms_nor_that_of_copies_matters(rule, unit):
    kappa, copies, given = random_norms(0)
    level = rule.level(given, kappa, copies)
    assert rule.level(given, unit * kappa, copies) == pytest.approx(unit * level, rel=1e-11)
    assert_allclose(rule.weights(unit * kappa, unit * level), rule.weights(kappa, level))
    assert rule.level(given, kappa, unit * copies) == pytest.approx(level, rel=1e-11)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_copies_are_records_and_absent_records_do_not_count(rule):
    kappa, copies, given = random_norms(1)
    level = rule.level(given, kappa, copies)
    rows = np.repeat(np.arange(len(kappa)), copies.astype(int))
    assert (copies == 0.0).any()
    repeated = given[rows], kappa[rows], np.ones(len(rows))
    assert rule.level(*repeated) == pytest.approx(level, rel=1e-12)
    assert_allclose(rule.losses(*repeated), rule.losses(given, kappa, copies)[rows], rtol=1e-12)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("kappa", [1e-200, 3.0, 1e200])
def test_equal_norms_have_equal_weights(rule, kappa):
    for n in (1, 5):
        norms, ones = np.full(n, kappa), np.ones(n)
        level = rule.level(ones, norms, ones)
        assert_allclose(rule.weights(norms, level), 1.0, rtol=1e-12)
        assert_allclose(rule.losses(ones, norms, ones), level, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_where_nothing_leaks(rule):
    nothing, ones = np.zeros(4), np.ones(4)
    assert rule.level(ones, nothing, ones) == 0.0
    assert_array_equal(rule.weights(nothing, 0.0), 1.0)
    assert_array_equal(rule.losses(ones, nothing, ones), 0.0)
    assert_array_equal(rule.follows(nothing, 0.0), 0.0)
    # Nor does what leaks count where it takes no part.
    some, copies = np.array([0.0, 2.0]), np.array([1.0, 0.0])
    assert rule.level(np.ones(2), some, copies) == 0.0


def test_one_tiny_norm_takes_all_weight_without_a_bound_only():
    kappa, ones = np.array([1e-12, *np.ones(99)]), np.ones(100)
    free, bounded = WeightRule(), WeightRule.total(Columns(), "spectral")
    assert free.weights(kappa, free.level(ones, kappa, ones))[0] > 99.0
    weights = bounded.weights(kappa, bounded.level(ones, kappa, ones))
    assert weights[0] == pytest.approx(bounded.largest_weight)
    assert_allclose(weights[1:], (100.0 - weights[0]) / 99.0)


def test_two_norms_by_another_solver():
    kappa, copies, rule = np.array([0.2, 1.0]), np.array([1.0, 3.0]), WeightRule(largest_weight=2.0)

    def lack(log_level):
        omega = 1.0 / np.sqrt((kappa / np.exp(log_level[0])) ** 2 + 0.25)
        return [copies @ omega - copies.sum()]

    expected = np.exp(fsolve(lack, [0.0], xtol=1e-13)[0])
    assert rule.level(np.ones(2), kappa, copies) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("norm", ["spectral", "trace"])
def test_what_the_two_rules_are(norm, make_problem, rng):
    columns = Columns(np.array([0, 1]), target=True)
    rule = WeightRule.total(columns, norm)
    assert (rule.columns, rule.norm, rule.name) == (columns, norm, "total")
    assert (rule.residual_factor, rule.largest_weight) == (0.8, 4.0)
    plain = WeightRule(columns, norm)
    assert (plain.residual_factor, plain.largest_weight, plain.name) == (1.0, np.inf, "irfil")
    assert WeightRule() == WeightRule(Columns(), "spectral")
    assert isinstance(rule, WeightRule)
    # Residuals are damped in the norm, and nowhere else.
    factor = make_problem("logistic", n=12).factor
    X, y = rng.normal(size=(6, factor.n_features)), rng.integers(0, 2, 6).astype(float)
    assert plain.damped(factor) is factor
    damped = rule.damped(factor).derivatives(X, y)
    for k, (found, expected) in enumerate(zip(damped, factor.derivatives(X, y), strict=True)):
        assert_allclose(found, (0.8 if k == 1 else 1.0) * expected, rtol=1e-15)
    assert_array_equal(rule.damped(factor).inverse_hessian, factor.inverse_hessian)


def test_a_mean_beyond_the_bound_is_cut():
    kappa, ones, rule = np.array([1.0]), np.ones(1), WeightRule(largest_weight=2.0)
    level = rule.level(np.array([5.0]), kappa, ones)
    assert_allclose(rule.weights(kappa, level), 1.8, rtol=1e-12)


@pytest.mark.parametrize("norm", ["spectral", "trace"])
@pytest.mark.parametrize("kind", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("share", [0.8, 1.0])
def test_norms_are_those_of_dense_jacobians(make_problem, kind, norm, share):
    problem = make_problem(kind, n=15)
    blocks = {"record": Columns(target=True), "two": Columns(np.array([1, 0]))}
    J, without = problem.dense_jacobian(), problem_without_residual(problem)
    for name, columns in blocks.items():
        d = problem.X.shape[1]
        chosen = range(d + 1) if name == "record" else [1, 0]
        # Jacobians are linear in the residual.
        blended = (share * J + (1.0 - share) * without)[:, :, list(chosen)]
        order = 2 if norm == "spectral" else "fro"
        expected = np.linalg.norm(blended, order, axis=(1, 2))
        expected /= 1.0 if norm == "spectral" else np.sqrt(len(chosen))
        rule = WeightRule(columns, norm, residual_factor=share)
        assert_allclose(rule.norms(problem.factor, problem.X, problem.y), expected, rtol=1e-9)


def problem_without_residual(problem):
    """Dense Jacobians at the fit, had every record a residual of zero."""
    factor = problem.factor
    A, w = factor.inverse_hessian, factor.coefficients[: problem.X.shape[1]]
    records = np.column_stack([problem.X, np.ones(len(problem.X))])[:, : len(A)]
    _, c = problem.derivatives(records @ factor.coefficients)
    return np.array(
        [-A @ np.column_stack([ci * np.outer(x, w), -x]) for x, ci in zip(records, c, strict=True)]
    )
