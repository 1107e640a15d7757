"""Private linear models: their parameters, their fits, and what these leak."""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property, partial
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from tqdm import tqdm

from skleak._released import ReleasedModel
from skleak.exceptions import AttackNotApplicableError, UnevenLeakageWarning
from skleak.influence.jacobian import Columns, FitFactor, MultinomialFactor, WideFactor
from skleak.influence.leakage import leakage_model, person_losses
from skleak.influence.noise import noise_root
from skleak.influence.reweighting import (
    FitSearch,
    RecordSearch,
    reaches_fixed_point,
    relative_spread,
)
from skleak.influence.state import FitState, NoiseShape, WeightRule, seen_through
from skleak.inspection.refits import RawProblem
from skleak.linear_model._goals import LinearModelProblem, RungMoves, of_problem, unchecked_moves
from skleak.linear_model._large import large_labels, large_records
from skleak.mechanisms import NoiseGoal, NoiseKind, Reweighting, release_on_grid
from skleak.mechanisms.goals import resolve_goal
from skleak.mechanisms.grids import GridRelease
from skleak.mechanisms.protocol import ChargedParameters, Mechanism, OutputPerturbation
from skleak.report import LeakageReport
from skleak.report.guarantee import Promises
from skleak.report.leakage import build_leakage_report
from skleak.solvers import ImplicitInverse, Minimum, MultinomialObjective, Objective, minimize
from skleak.utils._arguments import check_choice
from skleak.utils._blocks import Blocks, dense, is_large, is_large_source
from skleak.utils._files import write_table
from skleak.utils._records import (
    checked_labels,
    feature_labels,
    is_single_feature,
    named,
    resolve_features,
    same_numbers,
    values_withheld,
)
from skleak.utils._sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    ShownAttributesMixin,
    StrOptions,
    Task,
    no_task,
    outer_stacklevel,
    validate_data,
)
from skleak.utils._typing import Array, FloatArray
from skleak.utils.sources import index_labels, opened

# Relative spread of the total leakage up to which it counts as equal.
_EVEN = 1e-6


@contextmanager
def refusing_overflow() -> Iterator[None]:
    """Raise an error that says what to do where numbers overflow."""
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            yield
    except FloatingPointError as error:
        raise ValueError(
            f"Numbers overflow in the fit, or in what it leaks ({error}). Scale columns, target "
            "and sample weights, or raise `alpha`."
        ) from error


def solve(estimator: Any, objective: Objective) -> tuple[FitState, int]:
    """Minimize the objective of an estimator.

    Returns ``state``: confidential state of the fit; ``n_iter``: Newton steps.
    """
    minimum = minimize(objective, max_iter=estimator.max_iter, tol=estimator.tol)
    if not minimum.converged:
        _warn_not_converged(estimator, minimum)
    return _state(estimator, objective, minimum), minimum.n_iter


def solve_reweighted(
    estimator: Any,
    objective: Objective,
    rule: WeightRule,
    reweighting: Reweighting,
    task: Task | None = None,
) -> tuple[FitState, int, list[float]]:
    """Find the weights that a rule makes of the leakage, and the fit under them; tell of refits.

    Returns ``state``: confidential state of the fit under the weights found; ``n_iter``: Newton
    steps of the refit that was kept; ``history``: relative spread of what the rule balances at
    each refit.
    """
    fit_it = partial(minimize, max_iter=estimator.max_iter, tol=estimator.tol)
    kind = FitSearch if is_large(objective.X) else RecordSearch
    history: list[float] = []
    bar = {"desc": "reweighting", "unit": "fit", "disable": not estimator.verbose}
    with tqdm(total=reweighting.max_iter + 1, **bar) as progress:

        def note(spread: float) -> None:
            history.append(spread)
            (task or no_task()).done("refit")
            progress.set_postfix(spread=f"{spread:.1e}")
            progress.update()

        effort = reweighting.method == "plain", reweighting.max_iter, reweighting.tol
        search = kind(objective, rule, *effort, fit_it, note)
        search.run()
    best = search.best
    assert best is not None
    if not best.minimum.converged:
        _warn_not_converged(estimator, best.minimum)
    final = objective.reweighted(best.reweights)
    state = _state(estimator, final, best.minimum, rule, best.level)
    if search.first is not None and search.first.minimum.converged:
        state = replace(state, plain=search.first.factor)
    if state.converged and not reaches_fixed_point(rule, state.factor, final, best.spread):
        state = replace(state, converged=False, at_fixed_point=False)
    if best.spread > reweighting.tol or not state.at_fixed_point:
        _warn_not_equalized(reweighting, best.spread, len(history), state)
    return state, best.minimum.n_iter, history


