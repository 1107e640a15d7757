"""Moments of a table with Gaussian noise, from which linear models are fitted later.

Records are scaled into the unit ball and targets into [-1, 1]. The sums of ``x x^T``, ``x y`` and
``y^2``, with an intercept of ``x`` and ``y`` too, get noise of inverse variances a, b, c, e and f;
the noise on the symmetric ``x x^T`` has variance 1/a on its diagonal and 1/(2a) off it. In units
of the noise a record z moves the release by phi(z), with the kernel, t = x.x',

    k(z, z') = phi(z).phi(z') = a t^2 + b t y y' + c (y y')^2 + e t + f y y'.

Replacing z by z' is mu-GDP with mu the largest distance D, D^2 = k(z, z) + k(z', z') - 2 k(z, z').

*Shorter rows are no worse.* In two dimensions or more there is a direction w orthogonal to x' with
w.x >= 0. Moving x along it leaves k(z, z') as it is and k(z, z), which rises with |x|, grows: x may
be taken of length 1, and x' likewise. One dimension is part of two. *One target is 1 or -1.* D^2 is
a sum of squares, of terms of degree one or two in (y, y'): scaling the two up until one is at the
end of its range lowers none, and the sign of both is free. *The other, too.* At y = 1, y' = v

    D^2 = F(v) + c (1 - v^2)^2,   F(v) = max over t of 2a (1 - t^2) + 2e (1 - t)
                                         + b (1 + v^2 - 2 t v) + f (1 - v)^2,

where F is a largest value of convex functions of v, thus convex, and largest at v = 1 or v = -1.
So ``mu^2 = max(F(1), F(-1))`` for every c up to the least of (mu^2 - F(v)) / (1 - v^2)^2 over v.
The numerator N is concave: on a cell of v it is at least its smaller end. As ``F - (b + f) v^2`` is
convex, too, the quotient is also at least (b + f) / (1 - v^2), which serves near both ends.

Without a target all is in the rows: b, c and f are 0. A target that is a column of these has, with
the columns beside it, the noise of b = 2a, c = a and f = e.

The sums are exact: records are rounded to multiples of 2^-k, by a k of the public number of records
with which no sum of products needs more than 53 bits, after division by 1 + s, s = sqrt(d) 2^-k:
rounding adds s/2 to a norm, and 1/(1 + s) + s/2 < 1 for s < 1.
"""

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from skleak.mechanisms.goals import EpsilonDelta, GaussianDP, grid_mu
from skleak.mechanisms.grids import release_on_grid
from skleak.mechanisms.protocol import GridNoise, Mechanism, PublicTable
from skleak.utils._arguments import check_scalar, make_generator
from skleak.utils._typing import FloatArray, RandomState

# Cells of the second target on which the weight of the squared targets is found.
_TARGETS = np.linspace(-1.0, 1.0, 20_001)
_KEPT = 1e-8  # of mu, for rounding
_MOST_COLUMNS = 2000  # the square of it is released
_FAR = 1e150  # what is longer has this length before it is clipped


def _largest(a: float, b: float, e: float, f: float, v: Any) -> Any:
    """Largest squared distance without squared targets at the targets 1 and v: F of the module."""
    t = np.clip(-(e + b * v) / (2.0 * a), -1.0, 1.0)
    rows = 2.0 * a * (1.0 - t**2) + 2.0 * e * (1.0 - t)
    return rows + b * (1.0 + v**2 - 2.0 * t * v) + f * (1.0 - v) ** 2


def moments_mu(a: float, b: float, e: float = 0.0, f: float = 0.0) -> float:
    """Largest distance of two records in units of the noise.

    Parameters
    ----------
    a, b, e, f : float
        Inverse variances of the noise on the sums; a is positive.

    Returns
    -------
    float
        The mu of Gaussian differential privacy, for every inverse variance of the squared targets
        up to :func:`free_square`.

    Examples
    --------
    >>> round(moments_mu(1.0, 1.0) ** 2, 12)
    4.5
    """
    return float(np.sqrt(max(_largest(a, b, e, f, 1.0), _largest(a, b, e, f, -1.0))))


def free_square(a: float, b: float, e: float = 0.0, f: float = 0.0) -> float:
    """Inverse variance of the squared targets that costs nothing beside the other sums.

    Parameters
    ----------
    a, b, e, f : float
        As for :func:`moments_mu`.

    Returns
    -------
    float
        From below.

    Examples
    --------
    >>> round(free_square(1.0, 1.0), 3)
    1.5
    """
    square = moments_mu(a, b, e, f) ** 2
    # The rounding of the difference, which is small near the ends.
    numerator = square * (1.0 - 1e-14) - _largest(a, b, e, f, _TARGETS)
    least = 1.0 - np.minimum(np.abs(_TARGETS[1:]), np.abs(_TARGETS[:-1])) ** 2
    bound = np.minimum(numerator[1:], numerator[:-1]) / least**2
    return float(np.maximum(bound, (b + f) / least).min() * (1.0 - _KEPT))


