"""Leakage reports: frozen numbers, sentences about them, and renderers that compute nothing."""

from skleak.reports._build import build_leakage_report
from skleak.reports._guarantee import (
    DifferentialPrivacy,
    Promises,
    guarantee_obstacles,
    output_perturbation_guarantee,
    release_sensitivity,
)
from skleak.reports._individual import individual_obstacle, individual_privacy
from skleak.reports._leakage_report import LeakageReport

__all__ = [
    "DifferentialPrivacy",
    "LeakageReport",
    "Promises",
    "build_leakage_report",
    "guarantee_obstacles",
    "individual_obstacle",
    "individual_privacy",
    "output_perturbation_guarantee",
    "release_sensitivity",
]
