"""Clipping of the gradient of one record to a bounded norm, smoothly or not."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from skleak.utils._arguments import check_choice, check_scalar
from skleak.utils._typing import FloatArray

# Largest norm under smooth clipping over C: the maximum of u / (GELU(u - 1) + 1), 1.115218908...
# at u = 1.5487, rounded upward. It covers the form of GELU with tanh, too (1.11524).
_SMOOTH_SENSITIVITY = 1.11524
_SQRT_2PI = float(np.sqrt(2.0 * np.pi))


@dataclass(frozen=True)
class Clipping(ABC):
    """Divide the gradient of a record by a function h of its norm N.

    Attributes
    ----------
    max_grad_norm : float
        C, in units of the gradient.
    name : str
        Short name.
    smooth : bool
        Whether the clipped gradient is differentiable, so that it has a Fisher information.
    """

    max_grad_norm: float
    name: ClassVar[str]
    smooth: ClassVar[bool]

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Upper bound on the norm of a clipped gradient: how far one record can move the sum."""

    @abstractmethod
    def divisor(self, norms: FloatArray) -> FloatArray:
        """h, positive; the clipped gradient is ``g / h(N)``. Shapes: (n,), returns (n,)."""

    @abstractmethod
    def slope(self, norms: FloatArray) -> FloatArray:
        """dh/dN. Shapes: (n,), returns (n,)."""


@dataclass(frozen=True)
class SmoothClipping(Clipping):
    """``g / (GELU(N / C - 1) + 1)`` with ``GELU(x) = x Phi(x)`` ([DRA22] section 6.1).

    Norms stay below 1.11522 C, and not below C: that is the sensitivity.

    Examples
    --------
    >>> SmoothClipping(2.0).divisor(np.array([0.0, 2.0, 200.0])).round(3)
    array([  0.841,   1.   , 100.   ])
    """

    name: ClassVar[str] = "smooth"
    smooth: ClassVar[bool] = True

    @property
    def sensitivity(self) -> float:
        """1.11524 times C."""
        return _SMOOTH_SENSITIVITY * self.max_grad_norm

    def divisor(self, norms: FloatArray) -> FloatArray:
        """h, at least 0.83."""
        x = norms / self.max_grad_norm - 1.0
        return np.asarray(x * ndtr(x) + 1.0)

    def slope(self, norms: FloatArray) -> FloatArray:
        """dh/dN, negative for short gradients."""
        x = norms / self.max_grad_norm - 1.0
        with np.errstate(over="ignore", under="ignore"):
            density = np.exp(-0.5 * x * x) / _SQRT_2PI
        return np.asarray(ndtr(x) + x * density) / self.max_grad_norm


@dataclass(frozen=True)
class HardClipping(Clipping):
    """``g / max(N / C, 1)``: what differential privacy asks for; it has no Fisher information.

    Examples
    --------
    >>> HardClipping(2.0).divisor(np.array([0.0, 2.0, 200.0]))
    array([  1.,   1., 100.])
    """

    name: ClassVar[str] = "hard"
    smooth: ClassVar[bool] = False

    @property
    def sensitivity(self) -> float:
        """C itself."""
        return self.max_grad_norm

    def divisor(self, norms: FloatArray) -> FloatArray:
        """h, at least 1."""
        return np.maximum(norms / self.max_grad_norm, 1.0)

    def slope(self, norms: FloatArray) -> FloatArray:
        """dh/dN almost everywhere; there is none at C."""
        return np.where(norms > self.max_grad_norm, 1.0 / self.max_grad_norm, 0.0)


def make_clipping(name: str, max_grad_norm: float) -> Clipping:
    """Return the clipping of that name, "smooth" or "hard"."""
    kinds = {kind.name: kind for kind in (SmoothClipping, HardClipping)}
    check_choice("clipping", name, kinds)
    norm = check_scalar("max_grad_norm", max_grad_norm, low_open=True, finite=True)
    return kinds[name](norm)


def check_smooth(clipping: Clipping) -> None:
    """Refuse to ask for the information of gradients that have no derivative."""
    if not clipping.smooth:
        raise ValueError(
            "Gradients under hard clipping have no derivative where they reach the clipping norm, "
            "and no Fisher information. Use `clipping='smooth'`."
        )
