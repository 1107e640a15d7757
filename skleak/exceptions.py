"""Warnings and errors of skleak that are not plain ``ValueError`` or ``TypeError``."""

__all__ = [
    "AttackNotApplicableError",
    "CheckpointWarning",
    "CostWarning",
    "IncompleteAuditWarning",
    "LeakageBudgetError",
    "NoGuaranteeError",
    "NoMinimizerWarning",
    "PartialBlockWarning",
    "PrivacyLeakWarning",
    "ReleaseMismatchWarning",
    "UnevenLeakageWarning",
    "UnprotectedValueWarning",
]


class PrivacyLeakWarning(UserWarning):
    """Something confidential may leave, or a stated guarantee does not hold."""


class UnprotectedValueWarning(PrivacyLeakWarning):
    """The noise of a release is too small to hide some value of some record from anybody."""


class ReleaseMismatchWarning(UserWarning):
    """A release is none of what an attack supposes: other data, weights, preprocessing or noise."""


class IncompleteAuditWarning(UserWarning):
    """An audit stopped short; what was finished is kept."""


class NoMinimizerWarning(UserWarning):
    """With another value of some records no minimiser is reached: what that tells is not known."""


class CostWarning(UserWarning):
    """A call takes long; or is about some of the records only, as all of them would take long."""


class CheckpointWarning(UserWarning):
    """The checkpoint of an audit cannot be written; the audit goes on without it."""


class PartialBlockWarning(UserWarning):
    """A noise goal names some columns of a one-hot block, which change only together."""


class UnevenLeakageWarning(UserWarning):
    """A reweighting that was to even what records leak did not make it equal."""


class AttackNotApplicableError(ValueError):
    """An attack cannot be played on this estimator or attribute."""


class NoGuaranteeError(ValueError):
    """A guarantee was required, and none holds."""


class LeakageBudgetError(ValueError):
    """A release would take the total leakage of a data set past its ceiling."""
