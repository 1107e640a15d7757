"""What a noise goal may call public: attacks that launder a function of the records as a number."""

import copy
import json
import math
import pickle
from dataclasses import asdict, dataclass

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import skleak
from skleak.accounting import gaussian_epsilon
from skleak.exceptions import NoGuaranteeError
from skleak.linear_model import PrivateLogisticRegression
from skleak.mechanisms import (
    EpsilonDelta,
    GaussianDP,
    MaxAdvantage,
    MaxLeakage,
    NoiseGoal,
    PublicNoiseGoal,
    split_goal,
)
from skleak.mechanisms.calibration import ladder_rung
from skleak.neural import PrivateSGDClassifier
from skleak.utils._confidential import CalibratedNoise

PROMISES = {
    "alpha": 0.1,
    "data_norm": 1.0,
    "fit_intercept": False,
    "classes": [0, 1],
    "public": ("n_samples",),
    "mechanism": "output",
}


@dataclass
class Reads(NoiseGoal):
    """A function of all records, in 16 digits."""

    def resolve(self, problem):
        return float(problem.sufficient_noise(0.5, None).mean())


@pytest.fixture
def records(rng):
    X = rng.normal(size=(40, 3))
    X /= 1.01 * np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.arange(40) % 2


def test_a_goal_that_reads_records_claims_no_guarantee_and_only_a_rung_leaves(records):
    model = PrivateLogisticRegression(Reads(), **PROMISES).fit(*records)
    assert Reads().data_dependent
    assert model.noise_scale_ == ladder_rung(Reads().noise_scale_of(model))
    assert model.release().provenance_["differential_privacy"] is None
    with pytest.raises(NoGuaranteeError, match="read off the training records"):
        model.release(require_guarantee=True)


@pytest.mark.parametrize("declared", [False, 0, None, property(lambda self: False)])
@pytest.mark.parametrize("base", [NoiseGoal, Reads, MaxLeakage, GaussianDP])
def test_no_declaration_makes_a_goal_public(base, declared):
    with pytest.raises(TypeError, match="derive a goal that needs public knowledge alone from"):
        type("Claims", (base,), {"data_dependent": declared, "resolve": Reads.resolve})


def test_no_attribute_makes_a_goal_public(records):
    goal = Reads()
    with pytest.raises(AttributeError):
        goal.data_dependent = False

    class Later(Reads):
        pass

    Later.data_dependent = False
    model = PrivateLogisticRegression(Later(), **PROMISES).fit(*records)
    with pytest.raises(NoGuaranteeError, match="read off the training records"):
        model.release(require_guarantee=True)


@pytest.mark.parametrize("base", [GaussianDP, PublicNoiseGoal])
def test_a_public_goal_that_reaches_for_records_is_given_none(base, records):
    given = []

    class Reaches(base):
        def __init__(self, mu=1.0):
            self.mu = mu

        def resolve(self, problem):
            given.append(problem)
            return float(problem.sufficient_noise(0.5, None).mean())

    model = PrivateLogisticRegression(Reaches(), **PROMISES)
    with pytest.raises(AttributeError, match="sees no records, and so no 'sufficient_noise'"):
        model.fit(*records)
    with pytest.raises(AttributeError, match="sees no records"):
        Reaches().noise_scale_of(PrivateLogisticRegression(1.0, **PROMISES).fit(*records))
    # What it holds on any other table of these promises is the same, so that nothing leaves by it.
    X, y = records
    with pytest.raises(AttributeError):
        model.fit(-X[::-1] * 0.5, 1 - y)
    assert asdict(given[0]) == asdict(given[-1])
    assert all(isinstance(value, int | float | tuple) for value in asdict(given[0]).values())


def test_a_class_that_is_registered_as_public_is_given_no_records(records):
    @PublicNoiseGoal.register
    class Registered(Reads):
        pass

    with pytest.raises(AttributeError, match="sees no records"):
        PrivateLogisticRegression(Registered(), **PROMISES).fit(*records)


def test_numbers_of_records_that_are_not_declared_public_are_not_given(records):
    given = []

    class Keeps(PublicNoiseGoal):
        def resolve(self, problem):
            given.append(problem)
            return 1.0

    PrivateLogisticRegression(Keeps(), **PROMISES | {"public": ()}).fit(*records)
    shaped = PROMISES | {"noise_covariance": "curvature"}
    PrivateLogisticRegression(Keeps(), **shaped).fit(*records)
    assert given[0].n_samples is None
    assert np.isnan(given[0].unit_sensitivity)
    assert given[1].n_samples == 40
    assert np.isnan(given[1].relative_step)
    for problem in given:
        with pytest.raises(ValueError, match="No differential-privacy guarantee can be"):
            problem.sensitivity()


@pytest.mark.parametrize("goal", [GaussianDP(1.0), EpsilonDelta(1.0, 1e-6)])
def test_goals_of_privacy_stay_public(goal, records):
    model = PrivateLogisticRegression(goal, **PROMISES).fit(*records)
    assert not goal.data_dependent
    assert type(model.noise_scale_) is type(goal.noise_scale_of(model)) is float
    assert model.release(require_guarantee=True).provenance_["noise_goal"] is None


KEPT = {
    "round": lambda noise: round(noise, 3),
    "round to a whole number": round,
    "sum": lambda noise: sum([noise, 1.0]),
    "difference": lambda noise: 10.0 - (noise - 1),
    "product": lambda noise: 2 * noise * np.float64(3.0),
    "quotient": lambda noise: (noise / 2.0) / (1 / noise),
    "power": lambda noise: noise**2 // 0.01 % 1000.0,
    "sign": lambda noise: abs(-(+noise)),
    "ceiling": lambda noise: math.ceil(math.floor(noise) + 1),
    "largest": lambda noise: max(noise, 0.0),
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda noise: pickle.loads(pickle.dumps(noise)),
    "parameter of a clone": lambda noise: clone(PrivateLogisticRegression(noise)).noise_scale,
}
PLAIN = {
    "float": float,
    "array": lambda noise: np.array([noise])[0],
    "NumPy": lambda noise: np.float64(2.0) * noise,
    "math": math.sqrt,
    "text": lambda noise: float(str(noise)),
}


