"""The numbers of a leakage report."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from skleak.rendering import Finding
from skleak.reports._guarantee import DifferentialPrivacy
from skleak.reports.measures._features import CARRIERS, PersonTable


@dataclass(frozen=True, repr=False)
class LeakageFacts:
    """Fields of a `LeakageReport`, which says what they hold."""

    estimator: str
    records: pd.DataFrame
    features: pd.DataFrame
    groups: pd.DataFrame
    dataset: dict[str, Any]
    differential_privacy: DifferentialPrivacy
    findings: tuple[str, ...] = field(default=())
    assumptions: tuple[str, ...] = field(default=())
    facts: tuple[Finding, ...] = field(default=())
    carriers: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(CARRIERS)))
    persons: PersonTable | None = None
