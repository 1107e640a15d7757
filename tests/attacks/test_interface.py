"""The same public face for every attack."""

import inspect

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.base import clone

from skleak import attacks
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLinearRegression

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


def _problem():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 60), rng.normal(size=60)])
    y = X @ [1.0, 2.0] + rng.normal(size=60)
    model = PrivateLinearRegression(noise_scale=0.01, random_state=0)
    return X, y, model.fit(X[:40], y[:40])


def _case(name):
    """Return an attack, what it is fitted on, what it is asked besides the release, and the truth.

    Known are 40 training records, and where only a few of them are members 60 candidates.
    """
    X, y, model = _problem()
    attack, own = getattr(attacks, name), (X[:40], y[:40])
    member = np.arange(60) < 40
    if name in ("PriorAttack", "ImputationAttack"):
        return attack(0), own, (), X[:40, 0]
    if name == "GaussianLinearMembership":
        game = attack(sigma=1.0, coef=[1.0, 2.0])
        return game, (X,), (np.arange(60), y), member
    if name == "MembershipInference":
        return attack(threshold=-1.0), (X, y), (), member
    if name == "RobustMembershipInference":
        return attack(model, random_state=0), (X, y), (), member
    if name == "LikelihoodRatioMembership":
        return attack(model), own, (), member[:40]
    if name == "InformedReconstruction":
        return attack(model), own, (), X[:40]
    return attack(model, 0), own, (), X[:40, 0]


@pytest.mark.parametrize("name", attacks.__all__)
def test_all_fit_predict_and_score_alike(name):
    *_, model = _problem()
    attack, known, asked, truth = _case(name)
    names = list(inspect.signature(attack.fit).parameters.values())
    positional = [p.name for p in names if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == ["X", "y", "X_reference", "y_reference"]
    assert attack.fit(*known) is attack
    released = np.append(model.coef_, model.intercept_)[:2] if asked else model
    guesses = attack.predict(released, *asked)
    assert guesses.shape[0] == len(truth)
    assert isinstance(attack.score(released, truth, *asked), float)
    if not asked:
        np.testing.assert_allclose(attack.predict([model, model]), [guesses, guesses], atol=1e-9)
    if hasattr(attack, "predict_proba"):
        posterior = attack.predict_proba(released, *asked)
        np.testing.assert_allclose(posterior.sum(axis=-1), 1.0)
        values = getattr(attack, "values_", getattr(attack, "classes_", None))
        np.testing.assert_array_equal(values[posterior.argmax(axis=-1)], guesses)
    else:
        kept = {"InformedAttributeInference", "InformedReconstruction", "MembershipInference"}
        assert name in kept | {"PosteriorMeanReconstruction", "RobustMembershipInference"}


# Attacks that guess from less than all parameters, or by one threshold for everybody.
LESS_SURE = {
    "BlackBoxAttributeInference",
    "CombinedAttributeInference",
    "GaussianLinearMembership",
    "ImputationAttack",
    "MembershipInference",
    "PriorAttack",
    "RobustMembershipInference",
}


@pytest.mark.parametrize("name", sorted(set(attacks.__all__) - LESS_SURE))
def test_who_reads_parameters_is_right_where_noise_is_tiny(name):
    attack, known, _, truth = _case(name)
    X, y, _ = _problem()
    model = PrivateLinearRegression(noise_scale=1e-6, random_state=0).fit(X[:40], y[:40])
    score = attack.set_params(estimator=model).fit(*known).score(model, truth)
    assert score > (-1e-6 if name == "InformedReconstruction" else 0.99)  # less the error, or right


# Attacks that learn nothing of a population, and what they say of reference records.
LEARN_NOTHING = {
    "GaussianLinearMembership": "learns nothing from reference records",
    "InformedAttributeInference": "learns nothing from reference records",
    "LikelihoodRatioMembership": "exact test takes no reference records",
}


@pytest.mark.parametrize("name", mostly_slow(attacks.__all__))
def test_reference_records_are_the_population_or_refused(name):
    X, y, model = _problem()
    attack, known, asked, truth = _case(name)
    known = known if len(known) == 2 else (*known, None)
    others = np.add(X[40:], [0.0, 0.1]), y[40:]
    if name in LEARN_NOTHING:
        if name == "LikelihoodRatioMembership":
            attack.set_params(method="exact")
        with pytest.raises(ValueError, match=LEARN_NOTHING[name]):
            attack.fit(*known, *others)
        return
    for wrong in ((others[0][:, :1], others[1]), (None, others[1])):
        with pytest.raises(ValueError, match="`X_reference`"):
            attack.fit(*known, *wrong)
    if name not in ("InformedReconstruction", "MembershipInference"):  # the others are stacked
        with pytest.raises(TypeError, match="both be DataFrames or both be arrays"):
            attack.fit(pd.DataFrame(known[0], columns=["a", "b"]), known[1], *others)
    guesses = attack.fit(*known, *others).predict(model, *asked)
    assert guesses.shape[0] == len(truth)
    assert isinstance(attack.score(model, truth), float)
    attack.fit(*known)
    np.testing.assert_array_equal(attack.predict(model), clone(attack).fit(*known).predict(model))


@pytest.mark.parametrize("name", ["InformedAttributeInference", "CombinedAttributeInference"])
def test_attacks_that_guess_rows_refuse_persons(name):
    attack, known, *_ = _case(name)
    with pytest.raises(AttackNotApplicableError, match="guesses rows; got `persons`"):
        attack.fit(*known, persons=np.arange(40) // 2)


def test_baselines_guess_persons_by_their_first_rows():
    X, y, _ = _problem()
    X[1:40:2, 0] = X[0:40:2, 0]
    for attack in (attacks.PriorAttack(0), attacks.ImputationAttack(0)):
        own = clone(attack).fit(X[:40], y[:40], persons=np.arange(40) // 2)
        first = clone(attack).fit(X[0:40:2], y[0:40:2])
        np.testing.assert_array_equal(own.prior_, first.prior_)
        np.testing.assert_array_equal(own.records_, np.arange(0, 40, 2))


def test_errors_of_what_learns_nothing_say_what_to_do():
    X, y, model = _problem()
    for attack in (
        attacks.WhiteBoxAttributeInference(model, 0, prior="uniform"),
        attacks.BlackBoxAttributeInference(model, 0, prior=[0.5, 0.5]),
        attacks.PriorAttack(0, prior=[0.5, 0.5]),
    ):
        with pytest.raises(ValueError, match=r"learns from no record\. Leave .* or pass prior="):
            attack.fit(X[:40], y[:40], X[40:], y[40:])
    attack = attacks.InformedReconstruction(model, bounds=None)
    with pytest.raises(ValueError, match="got it beside bounds=None"):
        attack.fit(X[:40], y[:40], X[40:], y[40:])
    with pytest.raises(ValueError, match="given without `y`"):
        attacks.PriorAttack(0).fit(X[:40], None, X[40:], y[40:])
