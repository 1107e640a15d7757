"""Privacy accounting: sensitivity, Gaussian noise, composition, and a ledger of releases."""

from skleak.accounting._composition import (
    FisherAccountant,
    compose_fisher_information_loss,
    compose_gdp,
    compose_rdp,
)
from skleak.accounting._discrete import (
    discrete_gaussian_cover,
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    discrete_gaussian_mu,
    discrete_gaussian_rho,
    discrete_gaussian_total_variation,
    discretized_epsilon,
    rounded_sensitivity,
)
from skleak.accounting._gaussian import (
    gaussian_delta,
    gaussian_dp,
    gaussian_epsilon,
    gaussian_noise_scale,
    mu_from_epsilon_delta,
    rdp,
)
from skleak.accounting._sensitivity import output_perturbation_sensitivity
from skleak.accounting._subsampled import (
    subsampled_gaussian_epsilon,
    subsampled_gaussian_mu,
    subsampled_gaussian_tradeoff,
)
from skleak.accounting._subsampled_fisher import subsampled_fisher_factors
from skleak.accounting._subsampled_renyi import subsampled_gaussian_rdp
from skleak.accounting._tradeoff_curve import tradeoff_curve
from skleak.accounting.ledger._ledger import LeakageLedger
from skleak.accounting.ledger._total import LeakageTotal

__all__ = [
    "FisherAccountant",
    "LeakageLedger",
    "LeakageTotal",
    "compose_fisher_information_loss",
    "compose_gdp",
    "compose_rdp",
    "discrete_gaussian_cover",
    "discrete_gaussian_delta",
    "discrete_gaussian_epsilon",
    "discrete_gaussian_mu",
    "discrete_gaussian_rho",
    "discrete_gaussian_total_variation",
    "discretized_epsilon",
    "gaussian_delta",
    "gaussian_dp",
    "gaussian_epsilon",
    "gaussian_noise_scale",
    "mu_from_epsilon_delta",
    "output_perturbation_sensitivity",
    "rdp",
    "rounded_sensitivity",
    "subsampled_fisher_factors",
    "subsampled_gaussian_epsilon",
    "subsampled_gaussian_mu",
    "subsampled_gaussian_rdp",
    "subsampled_gaussian_tradeoff",
    "tradeoff_curve",
]
