"""Shadow models: trained like the model under attack, on sets whose members are known."""

from skleak.attacks.membership.shadow._design import ShadowPlan, ShadowTest, fit_shadow_test
from skleak.attacks.membership.shadow._evidence import choose_pooling, fit_evidence
from skleak.attacks.membership.shadow._records import known_records
from skleak.attacks.membership.shadow._scores import record_scores, score_limit
from skleak.attacks.membership.shadow._shrinkage import Pooling

__all__ = [
    "Pooling",
    "ShadowPlan",
    "ShadowTest",
    "choose_pooling",
    "fit_evidence",
    "fit_shadow_test",
    "known_records",
    "record_scores",
    "score_limit",
]
