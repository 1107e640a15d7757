"""Clipped gradients of any torch module, and what they reveal of every record, by autograd.

The only package that imports torch when it is imported: enter it late, through
``import_optional``.
"""

from skleak.neural.torch._blank import Blank
from skleak.neural.torch._build import build_module, torch_gradients
from skleak.neural.torch._gradients import TorchGradients
from skleak.neural.torch._rows import numbers

__all__ = ["Blank", "TorchGradients", "build_module", "numbers", "torch_gradients"]
