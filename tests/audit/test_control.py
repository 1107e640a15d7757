"""Attacks on training records beside the same attacks on records no model has seen."""

import numpy as np
import pandas as pd
import pytest
from helpers import exhaustive, mostly_slow
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skleak.adversary.hypotheses import ignoring_mismatches
from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit import attribute_gain
from skleak.audit._gain import mean_difference
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLinearRegression
from skleak.metrics import binomial_interval, mean_interval

UNIT, LINE = (0.0, 1.0), (-np.inf, np.inf)

QUANTITIES = [
    *("training", "control", "leakage", "imputation_training", "imputation_control"),
    *("over_imputation", "shift", "baseline_training", "baseline_control"),
]


def same(one, other):
    """Compare numbers and what is said of them."""
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert one.attrs == other.attrs


def people(rng, n, correlated=0.0):
    """A secret that a site and the outcome tell as much about as `correlated` says."""
    gene = rng.choice(["A", "B", "C"], size=n, p=[0.5, 0.3, 0.2])
    site = np.where(rng.random(n) < correlated, gene, rng.choice(["A", "B", "C"], size=n))
    X = pd.DataFrame({"age": rng.integers(20, 60, n) * 1.0, "gene": gene, "site": site})
    return X, rng.choice(["no", "yes"], size=n)


def pipe_of(model):
    encode = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(), ["gene", "site"])
    )
    return make_pipeline(encode, model)


def halves(X, y, n=None):
    n = len(X) // 2 if n is None else n
    if isinstance(X, pd.DataFrame):
        return X.iloc[:n], y[:n], X.iloc[n:], y[n:]
    return X[:n], y[:n], X[n:], y[n:]


def memorizer(rng, n=500, correlated=0.0):
    data = halves(*people(rng, n, correlated))
    return pipe_of(DecisionTreeClassifier(random_state=0)).fit(*data[:2]), data


@pytest.mark.slow
def test_a_model_that_memorises_leaks(rng):
    pipe, data = memorizer(rng)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion="proba")
    gain = attribute_gain(attack, pipe, *data)
    assert gain.low["leakage"] > 0.05
    assert gain.attrs["verdict"] == "leaks"
    assert gain.low["training"] > gain.high["imputation_training"]
    assert gain.low["over_imputation"] > 0.0
    # By hand: the attack is fitted on either sample.
    values = {"values": ["A", "B", "C"]}
    for side, rate in ((data[:2], gain.loc["training"]), (data[2:], gain.loc["control"])):
        own = BlackBoxAttributeInference(pipe, "gene", criterion="proba", **values).fit(*side)
        right = own.predict(pipe) == side[0]["gene"]
        assert tuple(rate) == binomial_interval(right.sum(), len(right))
    assert gain.estimate["leakage"] == pytest.approx(
        gain.estimate["training"] - gain.estimate["control"]
    )
    assert gain.attrs["n_training"] == gain.attrs["n_control"] == 250
    assert gain.attrs["n_models"] == 1
    assert not hasattr(attack, "values_")


@pytest.mark.slow
def test_what_is_known_of_the_population_is_no_leakage(rng):
    """A model of the population tells the secret of everybody, whether trained on or not."""
    X, _ = people(rng, 800)
    y = np.where(rng.random(800) < 0.9, X["gene"], "D").astype(str)
    data = halves(X, y, 400)
    pipe = pipe_of(LogisticRegression()).fit(*data[:2])
    gain = attribute_gain(BlackBoxAttributeInference(pipe, "gene", criterion="proba"), pipe, *data)
    assert gain.low["training"] > gain.estimate["baseline_training"] + 0.2
    assert gain.low["leakage"] < 0.0 < gain.high["leakage"]
    assert gain.attrs["verdict"] == "no leakage beyond the population seen"
    assert abs(gain.estimate["over_imputation"]) < 0.1


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated(rng):
    alarms = []
    for _ in range(200):
        X, y = people(rng, 240, 0.5)
        pipe = pipe_of(GaussianNB()).fit(*people(rng, 100, 0.5))  # on nobody of either sample
        attack = BlackBoxAttributeInference(pipe, "gene", criterion="likelihood")
        gain = attribute_gain(attack, pipe, *halves(X, y, 140), imputation=None)
        alarms.append([gain.low["leakage"] > 0.0, gain.high["leakage"] < 0.0])
    assert np.all(np.mean(alarms, axis=0) <= 0.025 + 3 * np.sqrt(0.025 / 200))


