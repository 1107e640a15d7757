"""The confidential state of a fit, and leakage at every grain computed from it."""

from skleak.influence.state._state import FitState

__all__ = [
    "FitState",
]
