"""What a noise goal may call public: attacks that launder a function of the records as a number."""

import copy
import json
import math
import pickle
from dataclasses import asdict, dataclass

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

import skleak
from skleak.accounting import gaussian_epsilon
from skleak.exceptions import NoGuaranteeError
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.mechanisms import (
    EpsilonDelta,
    GaussianDP,
    MaxAdvantage,
    MaxLeakage,
    NoiseGoal,
    ObjectivePerturbation,
    PublicNoiseGoal,
    split_goal,
)
from skleak.mechanisms.calibration import ladder_rung
from skleak.neural import PrivateSGDClassifier
from skleak.report.guarantee import release_sensitivity
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
    assert all(isinstance(value, int | float | tuple | None) for value in asdict(given[0]).values())


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


LEAST_SQUARES = {
    "alpha": 0.1,
    "data_norm": 2.0,
    "target_bound": 3.0,
    "public": ("n_samples", "sample_weight"),
    "fit_intercept": False,
    "mechanism": "output",
}


def _numbers(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X *= 2.0 / np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.clip(X[:, 0] + rng.normal(size=n), -3.0, 3.0)


@pytest.mark.parametrize("goal", [GaussianDP(1.0), EpsilonDelta(1.0, 1e-6), 0.7])
def test_least_squares_of_bounded_targets_has_a_guarantee(goal):
    X, y = _numbers()
    weights = np.where(np.arange(60) < 4, 2.0, 1.0)
    for s, effective in [(None, 60.0), (weights, 32.0)]:
        model = PrivateLinearRegression(goal, **LEAST_SQUARES).fit(X, y, sample_weight=s)
        slope = 3.0 * (2.0 / (2.0 * np.sqrt(0.1)) + 1.0)
        expected = min(2.0 * 2.0 * slope / (effective * 0.1), 3.0 / np.sqrt(0.1)) + 2e-10 / 0.1
        stated = model._guarantee
        assert stated.holds
        assert stated.sensitivity == pytest.approx(expected, rel=1e-8)
        assert stated.mu == pytest.approx(expected / model.noise_scale_, rel=1e-7)
        if isinstance(goal, EpsilonDelta):
            assert stated.noise.epsilon(1e-6) <= 1.0 + 1e-12
        provenance = model.release(require_guarantee=True).provenance_
        assert provenance["target_bound"] == 3.0


def test_no_fit_of_least_squares_moves_further_than_stated():
    """Solved as it is: opposed records, targets at their bounds, and a rest that is small."""
    rng, moves = np.random.default_rng(0), []
    for _ in range(40):
        n = int(rng.choice([2, 5]))
        X, y = _numbers(n + 1, int(rng.integers(1000)))
        X[:n] *= rng.choice([0.05, 1.0], (n, 1))
        X[0], X[n], y = np.eye(3)[0] * 2.0, -np.eye(3)[0] * 2.0, 3.0 * np.sign(y)
        given = LEAST_SQUARES | {"alpha": float(rng.choice([0.1, 3.0]))}
        one, other = (
            PrivateLinearRegression(1e-12, **given, random_state=0).fit(X[rows], y[rows])
            for rows in ([*range(n)], [n, *range(1, n)])
        )
        stated = release_sensitivity(one._state, one._terms)
        moves.append(np.linalg.norm(one.coef_ - other.coef_) / stated)
    assert 0.5 < max(moves) < 1.0


def test_what_least_squares_needs_is_said():
    X, y = _numbers()
    without = LEAST_SQUARES | {"target_bound": None}
    with pytest.raises(ValueError, match=r"limits it\)"):
        PrivateLinearRegression(GaussianDP(1.0), **without).fit(X, y)
    with pytest.raises(ValueError, match="constant column of X"):
        PrivateLinearRegression(GaussianDP(1.0), **LEAST_SQUARES | {"fit_intercept": True}).fit(
            X, y
        )
    low = PrivateLinearRegression(1.0, **LEAST_SQUARES | {"target_bound": 0.01})
    with pytest.raises(ValueError, match="of 60 are larger, the first of them in row"):
        low.fit(X, y)
    array = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="some are larger"):
        low.fit(array.from_array(X, chunks=(20, 3)), array.from_array(y, chunks=20))


