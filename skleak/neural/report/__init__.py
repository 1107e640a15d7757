"""The leakage report of private stochastic gradient descent."""

from skleak.neural.report._build import ABOUT, Trained, build_report
from skleak.neural.report._report import PrivateSGDReport

__all__ = ["ABOUT", "PrivateSGDReport", "Trained", "build_report"]
