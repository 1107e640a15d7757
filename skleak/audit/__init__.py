"""Audits: what real attacks learn from releases, beside what any attack could."""

from skleak.audit._auditors import LeakageAuditor, MembershipAuditor
from skleak.audit._gain import attribute_gain
from skleak.audit.noise._checks import check_noise
from skleak.utils import announce as _announce

__all__ = ["LeakageAuditor", "MembershipAuditor", "attribute_gain", "check_noise"]

_announce(__name__)
