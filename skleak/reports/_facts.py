"""The numbers of a leakage report."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from skleak.reports._guarantee import DifferentialPrivacy
from skleak.reports.measures._features import CARRIERS, PersonTable


@dataclass(frozen=True)
class Finding:
    """Facts about a topic: numbers, names and yes or no. Confidential."""

    topic: str  # Name of the topic
    facts: dict[str, Any]  # By name; shares are between 0 and 1

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]


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
