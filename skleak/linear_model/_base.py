"""What the private linear models share: validate, solve, differentiate, perturb."""

import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skleak._released import LinearPredictionMixin
from skleak.influence.jacobian import Columns
from skleak.influence.state import FitState, WeightRule
from skleak.linear_model._goals import LinearModelProblem, of_problem, safe_rung
from skleak.linear_model._large import large_objective
from skleak.linear_model._measured import (
    noise_shape,
    refusing_overflow,
    solve,
    solve_reweighted,
    told_losses,
)
from skleak.linear_model._releasing import OF_ONE_FIT, ReleasableModel
from skleak.losses import SoftmaxLoss
from skleak.mechanisms import NoiseGoal, PublicNoiseGoal
from skleak.mechanisms.goals import resolve_goal
from skleak.mechanisms.grids import EvenTotal, as_reweighting
from skleak.mechanisms.protocol import Mechanism, OutputPerturbation
from skleak.report.guarantee import Promises
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._arguments import column_bounds
from skleak.utils._blocks import counted_passes, is_large, is_large_source
from skleak.utils._confidential import CalibratedNoise, warn_of_written_seed
from skleak.utils._linalg import shares_of_bounds
from skleak.utils._records import (
    Persons,
    check_sizes,
    named,
    row_label,
    row_labels,
    values_withheld,
)
from skleak.utils._sklearn_compat import (
    Task,
    called_from_outside,
    check_sample_weight,
    copy_attributes,
    fit_context,
    fit_task,
    leaves_whole,
    no_task,
    validate_data,
)
from skleak.utils._typing import FloatArray

# Rows of the Hessian, of whose size a fit holds a handful of matrices: 3.2 GB each.
_MOST_PARAMETERS = 20_000
# Multiplications up to which it finds the losses under a reweighting or shape: some 5 seconds.
_WORK_AT_FIT = 2e9


