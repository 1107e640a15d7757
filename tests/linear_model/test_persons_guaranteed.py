"""Guarantees about persons with several rows: what counts, what is stated, what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skleak.accounting import LeakageLedger
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateSearchCV,
)
from skleak.mechanisms import (
    EpsilonDelta,
    GaussianDP,
    ObjectivePerturbation,
    SufficientStatistics,
    split_goal,
)
from skleak.mechanisms.protocol import PublicTable
from skleak.neural import PrivateSGDClassifier
from skleak.preprocessing import PrivateScaler

GOALS = [EpsilonDelta(1.0, 1e-6, rows_per_person=3), GaussianDP(1.0, rows_per_person=3)]
PUBLIC = {"data_norm": 1.0, "public": ("n_persons",), "alpha": "auto"}
NUMBERS = PUBLIC | {"target_bound": 1.0}
WAYS = [
    (PrivateLogisticRegression, PUBLIC | {"classes": [0, 1], "mechanism": "objective"}),
    (PrivateLogisticRegression, PUBLIC | {"classes": [0, 1, 2], "mechanism": "objective"}),
    (PrivateLinearRegression, NUMBERS | {"mechanism": ObjectivePerturbation(huber=0.1)}),
    (PrivateLinearRegression, NUMBERS | {"fit_intercept": False}),
]
OUTPUT = {"mechanism": "output", "fit_intercept": False, "alpha": 0.3}
MINIMIZERS = [
    (PrivateLogisticRegression, PUBLIC | {"classes": [0, 1]} | OUTPUT),
    (PrivateLinearRegression, NUMBERS | OUTPUT),
]


@pytest.fixture
def table(rng):
    X = rng.normal(size=(200, 3))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    return X, rng.integers(0, 2, 200), rng.integers(0, 60, 200)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize(("kind", "given"), [*WAYS, *MINIMIZERS])
def test_the_guarantee_is_about_persons_and_keeps_the_goal(kind, given, goal, table):
    X, y, persons = table
    model = kind(goal, **given).fit(X, y, persons=persons)
    stated = model.release(require_guarantee=True).provenance_["differential_privacy"]
    assert "one person, of at most 3 rows" in stated["about"]
    if given.get("mechanism") == "output":
        assert len(model.fisher_information_loss_) == len(np.unique(persons))
        return
    assert any("first 3 count" in each for each in stated["assumptions"])
    if isinstance(goal, GaussianDP):
        assert 0.999 < stated["composed_mu"] <= 1.0
    else:
        assert 0.999 < stated["epsilon"] <= 1.0
    assert "rows_per_person=3" in model.release().provenance_["goal"]
    with pytest.raises(AttackNotApplicableError, match="persons"):
        _ = model.fisher_information_loss_


@pytest.mark.parametrize(("kind", "given"), [*WAYS, *MINIMIZERS])
def test_public_numbers_do_not_tell_how_many_rows_a_person_has(kind, given, table):
    X, y, persons = table
    found = []
    # A person has one row, three, or thirty.
    for rows in (1, 3, 30):
        which = np.append(np.flatnonzero(persons != 0), np.zeros(rows, dtype=int))
        who = np.append(persons[persons != 0], np.zeros(rows, dtype=int))
        model = kind(GOALS[0], **given).fit(X[which], y[which], persons=who)
        known = model.release().provenance_
        names = ("alpha_", "noise_scale_", "noise_step_", "gradient_noise_scale_")
        found.append((repr(known), [getattr(model, name, None) for name in names]))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(("kind", "given"), MINIMIZERS)
def test_no_person_moves_a_minimizer_further_than_stated(kind, given, rng):
    goal, found = GaussianDP(1e9, rows_per_person=2), []  # hardly any noise
    best = 0.0
    for _ in range(60):
        X = rng.normal(size=(2, 4, 2))
        X /= np.linalg.norm(X, axis=2)[..., None] * rng.choice([1.0, 1.0, 2.0])
        X[1, :2] = X[0, :2] = np.sign(rng.normal(size=(2, 1))) * [1.0, 0.0]
        X[:, 2:] = rng.choice([-1.0, 1.0], size=(2, 2, 1)) * [1.0, 0.0]
        y = rng.choice([-1.0, 1.0], size=(2, 4))
        y[1, :2] = y[0, :2]
        y = (y > 0.0).astype(int) if "classes" in given else y
        ends, persons = [], np.array([0, 0, 1, 1])
        for rows, table, targets in zip((4, rng.integers(3, 5)), X, y, strict=True):
            model = kind(goal, **given).fit(table[:rows], targets[:rows], persons=persons[:rows])
            ends.append(model.coef_.ravel())
        found.append(np.linalg.norm(ends[0] - ends[1]) / model._guarantee.sensitivity)
        best = max(best, found[-1])
    assert 0.15 < best <= 1.0 + 1e-9


@pytest.mark.parametrize(("kind", "given"), WAYS)
def test_rows_beyond_the_first_ones_do_not_count(kind, given, table):
    X, y, persons = table
    counts = np.zeros(60, dtype=int)
    kept = np.zeros(200, dtype=bool)
    for i, who in enumerate(persons):
        kept[i] = counts[who] < 3
        counts[who] += 1
    assert 0 < kept.sum() < 200
    goal = GaussianDP(1e6, rows_per_person=3)  # hardly any noise
    given = given | {"alpha": 1e-2}
    fits = [
        kind(goal, **given).fit(X[rows], y[rows], persons=persons[rows])
        for rows in (np.ones(200, dtype=bool), kept)
    ]
    assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-3)
    whole = kind(goal, **given).fit(X, y, persons=np.arange(200) % 100)  # all rows count
    assert np.abs(whole.coef_ - fits[0].coef_).max() > 1e-2
    assert fits[0].alpha_ == pytest.approx(1e-2)


def test_noise_is_that_of_as_many_rows(table):
    X, y, persons = table
    given = PUBLIC | {"classes": [0, 1], "public": ("n_samples", "n_persons")}
    one = PrivateLogisticRegression(EpsilonDelta(1.0, 1e-6), mechanism="objective", **given)
    ratio = (
        clone(one).set_params(noise_scale=GOALS[0]).fit(X, y, persons=persons).gradient_noise_scale_
        / one.fit(X, y).gradient_noise_scale_
    )
    assert ratio == pytest.approx(3.0, rel=2e-3)
    public = PublicTable(600, 3, 1.0, target_bound=1.0)
    noise = SufficientStatistics().calibrate(GOALS[1], public)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    X, y = noise.scaled(X, np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]))
    k, sign = noise.kernel(X, y, X, y), np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    assert np.sqrt(sign @ k @ sign) <= noise.mu <= 1.0


def test_a_ledger_is_charged_for_the_person(table, tmp_path):
    X, y, persons = table
    ledger = LeakageLedger(tmp_path / "ledger.db")
    kind, given = WAYS[0]
    model = kind(GOALS[1], ledger=ledger, **given).fit(X, y, persons=persons)
    assert ledger.total("default").mu == pytest.approx(model._guarantee.composed_mu)
    assert "rows_per_person=3" in str(ledger.history()["description"].iloc[0])


@pytest.mark.parametrize(
    ("changed", "fitted", "message"),
    [
        ({"public": ("n_samples",)}, {}, "must hold 'n_persons'"),
        ({}, {"persons": None}, "must be given `persons`"),
        ({}, {"sample_weight": np.ones(200)}, "`sample_weight` must be None"),
        ({"noise_scale": GaussianDP(1.0)}, {}, "`rows_per_person` of a goal protects persons"),
        ({"noise_scale": GaussianDP(1.0), "mechanism": None}, {}, "by `rows_per_person` of its"),
        ({"noise_scale": GaussianDP(1.0, rows_per_person=0)}, {}, "whole number from 1"),
        ({**OUTPUT, "public": ("n_samples",)}, {}, "number of persons is not said"),
        ({**OUTPUT, "noise_scale": GOALS[0]}, {"persons": None}, "must be given `persons`"),
        (OUTPUT, {"sample_weight": np.ones(200)}, "`sample_weight` must be None"),
    ],
)
def test_what_does_not_go_with_persons_is_refused(changed, fitted, message, table):
    X, y, persons = table
    kind, given = WAYS[0]
    model = kind(GOALS[0], **given).set_params(**changed)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, **({"persons": persons} | fitted))


@pytest.mark.parametrize(
    "take",
    [
        lambda goal, X, y: PrivateMoments(goal, data_norm=1.0, fit_intercept=False).fit(X),
        lambda goal, X, y: PrivateScaler(goal, bounds=(-1, 1)).fit(X),
        lambda goal, X, y: split_goal(goal, [0.5, 0.5]),
        lambda goal, X, y: PrivateSGDClassifier(noise_multiplier=goal).fit(X, y),
        lambda goal, X, y: PrivateSearchCV(
            PrivateLogisticRegression(data_norm=1.0, classes=[0, 1], public=("n_samples",)),
            {"alpha": [0.1, 0.2]},
            goal,
        ).fit(X, y),
    ],
)
@pytest.mark.parametrize("goal", GOALS)
def test_what_knows_no_persons_refuses_the_goal(take, goal, table):
    X, y, _ = table
    with pytest.raises(ValueError, match="rows_per_person"):
        take(goal, X, y)
