"""What a fitted pipeline tells about the columns that a person has, before they are encoded."""

from skleak.inspection._leakage import attribute_leakage, leakage_report
from skleak.inspection.scoring import LeakageFrame, make_leakage_scorer
from skleak.utils import announce as _announce

__all__ = ["LeakageFrame", "attribute_leakage", "leakage_report", "make_leakage_scorer"]

_announce(__name__)
