"""What a mechanism is, which calibrates from public numbers; noise on a minimizer; a selection."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skleak.accounting import LeakageLedger, discrete_gaussian_epsilon
from skleak.accounting.discrete import (
    discrete_gaussian_cover,
    discrete_gaussian_delta,
    discrete_gaussian_rho,
)
from skleak.accounting.selection import (
    selection_delta,
    selection_epsilon,
    selection_mu,
    trial_mu,
    trials_gamma,
)
from skleak.mechanisms.goals import EpsilonDelta, GaussianDP, PublicNoiseGoal, PublicProblem
from skleak.utils._arguments import as_result, check_real
from skleak.utils._typing import RandomState


@dataclass(eq=False, repr=False)
class ChargedParameters:
    """Parameters of an estimator that draws noise in its ``fit``, and charges a ledger before."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "random_state": ["random_state", np.random.Generator],
        "ledger": [str, PathLike, LeakageLedger, None],
        "ledger_dataset": [str],
    }

    random_state: RandomState = field(default=None, kw_only=True)
    ledger: "str | PathLike[str] | LeakageLedger | None" = field(default=None, kw_only=True)
    ledger_dataset: str = field(default="default", kw_only=True)

    def _charge(
        self, mu: float | None, *, mu_delta: float = 0.0, most: float | None = None, **about: Any
    ) -> None:
        """Charge the ledger, if any; ``most`` is the largest loss, if known, in no ledger's units.

        Shapes: all are numbers; ``mu`` is None without a guarantee.
        """
        if self.ledger is None:
            return
        ledger = LeakageLedger.open(self.ledger)
        ledger.record(
            self.ledger_dataset,
            None if most is None or ledger.units else [most],
            mu=mu,
            mu_delta=mu_delta,
            description={"estimator": type(self).__name__} | about,
            aligned=False,
        )


@dataclass(frozen=True)
class PublicTable:
    """Public numbers of a table and of the model to be fitted, from which noise is calibrated.

    Parameters
    ----------
    n_records, n_features : int
        Number of records and of columns.
    data_norm : float
        Largest norm of a record.
    n_parameters : int or None, default=None
        Number of parameters of the model; None for ``n_features``.
    target_bound : float or None, default=None
        Largest size of a target.
    fit_intercept : bool, default=False
        The model has an intercept.
    alpha : float or None, default=None
        Penalty relative to the mean loss; None to choose it by the goal.
    total, largest_weight : float or None, float
        Sum of the sample weights, None for ``n_records``; and the largest.
    n_classes : int, default=2
        Number of classes of a classifier.

    Examples
    --------
    >>> PublicTable(100, 3, 1.0).largest_weight
    1.0
    """

    n_records: int
    n_features: int
    data_norm: float
    n_parameters: int | None = None
    target_bound: float | None = None
    fit_intercept: bool = False
    alpha: float | None = None
    total: float | None = None
    largest_weight: float = 1.0
    n_classes: int = 2


