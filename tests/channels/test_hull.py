"""Rotation into the affine hull."""

import numpy as np
import pytest

from skleak.channels.gaussian._cells import (
    equal_distance,
    hull_coordinates,
    squared_distances_from,
)


@pytest.mark.parametrize("shape", [(3, 2, 50), (2, 5, 3), (4, 6, 6), (1, 3, 1)])
def test_distances_are_kept(shape, rng):
    encodings = rng.normal(size=shape) + 7.0
    scale = rng.uniform(0.5, 2.0, size=shape[0])
    coordinates, rank = hull_coordinates(encodings, scale)
    assert coordinates.shape == (shape[0], shape[1], min(shape[1] - 1, shape[2]))
    assert np.all(rank == min(shape[1] - 1, shape[2]))
    for secret in range(shape[1]):
        expected = squared_distances_from(encodings / scale[:, None, None], secret)
        np.testing.assert_allclose(
            squared_distances_from(coordinates, secret), expected, rtol=1e-10
        )


def test_rank_of_repeated_collinear_and_flat_encodings(rng):
    direction, second = rng.normal(size=(2, 30))
    base = 1e3 + rng.normal(size=30)
    steps = np.array([0.0, 1.0, 2.5, 1.0, -4.0])
    records = np.stack(
        [
            np.broadcast_to(base, (5, 30)),
            base + steps[:, None] * direction,
            base + steps[:, None] * direction + (steps**2)[:, None] * second,
        ]
    )
    _, rank = hull_coordinates(records, np.ones(3))
    np.testing.assert_array_equal(rank, [0, 1, 2])


def test_round_off_goes_by_the_size_of_the_encodings_over_the_noise():
    """Of one unit in the last place of 100 nothing is a direction; of 20,000 of them it is."""
    for apart, scale, expected in ((np.spacing(100.0), 1e-4, 1), (3e-10, 100.0, 2)):
        points = np.array([[[0.0, 100.0], [1.0, 100.0 + apart], [2.0, 100.0]]])
        assert hull_coordinates(points, np.array([scale]))[1] == [expected]


def test_a_direction_that_matters_is_kept():
    # A tenth of the noise beside a million of it.
    points = np.array([[[0.0, 0.0], [1e6, 0.0], [0.0, 0.1]]])
    coordinates, rank = hull_coordinates(points, np.ones(1))
    assert rank[0] == 2
    assert squared_distances_from(coordinates, 0)[0, 2] == pytest.approx(0.01, rel=1e-6)


def test_blocks_change_nothing(rng, monkeypatch):
    encodings, scale = rng.normal(size=(50, 3, 20)), np.ones(50)
    whole, _ = hull_coordinates(encodings, scale)
    monkeypatch.setattr(
        "skleak.channels.gaussian._cells.row_blocks",
        lambda n, columns: (slice(i, i + 7) for i in range(0, n, 7)),
    )
    np.testing.assert_array_equal(hull_coordinates(encodings, scale)[0], whole)


def test_equal_distances(rng):
    simplex = 3.0 * np.eye(6) @ np.linalg.qr(rng.normal(size=(6, 6)))[0] + 100.0
    spoiled = simplex.copy()
    spoiled[2, 1] += 1e-6
    distance = equal_distance(np.stack([simplex, spoiled]))
    assert distance[0] == pytest.approx(3.0 * np.sqrt(2.0))
    assert np.isnan(distance[1])
