"""Release, and guarantees of single records."""

import warnings
from contextlib import suppress
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from skleak._released import TABLE, ReleasedModel, refuse_without_guarantee, warn_of_release
from skleak.accounting import LeakageLedger
from skleak.exceptions import (
    AttackNotApplicableError,
    NoGuaranteeError,
    PrivacyLeakWarning,
    UnprotectedValueWarning,
)
from skleak.influence.jacobian import Columns, WideFactor
from skleak.influence.removal import (
    distances_without,
    removal_bounds,
    removal_distances,
    secret_distances,
)
from skleak.influence.state import FitState, without_records
from skleak.linear_model._goals import LinearModelProblem
from skleak.linear_model._measured import (
    COMPUTED_ON_DEMAND,
    MeasuredModel,
    draw_release,
    refusing_overflow,
    training_loss,
    warn_if_uneven,
)
from skleak.losses import PointwiseLoss
from skleak.mechanisms import NoiseGoal, PublicNoiseGoal
from skleak.mechanisms.goals import MOST_VALUES
from skleak.mechanisms.grids import as_reweighting
from skleak.report.guarantee import (
    DifferentialPrivacy,
    Promises,
    individual_obstacle,
    individual_privacy,
    output_perturbation_guarantee,
)
from skleak.report.measures import MOST_WORK, Separator
from skleak.report.unknowns import Unknown, unknowns
from skleak.utils._arguments import check_scalar, norm_of_bounds, stated_bounds
from skleak.utils._blocks import Blocks, is_large
from skleak.utils._confidential import CalibratedNoise
from skleak.utils._linalg import takes_long, warn_if_costly
from skleak.utils._predictions import label_positions
from skleak.utils._records import TARGET, Persons, feature_labels, is_target, resolve_features
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._summaries import fetched
from skleak.utils._typing import Array, FloatArray, IntArray, RandomState

# Two values that lie further apart than this are told apart 97.7 times in 100: the noise protects
# nobody.
UNPROTECTED = 4.0
# Columns that a release solves for, and records of each: the rest is one Newton step away.
_N_COLUMNS, _N_RECORDS = 3, 3
# What values without a minimizer, or beyond the reach of doubles, end in.
_NOT_COMPUTABLE = (ValueError, ArithmeticError)


