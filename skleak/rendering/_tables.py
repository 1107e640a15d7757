"""Which rows of a report's tables are shown, where not all are."""

import numpy as np
import pandas as pd

__all__ = ["exposure", "shown_features", "shown_groups"]


def exposure(features: pd.DataFrame) -> pd.Series:
    """Return how many times sharper than the column's own spread an attacker might get.

    Returns: standard deviation of the column over the standard error; nan for blocks and constants.
    """
    with np.errstate(divide="ignore"):
        return 1.0 / features["relative_standard_error"].astype(float)


def shown_features(features: pd.DataFrame, limit: int) -> pd.DataFrame:
    """The most exposed columns, and among them the most exposed blocks.

    Blocks have no standard deviation to be ranked by and come last in the report's table; up to a
    third of the rows is kept for them, so that a long table hides none of the worst.

    Returns: at most ``limit`` rows in the order of the table.
    """
    if len(features) <= limit:
        return features
    positions = np.arange(len(features))
    block = features["column_std"].isna().to_numpy()
    loss = features["max_loss"].to_numpy(dtype=float)
    blocks = positions[block][np.argsort(-loss[block], kind="stable")]
    columns = positions[~block]
    n_blocks = min(len(blocks), max(limit // 3, limit - len(columns)))
    return features.iloc[np.sort(np.r_[columns[: limit - n_blocks], blocks[:n_blocks]])]


def shown_groups(groups: pd.DataFrame, limit: int) -> pd.DataFrame:
    """The groups of the largest mean leakage, largest first.

    Returns: at most ``limit`` rows.
    """
    order = np.argsort(-groups["mean_loss"].to_numpy(dtype=float), kind="stable")
    return groups.iloc[order[:limit]]
