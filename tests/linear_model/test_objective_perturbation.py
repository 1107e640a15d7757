"""Noise in the objective: what it releases, states, refuses, and what it must not depend on."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split

from skleak._released import ReleasedLinearRegression, ReleasedLogisticRegression
from skleak.accounting import LeakageLedger, gaussian_delta, gaussian_epsilon
from skleak.accounting.gaussian import mu_from_epsilon_delta
from skleak.attacks import (
    BlackBoxAttributeInference,
    LikelihoodRatioMembership,
    WhiteBoxAttributeInference,
)
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.exceptions import (
    AttackNotApplicableError,
    CostWarning,
    LeakageBudgetError,
    NoGuaranteeError,
    PrivacyLeakWarning,
)
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.mechanisms import (
    EpsilonDelta,
    GaussianDP,
    MaxLeakage,
    ObjectivePerturbation,
    objective,
)
from skleak.mechanisms.protocol import PublicTable

PROMISES = {
    "alpha": "auto",
    "data_norm": 1.0,
    "fit_intercept": False,
    "classes": [0, 1],
    "public": ("n_samples",),
    "mechanism": "objective",
}
OUTPUT = PROMISES | {"alpha": 0.1, "mechanism": "output"}
GOALS = [GaussianDP(1.0), EpsilonDelta(1.0, 1e-6), EpsilonDelta(0.1, 1e-5)]


def _calibrated(goal, strength, p, n, total, weight, norm, width=None, bound=None, **given):
    mechanism = ObjectivePerturbation(None if width is None else width / bound)
    alpha = None if strength is None else strength / total
    sizes = {"alpha": alpha, "total": total, "largest_weight": weight, "target_bound": bound}
    return mechanism.calibrate(goal, PublicTable(n, p, norm, **sizes, **given))


def _table(n=200, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0.0).astype(int)


def _model(goal=GOALS[0], **changed):
    return PrivateLogisticRegression(goal, **{**PROMISES, **changed})


@pytest.mark.parametrize("goal", GOALS)
def test_a_release_keeps_its_goal_at_the_noise_of_gaussian_noise(goal):
    X, y = _table()
    model = _model(goal).fit(X, y)
    stated = model.release(require_guarantee=True).provenance_["differential_privacy"]
    if isinstance(goal, GaussianDP):
        mu, strength = goal.mu, 8.0 / goal.mu**2
        assert mu * (1.0 - 1e-6) < stated["composed_mu"] <= mu
        assert stated["delta"] == 1e-6
        assert stated["epsilon"] == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=5e-3)
    else:
        mu, strength = mu_from_epsilon_delta(goal.epsilon, goal.delta), 2.0 / goal.epsilon
        assert goal.epsilon * (1.0 - 1e-4) < stated["epsilon"] <= goal.epsilon
        assert stated["delta"] == goal.delta
    assert model.gradient_noise_scale_ == pytest.approx(2.0 / mu, rel=1e-3)
    assert model.alpha_ * len(y) == pytest.approx(strength, rel=2e-4)
    assert stated["mechanism"] == "objective perturbation"
    assert stated["exact"]
    assert "replacement of one row" in stated["about"]
    assert any("data_norm" in line for line in stated["assumptions"])


def test_a_given_penalty_is_kept_and_costs_noise_below_the_rule():
    X, y = _table()
    goal = EpsilonDelta(1.0, 1e-6)
    model, auto = (_model(goal, alpha=alpha).fit(X, y) for alpha in (0.005, "auto"))
    assert model.alpha_ == 0.005
    assert model.gradient_noise_scale_ > 1.04 * auto.gradient_noise_scale_
    assert model.release().provenance_["differential_privacy"]["epsilon"] <= 1.0


@pytest.mark.parametrize("n_parameters", [1, 20_000])
@pytest.mark.parametrize("n_records, total", [(2, 2.0), (10**7, 1e6)])
@pytest.mark.parametrize("goal", [*GOALS, GaussianDP(1e-3), GaussianDP(10.0)])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_all_parts_together_keep_the_goal(goal, n_parameters, n_records, total, n_classes):
    sizes = n_parameters, n_records, total, 0.5, 3.0
    noise = _calibrated(goal, None, *sizes, n_classes=n_classes)
    if isinstance(goal, GaussianDP):
        assert noise.composed_mu <= goal.mu
        assert noise.composed_mu > goal.mu * (1.0 - 1e-5) - 4e-7
    else:
        assert noise.epsilon(goal.delta) <= goal.epsilon
    assert noise.output_mu < 0.011 * noise.mu
    assert noise.error > noise.tolerance > 0.0


@pytest.mark.parametrize(
    "mechanism, changed",
    [
        ("objective", {}),
        ("objective", {"alpha": 0.02}),
        ("output", {"alpha": 0.1}),
    ],
)
@pytest.mark.parametrize("goal", GOALS)
def test_profile_is_the_inverse_of_epsilon_and_above_that_of_gaussian_noise(
    goal, mechanism, changed
):
    model = _model(goal, mechanism=mechanism, **changed).fit(*_table())
    guarantee = model._guarantee
    deltas = np.array([1e-9, 1e-6, 1e-3])
    epsilons = np.array([guarantee.noise.epsilon(delta) for delta in deltas])
    assert_allclose(guarantee.profile(epsilons), deltas, rtol=1e-5)
    losses = np.linspace(0.0, 4.0, 9)
    curve, composed = guarantee.profile(losses), gaussian_delta(guarantee.composed_mu, losses)
    least = guarantee.mu if mechanism == "output" else 2.0 / guarantee.noise.noise
    assert np.all(curve >= gaussian_delta(least, losses) * (1.0 - 1e-9))
    assert np.all(curve <= composed * (1.0 + 2e-3) + 1e-18)
    assert isinstance(guarantee.profile(1.0), float)
    assert np.all(np.diff(curve) <= 0.0)
    none = _model(goal, mechanism=mechanism, random_state=0, **changed).fit(*_table())._guarantee
    with pytest.raises(NoGuaranteeError, match="no privacy profile: the noise came from a seed"):
        none.profile(1.0)


@pytest.mark.parametrize("kind", ["logistic", "softmax", "pseudo-Huber"])
def test_an_intercept_is_a_penalized_column_of_half_the_norm(kind):
    X, y = _table()
    many, regression = kind == "softmax", kind == "pseudo-Huber"
    goal = EpsilonDelta(1.0, 1e-6)
    constant = np.full((len(y), 1), 1.5)
    given = {"random_state": 0, "alpha": 0.2}
    if regression:
        y = np.clip(X[:, 0] + 0.1, -1.0, 1.0)
        given["mechanism"], given["target_bound"] = ObjectivePerturbation(0.1), 1.0
    else:
        given["mechanism"], given["classes"] = "objective", [0, 1, 2] if many else [0, 1]
        y[:20] = 2 * many
    estimator = PrivateLinearRegression if regression else PrivateLogisticRegression
    own = estimator(goal, data_norm=3.0, public=("n_samples",), **given)
    norm = float(np.hypot(3.0 * (1.0 + 1e-12), 1.5 * (1.0 + 1e-12)))
    appended = clone(own).set_params(fit_intercept=False, data_norm=norm)
    for table in (X, sparse.csr_array(X)):
        own.fit(table, y)
        appended.fit(np.hstack([X, constant]), y)
        coef = np.atleast_2d(appended.coef_)
        assert_allclose(np.atleast_2d(own.coef_), coef[:, :-1], atol=1e-7)
        assert_allclose(np.ravel(own.intercept_), 1.5 * coef[:, -1], atol=1e-7)
    assert np.ndim(own.intercept_) == 1 - regression
    assert own.gradient_noise_scale_ == pytest.approx(appended.gradient_noise_scale_, rel=1e-9)
    stated = own.set_params(random_state=None).fit(X, y).release(require_guarantee=True)
    assert_array_equal(stated.predict(X), own.predict(X))
    assumed = stated.provenance_["differential_privacy"]["assumptions"]
    assert any("1.5 (half of that norm)" in line for line in assumed)


@pytest.mark.parametrize("goal", [GaussianDP(1.0), EpsilonDelta(1.0, 1e-6)])
@pytest.mark.parametrize("n_classes", [3, 6])
def test_many_classes_keep_the_goal_and_hide_which_are_there(goal, n_classes):
    X, y = _table(80)
    model = _model(goal, classes=np.arange(n_classes), fit_intercept=True).fit(X, y)
    assert model.coef_.shape == (n_classes, 3)
    assert model.loss_ == "softmax"
    stated = model.release(require_guarantee=True).provenance_["differential_privacy"]
    if isinstance(goal, GaussianDP):
        assert 1.0 - 1e-5 < stated["composed_mu"] <= 1.0
    else:
        assert 1.0 - 1e-4 < stated["epsilon"] <= 1.0
        strength = 10.0 * (1.0 - 1.0 / n_classes) * 1.25
        assert model.alpha_ * len(y) == pytest.approx(strength, rel=1e-6)
    assert any(f"the {n_classes} classes were declared" in x for x in stated["assumptions"])
    empty = _model(goal, classes=np.arange(n_classes), fit_intercept=True).fit(X, y * 0 + 1)
    assert empty._guarantee == model._guarantee
    read = ReleasedLogisticRegression.from_json(model.release().to_json())
    assert_array_equal(read.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("strength", [0.5, 5.0, 50.0])
def test_the_minimizer_of_many_classes_is_that_of_scipy(strength):
    rng, (X, y) = np.random.default_rng(3), _table()
    y[rng.random(len(y)) < 0.3], s = 2, rng.uniform(0.5, 2.0, len(y))
    given = EpsilonDelta(80.0, 1e-6), strength, 9, len(y), s.sum(), s.max(), 1.0
    noise, b = _calibrated(*given, n_classes=3), rng.normal(size=9)

    def value(w):
        a = X @ w.reshape(3, 3).T
        p = softmax(a, axis=1)
        gradient = ((s[:, None] * (p - np.eye(3)[y])).T @ X).ravel() + strength * w + b
        loss = s @ (logsumexp(a, axis=1) - a[np.arange(len(y)), y])
        return loss + 0.5 * strength * w @ w + b @ w, gradient

    for table in (X, sparse.csr_array(X)):
        found, n_iter = noise.minimum(table, y * 1.0, s, b)
        assert_allclose(found, minimize(value, np.zeros(9), jac=True, tol=1e-12).x, atol=1e-4)
        assert n_iter < 20
        assert np.linalg.norm(value(found)[1]) <= noise.error


def test_the_gradient_of_many_classes_at_the_coefficients_is_the_noise_that_is_stated():
    X, y = _table(60, 12)
    y[:15], drawn = 2, []
    for _ in range(6):
        model = _model(EpsilonDelta(2.0, 1e-4), classes=[0, 1, 2]).fit(X, y)
        slopes = softmax(X @ model.coef_.T, axis=1) - np.eye(3)[y]
        drawn.append(-(slopes.T @ X + model.alpha_ * 60 * model.coef_))
    assert stats.kstest(np.ravel(drawn) / model.gradient_noise_scale_, "norm").pvalue > 1e-4


@pytest.mark.parametrize("strength", [0.1, 5.0])
def test_the_minimizer_is_that_of_scipy(strength):
    rng, (X, y) = np.random.default_rng(3), _table()
    s, b = rng.uniform(0.5, 2.0, len(y)), rng.normal(size=3)
    given = EpsilonDelta(50.0, 1e-6), strength, 3, len(y), s.sum(), s.max(), 1.0
    noise = _calibrated(*given)

    def value(w):
        p = X @ w
        gradient = X.T @ (s * (expit(p) - y)) + strength * w + b
        return s @ (np.logaddexp(0.0, p) - y * p) + 0.5 * strength * w @ w + b @ w, gradient

    found = noise.minimum(X, y, s, b)[0]
    reference = minimize(value, np.zeros(3), jac=True, tol=1e-12).x
    assert_allclose(found, reference, atol=1e-4)
    assert np.linalg.norm(value(found)[1]) <= noise.error
    assert_allclose(noise.minimum(sparse.csr_array(X), y, s, b)[0], found, atol=1e-8)


@pytest.mark.parametrize("n", [1, 3000])
def test_the_solver_arrives_whatever_the_records(n):
    rng = np.random.default_rng(n)
    b = rng.normal(0.0, 5.0, 4)
    tables = [np.zeros((n, 4)), np.tile(np.eye(4)[0], (n, 1)), np.eye(4)[rng.integers(4, size=n)]]
    tables += [X * rng.choice([1e-9, 1.0], (n, 1)) for X in tables[1:]]
    for strength in (1e-2, 1.0) if n > 1 else (1.0,):
        noise = _calibrated(EpsilonDelta(300.0, 1e-6), strength, 4, n, n, 1.0, 1.0)
        for X in tables:
            for y in (np.zeros(n), np.arange(n) % 2, (np.arange(n) == 0) * 1.0):
                w, n_iter = noise.minimum(X, y.astype(float), np.ones(n), b)
                assert n_iter < 60
                gradient = X.T @ (expit(X @ w) - y) + strength * w + b
                assert np.linalg.norm(gradient) <= noise.error


def test_the_noise_in_the_objective_is_gaussian_and_labels_move_it_by_their_row():
    X, y = _table(30, 2)
    noise = _calibrated(GaussianDP(2.0), None, 2, 30, 30.0, 1.0, 1.0)
    drawn = np.array([noise.release(X, y * 1.0, np.ones(30))[0].parameters for _ in range(250)])

    def recovered(y):
        slopes = expit(drawn @ X.T) - y
        return -(slopes @ X + noise.strength * drawn)

    b = recovered(y) / noise.gradient_noise_scale
    assert stats.kstest(b.ravel(), "norm").pvalue > 1e-4
    assert abs(np.corrcoef(b.T)[0, 1]) < 0.3
    flipped = y.copy()
    flipped[4] = 1 - y[4]
    moved = np.linalg.norm(recovered(flipped) - recovered(y), axis=1)
    assert_allclose(moved, np.linalg.norm(X[4]), rtol=1e-9)  # the channel of a label


def test_the_gradient_at_the_coefficients_is_the_noise_that_is_stated():
    X, y = _table(60, 25)
    weights, drawn = np.where(np.arange(60) < 5, 2.0, 0.5), []
    for _ in range(5):
        model = _model(EpsilonDelta(2.0, 1e-4), public=("n_samples", "sample_weight"))
        model.fit(0.5 * X, y, sample_weight=weights)
        slopes = weights * (expit(0.5 * X @ model.coef_[0]) - y)
        gradient = 0.5 * X.T @ slopes + model.alpha_ * weights.sum() * model.coef_[0]
        drawn.append(-gradient / model.gradient_noise_scale_)
    assert stats.kstest(np.ravel(drawn), "norm").pvalue > 1e-4


def test_nothing_but_the_coefficients_depends_on_the_records():
    X, y = _table()
    other, flipped = X[::-1] * 0.1, 1 - y
    made = [_model().fit(*table).release() for table in ((X, y), (other, flipped * 0))]
    contents = [json.loads(release.to_json())["content"] for release in made]
    for content in contents:
        content.pop("coef_")
    assert contents[0] == contents[1]


def test_no_warning_counts_the_classes_that_occur(recwarn):
    """One of scikit-learn does, where they are more than half of the records."""
    for n_classes in (11, 13):
        _model(classes=[*range(13)], alpha="auto").fit(np.zeros((24, 1)), np.arange(24) % n_classes)
    assert not [each for each in recwarn if "unique classes" in str(each.message)]


def test_no_copy_of_an_unreleased_model_keeps_a_record():
    X, y = _table()
    model = _model(public=["n_samples", "sample_weight"], random_state=0)
    model.fit(X, y, sample_weight=np.linspace(0.5, 1.0, len(y)))
    with pytest.warns(PrivacyLeakWarning, match="training records are dropped"):
        copied = pickle.loads(pickle.dumps(model))
    assert not {"_state", "n_iter_"} & vars(copied).keys()
    with pytest.warns(PrivacyLeakWarning, match="a seed or a generator"):
        released = model.release()
    for unreleased in (copied, released):
        assert max(np.size(value) for value in vars(unreleased).values()) < len(y)
    with pytest.raises(NotFittedError, match="unpickled or copied"):
        copied.fisher_information_loss()
    assert_array_equal(copied.predict(X), model.predict(X))


def test_many_columns_warn_of_their_cost(monkeypatch):
    def stop(*_):
        raise StopIteration

    monkeypatch.setattr(objective, "weighted_gram", stop)
    X = sparse.eye_array(3, 12_000, format="csr")
    noise = _calibrated(GOALS[0], None, 12_000, 3, 3.0, 1.0, 1.0)
    with pytest.warns(CostWarning, match="12000 parameters"), pytest.raises(StopIteration):
        noise.release(X, np.zeros(3), np.ones(3), 0)


def test_a_seed_repeats_the_fit_and_voids_the_guarantee():
    X, y = _table()
    first, second = (_model(random_state=3).fit(X, y) for _ in range(2))
    assert_array_equal(first.coef_, second.coef_)
    with pytest.raises(NoGuaranteeError, match="random_state"):
        first.release(require_guarantee=True)
    assert not np.array_equal(_model().fit(X, y).coef_, _model().fit(X, y).coef_)


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_units_of_the_rows_do_not_matter(fit_intercept, classes):
    X, y = _table()
    given = {"random_state": 0, "fit_intercept": fit_intercept, "classes": classes}
    one = _model(**given).fit(X, y)
    other = _model(**given, data_norm=1024.0).fit(X * 1024.0, y)
    assert_allclose(other.coef_ * 1024.0, one.coef_, rtol=1e-6)
    assert_allclose(other.intercept_, one.intercept_, rtol=1e-6)
    assert other.gradient_noise_scale_ == pytest.approx(1024.0 * one.gradient_noise_scale_)


@pytest.mark.parametrize("changed", [PROMISES, OUTPUT])
def test_entries_that_cancel_are_their_sum(changed):
    # In the last row, where 1e100 - 1e100 would take what all other rows add along with it.
    entries, columns = np.r_[np.ones(50), 1e100, 0.5, -1e100], np.zeros(53, dtype=int)
    X = sparse.csr_array((entries, columns, np.r_[np.arange(51), 53]), shape=(51, 2))
    summed, y = X.copy(), np.ones(51, dtype=int)
    summed.sum_duplicates()
    found, expected = (
        PrivateLogisticRegression(GOALS[0], **changed, random_state=0).fit(table, y).coef_
        for table in (X, summed)
    )
    assert_array_equal(found, expected)
    assert X.nnz == 53


def test_weights_count_by_the_largest():
    X, y = _table()
    weights = np.where(np.arange(len(y)) < 5, 3.0, 1.0)
    model = _model(public=("n_samples", "sample_weight")).fit(X, y, sample_weight=weights)
    assert model.gradient_noise_scale_ == pytest.approx(3.0 * 2.0, rel=1e-3)
    assert model.alpha_ * weights.sum() == pytest.approx(3.0 * 8.0, rel=1e-3)


def test_a_release_is_written_and_read_back():
    X, y = _table()
    release = _model().fit(X, y).release()
    read = ReleasedLogisticRegression.from_json(release.to_json())
    assert_array_equal(read.predict_proba(X), release.predict_proba(X))
    assert read.provenance_ == release.provenance_
    assert read.provenance_["mechanism"] == "objective"
    assert "tol" not in read.provenance_
    assert "gradient_noise_scale=2" in repr(read)
    assert read.coef_noise_scale_ is None


class Halved(GaussianDP):
    """A goal of which a half is for something else."""

    def resolve(self, problem):
        return 2.0 * super().resolve(problem)


REFUSED = [
    ({"noise_scale": Halved(1.0)}, "`noise_scale` must be an"),
    ({"noise_scale": GaussianDP(1e-9)}, "out of reach"),
    ({"noise_scale": 1.0}, "`noise_scale` must be an `EpsilonDelta` or `GaussianDP`"),
    ({"noise_scale": MaxLeakage(1.0)}, "`noise_scale` must be an"),
    ({"data_norm": None}, "`data_norm` must be promised"),
    ({"classes": None}, "`classes` must be passed"),
    ({"classes": [0]}, "at least two different labels"),
    ({"public": ()}, "`public` must hold 'n_samples'"),
    ({"alpha": 0.0}, "`alpha` must be positive"),
    ({"reweighting": "irfil"}, "`reweighting` must be None"),
    ({"noise_covariance": np.eye(3)}, "`noise_covariance` must be 'isotropic'"),
    ({"alpha": 1e-12}, "no solver is certain"),
    ({"noise_scale": EpsilonDelta(1e-3, 1e-12), "alpha": 1e-3}, "raise `alpha` to [12]0"),
    ({"noise_scale": EpsilonDelta(1.0, 1e-300)}, "pass a larger goal"),
    ({"noise_scale": GaussianDP(1e-7)}, "pass a larger goal"),
    ({"noise_scale": GaussianDP(-1.0)}, "GaussianDP.mu"),
    ({"noise_scale": EpsilonDelta(1.0, 2.0)}, "EpsilonDelta.delta"),
    ({"mechanism": "output"}, "chooses the penalty of"),
    ({"mechanism": "elsewhere"}, "mechanism"),
]


@pytest.mark.parametrize("changed, said", REFUSED)
def test_what_it_does_not_go_with_is_refused_by_parameters_alone(changed, said):
    messages = []
    for seed in (0, 1):
        model = _model().set_params(**changed)
        with pytest.raises(ValueError, match=said) as error:
            model.fit(*_table(seed=seed))
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_data_that_it_does_not_go_with_are_refused():
    X, y = _table()
    with pytest.raises(ValueError, match="'sample_weight'"):
        _model().fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(ValueError, match="`persons` must be None"):
        _model().fit(X, y, persons=np.arange(len(y)))
    array = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="X must lie in memory"):
        _model().fit(array.from_array(X), array.from_array(y))


def test_output_is_what_there_was():
    X, y = _table()
    given = {"alpha": 0.1, "random_state": 0}
    made = [_model(m, **given).fit(X, y) for m in (GaussianDP(1.0),)]
    plain = _model(0.5, **given).set_params(mechanism=None).fit(X, y)
    named = _model(0.5, **given).set_params(mechanism="output").fit(X, y)
    assert_array_equal(plain.coef_, named.coef_)
    assert plain._provenance() == named._provenance()
    refitted = made[0].set_params(mechanism="output", noise_scale=0.5).fit(X, y)
    assert not hasattr(refitted, "gradient_noise_scale_")
    assert_array_equal(refitted.fisher_information_loss_, plain.fisher_information_loss_)
    again = refitted.set_params(mechanism="objective", noise_scale=GOALS[0]).fit(X, y)
    assert not hasattr(again, "n_iter_")


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: MaxLeakage(1.0).noise_scale_of(model),
        lambda model: model._redraw(0),
    ],
)
def test_numbers_of_output_perturbation_are_refused(ask):
    model = _model().fit(*_table())
    with pytest.raises(AttackNotApplicableError, match="noise in the objective"):
        ask(model)


def test_attacks_and_auditors_that_know_noise_on_coefficients_are_refused():
    X, y = _table()
    model = _model(random_state=0).fit(X, y)
    exact = LikelihoodRatioMembership(model, method="exact")
    for attack in (WhiteBoxAttributeInference(model, 0), exact):
        with pytest.raises(
            AttackNotApplicableError, match=r"not on the minimizer|has it elsewhere"
        ):
            attack.fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="no noisy minimizer"):
        LeakageAuditor(model).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="not on the minimizer"):
        MembershipAuditor(model, secrets="drawn").fit(X, y)
    X[:, 0] = np.arange(len(y)) % 2 / 2.0
    X[:, 1:] /= 2.0
    other = PrivateLogisticRegression(1.0, fit_intercept=False, random_state=0).fit(X, y)
    attack = WhiteBoxAttributeInference(other, 0).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="noise in the objective"):
        attack.predict(_model().fit(X, y).release())
    BlackBoxAttributeInference(model, 0).fit(X, y)  # reads predictions alone


def test_a_ledger_composes_the_guarantee():
    X, y = _table()
    ledger = LeakageLedger(":memory:", max_epsilon=6.0, delta=1e-6)
    model = _model(ledger=ledger).fit(X, y)
    PrivateLogisticRegression(GaussianDP(0.5), **OUTPUT, ledger=ledger).fit(X, y)
    assert ledger.total("default").mu == pytest.approx(np.hypot(1.0, 0.5), rel=1e-6)
    assert np.all(ledger.total("default").fisher_information_loss == np.inf)
    before = model.coef_.copy()
    with pytest.raises(LeakageBudgetError):
        model.fit(X, y)
    assert_array_equal(model.coef_, before)
    for limited, seed in [(LeakageLedger(":memory:", 10.0, units=1.0), None), (ledger, 0)]:
        with pytest.raises(LeakageBudgetError, match="not known, as with noise in the objective"):
            _model(ledger=limited, random_state=seed).fit(X, y)


def test_it_predicts_better_than_noise_on_the_minimizer_at_any_penalty():
    X, y = load_breast_cancer(return_X_y=True)
    X = 2.0 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1.0
    X = np.column_stack([X, np.ones(len(X))])
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    goal = EpsilonDelta(1.0, 1e-6)

    def score(**changed):
        return np.mean([_model(goal, **changed).fit(X, y).score(X, y) for _ in range(5)])

    within = score()
    assert within > 0.84
    for alpha in (0.01, 0.03, 0.1):
        assert within > score(mechanism="output", alpha=alpha)


def test_it_predicts_nearly_as_well_as_without_privacy():
    X, y = _table(5000)
    private = _model(EpsilonDelta(1.0, 1e-6)).fit(X, y)
    exact = PrivateLogisticRegression(0.0, alpha=private.alpha_, fit_intercept=False).fit(X, y)
    assert private.score(X, y) > exact.score(X, y) - 0.02
    assert clone(private).mechanism == "objective"


ROBUST = {
    **{k: v for k, v in PROMISES.items() if k != "classes"},
    "mechanism": ObjectivePerturbation(huber=0.1),
    "target_bound": 2.0,
}


def _numbers(n=200, d=3, seed=0):
    X, _ = _table(n, d, seed)
    return X, np.clip(X[:, 0] + 0.2 * np.random.default_rng(seed).normal(size=n), -2.0, 2.0)


def _robust(goal=GOALS[1], **changed):
    return PrivateLinearRegression(goal, **{**ROBUST, **changed})


@pytest.mark.parametrize("goal", [GOALS[0], GOALS[1]])
def test_linear_regression_keeps_its_goal_and_says_what_it_minimized(goal):
    X, y = _numbers()
    model = _robust(goal).fit(X, y)
    release = model.release(require_guarantee=True)
    stated = release.provenance_["differential_privacy"]
    if isinstance(goal, GaussianDP):
        assert 1.0 - 1e-6 < stated["composed_mu"] <= 1.0
        assert model.alpha_ * len(y) == pytest.approx(8.0, rel=2e-4)
    else:
        assert 1.0 - 1e-4 < stated["epsilon"] <= 1.0
        noise = 2.0 / mu_from_epsilon_delta(1.0, 5e-7)
        assert model.gradient_noise_scale_ == pytest.approx(0.2 * noise, rel=1e-3)
        assert model.alpha_ * len(y) == pytest.approx(4.0, rel=2e-4)
        assert 1.4 < stated["mu"] * noise / 2.0 < 2.0
    assert model.loss_ == release.provenance_["loss"] == "pseudo-Huber of width 0.2"
    assert any("estimates no conditional mean" in line for line in stated["assumptions"])
    assert any("`target_bound`" in line for line in stated["assumptions"])
    read = ReleasedLinearRegression.from_json(release.to_json())
    assert_array_equal(read.predict(X), release.predict(X))
    assert "n_iter_" not in vars(model)
    with pytest.raises(AttackNotApplicableError, match="bounds every attack"):
        MaxLeakage(1.0).noise_scale_of(model)
    with pytest.raises(NoGuaranteeError, match="random_state"):
        _robust(goal, random_state=0).fit(X, y).release(require_guarantee=True)


def _pseudo_huber(w, X, y, s, b, strength, h):
    residual = X @ w - y
    root = np.sqrt(1.0 + residual**2 / h**2)
    value = s @ (h**2 * (root - 1.0)) + 0.5 * strength * w @ w + b @ w
    return value, X.T @ (s * residual / root) + strength * w + b


@pytest.mark.parametrize("width", [0.02, 0.3, 50.0])
def test_the_minimizer_of_the_pseudo_huber_loss_is_that_of_scipy(width):
    rng, (X, y) = np.random.default_rng(3), _numbers()
    s, b = rng.uniform(0.5, 2.0, len(y)), width * rng.normal(size=3)
    given = EpsilonDelta(50.0, 1e-6), 0.5, 3, len(y), s.sum(), s.max(), 1.0
    noise = _calibrated(*given, width, 2.0)
    found = noise.minimum(X, y, s, b)[0]
    args = X, y, s, b, 0.5, width
    reference = minimize(_pseudo_huber, found + 0.1, args=args, jac=True, tol=1e-12).x
    assert_allclose(found, reference, atol=1e-4)
    assert np.linalg.norm(_pseudo_huber(found, *args)[1]) <= noise.error
    assert_allclose(noise.minimum(sparse.csr_array(X), y, s, b)[0], found, atol=1e-8)


@pytest.mark.parametrize("width", [1e-3, 0.1, 1e3])
@pytest.mark.parametrize("n", [1, 3000])
def test_the_solver_of_the_pseudo_huber_loss_arrives_whatever_the_records(n, width):
    rng = np.random.default_rng(n)
    tables = [np.zeros((n, 4)), np.tile(np.eye(4)[0], (n, 1)), np.eye(4)[rng.integers(4, size=n)]]
    tables += [X * rng.choice([1e-9, 1e-3, 1.0], (n, 1)) for X in tables[1:]]
    targets = [np.zeros(n), np.ones(n), rng.choice([-1.0, 1.0], n), rng.uniform(-1.0, 1.0, n)]
    for strength in (1e-2, 1.0) if n > 1 else (1.0,):
        goal = EpsilonDelta(300.0, 1e-6)
        noise = _calibrated(goal, strength, 4, n, n, 1.0, 1.0, width, 1.0)
        for scale in (0.0, 1.0, 30.0):
            b = rng.normal(0.0, scale * noise.gradient_noise_scale, 4)
            for X in tables:
                for y in targets:
                    w, n_iter = noise.minimum(X, y, np.ones(n), b)
                    assert n_iter < 300
                    gradient = _pseudo_huber(w, X, y, np.ones(n), b, strength, width)[1]
                    assert np.linalg.norm(gradient) <= noise.error


@pytest.mark.parametrize("n_parameters", [1, 20_000])
@pytest.mark.parametrize("goal", [GOALS[0], GOALS[1], EpsilonDelta(5.0, 1e-3)])
def test_all_parts_together_keep_the_goal_of_linear_regression(goal, n_parameters):
    sizes = n_parameters, 10**6, 1e6, 0.5, 3.0
    noise = _calibrated(goal, None, *sizes, 0.1, 1.0)
    if isinstance(goal, GaussianDP):
        assert goal.mu * (1.0 - 1e-5) < noise.composed_mu <= goal.mu
    else:
        assert noise.epsilon(goal.delta) <= goal.epsilon
    assert noise.output_mu < 0.011 * noise.mu


def test_the_gradient_of_the_pseudo_huber_loss_is_the_noise_that_is_stated():
    X, y = _numbers(60, 25)
    weights, drawn = np.where(np.arange(60) < 5, 2.0, 0.5), []
    for _ in range(5):
        model = _robust(public=("n_samples", "sample_weight")).fit(X, y, sample_weight=weights)
        assert model.gradient_noise_scale_ == pytest.approx(2.0 * 0.2 * 8.73, rel=2e-3)
        args = X, y, weights, np.zeros(25), model.alpha_ * weights.sum(), 0.2
        drawn.append(-_pseudo_huber(model.coef_, *args)[1] / model.gradient_noise_scale_)
    assert stats.kstest(np.ravel(drawn), "norm").pvalue > 1e-4


def test_nothing_but_the_coefficients_of_linear_regression_depends_on_the_records():
    X, y = _numbers()
    made = [_robust().fit(*each).release() for each in ((X, y), (0.1 * X[::-1], 0.0 * y + 2.0))]
    contents = [json.loads(release.to_json())["content"] for release in made]
    for content in contents:
        content.pop("coef_")
    assert contents[0] == contents[1]


def test_units_of_rows_and_targets_do_not_matter():
    X, y = _numbers()
    one = _robust(random_state=0).fit(X, y)
    other = _robust(random_state=0, data_norm=64.0, target_bound=512.0).fit(64.0 * X, 256.0 * y)
    assert_allclose(other.coef_ / 4.0, one.coef_, rtol=1e-6)
    ratio = other.gradient_noise_scale_ / one.gradient_noise_scale_
    assert ratio == pytest.approx(64.0 * 256.0)


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"mechanism": "objective"}, r"asked for as `ObjectivePerturbation\(huber=0.1\)`"),
        ({"mechanism": ObjectivePerturbation()}, "`huber` must be a number from"),
        ({"mechanism": ObjectivePerturbation(0.0)}, "`huber` must be a number from"),
        ({"mechanism": ObjectivePerturbation("0.1")}, "`huber` must be a number from"),
        ({"mechanism": ObjectivePerturbation(float("nan"))}, "`huber` must be a number from"),
        ({"target_bound": None}, "`target_bound` must be promised"),
        ({"target_bound": -1.0}, "'target_bound' parameter"),
        ({"target_bound": 1e200}, "Rescale both"),
        ({"target_bound": 1e-3}, "of 200 are larger, the first of them in row 0"),
        *[each for each in REFUSED if "classes" not in each[0] and "noise_cov" not in each[0]],
    ],
)
def test_what_linear_regression_does_not_go_with_is_refused(changed, said):
    with pytest.raises(ValueError, match=said):
        _robust().set_params(**changed).fit(*_numbers())


def test_attacks_that_know_noise_on_coefficients_refuse_linear_regression():
    X, y = _numbers()
    X[:, 0] = np.arange(len(y)) % 2 / 2.0
    X[:, 1:] /= 2.0
    with pytest.raises(AttackNotApplicableError, match="has it elsewhere"):
        WhiteBoxAttributeInference(_robust(random_state=0), 0).fit(X, y)
    plain = PrivateLinearRegression(1.0, fit_intercept=False, random_state=0)
    with pytest.raises(AttackNotApplicableError, match="noise in the objective"):
        WhiteBoxAttributeInference(plain, 0).fit(X, y).predict(_robust().fit(X, y).release())
    with pytest.raises(ValueError, match="`persons` must be None"):
        _robust().fit(X, y, persons=np.arange(len(y)))
    ledger = LeakageLedger(":memory:", max_epsilon=3.0, delta=1e-6)
    model = _robust(ledger=ledger).fit(X, y)
    stated = model.release().provenance_["differential_privacy"]
    assert ledger.total("default").mu == pytest.approx(stated["composed_mu"])


def test_logistic_regression_takes_the_object_without_a_width():
    X, y = _table()
    given = {"random_state": 0, "mechanism": ObjectivePerturbation()}
    model = _model(**given).fit(X, y)
    assert_array_equal(model.coef_, _model(random_state=0).fit(X, y).coef_)
    assert model.loss_ == "logistic"
    with pytest.raises(ValueError, match="must have no `huber`"):
        clone(model).set_params(mechanism=ObjectivePerturbation(0.1)).fit(X, y)


def test_linear_regression_on_diabetes_is_as_good_as_was_found():
    """Mean squared error over 20 splits, the target in [-1, 1]; 0.117 without privacy."""
    X, y = load_diabetes(return_X_y=True)
    X, y = X / 0.2, 2.0 * (y - 25.0) / 321.0 - 1.0
    norm = np.sqrt(2.0)
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    X = np.column_stack([X, np.ones(len(X))])
    errors = []
    for seed in range(20):
        train, test, known, true = train_test_split(X, y, test_size=0.2, random_state=seed)
        model = _robust(data_norm=norm, target_bound=1.0, random_state=seed).fit(train, known)
        errors.append(np.mean((model.predict(test) - true) ** 2))
    assert np.mean(errors) <= 0.145
