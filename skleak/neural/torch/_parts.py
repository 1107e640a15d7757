"""Parts of the information of the records of a batch, exact or by random probes."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from skleak.neural.gradients import Part
from skleak.neural.torch._autograd import Batch, PerRecord
from skleak.neural.torch._krylov import largest_eigenvalues, n_steps
from skleak.neural.torch._rows import Rows, inner, numbers, squared_changes
from skleak.utils._typing import FloatArray

# Columns of the Jacobian of a record that are computed together where not all are needed at once.
_COLUMNS = 16


@dataclass(frozen=True)
class Scales:
    """Factors from a change of the gradient g to one of ``M^(1/2) g / h``, along g and across it.

    Along comes first: ``r = |1 - N h' / h| / h`` of clipping and a factor of the information, then
    ``1 / h`` and the other factor.
    """

    gradients: Rows  # g, not clipped
    norms: Any  # N, (n,)
    clipping: Any  # (2, n)
    factors: Any  # (2, n)

    def squared(self, changes: Rows) -> Any:
        """Squared norms of clipped changes (k, n, ...) along and across, (2, k, n)."""
        along = self._shares(changes).square()
        across = (squared_changes(changes, self.gradients) - along).clamp(min=0.0)
        return torch.stack([along, across]) * self.clipping[:, None].square()

    def weighted(self, vectors: Rows, power: int) -> Rows:
        """Multiply vectors (k, n, ...) that are written out by all of it, so many times."""
        along, across = (self.clipping * self.factors.sqrt()) ** power
        extra = (along - across) * self._shares(vectors) / self._safe_norms
        dense = {
            name: across.reshape(-1, *[1] * (v.dim() - 2)) * v
            + extra.reshape(*extra.shape, *[1] * (v.dim() - 2)) * self.gradients.dense[name]
            for name, v in vectors.dense.items()
        }
        return Rows(dense, {}, {})

    def _shares(self, changes: Rows) -> Any:
        """``e.dg`` of changes (k, n, ...), (k, n); zero where there is no direction e."""
        return inner(changes, self.gradients) / self._safe_norms

    @property
    def _safe_norms(self) -> Any:
        return torch.where(self.norms > 0.0, self.norms, torch.ones_like(self.norms))


# From gradients and losses of a batch to their scales, which also takes notice of both.
Scaling = Callable[[Rows, Any], Scales]


@dataclass(frozen=True)
class Request:
    """Request for numbers about every record."""

    parts: Collection[Part]
    n_probes: int | None
    rng: np.random.Generator
    private_target: bool
    n_unknowns: int  # u

    @property
    def whole(self) -> bool:
        """Return True if the whole matrix is needed, or no more work than what is."""
        few = self.n_unknowns <= 2 * n_steps(self.n_unknowns)
        return "matrix" in self.parts or ("norm" in self.parts and few)

    @property
    def writes_out(self) -> bool:
        """Return True if gradients themselves are needed, and not only their norms."""
        estimated = self.n_probes is not None and "diagonal" in self.parts
        return self.whole or "norm" in self.parts or estimated

    @property
    def width(self) -> int:
        """Vectors as long as the parameters that are held for each record."""
        if self.whole:
            return 1 + self.n_unknowns
        if self.n_probes is None and set(self.parts) - {"norm"}:
            return 1 + min(_COLUMNS, self.n_unknowns)
        own = 4 if "norm" in self.parts else 1
        return max(own, 1 + (self.n_probes or 0) * (2 if "diagonal" in self.parts else 1))


class Parts:
    """Answers a request about the records of a batch."""

    def __init__(self, gradients: PerRecord, request: Request) -> None:
        self.gradients = gradients.whole() if request.writes_out else gradients
        self.request = request
        like = next(iter(gradients.trained.values()))
        options = {"dtype": like.dtype, "device": like.device}
        self.options: dict[str, Any] = options
        self.directions = torch.tensor(gradients.objective.directions(), **options)

    def of(self, batch: Batch, scaling: Scaling) -> dict[str, FloatArray]:
        """Each part of every record, (n, ...)."""
        request, parts = self.request, set(self.request.parts)
        found: dict[str, FloatArray] = {}
        if request.whole:
            found |= self._whole(batch, scaling)
        elif request.n_probes is None and parts - {"norm"}:
            found |= self._columns(batch, scaling)
        elif "diagonal" in parts:
            found |= self._probed_columns(batch, scaling)
        elif parts - {"norm"}:
            found |= self._probed_traces(batch, scaling)
        if "norm" in parts and not request.whole:
            found["norm"] = self._norm(batch, scaling)
        return {part: found[part] for part in request.parts}

    def _split(self, batch: Batch, z: Any) -> tuple[Any, Any]:
        """Split changes by unknowns (k, n, u) into records (k, n, ...) and targets (k, n, m)."""
        d = batch.X[0].numel()
        dX = z[..., :d].reshape(*z.shape[:2], *batch.X.shape[1:])
        dt = z.new_zeros(*z.shape[:2], batch.targets.shape[1])
        return dX, z[..., d:] @ self.directions.T if self.request.private_target else dt

    def _pulled(self, batch: Batch, vectors: Rows) -> Any:
        """Differentiate ``q.g`` by the unknowns, (k, n, u), for vectors q (k, n, ...)."""
        dX, dt = self.gradients.pulled(batch, vectors)
        own = dX.flatten(2)
        return torch.cat([own, dt @ self.directions], -1) if self.request.private_target else own

    def _pushed(self, batch: Batch, z: Any) -> tuple[Rows, Any, Rows]:
        """Gradients, losses, and changes (k, n, ...) with unknowns that change by z (k, n, u)."""
        return self.gradients.pushed(batch, *self._split(batch, z))

    def _basis(self, batch: Batch) -> Any:
        """Return the unit changes of each unknown, (u, n, u), a view of (u, u)."""
        basis = torch.eye(self.request.n_unknowns, **self.options)
        return basis[:, None, :].expand(-1, len(batch.X), -1)

    def _whole(self, batch: Batch, scaling: Scaling) -> dict[str, FloatArray]:
        """All parts from the matrix."""
        gradients, losses, changes = self._pushed(batch, self._basis(batch))
        scales = scaling(gradients, losses)
        plain = numbers(scales.squared(changes).sum((0, 1)))
        scaled = [v.flatten(2).transpose(0, 1) for v in scales.weighted(changes, 1).dense.values()]
        matrix = numbers(torch.stack([v @ v.transpose(1, 2) for v in scaled]).sum(0))
        diagonal = np.einsum("njj->nj", matrix)
        norm = np.maximum(np.linalg.eigvalsh(matrix)[:, -1], 0.0)
        found = {"matrix": matrix, "diagonal": diagonal, "norm": norm, "plain": plain}
        return found | {"trace": diagonal.sum(axis=1)}

    def _columns(self, batch: Batch, scaling: Scaling) -> dict[str, FloatArray]:
        """Return the exact diagonal and both traces, some columns of the Jacobian at a time."""
        diagonal, plain = [], []
        for z in self._basis(batch).split(_COLUMNS):
            gradients, losses, changes = self._pushed(batch, z)
            scales = scaling(gradients, losses)
            squares = scales.squared(changes)
            diagonal.append(numbers((squares * scales.factors[:, None]).sum(0).T))
            plain.append(numbers(squares.sum((0, 1))))
        whole = np.concatenate(diagonal, axis=1)
        return {"diagonal": whole, "trace": whole.sum(axis=1), "plain": sum(plain, np.zeros(()))}

    def _probed_traces(self, batch: Batch, scaling: Scaling) -> dict[str, FloatArray]:
        """Means of ``|M^(1/2) G z|^2`` and ``|G z|^2`` over signs z of the unknowns."""
        z = self._signs(len(batch.X), self.request.n_unknowns)
        gradients, losses, changes = self._pushed(batch, z)
        scales = scaling(gradients, losses)
        squares = scales.squared(changes).mean(1)
        return {
            "trace": numbers((squares * scales.factors).sum(0)),
            "plain": numbers(squares.sum(0)),
        }

    def _probed_columns(self, batch: Batch, scaling: Scaling) -> dict[str, FloatArray]:
        """Means of the squares of ``G^T M^(1/2) z`` over signs z of the parameters.

        No entry is negative, other than of the unbiased ``z * (G^T M G z)``.
        """
        gradients, losses = self.gradients(batch)
        scales = scaling(gradients, losses)
        sizes = [g[0].numel() for g in gradients.dense.values()]
        parts = self._signs(len(batch.X), sum(sizes)).split(sizes, -1)
        dense = {
            name: part.reshape(part.shape[0], *g.shape)
            for part, (name, g) in zip(parts, gradients.dense.items(), strict=True)
        }
        z = Rows(dense, {}, {})
        squares = self._pulled(batch, scales.weighted(z, 1)).square().mean(0)
        found = {"diagonal": numbers(squares), "trace": numbers(squares.sum(1))}
        if "plain" in self.request.parts:
            bare = replace(scales, factors=torch.ones_like(scales.factors))
            squares = self._pulled(batch, bare.weighted(z, 1)).square()
            found["plain"] = numbers(squares.sum(2).mean(0))
        return found

    def _norm(self, batch: Batch, scaling: Scaling) -> FloatArray:
        """Largest eigenvalue, rounded upward, (n,)."""
        gradients, losses = self.gradients(batch)
        scales = scaling(gradients, losses)

        def product(z: Any) -> Any:
            changes = self._pushed(batch, z[None])[2]
            return self._pulled(batch, scales.weighted(changes, 2))[0]

        size = len(batch.X), self.request.n_unknowns
        start = torch.tensor(self.request.rng.standard_normal(size), **self.options)
        return largest_eigenvalues(product, start)

    def _signs(self, n: int, size: int) -> Any:
        """Random signs, (n_probes, n, size), of which each record has its own."""
        assert self.request.n_probes is not None
        n_bits = self.request.n_probes * size
        words = self.request.rng.integers(0, 1 << 32, (n, -(-n_bits // 32)), dtype=np.uint32)
        packed = torch.tensor(words.view(np.uint8), device=self.options["device"])
        bits = packed[..., None] >> torch.arange(8, dtype=torch.uint8, device=packed.device) & 1
        signs = 2.0 * bits.flatten(1)[:, :n_bits].to(self.options["dtype"]) - 1.0
        return signs.reshape(n, -1, size).transpose(0, 1)
