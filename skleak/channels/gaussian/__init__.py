"""The Gaussian channel: reduction, decision cells, integrals."""

from skleak.channels.gaussian._channel import GaussianChannel
from skleak.channels.gaussian._unequal import UnequalGaussianChannel

__all__ = ["GaussianChannel", "UnequalGaussianChannel"]
