"""Ceilings of the ledger: they bind exactly, for every process, for ever."""

import sqlite3

import numpy as np
import pytest
from scipy.stats import norm

from skleak.accounting import LeakageLedger, gaussian_delta, gaussian_epsilon
from skleak.accounting.gaussian import mu_from_epsilon_delta
from skleak.accounting.ledger._rows import _CEILING, _digest
from skleak.exceptions import LeakageBudgetError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "leakage.sqlite"


def test_the_ceiling_on_leakage_holds_for_the_most_exposed_record(path):
    ledger = LeakageLedger(path, max_leakage=5.0, units=1.0)
    ledger.record("a", [3.0, 0.0])
    ledger.record("a", [0.0, 4.9])
    message = (
        "Data set 'a': the largest composed Fisher information loss must stay at most 5; this "
        "release would raise it from 4.9 to 5.0012"
    )
    with pytest.raises(LeakageBudgetError, match=message):
        ledger.record("a", [0.0, 1.001])
    ledger.record("a", [4.0, 0.0])  # exactly 5 for the first record
    with pytest.raises(LeakageBudgetError):
        ledger.record("a", [1e-3, 0.0])
    assert ledger.total("a").n_releases == 3
    ledger.record("b", [5.0])  # another data set has its own account, under the same ceiling
    with pytest.raises(LeakageBudgetError):
        ledger.record("b", [1e-3])


@pytest.mark.slow
@pytest.mark.parametrize("n_releases", [3, 7, 1000])
def test_a_budget_for_k_releases_pays_k_and_not_one_more(rng, n_releases):
    eta, mu = rng.uniform(0.1, 1, 2)
    leakage, epsilon = eta * np.sqrt(n_releases), gaussian_epsilon(mu * np.sqrt(n_releases), 0.9e-6)
    for limits in ({"max_leakage": leakage, "units": 1.0}, {"max_epsilon": epsilon}):
        ledger = LeakageLedger(":memory:", **limits)
        for _ in range(n_releases):
            ledger.record("a", [eta], mu=mu)
        with pytest.raises(LeakageBudgetError):
            ledger.record("a", [eta], mu=mu)


def test_the_ceiling_on_epsilon(path):
    ledger = LeakageLedger(path, max_epsilon=2.0, delta=1e-5)
    ledger.record("a", [1.0], mu=0.3)
    with pytest.raises(
        LeakageBudgetError, match=r"may spend at most epsilon 2 at delta 1e-05 \(mu"
    ):
        ledger.record("a", [1.0], mu=0.6)
    with pytest.raises(LeakageBudgetError, match="every release must have a guarantee"):
        ledger.record("a", [1.0])
    total = ledger.total("a")
    assert total.n_releases == 1
    assert gaussian_epsilon(total.max_mu, 0.9e-5) == pytest.approx(2.0, rel=1e-9)


def test_an_earlier_release_without_guarantee_spends_the_whole_epsilon(path):
    LeakageLedger(path).record("a", [1.0])
    with pytest.raises(LeakageBudgetError, match="this or an earlier one has none"):
        LeakageLedger(path, max_epsilon=100.0).record("a", [1.0], mu=1e-9)


def test_a_ceiling_binds_whoever_opens_the_file_before_any_release(path):
    LeakageLedger(path, max_leakage=2.0, units=1.0, max_epsilon=1.0)
    for ledger in (LeakageLedger.open(path), LeakageLedger(path), LeakageLedger(path, 50.0, 50.0)):
        with pytest.raises(LeakageBudgetError, match="must stay at most 2"):
            ledger.record("a", [3.0], mu=0.01)
        with pytest.raises(LeakageBudgetError, match="may spend at most epsilon 1 at delta 1e-06"):
            ledger.record("b", [1.0], mu=1.0)
        assert (ledger.max_leakage, ledger.max_epsilon) == (2.0, 1.0)
    assert LeakageLedger.open(path).datasets() == []


def test_a_ceiling_binds_data_sets_named_later(path):
    LeakageLedger(path, max_leakage=2.0, units=1.0).record("a", [1.0])
    for name in ("b", "a of another day", "A"):
        with pytest.raises(LeakageBudgetError, match="must stay at most 2"):
            LeakageLedger.open(path).record(name, [3.0])


