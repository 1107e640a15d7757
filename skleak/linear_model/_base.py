"""What the private linear models share: validate, solve, differentiate, perturb."""

import warnings
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skleak.accounting import LeakageLedger
from skleak.exceptions import PrivacyLeakWarning
from skleak.influence import FitState
from skleak.linear_model import _grains
from skleak.linear_model._calibration import LinearModelProblem
from skleak.linear_model._fitting import solve, solve_reweighted, warn_if_uneven, weight_rule
from skleak.linear_model._noise import noise_shape, noisy_parameters
from skleak.losses import PointwiseLoss
from skleak.mechanisms import NoiseTarget
from skleak.release import LinearPredictionMixin, ReleasedModel, warn_if_replayable
from skleak.reports import (
    LeakageReport,
    build_leakage_report,
    output_perturbation_guarantee,
)
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._sklearn_compat import (
    Interval,
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


class PrivateLinearModel(LinearPredictionMixin, BaseEstimator):
    """Minimise a penalised mean loss, measure the leakage, add Gaussian noise.

    Subclasses say which loss, how targets are encoded, and what a release of them is.
    """

    _loss: ClassVar[PointwiseLoss]
    _released: ClassVar[type[ReleasedModel]]
    _numeric_targets: ClassVar[bool] = True

    coef_: FloatArray
    intercept_: "float | FloatArray"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise_scale": [Interval(Real, 0, None, closed="left"), NoiseTarget],
        "noise_covariance": [str, "array-like"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "target": [StrOptions({"private", "public"})],
        "reweighting": [StrOptions({"irfil", "total"}), None],
        "reweighting_features": ["array-like", str, Integral, slice, None],
        "reweighting_target": [StrOptions({"record", "features", "trace"}), None],
        "reweighting_method": [StrOptions({"accelerated", "newton", "plain"})],
        "max_reweighting_iter": [Interval(Integral, 1, None, closed="left")],
        "reweighting_tol": [Interval(Real, 0, None, closed="neither")],
        "data_norm": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
        "ledger": [str, PathLike, LeakageLedger, None],
        "ledger_dataset": [str],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        noise_scale: float | NoiseTarget = 0.01,
        *,
        noise_covariance: "Literal['isotropic', 'curvature', 'minimax'] | npt.ArrayLike" = (
            "isotropic"
        ),
        alpha: float = 1e-2,
        fit_intercept: bool = True,
        target: Literal["private", "public"] = "private",
        reweighting: Literal["irfil", "total"] | None = None,
        reweighting_features: Any = None,
        reweighting_target: Literal["record", "features", "trace"] | None = None,
        reweighting_method: Literal["accelerated", "newton", "plain"] = "accelerated",
        max_reweighting_iter: int = 30,
        reweighting_tol: float = 1e-6,
        data_norm: float | None = None,
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
        self.target = target
        self.reweighting = reweighting
        self.reweighting_features = reweighting_features
        self.reweighting_target = reweighting_target
        self.reweighting_method = reweighting_method
        self.max_reweighting_iter = max_reweighting_iter
        self.reweighting_tol = reweighting_tol
        self.data_norm = data_norm
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
            How many times each record counts; a weight of 2 means the record twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid data, targets out of range, a singular Hessian (``alpha=0`` with
            collinear columns), rows longer than ``data_norm``, or a ``noise_covariance`` that is
            no covariance or comes with a reweighting or more than two classes.
        LeakageBudgetError
            Where the release would pass a ceiling of the ledger; no noise is drawn then.

        Warns
        -----
        ConvergenceWarning
            Where the solver, or the reweighting, stopped short: leakage is then unreliable. With
            ``reweighting="total"`` and a ledger, how far the total leakage is from equal; without
            a ledger ``fisher_information_loss_`` says it when first asked for.
        """
        objective = self._validated_objective(X, y, sample_weight)
        noise = noise_shape(self, objective)
        state = self._calibrated(replace(self._solve(objective), noise=noise))
        leakage = self._measure(state)
        self._enter_in_ledger(state, leakage)
        self._publish(state, leakage)
        return self

    def _validated_objective(self, X: Any, y: Any, sample_weight: Any) -> Objective:
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
        y = self._encode_targets(y)
        sample_weight = check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        if not np.any(sample_weight > 0.0):
            raise ValueError(
                "Sample weights must contain at least one non-zero number; got only zeros. Give "
                "each record that takes part a positive weight."
            )
        self._check_targets(y, sample_weight)
        _check_data_norm(X, self.data_norm)
        ones = np.ones(len(y))
        return Objective(
            X, y, self._loss, float(self.alpha), self.fit_intercept, sample_weight, ones
        )

    def _solve(self, objective: Objective) -> FitState:
        if self.reweighting is None:
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
        rule = weight_rule(self, getattr(self, "feature_names_in_", None), objective.X.shape[1])
        state, self.n_iter_, history = solve_reweighted(self, objective, rule)
        self.sample_reweights_ = state.objective.reweights.copy()
        self.reweighting_history_ = np.array(history)
        self.n_reweighting_iter_ = len(history) - 1
        return state

    def _calibrated(self, state: FitState) -> FitState:
        """Resolve a noise target, now that the minimiser and its derivatives are known."""
        if not isinstance(self.noise_scale, NoiseTarget):
            return state
        problem = LinearModelProblem(state, self.data_norm, self.tol)
        return state.at_noise(self.noise_scale.resolve(problem))

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

    def _enter_in_ledger(self, state: FitState, leakage: dict[str, FloatArray]) -> None:
        """Charge the data set before any noise is drawn; a refusal leaves nothing released."""
        if self.ledger is None:
            return
        if "fisher_information_loss_" not in leakage:
            leakage["fisher_information_loss_"] = _training_loss(state)
            warn_if_uneven(state, leakage["fisher_information_loss_"])
        ledger = self.ledger
        if not isinstance(ledger, LeakageLedger):
            ledger = LeakageLedger(ledger)
        guarantee = output_perturbation_guarantee(
            state,
            self.data_norm,
            tol=self.tol,
            seeded=isinstance(self.random_state, Integral),
            data_dependent_noise=self._noise_reads_data,
        )
        ledger.record(
            self.ledger_dataset,
            leakage["fisher_information_loss_"],
            mu=guarantee.mu if guarantee.holds else None,
            description={**self._provenance(), "noise_scale": state.noise_scale},
            # Which rows a fit is given (a fold, a shuffled copy) is not for it to know.
            aligned=False,
        )

    def _publish(self, state: FitState, leakage: dict[str, FloatArray]) -> None:
        """Draw the noise and set the fitted attributes."""
        self.noise_scale_ = state.noise_scale
        for name in (*_COMPUTED_ON_DEMAND, "conditional_fisher_information_loss_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(leakage)
        self._state = state
        # A release and a report tell how the fit was made, whatever becomes of the parameters.
        self._made_as = self._provenance()
        self._noise_seed = self.random_state if isinstance(self.random_state, Integral) else None
        noisy = noisy_parameters(state, self.random_state)
        n_coefficients = state.factor.weights.size
        self._set_coefficients(noisy[:n_coefficients], noisy[n_coefficients:])

    @property
    def _noise_reads_data(self) -> bool:
        """Whether the noise scale is calibrated to the training records."""
        return isinstance(self.noise_scale, NoiseTarget) and self.noise_scale.data_dependent

    def _provenance(self) -> dict[str, Any]:
        """How the model is made, in public parameters."""
        return {
            "estimator": type(self).__name__,
            "loss": self._loss.name,
            "noise_covariance": self.noise_covariance
            if isinstance(self.noise_covariance, str)
            else "given",
            "alpha": float(self.alpha),
            "fit_intercept": bool(self.fit_intercept),
            "reweighting": self.reweighting,
            "data_norm": self.data_norm,
            "tol": float(self.tol),
            "noise_target": repr(self.noise_scale) if self._noise_reads_data else None,
        }

    def _set_coefficients(self, coef: FloatArray, intercept: FloatArray) -> None:
        self.coef_ = coef
        self.intercept_ = float(intercept[0]) if len(intercept) else 0.0

    @abstractmethod
    def _encode_targets(self, y: Array, *, fitted: bool = False) -> FloatArray:
        """Map targets to the numbers of the loss; with ``fitted``, by the classes of the fit."""

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
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        X = sparse.csr_array(X) if sparse.issparse(X) else X
        y = self._encode_targets(y, fitted=True)
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
            weights of the fit; other records count as if they took part once.
        y : array-like of shape (n,), default=None
            Their targets.
        per : {"record", "feature", "dataset", "group"}, default="record"
            Grain. A group's loss is that of all its records together.
        features : str, int, slice, mask or list, default=None
            Columns that are unknown, by name or index. A list forms one block; with
            ``per="feature"`` it lists the columns of the table, and a list within it forms a
            block. By default all columns, and with ``target="private"`` the target too.
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
        A record with sample weight s counts as s independent copies, and its loss is that of
        one copy. Where the copies are one person with one unknown value, multiply by s.
        With a ``reweighting`` the loss is the total one: the weights are functions of the data,
        and the whole algorithm is differentiated at its fixed point, at a cost of O(n p^3). It is
        not equal for all records, and can be larger or smaller than the conditional one.
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
            data_norm=self._made_as["data_norm"],
            tol=self._made_as["tol"],
            seeded=self._noise_seed is not None,
            noise_target=self._made_as["noise_target"],
        )

    def release(self) -> ReleasedModel:
        """Return what may be published: the noisy model, and nothing else about the data.

        Returns
        -------
        ReleasedModel
            Predicts like this estimator; pickles safely.

        Warns
        -----
        PrivacyLeakWarning
            Where the noise is zero, or came from an integer seed that can be guessed.
        """
        check_is_fitted(self)
        warn_if_replayable(self._noise_seed, self.noise_scale_)
        return self._released.of(self, self._made_as)

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


def _training_loss(
    state: FitState, norm: Norm = "spectral", *, conditional: bool = False
) -> FloatArray:
    X, y = state.objective.X, state.objective.y
    return state.record_loss(X, y, state.participation(X, y), norm=norm, conditional=conditional)


def _check_data_norm(X: Any, data_norm: float | None) -> None:
    """Enforce the promise that no row is longer than ``data_norm``."""
    if data_norm is None:
        return
    squares = X.multiply(X).sum(axis=1) if hasattr(X, "multiply") else np.einsum("ij,ij->i", X, X)
    norms = np.sqrt(np.ravel(squares))
    beyond = int(np.sum(norms > data_norm * (1.0 + 1e-12)))
    if beyond:
        raise ValueError(
            f"`data_norm` promises rows of Euclidean norm at most {data_norm:g}, but {beyond} of "
            f"{len(norms)} rows are longer (the longest has norm {norms.max():.6g}). Scale the "
            "rows to that norm before `fit` (for instance with sklearn.preprocessing.Normalizer), "
            "or promise a larger `data_norm` that does not come from the data."
        )
