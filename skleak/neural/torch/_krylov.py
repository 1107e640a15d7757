"""Largest eigenvalues of many matrices that are known by their products with vectors."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skleak.neural.torch._rows import numbers
from skleak.utils._typing import FloatArray

# How far below the eigenvalue the result of Lanczos' method may be, relative, and with which chance
# for a record it may be further.
TOLERANCE = 0.05
FAILURE = 1e-6


def n_steps(size: int) -> int:
    """Products with a matrix of that size that find its largest eigenvalue to the tolerance.

    Of a positive semi-definite matrix and a start that is uniform on the sphere, the relative error
    is above t with a chance of at most ``1.648 sqrt(size) exp(-sqrt(t) (2 k - 1))`` after k steps
    (Kuczynski and Wozniakowski, SIAM J. Matrix Anal. Appl. 1992, theorem 4.2).
    """
    odds = math.log(1.648 * math.sqrt(size) / FAILURE)
    return min(size, math.ceil((odds / math.sqrt(TOLERANCE) + 1.0) / 2.0))


def largest_eigenvalues(product: Callable[[Any], Any], start: Any) -> FloatArray:
    """Largest eigenvalues by Lanczos' method, rounded upward by the tolerance, (n,).

    ``product`` takes and returns vectors (n, u), one for each matrix; ``start`` (n, u) is normal.
    """
    n, size = start.shape
    vector = start / torch.linalg.vector_norm(start, dim=1, keepdim=True)
    basis, diagonal, beside = [vector], [], []
    tiny = torch.finfo(start.dtype).eps
    for _ in range(n_steps(size)):
        moved = product(basis[-1])
        diagonal.append((moved * basis[-1]).sum(1))
        known = torch.stack(basis, 1)
        for _ in range(2):  # once more, for what round-off has left
            moved = moved - torch.einsum(
                "nku,nk->nu", known, torch.einsum("nku,nu->nk", known, moved)
            )
        length = torch.linalg.vector_norm(moved, dim=1)
        # Nothing is left of a space that the matrix maps into itself.
        scale = torch.stack(diagonal).abs().amax(0)
        length = torch.where(length > 8.0 * tiny * scale, length, torch.zeros_like(length))
        beside.append(length)
        divisor = torch.where(length > 0.0, length, torch.ones_like(length))[:, None]
        basis.append(torch.where(length[:, None] > 0.0, moved / divisor, torch.zeros_like(moved)))
    small = np.zeros((n, len(diagonal), len(diagonal)))
    k = np.arange(len(diagonal))
    small[:, k, k] = numbers(torch.stack(diagonal, 1))
    small[:, k[1:], k[:-1]] = numbers(torch.stack(beside[:-1], 1)) if len(k) > 1 else 0.0
    found = np.linalg.eigvalsh(small)[:, -1]
    return np.maximum(found, 0.0) / (1.0 if len(diagonal) == size else 1.0 - TOLERANCE)