def test_stricter_ceilings_tighten_for_everybody_and_laxer_ones_do_nothing(path):
    early = LeakageLedger(path, max_leakage=9.0, units=1.0)
    early.record("a", [1.0], mu=0.1)
    LeakageLedger(path, max_leakage=2.0, units=1.0)
    LeakageLedger(path, max_leakage=50.0, units=1.0, max_epsilon=3.0)
    assert (early.max_leakage, early.max_epsilon) == (2.0, 3.0)
    for ledger in (early, LeakageLedger.open(path)):
        with pytest.raises(LeakageBudgetError, match="must stay at most 2"):
            ledger.record("a", [3.0], mu=0.1)
        with pytest.raises(LeakageBudgetError, match="every release must have a guarantee"):
            ledger.record("a", [1.0])
        assert ledger.total("a").max_leakage == 2.0


def test_ceilings_at_different_delta_are_compared_by_what_they_allow(path):
    # epsilon 3 at delta 1e-12 allows less noise reduction than epsilon 2 at delta 1e-3.
    lax = LeakageLedger(path, max_epsilon=2.0, delta=1e-3)
    assert (LeakageLedger.open(path).delta, lax.max_epsilon) == (1e-3, 2.0)
    strict = LeakageLedger(path, max_epsilon=3.0, delta=1e-12)
    for ledger in (strict, lax, LeakageLedger.open(path)):
        with pytest.raises(LeakageBudgetError, match="at most epsilon 3 at delta 1e-12"):
            ledger.record("a", [1.0], mu=0.6)
    assert (LeakageLedger.open(path).delta, strict.max_epsilon) == (1e-12, 3.0)
    # The same ceiling, stated at another delta.
    allowed = strict.record("a", [1.0], mu=0.1).max_mu
    assert lax.max_epsilon == pytest.approx(gaussian_epsilon(allowed, 1e-3 - 1e-13))
    assert lax.max_epsilon < 2.0


def test_a_ceiling_is_kept_once(path):
    for leakage in (9.0, 9.0, 8.0, 8.5):
        LeakageLedger(path, max_leakage=leakage, units=1.0).record("a", [0.1])
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT max_leakage FROM ceiling ORDER BY id").fetchall()
    connection.close()
    assert rows == [(9.0,), (8.0,)]


@pytest.mark.parametrize("ceiling", [{"max_leakage": 1e300, "units": 1.0}, {"max_epsilon": 1e6}])
@pytest.mark.parametrize("mu", [None, np.inf, 0.1])
@pytest.mark.parametrize("aligned", [True, False])
def test_an_infinite_loss_passes_no_ceiling(ceiling, mu, aligned):
    ledger = LeakageLedger(":memory:", **ceiling)
    with pytest.raises(LeakageBudgetError, match="leaks without bound"):
        ledger.record("a", [1.0, np.inf], mu=mu, aligned=aligned)
    assert ledger.datasets() == []


@pytest.mark.parametrize("ceiling", [{"max_leakage": 1e300, "units": 1.0}, {"max_epsilon": 1e6}])
@pytest.mark.parametrize("aligned", [True, False])
def test_an_infinite_loss_stays_infinite_for_ever(path, ceiling, aligned):
    free = LeakageLedger(path, units=1.0)
    free.record("a", [np.inf, np.inf], mu=np.inf, aligned=aligned)
    for _ in range(3):
        total = LeakageLedger.open(path).record("a", [0.1, 0.1], mu=0.1)
        assert (total.fisher_information_loss == np.inf).all()
        assert (total.mu, total.epsilon) == (np.inf, np.inf)
    assert np.isinf(free.history()["composed_max_fisher_information_loss"]).all()
    LeakageLedger(path, **ceiling)
    with pytest.raises(LeakageBudgetError, match="this or an earlier release leaks without bound"):
        free.record("a", [0.0, 0.0], mu=0.0)
    free.record("b", [0.1], mu=0.1)


@pytest.mark.parametrize(
    "ceiling", [{}, {"max_leakage": 1e300, "units": 1.0}, {"max_epsilon": 1e6}]
)
@pytest.mark.parametrize("aligned", [True, False])
def test_an_unknown_loss_is_an_error_with_or_without_a_ceiling(ceiling, aligned):
    ledger = LeakageLedger(":memory:", **ceiling)
    message = "got nan. NaN is a loss that is not known, as after a fit that did not converge"
    with pytest.raises(ValueError, match=message):
        ledger.record("a", [1.0, np.nan], mu=0.1, aligned=aligned)
    with pytest.raises(ValueError, match="`mu` must be at least 0; got nan"):
        ledger.record("a", [1.0, 1.0], mu=np.nan, aligned=aligned)
    assert ledger.datasets() == []


