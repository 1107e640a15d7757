"""What a ledger tells about a data set."""

from dataclasses import dataclass

from skleak.accounting._gaussian import gaussian_epsilon
from skleak.utils._typing import FloatArray


@dataclass(frozen=True, eq=False)
class LeakageTotal:
    """Leakage of all recorded releases on one data set together. Confidential.

    Attributes
    ----------
    dataset : str
        Name of the data set.
    n_releases : int
        Number of releases.
    fisher_information_loss : ndarray of shape (n_records,)
        Bound on the composed Fisher information loss of each record, ``sqrt(sum eta^2)``; of
        shape (1,), one bound for all records, where every release was unaligned.
    mu : float
        mu of the composed mu-GDP guarantee; infinite once a release had none.
    mu_delta : float
        Delta up to which that holds: no test has a power above that of mu-GDP by more.
    delta : float
        The delta at which :attr:`epsilon` states the same guarantee; that of the ledger.
    max_leakage, max_mu, max_mu_delta : float
        The strictest ceilings of the ledger, infinite where there is none; a ceiling on epsilon
        is held as the mu it allows at nine tenths of its delta, and the rest for `mu_delta`.

    Examples
    --------
    >>> from skleak.accounting import LeakageLedger
    >>> ledger = LeakageLedger(":memory:")
    >>> ledger.record("clinic", [3.0, 1.0], mu=0.3).n_releases
    1
    """

    dataset: str
    n_releases: int
    fisher_information_loss: FloatArray
    mu: float
    mu_delta: float
    delta: float
    max_leakage: float
    max_mu: float
    max_mu_delta: float

    @property
    def epsilon(self) -> float:
        """The guarantee as epsilon at ``delta``, in nats; infinite where `mu_delta` passes that."""
        return epsilon_at(self.mu, self.mu_delta, self.delta)


def epsilon_at(mu: float, mu_delta: float, delta: float) -> float:
    """Epsilon at delta of what is mu-GDP up to `mu_delta`."""
    return float("inf") if mu_delta > delta else float(gaussian_epsilon(mu, delta - mu_delta))
