"""Privacy accounting: sensitivity, Gaussian noise, composition, and a ledger of releases."""

from skleak.accounting._composition import (
    FisherAccountant,
    output_perturbation_sensitivity,
    tradeoff_curve,
)
from skleak.accounting.discrete import discrete_gaussian_epsilon
from skleak.accounting.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_scale,
    rdp,
)
from skleak.accounting.ledger._ledger import LeakageLedger
from skleak.accounting.subsampled import subsampled_gaussian_rdp
from skleak.utils import announce as _announce

__all__ = [
    "FisherAccountant",
    "LeakageLedger",
    "discrete_gaussian_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise_scale",
    "output_perturbation_sensitivity",
    "rdp",
    "subsampled_gaussian_rdp",
    "tradeoff_curve",
]

_announce(__name__)