def test_losses_beyond_the_largest_number_are_infinite(path):
    ledger = LeakageLedger(path)
    assert ledger.record("a", [1e200]).fisher_information_loss == [np.inf]
    with pytest.raises(LeakageBudgetError):
        LeakageLedger(path, max_epsilon=1e6).record("a", [1.0], mu=0.1)


def test_what_fails_is_taken_off_the_delta_of_epsilon(path):
    ledger = LeakageLedger(path, delta=1e-6)
    ledger.record("a", [1.0], mu=0.3, mu_delta=1e-7)
    total = ledger.record("a", [1.0], mu=0.4, mu_delta=2e-7)
    assert (total.mu, total.mu_delta) == (pytest.approx(0.5), pytest.approx(3e-7))
    assert total.epsilon == pytest.approx(gaussian_epsilon(0.5, 7e-7))
    # The best test of a release that fails openly and is Gaussian else, twice.
    curve = 3e-7 - 2e-14 + (1.0 - 3e-7) * gaussian_delta(0.5, total.epsilon)
    assert curve <= 1e-6
    assert ledger.mu_delta_left("a") == 0.0
    assert ledger.record("a", [1.0], mu=0.0, mu_delta=7e-7).epsilon > 0.0
    assert ledger.record("a", [1.0], mu=0.0, mu_delta=1e-8).epsilon == np.inf
    assert LeakageLedger(":memory:").record("b", [1.0], mu=0.0, mu_delta=1e-3).epsilon == np.inf
    history = ledger.history("a")
    assert history["mu_delta"].tolist() == [1e-7, 2e-7, 7e-7, 1e-8]
    np.testing.assert_allclose(history["composed_mu_delta"], [1e-7, 3e-7, 1e-6, 1.01e-6])
    for bad in (-1e-9, 1.0, np.nan):
        with pytest.raises(ValueError, match="`mu_delta`"):
            ledger.record("a", [1.0], mu=0.1, mu_delta=bad)


def test_a_tenth_of_delta_is_kept_for_what_fails(path):
    ledger = LeakageLedger(path, max_epsilon=3.0, delta=1e-6)
    assert ledger.mu_delta_left("a") == pytest.approx(1e-7)
    total = ledger.record("a", [1.0], mu=0.1, mu_delta=0.6e-7)
    assert total.max_mu_delta == pytest.approx(1e-7)
    assert total.max_mu == pytest.approx(mu_from_epsilon_delta(3.0, 0.9e-6))
    assert ledger.mu_delta_left("a") == pytest.approx(0.4e-7)
    with pytest.raises(LeakageBudgetError, match="`mu_delta` of all releases together"):
        ledger.record("a", [1.0], mu=0.0, mu_delta=0.5e-7)
    # All of both: the ceiling is kept, and nothing is left of it.
    full = float(np.sqrt(total.max_mu**2 - 0.01))
    assert ledger.record("a", [1.0], mu=full, mu_delta=0.4e-7).epsilon == pytest.approx(3.0)
    for more in ({"mu": 0.01}, {"mu": 0.0, "mu_delta": 1e-9}):
        with pytest.raises(LeakageBudgetError):
            ledger.record("a", [1.0], **more)
    # A ceiling that is laxer in mu, and leaves less to fail, binds in that.
    LeakageLedger(path, max_epsilon=30.0, delta=1e-9)
    assert ledger.mu_delta_left("b") == pytest.approx(1e-10)


def test_what_is_left_of_mu_does_not_pay_for_what_fails(path):
    """Whoever sees that a first release told little would buy failures with the mu that is left.

    Both ways spend no more than delta 0.01 at epsilon 2 when they are chosen beforehand, but the
    choice between them spends more. So each of the two has a ceiling of its own.
    """
    epsilon, delta = 2.0, 0.01
    mu = float(mu_from_epsilon_delta(epsilon, delta))
    first, step = mu / np.sqrt(2.0), 1e-3
    failing = delta - float(gaussian_delta(first, epsilon))
    loss = np.arange(-8.0, 8.0, step) * first + 0.5 * first**2
    mass = norm.pdf(loss, 0.5 * first**2, first) * step * first
    # Success less exp(epsilon) times false alarms, after a first release of that loss.
    rest = epsilon - loss
    curve = gaussian_delta(first, np.abs(rest))
    go_on = np.where(rest < 0.0, -np.expm1(rest) + np.exp(rest) * curve, curve)
    fail = failing + (1.0 - failing) * np.maximum(-np.expm1(rest), 0.0)
    assert (mass * go_on).sum() == pytest.approx(delta, rel=1e-3)
    assert (mass * fail).sum() <= delta * 1.001
    assert (mass * np.maximum(go_on, fail)).sum() > 1.3 * delta
    ledger = LeakageLedger(path, max_epsilon=epsilon, delta=delta)
    ledger.record("a", [1.0], mu=first)
    with pytest.raises(LeakageBudgetError, match="mu_delta"):
        ledger.record("a", [1.0], mu=0.0, mu_delta=failing)


