"""Release private networks."""

import copy
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skleak._released import ClassDecisionMixin, TrainedMixin
from skleak._version import __version__
from skleak.exceptions import NoGuaranteeError
from skleak.neural.training import Plan
from skleak.utils._arguments import import_optional
from skleak.utils._records import values_withheld, withholding
from skleak.utils._sklearn_compat import copy_attributes, validate_data
from skleak.utils._typing import FloatArray


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


class ReleasedNetwork(TrainedMixin, BaseEstimator):
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

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        made = getattr(self, "provenance_", {})
        noise = made.get("noise_multiplier", float("nan"))
        return f"<ReleasedNetwork of {made.get('estimator', '?')}, noise_multiplier={noise:g}>"


class _Classifier(ReleasedNetwork, ClassPredictionMixin):
    """A released `PrivateSGDClassifier` with a module."""


class _Regressor(ReleasedNetwork, NumberPredictionMixin):
    """A released `PrivateSGDRegressor` with a module."""


_BATCHES = "Batches are drawn afresh and independently in each step, and kept secret."
_REAL_NUMBERS = "The accounting assumes real numbers: noise and sums are in floating point."
_EXACT = (
    "Noise and sums are integers, to the last bit: every clipped gradient is rounded to multiples "
    "of `noise_step`, within the sensitivity."
)


def provenance(estimator: Any, n_steps: int, *, guarantee: bool = False) -> dict[str, Any]:
    """Public parameters of a training of so many steps; with its guarantee on request."""
    plan: Plan = estimator._plan
    passed = estimator.loss is not None and estimator.module is not None
    made = {
        "estimator": type(estimator).__name__,
        "module": "linear" if estimator.module is None else type(estimator.module_).__name__,
        "loss": "given" if passed else estimator._loss.name,
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
    privacy = {"reasons": plan.obstacles} if plan.obstacles else plan.privacy(n_steps, n_parameters)
    if privacy["reasons"]:
        return {"differential_privacy": None, "no_guarantee": "; ".join(privacy["reasons"])}
    stated = {name: privacy[name] for name in ("epsilon", "delta", "relation", "about")}
    stated |= {"exact": plan.grid is not None, "arithmetic": plan.arithmetic}
    return {"differential_privacy": stated, "no_guarantee": None}


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
