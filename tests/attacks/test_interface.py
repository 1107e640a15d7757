"""The same public face for every attack."""

import inspect

import pytest
from sklearn.base import clone

from skleak import attacks

ATTACKS = [getattr(attacks, name) for name in attacks.__all__]
METHODS = ("predict", "predict_proba", "decision_function", "score", "predict_each")


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_released_has_one_name(attack):
    for name in METHODS:
        if hasattr(attack, name):
            assert list(inspect.signature(getattr(attack, name)).parameters)[1] == "released"
    assert list(inspect.signature(attack.score).parameters)[1:3] == ["released", "truth"]


@pytest.mark.parametrize("attack", ATTACKS)
def test_all_but_estimator_and_attribute_are_passed_by_name(attack):
    parameters = inspect.signature(attack).parameters.values()
    positional = {p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY}
    assert positional <= {"estimator", "attribute"}


@pytest.mark.parametrize("attack", ATTACKS)
def test_releases_are_no_metadata(attack):
    requests = [name for name in dir(attack) if name.startswith("set_") and "request" in name]
    assert not requests
    own = attack.__new__(attack)
    routing = own.get_metadata_routing()
    assert not any(getattr(routing, method).requests for method in ("fit", "predict", "score"))


def test_raw_records_and_their_targets_are_taken():
    for attack in set(ATTACKS) - {attacks.GaussianLinearMembership}:
        tags = attack.__new__(attack).__sklearn_tags__()
        takes = tags.input_tags
        assert (tags.target_tags.required, takes.string, takes.categorical) == (True, True, True)
        assert takes.allow_nan == (attack is not attacks.InformedReconstruction)


def test_attacks_that_are_subclassed_request_nothing_either():
    class Own(attacks.PriorAttack):
        def predict(self, released=None, noise_scale=None, sample_weight=None):
            return super().predict(released)

    assert not hasattr(Own(0), "set_predict_request")
    assert clone(Own(0, values=[0, 1])).values == [0, 1]