class PrivateLinearModel(LinearPredictionMixin, ReleasableModel):
    """Minimize a penalized mean loss, measure the leakage, add Gaussian noise.

    Subclasses say which loss, how targets are encoded, and what a release of them is.
    """

    _numeric_targets: ClassVar[bool] = True

    @fit_context(prefer_skip_nested_validation=True)
    @leaves_whole
    @refusing_overflow()
    def fit(self, X: Any, y: Any, sample_weight: Any = None, persons: Any = None) -> Self:
        """Fit the model, and add noise to the coefficients.

        What it leaks is measured when it is first asked for; here, where a noise goal, a
        reweighting, a shape of the noise or a ledger needs it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training records. Also a Dask array or data frame, a Polars lazy frame, or the path of
            a Parquet file or of a folder of them, which are walked through block by block.
        y : array-like of shape (n_samples,) or str
            Targets; the name of a column for a table that lies outside memory.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            How many times each record counts; for the fit a weight of 2 means the record twice.
            A row is one person all the same: what it leaks is that of its whole weight.
        persons : array-like of shape (n_samples,), default=None
            Whose row each is; a Series is read by the index of X. The fit is the same; what is
            said of leakage, and what a noise goal limits, is about persons, all rows of whom change
            or leave together: ``fisher_information_loss_`` has one for each, in the order of their
            first rows (see `skleak.influence.leakage.person_losses`). By default each row is one.
            A goal with ``rows_per_person`` guarantees it to persons, of whose rows the first ones
            count.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid data, targets out of range, a singular Hessian (``alpha=0`` with
            collinear columns), rows longer than ``data_norm``, or a ``noise_covariance`` that is
            no covariance or comes with a reweighting or more than two classes; for numbers whose
            squares overflow; and for more than 20,000 parameters, classes times columns. For
            persons that are missing or of another length, and with a reweighting, noise whose
            covariance follows the records, or records outside memory.
        LeakageBudgetError
            Where the release would pass a ceiling of the ledger; no noise is drawn then.

        Warns
        -----
        PrivacyLeakWarning
            Where ``random_state`` is a seed of 65536 or more, as ensembles write into members: it
            gives the noise away.
        FutureWarning
            Where ``mechanism`` is None and `PrivateLogisticRegression` adds noise to the objective.
        PartialBlockWarning
            Where a goal names some columns of a one-hot block.
        ConvergenceWarning
            Where the solver, or the reweighting, stopped short: leakage is then unreliable.
        CostWarning
            Where a dense Hessian takes more than a minute, or more memory than there is. Many
            sparse columns with ``alpha > 0`` need none.
        UnevenLeakageWarning
            Where the largest ``fisher_information_loss_`` is above that of the plain fit at the
            same noise scale (root mean square), under a reweighting or a ``noise_covariance``.
            What takes more than seconds to find is said when it is first asked for. Not said under
            a noise goal or a number read off records, which keep a limit of their own; in refits
            that skleak makes; and of records outside memory, of which the report states both.
            With ``reweighting="total"`` and a ledger, how far the total leakage is from equal;
            without a ledger ``fisher_information_loss_`` says it when first asked for.
        """
        for name in OF_ONE_FIT:  # what was read off the fit before
            self.__dict__.pop(name, None)
        self._weighted = sample_weight is not None
        warn_of_written_seed(self.random_state if self.noise_scale else None)
        self._mechanism = self._chosen_mechanism(X, persons)
        self._check_mechanism(X, persons)
        with counted_passes(bool(self.verbose)) as passes, fit_task(self, 3) as task:
            objective, labels = self._objective_of(X, y, sample_weight)
            whose = None if persons is None else self._persons(persons, objective, labels)
            objective = self._counted(objective, whose)
            if not self._mechanism.adds_to_minimizer:
                self._release_by_mechanism(objective, task, labels, whose)
                return self
            noise = noise_shape(self, objective)
            state = self._solve(objective, task)
            state = replace(state, noise=noise, row_labels=labels, persons=whose)
            with task.part("calibration"):
                state = self._calibrated(state)
            self._keep(state)
            with task.part("leakage"):
                self._tell_if_raised(state)
                self._enter_in_ledger(state)
            self._publish(state)
        if is_large(objective.X):
            self.n_passes_ = passes.n
        return self

    def _objective_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Objective, Any]:
        """Check records, wherever they lie; the labels of the rows come second."""
        if not is_large_source(X):
            named = [value for value in (y, sample_weight) if isinstance(value, str)]
            if named:
                raise TypeError(
                    f"{named[0]!r} names a column, as it does of a table outside memory; got X of "
                    f"type {type(X).__name__}. Pass the column itself, and X without it, or the "
                    "path of a Parquet file or of a folder of them."
                )
            if is_large_source(y) or is_large_source(sample_weight):
                raise TypeError(
                    "Targets and weights lie outside memory, and X does not: got X of type "
                    f"{type(X).__name__}. Pass all as Dask arrays, or all as arrays. A transformer "
                    "before the model that loads records is wrapped in `BlockwiseTransformer`."
                )
            return self._validated_objective(X, y, sample_weight), row_labels(X)
        return large_objective(self, X, y, sample_weight)

    def _persons(self, persons: Any, objective: Objective, labels: Any) -> Persons:
        """Read whose rows are whose, where it is known what they leak together."""
        by_name = isinstance(self.noise_covariance, str)
        if is_large(objective.X) or (by_name and self.noise_covariance != "isotropic"):
            what = "of records outside memory" if is_large(objective.X) else "of such noise"
            raise ValueError(
                f"What persons with several rows leak together is not known {what}. Use isotropic "
                "noise on records in memory, or leave `persons` out to count rows."
            )
        if self.reweighting is not None:
            raise ValueError(
                "A reweighting evens what rows leak, and not persons. Drop it, or leave `persons` "
                "out to count rows."
            )
        return Persons.of(persons, len(objective.y), named(labels))

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
        if sparse.issparse(X):
            X = sparse.csr_array(X)  # one kind of sparse, not matrices
            X.sum_duplicates()  # large ones that cancel would swallow what other rows add
        with values_withheld(None, y):
            y = self._encode_targets(y, passed)
        self._check_size(X.shape[1] + self.fit_intercept)
        with values_withheld(None, sample_weight, "the sample weights"):
            sample_weight = check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True
            )
        self._check_any_weight(bool(np.any(sample_weight > 0.0)))
        given = self._penalty, self.fit_intercept, sample_weight, np.full(len(y), self._start)
        objective = Objective(X, y, self._loss, *given)
        if self._n_predictors > 1:
            objective = MultinomialObjective(X, y, SoftmaxLoss(), *given, self._n_predictors)
        with np.errstate(over="ignore"):
            total = objective.total
        names = getattr(self, "feature_names_in_", None)
        check_sizes(total, objective.largest, float(np.abs(y).max()), names)
        self._check_targets(self._target_masses(y, sample_weight))
        self._check_data_norm(X, passed)
        return objective

    def _chosen_mechanism(self, X: Any = None, persons: Any = None) -> Mechanism:
        """Return the mechanism of these parameters, and of data of this kind."""
        return OutputPerturbation()

    def _check_mechanism(self, X: Any, persons: Any) -> None:
        """Raise where the mechanism does not go with other parameters, or with the data."""

    def _counted(self, objective: Objective, persons: Persons | None) -> Objective:
        """Return the objective of the rows that count."""
        return objective

    def _release_by_mechanism(
        self, objective: Objective, task: Task, labels: Any, persons: Persons | None
    ) -> None:
        """Fit with noise that is not added to the minimizer."""

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

    def _tell_if_raised(self, state: FitState) -> None:
        """Say where a reweighting or shape raises the largest loss, or let the first look say it.

        Not under a goal, or a number that one read off records: plain noise would be of another
        scale then, and under `MaxLeakage` the largest loss of both is the same limit.
        """
        if (state.balanced is None and state.noise.is_identity) or state.noise_scale == 0.0:
            return
        if isinstance(self.noise_scale, NoiseGoal | CalibratedNoise) or not called_from_outside():
            return
        follows = state.balanced is not None or state.noise.reads_data
        if is_large(state.objective.X):  # passes over records that nobody asked for
            return
        n, p = state.objective.n_records, float(state.factor.coefficients.size)
        self._losses_told = None
        if not follows or n * p**3 + p**6 / 24.0 <= _WORK_AT_FIT:
            with suppress(ValueError):  # a fit does not fail for what nobody asked for
                self._losses_told = told_losses(state)

    def _solve(self, objective: Objective, task: Task) -> FitState:
        reweighting = as_reweighting(self.reweighting)
        if reweighting is None:
            with task.part("solve"):
                state, self.n_iter_ = solve(self, objective)
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
        indices = reweighting.columns(names, objective.X.shape[1])
        columns = Columns(target=self.private_target) if indices is None else Columns(indices)
        kind = WeightRule.total if isinstance(reweighting, EvenTotal) else WeightRule
        rule = kind(columns, reweighting.norm)
        with task.part("reweighting", reweighting.max_iter + 1) as search:
            found = solve_reweighted(self, objective, rule, reweighting, search)
        state, self.n_iter_, history = found
        self.sample_reweights_ = state.objective.reweights.copy()
        self.reweighting_history_ = np.array(history)
        self.n_reweighting_iter_ = len(history) - 1
        return state

    def _calibrated(self, state: FitState) -> FitState:
        """Resolve a noise goal, now that the minimizer and its derivatives are known."""
        goal = self.noise_scale
        if not isinstance(goal, NoiseGoal):
            return state
        if isinstance(goal, PublicNoiseGoal):
            public = LinearModelProblem.of(state, self._promises()).public
            return state.at_noise(self._mechanism.calibrate(goal, public).noise_scale)
        search = as_reweighting(self.reweighting)
        needed = partial(self._twin()._needed_noise, persons=state.persons)
        given = goal, needed, 0.0 if search is None else search.tol
        return state.at_noise(of_problem(safe_rung, state, self._promises(), *given))

    def _twin(self) -> Self:
        """Return what a refit needs of this estimator: neither an earlier fit nor a ledger."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.get_params(deep=False), ledger=None, verbose=0)
        copy_attributes(
            self, twin, ("n_features_in_", "feature_names_in_", "classes_", "_weighted")
        )
        twin.random_state = None if self.random_state is None else 0
        return twin

    def _needed_noise(self, objective: Objective, persons: Persons | None = None) -> float:
        """Noise scale that the goal needs on other records, by a whole fit of a twin."""
        assert isinstance(self.noise_scale, NoiseGoal)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            state = self._solve(objective, no_task())
            state = replace(state, noise=noise_shape(self, objective), persons=persons)
            problem = LinearModelProblem.of(state, self._promises())
            return float(resolve_goal(self.noise_scale, problem))

    def _target_masses(self, y: FloatArray, sample_weight: FloatArray) -> FloatArray:
        """Weighted sum of targets that are numbers, (1,), or of the records of classes, (K,)."""
        return np.array([sample_weight @ y])

    def _check_targets(self, masses: FloatArray) -> None:
        """Raise where no minimizer exists for targets of these weighted sums."""

    @staticmethod
    def _refuse_negative(count: int, label: str) -> None:
        """Raise where targets must not be negative, and some are."""

    @staticmethod
    def _check_any_weight(some: bool) -> None:
        """Raise where no record counts."""
        if not some:
            raise ValueError(
                "Sample weights must contain at least one non-zero number; got only zeros. Give "
                "each record that takes part a positive weight."
            )

    def _check_data_norm(self, X: Any, records: Any) -> None:
        """Enforce the promise that no row is longer than ``data_norm``, or no entry larger."""
        if self.data_norm is None:
            return
        shares = shares_of_bounds(X, self._norm_bounds(X.shape[1]))
        beyond = np.flatnonzero(shares > 1.0 + Promises.norm_rounding)
        if len(beyond):
            self._refuse_long(len(beyond), len(shares), row_label(records, int(beyond[0])))

    def _norm_bounds(self, n_columns: int) -> Any:
        """Bound on the norm of a row, on each column (d,), or None."""
        given = self.data_norm
        if given is None or isinstance(given, Real):
            return given
        return column_bounds(
            "data_norm", given, getattr(self, "feature_names_in_", None), n_columns
        )

    def _refuse_long(self, count: int, n: int, label: str) -> None:
        if not isinstance(self.data_norm, Real):
            raise ValueError(
                f"`data_norm` promises a largest size of each column, but {count} of {n} rows have "
                f"a larger entry, the first of them {label}. Clip the columns before `fit` (for "
                "instance with skleak.preprocessing.PublicScaler), or promise larger bounds that "
                "do not come from the data."
            )
        raise ValueError(
            f"`data_norm` promises rows of Euclidean norm at most {self.data_norm:g}, but "
            f"{count} of {n} rows are longer, the first of them {label}. Scale the rows "
            "to that norm before `fit` (for instance with sklearn.preprocessing.Normalizer), "
            "or promise a larger `data_norm` that does not come from the data."
        )