@pytest.mark.slow
@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.1, 0.1), (0.9, 0.4), (0.02, 0.02)])
def test_coverage_for_one_model(p, q, rng):
    misses = []
    for _ in range(600):
        training, control = rng.random((1, 60)) < p, rng.random((1, 40)) < q
        low, high = mean_difference(0.9, UNIT, training * 1.0, control * 1.0)[1:]
        misses.append([low > p - q, high < p - q])
    # Each side is to miss in 5 % at most; three standard errors above.
    assert np.all(np.mean(misses, axis=0) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600))


@pytest.mark.slow
@pytest.mark.parametrize(("records", "models"), [(0.4, 0.05), (0.1, 0.3), (0.0, 0.0)])
def test_coverage_for_several_models(records, models, rng):
    """Records are easy or hard, models are good or bad, and some of it is about members only."""
    misses = []
    for _ in range(80):
        of_models = rng.uniform(-models, models, size=(6, 1))
        own = 0.3 * rng.uniform(-models, models, size=(6, 1))
        tables = [
            rng.random((6, n)) < 0.5 + rng.uniform(-records, records, n) + of_models + more
            for n, more in ((40, own), (30, 0.0))
        ]
        tables = [table.astype(float) for table in tables]
        low, high = mean_difference(0.9, UNIT, *tables)[1:]
        misses.append([low > 0.0, high < 0.0])
    assert np.all(np.mean(misses, axis=0) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 80))


def test_the_spread_of_the_models_has_the_two_sided_quantile_of_student():
    """Three models and three records, each with standard deviation 1, whose widths add in squares.

    Each adds ``t / sqrt(3)``, with t the quantile for two degrees of freedom.
    """
    records = np.tile([-1.0, 0.0, 1.0], (3, 1))
    both = records + np.array([0.0, 1.0, 2.0])[:, None]
    # At 90 % the quantile is that of 95 % one-sided.
    for level, t in ((0.95, 4.302652729749464), (0.9, 2.919985580353725)):
        for found, parts in (
            (mean_difference(level, LINE, both), 2),
            (mean_difference(level, LINE, both, records), 3),
            (mean_difference(level, LINE, both - np.zeros((3, 3))), 2),
        ):
            half = t * np.sqrt(parts / 3.0)
            assert found == pytest.approx((1.0, 1.0 - half, 1.0 + half), abs=1e-9)


@pytest.mark.slow
def test_coverage_where_models_differ_alone(rng):
    """Student's interval of normal effects holds its level exactly: 90 % of 1,000, and not 95."""
    records = 1e-9 * np.arange(3.0)
    hits = 0
    for one in rng.normal(size=(1000, 4, 1)):
        tables = one + records, np.tile(records, (4, 1))
        low, high = mean_difference(0.9, LINE, *tables)[1:]
        hits += low <= 0.0 <= high
    assert stats.binomtest(hits, 1000, 0.9).pvalue > 1e-6