def warn_if_uneven(state: FitState) -> None:
    """Say how far the total leakage is from equal, where a reweighting was to even it."""
    rule, objective = state.balanced, state.objective
    if not state.converged:
        return  # what it leaks is not known
    if rule is None or rule.name != "total" or state.noise_scale == 0.0 or is_large(objective.X):
        return  # outside memory nothing is computed before somebody asks for a number
    losses = leakage_model(state).record_loss(state.training, rule.columns, rule.norm)
    s = objective.sample_weight
    spread = relative_spread(np.divide(losses, s, out=np.zeros_like(s), where=s > 0.0), s)
    if spread > _EVEN:
        warnings.warn(
            "`reweighting='total'` evens what records leak with everything counted, but it is not "
            f"equal: its relative spread (standard deviation over mean) is {spread:.2g}. Weights "
            "that make it equal are not known: any correction of them is a function of the data in "
            "turn, and leaks by itself. `fisher_information_loss_` counts it all.",
            UnevenLeakageWarning,
            stacklevel=outer_stacklevel(),
        )


def told_losses(state: FitState) -> FloatArray:
    """Return the loss of every training record, or person, and say if the largest rose, (n,)."""
    persons = state.persons
    batch = state.training if persons is None else state.by_person(persons)
    losses = training_loss(state)
    plain: Any = leakage_model(state).plain_loss(batch)
    both = Blocks.of(losses, plain, width=1)
    largest, before = both.map_reduce(_largest_losses, np.maximum).tolist()
    if 0.0 < before * (1.0 + _EVEN) < largest < np.inf:
        way = f"`noise_covariance={state.noise.name!r}`"
        if state.balanced is not None:
            way = f"`reweighting={state.balanced.name!r}`"
        elif state.noise.matrix is not None:
            way = "the given `noise_covariance`"
        warnings.warn(
            f"With {way} somebody leaks more than anybody would without it: the largest "
            f"`fisher_information_loss_` is {largest:.4g}, and that of the plain fit at the same "
            f"noise scale {before:.4g}, which is {100.0 * (1.0 - before / largest):.3g} % less. "
            "Drop it, take another way, or compare them at equal cost with "
            "`skleak.inspection.leakage_tradeoff`. This message is confidential.",
            UnevenLeakageWarning,
            stacklevel=outer_stacklevel(),
        )
    return losses


def _largest_losses(losses: FloatArray, plain: FloatArray) -> FloatArray:
    return np.array([losses.max(initial=0.0), plain.max(initial=0.0)])


def _state(
    estimator: Any,
    objective: Objective,
    minimum: Minimum,
    rule: WeightRule | None = None,
    level: float = float("nan"),
) -> FitState:
    kind = MultinomialFactor if isinstance(objective, MultinomialObjective) else FitFactor
    if isinstance(minimum.inverse_hessian, ImplicitInverse):
        kind = WideFactor
    return FitState(
        objective,
        kind.of(objective, minimum),
        # A noise goal is resolved from this very state: until then it is at unit noise.
        float(estimator.noise_scale) if isinstance(estimator.noise_scale, Real) else 1.0,
        bool(estimator.private_target),
        rule,
        level,
        getattr(estimator, "feature_names_in_", None),
        minimum.converged,
        bool(estimator.verbose),
        reads_classes=not estimator._declares_classes,
    )