@pytest.mark.parametrize("name", [*KEPT, *PLAIN])
def test_the_mark_is_kept_by_all_but_what_the_docstring_says(name, records):
    noise = CalibratedNoise(3.25)
    found = (KEPT | PLAIN)[name](noise)
    assert float(found) == float((KEPT | PLAIN)[name](3.25))
    assert isinstance(found, CalibratedNoise) == (name in KEPT)
    model = PrivateLogisticRegression(found, **PROMISES).fit(*records)
    states = model.release().provenance_["differential_privacy"] is not None
    assert states == (name in PLAIN)


@pytest.mark.parametrize("goal", [MaxLeakage(2.0, features=0), MaxAdvantage(0.9, "(target)")])
def test_a_scale_read_off_records_is_marked_wherever_it_is_read(goal, records, tmp_path):
    public = PrivateLogisticRegression(1.0, **PROMISES).fit(*records)
    found = goal.noise_scale_of(public)
    model = PrivateLogisticRegression(found, **PROMISES).fit(*records)
    released = model.release()
    joblib.dump(released, tmp_path / "model")
    for noise in (
        found,
        model.noise_scale_,
        released.noise_scale_,
        skleak.from_json(released.to_json()).noise_scale_,
        joblib.load(tmp_path / "model").noise_scale_,
    ):
        assert isinstance(noise, CalibratedNoise)
        assert noise == found
        again = PrivateLogisticRegression(noise, **PROMISES).fit(*records)
        with pytest.raises(NoGuaranteeError, match="read off the training records"):
            again.release(require_guarantee=True)
    assert json.loads(json.dumps(found)) == found
    plain = PrivateLogisticRegression(float(found), **PROMISES).fit(*records)
    assert plain.release(require_guarantee=True).noise_scale_ == found


@pytest.mark.parametrize("value", ["1.0", None, [1.0], {"float": "none"}])
def test_a_damaged_mark_is_refused(value, records):
    model = PrivateLogisticRegression(CalibratedNoise(1.0), **PROMISES).fit(*records)
    document = json.loads(model.release().to_json())
    assert document["content"]["noise_scale_"] == {"calibrated": 1.0}
    document["content"]["noise_scale_"] = {"calibrated": value}
    with pytest.raises(ValueError):
        skleak.from_json(json.dumps(document))


def test_private_sgd_takes_no_multiplier_that_was_read_off_records(records):
    with pytest.raises(ValueError, match="`noise_multiplier` was read off records"):
        PrivateSGDClassifier(noise_multiplier=CalibratedNoise(1.0)).fit(*records)


@pytest.mark.parametrize("noise", [MaxLeakage(2.0, features=0), CalibratedNoise(3.0), 3.0])
def test_a_report_says_first_that_the_scale_is_published(noise, records):
    report = PrivateLogisticRegression(noise, **PROMISES).fit(*records).leakage_report()
    says = "and is published: what it tells is not in these numbers" in " ".join(report.lead)
    assert says == (noise != 3.0 or isinstance(noise, CalibratedNoise))
    assert ("pass it as `float(noise_scale)`" in " ".join(report.assumptions)) == isinstance(
        noise, CalibratedNoise
    )


@pytest.mark.parametrize("shares", [[1.0], [0.1, 0.9], [0.2, 0.3, 0.5], np.full(7, 1.0 / 7.0)])
@pytest.mark.parametrize("goal", [EpsilonDelta(1.0, 1e-6), EpsilonDelta(0.1, 1e-12), GaussianDP(2)])
def test_parts_add_up_to_the_goal(goal, shares):
    parts = split_goal(goal, shares)
    mu = np.linalg.norm([part.mu for part in parts])
    delta = sum(part.delta for part in parts)
    assert_allclose([part.mu**2 / mu**2 for part in parts], shares)
    assert [clone(part) for part in parts] == parts
    if isinstance(goal, GaussianDP):
        assert 0.99999 * goal.mu < mu < goal.mu
        assert delta == 0.0
        return
    assert delta == pytest.approx(0.1 * goal.delta)
    assert 0.9999 * goal.epsilon < gaussian_epsilon(mu, goal.delta - delta) < goal.epsilon


@pytest.mark.parametrize(
    "shares", [[0.5, 0.4], [0.5, 0.5 + 1e-8], [1.5, -0.5], [0.0, 1.0], [], [[1]]]
)
def test_shares_must_be_positive_and_sum_to_one(shares):
    with pytest.raises(ValueError, match="`shares`"):
        split_goal(EpsilonDelta(1.0, 1e-6), shares)


def test_goals_that_cannot_be_split_are_refused():
    with pytest.raises(TypeError, match="must be an EpsilonDelta or a GaussianDP"):
        split_goal(MaxLeakage(0.5), [0.5, 0.5])
    for goal in (EpsilonDelta(0.0, 1e-6), EpsilonDelta(1.0, 1.0), GaussianDP(-1.0)):
        with pytest.raises(ValueError, match=type(goal).__name__):
            split_goal(goal, [0.5, 0.5])


def test_a_delta_shows_where_there_is_one():
    assert repr(GaussianDP(0.5)) == "GaussianDP(mu=0.5)"
    assert repr(GaussianDP(0.5, delta=1e-7)) == "GaussianDP(mu=0.5, delta=1e-07)"
