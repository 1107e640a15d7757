"""What a noise goal publishes, to an attacker who knows all records but one entry."""

import pickle

import numpy as np
import pytest
from helpers import mostly_slow
from scipy.stats import norm
from sklearn.datasets import load_diabetes

from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.linear_model import _goals as _rung
from skleak.linear_model._goals import within_rung
from skleak.mechanisms import MaxAdvantage, MaxLeakage
from skleak.mechanisms.calibration import ladder_rung

# What noise was added to: that these may differ is what the channel accounts for.
NOISY = {"coef_", "intercept_"}
GOALS = [
    MaxLeakage(0.6, features="a"),
    MaxLeakage(0.7, features="b"),
    MaxLeakage(0.6),
    MaxLeakage(0.5, quantile=0.9),
    MaxAdvantage(0.1, "a"),
    MaxAdvantage(0.2, "b"),
    MaxAdvantage(0.2, "a", prior="marginal"),
    MaxAdvantage(0.2, "b", prior="uniform"),
]
KINDS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


def public_fields(model):
    """Every number of a release that is not noisy, by the path to it in its pickle."""
    released = pickle.loads(pickle.dumps(model.release()))
    found = {}

    def walk(thing, path):
        if isinstance(thing, dict):
            for name, value in thing.items():
                if name not in NOISY:
                    walk(value, (*path, name))
        elif isinstance(thing, np.ndarray):
            found[path] = repr((thing.dtype, thing.tolist()))
        else:
            found[path] = repr(thing)

    walk(vars(released), ())
    return found


def make_table(kind, rng, n):
    X = rng.normal(size=(n, 3))
    X[:, 0] = X[:, 0] > 0.3
    X[:, 1] = rng.integers(0, 3, size=n)
    a = X @ [0.6, 0.3, -0.4]
    if kind is PrivateLinearRegression:
        return X, a + rng.normal(size=n)
    if kind is PrivateLogisticRegression:
        return X, (rng.random(n) < 1 / (1 + np.exp(-a))).astype(int)
    return X, rng.poisson(np.exp(a / 2))


def as_frame(X):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(X, columns=["a", "b", "c"])


def attack(model, X, y, column, rows, values):
    """Fields that tell one value of an entry from another, over all values of some records."""
    told, published = set(), 0
    try:
        fields = public_fields(model.fit(as_frame(X), y))
    except ValueError:  # the noise would give records away: nothing is published
        return told, published
    for row in rows:
        for value in values:
            other = X.copy()
            other[row, column] = value
            try:
                twin = public_fields(model.fit(as_frame(other), y))
            except ValueError:
                continue
            published += 1
            told |= {path for path in fields if fields[path] != twin.get(path)}
            told |= twin.keys() - fields.keys()
    return told, published


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "goal"),
    mostly_slow(
        [
            *((PrivateLinearRegression, goal) for goal in GOALS),
            *((kind, goal) for kind in KINDS[1:] for goal in (GOALS[0], GOALS[4])),
        ],
        3,
    ),
    ids=str,
)
def test_no_public_field_tells_values_of_few_apart(kind, goal, rng):
    X, y = make_table(kind, rng, 100)
    column = 1 if getattr(goal, "attribute", goal.get_params().get("features")) == "b" else 0
    rows = np.argsort(-np.abs(X[:, 2]))[:1]
    told, _ = attack(kind(goal, alpha=0.1), X, y, column, rows, np.unique(X[:, column]))
    assert not told


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", mostly_slow([{"reweighting": "irfil"}, {"noise_covariance": "curvature"}], 1)
)
def test_no_public_field_under_reweighting_and_shaped_noise(options, rng):
    X, y = make_table(PrivateLinearRegression, rng, 40)
    model = PrivateLinearRegression(MaxLeakage(3.0, "a"), alpha=0.3, **options)
    told, _ = attack(model, X, y, 0, [0, 1, 2], [0.0, 1.0])
    assert not told


def test_sex_in_the_diabetes_data():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    values = X["sex"].unique()
    model = PrivateLinearRegression(MaxAdvantage(0.05, "sex"))
    fields = public_fields(model.fit(X, y))
    for row in (0, 123, 256, 441):
        other = X.copy()
        other.loc[row, "sex"] = values[values != X.loc[row, "sex"]][0]
        assert public_fields(model.fit(other, y)) == fields


@pytest.mark.slow
def test_a_gene_in_iwpc(iwpc):
    X, y = iwpc
    model = PrivateLinearRegression(MaxAdvantage(0.1, "vkorc1_CT"))
    fields = public_fields(model.fit(X, y))
    row = int(np.argmax(np.abs(X["weight"].to_numpy())))
    other = X.copy()
    other.iloc[row, X.columns.get_loc("vkorc1_CT")] = 1.0 - other["vkorc1_CT"].iloc[row]
    assert public_fields(model.fit(other, y)) == fields


