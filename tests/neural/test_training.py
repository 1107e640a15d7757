"""Noise, batches and steps of private stochastic gradient descent."""

import numpy as np
import pytest
from helpers import mostly_slow
from scipy import stats

from skleak.accounting.subsampled import subsampled_fisher_factors
from skleak.losses import SquaredLoss
from skleak.neural import PrivateSGDClassifier
from skleak.neural.gradients import LinearGradients, make_clipping
from skleak.neural.information import StepMechanism
from skleak.neural.training import Plan, SecretSource, Source, Training, make_sources

LEVEL = 1e-9  # of each test of chance below


def _training(source, X, y, **changes):
    options = {"sigma": 0.0, "sampling": "poisson", "rate": 0.25, "learning_rate": 0.5} | changes
    clipping = make_clipping("smooth", 1.0)
    gradients = LinearGradients(SquaredLoss(), clipping, X.shape[1])
    mechanism = StepMechanism(options["sigma"], clipping, options["sampling"], options["rate"])
    rules = options["learning_rate"], options.get("momentum", 0.0)
    return Training(gradients, mechanism, source, X, y, *rules)


def test_noise_is_normal_and_batches_are_drawn_independently():
    for source in (SecretSource(), make_sources(0, 1)[0]):
        z = source.normal(40_000)
        assert stats.kstest(z, "norm").pvalue > LEVEL
        assert stats.kstest(np.abs(z[np.abs(z) > 2.0]), _tail).pvalue > LEVEL
        counts = np.zeros(50)
        sizes = []
        for _ in range(400):
            members = source.members(50, 0.3)
            assert np.all(np.diff(members) > 0)
            counts[members] += 1
            sizes.append(len(members))
            assert len(np.unique(source.subset(50, 7))) == 7
        shares = stats.binom.cdf(counts, 400, 0.3)
        assert 2.0 * np.minimum(shares, 1.0 - shares).min() > LEVEL / 50
        # Sizes vary as of independent draws, and successive ones are not alike.
        assert abs(np.var(sizes) / (50 * 0.3 * 0.7) - 1.0) < 6.5 * np.sqrt(2.0 / 400)
        assert abs(np.corrcoef(sizes[1:], sizes[:-1])[0, 1]) < 6.5 / np.sqrt(400)
    assert len(SecretSource().members(10, 1.0)) == 10


def _tail(x):
    return (stats.norm.cdf(x) - stats.norm.cdf(2.0)) / stats.norm.sf(2.0)


def test_noise_of_the_parameters_is_that_of_the_steps():
    """Gradients are zero at the optimum of constant targets: what is left is noise and drift."""
    X, y = np.zeros((8, 3)), np.zeros(8)
    found = []
    for source in make_sources(3, 400):
        training = _training(source, X, y, sigma=2.0, momentum=0.5)
        training.run(2)
        found.append(training.gradients.parameters[:3])  # columns of zeros have no gradient
    # Two steps: the first counts once and half again.
    scale = 0.5 * 2.0 / (0.25 * 8) * np.sqrt(1.5**2 + 1.0)
    z = np.ravel(found) / scale
    assert stats.kstest(z, "norm").pvalue > LEVEL


class _Script(Source):
    """Batches that a test chooses."""

    def __init__(self, batches):
        self.batches, self.generator = list(batches), np.random.default_rng(0)

    def normal(self, size):
        raise AssertionError("no noise was asked for")

    def uniform(self, size):
        raise AssertionError("not asked for")

    def members(self, n, rate):
        return np.array(self.batches.pop(0), dtype=int)


def _law(t, rate, distance):
    """Density of one step along a gradient so many noises long."""
    return (1.0 - rate) * stats.norm.pdf(t) + rate * stats.norm.pdf(t - distance)


def _plan(noise, rate, sampling="poisson", n_records=60):
    model = PrivateSGDClassifier(
        noise_multiplier=noise,
        sampling_rate=rate,
        sampling=sampling,
        clipping="hard",
        classes=[0, 1],
        public="n_samples",
    )
    return Plan.of(model, n_records)


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("distance", [0.1, 1.0, 3.0])
def test_a_step_is_as_private_as_its_mu(rate, distance):
    """The best test of opposite gradients, at every threshold; far out no smaller mu holds."""
    mu = _plan(1.0 / distance, rate).gaussian_mu(1, 10)[0]
    assert mu == pytest.approx(distance if rate <= 0.5 else 2.0 * distance, rel=1e-9)
    t = np.linspace(0.0, 30.0, 3001)
    power, alarms = (
        (1.0 - rate) * stats.norm.sf(t) + rate * stats.norm.sf(t - sign * distance)
        for sign in (1.0, -1.0)
    )
    needed = stats.norm.isf(alarms) - stats.norm.isf(power)
    assert np.all(needed <= mu * (1.0 + 1e-9))
    if rate in (0.2, 0.5, 1.0) and distance >= 1.0:
        assert needed.max() > 0.9 * mu - 0.02


