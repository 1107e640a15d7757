"""Leakage reports: frozen numbers, sentences about them, and renderers that compute nothing."""

from skleak.reports._build import MeasuredTable, build_leakage_report
from skleak.reports._guarantee import (
    DifferentialPrivacy,
    Promises,
    guarantee_obstacles,
    output_perturbation_guarantee,
    release_sensitivity,
)
from skleak.reports._histogram import loss_histogram
from skleak.reports._individual import individual_obstacle, individual_privacy
from skleak.reports._leakage_report import LeakageReport
from skleak.reports._person import PersonReport

__all__ = [
    "DifferentialPrivacy",
    "LeakageReport",
    "MeasuredTable",
    "PersonReport",
    "Promises",
    "build_leakage_report",
    "guarantee_obstacles",
    "individual_obstacle",
    "individual_privacy",
    "loss_histogram",
    "output_perturbation_guarantee",
    "release_sensitivity",
]
