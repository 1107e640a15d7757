"""What records leak through noise in the objective: against densities, quadrature and attacks."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from skleak.accounting.gaussian import gaussian_delta
from skleak.accounting.objective import objective_delta
from skleak.exceptions import AttackNotApplicableError
from skleak.influence import leakage, objective_noise
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.objective_noise import (
    Draws,
    candidate_log_densities,
    candidate_success,
    noise_draws,
    noisy_joint_loss,
    noisy_losses,
)
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.mechanisms import EpsilonDelta, GaussianDP, ObjectivePerturbation

WHOLE, ROWS = Columns(target=True), Columns()


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(objective_noise, "_MOST", 64)


def _table(n=12, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    return X, rng.integers(2, size=n), rng.uniform(0.5, 1.0, n)


GOAL = GaussianDP(3.0)


def _fitted(robust=False, goal=GOAL, n=12, d=2, seed=0, weighted=True, **changed):
    X, y, s = _table(n, d, seed)
    promises = {"data_norm": 1.0, "fit_intercept": False, "alpha": "auto"}
    promises["public"] = ("n_samples", "sample_weight")
    if robust:
        promises |= {"mechanism": ObjectivePerturbation(huber=0.4), "target_bound": 1.0}
        model = PrivateLinearRegression(goal, **{**promises, **changed})
        return model.fit(X, 0.7 * y - 0.3 * X[:, 0], s if weighted else None)
    promises |= {"mechanism": "objective", "classes": [0, 1]}
    model = PrivateLogisticRegression(goal, **{**promises, **changed})
    return model.fit(X, y, s if weighted else None)


def _log_density(state, w, row, x, y):
    """Log density of the minimizer, up to a constant, by its definition."""
    objective, noise = state.objective.with_record(row, x, y), state.noise_elsewhere
    g, c, _ = noise.derivatives(objective.X @ w, objective.y)
    s = objective.sample_weight
    b = objective.X.T @ (s * g) + noise.strength * w
    hessian = (objective.X * (s * c)[:, None]).T @ objective.X + noise.strength * np.eye(len(w))
    return np.linalg.slogdet(hessian)[1] - 0.5 * b @ b / noise.gradient_noise_scale**2


def _score(state, w, row, h=1e-4):
    """Derivatives of it in the row and the target of a record, by differences of fourth order."""
    x, y = state.objective.X[row], state.objective.y[row]
    found = []
    for unit in np.eye(len(x) + 1) * h:
        ends = [_log_density(state, w, row, x + k * unit[:-1], y + k * unit[-1]) for k in _AT]
        found.append(np.dot(_BY, ends) / (12.0 * h))
    return np.array(found)


_AT, _BY = (-2.0, -1.0, 1.0, 2.0), (1.0, -8.0, 8.0, -1.0)


def _nodes(state, n, d):
    """Minimizers at the nodes of a Gaussian quadrature of the noise, and their weights."""
    at, by = np.polynomial.hermite_e.hermegauss(n)
    noise, objective = state.noise_elsewhere, state.objective
    b = noise.gradient_noise_scale * np.array(list(itertools.product(at, repeat=d)))
    weights = np.prod(list(itertools.product(by / by.sum(), repeat=d)), axis=1)
    records = objective.X, objective.y, objective.sample_weight
    return np.stack([noise.minimum(*records, one)[0] for one in b]), weights


def _inverses(state, coefficients):
    objective, noise, found = state.objective, state.noise_elsewhere, []
    for w in coefficients:
        curvature = noise.derivatives(objective.X @ w, objective.y)[1] * objective.sample_weight
        hessian = (objective.X * curvature[:, None]).T @ objective.X
        found.append(np.linalg.inv(hessian + noise.strength * np.eye(len(w))))
    return np.stack(found)


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize(("d", "n_nodes"), [(1, 60), (2, 24)])
def test_the_information_is_that_of_the_score_by_quadrature(robust, d, n_nodes):
    state = _fitted(robust, d=d)._state
    coefficients, weights = _nodes(state, n_nodes, d)
    batch = state.training.take(np.arange(2))
    found = np.zeros((2, d + 1, d + 1))
    for w, inverse, weight in zip(
        coefficients, _inverses(state, coefficients), weights, strict=True
    ):
        draws = Draws(w[None], inverse[None])
        found += weight * objective_noise._information(state, batch, draws, [WHOLE])[0]
    for row in range(2):
        scores = np.stack([_score(state, w, row) for w in coefficients])
        expected = (scores * weights[:, None]).T @ scores
        assert_allclose(scores.T @ weights, 0.0, atol=2e-5 * np.sqrt(expected.max()))
        assert_allclose(found[row], expected, atol=1e-5 * expected.max())


@pytest.mark.parametrize("robust", [False, True])
def test_the_score_is_that_of_differences_of_log_densities(robust):
    state = _fitted(robust)._state
    noise, objective = state.noise_elsewhere, state.objective
    (w,), (inverse,) = noise_draws(state).coefficients[:1], noise_draws(state).inverse_hessians[:1]
    g, c, q = noise.derivatives(objective.X @ w, objective.y)
    b = -(objective.X.T @ (objective.sample_weight * g) + noise.strength * w)
    for row in range(3):
        x, s = objective.X[row], objective.sample_weight[row]
        h, e = (c[row], q[row]) if robust else (1.0, 0.0)
        own = (g[row] * b + c[row] * (x @ b) * w) / noise.gradient_noise_scale**2
        own += q[row] * (x @ inverse @ x) * w + 2.0 * c[row] * inverse @ x
        target = -h * (x @ b) / noise.gradient_noise_scale**2 - e * (x @ inverse @ x)
        assert_allclose(_score(state, w, row), s * np.append(own, target), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("robust", [False, True])
def test_losses_agree_with_their_matrices_and_state_their_error(robust):
    model = _fitted(robust, d=3, n=9)
    state, batch = model._state, model._state.training
    draws, sigma = state.once(noise_draws), model.gradient_noise_scale_
    whole = np.zeros((9 * 4, 9 * 4))
    for w, inverse in zip(draws.coefficients, draws.inverse_hessians, strict=True):
        g, c, q = state.noise_elsewhere.derivatives(batch.X @ w, batch.y)
        h, e = (c, q) if robust else (np.ones(9), np.zeros(9))
        root, moves, changes = np.linalg.cholesky(inverse), [], []
        for i, (x, s) in enumerate(zip(batch.X, batch.sample_weight, strict=True)):
            moves.append(s * np.column_stack([g[i] * np.eye(3) + c[i] * np.outer(x, w), -h[i] * x]))
            for unit in np.eye(3):
                both = np.outer(unit, x) + np.outer(x, unit)
                changes.append(s * (q[i] * (w @ unit) * np.outer(x, x) + c[i] * both))
            changes.append(-s * e[i] * np.outer(x, x))
        moves = np.hstack(moves) / sigma
        changes = np.stack([(root.T @ change @ root).ravel() for change in changes])
        whole += (moves.T @ moves + changes @ changes.T) / len(draws.coefficients)
    own = np.stack([whole[k : k + 4, k : k + 4] for k in range(0, 36, 4)])
    largest = np.sqrt(np.linalg.eigvalsh(own)[:, -1])
    losses, errors = noisy_losses(state, batch, [WHOLE, Columns(np.array([1]))], "spectral")
    assert_allclose(losses[:, 0], largest, rtol=1e-10)
    assert_allclose(losses[:, 1], np.sqrt(own[:, 1, 1]), rtol=1e-10)
    traces = noisy_losses(state, batch, [WHOLE], "trace")[0][:, 0]
    assert_allclose(traces, np.sqrt(np.trace(own, axis1=1, axis2=2) / 4.0), rtol=1e-10)
    joint, error = noisy_joint_loss(state, batch, WHOLE, "spectral")
    assert joint == pytest.approx(np.sqrt(np.linalg.eigvalsh(whole)[-1]), rel=1e-6)
    assert 0.0 < error < 0.1 * joint
    assert_allclose(model.fisher_information_loss_error_, errors[:, 0])
    assert np.all((errors > 0.0) & (errors < 0.2 * losses))


def test_errors_are_those_of_other_draws(monkeypatch):
    state, found = _fitted(True)._state, []
    monkeypatch.setattr(objective_noise, "_MOST", 32)
    seeds = iter(range(40))
    seeded = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda *_: seeded(next(seeds)))
    for _ in range(40):
        state._found.clear()
        found.append(noisy_losses(state, state.training, [WHOLE], "spectral"))
    losses, errors = np.array(found)[:, :, :, 0].transpose(1, 0, 2)
    ratio = np.median(np.sqrt(np.mean(errors**2, axis=0)) / np.std(losses, axis=0, ddof=1))
    assert 0.75 < ratio < 1.35


def test_labels_are_told_as_exactly_as_is_stated():
    model = _fitted(goal=GaussianDP(4.0))
    state, sigma = model._state, model.gradient_noise_scale_
    length = state.objective.sample_weight * np.linalg.norm(state.objective.X, axis=1)
    target = Columns(np.zeros(0, dtype=int), target=True)
    losses, errors = noisy_losses(state, state.training, [target], "spectral")
    assert_allclose(losses[:, 0], length / sigma, rtol=1e-12)
    assert_allclose(errors, 0.0, atol=1e-15)
    report = model.leakage_report()
    distance = report.features.loc["(target)", "distance"]
    assert distance == pytest.approx(length.max() / sigma, rel=2e-3)
    assert distance >= length.max() / sigma
    # Play it: refit under either label, and decide by the exact densities of what is released.
    row, X = int(np.argmax(length)), state.objective.X
    rng, right = np.random.default_rng(0), []
    candidates = np.repeat(X[[row]], 2, axis=0), np.array([0.0, 1.0])
    for _ in range(1500):
        label = rng.integers(2)
        y = state.objective.y.copy()
        y[row] = label
        released, _ = state.noise_elsewhere.release(X, y, state.objective.sample_weight)
        logs = candidate_log_densities(state, *candidates, row, released.parameters[None])[0]
        right.append(np.argmax(logs) == label)
    stated = norm.cdf(0.5 * distance)
    assert np.mean(right) == pytest.approx(stated, abs=4.0 * np.sqrt(0.25 / 1500))
    success, error = candidate_success(state, *candidates, row, np.full(2, 0.5), 2000)
    assert success == pytest.approx(stated, abs=4.0 * error + 2e-3)


@pytest.mark.parametrize("robust", [False, True])
def test_an_attribute_attack_on_releases_gains_what_is_stated(robust):
    model = _fitted(robust, EpsilonDelta(4.0, 1e-3), weighted=False)
    state, row, prior = model._state, 1, np.array([0.3, 0.7])
    X, y = np.repeat(state.objective.X[[row]], 2, axis=0), state.objective.y[[row, row]]
    X[:, 0], X[:, 1] = (-0.9, 0.9), 0.3
    success, error = candidate_success(state, X, y, row, prior, 3000)
    rng, right = np.random.default_rng(1), []
    for _ in range(1500):
        value = int(rng.random() < prior[1])
        other = state.objective.with_record(row, X[value])
        released, _ = state.noise_elsewhere.release(other.X, other.y, other.sample_weight)
        logs = candidate_log_densities(state, X, y, row, released.parameters[None])[0]
        logs += np.log(prior)
        right.append(np.argmax(logs) == value)
    assert np.mean(right) == pytest.approx(success, abs=4.0 * np.sqrt(0.25 / 1500))
    # At even odds no more than the total variation, and no more than is stated of the record.
    noise = state.noise_elsewhere
    even, error = candidate_success(state, X, y, row, np.full(2, 0.5), 3000)
    bound = objective_delta(noise.noise, noise.ridge, 0.0, two_sided=robust)
    assert 2.0 * even - 1.0 < bound + 8.0 * error
    told = leakage_model(state).apart(state.training, np.array([0]), X[:, :1])[1, row]
    assert 2.0 * even - 1.0 < 2.0 * norm.cdf(0.5 * told) - 1.0 + 8.0 * error


@pytest.mark.parametrize("weighted", [False, True])
def test_whoever_leaves_shows_no_more_than_is_stated(weighted):
    model = _fitted(d=1, weighted=weighted, goal=EpsilonDelta(2.0, 1e-3))
    state = model._state
    told = model.individual_privacy()["mu"].to_numpy()
    assert np.all(told < model._guarantee.composed_mu)
    w = np.linspace(-60.0, 60.0, 400_001)
    for row in (0, 3, 7):
        X, y = state.objective.X[:, 0], state.objective.y
        logs = []
        for left in (-1, row):
            noise = state.noise_elsewhere
            there = state.objective.sample_weight * (np.arange(len(y)) != left)
            p = 1.0 / (1.0 + np.exp(-np.outer(w, X)))
            b = (p - y) @ (X * there) + noise.strength * w
            hessian = (p * (1.0 - p)) @ (X**2 * there) + noise.strength
            logs.append(np.log(hessian) - 0.5 * (b / noise.gradient_noise_scale) ** 2)
        densities = [np.exp(one - max(map(np.max, logs))) for one in logs]
        densities = [one / one.sum() for one in densities]
        for first, second in (densities, densities[::-1]):
            for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
                delta = np.maximum(first - np.exp(epsilon) * second, 0.0).sum()
                assert delta <= gaussian_delta(told[row], epsilon) * (1.0 + 1e-9)


def test_reports_state_the_mechanism_its_guarantee_and_no_other_numbers():
    model = _fitted(goal=EpsilonDelta(1.0, 1e-6), n=60, d=3)
    report = model.leakage_report()
    assert report.dataset["mechanism"] == "objective"
    assert report.dataset["noise_scale"] == model.gradient_noise_scale_
    assert 0.0 < report.dataset["simulation_error"] < 0.2
    assert report.differential_privacy == model._guarantee
    assert report.features["van_trees_error"].isna().all()
    assert report.features.drop("(target)")["note"].str.contains("by the guarantee").all()
    mu = model._guarantee.composed_mu
    assert report.features["distance"].max() <= mu * (1.0 + 1e-6)
    assert np.any(["is not the same leakage" in line for line in report.assumptions])
    assert "nan" not in report.to_text(full=True).replace("nan-", "")
    assert report.person(0).columns.loc["(target)", "bound"] == "exact separation"
    assert "exact" not in report.person(0).columns.loc["x0", "bound"]
    groups = model.fisher_information_loss(per="group", groups=np.arange(60) % 2)
    joint = model.fisher_information_loss(per="dataset")
    assert groups.max() <= joint <= np.hypot(*groups) * (1.0 + 1e-9)
    with pytest.raises(ValueError, match="Leave out `queries`"):
        model.fisher_information_loss(queries=np.eye(3))


def test_an_uncertain_loss_is_told(monkeypatch):
    monkeypatch.setattr(leakage, "_UNCERTAIN", 1e-4)
    with pytest.warns(ConvergenceWarning, match="standard errors of up to"):
        _ = _fitted().fisher_information_loss_


def test_an_intercept_is_a_constant_column_that_nobody_asks_for():
    X, y, _ = _table(40, 3)
    own = _fitted(n=40, d=3, weighted=False, fit_intercept=True)
    constant = own._state.noise_elsewhere.constant
    given = own.get_params(deep=False) | {
        "fit_intercept": False,
        "data_norm": float(np.hypot(1.0, constant)),
    }
    other = PrivateLogisticRegression(**given).fit(np.column_stack([X, np.full(40, constant)]), y)
    for features in (0, [0, 2]):
        found = [m.fisher_information_loss(features=features) for m in (own, other)]
        assert_allclose(*found, rtol=1e-9)
    found = [m.fisher_information_loss(per="dataset", features=[0, 1, 2]) for m in (own, other)]
    assert_allclose(*found, rtol=1e-6)
    assert_allclose(own.individual_privacy()["mu"], other.individual_privacy()["mu"], rtol=1e-9)


def test_more_than_two_classes_are_refused_but_for_what_is_said_of_labels():
    X, _, _ = _table(30, 2)
    given = {"alpha": "auto", "data_norm": 1.0, "public": "n_samples", "mechanism": "objective"}
    model = PrivateLogisticRegression(GOAL, classes=[0, 1, 2], fit_intercept=False, **given)
    model.fit(X, np.arange(30) % 3)
    for ask in (model.fisher_information_loss, model.leakage_report, model.individual_privacy):
        with pytest.raises(AttackNotApplicableError, match=r"sqrt\(2\) times the norm of the row"):
            ask()