BY_COLUMN = {"a": 2.0, "b": 0.5, "c": 1.0}


def _models(data_norm):
    """Yield all that takes bounds, and has a guarantee under them."""
    output = LEAST_SQUARES | {"data_norm": data_norm}
    yield PrivateLinearRegression(GaussianDP(1.0), **output)
    classes = PROMISES | {"data_norm": data_norm, "mechanism": "objective", "alpha": "auto"}
    yield PrivateLogisticRegression(EpsilonDelta(1.0, 1e-6), **classes)
    robust = {"mechanism": ObjectivePerturbation(0.1), "fit_intercept": True, "alpha": "auto"}
    yield PrivateLinearRegression(EpsilonDelta(1.0, 1e-6), **output | robust)


@pytest.mark.parametrize("kind", ["list", "mapping", "sparse"])
def test_bounds_on_columns_count_by_their_norm(rng, kind):
    norm = float(np.hypot(np.hypot(2.0, 0.5), 1.0))
    X = pd.DataFrame(rng.uniform(-1.0, 1.0, (50, 3)), columns=list(BY_COLUMN))[["b", "c", "a"]]
    X *= [0.5, 1.0, 2.0]
    X.iloc[0] = [0.5, -1.0, 2.0]  # at all bounds
    bounds = [0.5, 1.0, 2.0] if kind == "list" else BY_COLUMN
    table = X
    if kind == "sparse":
        table, bounds = sparse.csr_array(X.to_numpy()), np.array([0.5, 1.0, 2.0])
    pairs = list(zip(_models(bounds), _models(norm), strict=True))
    for model, plain in pairs if kind == "mapping" else pairs[:2]:
        y = np.arange(50) % 2
        fitted, other = clone(model).fit(table, y), plain.fit(X.to_numpy(), y)
        assert fitted.noise_scale_ == pytest.approx(other.noise_scale_, rel=1e-12)
        release = fitted.release(require_guarantee=True)
        read = type(release).from_json(release.to_json()).provenance_
        assert read["data_norm"] == (bounds if kind == "mapping" else list(bounds))
        stated = read["differential_privacy"].get("assumptions", ["the norm of its bounds"])
        assert any("the norm of its bounds" in line for line in stated)
        longer = X.copy()
        longer.iloc[7, 0] = 0.51  # no longer a row than the first
        longer = sparse.csr_array(longer.to_numpy()) if kind == "sparse" else longer
        with pytest.raises(ValueError, match=r"1 of 50 rows have a larger entry.*row 7"):
            clone(model).fit(longer, y)


@pytest.mark.parametrize(
    "bounds, said",
    [
        ([1.0, 1.0], "must be 3 positive numbers"),
        ([1.0, -1.0, 1.0], "must be 3 positive numbers"),
        ([1.0, np.nan, 1.0], "must be 3 positive numbers"),
        ([1.0, np.inf, 1.0], "must be 3 positive numbers"),
        (np.ones((3, 1)), "must be 3 positive numbers"),
        ({"a": 1.0, "b": 1.0}, r"it lacks \['c'\]"),
        ("one", "'data_norm' parameter"),
    ],
)
def test_bounds_that_are_none_are_refused(records, bounds, said):
    table = pd.DataFrame(records[0], columns=list("abc"))
    for model in _models(bounds):
        with pytest.raises(ValueError, match=said):
            model.fit(table, records[1])


def test_bounds_on_columns_hold_outside_memory(records):
    array = pytest.importorskip("dask.array")
    X = array.from_array(records[0], chunks=(10, 3))
    y = array.from_array(1.0 * records[1], chunks=10)
    model = next(_models([1.0, 1.0, 1.0]))
    assert model.fit(X, y)._guarantee.holds
    with pytest.raises(ValueError, match="have a larger entry"):
        model.set_params(data_norm=[1.0, 1.0, 1e-3]).fit(X, y)
