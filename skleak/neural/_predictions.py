"""Predictions from the outputs of a model."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from skleak._released import ClassDecisionMixin
from skleak.utils._records import withholding
from skleak.utils._typing import FloatArray


class ClassPredictionMixin(ClassDecisionMixin):
    """Predict classes from ``_raw(X)``, one log-odds (n, 1) or a score for each class (n, K)."""

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that noise may spoil the scores."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds of the second of two classes, or the score of each of more.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        outputs: FloatArray = self._raw(X)
        if outputs.shape[1] == 1:
            return outputs[:, 0]
        return outputs[:, 1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs


class NumberPredictionMixin(RegressorMixin):
    """Predict the one output of ``_raw(X)``, (n, 1)."""

    score = withholding(RegressorMixin.score)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that noise may spoil the scores."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: Any) -> FloatArray:
        """Predict the target.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(self._raw(X)[:, 0])
