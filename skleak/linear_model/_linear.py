"""Private linear regression."""

from typing import Any, ClassVar

import numpy as np

from skleak._released import LinearRegressionMixin, ReleasedLinearRegression, ReleasedModel
from skleak.linear_model._base import PrivateLinearModel
from skleak.linear_model._docs import with_shared_doc
from skleak.losses import PointwiseLoss, SquaredLoss
from skleak.utils._typing import Array, FloatArray


@with_shared_doc
class PrivateLinearRegression(LinearRegressionMixin, PrivateLinearModel):
    """Linear regression with output perturbation that knows what it leaks.

    It minimises

        sum_i s_i omega_i (x_i.w + b - y_i)^2 / (2 N) + alpha / 2 ||w||^2 ,

    measures by Fisher information what every record leaks ([FIL21]), and adds Gaussian noise to
    the coefficients and the intercept.

    {parameters}
    {attributes}
    {notes}
    The squared loss has no bounded derivative: no differential-privacy guarantee holds.

    {references}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PrivateLinearRegression(noise_scale=5.0, random_state=0).fit(X, y)
    >>> model.fisher_information_loss_.shape
    (442,)
    >>> round(float(model.fisher_information_loss(per="dataset", features="bmi")), 2)
    50.42
    """

    _loss: ClassVar[PointwiseLoss] = SquaredLoss()
    _released: ClassVar[type[ReleasedModel]] = ReleasedLinearRegression

    def _encode_targets(self, y: Array, records: Any, *, fitted: bool = False) -> FloatArray:
        return np.array(y, dtype=np.float64).ravel()  # a copy: targets are kept
