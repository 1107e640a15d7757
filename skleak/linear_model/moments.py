"""Linear regression from moments with noise: one release, and fits of it without further cost."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import linalg
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skleak._released import (
    LinearRegressionMixin,
    TrainedMixin,
    gaussian_event,
    refuse_without_guarantee,
    warn_of_release,
)
from skleak.channels import GaussianChannel
from skleak.mechanisms import (
    EpsilonDelta,
    GaussianDP,
    MaxAdvantage,
    MaxLeakage,
    SufficientStatistics,
)
from skleak.mechanisms.moments import MomentsNoise
from skleak.mechanisms.protocol import ChargedParameters, PublicTable, SelectionNoise
from skleak.report.guarantee import DELTA, DifferentialPrivacy, Promises, noise_guarantee
from skleak.utils._arguments import check_level, check_scalar, column_bounds
from skleak.utils._blocks import is_large_source
from skleak.utils._confidential import warn_of_written_seed
from skleak.utils._files import read_document, write_document
from skleak.utils._records import resolve_features, values_withheld
from skleak.utils._sklearn_compat import (
    Interval,
    ShownAttributesMixin,
    fit_context,
    leaves_whole,
    validate_data,
)
from skleak.utils._typing import FloatArray, IntArray


class MomentsRegression(TrainedMixin, LinearRegressionMixin, BaseEstimator):
    """Coefficients of released moments; see `ReleasedMoments.regress`.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features,), float
        Coefficients of the raw columns; an intercept of zero without one.
    coef_standard_error_, intercept_standard_error_ : ndarray of shape (n_features,), float
        Of noise and sampling together, to first order; NaN where that is not enough.
    no_errors_because_ : str
        Why they are NaN; empty where they are not.
    alpha_ : float
        Penalty relative to the mean loss.
    """

    coef_: FloatArray
    intercept_: float
    coef_standard_error_: FloatArray
    intercept_standard_error_: float
    no_errors_because_: str
    alpha_: float

    def summary(self, confidence_level: float = 0.95) -> pd.DataFrame:
        """Tabulate coefficients with their errors.

        Parameters
        ----------
        confidence_level : float in (0, 1), default=0.95
            Share of releases and samples in which an interval holds the coefficient. Of a penalized
            fit that is the penalized one: how far the penalty shrinks it is not counted.

        Returns
        -------
        DataFrame
            ``coefficient``, ``standard_error``, ``z``, ``low`` and ``high``; ``attrs["reason"]``
            says why errors are NaN.
        """
        reach = float(ndtri(0.5 * (1.0 + check_level(confidence_level))))
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(len(self.coef_))])
        value, error = self.coef_, self.coef_standard_error_
        if self.intercept_standard_error_ != 0.0:
            names = [*names, "intercept"]
            value = np.append(value, self.intercept_)
            error = np.append(error, self.intercept_standard_error_)
        with np.errstate(divide="ignore", invalid="ignore"):
            columns = {"coefficient": value, "standard_error": error, "z": value / error}
        columns |= {"low": value - reach * error, "high": value + reach * error}
        table = pd.DataFrame(columns, index=names)
        table.attrs["reason"] = self.no_errors_because_
        return table


@dataclass(frozen=True)
class ReleasedMoments:
    """Moments of a table that may be published, with their guarantee.

    Parameters
    ----------
    moments : dict of str to ndarray
        Sums over records scaled by ``widths``, ``noise.unit`` and ``noise.target_bound``, with
        noise.
    noise : MomentsNoise
        Public numbers of the noise.
    differential_privacy : DifferentialPrivacy
        The guarantee, of the moments and of all that is computed from them.
    feature_names : ndarray of str or None
        Column names, where the table had them.
    widths : ndarray of shape (n_features,)
        Public bounds of the columns, by which they were divided first.
    """

    moments: dict[str, Any] = field(repr=False)
    noise: MomentsNoise
    differential_privacy: DifferentialPrivacy
    feature_names: Any
    widths: FloatArray

    def to_json(self) -> str:
        """Write the release as a document that ``from_json`` reads.

        Returns
        -------
        str
        """
        names = None if self.feature_names is None else list(self.feature_names)
        content = asdict(self) | {"feature_names": names}
        return write_document(type(self).__name__, content)

    @classmethod
    def from_json(cls, text: "str | bytes") -> Self:
        """Read the release that ``to_json`` wrote.

        Parameters
        ----------
        text : str or bytes
            The document. It is data only: nothing in it is run.

        Returns
        -------
        ReleasedMoments

        Raises
        ------
        ValueError
            For a document of another kind or version, or a damaged one.
        """
        kind, content = read_document(text)
        if kind != cls.__name__:
            raise ValueError(f"Expected a document of {cls.__name__}; got one of {kind}.")
        try:
            noise, moments = MomentsNoise(**content["noise"]), content["moments"]
            names, d = content["feature_names"], noise.n_features
            shapes = {"xx": (d, d), "xy": (d,), "yy": (), "x": (d,), "y": ()}
            shares = {"xx": noise.a, "xy": noise.b, "yy": noise.c, "x": noise.e, "y": noise.f}
            expected = {name: shapes[name] for name, share in shares.items() if share > 0.0}
            found = {name: np.shape(value) for name, value in moments.items()}
            if found != expected or content["widths"].shape != (d,):
                raise ValueError(f"of {d} columns there are moments of shapes {found}")
            names = None if names is None else np.asarray(names, dtype=object)
            stated = content["differential_privacy"]
            if stated["noise"] is not None:
                kind_of = SelectionNoise if "trial_mu" in stated["noise"] else MomentsNoise
                stated["noise"] = kind_of(**stated["noise"])
            guarantee = DifferentialPrivacy(**stated)
            return cls(moments, noise, guarantee, names, content["widths"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"This {kind} is damaged: {error}.") from error

    def profile(self, epsilon: npt.ArrayLike) -> Any:
        """Bound delta at any epsilon.

        Parameters
        ----------
        epsilon : float or array-like, at least 0
            Bound on the log-likelihood ratio, in nats.

        Returns
        -------
        float or ndarray
            `DifferentialPrivacy.profile` of the guarantee.
        """
        return self.differential_privacy.profile(epsilon)

    @property
    def dp_event(self) -> Any:
        """Event of dp-accounting that is no more private, as `ReleasedModel.dp_event` is."""
        _ = self.profile(0.0)  # an error without a guarantee
        return gaussian_event(self.differential_privacy.composed_mu)

    def regress(
        self, target: Any = None, *, on: Any = None, alpha: float | Literal["edge"] = "edge"
    ) -> MomentsRegression:
        """Fit ridge regression to the moments, which costs no privacy.

        Parameters
        ----------
        target : str or int, default=None
            Column that is to be predicted; by default the ``y`` of ``fit``.
        on : str, int, slice, mask or list, default=None
            Columns that predict it, in this order; by default all others.
        alpha : float or "edge", default="edge"
            Penalty relative to the mean loss; by default half the edge of the spectrum of the
            noise, which is public. Negative eigenvalues of the noisy moments count as zero. With 0,
            for least squares, all must be positive.

        Returns
        -------
        MomentsRegression

        Raises
        ------
        ValueError
            For a penalty out of range, or none where an eigenvalue is not positive.
        """
        columns, j = self._columns(target, on)
        whole, n, d = self.noise, self.noise.n_records, len(columns)
        noise = replace(whole, n_features=d)
        if target is not None:
            noise = replace(noise, b=2.0 * whole.a, c=whole.a, f=whole.e)
        table, sums, units = self._joint()
        mean, center, bound = sums[columns] / n, sums[j] / n, units[j]
        gram = table[np.ix_(columns, columns)] - n * np.outer(mean, mean)
        cross = table[columns, j] - n * mean * center
        eigenvalues, vectors = linalg.eigh(gram)
        edge = isinstance(alpha, str) and alpha == "edge"
        given = noise.edge_alpha if edge else check_scalar("alpha", alpha, finite=True)
        penalty = n * given / noise.unit**2
        kept = np.maximum(eigenvalues, 0.0)
        if not kept.min() + penalty > 0.0:
            raise ValueError(
                f"With `alpha={alpha}` there is no fit: the noise made an eigenvalue of the "
                'moments negative. Pass `alpha="edge"`, or a positive penalty.'
            )
        inverse = (vectors / (kept + penalty)) @ vectors.T
        w = inverse @ cross
        fit = MomentsRegression()
        fit.n_features_in_, fit.alpha_ = d, float(given)
        if self.feature_names is not None:
            fit.feature_names_in_ = np.asarray(self.feature_names)[columns]
        fit.coef_ = w * (bound / units[columns])
        fit.intercept_ = float((center - mean @ w) * bound)
        fit.no_errors_because_ = ""
        if eigenvalues[0] < noise.edge:
            fit.no_errors_because_ = (
                f"the smallest eigenvalue of the noisy moments, {eigenvalues[0]:.3g}, is below the "
                f"edge of the spectrum of the noise, {noise.edge:.3g}: errors of first order mean "
                "nothing"
            )
        squares = table[j, j] - n * center**2
        residual = max((squares - 2.0 * w @ cross + w @ gram @ w) / n, 0.0)
        errors = _errors(noise, w, inverse, gram, mean, center - mean @ w, residual)
        errors = np.full_like(errors, np.nan) if fit.no_errors_because_ else errors
        fit.coef_standard_error_ = errors[:-1] * (bound / units[columns])
        fit.intercept_standard_error_ = float(errors[-1] * bound) if "x" in self.moments else 0.0
        return fit

    def _columns(self, target: Any, on: Any) -> tuple[IntArray, int]:
        """Positions of the columns that predict a target, and of that among all of `_joint`."""
        names, j = self.feature_names, len(self.widths)
        columns = np.arange(j)
        if target is not None:
            j = int(resolve_features([target], names, j, "target")[0])
            columns = np.delete(columns, j)
        elif "xy" not in self.moments:
            raise ValueError(
                "`target` must name the column that is to be predicted: `fit` was given no `y`."
            )
        if on is not None:
            columns = resolve_features(on, names, len(self.widths), "on")
        if len(columns) == 0 or j in columns:
            raise ValueError("`on` must name columns other than the target, at least one.")
        return columns, j

    def _joint(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Join moments of columns and y: of products, (d + 1, d + 1), and sums; units, (d + 1,)."""
        moments, noise = self.moments, self.noise
        table, sums = moments["xx"], moments.get("x", np.zeros(len(self.widths)))
        if "xy" in moments:
            table = np.block([[table, moments["xy"][:, None]], [moments["xy"], moments["yy"]]])
        units = np.append(noise.unit * self.widths, noise.target_bound)
        return table, np.append(sums, moments.get("y", 0.0)), units


