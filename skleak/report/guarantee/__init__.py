"""Guarantees of an output perturbation: of differential privacy, and for single records."""

from skleak.report.guarantee._individual import individual_obstacle, individual_privacy
from skleak.report.guarantee._output_perturbation import (
    DifferentialPrivacy,
    Promises,
    guarantee_obstacles,
    output_perturbation_guarantee,
    release_sensitivity,
    undeclared,
)

__all__ = [
    "DifferentialPrivacy",
    "Promises",
    "guarantee_obstacles",
    "individual_obstacle",
    "individual_privacy",
    "output_perturbation_guarantee",
    "release_sensitivity",
    "undeclared",
]
