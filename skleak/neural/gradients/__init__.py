"""Clipped gradients of every record, and what they reveal of it: one interface of all models."""

from skleak.neural.gradients._base import (
    Clipping,
    Gradients,
    HardClipping,
    Part,
    Pullback,
    SmoothClipping,
    StepGradients,
    SumGrid,
    Weigh,
    add_parts,
    check_smooth,
    clipped_steps,
    make_clipping,
)
from skleak.neural.gradients._linear import LinearGradients

__all__ = [
    "Clipping",
    "Gradients",
    "HardClipping",
    "LinearGradients",
    "Part",
    "Pullback",
    "SmoothClipping",
    "StepGradients",
    "SumGrid",
    "Weigh",
    "add_parts",
    "check_smooth",
    "clipped_steps",
    "make_clipping",
]
