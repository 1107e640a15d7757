"""Success in three and more dimensions, where product channels give exact values."""

from itertools import product

import numpy as np
import pytest
from helpers import mostly_slow
from scipy.special import ndtr, ndtri

from skleak.channels import GaussianChannel
from skleak.channels.gaussian._cells import (
    Sampling,
    equidistant_success,
    expected_information,
    expected_top_posterior,
    interval_success,
    normal_lattice,
    sampled_integral,
    sobol_points,
)
from skleak.channels.gaussian._integrals import (
    _bracket,
    _information_bracket,
    _turn,
    cell_success,
    failure_bound,
    gaussian_success,
    spatial_success,
    unseen_failures,
)
from skleak.utils._geometry import planar_success

FINE = Sampling(tolerance=1e-5, max_points=2**16, random_state=1)


def box(sides, priors):
    """Encodings on the corners of a box, and the prior of independent coordinates."""
    corners = np.array(list(product(*[(0.0, side) for side in sides])))
    prior = np.array([np.prod(each) for each in product(*[(p, 1 - p) for p in priors])])
    return corners[None], prior[None]


def box_success(sides, priors):
    return np.prod(
        [
            interval_success(np.array([[0.0, side]]), np.array([[p, 1 - p]]))[0]
            for side, p in zip(sides, priors, strict=True)
        ]
    )


def random_rotation(dimension, rng):
    return np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]


def posterior_success(points, prior, nodes):
    weights = np.full(len(nodes), 1 / len(nodes))
    return expected_top_posterior(points, prior, ndtri(nodes), weights)


@pytest.mark.parametrize("sides", [(2.0, 2.0, 2.0), (0.1, 1.0, 5.0), (0.01, 0.02, 0.03)])
@pytest.mark.parametrize("priors", [(0.5, 0.5, 0.5), (0.3, 0.6, 0.8)])
def test_slices_of_a_box(sides, priors, rng):
    corners, prior = box(sides, priors)
    expected = box_success(sides, priors)
    for _ in range(3):
        value, error = spatial_success(corners @ random_rotation(3, rng), prior)
        assert abs(value[0] - expected) <= min(1e-6, error[0])


def test_slices_of_a_flat_record_equal_the_plane(rng):
    points = rng.normal(size=(30, 5, 3)) * 10 ** rng.uniform(-1, 1, size=(30, 1, 1))
    points[:, :, 2] = 0.0
    prior = rng.dirichlet(np.ones(5), size=30)
    expected = planar_success(points[:, :, :2], prior)
    value, error = spatial_success(points @ random_rotation(3, rng), prior)
    assert np.all(np.abs(value - expected) <= error + 1e-10)
    assert error.max() < 2e-5


def test_no_slice_is_nearly_a_boundary(rng):
    """Of 32 axes one is far from the differences of three encodings, wherever these lie."""
    points = rng.normal(size=(300, 3, 3)) + 5.0 * rng.normal(size=(300, 1, 3))
    turned = _turn(points)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        gaps, turned_gaps = (x[:, first] - x[:, second] for x in (points, turned))
        lengths = np.linalg.norm(gaps, axis=1)
        np.testing.assert_allclose(np.linalg.norm(turned_gaps, axis=1), lengths, rtol=1e-9)
        assert np.all(np.abs(turned_gaps[:, 0]) < 0.6 * lengths)


def test_slices_far_apart():
    points = 1e120 * np.array([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]])
    value, _ = spatial_success(points, np.full((1, 4), 0.25))
    assert value[0] == pytest.approx(1.0, abs=1e-10)


