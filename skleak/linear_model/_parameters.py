"""The parameters that all private linear models have."""

from collections.abc import Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from skleak._released import ReleasedModel
from skleak.accounting import LeakageLedger
from skleak.mechanisms import NoiseGoal, NoiseKind, Reweighting
from skleak.utils._sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    ShownAttributesMixin,
    StrOptions,
)
from skleak.utils._typing import RandomState

NoiseCovariance: TypeAlias = (
    Literal["isotropic", "curvature", "minimax"] | npt.ArrayLike | NoiseKind
)


class LinearModelParameters(ShownAttributesMixin, CallbackSupportMixin, BaseEstimator):
    """Parameters and their constraints, as scikit-learn wants them."""

    # The leakage of records is no more for the screen than for a release.
    _shown_attributes: ClassVar[tuple[str, ...]] = ReleasedModel._published

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise_scale": [Interval(Real, 0, None, closed="left"), NoiseGoal],
        "noise_covariance": [str, "array-like", NoiseKind],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "private_target": ["boolean"],
        "reweighting": [StrOptions({"irfil", "total"}), Reweighting, None],
        "data_norm": [Interval(Real, 0, None, closed="neither"), None],
        "public": ["array-like", str],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
        "ledger": [str, PathLike, LeakageLedger, None],
        "ledger_dataset": [str],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        noise_scale: float | NoiseGoal = 0.01,
        *,
        noise_covariance: NoiseCovariance = "isotropic",
        alpha: float = 1e-2,
        fit_intercept: bool = True,
        private_target: bool = True,
        reweighting: Literal["irfil", "total"] | Reweighting | None = None,
        data_norm: float | None = None,
        public: "str | Sequence[str]" = (),
        max_iter: int = 100,
        tol: float = 1e-10,
        random_state: RandomState = None,
        ledger: "str | PathLike[str] | LeakageLedger | None" = None,
        ledger_dataset: str = "default",
        verbose: int = 0,
    ) -> None:
        self.noise_scale = noise_scale
        self.noise_covariance = noise_covariance
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.private_target = private_target
        self.reweighting = reweighting
        self.data_norm = data_norm
        self.public = public
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.ledger = ledger
        self.ledger_dataset = ledger_dataset
        self.verbose = verbose
