"""Noisy scaling and encoding: sensitivities by brute force, and the attack on what they release."""

import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skleak
from skleak.accounting import LeakageLedger, gaussian_delta, gaussian_epsilon
from skleak.exceptions import LeakageBudgetError, NoGuaranteeError, PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression, PrivateMoments
from skleak.mechanisms import EpsilonDelta, GaussianDP, ObjectivePerturbation, split_goal
from skleak.neural import PrivateSGDClassifier
from skleak.preprocessing import (
    PrivateOneHotEncoder,
    PrivateScaler,
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    RowNormClipper,
    _private,
)

NUMBERS, WORDS = ["age", "weight"], ["gene", "smoker"]
BOUNDS = {"age": (0, 120), "weight": (0, 250)}
GOAL = GaussianDP(0.8, delta=1e-6)
PUBLIC = {"public": ("n_samples",)}


@pytest.fixture
def released(monkeypatch):
    """Vectors that get noise, with its scale, in their order; the noise is left out."""
    seen = []

    def spy(values, scale, random_state=None):
        seen.append((np.asarray(values, dtype=float), scale))
        return original(values, 0.0)

    original = _private.release_on_grid
    monkeypatch.setattr(_private, "release_on_grid", spy)
    return seen


def _columns(scaler, encoder, *after):
    numbers = make_pipeline(scaler, PublicImputer(0.0))
    columns = ColumnTransformer([("numbers", numbers, NUMBERS), ("words", encoder, WORDS)])
    return make_pipeline(columns, RowNormClipper(1.5), *after)


def _logistic(goal, **options):
    options = {"classes": [0, 1], "mechanism": "output", **PUBLIC, **options}
    return PrivateLogisticRegression(
        goal, data_norm=1.5, fit_intercept=False, **{"alpha": 0.5, **options}
    )


def _target(X):
    return np.asarray(X["weight"] > 75.0).astype(int)


def _fitted(patients, goal=None, model=None, first=None, **options):
    """A pipeline of three parts of a goal, each with its own."""
    scale, encode, fit = split_goal(goal or EpsilonDelta(2.0, 1e-5), [0.2, 0.2, 0.6])
    options = {**PUBLIC, **options}
    scaler = PrivateScaler(scale, bounds=BOUNDS, **options)
    encoder = PrivateOneHotEncoder(encode, **options)
    pipeline = _columns(scaler, encoder, model or _logistic(fit))
    pipeline = make_pipeline(first, *(step for _, step in pipeline.steps)) if first else pipeline
    return pipeline.fit(patients, _target(patients))


def test_squares_are_free_up_to_the_constant():
    def largest(weight):
        found = minimize_scalar(
            lambda s: -((2.0 - s) ** 2) * (1.0 + weight * s**2), bounds=(0.1, 1.9), method="bounded"
        )
        grid = np.linspace(-1.0, 1.0, 801)
        z, other = grid[:, None], grid[None, :]
        searched = ((z - other) ** 2 * (1.0 + weight * (z + other) ** 2)).max()
        assert searched <= max(4.0, -found.fun) * (1.0 + 1e-12)
        return searched

    exact = (11.0 + 5.0 * np.sqrt(5.0)) / 8.0
    assert 0.0 <= exact - _private.FREE_SQUARES < 1e-4
    assert largest(_private.FREE_SQUARES) == 4.0
    assert largest(exact * 1.005) > 4.001


def test_no_record_moves_the_sums_beyond_the_guarantee(rng, patients, strange_records, released):
    scaler = PrivateScaler(GaussianDP(0.7), bounds=BOUNDS, **PUBLIC)
    records = strange_records(rng, 30)[NUMBERS]
    extreme = pd.DataFrame(list(itertools.product([0, 40, 120, np.nan], [0, 33, 250])))
    records = pd.concat([records, extreme.set_axis(NUMBERS, axis=1)], ignore_index=True)
    moved = []
    for place in range(len(records)):
        table = patients[NUMBERS].copy()
        table.iloc[3] = records.iloc[place]
        released.clear()
        scaler.fit(table)
        moved.append(np.concatenate([values / scale for values, scale in released]))
    moved = np.array(moved)
    largest = np.linalg.norm(moved[:, None] - moved[None], axis=2).max()
    assert 0.9999 * scaler.composed_mu_ < largest <= scaler.composed_mu_ <= 0.7


