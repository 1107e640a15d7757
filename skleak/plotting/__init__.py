"""Displays: numbers in the constructor, and ``plot`` that changes none of them."""

from skleak.plotting._audit import AuditDisplay
from skleak.plotting._bounds import BoundLadderDisplay
from skleak.plotting._canary import CanaryDisplay
from skleak.plotting._fano_curves import FanoCurvesDisplay
from skleak.plotting._gain import AttributeGainDisplay
from skleak.plotting._inline import inline_svg
from skleak.plotting._leakage import LeakageDisplay
from skleak.plotting._reconstruction import ReconstructionDisplay
from skleak.plotting._vulnerability import VulnerabilityDisplay

__all__ = [
    "AttributeGainDisplay",
    "AuditDisplay",
    "BoundLadderDisplay",
    "CanaryDisplay",
    "FanoCurvesDisplay",
    "LeakageDisplay",
    "ReconstructionDisplay",
    "VulnerabilityDisplay",
    "inline_svg",
]
