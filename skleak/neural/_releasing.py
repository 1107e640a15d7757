"""What a trained model says of its leakage, and how it becomes public."""

from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skleak._released import ReleasedModel
from skleak.accounting import LeakageLedger
from skleak.influence.jacobian import norm_of_joint
from skleak.neural._network import ReleasedNetwork
from skleak.neural._parameters import PrivateSGDParameters
from skleak.neural._plan import Plan, Run
from skleak.neural._provenance import provenance, require, warn_of_noise
from skleak.neural.gradients import Gradients
from skleak.neural.information import Totals, mean_totals
from skleak.neural.report import PrivateSGDReport, Trained, build_report
from skleak.utils._arguments import check_choice, check_integers
from skleak.utils._features import feature_labels
from skleak.utils._typing import FloatArray

# What is dropped from pickles: records, and what was learned of single ones.
_CONFIDENTIAL = (
    "_runs",
    "_charged",
    "_charged_steps",
    "_totals",
    "history_",
    "fisher_information_loss_",
    "diagonal_fisher_information_loss_",
    "fisher_information_loss_error_",
    "diagonal_fisher_information_loss_error_",
)
# Standard errors that are added to a loss that is only estimated, before a ledger is charged.
_CAUTION = 3.0
# Part of the ledger's `mu_delta` that is left which one charge takes.
_SHARE = 0.01


class ReleasableSGD(PrivateSGDParameters):
    """Leakage of the records of a training, and the boundary of what may leave."""

    _numeric_targets: ClassVar[bool]
    _released: ClassVar[type[ReleasedModel]]

    _plan: Plan
    _runs: list[Run]
    _charged: float
    _charged_steps: int
    _gradients: Gradients
    _totals: "Totals | None"

    @property
    def _declares_classes(self) -> bool:
        """True if no class was read off the labels; regressors have none."""
        return True

    def _publish(self) -> None:
        """Set the fitted attributes after some steps."""
        first = self._runs[0].training
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
        self._set_model()

    def _set_model(self) -> None:
        """Set the attributes that hold the model itself."""
        if self.module is not None:
            return
        weights, intercept = self._gradients.split(self._gradients.parameters)  # type: ignore[attr-defined]
        self.coef_, self.intercept_ = self._shaped(weights, intercept)

    @property
    def module_(self) -> Any:
        """The module that is trained; confidential, as it may keep records."""
        module = getattr(getattr(self, "_gradients", None), "module", None)
        if module is None:
            raise AttributeError(f"This {type(self).__name__} has no trained module.")
        return module

    def _shaped(self, weights: FloatArray, intercept: FloatArray) -> tuple[Any, Any]:
        """Coefficients and intercept as scikit-learn shapes them, of (K, d) and (K,)."""
        return weights, intercept

    def _measure(self, n: int) -> None:
        """Losses of all records from the totals: None without, infinite without noise."""
        totals, names = self._totals, ("", "diagonal_")
        if self._plan.mechanism.noise_multiplier == 0.0:
            found = {name: (np.full(n, np.inf), np.zeros(n)) for name in names}
        elif totals is None:
            found = {}
        else:
            whole = (totals.trace, totals.trace_error)
            if totals.norm is not None and totals.norm_error is not None:
                whole = (totals.norm, totals.norm_error)
            share = totals.trace / totals.n_unknowns, totals.trace_error / totals.n_unknowns
            pairs = (_root(*whole), _root(*share))
            found = {
                name: (_spread(loss, totals.records, n), _spread(error, totals.records, n))
                for name, (loss, error) in zip(names, pairs, strict=True)
            }
        for name in names:
            loss, error = found.get(name, (None, None))
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
        n = int(self._confidential_runs()[0].training.X.shape[0])
        rows = np.arange(n) if records is None else check_integers("records", records, n)
        totals = self._known_totals()
        if norm == "trace":
            trace = totals.trace
            if amplification == "printed":
                trace = self._plan.mechanism.printed_factor(self._plan.delta) * totals.plain
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
        row = int(check_integers("record", record, int(runs[0].training.X.shape[0])))
        matrices = [run.matrix(row, bool(self.private_target)) for run in runs]
        return np.asarray(sum(matrices) / len(matrices))

    def _known_totals(self) -> Totals:
        self._confidential_runs()
        if self._totals is None:
            raise ValueError(
                f"The Fisher information of this training is not known: {self._unknown()}."
            )
        return self._totals

    def _unknown(self) -> str:
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
        training, plan = self._confidential_runs()[0].training, self._plan
        names = [f"{kind}fisher_information_loss" for kind in ("", "diagonal_")]
        parts = [f"{name}{part}" for name in names for part in ("", "_error")]
        losses = {part: getattr(self, f"{part}_") for part in parts}
        return build_report(
            Trained(
                estimator=type(self).__name__,
                mechanism=plan.mechanism,
                n_steps=self.n_steps_,
                delta=plan.delta,
                seeded=plan.seeded,
                undeclared=plan.undeclared,
                private_target=bool(self.private_target),
                totals=self._totals,
                losses={part: loss for part, loss in losses.items() if loss is not None},
                missing=self._unknown(),
                X=training.X,
                y=training.y,
                settings={"noise_goal": plan.goal, "arithmetic": plan.arithmetic},
            )
        )

    def _confidential_runs(self) -> list[Run]:
        check_is_fitted(self)
        if not hasattr(self, "_runs"):
            raise NotFittedError(
                f"This {type(self).__name__} was unpickled or copied, which drops its training "
                "records and what was learned of each. Ask the estimator that was fitted, or fit "
                "again."
            )
        return self._runs

    def _check_ledger(self, n: int) -> None:
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
        new, size = n_steps - self._charged_steps, self._runs[0].training.gradients.n_parameters
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
        X, y = self._runs[0].training.X, self._runs[0].training.y
        if sparse.issparse(X):
            columns = (X.max(axis=0) - X.min(axis=0)).toarray().ravel()
        else:
            columns = np.ptp(X.reshape(len(X), -1), axis=0)
        names = feature_labels(getattr(self, "feature_names_in_", None), len(columns))
        spans = np.append(columns, np.ptp(y))
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
        state = dict(super().__getstate__())
        for name in _CONFIDENTIAL:
            state.pop(name, None)
        return state


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
