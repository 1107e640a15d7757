"""Audits of records outside memory: the numbers that an audit in memory has."""

import json
import os
import signal
from functools import partial
from pathlib import Path

import cloudpickle
import dask
import dask.array as da
import joblib
import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.audit import LeakageAuditor, MembershipAuditor, _auditors, _run
from skleak.audit.games._game import Outside
from skleak.audit.games._trials import play_drawn
from skleak.audit.games.attribute import _game
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.metrics import mean_interval
from skleak.preprocessing import BlockwiseTransformer
from skleak.utils._confidential import to_own_workers

frames = pytest.importorskip("dask.dataframe")
polars = pytest.importorskip("polars")
pytest.importorskip("pyarrow")

N = 60
ATTACKS = ["prior", "imputation", "white_box"]
MODEL = PrivateLogisticRegression(0.05, alpha=0.02)


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def table(rng):
    frame = pd.DataFrame({"ward": rng.choice(["A", "B", "C"], size=N)})
    frame["sex"] = rng.integers(0, 2, size=N)
    frame["age"] = rng.normal(size=N)
    frame["w"] = rng.integers(1, 4, size=N).astype(float)
    score = frame["age"] + frame["sex"] + rng.logistic(size=N)
    return frame.assign(dose=(score > 0.0).astype(int))


@pytest.fixture
def parquet(table, tmp_path, monkeypatch):
    """The table in a file of several blocks; without text, and with it."""
    monkeypatch.setattr("skleak.utils.sources.BLOCK_ELEMENTS", 80)
    paths = tmp_path / "numbers.parquet", tmp_path / "all.parquet"
    table.drop(columns="ward").to_parquet(paths[0], row_group_size=13)
    table.to_parquet(paths[1], row_group_size=13)
    return paths


def auditor(estimator=MODEL, attribute="sex", **options):
    given = {"attacks": ATTACKS, "noise_scales": 0.1, "n_releases": 20, "bounds": "bayes"}
    return LeakageAuditor(estimator, attribute, random_state=3, **given | options)


def in_memory(table, **options):
    X = table[["sex", "age"]]
    return auditor(**options).fit(X, table["dose"], sample_weight=table["w"])


def expect_same(found, expected):
    for name in ("results_", "records_"):
        one, other = getattr(found, name), getattr(expected, name)
        pd.testing.assert_frame_equal(one, other, rtol=1e-9, check_dtype=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_slow(["path", "polars", "frame", "array"], 0))
def test_tables_are_those_of_memory(kind, table, parquet):
    options = {}
    if kind == "path":
        options = {"records": [50, 3, 4, 31, 7], "noise_scales": [0.02, 0.3], "bounds": "all"}
    if kind == "array":
        arrays = [da.from_array(table[c].to_numpy(), chunks=17) for c in ("dose", "w")]
        X = da.from_array(table[["sex", "age"]].to_numpy(), chunks=(13, 1))
        found = auditor(attribute=0).fit(X, arrays[0], sample_weight=arrays[1])
        raw = table[["sex", "age"]].to_numpy(), table["dose"].to_numpy()
        expected = auditor(attribute=0).fit(*raw, sample_weight=table["w"])
    else:
        X = {
            "path": lambda: parquet[0],
            "polars": lambda: polars.scan_parquet(parquet[0]),
            "frame": lambda: frames.from_pandas(table.drop(columns="ward"), npartitions=4),
        }[kind]()
        found = auditor(**options).fit(X, y="dose", sample_weight="w")
        expected = in_memory(table, **options)
    expect_same(found, expected)
    assert found.n_features_in_ == 2
    assert found.report_.settings["n_records"] == N
    assert not found.report_.settings["sampled"]
    assert found.report_.checks["passed"].all()


TARGETS = {
    "softmax": (MODEL, lambda z: np.array(["no", "some", "much"])[np.digitize(z, [0.0, 1.5])]),
    "labels": (MODEL, lambda z: np.where(z > 0.0, "yes", "no")),
    "poisson": (PrivatePoissonRegressor(0.05, alpha=0.02), lambda z: np.round(np.exp(0.3 * z))),
    "shape": (PrivateLinearRegression(0.05, noise_covariance=np.diag([1.0, 2.0, 3.0])), abs),
    "bare": (PrivateLinearRegression(0.05, fit_intercept=False), np.sin),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_slow(list(TARGETS)))
