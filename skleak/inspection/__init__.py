"""What a fitted pipeline tells about the columns that a person has, before they are encoded."""

from skleak.inspection._attribute_leakage import attribute_leakage
from skleak.inspection._leakage_report import leakage_report
from skleak.inspection._raw_problem import RawProblem
from skleak.inspection.scoring._frame import LeakageFrame
from skleak.inspection.scoring._scorer import LeakageScorer, make_leakage_scorer

__all__ = [
    "LeakageFrame",
    "LeakageScorer",
    "RawProblem",
    "attribute_leakage",
    "leakage_report",
    "make_leakage_scorer",
]
