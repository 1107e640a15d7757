"""Sentence: the excess over its bound that the games of an audit were able to find."""

from typing import TYPE_CHECKING

import numpy as np

from skleak.rendering._format import number

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["power_findings"]


def power_findings(report: "AuditReport") -> list[str]:
    """Say how far above its bound an attack had to be, to be found; empty without a bound."""
    if "detectable_excess" not in report.results:
        return []
    excess = report.results["detectable_excess"].to_numpy(dtype=float)
    excess = excess[~np.isnan(excess)]
    if not len(excess):
        return []
    if np.isinf(excess).all():
        return ["The games were too few to find out any attack that exceeds its bound."]
    largest = excess[np.isfinite(excess)].max()
    some = (
        " (of other comparisons none, as the games were too few)" if np.isinf(excess).any() else ""
    )
    return [
        "The games played find out, in 80% of audits, an attack that is right more often than its "
        f"bound allows by {number(100.0 * largest)} percentage points or more{some}."
    ]