@pytest.mark.parametrize("n", [1, 7, 1000, 100_000])
def test_sums_are_exact(n, rng, released):
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    PrivateScaler(GaussianDP(1.0), bounds=(-1, 1)).fit(X)
    step = 2.0 ** -((53 - (n - 1).bit_length()) // 2)
    whole = np.rint(X / step).astype(int)
    for (values, _), power in zip(released, (1, 2), strict=True):
        exact = [sum(int(z) ** power for z in column) for column in whole.T]
        assert [int(value / step**power) for value in values] == exact
        assert_array_equal(values % step**power, 0.0)


def test_noise_has_the_scale_that_the_guarantee_is_about():
    n, d, mu = 2000, 400, 60.0
    fitted = PrivateScaler(GaussianDP(mu), bounds=(-1, 1)).fit(np.zeros((n, d)))
    expected = 2.0 * np.sqrt(d) / mu / n
    low, high = stats.chi2.ppf([1e-9, 1.0 - 1e-9], d) / d
    assert low < np.mean((fitted.mean_ / expected) ** 2) < high
    # A category at the threshold shows at even odds.
    encoder = PrivateOneHotEncoder(GaussianDP(0.2, delta=1e-4)).fit([["a"]])
    count = int(encoder.threshold_)
    X = np.repeat(np.arange(400), count)[:, None]
    shown = len(encoder.fit(X).categories_[0])
    share = stats.norm.sf((encoder.threshold_ - count) / encoder.noise_scale_)
    assert stats.binom.ppf(1e-9, 400, share) < shown < stats.binom.isf(1e-9, 400, share)
    assert encoder.noise_scale_ == pytest.approx(np.sqrt(2.0) / 0.2)


def test_counts_change_by_two_ones_of_a_column(rng, make_patients, strange_records, released):
    table, encoder = make_patients(rng)[WORDS], PrivateOneHotEncoder(GOAL, **PUBLIC)

    def counted(record):
        changed = table.copy()
        changed.iloc[3] = record
        released.clear()
        encoder.fit(changed)
        return [
            dict(zip(sorted(set(changed[name].dropna()), key=str), values, strict=True))
            for name, (values, _) in zip(WORDS, released, strict=True)
        ]

    records = [list(each) for each in strange_records(rng, 30)[WORDS].itertuples(index=False)]
    records += [["new", "newer"], ["AA", "yes"], ["BB", "no"]]
    tables = [counted(record) for record in records]
    largest = 0.0
    for before, after in itertools.combinations(tables, 2):
        squares = 0.0
        for column, other in zip(before, after, strict=True):
            for one, two in ((column, other), (other, column)):
                assert [one[value] for value in one.keys() - two.keys()] in ([], [1.0])
            squares += sum((column[v] - other[v]) ** 2 for v in column.keys() & other.keys())
        largest = max(largest, np.sqrt(squares) / encoder.noise_scale_)
    assert 0.999 * encoder.composed_mu_ < largest <= encoder.composed_mu_ <= GOAL.mu


def _shown(counts, encoder):
    """Probability of each set of categories that may show, by exact normal tails."""
    names = sorted(counts)
    tails = stats.norm.sf(encoder.threshold_ - np.array([counts[n] for n in names]))
    tails = {
        n: stats.norm.sf((encoder.threshold_ - counts[n]) / encoder.noise_scale_) for n in names
    }
    found = {}
    for places in itertools.product([True, False], repeat=len(names)):
        shown = {name for name, is_shown in zip(names, places, strict=True) if is_shown}
        odds = [tails[n] if n in shown else 1.0 - tails[n] for n in names]
        found[frozenset(shown)] = np.prod(odds)
    return found


@pytest.mark.parametrize(("mu", "delta"), [(0.5, 0.05), (1.5, 0.02), (3.0, 0.1), (0.3, 1e-6)])
def test_delta_covers_categories_of_one_table_alone(mu, delta):
    encoder = PrivateOneHotEncoder(GaussianDP(mu, delta=delta), **PUBLIC)
    encoder.fit([["x", "y"]])
    base = {"a1": 4, "a2": 1, "b1": 3}
    # What the record of either table adds: to common categories, to its own, and to both.
    added = [("a1", "b1"), ("a1", "new"), ("one", "b1"), ("one", "new"), ("two", "newer")]
    tables = []
    for values in added:
        counts = dict(base)
        for value in values:
            counts[value] = counts.get(value, 0) + 1
        tables.append(_shown(counts, encoder))
    reached = 0.0
    for table, other in itertools.permutations(tables, 2):
        for epsilon in [-4.0, -1.0, -0.1, 0.0, 0.01, 0.5, 2.0, 8.0]:
            exact = sum(
                max(p - np.exp(epsilon) * other.get(shown, 0.0), 0.0) for shown, p in table.items()
            )
            regular = float(gaussian_delta(encoder.composed_mu_, abs(epsilon)))
            if epsilon < 0.0:
                regular = 1.0 - np.exp(epsilon) * (1.0 - regular)
            assert exact <= encoder.mu_delta_ + (1.0 - encoder.mu_delta_) * regular + 1e-12
        reached = max(reached, exact)
    assert 0.9 * delta < reached <= encoder.mu_delta_ == delta


def test_errors_and_warnings_do_not_depend_on_records(rng, patients, strange_records):
    strange = strange_records(rng, 60)
    odd = [["a list"], {"a": 1}, 10**400, 1j, b"bytes", pd.Timestamp("2020"), (1, 2), np.int8(-128)]
    odd += [np.float16(7.0), np.longdouble(1), -0.0, True, np.bool_(False), 2**53, pd.NA]
    strange["gene"] = pd.Series([odd[k % len(odd)] for k in range(60)], dtype=object)
    narrow = {"age": (0, 120), "weight": (0, 1e-3)}
    columns = _columns(PrivateScaler(GOAL, bounds=narrow), PrivateOneHotEncoder(GOAL))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fitted in (columns.fit(strange), clone(columns).fit(patients)):
            rows = fitted.transform(strange)
            assert np.isfinite(rows).all()
            assert np.linalg.norm(rows, axis=1).max() <= 1.5
            once = fitted[0].named_transformers_["words"].transform(strange[WORDS])
            assert_array_equal(once.sum(axis=1), 2.0)


def test_output_is_in_the_public_range(patients, rng, strange_records):
    scaler = PrivateScaler(GaussianDP(5.0), bounds=BOUNDS, limit=2.0, **PUBLIC)
    rows = scaler.fit(patients[NUMBERS]).transform(strange_records(rng, 50)[NUMBERS])
    assert np.nanmax(np.abs(rows)) == 2.0
    assert scaler.data_norm_ == pytest.approx(2.0 * np.sqrt(2.0))
    assert np.nanmax(np.linalg.norm(rows, axis=1)) <= scaler.data_norm_ * (1.0 + 1e-12)


def test_with_little_noise_it_is_the_scaler_of_scikit_learn(rng):
    X = rng.normal([50.0, -3.0], [10.0, 0.5], size=(5000, 2))
    scaler = PrivateScaler(GaussianDP(1e4), bounds=[(0, 100), (-10, 10)], limit=10.0)
    ours, theirs = scaler.fit(X), StandardScaler().fit(X)
    assert_allclose(ours.mean_, theirs.mean_, atol=1e-4)
    assert_allclose(ours.scale_, theirs.scale_, rtol=1e-4)
    assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-3)
    assert_allclose(ours.inverse_transform(ours.transform(X)), X)
    assert scaler.set_params(min_scale=0.5).fit(X).scale_[1] == 5.0


