"""Private Poisson regression."""

from typing import Any, ClassVar

import numpy as np

from skleak._released import CountRegressionMixin, ReleasedModel, ReleasedPoissonRegressor
from skleak.linear_model._base import PrivateLinearModel
from skleak.linear_model._docs import with_shared_doc
from skleak.losses import PointwiseLoss, PoissonLoss
from skleak.utils._records import row_label
from skleak.utils._typing import Array, FloatArray


@with_shared_doc
class PrivatePoissonRegressor(CountRegressionMixin, PrivateLinearModel):
    """Poisson regression with log link and output perturbation that knows what it leaks.

    It minimises

        sum_i s_i omega_i (exp(a_i) - y_i a_i) / N + alpha / 2 ||w||^2 ,    a_i = x_i.w + b ,

    measures by Fisher information what every record leaks ([FIL21]), and adds Gaussian noise to
    the coefficients and the intercept.

    {parameters}
    {attributes}
    {notes}
    The Poisson loss has no bounded derivative: no differential-privacy guarantee holds.

    {references}

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivatePoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = rng.poisson(np.exp(0.5 * X[:, 0] + 1.0))
    >>> model = PrivatePoissonRegressor(noise_scale=0.02, random_state=0).fit(X, y)
    >>> bool(abs(model.coef_[0] - 0.5) < 0.15)
    True
    """

    _loss: ClassVar[PointwiseLoss] = PoissonLoss()
    _released: ClassVar[type[ReleasedModel]] = ReleasedPoissonRegressor

    def _encode_targets(self, y: Array, records: Any, *, fitted: bool = False) -> FloatArray:
        y = np.array(y, dtype=np.float64).ravel()  # a copy: targets are kept
        negative = np.flatnonzero(y < 0.0)
        if len(negative):
            raise ValueError(
                f"Counts must not be negative; got {len(negative)} negative targets, the first of "
                f"them in {row_label(records, int(negative[0]))}. PrivatePoissonRegressor models "
                "counts: for other targets use PrivateLinearRegression."
            )
        return y

    def _check_targets(self, y: FloatArray, sample_weight: FloatArray) -> None:
        if self.fit_intercept and sample_weight @ y == 0.0:
            raise ValueError(
                "All counts with a positive weight are zero: the intercept has no finite "
                "minimiser. Pass at least one positive count, or set `fit_intercept=False`."
            )
