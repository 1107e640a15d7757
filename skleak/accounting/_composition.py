"""What several independent releases on the same records leak together."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.accounting._gaussian import gaussian_epsilon
from skleak.utils._arguments import as_result, check_real, check_scalar
from skleak.utils._typing import FloatArray

_FRAME_NUMBERS = [
    "mean_fisher_information_loss",
    "max_fisher_information_loss",
    "mu",
    "composed_max_fisher_information_loss",
    "composed_mu",
]


def _stack(values: npt.ArrayLike, name: str) -> FloatArray:
    """Releases as one array, or an error that names the shapes that do not match."""
    if isinstance(values, Sequence):
        shapes = sorted({np.shape(value) for value in values})
        if len(shapes) > 1:
            raise ValueError(
                f"`{name}` must hold releases on the same records, all of one shape; "
                f"got shapes {', '.join(map(str, shapes))}. Compose data sets one by one."
            )
    array = check_real(name, values)
    if array.ndim == 0:
        raise ValueError(
            f"`{name}` must hold one entry per release along `axis`; got a single number. "
            "Pass a list."
        )
    return array


def compose_fisher_information_loss(losses: npt.ArrayLike, axis: int = 0) -> Any:
    """Fisher information loss of independent releases together, ``sqrt(sum eta^2)``.

    [FIL21] section 3.1: Fisher information matrices add, so k releases of loss eta leak at most
    sqrt(k) eta (the paper's first sentence says k eta, which is true but not tight). For the
    spectral norm this is an upper bound, attained where all releases expose the same direction;
    for the diagonal loss (the trace) it is exact.

    Parameters
    ----------
    losses : array-like, for instance of shape (n_releases, n_records)
        Loss of every release for every record, at least 0, in one over the unit of the data.
    axis : int, default=0
        The axis of the releases.

    Returns
    -------
    float or ndarray
        The losses without the axis of the releases; shape (n_records,) in the instance above.

    Raises
    ------
    TypeError
        For entries that are not numeric.
    ValueError
        For a negative loss, NaN, or releases on different numbers of records.

    Notes
    -----
    Assumes that, given the data, the noise of the releases is independent, and that entry i is
    the same record in every release.

    Examples
    --------
    >>> compose_fisher_information_loss([[3.0, 1.0], [4.0, 0.0]])
    array([5., 1.])
    """
    return as_result(np.asarray(np.hypot.reduce(_stack(losses, "losses"), axis=axis)))


def compose_gdp(mus: npt.ArrayLike, axis: int = 0) -> Any:
    """Return the mu of independent Gaussian releases together, ``sqrt(sum mu^2)``.

    Dong, Roth and Su (2022), corollary 3.3; exact for Gaussian noise.

    Parameters
    ----------
    mus : array-like, for instance of shape (n_releases,)
        mu of every release, at least 0; infinity stands for no guarantee.
    axis : int, default=0
        The axis of the releases.

    Returns
    -------
    float or ndarray
        mu of all releases.

    Raises
    ------
    TypeError
        For entries that are not numeric.
    ValueError
        For a negative mu or NaN.

    Examples
    --------
    >>> compose_gdp([0.3, 0.4])
    0.5
    """
    return as_result(np.asarray(np.hypot.reduce(_stack(mus, "mus"), axis=axis)))


def compose_rdp(epsilons: npt.ArrayLike, axis: int = 0) -> Any:
    """Renyi epsilon of independent releases together: the sum, order by order.

    Mironov (2017), proposition 1.

    Parameters
    ----------
    epsilons : array-like, for instance of shape (n_releases, n_orders)
        Divergence of every release at every order, at least 0, in nats; all at the same orders.
    axis : int, default=0
        The axis of the releases.

    Returns
    -------
    float or ndarray
        Divergence of all releases, at the same orders.

    Raises
    ------
    TypeError
        For entries that are not numeric.
    ValueError
        For a negative divergence, NaN, or releases with different numbers of orders.

    Examples
    --------
    >>> compose_rdp([[0.25, 1.0], [0.5, 2.0]])
    array([0.75, 3.  ])
    """
    return as_result(np.asarray(np.sum(_stack(epsilons, "epsilons"), axis=axis)))


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
