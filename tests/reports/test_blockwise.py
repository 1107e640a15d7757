"""Reports of records outside memory say what those of the same records in memory say."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skleak.influence.state import partial_state
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.report.reports import plain

dask = pytest.importorskip("dask")
array = pytest.importorskip("dask.array")
frames = pytest.importorskip("dask.dataframe")

N = 60
CHUNKS = {"one row": (1,) * N, "ragged": (7, 1, 30, 22), "one block": (N,)}


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(list(b"records of reports outside memory"))
    table = {
        "age": rng.normal(50.0, 9.0, size=N),
        "sex": rng.integers(0, 2, size=N),
        "ward": rng.integers(0, 4, size=N),
        "rare": np.arange(N) == 17,
    }
    names = [f"person {k}" for k in rng.permutation(N)]
    return pd.DataFrame(table, index=names).astype(float)


@pytest.fixture(scope="module")
def predictor(X):
    rng = np.random.default_rng(list(b"targets of reports outside memory"))
    linear = 0.05 * (X["age"] - 50.0) + X["sex"] - 0.5 * X["ward"] + 2.0 * X["rare"]
    return linear.to_numpy() + rng.normal(size=N)


def _targets(kind, predictor):
    if kind is PrivateLogisticRegression:
        return predictor > 0.0
    return np.round(np.exp(0.3 * predictor)) if kind is PrivatePoissonRegressor else predictor


def _lazy(values, chunks):
    values = np.asarray(values)
    return array.from_array(values, chunks=(chunks, *((size,) for size in values.shape[1:])))


def _both(model, X, y, chunks, sample_weight=None, groups=None, features=None):
    """The report in memory, and that of the same records in chunks."""
    table = X.to_numpy()
    held = model.fit(table, y, sample_weight=sample_weight)
    expected = held.leakage_report(groups=groups, features=features)
    weights = None if sample_weight is None else _lazy(sample_weight, chunks)
    fitted = model.fit(_lazy(table, chunks), _lazy(y, chunks), sample_weight=weights)
    labels = None if groups is None else _lazy(groups, chunks)
    return expected, fitted.leakage_report(groups=labels, features=features)


def _assert_same_numbers(found, expected):
    assert list(found) == list(expected)
    for name, value in expected.items():
        if name in ("carriers", "individual_privacy"):
            continue
        if isinstance(value, dict):
            assert_allclose(list(found[name].values()), list(value.values()), rtol=1e-9)
        elif isinstance(value, float):
            assert_allclose(found[name], value, rtol=1e-9, err_msg=name)
        else:
            assert found[name] == value, name


def _assert_same_tables(found, expected):
    options = {"check_dtype": False, "check_index_type": False, "rtol": 1e-8, "atol": 1e-10}
    for name in ("features", "groups", "carriers"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(expected, name), **options)
    taking = expected.records[expected.records["sample_weight"] > 0.0]
    order = np.argsort(-taking["fisher_information_loss"].to_numpy(), kind="stable")
    columns = [*taking.columns[:4], "advantage_any_prior", "most_telling"]
    worst = taking.iloc[order[:10]]
    pd.testing.assert_frame_equal(found.records[columns], worst[columns], **options)


def _assert_same_facts(found, expected):
    for name, value in expected.facts.items():
        if name == "conditions":
            continue
        # Distances of fits with and without a record are solved for.
        rtol = 1e-5 if name == "membership" else 1e-8
        assert plain(found.facts[name]) == approx(plain(value), rtol), name


def approx(value, rtol):
    """Values that are the same but for rounding, in dicts and lists as well."""
    if isinstance(value, dict):
        return {name: approx(each, rtol) for name, each in value.items()}
    if isinstance(value, list):
        return [approx(each, rtol) for each in value]
    return pytest.approx(value, rel=rtol, abs=1e-10) if isinstance(value, float) else value


def _assert_same(found, expected):
    _assert_same_numbers(found.dataset, expected.dataset)
    _assert_same_tables(found, expected)
    _assert_same_facts(found, expected)
    assert found.findings[0] == expected.findings[0]
    assert found.differential_privacy == expected.differential_privacy


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(sizes, marks=pytest.mark.slow if name == "one row" else (), id=name)
        for name, sizes in CHUNKS.items()
    ],
)
def test_the_squared_loss(X, predictor, chunks):
    model = PrivateLinearRegression(noise_scale=0.05)
    groups = np.where(X["sex"] > 0.0, "women", "men")
    expected, found = _both(model, X, predictor, chunks, groups=groups)
    _assert_same(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivatePoissonRegressor])
def test_other_losses_with_weights(X, predictor, kind):
    weights = np.random.default_rng(3).integers(0, 3, size=N).astype(float)
    model = kind(noise_scale=0.05, alpha=0.1, private_target=kind is PrivateLogisticRegression)
    y, groups = _targets(kind, predictor), np.where(X["age"] > 50.0, "old", "young")
    expected, found = _both(model, X, y, CHUNKS["ragged"], weights, groups)
    _assert_same(found, expected)


@pytest.mark.slow
def test_several_classes_and_blocks_of_columns(X, predictor):
    model = PrivateLogisticRegression(noise_scale=0.05, alpha=0.1)
    y = np.digitize(predictor, np.quantile(predictor, [0.3, 0.6]))
    features = [[0, 1], 2, 3]
    expected, found = _both(model, X, y, (30, 30), features=features)
    _assert_same(found, expected)


@pytest.mark.slow
def test_the_logistic_loss(X, predictor):
    model = PrivateLogisticRegression(noise_scale=0.05, alpha=1.0)
    expected, found = _both(model, X[["sex", "rare"]][:20], predictor[:20] > 0.0, (9, 11))
    _assert_same(found, expected)


@pytest.mark.slow
def test_no_noise_and_no_convergence(X, predictor):
    for model in (
        PrivateLinearRegression(noise_scale=0.0),
        PrivateLogisticRegression(noise_scale=0.1, max_iter=1, alpha=0.1),
    ):
        y = _targets(type(model), predictor)
        with pytest.warns() if model.max_iter == 1 else _nothing():
            expected, found = _both(model, X, y, CHUNKS["ragged"])
        _assert_same_numbers(found.dataset, expected.dataset)
        assert found.facts["state"] == expected.facts["state"] != "known"


def _nothing():
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.slow
def test_a_reweighted_fit_says_that_distances_are_estimates(X, predictor):
    model = PrivateLinearRegression(noise_scale=0.05, alpha=0.1, reweighting="irfil")
    expected, found = _both(model, X[["age", "sex"]], predictor, (30, 30))
    plain = ("plain_max_loss", "plain_mean_loss", "plain_spread")
    several = "mean_loss", "max_loss", "median_loss", "joint_loss", "conditional_max_loss"
    for name in (*several, *plain):
        assert_allclose(found.dataset[name], expected.dataset[name], rtol=1e-5)
    assert not found.features["exact"].any()
    assert found.features["note"].str.contains("first order").all()
    assert not found.facts["most"]["exact"]


@pytest.mark.slow
def test_reports_on_other_records(X, predictor):
    """Wherever these and those of the fit lie: two of them were trained on, two are new."""
    table, y = X.to_numpy(), predictor.copy()
    model = PrivateLinearRegression(noise_scale=0.05)
    rows = np.vstack([table[:2], table[2:4] + 1.0])
    expected = model.fit(table, y).leakage_report(rows, y[:4])
    lazy = _lazy(rows, (3, 1)), _lazy(y[:4], (3, 1))
    reports = [model.leakage_report(*lazy)]
    model.fit(_lazy(table, CHUNKS["ragged"]), _lazy(y, CHUNKS["ragged"]))
    reports += [model.leakage_report(*lazy), model.leakage_report(rows, y[:4])]
    for found in reports:
        assert found.dataset["n_records"] == 4
        for name in ("mean_loss", "max_loss", "joint_loss"):
            assert_allclose(found.dataset[name], expected.dataset[name], rtol=1e-9)
        pd.testing.assert_series_equal(
            found.features["distance"], expected.features["distance"], rtol=1e-8
        )


@pytest.fixture
def report(X, predictor):
    frame = frames.from_pandas(X, npartitions=3, sort=False)
    y = frames.from_pandas(pd.Series(predictor, index=X.index), npartitions=3, sort=False)
    model = PrivateLinearRegression(noise_scale=0.05).fit(frame, y)
    return model.leakage_report(groups=frame["sex"])


def test_records_of_frames_go_by_their_labels(X, predictor, report):
    model = PrivateLinearRegression(noise_scale=0.05).fit(X, predictor)
    expected = model.leakage_report(groups=X["sex"])
    assert report.dataset["most_exposed_records"] == expected.dataset["most_exposed_records"]
    assert_array_equal(report.features.index, expected.features.index)
    assert report.carriers["record"].tolist() == expected.carriers["record"].tolist()
    assert report.records.index.name == "record"


def test_every_form_of_the_report(report):
    text, html, data = report.to_text(full=True), report.to_html(), json.loads(report.to_json())
    for said in (text, html):
        assert report.facts["most"]["record"] in said
        assert "outside memory" in said
    assert "<svg" in html
    assert len(data["records"]) == 10
    assert data["dataset"]["quantile_error"] == 0.0
    assert report.plot(ax=None).figure_ is not None
    with pytest.raises(ValueError, match="too many"):
        report.person(report.records.index[0])


def test_the_groups_are_drawn_from_the_summaries(report):
    from skleak.plotting import LeakageDisplay

    display = LeakageDisplay.from_report(report)
    assert display.counts.sum() == N
    assert display.plot(kind="groups").ax_.get_xlabel()


def test_nothing_that_reads_the_records_travels_with_the_report(X, report):
    """Attack: look for records, or for a way to them, in the pickle of the report."""
    pickled = pickle.dumps(report)
    for word in (b"dask", b"FitState", b"_state", b"parquet"):
        assert word not in pickled
    table = X.to_numpy()
    held = np.concatenate([np.ravel(v) for v in _numbers(pickle.loads(pickled))])
    assert not np.isin(table[:, 0], held).any()


def _numbers(thing):
    """All numbers in an object, however deep."""
    if isinstance(thing, np.ndarray):
        yield thing.astype(float) if thing.dtype.kind in "fiu" else np.empty(0)
    elif isinstance(thing, pd.DataFrame):
        for name in thing:
            yield from _numbers(thing[name].to_numpy())
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _numbers(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from _numbers(value)
    elif hasattr(thing, "__dict__"):
        yield from _numbers(vars(thing))
    elif isinstance(thing, float):
        yield np.array([thing])


@pytest.mark.slow
def test_what_reaches_this_process_does_not_grow_with_the_records(monkeypatch):
    """Attack: many records, whose summaries would show in what the passes return."""
    from skleak.utils import _blocks as _dask

    sizes = []
    run = _dask.run_pass

    def measured(*given, **more):
        found = run(*given, **more)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(_dask, "run_pass", measured)
    largest = {}
    for n in (20_000, 80_000):
        rng = np.random.default_rng(0)
        table = rng.normal(size=(n, 2))
        chunks = (n // 4,) * 4
        y = table @ [1.0, 2.0] + rng.normal(size=n)
        model = PrivateLinearRegression(noise_scale=0.05)
        report = model.fit(_lazy(table, chunks), _lazy(y, chunks)).leakage_report()
        assert 0.0 <= report.dataset["quantile_error"] < 1e-3
        exact = np.median(model.fit(table, y).fisher_information_loss_)
        assert report.dataset["median_loss"] == pytest.approx(
            exact, rel=max(report.dataset["quantile_error"], 1e-12)
        )
        largest[n] = max(sizes)
        sizes.clear()
    assert largest[80_000] <= 1.3 * largest[20_000] < 3e6


def test_some_records_of_a_fit_answer_for_all(X, predictor):
    model = PrivateLogisticRegression(noise_scale=1.0, alpha=0.1).fit(X, predictor > 0.0)
    state, rows = model._state, np.array([3, 17, 40])
    part = partial_state(state, rows, state.training.take(rows))
    at = np.random.default_rng(0).normal(size=(3, 5))
    w = state.factor.coefficients
    whole = state.objective.gradient_changes(w, at, rows)
    assert_allclose(part.objective.gradient_changes(w, at, np.arange(3)), whole, rtol=1e-12)
    assert (part.objective.total, part.objective.n_records) == (state.objective.total, N)
    x = np.zeros(4)
    for k, row in enumerate(rows.tolist()):
        changed = part.objective.with_record(k, x, 1.0)
        assert_array_equal(changed.X, state.objective.with_record(row, x, 1.0).X)
