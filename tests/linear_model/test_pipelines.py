"""The private models inside what scikit-learn builds around estimators."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import check_random_state

from skleak.accounting import LeakageLedger
from skleak.exceptions import PrivacyLeakWarning
from skleak.linear_model import IRFIL, EvenTotal, PrivateLinearRegression, PrivateLogisticRegression


@pytest.fixture
def patients(rng):
    n = 90
    return pd.DataFrame(
        {
            "age": rng.normal(50.0, 12.0, size=n),
            "weight": rng.normal(75.0, 9.0, size=n),
            "gene": np.append(["AA", "AB", "BB"], rng.choice(["AA", "AB", "BB"], size=n - 3)),
            "sex": rng.choice(["f", "m"], size=n),
        }
    )


@pytest.fixture
def preprocessing():
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), make_column_selector(dtype_include="number")),
            ("words", OneHotEncoder(sparse_output=False), ["gene", "sex"]),
        ],
        verbose_feature_names_out=False,
    )
    return columns.set_output(transform="pandas")


GENE = ["gene_AA", "gene_AB", "gene_BB"]


def _targets(cls, patients):
    y = (patients["age"] / 10.0 - 4.0 + (patients["gene"] == "AB")).clip(lower=0.0)
    return y > y.median() if cls is PrivateLogisticRegression else y.round()


def test_columns_by_name_through_a_pipeline(estimator_class, patients, preprocessing):
    y = _targets(estimator_class, patients)
    pipeline = Pipeline([("prepare", preprocessing), ("model", estimator_class(0.1))])
    pipeline.fit(patients, y)
    model = pipeline[-1]
    assert list(model.feature_names_in_) == ["age", "weight", *GENE, "sex_f", "sex_m"]
    # One-hot blocks by name, on the tangent of the simplex and off it.
    free = model.fisher_information_loss(features=GENE)
    tied = model.fisher_information_loss(features=GENE, constrained=True)
    assert np.all(tied <= free * (1.0 + 1e-12))
    assert tied.min() > 0.0
    sparse_names = model.fisher_information_loss(per="feature", features=["age", GENE])
    assert_allclose(sparse_names[:, 1], free, rtol=1e-9)
    by_gene = model.fisher_information_loss(per="group", groups=patients["gene"])
    assert list(by_gene.index) == ["AA", "AB", "BB"]
    report = model.leakage_report(features=["age", GENE], groups=patients["sex"])
    assert "gene_AA + gene_AB + gene_BB" in report.features.index
    assert set(report.groups.index) == {"f", "m"}
    # Records that come in later pass through the same preparation.
    records = pipeline[:-1].transform(patients.head(5))
    found = model.fisher_information_loss(records, y.head(5))
    assert_allclose(found, model.fisher_information_loss_[:5], rtol=1e-9)
    assert pipeline.predict(patients).shape == (90,)
    assert np.isfinite(pipeline.score(patients, y))


def test_half_a_one_hot_block_is_no_simplex(patients, preprocessing):
    y = _targets(PrivateLinearRegression, patients)
    model = make_pipeline(preprocessing, PrivateLinearRegression(0.1)).fit(patients, y)[-1]
    with pytest.raises(ValueError, match="encoded without `drop`"):
        model.fisher_information_loss(features=GENE[:2], constrained=True)


def test_set_output_reaches_through_a_pipeline(estimator_class, data):
    X = pd.DataFrame(data.X, columns=["a", "b", "c", "d"])
    pipeline = make_pipeline(StandardScaler(), estimator_class(0.1)).set_output(transform="pandas")
    pipeline.fit(X, data.y)
    assert list(pipeline[-1].feature_names_in_) == list("abcd")
    assert pipeline[-1].fisher_information_loss(features=["d", "a"]).shape == (60,)
    polars = make_pipeline(StandardScaler(), estimator_class(0.1)).set_output(transform="polars")
    assert list(polars.fit(X, data.y)[-1].feature_names_in_) == list("abcd")


def test_weights_through_a_pipeline(estimator_class, data):
    name = estimator_class.__name__.lower()
    pipeline = make_pipeline(StandardScaler(), estimator_class(0))
    pipeline.fit(data.X, data.y, **{f"{name}__sample_weight": data.weights})
    direct = estimator_class(0).fit(
        StandardScaler().fit_transform(data.X), data.y, sample_weight=data.weights
    )
    assert_allclose(pipeline[-1].coef_, direct.coef_, rtol=1e-9)


@pytest.mark.slow
def test_grid_search(estimator_class, data):
    pipeline = Pipeline([("scale", StandardScaler()), ("model", estimator_class(0.05))])
    grid = {"model__alpha": [1e-3, 1e-1]}
    grid["model__reweighting"] = [None, IRFIL(max_iter=100), EvenTotal(max_iter=100)]
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2, error_score="raise")
    search.fit(data.X, data.y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    best = search.best_estimator_[-1]
    assert best.fisher_information_loss().shape == (60,)
    assert best.leakage_report().dataset["n_records"] == 60


@pytest.mark.slow
def test_cross_validation_in_two_processes_equals_that_in_one(estimator_class, data):
    results = [
        cross_validate(
            estimator_class(0.1, random_state=0),
            data.X,
            data.y,
            cv=KFold(3),
            n_jobs=n_jobs,
            return_train_score=True,
            error_score="raise",
        )
        for n_jobs in (1, 2)
    ]
    for key in ("test_score", "train_score"):
        assert_array_equal(results[0][key], results[1][key])


@pytest.mark.slow
def test_fresh_noise_differs_between_processes(numbers):
    # Each fold is the same data: only the noise can tell the scores apart.
    X, y = np.tile(numbers.X, (4, 1)), np.tile(numbers.y, 4)
    folds = [(np.arange(60) + 60 * k, np.arange(60)) for k in range(4)]
    model = PrivateLinearRegression(0.5)
    scores = cross_validate(model, X, y, cv=folds, n_jobs=2)["test_score"]
    assert len(set(scores)) == 4


def test_cross_val_predict(classes):
    model = PrivateLogisticRegression(0.05)
    probability = cross_val_predict(model, classes.X, classes.y, method="predict_proba", cv=3)
    assert probability.shape == (60, 2)


@pytest.mark.parametrize("reweighting", ["irfil", "total"])
def test_clones(estimator_class, data, reweighting):
    model = estimator_class(0.1, alpha=0.3, reweighting=reweighting).fit(data.X, data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = clone(model)
    assert again.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        again.leakage_report()
    assert again.fit(data.X, data.y).fisher_information_loss().shape == (60,)


def test_meta_estimators(numbers, rng):
    target = TransformedTargetRegressor(
        PrivateLinearRegression(0.1), func=np.cbrt, inverse_func=lambda z: z**3
    )
    target.fit(numbers.X, numbers.y)
    assert target.regressor_.fisher_information_loss_.shape == (60,)
    bag = BaggingRegressor(PrivateLinearRegression(0.1), n_estimators=3, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="as those that ensembles"):
        assert bag.fit(numbers.X, numbers.y).predict(numbers.X).shape == (60,)
    three = OneVsRestClassifier(PrivateLogisticRegression(0.1))
    y = np.array(["a", "b", "c"])[np.argmax(numbers.X[:, :3], axis=1)]
    three.fit(numbers.X, y)
    assert set(three.predict(numbers.X)) <= {"a", "b", "c"}
    assert all(len(model.fisher_information_loss_) == 60 for model in three.estimators_)


def _noise_of(seed, n_features, noise_scale):
    """Return the noise of a seed, drawn by somebody who has other records, all without effect."""
    X = np.vstack([np.eye(n_features)] * 3)
    with pytest.warns(PrivacyLeakWarning, match="can subtract the noise"):
        own = PrivateLinearRegression(noise_scale, random_state=seed).fit(X, np.zeros(len(X)))
    return np.append(own.coef_, own.intercept_)


@pytest.mark.parametrize("seed", [0, None])
def test_noise_is_subtracted_from_the_members_of_an_ensemble(numbers, seed):
    """An outsider has the seed of the ensemble, or a pickled member, and what was published."""
    bag = BaggingRegressor(PrivateLinearRegression(2.0), n_estimators=3, random_state=seed)
    with pytest.warns(PrivacyLeakWarning) as said:
        bag.fit(numbers.X, numbers.y)
    assert {str(each.message) for each in said} == {str(said[0].message)}
    assert {each.filename for each in said} == {__file__}
    noiseless = [member._confidential_state().factor.coefficients for member in bag.estimators_]
    p = numbers.X.shape[1]
    points = np.eye(p + 1, p)  # the last one is zero
    predicted = bag.predict(points)
    if seed is None:
        with pytest.warns(PrivacyLeakWarning, match="any seed or generator"):
            pickled = pickle.dumps(bag.estimators_)
        seeds = [member.random_state for member in pickle.loads(pickled)]
    else:
        # As the ensemble draws them: a seed of all, then of each and its estimator.
        drawn = check_random_state(seed).randint(np.iinfo(np.int32).max, size=3)
        seeds = [check_random_state(each).randint(np.iinfo(np.int32).max) for each in drawn]
    noise = [_noise_of(each, p, 2.0) for each in seeds]
    for member, truth, own in zip(bag.estimators_, noiseless, noise, strict=True):
        published = np.append(member.coef_, member.intercept_)
        assert np.abs(published - truth).max() > 0.1
        assert_allclose(published - own, truth, atol=2e-8)
    # Predictions of the ensemble alone give the mean of all.
    mean = np.append(predicted[:-1] - predicted[-1], predicted[-1])
    assert_allclose(mean - np.mean(noise, axis=0), np.mean(noiseless, axis=0), atol=1e-6)


def test_a_large_ensemble_says_once_that_its_members_have_seeds(numbers):
    def said(how):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(how)
            for _ in range(2):
                BaggingRegressor(PrivateLinearRegression(1.0), 20).fit(numbers.X, numbers.y)
        return len(caught)

    assert said("default") == 1
    assert said("always") == 40
    with pytest.raises(PrivacyLeakWarning):
        said("error")


def test_a_seed_of_a_person_is_named_at_the_release_alone(estimator_class, data):
    model = estimator_class(0.1, random_state=2**16 - 1).fit(data.X, data.y)
    with pytest.warns(PrivacyLeakWarning, match="a seed or a generator"):
        model.release()
    estimator_class(0.0, random_state=2**16).fit(data.X, data.y)  # there is nothing to subtract
    with pytest.warns(PrivacyLeakWarning, match="a seed as large"):
        estimator_class(0.1, random_state=np.int64(2**16)).fit(data.X, data.y)


def test_a_ledger_adds_up_the_members_of_an_ensemble(numbers, tmp_path):
    def spent(ensemble):
        LeakageLedger(path := str(tmp_path / f"{len(list(tmp_path.iterdir()))}.json"))
        ensemble.set_params(
            **{name: path for name in ensemble.get_params() if "ledger" in name[-6:]}
        )
        fitted = ensemble.fit(numbers.X, numbers.y)
        return fitted, float(
            LeakageLedger.open(path).total("default").fisher_information_loss.max()
        )

    linear = PrivateLinearRegression(1.0)
    votes, total = spent(VotingRegressor([("a", linear), ("b", PrivateLinearRegression(3.0))]))
    each = [member.fisher_information_loss_.max() for member in votes.estimators_]
    assert_allclose(total, np.hypot(*each))
    with pytest.warns(PrivacyLeakWarning):
        assert spent(BaggingRegressor(linear, 2))[1] == np.inf


def test_a_released_pipeline(patients, preprocessing):
    y = _targets(PrivateLinearRegression, patients)
    pipeline = make_pipeline(preprocessing, PrivateLinearRegression(0.1)).fit(patients, y)
    published = Pipeline([*pipeline.steps[:-1], ("model", pipeline[-1].release())])
    assert_array_equal(published.predict(patients), pipeline.predict(patients))
    with pytest.warns(PrivacyLeakWarning):
        clone(pipeline).set_params(privatelinearregression__random_state=1).fit(patients, y)[
            -1
        ].release()


def test_the_diagram_of_a_notebook(estimator_class, data):
    model = estimator_class(0.1).fit(data.X, data.y)
    assert estimator_class.__name__ in model._repr_html_()
    assert repr(model) == f"{estimator_class.__name__}(noise_scale=0.1)"
