"""The numbers of a report of private SGD."""

from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True, repr=False)
class SGDFacts:
    """Fields of a `PrivateSGDReport`, which says what they hold."""

    estimator: str
    records: pd.DataFrame
    guesses: pd.DataFrame
    reconstruction: pd.DataFrame
    differential_privacy: dict[str, Any]
    dataset: dict[str, Any]