@pytest.mark.parametrize(
    ("bounds", "limit"), [((0, 1e308), 1e6), ((1e20, 1e20 + 2e5), 3.0), ((0, 1e-14), 3.0)]
)
def test_bounds_that_noise_could_undo_are_refused_before_any_is_drawn(bounds, limit, released):
    with pytest.raises(ValueError, match="too narrow for their size"):
        PrivateScaler(GOAL, bounds=bounds, limit=limit).fit(np.ones((3, 1)))
    assert not released


def test_equal_values_of_any_type_are_one_category():
    values = [1, 1.0, True, np.int64(1), np.float32(1.0)] * 100
    tables = [values, values[::-1]]
    for table in tables:
        X = pd.DataFrame({"a": pd.Series(table, dtype=object)})
        found = PrivateOneHotEncoder(GOAL).fit(X)
        assert found.categories_ == [[1]]
        assert type(found.categories_[0][0]) is int
        assert_array_equal(found.transform(X), [[1.0, 0.0]] * 500)


def test_order_of_records_does_not_show():
    values = [*(["b"] * 90), *(["a"] * 80), *([7] * 100), *([0.5] * 70)]
    found = PrivateOneHotEncoder(GOAL).fit(pd.DataFrame({"a": pd.Series(values, dtype=object)}))
    assert found.categories_ == [["a", "b"]]  # numbers count as others beside text
    found.fit(pd.DataFrame({"a": [*([7.0] * 90), *([0.5] * 90), "rare"]}, dtype=object))
    assert found.categories_ == [[0.5, 7]]
    assert list(found.get_feature_names_out())[-1] == "a_infrequent_sklearn"


