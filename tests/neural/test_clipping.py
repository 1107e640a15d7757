"""Clipping bounds the norm of every gradient, and knows its own derivative."""

import numpy as np
import pytest

from skleak.neural.gradients import Clipping, make_clipping


@pytest.mark.parametrize("c", [1e-3, 1.0, 40.0])
def test_no_gradient_is_longer_than_the_sensitivity(c):
    norms = c * np.r_[0.0, np.geomspace(1e-6, 1e9, 20_001), np.linspace(1.54, 1.56, 20_001)]
    for clipping in (Clipping("smooth", c), Clipping("hard", c)):
        clipped = norms / clipping.divisor(norms)
        assert clipped.max() <= clipping.sensitivity
        assert clipped.max() >= clipping.sensitivity * (1.0 - 3e-5)
        assert clipping.divisor(norms).min() > 0.8
    # The form of GELU with tanh, which other code uses, is covered as well.
    x = norms / c - 1.0
    gelu = 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
    assert (norms / (gelu + 1.0)).max() <= Clipping("smooth", c).sensitivity


def test_the_slope_is_the_derivative():
    for clipping in (Clipping("smooth", 2.0), Clipping("hard", 2.0)):
        norms = np.r_[0.3, 1.0, 1.9, 2.1, 3.0, 9.0, 50.0]
        step = 1e-5
        by_differences = (clipping.divisor(norms + step) - clipping.divisor(norms - step)) / (
            2.0 * step
        )
        np.testing.assert_allclose(clipping.slope(norms), by_differences, rtol=1e-8, atol=1e-9)
    assert Clipping("smooth", 1.0).slope(np.array([1e200])) == 1.0


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="clipping"):
        make_clipping("soft", 1.0)
    for norm in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="max_grad_norm"):
            make_clipping("smooth", norm)
    assert make_clipping("hard", 3.0) == Clipping("hard", 3.0)
