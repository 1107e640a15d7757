"""How far the exact coefficients can move when one record is replaced."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import as_result, check_real


def output_perturbation_sensitivity(
    lipschitz: npt.ArrayLike,
    data_norm: npt.ArrayLike,
    n_samples: npt.ArrayLike,
    alpha: npt.ArrayLike,
) -> Any:
    """Global L2 sensitivity of regularised empirical risk minimisation, [CMS11] corollary 8.

    The minimiser of ``mean loss + alpha/2 ||w||^2`` moves by at most
    ``2 * lipschitz * data_norm / (n_samples * alpha)`` when one record, its target included, is
    replaced by any other.

    Parameters
    ----------
    lipschitz : float or array-like, positive
        Supremum of ``|dloss/da|`` over predictors and targets: 1 for the logistic loss, sqrt(2)
        (a Euclidean norm) for that of several classes with one predictor each, infinite for the
        squared and the Poisson loss.
    data_norm : float or array-like, positive
        Bound on the Euclidean norm of every record, with the constant 1 of an intercept counted.
        It is promised beforehand and enforced by clipping; reading it off the data breaks the
        guarantee.
    n_samples : int or array-like, at least 1
        Number of records; public under replacement.
    alpha : float or array-like, positive
        Strength of the L2 penalty, which is the strong convexity.

    Returns
    -------
    float or ndarray
        Sensitivity in units of the coefficients, broadcast over the arguments.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        Without a penalty or with an unbounded derivative of the loss, where no global
        sensitivity exists, and for values out of range.

    Notes
    -----
    Assumes a convex loss, every coordinate penalised (no free intercept), unit weights and the
    exact minimiser: a solver that stops at gradient norm g adds 2 g / alpha.

    Examples
    --------
    >>> output_perturbation_sensitivity(1.0, 1.0, 1000, 0.01)
    0.2
    """
    penalty = check_real("alpha", alpha, finite=True)
    if (penalty == 0.0).any():
        raise ValueError(
            "No global sensitivity exists: `alpha` must be positive; got 0. Without a penalty one "
            "record can move the coefficients without bound. Set `alpha` above 0."
        )
    slope = check_real("lipschitz", lipschitz, low_open=True)
    if np.isinf(slope).any():
        raise ValueError(
            "No global sensitivity exists: `lipschitz` must be finite; got inf. The derivative of "
            "the squared and of the Poisson loss is unbounded. Use the logistic loss, or account "
            "with Fisher information instead of differential privacy."
        )
    radius = check_real("data_norm", data_norm, low_open=True, finite=True)
    count = check_real("n_samples", n_samples, low=1.0, finite=True)
    return as_result(2.0 * slope * radius / (count * penalty))
