"""Losses with their derivatives in predictor space. Internal."""

from skleak.losses._pointwise import LogisticLoss as LogisticLoss
from skleak.losses._pointwise import PointwiseLoss as PointwiseLoss
from skleak.losses._pointwise import PoissonLoss as PoissonLoss
from skleak.losses._pointwise import SquaredLoss as SquaredLoss
from skleak.losses._softmax import SoftmaxLoss as SoftmaxLoss
