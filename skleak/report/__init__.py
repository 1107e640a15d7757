"""Reports: frozen numbers, sentences about them, and renderers that compute nothing."""

from skleak.report.audit._report import AuditReport, PersonAudit
from skleak.report.leakage._report import LeakageReport, PersonReport
from skleak.utils import announce as _announce

__all__ = ["AuditReport", "LeakageReport", "PersonAudit", "PersonReport"]

_announce(__name__)
