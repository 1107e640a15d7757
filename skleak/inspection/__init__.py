"""What a fitted pipeline tells about the columns that a person has, before they are encoded."""

from skleak.inspection._leakage import attribute_leakage, leakage_report
from skleak.inspection.scoring import LeakageFrame, make_leakage_scorer
from skleak.inspection.tradeoff import LeakageTradeoff, leakage_tradeoff
from skleak.utils import announce as _announce

__all__ = [
    "LeakageFrame",
    "LeakageTradeoff",
    "attribute_leakage",
    "leakage_report",
    "leakage_tradeoff",
    "make_leakage_scorer",
]

_announce(__name__)
