"""What the private linear models share: validate, solve, differentiate, perturb."""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skleak._released import LinearPredictionMixin, ReleasedModel, warn_of_release
from skleak.accounting import LeakageLedger
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.influence.leakage import leakage_model
from skleak.influence.state import FitState
from skleak.linear_model import _grains
from skleak.linear_model._calibration import LinearModelProblem
from skleak.linear_model._fitting import solve, solve_reweighted, warn_if_uneven, weight_rule
from skleak.linear_model._noise import draw_release, noise_shape, noise_standard_errors
from skleak.linear_model._rung import RungCheck, unchecked_moves
from skleak.losses import PointwiseLoss
from skleak.mechanisms import NoiseGoal, Reweighting, as_reweighting, ladder_rung
from skleak.reports import (
    DifferentialPrivacy,
    LeakageReport,
    Promises,
    build_leakage_report,
    output_perturbation_guarantee,
)
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._records import check_magnitudes, row_label, values_withheld
from skleak.utils._sklearn_compat import (
    Interval,
    ShownAttributesMixin,
    StrOptions,
    check_sample_weight,
    fit_context,
    validate_data,
)
from skleak.utils._typing import Array, FloatArray, RandomState

__all__ = ["PrivateLinearModel"]

Norm = Literal["spectral", "trace"]

# Attributes that `fit` leaves to first use where they are costly: under a reweighting.
_COMPUTED_ON_DEMAND = ("fisher_information_loss_", "diagonal_fisher_information_loss_")

# Rows of the Hessian, of whose size a fit holds a handful of matrices: 3.2 GB each.
_MOST_PARAMETERS = 20_000


