"""Attributes from all else about the record, without the model and together with its answers."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from scipy.optimize import nnls
from scipy.special import log_softmax
from sklearn.utils.metaestimators import available_if

from skleak.adversary.hypotheses import PublicModel
from skleak.adversary.knowledge import (
    Population,
    Secret,
    any_secret,
    column_names,
    evenly,
    folds,
    means_of_others,
)
from skleak.adversary.models import check_each, count_releases
from skleak.adversary.numbers import number_prior
from skleak.adversary.shadow import logit_weights
from skleak.attacks._attribute import AttributeAttack, has_posterior
from skleak.attacks._black_box import BlackBoxAttributeInference
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._predictions import classifies
from skleak.utils._records import is_target
from skleak.utils._typing import Array, FloatArray, IntArray


@dataclass(eq=False, repr=False)
class _Baseline(AttributeAttack):
    """An attack that does not look at the release."""

    attribute: Any = None

    def _learn(self, table: Any, y: Array, everyone: Population, weights: Any) -> None:
        """Nothing of the model."""

    def _secret(self, table: Any, y: Any) -> Secret:
        return any_secret(table, y, self.attribute, self.values)

    @classmethod
    def _of_prior(cls, values: Array, prior: FloatArray) -> Self:
        """Return a fitted attack that guesses by given probabilities, (n_targets, n_values)."""
        attack = cls()
        attack.records_, attack.numeric_ = np.arange(len(prior)), False
        attack.values_, attack.prior_ = values, prior
        return attack

    def _check_target(self, y: Any, table: Any) -> Any:
        secret = self.attribute is None or is_target(self.attribute, column_names(table))
        if y is None and not secret:
            return None
        return super()._check_target(y, table)

    def predict(self, released: Any = None, noise_scale: Any = None) -> Array:
        """Guess the attribute of every target, without looking at the release.

        Parameters
        ----------
        released : estimator, pipeline, list of them, array or None, default=None
            Only the number of releases is looked at.
        noise_scale : object, default=None
            Ignored.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_releases, n_targets)
        """
        return super().predict(released, noise_scale)

    @available_if(has_posterior)
    def predict_proba(self, released: Any = None, noise_scale: Any = None) -> FloatArray:
        """Return the probability of every candidate value, without looking at the release.

        Parameters
        ----------
        released : estimator, pipeline, list of them, array or None, default=None
            Only the number of releases is looked at.
        noise_scale : object, default=None
            Ignored.

        Returns
        -------
        ndarray of shape (n_targets, n_values) or (n_releases, n_targets, n_values)
        """
        return super().predict_proba(released, noise_scale)

    def _read(self, released: Any, noise_scale: Any, each: int | None) -> tuple[None, int, bool]:
        if each is not None:
            return None, len(check_each(released, each)), False
        count = count_releases(released)
        return None, 1 if count is None else count, count is None

    def _scores(self, releases: None, rows: slice) -> FloatArray:
        n_values = 0 if self.numeric_ else len(self.values_)
        return np.zeros((rows.stop - rows.start, len(self.records_), n_values))

    def _likeliest(self, scores: FloatArray) -> FloatArray:
        """Estimates of a number, where other attacks have likeliest values."""
        return np.array(np.broadcast_to(self.estimates_, scores.shape[:2]))


@dataclass(eq=False, repr=False)
class PriorAttack(_Baseline):
    """Guess the likeliest value of the prior: the first baseline, without the model.

    Parameters
    ----------
    attribute : str, int or None, default=None
        Sensitive column of the raw data, by name or position. None and "(target)" take `y` as the
        secret.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values; None takes those that occur.
    prior : {"marginal", "uniform", "conditional"} or array, default="marginal"
        As in `WhiteBoxAttributeInference`; for a number as in `PosteriorMeanReconstruction`.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending.
    prior_ : ndarray of shape (n_targets, n_values)
        Prior of every target, which its own value does not enter.
    estimates_ : ndarray of shape (n_targets,)
        For a numeric attribute the mean of its prior: of the other records by default.
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.column_stack([[0, 0, 0, 1, 1], [1.0, 2.0, 3.0, 4.0, 5.0]])
    >>> attack = PriorAttack(0).fit(X)
    >>> attack.predict()
    array([0., 0., 0., 0., 0.])
    >>> attack.prior_[0]
    array([0.5, 0.5])
    """

    _games = "each"

    _: KW_ONLY
    prior: "Literal['marginal', 'uniform', 'conditional'] | Array" = "marginal"

    def _learn_prior(self, everyone: Population) -> None:
        if not self.numeric_:
            super()._learn_prior(everyone)
        elif isinstance(self.prior, str) and self.prior == "marginal":
            column, places = everyone.others(everyone.secret.column)
            self.estimates_ = means_of_others(column)[places]
        else:
            self.estimates_ = number_prior(self.prior, everyone).mean


@dataclass(eq=False, repr=False)
class ImputationAttack(_Baseline):
    """Guess from all else about the record, without the model: the second baseline.

    A classifier learns the attribute from the other columns and the target of the model, and
    guesses it for records of other folds. What it gets right is known of the population, and
    is no leakage of the model: an attack leaks only what it gains over it.

    Parameters
    ----------
    attribute : str, int or None, default=None
        Sensitive column of the raw data, by name or position. None and "(target)" take `y` as the
        secret.
    classifier : classifier or None, default=None
        Unfitted, with ``predict_proba``; it is cloned for every fold, and takes the other columns
        (and the target, last) as a DataFrame. None takes logistic regression on imputed and
        scaled numbers and one-hot encoded categories. For a numeric attribute a regressor;
        None takes ridge regression.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values; None takes those that occur.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending.
    prior_ : ndarray of shape (n_targets, n_values)
        Probabilities given all else about the target, from classifiers that did not see it: the
        conditional prior of the game of [FANO23].
    estimates_ : ndarray of shape (n_targets,)
        For a numeric attribute: the guess itself.
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> known = rng.normal(size=100)
    >>> X = np.column_stack([known > 0, known])
    >>> attack = ImputationAttack(0).fit(X)
    >>> attack.score(None, X[:, 0]) > 0.9
    True
    """

    _games = "each"

    _: KW_ONLY
    classifier: Any = None

    def _learn_prior(self, everyone: Population) -> None:
        if self.numeric_:
            self.estimates_ = everyone.imputed(self.classifier)[everyone.targets]
        else:
            self.prior_ = everyone.conditional_prior(self.classifier)[everyone.targets]


# Records whose secrets teach the weights, which are few, at most.
_TAUGHT = 2000
# Log-likelihoods are cut here, so that no record decides alone; widths of residuals.
_LEAST, _NARROW = -8.0, 0.1


@dataclass(eq=False, repr=False)
class CombinedAttributeInference(AttributeAttack):
    """Guess an attribute from the other columns and the model's answers together.

    Imputation says how likely every value is given the other columns, with the target of the model
    and without it; the model says how well its answer fits the target under every value. The score
    of a value is a sum of these logarithms with weights that are not negative, and which other
    records teach: what the target tells of the secret is in two of them, and counts once. (A
    black box with the probabilities of imputation as its prior counts it twice.)

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model is trained, as in `BlackBoxAttributeInference`.
    attribute : str or int
        Sensitive column of the raw data, by name or position.
    classifier : classifier or None, default=None
        That imputes the attribute, as in `ImputationAttack`; of a number a regressor.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values, as in `WhiteBoxAttributeInference`.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending; for a numeric attribute as in `WhiteBoxAttributeInference`.
    prior_ : ndarray of shape (n_targets, n_values)
        Frequencies of the values among the records of other folds; only for a categorical
        attribute.
    imputed_ : ndarray of shape (n_targets,)
        What imputation guesses without the model.
    records_, numeric_ : ndarray of int of shape (n_targets,), bool
        Positions of the records under attack; True if the attribute is a quantity.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    See Also
    --------
    ImputationAttack : Without the model: what this attack gains over it, the model adds.

    Notes
    -----
    Imputation and weights are cross-fitted: those of a record come from records of other folds, at
    most 2,000 of them for the weights of a release, and its own secret teaches neither. The weights
    maximize the likelihood of the others' secrets (a conditional logit), with a penalty that draws
    them to imputation alone. A model that tells nothing leaves the guesses of imputation. Where
    imputation alone, answers and frequencies, or frequencies alone are right more often about the
    records of other folds, by more than a standard error, they guess instead.

    Answers are probabilities where a model has them, else margins, else labels; of a regressor they
    are residuals in three widths. A number is guessed by a sum of imputed values and the black
    box's posterior mean, with weights of the same kind.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> rng = np.random.default_rng(0)
    >>> known = rng.normal(size=300)
    >>> secret = (known + rng.normal(size=300) > 0.0).astype(float)
    >>> X = np.column_stack([secret, known])
    >>> tree = DecisionTreeRegressor(min_samples_leaf=5).fit(X, secret + rng.normal(size=300))
    >>> y = tree.predict(X)
    >>> attack = CombinedAttributeInference(tree, 0).fit(X, y)
    >>> bool(attack.score(tree, secret) > np.mean(attack.imputed_ == secret))
    True
    """

    _games = "all"
    _takes_persons = False
    _parameter_constraints = BlackBoxAttributeInference._parameter_constraints

    estimator: Any
    attribute: Any
    _: KW_ONLY
    classifier: Any = None

    def _learn(self, table: Any, y: Array, everyone: Population, weights: Any) -> None:
        n, n_all = len(y), len(everyone.table)
        if everyone.teachers is not None:
            if self.numeric_:
                raise AttackNotApplicableError(
                    "A number is guessed from the other training records; got `X_reference`. Leave "
                    "it out, or pass `values` to treat the attribute as one of a few values."
                )
            weights = None if weights is None else np.append(weights, np.ones(n_all - n))
        self._refers = everyone.teachers is not None
        teachers = np.arange(n) if everyone.teachers is None else everyone.teachers
        taught = evenly(teachers, _TAUGHT)
        asked = np.append(self.records_, np.setdiff1d(taught, self.records_))
        self._taught = np.isin(asked, taught)
        # Targets whose own secret is not known, of anybody's weights, have a fold of their own.
        fold = np.full(n_all, -1)
        for k, (_, test) in enumerate(folds(len(teachers)).split(teachers)):
            fold[teachers[test]] = k
        self._fold = fold[asked]
        self._box = box = BlackBoxAttributeInference(
            self.estimator,
            self.attribute,
            values=self.values,
            prior="conditional" if self.numeric_ else "marginal",
            records=asked,
        ).fit(everyone.table, everyone.y, sample_weight=weights)
        if self._refers:
            given = {"any_covariance": True, "weights": weights}
            box._model = PublicModel.of(self.estimator, table, y, **given)
            box._encoded = [box._model.transform(query) for query in box._raw]
        self._impute(everyone, asked, teachers, fold)

    def _learn_prior(self, everyone: Population) -> None:
        """Frequencies of other folds are learned once it is known who is asked about."""

    def _impute(
        self, everyone: Population, asked: IntArray, teachers: IntArray, fold: IntArray
    ) -> None:
        """Set numbers, or log-probabilities, that imputation gives with `y` and without it.

        Beside them stands the mean of the others, or the shares of other folds.
        """
        secret, n = everyone.secret, len(self.records_)
        if self.numeric_:
            self._truth, prior = secret.column[asked], means_of_others(secret.column)[asked]
        else:
            n_values = len(self.values_)
            self._codes, prior = secret.codes[asked], np.empty((len(asked), n_values))
            for k in np.unique(self._fold):
                own = secret.codes[teachers[fold[teachers] != k]]
                counts = np.bincount(own, minlength=n_values)
                prior[self._fold == k] = (counts + 1.0 / n_values) / (counts.sum() + 1.0)
            self.prior_ = prior[:n]
        found = []
        for known in (everyone, replace(everyone, y=None)):
            impute = known.imputed if self.numeric_ else known.conditional_prior
            alone = known.y is None and not known.known.shape[1]
            found.append(prior if alone else impute(self.classifier)[asked])
        table = np.stack([*found, prior], axis=-1)
        self._without = table if self.numeric_ else np.log(table)
        best = found[0][:n]
        self.imputed_ = best if self.numeric_ else self.values_[best.argmax(axis=1)]

    def _read(self, released: Any, noise_scale: Any, each: int | None) -> tuple[Any, int, bool]:
        return self._box._read(released, noise_scale, each)

    def _scores(self, releases: Any, rows: slice) -> FloatArray:
        """Log-posteriors, or guesses of a number, (n_rows, n_targets, ...)."""
        about = self._number if self.numeric_ else self._log_posterior_of
        n = len(self.records_)
        if isinstance(releases, list):
            return np.stack([about(model)[:n] for model in releases[rows]])
        shell, parameters = releases
        own = parameters[rows].reshape(-1, parameters.shape[2])
        found = [about(m)[k % n] for k, m in enumerate(shell.models_with(own))]
        return np.reshape(found, (-1, n, *np.shape(found[0])))

    def _likeliest(self, scores: FloatArray) -> FloatArray:
        return scores

    def _log_posterior(self, scores: FloatArray) -> FloatArray:
        return scores

    def _log_posterior_of(self, model: Any) -> FloatArray:
        """Log-probabilities of the values of everyone asked about, (n_asked, n_values)."""
        answers, squares = self._answers(model)
        features = np.concatenate([self._without[:, :, :2], answers], axis=2)
        best, imputed = np.empty(features.shape[:2]), self._without[:, :, 0]
        for k, taught in self._splits():
            own, codes = self._fold == k, self._codes[taught]
            logs = log_softmax(features @ logit_weights(features[taught], codes), axis=1)
            likelihood = answers[:, :, 0]
            if squares is not None:
                variance = max(squares[taught, codes].mean(), _least(squares))
                likelihood = -0.5 * squares / variance
            prior = np.broadcast_to(self._without[own, :, 2][0], logs.shape)
            found = np.stack([logs, imputed, prior + likelihood, prior])
            right = found[:, taught].argmax(axis=2) == codes
            best[own] = found[_best(right.astype(np.float64)), own]
        return best

    def _number(self, model: Any) -> FloatArray:
        """Guesses of the numbers of everyone asked about, (n_asked,)."""
        answer = self._box_for(model)._guesses([model], slice(0, 1))[0]
        imputed, without, mean = self._without.T
        further, best = np.stack([without, answer], axis=1) - imputed[:, None], imputed.copy()
        for k, taught in self._splits():
            weights, _ = nnls(further[taught], (self._truth - imputed)[taught])
            found = np.stack([imputed + further @ weights, imputed, answer, mean])
            gains = -((found[:, taught] - self._truth[taught]) ** 2)
            best[self._fold == k] = found[_best(gains), self._fold == k]
        return best

    def _splits(self) -> Iterator[tuple[int, IntArray]]:
        """Folds, and those whose secrets are known to whoever attacks them."""
        for k in np.unique(self._fold):
            yield k, np.flatnonzero(self._taught & (self._fold != k))

    def _box_for(self, model: Any) -> BlackBoxAttributeInference:
        """Return the black box, set to compare most of what a model answers."""
        box, labels = self._box, classifies(model, self._box._y)
        if not labels or hasattr(model, "predict_proba"):
            box.criterion = "proba" if self.numeric_ else "loss"
        elif hasattr(model, "decision_function") and not self._refers:
            box.criterion = "margin"
        else:
            box.criterion = "performance" if self.numeric_ else "accuracy"
        return box

    def _answers(self, model: Any) -> tuple[FloatArray, FloatArray | None]:
        """Say how well the answers under every value fit the target of everyone asked about.

        Features (n_asked, n_values, n_features), of a classifier with log-likelihoods first, and of
        a regressor squared residuals (n_asked, n_values).
        """
        box = self._box_for(model)
        scores = box._scores_of(model)
        if classifies(model, box._y):
            logs = np.maximum(scores, _LEAST) if box.criterion != "accuracy" else scores
            return np.stack([logs, np.exp(logs)], axis=2), None
        # Of residuals that are usual, under any value.
        squares = -scores
        ratio = squares / max(np.median(squares), _least(squares))
        parts = np.maximum(-0.5 * ratio, _LEAST), np.maximum(-np.sqrt(ratio), _LEAST)
        return np.stack([*parts, -np.log1p(ratio / _NARROW**2)], axis=2), squares


def _least(squares: FloatArray) -> float:
    """Return the least variance that is no round-off."""
    return float(np.finfo(float).tiny + np.finfo(float).eps ** 2 * squares.max())


def _best(gains: FloatArray) -> int:
    """Return the first kind, (n_kinds, n), unless another gains more by a standard error."""
    more = gains - gains[0]
    kind = int(more.mean(axis=1).argmax())
    surely = more[kind].mean() > more[kind].std() / np.sqrt(more.shape[1])
    return kind if surely else 0