def _warn_not_converged(estimator: Any, minimum: Minimum) -> None:
    warnings.warn(
        f"{type(estimator).__name__} did not converge after {minimum.n_iter} steps (gradient norm "
        f"{minimum.gradient_norm:.1e}, tol={estimator.tol:g}): the leakage reported is "
        "unreliable. Raise `max_iter`, scale the columns, or raise `alpha`; without a penalty, "
        "separable data have no finite minimizer.",
        ConvergenceWarning,
        stacklevel=outer_stacklevel(),
    )


def _warn_not_equalized(
    reweighting: Reweighting, spread: float, n_fits: int, state: FitState
) -> None:
    if spread <= reweighting.tol:
        message = (
            f"The reweighting reached a spread of {spread:.1e}, but its weights differ by so much "
            "that rounding, or the spread left, hides how they depend on the data. Raise `alpha`, "
            "lower `tol`, or clip records that are far from all others."
        )
    else:
        advice = "Raise its `max_iter` or `alpha`, or accept"
        if n_fits <= reweighting.max_iter:
            advice = "There may be no weights under which they do. Raise `alpha`, or accept"
        message = (
            f"The reweighting stopped after {n_fits} fits with a relative spread of {spread:.1e}, "
            f"above tol={reweighting.tol:g}: records do not leak the same. "
            f"{advice} the spread by a larger `tol`, as in {type(reweighting).__name__}(tol=...)."
        )
    if not state.at_fixed_point:
        message += (
            " What the fit leaks is not known, and stated as NaN: what such weights give away has "
            "no known derivative. No goal, ledger, or guarantee takes it."
        )
    warnings.warn(message, ConvergenceWarning, stacklevel=outer_stacklevel())


NoiseCovariance: TypeAlias = (
    Literal["isotropic", "curvature", "minimax", "least_mean"] | npt.ArrayLike | NoiseKind
)