def test_a_record_that_moves_the_rung_is_named():
    rng = np.random.default_rng(3)
    X, y = make_table(PrivateLinearRegression, rng, 150)
    X[7], y[7] = [1.0, 1.0, 3.0], 25.0  # so much noise is needed for this record alone
    needed = [
        MaxLeakage(1.0, "a").noise_scale_of(PrivateLinearRegression().fit(as_frame(table), y))
        for table in (X, np.where(np.arange(150)[:, None] == 7, [0.0, 1.0, 3.0], X))
    ]
    edge = np.sqrt(needed[0] * needed[1])  # a rung between what the two values need
    goal = MaxLeakage(float(edge), "a")
    assert needed[0] / needed[1] != pytest.approx(1.0, abs=1e-3)
    with pytest.raises(ValueError, match=r"another value of a in .*positions? 7\b.*noise_scale_of"):
        PrivateLinearRegression(goal).fit(as_frame(X), y)


def goal_on_an_edge(make, needed):
    """A goal between what two tables need is a rung: these are the needs at level 1, or 0.1."""
    middle = np.sqrt(needed[0] * needed[1])
    if make is MaxLeakage:
        return MaxLeakage(middle, ["a", "c"])
    distance = middle * 2.0 * norm.ppf(0.55)
    rung = 2.0 ** (np.round(2.0 * np.log2(distance)) / 2.0)
    return MaxAdvantage(2.0 * norm.cdf(distance / rung / 2.0) - 1.0, "b")


@pytest.mark.slow
@pytest.mark.parametrize("n_values", mostly_slow([12, 13], 1))
@pytest.mark.parametrize("make", mostly_slow([MaxLeakage, MaxAdvantage]))
def test_two_values_never_publish_two_rungs(make, n_values, rng):
    """Of a block that holds a numeric column; of an attribute with a value for nearly everybody.

    The other value is one that no other record has, and with more values than half as many as
    records a column of `MaxLeakage` is numeric: the record's own must not settle whether it is.
    """
    X, y = make_table(PrivateLinearRegression, rng, 24)
    column = 0 if make is MaxLeakage else 1
    X[:, column] = np.arange(24) % n_values
    goal = MaxLeakage(1.0, ["a", "c"]) if make is MaxLeakage else MaxAdvantage(0.1, "b")
    tables, found = [], []
    for row in (17, 20, 23):
        other = X.copy()
        other[row, column] = 50.0
        tables.append((X, other))
        fits = [PrivateLinearRegression().fit(as_frame(table), y) for table in (X, other)]
        found.append([goal.noise_scale_of(fit) for fit in fits])
    widest = int(np.argmax(np.abs(np.log([a / b for a, b in found]))))
    assert found[widest][0] / found[widest][1] != pytest.approx(1.0, abs=1e-3)
    model, refusals = PrivateLinearRegression(goal_on_an_edge(make, found[widest])), []
    for table in tables[widest]:
        try:
            model.fit(as_frame(table), y)
        except ValueError as error:
            refusals.append(str(error))
    assert any("give records away" in told for told in refusals)


def test_a_value_that_one_record_has(rng):
    X, y = make_table(PrivateLinearRegression, rng, 150)
    X[:, 0] = 0.0
    X[5, 0] = 1.0
    with pytest.raises(ValueError, match=r"positions? 5\b"):
        PrivateLinearRegression(MaxAdvantage(0.1, 0)).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", mostly_slow([False, True], 1))
@pytest.mark.parametrize("shaped", mostly_slow([False, True], 0))
def test_brackets_hold_the_noise_of_whole_refits(kind, weighted, shaped, rng):
    X, y = make_table(kind, rng, 60)
    X[0] = [1.0, 2.0, 4.0]
    root = rng.normal(size=(4, 4))
    model = kind(
        1.0, alpha=0.1, noise_covariance=root @ root.T + np.eye(4) if shaped else "isotropic"
    ).fit(as_frame(X), y, rng.uniform(0.5, 2.0, size=60) if weighted else None)
    problem = model._fitted_problem()
    for goal in GOALS:
        for secret in [*goal.secrets(problem), *problem.entries()]:
            found = goal.brackets(problem, secret)
            if found is None:
                continue
            model.noise_scale = goal
            own = y[:, None] if secret.columns is None else X[:, secret.columns]
            for i in (0, 30):
                for m in np.flatnonzero(np.any(secret.values != own[i], axis=1))[[0, -1]]:
                    changed = problem.with_value(i, secret, secret.values[m])
                    exact = model._twin()._needed_noise(changed)
                    assert found[0][i, m] * (1 - 1e-8) <= exact <= found[1][i, m] * (1 + 1e-8)


