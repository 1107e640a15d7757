"""Gaps that no noise bridges are narrowed, and nothing else changes."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from skleak.utils._geometry import without_wide_gaps


def test_near_points_keep_their_differences_and_far_ones_stay_far(rng):
    near, scale = rng.normal(size=(2, 6, 4)), np.array([1.0, 2.0])[:, None, None]
    points = near.copy()
    points[1, 2:4, 0] += 1e15
    points[1, 4:, 2] -= 1e15
    points[1, 5, 3] = 1e308
    found = without_wide_gaps(points, scale)
    assert_array_equal(found[0], near[0])
    assert np.abs(found[1]).max() < 2e3
    assert_allclose(np.diff(found[1, :2], axis=0), np.diff(near[1, :2], axis=0), atol=1e-12)
    assert_allclose(np.diff(found[1, 2:4, 1:], axis=0), np.diff(near[1, 2:4, 1:], axis=0))
    group = np.array([0, 0, 1, 1, 2, 3])
    apart = np.linalg.norm(found[1][:, None] - found[1], axis=2)
    assert_array_equal(apart > 399.0, group[:, None] != group)


def test_a_gap_that_is_not_wide_stays():
    points = np.array([[[0.0], [200.0], [400.0]], [[0.0], [1e5], [1e5 + 200.0]]])
    found = without_wide_gaps(points, np.ones((2, 1, 1)))
    assert_array_equal(found, points[:1].repeat(2, axis=0))
    assert_array_equal(without_wide_gaps(points[:1], np.ones((1, 1, 1))), points[:1])


def test_points_of_a_plane_stay_in_it(rng):
    """Whatever its direction, and however far some of them are."""
    for size in 10.0 ** np.arange(3, 300, 27):
        plane = np.linalg.qr(rng.normal(size=(6, 2)))[0]
        flat = rng.normal(size=(7, 2))
        flat[2:4] += size * rng.normal(size=2)
        flat[6] -= size * rng.normal(size=2)
        points = (flat @ plane.T)[None]
        found = without_wide_gaps(points, np.ones((1, 1, 1)))[0]
        extents = np.linalg.svd(found - found[0], compute_uv=False)
        assert extents[1] > 0.1
        # Points far away are in the plane themselves as far as their digits go.
        rest = [0, 1, 4, 5]
        near = np.linalg.svd((found - found[0])[[*rest, 6]], compute_uv=False)
        assert near[2] < 1e-10 * near[0]
        assert_allclose(np.diff(found[rest], axis=0), np.diff(points[0, rest], axis=0), atol=1e-12)
