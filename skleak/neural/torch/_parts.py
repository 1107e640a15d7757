"""Parts of the information of the records of a batch, exact or by random probes."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skleak.neural.gradients import Part
from skleak.neural.torch._autograd import Batch, PerRecord, Tensors, inner, squared_norms
from skleak.neural.torch._krylov import largest_eigenvalues, n_steps
from skleak.utils._typing import FloatArray

# Columns of the Jacobian of a record that are computed together where not all are needed at once.
_COLUMNS = 16


@dataclass(frozen=True)
class Scales:
    """The gradients, and square roots of the factors of the information along and across them."""

    gradients: Tensors  # (n, ...) each, not clipped
    norms: Any  # N, (n,)
    along: Any  # sqrt(along) |1 - N h' / h| / h, (n,)
    across: Any  # sqrt(across) / h, (n,)

    def squared(self, changes: Tensors) -> tuple[Any, Any]:
        """Squared norms of changes (k, n, ...) across and along the gradient, (k, n) each."""
        along = self.shares(changes)
        across = (squared_norms(changes, 2) - along.square()).clamp(min=0.0)
        return self.across.square() * across, (self.along * along).square()

    def shares(self, changes: Tensors) -> Any:
        """``e.dg`` of changes (k, n, ...), (k, n); zero without a direction."""
        safe = torch.where(self.norms > 0.0, self.norms, torch.ones_like(self.norms))
        return inner(changes, self.gradients) / safe

    def weighted(self, vectors: Tensors, power: int) -> Tensors:
        """Multiply vectors (k, n, ...) by the scales to a power: across, and along the gradient."""
        across, along = self.across**power, self.along**power
        safe = torch.where(self.norms > 0.0, self.norms, torch.ones_like(self.norms))
        extra = (along - across) * self.shares(vectors) / safe
        return {
            name: _aligned(across, v[0]) * v
            + extra.reshape(*extra.shape, *[1] * (v.dim() - 2)) * self.gradients[name]
            for name, v in vectors.items()
        }


# From gradients and losses of a batch to their scales, which also takes notice of both.
Scaling = Callable[[Tensors, Any], Scales]


@dataclass(frozen=True)
class Request:
    """What is asked about every record."""

    parts: Collection[Part]
    n_probes: int | None
    rng: np.random.Generator
    private_target: bool
    n_unknowns: int  # u

    @property
    def whole(self) -> bool:
        """Whether the whole matrix is needed, or no more work than what is."""
        few = self.n_unknowns <= 2 * n_steps(self.n_unknowns)
        return "matrix" in self.parts or ("norm" in self.parts and few)

    @property
    def width(self) -> int:
        """Vectors as long as the parameters that are held for each record."""
        if self.whole:
            return 1 + self.n_unknowns
        if self.n_probes is None and not {"trace", "diagonal"}.isdisjoint(self.parts):
            return 1 + min(_COLUMNS, self.n_unknowns)
        own = 4 if "norm" in self.parts else 1
        return max(own, 1 + (self.n_probes or 0) * (2 if "diagonal" in self.parts else 1))


class Parts:
    """Answers a request about the records of a batch."""

    def __init__(self, gradients: PerRecord, request: Request) -> None:
        self.gradients, self.request = gradients, request
        like = next(iter(gradients.trained.values()))
        options = {"dtype": like.dtype, "device": like.device}
        self.options: dict[str, Any] = options
        self.directions = torch.tensor(gradients.objective.directions(), **options)

    def of(self, batch: Batch, scaling: Scaling) -> dict[str, FloatArray]:
        """Each part of every record, (n, ...)."""
        request = self.request
        found: dict[str, FloatArray] = {}
        rest = [part for part in request.parts if part != "norm" or request.whole]
        if request.whole:
            matrix = self._matrix(batch, scaling)
            found |= {"matrix": matrix, "diagonal": np.einsum("njj->nj", matrix)}
            found["trace"] = found["diagonal"].sum(axis=1)
            if "norm" in request.parts:
                found["norm"] = np.maximum(np.linalg.eigvalsh(matrix)[:, -1], 0.0)
        elif rest and request.n_probes is None:
            found["diagonal"] = self._diagonal(batch, scaling)
            found["trace"] = found["diagonal"].sum(axis=1)
        elif "diagonal" in rest:
            found["diagonal"] = self._probed_diagonal(batch, scaling)
            found["trace"] = found["diagonal"].sum(axis=1)
        elif rest:
            found["trace"] = self._probed_trace(batch, scaling)
        if "norm" in request.parts and not request.whole:
            found["norm"] = self._norm(batch, scaling)
        return {part: found[part] for part in request.parts}

    def _split(self, batch: Batch, z: Any) -> tuple[Any, Any]:
        """Changes of records and targets, (k, n, ...) and (k, n, m), of unknowns (k, n, u)."""
        d = batch.X[0].numel()
        dX = z[..., :d].reshape(*z.shape[:2], *batch.X.shape[1:])
        dt = z.new_zeros(*z.shape[:2], batch.targets.shape[1])
        return dX, z[..., d:] @ self.directions.T if self.request.private_target else dt

    def _joined(self, dX: Any, dt: Any) -> Any:
        """Derivatives by the unknowns, (k, n, u), of those by records and targets."""
        flat = dX.flatten(2)
        private = self.request.private_target
        return torch.cat([flat, dt @ self.directions], -1) if private else flat

    def _columns(self, batch: Batch, width: int) -> Iterator[tuple[Tensors, Any, Tensors]]:
        """Gradients, losses and derivatives by some unknowns at a time, (k, n, ...)."""
        n, u = len(batch.X), self.request.n_unknowns
        basis = torch.eye(u, **self.options)
        for rows in basis.split(width):
            z = rows[:, None, :].expand(-1, n, -1)
            yield self.gradients.pushed(batch, *self._split(batch, z))

    def _diagonal(self, batch: Batch, scaling: Scaling) -> FloatArray:
        """Exact diagonal, (n, u)."""
        found, scales = [], None
        for gradients, losses, changes in self._columns(batch, _COLUMNS):
            scales = scales or scaling(gradients, losses)
            across, along = scales.squared(changes)
            found.append((across + along).T)
        return numbers(torch.cat(found, 1))

    def _matrix(self, batch: Batch, scaling: Scaling) -> FloatArray:
        """All of it, (n, u, u)."""
        ((gradients, losses, changes),) = self._columns(batch, self.request.n_unknowns)
        scales = scaling(gradients, losses)
        scaled = [v.flatten(2).transpose(0, 1) for v in scales.weighted(changes, 1).values()]
        return numbers(torch.stack([v @ v.transpose(1, 2) for v in scaled]).sum(0))

    def _probed_trace(self, batch: Batch, scaling: Scaling) -> FloatArray:
        """Mean of ``|M^(1/2) G z|^2`` over signs z of the unknowns, (n,)."""
        z = self._signs(len(batch.X), self.request.n_unknowns)
        gradients, losses, changes = self.gradients.pushed(batch, *self._split(batch, z))
        across, along = scaling(gradients, losses).squared(changes)
        return numbers((across + along).mean(0))

    def _probed_diagonal(self, batch: Batch, scaling: Scaling) -> FloatArray:
        """Mean of the squares of ``G^T M^(1/2) z`` over signs z of the parameters, (n, u).

        No entry is negative, other than of the unbiased ``z * (G^T M G z)``.
        """
        gradients, losses, pull = self.gradients.pulled(batch)
        scales = scaling(gradients, losses)
        sizes = [g[0].numel() for g in gradients.values()]
        flat = self._signs(len(batch.X), sum(sizes)).split(sizes, -1)
        z = {
            name: part.reshape(part.shape[0], *g.shape)
            for part, (name, g) in zip(flat, gradients.items(), strict=True)
        }
        derivatives = self._joined(*pull(scales.weighted(z, 1)))
        return numbers(derivatives.square().mean(0))

    def _norm(self, batch: Batch, scaling: Scaling) -> FloatArray:
        """Largest eigenvalue, rounded upward, (n,)."""
        gradients, losses, pull = self.gradients.pulled(batch)
        scales = scaling(gradients, losses)

        def product(z: Any) -> Any:
            changes = self.gradients.pushed(batch, *self._split(batch, z[None]))[2]
            return self._joined(*pull(scales.weighted(changes, 2)))[0]

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


def numbers(tensor: Any) -> FloatArray:
    """Return a tensor as a float64 array."""
    return np.asarray(tensor.detach().double().cpu().numpy())


def _aligned(values: Any, like: Any) -> Any:
    """Values (n,) with the axes of (n, ...)."""
    return values.reshape(-1, *[1] * (like.dim() - 1))
