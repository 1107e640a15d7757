"""The warning at a release whose noise protects nobody, and where it must not show."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skleak.exceptions import PrivacyLeakWarning, UnprotectedValueWarning
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.report.measures import Separator
from skleak.solvers import SingularHessianError, minimize


@pytest.fixture
def people(rng):
    X = pd.DataFrame({"age": rng.normal(size=120), "rare": 0.0, "sex": rng.integers(0, 2, 120)})
    X.index = [f"patient-{i}" for i in range(120)]
    X.loc[X.index[:3], "rare"] = 1.0
    return X, X["age"] + 2.0 * X["rare"] + rng.normal(size=120)


def _release(model):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        return model.release(), found


@pytest.mark.slow
def test_two_values_four_noise_units_apart_are_warned_of(people):
    X, y = people
    for model, target in (
        (PrivateLinearRegression(alpha=1e-3), y),
        (PrivateLogisticRegression(alpha=1e-3), y > 0),
        (PrivateLogisticRegression(alpha=1e-3), np.digitize(y, [-0.5, 0.5])),
    ):
        quiet = model.set_params(noise_scale=1.0).fit(X, target).leakage_report().features
        farthest = quiet.loc[quiet["kind"] == "values", "distance"].max()
        for units, warned in ((4.1, True), (3.9, False)):
            fitted = model.set_params(noise_scale=farthest / units).fit(X, target)
            _, found = _release(fitted)
            assert [issubclass(one.category, UnprotectedValueWarning) for one in found] == [
                True
            ] * warned
    assert issubclass(UnprotectedValueWarning, PrivacyLeakWarning)


def test_the_warning_names_no_record_and_is_not_in_the_release(people):
    X, y = people
    model = PrivateLinearRegression(1e-3, alpha=1e-3).fit(X, y)
    released, found = _release(model)
    (message,) = (str(one.message) for one in found)
    assert "'rare'" in message
    assert "patient" not in message
    assert found[0].filename == __file__
    # The release of a fit that is warned of holds what that of any other fit holds.
    other, nothing = _release(PrivateLinearRegression(1e3, alpha=1e-3).fit(X, y))
    assert not nothing
    assert vars(released).keys() == vars(other).keys()
    assert released.provenance_ == other.provenance_
    text = pickle.dumps(released)
    assert b"patient" not in text
    assert b"unprotected" not in text.lower()


def test_numbers_alone_are_not_warned_of(rng):
    X = rng.normal(size=(200, 2))
    model = PrivateLinearRegression(1e-4).fit(X, X[:, 0] + rng.normal(size=200))
    assert not _release(model)[1]


@pytest.mark.filterwarnings("error")
def test_what_cannot_be_computed_is_not_warned_of(people, monkeypatch):
    X, y = people
    for failure in (SingularHessianError("none"), np.linalg.LinAlgError(), FloatingPointError()):

        def fail(*_, failure=failure, **__):
            warnings.warn("overflow", RuntimeWarning, stacklevel=1)
            raise failure

        for part in ("measure", "estimate"):
            with monkeypatch.context() as patch:
                patch.setattr(Separator, part, fail)
                model = PrivateLinearRegression(1e-3, alpha=1e-3).fit(X, y)
                assert not _release(model)[1]


@pytest.mark.slow
def test_a_count_that_has_no_minimizer_is_bounded_by_nothing(rng):
    # Two counts: the normal prior of one of them reaches where the total is below zero.
    X = rng.normal(size=(2, 2))
    model = PrivatePoissonRegressor(0.1, alpha=0.1).fit(X, [0, 1])
    assert model.leakage_report().features.loc["(target)", "share_removed"] == 1.0
    for noise in (0.1, 0.0):
        many = PrivatePoissonRegressor(noise, alpha=0.1)
        many.fit(rng.normal(size=(50, 2)), rng.poisson(5.0, 50))
        removed = many.leakage_report().features.loc["(target)", "share_removed"]
        assert removed == 1.0 if noise == 0.0 else 0.0 < removed < 1.0
    # Minimized anew, such counts have no minimizer indeed.
    with pytest.raises(SingularHessianError), np.errstate(invalid="ignore"):
        minimize(replace(model._state.objective, y=np.array([-1.4, 1.0])))
