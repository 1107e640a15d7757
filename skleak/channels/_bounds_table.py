"""The table of bounds: which apply, what they assume, where they come from."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skleak.bounds import (
    closed_form_fano_advantage,
    fano_advantage,
    information_projection_advantage,
    reconstruction_robustness_advantage,
    renyi_fano_advantage,
    renyi_projection_advantage,
)
from skleak.utils._typing import FloatArray

# Orders over which the Rényi bounds are minimised.
RENYI_ORDERS = np.concatenate([[1.0], 1 + np.geomspace(0.01, 255.0, 28)])

# Of a success probability.
ROUND_OFF = 1e-14
KNOWN = "channel and prior known"
INFORMATION = "mutual information of this channel and prior"
KULLBACK_LEIBLER = "largest Kullback-Leibler divergence between two secrets"
DIVERGENCE = "largest Rényi divergence between two secrets"


class Bound(NamedTuple):
    """One upper bound on the advantage; `standard_error` as that of the Bayes value."""

    name: str
    advantage: Any
    assumption: str
    source: str
    standard_error: Any = 0.0


def information_bounds(information: tuple[Any, Any], prior: FloatArray | int) -> list[Bound]:
    """Bounds from the mutual information itself, given with its standard error."""
    value, error = information
    cases = [
        ("Fano, exact information", fano_advantage, "[FANO23] algorithm 1"),
        ("information projection", information_projection_advantage, "[BIL23] theorem 5"),
        ("closed-form Fano", closed_form_fano_advantage, "Salamatian et al. 2020"),
    ]
    bounds = []
    for name, function, source in cases:
        advantage = function(value, prior)
        spread = np.abs(function(value + error, prior) - advantage) if np.any(error) else 0.0
        bounds.append(Bound(name, advantage, INFORMATION, source, spread))
    return bounds


def information_bound_bounds(pairwise: Any, worst: Any, prior: FloatArray | int) -> list[Bound]:
    """Fano's bound from the two closed-form upper bounds on the mutual information."""
    source = "[FANO23] theorem 2"
    return [
        Bound(
            "Fano, pairwise information bound",
            fano_advantage(pairwise, prior),
            "Kullback-Leibler divergence of every two secrets",
            f"{source}, pairwise form",
        ),
        Bound(
            "Fano, information bound",
            fano_advantage(worst, prior),
            KULLBACK_LEIBLER,
            source,
        ),
    ]


def divergence_bounds(renyi: Any, prior: FloatArray | int) -> list[Bound]:
    """Bounds from the largest Rényi divergences, `RENYI_ORDERS` being their last axis."""
    return [
        Bound(
            "Fano, order 1",
            renyi_fano_advantage(renyi[..., 0], 1.0, prior),
            KULLBACK_LEIBLER,
            "[FANO23] theorem 1",
        ),
        Bound(
            "generalized Fano",
            renyi_fano_advantage(renyi, RENYI_ORDERS, prior),
            DIVERGENCE,
            "[FANO23] algorithm 2",
        ),
        Bound(
            "Rényi projection",
            renyi_projection_advantage(renyi, RENYI_ORDERS, prior),
            DIVERGENCE,
            "[BIL23] theorem 5, for Rényi divergences",
        ),
        Bound(
            "reconstruction robustness",
            reconstruction_robustness_advantage(renyi[..., 1:], RENYI_ORDERS[1:], prior),
            DIVERGENCE,
            "[BCH22]",
        ),
    ]


def bounds_table(bayes: tuple[Any, Any], bounds: list[Bound], top: FloatArray) -> pd.DataFrame:
    """Put the Bayes value and its bounds in one table, sorted within each record.

    Shapes: ``bayes`` (n,); ``top`` () or (n,); returns: columns as `Channel.advantage_bounds`
    documents them.
    """
    rows = [Bound("Bayes", bayes[0], KNOWN, "[BIL23] theorem 1", bayes[1]), *bounds]
    shape = np.broadcast_shapes(*(np.shape(row.advantage) for row in rows))
    advantage, error = (
        np.stack([np.broadcast_to(value, shape) for value in values])
        for values in ([row.advantage for row in rows], [row.standard_error for row in rows])
    )
    # A bound that equals Bayes up to round-off, as some do by theorem, is told as equal, and a
    # stable sort puts it behind.
    equal = np.abs(advantage - advantage[0]) * (1 - top) < ROUND_OFF
    advantage = np.where(equal, advantage[0], advantage)
    order = np.argsort(advantage, axis=0, kind="stable")
    success = top + advantage * (1 - top)
    table = pd.DataFrame(
        {
            column: np.take_along_axis(values, order, axis=0).T.ravel()
            for column, values in (
                ("advantage", advantage),
                ("success", success),
                ("standard_error", error),
            )
        }
    )
    texts = np.array([[row.name, row.assumption, row.source] for row in rows], dtype=object)
    table.insert(0, "bound", texts[order.T.ravel(), 0])
    table["assumption"], table["source"] = texts[order.T.ravel(), 1], texts[order.T.ravel(), 2]
    if shape:
        table.insert(0, "record", np.repeat(np.arange(shape[0]), len(rows)))
    return table
