"""The Gaussian channel: reduction, decision cells, integrals."""

from skleak.channels.gaussian._cells import hull_coordinates
from skleak.channels.gaussian._channel import GaussianChannel
from skleak.channels.gaussian._integrals import failure_bound
from skleak.channels.gaussian._unequal import UnequalGaussianChannel

__all__ = ["GaussianChannel", "UnequalGaussianChannel", "failure_bound", "hull_coordinates"]
