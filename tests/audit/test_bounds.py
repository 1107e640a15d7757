"""Bounds of every record, as the auditor names and averages them."""

import numpy as np
import pytest

from skleak.audit.games._secret import BOUNDS, check_bounds, success_bounds
from skleak.channels import GaussianChannel


@pytest.fixture
def channel(rng):
    encodings = rng.normal(size=(6, 3, 2))
    prior = rng.dirichlet(np.ones(3), size=6)
    return encodings, prior


@pytest.mark.slow
def test_equal_the_table_of_the_channel(channel):
    encodings, prior = channel
    found = success_bounds(encodings, prior, 0.7, list(BOUNDS))
    table = GaussianChannel(encodings, 0.7, tolerance=1e-5).advantage_bounds(prior)
    for column, name in BOUNDS.items():
        own = table[table["bound"] == name].sort_values("record")["success"]
        np.testing.assert_allclose(found[column], own, atol=1e-3)
    exact = GaussianChannel(encodings, 0.7, tolerance=1e-5).bayes_success(prior)
    np.testing.assert_allclose(found["bayes"], exact, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("names", [["bayes"], ["tradeoff"], ["bayes", "tradeoff"], ["gdp"], []])
def test_a_part_equals_the_whole(names, channel):
    encodings, prior = channel
    whole = success_bounds(encodings, prior, 0.7, list(BOUNDS))
    part = success_bounds(encodings, prior, 0.7, names)
    assert set(part) == {"bayes", "standard_error", *names}
    for name in part:
        np.testing.assert_allclose(part[name], whole[name], atol=1e-9)


@pytest.mark.slow
def test_all_bound_the_best_attack_by_simulation(channel, rng):
    encodings, prior = channel
    bounds = success_bounds(encodings, prior, 0.7, list(BOUNDS))
    n = 20_000
    for i in range(6):
        secrets = rng.choice(3, size=n, p=prior[i])
        releases = encodings[i, secrets] + 0.7 * rng.normal(size=(n, 2))
        distance = ((releases[:, None] - encodings[i]) ** 2).sum(axis=2)
        hits = (np.log(prior[i]) - distance / (2 * 0.7**2)).argmax(axis=1) == secrets
        error = 4.5 * np.sqrt(0.25 / n)
        assert abs(hits.mean() - bounds["bayes"][i]) < error
        for name in BOUNDS:
            assert bounds[name][i] > hits.mean() - error


@pytest.mark.slow
def test_certain_priors_and_no_noise_leave_nothing_to_bound(channel):
    encodings, prior = channel
    assert all(
        (v == 1).all()
        for k, v in success_bounds(encodings, prior, 0.0, BOUNDS).items()
        if k in BOUNDS
    )
    prior[2] = [0.0, 1.0, 0.0]
    found = success_bounds(encodings, prior, 5.0, list(BOUNDS))
    rest = success_bounds(encodings[[0, 1]], prior[[0, 1]], 5.0, list(BOUNDS))
    for name in BOUNDS:
        assert found[name][2] == 1.0
        np.testing.assert_allclose(found[name][:2], rest[name], atol=1e-3)
    prior[:] = [1.0, 0.0, 0.0]
    assert (success_bounds(encodings, prior, 5.0, ["bayes"])["bayes"] == 1.0).all()


@pytest.mark.slow
def test_blocks_do_not_matter(channel, monkeypatch):
    encodings, prior = channel
    whole = success_bounds(encodings, prior, 0.7, list(BOUNDS))
    monkeypatch.setattr("skleak.audit.games._secret._ROWS", 40)
    for name, values in success_bounds(encodings, prior, 0.7, list(BOUNDS)).items():
        np.testing.assert_allclose(values, whole[name], atol=1e-9)


def test_values_without_a_chance(channel):
    encodings, prior = channel
    prior[:] = [0.4, 0.6, 0.0]
    three = success_bounds(encodings, prior, 0.7, ["bayes", "tradeoff"])
    two = success_bounds(encodings[:, :2], prior[:, :2], 0.7, ["bayes", "tradeoff"])
    for name in ("bayes", "tradeoff"):
        np.testing.assert_allclose(three[name], two[name], atol=1e-3)


def test_names():
    assert check_bounds("all") == tuple(BOUNDS)
    assert check_bounds("fano") == ("fano",)
    assert check_bounds(["fano", "fano", "bayes"]) == ("bayes", "fano")
    assert check_bounds(np.array(["gdp"])) == ("gdp",)
    assert check_bounds([]) == ()
    with pytest.raises(ValueError, match=r"'bayes', 'tradeoff'.*got 'al'"):
        check_bounds("al")
