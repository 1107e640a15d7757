"""Bounds of many records: all of them, or a sample and the most exposed where that takes too long.

The cost is known before it starts, from the number of values: it decides what is computed, never
the clock, so that tables can be repeated. The records of the sample are drawn at random, the same
at all noise levels, and a bound that is cheap is known of every record.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.audit.games._bounds import (
    MOST_TOLERANCE,
    is_open,
    mean_tolerance,
    success_bounds,
)
from skleak.audit.games._game import Cell
from skleak.audit.tables._design import Outcome
from skleak.bounds import tradeoff_advantage
from skleak.channels import UnequalGaussianChannel
from skleak.channels.gaussian import failure_bound, hull_coordinates
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

NAME = "bounds"
_EXPOSED = f"{NAME}/exposed"
# Seconds of one core that the bounds of one noise level may take, and that one cell takes.
_BUDGET, _CELL = 20.0, 3.0
# Records of a sample, at least; records that are computed because they are the most exposed.
_FEWEST, _LEADING = 32, 16
# Steps towards the centre of the bound that is known of every record.
_N_STEPS = 4
# Entries of encodings beyond which they are rotated into the space that they span.
_MANY = 1 << 20
# Gaps beyond which their squares might overflow.
_WIDE = 1e100
# Records whose bounds are sharpened together, of those that may be the most exposed.
_SOME = 64


def seconds_each(n_values: int, width: int, *, shaped: bool) -> float:
    """Seconds of one core for all bounds of one record, by measurements on a plain computer."""
    if shaped:
        return 2.5e-3 * n_values**2 * float(np.sqrt(width))
    return 5e-4 if n_values == 2 else 4e-4 * n_values**2


@dataclass(frozen=True)
class BoundsPlan:
    """Records whose bounds are computed, and in which cells."""

    n_records: int
    # Positions of a random sample in random order, (k,); all in their order where none is drawn.
    rows: IntArray
    blocks: tuple[slice, ...]
    # Records that are computed at one noise level, and once more to find the most exposed.
    most: int
    tolerance: float  # standard error of a record
    seconds: float  # of one core, for one noise level, at most

    @classmethod
    def of(cls, n: int, n_values: int, width: int, *, shaped: bool, seed: Any) -> "BoundsPlan":
        """Plan the bounds of n records at one noise level."""
        each = seconds_each(n_values, width, shaped=shaped)
        most = max(_FEWEST, int(_BUDGET / each))
        rows, tolerance = np.arange(n), mean_tolerance(n)
        if n > most:
            rows, tolerance = np.random.default_rng(seed).permutation(n)[:most], MOST_TOLERANCE
        blocks = tuple(row_blocks(len(rows), 1, max(1, int(_CELL / each))))
        seconds = each * len(rows) * (2 if len(rows) < n else 1)
        return cls(n, rows, blocks, most, tolerance, seconds)

    @property
    def samples(self) -> bool:
        """True if bounds are computed for some of the records."""
        return len(self.rows) < self.n_records

    @property
    def names(self) -> list[str]:
        """Names of the cells of one noise level."""
        if len(self.blocks) == 1 and not self.samples:
            return [NAME]
        return [f"{NAME}/{k}" for k in range(len(self.blocks))] + [_EXPOSED] * self.samples

    @property
    def sizes(self) -> dict[str, int]:
        """Number of records of every cell of a noise level."""
        sizes = {NAME: self.n_records, _EXPOSED: self.most}
        return sizes | {f"{NAME}/{k}": b.stop - b.start for k, b in enumerate(self.blocks)}

    def outlook(self, n_levels: int) -> str:
        """Say how many records are computed, and how long that takes."""
        some = (
            f"{len(self.rows):,} of {self.n_records:,}" if self.samples else f"{self.n_records:,}"
        )
        others = ", and those that may be the most exposed," if self.samples else ""
        return (
            f"{NAME}: of {some} records{others} at {n_levels} noise scales; at most about "
            f"{self.seconds * n_levels:.0f} seconds of one core"
        )

    def cells(
        self,
        known: "KnownBounds",
        noise_scale: float,
        compute: Callable[..., dict[str, FloatArray]],
    ) -> dict[str, Cell]:
        """Cells of one noise level; `compute` is `success_bounds`."""
        if noise_scale == 0.0:  # nothing is left to compute
            return {NAME: (compute, known.arguments(slice(None), noise_scale, self.tolerance))}
        cells: dict[str, Cell] = {}
        for name, block in zip(self.names, self.blocks, strict=False):
            rows = self.rows[block] if self.samples else block
            cells[name] = (compute, known.arguments(rows, noise_scale, self.tolerance))
        if self.samples:
            cells[_EXPOSED] = (exposed_bounds, (known, noise_scale, self.tolerance, self.most))
        return cells

    def joined(self, found: Mapping[str, Outcome]) -> Outcome | None:
        """Bounds of all records from the cells of a level, by name; None where one is missing.

        Of a sample, ``computed`` tells the records whose bounds were computed, all others having
        NaN, ``leading`` those of them that are no part of the sample, and the Bayes success of
        every record is between ``lower`` and ``upper``, (n,) each.
        """
        if NAME in found:
            return found[NAME]
        if not all(name in found for name in self.names):
            return None
        parts = [found[f"{NAME}/{k}"] for k in range(len(self.blocks))]
        if not self.samples:
            return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        exposed = found[_EXPOSED]
        chosen = exposed["rows"]
        computed, leading = np.zeros((2, self.n_records), dtype=bool)
        computed[self.rows] = computed[chosen] = leading[chosen] = True
        whole: Outcome = {"computed": computed, "leading": leading}
        whole |= {"upper": exposed["upper"], "lower": exposed["lower"]}
        for name in parts[0]:
            values = np.full(self.n_records, np.nan)
            values[self.rows] = np.concatenate([part[name] for part in parts])
            values[chosen] = exposed[name]
            whole[name] = values
        return whole


@dataclass(frozen=True)
class KnownBounds:
    """Channels and priors that bounds are computed from. Confidential."""

    points: FloatArray  # where noise is isotropic, (n, M, p)
    prior: FloatArray  # (n, M)
    names: Sequence[str]
    shapes: FloatArray | None  # covariances of unit noise, (n, M, p, p); None where it is isotropic
    eta: FloatArray  # (n,): by which reports order records; NaN where it is not known

    @classmethod
    def of(
        cls,
        points: FloatArray,
        prior: FloatArray,
        names: Sequence[str],
        shapes: FloatArray | None,
        eta: FloatArray,
        scales: Sequence[float],
    ) -> "KnownBounds":
        """Keep no more of the encodings than the space that they span."""
        least = min((scale for scale in scales if scale > 0.0), default=0.0)
        spread = float(np.ptp(points, axis=1).max()) if points.size else 0.0
        large = points.size > _MANY and points.shape[2] >= points.shape[1]
        if shapes is None and least > 0.0 and large and spread < _WIDE * min(least, 1.0):
            coordinates, rank = hull_coordinates(points, np.full(len(points), least))
            # What is round-off in the encodings stays none in their coordinates.
            width = coordinates.shape[2]
            coordinates *= least * (np.arange(width) < rank[:, None])[:, None, :]
            points = coordinates
        return cls(points, prior, names, shapes, eta)

    def arguments(
        self, rows: "slice | IntArray", noise_scale: float, tolerance: float
    ) -> tuple[Any, ...]:
        """Arguments of `success_bounds` for some of the records."""
        shapes = None if self.shapes is None else self.shapes[rows]
        return self.points[rows], self.prior[rows], noise_scale, self.names, shapes, tolerance

    def lower(self, noise_scale: float) -> FloatArray:
        """Success that the best attack has at least, (n,): by the prior, or by a union bound."""
        top = self.prior.max(axis=1)
        if self.shapes is not None:
            return top
        points, _ = hull_coordinates(self.points, np.full(len(top), noise_scale))
        return np.maximum(top, 1.0 - failure_bound(points, self.prior))

    def upper(self, rows: "slice | IntArray", noise_scale: float, *, refine: bool) -> FloatArray:
        """Bound on the success that is cheap, (n_rows,).

        The trade-off bound; where the covariance follows the data, total variation by the
        Bhattacharyya coefficient: an advantage is at most the largest between two values.
        """
        points, prior = self.points[rows], self.prior[rows]
        top, upper = prior.max(axis=1), np.ones(len(points))
        some = np.flatnonzero(is_open(prior))
        if not some.size:
            return upper
        if self.shapes is None:
            steps = None if refine else _N_STEPS
            given = points[some], noise_scale, prior[some]
            gain = tradeoff_advantage(*given, refine=refine, max_iter=steps)
        else:
            shapes = noise_scale**2 * self.shapes[rows][some]
            apart = UnequalGaussianChannel(points[some], shapes).renyi_divergence(0.5)
            gain = np.sqrt(-np.expm1(-apart))
        upper[some] = top[some] + gain * (1.0 - top[some])
        return upper


def exposed_bounds(
    known: KnownBounds, noise_scale: float, tolerance: float, budget: int
) -> Outcome:
    """Find the records that an attack can gain most about, and compute their bounds.

    Returns ``upper`` and ``lower`` (n,), between which the Bayes success of every record is;
    ``rows`` (k,), and their bounds, (k,) each. What is known of no other record exceeds the largest
    advantage among them by more than the tolerance, unless `budget` records are not enough.
    """
    prior = known.prior
    n, top = len(prior), prior.max(axis=1)
    left = np.where(is_open(prior), 1.0 - top, np.inf)
    upper = np.concatenate(
        [known.upper(b, noise_scale, refine=False) for b in row_blocks(n, 1, 1 << 12)]
    )
    gain = (upper - top) / left

    rows = _first(np.nan_to_num(known.eta, nan=-np.inf, posinf=np.inf), _LEADING)
    rows = np.union1d(rows, _first(gain, _LEADING))
    found = [success_bounds(*known.arguments(rows, noise_scale, tolerance))]
    gain[rows] = (found[0]["bayes"] - top[rows]) / left[rows]
    chosen, sharp = [rows], np.zeros(n, dtype=bool)
    sharp[rows] = True
    best = gain[rows].max()
    while budget > 0:
        rows = _first(np.where(sharp, -np.inf, gain), min(_SOME, budget))
        rows = rows[gain[rows] > best + tolerance]
        if not len(rows):
            break
        budget -= len(rows)
        sharp[rows] = True
        if known.shapes is None:
            sharper = known.upper(rows, noise_scale, refine=True)
            upper[rows] = np.minimum(upper[rows], sharper)
            gain[rows] = (upper[rows] - top[rows]) / left[rows]
            rows = rows[gain[rows] > best + tolerance]
        if len(rows):
            found.append(success_bounds(*known.arguments(rows, noise_scale, tolerance)))
            gain[rows] = (found[-1]["bayes"] - top[rows]) / left[rows]
            best = max(best, gain[rows].max())
            chosen.append(rows)
    whole = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    known_of_all = {"upper": upper, "lower": known.lower(noise_scale)}
    return {**known_of_all, "rows": np.concatenate(chosen), **whole}


def _first(values: FloatArray, count: int) -> IntArray:
    """Positions of the largest values, (count,) or fewer; the first of equal ones."""
    return np.argsort(-values, kind="stable")[:count]
