"""Lower bounds on the squared error of whoever reconstructs numbers."""

from skleak.bounds.errors._bayes_risk import bayes_mse
from skleak.bounds.errors._cramer_rao import (
    cramer_rao_mse,
    fisher_information_loss_mse,
    hammersley_chapman_robbins_mse,
)
from skleak.bounds.errors._van_trees import van_trees_mse

__all__ = [
    "bayes_mse",
    "cramer_rao_mse",
    "fisher_information_loss_mse",
    "hammersley_chapman_robbins_mse",
    "van_trees_mse",
]