@pytest.mark.parametrize("goal", [GaussianDP(1.0), GaussianDP(1.0, delta=0.5), EpsilonDelta(1, 0)])
def test_a_threshold_needs_a_delta(goal):
    with pytest.raises(ValueError, match="delta"):
        PrivateOneHotEncoder(goal).fit([["a"]])


@pytest.mark.parametrize("goal", [EpsilonDelta(1.0, 1e-6), GaussianDP(0.4, delta=1e-7)])
def test_one_step_keeps_its_own_goal(goal, patients):
    for step, columns in (
        (PrivateScaler(goal, bounds=BOUNDS, **PUBLIC), NUMBERS),
        (PrivateOneHotEncoder(goal, **PUBLIC), WORDS),
    ):
        step.fit(patients[columns])
        if isinstance(goal, GaussianDP):
            assert 0.999 * goal.mu < step.composed_mu_ <= goal.mu
            continue
        epsilon = gaussian_epsilon(step.composed_mu_, goal.delta - step.mu_delta_)
        assert 0.999 < epsilon <= 1.0


def test_a_pickle_holds_no_record(patients):
    patients.loc[7, "gene"] = "a secret nobody shares"
    public = {"categories_", "data_norm_", "mean_", "scale_", "noise_scale_", "threshold_"}
    public |= {"composed_mu_", "mu_delta_", "no_guarantee_because_", "_seeded"}
    public |= {"transformer_", "n_features_in_", "feature_names_in_"}
    for step, columns in (
        (PrivateScaler(GOAL, bounds=BOUNDS), NUMBERS),
        (PrivateOneHotEncoder(GOAL), WORDS),
    ):
        table = patients[columns]
        fitted = step.fit(table)
        assert b"secret" not in pickle.dumps(fitted)
        assert vars(fitted).keys() - fitted.get_params() <= public
        again = pickle.loads(pickle.dumps(fitted))
        assert_array_equal(again.transform(table), fitted.transform(table))
        assert "composed_mu_" not in vars(clone(fitted))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_of_both_libraries(patients, library):
    pl = pytest.importorskip("polars")
    for step, columns in (
        (PrivateScaler(GOAL, bounds=BOUNDS), NUMBERS),
        (PrivateOneHotEncoder(GOAL), WORDS),
    ):
        table = patients[columns]
        frame = table if library == "pandas" else pl.from_pandas(table)
        fitted = step.set_output(transform=library).fit(frame)
        rows = fitted.transform(frame)
        assert type(rows).__module__.split(".")[0] == library
        assert list(rows.columns) == list(fitted.get_feature_names_out())
        assert list(fitted.public_copy().transform(frame).columns) == list(rows.columns)


def test_tables_outside_memory_are_transformed_and_not_learned_from(patients):
    dask = pytest.importorskip("dask.array")
    X = dask.from_array(np.ones((10, 2)), chunks=(5, 2))
    scaler = PrivateScaler(GOAL, bounds=(0, 2))
    with pytest.raises(ValueError, match="reads all records, in memory"):
        scaler.fit(X)
    assert scaler.fit(np.ones((10, 2))).transform(X).compute().shape == (10, 2)


