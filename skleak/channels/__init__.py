"""Channels from a secret to what is released, and the Bayes-optimal attack on them."""

from skleak.channels._discrete import DiscreteChannel
from skleak.channels._randomized_response import RandomizedResponse
from skleak.channels.gaussian._channel import GaussianChannel
from skleak.channels.gaussian._unequal import UnequalGaussianChannel

__all__ = ["DiscreteChannel", "GaussianChannel", "RandomizedResponse", "UnequalGaussianChannel"]