def test_an_earlier_file_knows_nothing_that_fails(path):
    """Its rows and ceilings are read as they are, and the first release adds the columns."""
    LeakageLedger(path).record("a", [0.5, 0.1], mu=0.2)
    ledger = LeakageLedger(path, max_epsilon=3.0)
    ceiling = float(mu_from_epsilon_delta(3.0, 1e-6))
    values = ("2026-01-01T00:00:00+00:00", np.inf, 3.0, 1e-6, ceiling)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER ceiling_no_delete")
        connection.execute("DELETE FROM ceiling")
        connection.execute(
            f"INSERT INTO ceiling ({_CEILING}) VALUES (?, ?, ?, ?, ?, ?)",
            (*values, _digest(values)),
        )
        for column in ("mu_delta", "total_mu_delta"):
            connection.execute(f"ALTER TABLE release DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 3")
    connection.close()
    ledger = LeakageLedger.open(path)
    total = ledger.total("a")
    assert (total.mu, total.mu_delta, total.max_mu) == (0.2, 0.0, ceiling)
    assert ledger.history()["mu_delta"].tolist() == [0.0]
    assert ledger.mu_delta_left("a") < 1e-14
    with pytest.raises(LeakageBudgetError, match="mu_delta"):
        ledger.record("a", [0.5, 0.1], mu=0.2, mu_delta=1e-9)
    assert ledger.record("a", [0.5, 0.1], mu=0.2).mu == pytest.approx(0.2 * 2**0.5)
    assert ledger.history()["composed_mu_delta"].tolist() == [0.0, 0.0]


def test_a_loss_that_is_not_known_passes_ceilings_on_epsilon_alone():
    ledger = LeakageLedger(":memory:", max_epsilon=3.0)
    for number in (1, 2):
        total = ledger.record("a", None, mu=0.3)
        assert total.mu == pytest.approx(0.3 * number**0.5)
        assert np.all(np.isinf(total.fisher_information_loss))
    ledger.record("a", [0.1, 0.1, 0.2], mu=0.1)
    with pytest.raises(LeakageBudgetError, match="all releases together may spend"):
        ledger.record("a", None, mu=0.9)
    for losses, mu in [(None, None), (None, np.inf), ([np.inf], 0.1)]:
        with pytest.raises(LeakageBudgetError, match="leaks without bound"):
            ledger.record("b", losses, mu=mu)
    with pytest.raises(LeakageBudgetError, match="or not known"):
        LeakageLedger(":memory:", 1e300, 3.0, units=1.0).record("a", None, mu=0.1)


@pytest.mark.parametrize("first", [0.05, 0.2, 0.35])
def test_no_adaptive_adversary_passes_a_ceiling_on_epsilon(first):
    """The second release is chosen in view of the first; all that was left is taken, or less."""
    ledger = LeakageLedger(":memory:", max_epsilon=2.0, delta=1e-3)
    ledger.record("a", [1.0], mu=first)
    total = ledger.total("a")
    left = float(np.sqrt(total.max_mu**2 - first**2))
    with pytest.raises(LeakageBudgetError):
        ledger.record("a", [1.0], mu=1.001 * left)
    ledger.record("a", [1.0], mu=left)
    with pytest.raises(LeakageBudgetError):
        ledger.record("a", [1.0], mu=1e-3)
    assert ledger.total("a").epsilon <= 2.0
    # Of what comes first, with one record or the other, and the loss that it tells.
    x = np.linspace(-9.0, 9.0, 20_001)
    loss, weight = first * x + 0.5 * first**2, norm.pdf(x) * (x[1] - x[0])
    seconds = [left * (sign * x > cut) for sign in (1.0, -1.0) for cut in (-1.0, 0.0, 2.0)]
    seconds.append(left * np.abs(np.sin(3.0 * x)))
    for epsilon in (0.1, 0.5, 2.0):
        for mu in seconds:
            rest, low = epsilon - loss, np.minimum(epsilon - loss, 0.0)
            delta = -np.expm1(low) + np.exp(low) * gaussian_delta(mu, np.abs(rest))
            game = weight @ delta
            assert game <= gaussian_delta(total.max_mu, epsilon) * (1.0 + 1e-3)
            if epsilon == 2.0:
                assert game <= 1e-3
