"""Guarantees of private SGD."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.accounting import subsampled_gaussian_rdp
from skleak.accounting.subsampled import SubsampledGaussian
from skleak.bounds import curve_advantage, hammersley_chapman_robbins_mse
from skleak.utils._arguments import as_result, check_real
from skleak.utils._typing import FloatArray

Curve = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class SGDGuarantee:
    """Guarantee of a release of private SGD about one record, in public numbers.

    It holds for every data set, every record and every attacker who knows all other records, and
    sees the parameters after every step. The number of records, and what the noisy sums are divided
    by, are public. All but the Renyi divergence need the extra ``accounting``.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise over the largest norm of a clipped gradient: over C under
        hard clipping, over 1.11524 C under smooth clipping.
    sampling_rate : float in (0, 1]
        Probability of a record to be in a batch.
    n_steps : int, at least 1
        Steps, each with a batch that is drawn afresh.
    sampling : {"poisson", "fixed"}, default="poisson"
        Every record by itself, or batches of a fixed size, whose accounting is another one.
    delta : float, default=1e-6
        Delta of ``epsilon``.

    Examples
    --------
    >>> guarantee = SGDGuarantee(1.0, 0.01, 500)
    >>> round(guarantee.renyi, 3)
    0.229
    >>> round(guarantee.reconstruction_mse([1.0, 1.0]), 2)  # numbers between 0 and 1
    0.97
    """

    noise_multiplier: float
    sampling_rate: float
    n_steps: int
    sampling: str = "poisson"
    delta: float = 1e-6

    @property
    def renyi(self) -> float:
        """Renyi divergence of order 2 in nats, where a record is replaced by another."""
        steps = self.noise_multiplier, self.sampling_rate, self.n_steps
        return float(subsampled_gaussian_rdp(*steps, sampling=self.sampling))

    @cached_property
    def epsilon(self) -> float:
        """Epsilon at ``delta`` in nats, where a record is replaced by another."""
        return self._steps().epsilon(self.delta)

    @cached_property
    def curve(self) -> Curve:
        """Trade-off curve between two values of a record, as corners ``(alpha, beta)``."""
        return self._steps().curve()

    @cached_property
    def membership_curve(self) -> Curve:
        """Trade-off curve between a training with a record and one without.

        What the sums are divided by stays the same, and so does the size of a batch where that is
        fixed: there, the curve of replacement holds, as another record takes the place.
        """
        if self.sampling == "fixed":
            return self.curve
        return self._steps("add-or-remove").curve()

    def advantage(self, prior: npt.ArrayLike) -> Any:
        """Bound the advantage of guessing one of several values of a record, or of a part of it.

        Parameters
        ----------
        prior : int or array-like of shape (..., M)
            Probabilities of the values, or M for uniform on M values.

        Returns
        -------
        float or ndarray of shape (...)
            `bounds.curve_advantage`; under Poisson sampling also by way of the training without
            the record.
        """
        reference = self.membership_curve if self.sampling == "poisson" else None
        return curve_advantage(*self.curve, prior, reference=reference, between="linear")

    def membership_advantage(self, prior: npt.ArrayLike = 0.5) -> Any:
        """Bound the advantage of guessing whether a record was trained on.

        Parameters
        ----------
        prior : array-like of shape (...), default=0.5
            Probability of being a member, in [0, 1].

        Returns
        -------
        float or ndarray of shape (...)
            Over ``max(prior, 1 - prior)``.
        """
        odds = check_real("prior", prior, high=1.0)
        both = np.stack([odds, 1.0 - odds], axis=-1)
        return curve_advantage(*self.membership_curve, both, between="linear")

    def true_positives(self, rate: npt.ArrayLike, *, membership: bool = False) -> Any:
        """Bound the true-positive rate of a test at a rate of false alarms.

        Parameters
        ----------
        rate : array-like of shape (...)
            False-positive rate, in [0, 1].
        membership : bool, default=False
            Whether the record was trained on, rather than which of two values it has.

        Returns
        -------
        float or ndarray of shape (...)
        """
        alpha = check_real("rate", rate, high=1.0)
        curve = self.membership_curve if membership else self.curve
        return as_result(1.0 - np.interp(alpha, *curve))

    def reconstruction_mse(self, widths: npt.ArrayLike) -> Any:
        """Bound the mean squared error of unbiased attackers from below ([DRA22] theorem 1).

        Parameters
        ----------
        widths : array-like of shape (..., d)
            Widths of the ranges of the entries of a record.

        Returns
        -------
        float or ndarray of shape (...)
            Per entry, in the squared unit of the widths; `bounds.hammersley_chapman_robbins_mse`
            at the divergence under replacement, which that theorem is about.
        """
        return hammersley_chapman_robbins_mse(self.renyi, widths)

    def _steps(self, relation: str = "replace") -> SubsampledGaussian:
        steps = self.noise_multiplier, self.sampling_rate, self.n_steps
        return SubsampledGaussian(*steps, relation, self.sampling)
