"""Attribute inference from predictions alone."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from skleak.attacks._base import AttributeAttack
from skleak.attacks._encodings import (
    candidate_rows,
    check_smooth,
    fit_public_model,
    plain_table,
)
from skleak.attacks._knowledge import take_rows, with_attribute
from skleak.attacks._models import Shell, fit_shell, models_with
from skleak.attacks._releases import count_releases, is_model, read_each, read_releases
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._sklearn_compat import HasMethods, StrOptions, fit_context
from skleak.utils._typing import Array, FloatArray

__all__ = ["BlackBoxAttributeInference"]


class BlackBoxAttributeInference(AttributeAttack):
    """Guess an attribute from predictions: model inversion with performance statistics ([F14]).

    The adversary knows all else about the target, its true `y`, and how good the model is. It
    asks the model what it predicts under every candidate value, and guesses

        argmax_m  p_m * Pr(y | prediction under value m) ,

    where the probability is Gaussian with the spread of the residuals for a regression, and
    read off the confusion matrix for a classifier, both over all *other* records.

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model is trained. Only its preprocessing is used, and the kind of model where
        releases are arrays of parameters. It is never changed.
    attribute : str or int
        Sensitive column of the raw data, by name or position.
    criterion : {"performance"}, default="performance"
        What tells the candidates apart: the performance statistics of [F14].
    values : array-like of shape (n_values,) or None, default=None
        Candidate values, as in `WhiteBoxAttributeInference`.
    prior : {"marginal", "uniform", "conditional"} or array, default="marginal"
        Prior of a categorical attribute, as in `WhiteBoxAttributeInference`.
    targets : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending; for a numeric attribute as in `WhiteBoxAttributeInference`.
    prior_ : ndarray of shape (n_targets, n_values)
        Prior of every target; only for a categorical attribute.
    targets_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    numeric_ : bool
        Whether the attribute is a quantity.
    n_features_in_ : int
        Number of raw columns.
    feature_names_in_ : ndarray of str
        Their names, where there are any.

    Notes
    -----
    Only ``predict`` of a release is called: of a pipeline on raw records, of any other model
    on records that went through the fitted preprocessing, which counts as public. The spread
    of the residuals and the confusion matrix leave out the target itself. The correlation of
    the attribute with `y`, which this attack uses, is known of the population: compare it with
    `ImputationAttack`.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(0, 2, 200), rng.normal(size=200)])
    >>> y = X @ [3.0, 1.0] + rng.normal(size=200)
    >>> model = PrivateLinearRegression(noise_scale=0.01, random_state=0).fit(X, y)
    >>> attack = BlackBoxAttributeInference(model, 0).fit(X, y)
    >>> attack.score(model, X[:, 0]) > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AttributeAttack._parameter_constraints,
        "estimator": [HasMethods(["fit", "get_params"])],
        "criterion": [StrOptions({"performance"})],
    }

    def __init__(
        self,
        estimator: Any,
        attribute: Any,
        *,
        criterion: Literal["performance"] = "performance",
        values: Any = None,
        prior: "Literal['marginal', 'uniform', 'conditional'] | Array" = "marginal",
        targets: Any = None,
    ) -> None:
        self.estimator = estimator
        self.attribute = attribute
        self.criterion = criterion
        self.values = values
        self.prior = prior
        self.targets = targets

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> Self:
        """Prepare the queries.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw training records.
        y : array-like of shape (n,)
            Targets the model was trained on.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown or single-valued attribute, missing values in it, more than 64
            categories, or a wrong prior.
        AttackNotApplicableError
            For a numeric attribute that the preprocessing bins.
        """
        table, y, secret = self._know(X, y)
        model = fit_public_model(self.estimator, table, y, any_covariance=True)
        if secret.numeric:
            check_smooth(model, table, self.targets_, secret.index, self._candidates)
        own = take_rows(table, self.targets_)
        self._model, self._y = model, y
        # Every query twice: as a pipeline takes it, and as a bare model does.
        self._raw = [table, *(with_attribute(own, secret.index, v) for v in self._candidates)]
        self._encoded = [
            model.transform(table),
            *candidate_rows(model, table, self.targets_, secret.index, self._candidates),
        ]
        return self

    def _read(self, released: Any, noise_scale: Any) -> tuple[list[Any], int, bool]:
        single = count_releases(released) is None
        if is_model(released):
            models = [released]
        elif len(released) and is_model(released[0]):
            models = list(released)
        else:
            shell = self._shell()
            parameters = read_releases(released, shell.n_parameters, None, 0.0).parameters
            models = list(models_with(shell, parameters))
        return models, len(models), single

    def _read_each(self, released: Any, noise_scale: Any) -> tuple[tuple[Shell, FloatArray], int]:
        shell = self._shell()
        n_targets, width = len(self.targets_), shell.n_parameters
        parameters = read_each(released, n_targets, width, None, 0.0).parameters
        return (shell, parameters), len(parameters)

    def _shell(self) -> Shell:
        return fit_shell(self._model, self._encoded[0], self._y)

    def _scores(self, releases: Sequence[Any], rows: slice) -> FloatArray:
        return np.stack([self._scores_of(model) for model in releases[rows]])

    def _scores_of(self, model: Any) -> FloatArray:
        """Of one release, (n_targets, n_values)."""
        queries = self._raw if isinstance(model, Pipeline) else self._encoded
        predictions = [np.asarray(model.predict(query)) for query in queries]
        known, own = predictions[0], np.stack(predictions[1:], axis=1)
        return self._performance(model, known, own, self.targets_)

    def _scores_each(self, releases: tuple[Shell, FloatArray], rows: slice) -> FloatArray:
        shell, parameters = releases
        scores = np.empty((rows.stop - rows.start, len(self.targets_), len(self._candidates)))
        known = self._encoded[0]
        for i in range(len(self.targets_)):
            own = _stacked([take_rows(table, np.array([i])) for table in self._encoded[1:]])
            for r, model in enumerate(models_with(shell, parameters[rows, i])):
                scores[r, i] = self._performance(
                    model, model.predict(known), model.predict(own)[None, :], self.targets_[[i]]
                )
        return scores

    def _performance(self, model: Any, known: Array, own: Array, targets: Array) -> FloatArray:
        """Log-likelihoods of candidate predictions, (n_targets, n_values)."""
        if not is_classifier(model):
            return _gaussian_performance(self._y, known, own, targets)
        if self.numeric_:
            raise AttackNotApplicableError(
                "A classifier's predictions are labels, constant over ranges of a numeric "
                "attribute: none of its values is likeliest. Pass the values to choose from in "
                "`values`, or use WhiteBoxAttributeInference."
            )
        return _confusion_performance(self._y, known, own, targets)


