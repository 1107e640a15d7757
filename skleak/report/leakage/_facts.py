"""The numbers of a leakage report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from skleak.report._report import Finding
from skleak.report.guarantee._output_perturbation import DifferentialPrivacy
from skleak.report.measures._features import CARRIERS, PersonTable
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.summaries._quantiles import Quantiles


@dataclass(frozen=True)
class LossBins:
    """Numbers of records by loss, where a report lists the most exposed ones alone."""

    whole: Quantiles
    groups: Mapping[Any, Quantiles]  # by label; empty without groups

    def bins(self) -> tuple[FloatArray, IntArray, Array | None]:
        """Losses (k,), how many records have each, (k,), and the group of these, or None."""
        if not self.groups:
            return self.whole.values, self.whole.counts, None
        labels = np.empty(len(self.groups), dtype=object)
        labels[:] = list(self.groups)
        parts = list(self.groups.values())
        return (
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.repeat(labels, [len(part.counts) for part in parts]),
        )


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
    losses: LossBins | None = None
