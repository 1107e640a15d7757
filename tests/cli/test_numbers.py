"""A number under attack by one who knows how it is distributed, through the command."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table(tmp_path):
    """Heights, and pulses that have almost nothing to do with them."""
    rng = np.random.default_rng(0)
    height = rng.normal(170.0, 10.0, 170)
    pulse = 70.0 + 0.02 * (height - 170.0) + rng.normal(0.0, 22.0, 170)
    frame = pd.DataFrame({"height": height.round(2), "pulse": pulse.round(2)})
    frame.to_csv(tmp_path / "people.csv", index=False)
    return frame, tmp_path / "people.csv"


def removed_by_hand(frame, noise, alpha, n_releases, rng):
    """Share of the squared error that an attack removes which is written from Bayes' rule alone.

    Ridge regression by hand of pulse on standardized height, refitted for every height that a
    person might have; the adversary knows all others, and their mean and spread.
    """
    x, y = frame["height"].to_numpy(), frame["pulse"].to_numpy()
    x, n = (x - x.mean()) / x.std(), len(x)
    grid = np.linspace(-4.0, 4.0, 81)

    def fit(x):
        slope = (x - x.mean()) @ (y - y.mean()) / ((x - x.mean()) @ (x - x.mean()) + n * alpha)
        return np.array([slope, y.mean() - slope * x.mean()])

    releases = fit(x) + noise * rng.normal(size=(n_releases, 2))
    errors, guesses = [], []
    for i in range(n):
        others = np.delete(x, i)
        points = np.array([fit(np.concatenate([x[:i], [value], x[i + 1 :]])) for value in grid])
        prior = np.exp(-0.5 * ((grid - others.mean()) / others.std()) ** 2)
        gaps = ((releases[:, None] - points) ** 2).sum(axis=2)
        weights = prior * np.exp(-0.5 * (gaps - gaps.min(axis=1, keepdims=True)) / noise**2)
        means = weights @ grid / weights.sum(axis=1)
        errors.append(np.mean((means - x[i]) ** 2))
        guesses.append((others.mean() - x[i]) ** 2)
    return 1.0 - np.mean(errors) / np.mean(guesses)


@pytest.mark.slow
def test_the_gate_knows_attackers_with_a_prior(table, tmp_path, run):
    frame, path = table
    share = removed_by_hand(frame, 0.3, 0.01, 30, np.random.default_rng(1))
    assert 0.1 < share < 0.25  # a sixth
    command = ("audit", path, "--noise-scale", "0.3", "--n-releases", "5", "--quiet")
    command += ("--out", tmp_path / "out.html")
    heights = ("--target", "pulse", "--sensitive", "height")
    average = ("--of", "average", "--fail-above")
    assert run(*command, *heights, *average, "0.05")[0] == 3
    # No bound on the mean is below what an attacker removes.
    assert run(*command, *heights, *average, f"{share / 2:.3f}")[0] == 3


@pytest.mark.slow
def test_a_few_are_judged_as_quickly(table, tmp_path, run):
    command = ("audit", table[1], "--target", "pulse", "--sensitive", "height", "--quiet")
    command += ("--noise-scale", "0.3", "--n-releases", "2", "--max-records", "30")
    command += ("--out", tmp_path / "out.html", "--of", "everyone")
    assert run(*command, "--fail-above", "0.05")[0] == 3


@pytest.mark.slow
def test_noise_that_hides_a_number_passes(table, tmp_path, run):
    _, path = table
    command = ("audit", path, "--n-releases", "10", "--quiet", "--out", tmp_path / "out.html")
    for target, secret, prior, secrets in (
        ("pulse", "height", "marginal", "actual"),
        ("pulse", "height", "conditional", "drawn"),
        ("height", "pulse", "uniform", "actual"),
        ("height", "pulse", "marginal", "drawn"),
    ):
        what = ("--target", target, "--sensitive", secret, "--prior", prior)
        rest = ("--secrets", secrets, "--fail-above", "0.05", "--max-records", "20", "--of", "0.8")
        assert run(*command, *what, *rest, "--noise-scale", "1000")[0] == 0
        assert run(*command, *what, *rest, "--noise-scale", "0.0001")[0] == 3


@pytest.mark.slow
def test_whole_records_pass_by_the_bound_for_attackers_with_a_prior(table, tmp_path, run):
    command = ("audit", table[1], "--target", "pulse", "--quiet", "--n-releases", "2")
    command += ("--out", tmp_path / "out.html", "--max-records", "30", "--of", "0.8")
    for noise, prior, passes in (
        ("1000", "conditional", True),
        ("0.001", "marginal", False),
        ("1000", "uniform", False),  # bounds no attacker
    ):
        rest = ("--noise-scale", noise, "--prior", prior, "--fail-above", "0.05")
        assert run(*command, *rest)[0] == (0 if passes else 3), (noise, prior)
