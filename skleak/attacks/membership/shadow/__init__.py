"""Shadow models: trained like the model under attack, on sets whose members are known."""

from skleak.attacks.membership.shadow._design import (
    ShadowPlan,
    ShadowTest,
    fit_shadow_test,
    train_shadow_models,
)
from skleak.attacks.membership.shadow._evidence import choose_pooling, fit_evidence
from skleak.attacks.membership.shadow._records import Records, known_records
from skleak.attacks.membership.shadow._relative import (
    dominated_shares,
    interpolation_of,
    likelihoods,
    residual_scale,
    usual_likelihoods,
)
from skleak.attacks.membership.shadow._scores import record_scores, score_limit
from skleak.attacks.membership.shadow._shrinkage import Pooling

__all__ = [
    "Pooling",
    "Records",
    "ShadowPlan",
    "ShadowTest",
    "choose_pooling",
    "dominated_shares",
    "fit_evidence",
    "fit_shadow_test",
    "interpolation_of",
    "known_records",
    "likelihoods",
    "record_scores",
    "residual_scale",
    "score_limit",
    "train_shadow_models",
    "usual_likelihoods",
]
