"""What could make an attack on membership silently blind: it raises, warns or works."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import mostly_slow
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skleak.attacks import (
    GaussianLinearMembership,
    LikelihoodRatioMembership,
    MembershipInference,
    RobustMembershipInference,
)
from skleak.exceptions import PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

# Attacks that ask models, by how they are fitted on candidates and reference records.
ASKING = {
    "loss": lambda model: MembershipInference(),
    "online": lambda model: LikelihoodRatioMembership(
        model, method="online", n_shadow_models=8, random_state=0
    ),
    "offline": lambda model: LikelihoodRatioMembership(
        model, method="offline", n_shadow_models=8, random_state=0
    ),
    "robust": lambda model: RobustMembershipInference(model, n_shadow_models=2, random_state=0),
}
N = 120


@pytest.fixture(params=ASKING)
def make_attack(request):
    """Fit an attack on the first 80 records, with the others as references."""

    def make(model, X, y):
        attack = ASKING[request.param](model)
        return attack.fit(X[:80], y[:80], X[80:], y[80:])

    return make


@pytest.fixture
def records(rng):
    X = rng.normal(size=(N, 4))
    return X, (X[:, 0] + rng.normal(size=N) > 0).astype(int)


MEMBER = np.arange(80) < 40


def tree():
    return DecisionTreeClassifier(random_state=0)


# Labels


@pytest.mark.slow
@pytest.mark.parametrize(
    "coding",
    [
        lambda c: c.astype(float),
        lambda c: c.astype(bool),
        lambda c: c.astype(np.int8),
        lambda c: c.astype(object),
        lambda c: c[:, None],
        lambda c: c.tolist(),
        lambda c: pd.Series(c, index=np.arange(N)[::-1]),
        lambda c: pd.DataFrame({"label": c}),
        lambda c: pl.Series(c),
    ],
    ids=["float", "bool", "int8", "object", "column", "list", "Series", "DataFrame", "polars"],
)
def test_equal_labels_of_another_type(coding, make_attack, records):
    X, y = records
    model = tree().fit(X[:40], y[:40])
    expected = make_attack(tree(), X, y).decision_function(model)
    coded = coding(y)
    parts = [
        coded.iloc[k] if hasattr(coded, "iloc") else coded[k] for k in (slice(80), slice(80, N))
    ]
    attack = make_attack(tree(), X, y)
    attack.fit(X[:80], parts[0], X[80:], parts[1])
    np.testing.assert_array_equal(attack.decision_function(model), expected)


@pytest.mark.parametrize(
    "coding",
    [
        lambda c: c.astype(str),
        lambda c: np.array(["no", "yes"])[c],
        lambda c: c + 2,
        lambda c: c + 0.5,
        lambda c: c.astype("datetime64[D]"),
    ],
    ids=["digits", "strings", "others", "halves", "dates"],
)
def test_other_labels_raise(coding, make_attack, records):
    X, y = records
    model = tree().fit(X[:40], y[:40])
    with pytest.raises((ValueError, TypeError)):
        make_attack(tree(), X, coding(y)).decision_function(model)


@pytest.mark.parametrize("coding", [lambda c: 2 * c - 1, lambda c: c + 1], ids=["-1 and 1", "1, 2"])
def test_labels_half_of_which_are_known_warn(coding, make_attack, records):
    X, y = records
    model = tree().fit(X[:40], y[:40])
    attack = make_attack(tree(), X, coding(y))
    with pytest.warns(UserWarning, match="knows 1 labels of the candidates not, and there is no"):
        attack.decision_function(model)


def test_a_class_without_candidates_or_without_members_is_no_fault(make_attack, records):
    X, y = records
    three = np.where(X[:, 1] > 0.8, 2, y)
    model = tree().fit(X[:40], three[:40])
    few = np.flatnonzero(three < 2)[:90]
    attack = make_attack(tree(), X, three)
    attack.fit(X[few[:60]], three[few[:60]], X[few[60:]], three[few[60:]])
    assert np.isfinite(attack.decision_function(model)).all()
    # A label that the model has not seen: the least likely of all.
    two = tree().fit(X[:40][three[:40] < 2], three[:40][three[:40] < 2])
    scores = make_attack(tree(), X, three).decision_function(two)
    assert np.isfinite(scores).all()


@pytest.mark.slow
@pytest.mark.parametrize("label", [0, 1])
def test_candidates_of_a_single_class(label, make_attack, records):
    X, y = records
    order = np.r_[np.flatnonzero(y == label)[:40], np.flatnonzero(y != label)[:20]]
    rest = np.setdiff1d(np.arange(N), order[:40])
    model = RandomForestClassifier(20, random_state=0).fit(X[order[:20]], y[order[:20]])
    mixed = RandomForestClassifier(20, random_state=0).fit(X[rest], y[rest])
    attack = make_attack(RandomForestClassifier(5), X, y)
    attack.fit(X[order[:40]], y[order[:40]], X[rest], y[rest])
    assert np.isfinite(attack.decision_function(mixed)).all()
    assert len(model.classes_) == 1
    assert np.isfinite(attack.decision_function(model)).all()
    names = np.array(["no", "yes"])
    other = RandomForestClassifier(5, random_state=0).fit(X[rest], names[y[rest]])
    with pytest.raises(ValueError, match="knows none of the labels"):
        attack.decision_function(other)


def test_targets_of_a_regression_are_no_labels(make_attack, records):
    X, y = records
    numbers = X[:, 0] + 0.1
    with pytest.raises(ValueError, match="label"):
        make_attack(tree(), X, numbers).decision_function(tree().fit(X, y))
    with pytest.raises((TypeError, ValueError), match=r"numbers|convert"):
        make_attack(Ridge(), X, y.astype(str)).decision_function(Ridge().fit(X, y))


# Columns


@pytest.fixture
def frame(records):
    X, y = records
    return pd.DataFrame(X, columns=list("abcd"), index=np.arange(N)[::-1]), y


def test_columns_in_another_order(make_attack, frame):
    X, y = frame
    model = tree().fit(X[:40], y[:40])
    expected = MembershipInference().fit(X[:80], y[:80]).decision_function(model)
    attack = make_attack(tree(), X[list("dbca")], y)
    scores = attack.decision_function(model)
    if isinstance(attack, MembershipInference):
        np.testing.assert_array_equal(scores, expected)
    assert roc_auc_score(MEMBER, scores) > 0.6
    shuffled = attack.fit(X[:80], y[:80], X[list("cbad")][80:], y[80:])
    assert roc_auc_score(MEMBER, shuffled.decision_function(model)) > 0.6


def test_columns_that_are_missing_or_extra(make_attack, frame):
    X, y = frame
    model = tree().fit(X[:40], y[:40])
    with pytest.raises(ValueError, match=r"lack columns.*'d'"):
        make_attack(tree(), X[list("abc")], y).decision_function(model)
    attack = make_attack(tree(), X.assign(row=np.arange(N)), y)
    if isinstance(attack, MembershipInference):
        expected = make_attack(tree(), X, y).decision_function(model)
        np.testing.assert_array_equal(attack.decision_function(model), expected)
    else:
        with pytest.raises(ValueError, match=r"has not seen: \['row'\]"):
            attack.decision_function(model)


def test_tables_and_arrays_mixed(make_attack, frame):
    """Nobody knows the order of the columns: scikit-learn says so."""
    X, y = frame
    bare, named = tree().fit(X.to_numpy()[:40], y[:40]), tree().fit(X[:40], y[:40])
    by_name, by_place = make_attack(tree(), X, y), make_attack(tree(), X.to_numpy(), y)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        one = by_name.decision_function(bare)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        other = by_place.decision_function(named)
    np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="features"):
        make_attack(tree(), X.to_numpy()[:, :3], y).decision_function(bare)


def test_polars(make_attack, frame):
    X, y = frame
    model = tree().fit(X[:40], y[:40])
    table = pl.DataFrame(X.to_dict("list"))
    expected = make_attack(tree(), X, y).decision_function(model)
    scores = make_attack(tree(), table, y).decision_function(model)
    np.testing.assert_array_equal(scores, expected)
    shuffled = make_attack(tree(), table.select(list("dcba")), y).decision_function(model)
    assert shuffled.shape == (80,)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_matrix])
def test_sparse_records(kind, make_attack, records):
    X, y = records
    # No two records are equal: not even those of zeros.
    X[:, 1:] = np.where(np.abs(X[:, 1:]) < 0.4, 0.0, X[:, 1:])
    model = tree().fit(X[:40], y[:40])
    dense = make_attack(tree(), X, y)
    thin = clone(dense).fit(kind(X[:80]), y[:80], kind(X[80:]), y[80:])
    np.testing.assert_array_equal(thin.decision_function(model), dense.decision_function(model))


# Models


def table_of(rng):
    X = pd.DataFrame(
        {
            "age": np.where(rng.random(N) < 0.1, np.nan, rng.normal(50.0, 10.0, N)),
            "gene": pd.Categorical(rng.choice(list("ABC"), N)),
            "dose": rng.normal(size=N),
        }
    )
    return X, rng.choice(["no", "yes"], N)


def encoded(model):
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["gene"]), ("passthrough", ["dose"])
    )
    return make_pipeline(columns, model)


MODELS = {
    "pipeline": lambda: encoded(DecisionTreeClassifier(random_state=0)),
    "grid search": lambda: GridSearchCV(
        encoded(DecisionTreeClassifier(random_state=0)),
        {"decisiontreeclassifier__max_depth": [5, None]},
        cv=2,
    ),
    "calibrated": lambda: CalibratedClassifierCV(encoded(KNeighborsClassifier(1)), cv=2),
    "boosting": lambda: HistGradientBoostingClassifier(
        max_iter=30, min_samples_leaf=2, categorical_features="from_dtype", random_state=0
    ),
    "private": lambda: encoded(PrivateLogisticRegression(0.01, random_state=0)),
}
FITTING_CLOSELY = {"pipeline", "grid search", "boosting"}


@pytest.mark.parametrize("name", mostly_slow(MODELS, 4))
def test_models_of_any_kind(name, make_attack, rng):
    X, y = table_of(rng)
    model = MODELS[name]()
    trained = clone(model).fit(X[:40], y[:40])
    attack = make_attack(model, X, y)
    scores = attack.decision_function(trained)
    assert scores.shape == (80,)
    assert np.isfinite(scores).all()
    assert set(attack.predict(trained)) <= {0, 1}
    assert attack.feature_names_in_.tolist() == list(X)
    if name in FITTING_CLOSELY:
        assert roc_auc_score(MEMBER, scores) > 0.6
    shuffled = make_attack(model, X[["dose", "gene", "age"]], y)
    if isinstance(attack, MembershipInference):
        np.testing.assert_array_equal(shuffled.decision_function(trained), scores)
    both = attack.decision_function([trained, trained])
    np.testing.assert_array_equal(both, np.stack([scores, scores]))
    with pytest.warns(PrivacyLeakWarning, match=f"a fitted {type(attack).__name__}"):
        again = pickle.loads(pickle.dumps(attack))
    np.testing.assert_array_equal(again.decision_function(trained), scores)


REGRESSORS = {
    "linear": lambda: LinearRegression(),
    "forest": lambda: RandomForestRegressor(10, random_state=0),
    "boosting": lambda: HistGradientBoostingRegressor(min_samples_leaf=1, random_state=0),
    "transformed": lambda: TransformedTargetRegressor(
        RandomForestRegressor(10, random_state=0), transformer=StandardScaler()
    ),
    "search": lambda: GridSearchCV(Ridge(), {"alpha": [1e-3, 1e-2]}, cv=2),
    "private": lambda: PrivateLinearRegression(0.01, random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), LinearRegression()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(REGRESSORS, 0, 3, 5))
def test_regressors_of_any_kind(name, make_attack, rng):
    X = rng.normal(size=(N, 34))
    y = X[:, 0] + rng.normal(size=N)
    model = REGRESSORS[name]()
    trained = clone(model).fit(X[:40], y[:40])
    scores = make_attack(model, X, y).decision_function(trained)
    assert np.isfinite(scores).all()
    if name != "private":
        assert roc_auc_score(MEMBER, scores) > 0.6
    column = make_attack(model, X, y[:, None]).decision_function(trained)
    np.testing.assert_array_equal(column, scores)


def test_released_models_and_lists(make_attack, records):
    X, y = records
    private = PrivateLogisticRegression(0.01, random_state=0).fit(X[:40], y[:40])
    with pytest.warns(PrivacyLeakWarning):
        released = private.release()
    attack = make_attack(PrivateLogisticRegression(0.01), X, y)
    scores = attack.decision_function([private, released, pickle.loads(pickle.dumps(released))])
    np.testing.assert_allclose(scores, np.stack([scores[0]] * 3))
    assert attack.score([private, released], MEMBER) == attack.score(private, MEMBER)
    fpr, tpr, thresholds = attack.roc_curve([private, released], MEMBER)
    assert fpr.shape == tpr.shape == thresholds.shape
    assert 0.0 <= attack.true_positive_rate(private, MEMBER) <= 1.0


def test_models_that_were_not_fitted_or_are_none(make_attack, records):
    X, y = records
    attack = make_attack(tree(), X, y)
    with pytest.raises(NotFittedError):
        attack.decision_function(tree())
    for wrong in (np.zeros(5), None, DecisionTreeClassifier, [], "tree", [np.zeros(5)]):
        with pytest.raises((TypeError, ValueError)):
            attack.decision_function(wrong)


def test_missing_values_in_records_and_targets(make_attack, records):
    X, y = records
    holes = np.where(X > 1.5, np.nan, X)
    trees = HistGradientBoostingClassifier(min_samples_leaf=2, max_iter=5)
    model = clone(trees).fit(holes[:40], y[:40])
    assert np.isfinite(make_attack(trees, holes, y).decision_function(model)).all()
    with pytest.raises(ValueError, match="NaN"):
        # Whoever cannot be trained on them says so.
        make_attack(LogisticRegression(), holes, y).decision_function(
            LogisticRegression().fit(X, y)
        )
    for absent in (np.nan, None, pd.NA):
        gaps = pd.Series(y, dtype=object)
        gaps[3] = absent
        with pytest.raises(ValueError, match="1 missing values"):
            make_attack(tree(), X, gaps)


def test_unseen_categories(make_attack, rng):
    X, y = table_of(rng)
    strict = make_pipeline(
        make_column_transformer((OrdinalEncoder(), ["gene"]), ("passthrough", ["dose"])), tree()
    )
    trained = clone(strict).fit(X[:40], y[:40])
    X["gene"] = X["gene"].astype(object)
    X.loc[50, "gene"] = "rare"
    with pytest.raises(ValueError, match="unknown categories"):
        make_attack(strict, X, y).decision_function(trained)


@pytest.mark.parametrize("name", ASKING)
def test_parameters(name, records):
    X, y = records
    attack = ASKING[name](tree())
    copy = clone(attack)
    assert type(attack).__name__ in repr(copy)
    assert copy.get_params(deep=False).keys() == attack.get_params(deep=False).keys()
    attack.set_params(prior=0.25)
    with pytest.raises(NotFittedError):
        attack.predict(tree().fit(X, y))
    with pytest.raises(ValueError, match="Invalid parameter"):
        attack.set_params(nothing=1)
    for prior in (0.0, 1.0, -1.0, "half", None):
        with pytest.raises(ValueError, match="prior"):
            clone(attack).set_params(prior=prior).fit(X[:80], y[:80], X[80:], y[80:])
    attack.fit(X[:80], y[:80], X[80:], y[80:])
    model = tree().fit(X[:40], y[:40])
    before = attack.predict(model)
    attack.set_params(prior=0.9)
    if name != "loss":  # what was fitted stays until the next fit
        np.testing.assert_array_equal(attack.predict(model), before)


# The exact test reads parameters


@pytest.fixture
def exact(frame):
    X, y = frame
    model = PrivateLogisticRegression(1e-6, random_state=0).fit(X, y)
    return LikelihoodRatioMembership(model).fit(X, y), model


def test_exact_columns_in_another_order(exact, frame):
    attack, model = exact
    X, y = frame
    assert attack.predict(model).all()
    other = clone(model).fit(X[list("dcba")], y)
    for released in (other, [model, other]):
        with pytest.raises(ValueError, match=r"columns, in their order.*'a', 'b'.*'d', 'c'"):
            attack.decision_function(released)
    with pytest.raises(ValueError, match="columns, in their order"):
        attack.decision_function(clone(model).fit(X.rename(columns={"a": "z"}), y))
    # Without names there is nothing to compare, and numbers are taken at their word.
    bare = clone(model).fit(X.to_numpy(), y)
    np.testing.assert_allclose(attack.encodings_[:, 1], attack.encodings_[0, 1][None].repeat(N, 0))
    assert attack.predict(bare).all()
    assert attack.predict(np.append(np.ravel(model.coef_), model.intercept_)).all()
    with pytest.raises(ValueError, match="number of columns"):
        attack.predict(clone(model).fit(X[["a"]].to_numpy(), y))


def test_exact_pipelines_pick_columns_by_name(frame):
    X, y = frame
    X = X.assign(site=np.where(y, "x", "y"))
    encode = make_column_transformer((StandardScaler(), list("abcd")), (OneHotEncoder(), ["site"]))
    pipe = make_pipeline(encode, PrivateLogisticRegression(1e-6, random_state=0)).fit(X, y)
    attack = LikelihoodRatioMembership(pipe).fit(X, y)
    assert attack.predict(pipe).all()
    # The parameters are those of columns picked by name, whatever the order of the table; a model
    # of a table in another order is refused all the same, as other pipelines go by position.
    shuffled = LikelihoodRatioMembership(pipe).fit(X[["site", *"cbda"]], y)
    np.testing.assert_allclose(attack.encodings_, shuffled.encodings_)
    with pytest.raises(ValueError, match="columns, in their order"):
        shuffled.predict(pipe)
    with pytest.raises(ValueError, match=r"columns|site"):
        LikelihoodRatioMembership(pipe).fit(X[list("abcd")], y)


@pytest.mark.parametrize(
    "coding",
    [
        lambda c: c.astype(bool),
        lambda c: np.array(["no", "yes"])[c],
        lambda c: 2 * c - 1,
        lambda c: pd.Series(pd.Categorical.from_codes(c, ["no", "yes"])),
        lambda c: c[:, None],
    ],
    ids=["bool", "strings", "signs", "categories", "column"],
)
def test_exact_codings_of_labels(coding, exact, frame):
    attack, model = exact
    X, y = frame
    recoded = coding(y)
    again = LikelihoodRatioMembership(PrivateLogisticRegression(1e-6)).fit(X, recoded)
    np.testing.assert_allclose(again.encodings_, attack.encodings_, atol=1e-10)
    own = clone(model).fit(X, np.ravel(np.asarray(recoded)))
    assert again.predict(own).all()
    if own.classes_.tolist() != [0, 1]:
        with pytest.raises(ValueError, match="must have the classes"):
            attack.decision_function(own)


def test_exact_turned_labels_would_turn_the_parameters(exact, frame):
    """The yes of one is the no of the other: the coefficients have the opposite sign."""
    attack, model = exact
    X, y = frame
    other = clone(model).fit(X, np.where(y == 1, "a: yes", "b: no"))
    with pytest.raises(ValueError, match="must have the classes"):
        attack.predict(other)
    with pytest.warns(PrivacyLeakWarning):
        released = other.release()
    with pytest.raises(ValueError, match="must have the classes"):
        attack.predict(released)


def test_exact_single_class_and_wrong_targets(frame):
    X, y = frame
    attack = LikelihoodRatioMembership(PrivateLogisticRegression(0.1))
    for wrong in (np.zeros(N, dtype=int), X["a"].to_numpy(), None):
        with pytest.raises((ValueError, TypeError)):
            attack.set_params(method="exact").fit(X, wrong)
    with pytest.raises(ValueError, match="one entry for each of the"):
        attack.fit(X, y[:-1])
    linear = LikelihoodRatioMembership(PrivateLinearRegression(0.1))
    with pytest.raises(ValueError, match=r"string|numeric|convert"):
        linear.fit(X, y.astype(str).astype(object) + "x")


@pytest.mark.parametrize("kind", ["pandas", "polars", "array", "list", "sparse"])
def test_exact_tables_of_any_kind(kind, exact, frame):
    attack, model = exact
    X, y = frame
    table = {
        "pandas": X,
        "polars": pl.DataFrame(X.to_dict("list")),
        "array": X.to_numpy(),
        "list": X.to_numpy().tolist(),
        "sparse": sparse.csr_array(X.to_numpy()),
    }[kind]
    again = LikelihoodRatioMembership(PrivateLogisticRegression(1e-6)).fit(table, y)
    np.testing.assert_allclose(again.encodings_, attack.encodings_, atol=1e-8)
    assert again.predict(model).all()


def test_exact_contract(exact, frame):
    attack, model = exact
    X, y = frame
    with pytest.warns(PrivacyLeakWarning):
        again = pickle.loads(pickle.dumps(attack))
    np.testing.assert_array_equal(again.decision_function(model), attack.decision_function(model))
    assert clone(attack).get_params()["prior"] == 0.5
    assert "PrivateLogisticRegression" in repr(attack)
    few = clone(attack).set_params(records=[5, 3]).fit(X, y)
    np.testing.assert_allclose(few.encodings_, attack.encodings_[[5, 3]], atol=1e-7)
    with pytest.raises(ValueError, match="estimator"):
        LikelihoodRatioMembership("model").fit(X, y)
    with pytest.raises(ValueError, match="estimator"):
        LikelihoodRatioMembership(None).fit(X, y)


# The attack on least squares reads parameters too


def test_least_squares_designs_of_any_kind(frame, rng):
    X, _ = frame
    coef = rng.normal(size=4)
    expected = GaussianLinearMembership(sigma=1.0, coef=coef).fit(X.to_numpy())
    for table in (X, pl.DataFrame(X.to_dict("list")), X.to_numpy().tolist()):
        attack = GaussianLinearMembership(sigma=1.0, coef=coef).fit(table)
        np.testing.assert_allclose(attack.leverages_, expected.leverages_)
        assert attack.expected_score().mean() == pytest.approx(expected.expected_score().mean())
    assert attack.n_features_in_ == 4
    for wrong, match in (
        (X.assign(a="x"), r"convert|string"),
        (X.where(X < 1.0), "NaN"),
        (X.to_numpy()[:, 0], "2D array"),
        (sparse.csr_array(X.to_numpy()), r"[Ss]parse"),
        (X[list("abc")], "`coef`"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            GaussianLinearMembership(sigma=1.0, coef=coef).fit(wrong)


def test_least_squares_from_a_fitted_model(frame, rng):
    X, _ = frame
    coef = rng.normal(size=4)
    y = X.to_numpy() @ coef + rng.normal(size=N)
    model = LinearRegression(fit_intercept=False).fit(X, y)
    attack = GaussianLinearMembership(sigma=1.0, coef=coef).fit(X)
    odds = attack.decision_function(model.coef_, np.arange(N), y)
    fresh = X.to_numpy() @ coef + rng.normal(size=N)
    others = attack.decision_function(model.coef_, np.arange(N), fresh)
    assert roc_auc_score(np.r_[np.ones(N), np.zeros(N)], np.r_[odds, others]) > 0.5
    with pytest.raises((TypeError, ValueError)):
        attack.decision_function(model, 0, 0.0)
    with pytest.raises(ValueError, match="`released`"):
        attack.decision_function(np.append(model.coef_, 0.0), 0, 0.0)


def test_least_squares_contract(frame):
    X, _ = frame
    attack = GaussianLinearMembership(sigma=1.0, coef=np.zeros(4), prior=0.3).fit(X)
    with pytest.warns(PrivacyLeakWarning, match="a fitted GaussianLinearMembership"):
        again = pickle.loads(pickle.dumps(attack))
    assert again.expected_score().mean() == attack.expected_score().mean()
    assert "GaussianLinearMembership" in repr(clone(attack))
    attack.set_params(prior=0.6)
    assert again.expected_score().mean() == attack.expected_score().mean()
    assert attack.fit(X).expected_score().mean() != again.expected_score().mean()