class PrivateLinearModel(LinearPredictionMixin, ShownAttributesMixin, BaseEstimator):
    """Minimise a penalised mean loss, measure the leakage, add Gaussian noise.

    Subclasses say which loss, how targets are encoded, and what a release of them is.
    """

    _loss: ClassVar[PointwiseLoss]
    _released: ClassVar[type[ReleasedModel]]
    _numeric_targets: ClassVar[bool] = True
    # The leakage of records is no more for the screen than for a release.
    _shown_attributes: ClassVar[tuple[str, ...]] = ReleasedModel._published

    coef_: FloatArray
    intercept_: "float | FloatArray"
    coef_noise_scale_: "FloatArray | None"
    intercept_noise_scale_: "float | FloatArray | None"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise_scale": [Interval(Real, 0, None, closed="left"), NoiseGoal],
        "noise_covariance": [str, "array-like"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "private_target": ["boolean"],
        "reweighting": [StrOptions({"irfil", "total"}), Reweighting, None],
        "data_norm": [Interval(Real, 0, None, closed="neither"), None],
        "public": ["array-like", str],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
        "ledger": [str, PathLike, LeakageLedger, None],
        "ledger_dataset": [str],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        noise_scale: float | NoiseGoal = 0.01,
        *,
        noise_covariance: "Literal['isotropic', 'curvature', 'minimax'] | npt.ArrayLike" = (
            "isotropic"
        ),
        alpha: float = 1e-2,
        fit_intercept: bool = True,
        private_target: bool = True,
        reweighting: Literal["irfil", "total"] | Reweighting | None = None,
        data_norm: float | None = None,
        public: "str | Sequence[str]" = (),
        max_iter: int = 100,
        tol: float = 1e-10,
        random_state: RandomState = None,
        ledger: "str | PathLike[str] | LeakageLedger | None" = None,
        ledger_dataset: str = "default",
        verbose: int = 0,
    ) -> None:
        self.noise_scale = noise_scale
        self.noise_covariance = noise_covariance
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.private_target = private_target
        self.reweighting = reweighting
        self.data_norm = data_norm
        self.public = public
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.ledger = ledger
        self.ledger_dataset = ledger_dataset
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model, measure what it leaks, and add noise to the coefficients.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training records.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each record counts; for the fit a weight of 2 means the record twice.
            A row is one person all the same: what it leaks is that of its whole weight.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid data, targets out of range, a singular Hessian (``alpha=0`` with
            collinear columns), rows longer than ``data_norm``, or a ``noise_covariance`` that is
            no covariance or comes with a reweighting or more than two classes; for numbers whose
            squares overflow; and for more than 20,000 parameters, classes times columns.
        LeakageBudgetError
            Where the release would pass a ceiling of the ledger; no noise is drawn then.

        Warns
        -----
        ConvergenceWarning
            Where the solver, or the reweighting, stopped short: leakage is then unreliable.
        UnevenLeakageWarning
            With ``reweighting="total"`` and a ledger, how far the total leakage is from equal;
            without a ledger ``fisher_information_loss_`` says it when first asked for.
        """
        before = self.__dict__.copy()
        self._weighted = sample_weight is not None
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                objective = self._validated_objective(X, y, sample_weight)
                noise = noise_shape(self, objective)
                state = self._calibrated(replace(self._solve(objective), noise=noise))
                leakage = self._measure(state)
                guarantee = output_perturbation_guarantee(state, self._promises())
                self._enter_in_ledger(state, leakage, guarantee)
                self._publish(state, leakage, guarantee)
        except FloatingPointError as error:
            self._restore(before)
            raise ValueError(
                f"Numbers overflow in the fit ({error}). Scale columns, target and sample weights, "
                "or raise `alpha`."
            ) from error
        except BaseException:
            self._restore(before)
            raise
        return self

    def _restore(self, before: dict[str, Any]) -> None:
        """Leave the fit before, if there was one, whole after an error or an interruption."""
        self.__dict__.clear()
        self.__dict__.update(before)

    def _promises(self) -> Promises:
        """Collect what is public knowledge of this fit."""
        return Promises(
            self.data_norm,
            frozenset([self.public] if isinstance(self.public, str) else self.public),
            self._declares_classes,
            self.tol,
            self.random_state is not None,
            repr(self.noise_scale) if self._noise_reads_data else None,
            self._weighted,
        )

    @property
    def _declares_classes(self) -> bool:
        """True if no class was read off the labels; regressors have none."""
        return True

    def _validated_objective(self, X: Any, y: Any, sample_weight: Any) -> Objective:
        passed = X
        with values_withheld(X, y):
            X, y = validate_data(
                self,
                X,
                y,
                accept_sparse="csr",
                dtype=np.float64,
                copy=True,  # the records are kept: later edits must not reach them
                y_numeric=self._numeric_targets,
            )
        X = sparse.csr_array(X) if sparse.issparse(X) else X  # one kind of sparse, not matrices
        with values_withheld(None, y):
            y = self._encode_targets(y, passed)
        self._check_size(X.shape[1] + self.fit_intercept)
        with values_withheld(None, sample_weight, "the sample weights"):
            sample_weight = check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True
            )
        if not np.any(sample_weight > 0.0):
            raise ValueError(
                "Sample weights must contain at least one non-zero number; got only zeros. Give "
                "each record that takes part a positive weight."
            )
        check_magnitudes(X, y, sample_weight, getattr(self, "feature_names_in_", None))
        self._check_targets(y, sample_weight)
        _check_data_norm(X, self.data_norm, passed)
        ones = np.ones(len(y))
        return Objective(
            X, y, self._loss, float(self.alpha), self.fit_intercept, sample_weight, ones
        )

    @property
    def _n_predictors(self) -> int:
        """Number of linear predictors, each with parameters of its own."""
        return 1

    def _check_size(self, n_columns: int) -> None:
        """Refuse, before it is allocated, a Hessian of more than ``_MOST_PARAMETERS`` rows."""
        n_parameters = self._n_predictors * n_columns
        if n_parameters > _MOST_PARAMETERS:
            raise ValueError(
                f"{type(self).__name__} fits at most {_MOST_PARAMETERS} parameters, classes times "
                "columns (the intercept is one, and two classes count once), as it needs the "
                f"square of that in memory; got {self._n_predictors} x {n_columns} = "
                f"{n_parameters}. Take fewer columns, for instance by a random projection, or "
                "merge classes."
            )

    def _solve(self, objective: Objective) -> FitState:
        reweighting = as_reweighting(self.reweighting)
        if reweighting is None:
            state, self.n_iter_ = solve(self, objective)
            for name in ("sample_reweights_", "reweighting_history_", "n_reweighting_iter_"):
                if hasattr(self, name):
                    delattr(self, name)
            return state
        if isinstance(objective, MultinomialObjective):
            raise ValueError(
                "Only binary classification is supported with a reweighting: its weights are "
                "functions of the data, and what they leak is known for two classes. Got "
                f"{objective.n_classes} classes. Make the target binary (one class against the "
                "others), or drop `reweighting`."
            )
        reweighting.check()
        names = getattr(self, "feature_names_in_", None)
        columns = reweighting.columns(names, objective.X.shape[1])
        rule = weight_rule(reweighting, columns, self.private_target)
        state, self.n_iter_, history = solve_reweighted(self, objective, rule, reweighting)
        self.sample_reweights_ = state.objective.reweights.copy()
        self.reweighting_history_ = np.array(history)
        self.n_reweighting_iter_ = len(history) - 1
        return state

    def _calibrated(self, state: FitState) -> FitState:
        """Resolve a noise goal, now that the minimiser and its derivatives are known."""
        goal = self.noise_scale
        if not isinstance(goal, NoiseGoal):
            return state
        problem = LinearModelProblem.of(state, self._promises())
        if not goal.data_dependent:
            return state.at_noise(float(goal.resolve(problem)))
        search = as_reweighting(self.reweighting)
        search_tol = 0.0 if search is None else search.tol
        check = RungCheck(goal, problem, self._needed_noise, search_tol)
        check.foresee()
        rung = ladder_rung(float(goal.resolve(problem)))
        check.run(rung)
        return state.at_noise(rung)

    def _needed_noise(self, objective: Objective) -> float:
        """Noise scale that the goal needs on other records, by a whole fit."""
        assert isinstance(self.noise_scale, NoiseGoal)
        twin = object.__new__(type(self))  # a fit leaves attributes, which are not of this one
        twin.__dict__.update(self.__dict__, verbose=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            state = replace(twin._solve(objective), noise=noise_shape(twin, objective))
            return float(self.noise_scale.resolve(LinearModelProblem.of(state, self._promises())))

    def _fitted_problem(self) -> LinearModelProblem:
        """Return this fit as a noise goal sees it."""
        return LinearModelProblem.of(self._confidential_state(), self._terms)

    def _measure(self, state: FitState) -> dict[str, FloatArray]:
        """Loss of every record; of a reweighted fit that which is cheap, the rest on demand."""
        if state.balanced is None:
            return {
                "fisher_information_loss_": _training_loss(state),
                "diagonal_fisher_information_loss_": _training_loss(state, "trace"),
            }
        conditional = _training_loss(state, conditional=True)
        return {"conditional_fisher_information_loss_": conditional}

    @cached_property
    def fisher_information_loss_(self) -> FloatArray:
        """Fisher information loss of each training record. Confidential."""
        state = self._confidential_state()
        loss = _training_loss(state)
        warn_if_uneven(state, loss)
        return loss

    @cached_property
    def diagonal_fisher_information_loss_(self) -> FloatArray:
        """Root mean square of it over the unknowns of each training record. Confidential."""
        return _training_loss(self._confidential_state(), "trace")

    def __dir__(self) -> Iterable[str]:
        """Leave out what is not computed yet: whoever lists attributes does not ask for it."""
        pending = {*_COMPUTED_ON_DEMAND} - self.__dict__.keys()
        names = [name for name in object.__dir__(self) if name not in pending]
        return [name for name in names if hasattr(self, name)]  # as scikit-learn's estimators do

    def _enter_in_ledger(
        self, state: FitState, leakage: dict[str, FloatArray], guarantee: DifferentialPrivacy
    ) -> None:
        """Charge the data set before any noise is drawn; a refusal leaves nothing released."""
        if self.ledger is None:
            return
        if "fisher_information_loss_" not in leakage:
            leakage["fisher_information_loss_"] = _training_loss(state)
            warn_if_uneven(state, leakage["fisher_information_loss_"])
        ledger = self.ledger
        if not isinstance(ledger, LeakageLedger):
            ledger = LeakageLedger.open(ledger)
        if not state.converged:
            raise ValueError(
                "The fit did not converge: what it leaks is not known, and the ledger takes no "
                "release of unknown leakage. Raise `max_iter` or `alpha`, or scale the columns."
            )
        losses = leakage["fisher_information_loss_"]
        if self.random_state is not None:
            # Noise from a seed or a generator can be drawn again, and then there is none.
            losses = np.full_like(losses, np.inf)
        ledger.record(
            self.ledger_dataset,
            losses,
            mu=guarantee.composed_mu if guarantee.holds else None,
            description={**self._provenance(), "noise_scale": state.noise_scale},
            # Which rows a fit is given (a fold, a shuffled copy) is not for it to know.
            aligned=False,
        )

    def _publish(
        self, state: FitState, leakage: dict[str, FloatArray], guarantee: DifferentialPrivacy
    ) -> None:
        """Draw the noise and set the fitted attributes."""
        self.noise_scale_ = state.noise_scale
        for name in (*_COMPUTED_ON_DEMAND, "conditional_fisher_information_loss_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(leakage)
        self._state = state
        # A release and a report tell how the fit was made, whatever becomes of the parameters.
        self._terms, self._guarantee = self._promises(), guarantee
        self._goal = clone(self.noise_scale) if self._noise_reads_data else None
        self._made_as = {
            **self._provenance(),
            # That there were weights is public; what they were is not stated.
            "sample_weight": self._weighted,
            "differential_privacy": _stated(guarantee),
        }
        drawn, errors = draw_release(state, self.random_state), noise_standard_errors(state)
        self.noise_step_, self.noise_sampler_ = drawn.step, drawn.sampler
        size = state.factor.weights.size
        self.coef_, self.intercept_ = self._shaped(drawn.parameters, size)
        if errors is None:
            self.coef_noise_scale_ = self.intercept_noise_scale_ = None
        else:
            self.coef_noise_scale_, self.intercept_noise_scale_ = self._shaped(errors, size)

    def _redraw(self, random_state: RandomState) -> None:
        """Replace the release by another one of this very fit, as a fit with that seed draws it."""
        state = self._confidential_state()
        drawn = draw_release(state, random_state).parameters
        self.coef_, self.intercept_ = self._shaped(drawn, state.factor.weights.size)

    @property
    def _noise_reads_data(self) -> bool:
        """True if the noise scale is calibrated to the training records."""
        return isinstance(self.noise_scale, NoiseGoal) and self.noise_scale.data_dependent

    def _provenance(self) -> dict[str, Any]:
        """Return how the model is made, in public parameters."""
        reweighting = as_reweighting(self.reweighting)
        return {
            "estimator": type(self).__name__,
            "loss": self._loss.name,
            "noise_covariance": self.noise_covariance
            if isinstance(self.noise_covariance, str)
            else "given",
            "alpha": float(self.alpha),
            "fit_intercept": bool(self.fit_intercept),
            "reweighting": None if reweighting is None else reweighting.name,
            "data_norm": self.data_norm,
            "public": sorted(self._promises().public),
            "tol": float(self.tol),
            "noise_goal": repr(self.noise_scale) if self._noise_reads_data else None,
        }

    def _shaped(self, parameters: FloatArray, size: int) -> "tuple[FloatArray, float | FloatArray]":
        """Split parameters into coefficients, the first ``size`` of them, and the intercept."""
        return parameters[:size], float(parameters[size]) if len(parameters) > size else 0.0

    @abstractmethod
    def _encode_targets(self, y: Array, records: Any, *, fitted: bool = False) -> FloatArray:
        """Map targets of records to the numbers of the loss; ``fitted`` by classes of the fit."""

    def _check_targets(self, y: FloatArray, sample_weight: FloatArray) -> None:
        """Raise where no minimiser exists for these targets."""

    def _confidential_state(self) -> FitState:
        check_is_fitted(self)
        if not hasattr(self, "_state"):
            raise NotFittedError(
                f"This {type(self).__name__} was unpickled or copied, which drops its noiseless "
                "coefficients, Hessian and training records: leakage can no longer be computed. "
                "Ask for it on the estimator that was fitted, or fit again."
            )
        return self._state

    def _records(self, X: Any, y: Any) -> tuple[Any, FloatArray]:
        """Validate records to measure; the training records where there are none."""
        state = self._confidential_state()
        if X is None and y is None:
            return state.objective.X, state.objective.y
        if X is None or y is None:
            raise ValueError(
                "Leakage depends on both the record and its target: pass `X` and `y` together, or "
                "neither for the training records."
            )
        passed = X
        with values_withheld(X, None):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        X = sparse.csr_array(X) if sparse.issparse(X) else X
        with values_withheld(None, y):
            y = self._encode_targets(y, passed, fitted=True)
        check_consistent_length(X, y)
        return X, y

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
    ) -> "FloatArray | float | pd.Series":
        """Fisher information loss of records, columns, groups, or the whole data set.

        The loss ``eta`` is the largest singular value of the influence Jacobian of what is
        unknown, divided by the noise scale ([FIL21] eq. 16-17). An unbiased attacker who knows
        everything else cannot estimate any direction of the unknown with a standard error below
        ``1 / eta`` (Cramer-Rao), in units of the columns. With a ``noise_covariance`` it is the
        square root of the largest eigenvalue of the Fisher information about the unknown; with
        "curvature" or "minimax", that of mean and covariance of the release together.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), default=None
            Records to measure; by default the training records. Training records carry their
            weights of the fit; others are measured as if they took part with a weight of one.
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

        Returns
        -------
        ndarray of shape (n,), ndarray of shape (n, n_columns), float or Series
            For ``per="record"``, ``"feature"``, ``"dataset"`` and ``"group"`` (indexed by group
            label). Infinite at ``noise_scale=0``.

        Raises
        ------
        ValueError
            For unknown columns, missing or misaligned groups, and blocks that are not one-hot; and
            for a reweighted fit of too many parameters, unless ``conditional=True``.
        NotFittedError
            Before ``fit``, and after unpickling, which drops what is confidential.

        Warns
        -----
        ConvergenceWarning
            Where the reweighting is not at its fixed point, or that has no derivative: its
            leakage is then unreliable.

        Notes
        -----
        A row is one person. One of sample weight s moves the model s times as far as a record of
        weight 1, and that is its loss; the same for joint losses, in which the squares of the
        weights count. Whoever has several rows is a group: ask for ``per="group"``.
        With a ``reweighting`` the loss is the total one: the weights are functions of the data,
        and the whole algorithm is differentiated at its fixed point, at a cost of O(n p^3). It is
        not equal for all records, and can be larger or smaller than the conditional one. What a
        reweighting balances is leakage per unit of sample weight: a row leaks its weight times
        that.
        """
        state = self._confidential_state()
        X, y = self._records(X, y)
        names = getattr(self, "feature_names_in_", None)
        query = _grains.Query(names, features, norm, constrained, conditional)
        labels = _grains.group_labels(groups, X, names) if per == "group" else None
        return _grains.leakage(state, X, y, per, query, labels)

    def leakage_report(
        self, X: Any = None, y: Any = None, *, features: Any = None, groups: Any = None
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

        Returns
        -------
        LeakageReport
            Confidential, as it holds the leakage of every record.
        """
        state = self._confidential_state()
        X, y = self._records(X, y)
        names = getattr(self, "feature_names_in_", None)
        if groups is not None:
            groups = _grains.group_labels(groups, X, names)
        blocks, labels = _grains.feature_blocks(features, names, state.n_features)
        return build_leakage_report(
            state,
            X,
            y,
            blocks=blocks,
            labels=labels,
            groups=groups,
            estimator=type(self).__name__,
            promises=self._terms,
            rung_moves=None
            if self._goal is None
            else unchecked_moves(self._goal, self._fitted_problem(), state.noise_scale),
        )

    def release(self, *, require_guarantee: bool = False) -> ReleasedModel:
        """Return what may be published: the noisy model, and nothing else about the data.

        Parameters
        ----------
        require_guarantee : bool, default=False
            Raise unless a guarantee of differential privacy holds.

        Returns
        -------
        ReleasedModel
            Predicts like this estimator; pickles safely. It states sampler and step of the noise,
            and the standard error that the noise adds to each coefficient.

        Raises
        ------
        NoGuaranteeError
            Where a guarantee is required and none holds; and where all was promised that one needs
            but the solver did not converge, as its absence would tell that of the records.

        Warns
        -----
        PrivacyLeakWarning
            Where the noise is zero, or came from a seed or a generator that can be copied.
        UserWarning
            Where the step of the noise had to grow, as doubles hold no finer multiples.
        """
        check_is_fitted(self)
        if require_guarantee and not self._guarantee.holds:
            raise NoGuaranteeError(
                "No differential-privacy guarantee holds for this release: "
                f"{'; '.join(self._guarantee.reasons)}."
            )
        if self._guarantee.fails_on_records:
            raise NoGuaranteeError(
                "The solver did not converge, and a release without the guarantee that its other "
                "parameters promise would tell that of these records. Raise `max_iter` or `alpha`, "
                "or scale the columns, and fit again."
            )
        warn_of_release(
            seeded=self._terms.seeded, noise_scale=self.noise_scale_, step=self.noise_step_
        )
        return self._released.of(self, self._made_as)

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Show in a notebook what may be published, and no leakage of any record."""
        shown = super()._get_fitted_attr_html(doc_link)  # scikit-learn 1.9 calls it, and has it
        for name in set(shown) - {*self._released._published}:
            del shown[name]
        return shown

    def __getstate__(self) -> dict[str, Any]:
        """Drop what is confidential: a pickle travels."""
        state = dict(super().__getstate__())
        if state.pop("_state", None) is not None:
            warnings.warn(
                f"Pickling (or copying) an unreleased {type(self).__name__}: its noiseless "
                "coefficients, Hessian and training records are dropped, but the leakage of "
                "every record and any seed or generator (which can be run backwards) remain in "
                "it, and are confidential. Pickle `estimator.release()` instead.",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        return state


def _stated(guarantee: DifferentialPrivacy) -> dict[str, Any] | None:
    """The guarantee as a release may state it: a function of what was declared public."""
    if not guarantee.holds:
        return None
    numbers = {name: getattr(guarantee, name) for name in ("epsilon", "delta", "rho", "exact")}
    return {**numbers, "about": "replacement of one row of the table that the model received"}


def _training_loss(
    state: FitState, norm: Norm = "spectral", *, conditional: bool = False
) -> FloatArray:
    model = leakage_model(state)
    return (model.conditional if conditional else model).record_loss(state.training, norm=norm)


def _check_data_norm(X: Any, data_norm: float | None, records: Any) -> None:
    """Enforce the promise that no row is longer than ``data_norm``."""
    if data_norm is None:
        return
    X = X / data_norm  # squares of tiny numbers would vanish
    squares = X.multiply(X).sum(axis=1) if hasattr(X, "multiply") else np.einsum("ij,ij->i", X, X)
    shares = np.sqrt(np.ravel(squares))
    beyond = np.flatnonzero(shares > 1.0 + Promises.norm_rounding)
    if len(beyond):
        raise ValueError(
            f"`data_norm` promises rows of Euclidean norm at most {data_norm:g}, but "
            f"{len(beyond)} of {len(shares)} rows are longer, the first of them "
            f"{row_label(records, int(beyond[0]))}. Scale the rows "
            "to that norm before `fit` (for instance with sklearn.preprocessing.Normalizer), "
            "or promise a larger `data_norm` that does not come from the data."
        )