def test_every_fit_is_charged_before_noise_is_drawn(patients, released, tmp_path):
    ledger = LeakageLedger(tmp_path / "ledger.sqlite", max_epsilon=1.5, delta=1e-5)
    encoder = PrivateOneHotEncoder(GaussianDP(0.2, delta=1e-7), ledger=ledger, **PUBLIC)
    encoder.fit(patients[WORDS]).fit(patients[WORDS])
    total = ledger.total("default")
    assert total.n_releases == 2
    assert total.mu == pytest.approx(np.sqrt(2.0) * encoder.composed_mu_)
    assert total.mu_delta == pytest.approx(2e-7)
    n_drawn, before = len(released), vars(encoder).copy()
    with pytest.raises(LeakageBudgetError):
        encoder.set_params(goal=GaussianDP(1.0, delta=1e-7)).fit(patients[WORDS])
    assert len(released) == n_drawn
    assert {**vars(encoder), "goal": None} == {**before, "goal": None}
    scaler = PrivateScaler(GaussianDP(0.1), bounds=BOUNDS, random_state=0, **PUBLIC)
    with pytest.raises(LeakageBudgetError):  # noise that can be drawn again
        scaler.set_params(ledger=tmp_path / "ledger.sqlite").fit(patients[NUMBERS])


def test_a_ledger_whose_ceiling_is_the_goal_takes_all_parts_and_no_more(patients):
    ledger = LeakageLedger(":memory:", max_epsilon=1.0, delta=1e-6)
    scale, encode, fit = split_goal(EpsilonDelta(1.0, 1e-6), [0.2, 0.3, 0.5])
    scaler = PrivateScaler(scale, bounds=BOUNDS, ledger=ledger, **PUBLIC)
    encoder = PrivateOneHotEncoder(encode, ledger=ledger, **PUBLIC)
    model = _logistic(fit, mechanism="objective", alpha="auto", ledger=ledger)
    pipeline = _columns(scaler, encoder, model).fit(patients, _target(patients))
    stated = skleak.release(pipeline)[-1].provenance_["differential_privacy"]
    assert ledger.total("default").epsilon == pytest.approx(stated["epsilon"], rel=1e-6)
    with pytest.raises(LeakageBudgetError):
        encoder.fit(patients[WORDS])


