"""Attacks for which a guess about one target is cheaper than guesses about all."""

from typing import Any, Self

import numpy as np

from skleak.attacks.attribute._base import AttributeAttack
from skleak.utils._typing import Array, IntArray


class SomeTargets(AttributeAttack):
    """Guess, of every release, the attribute of one target only.

    A subclass adds to `_about` what it holds of each target.
    """

    def _about(self, targets: IntArray) -> Self:
        """Return the fitted attack about some of its targets, which may come more than once."""
        one = type(self).__new__(type(self))
        one.__dict__.update(self.__dict__)
        one.records_ = self.records_[targets]
        if "prior_" in self.__dict__:
            one.prior_ = self.prior_[targets]
        if self.numeric_:
            one.values_ = self.values_[targets]
        return one

    def predict_some(self, released: Any, targets: Any, noise_scale: Any = None) -> Array:
        """Guess the attribute of one target of each release.

        For games about targets drawn at random, where guesses about all others are not needed.

        Parameters
        ----------
        released : array-like of shape (n_releases, n_parameters)
            Parameters, coefficients then intercept.
        targets : array-like of shape (n_releases,)
            Position among ``records_`` of the target of each release.
        noise_scale : float, default=None
            Standard deviation of the noise on every parameter; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_releases,)
            Entry r is ``predict(released[r])[targets[r]]``.

        Raises
        ------
        ValueError
            For another shape, values that are not finite, or positions that are not among the
            targets.
        """
        self._fitted_numeric()
        positions, n_targets = np.asarray(targets), len(self.records_)
        whole = positions.ndim == 1 and positions.dtype.kind in "iu" and len(positions) > 0
        if not whole or positions.min() < 0 or positions.max() >= n_targets:
            raise ValueError(
                "`targets` must hold one position for each release, whole numbers from 0 to "
                f"{n_targets - 1}; got {positions!r:.200}. These are positions among `records_`."
            )
        released = np.asarray(released)
        if released.ndim != 2 or len(released) != len(positions):
            raise ValueError(
                f"`released` must have shape ({len(positions)}, n_parameters), a release for each "
                f"of `targets`; got shape {released.shape}."
            )
        return np.asarray(self._about(positions).predict_each(released[None], noise_scale)[0])
