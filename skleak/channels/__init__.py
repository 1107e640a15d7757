"""Channels from a secret to what is released, and the Bayes-optimal attack on them."""

from skleak.channels._discrete import DiscreteChannel, RandomizedResponse
from skleak.channels.gaussian import GaussianChannel, UnequalGaussianChannel
from skleak.utils import announce as _announce

__all__ = ["DiscreteChannel", "GaussianChannel", "RandomizedResponse", "UnequalGaussianChannel"]

_announce(__name__)