MODELS = {
    "output": lambda goal: _logistic(goal),
    "objective": lambda goal: _logistic(goal, mechanism="objective", alpha="auto"),
    "little penalty": lambda goal: _logistic(goal, mechanism="objective", alpha=0.15 / goal.mu**2),
    "robust": lambda goal: PrivateLinearRegression(
        goal,
        mechanism=ObjectivePerturbation(huber=0.1),
        alpha="auto",
        data_norm=1.5,
        target_bound=1.0,
        fit_intercept=False,
        **PUBLIC,
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("goal", "shares"),
    [
        (EpsilonDelta(1.0, 1e-6), [0.05, 0.05, 0.9]),
        (EpsilonDelta(0.3, 1e-9), [0.2, 0.5, 0.3]),
        (EpsilonDelta(4.0, 1e-4), [0.4, 0.4, 0.2]),
        (GaussianDP(0.5, delta=1e-8), [0.1, 0.1, 0.8]),
    ],
)
def test_the_stated_total_keeps_the_goal(name, goal, shares, patients):
    scale, encode, fit = split_goal(goal, shares)
    scaler = PrivateScaler(scale, bounds=BOUNDS, **PUBLIC)
    steps = _columns(scaler, PrivateOneHotEncoder(encode, **PUBLIC), MODELS[name](fit))
    released = skleak.release(steps.fit(patients, _target(patients)), require_guarantee=True)
    stated = released[-1].provenance_["differential_privacy"]
    assert stated["about"] == "replacement of one row of the table that the pipeline received"
    assert 0.0 < stated["mu_delta"] <= 0.1 * stated["delta"]
    own = gaussian_epsilon(stated["composed_mu"], stated["delta"] - stated["mu_delta"])
    assert own == pytest.approx(stated["epsilon"], rel=1e-9)
    parts = [*stated["steps"].values(), steps[-1]._guarantee.composed_mu]
    assert np.linalg.norm(parts) <= stated["composed_mu"]
    if isinstance(goal, GaussianDP):
        assert 0.999 * goal.mu < stated["composed_mu"] <= goal.mu
    else:
        assert stated["delta"] == goal.delta
        assert 0.95 * goal.epsilon < stated["epsilon"] <= goal.epsilon


@pytest.mark.parametrize("fit", [GaussianDP(0.3), EpsilonDelta(1.0, 1e-5)])
def test_goals_that_were_not_split_add_up_too(fit, patients):
    stated = skleak.release(_fitted(patients, model=_logistic(fit)), require_guarantee=True)[-1]
    stated = stated.provenance_["differential_privacy"]
    assert stated["delta"] == 1e-6
    parts = [
        *stated["steps"].values(),
        _logistic(fit).fit(np.eye(2), [0, 1])._guarantee.composed_mu,
    ]
    assert np.linalg.norm(parts) < stated["composed_mu"] < np.linalg.norm(parts) + 1e-5


def test_a_total_is_stated_at_a_delta_that_thresholds_leave_something_of(patients):
    encoder = PrivateOneHotEncoder(GaussianDP(0.5, delta=1e-3), **PUBLIC)
    pipeline = make_pipeline(encoder, RowNormClipper(1.5), _logistic(GaussianDP(0.5)))
    pipeline.fit(patients[WORDS], _target(patients))
    stated = skleak.release(pipeline)[-1].provenance_["differential_privacy"]
    assert stated["delta"] == pytest.approx(2e-3)
    assert stated["epsilon"] == pytest.approx(gaussian_epsilon(np.sqrt(0.5), 1e-3), rel=1e-6)


@pytest.mark.parametrize("goal", [EpsilonDelta(1.0, 1e-6), EpsilonDelta(0.3, 1e-9)])
def test_moments_take_a_part_too(goal, patients):
    scale, fit = split_goal(goal, [0.3, 0.7])
    scaler = PrivateScaler(scale, bounds=BOUNDS, **PUBLIC).fit(patients[NUMBERS])
    moments = PrivateMoments(fit, data_norm=2.0, target_bound=1.0, clip=True)
    moments.fit(np.nan_to_num(scaler.transform(patients[NUMBERS])), _target(patients))
    own = moments.release(require_guarantee=True).differential_privacy
    mu = np.hypot(scaler.composed_mu_, own.composed_mu)
    assert 0.9 * goal.epsilon < gaussian_epsilon(mu, goal.delta) <= goal.epsilon


def test_a_release_predicts_like_the_pipeline(patients, tmp_path):
    pipeline = _fitted(patients)
    released = skleak.release(pipeline)
    for each in (
        released,
        skleak.from_json(released.to_json()),
        pickle.loads(pickle.dumps(released)),
    ):
        assert_array_equal(each.predict_proba(patients), pipeline.predict_proba(patients))
        assert "Private" not in repr(each).replace("privatel", "")
    assert released[-1].provenance_["fitted_steps"] == []
    assert "no_guarantee" in skleak.from_json(released.to_json())[-1].provenance_


def test_scikit_learns_own_transformers_do_alike(patients):
    for step, columns in (
        (PrivateScaler(GOAL, bounds=BOUNDS), NUMBERS),
        (PrivateOneHotEncoder(GaussianDP(5.0, delta=1e-3)), WORDS),
    ):
        fitted = step.fit(patients[columns])
        theirs = fitted.to_sklearn()
        assert type(theirs).__module__.startswith("sklearn")
        table = patients[columns].where(patients[columns].notna(), np.nan)
        assert_allclose(theirs.transform(table), fitted.transform(table), atol=1e-12)
        assert list(theirs.get_feature_names_out()) == list(fitted.get_feature_names_out())


def test_records_reach_the_raw_table_and_changed_steps_are_refused(patients):
    pipeline, y = _fitted(patients), _target(patients)
    released = skleak.release(pipeline, X=patients, y=y, require_guarantee=True)
    assert released[-1].provenance_["differential_privacy"]["about"].endswith("received")
    pipeline[0].named_transformers_["words"].fit(patients[WORDS])
    pipeline[0].named_transformers_["numbers"][0].fit(patients[NUMBERS])
    with pytest.raises(NoGuaranteeError, match="do not make of `X`"):
        skleak.release(pipeline, X=patients, y=y)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"random_state": 0}, "a seed or a generator"),
        ({"public": ()}, "number of records is not said to be public"),
    ],
)
def test_without_a_guarantee_of_a_step_there_is_none_of_all(options, reason, patients):
    pipeline = _fitted(patients, **options)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = skleak.release(pipeline)[-1].provenance_
    seeds = [each for each in told if issubclass(each.category, PrivacyLeakWarning)]
    assert len(seeds) == ("random_state" in options)
    assert made["differential_privacy"] is None
    assert reason in made["no_guarantee"]
    with pytest.raises(NoGuaranteeError, match=reason):
        skleak.release(pipeline, require_guarantee=True)