def test_the_ladder():
    rungs = [ladder_rung(x) for x in np.geomspace(1e-9, 1e9, 500)]
    steps = 2.0 * np.log2(rungs)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    assert np.all(np.geomspace(1e-9, 1e9, 500) <= np.array(rungs) * (1 + 1e-12))
    assert np.all(np.geomspace(1e-9, 1e9, 500) > np.array(rungs) / np.sqrt(2.0) * (1 - 1e-12))
    for edge in (0.25, 2.0**0.5, 2.0**-7.5):
        assert ladder_rung(edge) == edge
        assert ladder_rung(np.nextafter(edge, 9.0)) == edge
        assert ladder_rung(np.nextafter(edge, 0.0)) == edge
        np.testing.assert_allclose(ladder_rung(edge * (1 + 1e-9)), edge * np.sqrt(2), rtol=1e-15)
    assert ladder_rung(0.0) == 0.0
    for bad in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="finite and not negative"):
            ladder_rung(bad)


def test_an_edge_of_a_rung_settles_nothing():
    low, high = np.array([0.8, 0.4, 0.9, 1.0, 1.1]), np.array([0.9, 0.6, 1.2, 1.0, 1.3])
    inside, outside = within_rung(low, high, 1.0, 1e-7)
    assert inside.tolist() == [True, False, False, False, False]
    assert outside.tolist() == [False, True, False, False, True]


def test_noise_found_on_public_data_reads_nothing_private(rng):
    X, y = make_table(PrivateLinearRegression, rng, 150)
    public = PrivateLinearRegression().fit(X[:70], y[:70])
    noise_scale = MaxAdvantage(0.1, 0).noise_scale_of(public)
    assert isinstance(noise_scale, float)
    model = PrivateLinearRegression(noise_scale).fit(X[70:], y[70:])
    assert model.noise_scale_ == noise_scale
    assert model.release().provenance_["noise_goal"] is None


@pytest.mark.slow
def test_the_report_counts_records_whose_other_entries_may_move_the_rung():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = PrivateLinearRegression(MaxLeakage(0.6, ["bmi"])).fit(X, y)
    report = model.leakage_report()
    moves = report.dataset["n_records_moving_rung"]
    assert list(moves) == [*X.columns, "the target"]  # the goal is about a numeric column
    for form in (report.to_text(full=True), report.to_html(), report.to_json()):
        assert f"{moves['bmi']} by bmi" in " ".join(form.split())
    # Whoever moves it is counted: no other record does, at the ends of the range.
    for label in ("bmi", "sex", "the target"):
        found = 0
        for row in range(0, 442, 40):
            for end in (min, max):
                other, target = X.copy(), y.copy()
                if label in X:
                    other.loc[row, label] = end(X[label])
                else:
                    target[row] = end(y)
                found += model.fit(other, target).noise_scale_ != report.dataset["noise_scale"]
        assert found <= 2 * moves[label]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "goal"),
    [
        ({"noise_covariance": "curvature"}, MaxLeakage(3.0, "c")),
        ({"reweighting": "irfil"}, MaxLeakage(3.0, "c")),
        ({}, MaxAdvantage(0.3, "b", prior="uniform")),
    ],
)
def test_the_report_says_what_it_did_not_count(options, goal, rng):
    X, y = make_table(PrivateLinearRegression, rng, 40)
    model = PrivateLinearRegression(goal, alpha=0.3, **options).fit(as_frame(X), y)
    report = model.leakage_report()
    moves = report.dataset["n_records_moving_rung"]
    assert set(moves.values()) == {None}
    assert set(moves) == {"a", "b", "c", "the target"} - {getattr(goal, "attribute", None)}
    for form in (report.to_text(full=True), report.to_html(), report.to_json()):
        form = " ".join(form.split())
        assert f"How many could by {', '.join(moves)} was not counted" in form
    assert '"n_records_moving_rung": {' in report.to_json()


def test_the_report_counts_within_a_limit_of_work(monkeypatch, rng):
    X, y = make_table(PrivateLinearRegression, rng, 40)
    monkeypatch.setattr(_rung, "_MOST_COUNTING", 5 * 40**2 * 4)  # of 5 values, once
    model = PrivateLinearRegression(MaxLeakage(0.6, "c")).fit(as_frame(X), y)
    moves = model.leakage_report().dataset["n_records_moving_rung"]
    assert moves["a"] is not None
    assert moves["b"] is not None
    assert moves["c"] is moves["the target"] is None