class Mechanism(ABC):
    """Calibrate the noise of a model, as the ``mechanism`` of an estimator.

    Subclasses are frozen dataclasses whose constructors only store. What ``calibrate`` returns
    holds public numbers: of a guarantee ``mu``, ``composed_mu``, ``epsilon(delta)`` and
    ``profile(epsilon)``.

    Attributes
    ----------
    name : str
        By which an estimator takes it.
    title : str
        By which a guarantee states it.
    adds_to_minimizer : bool
        True if the minimizer is found first, and what noise on it leaks is measured.
    takes_weights : bool
        True if records may have sample weights.
    unmeasured : str
        Why there are no measures of leakage, where there are none.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    adds_to_minimizer: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = True
    unmeasured: ClassVar[str] = ""

    @abstractmethod
    def calibrate(self, goal: Any, public: Any) -> Any:
        """Find the least noise of a goal, from public numbers alone."""

    @abstractmethod
    def obstacles(self, given: dict[str, Any]) -> dict[str, bool]:
        """Say what of the public parameters of an estimator does not go with it, and if it is so.

        Parameters
        ----------
        given : dict
            Parameters of the estimator by name.

        Returns
        -------
        dict of str to bool
            What is needed; True where it is missing.
        """


class GridNoise(ABC):
    """Discrete Gaussian noise, whose privacy follows from a distance over it."""

    @property
    @abstractmethod
    def _on_grid(self) -> dict[str, Any]:
        """Distance over the noise, and sizes of its grid, as accounting takes them."""

    @property
    def composed_mu(self) -> float:
        """A mu at which Gaussian noise is no more private than the release."""
        return float(discrete_gaussian_cover(**self._on_grid))

    def epsilon(self, delta: float) -> float:
        """Bound epsilon of the release at a delta.

        Parameters
        ----------
        delta : float in (0, 1)
            Probability that the bound may fail.

        Returns
        -------
        float
        """
        return float(discrete_gaussian_epsilon(delta=delta, **self._on_grid))

    def profile(self, epsilon: npt.ArrayLike) -> Any:
        """Bound delta of the release at an epsilon.

        Parameters
        ----------
        epsilon : float or array-like, at least 0
            Bound on the log-likelihood ratio, in nats; finite.

        Returns
        -------
        float or ndarray
        """
        return discrete_gaussian_delta(epsilon=epsilon, **self._on_grid)


@dataclass(frozen=True)
class OutputNoise(GridNoise):
    """Public numbers of noise on a minimizer.

    Parameters
    ----------
    noise_scale : float
        Standard deviation of the noise on each parameter.
    distance : float
        Largest change of the minimizer (L2) when a record is replaced, over the noise; nan where
        there is none.
    n_parameters : int
        Number of parameters.
    relative_step : float
        Step of the grid of the noise over its least standard deviation.
    rows_per_person : int or None, default=None
        As of the goal.

    Examples
    --------
    >>> noise = OutputNoise(0.1, 1.0, 3, 2.0**-30)
    >>> round(noise.profile(1.0), 6), round(noise.epsilon(1e-6), 3)
    (0.126937, 4.887)
    """

    noise_scale: float
    distance: float
    n_parameters: int
    relative_step: float
    rows_per_person: int | None = None

    @property
    def _on_grid(self) -> dict[str, Any]:
        sizes = {"n_parameters": self.n_parameters, "relative_step": self.relative_step}
        return {"mu": self.distance, **sizes}

    @property
    def rho(self) -> float:
        """Zero-concentrated differential privacy."""
        return float(discrete_gaussian_rho(**self._on_grid))


@dataclass(frozen=True)
class OutputPerturbation(Mechanism):
    """Noise on the minimizer, as the ``mechanism`` "output" of an estimator.

    Examples
    --------
    >>> from skleak.mechanisms import GaussianDP
    >>> public = PublicProblem(n_parameters=1, relative_step=0.0, unit_sensitivity=0.1)
    >>> OutputPerturbation().calibrate(GaussianDP(0.5), public).noise_scale
    0.2
    """

    name: ClassVar[str] = "output"
    title: ClassVar[str] = "output perturbation"
    adds_to_minimizer: ClassVar[bool] = True

    def calibrate(self, goal: PublicNoiseGoal, public: PublicProblem) -> OutputNoise:
        """Find the least noise of a goal, from public numbers alone.

        Parameters
        ----------
        goal : PublicNoiseGoal
            The goal.
        public : PublicProblem
            Public knowledge of the fit.

        Returns
        -------
        OutputNoise
        """
        scale = float(goal.resolve(public))
        distance = public.unit_sensitivity / scale if scale else float("inf")
        sizes = public.n_parameters, public.relative_step
        return OutputNoise(scale, distance, *sizes, public.rows_per_person)

    def obstacles(self, given: dict[str, Any]) -> dict[str, bool]:
        """Say what of the public parameters of an estimator does not go with it, and if it is so.

        Parameters
        ----------
        given : dict
            Parameters of the estimator by name.

        Returns
        -------
        dict of str to bool
        """
        auto = '`alpha` must be a number: "auto" chooses the penalty of other mechanisms'
        return {auto: isinstance(given["alpha"], str)}


@dataclass(frozen=True)
class Selection(Mechanism):
    """The best of a random number of private trials.

    Parameters
    ----------
    expected_trials : float, default=20.0
        Mean number of trials.
    eta : float, default=0.0
        Shape of its law.

    Examples
    --------
    >>> Selection(20.0).calibrate(GaussianDP(0.5)).composed_mu <= 0.5
    True
    """

    expected_trials: float = 20.0
    eta: float = 0.0

    name: ClassVar[str] = "selection"
    title: ClassVar[str] = "selection among trials"

    def calibrate(self, goal: EpsilonDelta | GaussianDP, public: Any = None) -> "SelectionNoise":
        """Find the largest mu of a trial at which the search keeps a goal.

        Parameters
        ----------
        goal : EpsilonDelta or GaussianDP
            The goal of the search.
        public : None
            Nothing else is needed.

        Returns
        -------
        SelectionNoise

        Raises
        ------
        ValueError
            For a goal out of reach.
        """
        law = float(self.eta), trials_gamma(self.eta, self.expected_trials)
        goal.check()
        names = ("mu",) if isinstance(goal, GaussianDP) else ("epsilon", "delta")
        mu = trial_mu(*law, **{name: float(getattr(goal, name)) for name in names})
        if not mu > 0.0:
            raise ValueError(f"{goal} is out of reach of any search. Pass a larger goal.")
        return SelectionNoise(mu, float(self.expected_trials), *law)

    def obstacles(self, given: dict[str, Any]) -> dict[str, bool]:
        """Say what of the public parameters of an estimator does not go with it, and if it is so.

        Parameters
        ----------
        given : dict
            Parameters of the estimator by name.

        Returns
        -------
        dict of str to bool
        """
        own = ("random_state", "ledger")
        return {
            f"`{name}` of the estimator must be None": given.get(name) is not None for name in own
        }


@dataclass(frozen=True)
class SelectionNoise:
    """Public numbers of the best of a random number of private trials.

    Parameters
    ----------
    trial_mu : float
        The mu of a trial, a release and its score together.
    expected_trials, eta : float
        Mean and shape of the law of the number of trials.
    gamma : float
        Its parameter.

    Examples
    --------
    >>> noise = Selection(20.0).calibrate(EpsilonDelta(1.0, 1e-6))
    >>> round(noise.trial_mu, 3), noise.epsilon(1e-6) <= 1.0
    (0.156, True)
    """

    mechanism: ClassVar[type[Mechanism]] = Selection

    trial_mu: float
    expected_trials: float
    eta: float
    gamma: float

    @property
    def composed_mu(self) -> float:
        """A mu at which Gaussian noise is no more private than the release."""
        return selection_mu(self.trial_mu, self.eta, self.gamma)

    mu = composed_mu

    def epsilon(self, delta: float) -> float:
        """Bound epsilon of the release at a delta.

        Parameters
        ----------
        delta : float in (0, 1)
            Probability that the bound may fail.

        Returns
        -------
        float
        """
        return selection_epsilon(self.trial_mu, delta, self.eta, self.gamma)

    def profile(self, epsilon: npt.ArrayLike) -> Any:
        """Bound delta of the release at an epsilon.

        Parameters
        ----------
        epsilon : float or array-like, at least 0
            Bound on the log-likelihood ratio, in nats; finite.

        Returns
        -------
        float or ndarray
        """
        loss = check_real("epsilon", epsilon, finite=True)
        return as_result(selection_delta(self.trial_mu, loss, self.eta, self.gamma))
