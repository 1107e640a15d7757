"""Where noise is added, through the front doors: defaults, refusals, and what is handed out."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skleak
from skleak.accounting import LeakageLedger
from skleak.attacks import WhiteBoxAttributeInference
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.exceptions import AttackNotApplicableError, NoGuaranteeError
from skleak.inspection import attribute_leakage, leakage_tradeoff
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import (
    EpsilonDelta,
    GaussianDP,
    MaxLeakage,
    ObjectivePerturbation,
    SufficientStatistics,
    calibrate,
)
from skleak.mechanisms.protocol import PublicTable
from skleak.preprocessing import RowNormClipper

GOALS = [EpsilonDelta(1.0, 1e-6), GaussianDP(0.5)]
COMMON = {"data_norm": 1.0, "public": ("n_samples",), "fit_intercept": False}
NUMBERS = COMMON | {"target_bound": 1.0}
LABELS = COMMON | {"classes": [0, 1]}
LINEAR = ["moments", SufficientStatistics(0.5), ObjectivePerturbation(huber=0.1)]
WAYS = [
    *[(PrivateLinearRegression, NUMBERS | {"mechanism": way, "alpha": "auto"}) for way in LINEAR],
    (PrivateLogisticRegression, LABELS | {"mechanism": "objective", "alpha": "auto"}),
    (PrivateLogisticRegression, LABELS | {"mechanism": "output", "alpha": 0.1}),
    (PrivateLinearRegression, NUMBERS | {"mechanism": "output", "alpha": 0.5}),
]


@pytest.fixture
def table(rng):
    X = rng.uniform(-0.5, 0.5, size=(300, 3))
    X[:, 0] = np.arange(300) % 2 / 2.0
    return X, X @ [0.5, -0.8, 0.3] + rng.uniform(-0.1, 0.1, size=300)


def _targets(kind, y):
    return (y > 0.0).astype(int) if kind is PrivateLogisticRegression else y


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("kind, given", WAYS)
def test_every_mechanism_keeps_its_goal_and_states_it(kind, given, goal, table):
    X, y = table[0], _targets(kind, table[1])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = kind(goal, **given).fit(frame, y)
    released = model.release(require_guarantee=True)
    stated = released.provenance_["differential_privacy"]
    guarantee = model._guarantee
    if isinstance(goal, EpsilonDelta):
        assert stated["epsilon"] <= 1.0 + 1e-9
        assert guarantee.profile(1.0) <= 1e-6 * (1.0 + 1e-6)
    else:
        assert guarantee.composed_mu <= 0.5 * (1.0 + 1e-6)
    assert list(released.feature_names_in_) == ["a", "b", "c"]
    expected = released.predict(frame)
    assert_array_equal(pickle.loads(pickle.dumps(released)).predict(frame), expected)
    again = skleak.from_json(released.to_json())
    assert_array_equal(again.predict(frame), expected)
    assert_allclose(released.to_sklearn().predict(frame), expected)
    assert again.provenance_ == json.loads(json.dumps(released.provenance_))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unreleased model
        assert_array_equal(pickle.loads(pickle.dumps(model)).coef_, model.coef_)
    alike = clone(model)
    assert repr(alike.get_params()) == repr(model.get_params())
    alike.set_params(noise_scale=GOALS[0], random_state=0).fit(sparse.csr_array(X), y)
    dense = kind(GOALS[0], **given, random_state=0).fit(X, y)
    assert_allclose(alike.coef_, dense.coef_, rtol=1e-6)
    with pytest.raises(NoGuaranteeError, match="random_state"):
        dense.release(require_guarantee=True)
    with pytest.raises(NoGuaranteeError, match="no privacy profile"):
        dense._guarantee.profile(1.0)


@pytest.mark.parametrize("kind, given", WAYS)
def test_every_mechanism_in_searches_pipelines_and_a_ledger(kind, given, table, tmp_path):
    X, y = table[0], _targets(kind, table[1])
    search = GridSearchCV(kind(GOALS[0], **given), {"noise_scale": GOALS}, cv=2).fit(X, y)
    assert search.best_estimator_._guarantee.holds
    pipeline = make_pipeline(RowNormClipper(1.0), kind(GOALS[0], **given)).fit(3.0 * X, y)
    released = skleak.release(pipeline, X=3.0 * X, y=y, require_guarantee=True)
    assert released[-1].provenance_["data_norm"] == 1.0
    with pytest.raises(NoGuaranteeError, match="other records"):
        skleak.release(pipeline, X=3.0 * X, y=y[::-1])
    with pytest.raises(NoGuaranteeError, match="other records"):
        skleak.release(pipeline, X=3.0 * X[::-1])
    ledger = LeakageLedger(":memory:", max_epsilon=2.5, delta=1e-6)
    for _ in range(2):
        model = kind(GOALS[0], **given, ledger=ledger).fit(X, y)
    composed = np.sqrt(2.0) * model._guarantee.composed_mu
    assert ledger.total("default").mu == pytest.approx(composed)


def test_what_none_means(table):
    X, y = table
    labels = (y > 0.0).astype(int)
    linear = PrivateLinearRegression(GOALS[0], alpha="auto", **NUMBERS).fit(X, y)
    assert linear.release().provenance_["mechanism"] == "moments"
    with pytest.warns(FutureWarning, match='`mechanism="output"` for the model as it was'):
        logistic = PrivateLogisticRegression(GOALS[0], **LABELS).fit(X, labels)
    assert logistic.release().provenance_["mechanism"] == "objective"
    for goal in (0.5, MaxLeakage(5.0, [1])):
        model = PrivateLinearRegression(goal).fit(X, y)
        assert "mechanism" not in model.release().provenance_
    many = LABELS | {"classes": [0, 1, 2]}
    with pytest.warns(FutureWarning, match="noise is now added to the objective"):
        softmax = PrivateLogisticRegression(GOALS[0], alpha="auto", **many).fit(X, labels)
    assert softmax._guarantee.mechanism == "objective perturbation"
    shaped = PrivateLogisticRegression(GOALS[0], alpha=0.1, noise_covariance=np.eye(3), **LABELS)
    assert shaped.fit(X, labels)._guarantee.mechanism == "output perturbation"
    assert len(shaped.fisher_information_loss_) == 300
    reweighted = PrivateLogisticRegression(GOALS[0], reweighting="irfil", **LABELS)
    with pytest.raises(ValueError, match="No differential-privacy guarantee can be calibrated: th"):
        reweighted.fit(X, labels)
    with pytest.raises(ValueError, match=r"`persons`.*Use(.|\n)*PrivateSGDRegressor"):
        PrivateLinearRegression(GOALS[0], **NUMBERS).fit(X, y, persons=np.arange(300))
    with pytest.raises(ValueError, match=r"PrivateSGDRegressor of skleak\.neural"):
        PrivatePoissonRegressor(GOALS[0], data_norm=1.0).fit(X, labels)


def test_records_outside_memory_stay_with_noise_on_the_minimizer(table):
    array = pytest.importorskip("dask.array")
    X, y = table[0], (table[1] > 0.0).astype(int)
    lazily = array.from_array(X, chunks=100), array.from_array(y, chunks=100)
    model = PrivateLogisticRegression(GOALS[0], alpha=0.1, **LABELS).fit(*lazily)
    assert model._guarantee.mechanism == "output perturbation"
    assert model._kept == "output"


def test_what_needs_noise_on_the_minimizer_says_so_of_a_default(table):
    X, y = table
    model = PrivateLinearRegression(GOALS[0], alpha="auto", random_state=0, **NUMBERS).fit(X, y)
    noise = model._state.noise_elsewhere
    assert_allclose(model.fisher_information_loss_, noise.losses(*noise.scaled(X, y)))
    assert model.leakage_report().dataset["mechanism"] == "moments"
    assert model.individual_privacy()["mu"].max() < noise.mu
    with pytest.raises(AttackNotApplicableError, match=r"noise.*\n?.*mechanism=\"output\""):
        attribute_leakage(model, X, y, 0)
    with pytest.raises(AttackNotApplicableError, match=r'elsewhere(.|\n)*mechanism="output"'):
        WhiteBoxAttributeInference(model, 0).fit(X, y)
    for auditor in (LeakageAuditor(model, 0), MembershipAuditor(model)):
        with pytest.raises(ValueError, match="all of them and about one row"):
            auditor.set_params(noise_scales=[0.1], n_releases=10).fit(X, y)
    plain = PrivateLinearRegression(1.0, fit_intercept=False, random_state=0)
    attack = WhiteBoxAttributeInference(plain, 0).fit(X, y)
    fresh = PrivateLinearRegression(GOALS[0], **NUMBERS).fit(X, y).release()
    for seen in (fresh, model):  # released, and as it was fitted
        with pytest.raises(AttackNotApplicableError, match="noise on sums"):
            attack.predict(seen)
    for goal in (MaxLeakage(1.0), GOALS[0]):
        with pytest.raises(ValueError, match="No number is the scale of the noise"):
            calibrate(model, goal, X, y)
    with pytest.raises(ValueError, match='its fit by `mechanism="output"`'):
        leakage_tradeoff(model, X, y)


REFUSED = [
    ({"noise_scale": 1.0}, "`noise_scale` must be an `EpsilonDelta` or `GaussianDP`"),
    ({"noise_scale": MaxLeakage(1.0)}, "`noise_scale` must be an"),
    ({"noise_scale": GaussianDP(-1.0)}, "GaussianDP.mu"),
    ({"noise_scale": EpsilonDelta(1.0, 1.5)}, "EpsilonDelta.delta"),
    ({"noise_scale": GaussianDP(1e-9)}, "out of reach"),
    ({"data_norm": None}, "`data_norm` must be promised"),
    ({"target_bound": None}, "`target_bound` must be promised"),
    ({"target_bound": 0.01}, "promises targets of at most 0.01 in size, but"),
    ({"data_norm": 0.1}, "promises rows of Euclidean norm at most 0.1, but"),
    ({"public": ()}, "`public` must hold 'n_samples'"),
    ({"alpha": 0.0}, "`alpha` must be positive"),
    ({"reweighting": "irfil"}, "`reweighting` must be None"),
    ({"noise_covariance": "curvature"}, "`noise_covariance` must be 'isotropic'"),
    ({"mechanism": SufficientStatistics(0.0)}, "expected_norm"),
    ({"mechanism": "sums"}, "mechanism"),
]


@pytest.mark.parametrize("changed, said", REFUSED)
def test_bad_inputs_of_sums_are_refused(changed, said, table):
    model = PrivateLinearRegression(GOALS[0], alpha="auto", mechanism="moments", **NUMBERS)
    with pytest.raises(ValueError, match=said):
        model.set_params(**changed).fit(*table)


def test_sums_take_no_weights_persons_or_labels_and_few_columns(table):
    X, y = table
    model = PrivateLinearRegression(GOALS[0], alpha="auto", mechanism="moments", **NUMBERS)
    with pytest.raises(ValueError, match="`sample_weight` must be None"):
        model.fit(X, y, sample_weight=np.ones(300))
    with pytest.raises(ValueError, match="`persons` must be None"):
        model.fit(X, y, persons=np.arange(300))
    with pytest.raises(ValueError, match="at most 2000 are supported"):
        model.fit(np.zeros((5, 2001)), np.zeros(5))
    classifier = PrivateLogisticRegression(GOALS[0], mechanism=SufficientStatistics(), **LABELS)
    with pytest.raises(ValueError, match="must not be sums"):
        classifier.fit(X, y > 0.0)


def test_of_sums_nothing_but_noisy_numbers_depends_on_the_records(table, rng):
    """Two tables of one size and other records, one of them of zeros."""
    X, y = table
    seen = []
    for rows, targets in [(X, y), (np.zeros_like(X), np.zeros_like(y)), (-X, np.sign(y))]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = PrivateLinearRegression(GOALS[0], mechanism="moments", alpha="auto", **NUMBERS)
            released = model.fit(rows, targets).release(require_guarantee=True)
        public = {k: v for k, v in vars(model).items() if k not in ("coef_", "moments_", "_state")}
        shapes = {k: np.shape(v) for k, v in model.moments_.moments.items()}
        content = {k: v for k, v in vars(released).items() if k != "coef_"}
        seen.append((repr(public), shapes, repr(content), sorted(vars(model))))
    assert seen[0] == seen[1] == seen[2]
    assert not hasattr(released, "_state")


def test_a_fit_of_sums_is_that_of_least_squares_and_of_its_own_moments(table):
    X, y = table
    free = {"fit_intercept": True, "target_bound": 1.0, "data_norm": 1.0, "public": "n_samples"}
    model = PrivateLinearRegression(GaussianDP(1e6), mechanism="moments", alpha=0.02, **free)
    model.fit(X, y)
    exact = PrivateLinearRegression(0.0, alpha=0.02).fit(X, y)
    assert_allclose(model.coef_, exact.coef_, rtol=1e-4)
    assert_allclose(model.intercept_, exact.intercept_, rtol=1e-3)
    assert (model.alpha_, model.loss_, model.coef_noise_scale_) == (0.02, "squared", None)
    again = model.moments_.regress(alpha=0.02)
    assert_array_equal(again.coef_, model.coef_)
    assert np.all(again.summary()["standard_error"] > 0.0)
    assert model.moments_.differential_privacy is model._guarantee
    edge = clone(model).set_params(alpha="auto").fit(X, y)
    assert edge.alpha_ == edge.moments_.regress().alpha_
    output = model.set_params(mechanism="output", noise_scale=1.0).fit(X, y)
    assert not hasattr(output, "moments_")
    assert len(output.fisher_information_loss_) == 300


def test_noise_is_calibrated_from_public_numbers_without_a_table():
    public = PublicTable(300, 3, 1.0, target_bound=1.0, alpha=0.1)
    for mechanism in (ObjectivePerturbation(0.1), SufficientStatistics()):
        noise = mechanism.calibrate(GOALS[0], public)
        assert noise.profile(1.0) <= 1e-6
        assert noise.mechanism is type(mechanism)
        assert mechanism == type(mechanism)(**vars(mechanism))
        with pytest.raises(AttributeError):
            mechanism.name = "other"


@pytest.mark.parametrize("way", [*WAYS[:1], *WAYS[3:5]], ids=["moments", "objective", "output"])
def test_a_report_says_what_the_noise_is_on(way, table):
    X, y = table
    kind, given = way
    page = kind(GOALS[1], **given).fit(X, _targets(kind, y)).leakage_report().to_html()
    name = given["mechanism"]
    where = {"moments": "each sum", "objective": "the gradient", "output": "each coefficient"}
    assert f"standard deviation of the noise on {where[name]}" in page


def test_a_ledger_enters_the_largest_loss_that_sums_can_have(table, tmp_path):
    X, y = table
    kind, given = WAYS[0]
    model = kind(GOALS[1], ledger=LeakageLedger(tmp_path / "ledger.db"), **given)
    stated = model.fit(X, y).ledger.total("default").fisher_information_loss.max()
    assert model.fisher_information_loss_.max() <= stated < np.inf
