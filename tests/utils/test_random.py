"""Seeds: what is taken, what is refused, and that nothing global is touched."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skleak.utils._arguments import make_generator, spawn_generators


def _draws(generator, n=5):
    return generator.standard_normal(n)


def test_an_integer_is_reproducible():
    assert_array_equal(_draws(make_generator(3)), _draws(make_generator(np.int64(3))))
    assert not np.array_equal(_draws(make_generator(3)), _draws(make_generator(4)))
    assert_array_equal(_draws(make_generator(3)), np.random.default_rng(3).standard_normal(5))


def test_none_is_fresh_every_time_whatever_the_global_seed():
    state = np.random.get_state()  # noqa: NPY002
    try:
        draws = []
        for _ in range(3):
            np.random.seed(0)  # noqa: NPY002
            draws.append(_draws(make_generator(None)))
    finally:
        np.random.set_state(state)  # noqa: NPY002
    assert not np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[1], draws[2])


def test_the_global_state_is_untouched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for seed in (None, 0, np.random.RandomState(0), np.random.default_rng(0)):
        _draws(make_generator(seed))
        spawn_generators(seed, 3)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_a_generator_is_used_itself_and_advances():
    generator = np.random.default_rng(0)
    assert make_generator(generator) is generator
    first = _draws(make_generator(generator))
    assert not np.array_equal(first, _draws(make_generator(generator)))


def test_a_random_state_is_advanced():
    state = np.random.RandomState(0)
    first, second = (_draws(make_generator(state)) for _ in range(2))
    assert not np.array_equal(first, second)
    assert_array_equal(first, _draws(make_generator(np.random.RandomState(0))))


@pytest.mark.parametrize(
    "seed", [1.0, "0", [1, 2], True, np.random, object()], ids=lambda seed: type(seed).__name__
)
def test_anything_else_is_a_type_error(seed):
    with pytest.raises(TypeError, match="`random_state` must be None, an int, a numpy RandomState"):
        make_generator(seed)


def test_negative_seeds():
    with pytest.raises(ValueError, match="non-negative integer; got -1"):
        make_generator(-1)


def test_children_differ_and_are_reproducible():
    children = [_draws(child) for child in spawn_generators(7, 4)]
    assert len({child.tobytes() for child in children}) == 4
    again = [_draws(child) for child in spawn_generators(7, 4)]
    assert_array_equal(children, again)
    # The first children are the same however many are asked for.
    assert_array_equal([_draws(child) for child in spawn_generators(7, 2)], children[:2])


def test_children_are_uncorrelated():
    draws = np.array([_draws(child, 4000) for child in spawn_generators(0, 5)])
    correlation = np.corrcoef(draws) - np.eye(5)
    assert np.abs(correlation).max() < 5.0 / np.sqrt(4000)


def test_spawning_twice_from_one_generator_gives_new_children():
    generator = np.random.default_rng(0)
    first = [_draws(child) for child in spawn_generators(generator, 2)]
    second = [_draws(child) for child in spawn_generators(generator, 2)]
    assert len({draws.tobytes() for draws in [*first, *second]}) == 4
