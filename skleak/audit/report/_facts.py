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
    findings: tuple[str, ...] = field(default=())
    assumptions: tuple[str, ...] = field(default=())

    @property
    def bounds(self) -> tuple[str, ...]:
        """Columns of the results that hold bounds."""
        return tuple(map(str, self.settings["bounds"]))

    @property
    def noiseless(self) -> bool:
        """True if membership was audited without noise: then there is none to speak of."""
        return self.kind == "membership" and not self.results["noise_scale"].any()
