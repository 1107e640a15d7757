"""Attribute inference from predictions alone."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from skleak.adversary.hypotheses import (
    HELD_OUT,
    N_NODES,
    Shell,
    chebyshev_nodes,
    check_weights,
    count_releases,
    fit_public_model,
    fit_shell,
    is_linear,
    is_model,
    is_smooth,
    models_on,
    models_with,
    read_each,
    read_releases,
    rows_for,
)
from skleak.adversary.knowledge import (
    NumberPrior,
    number_prior,
    range_of_others,
    take_rows,
    with_attribute,
    without_attribute,
)
from skleak.adversary.membership import finite, norms_by, unwrapped
from skleak.adversary.reconstruction import grid_mean, posterior_mean, prior_grid
from skleak.attacks.attribute import _criteria as criteria
from skleak.attacks.attribute._base import AttributeAttack, categorical_only
from skleak.attacks.attribute._criteria import Criterion
from skleak.attacks.attribute._queries import check_categories, preprocessed, stacked
from skleak.attacks.attribute._some import SomeTargets
from skleak.utils._arguments import has_missing
from skleak.utils._blocks import row_blocks
from skleak.utils._confidential import leaves_whole
from skleak.utils._predictions import (
    classifies,
    label_positions,
    margins,
    predictions,
)
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import HasMethods, StrOptions, fit_context
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# Records on which the posterior mean of a number is held against the mean of its prior, at least.
_COMPARED = 500
# Points of a grid: at most, at least, and in all for the records that are asked about.
_MOST, _FEWEST, _POINTS = 513, 129, 1 << 20
# Queries of a block; entries of all that are kept, encoded, for the next release.
_QUERIES, _KEPT = 1 << 16, 1 << 23


def _has_posterior(attack: Any) -> bool:
    """Return True if the criterion is a probability rather than an order of the candidates."""
    if attack.criterion in ("accuracy", "loss", "gradient"):
        raise AttributeError(
            f"criterion={attack.criterion!r} puts the candidate values in an order, and gives them "
            "no probabilities. Use criterion='proba' for the posterior."
        )
    return categorical_only(attack)


class BlackBoxAttributeInference(SomeTargets, AttributeAttack):
    """Guess an attribute from predictions: model inversion ([F14], [BIL23] eq. 36 to 39).

    The adversary knows all else about the target and its true `y`. It asks the model about the
    record under every candidate value, and guesses the value under which the answer speaks most
    for `y`, by one of several criteria.

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model is trained. Only its preprocessing is used, and the kind of model where
        releases are arrays of parameters. It is never changed.
    attribute : str or int
        Sensitive column of the raw data, by name or position.
    criterion : {"performance", "proba", "margin", "likelihood", "loss", "accuracy", \
"gradient"}, default="performance"
        Score of a candidate value m:

        - "performance": ``p_m Pr(y | prediction under m)``, by errors of *other* records ([F14]);
        - "proba": ``p_m Pr(y | all else, m)``, by the classifier's own probability of its label;
        - "margin": ``p_m Pr(y | margins under m)``, from ``decision_function``, by a logistic
          curve that other records teach (classifiers only);
        - "likelihood": ``Pr(y | all else, m)``, by the same probability as "proba";
        - "loss": minus the cross entropy of the label, or squared error;
        - "accuracy": 1 where the predicted label is the true one (classifiers only);
        - "gradient": minus the Euclidean norm of the gradient of the loss, by a white box.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values, as in `WhiteBoxAttributeInference`.
    prior : {"marginal", "uniform", "conditional"} or array, default="marginal"
        Prior of the attribute, as in `WhiteBoxAttributeInference`; of a number as in
        `PosteriorMeanReconstruction`.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.
    gradient_norm : callable or None, default=None
        Function of ``model, X, y`` that returns norms of shape (n_records,), for
        ``criterion="gradient"``. None takes the closed form of linear models (squared, logistic,
        softmax and Poisson losses) and of scikit-learn's multi-layer perceptrons, also at the end
        of a pipeline.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending; for a numeric attribute as in `WhiteBoxAttributeInference`.
    prior_ : ndarray of shape (n_targets, n_values)
        Prior of every target; only for a categorical attribute.
    records_, numeric_ : ndarray of int of shape (n_targets,), bool
        Positions of the records under attack; True if the attribute is a quantity.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    Notes
    -----
    Only ``predict``, ``predict_proba``, ``predict_log_proba`` or ``decision_function`` of a release
    is called: of a pipeline on raw records, of any other model on records that went through the
    fitted preprocessing, which counts as public. The errors of other records are the spread of
    residuals (Gaussian, for all probabilities of a regressor) or the confusion matrix of a
    classifier. The correlation of the attribute with `y` is known of the population: see
    `ImputationAttack`.

    "likelihood", "loss", "accuracy" and "gradient" use the prior to break ties, then the order of
    ``values_``. Labels are compared by value: 1, 1.0 and True are one label. One that the model has
    never seen has probability 0 under every candidate, so that the prior decides.
    ``predict_proba`` exists for the first four.

    A number is guessed by the mean of its posterior under the first three criteria; where that
    errs more about the other records than the mean of the prior does, by the latter, so that the
    attack is not worse than guessing. (`predict_each` makes no such comparison.) The last four use
    no prior: the guess is the value of the largest score, of regressors only. Scores are
    interpolated between 33 values where the interpolation meets the model's answers at others;
    elsewhere, as for trees and nearest neighbors, the model is asked about a grid of 129 to 513
    values instead.

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
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> labels = rng.choice(["no", "yes"], size=200)
    >>> tree = DecisionTreeClassifier(random_state=0).fit(X, labels)
    >>> attack = BlackBoxAttributeInference(tree, 0, criterion="proba").fit(X, labels)
    >>> attack.score(tree, X[:, 0]) > 0.6
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AttributeAttack._parameter_constraints,
        "estimator": [HasMethods("fit")],
        "criterion": [
            StrOptions(
                {"performance", "proba", "margin", "likelihood", "loss", "accuracy", "gradient"}
            )
        ],
        "gradient_norm": [callable, None],
    }

    def __init__(
        self,
        estimator: Any,
        attribute: Any,
        *,
        criterion: Criterion = "performance",
        values: Any = None,
        prior: "Literal['marginal', 'uniform', 'conditional'] | Array" = "marginal",
        records: Any = None,
        gradient_norm: Callable[[Any, Any, Any], Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.attribute = attribute
        self.criterion = criterion
        self.values = values
        self.prior = prior
        self.records = records
        self.gradient_norm = gradient_norm

    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    @withholding
    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Prepare the queries.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw training records.
        y : array-like of shape (n,)
            Targets the model was trained on.
        sample_weight : array-like of shape (n,), default=None
            Weights of the records in the fit under attack. A row is one person whatever it weighs:
            frequencies, confusions and errors count rows, and no guess depends on the weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown or single-valued attribute, missing values in it or in `y`, more than 64
            categories, candidate values that its categories lack, or a wrong prior; for invalid
            weights, and for an estimator that was fitted with weights where none are given.
        """
        table, y, secret = self._know(X, y)
        if has_missing(y):
            raise ValueError("`y` must not hold missing values; drop those records first.")
        self._weights = weights = check_weights(sample_weight, table)
        weighted = weights is not None
        model = fit_public_model(self.estimator, table, y, any_covariance=True, weighted=weighted)
        self._index, self._rows, asked = secret.index, self.records_, self._candidates
        self._density: NumberPrior | None = None
        if secret.numeric:
            self._truth = secret.column
            if self.criterion in criteria.WITH_PRIOR:
                self._rows = _compared(self.records_, len(y))
                known = without_attribute(table, secret.index)
                self._density = number_prior(self.prior, known, y, secret.column, self._rows)
            self._ends = tuple(end[self._rows] for end in range_of_others(secret.column))
            nodes, (low, high) = chebyshev_nodes(*self._ends), self._ends
            between = low + 0.5 * (high - low) * (HELD_OUT[:, None] + 1.0)
            asked = np.concatenate([nodes, between])
        own = take_rows(table, self._rows)
        check_categories(own, secret)
        self._model, self._y = model, y
        self._label_codes, self._labels = pd.factorize(y)
        # Every query twice: as a pipeline takes it, and as a bare model does.
        self._raw = [table, *(with_attribute(own, secret.index, v) for v in asked)]
        self._encoded = [preprocessed(model, query) for query in self._raw]
        self._on_grid: dict[bool, list[Any]] = {}
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
        n_targets, width = len(self.records_), shell.n_parameters
        parameters = read_each(released, n_targets, width, None, 0.0).parameters
        return (shell, parameters), len(parameters)

    def _shell(self) -> Shell:
        return fit_shell(self._model, self._encoded[0], self._y, self._weights)

    def _scores(self, releases: Sequence[Any], rows: slice) -> FloatArray:
        return np.stack([self._scores_of(model) for model in releases[rows]])

    def _scores_of(self, model: Any) -> FloatArray:
        """Of one release, (n_rows, n_values): a number at its nodes and those held out."""
        criteria.check_applicable(self.criterion, model, self._y, self.numeric_)
        known, *queries = self._raw if self._takes_raw(model) else self._encoded
        codes = self._codes(model)
        answers = [self._answers(model, query, self._rows, codes) for query in queries]
        return self._judged(model, known, np.stack(answers, axis=1), self._rows)

    def _scores_each(self, releases: tuple[Shell, FloatArray], rows: slice) -> FloatArray:
        shell, parameters = releases
        criteria.check_applicable(self.criterion, shell.model, self._y, self.numeric_)
        pairs = parameters[rows].reshape(-1, parameters.shape[2])
        return self._judged_each(shell, pairs, self._encoded[1:])

    def _judged_each(self, shell: Shell, pairs: FloatArray, queries: Sequence[Any]) -> FloatArray:
        """Scores (n_releases, n_targets, n_values) of queries about the rows, encoded."""
        n_targets = len(self.records_)
        answers = self._answers_each(shell, pairs, queries)
        judges: Iterable[tuple[Any, Any]] = ((model, None) for model in models_with(shell, pairs))
        if self._compares(shell.model):
            judges = models_on(shell, self._encoded[0], pairs)
        scores = [
            self._judged(judge, table, answers[None, g], self.records_[[g % n_targets]])
            for g, (judge, table) in enumerate(judges)
        ]
        return np.reshape(scores, (-1, n_targets, answers.shape[1]))

    def _answers_each(self, shell: Shell, pairs: FloatArray, queries: Sequence[Any]) -> Array:
        """Ask each model about its own target under all candidates; shape (n, n_values, ...)."""
        own, codes = stacked(queries), self._codes(shell.model)
        targets = np.arange(len(pairs))[:, None] % len(self.records_)
        places = targets + np.arange(own.shape[0] // len(self._rows)) * len(self._rows)
        records = np.broadcast_to(self.records_[targets], places.shape)
        seen = None if self.criterion == "gradient" else rows_for(shell, own, places, pairs)
        if seen is not None:
            answers = self._answers(*seen, records.ravel(), codes)
            return answers.reshape(*places.shape, *answers.shape[1:])
        asked = zip(models_with(shell, pairs), places, records, strict=True)
        return np.stack([self._answers(m, take_rows(own, at), i, codes) for m, at, i in asked])

    def _about(self, targets: IntArray) -> Self:
        one = super()._about(targets)
        one._rows, one._on_grid = one.records_, {}
        if self.numeric_:
            one._ends = tuple(end[targets] for end in self._ends)
        if self._density is not None:
            one._density = self._density.take(targets)
        one._raw = self._raw[:1] + [take_rows(own, targets) for own in self._raw[1:]]
        one._encoded = self._encoded[:1] + [take_rows(own, targets) for own in self._encoded[1:]]
        return one

    def _compares(self, model: Any) -> bool:
        """Return True if a criterion looks at answers about all training records."""
        if classifies(model, self._y):
            return self.criterion in ("performance", "margin")
        return self.criterion in ("performance", "proba", "likelihood")

    def _takes_raw(self, model: Any) -> bool:
        """Return True if a release holds the preprocessing."""
        if isinstance(unwrapped(model), Pipeline):
            return True
        names = getattr(model, "feature_names_in_", None)
        raw, encoded = (set(getattr(t, "columns", ())) for t in (self._raw[0], self._encoded[0]))
        return names is not None and raw >= set(names) and not encoded >= set(names)

    def _codes(self, model: Any) -> IntArray | None:
        """Position of every label among the classes of a model, None where it has none."""
        if not hasattr(model, "classes_"):
            return None
        return label_positions(self._labels, model.classes_)[self._label_codes]

    def _answers(self, model: Any, X: Any, records: IntArray, codes: IntArray | None) -> Array:
        """Ask the model about rows that may be these training records; shape (n,) or (n, k)."""
        if self.criterion == "gradient":
            return self._gradient_norms(model, X, records, codes)
        if self.criterion == "margin":
            return margins(model, X)
        if codes is None or self.criterion in ("performance", "accuracy"):
            return predictions(model, X)
        precise = self.criterion != "likelihood"
        return criteria.log_likelihoods(model, X, codes[records], precise=precise)

    def _gradient_norms(
        self, model: Any, X: Any, records: IntArray, codes: IntArray | None
    ) -> FloatArray:
        """Norms; zero for labels never seen, whose loss has no gradient under any candidate."""
        y = self._y if classifies(model, self._y) else criteria.numbers_of(self._y)
        norms = np.zeros(len(records))
        seen = np.arange(len(records)) if codes is None else np.flatnonzero(codes[records] >= 0)
        if len(seen):
            rows = X if len(seen) == len(records) else take_rows(X, seen)
            norms[seen] = norms_by(self.gradient_norm, model, rows, y[records[seen]])
        return norms

    def _judged(self, model: Any, known: Any, own: Array, targets: IntArray) -> FloatArray:
        """Scores (n_targets, n_values) from answers about the candidates, (..., k) of margins."""
        if self.criterion == "gradient":
            # Smooth, as a quantity needs it.
            return finite(-(own**2) if self.numeric_ else -own)
        if self.criterion == "accuracy":
            return criteria.accuracy_scores(self._y, own, targets)
        if not classifies(model, self._y):
            y = criteria.numbers_of(self._y)
            if self.criterion == "loss":
                return finite(criteria.squared_scores(y, own, targets))
            return criteria.gaussian_scores(y, predictions(model, known), own, targets)
        if self.criterion == "margin":
            return criteria.margin_scores(self._label_codes, margins(model, known), own, targets)
        if self.criterion == "performance":
            return criteria.confusion_scores(self._y, predictions(model, known), own, targets)
        return own

    def _log_posterior(self, scores: FloatArray) -> FloatArray:
        """Impossible under every value, the record tells nothing: the prior is left."""
        prior = np.ones_like(self.prior_) if self.criterion == "likelihood" else self.prior_
        with np.errstate(divide="ignore"):
            log_prior = np.log(prior)
        joint = scores + log_prior
        return np.where(np.isfinite(joint).any(axis=-1, keepdims=True), joint, log_prior)

    def _guesses(self, releases: Any, rows: slice) -> Array:
        if not self.numeric_:
            return super()._guesses(releases, rows)
        found = self._scores(releases, rows)
        guesses, smooth = self._interpolated(found)
        for k in np.flatnonzero(~smooth.all(axis=1)).tolist():
            model = releases[rows][k]
            steps = ~smooth[k] | (not is_linear(model))
            guesses[k] = np.where(steps, self._of_grid(self._asked_grid(model)), guesses[k])
        return self._not_worse(guesses)[:, : len(self.records_)]

    def _guesses_each(self, releases: tuple[Shell, FloatArray], rows: slice) -> Array:
        if not self.numeric_:
            return super()._guesses_each(releases, rows)
        about = self
        if len(self._rows) > len(self.records_):
            about = self._about(np.arange(len(self.records_)))
        guesses, smooth = about._interpolated(about._scores_each(releases, rows))
        if smooth.all():
            return guesses
        shell, parameters = releases
        pairs = parameters[rows].reshape(-1, parameters.shape[2])
        scores = about._judged_each(shell, pairs, about._grid_queries(raw=False))
        return np.where(smooth, guesses, about._of_grid(scores))

    def _interpolated(self, scores: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Guesses from scores at the nodes and those held out, and whether they are smooth.

        Shapes: ``scores`` (n_releases, n_rows, ...); returns (n_releases, n_rows) each.
        """
        nodes, smooth = scores[:, :, :N_NODES], is_smooth(*np.split(scores, [N_NODES], axis=2))
        nodes = np.where(smooth[:, :, None], nodes, 0.0)
        if self._density is None:
            return self._likeliest(nodes), smooth
        return posterior_mean(nodes, self._ends[0], self._ends[1], self._density), smooth

    def _of_grid(self, scores: FloatArray) -> FloatArray:
        """Guesses (..., n_rows) from scores (..., n_rows, n_points) at the points of the grid."""
        points = self._grid
        if self._density is not None:
            found = grid_mean(scores.reshape(-1, *points.shape), points, self._density)
            return found.reshape(scores.shape[:-1])
        # Scores of steps have many largest values: the middle of these.
        best = scores >= scores.max(axis=-1, keepdims=True)
        return np.asarray((best * points).sum(axis=-1) / best.sum(axis=-1))

    @property
    def _grid(self) -> FloatArray:
        """Values of a number at which a model that is not smooth is asked, (n_rows, n_points)."""
        n_points = int(np.clip(_POINTS // len(self._rows), _FEWEST, _MOST))
        if self._density is not None:
            return prior_grid(self._density, n_points)
        low, high = self._ends
        return np.linspace(low, high, n_points, axis=1)

    def _grid_queries(self, *, raw: bool) -> list[Any]:
        """Return queries on the grid, some points of all rows in each block."""
        if raw in self._on_grid:
            return self._on_grid[raw]
        points, blocks = self._grid.T, []
        for some in row_blocks(len(points), len(self._rows), _QUERIES):
            part = points[some]
            query = take_rows(self._raw[0], np.tile(self._rows, len(part)))
            query = with_attribute(query, self._index, part.ravel())
            blocks.append(query if raw else preprocessed(self._model, query))
        if sum(int(np.prod(block.shape)) for block in blocks) <= _KEPT:
            self._on_grid[raw] = blocks
        return blocks

    def _asked_grid(self, model: Any) -> FloatArray:
        """Scores of one release on the grid, (n_rows, n_points)."""
        raw, n = self._takes_raw(model), len(self._rows)
        codes, answers = self._codes(model), []
        for query in self._grid_queries(raw=raw):
            rows = np.tile(self._rows, query.shape[0] // n)
            found = self._answers(model, query, rows, codes)
            answers.append(found.reshape(-1, n, *found.shape[1:]))
        known = self._raw[0] if raw else self._encoded[0]
        own = np.swapaxes(np.concatenate(answers), 0, 1)
        return self._judged(model, known, own, self._rows)

    def _not_worse(self, guesses: FloatArray) -> FloatArray:
        """Guess the mean of the prior where the posterior mean errs more about other records.

        Shapes: ``guesses`` (n_releases, n_rows); returns the same.
        """
        if self._density is None:
            return guesses
        mean, truth = self._density.mean, self._truth[self._rows]
        gains = (mean - truth) ** 2 - (guesses - truth) ** 2
        gains_of_others = gains.sum(axis=1, keepdims=True) - gains
        return np.where(gains_of_others > 0.0, guesses, mean)

    @property
    def _table_width(self) -> int:
        """Entries of the table of log-likelihoods of one release."""
        return len(self._rows) * (len(self._raw) - 1)

    def _most_probable(self, scores: FloatArray) -> Array:
        if self.criterion in criteria.WITH_PRIOR:
            return super()._most_probable(scores)
        logarithmic = self.criterion == "likelihood"
        return self.values_[criteria.ties_by_prior(scores, self.prior_, logarithmic=logarithmic)]

    @available_if(_has_posterior)
    def predict_proba(self, released: Any, noise_scale: Any = None) -> FloatArray:
        """Probability of every candidate value, by criteria that have one.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            As in `predict`.
        noise_scale : object, default=None
            Ignored.

        Returns
        -------
        ndarray of shape (n_targets, n_values) or (n_releases, n_targets, n_values)
            In the order of ``values_``; sums to 1.
        """
        return super().predict_proba(released, noise_scale)


def _compared(targets: IntArray, n: int) -> IntArray:
    """Return the targets, and other records where these are few."""
    others = np.setdiff1d(np.arange(n), targets)
    count = min(max(_COMPARED - len(targets), 0), len(others))
    more = others[np.linspace(0, len(others) - 1, count).astype(np.intp)]
    return np.concatenate([targets, more])
