"""Reports of records in memory."""

from skleak.report.in_memory._build import MeasuredTable, build_leakage_report

__all__ = ["MeasuredTable", "build_leakage_report"]