def test_intervals_against_known_ones(rng):
    # Newcombe (1998), table II a, method 10: 56/70 and 48/80 give 0.0524 to 0.3339.
    training, control = np.zeros((1, 70)), np.zeros((1, 80))
    training[0, :56], control[0, :48] = 1.0, 1.0
    gap = mean_difference(0.95, UNIT, training, control)
    assert 0.0524 - 0.012 < gap.low < 0.0524
    assert 0.3339 < gap.high < 0.3339 + 0.012
    # Nothing, and everything, is right: the intervals are not empty.
    sure = mean_difference(0.95, UNIT, np.ones((1, 20)), np.zeros((1, 20)))
    assert (sure.estimate, sure.high) == (1.0, 1.0)
    assert 0.6 < sure.low < 0.9
    none = mean_difference(0.95, UNIT, np.zeros((3, 20)), np.zeros((3, 20)))
    assert none.low == -none.high < 0.0
    # Student's for one sample; nearly Welch's for two.
    one, other = rng.normal(size=(1, 80)), 2.0 * rng.normal(size=(1, 50))
    assert mean_difference(0.95, LINE, one) == pytest.approx(mean_interval(one[0]))
    from scipy.stats import ttest_ind

    welch = ttest_ind(one[0], other[0], equal_var=False).confidence_interval(0.95)
    gap = mean_difference(0.95, LINE, one, other)
    np.testing.assert_allclose(gap[1:], welch, atol=0.02)
    pairs = mean_difference(0.95, (-1.0, 1.0), np.ones((2, 9)) - np.ones((1, 9)))
    assert pairs.low <= pairs.estimate == 0.0 <= pairs.high


def test_models_that_differ_widen_the_interval(rng):
    base = (rng.random((1, 50)) < 0.5).astype(float)
    same = np.repeat(base, 6, axis=0)
    control = np.repeat((rng.random((1, 50)) < 0.5).astype(float), 6, axis=0)
    narrow = mean_difference(0.95, UNIT, same, control)
    single = mean_difference(0.95, UNIT, same[:1], control[:1])
    np.testing.assert_allclose(narrow, single, atol=1e-8)
    mixed = np.ones_like(same)
    mixed[::2] = 0.0
    wide = mean_difference(0.95, UNIT, mixed, control)
    assert wide.high - wide.low > 2.0 * (narrow.high - narrow.low)


CODINGS = {
    "strings": lambda gene: gene,
    "categories": lambda gene: gene.astype("category"),
    "integers": lambda gene: gene.map({"A": 1, "B": 2, "C": 3}),
    "booleans": lambda gene: gene == "A",
}


@pytest.mark.slow
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("criterion", mostly_slow(["performance", "proba", "accuracy"], 0))
def test_codings_of_the_secret(coding, criterion, rng):
    X, y = people(rng, 300)
    X["gene"] = CODINGS[coding](X["gene"])
    data = halves(X, y)
    pipe = pipe_of(DecisionTreeClassifier(random_state=0)).fit(*data[:2])
    attack = BlackBoxAttributeInference(pipe, "gene", criterion=criterion)
    gain = attribute_gain(attack, pipe, *data)
    assert gain.attrs["kind"] == "categorical"
    assert gain.estimate["leakage"] > 0.05


@pytest.mark.slow
def test_values_of_either_sample_are_candidates_in_both(rng):
    X, y = people(rng, 300)
    train, control = X[X["gene"] != "C"], X[X["gene"] == "A"]
    train, control = train.iloc[:80].copy(), control.iloc[80:].copy()
    pipe = pipe_of(DecisionTreeClassifier(random_state=0)).fit(X, y)
    seen = []

    class Spy(BlackBoxAttributeInference):
        def fit(self, X, y):
            seen.append(super().fit(X, y).values_)
            return self

    for dtype in ("str", "category"):
        data = train.assign(gene=train["gene"].astype(dtype)), y[:80]
        single = control.assign(gene=control["gene"].astype(dtype)), y[: len(control)]
        gain = attribute_gain(Spy(pipe, "gene", criterion="proba"), pipe, *data, *single)
        assert gain.attrs["n_control"] == len(control)
        assert gain.estimate["baseline_control"] > 0.9
    assert all(values.tolist() == ["A", "B"] for values in seen)
    # One class of the targets among the control records.
    alike = np.flatnonzero(y == "no")[-40:]
    data = X.iloc[:150], y[:150], X.iloc[alike], y[alike]
    for criterion in ("performance", "proba", "accuracy", "loss"):
        attack = BlackBoxAttributeInference(pipe, "gene", criterion=criterion)
        assert attribute_gain(attack, pipe, *data).attrs["n_control"] == 40


