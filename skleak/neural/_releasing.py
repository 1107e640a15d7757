"""Release private networks."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skleak._released import ClassDecisionMixin, ReleasedModel
from skleak._version import __version__
from skleak.accounting import LeakageLedger
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.influence.jacobian import norm_of_joint
from skleak.mechanisms import NoiseGoal
from skleak.neural.gradients import Gradients, LinearGradients
from skleak.neural.information import Totals, mean_totals
from skleak.neural.report import ABOUT, PrivateSGDReport, Spread, build_report
from skleak.neural.training import Plan, Training
from skleak.utils._arguments import check_choice, check_integers, import_optional
from skleak.utils._records import feature_labels, values_withheld, withholding
from skleak.utils._sklearn_compat import (
    Interval,
    ShownAttributesMixin,
    StrOptions,
    copy_attributes,
    outer_stacklevel,
    validate_data,
)
from skleak.utils._typing import FloatArray, RandomState


class ClassPredictionMixin(ClassDecisionMixin):
    """Predict classes from ``_raw(X)``, one log-odds (n, 1) or a score for each class (n, K)."""

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that noise may spoil the scores."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds of the second of two classes, or the score of each of more.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        outputs: FloatArray = self._raw(X)
        if outputs.shape[1] == 1:
            return outputs[:, 0]
        return outputs[:, 1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs


class NumberPredictionMixin(RegressorMixin):
    """Predict the one output of ``_raw(X)``, (n, 1)."""

    score = withholding(RegressorMixin.score)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that noise may spoil the scores."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: Any) -> FloatArray:
        """Predict the target.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(self._raw(X)[:, 0])


class ReleasedNetwork(BaseEstimator):
    """A module trained by private stochastic gradient descent, as it may be published.

    Objects of this kind come from ``release()``. They hold no gradient, no training record, no seed
    and no leakage of any record. The module is the one that the factory made before it saw a
    record, with the trained parameters put in: hooks, buffers and attributes of the module that was
    trained are left behind. ``fit`` returns the model unchanged, ``clone`` the model itself.

    Attributes
    ----------
    module_ : torch.nn.Module
        A new copy of the module, on the CPU: what it keeps as it runs is not kept here.
    classes_ : ndarray of shape (n_classes,)
        Class labels, of a classifier.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Columns, as the estimator knows them.
    provenance_ : dict
        How it was trained: public parameters, and functions of them.

    Examples
    --------
    >>> import numpy as np
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from skleak.neural import PrivateSGDClassifier
    >>> from skleak.neural._releasing import ReleasedNetwork
    >>> def two_layers():
    ...     linear = torch.nn.Linear
    ...     return torch.nn.Sequential(linear(3, 4), torch.nn.Tanh(), linear(4, 2))
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> model = PrivateSGDClassifier(two_layers, max_steps=5, sampling_rate=0.5)
    >>> released = model.fit(X, X[:, 0] > 0).release()
    >>> isinstance(released, ReleasedNetwork), released.predict(X).shape
    (True, (50,))
    """

    _module: Any
    provenance_: dict[str, Any]

    # Everything that is copied from the estimator besides the module.
    _published: ClassVar[tuple[str, ...]] = ("n_features_in_", "feature_names_in_", "classes_")

    @classmethod
    def of(cls, estimator: Any, provenance: dict[str, Any]) -> "ReleasedNetwork":
        """Copy what may leave from a trained estimator.

        Parameters
        ----------
        estimator : PrivateSGDClassifier or PrivateSGDRegressor
            Fitted, with a module.
        provenance : dict
            How it was made.

        Returns
        -------
        ReleasedNetwork
        """
        released = _Classifier() if hasattr(estimator, "classes_") else _Regressor()
        released.__setstate__({"_module": estimator._gradients.published()})
        copy_attributes(estimator, released, cls._published)
        released.provenance_ = {**copy.deepcopy(provenance), "skleak": __version__}
        return released

    @property
    def module_(self) -> Any:
        """The trained module; each access makes a copy.

        A ValueError is raised where it shares an object that changed since the release was made.
        """
        return self._module.filled({})

    def __getstate__(self) -> dict[str, Any]:
        """Refuse what the module shares with others, and they left records in since."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_module": self.module_} if "_module" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Watch what the module shares with others."""
        super().__setstate__(state)
        if "_module" in state:
            neural = import_optional("skleak.neural.torch", "torch", "A released network")
            self._module = neural.Blank(state["_module"])

    def fit(self, X: Any, y: Any = None) -> Self:
        """Return the model unchanged: it is already trained.

        Parameters
        ----------
        X : object
            Ignored.
        y : object, default=None
            Ignored.

        Returns
        -------
        ReleasedNetwork
        """
        check_is_fitted(self, "_module")
        return self

    def _raw(self, X: Any) -> FloatArray:
        check_is_fitted(self, "_module")
        torch = import_optional("torch", "torch", "A released network")
        with values_withheld(X, None):
            X = validate_data(self, X, reset=False, allow_nd=True, dtype=[np.float64, np.float32])
        module = self._module.module  # a copy
        dtype = next(module.parameters()).dtype
        with torch.no_grad(), values_withheld(X, None, "what `module` makes of them"):
            outputs = module(torch.tensor(X, dtype=dtype))
        return np.asarray(outputs.double().numpy()).reshape(len(X), -1)

    def __sklearn_clone__(self) -> Self:
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        made = getattr(self, "provenance_", {})
        noise = made.get("noise_multiplier", float("nan"))
        return f"<ReleasedNetwork of {made.get('estimator', '?')}, noise_multiplier={noise:g}>"