@pytest.mark.parametrize("rate", mostly_slow([0.1, 0.5, 0.9]))
def test_two_steps_are_as_private_as_their_mu(rate):
    """The best test by quadrature over both steps."""
    t = np.linspace(-13.0, 13.0, 1301)
    p, q = (_law(t, rate, sign) * (t[1] - t[0]) for sign in (1.0, -1.0))
    power, alarms = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    order = np.argsort(-power / alarms)
    power, alarms = np.cumsum(power[order]), np.cumsum(alarms[order])
    inside = (alarms > 1e-10) & (power < 1.0 - 1e-6)
    needed = stats.norm.isf(alarms[inside]) - stats.norm.isf(power[inside])
    mu = _plan(1.0, rate).gaussian_mu(2, 10)[0]
    assert needed.max() <= mu * (1.0 + 1e-6)


def test_without_a_guarantee_there_is_no_mu():
    assert _plan(0.0, 0.2).gaussian_mu(3, 10, 1e-9) == (None, 0.0)
    seeded = PrivateSGDClassifier(random_state=0)
    assert Plan.of(seeded, 60).gaussian_mu(3, 10, 1e-9) == (None, 0.0)
    fixed = _plan(1.0, 0.2, "fixed").gaussian_mu(9, 10)[0]
    assert fixed == pytest.approx(6.0, rel=1e-9)
    assert fixed >= 6.0


def test_steps_are_divided_by_the_expected_size():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 2)), rng.normal(size=8)
    batches = [[0, 1, 2, 3, 4], [], [7]]
    training = _training(_Script(batches), X, y, momentum=0.5)
    training.run(3)
    w, velocity = np.zeros(3), np.zeros(3)
    by_hand = LinearGradients(SquaredLoss(), make_clipping("smooth", 1.0), 2)
    for batch in batches:
        by_hand.parameters = w
        total = sum((by_hand.clipped_sum(X[[i]], y[[i]])[0] for i in batch), np.zeros(3))
        velocity = 0.5 * velocity + total / 2.0  # 0.25 of 8, whoever took part
        w = w - 0.5 * velocity
    np.testing.assert_allclose(training.gradients.parameters, w, rtol=1e-12)
    assert training.batch_sizes == [5, 0, 1]
    assert np.isnan(training.losses[1])
    assert training.path is not None
    assert len(training.path) == 3


def test_tabulated_factors_are_never_below_the_integrals():
    rng = np.random.default_rng(1)
    for rate, sigma in ((0.01, 0.5), (0.01, 3.0), (0.4, 0.2), (0.9, 1.0), (1.0, 1.0), (0.01, 0.02)):
        for sampling in ("poisson", "fixed"):
            mechanism = StepMechanism(sigma, make_clipping("smooth", 2.0), sampling, rate)
            norms = rng.uniform(0.0, mechanism.clipping.sensitivity, 500)
            along, across = mechanism.weigh(norms)
            s = mechanism.noise_scale
            if sampling == "poisson":
                exact = subsampled_fisher_factors(rate, norms / s)
                assert np.all(along <= exact[0] * (1.0 + 1e-6))
            else:
                # Whoever takes the place of the record, the distance is at most the sum.
                other = rng.uniform(0.0, 1.0, 500) * (norms + mechanism.clipping.sensitivity)
                exact = subsampled_fisher_factors(rate, other / s)
            assert np.all(along >= exact[0] * (1.0 - 1e-12))
            assert np.all(across >= exact[1] * (1.0 - 1e-12))
            assert np.all(across <= 1.0)


def test_the_printed_factor_is_that_of_the_paper():
    """[DRA22] theorem 4 at q = 0.01 and delta = 1e-5: as computed for figure 5."""
    expected = {0.5: 1.000, 1.0: 0.998, 2.0: 0.69, 5.0: 0.08}
    for sigma, kappa in expected.items():
        mechanism = StepMechanism(sigma, make_clipping("smooth", 3.0), "poisson", 0.01)
        assert mechanism.printed_factor(1e-5) == pytest.approx(kappa, abs=6e-3)
