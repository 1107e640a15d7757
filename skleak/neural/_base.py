"""Train by private stochastic gradient descent, and measure what that leaks."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from skleak._released import ReleasedModel, warn_of_release
from skleak.accounting import LeakageLedger
from skleak.influence.jacobian import norm_of_joint
from skleak.losses import LogisticLoss, PointwiseLoss, SoftmaxLoss, SquaredLoss
from skleak.mechanisms import NoiseGoal
from skleak.mechanisms.protocol import ChargedParameters
from skleak.neural._releasing import ReleasedNetwork, provenance, require
from skleak.neural.gradients import Gradients, LinearGradients
from skleak.neural.information import Totals, mean_totals
from skleak.neural.report import PrivateSGDReport, Spread, build_report
from skleak.neural.training import Plan, Source, Training, make_sources, observer_of
from skleak.utils._arguments import check_choice, check_integers, import_optional
from skleak.utils._confidential import warn_of_written_seed
from skleak.utils._linalg import largest_entries
from skleak.utils._records import (
    check_sizes,
    feature_labels,
    same_numbers,
    values_withheld,
    withholding,
)
from skleak.utils._sklearn_compat import (
    Interval,
    ShownAttributesMixin,
    StrOptions,
    fit_context,
    leaves_whole,
    validate_data,
)
from skleak.utils._typing import Array, FloatArray

# How attributes begin that pickles leave out: records, and what was learned of single ones.
_CONFIDENTIAL = ("_runs", "_charged", "_totals", "history_", "fisher_", "diagonal_fisher_")
# Standard errors that are added to a loss that is only estimated, before a ledger is charged.
_CAUTION = 3.0
# Part of the ledger's `mu_delta` that is left which one charge takes.
_SHARE = 0.01


@dataclass(eq=False, repr=False)
class PrivateSGD(ChargedParameters, ShownAttributesMixin, BaseEstimator):
    """Train by noisy sums of clipped gradients of random batches, and add up what they reveal."""

    _numeric_targets: ClassVar[bool]
    _released: ClassVar[type[ReleasedModel]]

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
        **ChargedParameters._parameter_constraints,
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
    verbose: int = 0

    @abstractmethod
    def _encode_targets(
        self, y: Array, records: Any, classes: Any = None, *, fitted: bool = False
    ) -> Array:
        """Class numbers or floats; ``classes`` may come, ``fitted`` by those of the fit."""

    @property
    def _loss(self) -> "PointwiseLoss | SoftmaxLoss":
        """Loss of the default module."""
        if self._numeric_targets:
            return SquaredLoss()
        return LogisticLoss() if len(self.classes_) == 2 else SoftmaxLoss()

    def _make_gradients(self, X: Any, plan: Plan, source: Source) -> Gradients:
        """Return the model at its initial parameters, for records (n, ...)."""
        loss, clipping = self._loss, plan.mechanism.clipping
        if self.module is None:
            k = len(self.classes_) if isinstance(loss, SoftmaxLoss) else 1
            return LinearGradients(loss, clipping, X.shape[1], k)
        import_optional("torch", "torch", "A `module`")
        neural = import_optional("skleak.neural.torch", "torch", "A `module`")
        made: Gradients = neural.TorchGradients(
            self.module,
            clipping,
            record_shape=tuple(X.shape[1:]),
            n_classes=None if self._numeric_targets else len(self.classes_),
            rng=source.generator,
            loss=self.loss,
            max_batch=self.max_batch,
            device=self.device,
            differentiable=self.accounting is not None and clipping.smooth,
        )
        return made

    @fit_context(prefer_skip_nested_validation=True)
    @leaves_whole
    @withholding
    def fit(self, X: Any, y: Any) -> Self:
        """Train the model, and add up what the training reveals of every record.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training records; with a ``module``, also arrays of shape (n_samples, ...).
        y : array-like of shape (n_samples,)
            Targets. There are no sample weights: a record is drawn like any other.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid data, a goal or budget out of reach, or a loss that is no longer finite.
        LeakageBudgetError
            Where the release would pass a ceiling of the ledger; nothing is kept of the training.
        """
        self._begin(X, y, None)
        self._advance(self._plan.n_steps)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    @leaves_whole
    @withholding
    def _continue(self, X: Any, y: Any, classes: Any) -> Self:
        """Take the steps of one pass over the data, in expectation, after those before."""
        if not hasattr(self, "_plan"):
            self._begin(X, y, classes)
        elif not self._trained_on(X, y):
            raise ValueError(
                "`partial_fit` goes on with the very records that it began with, in the same "
                "order: what each of them leaks is added up row by row, and who is the same person "
                "in another table is not known. Pass those, or train on others by `fit`."
            )
        n_steps = int(np.ceil(1.0 / self._plan.mechanism.sampling_rate))
        if self._plan.is_limit:
            left = self._plan.n_steps - self._runs[0].n_steps
            if left == 0:
                raise ValueError(
                    f"All {self._plan.n_steps} steps that `noise_multiplier` or `epsilon_budget` "
                    "allow were taken. Raise `max_steps` or the budget, and fit again."
                )
            n_steps = min(n_steps, left)
        states = [run.state() for run in self._runs]
        try:
            self._advance(n_steps)
        except BaseException:
            for run, state in zip(self._runs, states, strict=True):
                run.restore(state)
            raise
        return self

    def _begin(self, X: Any, y: Any, classes: Any) -> None:
        records = X
        X, y = self._validated(X, y)
        y = self._encode_targets(y, records, classes)
        self._plan = plan = Plan.of(self, int(X.shape[0]))
        warn_of_written_seed(self.random_state if plan.mechanism.noise_multiplier else None)
        self._runs, self._charged, self._charged_steps = [], 0.0, 0
        for source in make_sources(self.random_state, int(self.n_runs)):
            gradients = self._make_gradients(X, plan, source)
            rules = plan.learning_rate, plan.momentum, plan.grid
            training = Training(gradients, plan.mechanism, source, X, y, *rules)
            training.observer = observer_of(self, training)
            self._runs.append(training)

    def _advance(self, n_steps: int) -> None:
        noisy = self._plan.mechanism.noise_multiplier > 0.0
        observers = [run.observer for run in self._runs]
        if self.ledger is not None and noisy and not all(o and o.follows_all for o in observers):
            # Before anything is drawn, and also where the ledger was set later.
            raise ValueError(
                "The ledger takes no release of unknown leakage: it needs `clipping='smooth'`, an "
                "`accounting`, and all records in `account_records`, from the first step on."
            )
        total = n_steps * len(self._runs)
        with tqdm(total=total, desc="private SGD", unit="step", disable=not self.verbose) as bar:

            def notice(loss: float) -> None:
                bar.set_postfix(loss=f"{loss:.3g}", refresh=False)
                bar.update()

            for run in self._runs:
                try:
                    run.run(n_steps, notice)
                except FloatingPointError as error:
                    raise ValueError(
                        f"The training broke down after {run.n_steps} steps: {error}. Scale the "
                        "columns, or lower `learning_rate`."
                    ) from error
        self._publish()

    def _validated(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, Array]:
        """Return the records that are kept, and targets as they came."""
        with values_withheld(X, y):
            X, y = validate_data(
                self,
                X,
                y,
                reset=reset,
                **self._takes,
                copy=True,  # the records are kept: later edits must not reach them
                y_numeric=self._numeric_targets,
            )
        X = sparse.csr_array(X) if sparse.issparse(X) else X
        if self.module is None:
            top = float(np.abs(y).max()) if self._numeric_targets else 0.0
            check_sizes(len(y), largest_entries(X), top, getattr(self, "feature_names_in_", None))
        return X, y

    def _trained_on(self, X: Any, y: Any = None) -> bool:
        """Return True for the records of the fit, in their order; (n, ...) and (n,) or None."""
        training, records = self._confidential_runs()[0], X
        if y is None:
            with values_withheld(X, None):
                return same_numbers(validate_data(self, X, reset=False, **self._takes), training.X)
        X, y = self._validated(X, y, reset=False)
        y = self._encode_targets(y, records, fitted=True)
        return same_numbers(X, training.X) and np.array_equal(y, training.y)

    def _raw(self, X: Any) -> FloatArray:
        """Return the outputs of the model for records, (n, n_outputs)."""
        check_is_fitted(self)
        with values_withheld(X, None):
            X = validate_data(self, X, reset=False, **self._takes)
        with values_withheld(X, None):
            return self._gradients.predict_raw(X)

    @property
    def _takes(self) -> dict[str, Any]:
        """Kinds of records that the module takes, as scikit-learn checks them."""
        if self.module is None:
            return {"accept_sparse": "csr", "dtype": np.float64}
        return {"allow_nd": True, "dtype": [np.float64, np.float32]}

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that the default module takes sparse records."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.module is None
        return tags

    @property
    def _declares_classes(self) -> bool:
        """True if no class was read off the labels; regressors have none."""
        return self._numeric_targets or getattr(self, "classes", None) is not None

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
        sizes = np.array(first.batch_sizes)
        self.history_ = {"loss": np.array(first.losses), "batch_size": sizes}
        if isinstance(first.gradients, LinearGradients):
            # As scikit-learn shapes them.
            weights, intercept = first.gradients.split(first.gradients.parameters)
            single = self._numeric_targets
            self.coef_ = weights[0] if single else weights
            self.intercept_: float | FloatArray = float(intercept[0]) if single else intercept

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
                loss, error = totals.losses(part, n, unknowns)
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
            part, factor = "trace", 1.0
            if amplification == "printed":
                part, factor = "plain", self._plan.mechanism.printed_factor(self._plan.delta)
            return np.sqrt(factor) * totals.losses(part, n, totals.n_unknowns)[0][rows]
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

    def _charge_ledger(self, n_steps: int) -> None:
        """Charge the data set for the steps since the last time, or refuse to publish them."""
        if self.ledger is None:
            return
        ledger = LeakageLedger.open(self.ledger)
        losses = self.fisher_information_loss_ + _CAUTION * self.fisher_information_loss_error_
        if self._plan.seeded:
            losses = np.full_like(losses, np.inf)  # noise from a seed can be drawn again
        losses = losses * self._largest_width(ledger)
        total = float(np.max(losses))
        before = self._charged if np.isfinite(self._charged) else 0.0
        charge = np.sqrt(np.maximum(losses**2 - before**2, 0.0))
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
            description=provenance(self, n_steps) | {"accounting": self.leakage_scope_},
            aligned=False,
            units=ledger.units or {},
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
        noise = self._plan.mechanism.noise_multiplier
        warn_of_release(seeded=self._plan.seeded, noise_scale=noise, name="noise_multiplier")
        if self.module is None:
            return self._released.of(self, made)
        return ReleasedNetwork.of(self, made)

    def __getstate__(self) -> dict[str, Any]:
        """Drop what is confidential: a pickle travels."""
        kept: dict[str, Any] = super().__getstate__()
        return {name: held for name, held in kept.items() if not name.startswith(_CONFIDENTIAL)}
