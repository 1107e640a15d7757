"""Composition: against stacked Jacobians, joint channels and other accountants."""

import numpy as np
import pytest

from skleak.accounting import FisherAccountant, gaussian_delta, gaussian_epsilon, rdp


def _composed(losses):
    """Totals of an accountant that is told losses, or mus, of one release after the other."""
    accountant = FisherAccountant()
    for loss in losses:
        accountant.add(loss)
    return accountant.fisher_information_loss_


@pytest.fixture
def releases(rng):
    """Whitened Jacobians of three releases of different sizes on five records of two columns."""
    return [rng.standard_normal((5, p, 2)) * rng.uniform(0.1, 2) for p in (3, 1, 4)]


def _fisher(jacobians):
    return jacobians.swapaxes(1, 2) @ jacobians


def _spectral(jacobians):
    return np.linalg.norm(jacobians, 2, axis=(1, 2))


def test_equal_releases_cost_the_square_root_of_their_number():
    # [FIL21] 3.1 first says k eta; the tight value is sqrt(k) eta.
    eta = np.array([0.2, 1.5])
    np.testing.assert_allclose(_composed([eta] * 9), 3 * eta, rtol=1e-15)


def test_losses_bound_the_loss_of_the_joint_release(releases):
    joint = _spectral(np.concatenate(releases, axis=1))
    bound = _composed([_spectral(j) for j in releases])
    assert (bound >= joint).all()
    assert (bound > joint * 1.01).any()  # different directions: a bound, not an equality
    same = [releases[0], 2 * releases[0]]
    np.testing.assert_allclose(
        _composed([_spectral(j) for j in same]),
        _spectral(np.concatenate(same, axis=1)),
        rtol=1e-12,
    )


def test_traces_compose_exactly(releases):
    parts = [np.linalg.norm(j, axis=(1, 2)) for j in releases]
    whole = np.linalg.norm(np.concatenate(releases, axis=1), axis=(1, 2))
    np.testing.assert_allclose(_composed(parts), whole, rtol=1e-12)


def test_extreme_sizes():
    table = np.array([[3.0, 1e-200, 1e200, np.inf], [4.0, 0.0, 1e200, 1.0]])
    np.testing.assert_allclose(
        _composed(table), [5.0, 1e-200, np.sqrt(2) * 1e200, np.inf], rtol=1e-15
    )


def _composed_mu(mus):
    accountant = FisherAccountant()
    for mu in mus:
        accountant.add([1.0], mu)
    return accountant.mu_


def test_gdp_composes_as_one_gaussian_of_the_joint_distance(rng):
    mus = rng.uniform(0.1, 1.0, 4)
    assert _composed_mu(mus) == pytest.approx(np.linalg.norm(mus), rel=1e-15)
    # and the joint channel agrees: privacy loss of N(mus, I) against N(0, I), by simulation
    z = rng.standard_normal((400_000, 4)) + mus
    loss = z @ mus - 0.5 * mus @ mus
    shortfall = np.where(loss > 0.5, -np.expm1(0.5 - loss), 0.0)
    error = shortfall.std() / np.sqrt(len(z))
    assert shortfall.mean() == pytest.approx(
        gaussian_delta(_composed_mu(mus), 0.5), abs=4.5 * error
    )
    assert _composed_mu([0.1, np.inf]) == np.inf


@pytest.mark.slow
def test_agrees_with_dp_accounting():
    dp = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    renyi = pytest.importorskip("dp_accounting.rdp")
    multipliers, orders = [2.0, 5.0, 3.0], [2.0, 5.0, 17.0]
    exact, bound = pld.PLDAccountant(), renyi.RdpAccountant(orders=orders)
    for multiplier in multipliers:
        exact.compose(dp.GaussianDpEvent(multiplier))
        bound.compose(dp.GaussianDpEvent(multiplier))
    mu = _composed_mu([1 / multiplier for multiplier in multipliers])
    assert exact.get_epsilon(1e-6) == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-3)
    composed = np.sum([rdp(1 / multiplier, orders) for multiplier in multipliers], axis=0)
    np.testing.assert_allclose(composed, bound.rdp, rtol=1e-12)
    np.testing.assert_allclose(composed, rdp(mu, orders), rtol=1e-12)


def test_accountant_of_matrices_is_exact(releases):
    accountant = FisherAccountant()
    for jacobians in releases:
        accountant.add(_fisher(jacobians))
    joint = _spectral(np.concatenate(releases, axis=1))
    np.testing.assert_allclose(accountant.fisher_information_loss_, joint, rtol=1e-12)


