"""Scale and encode columns by noisy numbers of their records, under differential privacy.

A step is fitted once: what it learned is a release of noisy numbers, and rows are transformed one
by one by these alone, so that a later step composes with it. Replacing one record in k columns:

*Mean and variance.* Sums of values z in [-1, 1] get noise of inverse variance a, and sums of their
squares c. A column moves the release by D, D^2 = (z - z')^2 (a + c (z + z')^2). At s = |z + z'| the
difference is at most 2 - s, so that D^2 <= 4a if c / a <= (4 - s) / (s (2 - s)^2) for all s in
(0, 2). That is least at s = 3 - sqrt(5), where it is (11 + 5 sqrt(5)) / 8: so much of the squares
is free, and mu^2 = 4 k a.

*Categories.* Counts get noise of standard deviation s and show above t. A column has at most one
category that one table alone has, with one record, and one that the other has; it shows with
probability q = Q((t - 1) / s). Let M' release the counts of common categories, of which at most two
of a column change, by one: mu^2 <= 2 k / s^2. With f = 1 - (1 - q)^k <= k q both releases are
mixtures (1 - f) M' + f R, R something else: in no test is delta above f + (1 - f) H, H that of M',
at any epsilon.
"""

from collections import Counter
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skleak.accounting.discrete import discrete_gaussian_cover
from skleak.mechanisms import EpsilonDelta, GaussianDP, release_on_grid
from skleak.mechanisms.goals import grid_mu, reserved_delta
from skleak.mechanisms.protocol import ChargedParameters
from skleak.preprocessing._blockwise import (
    PublicTransformer,
    TableTransformer,
    read_records,
    read_table,
)
from skleak.preprocessing._encoding import PublicOneHotEncoder
from skleak.preprocessing._scaling import PublicScaler
from skleak.utils._arguments import make_generator
from skleak.utils._confidential import warn_of_written_seed
from skleak.utils._sklearn_compat import Interval, leaves_whole, output_container
from skleak.utils._typing import Array

# Weight of the noise on squares that is free beside sums: (11 + 5 sqrt(5)) / 8, from below.
FREE_SQUARES = 2.7725
_LARGEST = np.finfo(np.float64).max
# Share by which a threshold is raised for the grid of the noise, and what counts as too narrow.
_RAISED, _NARROW = 1e-6, 16.0 * np.finfo(np.float64).eps
_MOST = 2.0**53  # numbers from here on are no categories: doubles hold not all of them


