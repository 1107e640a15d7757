"""Fisher information of private SGD against log-densities of everything that it releases."""

import functools
import itertools

import numpy as np
import pytest
from helpers import mostly_slow
from scipy.special import expit, ndtr

from skleak.losses import LogisticLoss
from skleak.neural.gradients import LinearGradients, make_clipping
from skleak.neural.information import StepMechanism, mean_totals
from skleak.neural.training import Observer, Training, make_sources

X = np.array([[1.3], [-0.8], [2.0]])
Y = np.array([1, 0, 1])
C, RATE, LEARNING_RATE = 1.0, 0.4, 1.5
STEP = 1e-5


def _clipped(w, x, y):
    """Clipped gradient of one record with one column, by itself; any shape of w."""
    g = (expit(w * x) - y) * x
    u = np.abs(g) / C - 1.0
    return g / (u * ndtr(u) + 1.0)


def _batches(n, sampling):
    """All batches with their probabilities."""
    if sampling == "fixed":
        found = list(itertools.combinations(range(n), 1))
        return [(batch, 1.0 / len(found)) for batch in found]
    found = itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in range(n + 1))
    return [(batch, RATE ** len(batch) * (1.0 - RATE) ** (n - len(batch))) for batch in found]


def _density(total, w, x, s, n, sampling):
    """Density of a noisy sum at parameters w, with x in the place of the first record."""
    values = [x, *X[1:n, 0]]
    density = 0.0
    for batch, probability in _batches(n, sampling):
        mean = sum((_clipped(w, values[i], Y[i]) for i in batch), np.zeros_like(w))
        density = density + probability * np.exp(-0.5 * ((total - mean) / s) ** 2)
    return density / (np.sqrt(2.0 * np.pi) * s)


def _rate(n, sampling):
    return RATE if sampling == "poisson" else 1.0 / n


def _next(w, total, n, sampling):
    return w - LEARNING_RATE * total / (_rate(n, sampling) * n)


def _true_information(s, n, sampling):
    """Fisher information about x of both noisy sums, the second at where the first has led."""
    ends = n * C + 9.0 * s
    total = np.linspace(-ends, ends, 401)
    first, second = np.meshgrid(total, total, indexing="ij")
    start = np.array(0.3)

    def both(x):
        w = _next(start, first, n, sampling)
        return _density(first, start, x, s, n, sampling) * _density(second, w, x, s, n, sampling)

    x, cell = X[0, 0], (total[1] - total[0]) ** 2
    slope = (both(x + STEP) - both(x - STEP)) / (2.0 * STEP)
    density = both(x)
    return float(
        np.sum(np.divide(slope**2, density, where=density > 1e-300, out=0.0 * slope)) * cell
    )


@functools.cache  # with its table of factors
def _mechanism(s, n, sampling):
    return StepMechanism(s / C, make_clipping("smooth", C), sampling, _rate(n, sampling))


def _stated_information(s, n, sampling):
    """What is added up, in expectation over where the first step leads, by quadrature."""
    mechanism = _mechanism(s, n, sampling)
    gradients = LinearGradients(LogisticLoss(), mechanism.clipping, 1, fit_intercept=False)
    ends = n * C + 9.0 * s
    total = np.linspace(-ends, ends, 401)
    weights = _density(total, np.array(0.3), X[0, 0], s, n, sampling) * (total[1] - total[0])

    def of(w):
        gradients.parameters = np.array([w])
        found = gradients.information(
            X[:1], Y[:1], mechanism.weigh, parts=("trace",), private_target=False
        )
        return mechanism.scale * found["trace"][0]

    later = [of(w) for w in _next(0.3, total, n, sampling)]
    return of(0.3) + float(weights @ later)


@pytest.mark.slow
@pytest.mark.parametrize("s", mostly_slow([0.3, 1.0], 0))
def test_it_is_that_of_the_log_density(s):
    alone = _stated_information(s, 1, "poisson"), _true_information(s, 1, "poisson")
    assert alone[0] == pytest.approx(alone[1], rel=2e-6)
    for n, sampling in ((2, "poisson"), (3, "poisson"), (2, "fixed"), (3, "fixed")):
        stated, true = _stated_information(s, n, sampling), _true_information(s, n, sampling)
        assert true * (1.0 - 1e-6) < stated < 20.0 * true, (n, sampling)