@dataclass(eq=False, repr=False)
class LinearModelParameters(
    ChargedParameters, ShownAttributesMixin, CallbackSupportMixin, BaseEstimator
):
    """Parameters and their constraints, as scikit-learn wants them."""

    # The leakage of records is no more for the screen than for a release.
    _shown_attributes: ClassVar[tuple[str, ...]] = ReleasedModel._published

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ChargedParameters._parameter_constraints,
        "noise_scale": [Interval(Real, 0, None, closed="left"), NoiseGoal],
        "noise_covariance": [str, "array-like", NoiseKind],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "private_target": ["boolean"],
        "reweighting": [StrOptions({"irfil", "total"}), Reweighting, None],
        "data_norm": [Interval(Real, 0, None, closed="neither"), Mapping, "array-like", None],
        "public": ["array-like", str],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
    }

    noise_scale: float | NoiseGoal = 0.01
    _: KW_ONLY
    noise_covariance: NoiseCovariance = "isotropic"
    alpha: float = 1e-2
    fit_intercept: bool = True
    private_target: bool = True
    reweighting: Literal["irfil", "total"] | Reweighting | None = None
    data_norm: float | Mapping[Any, float] | npt.ArrayLike | None = None
    public: "str | Sequence[str]" = ()
    max_iter: int = 100
    tol: float = 1e-10
    verbose: int = 0

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Inspect the signature once, and not in every fit."""
        names: list[str] = super()._get_param_names()
        return names


# Parameters beyond which the third derivatives of the objective, p^3 numbers, take over 500 MB;
# "minimax" and "least_mean" need four tables of that size.
_MOST_SHAPED = 400


def noise_shape(estimator: Any, objective: Objective) -> NoiseShape:
    """Shape of the noise of an estimator, before anything is solved."""
    value = estimator.noise_covariance
    n_parameters = objective.X.shape[1] + objective.fit_intercept
    try:
        shape = NoiseShape.of(value, n_parameters)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Invalid `noise_covariance`. {error}") from error
    if shape.name == "isotropic":
        return shape
    if isinstance(objective, MultinomialObjective):
        raise ValueError(
            "Only binary classification is supported with a `noise_covariance` other than "
            f"'isotropic'; got {objective.n_classes} classes. Make the target binary (one class "
            "against the others), or use isotropic noise."
        )
    if estimator.reweighting is not None:
        raise ValueError(
            "What a reweighted fit leaks in total is known for isotropic noise only: got "
            f"`reweighting={estimator.reweighting!r}` with a `noise_covariance` of its own. Drop "
            "one of the two."
        )
    # The curvature of the squared loss does not move with the minimizer; its residuals do.
    third = shape.name in ("minimax", "least_mean") or (
        shape.reads_data and not objective.loss.quadratic
    )
    if third and n_parameters > _MOST_SHAPED:
        raise ValueError(
            f"`noise_covariance={shape.name!r}` needs third derivatives, the cube of "
            f"{n_parameters} numbers, for what the covariance leaks; at most {_MOST_SHAPED} "
            "parameters are supported. Reduce the columns, or use isotropic noise."
        )
    return shape


def draw_release(state: FitState, random_state: Any) -> GridRelease:
    """Draw the release: the minimizer plus ``sigma L z`` with ``L L^T = S``, on the public grid."""
    root = None if state.noise.is_identity else noise_root(state)
    return release_on_grid(state.factor.coefficients, state.noise_scale, random_state, root)


Norm = Literal["spectral", "trace"]
_GRAINS = ("record", "feature", "dataset", "group")


def feature_blocks(
    features: Any, names: Array | None, n_features: int
) -> tuple[list[Columns], list[str]]:
    """Blocks of a table of columns, and their labels.

    Returns ``blocks``: one per column of the table; ``labels``: the column's name, or the names of
    a block joined by " + ".
    """
    items: list[Any]
    if features is None:
        items = [[j] for j in range(n_features)]
    elif _is_list_of_references(features):
        items = [
            resolve_features(item, names, n_features)
            for item in (features.tolist() if hasattr(features, "tolist") else features)
        ]
    else:  # one reference, or an error that says what is wrong with it
        items = [[j] for j in resolve_features(features, names, n_features)]
    known = feature_labels(names, n_features)
    blocks = [Columns(np.asarray(item)) for item in items]
    return blocks, [" + ".join(known[j] for j in item) for item in items]


def group_labels(groups: Any, X: Any, names: Array | None, index: pd.Index | None = None) -> Array:
    """Group label of each record; ``index`` has the labels of the records.

    Shapes: ``groups`` (n,); ``X`` (n, d); returns (n,).
    """
    if groups is None:
        raise ValueError(
            "`per='group'` needs `groups`: one label per record, or the column that holds it."
        )
    if is_large(X):
        return large_labels(groups, X, names)
    if is_single_feature(groups):
        column = X[:, [resolve_features(groups, names, X.shape[1], "groups")[0]]]
        groups = np.ravel(column.toarray() if sparse.issparse(column) else column)
    elif is_large_source(groups):
        raise TypeError(
            "`groups` lie outside memory, and the records do not. Pass one array of labels."
        )
    return checked_labels(groups, X.shape[0], named(index))


def _is_list_of_references(features: Any) -> bool:
    """Return True if an object lists columns and blocks: no name, index, slice or mask."""
    if is_single_feature(features) or not hasattr(features, "__len__"):
        return False
    listed = list(features)
    return bool(listed) and not all(isinstance(item, bool | np.bool_) for item in listed)


def _constrained(columns: Columns, X: Any, names: Array | None) -> Columns:
    """Put a one-hot block on the tangent of the simplex, after a look at whether it is one."""
    if columns.indices is None or len(columns.indices) < 2:
        raise ValueError(
            "`constrained=True` measures a one-hot block of at least two columns on the tangent "
            "of the simplex. Pass all columns of the block as a list in `features`."
        )
    indices = columns.indices
    worst = Blocks.of(X).map_reduce(
        lambda X: float(np.max(np.abs(X[:, indices].sum(axis=1) - 1.0), initial=0.0)), max
    )
    if worst > 1e-6:
        known = feature_labels(names, X.shape[1])
        raise ValueError(
            "`constrained=True` needs columns that sum to one in every record, but "
            f"{[known[j] for j in columns.indices]} miss it by up to {worst:.3g}. Pass the whole "
            "one-hot block, encoded without `drop`."
        )
    return Columns(columns.indices, constrained=True)


# Attributes that `fit` leaves to first use.
COMPUTED_ON_DEMAND = ("fisher_information_loss_", "diagonal_fisher_information_loss_")


class MeasuredModel(LinearModelParameters):
    """Leakage of the records of a fitted model, which keeps its confidential state."""

    # What the last fit added its noise by.
    _mechanism: Mechanism = OutputPerturbation()
    _state: FitState
    _terms: Promises
    _goal: NoiseGoal | None
    # losses of which `fit` told, not yet asked for; None where whoever asks is to be told
    _losses_told: FloatArray | None
    _guarantee: Any

    @abstractmethod
    def _encode_targets(self, y: Array, records: Any, *, fitted: bool = False) -> FloatArray:
        """Map targets of records to the numbers of the loss; ``fitted`` by classes of the fit."""

    @cached_property
    def fisher_information_loss_(self) -> FloatArray:
        """Fisher information loss of each training record. Confidential."""
        state = self._measured_state()
        state.once(warn_if_uneven)
        if "_losses_told" not in self.__dict__:
            return training_loss(state)
        told = self.__dict__.pop("_losses_told")
        return told_losses(state) if told is None else told

    @cached_property
    def diagonal_fisher_information_loss_(self) -> FloatArray:
        """Root mean square of it over the unknowns of each training record. Confidential."""
        return training_loss(self._measured_state(), "trace")

    @property
    def fisher_information_loss_error_(self) -> FloatArray:
        """Standard error of `fisher_information_loss_` by simulation. Confidential."""
        state = self._measured_state()
        return leakage_model(state).errors(state.training)

    def __dir__(self) -> Iterable[str]:
        """Leave out what is not computed yet: whoever lists attributes does not ask for it."""
        pending = {*COMPUTED_ON_DEMAND, "fisher_information_loss_error_", "individual_privacy_"}
        pending -= self.__dict__.keys()
        names = [name for name in object.__dir__(self) if name not in pending]
        return [name for name in names if hasattr(self, name)]  # as scikit-learn's estimators do

    def _confidential_state(self) -> FitState:
        """Return the fit, for whoever knows noise on its minimizer alone."""
        check_is_fitted(self)
        if not self._mechanism.adds_to_minimizer:
            raise AttackNotApplicableError(
                f"{self._mechanism.unmeasured} "
                "`release().provenance_['differential_privacy']` bounds every attack, and "
                "`leakage_report()` says what is known of every record. Fit with "
                '`mechanism="output"` for more.'
            )
        return self._measured_state()

    def _measured_state(self) -> FitState:
        """Return the fit, whose `leakage_model` knows where its noise is."""
        state = self._kept_state()
        leakage_model(state)  # or says why there is none
        return state

    def _kept_state(self) -> FitState:
        check_is_fitted(self)
        if not hasattr(self, "_state"):
            raise NotFittedError(
                f"This {type(self).__name__} was unpickled or copied, which drops its noiseless "
                "coefficients, Hessian and training records: leakage can no longer be computed. "
                "Ask for it on the estimator that was fitted, or fit again."
            )
        return self._state

    def _seen_state(self, queries: Any) -> FitState:
        """Return the fit as seen through answers to queries, (k, n_features); all of it for None.

        Confidential.
        """
        state = self._measured_state()
        if queries is None:
            return state
        return seen_through(state, dense(self._read(queries, "the queries")))

    def _read(self, X: Any, what: str = "the target") -> Any:
        """Validate records in memory as those of the fit were."""
        with values_withheld(X, None, what):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return sparse.csr_array(X) if sparse.issparse(X) else X

    def _trained_on(self, X: Any, y: Any = None) -> bool:
        """Return True for the records of the fit, in their order, as the model received them.

        Shapes: ``X`` (n, d); ``y`` (n,), which is not looked at where X lies outside memory.
        """
        objective = self._kept_state().objective
        if is_large_source(X):
            return same_numbers(opened(self, X).X, objective.X)
        records = self._read(X)
        if not same_numbers(records, objective.X):
            return False
        return y is None or np.array_equal(self._encode_targets(y, X, fitted=True), objective.y)

    def _records(self, X: Any, y: Any) -> tuple[Any, FloatArray]:
        """Validate records to measure; the training records where there are none."""
        state = self._measured_state()
        if X is None and y is None:
            return state.objective.X, state.objective.y
        if X is None or y is None:
            raise ValueError(
                "Leakage depends on both the record and its target: pass `X` and `y` together, or "
                "neither for the training records."
            )
        if is_large_source(X):
            return large_records(self, X, y)
        if is_large_source(y):
            raise TypeError(
                f"The target lies outside memory, and X, of type {type(X).__name__}, does not. "
                "Pass both as Dask arrays, or both as arrays."
            )
        records = self._read(X)
        with values_withheld(None, y):
            y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"))
            y = self._encode_targets(y, X, fitted=True)
        check_consistent_length(records, y)
        return records, y

    def fisher_information_loss(
        self,
        X: Any = None,
        y: Any = None,
        *,
        per: Literal["record", "feature", "dataset", "group"] = "record",
        features: Any = None,
        groups: Any = None,
        norm: Norm = "spectral",
        constrained: bool = False,
        conditional: bool = False,
        queries: Any = None,
        out: "str | PathLike[str] | None" = None,
    ) -> "FloatArray | float | pd.Series | Path":
        """Fisher information loss of records, columns, groups, or the whole data set.

        The loss ``eta`` is the largest singular value of the influence Jacobian of what is
        unknown, divided by the noise scale ([FIL21] eq. 16-17). An unbiased attacker who knows
        everything else cannot estimate any direction of the unknown with a standard error below
        ``1 / eta`` (Cramer-Rao), in units of the columns. With a ``noise_covariance`` it is the
        square root of the largest eigenvalue of the Fisher information about the unknown; with
        "curvature", "minimax" or "least_mean", that of mean and covariance of the release together.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n, n_features), default=None
            Records to measure, of any kind that ``fit`` takes; by default the training records.
            What is outside memory is measured lazily, as a Dask array. Training records carry their
            weights of the fit; others are measured as if they took part with a weight of one.
            Those of a model that was fitted with ``persons`` are measured by person.
        y : array-like of shape (n,), default=None
            Their targets.
        per : {"record", "feature", "dataset", "group"}, default="record"
            Grain. A group's loss is that of all its records together.
        features : str, int, slice, mask or list, default=None
            Columns that are unknown, by name or index. A list forms one block; with
            ``per="feature"`` it lists the columns of the table, and a list within it forms a
            block. By default all columns, and with ``private_target=True`` the target too.
        groups : array-like of shape (n,), str or int, default=None
            Label of each record's group, or the column that holds it. Needed by ``per="group"``.
        norm : {"spectral", "trace"}, default="spectral"
            Worst direction; or root mean square over the unknowns, the diagonal Fisher
            information loss of [DRA22] 7.1.
        constrained : bool, default=False
            The block ``features`` is one-hot and its entries sum to one: measure only changes
            that keep the sum, on the tangent of the simplex.
        conditional : bool, default=False
            Under a reweighting, hold its weights fixed ([FIL21] eq. 29). This is what "irfil"
            makes equal, and not what is leaked: the weights, too, depend on the data.
        queries : array-like or sparse matrix of shape (k, n_features), default=None
            An attacker sees what the released model predicts for these records, as scores or
            probabilities, and not its coefficients: see Notes. None for the coefficients.
        out : str or path, default=None
            Parquet file to write the losses of records to, block by block: a row for each record in
            their order, its label (or position) as the index, and one column for each number. It
            is there whole or not at all, only its owner may read it, and of the files that exist
            it replaces only those that this method wrote. Needs ``skleak[parquet]``.

        Returns
        -------
        ndarray of shape (n,), ndarray of shape (n, n_columns), float, Series or Path
            For ``per="record"``, ``"feature"``, ``"dataset"`` and ``"group"`` (indexed by group
            label); lazy Dask arrays of records outside memory. With ``out`` the path of the file.
            Infinite at ``noise_scale=0``.

        Raises
        ------
        ValueError
            For unknown columns, missing or misaligned groups, and blocks that are not one-hot; and
            for a reweighted fit of too many parameters, unless ``conditional=True``. For
            ``queries`` with a reweighting, or noise shaped by the records.
        NotFittedError
            Before ``fit``, and after unpickling, which drops what is confidential.
        AttackNotApplicableError
            With noise in the objective of more than two classes.

        Warns
        -----
        ConvergenceWarning
            Where the reweighting is not at its fixed point, or that has no derivative: its
            leakage is then unreliable. Where a simulation leaves an error of more than a tenth.

        Notes
        -----
        A row is one person. One of sample weight s moves the model s times as far as a record of
        weight 1, and that is its loss; the same for joint losses, in which the squares of the
        weights count. Whoever has several rows is a person of ``fit(..., persons=...)``, in whom
        all rows of a column move alike, or a group, of which each row counts by itself.
        With a ``reweighting`` the loss is the total one: the weights are functions of the data,
        and the whole algorithm is differentiated at its fixed point, at a cost of O(n p^3). It is
        not equal for all records, and can be larger or smaller than the conditional one. What a
        reweighting balances is leakage per unit of sample weight: a row leaks its weight times
        that.
        Answers to k queries are functions of k linear predictors, and leak through at most k
        directions of the noise (for each class but one); k independent ones, as many as there are
        parameters, leak all. Labels alone leak less. This is for answers with no more digits than
        a millionth of their noise: the coefficients lie on a grid, and digits far below it may
        show several of them at once.
        With noise in the objective losses are means over simulated fits, of a standard error that
        ``fisher_information_loss_error_`` states of each record; whatever has one above a tenth of
        itself warns. With noise on sums they are functions of each record alone.
        """
        check_choice("per", per, _GRAINS)
        check_choice("norm", norm, ("spectral", "trace"))
        if out is not None and per not in ("record", "feature"):
            raise ValueError(
                f"`out` takes the losses of records, one row each; got per={per!r}. Pass "
                '`per="record"` or `per="feature"`, or leave `out` away.'
            )
        state, X, y, index, labels = self._measured(X, y, queries, groups, per == "group")
        persons, names = state.persons, getattr(self, "feature_names_in_", None)
        batch = state.batch(X, y) if persons is None else state.by_person(persons)
        model = leakage_model(state).conditional if conditional else leakage_model(state)
        blocks, written = [state.whole_record], ["fisher_information_loss"]
        if per == "feature":
            blocks, written = feature_blocks(features, names, state.n_features)
        elif features is not None:
            blocks = [Columns(resolve_features(features, names, state.n_features))]
        if constrained:
            blocks = [_constrained(block, X, names) for block in blocks]
        if per == "dataset":
            return model.joint_loss(batch, blocks[0], norm)
        if per == "group":
            return model.group_loss(batch, labels, blocks[0], norm)
        found = model.feature_loss(batch, blocks, norm)
        if out is not None:
            index = index if persons is None else pd.Index(persons.labels, name="person")
            return write_table(out, found, written, index)
        return found if per == "feature" else found[:, 0]

    def leakage_report(
        self,
        X: Any = None,
        y: Any = None,
        *,
        features: Any = None,
        groups: Any = None,
        exact: bool = False,
    ) -> LeakageReport:
        """Report what the model leaks, for every record, column and group, in plain words.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), default=None
            Records to report on; by default the training records.
        y : array-like of shape (n,), default=None
            Their targets.
        features : list of str, int or list, default=None
            Columns to report on; a list within the list forms one block. By default each column.
        groups : array-like of shape (n,), str or int, default=None
            Label of each record's group, or the column that holds it.
        exact : bool, default=False
            Whether the minimizer is found for every record and value. By default, of many records
            only those most exposed are solved for, and the report says what is estimated.

        Returns
        -------
        LeakageReport
            Confidential, as it holds the leakage of every record. Records go by their labels in
            the DataFrame that was fitted or passed, or by position; of a model that was fitted with
            ``persons`` the training records are persons, by their labels.

        See Also
        --------
        skleak.inspection.leakage_report : The same for a pipeline, about the columns that a
            person has before they are encoded.
        """
        state, X, y, index, groups = self._measured(X, y, None, groups, groups is not None)
        names = getattr(self, "feature_names_in_", None)
        blocks, labels = feature_blocks(features, names, state.n_features)
        return build_leakage_report(
            state,
            X,
            y,
            blocks=blocks,
            labels=labels,
            promises=self._terms,
            groups=groups,
            estimator=type(self).__name__,
            rung_moves=self._rung_moves(),
            index=index,
            exact=exact,
            guarantee=None if self._mechanism.adds_to_minimizer else self._guarantee,
        )

    def _measured(
        self, X: Any, y: Any, queries: Any, groups: Any, grouped: bool
    ) -> tuple[FitState, Any, FloatArray, Any, Any]:
        """Return the fit as seen through queries, records to measure with labels, and groups."""
        state = self._seen_state(queries)
        index = state.row_labels if X is None else index_labels(X)
        if X is not None and state.persons is not None:
            state = replace(state, persons=None)
        X, y = self._records(X, y)
        if grouped:
            groups = group_labels(groups, X, getattr(self, "feature_names_in_", None), index)
            groups = groups if state.persons is None else groups[state.persons.first]
        return state, X, y, index, groups

    def _fitted_problem(self) -> LinearModelProblem:
        """Return this fit as a noise goal sees it."""
        return LinearModelProblem.of(self._confidential_state(), self._terms)

    def _noise_for(self, goal: NoiseGoal) -> float:
        """Noise scale that a goal needs on the records of this fit."""
        return of_problem(partial(resolve_goal, goal), self._confidential_state(), self._terms)

    def _rung_moves(self) -> RungMoves | None:
        """Count the records that may move the rung of a goal; None without one."""
        if self._goal is None:
            return None
        state = self._confidential_state()
        return of_problem(unchecked_moves, state, self._terms, self._goal, state.noise_scale)

    @staticmethod
    def _raw_problem(pipeline: Any, X: Any, y: Any, sample_weight: Any) -> RawProblem:
        """Return a fit of a pipeline that ends in such a model as a goal about raw columns sees it.

        Shapes: ``X`` (n, n_columns); ``y``, ``sample_weight`` (n,).
        """
        return RawProblem.of(pipeline, X, y, sample_weight)


@refusing_overflow()
def training_loss(
    state: FitState,
    norm: Norm = "spectral",
    *,
    conditional: bool = False,
    columns: Columns | None = None,
) -> FloatArray:
    """Return the loss of every training record, of shape (n,), or of every person."""
    if state.persons is not None:
        block = state.whole_record if columns is None else columns
        return person_losses(state, state.persons, [block], norm)[:, 0]
    model = leakage_model(state)
    model = model.conditional if conditional else model
    return model.record_loss(state.training, columns, norm)
