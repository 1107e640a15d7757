import pickle

import numpy as np
import pytest
from sklearn.base import clone

from skleak import release
from skleak.attacks import WhiteBoxAttributeInference
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.mechanisms import NoiseKind


class Shared(NoiseKind):
    """Noise that all parameters share in part."""

    def __init__(self, share=0.5):
        self.share = share

    def covariance(self, n_parameters):
        own = (1.0 - self.share) * np.eye(n_parameters)
        return own + np.full((n_parameters, n_parameters), self.share)


@pytest.fixture
def records(rng):
    X = rng.normal(size=(40, 3))
    X[:, 0] = X[:, 0] > 0.0
    return X, (X @ [1.0, -1.0, 0.5] + rng.normal(size=40) > 0.0).astype(float)


@pytest.mark.parametrize("cls", [PrivateLinearRegression, PrivateLogisticRegression])
@pytest.mark.filterwarnings("ignore::skleak.exceptions.PrivacyLeakWarning")
def test_a_kind_is_its_matrix(cls, records):
    X, y = records
    kind = Shared(0.3)
    made = [
        cls(0.5, noise_covariance=covariance, random_state=1).fit(X, y)
        for covariance in (kind, 7.0 * kind.covariance(4))
    ]
    by_kind, by_matrix = made
    np.testing.assert_array_equal(by_kind.coef_, by_matrix.coef_)
    for per in ("record", "feature"):
        np.testing.assert_array_equal(
            by_kind.fisher_information_loss(per=per), by_matrix.fisher_information_loss(per=per)
        )
    assert not np.allclose(
        by_kind.fisher_information_loss(), cls(0.5).fit(X, y).fisher_information_loss()
    )
    attacks = [WhiteBoxAttributeInference(model, 0).fit(X, y) for model in made]
    guesses = [attack.predict_proba(by_kind) for attack in attacks]
    np.testing.assert_array_equal(*guesses)


def test_it_is_cloned_and_released_as_given(records):
    model = PrivateLinearRegression(0.5, noise_covariance=Shared(0.3))
    assert clone(model).get_params()["noise_covariance__share"] == 0.3
    model.set_params(noise_covariance__share=0.1).fit(*records)
    released = release(model)
    assert released.provenance_["noise_covariance"] == "given"
    assert b"Shared" not in pickle.dumps(released)


@pytest.mark.parametrize(
    "matrix, message",
    [(np.eye(3), "shape"), (-np.eye(4), "positive definite"), ("curvature", "real numbers")],
)
def test_a_kind_without_a_covariance_is_refused(matrix, message, records):
    class Wrong(NoiseKind):
        def covariance(self, n_parameters):
            return matrix

    with pytest.raises((TypeError, ValueError), match=f"noise_covariance.*{message}"):
        PrivateLinearRegression(0.5, noise_covariance=Wrong()).fit(*records)