@pytest.mark.slow
def test_columns_of_control_records_in_another_order(rng):
    pipe, (X, y, X_control, y_control) = memorizer(rng, 200)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion="proba")
    expected = attribute_gain(attack, pipe, X, y, X_control, y_control)
    other = X_control[["site", "gene", "age"]].assign(note=1)
    same(attribute_gain(attack, pipe, X, y, other, y_control), expected)
    position = BlackBoxAttributeInference(pipe, 1, criterion="proba")
    gain = attribute_gain(position, pipe, X, y, other, y_control)
    assert tuple(gain.loc["training"]) == tuple(expected.loc["training"])


def linear_data(rng, n=120):
    X = np.column_stack([rng.integers(0, 2, n), rng.normal(size=(n, 2))])
    return halves(X, X @ [1.0, 2.0, -1.0] + rng.normal(size=n))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    mostly_slow(
        [
            lambda model: WhiteBoxAttributeInference(model, 0),
            lambda model: InformedAttributeInference(model, 0),
            lambda model: PriorAttack(0),
            lambda model: ImputationAttack(0),
            lambda model: BlackBoxAttributeInference(model, 0),
        ],
        0,
        1,
    ),
    ids=["white", "informed", "prior", "imputation", "black"],
)
def test_every_attack_against_one_release_and_several(make, rng):
    data = linear_data(rng)
    models = [
        PrivateLinearRegression(1e-5, random_state=np.random.default_rng(k)).fit(*data[:2])
        for k in range(5)
    ]
    attack = make(models[0])
    one = attribute_gain(attack, models[0], *data, confidence_level=0.999)
    several = attribute_gain(attack, models, *data)
    assert (one.attrs["n_models"], several.attrs["n_models"]) == (1, 5)
    for gain in (one, several):
        assert gain.low["training"] <= gain.estimate["training"] <= gain.high["training"]
        assert (
            -1.0 <= gain.low["leakage"] <= gain.estimate["leakage"] <= gain.high["leakage"] <= 1.0
        )
    if type(attack).__name__ in ("PriorAttack", "ImputationAttack", "BlackBoxAttributeInference"):
        assert one.attrs["verdict"] == "no leakage beyond the population seen"
    else:
        assert one.estimate["training"] > 0.95
        assert one.low["leakage"] > 0.2
        assert several.low["leakage"] > 0.2
    if type(attack).__name__ == "ImputationAttack":
        assert tuple(one.loc["training"]) == tuple(one.loc["imputation_training"])
        assert one.estimate["over_imputation"] == 0.0
    if type(attack).__name__ == "PriorAttack":
        assert one.estimate["training"] == one.estimate["baseline_training"]


@pytest.mark.slow
def test_preprocessing_is_that_of_training(rng):
    """Scaled on the control records, they would look like others; a release is not of them."""
    X, y = people(rng, 400)
    X, y, control, y_control = halves(X, y)
    control = control.assign(age=control["age"] + 1000.0)
    pipe = pipe_of(DecisionTreeClassifier(random_state=0)).fit(X, y)
    options = {"criterion": "proba"}
    fitted = attribute_gain(
        BlackBoxAttributeInference(pipe, "gene", **options), pipe, X, y, control, y_control
    )
    blank = pipe_of(DecisionTreeClassifier())
    for model in (pipe, pipe[-1]):
        gain = attribute_gain(
            BlackBoxAttributeInference(blank, "gene", **options), model, X, y, control, y_control
        )
        same(gain, fitted)
    with pytest.raises(Exception, match="not fitted"):
        blank.predict(X)


