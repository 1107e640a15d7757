"""A network as it may be published: it predicts, and knows nothing else."""

import copy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skleak._version import __version__
from skleak.neural._predictions import ClassPredictionMixin, NumberPredictionMixin
from skleak.utils._optional import import_optional
from skleak.utils._records import values_withheld
from skleak.utils._sklearn_compat import copy_attributes, validate_data
from skleak.utils._typing import FloatArray


class ReleasedNetwork(BaseEstimator):
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
    >>> from skleak.neural import PrivateSGDClassifier, ReleasedNetwork
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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Return the model unchanged: it is already trained.

        Parameters
        ----------
        X : object
            Ignored.
        y : object, default=None
            Ignored.

        Returns
        -------
        ReleasedNetwork
        """
        check_is_fitted(self, "_module")
        return self

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

    def __sklearn_clone__(self) -> Self:
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        made = getattr(self, "provenance_", {})
        noise = made.get("noise_multiplier", float("nan"))
        return f"<ReleasedNetwork of {made.get('estimator', '?')}, noise_multiplier={noise:g}>"


class _Classifier(ReleasedNetwork, ClassPredictionMixin):
    """A released `PrivateSGDClassifier` with a module."""


class _Regressor(ReleasedNetwork, NumberPredictionMixin):
    """A released `PrivateSGDRegressor` with a module."""
