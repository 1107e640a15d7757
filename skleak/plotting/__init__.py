"""Displays: numbers in the constructor, and ``plot`` that changes none of them."""

from skleak.plotting._audit import AuditDisplay
from skleak.plotting._canary import CanaryDisplay
from skleak.plotting._leakage import LeakageDisplay
from skleak.plotting._reconstruction import ReconstructionDisplay
from skleak.plotting._vulnerability import VulnerabilityDisplay
from skleak.utils import announce as _announce

__all__ = [
    "AuditDisplay",
    "CanaryDisplay",
    "LeakageDisplay",
    "ReconstructionDisplay",
    "VulnerabilityDisplay",
]

_announce(__name__)
