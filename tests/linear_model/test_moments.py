"""Released moments: what records leak, what an attacker can tell, and the fits of a release."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline

import skleak
from skleak.accounting import LeakageLedger
from skleak.exceptions import LeakageBudgetError, NoGuaranteeError, PrivacyLeakWarning
from skleak.linear_model import PrivateMoments
from skleak.mechanisms import EpsilonDelta, GaussianDP, MaxAdvantage, MaxLeakage
from skleak.preprocessing import PublicScaler

seeded = pytest.mark.filterwarnings("ignore:Releasing a model whose noise came from a seed")
BOUNDS = {"data_norm": 2.0, "target_bound": 3.0}


def _table(n=60, d=3, seed=0, intercept=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X *= np.minimum(1.0, 2.0 / np.linalg.norm(X, axis=1))[:, None]
    w = np.linspace(-0.5, 1.0, d)
    return X, np.clip(X @ w + intercept + 0.3 * rng.normal(size=n), -3.0, 3.0)


def _moments(goal=None, **changed):
    goal = GaussianDP(1.0) if goal is None else goal
    return PrivateMoments(goal, **{**BOUNDS, **changed})


def _noiseless(noise, X, y, scaled=True):
    """Everything that is released, noiseless and in units of the noise."""
    rows, targets = noise.scaled(X, y) if scaled else (X / noise.unit, y / noise.target_bound)
    gram = rows.T @ rows * np.sqrt(noise.a)
    parts = [gram.ravel(), np.sqrt(noise.b) * rows.T @ targets]
    parts.append([np.sqrt(noise.c) * targets @ targets])
    parts += [np.sqrt(noise.e) * rows.sum(axis=0), [np.sqrt(noise.f) * targets.sum()]]
    return np.concatenate(parts)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("d", [1, 3])
def test_leakage_is_the_derivative_of_the_release(d, fit_intercept):
    X, y = _table(8, d)
    y[0] = 0.0
    model = _moments(fit_intercept=fit_intercept).fit(X, y)
    noise, step = model.noise_, 1e-6
    for i in range(len(y)):
        rows = []
        for entry in np.eye(d + 1) * step:
            ends = []
            for sign in (1.0, -1.0):
                x, t = X.copy(), y.copy()
                x[i] += sign * entry[:d]
                t[i] += sign * entry[d]
                ends.append(_noiseless(noise, x, t, scaled=False))
            rows.append((ends[0] - ends[1]) / (2.0 * step))
        assert model.leakage_[i] == pytest.approx(np.linalg.norm(rows, 2), rel=1e-6)
    assert (model.leakage_ <= model.largest_leakage_).all()
    longest = np.sqrt(d) ** -1 * 2.0 * np.ones((8, d)), 3.0 * np.ones(8)
    reached = _moments(fit_intercept=fit_intercept).fit(*longest).leakage_
    assert_allclose(reached, model.largest_leakage_, rtol=1e-6)


def test_worst_leakage_is_known_before_any_record_is_seen():
    planned = _moments(EpsilonDelta(1.0, 1e-6), data_norm=1.0, target_bound=1.0)
    assert planned.set_params(fit_intercept=False).planned(1000, 5).largest_loss == pytest.approx(
        0.304, abs=1e-3
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_distance_of_two_records_is_that_of_the_releases(fit_intercept):
    X, y = _table()
    model = _moments(fit_intercept=fit_intercept).fit(X, y)
    rng = np.random.default_rng(0)
    for _ in range(20):
        others, targets = X.copy(), y.copy()
        others[0] = rng.normal(size=3)
        others[0] *= rng.uniform(0.0, 2.0) / np.linalg.norm(others[0])
        targets[0] = rng.uniform(-3.0, 3.0)
        apart = np.linalg.norm(
            _noiseless(model.noise_, X, y) - _noiseless(model.noise_, others, targets)
        )
        stated = model.distance((X[0], y[0]), (others[0], targets[0]))
        assert stated == pytest.approx(apart, rel=1e-9)
        assert stated <= model.noise_.mu <= 1.0
    with pytest.raises(ValueError, match="3 numbers"):
        model.distance(([1.0, 0.0], 1.0), ([0.0, 1.0], 1.0))
    # A record beyond the bounds counts as it is released.
    assert model.distance(([9.0, 0.0, 0.0], 9.0), ([-9.0, 0.0, 0.0], 9.0)) <= model.noise_.mu


@seeded
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_likelihood_ratio_attack_on_neighbors_stays_below_mu(fit_intercept):
    X, y = _table(10, 2)
    X[0], y[0] = [2.0, 0.0], 3.0
    options = {"fit_intercept": fit_intercept}
    noise = _moments(**options).planned(10, 2)
    angle = np.linspace(0.0, np.pi, 200)
    others = [((2.0 * np.cos(t), 2.0 * np.sin(t)), s * 3.0) for t in angle for s in (1, -1)]
    worst = max(others, key=lambda other: noise.distance((X[0], y[0]), other))
    changed, targets = X.copy(), y.copy()
    changed[0], targets[0] = worst
    rng = np.random.default_rng(0)
    direction = _noiseless(noise, changed, targets) - _noiseless(noise, X, y)

    def ratio(X, y):
        draw = noise.release(X, y, rng)
        parts = [np.sqrt(noise.a) * draw["xx"].ravel(), np.sqrt(noise.b) * draw["xy"]]
        parts.append([np.sqrt(noise.c) * draw["yy"]])
        if fit_intercept:
            parts += [np.sqrt(noise.e) * draw["x"], [np.sqrt(noise.f) * draw["y"]]]
        return np.concatenate(parts) @ direction[: sum(map(len, parts))]

    pairs = np.array([(ratio(X, y), ratio(changed, targets)) for _ in range(600)])
    apart = np.diff(pairs.mean(axis=0))[0] / pairs.std(axis=0).mean()
    assert 0.95 <= np.linalg.norm(direction) <= noise.mu * (1.0 + 1e-9)
    assert 0.95 - 0.2 < apart < noise.mu + 0.2


@seeded
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.03])
def test_without_noise_to_speak_of_it_is_ridge_regression(fit_intercept, alpha):
    X, y = _table(intercept=0.4)
    goal = GaussianDP(1e7)
    fit = _moments(goal, fit_intercept=fit_intercept, random_state=0).fit(X, y).release()
    fit = fit.regress(alpha=alpha)
    ridge = Ridge(alpha=alpha * len(y), fit_intercept=fit_intercept).fit(X, y)
    assert_allclose(fit.coef_, ridge.coef_, atol=1e-5)
    assert_allclose(fit.intercept_, ridge.intercept_, atol=1e-5)
    assert_allclose(fit.predict(X), ridge.predict(X), atol=1e-5)
    assert fit.alpha_ == pytest.approx(alpha)
    if alpha == 0.0:  # errors of least squares, of a fit with as many divisors as records
        design = np.column_stack([X, np.ones(len(y))]) if fit_intercept else X
        variance = np.mean((y - ridge.predict(X)) ** 2) * np.linalg.inv(design.T @ design)
        errors = np.sqrt(np.diag(variance))
        assert_allclose(fit.coef_standard_error_, errors[:3], rtol=1e-4)
        table = fit.summary(0.9)
        assert_allclose(table["standard_error"], errors, rtol=1e-4)
        assert_allclose(table["low"], table["coefficient"] - 1.6448536 * errors, rtol=1e-4)
        assert list(table.index[:3]) == ["x0", "x1", "x2"]
        assert len(table) == 3 + fit_intercept


@seeded
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_errors_by_noise_are_those_of_the_derivative(fit_intercept, alpha):
    X, y = _table(intercept=0.9)
    X = 0.4 * X + [0.8, -0.5, 0.3]
    goal = GaussianDP(20.0)
    released = _moments(goal, fit_intercept=fit_intercept, random_state=0).fit(X, y).release()
    released.moments["yy"] = 0.0  # no residuals
    noise, step, squared = released.noise, 1e-5, 0.0

    def fitted(name, change):
        moments = {**released.moments, name: released.moments[name] + change}
        fit = replace(released, moments=moments).regress(alpha=alpha)
        return np.append(fit.coef_, fit.intercept_)

    inverse = {"xy": noise.b, "x": noise.e, "y": noise.f}
    units = {"xy": np.eye(3), "x": np.eye(3), "y": np.ones(1)}
    directions = [(name, unit, inverse[name]) for name in inverse for unit in units[name]]
    for i, j in np.ndindex(3, 3):
        if i <= j:
            unit = np.zeros((3, 3))
            unit[i, j] = unit[j, i] = 1.0
            directions.append(("xx", unit, noise.a if i == j else 2.0 * noise.a))
    for name, unit, weight in directions:
        if name in released.moments:
            slope = (fitted(name, step * unit) - fitted(name, -step * unit)) / (2.0 * step)
            squared = squared + slope**2 / weight
    fit = released.regress(alpha=alpha)
    assert not fit.no_errors_because_
    stated = np.append(fit.coef_standard_error_, fit.intercept_standard_error_)
    assert_allclose(stated, np.sqrt(squared), rtol=1e-6)


@seeded
def test_errors_are_withheld_where_noise_rules():
    X, y = _table()
    released = _moments(GaussianDP(0.1), random_state=0).fit(X, y).release()
    fit = released.regress()
    assert np.isnan(fit.coef_standard_error_).all()
    assert "edge" in fit.summary().attrs["reason"]
    assert np.isfinite(fit.coef_).all()
    a = released.noise.a
    assert fit.alpha_ * 60 / released.noise.unit**2 == pytest.approx(np.sqrt(6.0 / a) / 2.0)
    with pytest.raises(ValueError, match="alpha"):
        released.regress(alpha=-1.0)
    little = _moments(GaussianDP(0.01), random_state=0).fit(X, y).release()
    with pytest.raises(ValueError, match="eigenvalue"):
        little.regress(alpha=0.0)


@seeded
@pytest.mark.parametrize(
    ("fit_intercept", "n", "mu"), [(False, 5000, 0.5), (True, 5000, 0.5), (True, 30000, 0.237)]
)
@pytest.mark.parametrize("n_runs", [400, 2000])
def test_intervals_hold_the_coefficients_of_the_population(fit_intercept, n, mu, n_runs):
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=8) * 0.3, 0.2 * fit_intercept
    inside = []
    for _ in range(n_runs):
        X = rng.uniform(-1.0, 1.0, size=(n, 8)) / np.sqrt(8.0) + 0.05 * fit_intercept
        y = X @ w + b + rng.uniform(-0.3, 0.3, n)
        goal = GaussianDP(mu)
        model = PrivateMoments(
            goal,
            data_norm=1.2,
            target_bound=1.5,
            fit_intercept=fit_intercept,
            random_state=rng,
        )
        fit = model.fit(X, y).release().regress(alpha=0.0)
        assert not fit.no_errors_because_
        table, truth = fit.summary(), np.append(w, b) if fit_intercept else w
        inside.append((table["low"] <= truth) & (truth <= table["high"]))
    covered = np.array(inside, dtype=float)
    assert 0.93 <= covered.mean() <= 0.97
    if fit_intercept:
        assert 0.92 <= covered[:, -1].mean() <= 0.98


@seeded
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_any_column_is_a_target_later(fit_intercept):
    X, y = _table(intercept=0.4)
    table = pd.DataFrame(X, columns=["age", "bmi", "dose"]).assign(units=100.0 * y)
    columns = {"bmi": 2.0, "units": 300.0, "age": 2.0, "dose": 2.0}
    options = {"columns": columns, "fit_intercept": fit_intercept, "random_state": 0}
    released = PrivateMoments(GaussianDP(1e7), **options).fit(table).release()
    for target, on in [("units", None), ("dose", ["units", "age"]), (0, [3]), ("bmi", [3, 2])]:
        fit = released.regress(target, on=on, alpha=0.0)
        chosen = (
            table.drop(columns=target)
            if on is None
            else table[list(table[on])]
            if (isinstance(on[0], str))
            else table.iloc[:, on]
        )
        truth = table.iloc[:, target] if target == 0 else table[target]
        least = LinearRegression(fit_intercept=fit_intercept).fit(chosen, truth)
        assert_allclose(fit.coef_, least.coef_, rtol=1e-4, atol=1e-6)
        assert_allclose(fit.intercept_, least.intercept_, rtol=1e-4, atol=1e-4)
        assert list(fit.feature_names_in_) == list(chosen)
        design = np.column_stack([chosen, *[np.ones(len(y))] * fit_intercept])
        variance = np.mean((truth - least.predict(chosen)) ** 2)
        errors = np.sqrt(np.diag(variance * np.linalg.inv(design.T @ design)))
        assert_allclose(fit.summary()["standard_error"], errors, rtol=1e-4)
    for wrong in ({"target": "units", "on": ["units"]}, {"target": None}, {"target": "weight"}):
        with pytest.raises(ValueError, match=r"`on`|`target`"):
            released.regress(**wrong)


@seeded
def test_a_sub_model_is_that_of_a_release_of_its_own_target():
    X, y = _table()
    released = _moments(GaussianDP(1e7), random_state=0).fit(X, y).release()
    fit = released.regress(on=[2, 0], alpha=0.1)
    assert_allclose(fit.coef_, Ridge(alpha=6.0).fit(X[:, [2, 0]], y).coef_, atol=1e-5)
    fit = released.regress(1, alpha=0.1)
    assert_allclose(fit.coef_, Ridge(alpha=6.0).fit(X[:, [0, 2]], X[:, 1]).coef_, atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_noise_of_rows_alone_covers_the_farthest_two(fit_intercept):
    X = np.array([[1.0, 0.0], [0.5, 0.5]])
    model = PrivateMoments(GaussianDP(1.0), data_norm=1.0, fit_intercept=fit_intercept).fit(X)
    noise, angle = model.noise_, np.linspace(0.0, np.pi, 2001)
    assert noise.b == noise.c == noise.f == 0.0
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    far = max(model.distance(circle[0], x) for x in circle)
    assert 0.9999 * noise.mu < far <= noise.mu <= 1.0
    rng = np.random.default_rng(0)
    inside = rng.uniform(-1.0, 1.0, size=(200, 2, 2)) / np.sqrt(2.0)
    assert max(model.distance(*both) for both in inside) <= noise.mu
    assert noise.n_numbers == 3 + 2 * fit_intercept
    step = 1e-6
    for x, stated in zip(X, model.leakage_, strict=True):
        moved = []
        for e in np.eye(2) * step:
            ends = [np.outer(x + s * e, x + s * e) for s in (1.0, -1.0)]
            parts = [np.sqrt(noise.a) * (ends[0] - ends[1]).ravel()]
            moved.append(np.concatenate([*parts, np.sqrt(noise.e) * 2.0 * e]) / (2.0 * step))
        assert stated == pytest.approx(np.linalg.norm(moved, 2), rel=1e-5)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"columns": {"a": 1.0}}, "`columns` is a mapping from column names, but X has none"),
        ({"columns": [1.0, 2.0]}, "`columns` must be 3 positive"),
        ({"columns": [1.0, 2.0, 0.0]}, "`columns` must be 3 positive"),
        ({"columns": [2.0, 2.0, 0.1]}, r"`columns` promises at most these sizes, but \d+ of 60"),
        ({}, "`data_norm` must be promised"),
        ({"data_norm": 2.0, "target_bound": 1.0}, "`target_bound` is the bound of `y`"),
    ],
)
def test_bounds_of_columns_are_checked(changed, match):
    X, _ = _table()
    with pytest.raises(ValueError, match=match):
        PrivateMoments(GaussianDP(1.0), **changed).fit(X)


@seeded
@pytest.mark.parametrize(("fit_intercept", "largest"), [(False, 0.17), (True, 0.18)])
def test_accuracy_on_diabetes_at_epsilon_one(fit_intercept, largest):
    X, y = load_diabetes(return_X_y=True, scaled=False)
    low = np.array([18.0, 1.0, 15.0, 60.0, 90.0, 40.0, 20.0, 2.0, 3.0, 55.0])
    high = np.array([80.0, 2.0, 45.0, 140.0, 310.0, 250.0, 100.0, 10.0, 6.2, 130.0])
    X, y = 2.0 * (X - low) / (high - low) - 1.0, (y - 185.5) / 160.5
    X *= np.minimum(1.0, 1.5 / np.linalg.norm(X, axis=1))[:, None]
    errors = []
    for seed, (train, test) in enumerate(ShuffleSplit(20, test_size=0.2, random_state=0).split(X)):
        goal = EpsilonDelta(1.0, 1e-6)
        options = {"fit_intercept": fit_intercept, "random_state": seed}
        model = PrivateMoments(goal, data_norm=1.5, target_bound=1.0, clip=True, **options)
        fit = model.fit(X[train], y[train]).release().regress()
        errors.append(np.mean((fit.predict(X[test]) - y[test]) ** 2))
    assert np.mean(errors) <= largest
    assert largest < np.var(y)  # of a constant without noise


@pytest.mark.parametrize("goal", [GaussianDP(1.0), EpsilonDelta(1.0, 1e-5)])
def test_release_states_its_guarantee(goal):
    X, y = _table()
    model = _moments(goal).fit(pd.DataFrame(X, columns=["age", "bmi", "dose"]), y)
    released = model.release(require_guarantee=True)
    stated = released.differential_privacy
    assert stated.holds
    assert stated.exact
    assert stated.mechanism == "sufficient statistics"
    assert "data_norm" in stated.assumptions[0]
    assert "target_bound" in stated.assumptions[0]
    if isinstance(goal, GaussianDP):
        assert 1.0 - 1e-6 < stated.composed_mu <= 1.0
        assert stated.delta == 1e-6
    else:
        assert 1.0 - 1e-5 < stated.epsilon <= 1.0
        assert stated.delta == 1e-5
    assert list(released.regress().summary().index) == ["age", "bmi", "dose", "intercept"]
    copied = pickle.loads(pickle.dumps(released))
    assert_array_equal(copied.regress().coef_, released.regress().coef_)
    released.moments["xx"][:] = 0.0
    assert (model.release().moments["xx"] != 0.0).any()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_a_document_reads_back_as_the_release(fit_intercept, named):
    X, y = _table()
    X = pd.DataFrame(X, columns=["age", "bmi", "dose"]) if named else X
    options = {"columns": [2.0] * 3, "fit_intercept": fit_intercept}
    for model in (
        _moments(fit_intercept=fit_intercept).fit(X, y),
        PrivateMoments(EpsilonDelta(1.0, 1e-6), **options).fit(X),
    ):
        released = model.release()
        again = type(released).from_json(released.to_json())
        assert repr(again.differential_privacy) == repr(released.differential_privacy)
        assert again.noise == released.noise
        for target in (1, None)[: 1 + (model.target_bound is not None)]:
            fits = [one.regress(target, alpha=0.2) for one in (released, again)]
            assert_array_equal(fits[0].coef_, fits[1].coef_)
            assert list(fits[0].summary().index) == list(fits[1].summary().index)
    for wrong in ('"xx"', '"widths"', '"n_features"'):
        with pytest.raises(ValueError, match="damaged"):
            type(released).from_json(released.to_json().replace(wrong, '"zz"'))


def test_a_ledger_is_charged_before_noise_is_drawn(tmp_path):
    X, y = _table()
    ledger = LeakageLedger(tmp_path / "ledger.db", max_epsilon=5.0)
    model = _moments(ledger=ledger, ledger_dataset="people").fit(X, y)
    total = ledger.total("people")
    assert total.mu == pytest.approx(model.release().differential_privacy.composed_mu)
    assert total.fisher_information_loss.max() == pytest.approx(model.largest_leakage_)
    kept = model.release().moments["xx"]
    with pytest.raises(LeakageBudgetError):
        model.fit(X, y)
    with pytest.raises(LeakageBudgetError):
        clone(model).set_params(random_state=0).fit(X, y)
    assert len(ledger.history()) == 1
    assert_array_equal(kept, model.release().moments["xx"])


def test_what_leaves_holds_no_record_and_no_leakage():
    X, y = _table()
    model = _moments().fit(X, y)
    assert not hasattr(pickle.loads(pickle.dumps(model)), "leakage_")
    assert hasattr(model, "leakage_")
    arrays = {name for name, value in vars(model).items() if isinstance(value, np.ndarray)}
    assert arrays == {"leakage_", "widths_"}
    assert_array_equal(model.widths_, 1.0)
    fit = model.release().regress()
    assert clone(fit) is fit
    assert fit.fit(X, y) is fit


def test_a_pipeline_is_told_to_release_its_last_step():
    X, y = _table()
    public = PublicScaler(bounds=[(-2.0, 2.0)] * 3)
    pipeline = make_pipeline(public, _moments()).fit(X, y)
    with pytest.raises(TypeError, match="last step"):
        skleak.release(pipeline)
    assert skleak.release(pipeline[-1]).differential_privacy.holds


def test_a_seed_leaves_no_guarantee():
    X, y = _table()
    model = _moments(random_state=0).fit(X, y)
    with pytest.raises(NoGuaranteeError, match="random_state"):
        model.release(require_guarantee=True)
    with pytest.warns(PrivacyLeakWarning, match="seed"):
        first = model.release()
    with pytest.warns(PrivacyLeakWarning, match="seed"):
        second = _moments(random_state=0).fit(X, y).release()
    assert_array_equal(first.moments["xx"], second.moments["xx"])
    assert not first.differential_privacy.holds


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"goal": MaxLeakage(-1.0)}, "eta"),
        ({"goal": 1.0}, "goal"),
        ({"data_norm": 0.0}, "data_norm"),
        ({"target_bound": -1.0}, "target_bound"),
        ({"expected_norm": 1e9}, "expected_norm"),
        ({"public": ()}, "n_samples"),
        ({"data_norm": 1.0}, r"`data_norm` promises at most 1, but 5\d of 60"),
        ({"target_bound": 0.1}, r"`target_bound` promises at most 0.1, but 5\d of 60"),
    ],
)
def test_wrong_parameters_are_refused_and_no_value_is_said(changed, match):
    X, y = _table()
    before = _moments().fit(X, y)
    kept = before.release().moments["xx"]
    with pytest.raises(ValueError, match=match) as raised:
        before.set_params(**changed).fit(X, y)
    assert f"{X[0, 0]:.4f}"[:6] not in str(raised.value)
    assert_array_equal(before.release().moments["xx"], kept)


def test_records_beyond_the_bounds_are_clipped_where_that_is_asked_for():
    X, y = _table()
    X[0], y[0] = 1e200, -1e300
    model = _moments(clip=True).fit(X, y)
    assert (model.leakage_ <= model.largest_leakage_).all()
    rows, targets = model.noise_.scaled(X, y)
    assert_allclose(rows[0] * model.noise_.unit, 2.0 / np.sqrt(3.0), rtol=1e-5)
    assert targets[0] == -1.0


def test_tables_that_cannot_be_summed_are_refused():
    X, y = _table()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        _moments().fit(X, y)
    with pytest.raises(ValueError, match="at most 2000"):
        _moments().fit(np.zeros((3, 2001)), np.zeros(3))


@pytest.mark.parametrize("eta", [0.05, 3.0])
def test_limits_of_leakage_and_gain_are_met_by_every_record_without_reading_one(eta):
    X, y = np.array([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8]]), np.array([2.0, -2.0, 1.0])
    given = {"data_norm": 1.0, "target_bound": 2.0}
    moments = PrivateMoments(MaxLeakage(eta), **given).fit(X, y)
    assert eta * (1.0 - 1e-6) < moments.largest_leakage_ <= eta
    assert moments.leakage_.max() <= eta
    assert moments.release(require_guarantee=True).differential_privacy.holds
    gains = PrivateMoments(MaxAdvantage(0.2, "(target)"), **given).fit(X, y)
    worst = gains.distance((X[0], 2.0), (-X[0], 2.0)), gains.distance((X[0], 2.0), (X[1], -2.0))
    assert 2.0 * norm.cdf(0.5 * max(worst)) - 1.0 <= 0.2
    assert gains.noise_.mu == pytest.approx(2.0 * norm.ppf(0.6), rel=1e-6)
    for goal in (MaxLeakage(0.0), MaxAdvantage(1.5, 0)):
        with pytest.raises(ValueError, match="must "):
            PrivateMoments(goal, **given).fit(X, y)


def test_candidates_of_a_record_are_a_gaussian_channel_of_their_distances():
    X, y = np.array([[0.9, 0.0], [0.0, -0.5], [0.6, 0.8]]), np.array([2.0, -2.0, 1.0])
    moments = PrivateMoments(GaussianDP(2.0), columns=[1.0, 2.0], data_norm=1.0, target_bound=2.0)
    moments.fit(X, y)
    channel = moments.channel(X[:2], y[:2])
    distance = moments.distance((X[0], y[0]), (X[1], y[1]))
    assert channel.bayes_success([0.5, 0.5]) == pytest.approx(norm.cdf(0.5 * distance), abs=1e-9)
    # Leaving is replacement by a record that adds nothing.
    zero = (np.zeros(2), 0.0)
    left = moments.distance((X[0], y[0]))
    assert left == pytest.approx(moments.distance((X[0], y[0]), zero), rel=1e-12)
    assert left < moments.noise_.mu


def test_candidates_beyond_the_bounds_of_columns_are_clipped_as_records_are():
    model = PrivateMoments(GaussianDP(1.0), columns=[1.0, 2.0], clip=True).fit(np.eye(2))
    inner = model.distance([1.0, 2.0], [1.0, 0.0])
    assert inner > 0.5
    assert model.distance([10.0, 2.0], [10.0, 0.0]) == inner
    for first in (1.0, 10.0):
        success = model.channel([[first, 2.0], [first, 0.0]]).bayes_success([0.5, 0.5])
        assert success == pytest.approx(norm.cdf(0.5 * inner), abs=1e-9)
