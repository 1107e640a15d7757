"""Predictions from the outputs of a model."""

from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from skleak.utils._typing import Array, FloatArray


class ClassPredictionMixin(ClassifierMixin):
    """Predict classes from ``_raw(X)``, one log-odds (n, 1) or a score for each class (n, K)."""

    classes_: Array

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

    def predict(self, X: Any) -> Array:
        """Predict the class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        decision = self.decision_function(X)
        chosen = decision.argmax(axis=1) if decision.ndim == 2 else (decision > 0.0).astype(int)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return np.column_stack([expit(-decision), expit(decision)])
        return np.asarray(softmax(decision, axis=1))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return np.column_stack([log_expit(-decision), log_expit(decision)])
        return np.asarray(log_softmax(decision, axis=1))


class NumberPredictionMixin(RegressorMixin):
    """Predict the one output of ``_raw(X)``, (n, 1)."""

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
