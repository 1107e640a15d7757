"""The test from shadow models: what is learnt of every target, and what a model says of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import check_weights_known, weight_argument
from skleak.adversary.membership import is_probabilistic, released_models
from skleak.attacks.membership.shadow._evidence import Evidence, choose_pooling, fit_evidence
from skleak.attacks.membership.shadow._laws import ScoreLaws, Variance, fit_laws
from skleak.attacks.membership.shadow._models import balanced_halves, shadow_scores, shadow_template
from skleak.attacks.membership.shadow._records import (
    Records,
    check_apart,
    check_labels,
)
from skleak.attacks.membership.shadow._scores import Statistic, record_scores, score_limit
from skleak.attacks.membership.shadow._shrinkage import Pooling
from skleak.utils._random import spawn_generators
from skleak.utils._typing import BoolArray, FloatArray, IntArray, RandomState


@dataclass(frozen=True)
class ShadowPlan:
    """Design of the shadow models: their records, and the score asked of them."""

    offline: bool  # True if they are trained on reference records alone
    n_models: int  # How many there are
    statistic: Statistic | None  # See `record_scores`, or None
    variance: Variance  # {"auto", "per_record", "global"}: See `fit_laws`
    shrinkage: bool  # True if laws of records are shrunk towards those of all


@dataclass(frozen=True)
class ShadowTest:
    """Evidence of the shadow models about every target. Confidential."""

    plan: ShadowPlan  # How they were made
    asked: Records  # Those under attack, (n_targets, ...)
    probabilistic: bool  # True if the models give probabilities of classes
    scores: FloatArray  # Of every target under every shadow model, (n_models, n_targets)
    trained_on: BoolArray  # True if the model was trained on it, (n_models, n_targets)
    laws: ScoreLaws  # Fitted to the scores
    evidence_of: Evidence | None  # What scores tell by them; None offline
    weighted: bool = False  # True if the sample weights of the fit were given

    def evidence(self, released: Any) -> FloatArray:
        """Log-likelihood ratio, offline minus the log of the p-value.

        Returns (n_targets,) or (n_models, n_targets): finite.
        """
        models, single = released_models(released)
        for model in models:
            check_weights_known(model, weighted=self.weighted)
        scores = np.stack([self._scores(model) for model in models])
        if self.evidence_of is None:
            residuals = self.plan.statistic is None and not self.probabilistic
            found = self.laws.surprise(scores, two_ends=residuals)
        else:
            found = self.evidence_of.log_ratio(scores)
        return found[0] if single else found

    def _scores(self, model: Any) -> FloatArray:
        X, y, _ = self.asked
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
    candidates: Records,
    reference: Records | None,
    targets: IntArray,
    plan: ShadowPlan,
    random_state: RandomState,
    n_jobs: int | None,
    verbose: int,
) -> ShadowTest:
    """Train shadow models and fit the laws of the scores of every target.

    Shapes: ``targets`` (n_targets,).
    """
    template = shadow_template(estimator)
    weighted = candidates.weights is not None
    weight_argument(template, candidates.weights)  # raises where none are taken
    probabilistic = hasattr(template, "predict_proba")
    known = candidates
    asked = candidates.at(targets)
    if reference is not None:
        both = candidates.and_others(reference)
        if probabilistic:
            check_labels(candidates.y, reference.y)
        check_apart(asked.X, asked.y, reference.X, reference.y)
        known = reference if plan.offline else both
    own, *generators = spawn_generators(random_state, plan.n_models + 1)
    halves = balanced_halves(known.y if probabilistic else None, len(known.y), plan.n_models, own)
    scores = shadow_scores(
        template, known, halves, asked, plan.statistic, generators, n_jobs=n_jobs, verbose=verbose
    )
    trained_on = np.zeros(scores.shape, dtype=bool) if plan.offline else halves[:, targets]
    limit = score_limit(scores) if plan.statistic is None and probabilistic else np.inf
    if plan.offline:
        pooling = Pooling() if plan.shrinkage else None
        laws, evidence = fit_laws(scores, None, plan.variance, limit, pooling=pooling), None
    else:
        residuals = plan.statistic is None and not probabilistic
        # Of two models in turn, one was trained on what the other was not.
        pairs = np.arange(plan.n_models // 2 * 2).reshape(-1, 2)
        options: dict[str, Any] = {"residuals": residuals, "groups": pairs}
        pooling = choose_pooling(scores, trained_on, limit, **options) if plan.shrinkage else None
        table = scores, trained_on, plan.variance, limit
        evidence = fit_evidence(*table, pooling=pooling, **options)
        laws = evidence.laws
    return ShadowTest(plan, asked, probabilistic, scores, trained_on, laws, evidence, weighted)
