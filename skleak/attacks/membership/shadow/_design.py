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
class ShadowModels:
    """Answers of shadow models about some records. Confidential."""

    asked: Records  # Whom they were asked about, (n, ...)
    statistic: Statistic | None  # See `record_scores`, or None
    probabilistic: bool  # True if the models give probabilities of classes
    scores: FloatArray  # Of every record under every model, (n_models, n)
    trained_on: BoolArray  # True if the model was trained on it, (n_models, n)
    weighted: bool = False  # True if the sample weights of the fit were given

    def scores_of(self, released: Any) -> tuple[FloatArray, bool]:
        """Scores under models under attack, (n_models, n), and whether there is a single one."""
        models, single = released_models(released)
        for model in models:
            check_weights_known(model, weighted=self.weighted)
        return np.stack([self._scores(model) for model in models]), single

    def _scores(self, model: Any) -> FloatArray:
        X, y, _ = self.asked
        if self.statistic is None and is_probabilistic(model) != self.probabilistic:
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
        return record_scores(model, X, y, self.statistic)


@dataclass(frozen=True)
class ShadowTest:
    """Evidence of the shadow models about every target. Confidential."""

    models: ShadowModels
    laws: ScoreLaws  # Fitted to the scores
    evidence_of: Evidence | None  # What scores tell by them; None offline

    def evidence(self, released: Any) -> FloatArray:
        """Log-likelihood ratio, offline minus the log of the p-value.

        Returns (n_targets,) or (n_models, n_targets): finite.
        """
        scores, single = self.models.scores_of(released)
        if self.evidence_of is None:
            residuals = self.models.statistic is None and not self.models.probabilistic
            found = self.laws.surprise(scores, two_ends=residuals)
        else:
            found = self.evidence_of.log_ratio(scores)
        return found[0] if single else found


def train_shadow_models(
    estimator: Any,
    candidates: Records,
    reference: Records | None,
    rows: IntArray,
    *,
    offline: bool,
    n_models: int,
    run: tuple[RandomState, int | None, int],
    statistic: Statistic | None = None,
) -> ShadowModels:
    """Train shadow models, offline on reference records alone, and ask them about some records.

    Shapes: ``rows`` (n_asked,), positions among candidates and reference records in this order;
    ``run`` seed, jobs and verbosity.
    """
    template = shadow_template(estimator)
    weight_argument(template, candidates.weights)  # raises where none are taken
    probabilistic = hasattr(template, "predict_proba")
    known = everyone = candidates
    n = len(candidates.y)
    if reference is not None:
        everyone = candidates.and_others(reference)
        if probabilistic:
            check_labels(candidates.y, reference.y)
        own = candidates.at(rows[rows < n])
        check_apart(own.X, own.y, reference.X, reference.y)
        known = reference if offline else everyone
    random_state, n_jobs, verbose = run
    first, *generators = spawn_generators(random_state, n_models + 1)
    halves = balanced_halves(known.y if probabilistic else None, len(known.y), n_models, first)
    asked = everyone.at(rows)
    scores = shadow_scores(
        template, known, halves, asked, statistic, generators, n_jobs=n_jobs, verbose=verbose
    )
    # Offline no candidate was trained on.
    inside = np.hstack([np.zeros((n_models, n), dtype=bool), halves]) if offline else halves
    weighted = candidates.weights is not None
    return ShadowModels(asked, statistic, probabilistic, scores, inside[:, rows], weighted)


def fit_shadow_test(
    estimator: Any,
    candidates: Records,
    reference: Records | None,
    targets: IntArray,
    plan: ShadowPlan,
    run: tuple[RandomState, int | None, int],
) -> ShadowTest:
    """Train shadow models and fit the laws of the scores of every target.

    Shapes: ``targets`` (n_targets,).
    """
    options: dict[str, Any] = {"offline": plan.offline, "n_models": plan.n_models, "run": run}
    models = train_shadow_models(
        estimator, candidates, reference, targets, statistic=plan.statistic, **options
    )
    scores, trained_on = models.scores, models.trained_on
    odds = plan.statistic is None and models.probabilistic
    limit = score_limit(scores) if odds else np.inf
    if plan.offline:
        pooling = Pooling() if plan.shrinkage else None
        return ShadowTest(
            models, fit_laws(scores, None, plan.variance, limit, pooling=pooling), None
        )
    residuals = plan.statistic is None and not models.probabilistic
    # Of two models in turn, one was trained on what the other was not.
    pairs = np.arange(plan.n_models // 2 * 2).reshape(-1, 2)
    options = {"residuals": residuals, "groups": pairs}
    pooling = choose_pooling(scores, trained_on, limit, **options) if plan.shrinkage else None
    table = scores, trained_on, plan.variance, limit
    evidence = fit_evidence(*table, pooling=pooling, **options)
    return ShadowTest(models, evidence.laws, evidence)