def _gaussian_performance(
    y: FloatArray, known: FloatArray, own: FloatArray, targets: Array
) -> FloatArray:
    """Log-density of each target's `y` around its candidate predictions, but for a constant."""
    squares = (y - known) ** 2
    variance = (squares.sum() - squares[targets]) / (len(y) - 1)
    variance = np.maximum(variance, np.finfo(float).tiny)
    return -0.5 * (y[targets, None] - own) ** 2 / variance[:, None]


def _confusion_performance(y: Array, known: Array, own: Array, targets: Array) -> FloatArray:
    """Log-probability of each target's label given each candidate prediction.

    Read off the confusion matrix of the other records; one imagined record for each predicted
    label is spread evenly over the true ones, so that nothing is impossible.
    """
    # By hashing, not sorting: labels may be strings, and there are many at every release.
    codes, classes = pd.factorize(np.concatenate([y, known, own.ravel()]))
    k, n = len(classes), len(y)
    true, predicted = codes[:n], codes[n : 2 * n]
    candidate = codes[2 * n :].reshape(own.shape)
    confusion = np.bincount(true * k + predicted, minlength=k * k).reshape(k, k)
    label = true[targets, None]
    itself = (candidate == predicted[targets, None]).astype(np.float64)
    hits = confusion[label, candidate] - itself
    all_ = confusion.sum(axis=0)[candidate] - itself
    return np.log((hits + 1.0 / k) / (all_ + 1.0))


def _stacked(rows: Sequence[Any]) -> Any:
    """One row under another, as sparse or as dense as they are."""
    tables = [plain_table(row) for row in rows]
    return sparse.vstack(tables) if sparse.issparse(tables[0]) else np.concatenate(tables)