@pytest.mark.slow
def test_quantities(rng):
    X = np.column_stack([rng.normal(size=400), rng.integers(0, 3, 400), rng.normal(size=400)])
    fresh = halves(X, rng.normal(size=400))
    linear = LinearRegression().fit(*fresh[:2])
    gain = attribute_gain(
        BlackBoxAttributeInference(linear, 0), linear, *fresh, confidence_level=0.999
    )
    assert gain.attrs["kind"] == "numeric"
    assert gain.low["leakage"] < 0.0 < gain.high["leakage"]
    y = X[:, 0] + 0.3 * rng.normal(size=400)
    data = halves(X, y)
    linear.fit(*data[:2])
    gain = attribute_gain(BlackBoxAttributeInference(linear, 0), linear, *data)
    own = BlackBoxAttributeInference(linear, 0).fit(*data[:2])
    guesses = np.clip(own.predict(linear), X[:, 0].min(), X[:, 0].max())
    errors = (guesses - data[0][:, 0]) ** 2
    assert gain.estimate["training"] == pytest.approx(1.0 - errors.mean() / X[:, 0].var())
    assert gain.estimate["imputation_training"] > 0.5
    assert abs(gain.estimate["baseline_training"]) < 0.3
    private = PrivateLinearRegression(1e-7, random_state=np.random.default_rng(0)).fit(*data[:2])
    gain = attribute_gain(WhiteBoxAttributeInference(private, 0), private, *data)
    assert gain.low["training"] > 0.99
    assert gain.attrs["verdict"] == "leaks"


@pytest.mark.slow
def test_a_sample_that_differs_is_said(rng):
    X, y, control, y_control = halves(*people(rng, 600, correlated=0.9))
    control = control.assign(site=control["site"].to_numpy()[::-1])
    pipe = pipe_of(GaussianNB()).fit(X, y)
    gain = attribute_gain(
        BlackBoxAttributeInference(pipe, "gene", criterion="proba"), pipe, X, y, control, y_control
    )
    assert gain.low["shift"] > 0.0
    backwards = attribute_gain(ImputationAttack("gene"), pipe, control, y, X, y_control)
    assert backwards.attrs["verdict"] == "the samples differ"


@pytest.mark.slow
def test_an_attack_of_the_users(rng):
    pipe, data = memorizer(rng, 120)

    class Own:
        attribute = "gene"

        def fit(self, X, y):
            self.n = len(X)

        def predict(self, model):
            return np.full((len(model), self.n), "A") if isinstance(model, list) else ["A"] * self.n

    gain = attribute_gain(Own(), pipe, *data, imputation=None)
    assert gain.estimate["training"] == np.mean(data[0]["gene"] == "A")
    assert gain.index.tolist() == [*QUANTITIES[:3], *QUANTITIES[-2:]]
    assert gain.attrs["attack"] == "Own"
    assert attribute_gain(Own(), [pipe] * 5, *data).attrs["n_models"] == 5

    class Short(Own):
        def predict(self, model):
            return ["A"] * self.n

    with pytest.raises(ValueError, match="each of the 2 models"):
        attribute_gain(Short(), [pipe, pipe], *data)


@pytest.mark.slow
def test_targets_and_the_target_as_secret(rng):
    pipe, data = memorizer(rng, 120)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion="proba", records=slice(10))
    gain = attribute_gain(attack, pipe, *data)
    assert (gain.attrs["n_training"], gain.attrs["n_control"]) == (10, 60)
    assert attack.records == slice(10)
    X, y, control, y_control = data
    gain = attribute_gain(PriorAttack(), pipe, X[["age"]], y, control[["age"]], y_control)
    assert gain.attrs["attribute"] == "y"
    assert gain.attrs["n_control"] == 60


@pytest.mark.slow
def test_a_table_of_all_quantities(rng):
    pipe, data = memorizer(rng, 300)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion="proba")
    gain = attribute_gain(attack, pipe, *data, confidence_level=0.9)
    assert gain.index.tolist() == QUANTITIES
    assert gain.columns.tolist() == ["estimate", "low", "high"]
    bounded = gain.iloc[:-2]
    assert np.all((bounded["low"] < bounded["estimate"]) & (bounded["estimate"] < bounded["high"]))
    assert gain.iloc[-2:][["low", "high"]].isna().all(axis=None)
    assert gain.attrs == {
        "attack": "BlackBoxAttributeInference (proba)",
        "attribute": "gene",
        "kind": "categorical",
        "n_training": 150,
        "n_control": 150,
        "n_models": 1,
        "confidence_level": 0.9,
        "verdict": "leaks",
    }


