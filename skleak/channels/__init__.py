"""Channels from a secret to what is released, and the Bayes-optimal attack on them."""

from skleak.channels._base import Channel
from skleak.channels._discrete import DiscreteChannel
from skleak.channels._randomized_response import RandomizedResponse
from skleak.channels.gaussian import GaussianChannel, UnequalGaussianChannel

__all__ = [
    "Channel",
    "DiscreteChannel",
    "GaussianChannel",
    "RandomizedResponse",
    "UnequalGaussianChannel",
]
