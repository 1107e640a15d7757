"""The base of private networks."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from skleak.neural._plan import Plan, accounting_of
from skleak.neural._releasing import ReleasableSGD
from skleak.neural.gradients import Clipping, Gradients
from skleak.neural.information import Observer
from skleak.neural.training import Source, Training, make_sources
from skleak.utils._arguments import import_optional
from skleak.utils._confidential import leaves_whole
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

    @abstractmethod
    def _make_gradients(self, X: Any, plan: Plan, source: Source) -> Gradients:
        """Return the model at its initial parameters."""

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
        self._check_ledger(n)
        self._runs, self._charged, self._charged_steps = [], 0.0, 0
        for source in make_sources(self.random_state, int(self.n_runs)):
            gradients = self._make_gradients(X, plan, source)
            rules = plan.learning_rate, plan.momentum, plan.grid
            training = Training(gradients, plan.mechanism, source, X, y, *rules)
            accounting = accounting_of(self, gradients, n)
            if accounting is not None and plan.mechanism.noise_multiplier > 0.0:
                parts = (gradients, plan.mechanism, accounting, X, y, source.generator)
                training.observer = Observer(*parts)
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
        linear = self.module is None
        with values_withheld(X, y):
            X, y = validate_data(
                self,
                X,
                y,
                reset=reset,
                accept_sparse="csr" if linear else False,
                allow_nd=not linear,
                dtype=np.float64 if linear else [np.float64, np.float32],
                copy=True,  # the records are kept: later edits must not reach them
                y_numeric=self._numeric_targets,
            )
        X = sparse.csr_array(X) if sparse.issparse(X) else X
        if linear:
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
        linear = self.module is None
        with values_withheld(X, None):
            return validate_data(
                self,
                X,
                reset=False,
                accept_sparse="csr" if linear else False,
                allow_nd=not linear,
                dtype=[np.float64, np.float32],
            )

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that the default module takes sparse records."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.module is None
        return tags


def torch_gradients_of(
    estimator: Any, X: Any, clipping: Clipping, n_classes: int | None, source: Source
) -> Gradients:
    """Gradients of the module of an estimator, for records (n, ...)."""
    import_optional("torch", "torch", "A `module`")
    neural = import_optional("skleak.neural.torch", "torch", "A `module`")
    accounted = estimator.accounting is not None and clipping.smooth
    made: Gradients = neural.torch_gradients(
        estimator.module,
        clipping,
        record_shape=tuple(X.shape[1:]),
        n_classes=n_classes,
        rng=source.generator,
        loss=estimator.loss,
        max_batch=estimator.max_batch,
        device=estimator.device,
        differentiable=accounted,
    )
    return made
