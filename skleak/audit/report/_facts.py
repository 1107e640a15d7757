"""The numbers of the report of an audit."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd


@dataclass(frozen=True, repr=False)
class AuditFacts:
    """Fields of an `AuditReport`, which says what they hold."""

    estimator: str
    attribute: str | None
    kind: str
    results: pd.DataFrame
    records: pd.DataFrame
    settings: dict[str, Any]
    reproducibility: dict[str, str]
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)
    groups: pd.DataFrame = field(default_factory=pd.DataFrame)
    findings: tuple[str, ...] = field(default=())
    assumptions: tuple[str, ...] = field(default=())

    @property
    def bounds(self) -> tuple[str, ...]:
        """Columns of the results that hold bounds."""
        return tuple(map(str, self.settings["bounds"]))

    @property
    def noiseless(self) -> bool:
        """True if there is no noise to speak of: none of the model's own, and none added."""
        own = self.kind != "membership" and self.settings.get("has_noise", True)
        return not own and not self.results["noise_scale"].any()

    @property
    def unbounded(self) -> str:
        """Why nothing is known of attacks that were not played; empty where something may be."""
        return str(self.settings.get("no_bound", ""))
