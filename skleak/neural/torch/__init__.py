"""Clipped gradients of any torch module, and what they reveal of every record, by autograd.

The only package that imports torch when it is imported: enter it late, through
``import_optional``.
"""

from skleak.neural.torch._checks import Blank
from skleak.neural.torch._gradients import TorchGradients, build_module, find_device
from skleak.neural.torch._parts import numbers, plain_attention, unflattened

__all__ = [
    "Blank",
    "TorchGradients",
    "build_module",
    "find_device",
    "numbers",
    "plain_attention",
    "unflattened",
]
