"""Private logistic regression."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from skleak._released import ClassificationMixin, ReleasedLogisticRegression, ReleasedModel
from skleak.accounting import LeakageLedger
from skleak.linear_model._base import PrivateLinearModel
from skleak.linear_model._docs import with_shared_doc
from skleak.linear_model._parameters import NoiseCovariance
from skleak.losses import LogisticLoss, PointwiseLoss, SoftmaxLoss
from skleak.mechanisms import NoiseGoal, Reweighting
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._records import row_label, values_withheld
from skleak.utils._typing import Array, FloatArray, RandomState


@with_shared_doc
class PrivateLogisticRegression(ClassificationMixin, PrivateLinearModel):
    """Logistic regression with output perturbation that knows what it leaks.

    For two classes it minimises

        sum_i s_i omega_i (log(1 + exp(a_i)) - y_i a_i) / N + alpha / 2 ||w||^2 ,  a_i = x_i.w + b ,

    with the second class as y = 1, and for K > 2 classes

        sum_i s_i omega_i (logsumexp(a_i) - a_i[y_i]) / N + alpha / 2 ||W||^2 ,  a_i = W x_i + b ,

    with one row of W and one entry of b per class. It measures by Fisher information what every
    record leaks ([FIL21]), and adds Gaussian noise to the coefficients and the intercepts.

    {parameters}
    classes : array-like of shape (n_classes,) or None, default=None
        Class labels as public knowledge. Without them they are read off the labels, and there is
        no guarantee of differential privacy: data sets that differ in one label may have other
        classes, which everybody sees. A class without records needs ``alpha > 0`` and
        ``fit_intercept=False``.
    {attributes}
    classes_ : ndarray of shape (n_classes,)
        Class labels. With more than two, ``coef_`` has shape (n_classes, n_features) and
        ``intercept_`` (n_classes,).

    {notes}
    The derivative of the loss is bounded: with ``data_norm``, ``classes``, ``fit_intercept=False``,
    ``alpha > 0``, a public number of records and no reweighting a differential-privacy guarantee
    holds ([CMS11]);
    ``leakage_report()`` states it, or why there is none. A class label is discrete, so with
    ``private_target=True`` its derivative is formal.

    With more than two classes the label of a record is a vertex of the simplex of class
    probabilities, and moves along its K - 1 orthonormal directions; two vertices lie ``sqrt(2)``
    apart. Parameters that are the same for all classes change no probability: before the noise,
    the intercepts, and with them all parameters, sum to zero over the classes. Noise is added to
    all of them. Along that redundant direction it meets nothing of any record: it costs no
    utility and hides nothing, and the leakage stated is exact.

    Two classes in the second form would have ``w = W_1 - W_0`` of the first at half its penalty:
    ``alpha`` for K > 2 corresponds to ``alpha / 2`` for two classes.

    {references}

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skleak.linear_model import PrivateLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> model = PrivateLogisticRegression(noise_scale=0.05, random_state=0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99

    Three classes:

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> model = PrivateLogisticRegression(noise_scale=0.05, random_state=0).fit(X, y)
    >>> model.coef_.shape
    (3, 13)
    """

    _loss: ClassVar[PointwiseLoss] = LogisticLoss()
    _released: ClassVar[type[ReleasedModel]] = ReleasedLogisticRegression
    _numeric_targets: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateLinearModel._parameter_constraints,
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        noise_scale: float | NoiseGoal = 0.01,
        *,
        noise_covariance: NoiseCovariance = "isotropic",
        alpha: float = 1e-2,
        fit_intercept: bool = True,
        classes: npt.ArrayLike | None = None,
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
        super().__init__(
            noise_scale,
            noise_covariance=noise_covariance,
            alpha=alpha,
            fit_intercept=fit_intercept,
            private_target=private_target,
            reweighting=reweighting,
            data_norm=data_norm,
            public=public,
            max_iter=max_iter,
            tol=tol,
            random_state=random_state,
            ledger=ledger,
            ledger_dataset=ledger_dataset,
            verbose=verbose,
        )
        self.classes = classes

    def _encode_targets(self, y: Array, records: Any, *, fitted: bool = False) -> FloatArray:
        if fitted:
            self._check_known(y, records)
        else:
            y = column_or_1d(y, warn=True)
            self.classes_ = self._find_classes(y, records)
        if _is_text(self.classes_):
            y = np.asarray(y, dtype=self.classes_.dtype)  # all labels are among them
        if len(self.classes_) == 2:
            return (y == self.classes_[1]).astype(np.float64)
        return np.searchsorted(self.classes_, y).astype(np.float64)

    def _find_classes(self, y: Array, records: Any) -> Array:
        with values_withheld(records, y):
            check_classification_targets(y)
            type_of_target(y, input_name="y", raise_unknown=True)
        classes = np.unique(y)
        if self.classes is not None:
            return self._declared_classes(y, classes, records)
        if len(classes) < 2:
            raise ValueError(
                "PrivateLogisticRegression needs two classes; the target holds only one class. "
                "Pass records of both classes."
            )
        return classes

    def _declared_classes(self, y: Array, found: Array, records: Any) -> Array:
        """Sort the classes that were declared public; all labels found must be among them."""
        declared = column_or_1d(np.asarray(self.classes))
        classes: Array = np.unique(declared)
        if len(classes) < 2 or len(classes) < len(declared):
            raise ValueError(
                f"`classes` must list at least two different labels; got {declared.tolist()!r}."
            )
        if _is_text(classes) != _is_text(found):
            raise ValueError(
                f"`classes` holds {classes.dtype} and the target {found.dtype}: pass labels of the "
                "same type."
            )
        unknown = np.flatnonzero(~np.isin(y, classes))
        if len(unknown):
            raise ValueError(
                f"The labels of {len(unknown)} records are not among `classes`; the first is that "
                f"of {row_label(records, int(unknown[0]))}. Expected {classes.tolist()!r}."
            )
        return classes

    @property
    def _declares_classes(self) -> bool:
        return self.classes is not None

    @property
    def _n_predictors(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _validated_objective(self, X: Any, y: Any, sample_weight: Any) -> Objective:
        binary = super()._validated_objective(X, y, sample_weight)
        if len(self.classes_) == 2:
            return binary
        return MultinomialObjective(
            binary.X,
            binary.y,
            SoftmaxLoss(),
            binary.alpha,
            binary.fit_intercept,
            binary.sample_weight,
            binary.reweights,
            len(self.classes_),
        )

    def _provenance(self) -> dict[str, Any]:
        made = super()._provenance()
        return made if len(self.classes_) == 2 else made | {"loss": SoftmaxLoss.name}

    def _check_known(self, y: Array, records: Any) -> None:
        unknown = np.flatnonzero(~pd.Series(y).isin(self.classes_.tolist()).to_numpy())
        if len(unknown):
            raise ValueError(
                f"`y` holds labels the model was not fitted on, of {len(unknown)} records; the "
                f"first is that of {row_label(records, int(unknown[0]))}. Expected labels among "
                "`classes_`."
            )

    def _check_targets(self, y: FloatArray, sample_weight: FloatArray) -> None:
        present = np.unique(y[sample_weight > 0.0])
        if self.classes is not None:
            self._check_absent(present)
            return
        if len(present) < 2:
            raise ValueError(
                "Only one class has records of positive sample weight. PrivateLogisticRegression "
                "needs two classes."
            )
        if len(present) < len(self.classes_):
            absent = len(self.classes_) - len(present)
            raise ValueError(
                f"No record of positive sample weight has the labels of {absent} classes: nothing "
                "tells their probability. Drop the records of these classes, or give them weight."
            )

    def _check_absent(self, present: Array) -> None:
        """Raise where a declared class has no record and the minimiser would not be finite."""
        absent = len(self.classes_) - len(present)
        if absent and (self.alpha == 0.0 or self.fit_intercept):
            raise ValueError(
                f"{absent} of the {len(self.classes_)} declared classes have no record of positive "
                "weight: nothing but a penalty keeps their parameters finite, and the intercept "
                "has none. Use `alpha > 0` and `fit_intercept=False`."
            )

    def _shaped(self, parameters: FloatArray, size: int) -> "tuple[FloatArray, float | FloatArray]":
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        intercept = parameters[size:] if len(parameters) > size else np.zeros(rows)
        return parameters[:size].reshape(rows, -1), intercept

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what takes two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.reweighting is None and (
            isinstance(self.noise_covariance, str) and self.noise_covariance == "isotropic"
        )
        return tags


def _is_text(labels: Array) -> bool:
    """Return True for strings of any type that NumPy or pandas keeps them in."""
    return labels.dtype.kind in "UT" or all(isinstance(label, str) for label in labels.tolist())