@functools.lru_cache(maxsize=64)
def moments_split(
    n_features: int, expected_norm: float, *, intercept: bool, target: bool = True
) -> tuple[float, float, float, float, float]:
    """Inverse variances that estimate coefficients best, at mu = 1.

    Without an intercept the mean squared error is least; with one, a public guide of it is
    minimized numerically.

    Parameters
    ----------
    n_features : int
        Number of columns.
    expected_norm : float
        Public guess of the norm of the coefficients, in units of the bounds.
    intercept : bool
        Release the sums of records and targets as well.
    target : bool, default=True
        There is a target beside the columns; else any column is to serve as one.

    Returns
    -------
    a, b, c, e, f : float

    Examples
    --------
    >>> a, b, c, e, f = moments_split(3, 1.0, intercept=False)
    >>> bool(np.isclose(a, b)), round(1.0 / a, 6), e, f
    (True, 4.5, 0.0, 0.0)
    """
    square = expected_norm**2
    # (sqrt(1 + 8 w^2) - 1) / (4 w^2), without its cancellation.
    b, e, f = 4.0 / (np.sqrt(1.0 + 8.0 * square) + 1.0), 0.0, 0.0
    if intercept:

        def error(logs: FloatArray) -> float:
            b, e, f = np.exp(logs) if target else (2.0, *np.exp(logs), *np.exp(logs))
            rows = n_features * (0.5 * square + 1.0 / b)
            means = (0.25 * n_features + square) / e + 1.0 / f
            own = (1.0, b, e, f) if target else (1.0, 0.0, e, 0.0)
            return float(moments_mu(*own) ** 2 * (rows + means))

        found = np.log([b, 1.0, 1.0]) if target else np.zeros(1)
        for _ in range(3):  # from a new simplex, as the guide has an edge
            found = minimize(error, found, method="Nelder-Mead", options={"maxiter": 600}).x
        b, e, f = np.exp(found).tolist() if target else (0.0, float(np.exp(found[0])), 0.0)
    if not target:
        scale = 1.0 / moments_mu(1.0, 0.0, e, 0.0) ** 2
        return scale, 0.0, 0.0, scale * e, 0.0
    scale = 1.0 / moments_mu(1.0, b, e, f) ** 2
    weights = (1.0, float(b), free_square(1.0, b, e, f), e, f)
    a, b, c, e, f = (scale * weight for weight in weights)
    return a, b, c, e, f


@dataclass(frozen=True)
class SufficientStatistics(Mechanism):
    """Noise on the sums that a linear regression is made of, as the ``mechanism`` of an estimator.

    Parameters
    ----------
    expected_norm : float, default=1.0
        Public guess of the norm of the coefficients times ``data_norm / target_bound``, which
        splits the noise best. A wrong one costs accuracy alone.

    Examples
    --------
    >>> noise = SufficientStatistics().calibrate(
    ...     GaussianDP(1.0), PublicTable(100, 3, 1.0, target_bound=1.0)
    ... )
    >>> round(noise.mu, 6)
    1.0
    """

    expected_norm: float = 1.0

    name: ClassVar[str] = "moments"
    title: ClassVar[str] = "sufficient statistics"
    takes_weights: ClassVar[bool] = False
    unmeasured: ClassVar[str] = (
        "Attacks on sums with noise are not known, nor goals that measure: the formulas of noise "
        "on the parameters do not hold for them."
    )

    def calibrate(self, goal: "EpsilonDelta | GaussianDP", public: PublicTable) -> "MomentsNoise":
        """Find the least noise of a goal, from public numbers alone.

        Parameters
        ----------
        goal : EpsilonDelta or GaussianDP
            The goal.
        public : PublicTable
            Public numbers of the table; without ``target_bound`` any column is a target later.

        Returns
        -------
        MomentsNoise

        Raises
        ------
        ValueError
            For more than 2,000 columns, a number out of range, or a goal out of reach.
        """
        if public.n_features > _MOST_COLUMNS:
            raise ValueError(
                f"X has {public.n_features} columns; at most {_MOST_COLUMNS} are supported, as "
                "their square is released. Use PrivateSGDRegressor, or fewer columns."
            )
        n, d, target = public.n_records, public.n_features, public.target_bound is not None
        limits: dict[str, Any] = {"low": 1e-100, "low_open": True, "high": 1e100}
        longest, bound = (
            check_scalar(name, getattr(public, name), **limits, hint="Rescale the data.")
            if target or name == "data_norm"
            else 1.0
            for name in ("data_norm", "target_bound")
        )
        norm = check_scalar("expected_norm", self.expected_norm, low=1e-3, low_open=True, high=1e3)
        split = moments_split(d, norm, intercept=public.fit_intercept, target=target)
        shape = MomentsNoise(*split, d, n, longest, bound, goal.rows_per_person)
        goal.check(persons=True)
        if goal.rows_per_person and public.fit_intercept:
            raise ValueError(
                "`fit_intercept` must be False with `rows_per_person`, as the number of rows is "
                "not public: append a constant column to X, and count its square in `data_norm`."
            )
        mu = grid_mu(replace(goal, rows_per_person=None), shape.n_numbers) / goal.rows
        a, b, c, e, f = (float(mu**2 * weight) for weight in split)
        return replace(shape, a=a, b=b, c=c, e=e, f=f)

    def obstacles(self, given: dict[str, Any]) -> dict[str, bool]:
        """Say what of the public parameters of an estimator does not go with it, and if it is so.

        Parameters
        ----------
        given : dict
            Parameters of the estimator by name.

        Returns
        -------
        dict of str to bool
        """
        return {
            "`mechanism` must not be sums, which make linear regressions alone": (
                "target_bound" not in given
            ),
            "`target_bound` must be promised, a public bound on the absolute target": (
                "target_bound" in given and given["target_bound"] is None
            ),
        }