def test_losses_and_noise_are_those_of_memory(kind, table, parquet):
    model, target = TARGETS[kind]
    z = table["age"] + table["sex"] + np.cos(7.0 * np.arange(N))
    table = table.assign(dose=target(z)).drop(columns="ward")
    table.to_parquet(parquet[0], row_group_size=13)
    options = {"estimator": model, "records": slice(0, 12)}
    expected = in_memory(table, **options)
    for jobs in (1, 2) if kind == "labels" else (1,):
        found = auditor(n_jobs=jobs, **options).fit(parquet[0], "dose", sample_weight="w")
        expect_same(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("prior", mostly_slow(["uniform", "conditional", [0.3, 0.7]], 1))
def test_priors_are_those_of_memory(prior, table, parquet):
    options = {"prior": prior, "records": slice(5, 25)}
    expect_same(
        auditor(**options).fit(parquet[0], "dose", sample_weight="w"), in_memory(table, **options)
    )


@pytest.mark.slow
@pytest.mark.parametrize("attribute", mostly_slow(["ward", "sex"], 1))
def test_a_pipeline_whose_blocks_are_encoded_as_they_are_read(attribute, table, parquet):
    raw = table[["ward", "sex", "age"]]
    encoder = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    encoder.fit(raw)
    model = PrivateLinearRegression(0.05, alpha=0.01)
    large = make_pipeline(BlockwiseTransformer(encoder, keep=["w"]), model)
    small = make_pipeline(BlockwiseTransformer(encoder), model)
    options = {"attribute": attribute, "records": slice(0, 12)}
    found = auditor(large, **options).fit(parquet[1], "dose", sample_weight="w")
    expect_same(found, auditor(small, **options).fit(raw, table["dose"], sample_weight=table["w"]))


@pytest.mark.slow
def test_more_than_memory_holds_is_refused_with_what_fits(parquet, monkeypatch):
    monkeypatch.setattr(_game, "_MOST_ELEMENTS", 20 * 20)
    with pytest.raises(AttackNotApplicableError, match="Name at most 20 `records`"):
        auditor(records=slice(0, 21)).fit(parquet[0], "dose", sample_weight="w")
    found = auditor().fit(parquet[0], "dose", sample_weight="w")
    assert (found.report_.settings["n_targets"], found.report_.settings["sampled"]) == (20, True)


def test_what_is_refused_counts_rows_and_parameters(parquet, monkeypatch):
    """Raw, encoded with every value, and the parameters that follow, in noise units as well."""
    held, encode, prepare = [], _game.closed_form_encodings, _game.OutsideGame.prepare

    def encoded(part, persons, tables):
        points = encode(part, persons, tables)
        # Raw rows have as many columns here.
        held.extend([points.size, 2 * tables[0].size, *(each.size for each in tables)])
        return points

    def prepared(game, entropy):
        prepare(game, entropy)
        held.append(game._places.size)

    monkeypatch.setattr(_game, "closed_form_encodings", encoded)
    monkeypatch.setattr(_game.OutsideGame, "prepare", prepared)
    some = auditor(records=slice(0, 10))
    some.fit(parquet[0], "dose", sample_weight="w")
    monkeypatch.setattr(_game, "_MOST_ELEMENTS", sum(held) - 1)
    with pytest.raises(AttackNotApplicableError, match="Name at most 9 `records`"):
        some.fit(parquet[0], "dose", sample_weight="w")


@pytest.mark.slow
def test_a_random_sample_is_told_first_and_its_intervals_are_of_all(parquet, table, monkeypatch):
    monkeypatch.setattr(_game, "_MOST", 24)
    found = auditor(n_releases=50).fit(parquet[0], "dose", sample_weight="w")
    report, whole = found.report_, in_memory(table, n_releases=50)
    assert report.settings["sampled"]
    assert report.settings["n_targets"] == 24
    assert "of 24 people sampled" in report.findings[0]
    for text in (report.to_text(full=True), report.to_html()):
        assert "drawn at random" in text
    assert json.loads(report.to_json())["settings"]["sampled"]
    rows, of_all = found.results_, whole.results_
    own = np.sqrt(rows["success"] * (1.0 - rows["success"]) / rows["n_games"])
    assert np.all(rows["success_high"] - rows["success_low"] > 2.0 * 1.96 * own)
    assert np.all(rows["bound_limit"] >= of_all["bayes"])
    assert np.all(rows["n_bounded"] == 24)
    assert len(set(found.records_["record"]) - set(range(24))) > 0


@pytest.mark.slow
def test_a_category_that_a_partition_does_not_know_is_told(table):
    """It would be read as a missing value, and encoded as one."""
    parts = [table.iloc[:30].assign(sex="a"), table.iloc[30:].assign(sex="b")]
    columns = ["sex", "age", "dose"]
    parts = [part[columns].astype({"sex": "category"}) for part in parts]
    X = frames.from_map(
        lambda k: parts[k], range(2), meta=parts[0].iloc[:0], enforce_metadata=False
    )
    encoder = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    encoder.fit(table[columns[:2]].assign(sex=np.where(table["sex"] > 0, "a", "b")))
    model = make_pipeline(BlockwiseTransformer(encoder), MODEL)
    with pytest.raises(ValueError, match="categories"):
        auditor(model, records=slice(0, 10)).fit(X, "dose")


@pytest.mark.slow
def test_intervals_of_samples_hold_for_all_records(rng):
    """Samples of records of which some are told and others not: the mean of all is covered."""
    chances = np.where(np.arange(2000) < 300, 1.0, 0.5)
    missed = 0
    for _ in range(200):
        own = rng.choice(chances, 100, replace=False)
        shares = rng.binomial(40, own) / 40.0
        low, high = mean_interval(shares, confidence_level=0.95, value_range=(0.0, 1.0))[1:]
        missed += not low <= chances.mean() <= high
    assert missed <= 22  # 10 expected at most; beyond 22 with probability below 1e-3


@pytest.mark.slow
def test_carriers_are_found_as_in_memory(table, tmp_path):
    table = pd.concat([table.drop(columns="ward")] * 5, ignore_index=True)
    table["age"] += np.linspace(0.0, 1.0, len(table))
    table["sex"] = (np.arange(len(table)) % 12 == 0).astype(int)
    table.to_parquet(tmp_path / "more.parquet", row_group_size=70)
    options = {"n_releases": 10, "noise_scales": [0.001, 0.1]}
    found = auditor(**options).fit(tmp_path / "more.parquet", "dose", sample_weight="w")
    expected = in_memory(table, **options)
    assert expected.results_["tpr_at_1pct_fpr"].notna().all()
    expect_same(found, expected)


@pytest.mark.slow
def test_imputation_learns_from_a_sample(parquet, monkeypatch):
    monkeypatch.setattr(_game, "_LEARNT", 30)
    found = auditor().fit(parquet[0], "dose", sample_weight="w")
    assert found.report_.settings["utility_data"] == "a random sample of the training records"
    assert found.results_["imputation"].between(0.0, 1.0).all()


@pytest.mark.slow
def test_a_checkpoint_keeps_what_is_encoded(table, parquet, tmp_path, monkeypatch):
    some = {"records": slice(0, 30)}
    expected = auditor(**some).fit(parquet[0], "dose", sample_weight="w")
    path, encode = tmp_path / "audit.npz", _game.closed_form_encodings

    def broken(*args):
        encode(*args)
        raise RuntimeError("down")

    monkeypatch.setattr(_run, "SHARE_OF_TIME", np.inf)
    monkeypatch.setattr(_game, "closed_form_encodings", broken)
    with pytest.raises(RuntimeError, match="down"):
        auditor(checkpoint=path, **some).fit(parquet[0], "dose", sample_weight="w")
    with np.load(path) as kept:
        assert any(name.startswith("parts:encodings") for name in kept.files)
    monkeypatch.setattr(_game, "closed_form_encodings", encode)
    found = auditor(checkpoint=path, **some).fit(parquet[0], "dose", sample_weight="w")
    expect_same(found, expected)
    table.assign(age=-table["age"]).drop(columns="ward").to_parquet(parquet[0], row_group_size=13)
    with pytest.raises(ValueError, match="data"):
        auditor(checkpoint=path, **some).fit(parquet[0], "dose", sample_weight="w")


@pytest.mark.slow
def test_a_cell_of_a_game_holds_no_row(table, parquet, monkeypatch):
    """Only parameters, and what is known of the attacked column."""
    cells = {}
    monkeypatch.setattr(_auditors, "play", lambda game, *_, **__: cells.update(game.cells()))
    with pytest.raises((KeyError, AttributeError)):
        auditor().fit(parquet[0], "dose", sample_weight="w")
    played = {
        key: cell for key, cell in cells.items() if not key.endswith(("utility", "noiseless"))
    }
    assert len(played) == 4
    for _, arguments in played.values():
        with to_own_workers():
            raw = cloudpickle.dumps(arguments)
        assert not any(value.tobytes() in raw for value in table["age"].to_numpy())


def test_rows_come_in_the_order_that_is_asked(table, parquet):
    records = Outside.open(parquet[0], "dose", "w", "sex")
    assert len(records) == N
    positions = np.array([59, 0, 14, 13, 0])
    rows = records.at(positions)
    assert_allclose(rows.table["age"], table["age"].to_numpy()[positions])
    assert_allclose(rows.y, table["dose"].to_numpy()[positions])
    assert_allclose(rows.sample_weight, table["w"].to_numpy()[positions])


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"attribute": None}, "Whole records are reconstructed in memory"),
        ({"attribute": "age"}, "is a quantity, which is audited in memory"),
        ({"attribute": "(target)"}, "The target of the model is audited in memory"),
        ({"secrets": "actual"}, "secrets='drawn'"),
        ({"refit_preprocessing": True}, "takes all of them in memory"),
        ({"estimator": LogisticRegression()}, "private estimators"),
        ({"estimator": PrivateLogisticRegression(reweighting="irfil")}, "reweighting"),
        ({"estimator": PrivateLogisticRegression(noise_covariance="curvature")}, "of its own"),
        ({"attacks": [LogisticRegression()]}, "attack of your own"),
    ],
)
def test_what_is_not_played_outside_memory_is_refused(given, match, parquet):
    with pytest.raises(AttackNotApplicableError, match=match):
        auditor(**given).fit(parquet[0], "dose", sample_weight="w")


