"""Kinds of noise: the shape of its covariance by a public rule."""

from abc import ABC, abstractmethod

import numpy.typing as npt
from sklearn.base import BaseEstimator


class NoiseKind(BaseEstimator, ABC):
    """Shape of the noise by a public rule: derive from it, and pass it as ``noise_covariance``.

    All that holds for a matrix given by hand holds for it: leakage, reports, attacks and audits
    take its covariance into account, and a release states that one was given. The rule must not
    read the training records: what a covariance that does would leak is not counted.

    See Also
    --------
    skleak.influence.minimax_shape : The shape with the smallest largest leakage, of public records.

    Examples
    --------
    Noise that all coefficients share in part:

    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> class Shared(NoiseKind):
    ...     def __init__(self, share=0.5):
    ...         self.share = share
    ...
    ...     def covariance(self, n_parameters):
    ...         own = (1.0 - self.share) * np.eye(n_parameters)
    ...         return own + np.full((n_parameters, n_parameters), self.share)
    >>> X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], [0.0, 1.0, 3.0]
    >>> model = PrivateLinearRegression(0.1, noise_covariance=Shared(0.2)).fit(X, y)
    >>> model.fisher_information_loss().shape
    (3,)
    """

    @abstractmethod
    def covariance(self, n_parameters: int) -> npt.ArrayLike:
        """Return the covariance up to a factor.

        Parameters
        ----------
        n_parameters : int
            p, the number of coefficients and the intercept, which comes last.

        Returns
        -------
        array-like of shape (p, p)
            Symmetric positive definite; scaled to a trace of p by the estimator.
        """