def test_a_model_without_a_guarantee_leaves_none(patients):
    for model, reason in (
        (_logistic(0.1, classes=None), "the classes were read off"),
        (PrivateLinearRegression(0.1), "squared loss"),
        (PrivateSGDClassifier(classes=[0, 1], max_steps=2), "not of a mu that adds up"),
    ):
        made = skleak.release(_fitted(patients, model=model))[-1].provenance_
        assert made["differential_privacy"] is None
        assert reason in made["no_guarantee"]


def _the_same(X):
    return X


def test_steps_that_mix_rows_or_learned_without_noise_leave_none(patients):
    mixing = FunctionTransformer(_the_same)
    pipeline = _fitted(patients, first=mixing)
    with pytest.raises(NoGuaranteeError, match="may mix them"):
        skleak.release(pipeline, require_guarantee=True)
    made = skleak.release(pipeline)[-1].provenance_
    assert "functiontransformer" in made["no_guarantee"]
    learned = make_pipeline(
        PrivateScaler(GOAL, bounds=BOUNDS, **PUBLIC),
        PublicImputer(0.0),
        StandardScaler(),
        RowNormClipper(1.5),
        _logistic(GOAL),
    ).fit(patients[NUMBERS], _target(patients))
    with pytest.raises(NoGuaranteeError, match="learned from the records"):
        skleak.release(learned)
    with pytest.warns(PrivacyLeakWarning, match="learned from the records"):
        made = skleak.release(learned, allow_fitted=True)[-1].provenance_
    assert "standardscaler" in made["no_guarantee"]
    again = make_pipeline(learned[0], learned[1], _logistic(GOAL).fit(np.eye(2), [0, 1]).release())
    assert "released before" in skleak.release(again)[-1].provenance_["no_guarantee"]


@pytest.mark.parametrize("sparse_output", [False, True])
def test_public_categories_may_have_a_column_of_others(sparse_output):
    X = pd.DataFrame({"gene": ["AA", "AB", "Z", None], "smoker": [1, None, 0, 5], "c": [None] * 4})
    encoder = PublicOneHotEncoder(
        [["AA", "AB", "other"], [0, 1], []], handle_unknown="other", sparse_output=sparse_output
    ).fit(X)
    expected = [
        [1, 0, 0, 0, 0, 1, 0, 1],
        [0, 1, 0, 0, 0, 0, 1, 1],
        [0, 0, 0, 1, 1, 0, 0, 1],
        [0, 0, 0, 1, 0, 0, 1, 1],
    ]
    for each in (encoder, encoder.public_copy(), encoder.to_sklearn()):
        rows = each.transform(X)
        assert_array_equal(rows.toarray() if sparse_output else rows, expected)
        assert list(each.get_feature_names_out()) == list(encoder.get_feature_names_out())
    assert encoder.get_feature_names_out()[-1] == "c_infrequent_sklearn"
    with pytest.warns(UserWarning, match="encoded as others"):
        encoder.fit(X.assign(gene="unknown"))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_what_kind_of_missing_a_number_is_does_not_matter(missing):
    table = pd.DataFrame({"age": [20, 40, missing, 60] * 10}, dtype=object)
    scaler = PrivateScaler(GaussianDP(1.0), bounds=(0, 80), public="n_samples").fit(table)
    assert np.isnan(scaler.transform(table)[2]).all()
    assert_array_equal(
        PublicScaler(bounds=[(0, 80)]).fit(table).transform(table)[:4, 0], [-0.5, 0.0, np.nan, 0.5]
    )