def test_other_errors(table, parquet, tmp_path):
    with pytest.raises(ValueError, match="must be 'default' or name some of"):
        auditor(attacks="black_box").fit(parquet[0], "dose")
    with pytest.raises(AttackNotApplicableError, match="membership audit trains"):
        MembershipAuditor(MODEL).fit(parquet[0], "dose")
    with pytest.raises(TypeError, match="`X_test` of this audit must be in memory"):
        auditor().fit(parquet[0], "dose", parquet[0], "dose")
    with pytest.raises(ValueError, match="needs `y`"):
        auditor().fit(parquet[0], None)
    with pytest.raises(ValueError, match="does not contain"):
        auditor(values=[1, 2]).fit(parquet[0], "dose", sample_weight="w")
    gaps = table.assign(sex=table["sex"].where(table.index > 2)).drop(columns="ward")
    gaps.to_parquet(tmp_path / "gaps.parquet")
    with pytest.raises(ValueError, match="3 missing values of 60"):
        auditor().fit(tmp_path / "gaps.parquet", "dose", sample_weight="w")


@pytest.fixture
def client():
    from distributed import Client, LocalCluster

    options = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        dask.config.set(scheduler=None),
        LocalCluster(n_workers=2, **options) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


def kill_once(armed):
    """Kill this process, if that is armed."""
    if Path(armed).exists():
        Path(armed).unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def deadly_part(armed, path, partition):
    """A partition of a file; one of them kills its worker."""
    if partition == 2:
        kill_once(armed)
    return pd.read_parquet(path).iloc[partition * 15 : partition * 15 + 15]


