"""Composition of mechanisms, and the curves they have."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.accounting.gaussian import gaussian_epsilon
from skleak.utils._arguments import as_result, check_real, check_scalar
from skleak.utils._geometry import lower_hull
from skleak.utils._typing import FloatArray

_FRAME_NUMBERS = [
    "mean_fisher_information_loss",
    "max_fisher_information_loss",
    "mu",
    "composed_max_fisher_information_loss",
    "composed_mu",
]


def _largest_eigenvalue(matrices: FloatArray) -> FloatArray:
    """Largest eigenvalue of each symmetric positive semi-definite matrix; checks that it is one."""
    if not np.isfinite(matrices).all():
        raise ValueError(
            "Fisher information matrices must be finite. Where a release has no noise, pass its "
            "losses, which are infinite, instead of matrices."
        )
    size = np.abs(matrices).max(axis=(1, 2))
    skewed = np.abs(matrices - matrices.swapaxes(1, 2)).max(axis=(1, 2)) > 1e-8 * size
    values = np.linalg.eigvalsh(matrices)
    bad = skewed | (values[:, 0] < -1e-8 * size)
    if bad.any():
        record = int(np.argmax(bad))
        raise ValueError(
            "Fisher information matrices must be symmetric and positive semi-definite; that of "
            f"record {record} is not. Pass J^T J / noise_scale^2."
        )
    return np.maximum(values[:, -1], 0.0)


class FisherAccountant:
    """Running totals of what releases on the same records leak about each of them.

    Confidential: per-record leakage reveals which records stand out. For totals that outlive the
    process and that copies cannot forget, see :class:`LeakageLedger`.

    Attributes
    ----------
    n_releases_ : int
        Number of releases so far.
    fisher_information_loss_ : ndarray of shape (n_records,)
        Composed Fisher information loss (spectral norm) of each record: exact where all releases
        came with matrices, otherwise an upper bound. Exists after the first release.
    mu_ : float
        mu of the composed mu-GDP guarantee; infinite once a release had none.

    Notes
    -----
    Assumes independent noise in every release, and the same records in the same order.

    Examples
    --------
    >>> accountant = FisherAccountant()
    >>> accountant.add([0.3, 0.1], mu=0.3).add([0.4, 0.0], mu=0.4).fisher_information_loss_
    array([0.5, 0.1])
    >>> accountant.mu_
    0.5
    >>> round(accountant.epsilon(1e-5), 3)
    1.993
    """

    n_releases_: int
    fisher_information_loss_: FloatArray
    mu_: float

    def __init__(self) -> None:
        self.n_releases_ = 0
        self.mu_ = 0.0
        # Releases with matrices add matrices; those with a norm alone add its square.
        self._matrices: FloatArray | None = None
        self._norms: FloatArray | None = None
        self._rows: list[tuple[str, float, float, float, float, float]] = []

    def add(
        self,
        fisher_information_loss: npt.ArrayLike,
        mu: float | None = None,
        name: str | None = None,
    ) -> Self:
        """Add one release.

        Parameters
        ----------
        fisher_information_loss : array-like of shape (n_records,) or (n_records, p, p)
            Fisher information loss of each record, at least 0; or the Fisher information matrix
            of each record: matrices add exactly, where losses only bound ([FIL21] section 3.1).
        mu : float, optional
            mu-GDP guarantee of the release; None where no guarantee of differential privacy holds.
        name : str, optional
            What to call the release in the table.

        Returns
        -------
        FisherAccountant
            The accountant itself.

        Raises
        ------
        TypeError
            For values that are not numeric.
        ValueError
            For another shape or number of records than before, negative losses, NaN, or matrices
            that are not symmetric and positive semi-definite.
        """
        release_mu = np.inf if mu is None else check_scalar("mu", mu)
        loss, matrices, norms = self._join(fisher_information_loss)
        self._matrices, self._norms = matrices, norms
        self.fisher_information_loss_ = _total(matrices, norms)
        self.mu_ = float(np.hypot(self.mu_, release_mu))
        self.n_releases_ += 1
        name = f"release {self.n_releases_}" if name is None else name
        total = float(self.fisher_information_loss_.max())
        row = (name, float(loss.mean()), float(loss.max()), release_mu, total, self.mu_)
        self._rows.append(row)
        return self

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of all releases together.

        Parameters
        ----------
        delta : float in [0, 1]
            Probability that the bound may fail.

        Returns
        -------
        float
            epsilon in nats; infinite once a release had no guarantee of differential privacy.

        Raises
        ------
        TypeError, ValueError
            For delta out of range or not a number.
        """
        return float(gaussian_epsilon(self.mu_, check_scalar("delta", delta, high=1.0)))

    def to_frame(self) -> pd.DataFrame:
        """Table with one row per release, in order, and the composed totals after it.

        Returns
        -------
        DataFrame
            Columns ``name``, ``mean_fisher_information_loss``, ``max_fisher_information_loss``
            (over records), ``mu`` (infinite for no guarantee), and the largest composed loss and
            composed mu so far, ``composed_max_fisher_information_loss`` and ``composed_mu``.
        """
        frame = pd.DataFrame(self._rows, columns=["name", *_FRAME_NUMBERS])
        return frame.astype(dict.fromkeys(_FRAME_NUMBERS, np.float64))

    def _join(
        self, release: npt.ArrayLike
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Losses of a release, and the sums of matrices and of norms with it."""
        array = check_real("fisher_information_loss", release, low=-np.inf)
        self._check_shape(array.shape)
        if array.ndim == 1:
            loss = check_real("fisher_information_loss", array)
            norms = loss if self._norms is None else np.hypot(self._norms, loss)
            return loss, self._matrices, norms
        total = array if self._matrices is None else self._matrices + array
        return np.sqrt(_largest_eigenvalue(array)), total, self._norms

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        square = len(shape) == 3 and shape[1] == shape[2]
        if not (len(shape) == 1 or square) or 0 in shape:
            raise ValueError(
                "`fisher_information_loss` must have shape (n_records,) or (n_records, p, p); "
                f"got {shape}. Pass one number, or one square matrix, per record."
            )
        if self.n_releases_ and shape[0] != self.fisher_information_loss_.size:
            raise ValueError(
                f"Every release must be on the same {self.fisher_information_loss_.size} records; "
                f"got {shape[0]}. Use one accountant for each data set."
            )
        if square and self._matrices is not None and shape != self._matrices.shape:
            raise ValueError(
                f"Fisher information matrices must have shape {self._matrices.shape}, as before; "
                f"got {shape}. Matrices add only over the same columns."
            )


def _total(matrices: FloatArray | None, norms: FloatArray | None) -> FloatArray:
    """Composed loss: exact over the matrices, a bound where norms are added to them."""
    if matrices is None:
        return np.asarray(norms).copy()
    exact = np.sqrt(_largest_eigenvalue(matrices))
    return exact if norms is None else np.hypot(exact, norms)


def output_perturbation_sensitivity(
    lipschitz: npt.ArrayLike,
    data_norm: npt.ArrayLike,
    n_samples: npt.ArrayLike,
    alpha: npt.ArrayLike,
) -> Any:
    """Global L2 sensitivity of regularized empirical risk minimization, [CMS11] corollary 8.

    The minimizer of ``mean loss + alpha/2 ||w||^2`` moves by at most
    ``2 * lipschitz * data_norm / (n_samples * alpha)`` when one record, its target included, is
    replaced by any other.

    Parameters
    ----------
    lipschitz : float or array-like, positive
        Supremum of ``|dloss/da|`` over predictors and targets: 1 for the logistic loss, sqrt(2)
        (a Euclidean norm) for that of several classes with one predictor each, infinite for the
        squared and the Poisson loss.
    data_norm : float or array-like, positive
        Bound on the Euclidean norm of every record, with the constant 1 of an intercept counted.
        It is promised beforehand and enforced by clipping; reading it off the data breaks the
        guarantee.
    n_samples : int or array-like, at least 1
        Number of records; public under replacement.
    alpha : float or array-like, positive
        Strength of the L2 penalty, which is the strong convexity.

    Returns
    -------
    float or ndarray
        Sensitivity in units of the coefficients, broadcast over the arguments.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        Without a penalty or with an unbounded derivative of the loss, where no global
        sensitivity exists, and for values out of range.

    Notes
    -----
    Assumes a convex loss, every coordinate penalized (no free intercept), unit weights and the
    exact minimizer: a solver that stops at gradient norm g adds 2 g / alpha.

    Examples
    --------
    >>> output_perturbation_sensitivity(1.0, 1.0, 1000, 0.01)
    0.2
    """
    penalty = check_real("alpha", alpha, finite=True)
    if (penalty == 0.0).any():
        raise ValueError(
            "No global sensitivity exists: `alpha` must be positive; got 0. Without a penalty one "
            "record can move the coefficients without bound. Set `alpha` above 0."
        )
    slope = check_real("lipschitz", lipschitz, low_open=True)
    if np.isinf(slope).any():
        raise ValueError(
            "No global sensitivity exists: `lipschitz` must be finite; got inf. The derivative of "
            "the squared and of the Poisson loss is unbounded. Use the logistic loss, or account "
            "with Fisher information instead of differential privacy."
        )
    radius = check_real("data_norm", data_norm, low_open=True, finite=True)
    count = check_real("n_samples", n_samples, low=1.0, finite=True)
    return as_result(2.0 * slope * radius / (count * penalty))


# Epsilons at which the curve is supported: finely where most tests lie, out to exp(-40), and near
# zero, where those of releases that tell little lie.
_EPSILONS = np.unique(
    np.r_[np.geomspace(1e-5, 0.5, 400), np.arange(0.0, 10.0, 0.01), np.arange(10.0, 40.0, 0.05)]
)
# Deltas are raised by more than the rounding of transforms and sums takes from them.
ROUND_UP = 1e-11


def tradeoff_curve(guarantee: Any) -> tuple[FloatArray, FloatArray]:
    """Bound the trade-off curve of a release from its privacy profile or privacy loss distribution.

    A profile ``delta(epsilon)`` supports the curve f by the lines ``1 - delta - exp(epsilon)
    alpha`` and their mirror images ``exp(-epsilon) (1 - delta - alpha)`` (Dong, Roth, Su 2022,
    proposition 6). What is returned are the corners of the polygon that these lines bound. It is
    nowhere above f, in either order of the two data sets, wherever delta is nowhere below the
    truth, as it is for the pessimistic estimates of dp-accounting.

    Parameters
    ----------
    guarantee : object
        A ``PrivacyLossDistribution`` of dp-accounting; an accountant of dp-accounting, or anything
        else with ``get_delta(epsilon)``; a ``CTDAccountant`` of riskcal, or anything else with
        ``get_pld()``; or a function of epsilon, at least 0, that returns delta. It has to hold for
        both orders of two data sets: one that is made of two laws needs ``symmetric=False``. Its
        relation and its unit of privacy are those of the curve.

    Returns
    -------
    alpha : ndarray of shape (n_corners,)
        False-positive rates, ascending from 0 to 1 at most.
    beta : ndarray of shape (n_corners,)
        Least false-negative rates, descending to 0. Straight lines between the corners hold:
        `bounds.curve_advantage(alpha, beta, prior, between="linear")`.

    Raises
    ------
    TypeError
        For any other object.
    ValueError
        For a negative delta, or NaN.

    See Also
    --------
    skleak.neural.SGDGuarantee : Its ``curve`` is that of private stochastic gradient descent.
    skleak.bounds.curve_advantage : What an attacker can guess at most, from a curve.

    Examples
    --------
    The curve of (1, 0)-differential privacy has a corner, where both rates are 0.269:

    >>> import math
    >>> def delta(epsilon):
    ...     return max(0.0, (math.e - math.exp(epsilon)) / (math.e + 1.0))
    >>> alpha, beta = tradeoff_curve(delta)
    >>> round(float(alpha[1]), 3), round(float(beta[1]), 3)
    (0.269, 0.269)
    """
    delta = _profile(guarantee)
    bad = ~(delta > -ROUND_UP)
    if bad.any():
        raise ValueError(
            "`guarantee` must give a delta of at least 0 at every epsilon; got "
            f"{delta[bad][0]:g} at epsilon {_EPSILONS[bad][0]:g}."
        )
    # The masses of a pessimistic distribution may sum up to a little more than one.
    height = np.maximum(1.0 - np.maximum(delta, 0.0) - ROUND_UP, 0.0)
    # A line of slope exp(epsilon), and its mirror image.
    slopes = np.exp(np.r_[_EPSILONS, -_EPSILONS])
    heights = np.r_[height, height * np.exp(-_EPSILONS)]
    order = np.lexsort((heights, slopes))
    return _corners(slopes[order], heights[order])


def _profile(guarantee: Any) -> FloatArray:
    """Deltas at the epsilons, (n,)."""
    if hasattr(guarantee, "get_pld"):
        guarantee = guarantee.get_pld()
    if hasattr(guarantee, "get_delta_for_epsilon"):
        return np.asarray(guarantee.get_delta_for_epsilon(_EPSILONS), dtype=np.float64)
    delta: Callable[[Any], Any] = getattr(guarantee, "get_delta", guarantee)
    if not callable(delta) or isinstance(delta, type):
        raise TypeError(
            "`guarantee` must be a privacy loss distribution or an accountant of dp-accounting, an "
            "accountant of riskcal, or a function of epsilon that returns delta; got "
            f"{type(guarantee).__name__}."
        )
    if hasattr(guarantee, "get_delta"):
        # Some accountants take many epsilons at once, and are slow about them one by one.
        with suppress(TypeError, ValueError):
            found = np.asarray(delta(_EPSILONS), dtype=np.float64)
            if found.shape == _EPSILONS.shape:
                return found
    return np.array([float(delta(epsilon)) for epsilon in _EPSILONS.tolist()])


def _corners(slopes: FloatArray, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Corners of ``max(0, max_k heights_k - slopes_k alpha)``, slopes (n,) ascending, in [0, 1].

    Lines that are the highest somewhere are, as points, corners of the hull of all.
    """
    m, depth = lower_hull(np.r_[0.0, slopes], -np.r_[0.0, heights])
    h = -depth
    alpha = np.diff(h) / np.diff(m)  # descending: steep lines are the highest on the left
    beta = h[1:] - m[1:] * alpha
    return np.r_[0.0, alpha[::-1]], np.maximum(np.r_[h[-1], beta[::-1]], 0.0)