class IndividuallyMeasuredModel(MeasuredModel):
    """Privacy of every training record of a fitted model, for the data that there are."""

    @property
    def individual_privacy_(self) -> pd.DataFrame:
        """Privacy of each training record, as `individual_privacy` gives it. Confidential."""
        return self.individual_privacy()

    def individual_privacy(
        self,
        *,
        delta: float = 1e-6,
        baseline: float = 1e-3,
        features: Any = None,
        values: npt.ArrayLike | None = None,
        queries: Any = None,
        records: npt.ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Privacy of each training record: what its presence makes possible at most.

        The release is compared with that of the same fit without the record, all other records
        being what they are. Whatever an attack tries, if it is right with probability b on a model
        without this person, it is right with at most ``Phi(Phi^-1(b) + mu)`` on the model with
        them. Nobody else is covered: the numbers depend on the data, and are confidential.

        Parameters
        ----------
        delta : float in [0, 1], default=1e-6
            Delta at which epsilon is stated.
        baseline : float in (0, 1), default=1e-3
            Probability b that an attack is right on a model without the record.
        features : str, int, slice, mask or list, default=None
            Column or block of columns, or "(target)", that the attack is to guess from a prior:
            ``mu`` is then the largest over all values that the record might have in it. By default
            the record has the values that it has: a bound for attacks on membership.
        values : array-like of shape (n_values,) or (n_values, k), default=None
            Values that the block of k columns might have. By default those that occur, of which
            there may be at most 64.
        queries : array-like or sparse matrix of shape (k, n_features), default=None
            What an attacker sees are predictions for these records, and not the coefficients: see
            `fisher_information_loss`.
        records : array-like of int of shape (m,), default=None
            Positions of the training records to state it of, or of whoever has them; by default
            all.

        Returns
        -------
        DataFrame
            One row for each training record, by the index of the training data where they had one
            (else by position), or for each person, by their labels; in its ``attrs`` the ``delta``
            and the ``baseline``. Of all records outside memory a Dask array, (n,), with these names
            as its fields: exact for the squared loss, an upper bound for others (``epsilon`` too;
            ``once_in`` is a lower one).

            - ``mu``: distance of the noiseless parameters with and without the record over the
              noise. Infinite without noise, for a record without which there is no model, and for
              the only one of its class, where ``classes`` were not declared; else 0 for one of
              weight zero. A row is one person: it leaves with all of its weight.
            - ``epsilon``: at ``delta``, the rounding to the grid of the noise counted.
            - ``true_positives_at_1pct``: ``Phi(Phi^-1(0.01) + mu)``, share of releases with the
              record that the best test of membership finds at 1 % false alarms.
            - ``success_at_baseline``: ``Phi(Phi^-1(baseline) + mu)``.
            - ``once_in``: its inverse. An attack that is right once in ``1 / baseline`` on a model
              without this person is right at most once in this many on the model with them.

        Raises
        ------
        AttackNotApplicableError
            Where there is no exact answer: with noise whose scale or covariance is a function of
            the records, a reweighting, or a fit that did not converge. For all records outside
            memory with ``features``, or of several classes: name some by ``records``.
        NotFittedError
            Before ``fit``, and after unpickling, which drops what is confidential.
        ValueError
            For arguments out of range, unknown columns, or too many values.

        Notes
        -----
        Kulynych et al. (2025), arXiv:2507.06969. With noise that is not on the coefficients all
        numbers are functions of a record's own row and weight, whatever the others are: exact for
        noise on sums, and in the objective upper bounds, for which the penalty stays as it is.
        Noise from a seed or a generator can be drawn again, and protects nobody, whatever is stated
        here. Of the squared loss all records cost O(n p^2); of others up to O(n^2 p), as matrix
        products.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skleak.linear_model import PrivateLinearRegression
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = PrivateLinearRegression(noise_scale=20.0).fit(X, y)
        >>> privacy = model.individual_privacy(baseline=0.001)
        >>> privacy.loc[privacy["mu"].idxmax(), ["mu", "once_in"]].round(1).tolist()
        [0.3, 381.9]
        """
        state = self._seen_state(queries)
        limits = {
            "delta": check_scalar("delta", delta, high=1.0),
            "baseline": check_scalar("baseline", baseline, low_open=True, high=1.0, high_open=True),
        }
        obstacle = individual_obstacle(state, self._terms)
        if obstacle:
            raise AttackNotApplicableError(
                f"The privacy of one record has no exact answer here: {obstacle}. Fit with a "
                "number as `noise_scale`, isotropic noise or a matrix, and no reweighting; or "
                "measure attacks with MembershipAuditor."
            )
        if features is None and values is not None:
            raise ValueError("`values` are those of `features`: name the columns as well.")
        if records is None and is_large(state.objective.X):
            return self._lazily_private(state, features, limits)
        rows: Any = None
        if records is not None:
            rows = _positions(records, state.objective.n_records)
            if state.persons is not None:
                rows = Persons.attacked(state.persons, rows)
        if features is not None:
            distances = secret_distances(state, *self._secret(features, values), rows)
        elif rows is None:
            distances = state.once(removal_distances)
        else:
            distances = distances_without(state, rows)
        table = individual_privacy(distances, state, **limits)
        table.index = self._row_index(rows)
        table.attrs.update(limits)
        return table

    @staticmethod
    def _lazily_private(state: FitState, features: Any, limits: dict[str, float]) -> Any:
        """Privacy of all records outside memory, (n,), lazily."""
        if features is not None:
            raise AttackNotApplicableError(
                "What an attack on a secret finds out is solved for record by record, and these "
                "lie outside memory. Name those that it is about by `records`."
            )
        distances = Blocks.of(removal_bounds(state), width=1)
        return distances.map(_as_fields, without_records(state), limits)

    def _row_index(self, rows: "IntArray | Persons | None") -> pd.Index:
        """Index of training records, of all for None, or of persons."""
        state = self._measured_state()
        if state.persons is not None or isinstance(rows, Persons):
            persons = rows if isinstance(rows, Persons) else state.persons
            assert persons is not None
            return pd.Index(persons.labels, name="person")
        labels = state.row_labels
        if labels is None:
            every = pd.RangeIndex(state.objective.n_records, name="record")
            return every if rows is None else every[rows]
        if is_large(labels):
            assert rows is not None  # those of all stay where they are
            labels = pd.Index(fetched(rows, labels)[0])
        elif rows is not None:
            labels = labels[rows]
        unnamed = labels.nlevels == 1 and labels.name is None
        return labels.rename("record") if unnamed else labels

    def _secret(
        self, features: Any, values: npt.ArrayLike | None
    ) -> tuple[IntArray | None, FloatArray]:
        """Columns of a secret, (k,), and the values that it may have, (n_values, k)."""
        state, columns = self._measured_state(), None
        if not is_target(features, state.feature_names):
            columns = resolve_features(features, state.feature_names, state.n_features)
        if values is None:
            problem = LinearModelProblem.of(state, self._terms)
            found = problem.block(TARGET if columns is None else columns).values
            if len(found) > MOST_VALUES:
                raise ValueError(
                    f"`features` has {len(found)} distinct values, more than {MOST_VALUES}. Pass "
                    "those that a record might have as `values`."
                )
            return columns, found
        given = np.asarray(values)
        if columns is None:
            given, classes = np.ravel(given), getattr(self, "classes_", None)
            codes = given if classes is None else label_positions(given, classes)
            if classes is not None and np.any(codes < 0):
                raise ValueError(
                    f"`values` must be classes of the model, {np.asarray(classes).tolist()[:10]}; "
                    f"got {given[codes < 0].tolist()[:5]}."
                )
            return None, codes.astype(float)[:, None]
        given = given.astype(float)
        return columns, given[:, None] if given.ndim == 1 and len(columns) == 1 else given


def _positions(records: npt.ArrayLike, n: int) -> IntArray:
    """Positions of chosen records, (m,)."""
    rows = np.asarray(records)
    valid = rows.ndim == 1 and rows.dtype.kind in "iu" and len(rows) > 0
    if not valid or rows.min() < 0 or rows.max() >= n:
        raise ValueError(
            f"`records` must be positions of training records, whole numbers from 0 to {n - 1}; "
            f"got {records!r}. Pass a list of positions."
        )
    return rows.astype(np.intp)


def _as_fields(distances: FloatArray, state: FitState, limits: dict[str, float]) -> Array:
    """Privacy of the records of a block, (b,), a field for each number."""
    table = individual_privacy(distances, state, **limits)
    fields = np.empty(len(table), dtype=[(name, np.float64) for name in table])
    for name in table:
        fields[name] = table[name]
    return fields


# What is there, or is found, of one fit only.
OF_ONE_FIT = (
    "alpha_",
    "conditional_fisher_information_loss_",
    "gradient_noise_scale_",
    "loss_",
    "moments_",
    "n_passes_",
    "_guarantee",
    "_losses_told",
    "sample_reweights_",
    "reweighting_history_",
    "n_reweighting_iter_",
    *COMPUTED_ON_DEMAND,
)


class ReleasableModel(IndividuallyMeasuredModel):
    """The trust boundary of a fitted model: what is charged, drawn, published and pickled."""

    _loss: ClassVar[PointwiseLoss]
    _released: ClassVar[type[ReleasedModel]]

    # Where a reweighting begins: at ones, or in a refit of which nobody asks what it leaks
    # at the weights of another fit, (n,).
    _start: float | FloatArray = 1.0

    # Of those estimators that take no such promise.
    target_bound: float | None = None

    coef_: FloatArray
    intercept_: "float | FloatArray"
    coef_noise_scale_: "FloatArray | None"
    intercept_noise_scale_: "float | FloatArray | None"
    _weighted: bool

    def _promises(self) -> Promises:
        """Collect what is public knowledge of this fit."""
        return Promises(
            norm_of_bounds(self.data_norm),
            frozenset([self.public] if isinstance(self.public, str) else self.public),
            self._declares_classes,
            self.tol,
            self.random_state is not None,
            repr(self.noise_scale) if self._noise_reads_data else None,
            self._weighted,
            isinstance(self.noise_scale, CalibratedNoise),
            self.target_bound,
            not (self.data_norm is None or isinstance(self.data_norm, Real)),
            getattr(self.noise_scale, "rows_per_person", None),
            self._penalty,
        )

    def _refuse_large(self, found: str) -> None:
        raise ValueError(
            f"`target_bound` promises targets of at most {self.target_bound:g} in size, but "
            f"{found}. Clip or center the targets before `fit` by public numbers, or promise a "
            "larger `target_bound` that does not come from the data."
        )

    @property
    def _declares_classes(self) -> bool:
        """True if no class was read off the labels; regressors have none."""
        return True

    @property
    def _penalty(self) -> float:
        """Penalty relative to the mean loss."""
        return float(self.alpha)

    @property
    def _noise_reads_data(self) -> bool:
        """True if the noise scale is calibrated to the training records."""
        goal = self.noise_scale
        return isinstance(goal, NoiseGoal) and not isinstance(goal, PublicNoiseGoal)

    def _provenance(self) -> dict[str, Any]:
        """Return how the model is made, in public parameters."""
        reweighting = as_reweighting(self.reweighting)
        return {
            "estimator": type(self).__name__,
            "loss": self._loss.name,
            "noise_covariance": self.noise_covariance
            if isinstance(self.noise_covariance, str)
            else "given",
            "alpha": self._penalty,
            "fit_intercept": bool(self.fit_intercept),
            "reweighting": None if reweighting is None else reweighting.name,
            "data_norm": stated_bounds(self.data_norm),
            **({} if self.target_bound is None else {"target_bound": float(self.target_bound)}),
            "public": sorted(self._promises().public),
            "tol": float(self.tol),
            "noise_goal": repr(self.noise_scale) if self._noise_reads_data else None,
        }

    def _keep(self, state: FitState) -> None:
        """Hold the confidential state of a fit."""
        # A release and a report tell how the fit was made, whatever becomes of the parameters.
        self._state, self._terms = state, self._promises()
        if state.balanced is not None and np.ndim(self._start) == 0:
            self.conditional_fisher_information_loss_ = training_loss(state, conditional=True)

    @cached_property
    @refusing_overflow()
    def _guarantee(self) -> DifferentialPrivacy:
        """Differential privacy of the release."""
        return output_perturbation_guarantee(self._state, self._terms)

    def _enter_in_ledger(self, state: FitState) -> None:
        """Charge the data set before any noise is drawn; a refusal leaves nothing released."""
        if self.ledger is None:
            return
        ledger = self._opened_ledger()
        if not state.converged:
            raise ValueError(
                f"{state.failure}: what it leaks is not known, and the ledger takes no release of "
                f"unknown leakage. {state.remedy}"
            )
        units = ledger.units
        losses = self._charged(state, ledger)
        if self.random_state is not None:
            # Noise from a seed or a generator can be drawn again, and then there is none.
            losses = np.full_like(losses, np.inf)
        ledger.record(
            self.ledger_dataset,
            losses,
            mu=self._guarantee.composed_mu if self._guarantee.holds else None,
            description={
                **self._provenance(),
                "noise_scale": state.noise_scale,
                # Only the largest loss of so many records is charged, and kept.
                **({"n_records": len(state.objective.y)} if is_large(state.objective.X) else {}),
            },
            # Which rows a fit is given (a fold, a shuffled copy) is not for it to know.
            aligned=False,
            units=units or {},
        )

    def _opened_ledger(self) -> LeakageLedger:
        assert self.ledger is not None
        return LeakageLedger.open(self.ledger)

    def _charged(self, state: FitState, ledger: LeakageLedger) -> FloatArray:
        """Losses in the units of a ledger, the target counted; of many records the largest."""
        objective, large = state.objective, is_large(state.objective.X)
        blocks = Blocks.of(objective.X, objective.y, objective.sample_weight)
        ranges = blocks.map_reduce(_extremes, np.maximum).sum(axis=0)
        widths = ledger.widths(
            feature_labels(state.feature_names, state.n_features),
            ranges,
            data_norm=self._promises().data_norm,
            classifies=is_classifier(self),
        )
        if widths is None and state.private_target and not large:
            return self.fisher_information_loss_
        columns = Columns(target=True)
        if widths is not None:
            columns = Columns(target=True, units=widths[:-1], target_unit=float(widths[-1]))
        state.once(warn_if_uneven)
        losses = training_loss(state, columns=columns)
        return Blocks.of(losses, width=1).map_reduce(_largest, np.maximum) if large else losses

    def _publish(self, state: FitState) -> None:
        """Draw the noise and set the fitted attributes."""
        self.noise_scale_ = state.noise_scale
        if self._noise_reads_data or isinstance(self.noise_scale, CalibratedNoise):
            self.noise_scale_ = CalibratedNoise(state.noise_scale)
        self._goal = clone(self.noise_scale) if self._noise_reads_data else None
        self._made_as = {
            **self._provenance(),
            # That there were weights is public; what they were is not stated.
            "sample_weight": self._weighted,
            **({} if state.balanced is None else {"at_fixed_point": state.converged}),
        }
        self._redraw(self.random_state)
        self.coef_noise_scale_ = self.intercept_noise_scale_ = None
        if not state.noise.reads_data:
            size, matrix = state.factor.weights.size, state.noise.matrix
            variances = 1.0 if matrix is None else np.diag(matrix)
            errors = state.noise_scale * np.sqrt(
                np.ones(state.factor.coefficients.size) * variances
            )
            self.coef_noise_scale_, self.intercept_noise_scale_ = self._shaped(errors, size)

    def _redraw(self, random_state: RandomState) -> None:
        """Draw the release of this very fit, or another one, as a fit with that seed draws it."""
        found = hasattr(self, "_state") and self._mechanism.adds_to_minimizer
        state = self._state if found else self._confidential_state()
        drawn = draw_release(state, random_state)
        self.noise_step_, self.noise_sampler_ = drawn.step, drawn.sampler
        self.coef_, self.intercept_ = self._shaped(drawn.parameters, state.factor.weights.size)

    def _shaped(self, parameters: FloatArray, size: int) -> "tuple[FloatArray, float | FloatArray]":
        """Split parameters into coefficients, the first ``size`` of them, and the intercept."""
        return parameters[:size], float(parameters[size]) if len(parameters) > size else 0.0

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
            but the solver did not converge, as its absence would reveal that of the records.

        Warns
        -----
        PrivacyLeakWarning
            Where the noise is zero, or came from a seed or a generator that can be copied.
        UnprotectedValueWarning
            Where two values of a column of few values, or two labels, lie more than 4 noise units
            apart in some record: at even odds they are told apart 97.7 times in 100, or more often.
            It is a function of the records, and for whoever fitted the model: keep it confidential.
            Not said of a model that was unpickled or copied. Of records outside memory it says that
            this was not checked.
        UserWarning
            Where the step of the noise had to grow, as doubles hold no finer multiples.
        """
        check_is_fitted(self)
        refuse_without_guarantee(self._guarantee, require_guarantee)
        if self._guarantee.fails_on_records:
            raise NoGuaranteeError(
                "The solver did not converge, and a release without the guarantee that its other "
                "parameters promise would reveal that of these records. Raise `max_iter` or "
                "`alpha`, or scale the columns, and fit again."
            )
        # That the noise is little beside the coefficients says nothing of noise elsewhere.
        step = self.noise_step_ if self._mechanism.adds_to_minimizer else 0.0
        warn_of_release(seeded=self._terms.seeded, noise_scale=self.noise_scale_, step=step)
        self._warn_if_unprotected()
        made_as = {**self._made_as, "differential_privacy": stated_guarantee(self._guarantee)}
        return self._released.of(self, made_as)

    def _warn_if_unprotected(self) -> None:
        """Say to whoever releases, and nowhere else, that the noise does not hide some value."""
        if self._terms.seeded or not hasattr(self, "_state") or self._state.noise_elsewhere:
            return
        objective, factor = self._state.objective, self._state.factor
        large = is_large(objective.X)
        wide = isinstance(factor, WideFactor) and takes_long(
            factor.seconds_of_all(objective.n_records)
        )
        if large or wide:
            reason = "records lie outside memory" if large else "columns are too many"
            instead = "records in memory" if large else "fewer columns"
            warnings.warn(
                "It was not checked whether the noise hides the values of every record: the "
                f"{reason}. Look at the largest of `fisher_information_loss_`, or "
                f"at `leakage_report()`, or fit {instead}.",
                UnprotectedValueWarning,
                stacklevel=outer_stacklevel(),
            )
            return
        found = unprotected_column(self._state)
        if found is not None:
            name, distance = found
            warnings.warn(
                f"The noise protects nobody from being told apart by {name!r}: in some record two "
                f"of its values lie {distance:.3g} noise units apart, more than 4, and whoever "
                "knows the rest is right about it nearly always. This message is confidential. "
                "Raise `noise_scale` or `alpha`, or drop or merge rare values; `leakage_report()` "
                "tells which columns and records.",
                UnprotectedValueWarning,
                stacklevel=outer_stacklevel(),
            )

    def __getstate__(self) -> dict[str, Any]:
        """Drop what is confidential: a pickle travels."""
        fit = self.__dict__.get("_state")
        if fit is not None:
            _ = self._guarantee
            elsewhere = fit.noise_elsewhere is not None  # whose losses take fits
            # A copy cannot compute its losses: they travel with it, unless they are costly.
            seconds = fit.factor.seconds_of_all(fit.objective.n_records)
            missing = [name for name in COMPUTED_ON_DEMAND if name not in self.__dict__]
            if fit.balanced is None and not (elsewhere or is_large(fit.objective.X)) and missing:
                warn_if_costly(
                    "What the records leak is left out of the copy: to find it",
                    seconds,
                    0.0,
                    "Read `fisher_information_loss_` before, or fit fewer columns.",
                )
                if not takes_long(seconds):
                    _ = self.fisher_information_loss_, self.diagonal_fisher_information_loss_
            warnings.warn(
                f"Pickling (or copying) an unreleased {type(self).__name__}: its noiseless "
                "coefficients, Hessian and training records are dropped, but the leakage of "
                "every record and any seed or generator (which can be run backwards) remain in "
                "it, and are confidential. Pickle `estimator.release()` instead.",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        # A lazy array would take along what reads the records, and the Hessian.
        kept: dict[str, Any] = super().__getstate__()
        return {
            n: value
            for n, value in kept.items()
            if n not in ("_state", "_losses_told") and not is_large(value)
        }


def _largest(losses: FloatArray) -> FloatArray:
    return losses.max(keepdims=True, initial=0.0)


def _extremes(X: FloatArray, y: FloatArray, s: FloatArray) -> FloatArray:
    """Largest value of each column and of the target, and of minus it, of those who take part."""
    table = np.column_stack([X, y])[s > 0.0]
    return np.stack([table, -table]).max(axis=1, initial=-np.inf)


def stated_guarantee(guarantee: DifferentialPrivacy) -> dict[str, Any] | None:
    """Return the guarantee as a release may state it: a function of what was declared public."""
    if not guarantee.holds:
        return None
    whom = getattr(guarantee.noise, "rows_per_person", None)
    one = "row" if whom is None else f"person, of at most {whom} rows,"
    about = {"about": f"replacement of one {one} of {TABLE}"}
    if guarantee.mechanism != "output perturbation":
        return {**guarantee.stated, **about}
    numbers = {
        name: getattr(guarantee, name)
        for name in ("epsilon", "delta", "rho", "composed_mu", "exact")
    }
    return {**numbers, **about}


def unprotected_column(state: FitState) -> tuple[str, float] | None:
    """Column of few values of which some record has two that lie too far apart, and how far.

    In noise units. None where there is none, without noise, and where no distance is known: a
    release does not fail for what cannot be computed.
    """
    if not (state.converged and state.noise_scale > 0.0):
        return None
    found = None
    with suppress(*_NOT_COMPUTABLE), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = state.once(_farthest)
    if found is None or not found[1] > UNPROTECTED * state.noise_scale:
        return None
    return found[0], found[1] / state.noise_scale


def _farthest(state: FitState) -> tuple[str, float] | None:
    """Column of few values whose values lie furthest apart, and how far at unit noise."""
    d, batch, rows = state.n_features, state.training, np.arange(len(state.objective.y))
    work = 0.0
    if state.persons is not None:  # what they are estimated at says little
        batch, rows = state.by_person(state.persons), state.persons.first
        work = MOST_WORK / _N_COLUMNS
    separator = Separator(state.at_noise(1.0), batch, rows, work, fewest=_N_RECORDS)
    blocks = [np.array([j]) for j in range(d)]
    every = unknowns(state, blocks, feature_labels(state.feature_names, d))
    few = [one for one in every if one.values is not None and len(one.values) > 1]
    if not few:
        return None
    first = np.array([separator.estimate(one) for one in few])

    def measured(one: Unknown) -> float:
        with suppress(*_NOT_COMPUTABLE):
            found = separator.measure(one)
            distance = np.nan_to_num(found.distance, nan=0.0, posinf=np.inf)
            return float(np.max(distance, where=found.exact | ~np.any(found.exact), initial=0.0))
        return 0.0

    some = np.argsort(-first, kind="stable")[:_N_COLUMNS]
    distances = [measured(few[k]) for k in some.tolist()]
    place = int(np.argmax(distances))
    return few[int(some[place])].name, distances[place]
