"""Reweightings: what they balance, and how far the search for the weights goes."""

from abc import ABC
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from sklearn.base import BaseEstimator

from skleak.utils._features import resolve_features
from skleak.utils._typing import Array, IntArray

_METHODS = ("accelerated", "newton", "plain")
_NORMS = ("spectral", "trace")


@dataclass(kw_only=True)
class Reweighting(BaseEstimator, ABC):
    """Weights of the records that follow from what the records leak.

    Parameters
    ----------
    features : str, int, slice or list, default=None
        Block of columns whose leakage is balanced; by default the whole record.
    norm : {"spectral", "trace"}, default="spectral"
        Worst direction, or root mean square.
    method : {"accelerated", "newton", "plain"}, default="accelerated"
        Search for the weights.
    max_iter : int, default=30
        Largest number of refits after the first.
    tol : float, default=1e-6
        Relative spread at which the search stops.

    Attributes
    ----------
    name : str
        Short name, which ``reweighting=`` of an estimator takes for the default parameters.

    Examples
    --------
    >>> from skleak.mechanisms import IRFIL, Reweighting
    >>> isinstance(IRFIL(features="age", tol=1e-4), Reweighting)
    True
    >>> IRFIL(norm="largest").check()
    Traceback (most recent call last):
        ...
    ValueError: The 'norm' parameter of IRFIL must be one of ['spectral', 'trace']; got 'largest'.
    """

    name: ClassVar[str]

    features: Any = None
    norm: Literal["spectral", "trace"] = "spectral"
    method: Literal["accelerated", "newton", "plain"] = "accelerated"
    max_iter: int = 30
    tol: float = 1e-6

    def check(self) -> None:
        """Raise where a parameter is out of range.

        Raises
        ------
        ValueError
            For an unknown norm or method, fewer than one refit, or a tolerance that is not
            positive.
        """
        for name, known in (("norm", _NORMS), ("method", _METHODS)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"The '{name}' parameter of {type(self).__name__} must be one of "
                    f"{list(known)}; got {getattr(self, name)!r}."
                )
        whole = isinstance(self.max_iter, Integral) and not isinstance(self.max_iter, bool)
        if not whole or self.max_iter < 1:
            raise ValueError(
                f"The 'max_iter' parameter of {type(self).__name__} must be an int of at least 1; "
                f"got {self.max_iter!r}."
            )
        if not isinstance(self.tol, Real) or not self.tol > 0.0:
            raise ValueError(
                f"The 'tol' parameter of {type(self).__name__} must be a positive number; got "
                f"{self.tol!r}."
            )

    def columns(self, names: Array | None, n_features: int) -> IntArray | None:
        """Return the indices of the columns whose leakage is balanced; None for the whole record.

        Parameters
        ----------
        names : ndarray of str or None
            Column names.
        n_features : int
            Number of columns.

        Returns
        -------
        ndarray of int or None
        """
        if self.features is None:
            return None
        return resolve_features(self.features, names, n_features, "features")


@dataclass(kw_only=True)
class IRFIL(Reweighting):
    """Reweight until all records would leak the same if their weights were fixed.

    Iteratively reweighted Fisher information loss ([FIL21] algorithm 1). The weights are
    functions of the data, which [FIL21] leaves out; the leakage that estimators state counts
    them. It is mostly more even than without a reweighting, and not equal.

    Parameters
    ----------
    features : str, int, slice or list, default=None
        Balance the leakage of this block of columns (names or indices) instead of the whole
        record.
    norm : {"spectral", "trace"}, default="spectral"
        Balance the leakage in the worst direction, or its root mean square.
    method : {"accelerated", "newton", "plain"}, default="accelerated"
        Anderson-accelerated fixed-point iteration that goes over to Newton's method where it is
        slow; Newton's method from the first fit on, of fewer fits but with more work in between;
        or the plain iteration of [FIL21].
    max_iter : int, default=30
        Largest number of refits after the first. Most problems need less than 20. Allow 150 for
        hard ones: where 30 refits have not halved the spread, and it is still above 1e-3, the
        weights are bounded, and the bound is raised step by step (but for the plain iteration).
    tol : float, default=1e-6
        Relative spread (standard deviation over mean) of leakage at which the search stops.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import IRFIL, PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateLinearRegression(alpha=0.1, reweighting=IRFIL(norm="trace")).fit(X, y)
    >>> bool(min(model.reweighting_history_) <= 1e-6)
    True
    """

    name: ClassVar[str] = "irfil"


@dataclass(kw_only=True)
class EvenTotal(Reweighting):
    """Reweight to even what records leak with everything counted.

    Weights have a bound, and residuals count for less. The total leakage is not equal, and a
    warning of the fit gives its spread. It is mostly more even than under `IRFIL` where that is
    uneven (a spread above 0.1), and about as even elsewhere.

    Parameters
    ----------
    features : str, int, slice or list, default=None
        Even the leakage of this block of columns (names or indices) instead of the whole record.
    norm : {"spectral", "trace"}, default="spectral"
        Even the leakage in the worst direction, or its root mean square.
    method : {"accelerated", "newton", "plain"}, default="accelerated"
        Search for the weights; see `IRFIL`.
    max_iter : int, default=30
        Largest number of refits after the first.
    tol : float, default=1e-6
        Relative spread of what the rule of the weights balances at which the search stops.

    Examples
    --------
    >>> EvenTotal(norm="trace").get_params()["norm"]
    'trace'
    """

    name: ClassVar[str] = "total"


def as_reweighting(value: "Reweighting | str | None") -> Reweighting | None:
    """Turn what an estimator takes as ``reweighting`` into an object.

    Parameters
    ----------
    value : {"irfil", "total"}, Reweighting or None
        The parameter.

    Returns
    -------
    Reweighting or None

    Examples
    --------
    >>> as_reweighting("irfil").max_iter
    30
    """
    if isinstance(value, str):
        return {kind.name: kind for kind in (IRFIL, EvenTotal)}[value]()
    return value