def _errors(
    noise: MomentsNoise,
    w: FloatArray,
    inverse: FloatArray,
    gram: FloatArray,
    mean: FloatArray,
    intercept: float,
    residual: float,
) -> FloatArray:
    """Find standard errors of scaled coefficients and intercept, (d + 1,).

    Each error is linear in the noise on ``x x^T`` and ``x y``, whose covariance is ``inner`` in
    the normal equations, in that on x and y, and in the residuals.
    """
    n, d, moved = noise.n_records, len(w), inverse @ mean
    inner = (w @ w * np.eye(d) + np.outer(w, w)) / (2.0 * noise.a) + np.eye(d) / noise.b
    parts = np.vstack([inverse, -moved])
    spread = parts @ (inner + residual * gram) @ parts.T
    if noise.e > 0.0:
        share = np.append(-moved, 1.0 / n + mean @ moved)  # of what the noise moves the mean by
        rows = np.outer(share, -w) - intercept * parts
        spread += rows @ rows.T / noise.e + np.outer(share, share) / noise.f
        spread[-1, -1] += residual / n
    return np.sqrt(np.maximum(np.diag(spread), 0.0))


@dataclass(eq=False, repr=False)
class PrivateMoments(ShownAttributesMixin, ChargedParameters, BaseEstimator):
    """Sums of a table with noise, from which linear regressions are fitted afterwards.

    Release ``X^T X``, ``X^T y`` and ``y^T y``, with an intercept the sums of X and y too, under
    differential privacy: replacing one record by any other that keeps the bounds. Without y every
    column of X may be a target later. Every fit of the release is free. It is the mechanism of
    AdaSSP (Wang, UAI 2018) with one joint sensitivity in place of three shares. See
    docs/theory/differential_privacy.md.

    Parameters
    ----------
    goal : EpsilonDelta, GaussianDP, MaxLeakage or MaxAdvantage
        The guarantee; or a limit on what the release tells of any record that keeps the bounds, in
        the units of ``leakage_``, or of any attribute of it, whatever its column and the prior are:
        no record is read for it, and a guarantee holds as well.
    data_norm : float or None, default=None
        Public upper bound on the Euclidean norm of a row of X, after ``columns``; None with these
        for the root of their number.
    target_bound : float or None, default=None
        Public upper bound on the size of a target; None where ``fit`` is given none.
    columns : mapping from names or array-like of shape (n_features,), default=None
        Public upper bound on the size of each column, by which it is divided: where units differ,
        and in any case where there is no ``y``. A column that may be negative has it on both sides.
    fit_intercept : bool, default=True
        Release what an intercept needs as well.
    expected_norm : float, default=1.0
        Public guess of the norm of the coefficients times ``data_norm / target_bound``, which
        splits the noise best. A wrong one costs accuracy alone.
    clip : bool, default=False
        Clip longer rows and larger targets to the bounds. By default they are an error, which
        breaks the promise; whoever may not learn of it clips.
    public : str or sequence of str, default=("n_samples",)
        Must hold "n_samples": the number of records is public knowledge.
    random_state : None, int, RandomState or Generator, default=None
        None draws noise from the operating system's cryptographic randomness. All else can be
        replayed, and is for experiments: no guarantee holds.
    ledger : str, Path, LeakageLedger or None, default=None
        A `skleak.accounting.LeakageLedger` or the path of an existing one, which each fit charges
        before noise is drawn.
    ledger_dataset : str, default="default"
        Name of this data set in the ledger.

    Attributes
    ----------
    leakage_ : ndarray of shape (n_samples,)
        Fisher information loss of each record, in 1 / (unit of the columns, or of their bounds in
        ``columns``), from its own numbers; of clipped records a bound. Confidential: a pickle does
        not hold it.
    largest_leakage_ : float
        The largest of any record that keeps the bounds. Public.
    noise_ : MomentsNoise
        Public numbers of the noise.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names where X has them.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> moments = PrivateMoments(
    ...     EpsilonDelta(1.0, 1e-6), data_norm=0.25, target_bound=175.0, clip=True
    ... ).fit(X, y - 175.0)
    >>> released = moments.release(require_guarantee=True)
    >>> released.regress().predict(X).shape, released.regress(alpha=0.01).coef_.shape
    ((442,), (10,))

    Any column as the target, later:

    >>> table = X.assign(progression=y - 175.0)
    >>> bounds = dict.fromkeys(X.columns, 0.2) | {"progression": 175.0}
    >>> released = PrivateMoments(GaussianDP(1.0), columns=bounds).fit(table).release()
    >>> released.regress("progression", on=["bmi", "bp", "s5"]).summary().shape
    (4, 5)
    """

    # What single records leak is no more for the screen than for a release.
    _shown_attributes: ClassVar[tuple[str, ...]] = (
        "largest_leakage_",
        "noise_",
        "n_features_in_",
        "feature_names_in_",
    )

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ChargedParameters._parameter_constraints,
        "goal": [EpsilonDelta, GaussianDP, MaxLeakage, MaxAdvantage],
        "data_norm": [Interval(Real, 0, None, closed="neither"), None],
        "target_bound": [Interval(Real, 0, None, closed="neither"), None],
        "columns": [Mapping, "array-like", None],
        "fit_intercept": ["boolean"],
        "expected_norm": [Interval(Real, 0, None, closed="neither")],
        "clip": ["boolean"],
        "public": [str, "array-like"],
    }

    goal: "EpsilonDelta | GaussianDP | MaxLeakage | MaxAdvantage"
    data_norm: float | None = field(default=None, kw_only=True)
    target_bound: float | None = field(default=None, kw_only=True)
    columns: Any = field(default=None, kw_only=True)
    fit_intercept: bool = field(default=True, kw_only=True)
    expected_norm: float = field(default=1.0, kw_only=True)
    clip: bool = field(default=False, kw_only=True)
    public: Any = field(default=("n_samples",), kw_only=True)

    def planned(self, n_samples: int, n_features: int) -> MomentsNoise:
        """Find the noise of a table of some size, before any record is seen.

        Parameters
        ----------
        n_samples, n_features : int
            Number of records and of columns, which are public.

        Returns
        -------
        MomentsNoise
            With ``mu``, ``largest_loss``, and the ``distance`` of any two records.
        """
        if isinstance(self.goal, EpsilonDelta | GaussianDP):
            self.goal.check()
        public = PublicTable(
            n_samples,
            n_features,
            float(np.sqrt(n_features)) if self.data_norm is None else self.data_norm,
            target_bound=self.target_bound,
            fit_intercept=self.fit_intercept,
        )
        mechanism, goal = SufficientStatistics(self.expected_norm), self.goal
        if isinstance(goal, MaxLeakage):
            eta = check_scalar("MaxLeakage.eta", goal.eta, low_open=True, finite=True)
            unit = mechanism.calibrate(GaussianDP(1.0), public)
            goal = GaussianDP(eta * unit.mu / unit.largest_loss)  # losses are in proportion to mu
        elif isinstance(goal, MaxAdvantage):
            gain = check_scalar(
                "MaxAdvantage.advantage", goal.advantage, low_open=True, high=1.0, high_open=True
            )
            goal = GaussianDP(2.0 * float(ndtri(0.5 * (1.0 + gain))))
        return mechanism.calibrate(goal, public)

    def channel(self, X: Any, y: Any = None) -> GaussianChannel:
        """Describe what the release tells of which candidate a record is, whatever the others are.

        Parameters
        ----------
        X : array-like of shape (n_values, n_features)
            Candidates for a row.
        y : array-like of shape (n_values,), default=None
            Their targets, where there are targets.

        Returns
        -------
        GaussianChannel
            Its noise is 1.
        """
        check_is_fitted(self)
        rows = self._in_units(np.asarray(X, dtype=float))
        targets = np.zeros(len(rows)) if y is None else np.asarray(y, dtype=float)
        rows, targets = self.noise_.scaled(rows, targets)
        values, vectors = linalg.eigh(self.noise_.kernel(rows, targets, rows, targets))
        return GaussianChannel(vectors * np.sqrt(np.maximum(values, 0.0)), 1.0)

    @fit_context(prefer_skip_nested_validation=True)
    @leaves_whole
    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw noise and add it to the sums. Every fit is a release of its own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records, in memory; dense.
        y : array-like of shape (n_samples,), default=None
            Targets. Without them any column of X is one later.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid data, more than 2,000 columns, a number of records that is not declared
            public, or records beyond the bounds without ``clip``.
        """
        warn_of_written_seed(self.random_state)
        public = frozenset([self.public] if isinstance(self.public, str) else self.public)
        if "n_samples" not in public or is_large_source(X):
            raise ValueError(
                "`public` must hold 'n_samples' and X must lie in memory: the number of records "
                f"sets the sums apart; got public={self.public!r}, X a {type(X).__name__}."
            )
        if (y is None) != (self.target_bound is None):
            raise ValueError(
                "`target_bound` is the bound of `y`: pass both, or neither for targets that are "
                f"columns of X; got target_bound={self.target_bound!r}, y "
                f"{'None' if y is None else 'given'}."
            )
        with values_withheld(X, y):
            if y is None:
                rows = np.asarray(validate_data(self, X, dtype=np.float64))
                targets = np.zeros(len(rows))
            else:
                X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
                rows, targets = np.asarray(X), np.asarray(y, dtype=np.float64)
        self.widths_ = self._checked_widths()
        noise = self.planned(*rows.shape)
        rows = self._within_bounds(rows, targets, noise)
        self.leakage_ = noise.losses(*noise.scaled(rows, targets))
        self.noise_, self.largest_leakage_ = noise, noise.largest_loss
        promises = Promises(noise.data_norm, public, seeded=self.random_state is not None)
        delta = self.goal.delta if isinstance(self.goal, EpsilonDelta) else DELTA
        self._guarantee = noise_guarantee(noise, promises, delta=delta)
        holds, most = self._guarantee.holds, np.inf
        if holds:
            most = self.largest_leakage_ * max(1.0, 1.0 / float(self.widths_.min()))
        mu = self._guarantee.composed_mu if holds else None
        self._charge(mu, most=most, goal=repr(self.goal))
        self._moments = noise.release(rows, targets, self.random_state)
        return self

    def _checked_widths(self) -> FloatArray:
        """Public bounds of the columns, (n_features,); ones where none were given."""
        names, d = getattr(self, "feature_names_in_", None), self.n_features_in_
        if self.columns is None:
            if self.data_norm is None:
                raise ValueError(
                    "`data_norm` must be promised, a public bound on the norm of a row; or pass "
                    "`columns`, a bound of each column."
                )
            return np.ones(d)
        return column_bounds("columns", self.columns, names, d)

    def _within_bounds(self, X: FloatArray, y: FloatArray, noise: MomentsNoise) -> FloatArray:
        """Divide records by the bounds of their columns; clip them to these, or refuse them."""
        with np.errstate(over="ignore"):
            X = np.clip(X / self.widths_, -1e150, 1e150)
            X = np.clip(X, -1.0, 1.0) if self.clip and self.columns is not None else X
            shares = {
                "columns": np.abs(X).max(axis=1),
                "data_norm": np.linalg.norm(X / noise.data_norm, axis=1),
                "target_bound": np.abs(y) / noise.target_bound,
            }
        for name, share in shares.items():
            beyond, bound = ~(share <= 1.0 + Promises.norm_rounding), getattr(self, name)
            if beyond.any() and bound is not None and not self.clip:
                most = f"{bound:g}" if isinstance(bound, Real) else "these sizes"
                raise ValueError(
                    f"`{name}` promises at most {most}, but {beyond.sum()} of {len(y)} "
                    "records are beyond. Pass `clip=True`, scale the records, or promise a larger "
                    "bound that does not come from the data."
                )
        return X

    def _in_units(self, X: FloatArray) -> FloatArray:
        """Divide candidates by the bounds of their columns, and clip them as ``fit`` does."""
        X = X / self.widths_
        return X if self.columns is None else np.clip(X, -1.0, 1.0)

    def distance(self, record: Any, other: Any = None) -> float:
        """Distance of the releases with one record or the other, in units of the noise.

        Parameters
        ----------
        record, other : tuple of array-like of shape (n_features,) and float, or array-like
            A row and its target; the row alone where there is no ``y``. None for no other: the
            record leaves.

        Returns
        -------
        float
            At most the mu of the guarantee. No attack tells the two apart better than
            N(0, 1) from N(distance, 1), whatever it knows of the other records.
        """
        check_is_fitted(self)
        given = [record] if other is None else [record, other]
        pairs = given if self.target_bound is not None else [(row, 0.0) for row in given]
        pairs = [(np.asarray(x, dtype=np.float64), y) for x, y in pairs]
        if all(x.shape == self.widths_.shape for x, _ in pairs):
            pairs = [(self._in_units(x), y) for x, y in pairs]
        return self.noise_.distance(*pairs)

    def release(self, *, require_guarantee: bool = False) -> ReleasedMoments:
        """Return what may be published: the moments with noise, and their guarantee.

        Parameters
        ----------
        require_guarantee : bool, default=False
            Raise unless a guarantee of differential privacy holds.

        Returns
        -------
        ReleasedMoments

        Raises
        ------
        NoGuaranteeError
            Where a guarantee is required and none holds.

        Warns
        -----
        PrivacyLeakWarning
            Where the noise came from a seed or a generator, which can be copied.
        """
        check_is_fitted(self)
        refuse_without_guarantee(self._guarantee, require_guarantee)
        warn_of_release(seeded=self.random_state is not None)
        names = getattr(self, "feature_names_in_", None)
        moments = {name: np.copy(value) for name, value in self._moments.items()}
        return ReleasedMoments(moments, self.noise_, self._guarantee, names, self.widths_.copy())

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "leakage_"}
