"""Models that predict with given parameters: those of releases, scored."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from skleak.adversary.hypotheses import PublicModel, model_parameters
from skleak.adversary.models import Shell
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

MODELS = [
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    Ridge,
    LogisticRegression,
]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_they_predict_and_score_like_the_model_they_are_of(kind, fit_intercept, rng):
    X = rng.normal(size=(80, 3))
    y = rng.poisson(np.exp(0.5 * X[:, 0] + 0.3))
    if kind in (PrivateLogisticRegression, LogisticRegression):
        y = np.where(y > 0, "some", "none")
    fits = [kind(fit_intercept=fit_intercept, alpha=0.1)] if kind is not LogisticRegression else []
    fits = fits or [kind(fit_intercept=fit_intercept)]
    if hasattr(fits[0], "noise_scale"):
        noisy = {"noise_scale": 0.3, "random_state": np.random.default_rng(3)}
        fits = [kind(fit_intercept=fit_intercept, **noisy) for _ in range(3)]
    fits = [fit.fit(X, y) for fit in fits]
    shell = Shell.fit(PublicModel.of(fits[0], X, y), X, y)
    before = model_parameters(shell.model).copy()
    parameters = np.stack([model_parameters(fit) for fit in fits])
    assert shell.n_parameters == parameters.shape[1] == 3 + fit_intercept
    copies = list(shell.models_with(parameters))
    assert len(copies) == len(fits)
    for copy, fit in zip(copies, fits, strict=True):
        np.testing.assert_array_equal(copy.predict(X), fit.predict(X))
        assert copy.score(X, y) == pytest.approx(fit.score(X, y))
    np.testing.assert_array_equal(model_parameters(shell.model), before)


def test_several_classes(rng):
    X, y = rng.normal(size=(60, 2)), rng.choice(["u", "v", "w"], 60)
    fit = LogisticRegression().fit(X, y)
    shell = Shell.fit(PublicModel.of(fit, X, y), X, y)
    (copy,) = shell.models_with(model_parameters(fit)[None])
    np.testing.assert_array_equal(copy.predict_proba(X), fit.predict_proba(X))


def test_only_models_with_coefficients(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    with pytest.raises(AttackNotApplicableError, match="no `coef_`"):
        Shell.fit(PublicModel.of(RandomForestRegressor(2), X, y), X, y)