def _run(s, n, sampling, accounting, source, n_steps, learning_rate=LEARNING_RATE):
    mechanism = _mechanism(s, n, sampling)
    gradients = LinearGradients(LogisticLoss(), mechanism.clipping, 1, fit_intercept=False)
    gradients.parameters = np.array([0.3])
    x, y = X[:n], Y[:n]
    training = Training(gradients, mechanism, source, x, y, learning_rate)
    training.observer = Observer(training, private_target=False, **accounting)
    training.run(n_steps)
    return training.observer.totals()


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_the_loop_adds_up_its_expectation(sampling):
    """All ways of following records agree with quadrature, within five of their own errors."""
    stated = _stated_information(0.7, 3, sampling)
    for accounting in (
        {"records": np.arange(3)},
        {"records": np.array([0]), "every": 2},
        {"records": None},
        {"records": None, "every": 2},
    ):
        runs = [_run(0.7, 3, sampling, accounting, each, 2) for each in make_sources(0, 400)]
        total = mean_totals(runs)
        assert total.n_runs == 400
        assert abs(total.sums["trace"][0] - stated) < 5.0 * total.errors["trace"][0], accounting
        assert total.exact == (accounting["records"] is not None and "every" not in accounting)


@pytest.mark.slow
def test_the_error_of_one_run_is_that_of_following_members_only():
    """Where nothing moves, all that varies between runs is who took part."""
    accounting = {"records": None}
    runs = [_run(0.7, 3, "poisson", accounting, s, 15, 1e-12) for s in make_sources(1, 200)]
    followed = {"records": np.arange(3)}
    exact = _run(0.7, 3, "poisson", followed, make_sources(2, 1)[0], 15, 1e-12)
    assert exact.exact
    np.testing.assert_array_equal(exact.errors["trace"], 0.0)
    draw = exact.sums["trace"] / (15 * RATE)  # what a record reveals where it takes part
    spread = np.std([run.sums["trace"] for run in runs], axis=0, ddof=1)
    stated = np.sqrt(np.mean([run.errors["trace"] ** 2 for run in runs], axis=0))
    # 200 runs know a deviation to 5 %.
    np.testing.assert_allclose(spread, np.sqrt(15 * RATE * (1.0 - RATE)) * draw, rtol=0.3)
    # From above: without the 1 - q, and with one more draw of the average kind.
    cautious = np.sqrt(15 * RATE * draw**2 + np.mean(draw**2))
    np.testing.assert_allclose(stated, cautious, rtol=0.15)
    assert np.all(cautious > np.sqrt(15 * RATE * (1.0 - RATE)) * draw)


def test_two_columns_have_the_matrix_of_the_log_density():
    """One record, one step, two parameters: along and across the gradient."""
    x, y, w, s = np.array([[0.9, -1.4]]), np.array([1]), np.array([0.4, 0.2]), 0.8
    mechanism = _mechanism(s, 1, "poisson")
    gradients = LinearGradients(LogisticLoss(), mechanism.clipping, 2, fit_intercept=False)
    gradients.parameters = w
    found = gradients.information(x, y, mechanism.weigh, parts=("matrix",), private_target=False)
    axis = np.linspace(-8.5, 8.5, 501)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)

    def density(record):
        mean, _ = gradients.clipped_sum(record, y)
        parts = [(RATE, mean), (1.0 - RATE, 0.0 * mean)]
        squares = [(q, np.sum((grid - m) ** 2, axis=-1)) for q, m in parts]
        return sum(q * np.exp(-0.5 * each / s**2) for q, each in squares) / (2.0 * np.pi * s**2)

    slopes = [(density(x + STEP * e) - density(x - STEP * e)) / (2.0 * STEP) for e in np.eye(2)]
    cell = (axis[1] - axis[0]) ** 2
    true = [[np.sum(a * b / density(x)) * cell for a in slopes] for b in slopes]
    np.testing.assert_allclose(mechanism.scale * found["matrix"][0], true, rtol=1e-6)
