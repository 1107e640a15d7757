"""The kinds of leakage: which one a fit has, and what holds of each."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skleak.influence.jacobian import Columns, record_norms
from skleak.influence.leakage import FittedNoise, FixedNoise, Reweighted, leakage_model
from skleak.influence.noise import fitted_noise
from skleak.influence.noise._noise import fixed_joint_loss, fixed_losses
from skleak.influence.state import FitState, NoiseShape
from skleak.linear_model import PrivateLinearRegression

WHOLE = Columns(target=True)


@pytest.fixture
def states(rng):
    """A fit of every kind, at noise of 0.5."""
    X = rng.normal(size=(30, 3))
    y = X @ [1.0, -0.5, 0.2] + rng.normal(size=30)
    options = {
        "isotropic": {},
        "given": {"noise_covariance": np.diag([1.0, 2.0, 3.0, 4.0])},
        "curvature": {"noise_covariance": "curvature"},
        "minimax": {"noise_covariance": "minimax"},
        "reweighted": {"reweighting": "irfil"},
    }
    return {
        name: PrivateLinearRegression(0.5, alpha=0.1, **given).fit(X, y)._confidential_state()
        for name, given in options.items()
    }


def test_the_kind_follows_from_the_state(states):
    kinds = {name: type(leakage_model(state)) for name, state in states.items()}
    fixed = dict.fromkeys(["isotropic", "given"], FixedNoise)
    fitted = dict.fromkeys(["curvature", "minimax"], FittedNoise)
    assert kinds == fixed | fitted | {"reweighted": Reweighted}


def test_no_loss_is_known_where_the_fit_did_not_converge(states):
    for state in states.values():
        model, batch = leakage_model(replace(state, converged=False)), state.training
        for each in (model, model.conditional):
            assert np.all(np.isnan(each.record_loss(batch)))
            assert np.all(np.isnan(each.feature_loss(batch, [WHOLE, Columns()])))
            assert np.isnan(each.joint_loss(batch))
            assert np.all(np.isnan(each.group_loss(batch, np.arange(30) % 3)))
            assert np.all(np.isnan(each.sufficient_noise(batch, WHOLE, 0.1)))
            assert each.terms(batch, [WHOLE]) is None
        assert model.doubts == []


def test_sufficient_noise_is_where_the_loss_is_reached(states):
    for state in states.values():
        scales = leakage_model(state).sufficient_noise(state.training, WHOLE, 2.0)
        for i in (0, 7):
            at = leakage_model(state.at_noise(scales[i]))
            assert at.record_loss(state.training)[i] == pytest.approx(2.0, rel=1e-9)


def test_only_a_reweighting_has_another_leakage_with_its_weights_held(states):
    for name, state in states.items():
        model = leakage_model(state)
        assert (model.conditional is model) == (name != "reweighted")
    state = states["reweighted"]
    norms = record_norms(state.factor, state.objective.X, state.objective.y, WHOLE)
    held = leakage_model(state).conditional.record_loss(state.training)
    assert_allclose(held, norms * state.objective.weights / 0.5, rtol=1e-12)
    assert not np.allclose(leakage_model(state).record_loss(state.training), held, rtol=1e-2)


def test_capabilities_and_their_reasons(states, make_multinomial):
    problem = make_multinomial()
    several = FitState(problem.objective, problem.factor, 0.5, True)
    can = {
        name: [bool(c) for c in (model.has_brackets, model.has_equal_noise)]
        + [bool(model.takes_shaped_noise)]
        for name, model in (
            *((name, leakage_model(state)) for name, state in states.items()),
            ("held", leakage_model(states["reweighted"]).conditional),
            ("several", leakage_model(several)),
        )
    }
    assert can == {
        "isotropic": [True, True, True],
        "given": [True, True, True],
        "curvature": [False, False, True],
        "minimax": [False, False, True],
        "reweighted": [False, True, False],
        "held": [False, True, False],
        "several": [False, True, False],
    }
    assert "several classes" in leakage_model(several).has_brackets.missing
    assert "depends on the records" in leakage_model(states["minimax"]).has_brackets.missing


def test_a_reweighting_goes_with_isotropic_noise_only(states):
    for noise in (NoiseShape.of("curvature", 4), NoiseShape.of(np.diag([1.0, 2, 3, 4]), 4)):
        with pytest.raises(ValueError, match="isotropic noise only"):
            leakage_model(replace(states["reweighted"], noise=noise))
    assert leakage_model(replace(states["reweighted"], noise=NoiseShape.of(np.eye(4), 4)))


def test_norms_alone_are_refused_where_the_covariance_tells_too(states):
    state = states["curvature"]
    for measure in (fixed_joint_loss, lambda state, batch, c: fixed_losses(state, batch, [c])):
        with pytest.raises(ValueError, match="through its covariance"):
            measure(state, state.training, WHOLE)


def test_what_is_costly_is_found_once_at_all_noise_scales(states):
    state, calls = states["curvature"], []

    def find(state):
        calls.append(state)
        return object()

    found = state.once(find)
    assert state.at_noise(3.0).at_noise(0.0).once(find) is found
    assert len(calls) == 1
    assert replace(state, noise=NoiseShape()).once(find) is not found
    assert fitted_noise(state.at_noise(2.0)) is fitted_noise(state)


def test_a_batch_is_taken_by_any_index(states):
    batch = states["reweighted"].training
    mask = np.arange(30) % 2 == 0
    for rows in (np.flatnonzero(mask), mask, slice(None, None, 2)):
        some = batch.take(rows)
        assert len(some) == 15
        assert_array_equal(some.X, batch.X[mask])
        assert_array_equal(some.factors, batch.factors[mask])
