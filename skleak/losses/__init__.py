"""Losses with their derivatives in predictor space."""

from skleak.losses._pointwise import LogisticLoss, PointwiseLoss, PoissonLoss, SquaredLoss
from skleak.losses._softmax import SoftmaxLoss

__all__ = ["LogisticLoss", "PointwiseLoss", "PoissonLoss", "SoftmaxLoss", "SquaredLoss"]
