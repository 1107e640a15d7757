"""The pages of leakage reports, and how they are computed of a fitted model."""

from skleak.report.leakage._build import MeasuredTable, build_leakage_report

__all__ = ["MeasuredTable", "build_leakage_report"]
