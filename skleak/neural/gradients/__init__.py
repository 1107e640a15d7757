"""Clipped gradients of every record, and what they reveal of it: one interface of all models."""

from skleak.neural.gradients._base import Gradients, Part, Weigh
from skleak.neural.gradients._clipping import Clipping, HardClipping, SmoothClipping, make_clipping

__all__ = [
    "Clipping",
    "Gradients",
    "HardClipping",
    "Part",
    "SmoothClipping",
    "Weigh",
    "make_clipping",
]
