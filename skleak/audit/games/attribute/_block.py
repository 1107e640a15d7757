"""The games of one block of records about a column: they are read, encoded and played here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.hypotheses import changed_columns, dense_table, plain_table
from skleak.adversary.knowledge import (
    CrossFitted,
    marginal_prior,
    with_attribute,
    without_attribute,
)
from skleak.attacks import ImputationAttack, PriorAttack, WhiteBoxAttributeInference
from skleak.audit.games._bounds import success_bounds
from skleak.audit.games._levels import GAMES
from skleak.audit.games._outside import codes_of
from skleak.audit.games._trials import play_drawn
from skleak.audit.tables._design import Outcome
from skleak.exceptions import AttackNotApplicableError
from skleak.influence import candidate_encodings
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import check_reached
from skleak.influence.state import FitState, NoiseShape, RecordBatch, partial_state
from skleak.utils._predictions import label_positions
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.sources import RawRows, SomeRows


@dataclass(frozen=True)
class Encoder:
    """A transformer of raw records into those that the model sees."""

    preprocessing: Any  # fitted, or None
    names: Array | None  # of the columns of the model
    classes: Array | None  # of its labels; None where targets are numbers

    def table(self, raw: Any) -> FloatArray:
        """Raw records as the model sees them, (n, d)."""
        found = raw if self.preprocessing is None else self.preprocessing.transform(raw)
        if isinstance(found, pd.DataFrame) and self.names is not None:
            found = found[list(self.names)]
        return dense_table(plain_table(found)).astype(np.float64, copy=False)

    def candidates(self, raw: Any, index: int, values: Array) -> list[FloatArray]:
        """Raw records with each candidate value as the model sees them, (n, d) each."""
        kind = raw.dtypes.iloc[index] if isinstance(raw, pd.DataFrame) else None
        if isinstance(kind, pd.CategoricalDtype) and not set(values) <= set(kind.categories):
            raise ValueError(
                f"The categories of the column {raw.columns[index]!r} differ between the blocks of "
                f"the table: some have {kind.categories.tolist()[:10]}, and all records "
                f"{values.tolist()[:10]}. Call `.cat.as_known()` on the column of the frame first."
            )
        return [self.table(with_attribute(raw, index, value)) for value in values]

    def targets(self, y: Array) -> FloatArray:
        """Targets as the fit has them, (n,)."""
        numbers = y if self.classes is None else label_positions(y, self.classes)
        return np.asarray(numbers, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class KnownGame:
    """Facts common to the games of all blocks, of the size of the model. Confidential."""

    encoder: Encoder
    state: FitState  # without noise; its records stay where they are
    index: int  # of the secret column
    values: Array  # candidates, (M,)
    counts: FloatArray  # records that have each, (M,)
    columns: IntArray  # of the model, that depend on the secret
    prior: Any  # as the auditor takes it, but for a row for each record
    guesser: CrossFitted
    attacks: tuple[str, ...]
    bounds: tuple[str, ...]
    noise: NoiseShape
    scales: tuple[float, ...]
    noises: tuple[FloatArray, ...]  # of each scale, (p,) or (p, p)
    n_releases: int
    tolerance: float  # standard error of the bound of a record
    entropy: list[int]

    def seed(self, level: int, block: int) -> np.random.SeedSequence:
        """Seed of the games of a block; of the first that of a game without blocks."""
        key = (level, GAMES, block) if block else (level, GAMES)
        return np.random.SeedSequence(self.entropy, spawn_key=key)


def play_block(
    known: KnownGame, place: SomeRows, positions: IntArray, prior: Any, block: int
) -> Outcome:
    """Play the games of some records at all noise levels, by all attacks, and bound them.

    Only here are the encodings of these records made, (b, M, p).

    Shapes: ``positions`` (b,), of the records among all; ``prior`` (b, M), or None for that of all
    records; returns ``codes``, ``guess`` (of imputation), ``right`` (its chance), ``top`` (of the
    prior), ``eta`` (at unit noise), (b,) each, and for the number of each level ``0:white_box``
    (right guesses of each record) and ``0:bounds:bayes``.
    """
    rows = place()
    codes = codes_of(rows.table, known.index, known.values)
    others = without_attribute(rows.table, known.index)
    imputed = known.guesser.probabilities(others, rows.y, positions)
    if prior is None:
        prior = _prior(known, codes, imputed)
    encodings, eta = encode(known, rows, positions)
    guess, everyone = imputed.argmax(axis=1), np.arange(len(codes))
    found: Outcome = {
        "codes": codes,
        "guess": guess,
        "right": prior[everyone, guess],
        "top": prior.max(axis=1),
        "eta": eta,
    }
    attacks: dict[str, Any] = {
        "prior": PriorAttack._of_prior(known.values, prior),
        "imputation": ImputationAttack._of_prior(known.values, imputed),
        "white_box": WhiteBoxAttributeInference._of_encodings(
            encodings, known.values, prior, known.noise
        ),
    }
    points = known.noise.whitened(encodings)
    for k, scale in enumerate(known.scales):
        for name in known.attacks:
            game = (attacks[name], encodings, known.values, prior, known.noises[k])
            played = play_drawn(*game, scale, known.n_releases, known.seed(k, block))
            found[f"{k}:{name}"] = played["counts"]
        bounds = success_bounds(points, prior, scale, known.bounds, None, known.tolerance)
        found |= {f"{k}:bounds:{name}": values for name, values in bounds.items()}
    return found


def encode(known: KnownGame, rows: RawRows, positions: IntArray) -> tuple[FloatArray, FloatArray]:
    """Parameters without noise under every value (b, M, p), and leakage at unit noise (b,)."""
    encoder, ones = known.encoder, np.ones(len(positions))
    X, y = encoder.table(rows.table), encoder.targets(rows.y)
    tables = encoder.candidates(rows.table, known.index, known.values)
    columns = np.union1d(known.columns, changed_columns(X, tables)).astype(np.intp)
    if not len(columns):
        # The model sees nothing of the column.
        unchanged = known.state.factor.coefficients
        return np.tile(unchanged, (len(positions), len(tables), 1)), np.zeros(len(positions))
    values = np.stack([table[:, columns] for table in tables], axis=1)
    weights = ones if rows.sample_weight is None else rows.sample_weight
    batch = RecordBatch(X, y, weights, ones)
    state = partial_state(known.state, positions, batch)
    local = np.arange(len(positions))
    encodings = candidate_encodings(state, X, y, columns, values, rows=local)
    check_reached(encodings, "What this attack compares a release with", AttackNotApplicableError)
    one_hot = len(columns) > 1 and bool(np.allclose(values.sum(axis=2), 1.0))
    own = partial_state(replace(known.state, noise=known.noise), positions, batch)
    loss = leakage_model(own).record_loss(batch, Columns(columns, constrained=one_hot))
    return encodings, loss


def _prior(known: KnownGame, codes: IntArray, imputed: FloatArray) -> FloatArray:
    """Prior of each record, which its own value does not enter, (b, M)."""
    n_values = len(known.values)
    if isinstance(known.prior, str):
        if known.prior == "marginal":
            return marginal_prior(codes, n_values, known.counts)
        if known.prior == "conditional":
            return imputed
        return np.full((len(codes), n_values), 1.0 / n_values)
    return np.tile(np.asarray(known.prior, dtype=np.float64), (len(codes), 1))


def stacked(parts: Sequence[Outcome], name: str) -> Array:
    """Join what all blocks found of their records, one after the other."""
    return np.concatenate([part[name] for part in parts])