def test_accountant_of_losses_composes_them(releases):
    losses = [_spectral(j) for j in releases]
    accountant = FisherAccountant()
    for loss in losses:
        accountant.add(loss)
    np.testing.assert_allclose(accountant.fisher_information_loss_, _composed(losses), rtol=1e-14)
    assert accountant.n_releases_ == 3


def test_accountant_of_both_lies_between_the_truth_and_the_bound(releases):
    accountant = FisherAccountant().add(_spectral(releases[0]))
    accountant.add(_fisher(releases[1])).add(_fisher(releases[2]))
    joint = _spectral(np.concatenate(releases, axis=1))
    bound = _composed([_spectral(j) for j in releases])
    assert (accountant.fisher_information_loss_ >= joint).all()
    assert (accountant.fisher_information_loss_ <= bound * (1 + 1e-12)).all()


def test_accountant_keeps_its_own_copy():
    loss = np.array([0.3, 0.1])
    accountant = FisherAccountant().add(loss)
    loss[:] = 0.0
    np.testing.assert_array_equal(accountant.fisher_information_loss_, [0.3, 0.1])
    accountant.fisher_information_loss_[:] = 0.0
    np.testing.assert_array_equal(accountant.add([0.4, 0.0]).fisher_information_loss_, [0.5, 0.1])


def test_accountant_of_privacy():
    accountant = FisherAccountant()
    assert accountant.mu_ == 0.0
    assert accountant.epsilon(1e-5) == 0.0
    accountant.add([1.0], mu=0.3).add([1.0], 0.4)
    assert accountant.epsilon(1e-5) == gaussian_epsilon(0.5, 1e-5)
    accountant.add([1.0])  # one release without a guarantee, and none is left
    assert accountant.mu_ == np.inf
    assert accountant.epsilon(1e-5) == np.inf


def test_table_of_the_accountant():
    assert FisherAccountant().to_frame().empty
    frame = FisherAccountant().add([3.0, 1.0], 0.3, "first").add([4.0, 0.0], 0.4).to_frame()
    assert frame["name"].tolist() == ["first", "release 2"]
    np.testing.assert_allclose(frame["mean_fisher_information_loss"], [2.0, 2.0])
    np.testing.assert_allclose(frame["max_fisher_information_loss"], [3.0, 4.0])
    np.testing.assert_allclose(frame["composed_max_fisher_information_loss"], [3.0, 5.0])
    np.testing.assert_allclose(frame["mu"], [0.3, 0.4])
    np.testing.assert_allclose(frame["composed_mu"], [0.3, 0.5])


@pytest.mark.parametrize(
    "release, message",
    [
        ([0.1, 0.2, 0.3], "Every release must be on the same 2 records; got 3. Use one accountant"),
        ([0.1, -0.2], "`fisher_information_loss` must be at least 0; got -0.2"),
        ([0.1, np.nan], "`fisher_information_loss` must not hold NaN; got nan"),
        (0.3, r"`fisher_information_loss` must have shape \(n_records,\) or .* got \(\)"),
        (np.ones((2, 3)), r"or \(n_records, p, p\); got \(2, 3\)"),
        (np.ones((2, 3, 2)), r"or \(n_records, p, p\); got \(2, 3, 2\)"),
        (np.ones((2, 3, 3)), r"must have shape \(2, 2, 2\), as before; got \(2, 3, 3\)"),
        (-np.ones((2, 2, 2)), "symmetric and positive semi-definite; that of record 0 is not"),
        ([np.eye(2), [[1, 0.5], [0, 1]]], "positive semi-definite; that of record 1 is not"),
        (np.full((2, 2, 2), np.inf), "Fisher information matrices must be finite"),
        (np.stack([np.eye(2), [[np.inf, 0], [0, 1]]]), "Fisher information matrices must be fin"),
    ],
)
def test_refused_releases_are_explained_and_change_nothing(release, message):
    accountant = FisherAccountant().add(np.stack([np.eye(2), 4 * np.eye(2)]), mu=0.5)
    with pytest.raises(ValueError, match=message):
        accountant.add(release, mu=0.1)
    with pytest.raises(ValueError, match="`mu` must be at least 0; got -1"):
        accountant.add([0.1, 0.1], mu=-1.0)
    np.testing.assert_array_equal(accountant.fisher_information_loss_, [1.0, 2.0])
    assert (accountant.n_releases_, accountant.mu_, len(accountant.to_frame())) == (1, 0.5, 1)
    with pytest.raises(TypeError, match="`mu` must be a single number; got an array of shape"):
        accountant.add([0.1, 0.1], mu=[0.1, 0.2])
    with pytest.raises(ValueError, match="got \\(0,\\)"):
        FisherAccountant().add([])
