"""Warnings and errors of skleak that are not plain ``ValueError`` or ``TypeError``."""

__all__ = [
    "AttackNotApplicableError",
    "IncompleteAuditWarning",
    "LeakageBudgetError",
    "PrivacyLeakWarning",
    "VacuousBoundWarning",
]


class PrivacyLeakWarning(UserWarning):
    """Something confidential may leave, or a stated guarantee does not hold."""


class IncompleteAuditWarning(UserWarning):
    """An audit stopped short; what was finished is kept."""


class VacuousBoundWarning(UserWarning):
    """A bound is valid but says nothing, for instance an advantage of at most 1."""


class AttackNotApplicableError(ValueError):
    """An attack cannot be played on this estimator or attribute."""


class LeakageBudgetError(ValueError):
    """A release would take the total leakage of a data set past its ceiling."""
