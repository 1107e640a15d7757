"""Audits: what real attacks learn from releases, beside what any attack could."""

from skleak.audit._leakage import LeakageAuditor
from skleak.audit._membership import MembershipAuditor
from skleak.audit.gain._control import attribute_gain
from skleak.audit.gain._gain import AttributeGain
from skleak.audit.noise._claims import check_noise
from skleak.audit.report._person import PersonAudit
from skleak.audit.report._report import AuditReport
from skleak.audit.report.overview._dossier import Dossier

__all__ = [
    "AttributeGain",
    "AuditReport",
    "Dossier",
    "LeakageAuditor",
    "MembershipAuditor",
    "PersonAudit",
    "attribute_gain",
    "check_noise",
]
