"""What a fitted pipeline tells about the columns that a person has, before they are encoded."""

from skleak.inspection._attribute_leakage import attribute_leakage

__all__ = ["attribute_leakage"]