@dataclass(eq=False, repr=False)
class PrivateTransformer(ChargedParameters, TableTransformer):
    """A transformer that a release of noisy numbers has made; it keeps nothing else of records."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ChargedParameters._parameter_constraints,
        "goal": [EpsilonDelta, GaussianDP],
        "public": [str, "array-like"],
    }
    _needs_memory: ClassVar[bool] = True

    goal: "EpsilonDelta | GaussianDP"
    public: Any = field(default=(), kw_only=True)

    def transform(self, X: Any) -> Any:
        """Transform each row by itself, by the noisy numbers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, n_columns)
        """
        return self.transformer_.transform(X)

    def inverse_transform(self, X: Any) -> Array:
        """Return to the columns, as the public transformer does.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_columns)
            Transformed rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        return self.transformer_.inverse_transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Name the columns, as the public transformer does.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; by default those of the table, or "x0", "x1", ...

        Returns
        -------
        ndarray of str
        """
        return self.public_copy().get_feature_names_out(input_features)

    def public_copy(self) -> PublicTransformer:
        """Return the transformer that may be published: a public one, with noisy parameters.

        Returns
        -------
        PublicTransformer
            Fitted.
        """
        check_is_fitted(self)
        return self.transformer_.public_copy().set_output(transform=output_container(self))

    def to_sklearn(self) -> Any:
        """Return scikit-learn's own transformer, for whoever has no skleak.

        Returns
        -------
        MinMaxScaler or OneHotEncoder
            Fitted.
        """
        return self.public_copy().to_sklearn()

    def _account(self, mu: float, n_parameters: int, mu_delta: float = 0.0) -> Any:
        """Charge the ledger before any noise is drawn, and return the source of that."""
        warn_of_written_seed(self.random_state)
        self._seeded = self.random_state is not None
        wrong = {
            "the number of records is not said to be public (`public=('n_samples',)` says so)": (
                "n_samples" not in {*np.atleast_1d(self.public)}
            ),
            "the noise came from a seed or a generator, and can be drawn again": self._seeded,
        }
        reasons = self.no_guarantee_because_ = "; ".join(text for text in wrong if wrong[text])
        cover = float(discrete_gaussian_cover(mu, n_parameters=n_parameters))
        self.composed_mu_, self.mu_delta_ = (np.nan, np.nan) if reasons else (cover, mu_delta)
        self._charge(None if reasons else cover, mu_delta=mu_delta, goal=repr(self.goal))
        return make_generator(self.random_state) if self._seeded else None


@dataclass(eq=False, repr=False)
class PrivateScaler(PrivateTransformer):
    """Standardize columns by means and variances with noise, and clip them to a public range.

    Of each column the sums of values and of their squares are released, clipped to public bounds.
    What comes out is within ``[-limit, limit]``, so that rows of d columns have norm at most
    ``limit * sqrt(d)``, and usual ones about ``sqrt(d)``: `RowNormClipper` shortens the others.

    Parameters
    ----------
    goal : EpsilonDelta or GaussianDP
        The guarantee of this step, for instance of `skleak.mechanisms.split_goal`.
    bounds : dict of str to (float, float), array-like of shape (n_features, 2), or (float, float)
        Public smallest and largest value of each column, as of `PublicScaler`. The noise is in
        proportion to their distance; values beyond count as the bound.
    limit : float, default=3.0
        Standard deviations from the mean at which the output is clipped.
    min_scale : float in (0, 1], default=0.05
        Least standard deviation, as a share of half the distance of the bounds. Smaller ones,
        noise included, are set to it.
    public : str or sequence of str, default=()
        Must hold "n_samples" for a guarantee: the number of records is public knowledge.
    random_state : None, int, RandomState or Generator, default=None
        None draws noise from the operating system's cryptographic randomness. All else can be
        replayed, and is for experiments: no guarantee holds.
    ledger : LeakageLedger, str, PathLike or None, default=None
        Ledger that every fit is charged to, or its file.
    ledger_dataset : str, default="default"
        Name of this data set in the ledger.

    Attributes
    ----------
    transformer_ : PublicScaler
        Scales alike. Public.
    mean_, scale_ : ndarray of shape (n_features,)
        Noisy means and standard deviations, in the units of the columns. Public.
    data_norm_ : float
        ``limit * sqrt(n_features)``, which no row exceeds. Public.
    composed_mu_, mu_delta_ : float
        The step is composed_mu-Gaussian differentially private but for an event of this
        probability, 0, under replacement of one row; NaN without a guarantee.
    no_guarantee_because_ : str
        Why there is none; empty where there is one.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names where the table has them.

    See Also
    --------
    PublicScaler : Bounds that are known need no budget.

    Notes
    -----
    Every ``fit`` is another release. NaN counts as the middle of the bounds in the sums, and stays
    NaN: put a `PublicImputer` before, or one of zeros, the noisy means, behind.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.mechanisms import GaussianDP
    >>> from skleak.preprocessing import PrivateScaler
    >>> X = np.tile([[18.0], [38.0], [58.0]], (1000, 1))
    >>> scaler = PrivateScaler(GaussianDP(0.5), bounds=(0, 100), public="n_samples").fit(X)
    >>> bool(abs(scaler.mean_[0] - 38.0) < 3.0), bool(abs(scaler.scale_[0] - 16.3) < 3.0)
    (True, True)
    >>> scaler.transform([[1e9]]), round(scaler.composed_mu_, 6)
    (array([[3.]]), 0.5)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateTransformer._parameter_constraints,
        "bounds": PublicScaler._parameter_constraints["bounds"],
        "limit": [Interval(Real, 0, 1e6, closed="right")],
        "min_scale": [Interval(Real, 0, 1, closed="right")],
    }
    _input_tags: ClassVar[dict[str, bool]] = {"allow_nan": True}

    bounds: Any = field(kw_only=True)
    limit: float = field(default=3.0, kw_only=True)
    min_scale: float = field(default=0.05, kw_only=True)

    @leaves_whole
    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw noise and add it to the sums. Every fit is a release of its own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records, in memory.
        y : object, default=None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bounds as of `PublicScaler`, or too narrow; and a goal out of reach.
        LeakageBudgetError
            Where the release would pass a ceiling of the ledger; no noise is drawn then.
        """
        X = read_records(self, X, reset=True, ensure_all_finite=False)
        n, d = X.shape
        names = getattr(self, "feature_names_in_", None)
        units = PublicScaler(self.bounds).on_columns(d, names).scaler_
        low, high = units.data_min_, units.data_max_
        half, limit = 0.5 * (high - low), float(self.limit)
        # What noise makes of it must be bounds, too, whatever the noise is.
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.maximum(np.abs(low), np.abs(high)) + half * (1.0 + limit)
            least = half * limit * self.min_scale / np.maximum(size, 1.0)
            z = np.nan_to_num(units.transform(np.clip(X, -_LARGEST, _LARGEST)))
        if not np.all(least > _NARROW):
            raise ValueError(
                "`bounds` are too narrow for their size, or `limit` and `min_scale` too small, for "
                "the precision of numbers. Choose another unit or origin of the columns."
            )
        mu = grid_mu(self.goal, 2 * d)
        generator = self._account(mu, 2 * d)
        step = 2.0 ** -((53 - (n - 1).bit_length()) // 2)  # sums of so fine squares are exact
        z = np.rint(z / step) * step
        scale = 2.0 * np.sqrt(d) / mu
        mean = np.clip(release_on_grid(z.sum(axis=0), scale, generator).parameters / n, -1.0, 1.0)
        scale /= np.sqrt(FREE_SQUARES)
        squares = release_on_grid((z**2).sum(axis=0), scale, generator).parameters / n
        deviation = np.sqrt(np.clip(squares - mean**2, self.min_scale**2, 1.0))
        self.mean_, self.scale_ = low + half * (1.0 + mean), half * deviation
        bounds = np.stack([self.mean_ - limit * self.scale_, self.mean_ + limit * self.scale_], 1)
        scaler = PublicScaler(bounds.tolist(), feature_range=(-limit, limit))
        self.transformer_ = scaler.on_columns(d, names)
        self.data_norm_ = float(limit * np.sqrt(d))
        return self


@dataclass(eq=False, repr=False)
class PrivateOneHotEncoder(PrivateTransformer):
    """One column of zeros and ones for each category that many records have, and one for others.

    Categories that occur are counted, with noise, and those above a threshold are public from then
    on. The last column of each block is for all other values: rare ones, missing ones, and those
    that ``transform`` sees first.

    Parameters
    ----------
    goal : EpsilonDelta or GaussianDP
        The guarantee of this step, with a delta: of a `GaussianDP` its own, as
        `skleak.mechanisms.split_goal` sets it; of an `EpsilonDelta` a tenth.
    sparse_output : bool, default=False
        Whether to return a sparse matrix.
    public : str or sequence of str, default=()
        Must hold "n_samples" for a guarantee: the number of records is public knowledge.
    random_state : None, int, RandomState or Generator, default=None
        None draws noise from the operating system's cryptographic randomness. All else can be
        replayed, and is for experiments: no guarantee holds.
    ledger : LeakageLedger, str, PathLike or None, default=None
        Ledger that every fit is charged to, or its file.
    ledger_dataset : str, default="default"
        Name of this data set in the ledger.

    Attributes
    ----------
    transformer_ : PublicOneHotEncoder
        Encodes alike. Public.
    categories_ : list of list
        Categories of each column, all text or all numbers, in ascending order. Public.
    noise_scale_, threshold_ : float
        Standard deviation of the noise on counts, and what they must exceed. Public.
    data_norm_ : float
        ``sqrt(n_features)``, the norm of every row. Public.
    composed_mu_, mu_delta_ : float
        The step is composed_mu-Gaussian differentially private but for an event of this
        probability, under replacement of one row; NaN without a guarantee.
    no_guarantee_because_ : str
        Why there is none; empty where there is one.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names where the table has them.

    See Also
    --------
    PublicOneHotEncoder : Categories that are known need no budget.

    Notes
    -----
    Every ``fit`` is another release. Categories are text and finite numbers below 2^53 in size; 1,
    1.0 and True are one. All else counts as missing, and so do numbers where text shows. The column
    of others is named as scikit-learn names that of infrequent categories.

    Examples
    --------
    >>> import pandas as pd
    >>> from skleak.mechanisms import GaussianDP
    >>> from skleak.preprocessing import PrivateOneHotEncoder
    >>> X = pd.DataFrame({"gene": ["AA"] * 500 + ["AB"] * 400 + ["a secret"] + [None]})
    >>> encoder = PrivateOneHotEncoder(GaussianDP(0.5, delta=1e-7), public="n_samples").fit(X)
    >>> encoder.get_feature_names_out()
    array(['gene_AA', 'gene_AB', 'gene_infrequent_sklearn'], dtype=object)
    >>> encoder.transform(X.tail(3))
    array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 0., 1.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateTransformer._parameter_constraints,
        "sparse_output": ["boolean"],
    }
    _input_tags: ClassVar[dict[str, bool]] = PublicOneHotEncoder._input_tags

    sparse_output: bool = field(default=False, kw_only=True)

    @leaves_whole
    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw noise and add it to the counts. Every fit is a release of its own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records, in memory.
        y : object, default=None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a goal without a delta, or out of reach.
        LeakageBudgetError
            Where the release would pass a ceiling of the ledger; no noise is drawn then.
        """
        table = read_table(self, X, reset=True).astype(object)
        k, delta = table.shape[1], reserved_delta(self.goal)
        if not delta > 0.0:
            raise ValueError(
                f"`goal` must have a delta, with which a category of one record may show; got "
                f"{self.goal}. Pass a part of `split_goal(EpsilonDelta(...), ...)`, or "
                "GaussianDP(mu, delta=1e-7)."
            )
        mu = grid_mu(self.goal, 2 * k, reserved=delta)
        generator = self._account(mu, 2 * k, delta)
        self.noise_scale_ = float(np.sqrt(2.0 * k) / mu)
        self.threshold_ = float(1.0 - self.noise_scale_ * ndtri(delta / k) * (1.0 + _RAISED))
        self.categories_ = [self._listed(column, generator) for column in table.T]
        others: Any = {"handle_unknown": "other", "sparse_output": self.sparse_output}
        encoder = PublicOneHotEncoder(self.categories_, **others)
        self.transformer_ = encoder.on_columns(k, getattr(self, "feature_names_in_", None))
        self.data_norm_ = float(np.sqrt(k))
        return self

    def _listed(self, column: Array, generator: Any) -> list[Any]:
        """List categories of a column (n,) whose noisy counts are above the threshold."""
        counts = Counter(map(_category, column.tolist()))
        counts.pop(None, None)
        if not counts:
            return []
        ordered = sorted(counts, key=lambda value: (isinstance(value, str), value))
        exact = [counts[value] for value in ordered]
        noisy = release_on_grid(exact, self.noise_scale_, generator).parameters
        shown = [value for value, n in zip(ordered, noisy, strict=True) if n > self.threshold_]
        return [value for value in shown if isinstance(value, str) == isinstance(shown[-1], str)]

    def transform(self, X: Any) -> Any:
        """Encode each value.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, n_encoded)
            Of zeros and ones, with one 1 for each column of X.
        """
        table = read_table(self, X, reset=False).astype(object)
        known = [[_category(value) for value in row] for row in table.tolist()]
        names = getattr(self, "feature_names_in_", None)
        return self.transformer_.transform(pd.DataFrame(known, columns=names, dtype=object))


def _category(value: Any) -> Any:
    """Return a value that equal ones share, whatever their type; None for what is no category."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, int | float) or not abs(value) < _MOST:
        return None
    return int(value) if float(value).is_integer() else float(value)
