"""Audits: what real attacks learn from releases, beside what any attack could."""

from skleak.audit._auditor import LeakageAuditor
from skleak.audit._report import AuditReport

__all__ = ["AuditReport", "LeakageAuditor"]
