"""The parameters of the estimators trained by private stochastic gradient descent."""

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from skleak.accounting import LeakageLedger
from skleak.mechanisms import NoiseGoal
from skleak.utils._sklearn_compat import Interval, ShownAttributesMixin, StrOptions
from skleak.utils._typing import RandomState


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

    def __init__(
        self,
        module: "Callable[..., Any] | None" = None,
        *,
        noise_multiplier: float | NoiseGoal = 1.0,
        max_grad_norm: float = 1.0,
        clipping: Literal["smooth", "hard"] = "smooth",
        learning_rate: float = 0.1,
        momentum: float = 0.5,
        sampling: Literal["poisson", "fixed"] = "poisson",
        sampling_rate: float = 0.01,
        max_steps: int = 1000,
        private_target: bool = True,
        public: "str | Sequence[str]" = (),
        accounting: Literal["exact", "probes"] | None = "exact",
        n_probes: int = 10,
        account_every: int = 1,
        account_records: Literal["all", "batch"] | npt.ArrayLike | None = None,
        n_runs: int = 1,
        delta: float = 1e-6,
        epsilon_budget: float | None = None,
        max_batch: int | None = None,
        loss: "Callable[..., Any] | None" = None,
        device: str = "auto",
        ledger: "str | PathLike[str] | LeakageLedger | None" = None,
        ledger_dataset: str = "default",
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.noise_multiplier = noise_multiplier
        self.max_grad_norm = max_grad_norm
        self.clipping = clipping
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.sampling = sampling
        self.sampling_rate = sampling_rate
        self.max_steps = max_steps
        self.private_target = private_target
        self.public = public
        self.accounting = accounting
        self.n_probes = n_probes
        self.account_every = account_every
        self.account_records = account_records
        self.n_runs = n_runs
        self.delta = delta
        self.epsilon_budget = epsilon_budget
        self.max_batch = max_batch
        self.loss = loss
        self.device = device
        self.ledger = ledger
        self.ledger_dataset = ledger_dataset
        self.random_state = random_state
        self.verbose = verbose
