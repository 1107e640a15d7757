"""How a private linear model becomes public: ledger, noise, release, pickle."""

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from skleak._released import TABLE, ReleasedModel, warn_of_release
from skleak.accounting import LeakageLedger
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning, UnprotectedValueWarning
from skleak.influence.jacobian import Columns
from skleak.influence.state import FitState
from skleak.linear_model._fitting import warn_if_uneven
from skleak.linear_model._individual import IndividuallyMeasuredModel
from skleak.linear_model._measured import COMPUTED_ON_DEMAND, largest, training_loss
from skleak.linear_model._noise import draw_release, noise_standard_errors
from skleak.losses import PointwiseLoss
from skleak.mechanisms import CalibratedNoise, NoiseGoal, PublicNoiseGoal, as_reweighting
from skleak.report import DifferentialPrivacy, Promises
from skleak.report.measures import unprotected_column
from skleak.utils._blocks import Blocks
from skleak.utils._features import feature_labels
from skleak.utils._typing import FloatArray, RandomState
from skleak.utils._warnings import outer_stacklevel
from skleak.utils.blocks._dask import is_large


class ReleasableModel(IndividuallyMeasuredModel):
    """The trust boundary of a fitted model: what is charged, drawn, published and pickled."""

    _loss: ClassVar[PointwiseLoss]
    _released: ClassVar[type[ReleasedModel]]

    coef_: FloatArray
    intercept_: "float | FloatArray"
    coef_noise_scale_: "FloatArray | None"
    intercept_noise_scale_: "float | FloatArray | None"
    _weighted: bool

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
            isinstance(self.noise_scale, CalibratedNoise),
        )

    @property
    def _declares_classes(self) -> bool:
        """True if no class was read off the labels; regressors have none."""
        return True

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
            "alpha": float(self.alpha),
            "fit_intercept": bool(self.fit_intercept),
            "reweighting": None if reweighting is None else reweighting.name,
            "data_norm": self.data_norm,
            "public": sorted(self._promises().public),
            "tol": float(self.tol),
            "noise_goal": repr(self.noise_scale) if self._noise_reads_data else None,
        }

    def _enter_in_ledger(
        self, state: FitState, leakage: dict[str, FloatArray], guarantee: DifferentialPrivacy
    ) -> None:
        """Charge the data set before any noise is drawn; a refusal leaves nothing released."""
        if self.ledger is None:
            return
        ledger = self.ledger
        if not isinstance(ledger, LeakageLedger):
            ledger = LeakageLedger.open(ledger)
        if not state.converged:
            raise ValueError(
                f"{state.failure}: what it leaks is not known, and the ledger takes no release of "
                f"unknown leakage. {state.remedy}"
            )
        units = ledger.units
        losses = self._charged(state, ledger, leakage)
        if self.random_state is not None:
            # Noise from a seed or a generator can be drawn again, and then there is none.
            losses = np.full_like(losses, np.inf)
        ledger.record(
            self.ledger_dataset,
            losses,
            mu=guarantee.composed_mu if guarantee.holds else None,
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

    def _charged(
        self, state: FitState, ledger: LeakageLedger, leakage: dict[str, FloatArray]
    ) -> FloatArray:
        """Losses in the units of a ledger, the target counted; of many records the largest."""
        objective, large = state.objective, is_large(state.objective.X)
        blocks = Blocks.of(objective.X, objective.y, objective.sample_weight)
        low, high = blocks.map_reduce(_extremes, _outer)
        widths = ledger.widths(
            feature_labels(state.feature_names, state.n_features),
            high - low,
            data_norm=self.data_norm,
            classifies=is_classifier(self),
        )
        if state.balanced is not None and not large:
            leakage["fisher_information_loss_"] = training_loss(state)
            warn_if_uneven(state, leakage["fisher_information_loss_"])
        columns = Columns(target=True)
        if widths is not None:
            columns = Columns(target=True, units=widths[:-1], target_unit=float(widths[-1]))
        elif state.private_target and "fisher_information_loss_" in leakage:
            return leakage["fisher_information_loss_"]
        losses = training_loss(state, columns=columns)
        return largest(losses) if large else losses

    def _publish(
        self, state: FitState, leakage: dict[str, FloatArray], guarantee: DifferentialPrivacy
    ) -> None:
        """Draw the noise and set the fitted attributes."""
        self.noise_scale_ = state.noise_scale
        if self._noise_reads_data or isinstance(self.noise_scale, CalibratedNoise):
            self.noise_scale_ = CalibratedNoise(state.noise_scale)
        for name in (*COMPUTED_ON_DEMAND, "conditional_fisher_information_loss_"):
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
            **({} if state.balanced is None else {"at_fixed_point": state.converged}),
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
        if require_guarantee and not self._guarantee.holds:
            raise NoGuaranteeError(
                "No differential-privacy guarantee holds for this release: "
                f"{'; '.join(self._guarantee.reasons)}."
            )
        if self._guarantee.fails_on_records:
            raise NoGuaranteeError(
                "The solver did not converge, and a release without the guarantee that its other "
                "parameters promise would reveal that of these records. Raise `max_iter` or "
                "`alpha`, or scale the columns, and fit again."
            )
        warn_of_release(
            seeded=self._terms.seeded, noise_scale=self.noise_scale_, step=self.noise_step_
        )
        self._warn_if_unprotected()
        return self._released.of(self, self._made_as)

    def _warn_if_unprotected(self) -> None:
        """Say to whoever releases, and nowhere else, that the noise does not hide some value."""
        if self._terms.seeded or not hasattr(self, "_state"):
            return
        if is_large(self._state.objective.X):
            warnings.warn(
                "It was not checked whether the noise hides the values of every record: the "
                "records lie outside memory. Look at the largest of `fisher_information_loss_`, or "
                "at `leakage_report()`, or fit records in memory.",
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
        # A lazy array would take along what reads the records, and the Hessian.
        return {name: value for name, value in state.items() if not is_large(value)}


def _extremes(X: FloatArray, y: FloatArray, s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest value of each column and of the target, of those who take part."""
    table = np.column_stack([X, y])[s > 0.0]
    return table.min(axis=0, initial=np.inf), table.max(axis=0, initial=-np.inf)


def _outer(
    one: tuple[FloatArray, FloatArray], other: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])


def _stated(guarantee: DifferentialPrivacy) -> dict[str, Any] | None:
    """Return the guarantee as a release may state it: a function of what was declared public."""
    if not guarantee.holds:
        return None
    numbers = {name: getattr(guarantee, name) for name in ("epsilon", "delta", "rho", "exact")}
    return {**numbers, "about": f"replacement of one row of {TABLE}"}
