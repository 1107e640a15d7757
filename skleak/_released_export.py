"""How a released model leaves: as scikit-learn's own estimator, or as JSON."""

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from skleak.utils._files import read_document, write_document

# What scikit-learn's `fit` notes about the solver.
_OF_THE_SOLVER = ("n_iter_", "rank_", "singular_")


class ExportMixin:
    """Leave skleak: `to_sklearn`, `to_json` and `from_json` of a released model."""

    _published: ClassVar[tuple[str, ...]]
    # The estimator of scikit-learn that predicts alike; None in the base.
    _counterpart: ClassVar[Any] = None

    def to_sklearn(self) -> Any:
        """Return scikit-learn's own estimator with these coefficients.

        Whoever predicts with it, or converts it to ONNX or PMML, needs no skleak. It holds the
        coefficients, the intercept, the class labels and the column names, and nothing else.

        Returns
        -------
        LinearRegression, LogisticRegression or PoissonRegressor
            Fitted. What noise was added is not told by it: keep the release for that.
        """
        return as_scikit_learn(self, self._counterpart)

    def to_json(self) -> str:
        """Write the release as JSON, to be read by ``from_json`` without pickle.

        Returns
        -------
        str
            Every double reads back as the same double.

        Raises
        ------
        TypeError
            For class labels that are neither numbers nor text.
        """
        return write_document(type(self).__name__, self._content())

    @classmethod
    def from_json(cls, text: "str | bytes") -> Self:
        """Read a release that ``to_json`` wrote.

        Parameters
        ----------
        text : str or bytes
            The document. It is data only: nothing in it is run.

        Returns
        -------
        ReleasedModel
            Of the class that was written.

        Raises
        ------
        ValueError
            For a document of another kind or version, and for fields that are unknown, missing or
            do not fit together.
        """
        return cls.from_content(*read_document(text))

    @classmethod
    def from_content(cls, kind: str, content: dict[str, Any]) -> Self:
        """Make a release from the content of a document.

        Parameters
        ----------
        kind : str
            Name of the class.
        content : dict
            Its fields.

        Returns
        -------
        ReleasedModel

        Raises
        ------
        ValueError
            As `from_json` does.
        """
        classes = {subclass.__name__: subclass for subclass in _subclasses(cls)}
        if kind not in classes:
            raise ValueError(f"Expected a document of {sorted(classes)}; got one of {kind!r}.")
        return classes[kind]._from_content(content)

    def _content(self) -> dict[str, Any]:
        names = [name for name in (*self._published, "provenance_") if hasattr(self, name)]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Self:
        unknown = set(content) - {*cls._published, "provenance_"}
        needed = {"coef_", "intercept_", "n_features_in_", "provenance_"}
        if cls._counterpart is LogisticRegression:
            needed.add("classes_")
        if unknown or needed - set(content):
            raise ValueError(
                f"A {cls.__name__} has no fields {sorted(unknown)}, and needs those that are "
                f"missing: {sorted(needed - set(content))}."
            )
        _check_shapes(content)
        released = cls()
        for name, value in content.items():
            setattr(released, name, value)
        return released


def as_scikit_learn(released: Any, counterpart: Any) -> Any:
    """Give the coefficients of a release to a new estimator of scikit-learn.

    It is fitted on one row of zeros for each class before: what scikit-learn's ``fit`` leaves for
    its own use is then a function of the shape alone.
    """
    y = getattr(released, "classes_", np.ones(1))
    rows = np.zeros((len(y), released.n_features_in_))
    names = getattr(released, "feature_names_in_", None)
    table = rows if names is None else pd.DataFrame(rows, columns=names)
    intercept = bool(np.any(released.intercept_)) or released.provenance_.get("fit_intercept", True)
    model = counterpart(fit_intercept=bool(intercept)).fit(table, y)
    for name in _OF_THE_SOLVER:
        vars(model).pop(name, None)
    model.coef_ = released.coef_.copy()
    model.intercept_ = np.copy(released.intercept_)[()]
    return model


def _subclasses(cls: Any) -> set[Any]:
    below = {grandchild for child in cls.__subclasses__() for grandchild in _subclasses(child)}
    return below if cls._counterpart is None else {cls, *below}


def _check_shapes(content: dict[str, Any]) -> None:
    """Raise where fields of a release are of the wrong type, or do not fit together."""
    d, coef = content["n_features_in_"], content["coef_"]
    intercept = np.asarray(content["intercept_"])
    problems = []
    if type(d) is not int or d < 1:
        problems.append(f"n_features_in_ must be a positive whole number, not {d!r}")
    for name, values in (("coef_", np.asarray(coef)), ("intercept_", intercept)):
        if values.dtype.kind != "f" or not np.all(np.isfinite(values)):
            problems.append(f"{name} must hold finite doubles")
    if not isinstance(content["provenance_"], dict):
        problems.append("provenance_ must be a mapping")
    problems += _wrong_noise(content)
    classes = content.get("classes_")
    shape: tuple[Any, ...] = (d,)
    if classes is not None:
        if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < 2:
            problems.append("classes_ must be an array of two or more")
        elif not all(isinstance(label, str | int | float) for label in classes.tolist()):
            problems.append("classes_ must hold numbers or text")
        elif len(set(classes.tolist())) != len(classes):
            problems.append("classes_ must be distinct")
        else:
            shape = (1 if len(classes) == 2 else len(classes), d)
    if np.shape(coef) != shape:
        problems.append(f"coef_ must have shape {shape}, not {np.shape(coef)}")
    if intercept.shape not in ((), shape[:-1]):
        problems.append(f"intercept_ must have shape {shape[:-1]}, not {intercept.shape}")
    names = content.get("feature_names_in_")
    if names is not None and (np.shape(names) != (d,) or not all(type(n) is str for n in names)):
        problems.append("feature_names_in_ must be one text for each column")
    if problems:
        raise ValueError("This document is damaged: " + "; ".join(problems) + ".")


def _wrong_noise(content: dict[str, Any]) -> list[str]:
    """List which fields on the noise of a release are of the wrong type."""
    problems = [
        f"{name} must be a double"
        for name in ("noise_scale_", "noise_step_")
        if not isinstance(content.get(name, 0.0), float)
    ]
    for name in ("coef", "intercept"):
        errors, shape = content.get(f"{name}_noise_scale_"), np.shape(content[f"{name}_"])
        is_double = isinstance(errors, float) or getattr(errors, "dtype", None) == np.float64
        if errors is not None and not (is_double and np.shape(errors) == shape):
            problems.append(f"{name}_noise_scale_ must hold doubles of shape {shape}")
    if type(content.get("noise_sampler_", "")) is not str:
        problems.append("noise_sampler_ must be text")
    return problems
