"""Estimators trained by private stochastic gradient descent."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import column_or_1d

from skleak._released import ReleasedLinearRegression, ReleasedLogisticRegression, ReleasedModel
from skleak.neural._base import PrivateSGD
from skleak.neural._releasing import ClassPredictionMixin, NumberPredictionMixin
from skleak.utils._labels import encoded, find_classes
from skleak.utils._typing import Array


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
        if not fitted:
            known, name = self.classes, "`classes`"
            if known is None and classes is not None:
                known, name = classes, "the classes of `partial_fit`"
            self.classes_ = find_classes(y, known, records, type(self).__name__, name=name)
        return encoded(y, self.classes_, records).astype(np.intp)


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
