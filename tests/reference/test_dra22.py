"""Figure 2 of [DRA22]: raw MNIST 0/1, logistic, penalty and noise scale 1e-2."""

import numpy as np
import pytest

from skleak.datasets import fetch_mnist
from skleak.linear_model import PrivateLogisticRegression

pytestmark = [pytest.mark.data, pytest.mark.slow]


@pytest.fixture(scope="module")
def pixels():
    try:
        return fetch_mnist(return_X_y=True, subset="train", download_if_missing=False)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_every_bound_exceeds_one(pixels, fit_intercept):
    """The mean squared error of an unbiased attacker is above that of the range of a pixel."""
    X, y = pixels
    assert X.shape == (12665, 784)
    assert X.max() == 1.0
    model = PrivateLogisticRegression(1e-2, alpha=1e-2, fit_intercept=fit_intercept)
    model.set_params(private_target=False).fit(X, y)
    bound = 1.0 / model.diagonal_fisher_information_loss_**2
    assert bound.min() > 1.0
    # And it spans many orders of magnitude, as the figure shows.
    assert np.median(bound) > 1e4


def test_rows_of_raw_pixels_are_longer_than_one(pixels):
    """The sensitivity of [DRA22] 7.1 assumes rows of norm 1, which raw images do not have."""
    X, y = pixels
    longest = np.linalg.norm(X, axis=1).max()
    assert longest == pytest.approx(17.2, abs=0.05)
    options = {"alpha": 1e-2, "fit_intercept": False}
    with pytest.raises(ValueError, match="rows are longer"):
        PrivateLogisticRegression(1e-2, data_norm=1.0, **options).fit(X, y)
    options |= {"classes": np.unique(y), "public": "n_samples"}
    model = PrivateLogisticRegression(1e-2, data_norm=17.21, **options).fit(X, y)
    guarantee = model.leakage_report(features=[0]).differential_privacy
    # (2 L R / (n lambda sigma))^2 at R = 1 is 2.49.
    assert (guarantee.mu / 17.21) ** 2 == pytest.approx(2.49, abs=0.005)
