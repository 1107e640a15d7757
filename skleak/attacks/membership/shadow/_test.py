"""The test from shadow models: what is learnt of every target, and what a model says of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.adversary._membership_records import released_models
from skleak.adversary._membership_scores import is_probabilistic
from skleak.attacks.membership.shadow._models import balanced_halves, shadow_scores, shadow_template
from skleak.attacks.membership.shadow._records import (
    check_apart,
    check_labels,
    pick,
    plain_targets,
    stack_records,
    stack_targets,
)
from skleak.attacks.membership.shadow._scores import (
    ScoreLaws,
    Statistic,
    Variance,
    fit_laws,
    record_scores,
    score_limit,
)
from skleak.utils._random import spawn_generators
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray, RandomState

__all__ = ["ShadowPlan", "ShadowTest", "fit_shadow_test"]


@dataclass(frozen=True)
class ShadowPlan:
    """Which shadow models are trained, and what they are asked.

    Parameters
    ----------
    offline : bool
        Whether they are trained on reference records alone.
    n_models : int
        How many there are.
    statistic : callable or None
        See `record_scores`.
    variance : {"auto", "per_record", "global"}
        See `fit_laws`.
    """

    offline: bool
    n_models: int
    statistic: Statistic | None
    variance: Variance


@dataclass(frozen=True)
class ShadowTest:
    """What shadow models tell of every target. Confidential.

    Parameters
    ----------
    plan : ShadowPlan
        How they were made.
    asked : pair of records of shape (n_targets, ...) and ndarray of shape (n_targets,)
        Records under attack and their targets or labels.
    probabilistic : bool
        Whether the models give probabilities of classes.
    scores : ndarray of shape (n_models, n_targets)
        Of every target under every shadow model.
    trained_on : ndarray of bool of shape (n_models, n_targets)
        Whether the model was trained on it.
    laws : ScoreLaws
        Fitted to the scores.
    """

    plan: ShadowPlan
    asked: tuple[Any, Array]
    probabilistic: bool
    scores: FloatArray
    trained_on: BoolArray
    laws: ScoreLaws

    def evidence(self, released: Any) -> FloatArray:
        """Log-likelihood ratio, offline minus the log of the p-value.

        Parameters
        ----------
        released : estimator, pipeline, or list of them
            Fitted or released models under attack.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_models, n_targets)
            Finite.

        Raises
        ------
        TypeError
            For anything but fitted models.
        ValueError
            For a model of other columns or labels than the shadow models.
        """
        models, single = released_models(released)
        scores = np.stack([self._scores(model) for model in models])
        if self.plan.offline:
            residuals = self.plan.statistic is None and not self.probabilistic
            found = self.laws.surprise(scores, two_ends=residuals)
        else:
            found = self.laws.log_ratio(scores)
        return found[0] if single else found

    def _scores(self, model: Any) -> FloatArray:
        X, y = self.asked
        if self.plan.statistic is None and is_probabilistic(model) != self.probabilistic:
            kinds = ["a regressor", "a classifier"]
            raise ValueError(
                f"The model under attack is {kinds[not self.probabilistic]} and the shadow models "
                f"are not: `estimator` is {kinds[self.probabilistic]}. Pass the estimator that "
                "the model was trained with."
            )
        names = getattr(model, "feature_names_in_", None)
        if names is not None and hasattr(X, "columns"):
            extra = [name for name in X.columns if name not in set(names)]
            if extra:
                raise ValueError(
                    f"Shadow models were trained on columns that the {type(model).__name__} under "
                    f"attack has not seen: {extra[:5]}. Fit the attack without them."
                )
        return record_scores(model, X, y, self.plan.statistic)


def fit_shadow_test(
    estimator: Any,
    candidates: tuple[Any, Array],
    reference: tuple[Any, Array] | None,
    targets: IntArray,
    plan: ShadowPlan,
    random_state: RandomState,
    n_jobs: int | None,
    verbose: int,
) -> ShadowTest:
    """Train shadow models and fit the laws of the scores of every target.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Fitted or not.
    candidates : pair of records of shape (n, ...) and ndarray of shape (n,)
        Records that may be members.
    reference : pair of records of shape (m, ...) and ndarray of shape (m,), or None
        Other records of the population; needed offline.
    targets : ndarray of int of shape (n_targets,)
        Positions of the candidates under attack.
    plan : ShadowPlan
        Which models.
    random_state : None, int, RandomState or Generator
        Seed.
    n_jobs, verbose : int
        See `shadow_scores`.

    Returns
    -------
    ShadowTest
    """
    template = shadow_template(estimator)
    probabilistic = hasattr(template, "predict_proba")
    X, y = candidates[0], plain_targets(candidates[1])
    asked = pick(X, targets), y[targets]
    records = X, y
    if reference is not None:
        others = reference[0], plain_targets(reference[1])
        both = stack_records(X, others[0]), stack_targets(y, others[1])
        if probabilistic:
            check_labels(y, others[1])
        check_apart(*asked, *others)
        records = others if plan.offline else both
    n = len(records[1])
    own, *generators = spawn_generators(random_state, plan.n_models + 1)
    halves = balanced_halves(records[1] if probabilistic else None, n, plan.n_models, own)
    scores = shadow_scores(
        template, records, halves, asked, plan.statistic, generators, n_jobs=n_jobs, verbose=verbose
    )
    trained_on = np.zeros(scores.shape, dtype=bool) if plan.offline else halves[:, targets]
    odds = plan.statistic is None and probabilistic
    limit = score_limit(scores) if odds else np.inf
    laws = fit_laws(scores, None if plan.offline else trained_on, plan.variance, limit)
    return ShadowTest(plan, asked, probabilistic, scores, trained_on, laws)
