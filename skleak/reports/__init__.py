"""Leakage reports: frozen numbers, sentences about them, and renderers that compute nothing."""

from skleak.reports._leakage_report import LeakageReport
from skleak.reports._person import PersonReport
from skleak.reports.guarantee import DifferentialPrivacy, Promises

__all__ = ["DifferentialPrivacy", "LeakageReport", "PersonReport", "Promises"]
