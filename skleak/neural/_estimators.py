"""Private networks."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from skleak._released import ReleasedLinearRegression, ReleasedLogisticRegression, ReleasedModel
from skleak.losses import LogisticLoss, PointwiseLoss, SoftmaxLoss, SquaredLoss
from skleak.neural._releasing import ClassPredictionMixin, NumberPredictionMixin, ReleasableSGD
from skleak.neural.gradients import Gradients, LinearGradients
from skleak.neural.training import Plan, Source, Training, make_sources, observer_of
from skleak.utils._arguments import import_optional
from skleak.utils._confidential import leaves_whole
from skleak.utils._labels import check_known_labels, find_classes
from skleak.utils._linalg import largest_entries
from skleak.utils._records import check_sizes, same_numbers, values_withheld, withholding
from skleak.utils._sklearn_compat import fit_context, validate_data
from skleak.utils._typing import Array, FloatArray


class PrivateSGD(ReleasableSGD):
    """Train by noisy sums of clipped gradients of random batches, and add up what they reveal."""

    @abstractmethod
    def _encode_targets(
        self, y: Array, records: Any, classes: Any = None, *, fitted: bool = False
    ) -> Array:
        """Class numbers or floats; ``classes`` may come, ``fitted`` by those of the fit."""

    @property
    def _n_classes(self) -> int | None:
        return None if self._numeric_targets else len(self.classes_)

    @property
    def _loss(self) -> "PointwiseLoss | SoftmaxLoss":
        """Loss of the default module."""
        if self._numeric_targets:
            return SquaredLoss()
        return LogisticLoss() if self._n_classes == 2 else SoftmaxLoss()

    @property
    def _loss_name(self) -> str:
        return "given" if self.loss is not None and self.module is not None else self._loss.name

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
            n_classes=self._n_classes,
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
        else:
            self._check_same_records(X, y)
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
        n = int(X.shape[0])
        self._plan = plan = Plan.of(self, n)
        self._check_ledger()
        self._runs, self._charged, self._charged_steps = [], 0.0, 0
        for source in make_sources(self.random_state, int(self.n_runs)):
            gradients = self._make_gradients(X, plan, source)
            rules = plan.learning_rate, plan.momentum, plan.grid
            training = Training(gradients, plan.mechanism, source, X, y, *rules)
            training.observer = observer_of(self, training)
            self._runs.append(training)

    def _advance(self, n_steps: int) -> None:
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
            return same_numbers(self._validated_records(X), training.X)
        X, y = self._validated(X, y, reset=False)
        y = self._encode_targets(y, records, fitted=True)
        return same_numbers(X, training.X) and np.array_equal(y, training.y)

    def _check_same_records(self, X: Any, y: Any) -> None:
        """Refuse to go on with other records: the leakage of each is added up row by row."""
        if not self._trained_on(X, y):
            raise ValueError(
                "`partial_fit` goes on with the very records that it began with, in the same "
                "order: what each of them leaks is added up row by row, and who is the same person "
                "in another table is not known. Pass those, or train on others by `fit`."
            )

    def _raw(self, X: Any) -> FloatArray:
        """Return the outputs of the model for records, (n, n_outputs)."""
        check_is_fitted(self)
        X = self._validated_records(X)
        with values_withheld(X, None):
            return self._gradients.predict_raw(X)

    def _validated_records(self, X: Any) -> Any:
        with values_withheld(X, None):
            return validate_data(self, X, reset=False, **self._takes)

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


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateSGDClassifier(ClassPredictionMixin, PrivateSGD):
    """Classifier trained by private stochastic gradient descent that measures its leakage.

    Each step draws a batch, clips the gradients of its records, adds Gaussian noise to their sum,
    and divides it by the expected size of a batch. What all steps reveal of every record is added
    up as Fisher information, with the exact factors of subsampling. A guarantee of differential
    privacy needs ``classes``, ``public="n_samples"``, noise and no seed; the report says what is
    missing. Only ``release()`` may be published. See docs/theory/private_sgd.md.

    Parameters
    ----------
    module : callable or None, default=None
        Builds a ``torch.nn.Module``; needs the extra ``torch``. None is a linear model with
        intercept, which starts at zero and needs no torch.
    noise_multiplier : float or NoiseGoal, default=1.0
        Standard deviation of the noise on the sum over ``max_grad_norm``; or `EpsilonDelta` (at its
        own delta) or `GaussianDP` (up to ``delta``) over ``max_steps``, under replacement. 0 makes
        an ordinary classifier, of infinite leakage.
    max_grad_norm : float, default=1.0
        C, where clipping sets in.
    clipping : {"smooth", "hard"}, default="smooth"
        Smooth clipping lets norms up to 1.11524 C pass. "hard" has no Fisher information.
    learning_rate, momentum : float, default=0.1, 0.5
        Step along the noisy mean gradient, and share of the step before.
    sampling : {"poisson", "fixed"}, default="poisson"
        Batches of every record by itself, or of a fixed number; afresh in each step.
    sampling_rate : float in (0, 1], default=0.01
        Probability of a record to be in a batch.
    max_steps : int, default=1000
        Number of steps.
    classes : array-like of shape (n_classes,) or None, default=None
        Class labels as public knowledge; None reads them off the labels.
    private_target : bool, default=True
        Count the label as unknown to the attacker; its derivative is formal.
    public : str or sequence of str, default=()
        "n_samples" where the number of records is public knowledge.
    accounting : {"exact", "probes"} or None, default="exact"
        Traces by the exact Jacobian or by random probes (the default module is always exact).
    n_probes : int, default=10
        Probes for each record and step.
    account_every : int, default=1
        Count every so many steps, as many times, from a random one on: unbiased, no upper bound.
    account_records : {"all", "batch"}, array-like or None, default=None
        Whom to follow: all or some rows at every step, or the members of each batch, which is
        unbiased for all. None is "all" for the default module, else "batch".
    n_runs : int, default=1
        Runs that the leakage is the mean of; the first is the model.
    delta : float, default=1e-6
        Failure probability of the guarantee.
    epsilon_budget : float or None, default=None
        Stop before epsilon at ``delta`` passes this, a number of steps known beforehand.
    max_batch : int or None, default=None
        Most gradients in memory at once.
    loss : callable or None, default=None
        ``loss(outputs, targets)`` for a module; None is the cross-entropy.
    device : str, default="auto"
        Device of torch.
    ledger : str, Path, LeakageLedger or None, default=None
        Charged with the largest loss, and with mu, before anything is published. mu is that of the
        steps up to which they are Gaussian private: ``sqrt(max_steps)`` over the noise for Poisson
        sampling at a rate of at most 1/2, twice that else; sampling does not lower it further.
    ledger_dataset : str, default="default"
        Name of the data set in the ledger.
    random_state : None, int, RandomState or Generator, default=None
        None takes noise and batches from the operating system's cryptographic randomness. All else
        can be replayed: no guarantee holds.
    verbose : int, default=0
        Above 0, a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, ascending.
    coef_, intercept_, module_ : ndarray, ndarray, torch.nn.Module
        The trained model: the first two of the default module, else the last.
    n_steps_, noise_multiplier_ : int, float
        Steps taken, and noise used.
    fisher_information_loss_, diagonal_fisher_information_loss_ : ndarray of shape (n_samples,)
        Loss of each record in 1 / (unit of the columns), from above, and its root mean square over
        the unknowns. NaN if not followed, None if not accounted for. Confidential.
    fisher_information_loss_error_, diagonal_fisher_information_loss_error_ : ndarray
        Their standard errors: zero if ``leakage_scope_`` is "this run only" and all was counted.
    leakage_scope_, history_ : str or None, dict of ndarray
        "this run only", or of how many runs the mean; loss and size of each batch, confidential.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PrivateSGDClassifier(max_steps=200, sampling_rate=0.1, random_state=0)
    >>> model.fit(scale(X), y).score(scale(X), y) > 0.9
    True
    """

    _numeric_targets: ClassVar[bool] = False
    _released: ClassVar[type[ReleasedModel]] = ReleasedLogisticRegression

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateSGD._parameter_constraints,
        "classes": ["array-like", None],
    }

    classes: npt.ArrayLike | None = None

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Train on for one pass over the records in expectation, ``1 / sampling_rate`` steps.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training records, the same at each call: what they leak is added up row by row.
        y : array-like of shape (n_samples,)
            Targets.
        classes : array-like of shape (n_classes,), default=None
            All class labels that may come, at the first call; None for those of ``y``. Only the
            parameter ``classes`` declares them to be public knowledge.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For other records than before, for classes other than the parameter ``classes``, and
            where the goal or the budget is used up.
        """
        both = classes is not None and self.classes is not None
        if both and {*np.asarray(classes).tolist()} != {*np.asarray(self.classes).tolist()}:
            raise ValueError(
                "`classes` of `partial_fit` must be those of the parameter `classes`. Leave one of "
                "them out."
            )
        return self._continue(X, y, classes)

    def _encode_targets(
        self, y: Array, records: Any, classes: Any = None, *, fitted: bool = False
    ) -> Array:
        y = column_or_1d(y, warn=True)
        if fitted:
            check_known_labels(y, self.classes_, records)
        else:
            known, name = self.classes, "`classes`"
            if known is None and classes is not None:
                known, name = classes, "the classes of `partial_fit`"
            self.classes_ = find_classes(y, known, records, type(self).__name__, name=name)
        return np.searchsorted(self.classes_, y)


