"""Audits: what real attacks learn from releases, beside what any attack could."""

from skleak.audit._auditor import LeakageAuditor
from skleak.audit._control import attribute_gain
from skleak.audit._gain import AttributeGain
from skleak.audit._report import AuditReport

__all__ = ["AttributeGain", "AuditReport", "LeakageAuditor", "attribute_gain"]
