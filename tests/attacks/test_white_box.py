"""The white-box attack: right encodings, the optimal decision, and no look at the secret."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from joblib import parallel_config
from scipy import linalg, stats
from scipy.special import softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, PolynomialFeatures

from skleak.attacks import WhiteBoxAttributeInference
from skleak.channels import GaussianChannel, UnequalGaussianChannel
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    IRFIL,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxLeakage

# Releases of tests that are no model of the data.
elsewhere = pytest.mark.filterwarnings("ignore::skleak.exceptions.ReleaseMismatchWarning")


ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


def parameters(model, fit_intercept=True):
    coef = np.ravel(model.coef_)
    return np.append(coef, model.intercept_) if fit_intercept else coef


def refit(pipe, X, y, row, column, value):
    """Parameters of a noiseless fit of the last step, preprocessing as it is."""
    changed = X.copy()
    changed.loc[row, column] = value
    model = clone(pipe[-1]).set_params(noise_scale=0)
    return parameters(model.fit(pipe[:-1].transform(changed), y), model.fit_intercept)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
def test_encodings_equal_refits(estimator, fit_intercept, make_table, make_pipe):
    X, y = make_table(estimator)
    pipe = make_pipe(estimator(0.1, alpha=0.05, fit_intercept=fit_intercept)).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "gene").fit(X, y)
    assert attack.encodings_.shape == (60, 3, 7 + fit_intercept)
    for row in (0, 31):
        for m, value in enumerate("ABC"):
            expected = refit(pipe, X, y, row, "gene", value)
            np.testing.assert_allclose(attack.encodings_[row, m], expected, atol=1e-9)


def test_interactions_take_the_general_path(make_table):
    X, y = make_table()
    encode = make_column_transformer(
        (OneHotEncoder(drop="first"), ["gene"]), remainder="passthrough"
    )
    pipe = make_pipeline(
        encode, PolynomialFeatures(2, include_bias=False), PrivateLinearRegression(0)
    )
    X = X.drop(columns="city").assign(age=(X["age"] - 50) / 10)
    pipe.fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "gene", records=[4, 40]).fit(X, y)
    for i, row in enumerate((4, 40)):
        for m, value in enumerate("ABC"):
            expected = refit(pipe, X, y, row, "gene", value)
            np.testing.assert_allclose(attack.encodings_[i, m], expected, atol=1e-9)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_other_estimators_are_refitted(n_jobs, make_table, make_pipe):
    X, y = make_table(n=30)
    pipe = make_pipe(Ridge(alpha=30 * 0.05)).fit(X, y)
    ours = make_pipe(PrivateLinearRegression(0, alpha=0.05)).fit(X, y)
    brute = WhiteBoxAttributeInference(pipe, "gene", n_jobs=n_jobs, records=slice(7))
    with parallel_config("threading"):
        brute.fit(X, y)
    closed = WhiteBoxAttributeInference(ours, "gene", records=slice(7)).fit(X, y)
    np.testing.assert_allclose(brute.encodings_, closed.encodings_, atol=1e-9)
    assert brute.score(pipe, X["gene"][:7]) == 1.0


def test_many_classes_are_attacked_too(rng):
    X = np.column_stack([rng.integers(0, 2, 40), rng.normal(size=40)])
    y = rng.choice(["u", "v", "w"], 40)
    model = LogisticRegression(tol=1e-8).fit(X, y)
    attack = WhiteBoxAttributeInference(model, 0, records=[0, 1, 2]).fit(X, y)
    assert attack.encodings_.shape == (3, 2, 9)
    assert attack.score(model, X[:3, 0]) == 1.0


@pytest.mark.slow
def test_preprocessing_can_be_refitted_as_well(make_table, make_pipe):
    X, y = make_table(n=30)
    pipe = make_pipe(PrivateLinearRegression(0.1))
    attack = WhiteBoxAttributeInference(pipe, "age", values=X["age"], refit_preprocessing=True)
    attack.set_params(records=[3], values=np.append(X["age"], 90.0)).fit(X, y)
    changed = X.copy()
    changed.loc[3, "age"] = 90.0
    expected = clone(pipe).set_params(privatelinearregression__noise_scale=0).fit(changed, y)
    np.testing.assert_allclose(attack.encodings_[0, -1], parameters(expected[-1]), atol=1e-10)
    public = clone(attack).set_params(refit_preprocessing=False).fit(X, y)
    assert np.abs(public.encodings_ - attack.encodings_).max() > 1e-4
    X.loc[5, "gene"] = "rare"
    with pytest.raises(AttackNotApplicableError, match="between 8 and 9 parameters"):
        WhiteBoxAttributeInference(pipe, "gene", refit_preprocessing=True, records=[5]).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["marginal", "uniform", "conditional"])
def test_own_value_never_enters(prior, make_table, make_pipe, rng):
    """The secret of a target is permuted among the values, all other records fixed."""
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0.02)).fit(X, y)
    released = parameters(pipe[-1]) + 0.05 * rng.normal(size=(20, 8))
    for row in (0, 17, 42):
        attack = WhiteBoxAttributeInference(pipe, "gene", prior=prior, records=[row])
        changed = X.copy()
        changed.loc[row, "gene"] = {"A": "B", "B": "C", "C": "A"}[X.loc[row, "gene"]]
        first, second = attack.fit(X, y), clone(attack).fit(changed, y)
        np.testing.assert_array_equal(first.values_, second.values_)
        np.testing.assert_array_equal(first.prior_, second.prior_)
        np.testing.assert_allclose(first.encodings_, second.encodings_, atol=1e-12)
        np.testing.assert_array_equal(first.predict(released, 0.05), second.predict(released, 0.05))


@pytest.mark.slow
def test_own_value_never_enters_for_a_quantity(make_table, make_pipe, rng):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0.02)).fit(X, y)
    released = parameters(pipe[-1]) + 0.01 * rng.normal(size=(20, 8))
    for row in (int(X["dose"].argmax()), int(X["dose"].argmin()), 9):
        attack = WhiteBoxAttributeInference(pipe, "dose", records=[row])
        changed = X.copy()
        changed.loc[row, "dose"] = 0.1
        # A clone would fit the preprocessing anew, which is public and has its own test.
        guesses, nodes = attack.fit(X, y).predict(released), attack.values_
        attack.fit(changed, y)
        np.testing.assert_array_equal(nodes, attack.values_)
        np.testing.assert_allclose(guesses, attack.predict(released), rtol=1e-6)


def test_permuted_secrets_are_guessed_as_they_are(make_table, make_pipe, rng):
    """Had the guess been read off the data given to `fit`, it would follow the permutation."""
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0)).fit(X, y)
    wrong = X.assign(gene=X["gene"].where(X.index != 8, "A"))
    for truth in "ABC":
        wrong.loc[8, "gene"] = truth
        guess = WhiteBoxAttributeInference(pipe, "gene", records=[8]).fit(wrong, y).predict(pipe)
        assert guess[0] == X.loc[8, "gene"]


@pytest.mark.parametrize("prior", ["marginal", "uniform", [0.7, 0.1, 0.2]])
def test_decision_and_posterior_are_those_of_the_channel(prior, make_table, make_pipe, rng):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0.01)).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "gene", prior=prior).fit(X, y)
    released = attack.encodings_[0, 0] + 0.01 * rng.normal(size=(5, 8))
    channel = attack.channel()
    assert channel.noise_scale == 0.01
    every = np.broadcast_to(released, (60, 5, 8))
    expected = channel.posterior(every, attack.prior_).swapaxes(0, 1)
    np.testing.assert_allclose(attack.predict_proba(released), expected, atol=1e-7)
    decision = channel.bayes_decision(every, attack.prior_).T
    np.testing.assert_array_equal(attack.predict(released), attack.values_[decision])


def test_success_is_the_bayes_success(make_table, make_pipe, rng):
    X, y = make_table(PrivateLogisticRegression)
    scale, prior, n = 0.02, np.array([0.5, 0.3, 0.2]), 20_000
    attack = WhiteBoxAttributeInference(
        make_pipe(PrivateLogisticRegression(scale)), "gene", prior=prior, records=[0, 30]
    ).fit(X, y)
    exact = attack.channel().bayes_success(prior)
    for i in range(2):
        secret = rng.choice(3, size=n, p=prior)
        released = attack.encodings_[i, secret] + scale * rng.normal(size=(n, 8))
        success = np.mean(attack.predict(released)[:, i] == attack.values_[secret])
        assert abs(success - exact[i]) < 5 * np.sqrt(0.25 / n)
        assert 0.5 < exact[i] < 1.0


@elsewhere
def test_much_noise_leaves_the_prior(make_table, make_pipe):
    X, y = make_table()
    attack = WhiteBoxAttributeInference(make_pipe(PrivateLinearRegression()), "gene").fit(X, y)
    released = attack.encodings_[:3, 0]
    assert np.all(attack.predict(released, noise_scale=1e6) == "A")
    np.testing.assert_allclose(
        attack.predict_proba(released, noise_scale=1e6), [attack.prior_] * 3, atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_quantities_are_found_exactly_without_noise(estimator, make_table, make_pipe):
    X, y = make_table(estimator)
    pipe = make_pipe(estimator(0)).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "dose").fit(X, y)
    guess = attack.predict(pipe)
    inside = (attack.values_[:, 0] < X["dose"]) & (X["dose"] < attack.values_[:, -1])
    assert inside.mean() > 0.95
    atol = 1e-3 if estimator is PrivatePoissonRegressor else 1e-5
    np.testing.assert_allclose(guess[inside], X["dose"][inside], atol=atol)
    assert attack.score(pipe, X["dose"]) > 0.95
    assert not hasattr(attack, "predict_proba")
    with pytest.raises(ValueError, match="no channel with finitely many values"):
        attack.channel()


@pytest.mark.slow
def test_quantities_are_guessed_by_maximum_likelihood(make_table, make_pipe, rng):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0)).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "dose", records=[5]).fit(X, y)
    released = parameters(pipe[-1]) + 0.02 * rng.normal(size=(3, 8))
    grid = np.linspace(attack.values_[0, 0], attack.values_[0, -1], 401)
    rows = pipe[:-1].transform(pd.concat([X.iloc[[5]]] * 401).assign(dose=grid))
    design = np.column_stack([pipe[:-1].transform(X), np.ones(60)])
    penalty = 60 * 1e-2 * np.diag([1.0] * 7 + [0.0])
    curve = np.empty((401, 8))
    for k, row in enumerate(rows):
        design[5, :7] = row
        curve[k] = np.linalg.solve(design.T @ design + penalty, design.T @ y)
    distance = ((released[:, None] - curve) ** 2).sum(axis=2)
    found = attack.predict(released)[:, 0]
    assert np.abs(found - grid[distance.argmin(axis=1)]).max() <= grid[1] - grid[0]


SECRETS = {
    "strings": ["no", "yes"],
    "booleans": [False, True],
    "one and two": [1, 2],
    "floats": [0.5, 1.5],
}


@pytest.mark.slow
@elsewhere
@pytest.mark.parametrize("kind", [*SECRETS, "categories", "labels"])
def test_names_of_values_and_labels_do_not_matter(kind, rng):
    n = 50
    codes, known = rng.integers(0, 2, n), rng.normal(size=n)
    y = (codes + known + rng.logistic(size=n) > 0).astype(int)
    names = np.array(SECRETS.get(kind, ["no", "yes"]))
    column = pd.Series(names[codes])
    column = column.astype("category") if kind == "categories" else column
    labels = np.array(["ill", "well"])[y] if kind == "labels" else y
    encode = make_column_transformer((OneHotEncoder(), ["s"]), remainder="passthrough")
    pipe = make_pipeline(encode, PrivateLogisticRegression(0.01))
    released = rng.normal(size=(30, 4))

    def guess(column, labels):
        X = pd.DataFrame({"s": column, "k": known})
        attack = WhiteBoxAttributeInference(pipe, "s").fit(X, labels)
        return attack, attack.predict(released, 0.3)

    reference, expected = guess(pd.Series(codes), y)
    attack, guesses = guess(column, labels)
    np.testing.assert_array_equal(guesses, names[expected])
    np.testing.assert_allclose(attack.encodings_, reference.encodings_, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Releasing a model whose noise came from a seed")
def test_releases_in_every_form(make_table, make_pipe):
    X, y = make_table()
    pipes = [
        make_pipe(PrivateLinearRegression(0.01, random_state=np.random.default_rng(k))).fit(X, y)
        for k in range(3)
    ]
    attack = WhiteBoxAttributeInference(pipes[0], "gene", records=[1, 2]).fit(X, y)
    array = np.stack([parameters(pipe[-1]) for pipe in pipes])
    expected = attack.predict(array)
    assert expected.shape == (3, 2)
    models = [pipe[-1] for pipe in pipes]
    for released in (pipes, models, [model.release() for model in models], list(array)):
        np.testing.assert_array_equal(attack.predict(released), expected)
    for one in (pipes[1], pipes[1][-1].release(), array[1]):
        np.testing.assert_array_equal(attack.predict(one), expected[1])
        assert attack.predict_proba(one).shape == (2, 3)


@elsewhere
def test_every_release_is_judged_by_its_own_noise(make_table, make_pipe):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0.01)).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "gene").fit(X, y)
    released = attack.encodings_[:2, 1]
    both = attack.predict_proba(released, noise_scale=[1e-3, 10.0])
    for k, scale in enumerate([1e-3, 10.0]):
        np.testing.assert_allclose(both[k], attack.predict_proba(released[k], noise_scale=scale))


def test_arrays_and_positions(rng):
    X = np.column_stack([rng.normal(size=40), rng.integers(0, 2, 40)])
    y = X.sum(axis=1) + rng.normal(size=40)
    model = PrivateLinearRegression(0).fit(X, y)
    for attribute in (1, -1, np.int64(1)):
        attack = WhiteBoxAttributeInference(model, attribute).fit(X.tolist(), y.tolist())
        assert attack.score(model, X[:, 1]) == 1.0


def test_contract(make_table, make_pipe, tmp_path):
    X, y = make_table()
    ledger = tmp_path / "ledger.json"
    pipe = make_pipe(PrivateLinearRegression(0.5, ledger=str(ledger)))
    attack = WhiteBoxAttributeInference(pipe, "gene", prior="uniform")
    with pytest.raises(NotFittedError):
        attack.predict(np.zeros(8))
    kept = X.copy()
    attack.fit(X, y)
    assert not ledger.exists()
    pd.testing.assert_frame_equal(X, kept)
    assert attack.estimator is pipe
    assert not hasattr(pipe[-1], "coef_")
    assert attack.feature_names_in_.tolist() == list(X)
    assert attack.get_params(deep=False)["prior"] == "uniform"
    assert clone(attack).get_params(deep=False)["attribute"] == "gene"
    assert attack.__sklearn_tags__().target_tags.required
    assert attack.noise_scale_ == 0.5


@pytest.mark.parametrize(
    "params, error, message",
    [
        ({"attribute": "gone"}, ValueError, "unknown column 'gone'"),
        ({"estimator": RandomForestRegressor(2)}, AttackNotApplicableError, "no `coef_`"),
        ({"estimator": 3}, ValueError, "'estimator' parameter"),
        ({"prior": [0.5, 0.5]}, ValueError, r"shape \(3,\)"),
        ({"prior": "flat"}, ValueError, "'prior' parameter"),
        ({"records": [99]}, ValueError, "`records` must lie in"),
        ({"attribute": "dose", "bins": True}, AttackNotApplicableError, "not smooth"),
    ],
)
def test_errors(params, error, message, make_table):
    X, y = make_table()
    encode = make_column_transformer((OneHotEncoder(), ["gene"]))
    if params.pop("bins", False):
        bins = KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf")
        encode = make_column_transformer((bins, ["dose"]))
    model = params.pop("estimator", PrivateLinearRegression())
    pipe = model if model == 3 else make_pipeline(encode, model)
    attack = WhiteBoxAttributeInference(pipe, "gene", records=[0, 1]).set_params(**params)
    with pytest.raises(error, match=message):
        attack.fit(X, y)


def test_an_attribute_that_is_dropped_is_guessed_by_its_prior(make_table):
    X, y = make_table()
    encode = make_column_transformer((OneHotEncoder(), ["gene"]))
    for model in (PrivateLinearRegression(0.01), Ridge()):
        pipe = make_pipeline(encode, model).fit(X, y)
        attack = WhiteBoxAttributeInference(pipe, "city", records=[0, 1]).fit(X, y)
        np.testing.assert_array_equal(attack.encodings_, attack.encodings_[:, :1].repeat(2, axis=1))
        np.testing.assert_allclose(attack.predict_proba(pipe), attack.prior_, rtol=1e-12)


@elsewhere
@pytest.mark.filterwarnings("ignore:Releasing a model whose noise came from a seed")
def test_errors_of_fit_and_predict(make_table, make_pipe):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0.1, random_state=np.random.default_rng(0))).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="is a released model"):
        WhiteBoxAttributeInference(pipe[-1].release(), "gene").fit(X, y)
    with pytest.raises(ValueError, match="needs `y`"):
        WhiteBoxAttributeInference(pipe, "gene").fit(X, None)
    attack = WhiteBoxAttributeInference(pipe, "gene").fit(X, y)
    for released, message in [
        (np.zeros((2, 7)), "8 parameters a release"),
        (np.full(8, np.nan), "must be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            attack.predict(released)
    for noise, message in [
        (-1.0, "at least 0 and finite"),
        ([1.0, 2.0], "one entry for each of the 3 releases"),
    ]:
        with pytest.raises(ValueError, match=message):
            attack.predict(np.zeros((3, 8)), noise_scale=noise)
    with pytest.raises(AttackNotApplicableError, match="parameters mean something else"):
        attack.predict(RandomForestRegressor())
    with pytest.raises(ValueError, match="each of the 60 targets"):
        attack.score(pipe, X["gene"][:3])


def test_noise_calibrated_to_data_is_asked_for(make_table, make_pipe):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(MaxLeakage(1.0, features=[0])))
    attack = WhiteBoxAttributeInference(pipe, "gene").fit(X, y)
    with pytest.raises(ValueError, match="noise scale of these releases is not known"):
        attack.predict(attack.encodings_[:2, 0])
    assert attack.predict(pipe.fit(X, y)).shape == (60,)
    assert WhiteBoxAttributeInference(pipe, "gene").fit(X, y).noise_scale_ == pipe[-1].noise_scale_


@pytest.mark.slow
def test_reweighted_models_are_attacked_weights_and_all(make_table, make_pipe):
    X, y = make_table()
    model = PrivateLinearRegression(0, alpha=0.1, reweighting=IRFIL(tol=1e-9, max_iter=200))
    pipe = make_pipe(model).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "gene").fit(X, y)
    assert attack.score(pipe, X["gene"]) == 1.0
    anew = WhiteBoxAttributeInference(pipe, "gene", records=[3], refit_preprocessing=True)
    anew.fit(X, y)
    # The weights of all records move when one record changes.
    np.testing.assert_allclose(anew.encodings_[0], attack.encodings_[3], atol=1e-6)


@pytest.mark.slow
@pytest.mark.data
def test_iwpc(raw_iwpc):
    """Raw columns through one-hot encoding; figures at alpha 1e-2 without an intercept."""
    from skleak.attacks import BlackBoxAttributeInference, PriorAttack

    X, y, encode = raw_iwpc
    pipe = make_pipeline(encode, PrivateLinearRegression(alpha=1e-2, fit_intercept=False))
    secret = X["vkorc1"].to_numpy()
    attack = WhiteBoxAttributeInference(pipe, "vkorc1").fit(X, y)
    own = attack.encodings_[0, np.searchsorted(attack.values_, secret[0])]
    noise = np.random.default_rng(0).normal(size=(200, len(own)))
    black = BlackBoxAttributeInference(pipe, "vkorc1").fit(X, y)
    for scale, low, high in [(1e-5, 0.999, 1.0), (1e-4, 0.97, 0.995), (1e-3, 0.5, 0.6)]:
        released = own + scale * noise
        assert low <= attack.score(released, secret, scale) <= high
        assert 0.46 < black.score(released[:20], secret) < 0.52
    assert abs(attack.score(own + 10.0 * noise, secret, 10.0) - 0.365) < 0.01
    assert abs(PriorAttack("vkorc1").fit(X).score(None, secret) - 0.365) < 0.01


def _shape(rng, p):
    root = rng.normal(size=(p, p)) + 2.0 * np.eye(p)
    return root @ root.T


def _fitted_shape(model, kind):
    state = model._confidential_state()
    S = A = state.factor.inverse_hessian
    if kind == "minimax":
        J = state.factor.jacobian(state.objective.X, state.objective.y)
        half = linalg.sqrtm(A).real
        back = np.linalg.inv(half)
        S = half @ linalg.sqrtm(back @ np.einsum("nia,nja->ij", J, J) @ back).real @ half
    return S * len(S) / np.trace(S)


def _by_refits(estimator, X, y, row, column, values, covariance, scale, encode):
    """Mean and covariance of a release under every value, from fits and definitions."""
    found = []
    for value in values:
        changed = X.copy()
        changed.loc[changed.index[row], column] = value
        model = estimator(0.0).fit(encode(changed), y)
        w = parameters(model)
        if isinstance(covariance, str):
            found.append((w, scale**2 * _fitted_shape(model, covariance)))
        else:
            found.append((w, scale**2 * covariance * len(w) / np.trace(covariance)))
    return found


@pytest.mark.slow
@elsewhere
@pytest.mark.parametrize("kind", ["given", "curvature", "minimax"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_shaped_noise_is_judged_by_its_density(estimator, kind, make_table, make_pipe, rng):
    X, y = make_table(estimator)
    covariance = _shape(rng, 8) if kind == "given" else kind
    scale, prior = 0.05, np.array([0.5, 0.3, 0.2])
    pipe = make_pipe(estimator(scale, noise_covariance=covariance)).fit(X, y)
    attack = WhiteBoxAttributeInference(pipe, "gene", prior=prior, records=[0, 7, 30]).fit(X, y)
    released = attack.encodings_[1, 0] + scale * rng.normal(size=(6, 8))
    for row, position in ((0, 0), (7, 1)):
        hypotheses = _by_refits(
            estimator, X, y, row, "gene", "ABC", covariance, scale, pipe[:-1].transform
        )
        logs = [stats.multivariate_normal(*each).logpdf(released) for each in hypotheses]
        expected = softmax(np.stack(logs, axis=1) + np.log(prior), axis=1)
        found = attack.predict_proba(released)[:, position]
        np.testing.assert_allclose(found, expected, atol=1e-6)
        each = np.repeat(released[:, None], 3, axis=1)
        guesses = attack.predict_each(each)[:, position]
        np.testing.assert_array_equal(guesses, attack.predict(released)[:, position])
    channel = attack.channel()
    assert isinstance(channel, GaussianChannel if kind == "given" else UnequalGaussianChannel)
    if kind != "given":
        np.testing.assert_allclose(channel.means, attack.encodings_)
        np.testing.assert_allclose(channel.covariances[1, 2], hypotheses[2][1], rtol=1e-6)
        every = np.broadcast_to(released, (3, 6, 8))
        posterior = channel.posterior(every, prior).swapaxes(0, 1)
        np.testing.assert_allclose(attack.predict_proba(released), posterior, atol=1e-7)


@pytest.mark.slow
@elsewhere
@pytest.mark.parametrize("kind", ["given", "curvature", "minimax"])
def test_success_under_shaped_noise_is_the_bayes_success(kind, make_table, make_pipe, rng):
    X, y = make_table(PrivateLogisticRegression)
    covariance = _shape(rng, 8) if kind == "given" else kind
    scale, prior, n = 0.1, np.array([0.5, 0.3, 0.2]), 20_000
    model = PrivateLogisticRegression(scale, noise_covariance=covariance)
    attack = WhiteBoxAttributeInference(make_pipe(model), "gene", prior=prior, records=[0, 30]).fit(
        X, y
    )
    blind = WhiteBoxAttributeInference(
        make_pipe(PrivateLogisticRegression(scale)), "gene", prior=prior, records=[0, 30]
    ).fit(X, y)
    exact, error = attack.channel().bayes_success(prior, return_standard_error=True)
    for i, row in enumerate((0, 30)):
        hypotheses = _by_refits(
            PrivateLogisticRegression,
            X,
            y,
            row,
            "gene",
            "ABC",
            covariance,
            scale,
            make_pipe(model).fit(X, y)[:-1].transform,
        )
        secret = rng.choice(3, size=n, p=prior)
        noise = rng.normal(size=(n, 8))
        roots = np.stack([np.linalg.cholesky(C) for _, C in hypotheses])
        means = np.stack([w for w, _ in hypotheses])
        released = means[secret] + np.einsum("nij,nj->ni", roots[secret], noise)
        success = np.mean(attack.predict(released)[:, i] == attack.values_[secret])
        margin = 5 * np.sqrt(0.25 / n) + 5 * error[i]
        assert abs(success - exact[i]) < margin
        assert 0.5 < exact[i] < 1.0
        # Who takes the noise to be isotropic does no better.
        wrong = np.mean(blind.predict(released)[:, i] == attack.values_[secret])
        assert wrong < exact[i] + margin


def test_releases_of_models_with_shaped_noise(make_table, make_pipe, rng):
    X, y = make_table()
    for covariance in ("curvature", "minimax", _shape(rng, 8)):
        model = PrivateLinearRegression(1e-6, noise_covariance=covariance)
        pipe = make_pipe(model).fit(X, y)
        attack = WhiteBoxAttributeInference(pipe, "gene").fit(X, y)
        assert attack.score(pipe, X["gene"]) == 1.0
        assert attack.score(pipe[-1].release(), X["gene"]) == 1.0
        plain = make_pipe(PrivateLinearRegression(1e-6)).fit(X, y)
        with pytest.raises(AttackNotApplicableError, match="noise_covariance"):
            attack.predict(plain)
        silent = make_pipe(model).set_params(privatelinearregression__noise_scale=0.0).fit(X, y)
        assert attack.score(silent, X["gene"]) == 1.0
    same = make_pipe(PrivateLinearRegression(0.1, noise_covariance=np.eye(8))).fit(X, y)
    attacks = [
        WhiteBoxAttributeInference(each, "gene").fit(X, y)
        for each in (same, make_pipe(PrivateLinearRegression(0.1)))
    ]
    released = parameters(same[-1])
    np.testing.assert_array_equal(*[each.predict_proba(released) for each in attacks])


@pytest.mark.slow
def test_quantities_under_shaped_noise(make_table, make_pipe, rng):
    X, y = make_table()
    for covariance in ("curvature", "minimax", _shape(rng, 8)):
        model = PrivateLinearRegression(0.02, noise_covariance=covariance, random_state=3)
        pipe = make_pipe(model).fit(X, y)
        attack = WhiteBoxAttributeInference(pipe, "dose", records=[4]).fit(X, y)
        guess = attack.predict(pipe)[0]
        grid = np.linspace(*attack.values_[0, [0, -1]], 201)
        hypotheses = _by_refits(
            PrivateLinearRegression, X, y, 4, "dose", grid, covariance, 0.02, pipe[:-1].transform
        )
        released = parameters(pipe[-1])
        logs = [stats.multivariate_normal(*each).logpdf(released) for each in hypotheses]
        assert abs(guess - grid[np.argmax(logs)]) <= grid[1] - grid[0]


@pytest.mark.slow
def test_shaped_noise_that_is_not_attacked(make_table, make_pipe, rng, monkeypatch):
    X, y = make_table()
    for kind in ("minimax", "curvature"):
        curvature = make_pipe(PrivateLinearRegression(noise_covariance=kind))
        with pytest.raises(AttackNotApplicableError, match="refit_preprocessing=False"):
            WhiteBoxAttributeInference(curvature, "gene", refit_preprocessing=True).fit(X, y)
    both = PrivateLinearRegression(noise_covariance=np.eye(8), reweighting="irfil")
    with pytest.raises(AttackNotApplicableError, match="cannot be fitted"):
        WhiteBoxAttributeInference(make_pipe(both), "gene").fit(X, y)
    wide = make_pipe(PrivateLinearRegression(noise_covariance=np.eye(3)))
    with pytest.raises(ValueError, match=r"shape \(8, 8\)"):
        WhiteBoxAttributeInference(wide, "gene").fit(X, y)
    given = make_pipe(PrivateLinearRegression(0.1, noise_covariance=_shape(rng, 8)))
    refit = WhiteBoxAttributeInference(given, "gene", refit_preprocessing=True, records=[0, 1])
    assert refit.fit(X, y).channel().encodings.shape == (2, 3, 8)
    monkeypatch.setattr("skleak.adversary.models._MOST_ENTRIES", 10 * 3 * 64)
    with pytest.raises(AttackNotApplicableError, match="at most 10 `records`"):
        WhiteBoxAttributeInference(curvature, "gene").fit(X, y)
    few = WhiteBoxAttributeInference(curvature, "gene", records=np.arange(10)).fit(X, y)
    with pytest.raises(ValueError, match="must be positive"):
        few.channel(0.0)


def test_expected_rates_are_those_of_games(rng):
    X = rng.normal(size=(40, 3))
    X[:, 0] = X[:, 0] > 0.0
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=40)
    model = PrivateLinearRegression(0.05, alpha=0.1)
    attack = WhiteBoxAttributeInference(model, 0, records=[3, 7], prior="uniform").fit(X, y)
    expected, power = attack.expected_score(), attack.expected_true_positive_rate(0.1)
    distance = np.linalg.norm(np.diff(attack.encodings_, axis=1)[:, 0], axis=1) / 0.05
    np.testing.assert_allclose(expected, norm.cdf(distance / 2.0), rtol=1e-9)
    np.testing.assert_allclose(power, norm.cdf(norm.ppf(0.1) + distance), rtol=1e-9)
    np.testing.assert_allclose(attack.expected_score(0.1), norm.cdf(distance / 4.0), rtol=1e-9)
    for rate in (-0.1, 1.5):
        with pytest.raises(ValueError, match="false_positive_rate"):
            attack.expected_true_positive_rate(rate)
    three = X.copy()
    three[:, 0] = rng.integers(0, 3, 40)
    attack = WhiteBoxAttributeInference(model, 0, records=[3]).fit(three, y)
    assert attack.expected_score().shape == (1,)
    with pytest.raises(ValueError, match="got 3 values"):
        attack.expected_true_positive_rate(0.1)