def deadly_play(armed, *given):
    """The games of an attack; in the midst of them the worker of one is killed."""
    found = play_drawn(*given)
    kill_once(armed)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["path", "frame"])
def test_a_worker_killed_during_an_audit(kind, client, table, parquet, tmp_path, monkeypatch):
    expected = auditor().fit(parquet[0], "dose", sample_weight="w")
    armed, X, step = tmp_path / "armed", parquet[0], (_auditors, "play")
    if kind == "path":
        monkeypatch.setattr(_game, "play_drawn", partial(deadly_play, str(armed)))
    else:
        read = partial(deadly_part, str(armed), str(parquet[0]))
        X = frames.from_map(read, range(4), meta=table.drop(columns="ward").iloc[:0])
        step = (_game.OutsideGame, "_know_outside")
    own, killed = getattr(*step), []

    def arm(*args, **options):
        armed.write_text("")
        found = own(*args, **options)
        killed.append(not armed.exists())
        return found

    monkeypatch.setattr(*step, arm)
    before = set(client.run(os.getpid).values())
    with joblib.parallel_config(backend="dask"):
        found = auditor().fit(X, y="dose", sample_weight="w")
    assert killed == [True]
    client.wait_for_workers(2)
    assert len(set(client.run(os.getpid).values()) - before) == 1
    expect_same(found, expected)
