"""The best of a random number of private fits, under one guarantee."""

import copy
import random
import warnings
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils import Tags, column_or_1d, get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from skleak._released import (
    DelegatedPredictionMixin,
    refuse_without_guarantee,
    warn_of_release,
)
from skleak.accounting.discrete import discrete_gaussian_cover
from skleak.accounting.selection import draw_trials
from skleak.exceptions import NoGuaranteeError
from skleak.linear_model._linear import MechanismModel
from skleak.linear_model._releasing import stated_guarantee
from skleak.linear_model.moments import PrivateMoments, ReleasedMoments
from skleak.mechanisms import EpsilonDelta, GaussianDP, release_on_grid
from skleak.mechanisms.protocol import ChargedParameters, Selection, SelectionNoise
from skleak.report.guarantee import DELTA, DifferentialPrivacy, Promises, noise_guarantee
from skleak.utils._arguments import OwnSeed, make_generator
from skleak.utils._blocks import is_large_source
from skleak.utils._sklearn_compat import Interval, fit_context, leaves_whole
from skleak.utils._typing import Array

# What a trial keeps of its mu for grids, and the multiple of what scores are, whose sums are exact.
_KEPT, _UNIT = 1e-6, 2.0**-20


@dataclass(eq=False, repr=False)
class PrivateSearchCV(DelegatedPredictionMixin, ChargedParameters, BaseEstimator):
    """Choose parameters of a private estimator on the records, under one guarantee for all of it.

    A random number of trials is made. Each draws parameters from the grid, fits the estimator on
    the training rows, and counts right labels (or sums clipped squared errors) on rows that were
    held out, with noise. The fit of the best noisy score is kept as it is: the winner is released,
    and nothing else. The price is known before any record is seen (``cost_``), and does not grow
    with the grid: it is much less than that of all trials, and more than that of one. The law of
    the number of trials is a truncated negative binomial one (Papernot and Steinke, ICLR 2022). See
    docs/theory/differential_privacy.md.

    Parameters
    ----------
    estimator : PrivateLogisticRegression, PrivateLinearRegression or PrivateMoments
        With all that a guarantee needs. Its goal is set by the search, and it has no seed and no
        ledger of its own.
    grid : dict or list of dict
        Values of parameters, as for scikit-learn's `ParameterGrid`. Public knowledge. A promise
        such as ``data_norm`` may be among them where its breach is no error.
    goal : EpsilonDelta or GaussianDP
        The guarantee of the whole search.
    expected_trials : float, default=20.0
        Mean number of trials, from 1.001 to 1000.
    eta : float, default=0.0
        Shape of the law of the number of trials: 0 for the logarithmic one, 1 for the geometric
        one, which varies less and costs more.
    validation : float in (0, 1), default=0.2
        Share of the rows that is held out, at random; the others train.
    largest_error : float or None, default=None
        For regression: absolute error beyond which it counts no more, a public number. By default
        the ``target_bound`` of the estimator.
    random_state : None, int, RandomState or Generator, default=None
        None draws from the operating system's cryptographic randomness. All else can be replayed,
        and is for experiments: no guarantee holds, and a ledger enters infinity.
    ledger : str, Path, LeakageLedger or None, default=None
        A `skleak.accounting.LeakageLedger` or the path of an existing one. A search is one row of
        it, written before the first trial.
    ledger_dataset : str, default="default"
        Name of this data set in the ledger.

    Attributes
    ----------
    cost_ : dict
        What the search costs, from public numbers, also before ``fit``: ``epsilon`` at ``delta``,
        ``composed_mu`` that a ledger enters, ``trial_mu`` of each trial, ``expected_trials`` and
        ``eta``; with ``random_state=None``.
    best_estimator_ : ReleasedModel or ReleasedMoments
        The winner, as it may be published, with the guarantee of the search.
    best_params_ : dict
        Its parameters, of the grid.
    best_score_ : float
        Its noisy score over the number of rows held out: share of right labels, or 1 less the mean
        of squared errors over the largest. Too good on average, as the best of several is.
    n_features_in_, feature_names_in_, classes_ : int, ndarray of str, ndarray
        Those of the winner.

    Notes
    -----
    How many trials there were, and all that did not win, is confidential, and is not kept. How long
    ``fit`` takes tells of the number of trials: it must not be seen by whom the guarantee is for.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import normalize
    >>> from skleak.linear_model import PrivateLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PrivateLogisticRegression(
    ...     mechanism="objective",
    ...     data_norm=1.0,
    ...     fit_intercept=False,
    ...     classes=[0, 1],
    ...     public=("n_samples",),
    ... )
    >>> search = PrivateSearchCV(
    ...     model, {"alpha": [0.03, 0.1, 0.3]}, EpsilonDelta(3.0, 1e-6), expected_trials=5
    ... )
    >>> round(search.cost_["trial_mu"], 2)
    0.51
    >>> released = search.fit(normalize(X), y).release(require_guarantee=True)
    >>> released.provenance_["differential_privacy"]["epsilon"] <= 3.0
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ChargedParameters._parameter_constraints,
        "goal": [EpsilonDelta, GaussianDP],
        "validation": [Interval(Real, 0, 1, closed="neither")],
        "largest_error": [Interval(Real, 0, None, closed="neither"), None],
    }

    _made: ClassVar[str] = "_predictor"

    estimator: Any
    grid: Any
    goal: "EpsilonDelta | GaussianDP"
    expected_trials: float = field(default=20.0, kw_only=True)
    eta: float = field(default=0.0, kw_only=True)
    validation: float = field(default=0.2, kw_only=True)
    largest_error: float | None = field(default=None, kw_only=True)

    @property
    def cost_(self) -> dict[str, float]:
        """Tell what the search costs, from public numbers alone."""
        noise, delta = self._noise, self._delta
        names = ("composed_mu", "trial_mu", "expected_trials", "eta")
        stated = {"epsilon": noise.epsilon(delta), "delta": delta}
        return stated | {name: getattr(noise, name) for name in names}

    @property
    def _noise(self) -> SelectionNoise:
        return Selection(self.expected_trials, self.eta).calibrate(self.goal)

    @property
    def _delta(self) -> float:
        return float(self.goal.delta) if isinstance(self.goal, EpsilonDelta) else DELTA

    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    def fit(self, X: Any, y: Any) -> Self:
        """Make the trials, and keep the best. Every call is a search of its own.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Records, in memory. Their number is public.
        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            For an estimator of another kind.
        ValueError
            For a grid of parameters that are the search's own, and where a fit fails.
        NoGuaranteeError
            For parameters with which the estimator has no guarantee.
        LeakageBudgetError
            Where the search would pass a ceiling of the ledger; no trial is made then.
        """
        settings, noise, secret = self._settings(X), self._noise, self.random_state is None
        cost = self.cost_
        X, y = (
            part if hasattr(part, "iloc") or sparse.issparse(part) else np.asarray(part)
            for part in indexable(
                X, column_or_1d(y, warn=True)
            )  # of a column scores would be pairs
        )
        n_held = round(self.validation * len(y))
        if not 0 < n_held < len(y):
            raise ValueError(
                f"`validation={self.validation}` leaves no rows to train on or to hold out, of "
                f"{len(y)}. Pass another share, or more records."
            )
        promises = Promises(public=frozenset({"n_samples"}), seeded=not secret)
        guarantee = noise_guarantee(noise, promises, delta=self._delta)
        of = type(self.estimator).__name__
        self._charge(noise.composed_mu if secret else None, of=of, **cost)
        source: Any = random.SystemRandom()
        if not secret:
            source = random.Random(int(make_generator(self.random_state).integers(2**62)))
        order = np.array(source.sample(range(len(y)), len(y)))
        parts = order[n_held:], order[:n_held]
        train, held = ((_rows(X, rows), _rows(y, rows)) for rows in parts)
        best: Any = None
        for _ in range(draw_trials(noise.eta, noise.gamma, source)):
            setting = source.choice(settings)
            score, model = self._trial(setting, noise.trial_mu, train, held, source)
            found = (score, source.random()), setting, model  # ties are broken at random
            best = found if best is None or found[0] > best[0] else best
        self.best_score_ = float(best[0][0]) / n_held
        self.best_params_ = dict(best[1])
        self._guarantee, self.best_estimator_ = _stating(best[2], guarantee, cost)
        self._predictor = _predictor(self.best_estimator_)
        self._take_columns_of(self._predictor)
        return self

    def _settings(self, X: Any) -> list[dict[str, Any]]:
        """List the settings of the grid, after a check of what is public."""
        model = self.estimator
        if not isinstance(model, MechanismModel | PrivateMoments):
            raise TypeError(
                "`estimator` must be a PrivateLogisticRegression, a PrivateLinearRegression or a "
                f"PrivateMoments; got {type(model).__name__}. Others have no guarantee, or one up "
                "to a delta that no bound on a search is known for (private SGD). Of a pipeline "
                "make the search the last step, behind steps with public parameters."
            )
        if is_large_source(X):
            raise ValueError(f"X must lie in memory; got a {type(X).__name__}.")
        settings = list(ParameterGrid(self.grid))
        own = {_goal_of(model), "random_state", "ledger", "ledger_dataset"}
        wrong = Selection().obstacles(model.get_params(deep=False))
        wrong |= {
            f"`{name}` must not be in the grid": True for name in own & set().union(*settings)
        }
        reasons = sorted(reason for reason, is_wrong in wrong.items() if is_wrong)
        if reasons:
            raise ValueError(f"The search sets it for all trials: {'; '.join(reasons)}.")
        if not is_classifier(model) and self._largest_error is None:
            raise ValueError(
                "`largest_error` must be a public number: errors beyond it count no more. Got None."
            )
        return settings

    @property
    def _largest_error(self) -> float | None:
        given = self.largest_error
        return getattr(self.estimator, "target_bound", None) if given is None else float(given)

    def _trial(
        self, setting: dict[str, Any], mu: float, train: Any, held: Any, source: Any
    ) -> tuple[float, Any]:
        """Fit with a setting, and score with noise: mu-GDP together.

        A row is in one of the two parts. If it trains, the score is a function of the release and
        of other rows; if it is held out, the release does not hang on it.
        """
        inner = mu * (1.0 - _KEPT)
        seed = None if self.random_state is None else OwnSeed(source.getrandbits(31))
        own = {_goal_of(self.estimator): GaussianDP(inner), "random_state": seed}
        model = clone(self.estimator).set_params(**setting, **own)
        # What warnings say of the records must not be said.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(*train)
            released = model.release(require_guarantee=seed is None)
            predicted = _predictor(released).predict(held[0])
        scale = 1.0 / (inner - 2.0**-29)
        spent = float(discrete_gaussian_cover(1.0 / scale, n_parameters=1))
        if seed is None:
            spent = max(spent, model._guarantee.composed_mu)
        if not spent <= mu:
            raise NoGuaranteeError(
                f"A trial has mu={spent:.9g}, above its share {mu:.9g}: the grid of the noise "
                "costs too much. Pass a larger goal, or fewer `expected_trials`."
            )
        noise = None if seed is None else np.random.default_rng(seed)
        total = float(np.sum(self._counted(predicted, np.asarray(held[1])))) * _UNIT
        return float(release_on_grid([total], scale, noise).parameters[0]), released

    def _counted(self, predicted: Array, y: Array) -> Array:
        """Whole multiples of the unit, from zero to one, that each row adds to the score, (n,)."""
        if is_classifier(self.estimator):
            return np.asarray((predicted == y) / _UNIT, dtype=np.int64)
        with np.errstate(all="ignore"):
            shares = np.square((predicted - y.astype(float)) / self._largest_error)
        left = np.clip(1.0 - np.nan_to_num(shares, nan=1.0), 0.0, 1.0)
        return np.asarray(np.floor(left / _UNIT), dtype=np.int64)

    def release(self, *, require_guarantee: bool = False) -> Any:
        """Return what may be published: the winner, with the guarantee of the whole search.

        Parameters
        ----------
        require_guarantee : bool, default=False
            Raise unless a guarantee of differential privacy holds.

        Returns
        -------
        ReleasedModel or ReleasedMoments

        Raises
        ------
        NoGuaranteeError
            Where a guarantee is required and none holds.

        Warns
        -----
        PrivacyLeakWarning
            Where the noise came from a seed or a generator, which can be copied.
        """
        check_is_fitted(self, "best_estimator_")
        refuse_without_guarantee(self._guarantee, require_guarantee)
        warn_of_release(seeded=not self._guarantee.holds)
        return copy.deepcopy(self.best_estimator_)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what data the estimator takes."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.input_tags.sparse = inner.estimator_type, inner.input_tags.sparse
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags.required = True
        return tags


def _goal_of(model: Any) -> str:
    """Name of the parameter that holds the goal."""
    return "goal" if isinstance(model, PrivateMoments) else "noise_scale"


def _rows(table: Any, rows: Any) -> Any:
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def _predictor(released: Any) -> Any:
    return released.regress() if isinstance(released, ReleasedMoments) else released


def _stating(
    released: Any, guarantee: DifferentialPrivacy, cost: dict[str, float]
) -> tuple[DifferentialPrivacy, Any]:
    """Give a winner the guarantee of the search in place of its own."""
    if isinstance(released, ReleasedMoments):
        before = released.differential_privacy.assumptions
        guarantee = replace(guarantee, assumptions=(*before, *guarantee.assumptions))
        return guarantee, replace(released, differential_privacy=guarantee)
    own = released.provenance_.get("differential_privacy") or {}
    rests = (*own.get("assumptions", ()), *guarantee.assumptions)
    guarantee = replace(guarantee, exact=bool(own.get("exact", False)), assumptions=rests)
    made = {"search": cost, "differential_privacy": stated_guarantee(guarantee)}
    released.provenance_ = {**released.provenance_, **made}
    return guarantee, released