class PrivateSGDRegressor(NumberPredictionMixin, PrivateSGD):
    """Regressor trained by private stochastic gradient descent that measures its leakage.

    The squared loss has gradients of any length: clipping at ``max_grad_norm`` bounds what a record
    adds, so that the guarantee holds for any target. Scale the target to the order of one. See
    `PrivateSGDClassifier` for how training and accounting work; only ``release()`` may be
    published.

    Parameters
    ----------
    module : callable or None, default=None
        Builds a ``torch.nn.Module`` with one output; needs the extra ``torch``. None is a linear
        model with intercept, which starts at zero and needs no torch.
    noise_multiplier : float or NoiseGoal, default=1.0
        Standard deviation of the noise on the sum over ``max_grad_norm``; or `EpsilonDelta` (at its
        own delta) or `GaussianDP` (up to ``delta``) over ``max_steps``, under replacement. 0 makes
        an ordinary regressor, of infinite leakage.
    max_grad_norm : float, default=1.0
        C, where clipping sets in.
    clipping : {"smooth", "hard"}, default="smooth"
        Smooth clipping lets norms up to 1.11524 C pass. "hard" has no Fisher information.
    learning_rate, momentum : float, default=0.1, 0.5
        Step along the noisy mean gradient, and share of the step before.
    sampling : {"poisson", "fixed"}, default="poisson"
        Batches of every record by itself, or of a fixed number; afresh in each step.
    sampling_rate : float in (0, 1], default=0.01
        Probability of a record to be in a batch.
    max_steps : int, default=1000
        Number of steps.
    private_target : bool, default=True
        Count the target as unknown to the attacker.
    public : str or sequence of str, default=()
        "n_samples" where the number of records is public knowledge, which a guarantee of
        differential privacy needs.
    accounting : {"exact", "probes"} or None, default="exact"
        Traces by the exact Jacobian or by random probes (the default module is always exact).
    n_probes : int, default=10
        Probes for each record and step.
    account_every : int, default=1
        Count every so many steps, as many times, from a random one on: unbiased, no upper bound.
    account_records : {"all", "batch"}, array-like or None, default=None
        Whom to follow: all or some rows at every step, or the members of each batch, which is
        unbiased for all. None is "all" for the default module, else "batch".
    n_runs : int, default=1
        Runs that the leakage is the mean of; the first is kept.
    delta : float, default=1e-6
        Failure probability of the guarantee.
    epsilon_budget : float or None, default=None
        Stop before epsilon at ``delta`` passes this, a number of steps known beforehand.
    max_batch : int or None, default=None
        Most gradients in memory at once.
    loss : callable or None, default=None
        ``loss(outputs, targets)`` for a module; None is half the squared error.
    device : str, default="auto"
        Device of torch.
    ledger : str, Path, LeakageLedger or None, default=None
        Charged with the largest loss, and with mu, before anything is published. mu is that of the
        steps up to which they are Gaussian private: ``sqrt(max_steps)`` over the noise for Poisson
        sampling at a rate of at most 1/2, twice that else; sampling does not lower it further.
    ledger_dataset : str, default="default"
        Name of the data set in the ledger.
    random_state : None, int, RandomState or Generator, default=None
        None takes noise and batches from the operating system's cryptographic randomness. All else
        can be replayed: no guarantee holds.
    verbose : int, default=0
        Above 0, a progress bar.

    Attributes
    ----------
    coef_, intercept_, module_ : ndarray, float, torch.nn.Module
        The trained model: the first two of the default module, else the last.
    n_steps_, noise_multiplier_, leakage_scope_, history_ : int, float, str, dict
        As in `PrivateSGDClassifier`.
    fisher_information_loss_, diagonal_fisher_information_loss_ : ndarray of shape (n_samples,)
        Loss of each record, and its root mean square over the unknowns. Confidential.
    fisher_information_loss_error_, diagonal_fisher_information_loss_error_ : ndarray
        Their standard errors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateSGDRegressor(max_steps=200, sampling_rate=0.1, random_state=0)
    >>> model.fit(scale(X), scale(y)).score(scale(X), scale(y)) > 0.4
    True
    """

    _numeric_targets: ClassVar[bool] = True
    _released: ClassVar[type[ReleasedModel]] = ReleasedLinearRegression

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Train on for one pass over the records in expectation, ``1 / sampling_rate`` steps.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training records, the same at each call: what they leak is added up row by row.
        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For other records than before, and where the goal or the budget is used up.
        """
        return self._continue(X, y, None)

    def _encode_targets(
        self, y: Array, records: Any, classes: Any = None, *, fitted: bool = False
    ) -> Array:
        return np.array(y, dtype=np.float64).ravel()
