"""Clipped gradients of every record, and what they reveal of it: one interface of all models."""

from skleak.neural.gradients._base import Gradients, Part, Weigh, add_parts
from skleak.neural.gradients._clipping import (
    Clipping,
    HardClipping,
    SmoothClipping,
    check_smooth,
    make_clipping,
)
from skleak.neural.gradients._exact import SumGrid
from skleak.neural.gradients._linear import LinearGradients

__all__ = [
    "Clipping",
    "Gradients",
    "HardClipping",
    "LinearGradients",
    "Part",
    "SmoothClipping",
    "SumGrid",
    "Weigh",
    "add_parts",
    "check_smooth",
    "make_clipping",
]
