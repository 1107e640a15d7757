"""What attacks on an attribute share: what they know, how they guess, how they are scored."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import chebyshev_nodes, maximize
from skleak.adversary.knowledge import (
    Secret,
    as_column,
    as_table,
    attribute_prior,
    find_secret,
    range_of_others,
    remember_columns,
    resolve_records,
    without_attribute,
)
from skleak.metrics import attack_success
from skleak.utils._blocks import row_blocks
from skleak.utils._confidential import ConfidentialMixin
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import (
    HasMethods,
    NoMetadataRequests,
    RawTableMixin,
    StrOptions,
)
from skleak.utils._typing import Array, FloatArray

# Entries of one table of log-likelihoods, releases x targets x values: 64 MB.
_TABLE_ELEMENTS = 1 << 23


def categorical_only(attack: Any) -> bool:
    """Return True if a fitted attack has a posterior: a quantity has a likeliest value only."""
    if getattr(attack, "numeric_", False):
        raise AttributeError(
            "A numeric attribute is guessed by maximum likelihood, which has no probabilities. "
            "Pass `values` to treat it as one of a few values."
        )
    return True


class AttributeAttack(ConfidentialMixin, NoMetadataRequests, RawTableMixin, BaseEstimator):
    """Guess one column of the training records, given all else about them.

    A subclass computes in `fit` what the adversary knows once and for all, and says in `_scores`
    how likely every candidate value makes a release.
    """

    attribute: Any
    values: Any
    prior: Any
    records: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "values": ["array-like", None],
        "prior": [
            StrOptions({"marginal", "uniform", "conditional"}),
            "array-like",
            HasMethods(["pdf", "ppf", "cdf"]),  # of a number
        ],
        "records": ["array-like", slice, None],
    }

    def _know(self, X: Any, y: Any) -> tuple[Any, Array, Secret]:
        """Validate the records and set what every attack on an attribute knows of them."""
        table, y, secret = self._read_table(X, y)
        self._remember(table, secret)
        if not secret.numeric:
            known = table if secret.is_target else without_attribute(table, secret.index)
            known_y = None if secret.is_target else y
            self.prior_ = attribute_prior(self.prior, known, known_y, secret, self.records_)
        return table, y, secret

    def _read_table(self, X: Any, y: Any) -> tuple[Any, Array, Secret]:
        table = as_table(X)
        y = self._check_target(y, table)
        return table, y, self._secret(table, y)

    def _secret(self, table: Any, y: Array) -> Secret:
        return find_secret(table, self.attribute, self.values)

    def _remember(self, table: Any, secret: Secret) -> None:
        """Set what is fitted but for the prior, and forget an earlier fit."""
        for name in ("prior_", "estimates_"):
            self.__dict__.pop(name, None)
        remember_columns(self, table)
        self.records_ = resolve_records(self.records, table.shape[0])
        self.numeric_ = secret.numeric
        if secret.values is None:
            self.values_ = chebyshev_nodes(*range_of_others(secret.column))[:, self.records_].T
        else:
            self.values_ = secret.values

    def _check_target(self, y: Any, table: Any) -> Array:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} needs `y`, the targets the model was trained on: the "
                "adversary knows them. Pass `fit(X, y)`."
            )
        return as_column(y, table)

    @property
    def _candidates(self) -> Array:
        """Candidate values, (n_values,) or (n_values, n_targets) for a quantity."""
        return self.values_.T

    @property
    def _table_width(self) -> int:
        """Entries of the table of log-likelihoods of one release."""
        return len(self.records_) * len(self._candidates)

    @abstractmethod
    @withholding
    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Learn what the adversary knows."""

    @abstractmethod
    def _read(self, released: Any, noise_scale: Any) -> tuple[Any, int, bool]:
        """Return the validated releases, their number, and whether a single one was given."""

    @abstractmethod
    def _read_each(self, released: Any, noise_scale: Any) -> tuple[Any, int]:
        """Return the validated releases, one for each target, and their number."""

    @abstractmethod
    def _scores(self, releases: Any, rows: slice) -> FloatArray:
        """Log-likelihoods under some of the releases, of shape (n_rows, n_targets, n_values).

        A constant for every release and target may be left out.
        """

    @abstractmethod
    def _scores_each(self, releases: Any, rows: slice) -> FloatArray:
        """Log-likelihoods likewise, of every target under releases of its own."""

    def predict(self, released: Any, noise_scale: Any = None) -> Array:
        """Guess the attribute of every target.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            What was released: a fitted or released model, or parameters of shape
            (n_parameters,) or (n_releases, n_parameters), coefficients then intercept.
        noise_scale : float or array-like of shape (n_releases,), default=None
            Standard deviation of the noise on every parameter. None takes what each released
            model states, and for arrays that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_releases, n_targets)
            The value of largest posterior probability; of a numeric attribute the likeliest.
        """
        self._fitted_numeric()
        return self._for_releases(self._guesses, released, noise_scale)

    def predict_each(self, released: Any, noise_scale: Any = None) -> Array:
        """Guess the attribute of every target from releases of its own.

        For games about one record at a time: its secret is drawn, the model is trained anew and
        released, and only that record is guessed.

        Parameters
        ----------
        released : array-like of shape (n_releases, n_targets, n_parameters)
            Parameters, coefficients then intercept; entry ``[r, i]`` of a game about target i.
        noise_scale : float or array-like of shape (n_releases,), default=None
            Standard deviation of the noise on every parameter; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_releases, n_targets)
            Entry ``[r, i]`` is ``predict(released[r, i])[i]``.

        Raises
        ------
        ValueError
            For another shape, values that are not finite, or a noise scale that is negative, of
            the wrong shape or not known.
        """
        self._fitted_numeric()
        releases, count = self._read_each(released, noise_scale)
        return np.concatenate(
            [
                self._guesses_each(releases, rows)
                for rows in row_blocks(count, self._table_width, _TABLE_ELEMENTS)
            ]
        )

    def _guesses(self, releases: Any, rows: slice) -> Array:
        """Guesses from some of the releases, (n_rows, n_targets)."""
        return self._guessed(self._scores(releases, rows))

    def _guesses_each(self, releases: Any, rows: slice) -> Array:
        """Guesses likewise, about every target from releases of its own."""
        return self._guessed(self._scores_each(releases, rows))

    def _guessed(self, scores: FloatArray) -> Array:
        return self._likeliest(scores) if self.numeric_ else self._most_probable(scores)

    def _fitted_numeric(self) -> bool:
        check_is_fitted(self, "values_")
        return self.numeric_

    def _for_releases(
        self, answer: Callable[[Any, slice], Array], released: Any, noise_scale: Any
    ) -> Array:
        """Answer about releases, some at a time so that the tables stay small."""
        releases, count, single = self._read(released, noise_scale)
        answers = [
            answer(releases, rows) for rows in row_blocks(count, self._table_width, _TABLE_ELEMENTS)
        ]
        return answers[0][0] if single else np.concatenate(answers)

    def _log_posterior(self, scores: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return scores + np.log(self.prior_)

    def _most_probable(self, scores: FloatArray) -> Array:
        return self.values_[self._log_posterior(scores).argmax(axis=-1)]

    def _likeliest(self, scores: FloatArray) -> FloatArray:
        n_releases, n_targets, n_nodes = scores.shape
        flat = scores.reshape(-1, n_nodes)
        best = np.empty(len(flat))
        for rows in row_blocks(len(flat), 8 * n_nodes, _TABLE_ELEMENTS):
            best[rows] = maximize(flat[rows])
        low, high = self.values_.min(axis=1), self.values_.max(axis=1)
        return low + (high - low) * 0.5 * (best.reshape(n_releases, n_targets) + 1.0)

    @available_if(categorical_only)
    def predict_proba(self, released: Any, noise_scale: Any = None) -> FloatArray:
        """Posterior probability of every candidate value.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            As in `predict`.
        noise_scale : float or array-like of shape (n_releases,), default=None
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_targets, n_values) or (n_releases, n_targets, n_values)
            In the order of ``values_``; sums to 1.
        """
        check_is_fitted(self, "values_")

        def posterior(releases: Any, rows: slice) -> FloatArray:
            scores = self._log_posterior(self._scores(releases, rows))
            return np.asarray(softmax(scores, axis=-1))

        return self._for_releases(posterior, released, noise_scale)

    @withholding
    def score(self, released: Any, truth: Any, noise_scale: Any = None) -> float:
        """Success of the guesses, averaged over targets and releases.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            As in `predict`.
        truth : array-like of shape (n_targets,)
            True values of the targets.
        noise_scale : float or array-like of shape (n_releases,), default=None
            As in `predict`.

        Returns
        -------
        float
            Share of right guesses; of a numeric attribute the coefficient of determination.

        Raises
        ------
        ValueError
            Where there is not one true value for each target, or one is missing.
        TypeError
            Where guesses and true values are of different kinds, such as strings and numbers.
        """
        guesses = np.atleast_2d(self.predict(released, noise_scale))
        truth = column_or_1d(np.asarray(truth))
        if len(truth) != guesses.shape[1]:
            raise ValueError(
                f"`truth` must hold the true value of each of the {guesses.shape[1]} targets; "
                f"got {len(truth)}. Select them with `records_`."
            )
        if self.numeric_:
            return float(np.mean([r2_score(truth, guess) for guess in guesses]))
        try:
            return float(np.mean(attack_success(guesses, truth)))
        except TypeError:
            raise TypeError(
                f"`truth` must hold values of the kind of the guesses, such as "
                f"{self.values_.tolist()[0]!r}; got {truth.tolist()[0]!r}, and no guess could be "
                "right. Pass the raw column that the attack was fitted on."
            ) from None
