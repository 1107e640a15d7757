"""Objective perturbation: against densities of its minimizers, published tables, Gaussian noise."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.optimize import elementwise
from scipy.special import expit, ndtr

from skleak.accounting import gaussian_delta, gaussian_epsilon
from skleak.accounting.gaussian import mu_from_epsilon_delta
from skleak.accounting.objective import (
    _many_classes,
    objective_delta,
    objective_epsilon,
    objective_mu,
    objective_noise_scale,
    objective_ridge,
    removal_delta,
)

SETTINGS = [(8.0, 1.0), (8.0, 4.0), (2.0, 0.5), (2.0, 4.0), (1.0, 0.3), (0.4, 0.2), (12.0, 0.5)]


def logistic(margin):
    """Slope and curvature, the label absorbed in the record."""
    return -expit(-margin), expit(margin) * expit(-margin)


def pseudo_huber(residual, width=0.5):
    root = np.hypot(1.0, residual / width)
    return residual / root, root**-3


class Release:
    """Density of the minimizer in the plane, the rest of the table lying on the axes.

    The minimizer is mapped to the noise that gives it without the pair of records, where the
    coordinates are separate. ``rest`` holds (axis, length with sign, number of copies, target).
    """

    def __init__(self, rest, sigma, ridge, n_points=300, reach=9.0, loss=logistic):
        self.sigma, self.loss = sigma, loss
        ends = reach * sigma + 2.0
        noise = np.linspace(-ends, ends, n_points)
        self.cell = (noise[1] - noise[0]) ** 2
        self.noise = np.stack(np.meshgrid(noise, noise, indexing="ij"))
        solved = []
        for axis in (0, 1):
            length = np.array([r[1] for r in rest if r[0] == axis] + [0.0])[:, None]
            copies = np.array([r[2] for r in rest if r[0] == axis] + [0.0])[:, None]
            target = np.array([(*r, 0.0)[3] for r in rest if r[0] == axis] + [0.0])[:, None]

            def gradient(w, b, length=length, copies=copies, target=target):
                slopes = copies * length * loss(length * w.ravel() - target)[0]
                return (ridge * w.ravel() + slopes.sum(axis=0) + b.ravel()).reshape(w.shape)

            bound = (ends + np.sum(np.abs(copies * length)) + 1.0) / ridge
            ones = np.ones_like(noise)
            w = elementwise.find_root(gradient, (-bound * ones, bound * ones), args=(noise,)).x
            curvature = copies * length**2 * loss(length * w - target)[1]
            solved.append((w, 1.0 / (ridge + curvature.sum(axis=0))))
        (first, inverse_first), (second, inverse_second) = solved
        self.w = np.stack(np.meshgrid(first, second, indexing="ij"))
        self.inverse = np.stack(np.meshgrid(inverse_first, inverse_second, indexing="ij"))

    def density(self, record, weight=1.0, target=0.0):
        """Density with one more record."""
        x = np.asarray(record, dtype=np.float64)[:, None, None]
        slope, curvature = self.loss(np.sum(x * self.w, axis=0) - target)
        moved = self.noise - weight * x * slope
        quadratic = np.sum(x * x * self.inverse, axis=0)
        determinant = 1.0 + weight * curvature * quadratic
        normal = np.exp(-0.5 * np.sum(moved**2, axis=0) / self.sigma**2)
        return normal * determinant / (2.0 * np.pi * self.sigma**2)

    def density_of(self, records, weight=1.0, targets=None):
        """Density with some more records."""
        moved = self.noise.copy()
        matrix = [[np.ones_like(self.cell) * (i == j) for j in (0, 1)] for i in (0, 1)]
        targets = np.zeros(len(records)) if targets is None else targets
        for record, target in zip(records, targets, strict=True):
            x = np.asarray(record, dtype=np.float64)
            slope, curvature = self.loss(np.tensordot(x, self.w, 1) - target)
            moved -= weight * x[:, None, None] * slope
            for i in (0, 1):
                for j in (0, 1):
                    scaled = weight * curvature * x[i] * x[j] * self.inverse[j]
                    matrix[i][j] = matrix[i][j] + scaled
        determinant = matrix[0][0] * matrix[1][1] - matrix[0][1] * matrix[1][0]
        normal = np.exp(-0.5 * np.sum(moved**2, axis=0) / self.sigma**2)
        return normal * determinant / (2.0 * np.pi * self.sigma**2)

    def delta(self, first, second, epsilon):
        excess = first - np.exp(np.asarray(epsilon))[:, None, None] * second
        return np.maximum(excess, 0.0).sum(axis=(1, 2)) * self.cell


def _table(rng, weight):
    """A rest of at most 20 records and a pair, half of the pairs nearly opposite and long."""
    rest = [
        (int(rng.integers(2)), float(rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 1.0)), weight)
        for _ in range(int(rng.integers(0, 19)))
    ]
    angle = rng.uniform(0.0, 2.0 * np.pi)
    turn = rng.uniform(2.3, np.pi) if rng.random() < 0.5 else rng.uniform(0.0, np.pi)
    lengths = rng.choice([1.0, 0.7], 2, p=[0.8, 0.2])
    pair = [
        length * np.array([np.cos(a), np.sin(a)])
        for length, a in zip(lengths, (angle, angle + turn), strict=True)
    ]
    return rest, pair


@pytest.mark.parametrize("seed", range(40))
def test_no_pair_of_tables_exceeds_the_bound(seed):
    rng = np.random.default_rng(seed)
    scale, ridge = SETTINGS[seed % len(SETTINGS)]
    weight, norm = (1.0, 1.0) if seed % 2 else (1.5, 2.0)
    rest, (first, second) = _table(rng, weight)
    rest = [(axis, norm * length, copies) for axis, length, copies in rest]
    release = Release(rest, scale * norm * weight, ridge * norm**2 * weight, 240)
    p, q = (release.density(norm * record, weight) for record in (first, second))
    without = release.density((0.0, 0.0))
    assert p.sum() * release.cell == pytest.approx(1.0, abs=1e-4)
    epsilon = np.array([0.0, 0.3, 1.0, 2.0]) * 4.0 / scale
    for found, bound in [
        (release.delta(p, q, epsilon), objective_delta(scale, ridge, epsilon)),
        (release.delta(q, p, epsilon), objective_delta(scale, ridge, epsilon)),
        (release.delta(p, without, epsilon), removal_delta(scale, ridge, epsilon)),
        (release.delta(without, p, epsilon), gaussian_delta(1.0 / scale, epsilon)),
    ]:
        assert np.all(found <= bound * (1.0 + 1e-3) + 1e-9)


@pytest.mark.parametrize("seed", range(42))
def test_no_pair_of_tables_exceeds_the_bound_of_both_signs(seed):
    """Targets where the noise puts the predictions, so that slopes change their sign there."""
    rng, width = np.random.default_rng(seed), 0.5
    scale, ridge = SETTINGS[seed % len(SETTINGS)]
    weight, norm = (1.0, 1.0) if seed % 2 else (1.5, 2.0)
    spread = width * scale / ridge * rng.choice([0.1, 0.5, 1.5])
    rest, (first, second) = _table(rng, weight)
    if seed % 3 == 0:
        second = first * rng.choice([1.0, -1.0, 0.6])  # one dimension
    rest = [(axis, norm * x, copies, spread * rng.normal()) for axis, x, copies in rest]
    rest = rest if seed % 4 else []
    sigma = scale * norm * weight * width
    release = Release(rest, sigma, ridge * norm**2 * weight, 300, loss=pseudo_huber)
    targets = spread * rng.normal(size=2)
    p = release.density(norm * first, weight, targets[0])
    q = release.density(norm * second, weight, targets[1])
    without = release.density((0.0, 0.0))
    assert p.sum() * release.cell == pytest.approx(1.0, abs=2e-3)
    epsilon = np.array([0.0, 0.1, 0.3, 1.0, 2.0]) * 4.0 / scale
    both = {"two_sided": True}
    replaced = objective_delta(scale, ridge, epsilon, **both)
    added = np.minimum(2.0 * gaussian_delta(1.0 / scale, epsilon), 1.0)
    for found, bound in [
        (release.delta(p, q, epsilon), replaced),
        (release.delta(q, p, epsilon), replaced),
        (release.delta(p, without, epsilon), removal_delta(scale, ridge, epsilon, **both)),
        (release.delta(without, p, epsilon), added),
    ]:
        assert np.all(found <= bound * (1.0 + 3e-3) + 1e-9)


@pytest.mark.parametrize("scale, low, published", [(8.0, 0.15, 6.4e-7), (2.0, 0.7, 0.1013)])
def test_a_pair_comes_near_to_the_bound(scale, low, published):
    """Records at an obtuse angle, and a rest that fixes the minimizer along their difference."""
    release = Release([(0, 1.0, 3e4), (0, -1.0, 3e4), (1, -1.0, 3e6)], scale, 2.0, 500)
    pair = [(sign * np.cos(0.3), np.sin(0.3)) for sign in (1.0, -1.0)]
    true = release.delta(*(release.density(x) for x in pair), [1.0]).item()
    assert low < true / objective_delta(scale, 2.0, 1.0) < 1.0
    assert true == pytest.approx(published, rel=0.05)


@pytest.mark.parametrize(
    "scale, ridge, epsilon, low",
    [(8.0, 2.0, 1.0, 0.85), (2.0, 2.0, 1.0, 0.97), (1.0, 50.0, 0.04, 0.99)],
)
def test_a_pair_reaches_the_bound(scale, ridge, epsilon, low):
    """The more others push a nearly opposite pair, the surer it is of the other class."""
    release = Release([(0, 1.0, 1e8), (0, -1.0, 1e8), (1, -1.0, 1e30)], scale, ridge, 500)
    pair = [(sign * np.cos(0.1), np.sin(0.1)) for sign in (1.0, -1.0)]
    true = release.delta(*(release.density(x) for x in pair), [epsilon]).item()
    assert low < true / objective_delta(scale, ridge, epsilon) < 1.0


@pytest.mark.parametrize("seed", range(36))
def test_no_two_persons_of_several_rows_exceed_the_bound(seed):
    rng = np.random.default_rng(seed)
    rows, two_sided = 2 + seed % 2, bool(seed % 3 == 2)
    scale, ridge = [(16.0, 4.0), (6.0, 2.0), (2.0, 0.5), (4.0, 8.0)][seed % 4]
    rest, pair = _table(rng, 1.0)
    loss, width = (pseudo_huber, 0.5) if two_sided else (logistic, 1.0)
    spread = width * scale / ridge * two_sided
    rest = [(axis, x, copies, spread * rng.normal()) for axis, x, copies in rest]
    release = Release(rest, scale * width, ridge, 300, loss=loss)
    persons = [rng.normal(size=(rows, 2)) * (seed % 4 == 0) for _ in pair]
    persons = [p / np.maximum(np.linalg.norm(p, axis=1), 1.0)[:, None] for p in persons]
    if seed % 4:  # rows that are alike move the minimizer furthest
        persons = [np.tile(x, (rows, 1)) for x in pair]
    if seed % 5 == 0:
        persons[1] = persons[1][:1]  # a person of fewer rows
    p, q = (release.density_of(x, 1.0, spread * rng.normal(size=len(x))) for x in persons)
    assert p.sum() * release.cell == pytest.approx(1.0, abs=2e-3)
    epsilon = np.array([0.0, 0.1, 0.3, 1.0, 2.0]) * 4.0 * rows / scale
    bound = objective_delta(scale, ridge, epsilon, two_sided=two_sided, rows=rows)
    for found in release.delta(p, q, epsilon), release.delta(q, p, epsilon):
        assert np.all(found <= bound * (1.0 + 3e-3) + 1e-9)


@pytest.mark.parametrize("rows", [2, 3])
def test_two_persons_of_several_rows_come_near_to_the_bound(rows):
    rest = [(0, 1.0, 3e4 * rows), (0, -1.0, 3e4 * rows), (1, -1.0, 3e6 * rows)]
    release = Release(rest, 2.0 * rows, 2.0 * rows, 500)
    pair = [[(sign * np.cos(0.3), np.sin(0.3))] * rows for sign in (1.0, -1.0)]
    true = release.delta(*(release.density_of(x) for x in pair), [1.0]).item()
    stated = objective_delta(2.0 * rows, 2.0 * rows, 1.0, rows=rows)
    assert stated == pytest.approx(gaussian_delta(1.0, 1.0), rel=1e-9)
    assert 0.7 < true / stated < 1.0


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("target", [{"mu": 1.0}, {"epsilon": 1.0, "delta": 1e-6}])
def test_noise_of_persons_is_in_proportion_to_their_rows(two_sided, target):
    rule = {k: v for k, v in target.items() if k != "delta"}
    found = []
    for rows in (1, 3):
        given = {"two_sided": two_sided, "rows": rows}
        ridge = objective_ridge(**rule, **given)
        noise = objective_noise_scale(ridge, **target, output_share=0.01, **given)
        found.append(noise / rows)
        if "delta" in target:
            reached = objective_epsilon(noise, ridge, 1e-6, output_mu=0.02 * rows / noise, **given)
            assert 0.999 < reached <= 1.0 + 1e-8
    if "delta" in target or not two_sided:
        assert found[1] == pytest.approx(found[0], rel=2e-3)
    with_little = objective_noise_scale(ridge / 20.0, **target, **given)
    assert with_little > noise


def test_minimizers_that_are_drawn_have_the_density():
    rng, sigma, ridge = np.random.default_rng(5), 1.0, 0.5
    x = np.array([1.0, 0.6, -0.8, 1.0])
    release = Release([(0, length, 1.0) for length in x[:-1]], sigma, ridge)
    density = release.density((x[-1], 0.0)).sum(axis=1) * release.cell

    def gradient(w, b):
        return ridge * w + b - np.sum(x[:, None] * expit(-x[:, None] * w), axis=0)

    noise = rng.normal(0.0, sigma, 20000)
    ends = np.full(20000, -40.0), np.full(20000, 40.0)
    drawn = elementwise.find_root(gradient, ends, args=(noise,))
    for quantile in (-2.0, 0.0, 0.5, 2.0):
        expected = density[release.w[0, :, 0] <= quantile].sum()
        assert np.mean(drawn.x <= quantile) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    "noise, ridge, epsilon, delta",
    [(8, 4, 1, 2.93e-6), (8, 1, 1, 6.8e-6), (2, 1, 2, 2.10e-2), (8, 1, 0.1, 0.066)],
)
def test_delta_of_published_settings(noise, ridge, epsilon, delta):
    assert objective_delta(noise, ridge, epsilon) == pytest.approx(delta, rel=8e-3)


@pytest.mark.parametrize(
    "noise, ridge, mu",
    [
        (8, 1, 0.337),
        (8, 4, 0.263),
        (8, 10, 0.252),
        (2, 0.5, 1.112),
        (2, 1, 1.037),
        (2, 4, 1.001),
        (1, 0.3, 2.115),
        (1, 2, 2.001),
    ],
)
def test_mu_of_published_settings(noise, ridge, mu):
    assert objective_mu(noise, ridge) == pytest.approx(mu, abs=2e-3)


@pytest.mark.parametrize("noise, ridge", SETTINGS)
def test_delta_lies_between_gaussian_noise_and_mu(noise, ridge):
    epsilon = np.linspace(0.0, 2.5 / ridge, 101)
    delta, gaussian = objective_delta(noise, ridge, epsilon), gaussian_delta(2.0 / noise, epsilon)
    assert np.all(delta >= gaussian)
    assert np.all(delta <= gaussian_delta(objective_mu(noise, ridge), epsilon))
    assert np.all(np.diff(delta) <= 0.0)
    exact = (epsilon >= 2.0 / ridge) | (epsilon <= 1.0 / noise**2)
    assert np.array_equal(delta[exact], gaussian[exact])
    # From its middle to either end the bound goes over into the exact numbers.
    ends = np.array([1.0 / noise**2 * (1.0 + 1e-6), 2.0 / ridge * (1.0 - 1e-6)])
    if ridge < 2.0 * noise**2:
        gaussian = gaussian_delta(2.0 / noise, ends)
        near = objective_delta(noise, ridge, ends) < 1.01 * gaussian
        assert np.all(near[gaussian > 1e-30])


@pytest.mark.parametrize("noise, ridge", SETTINGS)
def test_removal_lies_between_gaussian_noise_and_the_largest_determinant(noise, ridge):
    epsilon = np.linspace(0.0, 1.5 / ridge, 201)
    delta, shift = removal_delta(noise, ridge, epsilon), np.log1p(0.25 / ridge)
    assert np.all(delta >= gaussian_delta(1.0 / noise, epsilon))
    beyond = epsilon > shift + 0.05 / noise  # a loss of the list lies between
    shifted = gaussian_delta(1.0 / noise, epsilon[beyond] - shift - 0.05 / noise)
    assert np.all(delta[beyond] <= shifted * (1.0 + 1e-2) + 1e-299)


@pytest.mark.parametrize("noise, ridge, epsilon", [(100.0, 0.5, 0.36), (30.0, 0.2, 0.66)])
def test_more_noise_is_not_less_private(noise, ridge, epsilon):
    delta = [objective_delta(noise * more, ridge, epsilon) for more in (1.0, 1.01, 1.05, 1.3)]
    assert np.all(np.diff(delta) < 0.0)


def test_ridge_from_which_on_the_noise_is_gaussian():
    assert objective_mu(2.0, 8.0) == 1.0
    for noise, ridge in [(2.0, 7.9), (8.0, 126.0)]:
        assert 2.0 / noise <= objective_mu(noise, ridge) < 2.0 / noise * (1.0 + 1e-3)
    for mu in (0.1, 0.25, 1.0, 3.0):
        assert objective_noise_scale(objective_ridge(mu=mu), mu=mu) == pytest.approx(2.0 / mu)
    for epsilon in (0.1, 1.0, 3.0):
        noise = objective_noise_scale(objective_ridge(epsilon=epsilon), epsilon=epsilon, delta=1e-6)
        assert noise == pytest.approx(2.0 / mu_from_epsilon_delta(epsilon, 1e-6))


@pytest.mark.parametrize("output_mu", [0.01, 0.5, 2.0])
def test_composition_with_gaussian_noise_is_that_of_gaussians(output_mu):
    epsilon, both = np.array([0.0, 0.5, 2.0, 6.0]), np.hypot(1.0, output_mu)
    ratio = objective_delta(2.0, 8.0, epsilon, output_mu=output_mu) / gaussian_delta(both, epsilon)
    assert np.all(ratio >= 1.0)
    assert np.all(ratio < (1.15 if output_mu > 0.1 else 1.01))
    stated = objective_epsilon(2.0, 8.0, 1e-6, output_mu=output_mu)
    assert 1.0 <= stated / gaussian_epsilon(both, 1e-6) < 1.03
    # Of a bound that is none of Gaussian noise it lies between both.
    chain = objective_delta(2.0, 0.5, epsilon, output_mu=output_mu)
    assert np.all(chain >= np.maximum(gaussian_delta(both, epsilon), 0.0))
    assert np.all(chain >= objective_delta(2.0, 0.5, epsilon))


@pytest.mark.parametrize("target", [{"mu": 0.5}, {"epsilon": 1.0, "delta": 1e-6}])
def test_noise_meets_its_target_with_noise_on_the_parameters(target):
    ridge = objective_ridge(**{name: target[name] for name in target if name != "delta"})
    noise = objective_noise_scale(ridge, **target, output_share=0.01)
    assert 1.0 < noise / objective_noise_scale(ridge, **target) < 1.001
    if "delta" in target:
        assert objective_delta(noise, ridge, 1.0, output_mu=0.02 / noise) <= 1e-6
    else:
        assert np.hypot(objective_mu(noise, ridge), 0.02 / noise) <= 0.5


@pytest.mark.parametrize("noise, ridge", SETTINGS)
def test_delta_of_both_signs_lies_between_one_sign_and_mu(noise, ridge):
    epsilon = np.linspace(0.0, 5.0 / ridge, 101)
    delta = objective_delta(noise, ridge, epsilon, two_sided=True)
    mu = objective_mu(noise, ridge, two_sided=True)
    assert np.all(delta >= gaussian_delta(2.0 / noise, epsilon))
    assert np.all(delta <= gaussian_delta(mu, epsilon))
    twice, exact = 2.0 * gaussian_delta(2.0 / noise, epsilon), epsilon >= 4.0 / ridge
    exact &= epsilon >= 2.0 / ridge + 1.0 / noise**2
    assert np.all(delta[exact] <= twice[exact])
    removal = removal_delta(noise, ridge, epsilon, two_sided=True)
    assert np.all(removal >= gaussian_delta(1.0 / noise, epsilon))
    assert np.all(removal <= delta * (1.0 + 1e-6) + 1e-300)  # a record without length comes after


@pytest.mark.parametrize("noise, ridge, published", [(8, 4, 1.023), (2, 4, 1.004), (8, 8, 1.001)])
def test_chain_of_both_signs_is_near_to_its_closed_form(noise, ridge, published):
    """Just below the epsilon from which on twice the Gaussian profile is proved."""
    epsilon = (1.0 - 1e-4) * max(4.0 / ridge, 2.0 / ridge + 1.0 / noise**2)
    delta = objective_delta(noise, ridge, epsilon, two_sided=True)
    assert 0.9 < delta / (2.0 * gaussian_delta(2.0 / noise, epsilon)) < published


@pytest.mark.parametrize("target", [{"mu": 1.0}, {"epsilon": 1.0, "delta": 1e-6}])
def test_noise_of_both_signs_meets_its_target(target):
    least = {name: target[name] for name in target if name != "delta"}
    ridge = objective_ridge(**least, two_sided=True)
    noise = objective_noise_scale(ridge, **target, output_share=0.01, two_sided=True)
    more = objective_noise_scale(16.0 * ridge, **target, two_sided=True)
    assert 1.0 <= noise / more < 1.01
    beside = {"output_mu": 0.02 / noise, "two_sided": True}
    if "mu" in target:
        assert np.hypot(objective_mu(noise, ridge, two_sided=True), 0.02 / noise) <= target["mu"]
    else:
        assert noise == pytest.approx(2.0 / mu_from_epsilon_delta(1.0, 5e-7), rel=1e-3)
        assert objective_delta(noise, ridge, 1.0, **beside) <= 1e-6
        assert objective_epsilon(noise, ridge, 1e-6, **beside) <= 1.0 + 1e-8


@pytest.mark.parametrize("noise, ridge, delta", [(8, 1, 1e-6), (8, 4, 1e-6), (2, 0.5, 1e-3)])
def test_epsilon_is_the_inverse_of_delta(noise, ridge, delta):
    epsilon = objective_epsilon(noise, ridge, delta)
    assert objective_delta(noise, ridge, epsilon) <= delta
    assert epsilon >= gaussian_epsilon(2.0 / noise, delta)
    if epsilon > gaussian_epsilon(2.0 / noise, delta):
        assert objective_delta(noise, ridge, epsilon * (1.0 - 1e-5)) > delta


@pytest.mark.parametrize("ridge", [0.5, 1.0, 4.0])
def test_noise_meets_its_target_and_no_less_does(ridge):
    noise = objective_noise_scale(ridge, epsilon=0.4, delta=1e-5)
    assert objective_delta(noise, ridge, 0.4) <= 1e-5
    assert objective_delta(noise * (1.0 - 1e-4), ridge, 0.4) > 1e-5


@pytest.mark.parametrize("ridge", [0.5, 4.0])
def test_noise_meets_its_mu_and_no_less_does(ridge):
    noise = objective_noise_scale(ridge, mu=1.0)
    assert objective_mu(noise, ridge) <= 1.0 < objective_mu(noise * (1.0 - 1e-3), ridge)


@pytest.mark.parametrize("noise, ridge", [(1e-3, 1e-6), (1e9, 1e-6), (1e-3, 1e9), (1e6, 1e-2)])
@pytest.mark.parametrize("two_sided", [False, True])
def test_extreme_settings_give_numbers(noise, ridge, two_sided):
    given = {"two_sided": two_sided}
    delta = objective_delta(noise, ridge, [0.0, 1e-3, 1.0, 100.0, 1e4], **given)
    assert np.all((delta >= 0.0) & (delta <= 1.0) & (np.diff(delta, prepend=1.0) <= 0.0))
    assert objective_mu(noise, ridge, **given) >= 2.0 / noise


def test_a_target_is_one():
    with pytest.raises(ValueError, match="`mu` or `epsilon`"):
        objective_ridge()
    with pytest.raises(ValueError, match="`mu` alone, or `epsilon` and `delta`"):
        objective_noise_scale(1.0, mu=1.0, epsilon=1.0)


# An orthonormal basis of three classes' parameters that sum to zero; the rest is noise alone.
PLANE = np.linalg.svd(np.ones((1, 3)))[2][1:]


class SoftmaxRelease:
    """Minimizers of three classes by Newton's method, and their exact privacy loss.

    Records are (row, class, number of copies); parameters and noise are (..., 2, d).
    """

    def __init__(self, rest, sigma, ridge):
        self.rest, self.sigma, self.ridge = rest, sigma, ridge

    def parts(self, record, w):
        """Gradient, Hessian and loss of one record."""
        x, label, copies = record
        x, a = np.asarray(x, dtype=float), w.swapaxes(-1, -2) @ PLANE
        a = np.asarray(x) @ a
        top = a.max(axis=-1, keepdims=True)
        odds = np.exp(a - top)
        p = odds / odds.sum(axis=-1, keepdims=True)
        loss = np.log(odds.sum(axis=-1)) + top[..., 0] - a[..., label]
        slopes = copies * (p - np.eye(3)[label]) @ PLANE.T
        curvature = np.einsum("ik,...k,jk->...ij", PLANE, p, PLANE)
        means = p @ PLANE.T
        curvature -= means[..., :, None] * means[..., None, :]
        gradient = slopes[..., :, None] * x
        hessian = np.einsum("...ij,a,b->...iajb", copies * curvature, x, x)
        return gradient, hessian, copies * loss

    def table(self, record, w):
        """Gradient, log-determinant, Hessian and value of a table with one record more."""
        size = w.shape[-1] * 2
        gradient, value = self.ridge * w, 0.5 * self.ridge * np.sum(w**2, axis=(-1, -2))
        hessian = np.broadcast_to(self.ridge * np.eye(size), (*w.shape[:-2], size, size))
        for one in [*self.rest, *([record] if record else [])]:
            g, h, loss = self.parts(one, w)
            gradient = gradient + g
            hessian = hessian + h.reshape(*w.shape[:-2], size, size)
            value = value + loss
        return gradient, np.linalg.slogdet(hessian)[1], hessian, value

    def solved(self, record, b):
        """Minimizers with the noise b."""
        w = -b / (self.ridge + 0.2 * sum(r[2] for r in self.rest))
        for _ in range(200):
            gradient, _, hessian, value = self.table(record, w)
            gradient, value = gradient + b, value + np.sum(w * b, axis=(-1, -2))
            if np.abs(gradient).max() < 1e-7 * (1.0 + np.abs(b).max()):
                return w
            step = -np.linalg.solve(hessian, gradient.reshape(*b.shape[:-2], -1, 1))
            step, share = step.reshape(w.shape), np.ones(b.shape[:-2])
            for _ in range(30):
                moved = w + share[..., None, None] * step
                after = self.table(record, moved)[3] + np.sum(moved * b, axis=(-1, -2))
                worse = after > value + 1e-10 * np.abs(value)
                if not worse.any():
                    break
                share = np.where(worse, 0.5 * share, share)
            w = moved
        raise AssertionError("Newton's method did not arrive")

    def losses(self, first, second, b):
        """Logarithm of the ratio of densities at minimizers with the first record."""
        w = self.solved(first, b)
        one, other = self.table(first, w), self.table(second, w)
        squares = np.sum(other[0] ** 2 - one[0] ** 2, axis=(-1, -2))
        return squares / (2.0 * self.sigma**2) + one[1] - other[1]

    def delta(self, first, second, epsilon, shift, n=4000, seed=0):
        """Delta at some epsilon by importance sampling, and its standard error."""
        b = self.sigma * np.random.default_rng(seed).normal(size=(n, *shift.shape)) + shift
        log_weight = (shift**2).sum() / 2.0 - np.sum(shift * b, axis=(-1, -2))
        weight = np.exp(log_weight / self.sigma**2)
        gain = weight * -np.expm1(np.minimum(epsilon - self.losses(first, second, b), 0.0))
        return gain.mean(), gain.std() / np.sqrt(n)


@pytest.mark.parametrize("seed", range(24))
def test_no_pair_of_tables_of_three_classes_exceeds_the_bound(seed):
    """By quadrature over the minimizers of one column: half of the pairs opposite and long."""
    rng = np.random.default_rng(seed)
    scale, ridge = [(4.0, 1.0), (2.0, 6.0), (1.0, 2.0), (0.7, 0.5), (0.5, 20.0)][seed % 5]
    copies, sign = rng.choice([0.3, 1.0, 5.0]), rng.choice([-1.0, 1.0])
    weight, norm = (1.0, 1.0) if seed % 2 else (1.5, 2.0)
    rest = [
        (norm * np.array([rng.uniform(-1.0, 1.0)]), int(rng.integers(3)), copies)
        for _ in range(seed % 4 * 3)
    ]
    pair = [
        (norm * np.ones(1), 0, weight),
        (norm * np.array([-sign if seed % 3 else 0.5]), seed % 3, weight),
    ]
    sigma = scale * np.sqrt(2.0) * norm * weight
    release = SoftmaxRelease(rest, sigma, ridge * norm**2 * weight)
    end = 7.0 * sigma + 2.0 * norm * weight
    grid = np.linspace(-end, end, 81)
    b = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)[..., None]
    w = release.solved(None, b)
    without = release.table(None, w)
    density = []
    for record in pair:
        gradient, determinant, _, _ = release.table(record, w)
        exponent = -0.5 * np.sum(gradient**2, axis=(-1, -2)) / sigma**2
        density.append(np.exp(exponent + determinant - without[1]) / (2.0 * np.pi * sigma**2))
    cell = (grid[1] - grid[0]) ** 2
    assert density[0].sum() * cell == pytest.approx(1.0, abs=1e-3)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
        bound = objective_delta(scale, ridge, epsilon, n_classes=3)
        for p, q in (density, density[::-1]):
            found = np.maximum(p - np.exp(epsilon) * q, 0.0).sum() * cell
            assert found <= bound * (1.0 + 3e-3) + 1e-9


@pytest.mark.parametrize(
    "scale, ridge, epsilon, low",
    [(8.0, 6.7, 0.5, 0.02), (8.0, 100.0, 0.5, 0.1), (2.0, 3.0, 1.0, 0.2), (4.0, 50.0, 0.5, 0.25)],
)
def test_a_pair_of_three_classes_comes_near_to_the_bound(scale, ridge, epsilon, low):
    """Rows nearly opposite, a rest that makes another class certain of both."""
    x, sigma = np.array([np.cos(0.2), np.sin(0.2)]), np.sqrt(2.0) * scale
    first, second = (x, 0, 1.0), (x * [-1.0, 1.0], 0, 1.0)
    rest = [(np.eye(2)[1], 1, 1e8), *((np.eye(2)[0], k, 1e5) for k in range(3))]
    between = np.outer(PLANE @ [-1.0, 1.0, 0.0], first[0] - second[0])
    along = max(epsilon * sigma**2 / np.sum(between**2) - 0.5, 0.0)
    release = SoftmaxRelease(rest, sigma, ridge)
    found, error = release.delta(first, second, epsilon, along * between, 3000)
    bound = objective_delta(scale, ridge, epsilon, n_classes=3)
    assert low * bound < found < bound
    assert error < 0.1 * found


@pytest.mark.parametrize("seed", range(12))
def test_no_simulated_table_of_three_classes_exceeds_the_bound(seed):
    rng = np.random.default_rng(seed)
    scale, ridge = [(4.0, 7.0), (2.0, 3.0), (1.0, 0.5)][seed % 3]
    rest = [
        (rng.uniform(-0.7, 0.7, 2), int(rng.integers(3)), rng.choice([1.0, 30.0]))
        for _ in range(seed % 4 * 2)
    ]
    angle, turn = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(2.0, np.pi)
    labels = rng.integers(3, size=2)
    first, second = (
        (np.array([np.cos(a), np.sin(a)]), int(label), 1.0)
        for a, label in zip((angle, angle + turn), labels, strict=True)
    )
    release = SoftmaxRelease(rest, np.sqrt(2.0) * scale, ridge)
    for epsilon in (0.0, 1.0):
        found, error = release.delta(first, second, epsilon, np.zeros((2, 2)), 3000)
        bound = objective_delta(scale, ridge, epsilon, n_classes=3)
        assert found - 4.0 * error < bound


@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize("mu", [0.1, 0.5, 1.5])
def test_the_maximum_over_classes_is_rounded_from_above(n_classes, mu):
    """The same expectation by a fine integral over the largest of the other classes."""
    ridge, g = 40.0, np.linspace(-9.0, 9.0, 1801)
    kappa = (n_classes - 1) * np.log1p(1.0 / (n_classes * ridge))
    half = kappa - (n_classes - 1) * np.log1p(1.0 / (2.0 * n_classes * ridge))
    t = np.linspace(0.0, 9.0, 3001)
    below = ndtr(np.sqrt(2.0) * t[:, None] + g) ** (n_classes - 1)
    tail = 1.0 - trapezoid(below * np.exp(-0.5 * g**2), g, axis=1) / np.sqrt(2.0 * np.pi)
    for epsilon in (0.0, 0.5 * mu, 2.0 * mu):
        rest = epsilon - kappa
        rises = np.exp(0.5 * mu * t) + np.exp(rest - 0.5 * mu * t)
        exact = trapezoid(np.where(mu * t >= rest, 0.5 * mu * rises * tail, 0.0), t)
        exact = np.exp(half) * (exact + max(-np.expm1(rest), 0.0))
        found = _many_classes(2.0 / mu, ridge, np.array([epsilon]), n_classes)[0]
        assert found >= exact * (1.0 - 1e-3) or mu > 1.0  # where the sum over pairs is less
        assert found <= exact * 1.05


@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize("mu", [0.2, 1.0, 4.0])
def test_noise_of_many_classes_meets_its_goal(n_classes, mu):
    ridge = objective_ridge(mu=mu, n_classes=n_classes)
    noise = objective_noise_scale(ridge, mu=mu, n_classes=n_classes)
    epsilon = np.linspace(0.0, 12.0 * mu + mu**2, 300)
    delta = objective_delta(noise, ridge, epsilon, n_classes=n_classes)
    assert np.all(delta <= gaussian_delta(mu, epsilon) * (1.0 + 1e-6))
    assert np.all(np.diff(delta) <= 1e-9 * delta[:-1])
    assert objective_mu(0.98 * noise, ridge, n_classes=n_classes) > mu
    given = {"epsilon": mu, "delta": 1e-6}
    ridge = objective_ridge(epsilon=mu, n_classes=n_classes)
    noise = objective_noise_scale(ridge, **given, n_classes=n_classes)
    assert 1.0 < noise / objective_noise_scale(2.0 / mu, **given) < 1.25
    assert objective_epsilon(noise, ridge, 1e-6, n_classes=n_classes) <= mu * (1.0 + 1e-6)


def test_the_sum_over_pairs_of_classes():
    """At no determinant no more than the sum over the slopes of pairs of sure records."""
    for n_classes, published in [(3, 12.36), (10, 13.25)]:
        found = objective_noise_scale(1e9, epsilon=1.0, delta=1e-6, n_classes=n_classes)
        assert 11.95 < np.sqrt(2.0) * found < published
    slopes = np.eye(3) - np.eye(3)[0]
    moves = [np.linalg.norm(a + b) for a in slopes for b in slopes]
    union = sum(gaussian_delta(m / (np.sqrt(2.0) * 0.3), 3.0) for m in moves if m > 0.0)
    assert _many_classes(0.3, 1e12, np.array([3.0]), 3)[0] <= min(union, 1.0)