@pytest.mark.slow
def test_one_record_bounds_no_mean_of_numbers():
    X = np.column_stack([np.linspace(0.0, 1.0, 100), np.ones(100)])
    gain = attribute_gain(PriorAttack(0, records=[3]), None, *halves(X, np.ones(100)))
    assert (gain.low["training"], gain.high["training"]) == (-np.inf, np.inf)


@pytest.mark.slow
def test_errors(rng):
    pipe, (X, y, control, y_control) = memorizer(rng, 120)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion="proba")
    with pytest.raises(ValueError, match="are the training records"):
        attribute_gain(attack, pipe, X, y, X, y)
    with pytest.raises(ValueError, match="lack the columns"):
        attribute_gain(attack, pipe, X, y, control.drop(columns="site"), y_control)
    with pytest.raises(ValueError, match="tables of one kind"):
        attribute_gain(attack, pipe, X, y, control.to_numpy(), y_control)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        attribute_gain(attack, pipe, X, y, control, y_control[:-1])
    gap = X.copy()
    gap.iloc[0, 1] = None
    with pytest.raises(ValueError, match="1 missing values of 120"):
        attribute_gain(attack, pipe, gap, y, control, y_control)
    with pytest.raises(ValueError, match="confidence_level"):
        attribute_gain(attack, pipe, X, y, control, y_control, confidence_level=1.0)
    with pytest.raises(TypeError, match="attack on an attribute"):
        attribute_gain(LogisticRegression(), pipe, X, y, control, y_control)
    with pytest.raises(TypeError, match="one column"):
        attribute_gain(PriorAttack(["gene"]), pipe, X, y, control, y_control)
    by_target = PriorAttack("gene", prior=np.full((60, 3), 1 / 3))
    with pytest.raises(ValueError, match="a row for each target"):
        attribute_gain(by_target, pipe, X, y, control, y_control)
    with pytest.raises(ValueError, match="does not contain 22 records' values of 'gene'"):
        attribute_gain(
            BlackBoxAttributeInference(pipe, "gene", values=["A", "B"]),
            pipe,
            X,
            y,
            control,
            y_control,
        )
    numbers = np.column_stack([np.arange(400) // 25, rng.normal(size=400)]).astype(float)
    model = LinearRegression().fit(numbers, numbers[:, 1])
    with pytest.raises(ValueError, match="one of few values"):
        attribute_gain(
            BlackBoxAttributeInference(model, 0), model, *halves(numbers, numbers[:, 1], 370)
        )
    regression = pipe_of(DecisionTreeRegressor()).fit(X, np.arange(60.0))
    with pytest.raises(AttackNotApplicableError, match="is a regressor"):
        attribute_gain(
            BlackBoxAttributeInference(regression, "gene", criterion="accuracy"),
            regression,
            X,
            np.arange(60.0),
            control,
            np.arange(60.0),
        )


def test_mixed_kinds_of_values_are_refused(rng):
    X = rng.integers(0, 2, size=(60, 2))
    model = LogisticRegression().fit(X, X[:, 1])
    with pytest.raises(TypeError, match="mixes types"):
        attribute_gain(PriorAttack(0), model, X, X[:, 1], X.astype(str), X[:, 1], imputation=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack", mostly_slow([WhiteBoxAttributeInference, InformedAttributeInference], 0)
)
def test_a_control_record_takes_the_place_of_a_training_record(attack, rng):
    X, y = people(rng, 70)
    y = (X["gene"] == "A") + rng.normal(size=70)
    # Categories that only one sample has, in a column that is not the secret.
    X["site"] = X["site"].where(rng.random(70) < 0.8, "Z")
    data = [X.iloc[:50], y.iloc[:50], X.iloc[50:], y.iloc[50:]]
    encode = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["gene", "site"])
    )
    pipe = make_pipeline(encode, PrivateLinearRegression(0.01, random_state=0)).fit(*data[:2])
    gains = []
    for dtype in ("str", "category"):
        kinds = {"gene": dtype, "site": dtype}
        tables = [table.astype(kinds) for table in (data[0], data[2])]
        gains.append(
            attribute_gain(
                attack(pipe, "gene"), pipe, tables[0], data[1], tables[1], data[3], imputation=None
            )
        )
    same(*gains)
    right = []
    for j in range(20):
        table, targets = data[0].copy(), data[1].copy()
        table.iloc[j], targets.iloc[j] = data[2].iloc[j], data[3].iloc[j]
        own = attack(pipe, "gene", records=[j], values=["A", "B", "C"]).fit(table, targets)
        with ignoring_mismatches():
            right.append(own.predict(pipe)[0] == data[2]["gene"].iloc[j])
    assert tuple(gains[0].loc["control"]) == binomial_interval(sum(right), 20)
    sampled = attribute_gain(attack(pipe, "gene"), pipe, *data, imputation=None, control="sample")
    own = attack(pipe, "gene", values=["A", "B", "C"]).fit(*data[2:])
    with ignoring_mismatches():
        right = own.predict(pipe) == data[2]["gene"]
    assert tuple(sampled.loc["control"]) == binomial_interval(right.sum(), 20)
    assert tuple(sampled.loc["training"]) == tuple(gains[0].loc["training"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skleak.exceptions.ReleaseMismatchWarning")
@pytest.mark.parametrize("noise", [1e-6, *exhaustive([(0.05,)])])
def test_false_alarms_of_a_white_box(noise, rng):
    """A model of other records altogether: whatever the white box sees in it is no membership."""

    def draw():
        X = np.column_stack([rng.choice(3, 40, p=[0.6, 0.3, 0.1]), rng.normal(size=(40, 2))])
        return X, X @ [1.0, 2.0, -1.0] + rng.normal(size=40)

    alarms = []
    for _ in range(100):
        model = PrivateLinearRegression(noise, random_state=rng).fit(*draw())
        gain = attribute_gain(
            WhiteBoxAttributeInference(model, 0), model, *draw(), *draw(), imputation=None
        )
        alarms.append([gain.low["leakage"] > 0.0, gain.high["leakage"] < 0.0])
    assert np.all(np.mean(alarms, axis=0) <= 0.025 + 3 * np.sqrt(0.025 / 100))


@pytest.mark.slow
def test_any_attack_may_be_exchanged(rng):
    pipe, data = memorizer(rng, 80)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion="likelihood", prior="uniform")
    sampled = attribute_gain(attack, pipe, *data, imputation=None)
    exchanged = attribute_gain(attack, pipe, *data, imputation=None, control="exchange")
    same(exchanged, sampled)  # it asks about one record at a time
    attack.set_params(records=[3, 7])
    few = attribute_gain(attack, pipe, *data, imputation=None, control="exchange")
    assert few.attrs["n_training"] == 2
    assert tuple(few.loc["control"]) == tuple(sampled.loc["control"])
    with pytest.raises(ValueError, match="must be 'auto', 'sample' or 'exchange'"):
        attribute_gain(attack, pipe, *data, control="swap")

    class Own:
        attribute, values = "gene", None

        def fit(self, X, y):
            self.guesses = X["gene"].to_numpy()[getattr(self, "records", slice(None))]

        def predict(self, model):
            assert self.values.tolist() == ["A", "B", "C"]
            return self.guesses

    with pytest.raises(TypeError, match="says whom to guess"):
        attribute_gain(Own(), pipe, *data, control="exchange")

    class OfTargets(Own):
        records = None

        def fit(self, X, y):
            self.records_ = np.arange(len(X)) if self.records is None else self.records
            self.guesses = X["gene"].to_numpy()[self.records_]

    own = OfTargets()
    cheating = attribute_gain(own, pipe, *data, imputation=None, control="exchange")
    assert cheating.estimate["training"] == cheating.estimate["control"] == 1.0
    assert (cheating.attrs["n_control"], own.values) == (40, None)
