"""What all attacks share: the constraints of their parameters, and a guarded fit."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from skleak.utils._confidential import ConfidentialMixin
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import (
    HasMethods,
    Interval,
    NoMetadataRequests,
    StrOptions,
    fit_context,
    leaves_whole,
)

F = TypeVar("F", bound=Callable[..., Any])


def guarded(fit: F) -> F:
    """Wrap a ``fit`` to check the parameters, and to show no value and change nothing on an error.

    Nested parameters are validated by the estimators themselves.
    """
    whole = leaves_whole(withholding(fit))
    return fit_context(prefer_skip_nested_validation=False)(whole)


class Attack(ConfidentialMixin, NoMetadataRequests, BaseEstimator):
    """An attack on a release; scikit-learn checks those of the parameters that it has."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "records": ["array-like", slice, None],
        "values": ["array-like", None],
        "classifier": [HasMethods(["fit", "predict"]), None],
        "refit_preprocessing": ["boolean"],
        "known_target": ["boolean"],
        "bounds": [StrOptions({"others"}), "array-like", None],
        "prior": [Interval(Real, 0, 1, closed="neither")],
        "gradient_norm": [callable, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }
