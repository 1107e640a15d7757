"""Attribute inference from predictions alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.adversary.hypotheses import PublicModel, below, is_linear
from skleak.adversary.knowledge import (
    Population,
    Secret,
    evenly,
    folds,
    range_of_others,
    take_rows,
    with_attribute,
)
from skleak.adversary.membership import GradientNorm, finite, norms_by, numbers_of
from skleak.adversary.models import Shell, given_releases, read_releases
from skleak.adversary.numbers import HELD_OUT, N_NODES, chebyshev_nodes, is_smooth, number_prior
from skleak.adversary.records import Records, row_codes
from skleak.attacks._attribute import AttributeAttack, SomeTargets
from skleak.exceptions import AttackNotApplicableError
from skleak.metrics.scores import attack_success
from skleak.utils._arguments import check_numbers, has_missing
from skleak.utils._blocks import row_blocks
from skleak.utils._predictions import (
    SUM_TOLERANCE,
    class_probabilities,
    classifies,
    complements,
    joined,
    label_positions,
    log_probabilities,
    margins,
    predictions,
    select_columns,
    with_unseen,
)
from skleak.utils._sklearn_compat import HasMethods, StrOptions, unwrapped
from skleak.utils._typing import Array, FloatArray, IntArray

Criterion = Literal["performance", "proba", "margin", "likelihood", "loss", "accuracy", "gradient"]
# Criteria that weigh what a model answers with a prior.
WITH_PRIOR = ("performance", "proba", "margin")
# Scores that are equal but for the order of a sum, such as that over the trees of a forest.
_ROUND_OFF = 1e-14
_LOG_HALF = np.log(0.5)
# Records on which the posterior mean of a number is held against the mean of its prior, at least.
_COMPARED = 500
# Records whose answers tell how often and how far a model errs, beside those under attack.
_JUDGES = 1 << 14
# Points of a grid: at most, at least, and in all for the records that are asked about.
_MOST, _FEWEST, _POINTS = 513, 129, 1 << 20
# Queries of a block; entries of all that are kept, encoded, for the next release.
_QUERIES, _KEPT = 1 << 16, 1 << 23


@dataclass(eq=False, repr=False)
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
        `PosteriorMeanReconstruction`. "conditional" is given the other columns, not `y`, which the
        answers are compared with.
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
    classifier; of more than 16,384 records these others are evenly spaced. The correlation of the
    attribute with `y` is known of the population: see `ImputationAttack`.

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

    _parameter_constraints = AttributeAttack._parameter_constraints | {
        "estimator": [HasMethods("fit")],
        "criterion": [StrOptions(set(get_args(Criterion)))],
    }

    _games = "some"

    estimator: Any
    attribute: Any
    _: KW_ONLY
    criterion: Criterion = "performance"
    prior: "Literal['marginal', 'uniform', 'conditional'] | Array" = "marginal"
    gradient_norm: GradientNorm | None = None

    def _learn(self, table: Any, y: Array, everyone: Population, weights: Any) -> None:
        self._weights, secret = weights, everyone.secret
        if has_missing(y):
            raise ValueError("`y` must not hold missing values; drop those records first.")
        own = {"weights": weights, "any_covariance": True, "asked": True}
        model = PublicModel.of(self.estimator, table, y, **own)
        self._index, self._rows, asked = secret.index, self._units.rows, self._candidates
        if secret.numeric:
            self._truth = secret.column
            if self.criterion in WITH_PRIOR:
                others = np.setdiff1d(np.arange(len(y)), self.records_)
                more = evenly(others, max(_COMPARED - len(self.records_), 0))
                self._rows = np.append(self.records_, more)
                numbers = replace(everyone, y=None, targets=self._rows)
                self._density = number_prior(self.prior, numbers)
            column, places = replace(everyone, targets=self._rows).others(secret.column)
            self._ends = tuple(end[places] for end in range_of_others(column))
            nodes, (low, high) = chebyshev_nodes(*self._ends), self._ends
            between = low + 0.5 * (high - low) * (HELD_OUT[:, None] + 1.0)
            asked = np.concatenate([nodes, between])
        own = take_rows(table, self._rows)
        if not self._units.is_single:
            alike = pd.Series(row_codes(Records(own, y[self._rows])))
            sizes = alike.groupby([alike, self._units.codes]).transform("size")
            self._share = 1.0 / sizes.to_numpy()[:, None]
        self._judges = np.union1d(self._rows, evenly(np.arange(len(y)), _JUDGES))
        check_categories(own, secret)
        self._model, self._y = model, y
        self._label_codes, self._labels = pd.factorize(y)
        # Every query twice: as a pipeline takes it, and as a bare model does.
        values = np.reshape(asked, (len(asked), -1))
        values = np.broadcast_to(values, (len(asked), len(self._rows)))
        self._raw = [table, *self._queries(table, values)]
        self._encoded = [model.transform(query) for query in self._raw]
        self._on_grid: dict[bool, list[Any]] = {}

    def _learn_prior(self, everyone: Population) -> None:
        # What `y` tells comes with the answers: a prior that knows it would count it twice.
        super()._learn_prior(replace(everyone, y=None))

    def _read(self, released: Any, noise_scale: Any, each: int | None) -> tuple[Any, int, bool]:
        models, single = (None, False) if each is not None else given_releases(released)
        if models is None:
            shell = self._shell()
            parameters = read_releases(released, shell.n_parameters, each=each).parameters
            if each is not None:
                return (shell, parameters), len(parameters), False
            models = list(shell.models_with(parameters))
        return models, len(models), single

    def _shell(self) -> Shell:
        return Shell.fit(self._model, self._encoded[0], self._y, self._weights)

    def _scores(self, releases: Any, rows: slice) -> FloatArray:
        if isinstance(releases, list):
            scores = np.stack([self._scores_of(model) for model in releases[rows]])
        else:
            scores = self._scores_each(releases, rows, self._encoded[1:])
        if self._units.is_single:
            return scores
        return np.add.reduceat(scores * self._share, self._units.starts[:-1], axis=-2)

    def _scores_of(self, model: Any) -> FloatArray:
        """Of one release, (n_rows, n_values): a number at its nodes and those held out."""
        check_applicable(self.criterion, model, self._y, self.numeric_)
        return self._asked(model, *(self._raw if self._takes_raw(model) else self._encoded))

    def _asked(self, model: Any, known: Any, *queries: Any) -> FloatArray:
        """Scores of one release, (n_rows, n_values), from blocks of queries about all rows."""
        codes, n, answers = self._codes(model), len(self._rows), []
        for query in queries:
            rows = np.tile(self._rows, query.shape[0] // n)
            found = self._answers(model, query, rows, codes)
            answers.append(found.reshape(-1, n, *found.shape[1:]))
        if self._compares(model):
            known = self._of_judges(known)
        own = np.swapaxes(np.concatenate(answers), 0, 1)
        return self._judged(model, known, own, self._rows)

    def _queries(self, table: Any, values: Array) -> Iterator[Any]:
        """Yield the rows under values of their own, (n_values, n_rows), some values of all rows."""
        for some in row_blocks(len(values), len(self._rows), _QUERIES):
            own = take_rows(table, np.tile(self._rows, len(values[some])))
            yield with_attribute(own, self._index, values[some].ravel())

    def _scores_each(
        self, releases: tuple[Shell, FloatArray], rows: slice, queries: Sequence[Any]
    ) -> FloatArray:
        """Scores (n_releases, n_rows, n_values) of encoded queries, each under its own release."""
        shell, parameters = releases
        check_applicable(self.criterion, shell.model, self._y, self.numeric_)
        own, codes, asked = below(*queries), self._codes(shell.model), self._units.rows
        pairs = np.repeat(parameters[rows], self._units.sizes, axis=1)
        pairs = pairs.reshape(-1, pairs.shape[2])
        # Each model is asked about its own row under all candidates.
        which = np.arange(len(pairs))[:, None] % len(asked)
        places = which + np.arange(own.shape[0] // len(self._rows)) * len(self._rows)
        records = np.broadcast_to(asked[which], places.shape)
        seen = None if self.criterion == "gradient" else shell.rows_for(own, places, pairs)
        if seen is not None:
            answers = self._answers(*seen, records.ravel(), codes)
            answers = answers.reshape(*places.shape, *answers.shape[1:])
        else:
            each = zip(shell.models_with(pairs), places, records, strict=True)
            found = [self._answers(m, take_rows(own, at), i, codes) for m, at, i in each]
            answers = np.stack(found)
        judges: Iterable[tuple[Any, Any]] = ((model, None) for model in shell.models_with(pairs))
        if self._compares(shell.model):
            judges = shell.models_on(self._of_judges(self._encoded[0]), pairs)
        scores = [
            self._judged(judge, table, answers[None, g], asked[[g % len(asked)]])
            for g, (judge, table) in enumerate(judges)
        ]
        return np.reshape(scores, (-1, len(asked), answers.shape[1]))

    def _about(self, targets: IntArray) -> Self:
        one, units = super()._about(targets), self._units
        one._units, one._on_grid = units.take(targets), {}
        one._rows = one._units.rows
        # Of the rows that are asked about, those of these targets.
        places = replace(units, rows=np.arange(len(units.rows))).take(targets).rows
        if not units.is_single:
            one._share = self._share[places]
        one._judges = np.union1d(one._rows, evenly(np.arange(len(self._y)), _JUDGES))
        if self.numeric_:
            one._ends = tuple(end[targets] for end in self._ends)
        if self._density is not None:
            one._density = self._density.take(targets)
        n = len(self._rows)

        def taken(tables: list[Any]) -> list[Any]:
            starts = [np.arange(0, query.shape[0], n)[:, None] for query in tables[1:]]
            at = [(start + places).ravel() for start in starts]
            return tables[:1] + list(map(take_rows, tables[1:], at))

        one._raw, one._encoded = taken(self._raw), taken(self._encoded)
        return one

    def _of_judges(self, table: Any) -> Any:
        return table if len(self._judges) == len(self._y) else take_rows(table, self._judges)

    def _compares(self, model: Any) -> bool:
        """Return True if a criterion looks at answers about other training records."""
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
        return log_likelihoods(model, X, codes[records], precise=precise)

    def _gradient_norms(
        self, model: Any, X: Any, records: IntArray, codes: IntArray | None
    ) -> FloatArray:
        """Norms; zero for labels never seen, whose loss has no gradient under any candidate."""
        y = self._y if classifies(model, self._y) else numbers_of(self._y)
        norms = np.zeros(len(records))
        seen = np.arange(len(records)) if codes is None else np.flatnonzero(codes[records] >= 0)
        if len(seen):
            rows = X if len(seen) == len(records) else take_rows(X, seen)
            norms[seen] = norms_by(self.gradient_norm, model, rows, y[records[seen]])
        return norms

    def _judged(self, model: Any, known: Any, own: Array, targets: IntArray) -> FloatArray:
        """Scores (n_targets, n_values) from answers about the candidates, (..., k) of margins.

        ``known`` holds the records that a criterion compares with, the targets among them.
        """
        if self.criterion == "gradient":
            # Smooth, as a quantity needs it.
            return finite(-(own**2) if self.numeric_ else -own)
        if self.criterion == "accuracy":
            return attack_success(own.T, self._y[targets]).T.astype(np.float64)
        at, codes = np.searchsorted(self._judges, targets), self._label_codes[self._judges]
        if not classifies(model, self._y):
            y = numbers_of(self._y)
            if self.criterion == "loss":
                with np.errstate(over="ignore"):
                    return finite(-((y[targets, None] - check_numbers("predict(X)", own)) ** 2))
            return gaussian_scores(y[self._judges], predictions(model, known), own, at)
        if self.criterion == "margin":
            return margin_scores(codes, margins(model, known), own, at)
        if self.criterion == "performance":
            answers = label_codes(self._labels, model, known, own)
            return confusion_scores(codes, *answers, at)
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
        each = not isinstance(releases, list)
        if each and len(self._rows) > len(self.records_):
            return self._about(np.arange(len(self.records_)))._guesses(releases, rows)
        scores, between = np.split(self._scores(releases, rows), [N_NODES], axis=2)
        smooth = is_smooth(scores, between)
        guesses = self._likeliest(np.where(smooth[:, :, None], scores, 0.0))
        if each:
            if smooth.all():
                return guesses
            scores = self._scores_each(releases, rows, self._grid_queries(raw=False))
            return np.where(smooth, guesses, self._of_grid(scores))
        for k in np.flatnonzero(~smooth.all(axis=1)).tolist():
            model = releases[rows][k]
            steps, raw = ~smooth[k] | (not is_linear(model)), self._takes_raw(model)
            known = (self._raw if raw else self._encoded)[0]
            found = self._of_grid(self._asked(model, known, *self._grid_queries(raw=raw)))
            guesses[k] = np.where(steps, found, guesses[k])
        return self._not_worse(guesses)[:, : len(self.records_)]

    def _of_grid(self, scores: FloatArray) -> FloatArray:
        """Guesses (..., n_rows) from scores (..., n_rows, n_points) at the points of the grid."""
        points = self._grid
        if self._density is not None:
            found = self._density.grid_mean(scores.reshape(-1, *points.shape), points)
            return found.reshape(scores.shape[:-1])
        # Scores of steps have many largest values: the middle of these.
        best = scores >= scores.max(axis=-1, keepdims=True)
        return np.asarray((best * points).sum(axis=-1) / best.sum(axis=-1))

    @property
    def _grid(self) -> FloatArray:
        """Values of a number at which a model that is not smooth is asked, (n_rows, n_points)."""
        n_points = int(np.clip(_POINTS // len(self._rows), _FEWEST, _MOST))
        if self._density is not None:
            return self._density.grid(n_points)
        low, high = self._ends
        return np.linspace(low, high, n_points, axis=1)

    def _grid_queries(self, *, raw: bool) -> list[Any]:
        """Return queries on the grid, some points of all rows in each block."""
        if raw in self._on_grid:
            return self._on_grid[raw]
        blocks = list(self._queries(self._raw[0], self._grid.T))
        if not raw:
            blocks = [self._model.transform(query) for query in blocks]
        if sum(int(np.prod(block.shape)) for block in blocks) <= _KEPT:
            self._on_grid[raw] = blocks
        return blocks

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
        return sum(query.shape[0] for query in self._raw[1:])

    def _positions(self, scores: FloatArray) -> Array:
        if self.criterion in WITH_PRIOR:
            return super()._positions(scores)
        logarithmic = self.criterion == "likelihood"
        return ties_by_prior(scores, self.prior_, logarithmic=logarithmic)

    @property
    def _no_posterior(self) -> str:
        if self.criterion not in ("accuracy", "loss", "gradient"):
            return super()._no_posterior
        return (
            f"criterion={self.criterion!r} puts the candidate values in an order, and gives them "
            "no probabilities. Use criterion='proba' for the posterior."
        )


def check_categories(table: Any, secret: Secret) -> None:
    """Check that candidate values are categories of the column, which pandas would drop."""
    if secret.values is None or not isinstance(table, pd.DataFrame):
        return
    dtype = table.dtypes.iloc[secret.index]
    if not isinstance(dtype, pd.CategoricalDtype):
        return
    lacking = [value for value in secret.values if value not in dtype.categories]
    if lacking:
        raise ValueError(
            f"The categories of the attribute lack the candidate values {lacking[:5]}; got "
            f"{dtype.categories.tolist()[:10]}. Add them with `cat.add_categories`."
        )


def check_applicable(criterion: Criterion, model: Any, y: Array, numeric: bool) -> None:
    """Check that a model trained on those targets has what the criterion compares."""
    name = type(model).__name__
    labels = classifies(model, y)
    if criterion == "margin" and not (labels and hasattr(model, "decision_function")):
        raise AttackNotApplicableError(
            f"{name} is no classifier with a `decision_function`, whose margins criterion='margin' "
            "compares. Use criterion='proba' for a model with `predict_proba`, or 'performance', "
            "for which predictions are enough."
        )
    if not labels:
        if criterion == "accuracy":
            raise AttackNotApplicableError(
                f"{name} is a regressor, whose predictions are close to a target rather than "
                "right or wrong. Use criterion='loss', 'likelihood', 'proba', 'performance' or "
                "'gradient'."
            )
        return
    if numeric and criterion not in WITH_PRIOR:
        raise AttackNotApplicableError(
            f"criterion={criterion!r} guesses a number by the value of the largest score, and of a "
            f"classifier such as {name} no single value has it: labels are constant over ranges, "
            "and probabilities rise up to the end of the range. Use criterion='performance', "
            "'proba' or 'margin', which weigh all values by a prior; or pass the values to choose "
            "from in `values`."
        )
    if criterion in ("proba", "likelihood", "loss") and not hasattr(model, "predict_proba"):
        raise AttackNotApplicableError(
            f"{name} is a classifier without `predict_proba`, which criterion={criterion!r} "
            "needs. Use criterion='performance' or 'accuracy', for which labels are enough, "
            "'gradient' with a function `gradient_norm`, or a model wrapped in "
            "CalibratedClassifierCV. Margins are compared by criterion='margin'."
        )
    if criterion in ("proba", "likelihood", "loss") and not hasattr(model, "classes_"):
        raise ValueError(
            f"{name} has no `classes_`, without which nobody knows whose probabilities these are. "
            "Set it to the labels in the order of the columns."
        )


def log_likelihoods(model: Any, X: Any, codes: IntArray, *, precise: bool) -> FloatArray:
    """Logarithm of the probability that a classifier gives to the true label of every record.

    Shapes: ``X`` (n, ...); ``codes`` (n,); returns (n,): in nats, at most 0; minus infinity for
    probability 0 and labels never seen.
    """
    rows = np.arange(len(codes))
    if precise and hasattr(model, "predict_log_proba"):
        logs = _log_class_probabilities(model, X)
        logs = np.column_stack([logs, np.full(len(logs), -np.inf)])
        own = logs[rows, codes]
        logs[rows, codes] = -np.inf
        # Near 1 the others tell more of it than the number itself, which rounds to 1.
        others = np.minimum(np.exp(logs).sum(axis=1), 0.5)
        return np.asarray(np.where(own > _LOG_HALF, np.log1p(-others), own))
    p = with_unseen(class_probabilities(model, X), codes)
    own = p[rows, codes]
    if precise:
        q = complements(p)[rows, codes]
        return np.where(own > 0.0, log_probabilities(own, q), -np.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(own))


def _log_class_probabilities(model: Any, X: Any) -> FloatArray:
    """Check and return ``predict_log_proba``, of shape (n, n_classes)."""
    with np.errstate(divide="ignore"):
        answer = model.predict_log_proba(select_columns(model, X))
    logs = check_numbers("predict_log_proba(X)", answer)
    if logs.ndim != 2 or logs.shape[1] != len(model.classes_):
        raise ValueError(
            "`predict_log_proba` must return shape (n_records, n_classes) with one column for "
            f"each of `classes_`; got shape {logs.shape}. Models of several targets have to be "
            "taken one target at a time."
        )
    total = np.exp(np.minimum(logs, 1.0)).sum(axis=1)
    if np.any(np.abs(total - 1.0) > SUM_TOLERANCE):
        raise ValueError(
            "`predict_log_proba` must return logarithms of probabilities with sum 1 in every "
            f"row; got sums from {total.min():g} to {total.max():g}."
        )
    return logs


def confusion_scores(
    codes: IntArray, predicted: IntArray, candidate: IntArray, targets: IntArray
) -> FloatArray:
    """Log-probability of each target's label given each candidate prediction.

    Read off the confusion matrix of the other records; one imagined record for each predicted
    label is spread evenly over the true ones, so that nothing is impossible.

    Shapes: labels by number, ``codes`` (n,) the true ones, ``predicted`` (n,) and ``candidate``
    (n_targets, n_values); ``targets`` (n_targets,); returns (n_targets, n_values).
    """
    k = 1 + max(int(each.max()) for each in (codes, predicted, candidate))
    confusion = np.bincount(codes * k + predicted, minlength=k * k).reshape(k, k)
    label = codes[targets, None]
    itself = (candidate == predicted[targets, None]).astype(np.float64)
    hits = confusion[label, candidate] - itself
    all_ = confusion.sum(axis=0)[candidate] - itself
    return np.log((hits + 1.0 / k) / (all_ + 1.0))


def label_codes(labels: Array, model: Any, X: Any, own: Array) -> tuple[IntArray, IntArray]:
    """Predicted labels by their number among some, new ones behind these, and likewise answers.

    Shapes: ``labels`` (n_labels,); ``X`` (n, d); ``own``, answers (n_targets, n_values); returns
    (n,) and (n_targets, n_values).
    """
    known = pd.Index(labels, dtype=labels.dtype)
    if hasattr(model, "_positions"):
        # One lookup of few labels: there are many releases.
        found = known.get_indexer(joined(model.classes_, own.ravel()))
        places, candidates = np.split(found, [len(model.classes_)])
        if np.all(places >= 0):
            answers = model._positions(select_columns(model, X))
            return places[answers], candidates.reshape(own.shape)
    predicted = predictions(model, X)
    attack_success(predicted[:1], labels[:1])
    # By hashing, not sorting: labels may be strings, and there are many at every release.
    answers = joined(predicted, own.ravel())
    codes = known.get_indexer(pd.Index(answers, dtype=answers.dtype))
    strange = codes < 0
    codes[strange] = len(labels) + pd.factorize(answers[strange])[0]
    return codes[: len(predicted)], codes[len(predicted) :].reshape(own.shape)


def margin_scores(
    codes: IntArray, known: FloatArray, own: FloatArray, targets: IntArray
) -> FloatArray:
    """Log-probability of each target's label given the margins of each candidate.

    A multinomial logistic regression turns margins into probabilities (Platt, of several classes).
    It learns from the records of other folds, so that no target tells what its own value is.

    Shapes: ``codes`` (n,), labels from 0; ``known`` (n, n_margins); ``own`` (n_targets, n_values,
    n_margins); ``targets`` (n_targets,); returns (n_targets, n_values).
    """
    scores = np.zeros(own.shape[:2])
    for train, test in folds(len(codes)).split(codes):
        some = np.flatnonzero(np.isin(targets, test))
        present = np.unique(codes[train])
        if not len(some) or len(present) < 2:
            continue
        curve = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        curve.fit(known[train], codes[train])
        margins = own[some].reshape(-1, own.shape[2])
        decisions = curve.decision_function(margins)
        if decisions.ndim == 1:
            decisions = np.column_stack([np.zeros(len(decisions)), decisions])
        # Exact where a label is certain.
        logs = log_softmax(decisions, axis=1).reshape(len(some), own.shape[1], -1)
        # A label that only the target's own fold has is as likely under every candidate.
        place = np.searchsorted(present, codes[targets[some]])
        place = np.minimum(place, len(present) - 1)
        seen = present[place] == codes[targets[some]]
        chosen = np.take_along_axis(logs, place[:, None, None], axis=2)[:, :, 0]
        scores[some] = np.where(seen[:, None], chosen, 0.0)
    return scores


def gaussian_scores(y: FloatArray, known: Array, own: Array, targets: Array) -> FloatArray:
    """Log-density of each target's `y` around its candidate predictions, but for a constant.

    The variance is the mean square of the residuals of the other records.
    """
    known, own = check_numbers("predict(X)", known), check_numbers("predict(X)", own)
    # A model that fits all others exactly is still known to round-off only.
    least = (np.finfo(float).eps * np.abs(y).max()) ** 2
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (y - known) ** 2
        variance = (squares.sum() - squares[targets]) / (len(y) - 1)
        variance = np.maximum(variance, max(least, np.finfo(float).tiny))
        scores = -0.5 * (y[targets, None] - own) ** 2 / variance[:, None]
    # Predictions beyond all bounds, as of counts under much noise, tell nothing.
    return np.where(np.isnan(scores), -np.inf, scores)


def ties_by_prior(scores: FloatArray, prior: FloatArray, *, logarithmic: bool) -> IntArray:
    """Position of the largest score; of several the one of largest prior, then the first.

    Shapes: ``scores`` (..., n_targets, n_values); ``prior`` (n_targets, n_values); returns (...,
    n_targets).
    """
    best = scores.max(axis=-1, keepdims=True)
    size = np.abs(np.where(np.isfinite(best), best, 0.0))
    slack = _ROUND_OFF * (np.maximum(size, 1.0) if logarithmic else size)
    return np.asarray(np.where(scores >= best - slack, prior, -1.0).argmax(axis=-1))
