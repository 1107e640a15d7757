"""What a fitted pipeline tells about the columns that a person has, before they are encoded."""

from skleak.inspection._attribute_leakage import attribute_leakage
from skleak.inspection._leakage_report import leakage_report
from skleak.inspection._raw_problem import RawProblem

__all__ = ["RawProblem", "attribute_leakage", "leakage_report"]
