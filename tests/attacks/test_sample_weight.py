"""Attacks on fits with sample weights: told the weights they are exact, untold they refuse."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LassoLars, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.attacks import (
    BlackBoxAttributeInference,
    GaussianLinearMembership,
    ImputationAttack,
    InformedAttributeInference,
    InformedReconstruction,
    LikelihoodRatioMembership,
    MembershipInference,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

MODELS = {
    "squared": PrivateLinearRegression(1e-3, random_state=0),
    "curvature": PrivateLinearRegression(1e-3, noise_covariance="curvature", random_state=0),
    "logistic": PrivateLogisticRegression(1e-3, random_state=0),
    "irfil": PrivateLinearRegression(1e-3, reweighting="irfil", alpha=0.3, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), PrivateLinearRegression(1e-3, random_state=0)),
    "ridge": Ridge(alpha=0.5),
    "ridge in a pipeline": make_pipeline(StandardScaler(), Ridge(alpha=0.5)),
}


@pytest.fixture
def problem(rng):
    """Records with a binary column; two rows are alike but for their weights."""
    X = np.column_stack([rng.integers(0, 2, 40), rng.normal(size=(40, 2))])
    y = X @ [1.0, 2.0, -1.0] + rng.normal(size=40)
    X[3], y[3] = X[2], y[2]
    weights = rng.uniform(0.3, 3.0, size=40)
    weights[[2, 3, 5]] = 9.0, 0.5, 0.0
    return X, y, weights


def targets_of(name, y):
    return (y > 0.0).astype(int) if name == "logistic" else y


def fitted(name, X, y, weights):
    model = clone(MODELS[name])
    last = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
    return model.fit(X, y, **{f"{last}sample_weight": weights})


def parameters(model):
    model = model[-1] if hasattr(model, "steps") else model
    if hasattr(model, "_confidential_state"):
        return model._confidential_state().factor.coefficients
    return np.append(model.coef_, model.intercept_)


@pytest.mark.slow
@pytest.mark.parametrize("refitted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_encodings_are_refits_in_which_the_whole_row_changes(name, problem, refitted):
    X, y, weights = problem
    y = targets_of(name, y)
    if refitted and name == "curvature":
        pytest.skip("no refitted preprocessing for noise of a shape of its own")
    rows = [2, 3, 5, 11]
    model = fitted(name, X, y, weights)
    attack = WhiteBoxAttributeInference(model, 0, records=rows, refit_preprocessing=refitted)
    attack.fit(X, y, sample_weight=weights)
    scaled = hasattr(model, "steps")
    for k, row in enumerate(rows):
        for m, value in enumerate(attack.values_):
            changed = X.copy()
            changed[row, 0] = value
            if scaled and not refitted:  # fitted preprocessing is public, and stays
                inner = name.replace("pipeline", "squared").replace("ridge in a squared", "ridge")
                there = model[:-1].transform(changed)
                expected = parameters(fitted(inner, there, y, weights))
            else:
                expected = parameters(fitted(name, changed, y, weights))
            assert_allclose(attack.encodings_[k, m], expected, rtol=1e-6, atol=1e-7)
    # Of no weight, hence of no trace; the heavy row of two that are alike leaves most.
    gaps = np.linalg.norm(np.diff(attack.encodings_, axis=1)[:, 0], axis=1)
    if not (scaled and refitted):  # a scaler counts all rows alike
        assert gaps[2] == pytest.approx(0.0, abs=1e-9)
    assert gaps[0] > 3.0 * gaps[1]


def test_told_the_weights_the_attack_is_as_good_as_without_any(problem):
    X, y, weights = problem
    weights[5] = 1.0
    model = PrivateLinearRegression(1e-4, random_state=0).fit(X, y, sample_weight=weights)
    attack = WhiteBoxAttributeInference(PrivateLinearRegression(1e-4), 0)
    assert attack.fit(X, y, sample_weight=weights).score(model, X[:, 0]) == 1.0


@pytest.mark.parametrize(
    "attack",
    [
        WhiteBoxAttributeInference(PrivateLinearRegression(), 0),
        LikelihoodRatioMembership(PrivateLinearRegression()),
        LikelihoodRatioMembership(
            PrivateLinearRegression(), method="online", n_shadow_models=4, random_state=0
        ),
        InformedAttributeInference(PrivateLinearRegression(), 0),
        InformedReconstruction(PrivateLinearRegression()),
    ],
    ids=lambda attack: f"{type(attack).__name__} {getattr(attack, 'method', '')}".strip(),
)
def test_a_model_with_weights_is_not_attacked_without_them(attack, problem):
    X, y, weights = problem
    model = PrivateLinearRegression(0.1).fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="was fitted with sample weights"):
        clone(attack).set_params(estimator=model).fit(X, y)
    attack.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unpickled = pickle.loads(pickle.dumps(model))
    released = model.release()
    for each in (model, released, pickle.loads(pickle.dumps(released)), unpickled):
        with pytest.raises(ValueError, match="was fitted with sample weights"):
            attack.predict(each)
    # Equal weights are none for an attack; a release says that there were some, and not which.
    weights = np.full(40, 7.0)
    equal = PrivateLinearRegression(0.1).fit(X, y, sample_weight=weights)
    clone(attack).set_params(estimator=equal).fit(X, y)
    with pytest.raises(ValueError, match="was fitted with sample weights"):
        attack.predict(equal.release())
    clone(attack).fit(X, y, sample_weight=weights).predict(equal.release())


@pytest.mark.parametrize("name", ["squared", "logistic", "pipeline"])
def test_membership_of_whole_rows(name, problem):
    X, y, weights = problem
    y = targets_of(name, y)
    model = fitted(name, X, y, weights)
    rows = [2, 3, 5, 11]
    attack = LikelihoodRatioMembership(model, records=rows).fit(X, y, sample_weight=weights)
    own = parameters(model)
    for k, row in enumerate(rows):
        rest = np.arange(40) != row
        there = model[:-1].transform(X) if hasattr(model, "steps") else X
        inner = name.replace("pipeline", "squared")
        without = parameters(fitted(inner, there[rest], y[rest], weights[rest]))
        gap = np.linalg.norm(without - own)
        assert attack.distances_[k] == pytest.approx(gap, rel=1e-5, abs=1e-9)
    expected = attack.expected_score()
    assert expected[2] == 0.5
    assert expected[0] >= expected[1]
    assert attack.predict(model).shape == (4,)


def test_invalid_weights(problem):
    X, y, weights = problem
    attack = WhiteBoxAttributeInference(PrivateLinearRegression(), 0)
    shadows = LikelihoodRatioMembership(Ridge(), method="online")
    for wrong in (weights[:3], -weights, np.zeros(40), np.full(40, np.nan)):
        for each in (attack, shadows):
            with pytest.raises(ValueError, match=r"[Ww]eight|NaN"):
                each.fit(X, y, sample_weight=wrong)
        with pytest.raises(ValueError, match=r"[Ww]eight|NaN"):
            shadows.fit(X, y, X + 1, y, sample_weight=weights, reference_sample_weight=wrong)
    with pytest.raises(ValueError, match="got no `sample_weight`"):
        shadows.fit(X, y, X + 1, y, reference_sample_weight=weights)
    for each in (shadows, LikelihoodRatioMembership(PrivateLinearRegression())):
        with pytest.raises(ValueError, match="got no such records"):
            each.fit(X, y, sample_weight=weights, reference_sample_weight=weights)
    for knn in (KNeighborsRegressor(), make_pipeline(StandardScaler(), KNeighborsRegressor())):
        with pytest.raises(AttackNotApplicableError, match="KNeighborsRegressor takes none"):
            LikelihoodRatioMembership(knn).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("others", [False, True])
def test_shadow_models_are_told_the_weights(others, piped, rng):
    """Each record has a column of its own: its residual is y / (1 + w) as a member, else y.

    Whoever takes light records for full ones expects y / 2, and finds nobody.
    """
    X, y, weights = np.eye(60), rng.normal(size=60), rng.uniform(0.05, 0.3, size=60)
    model = Ridge(1.0, fit_intercept=False)
    model, key = (make_pipeline(model), "ridge__sample_weight") if piped else (model, None)
    member = np.arange(60) % 2 == 0
    model.fit(X[member], y[member], **{key or "sample_weight": weights[member]})
    rows = np.arange(40 if others else 60)
    shadows = LikelihoodRatioMembership(model, n_shadow_models=8, random_state=0)
    known, told = (X[rows], y[rows]), {"sample_weight": weights[rows]}
    if others:
        known += X[40:], y[40:]
        told["reference_sample_weight"] = weights[40:]
    assert shadows.fit(*known, **told).score(model, member[rows]) == 1.0
    assert shadows.fit(*known).score(model, member[rows]) == 0.5


@pytest.mark.parametrize("name", ["squared", "logistic", "irfil", "pipeline"])
def test_records_are_reconstructed_from_weighted_gradients(name, problem):
    X, y, weights = problem
    y = targets_of(name, y)
    estimator = clone(MODELS[name])
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    last.set_params(noise_scale=1e-11, tol=1e-13)
    prefix = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    model = estimator.fit(X, y, **{f"{prefix}sample_weight": weights})
    there = model[:-1].transform(X) if prefix else X
    attack = InformedReconstruction(model, bounds=None).fit(X, y, sample_weight=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = attack.predict(model)
    assert np.all(np.isnan(records[5]))  # of weight zero: no trace
    present = weights > 0.0
    assert_allclose(np.median(np.abs(records - there)[present]), 0.0, atol=1e-5)
    assert np.mean(np.abs(records - there)[present] < 1e-3) > 0.95
    # Between the ends of its range, the middle errs least.
    ranged = InformedReconstruction(model).fit(X, y, sample_weight=weights).predict(model)
    assert np.all(np.isfinite(ranged))
    guesses = InformedAttributeInference(model, 0).fit(X, y, sample_weight=weights).predict(model)
    assert np.mean((guesses == X[:, 0])[present]) > 0.95


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_an_attribute_guessed_one_release_a_target(fit_intercept, problem):
    X, y, weights = problem
    weights[5] = 1.0
    model = PrivateLinearRegression(1e-10, tol=1e-13, fit_intercept=fit_intercept, random_state=0)
    model.fit(X, y, sample_weight=weights)
    attack = InformedAttributeInference(model, 0).fit(X, y, sample_weight=weights)
    own = np.append(model.coef_, model.intercept_) if fit_intercept else model.coef_
    released = np.broadcast_to(own, (1, 40, len(own)))
    assert np.mean(attack.predict_each(released)[0] == X[:, 0]) > 0.95


ROWS = {
    "prior": PriorAttack(0),
    "conditional prior": PriorAttack(0, prior="conditional"),
    "imputation": ImputationAttack(0),
    "black box": BlackBoxAttributeInference(PrivateLinearRegression(0.1), 0),
    "membership": MembershipInference(),
}


@pytest.mark.parametrize("name", ROWS)
def test_attacks_without_a_training_objective_count_rows(name, problem):
    X, y, weights = problem
    model = PrivateLinearRegression(0.1, random_state=0).fit(X, y, sample_weight=weights)
    reference = (X[:10] + 1.0, y[:10]) if name == "membership" else ()
    without = clone(ROWS[name]).fit(X, y, *reference).predict(model)
    told = clone(ROWS[name]).fit(X, y, *reference, sample_weight=weights).predict(model)
    assert np.array_equal(without, told)
    for wrong in (weights[:3], -weights, np.full(40, np.nan)):
        with pytest.raises(ValueError, match=r"[Ww]eight|NaN"):
            clone(ROWS[name]).fit(X, y, *reference, sample_weight=wrong)


def test_weights_of_reference_records(problem):
    X, y, weights = problem
    attack = MembershipInference()
    attack.fit(X, y, X + 1.0, y, sample_weight=weights, reference_sample_weight=weights)
    with pytest.raises(ValueError, match=r"[Ww]eight"):
        attack.fit(X, y, X[:3], y[:3], reference_sample_weight=weights)
    with pytest.raises(ValueError, match="got no `sample_weight`"):
        attack.fit(X, y, X[:3], y[:3], reference_sample_weight=weights[:3])
    with pytest.raises(ValueError, match="got no such records"):
        attack.fit(X, y, sample_weight=weights, reference_sample_weight=weights)


def test_what_cannot_be_told_weights_says_so(problem):
    X, y, weights = problem
    model = PrivateLinearRegression(0.1).fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="was fitted with sample weights"):
        BlackBoxAttributeInference(model, 0).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="ordinary least squares"):
        GaussianLinearMembership(sigma=1.0, coef=np.zeros(3)).fit(X, sample_weight=weights)
    with pytest.raises(AttackNotApplicableError, match="LassoLars takes none"):
        WhiteBoxAttributeInference(LassoLars(), 0).fit(X, y, sample_weight=weights)
