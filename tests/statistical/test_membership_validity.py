"""Lower bound <= best attack <= upper bound, on hundreds of random problems solved exactly."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import chi2, norm, skewnorm

from skleak.attacks import GaussianLinearMembership
from skleak.attacks._gaussian import member_rates
from skleak.bounds import (
    dp_advantage,
    fano_advantage,
    gdp_advantage,
    information_projection_advantage,
    membership_lower_bound_bounded,
    membership_lower_bound_exponential,
    membership_lower_bound_subgaussian,
)
from skleak.bounds.priors import advantage_to_success
from skleak.channels import DiscreteChannel
from skleak.metrics import binomial_interval

pytestmark = pytest.mark.slow

N_PROBLEMS = 200
ROUND_OFF = 1e-12


def random_prior(rng):
    return 0.5 if rng.random() < 0.3 else float(rng.uniform(0.05, 0.95))


def odds_of(prior):
    return np.array([1.0 - prior, prior])


def success_from(advantage, prior):
    return float(advantage_to_success(advantage, odds_of(prior)))


# Linear regression on a fixed design


def random_design(rng):
    """Designs of even and of heavy leverage, up to rows that nothing else predicts."""
    d = int(rng.integers(1, 9))
    n = d + int(rng.integers(0, 40))
    kind = rng.choice(["normal", "heavy rows", "heavy entries", "groups", "outlier", "zero row"])
    X = rng.normal(size=(n, d))
    if kind == "heavy rows":
        X *= np.exp(2.5 * rng.normal(size=(n, 1)))
    elif kind == "heavy entries":
        X = rng.standard_t(1.1, size=(n, d))
    elif kind == "groups":
        X = np.eye(d)[np.r_[np.arange(d), rng.integers(d, size=n - d)]]
    elif kind == "outlier":
        X[0] *= 10.0 ** rng.uniform(1, 5)
    elif kind == "zero row" and n > d:
        X[-1] = 0.0
    return X * 10.0 ** rng.uniform(-3, 3, size=d)


def test_linear_regression(rng):
    informative = []
    for k in range(N_PROBLEMS):
        X, sigma, prior = random_design(rng), 10.0 ** rng.uniform(-2, 2), random_prior(rng)
        coef = rng.normal(size=X.shape[1])
        attack = GaussianLinearMembership(sigma=sigma, coef=coef, prior=prior).fit(X)
        lower, upper = attack.expected_score_bounds()
        exact = attack.expected_score().mean()
        assert max(prior, 1.0 - prior) - ROUND_OFF <= lower
        assert lower <= exact + 1e-9
        assert exact <= upper + 1e-9
        informative.append([lower > max(prior, 1.0 - prior) + 1e-6, upper < 0.999])
        if k % 8 == 0:
            theta, rows, s, member = attack.sample(10_000, rng)
            right = attack.predict(theta, rows, s) == member
            interval = binomial_interval(int(right.sum()), len(right), 1.0 - 1e-5)
            assert interval.low - 1e-9 <= exact <= interval.high + 1e-9
            # Nor does a threshold on the squared error beat the exact attack.
            errors = ((s - np.einsum("ij,ij->i", X[rows], theta)) / sigma) ** 2
            for threshold in (0.3, 1.0, 2.0):
                share = np.mean((errors < threshold) == member)
                assert share <= exact + 5.0 * 0.5 / np.sqrt(len(member))
    # The bounds say something on many of these.
    assert np.all(np.mean(informative, axis=0) > 0.15)


# Finite worlds, in which everything is a sum


def random_kernel(rng, losses, n):
    """P(model | training set) of shape (k,) * n + (m,), and the loss it learns from."""
    k, m = losses.shape
    totals = sum(losses[axis] for axis in np.ix_(*[np.arange(k)] * n))
    kind = rng.choice(["any", "gibbs", "minimizer", "ignores the data"])
    if kind == "any":
        return rng.dirichlet(np.full(m, 10.0 ** rng.uniform(-1, 1)), size=(k,) * n)
    if kind == "gibbs":
        weights = np.exp(-(10.0 ** rng.uniform(-1, 1)) * totals)
    elif kind == "minimizer":
        weights = (totals == totals.min(axis=-1, keepdims=True)).astype(float)
    else:
        weights = np.broadcast_to(rng.random(m) + 0.1, totals.shape)
    return weights / weights.sum(axis=-1, keepdims=True)


def membership_laws(records, kernel):
    """Laws of (record, model) for members and for fresh records, each of shape (k, m)."""
    n = kernel.ndim - 1
    joint = kernel.copy()
    for axis in range(n):
        shape = [1] * (n + 1)
        shape[axis] = len(records)
        joint = joint * records.reshape(shape)
    # The member is each of the training records with probability 1 / n.
    members = sum(
        joint.sum(axis=tuple(other for other in range(n) if other != axis)) for axis in range(n)
    )
    model = joint.sum(axis=tuple(range(n)))
    return members / n, records[:, None] * model


def information(joint):
    """Mutual information of rows and columns of a table, in nats."""
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    inside = joint > 0.0
    return max(float(np.sum(xlogy(joint[inside], joint[inside] / independent[inside]))), 0.0)


def exact_guarantee(kernel, epsilon):
    """Least epsilon, and least delta at another one, of a kernel under replacement."""
    largest = delta = 0.0
    n = kernel.ndim - 1
    for axis in range(n):
        rows = np.moveaxis(kernel, axis, 0)
        for one, other in product(range(len(rows)), repeat=2):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(rows[one] > 0.0, np.log(rows[one] / rows[other]), -np.inf)
            largest = max(largest, float(ratio.max()))
            excess = np.maximum(rows[one] - np.exp(epsilon) * rows[other], 0.0)
            delta = max(delta, float(excess.sum(axis=-1).max()))
    return largest, min(delta, 1.0)


def random_world(rng):
    k, m, n = int(rng.integers(2, 5)), int(rng.integers(2, 6)), int(rng.integers(1, 4))
    records = rng.dirichlet(np.full(k, 10.0 ** rng.uniform(-0.5, 1)))
    losses = rng.uniform(-1.0, 2.0, size=(k, m))
    return records, losses, random_kernel(rng, losses, n)


def best_success(members, others, prior):
    return float(np.maximum(prior * members, (1.0 - prior) * others).sum())


def test_finite_worlds(rng):
    informative = []
    for _ in range(N_PROBLEMS):
        records, losses, kernel = random_world(rng)
        members, others = membership_laws(records, kernel)
        np.testing.assert_allclose([members.sum(), others.sum()], 1.0)
        prior = random_prior(rng)
        exact = best_success(members, others, prior)
        gap = float(np.sum((others - members) * losses))
        floor = membership_lower_bound_bounded(gap, np.ptp(losses), prior)
        lower = success_from(floor, prior)
        # Of membership and what the attacker sees; and of record and model, given membership.
        seen = np.stack([(1.0 - prior) * others.ravel(), prior * members.ravel()])
        own, given = information(seen), prior * information(members)
        assert own <= given + ROUND_OFF
        uppers = [
            success_from(bound(value, odds_of(prior)), prior)
            for bound in (information_projection_advantage, fano_advantage)
            for value in (own, given)
        ]
        assert lower <= exact + ROUND_OFF
        assert exact <= min(uppers) + 1e-9
        epsilon = 10.0 ** rng.uniform(-2, 1)
        largest, delta = exact_guarantee(kernel, epsilon)
        for stated in ((largest, 0.0), (epsilon, delta)):
            ceiling = success_from(dp_advantage(*stated, odds_of(prior)), prior)
            assert exact <= ceiling + ROUND_OFF
            even = 2.0 * best_success(members, others, 0.5) - 1.0
            assert even <= dp_advantage(*stated, 2) + ROUND_OFF
        informative.append([floor > 1e-3, min(uppers) < 0.999])
    assert np.all(np.mean(informative, axis=0) > 0.15)


def test_no_rule_at_all_beats_the_sum(rng):
    """All 2^(k m) deterministic attacks on small worlds, and random ones that toss coins."""
    for _ in range(20):
        records, _, kernel = random_world(rng)
        few = (slice(2),) * (kernel.ndim - 1)
        members, others = membership_laws(records[:2] / records[:2].sum(), kernel[few])
        prior = random_prior(rng)
        exact = best_success(members, others, prior)
        rules = np.array(list(product([0.0, 1.0], repeat=members.size)))
        found = prior * rules @ members.ravel() + (1.0 - prior) * (1.0 - rules) @ others.ravel()
        assert found.max() == pytest.approx(exact, abs=1e-12)
        coins = rng.random((500, members.size))
        mixed = prior * coins @ members.ravel() + (1.0 - prior) * (1.0 - coins) @ others.ravel()
        assert mixed.max() <= exact + ROUND_OFF


@pytest.mark.parametrize("k, n", [(2, 1), (2, 3), (3, 2), (5, 1)])
def test_randomized_response(k, n, rng):
    """Every record is answered at random: pure differential privacy, exact for n = 1."""
    for _ in range(N_PROBLEMS // 4):
        epsilon, delta = 10.0 ** rng.uniform(-2, 1), rng.choice([0.0, rng.uniform(0.0, 0.3)])
        answer = np.full((k, k), 1.0)
        np.fill_diagonal(answer, np.exp(epsilon))
        answer /= answer.sum(axis=1, keepdims=True)
        # With probability delta the record itself, marked as such.
        answer = np.hstack([(1.0 - delta) * answer, delta * np.eye(k)])
        kernel = answer
        for _ in range(n - 1):
            kernel = np.einsum("...a,zb->...zab", kernel, answer)
            kernel = kernel.reshape(*kernel.shape[:-2], -1)
        prior, records = random_prior(rng), rng.dirichlet(np.ones(k))
        members, others = membership_laws(records, kernel)
        exact = best_success(members, others, prior)
        ceiling = success_from(dp_advantage(epsilon, delta, odds_of(prior)), prior)
        assert exact <= ceiling + ROUND_OFF
        largest, stated = exact_guarantee(kernel, epsilon)
        assert stated == pytest.approx(delta, abs=1e-12)
        if delta == 0.0:
            assert largest == pytest.approx(epsilon)


def test_the_ceiling_of_differential_privacy_is_reached():
    """One record, known to be one of two, against a fixed other: randomized response."""
    for epsilon in (0.1, 1.0, 3.0):
        for delta in (0.0, 0.05):
            truth = (1.0 - delta) * np.exp(epsilon) / (1.0 + np.exp(epsilon))
            other = (1.0 - delta) / (1.0 + np.exp(epsilon))
            members = np.array([[truth, other, delta, 0.0]])
            others = np.array([[other, truth, 0.0, delta]])
            even = 2.0 * best_success(members, others, 0.5) - 1.0
            assert even == pytest.approx(dp_advantage(epsilon, delta, 2), abs=1e-12)


def test_gaussian_releases_of_a_finite_world(rng):
    """A statistic in [0, 1] and noise: mu-GDP, the attack by quadrature."""
    for _ in range(N_PROBLEMS // 2):
        k = int(rng.integers(2, 6))
        values, records = rng.random(k), rng.dirichlet(np.ones(k))
        values[:2] = [0.0, 1.0]
        mu, prior = 10.0 ** rng.uniform(-1, 0.7), random_prior(rng)
        x = np.linspace(-9.0, mu + 9.0, 6_001)
        given = norm.pdf(x, mu * values[:, None])
        fresh = records @ given
        members, others = records[:, None] * given, records[:, None] * fresh
        exact = best_success(members, others, prior) * (x[1] - x[0])
        ceiling = success_from(gdp_advantage(mu, odds_of(prior)), prior)
        assert exact <= ceiling + 1e-6


# Losses with known tails


def overlap(members, others, prior, ends):
    """Exact success of the best attack that sees only the loss, from two densities.

    Gauss's rule on short pieces: the maximum of two densities has kinks.
    """
    nodes, weights = np.polynomial.legendre.leggauss(8)
    fine = np.unique(np.concatenate([np.linspace(a, b, 41) for a, b in pairwise(ends)]))
    middle, half = 0.5 * (fine[1:] + fine[:-1]), 0.5 * np.diff(fine)
    x = middle[:, None] + half[:, None] * nodes
    likelier = np.maximum(prior * members(x), (1.0 - prior) * others(x))
    return float(half @ likelier @ weights)


def test_gaussian_losses(rng):
    gains = []
    for _ in range(N_PROBLEMS):
        unit, prior = 10.0 ** rng.uniform(-3, 3), random_prior(rng)
        means, scales = rng.uniform(-3, 3, size=2), rng.uniform(0.3, 1.5, size=2)
        laws = [norm(unit * m, unit * s).pdf for m, s in zip(means, scales, strict=True)]
        ends = unit * np.linspace(-20, 20, 81)
        exact = overlap(*laws, prior, ends)
        gap = unit * abs(means[0] - means[1])
        floor = membership_lower_bound_subgaussian(gap, unit * scales.max(), prior)
        assert success_from(floor, prior) <= exact + 1e-7
        gains.append(floor)
    assert np.mean(np.array(gains) > 0.01) > 0.3


def test_a_learnt_sign(rng):
    """The model is minus the sign of the mean of n normal records, the loss their product.

    The loss of a member is minus a skew-normal variable, a Lipschitz function of normal ones:
    sub-Gaussian with scale 1, as that of a fresh record, which is N(0, 1).
    """
    for n in [1, 2, 3, *rng.integers(4, 1000, size=20).tolist()]:
        shape = 1.0 / np.sqrt(n - 1) if n > 1 else 1e8
        gap = np.sqrt(2.0 / (np.pi * n))
        assert skewnorm(shape).mean() == pytest.approx(gap, rel=1e-6)
        prior = random_prior(rng)
        law = skewnorm(shape)
        exact = overlap(lambda x, f=law.pdf: f(-x), norm.pdf, prior, np.linspace(-10, 10, 41))
        floor = membership_lower_bound_subgaussian(gap, 1.0, prior)
        assert success_from(floor, prior) <= exact + 1e-7
    draws = rng.normal(size=(200_000, 5))
    losses = -np.sign(draws.mean(axis=1)) * draws[:, 0]
    error = 5.0 * losses.std() / np.sqrt(len(losses))
    assert abs(-losses.mean() - np.sqrt(2.0 / (np.pi * 5))) < error


def random_mixture(rng, b):
    """A mixture of exponential losses of scales up to b: its tail is at most exp(-t / b)."""
    weights, scales = rng.dirichlet(np.ones(3)), b * rng.uniform(0.02, 1.0, size=3)

    def density(x):
        return np.exp(-x[..., None] / scales) @ (weights / scales)

    return density, float(weights @ scales)


def test_exponential_losses(rng):
    gains = []
    for _ in range(N_PROBLEMS):
        b, prior = 10.0 ** rng.uniform(-3, 3), random_prior(rng)
        (members, own), (others, fresh) = (random_mixture(rng, b) for _ in range(2))
        ends = b * np.r_[0.0, np.geomspace(1e-3, 60.0, 30)]
        exact = overlap(members, others, prior, ends)
        floor = membership_lower_bound_exponential(abs(fresh - own), b, 1.0, prior)
        assert success_from(floor, prior) <= exact + 1e-6
        gains.append(floor)
    assert np.mean(np.array(gains) > 0.001) > 0.1


def test_losses_with_a_factor_in_the_tail(rng):
    """Chi-squared losses of more degrees of freedom: no exponential tail without a factor."""
    for _ in range(N_PROBLEMS):
        freedom, prior = int(rng.integers(1, 9)), random_prior(rng)
        scales = np.sort(rng.uniform(0.2, 1.0, size=2))
        b = 2.0 * scales[1] * rng.uniform(1.1, 2.0)
        laws = [chi2(freedom, scale=s) for s in scales]
        t = np.linspace(0.0, 100.0, 4_001)
        # The ratio has one maximum; a little more for what the grid misses.
        factor = 1.001 * float(np.max(laws[1].sf(t) * np.exp(t / b)))
        ends = np.r_[0.0, np.geomspace(1e-15, 80.0, 80)]
        exact = overlap(laws[0].pdf, laws[1].pdf, prior, ends)
        gap = freedom * (scales[1] - scales[0])
        floor = membership_lower_bound_exponential(gap, b, factor, prior)
        assert success_from(floor, prior) <= exact + 1e-6


def test_a_learnt_mean(rng):
    """The model is the mean of n normal records and noise; the loss is the squared error."""
    for _ in range(N_PROBLEMS):
        n, noise = int(rng.integers(1, 50)), rng.choice([0.0, rng.random()])
        prior = random_prior(rng)
        variances = 1.0 + noise**2 + np.array([-1.0, 1.0]) / n
        if variances[0] <= 0.0:
            continue
        x = np.sqrt(variances[1]) * np.linspace(-12.0, 12.0, 49)
        laws = [norm(scale=np.sqrt(v)).pdf for v in variances]
        seen = overlap(*laws, prior, x)
        floor = membership_lower_bound_exponential(2.0 / n, 2.0 * variances[1], 1.0, prior)
        assert success_from(floor, prior) <= seen + 1e-7
        # Who sees record and model does better: a pair of normal variables, correlated for members.
        h = np.array([1.0 / (n**2 * (1.0 / n + noise**2))])
        fresh, trained = member_rates(h, np.log1p(-prior) - np.log(prior))
        exact = prior * trained[0] + (1.0 - prior) * (1.0 - fresh[0])
        assert seen <= exact + 1e-7
        information = -0.5 * prior * np.log1p(-h[0])
        upper = information_projection_advantage(information, odds_of(prior))
        assert exact <= success_from(upper, prior) + 1e-9


# The Bayes-optimal attack on an attribute


def test_no_attack_on_an_attribute_beats_the_likeliest_value(rng):
    """All M^K rules that map a release to a value, and random ones that toss coins."""
    for _ in range(N_PROBLEMS):
        size, outcomes = int(rng.integers(2, 5)), int(rng.integers(2, 6))
        prior = rng.dirichlet(np.full(size, 10.0 ** rng.uniform(-1, 1)))
        table = rng.dirichlet(np.full(outcomes, 10.0 ** rng.uniform(-1, 1)), size=size)
        channel = DiscreteChannel(table)
        bayes = channel.bayes_success(prior)
        joint = prior[:, None] * table
        rules = np.array(list(product(range(size), repeat=outcomes)))
        found = joint[rules, np.arange(outcomes)].sum(axis=1)
        assert found.max() == pytest.approx(bayes, abs=1e-12)
        own = channel.bayes_decision(np.arange(outcomes), prior)
        assert joint[own, np.arange(outcomes)].sum() == pytest.approx(bayes, abs=1e-12)
        coins = rng.dirichlet(np.full(size, 0.3), size=(50, outcomes))
        assert np.einsum("ryx,xy->r", coins, joint).max() <= bayes + ROUND_OFF


def test_an_attribute_of_a_training_record(rng):
    """The secret is part of a record, the others are random, and the attacker knows the rest."""
    for _ in range(N_PROBLEMS // 2):
        records, _, kernel = random_world(rng)
        k, n = len(records), kernel.ndim - 1
        # The first record of the training set; its public part is the parity of its value.
        law = kernel
        for _ in range(n - 1):
            law = np.tensordot(records, np.moveaxis(law, 1, 0), axes=1)
        joint = records[:, None] * law
        public = np.arange(k) % 2
        informed = sum(joint[public == part].max(axis=0).sum() for part in np.unique(public))
        blind = sum(records[public == part].max() for part in np.unique(public))
        assert blind <= informed + ROUND_OFF
        rules = rng.integers(k, size=(300, 2, joint.shape[1]))
        guesses = rules[:, public]
        right = (guesses == np.arange(k)[:, None]) * joint
        assert right.sum(axis=(1, 2)).max() <= informed + ROUND_OFF
