"""A weight is one person's: leakage of whole rows, against refits in which the whole row moves.

Every figure is compared with fits that someone could run who has the estimator and the records: a
row is moved, the estimator is fitted again with the same sample weights, and the noiseless
coefficients (and the covariance of the noise, where it follows the data) are compared.
"""

from functools import partial

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import norm
from sklearn.base import clone

from skleak.accounting import LeakageLedger
from skleak.exceptions import LeakageBudgetError
from skleak.influence import candidate_encodings, minimax_shape
from skleak.influence.noise import noise_covariance
from skleak.linear_model import (
    IRFIL,
    EvenTotal,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxAdvantage, MaxLeakage

NOISE = 0.3
GROUPS = np.arange(10) % 3
GIVEN = np.diag([1.0, 4.0, 9.0, 2.0]) + 0.5
SHAPES = ["isotropic", GIVEN, "curvature", "minimax", "least_mean"]
NAMES = ["isotropic", "given", "curvature", "minimax", "least_mean"]
named = pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
evens = pytest.mark.filterwarnings(
    "ignore:.reweighting='total'. evens:skleak.exceptions.UnevenLeakageWarning"
)


@pytest.fixture
def rows(estimator_class, make_data, rng):
    """Ten records, one of weight 20, one of a fraction, one of zero."""
    X, y, _ = make_data(estimator_class, rng, n=10, d=3)
    y = y if estimator_class is PrivateLogisticRegression else y + 1.0  # off the edge of counts
    weights = rng.uniform(0.3, 3.0, size=10)
    weights[[2, 5, 9]] = 20.0, 0.01, 0.0
    return X, y, weights


def private(estimator_class, **params):
    """An estimator whose unknowns can all be moved: a class label cannot."""
    movable = estimator_class is not PrivateLogisticRegression
    return estimator_class(NOISE, private_target=movable, **{"alpha": 0.1, "tol": 1e-13, **params})


def refit(model, X, y, weights):
    """Noiseless coefficients and the covariance of the noise of another fit."""
    state = clone(model).fit(X, y, sample_weight=weights)._confidential_state()
    return state.factor.coefficients, model.noise_scale**2 * noise_covariance(state)


def information(model, X, y, weights, which, step=1e-4):
    """Fisher information about all entries of some rows together, by central differences.

    Returns a matrix of shape (len(which), k, len(which), k) for k unknowns of a row.
    """
    means, covariances = [], []
    for row in which:
        for j in range(X.shape[1] + model.private_target):
            ends = []
            for h in (step, -step):
                moved, target = X.copy(), y.copy()
                if j == X.shape[1]:
                    target[row] += h
                else:
                    moved[row, j] += h
                ends.append(refit(model, moved, target, weights))
            mean, covariance = ((up - down) / (2.0 * step) for up, down in zip(*ends, strict=True))
            means.append(mean)
            covariances.append(covariance)
    inverse = np.linalg.inv(refit(model, X, y, weights)[1])
    means, shaped = np.array(means), inverse @ np.array(covariances)
    total = means @ inverse @ means.T + 0.5 * np.einsum("aij,bji->ab", shaped, shaped)
    k = len(means) // len(which)
    return total.reshape(len(which), k, len(which), k)


def worst(matrix):
    """Loss in the worst direction of a block of unknowns."""
    size = int(np.sqrt(matrix.size))
    return np.sqrt(np.linalg.eigvalsh(matrix.reshape(size, size))[-1])


def together(total, members, which):
    """Loss of some rows together, in either norm, of the rows that take batch."""
    at = [which.index(i) for i in members if i in which]
    batch = total[at][:, :, at]
    trace = np.einsum("iaia->", batch) / (batch.shape[0] * batch.shape[1])
    return worst(batch), np.sqrt(trace)


@pytest.mark.parametrize(
    ("shape", "fit_intercept"),
    mostly_slow(
        [
            ("isotropic", True),
            (GIVEN, True),
            (GIVEN[:3, :3], False),
            ("curvature", True),
            ("minimax", True),
            ("minimax", False),
            ("least_mean", True),
            ("least_mean", False),
        ],
        3,
    ),
)
def test_every_grain_is_that_of_whole_rows(estimator_class, rows, shape, fit_intercept):
    X, y, weights = rows
    model = private(estimator_class, noise_covariance=shape, fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weights)
    here = np.flatnonzero(weights > 0.0).tolist()
    total = information(model, X, y, weights, here)
    own = np.einsum("iaib->iab", total)
    close = partial(assert_allclose, rtol=2e-5)
    diagonal = np.sqrt(np.trace(own, axis1=1, axis2=2) / own.shape[1])
    close(model.fisher_information_loss_[here], [worst(each) for each in own])
    close(model.diagonal_fisher_information_loss_[here], diagonal)
    columns = np.sqrt(np.einsum("iaa->ia", own))
    close(model.fisher_information_loss(per="feature")[here], columns[:, :3])
    block = model.fisher_information_loss(features=[0, 2])[here]
    close(block, [worst(each[np.ix_([0, 2], [0, 2])]) for each in own])
    for k, kind in enumerate(["spectral", "trace"]):
        whole = model.fisher_information_loss(per="dataset", norm=kind)
        close(whole, together(total, here, here)[k])
        groups = model.fisher_information_loss(per="group", groups=GROUPS, norm=kind)
        expected = [together(total, np.flatnonzero(g == GROUPS), here)[k] for g in range(3)]
        close(groups, expected)
    # What takes no batch leaks nothing.
    assert model.fisher_information_loss_[9] == 0.0
    assert model.fisher_information_loss(per="feature")[9].max() == 0.0


@pytest.mark.parametrize("of", mostly_slow([PrivateLinearRegression, PrivatePoissonRegressor]))
def test_a_public_target_has_no_part_in_the_least_mean(make_data, rng, of):
    X, y, _ = make_data(of, rng, n=10, d=3)
    weights = rng.uniform(0.3, 3.0, size=10)
    model = of(NOISE, alpha=0.1, tol=1e-13, noise_covariance="least_mean", private_target=False)
    model.fit(X, y, sample_weight=weights)
    total = information(model, X, y + 0.0, weights, list(range(10)))
    own = np.einsum("iaib->iab", total)
    assert_allclose(model.fisher_information_loss_, [worst(each) for each in own], rtol=2e-5)
    joint = model.fisher_information_loss(per="dataset")
    assert_allclose(joint, together(total, range(10), list(range(10)))[0], rtol=2e-5)
    state = model._confidential_state()
    J = weights[:, None, None] * state.factor.jacobian(X, y)[:, :, :3]
    shape = noise_covariance(state)
    hessian = np.linalg.inv(state.factor.inverse_hessian)
    expected = np.einsum("nia,nja->ij", J, J)
    found = shape @ hessian @ shape
    assert_allclose(found * np.trace(expected) / np.trace(found), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@evens
@pytest.mark.parametrize("reweighting", [IRFIL, EvenTotal])
@pytest.mark.parametrize("balanced", ["spectral", "trace"])
def test_leakage_under_a_reweighting_is_that_of_whole_rows(make_data, rng, reweighting, balanced):
    X, y, _ = make_data(PrivateLinearRegression, rng, n=16, d=3)
    weights = rng.uniform(0.3, 3.0, size=16)
    weights[[2, 9]] = 8.0, 0.0
    model = PrivateLinearRegression(
        NOISE,
        alpha=0.3,
        reweighting=reweighting(norm=balanced, tol=1e-11, max_iter=200),
        tol=1e-13,
    )
    model.fit(X, y, sample_weight=weights)
    which = [2, 4, 11]
    total = information(model, X, y, weights, which)
    own = np.einsum("iaib->iab", total)
    assert_allclose(model.fisher_information_loss_[which], [worst(e) for e in own], rtol=1e-4)
    columns = np.sqrt(np.einsum("iaa->ia", own))
    assert_allclose(
        model.fisher_information_loss(per="feature")[which], columns[:, :3], rtol=1e-4, atol=1e-6
    )
    groups = np.isin(np.arange(16), which)
    for k, each in enumerate(["spectral", "trace"]):
        found = model.fisher_information_loss(per="group", groups=groups, norm=each)
        assert_allclose(found[True], together(total, which, which)[k], rtol=1e-4)
    # With weights held fixed, what is even is leakage per unit of sample weight.
    if reweighting is IRFIL and balanced == "spectral":
        present = weights > 0.0
        unit = model.conditional_fisher_information_loss_[present] / weights[present]
        assert_allclose(unit, unit.mean(), rtol=1e-8)


@pytest.mark.slow
def test_several_classes(make_data, rng):
    X, _, _ = make_data(PrivateLinearRegression, rng, n=16, d=3)
    y, weights = np.arange(16) % 3, rng.uniform(0.3, 3.0, size=16)
    weights[[2, 9]] = 20.0, 0.0
    model = private(PrivateLogisticRegression).fit(X, y, sample_weight=weights)
    here = np.flatnonzero(weights > 0.0).tolist()
    total = information(model, X, y, weights, here)
    own = [worst(each) for each in np.einsum("iaib->iab", total)]
    assert_allclose(model.fisher_information_loss_[here], own, rtol=2e-5)
    for k, kind in enumerate(["spectral", "trace"]):
        whole = model.fisher_information_loss(per="dataset", norm=kind)
        assert_allclose(whole, together(total, here, here)[k], rtol=2e-5)


def figures(model):
    """All that a fit says about its leakage, in one vector."""
    report = model.leakage_report(groups=GROUPS, features=[0, [1, 2]])
    numbers = [value for value in report.dataset.values() if isinstance(value, float)]
    return np.concatenate(
        [
            model._confidential_state().factor.coefficients,
            [model.noise_scale_],
            model.fisher_information_loss_,
            model.diagonal_fisher_information_loss_,
            np.ravel(model.fisher_information_loss(per="feature")),
            np.ravel(model.fisher_information_loss(per="group", groups=GROUPS)),
            [model.fisher_information_loss(per="dataset", norm="trace")],
            np.ravel(report.features.select_dtypes("number").to_numpy(dtype=float)),
            np.ravel(report.groups.to_numpy(dtype=float)),
            numbers,
        ]
    )


@pytest.mark.slow
@named
def test_only_the_ratios_of_weights_count(estimator_class, rows, shape):
    X, y, weights = rows
    for noise in (NOISE, MaxLeakage(50.0, features=[0])):
        fits = [
            private(estimator_class, noise_covariance=shape)
            .set_params(noise_scale=noise)
            .fit(X, y, sample_weight=unit * weights)
            for unit in (1.0, 1000.0)
        ]
        assert_allclose(*map(figures, fits), rtol=1e-6)


@pytest.mark.slow
@evens
@pytest.mark.parametrize("reweighting", [IRFIL, EvenTotal])
def test_only_the_ratios_of_weights_count_under_a_reweighting(make_data, rng, reweighting):
    X, y, weights = make_data(PrivateLinearRegression, rng, n=10, d=3)
    even = reweighting(tol=1e-11, max_iter=200)
    model = PrivateLinearRegression(NOISE, alpha=0.3, reweighting=even)
    fits = [clone(model).fit(X, y, unit * weights) for unit in (1.0, 1000.0)]
    assert_allclose(*map(figures, fits), rtol=1e-5)


@named
def test_noise_for_a_largest_leakage_covers_whole_rows(estimator_class, rows, shape):
    X, y, weights = rows
    model = private(estimator_class, noise_covariance=shape)
    # Above what a covariance tells that follows the data, which no noise lowers.
    least = clone(model).set_params(noise_scale=1e6).fit(X, y, weights)
    eta = 0.9 + 1.1 * least.fisher_information_loss_.max()
    noise_scale = MaxLeakage(eta).noise_scale_of(least)
    goal = clone(model).set_params(noise_scale=noise_scale).fit(X, y, weights)
    model.set_params(noise_scale=goal.noise_scale_)
    row = int(goal.fisher_information_loss_.argmax())
    # Rounded up to a rung of the ladder, at most the square root of two more noise than needed.
    leaked = worst(information(model, X, y, weights, [row]))
    assert eta / np.sqrt(2.0) * (1.0 - 2e-5) <= leaked <= eta * (1.0 + 2e-5)


def test_noise_against_guesses_covers_whole_rows(rng):
    X = rng.normal(size=(30, 3))
    X[:, 0] = X[:, 0] > 0.0
    y, weights = X @ [1.0, -1.0, 0.5] + rng.normal(size=30), np.ones(30)
    weights[4] = 20.0
    goal = MaxAdvantage(0.2, attribute=0)
    heavy = PrivateLinearRegression(1.0)
    noise = goal.noise_scale_of(heavy.fit(X, y, weights))
    distances = []
    for row in range(30):
        ends = []
        for value in (0.0, 1.0):
            changed = X.copy()
            changed[row, 0] = value
            ends.append(refit(heavy, changed, y, weights)[0])
        distances.append(np.linalg.norm(ends[1] - ends[0]))
    # The Bayes attack on two values at even odds, within a rung of the ladder.
    d = max(distances) / noise
    assert 2.0 * norm.cdf(d / 2.0) - 1.0 <= 0.2 + 1e-9
    assert 2.0 * norm.cdf(d * np.sqrt(2.0) / 2.0) - 1.0 >= 0.2 - 1e-9
    assert np.argmax(distances) == 4


def test_the_report_of_a_heavy_record_is_what_refits_tell(rng):
    X = rng.normal(size=(40, 2))
    y, weights = X @ [1.0, -1.0] + rng.normal(size=40), np.ones(40)
    weights[7] = 20.0
    model = PrivateLinearRegression(NOISE, alpha=0.1, tol=1e-13).fit(X, y, weights)
    report = model.leakage_report(features=[0, 1])
    expected = worst(information(model, X, y, weights, [7]))
    assert report.records.loc[7, "fisher_information_loss"] == pytest.approx(expected, rel=1e-6)
    assert report.records.loc[7, "standard_error"] == pytest.approx(1.0 / expected, rel=1e-6)
    assert report.records.loc[7, "sample_weight"] == 20.0
    assert report.dataset["max_loss"] == pytest.approx(expected, rel=1e-6)
    assert report.dataset["most_exposed_records"][0] == 7
    # One person, whatever the weight: means and medians are over rows.
    loss = model.fisher_information_loss_
    assert report.dataset["mean_loss"] == pytest.approx(loss.mean())
    assert report.dataset["median_loss"] == pytest.approx(np.median(loss))
    assert any("A row is one person" in line for line in report.assumptions)
    assert not any("multiply by s" in line for line in report.assumptions)


def test_records_of_weight_zero_are_in_no_statistic(estimator_class, rows):
    X, y, weights = rows
    here = weights > 0.0
    reports = [
        private(estimator_class)
        .fit(X[some], y[some], weights[some])
        .leakage_report(groups=GROUPS[some])
        for some in (np.full(10, True), here)
    ]
    for table in ("features", "groups"):
        with_zero, without = (getattr(report, table) for report in reports)
        for column in without:
            values = without[column].to_numpy()
            if column == "most_exposed_record":
                values = np.flatnonzero(here)[values.astype(int)]
            if without[column].dtype.kind in "iufb":
                assert_allclose(with_zero[column].to_numpy(), values, rtol=1e-9)
            else:
                assert with_zero[column].tolist() == values.tolist()
    for name, value in reports[1].dataset.items():
        if isinstance(value, float):
            assert reports[0].dataset[name] == pytest.approx(value, rel=1e-9, nan_ok=True), name
    assert reports[0].dataset["n_records"] == 9


def test_a_ceiling_of_the_ledger_is_for_whole_rows(tmp_path, rng):
    X = rng.normal(size=(40, 2))
    y, weights = X @ [1.0, -1.0] + rng.normal(size=40), np.ones(40)
    weights[7] = 20.0
    model = PrivateLinearRegression(NOISE, alpha=0.1, tol=1e-13)
    leaked = worst(information(model, X, y, weights, [7]))
    free = LeakageLedger(":memory:", units=20.0)
    clone(model).set_params(ledger=free).fit(X, y, sample_weight=weights)
    # All unknowns are of one width: 20 times what leaks of each per unit.
    charged = free.total("default").fisher_information_loss.max()
    assert charged == pytest.approx(20.0 * leaked, rel=1e-6)
    ledger = LeakageLedger(tmp_path / "strict.sqlite", max_leakage=10.0 * leaked, units=20.0)
    model.set_params(ledger=ledger)
    with pytest.raises(LeakageBudgetError):
        model.fit(X, y, sample_weight=weights)
    model.fit(X, y, sample_weight=np.full(40, 1000.0))
    ledger = LeakageLedger(tmp_path / "open.sqlite")
    model.set_params(ledger=ledger).fit(X, y, sample_weight=weights)
    charged = ledger.total("default").fisher_information_loss
    assert np.max(charged) == pytest.approx(leaked, rel=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_encodings_move_whole_rows(estimator_class, rows, form):
    X, y, weights = rows
    model = private(estimator_class).fit(form(X), y, sample_weight=weights)
    found = candidate_encodings(model, form(X), y, 1, [-1.0, 0.5])
    for row in (2, 5, 9):
        for m, value in enumerate([-1.0, 0.5]):
            changed = X.copy()
            changed[row, 1] = value
            expected = refit(model, changed, y, weights)[0]
            assert_allclose(found[row, m], expected, rtol=1e-7, atol=1e-9)


def test_the_best_shape_is_best_for_whole_rows(rows, estimator_class):
    X, y, weights = rows
    model = private(estimator_class).fit(X, y, sample_weight=weights)
    best = minimax_shape(model)
    # At the rise of the objective that its figures are for.
    state = model._confidential_state()
    hessian = np.linalg.inv(state.factor.inverse_hessian)
    scale = np.sqrt(len(hessian) / np.trace(hessian @ best.shape))
    shaped = private(estimator_class, noise_covariance=best.shape)
    shaped.set_params(noise_scale=scale).fit(X, y, sample_weight=weights)
    assert shaped.fisher_information_loss_.max() == pytest.approx(best.largest, rel=1e-6)
    assert_array_equal(np.isin(best.support, np.flatnonzero(weights > 0.0)), True)