def test_slices_cells_and_posteriors_agree(rng):
    points = rng.normal(size=(6, 5, 3)) * np.array([0.2, 0.5, 1.0, 1.5, 2.0, 3.0])[:, None, None]
    prior = rng.dirichlet(np.full(5, 2.0), size=6)
    value, bound = spatial_success(points, prior)
    for integral, dimension in ((cell_success, 2), (posterior_success, 3)):
        estimate, error = sampled_integral(integral, dimension, points, prior, FINE)
        assert np.all(np.abs(estimate - value) < 6 * error + bound)
        assert np.all(error < 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("priors", [(0.5, 0.5, 0.5, 0.5), (0.3, 0.6, 0.8, 0.55)])
def test_cells_of_a_box_in_four_dimensions(priors, rng):
    sides = (0.5, 1.0, 2.0, 3.0)
    corners, prior = box(sides, priors)
    value, error = sampled_integral(
        cell_success, 3, corners @ random_rotation(4, rng), prior, FINE, unseen_failures
    )
    assert abs(value[0] - box_success(sides, priors)) < 5 * error[0]
    assert error[0] < 1e-4


def test_values_that_do_not_occur_have_no_cells(rng):
    """Their cells are empty: no mass is left on their side of the boundaries."""
    nodes = rng.random((32, 4))
    for size in (1.0, 5.0, 50.0):
        points = size * rng.normal(size=(20, 8, 5))
        prior = np.append(rng.dirichlet(np.ones(5)), np.zeros(3))
        found = cell_success(points, np.tile(prior, (20, 1)), nodes)
        assert np.all((found > 0.0) & (found < 1.0 + 1e-12))
    np.testing.assert_allclose(found, 1.0)


@pytest.mark.parametrize("integral", ["cells", "posterior"])
@pytest.mark.parametrize("distance", [0.3, 1.4, 4.0])
def test_sampling_equals_the_equidistant_integral(integral, distance, rng):
    prior = rng.dirichlet(np.full(6, 3.0))[None]
    points = distance / np.sqrt(2) * np.eye(6)[None]
    function, dimension = (cell_success, 5) if integral == "cells" else (posterior_success, 6)
    value, error = sampled_integral(function, dimension, points, prior, FINE)
    assert abs(value[0] - equidistant_success(np.array([distance]), prior)[0]) < 5 * error[0]
    assert error[0] < 2e-4


def test_rare_failures_are_not_stated_away():
    # All boundaries but the nearest are crossed with probability near one node's weight.
    points = np.array(
        [[[0.0, 0, 0, 0], [6.2, 0, 0, 0], [0, 6.4, 0, 0], [0, 0, 6.6, 0], [0, 0, 0, 7]]]
    )
    prior = np.full((1, 5), 0.2)
    assert unseen_failures(points, prior, 1000)[0] > 1e-4
    assert unseen_failures(points, prior, 10**6)[0] < 1e-6
    assert unseen_failures(points / 2, prior, 10**6)[0] < 1e-12
    assert unseen_failures(0 * points, prior, 1000)[0] < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("priors", mostly_slow([[0.5, 0.5, 0.5, 0.5], [0.3, 0.6, 0.8, 0.55]], 1))
@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_sixteen_values_by_posteriors_or_cells_where_failures_are_rare(scale, priors, rng):
    sides = scale * np.array([0.5, 1.0, 2.0, 3.0])
    corners, prior = box(sides, priors)
    points = corners @ random_rotation(4, rng)
    value, error = gaussian_success(points, np.array([4]), prior, FINE)
    assert abs(value[0] - box_success(sides, priors)) < 5 * error[0]
    assert error[0] < 2e-4


@pytest.mark.slow
def test_posteriors_take_the_place_of_cells_from_ten_values_on(rng, monkeypatch):
    used = []

    def spy(name, function):
        def call(*arguments):
            used.append(name)
            return function(*arguments)

        return call

    module = "skleak.channels.gaussian._integrals"
    monkeypatch.setattr(f"{module}._top_posterior_over_cube", spy("posterior", posterior_success))
    monkeypatch.setattr(f"{module}.cell_success", spy("cells", cell_success))
    sampling = Sampling(1e-6, 2**12, 0)
    for size, scale, expected in ((9, 1.0, "cells"), (10, 1.0, "posterior"), (10, 5.0, "cells")):
        used.clear()
        points = scale * np.eye(size)[None] * np.linspace(1.0, 1.1, size)
        prior = np.full((1, size), 1 / size)
        gaussian_success(points, np.array([size]), prior, sampling)
        assert set(used) == {expected}, size
    # A loose tolerance does without cells, and bounds on both sides that are close do without both.
    for size, scale, expected in ((10, 5.0, set()), (10, 4.0, {"posterior"}), (10, 0.001, set())):
        used.clear()
        points = scale * np.eye(size)[None] * np.linspace(1.0, 1.1, size)
        prior = np.full((1, size), 1 / size)
        gaussian_success(points, np.array([size]), prior, Sampling(1e-3, 2**12, 0))
        assert set(used) == expected, scale


def test_what_stands_for_an_integral_is_never_too_small(rng):
    """At any size of the encodings, beside integrals that are exact in few dimensions."""
    sizes = 10.0 ** np.linspace(-4.0, 1.3, 60)[:, None, None]
    prior = rng.dirichlet(np.ones(5), size=60)
    prior[::7, 0] = 0.0
    prior /= prior.sum(axis=1, keepdims=True)
    for dimension, bracket, integral in (
        (3, _success_bracket, lambda *given: spatial_success(*given)[0]),
        (2, _information_bracket, _exact_information),
    ):
        points = rng.normal(size=(60, 5, dimension)) * sizes
        upper, width = bracket(points, prior)
        exact = integral(points, prior)
        assert (upper >= exact - 2e-6).all()
        assert (upper - width <= exact + 2e-6).all()
        assert (width[[0, 1, 2, 59]] < 1e-3).all()


def _success_bracket(points, prior):
    return _bracket(points, prior, failure_bound(points, prior))


def _exact_information(points, prior):
    nodes, weights = normal_lattice(2, 1 / 4, 7.0)
    return expected_information(points, prior, nodes, weights)


def test_failure_bound_is_above_the_failures(rng):
    points = rng.normal(size=(20, 5, 2)) * 10 ** rng.uniform(-1, 1, size=(20, 1, 1))
    prior = rng.dirichlet(np.ones(5), size=20)
    assert np.all(failure_bound(points, prior) >= 1 - planar_success(points, prior) - 1e-12)


def test_posteriors_state_an_error_where_no_node_comes_near_a_boundary():
    points, prior = 6.5 * np.eye(12)[None], np.full((1, 12), 1 / 12)
    exact = equidistant_success(np.array([6.5 * np.sqrt(2)]), prior)[0]
    missed = unseen_failures(points, prior, 1000, n_exact=0)[0]
    assert missed >= 0.9 * (1 - exact) > 0
    assert missed > unseen_failures(points, prior, 1000)[0]


@pytest.mark.slow
def test_the_sampled_estimate_is_the_same_alone_and_among_others(rng):
    encodings = rng.normal(size=(4, 6, 5)) * np.array([0.1, 0.5, 1.0, 3.0])[:, None, None]
    prior = rng.dirichlet(np.ones(6), size=4)
    together = GaussianChannel(encodings, 1.0, tolerance=1e-4).bayes_success(prior)
    alone = [
        GaussianChannel(e, 1.0, tolerance=1e-4).bayes_success(p)
        for e, p in zip(encodings, prior, strict=True)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_tolerance_and_budget(rng):
    encodings, prior = rng.normal(size=(6, 5)), rng.dirichlet(np.ones(6))
    errors = [
        GaussianChannel(encodings, 1.0, **options).bayes_success(prior, return_standard_error=True)[
            1
        ]
        for options in (
            {"tolerance": 1e-3},
            {"tolerance": 1e-5},
            {"tolerance": 1e-9, "max_points": 1},
        )
    ]
    assert errors[1] < errors[0] < errors[2]
    assert errors[1] < 2e-5


def test_seeds_decide_the_estimate(rng):
    encodings = rng.normal(size=(6, 5))
    values = [
        GaussianChannel(encodings, 1.0, tolerance=1e-3, random_state=seed).bayes_success()
        for seed in (0, 0, 1)
    ]
    assert values[0] == values[1] != values[2]


@pytest.mark.slow
def test_more_than_64_values(rng):
    # Six coordinates of two values each: beyond the number of secrets that get cells.
    sides, priors = (1.0, 2.0, 0.5, 1.5, 1.0, 0.8, 2.5), (0.5,) * 7
    corners, prior = box(sides, priors)
    channel = GaussianChannel(corners[0] @ random_rotation(7, rng), 1.0)
    value, error = channel.bayes_success(prior[0], return_standard_error=True)
    assert abs(value - box_success(sides, priors)) < 5 * error
    assert 0 < error < 2e-3


def test_lattice_and_sobol_points_integrate_moments():
    for dimension, step, radius in ((1, 1 / 8, 9.0), (2, 1 / 4, 7.0)):
        nodes, weights = normal_lattice(dimension, step, radius)
        np.testing.assert_allclose(weights @ nodes**2, 1.0, atol=1e-9)
        np.testing.assert_allclose(weights @ nodes**4, 3.0, atol=1e-7)
    points = sobol_points(3, 4096, np.random.default_rng(0))
    assert points.min() > 0 < 1 > points.max()
    np.testing.assert_allclose((points**2).mean(axis=0), 1 / 3, atol=1e-4)


def information_of_two(distance, p):
    nodes, weights = normal_lattice(1, 1 / 64, 11.0)
    return expected_information(
        np.array([[[0.0], [distance]]]), np.array([[p, 1 - p]]), nodes, weights
    )[0]


@pytest.mark.parametrize("dimension", [2, 3, 4])
@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 3.0])
def test_information_adds_over_independent_coordinates(dimension, scale, rng):
    sides, priors = scale * np.array([0.5, 1.0, 2.0, 3.0]), (0.5, 0.3, 0.8, 0.4)
    corners, prior = box(sides[:dimension], priors[:dimension])
    expected = sum(map(information_of_two, sides[:dimension], priors[:dimension]))
    channel = GaussianChannel(corners[0] @ random_rotation(dimension, rng), 1.0)
    value, error = channel.mutual_information(prior[0], return_standard_error=True)
    assert abs(value - expected) < 5 * error + 1e-9
    assert error == 0 if dimension == 2 else error < 5e-3


def test_top_posterior_sees_a_certain_release():
    nodes, weights = normal_lattice(1, 1 / 8, 9.0)
    value = expected_top_posterior(
        np.array([[[0.0], [2.0]]]), np.array([[0.5, 0.5]]), nodes, weights
    )
    # The integrand has a corner, which the lattice meets to second order only.
    assert value[0] == pytest.approx(ndtr(1.0), abs=1e-3)