@dataclass(frozen=True)
class MomentsNoise(GridNoise):
    """Public numbers of a release of moments.

    Parameters
    ----------
    a, b, c, e, f : float
        Inverse variances of the noise on the sums of ``x x^T``, ``x y``, ``y^2``, ``x`` and ``y``
        of scaled records; e and f are 0 without an intercept, b, c and f without a target.
    n_features, n_records : int
        Number of columns, and of records.
    data_norm, target_bound : float
        Largest norm of a record, and largest size of a target, where there is one.
    rows_per_person : int or None, default=None
        As of the goal.

    Examples
    --------
    >>> public = PublicTable(100, 3, 1.0, target_bound=1.0)
    >>> noise = SufficientStatistics().calibrate(GaussianDP(1.0), public)
    >>> round(noise.mu, 6), noise.composed_mu <= 1.0
    (1.0, True)
    """

    a: float
    b: float
    c: float
    e: float
    f: float
    n_features: int
    n_records: int
    data_norm: float = 1.0
    target_bound: float = 1.0
    rows_per_person: int | None = None

    mechanism: ClassVar[type[Mechanism]] = SufficientStatistics

    @property
    def n_numbers(self) -> int:
        """Number of released numbers."""
        target, d = int(self.b > 0.0), self.n_features
        return d * (d + 1) // 2 + target * (d + 1) + (d + target) * int(self.e > 0.0)

    @property
    def step(self) -> float:
        """Return what scaled records are rounded to multiples of."""
        return 2.0 ** -((53 - (self.n_records - 1).bit_length()) // 2)

    @property
    def unit(self) -> float:
        """Return what records are divided by to stay in the unit ball when they are rounded."""
        return float(self.data_norm * (1.0 + np.sqrt(self.n_features) * self.step))

    @property
    def mu(self) -> float:
        """Largest distance of two records, or persons, in units of the noise, grids apart."""
        return (self.rows_per_person or 1) * moments_mu(self.a, self.b, self.e, self.f)

    @property
    def edge(self) -> float:
        """Edge of the spectrum of the noise on ``x x^T``, of scaled records."""
        return float(np.sqrt(2.0 * self.n_features / self.a))

    @property
    def edge_alpha(self) -> float:
        """Half of it as a penalty relative to the mean loss."""
        return float(0.5 * self.edge * self.unit**2 / self.n_records)

    @property
    def _on_grid(self) -> dict[str, Any]:
        return {"mu": self.mu, "n_parameters": self.n_numbers}

    def scaled(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Clip records to the bounds, scale them by these, and round them.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            Finite records.
        y : ndarray of shape (n,)
            Finite targets; zeros where there is none.

        Returns
        -------
        X, y : ndarrays
            Multiples of ``step``, in the unit ball and in [-1, 1].
        """
        with np.errstate(over="ignore"):
            rows = np.clip(X / self.data_norm, -_FAR, _FAR)
            targets = np.clip(y / self.target_bound, -1.0, 1.0)
        rows *= self.data_norm / self.unit
        rows /= np.maximum(np.linalg.norm(rows, axis=1) * (self.unit / self.data_norm), 1.0)[
            :, None
        ]
        return np.rint(rows / self.step) * self.step, np.rint(targets / self.step) * self.step

    def kernel(
        self, X: FloatArray, y: FloatArray, others: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """Inner products of what records add to the release, in units of the noise.

        Parameters
        ----------
        X, others : ndarray of shape (n, n_features), (m, n_features)
            Scaled records.
        y, targets : ndarray of shape (n,), (m,)
            Scaled targets.

        Returns
        -------
        ndarray of shape (n, m)
        """
        t, yy = X @ others.T, np.outer(y, targets)
        return t * (self.a * t + self.b * yy + self.e) + yy * (self.c * yy + self.f)

    def distance(
        self,
        record: tuple[npt.ArrayLike, float],
        other: tuple[npt.ArrayLike, float] | None = None,
    ) -> float:
        """Distance of the releases with one record or the other, in units of the noise.

        Parameters
        ----------
        record, other : tuple of array-like of shape (n_features,) and float
            A row and its target, as the table has them. None for no other: the record leaves.

        Returns
        -------
        float
            The two are told apart as N(0, 1) and N(distance, 1) are, whatever the others are.

        Raises
        ------
        ValueError
            For rows of another length.
        """
        both = [record] if other is None else [record, other]
        rows, targets = (np.array(part, dtype=float) for part in zip(*both, strict=True))
        if rows.shape[1:] != (self.n_features,) or targets.ndim != 1:
            raise ValueError(
                f"A record is a row of {self.n_features} numbers and a target; got rows of shape "
                f"{rows.shape[1:]}. Pass `(x, y)`."
            )
        X, y = self.scaled(rows, targets)
        signs = np.array([1.0, -1.0])[: len(y)]
        return float(np.sqrt(max(signs @ self.kernel(X, y, X, y) @ signs, 0.0)))

    def losses(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """Fisher information losses of scaled records, from nothing but themselves.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            Scaled records.
        y : ndarray of shape (n,)
            Scaled targets.

        Returns
        -------
        ndarray of shape (n,)
            Root of the largest eigenvalue of the information on row and target, in 1 / (their
            units). Along the row and the target it is that of a 2 x 2 matrix, and less elsewhere.
        """
        t, yy = np.einsum("ij,ij->i", X, X), y**2
        u, v = self.unit**-2, self.target_bound**-2
        row = (4.0 * self.a * t + self.b * yy + self.e) * u
        target = (self.b * t + 4.0 * self.c * yy + self.f) * v
        apart = np.hypot(row - target, 2.0 * self.b * np.sqrt(t * yy * u * v))
        return np.asarray(np.sqrt(0.5 * (row + target + apart)))

    @property
    def largest_loss(self) -> float:
        """Largest Fisher information loss of any record; entries of that matrix are increasing."""
        longest = np.zeros((1, self.n_features))
        longest[0, 0] = 1.0
        return float(self.losses(longest, np.ones(1))[0])

    def release(
        self, X: FloatArray, y: FloatArray, random_state: RandomState = None
    ) -> dict[str, FloatArray]:
        """Sum what records add, and add noise.

        Parameters
        ----------
        X : ndarray of shape (n_records, n_features)
            Finite records; what is longer than promised is clipped.
        y : ndarray of shape (n_records,)
            Finite targets.
        random_state : None, int, RandomState or Generator, default=None
            None draws from the operating system's randomness.

        Returns
        -------
        dict
            "xx", with a target "xy" and "yy", with an intercept "x" and "y" too: of scaled
            records.
        """
        if X.shape != (self.n_records, self.n_features) or y.shape != (self.n_records,):
            raise ValueError(
                f"X and y must have the public shape {(self.n_records, self.n_features)}; got "
                f"{X.shape} and {y.shape}. Calibrate the noise for this table."
            )
        generator = None if random_state is None else make_generator(random_state)

        def noisy(values: Any, inverse: float) -> FloatArray:
            return release_on_grid(values, inverse**-0.5, generator).parameters

        rows, targets = self.scaled(X, y)
        gram = rows.T @ rows
        upper = np.triu_indices(self.n_features, 1)
        xx = np.diag(noisy(np.diag(gram), self.a))
        if self.n_features > 1:
            xx[upper] = noisy(gram[upper], 2.0 * self.a)
        moments = {"xx": xx + np.triu(xx, 1).T}
        if self.b > 0.0:
            moments["xy"] = noisy(rows.T @ targets, self.b)
            moments["yy"] = noisy([targets @ targets], self.c)[0]
        if self.e > 0.0:
            moments["x"] = noisy(rows.sum(axis=0), self.e)
        if self.f > 0.0:
            moments["y"] = noisy([targets.sum()], self.f)[0]
        return moments
