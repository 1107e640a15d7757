"""Private logistic regression."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Tags, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from skleak.linear_model._base import PrivateLinearModel
from skleak.linear_model._docs import with_shared_doc
from skleak.losses import LogisticLoss, PointwiseLoss, SoftmaxLoss
from skleak.release import ClassificationMixin, ReleasedLogisticRegression, ReleasedModel
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._typing import Array, FloatArray

__all__ = ["PrivateLogisticRegression"]


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
    {attributes}
    classes_ : ndarray of shape (n_classes,)
        Class labels. With more than two, ``coef_`` has shape (n_classes, n_features) and
        ``intercept_`` (n_classes,).

    {notes}
    The derivative of the loss is bounded: with ``data_norm``, ``fit_intercept=False``,
    ``alpha > 0`` and no reweighting a differential-privacy guarantee holds ([CMS11]);
    ``leakage_report()`` states it, or why there is none. A class label is discrete, so with
    ``target="private"`` its derivative is formal.

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

    def _encode_targets(self, y: Array, *, fitted: bool = False) -> FloatArray:
        if fitted:
            y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"))
            self._check_known(y)
        else:
            y = column_or_1d(y, warn=True)
            self.classes_ = self._find_classes(y)
        if len(self.classes_) == 2:
            return (y == self.classes_[1]).astype(np.float64)
        return np.searchsorted(self.classes_, y).astype(np.float64)

    def _find_classes(self, y: Array) -> Array:
        check_classification_targets(y)
        type_of_target(y, input_name="y", raise_unknown=True)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                "PrivateLogisticRegression needs two classes; the target holds only one class: "
                f"{classes.tolist()[0]!r}. Pass records of both classes."
            )
        return classes

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

    def _check_known(self, y: Array) -> None:
        unknown = [label for label in np.unique(y).tolist() if label not in self.classes_.tolist()]
        if unknown:
            raise ValueError(
                f"`y` holds labels the model was not fitted on: {unknown[:5]}. Expected "
                f"{self.classes_.tolist()}."
            )

    def _check_targets(self, y: FloatArray, sample_weight: FloatArray) -> None:
        present = np.unique(y[sample_weight > 0.0])
        if len(present) < 2:
            raise ValueError(
                "Only one class has records of positive sample weight: "
                f"{self.classes_.tolist()[int(present[0])]!r}. PrivateLogisticRegression needs two "
                "classes."
            )
        if len(present) < len(self.classes_):
            absent = np.delete(self.classes_, present.astype(np.intp)).tolist()
            raise ValueError(
                f"No record of positive sample weight has the class labels {absent[:5]}: nothing "
                "tells their probability. Drop the records of these classes, or give them weight."
            )

    def _set_coefficients(self, coef: FloatArray, intercept: FloatArray) -> None:
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        self.coef_ = coef.reshape(rows, -1)
        self.intercept_ = intercept if len(intercept) else np.zeros(rows)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what takes two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.reweighting is None and (
            isinstance(self.noise_covariance, str) and self.noise_covariance == "isotropic"
        )
        return tags
