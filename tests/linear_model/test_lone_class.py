"""The only record of its class: a release without it has other classes, whatever the noise."""

import numpy as np
import pytest
from helpers import mostly_slow

from skleak.attacks import LikelihoodRatioMembership, WhiteBoxAttributeInference
from skleak.exceptions import AttackNotApplicableError, NoMinimizerWarning
from skleak.linear_model import PrivateLogisticRegression

LONE = 7


def _fit(classes=None, n_classes=3):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.integers(0, n_classes - 1, 30)
    y[LONE] = n_classes - 1
    weights = np.ones(30)
    y[LONE + 1], weights[LONE + 1] = y[LONE], 0.0  # which does not keep the class
    model = PrivateLogisticRegression(1.0, fit_intercept=False, classes=classes)
    return X, y, model.fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("n_classes", mostly_slow([2, 3]))
def test_a_record_that_the_classes_tell_has_no_privacy(n_classes):
    X, y, model = _fit(None, n_classes)
    assert y[LONE] in model.release().classes_
    rest = y != y[LONE]
    if n_classes == 3:
        without = PrivateLogisticRegression(1.0, fit_intercept=False).fit(X[rest], y[rest])
        assert y[LONE] not in without.release().classes_
    mu = model.individual_privacy_["mu"]
    assert mu[LONE] == np.inf
    assert np.all(np.isfinite(mu[rest]))
    assert mu[LONE + 1] == 0.0
    assert model.individual_privacy(records=[3, LONE])["mu"].tolist() == [mu[3], np.inf]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skleak.exceptions.NoMinimizerWarning")
def test_neither_have_its_label_and_the_report():
    _, _, model = _fit()
    secret = model.individual_privacy(features="(target)", records=[3, LONE])["mu"]
    assert np.isfinite(secret.iloc[0])
    assert secret.iloc[1] == np.inf
    report = model.leakage_report()
    assert report.records["mu"][LONE] == np.inf
    assert report.features.loc["(target)"].isin([1.0]).any()


@pytest.mark.slow
def test_declared_classes_tell_nothing():
    _, _, model = _fit([0, 1, 2])
    assert np.all(np.isfinite(model.individual_privacy_["mu"]))
    assert np.all(np.isfinite(model.individual_privacy(features="(target)")["mu"]))


@pytest.mark.slow
def test_outside_memory():
    da = pytest.importorskip("dask.array")
    X, y, _ = _fit(None, 2)
    y[LONE + 1] = 0
    parts = (da.from_array(part, chunks=11) for part in (X, y))
    model = PrivateLogisticRegression(1.0, fit_intercept=False).fit(*parts)
    mu = model.individual_privacy()["mu"].compute()
    assert mu[LONE] == np.inf
    assert np.isfinite(mu).sum() > 25
    assert np.isinf(model.individual_privacy(records=[LONE])["mu"]).all()


def test_attacks_that_compare_coefficients_do_not_speak_of_it():
    X, y, _ = _fit(None, 2)
    y[LONE + 1] = 0
    model = PrivateLogisticRegression(1.0, fit_intercept=False)
    with pytest.raises(AttackNotApplicableError, match="the only ones of their class"):
        LikelihoodRatioMembership(model, method="exact", records=[3, LONE]).fit(X, y)
    LikelihoodRatioMembership(model, method="exact", records=[3]).fit(X, y)
    attack = WhiteBoxAttributeInference(model, "(target)", records=[LONE])
    with pytest.warns(NoMinimizerWarning), pytest.raises(AttackNotApplicableError):
        attack.fit(X, y)
