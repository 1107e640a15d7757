"""Fitted pipelines and column transformers, walked from the model back to the raw columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import FeatureUnion, Pipeline

from skleak.adversary.knowledge import column_names, take_rows
from skleak.inspection.learned._components import Components
from skleak.inspection.learned._leaf import Leaf, LearnedLeaf, NothingLearned
from skleak.inspection.learned._rowwise import ENCODERS, ROWWISE, Rowwise, encoded, keeps_values
from skleak.inspection.learned._statistics import STATISTICS, by_column
from skleak.utils._blocks import add, row_blocks
from skleak.utils._features import is_single_feature, resolve_features
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# Derivatives of the parameters in some columns of some records: (rows, columns) to (b, p, k).
Adjoint = Callable[[IntArray, IntArray], FloatArray]
# Transformers of which it is known what they learn.
KNOWN = (PCA, *ROWWISE, *ENCODERS, *STATISTICS)
# Raw records to what a transformer is given.
Encoder = Callable[[Any], Any]
# Entries of the largest table of derivatives: 32 MB.
_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Learned:
    """Parameters of one transformer, and their effect on the model. Confidential."""

    leaf: LearnedLeaf
    inputs: Encoder
    G: Any


@dataclass(frozen=True)
class Node:
    """A transformer with its place in the pipeline."""

    leaf: Leaf
    inputs: Encoder
    shape: tuple[int, int, int]  # n, w_in, w_out

    def back(self, outer: Adjoint, p: int, found: list[Learned]) -> Adjoint:
        """Return the derivatives in what it is given; put what it learned into ``found``."""
        n, w_in, w_out = self.shape
        leaf, out, total = self.leaf, np.arange(w_out), None
        if isinstance(leaf, LearnedLeaf):
            for some in row_blocks(n, p * max(w_in, w_out), _ELEMENTS):
                rows = np.arange(n)[some]
                part = leaf.gather(outer(rows, out), rows)
                total = part if total is None else add(total, part)
            G = leaf.settle(total)
            found.append(Learned(leaf, self.inputs, G))

        def inner(rows: IntArray, columns: IntArray) -> FloatArray:
            table = leaf.pull(outer(rows, out), rows)
            if isinstance(leaf, LearnedLeaf):
                table = table + leaf.spread(G, rows)
            return table[:, :, columns]

        return inner


@dataclass(frozen=True)
class Chain:
    """Transformers one after the other."""

    steps: tuple["Tree", ...]

    def back(self, outer: Adjoint, p: int, found: list[Learned]) -> Adjoint:
        """Return the derivatives in what the first one is given."""
        for step in reversed(self.steps):
            outer = step.back(outer, p, found)
        return outer


@dataclass(frozen=True)
class Branch:
    """A transformer of some columns, whose result is a part of the whole."""

    tree: "Tree"
    columns: IntArray  # that it takes
    places: IntArray  # of what it returns


@dataclass(frozen=True)
class Branches:
    """Transformers side by side."""

    branches: tuple[Branch, ...]

    def back(self, outer: Adjoint, p: int, found: list[Learned]) -> Adjoint:
        """Return the derivatives in the columns that they share."""
        inner: list[tuple[Branch, Adjoint]] = []
        for branch in self.branches:

            def own(rows: IntArray, columns: IntArray, branch: Branch = branch) -> FloatArray:
                return outer(rows, branch.places[columns])

            inner.append((branch, branch.tree.back(own, p, found)))

        def joined(rows: IntArray, columns: IntArray) -> FloatArray:
            total = np.zeros((len(rows), p, len(columns)))
            for branch, adjoint in inner:
                at = {column: place for place, column in enumerate(branch.columns.tolist())}
                mine = [m for m, column in enumerate(columns.tolist()) if column in at]
                if mine:
                    places = np.array([at[columns[m]] for m in mine])
                    total[:, :, mine] += adjoint(rows, places)
            return total

        return joined


Tree = Node | Chain | Branches


@dataclass(frozen=True)
class Grown:
    """A tree, and what it makes of the training records."""

    tree: Tree
    table: Any  # What it returns for the training records
    reached: BoolArray  # Which of its columns the raw columns reach
    encode: Encoder  # Raw records to that
    values: bool  # Whether values are told apart, which nothing may learn from; else numbers move


def grow(transformer: Any, given: Grown) -> Grown:
    """Put a fitted transformer behind what is given, or raise `NothingLearned`.

    Only what ``reached`` columns go through has to be known.
    """
    if isinstance(transformer, Pipeline):
        return _chain([step for _, step in transformer.steps], given)
    if isinstance(transformer, ColumnTransformer):
        return _columns(transformer, given)
    if isinstance(transformer, FeatureUnion):
        return _union(transformer, given)
    if _is_identity(transformer):
        return replace(given, tree=Chain(()))
    return _leaf(transformer, given)


def _chain(steps: Sequence[Any], given: Grown) -> Grown:
    trees = []
    for step in steps:
        given = grow(step, given)
        trees.append(given.tree)
    return replace(given, tree=Chain(tuple(trees)))


def _leaf(transformer: Any, given: Grown) -> Grown:
    table, before = given.table, given.encode
    if type(transformer) not in KNOWN:
        raise NothingLearned(type(transformer).__name__)
    result = transformer.transform(table)
    n, w_out = result.shape
    leaf: Leaf
    reached = np.full(w_out, np.any(given.reached))
    if given.values and keeps_values(transformer, table):
        leaf = Rowwise(transformer.transform, table, w_out)
    elif given.values or type(transformer) in ROWWISE:
        leaf = Rowwise.of(transformer, table)
    elif type(transformer) is PCA:
        leaf = Components.of(transformer, _numbers(table))
    else:
        leaf = by_column(transformer, _numbers(table))
        reached = np.zeros(w_out, dtype=bool)
        reached[: len(given.reached)] = given.reached

    def encode(raw: Any) -> Any:
        return transformer.transform(before(raw))

    node = Node(leaf, before, (n, table.shape[1], w_out))
    return Grown(node, result, reached, encode, given.values)


def _columns(transformer: ColumnTransformer, given: Grown) -> Grown:
    if transformer.transformer_weights:
        raise NothingLearned("ColumnTransformer with weights")
    parts = []
    names = column_names(given.table)
    for name, step, columns in transformer.transformers_:
        if isinstance(step, str) and step == "drop":
            continue
        places = np.arange(transformer.transform(_first(given.table)).shape[1])
        places = places[transformer.output_indices_[name]]
        if not len(places):
            continue
        if is_single_feature(columns):
            raise NothingLearned("ColumnTransformer that passes a column as a vector")
        try:
            chosen = resolve_features(columns, names, given.table.shape[1])
        except (ValueError, TypeError) as error:
            raise NothingLearned("ColumnTransformer of columns in another form") from error
        parts.append((step, chosen, places))
    return _side_by_side(transformer, parts, given)


def _union(transformer: FeatureUnion, given: Grown) -> Grown:
    if transformer.transformer_weights:
        raise NothingLearned("FeatureUnion with weights")
    everything, parts, start = np.arange(given.table.shape[1]), [], 0
    for _, step in transformer.transformer_list:
        if isinstance(step, str) and step == "drop":
            continue
        width = given.table.shape[1]
        if not _is_identity(step):
            width = step.transform(_first(given.table)).shape[1]
        parts.append((step, everything, np.arange(start, start + width)))
        start += width
    return _side_by_side(transformer, parts, given)


def _side_by_side(
    transformer: Any, parts: Sequence[tuple[Any, IntArray, IntArray]], given: Grown
) -> Grown:
    """Branches of those transformers that the raw columns reach."""
    result, before = transformer.transform(given.table), given.encode
    reached, branches = np.zeros(result.shape[1], dtype=bool), []
    for step, columns, places in parts:
        if not np.any(given.reached[columns]):
            continue

        def encode(raw: Any, columns: IntArray = columns) -> Any:
            return _take_columns(before(raw), columns)

        own = _take_columns(given.table, columns)
        part = Grown(Chain(()), own, given.reached[columns], encode, given.values)
        grown = grow(step, part)
        branches.append(Branch(grown.tree, columns, places))
        reached[places] = grown.reached

    def whole(raw: Any) -> Any:
        return transformer.transform(before(raw))

    return Grown(Branches(tuple(branches)), result, reached, whole, given.values)


def _first(table: Any) -> Any:
    return take_rows(table, np.zeros(1, dtype=np.intp))


def _take_columns(table: Any, columns: IntArray) -> Any:
    return table.iloc[:, columns] if hasattr(table, "iloc") else table[:, columns]


def _numbers(table: Any) -> FloatArray:
    """Return the input of a scaler as floats."""
    try:
        return encoded(lambda same: same, table)
    except (TypeError, ValueError) as error:
        raise NothingLearned("columns that are no numbers") from error


def _is_identity(transformer: Any) -> bool:
    if transformer is None or isinstance(transformer, str):
        return transformer in (None, "passthrough")
    return False