class _Classifier(ReleasedNetwork, ClassPredictionMixin):
    """A released `PrivateSGDClassifier` with a module."""


class _Regressor(ReleasedNetwork, NumberPredictionMixin):
    """A released `PrivateSGDRegressor` with a module."""


@dataclass(eq=False, repr=False)
class PrivateSGDParameters(ShownAttributesMixin, BaseEstimator):
    """Parameters and their constraints, as scikit-learn wants them."""

    # What was read off single records is no more for the screen than for a release.
    _shown_attributes: ClassVar[tuple[str, ...]] = (
        "classes_",
        "coef_",
        "intercept_",
        "n_features_in_",
        "feature_names_in_",
        "n_steps_",
        "noise_multiplier_",
    )

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "module": [callable, None],
        "noise_multiplier": [Interval(Real, 0, None, closed="left"), NoiseGoal],
        "max_grad_norm": [Interval(Real, 0, None, closed="neither")],
        "clipping": [StrOptions({"smooth", "hard"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "sampling": [StrOptions({"poisson", "fixed"})],
        "sampling_rate": [Interval(Real, 0, 1, closed="right")],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "private_target": ["boolean"],
        "public": ["array-like", str],
        "accounting": [StrOptions({"exact", "probes"}), None],
        "n_probes": [Interval(Integral, 1, None, closed="left")],
        "account_every": [Interval(Integral, 1, None, closed="left")],
        "account_records": [StrOptions({"all", "batch"}), "array-like", None],
        "n_runs": [Interval(Integral, 1, None, closed="left")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "epsilon_budget": [Interval(Real, 0, None, closed="neither"), None],
        "max_batch": [Interval(Integral, 1, None, closed="left"), None],
        "loss": [callable, None],
        "device": [str],
        "ledger": [str, PathLike, LeakageLedger, None],
        "ledger_dataset": [str],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    module: "Callable[..., Any] | None" = None
    _: KW_ONLY
    noise_multiplier: float | NoiseGoal = 1.0
    max_grad_norm: float = 1.0
    clipping: Literal["smooth", "hard"] = "smooth"
    learning_rate: float = 0.1
    momentum: float = 0.5
    sampling: Literal["poisson", "fixed"] = "poisson"
    sampling_rate: float = 0.01
    max_steps: int = 1000
    private_target: bool = True
    public: "str | Sequence[str]" = ()
    accounting: Literal["exact", "probes"] | None = "exact"
    n_probes: int = 10
    account_every: int = 1
    account_records: Literal["all", "batch"] | npt.ArrayLike | None = None
    n_runs: int = 1
    delta: float = 1e-6
    epsilon_budget: float | None = None
    max_batch: int | None = None
    loss: "Callable[..., Any] | None" = None
    device: str = "auto"
    ledger: "str | PathLike[str] | LeakageLedger | None" = None
    ledger_dataset: str = "default"
    random_state: RandomState = None
    verbose: int = 0


_BATCHES = "Batches are drawn afresh and independently in each step, and kept secret."
_REAL_NUMBERS = "The accounting assumes real numbers: noise and sums are in floating point."
_EXACT = (
    "Noise and sums are integers, to the last bit: every clipped gradient is rounded to multiples "
    "of `noise_step`, within the sensitivity."
)


def provenance(estimator: Any, n_steps: int, *, guarantee: bool = False) -> dict[str, Any]:
    """Public parameters of a training of so many steps; with its guarantee on request."""
    plan: Plan = estimator._plan
    made = {
        "estimator": type(estimator).__name__,
        "module": "linear" if estimator.module is None else type(estimator.module_).__name__,
        "loss": estimator._loss_name,
        "fit_intercept": True if estimator.module is None else None,
        **plan.mechanism.settings,
        "noise_goal": plan.goal,
        "n_steps": n_steps,
        "learning_rate": plan.learning_rate,
        "momentum": plan.momentum,
        "public": sorted(plan.public),
        "noise_step": None if plan.grid is None else plan.grid.unit,
        "noise_sampler": _sampler(plan),
        "assumes": f"{_REAL_NUMBERS if plan.grid is None else _EXACT} {_BATCHES}",
    }
    if guarantee:
        made |= _guarantee(plan, n_steps, estimator._gradients.n_parameters)
    return made


def _sampler(plan: Plan) -> str:
    """Source of the noise, in words."""
    if plan.mechanism.noise_multiplier == 0.0:
        return "none"
    if plan.seeded:
        return "Gaussian, NumPy, seeded" + ("" if plan.grid is None else ", rounded")
    return "Gaussian, floating point" if plan.grid is None else "discrete Gaussian, exact"


def _guarantee(plan: Plan, n_steps: int, n_parameters: int) -> dict[str, Any]:
    """Return the guarantee of differential privacy, or why there is none."""
    reasons = plan.obstacles
    if not reasons:
        try:
            stated = {
                "epsilon": plan.stated_epsilon(n_steps, n_parameters),
                "delta": plan.delta,
                "exact": plan.grid is not None,
                "arithmetic": plan.arithmetic,
                "relation": "replace",
                "about": ABOUT,
            }
            return {"differential_privacy": stated, "no_guarantee": None}
        except ImportError as error:
            reasons.append(str(error))
    return {"differential_privacy": None, "no_guarantee": "; ".join(reasons)}


def require(made: dict[str, Any], real_arithmetic: bool) -> None:
    """Raise unless a guarantee is stated, of real numbers only where that is accepted; say so."""
    stated = made["differential_privacy"]
    if stated is None:
        raise NoGuaranteeError(
            f"No differential-privacy guarantee holds for this release: {made['no_guarantee']}."
        )
    if stated["exact"]:
        return
    if not real_arithmetic:
        raise NoGuaranteeError(
            "The guarantee of this release is one of real numbers: sums and noise of a module, or "
            "beside noise that is very small, are in floating point, and the last bits of the "
            "parameters can tell more than it allows. Use the default module, or accept that by "
            "`real_arithmetic=True`; the release then says so."
        )
    stated["arithmetic"] = "real numbers, accepted by who released it"


def warn_of_noise(plan: Plan) -> None:
    """Warn where the noise of a release protects nobody."""
    if plan.mechanism.noise_multiplier == 0.0:
        message = (
            "Releasing a model trained without noise (`noise_multiplier=0`): its parameters are an "
            "exact function of the training records, and leakage is infinite. Fit with "
            "`noise_multiplier > 0` before you publish it."
        )
    elif plan.seeded:
        message = (
            "Releasing a model whose noise and batches came from a seed or a generator: whoever "
            "guesses or copies it can draw them again. Fit with `random_state=None`, which takes "
            "entropy from the operating system."
        )
    else:
        return
    warnings.warn(message, PrivacyLeakWarning, stacklevel=outer_stacklevel())


# How attributes begin that pickles leave out: records, and what was learned of single ones.
_CONFIDENTIAL = ("_runs", "_charged", "_totals", "history_", "fisher_", "diagonal_fisher_")
# Standard errors that are added to a loss that is only estimated, before a ledger is charged.
_CAUTION = 3.0
# Part of the ledger's `mu_delta` that is left which one charge takes.
_SHARE = 0.01


class ReleasableSGD(PrivateSGDParameters):
    """Leakage of the records of a training, and the boundary of what may leave."""

    _numeric_targets: ClassVar[bool]
    classes: Any  # of classifiers
    _released: ClassVar[type[ReleasedModel]]

    _plan: Plan
    _runs: list[Training]
    _charged: float
    _charged_steps: int
    _gradients: Gradients
    _totals: "Totals | None"
    coef_: FloatArray
    intercept_: float | FloatArray

    @property
    def _declares_classes(self) -> bool:
        """True if no class was read off the labels; regressors have none."""
        return self._numeric_targets or self.classes is not None

    def _publish(self) -> None:
        """Set the fitted attributes after some steps."""
        first = self._runs[0]
        observers = [run.observer for run in self._runs]
        totals = [observer.totals() for observer in observers if observer is not None]
        self._totals = mean_totals(totals) if totals else None
        self._measure(int(first.X.shape[0]))
        self._charge_ledger(first.n_steps)
        self._gradients = first.gradients
        self.n_steps_ = first.n_steps
        self.noise_multiplier_ = self._plan.mechanism.noise_multiplier
        self.history_ = {
            "loss": np.array(first.losses),
            "batch_size": np.array(first.batch_sizes),
        }
        if isinstance(first.gradients, LinearGradients):
            # As scikit-learn shapes them.
            weights, intercept = first.gradients.split(first.gradients.parameters)
            self.coef_, self.intercept_ = weights, intercept
            if self._numeric_targets:
                self.coef_, self.intercept_ = weights[0], float(intercept[0])

    @property
    def module_(self) -> Any:
        """The module that is trained; confidential, as it may keep records."""
        module = getattr(getattr(self, "_gradients", None), "module", None)
        if module is None:
            raise AttributeError(f"This {type(self).__name__} has no trained module.")
        return module

    def _measure(self, n: int) -> None:
        """Losses of all records from the totals: None without, infinite without noise."""
        totals, loss, error = self._totals, None, None
        if self._plan.mechanism.noise_multiplier == 0.0:
            loss, error = np.full(n, np.inf), np.zeros(n)
        for name in ("", "diagonal_"):
            if totals is not None:
                part = "norm" if "norm" in totals.sums and not name else "trace"
                unknowns = totals.n_unknowns if name else 1
                both = _root(totals.sums[part] / unknowns, totals.errors[part] / unknowns)
                loss, error = (_spread(values, totals.records, n) for values in both)
            setattr(self, f"{name}fisher_information_loss_", loss)
            setattr(self, f"{name}fisher_information_loss_error_", error)
        self.leakage_scope_ = None if totals is None else totals.scope

    def fisher_information_loss(
        self,
        records: npt.ArrayLike | None = None,
        *,
        norm: Literal["spectral", "trace"] = "spectral",
        amplification: Literal["exact", "printed"] = "exact",
    ) -> FloatArray:
        """Fisher information loss of some training records. Confidential.

        Parameters
        ----------
        records : array-like of int of shape (k,), default=None
            Rows of the training records; by default all.
        norm : {"spectral", "trace"}, default="spectral"
            "spectral" adds the matrices of all steps, takes the mean of the runs and of that the
            largest eigenvalue, for the default module: seconds a record and run at a thousand
            columns. It is at most ``fisher_information_loss_``, which adds the eigenvalues of the
            steps. "trace" is the root mean square over the unknowns ([DRA22] 7.1).
        amplification : {"exact", "printed"}, default="exact"
            "printed" takes the factor of [DRA22] theorem 4 at ``delta``, which is not proved for
            Gaussian noise: for comparison with published figures only, and with "trace" only.

        Returns
        -------
        ndarray of shape (k,)
            In 1 / (unit of the columns); NaN for records that were not followed.

        Raises
        ------
        NotFittedError
            Before ``fit``, and after unpickling.
        ValueError
            Where nothing was added up, or not what is asked for.
        """
        check_choice("norm", norm, ("spectral", "trace"))
        check_choice("amplification", amplification, ("exact", "printed"))
        n = int(self._confidential_runs()[0].X.shape[0])
        rows = np.arange(n) if records is None else check_integers("records", records, n)
        totals = self._known_totals()
        if norm == "trace":
            trace = totals.sums["trace"]
            if amplification == "printed":
                factor = self._plan.mechanism.printed_factor(self._plan.delta)
                trace = factor * totals.sums["plain"]
            return _spread(np.sqrt(trace / totals.n_unknowns), totals.records, n)[rows]
        if amplification == "printed":
            raise ValueError(
                "The printed factor is kept for traces: pass `norm='trace'` with "
                "`amplification='printed'`."
            )
        matrices = (self.fisher_information(row) for row in rows)
        return np.array([norm_of_joint(matrix, "spectral") for matrix in matrices])

    def fisher_information(self, record: int) -> FloatArray:
        """Fisher information about one training record, the mean of the runs. Confidential.

        Parameters
        ----------
        record : int
            Row of the training record.

        Returns
        -------
        ndarray of shape (u, u)
            The sum over all steps, each ``q / s^2 G^T M G``, averaged over the runs; the unknowns
            are the columns and, with ``private_target``, the target last.

        Raises
        ------
        NotFittedError
            Before ``fit``, and after unpickling.
        ValueError
            Where nothing was added up, or the module is not the default one.
        """
        self._known_totals()
        runs = self._confidential_runs()
        row = int(check_integers("record", record, int(runs[0].X.shape[0])))
        matrices = [run.information(row, bool(self.private_target)) for run in runs]
        return np.asarray(sum(matrices) / len(matrices))

    def _known_totals(self) -> Totals:
        self._confidential_runs()
        if self._totals is None:
            raise ValueError(
                f"The Fisher information of this training is not known: {self._missing()}."
            )
        return self._totals

    def _missing(self) -> str:
        """Say why the Fisher information is not known; empty where it is."""
        if self._plan.mechanism.noise_multiplier == 0.0:
            return "without noise it is infinite"
        if self.clipping == "hard":
            return "hard clipping has no derivative; take `clipping='smooth'`"
        return "`accounting=None` adds nothing up" if self._totals is None else ""

    def leakage_report(self) -> PrivateSGDReport:
        """Report what the training reveals of every record, and what it guarantees. Confidential.

        Bounds on what any attacker guesses and finds out about membership, from the trade-off curve
        of the training (extra ``accounting``); on reconstruction, by Fisher information, with a
        prior, and by Renyi differential privacy; the guarantee, and when all of it holds.

        Returns
        -------
        PrivateSGDReport
            Tables, sentences, text, HTML and JSON.

        Raises
        ------
        NotFittedError
            Before ``fit``, and after unpickling.
        """
        self._confidential_runs()
        return build_report(self)

    def _confidential_runs(self) -> list[Training]:
        check_is_fitted(self)
        if not hasattr(self, "_runs"):
            raise NotFittedError(
                f"This {type(self).__name__} was unpickled or copied, which drops its training "
                "records and what was learned of each. Ask the estimator that was fitted, or fit "
                "again."
            )
        return self._runs

    def _check_ledger(self) -> None:
        """Refuse, before anything is drawn, a training whose leakage no ledger could enter."""
        if self.ledger is None or self._plan.mechanism.noise_multiplier == 0.0:
            return
        followed = self.account_records is None or isinstance(self.account_records, str)
        if self.accounting is None or self.clipping == "hard" or not followed:
            raise ValueError(
                "The ledger takes no release of unknown leakage: it needs `clipping='smooth'`, an "
                "`accounting`, and all records in `account_records`."
            )

    def _charge_ledger(self, n_steps: int) -> None:
        """Charge the data set for the steps since the last time, or refuse to publish them."""
        if self.ledger is None:
            return
        ledger = self.ledger
        if not isinstance(ledger, LeakageLedger):
            ledger = LeakageLedger.open(ledger)
        losses = self.fisher_information_loss_ + _CAUTION * self.fisher_information_loss_error_
        if self._plan.seeded:
            losses = np.full_like(losses, np.inf)  # noise from a seed can be drawn again
        units = ledger.units
        losses = losses * self._largest_width(ledger)
        total = float(np.max(losses))
        before = self._charged if np.isfinite(self._charged) else 0.0
        charge = np.sqrt(np.maximum(losses**2 - before**2, 0.0))
        described = provenance(self, n_steps) | {"accounting": self.leakage_scope_}
        # Of steps that come later the mu is that of these alone: mus compose. What fails adds up,
        # and takes a part of what is left, so that it is never used up.
        new, size = n_steps - self._charged_steps, self._runs[0].gradients.n_parameters
        mu_delta = _SHARE * ledger.mu_delta_left(self.ledger_dataset)
        mu, mu_delta = self._plan.gaussian_mu(new, size, mu_delta)
        ledger.record(
            self.ledger_dataset,
            charge,
            mu=mu,
            mu_delta=mu_delta,
            description=described,
            aligned=False,
            units=units or {},
        )
        self._charged, self._charged_steps = total, n_steps

    def _largest_width(self, ledger: LeakageLedger) -> float:
        """Largest of the ledger's units: losses times it are no less than those in the units."""
        first = self._runs[0]
        n_columns = int(np.prod(first.X.shape[1:]))
        names = feature_labels(getattr(self, "feature_names_in_", None), n_columns)
        spans = Spread.of(first.X, first.y, n_columns + 1).widths
        widths = ledger.widths(names, spans, classifies=is_classifier(self))
        if widths is None:
            return 1.0
        if not self.private_target:
            raise ValueError(
                "A ledger with units charges the target as well, and with `private_target=False` "
                "what is learned of it is not known. Set `private_target=True`, or use a ledger "
                "without a ceiling on leakage."
            )
        return float(widths.max())

    def release(self, *, require_guarantee: bool = False, real_arithmetic: bool = False) -> Any:
        """Return what may be published: the trained model and public numbers.

        Parameters
        ----------
        require_guarantee : bool, default=False
            Raise unless a guarantee of differential privacy holds for the released numbers, to the
            last bit: that of the default module.
        real_arithmetic : bool, default=False
            With `require_guarantee`, accept the guarantee of a module too. It holds in real
            arithmetic, where the computer sums and draws in floating point; the release says so.

        Returns
        -------
        ReleasedModel or ReleasedNetwork
            Predicts like this estimator; pickles safely. Its ``provenance_`` states noise,
            clipping, sampling, steps, the guarantee, and the arithmetic that it holds in.

        Raises
        ------
        NoGuaranteeError
            Where a guarantee is required and none holds, or in real arithmetic only.

        Warns
        -----
        PrivacyLeakWarning
            Where there was no noise, or it came from a seed or a generator.
        """
        check_is_fitted(self)
        made = provenance(self, self.n_steps_, guarantee=True)
        if require_guarantee:
            require(made, real_arithmetic)
        warn_of_noise(self._plan)
        if self.module is None:
            return self._released.of(self, made)
        return ReleasedNetwork.of(self, made)

    def __getstate__(self) -> dict[str, Any]:
        """Drop what is confidential: a pickle travels."""
        kept: dict[str, Any] = super().__getstate__()
        return {name: held for name, held in kept.items() if not name.startswith(_CONFIDENTIAL)}


def _root(values: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Square roots, and their standard errors to first order; shapes (k,)."""
    loss = np.sqrt(values)
    slope = np.divide(0.5, loss, out=np.zeros_like(loss), where=loss > 0.0)
    return loss, np.where(loss > 0.0, slope * errors, np.sqrt(errors))


def _spread(values: FloatArray, records: Any, n: int) -> FloatArray:
    """Values of some records among all, NaN for the others, (n,)."""
    table = np.full(n, np.nan)
    table[records] = values
    return table
