"""Ways of training at equal cost, against fits at the stated noise and sums by hand."""

import dataclasses
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.accounting import LeakageLedger
from skleak.exceptions import UnevenLeakageWarning
from skleak.influence.leakage import leakage_model
from skleak.influence.noise import noise_root
from skleak.inspection import leakage_report, leakage_tradeoff
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxLeakage

WAYS = {
    "none": {},
    "irfil": {"reweighting": "irfil"},
    "total": {"reweighting": "total"},
    "curvature": {"noise_covariance": "curvature"},
    "minimax": {"noise_covariance": "minimax"},
}
MODELS = {
    "linear": PrivateLinearRegression(0.2, alpha=0.05, random_state=0),
    "logistic": PrivateLogisticRegression(0.2, alpha=0.05, random_state=0),
    "poisson": PrivatePoissonRegressor(0.2, alpha=0.05, random_state=0),
}


def _records(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 0.7, 1.3]
    y = X @ [1.0, -0.5, 0.3] + rng.normal(size=n)
    return X, y, rng.choice(["north", "south", "west"], n)


def _targets(kind, y):
    if kind == "logistic":
        return np.where(y > 0.3, "yes", "no")
    return np.random.default_rng(1).poisson(np.exp(0.5 * y)) if kind == "poisson" else y


@pytest.fixture(scope="module", params=MODELS)
def compared(request):
    X, y, groups = _records()
    model, y = MODELS[request.param], _targets(request.param, y)
    return model, X, y, groups, leakage_tradeoff(model, X, y, groups=groups, cv=2)


@pytest.fixture(scope="module")
def linear():
    X, y, groups = _records()
    model = MODELS["linear"]
    return model, X, y, groups, leakage_tradeoff(model, X, y, groups=groups, cv=2)


def _losses(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnevenLeakageWarning)
        return model.fisher_information_loss_


def test_numbers_are_those_of_fits_at_the_stated_noise_scales(compared):
    model, X, y, groups, found = compared
    assert list(found.ways_.index) == list(WAYS)
    for name, parameters in WAYS.items():
        row = found.ways_.loc[name]
        losses = _losses(
            clone(model).set_params(noise_scale=row["noise_scale"], **parameters).fit(X, y)
        )
        own = {
            "largest_loss": losses.max(),
            "quantile_loss": np.quantile(losses, 0.95),
            "mean_loss": losses.mean(),
            "spread": losses.std() / losses.mean(),
        }
        each = pd.Series(losses).groupby(groups)
        means = each.mean()
        own["group_ratio"] = means.max() / means.min()
        assert row[list(own)].to_dict() == pytest.approx(own, rel=1e-9)
        table = found.groups_.loc[name]
        for label in table.index:
            some = losses[groups == label]
            own = len(some), some.sum() / len(some), np.sqrt(some @ some / len(some)), some.max()
            assert table.loc[label].tolist() == pytest.approx(own, rel=1e-9)
        assert table["mean_loss"].to_numpy() == pytest.approx(means.to_numpy(), rel=1e-9)


def test_the_cost_is_the_mean_rise_of_the_plain_objective(compared):
    model, X, y, _, found = compared
    assert found.ways_["cost"].to_numpy() == pytest.approx(found.ways_["cost"]["none"])
    plain = clone(model).fit(X, y)._confidential_state()
    at, w = plain.objective.at, plain.factor.coefficients
    rng = np.random.default_rng(3)
    for name, parameters in WAYS.items():
        state = clone(model).set_params(**parameters).fit(X, y)._confidential_state()
        bias = at(state.factor.coefficients).value - at(w).value
        assert found.ways_.loc[name, "bias"] == pytest.approx(bias, rel=1e-9, abs=1e-15)
        # Small, so that the second order is all; half of the draws mirror the others.
        scale = 1e-3 * found.ways_.loc[name, "noise_scale"]
        moves = scale * rng.normal(size=(1000, len(w))) @ noise_root(state).T
        rises = [at(w + move).value - at(w).value for move in (*moves, *-moves)]
        expected = 1e-6 * found.ways_.loc[name, "cost"]
        assert np.mean(rises) == pytest.approx(expected, abs=4.0 * np.std(rises) / np.sqrt(1000))


def test_curves_have_the_largest_losses_whoever_is_looked_at(compared):
    found = compared[-1]
    for way in found._measured:
        for _, row in found.curves_[found.curves_["way"] == way.name].iterrows():
            state = way.state.at_noise(row["noise_scale"])
            losses = leakage_model(state).record_loss(way.batch)
            assert row["largest_loss"] == pytest.approx(losses.max(), rel=1e-9)
            assert way.largest(row["noise_scale"], at_once=4) == pytest.approx(
                losses.max(), rel=1e-9
            )


def test_fits_to_folds_are_those_from_scratch_and_measure_no_leakage(compared, monkeypatch):
    model, X, y, _, found = compared
    data, (train, _) = found._data, found._data.folds[0]

    def refuse(*_):
        raise AssertionError("nobody asked what this leaks")

    for way in found._measured:
        own = clone(model).set_params(**WAYS[way.name]).fit(X[train], y[train])
        with monkeypatch.context() as patch:
            patch.setattr("skleak.influence.leakage.leakage_model", refuse)
            patch.setattr("skleak.linear_model._measured.leakage_model", refuse)
            near = data.fit(way.estimator, train, way.state)
        coefficients = own._confidential_state().factor.coefficients
        found_near = near._confidential_state().factor.coefficients
        # A search ends at a spread of 1e-6, wherever it began.
        assert found_near == pytest.approx(coefficients, rel=1e-5, abs=2e-6)
        if way.name in ("irfil", "total"):
            assert near.n_reweighting_iter_ <= own.n_reweighting_iter_


def test_scores_are_those_of_releases_of_each_fold(linear):
    """Their mean over draws of a linear model has a closed form: R2 falls by the mean square."""
    model, X, y, _, _ = linear
    found = leakage_tradeoff(clone(model).set_params(random_state=None), X, y, cv=3)
    for name, parameters in WAYS.items():
        row, means = found.ways_.loc[name], []
        sizes = []
        for test in np.array_split(np.arange(len(y)), 3):
            train = np.setdiff1d(np.arange(len(y)), test)
            state = (
                clone(model).set_params(**parameters).fit(X[train], y[train])._confidential_state()
            )
            w, root = state.factor.coefficients, row["noise_scale"] * noise_root(state)
            X1 = np.column_stack([X[test], np.ones(len(test))])
            total = np.sum((y[test] - y[test].mean()) ** 2)
            rest = np.sum((y[test] - X1 @ w) ** 2) + np.sum((X1 @ root) ** 2)
            means.append(1.0 - rest / total)
            sizes.append(np.linalg.norm(root.T @ (X1.T @ X1) @ root) * np.sqrt(2.0) / total)
            sizes.append(2.0 * np.linalg.norm(root.T @ (X1.T @ (y[test] - X1 @ w))) / total)
        assert row["test_score"] == pytest.approx(np.mean(means), abs=np.linalg.norm(sizes))
        assert row["test_score_low"] < row["test_score"] < row["test_score_high"]


@pytest.mark.parametrize("ways", [["none"], ["total"], ["curvature"], ["minimax"]])
def test_a_chosen_way_keeps_its_limit_at_no_more_noise_than_needed(linear, ways):
    model, X, y, groups, whole = linear
    found = leakage_tradeoff(model, X, y, groups=groups, candidates=ways, cv=2)
    limit = 0.9 * whole.ways_["largest_loss"].min()
    choice = found.choose(max_loss=limit)
    losses = _losses(choice.estimator.fit(X, y))
    assert losses.max() <= limit * (1.0 + 1e-9)
    assert losses.max() == pytest.approx(limit, rel=1e-9)
    assert type(choice.noise_scale).__name__ == "CalibratedNoise"
    costs = found.ways_["cost"] / found.ways_["noise_scale"] ** 2
    own = costs[choice.way] * choice.noise_scale**2 + found.ways_.loc[choice.way, "bias"]
    for name in found.ways_.index.drop(choice.way):
        loss = found.ways_.loc[name, "largest_loss"]
        if name in ("none", "total"):  # losses go as 1 / noise
            scale = found.ways_.loc[name, "noise_scale"] * loss / limit
            assert own <= costs[name] * scale**2 + found.ways_.loc[name, "bias"]


def test_what_a_shape_tells_by_itself_is_a_floor(linear):
    model, X, y, groups, _ = linear
    found = leakage_tradeoff(model, X, y, groups=groups, candidates=["minimax"], cv=2)
    floor = found.ways_.loc["minimax", "floor"]
    far = clone(model).set_params(noise_scale=1e6, noise_covariance="minimax").fit(X, y)
    assert floor == pytest.approx(_losses(far).max(), rel=1e-6)
    choice = found.choose(max_loss=0.5 * floor)
    assert choice.way == "none"
    assert "covariance alone" in choice.refused["minimax"]
    alone = dataclasses.replace(found)
    vars(alone).update(_measured=found._measured[1:], _data=found._data)
    with pytest.raises(ValueError, match=re.escape(f"max_loss above {floor:.4g} by `minimax`")):
        alone.choose(max_loss=0.5 * floor)


def test_limits_of_gains_hold_for_everybody(linear):
    _, X, y, _, found = linear
    choice = found.choose(max_advantage=0.3)
    assert choice.way == "none"
    assert {"total", "curvature", "minimax"} <= set(choice.refused)
    report = choice.estimator.fit(X, y).leakage_report(exact=True)
    assert report.records["advantage_any_prior"].max() == pytest.approx(0.3, rel=1e-9)
    assert report.records["advantage_any_prior"].max() <= 0.3


def test_ratios_of_groups_are_kept_or_refused(linear):
    _, X, y, groups, found = linear
    ratios = found.ways_["group_ratio"]
    limit = float(np.sort(ratios)[1])
    choice = found.choose(group_ratio=limit, max_loss=float(found.ways_["largest_loss"].max()))
    means = pd.Series(_losses(choice.estimator.fit(X, y))).groupby(groups).mean()
    assert means.max() / means.min() <= limit * (1.0 + 1e-9)
    with pytest.raises(ValueError, match=r"The nearest that can be reached: group_ratio above 1\."):
        found.choose(group_ratio=1.0 + 1e-9)


def test_combined_limits_are_kept_by_refits(compared):
    _, X, y, groups, found = compared
    losses, ratios = found.ways_["largest_loss"], found.ways_["group_ratio"]
    for of_loss, of_ratio in ((0.9, 3.0), (1.5, 2.0), (4.0, 1.5)):
        limit, ratio = of_loss * losses.min(), 1.0 + of_ratio * (ratios.min() - 1.0)
        choice = found.choose(max_loss=limit, group_ratio=ratio)
        own = _losses(clone(choice.estimator).fit(X, y))
        means = [own[groups == label].mean() for label in np.unique(groups)]
        assert own.max() <= limit * (1.0 + 1e-9)
        assert max(means) / min(means) <= ratio * (1.0 + 1e-9)


def test_pipelines_with_groups_and_persons_by_column(patients):
    X, y = patients
    X = X.assign(ward=pd.Categorical(np.where(X["bmi"] > 26.0, "A", "B")))
    encoder = make_column_transformer(
        (StandardScaler(), ["age", "bmi"]), (OneHotEncoder(), ["ward", "sex"])
    )
    model = make_pipeline(encoder, PrivateLinearRegression(0.5, random_state=0))
    found = leakage_tradeoff(model, X, y, groups="ward", candidates=["minimax"], cv=2)
    fitted = clone(model).fit(X, y)
    own = pd.Series(fitted[-1].fisher_information_loss_).groupby(X["ward"].to_numpy()).max()
    assert found.groups_.loc["none", "largest_loss"].to_dict() == pytest.approx(own.to_dict())
    shuffled = X["ward"].sample(frac=1.0, random_state=0)
    again = leakage_tradeoff(model, X, y, groups=shuffled, candidates=["minimax"], cv=2)
    pd.testing.assert_frame_equal(again.groups_, found.groups_)
    choice = found.choose(max_advantage=0.4)
    told = leakage_report(choice.estimator.fit(X, y), X, y, records=slice(None)).records
    assert told["advantage_any_prior"].max() == pytest.approx(0.4, rel=1e-9)

    whose = np.repeat(np.arange(20), 3)
    people = leakage_tradeoff(model, X, y, groups="ward", persons=whose, cv=2)
    assert list(people.ways_.index) == ["none"]
    assert len(people.notes) == 4
    persons = clone(model).fit(X, y, privatelinearregression__persons=whose)
    losses = persons[-1].fisher_information_loss_
    assert people.settings["n_people"] == len(losses) == 20
    assert people.ways_.loc["none", "largest_loss"] == pytest.approx(losses.max())
    assert people.groups_.loc["none", "n_people"].sum() == 20
    for train, test in people._data.folds:
        assert not set(whose[train]) & set(whose[test])


def test_polars_frames_are_as_pandas(patients):
    polars = pytest.importorskip("polars")
    X, y = patients
    model = make_pipeline(StandardScaler(), PrivateLinearRegression(0.5, random_state=0))
    options = {"groups": "sex", "candidates": ["curvature"], "cv": 2}
    tables = [
        leakage_tradeoff(model, one, y, **options).ways_
        for one in (X.reset_index(drop=True), polars.from_pandas(X.reset_index(drop=True)))
    ]
    pd.testing.assert_frame_equal(*tables)


def test_what_does_not_apply_is_left_out_and_said():
    X, y, _ = _records()
    labels = np.digitize(y, [-0.5, 0.5])
    found = leakage_tradeoff(PrivateLogisticRegression(0.2, random_state=0), X, labels, cv=2)
    assert list(found.ways_.index) == ["none"]
    assert [note.split("`")[1] for note in found.notes] == list(WAYS)[1:]
    state = PrivateLogisticRegression(0.2).fit(X, labels)._confidential_state()
    at, w, step = state.objective.at, state.factor.coefficients, 1e-3
    ends = [at(w + sign * step * unit).value for unit in np.eye(len(w)) for sign in (-1.0, 1.0)]
    trace = np.sum(np.array(ends) - at(w).value) / step**2
    assert found.ways_.loc["none", "cost"] == pytest.approx(0.5 * 0.2**2 * trace, rel=1e-6)
    with pytest.raises(ValueError, match="binary"):
        leakage_tradeoff(PrivateLogisticRegression(0.2), X, labels, candidates=["curvature"], cv=2)


def test_candidates_of_ones_own_are_matched_in_the_same_objective(linear):
    model, X, y, _, whole = linear
    strong = clone(model).set_params(alpha=1.0, noise_scale=MaxLeakage(1.0))
    given = np.diag([1.0, 2.0, 3.0, 4.0])
    shaped = clone(model).set_params(noise_covariance=given)
    found = leakage_tradeoff(model, X, y, candidates={"strong": strong, "given": shaped}, cv=2)
    assert found.ways_.loc["strong", "noise_scale"] == pytest.approx(0.2)
    assert found.ways_.loc["strong", "bias"] > 0.0
    scale = found.ways_.loc["given", "noise_scale"]
    own = clone(shaped).set_params(noise_scale=scale).fit(X, y).fisher_information_loss_
    assert found.ways_.loc["given", "largest_loss"] == pytest.approx(own.max(), rel=1e-9)
    assert found.ways_.loc["none", "largest_loss"] == whole.ways_.loc["none", "largest_loss"]
    for other in (clone(model).set_params(fit_intercept=False), MODELS["poisson"]):
        with pytest.raises(ValueError, match="another loss, or other columns"):
            leakage_tradeoff(model, X, np.abs(y), candidates={"other": other}, cv=2)


def test_the_least_mean_at_equal_cost_is_least(linear):
    model, X, y, *_ = linear
    ways = ["none", "curvature", "minimax", "least_mean"]
    found = leakage_tradeoff(model, X, y, candidates=ways, cv=2)._measured
    squares = {}
    for way in found:
        measure = leakage_model(way.state.at_noise(way.noise_scale))
        terms = measure.terms(way.batch, [way.state.whole_record], "trace")
        mean = measure.record_loss(way.batch, norm="trace") if terms is None else terms.mean[:, 0]
        squares[way.name] = np.mean(np.square(mean))  # through the mean alone
    assert squares["least_mean"] <= min(squares.values()) * (1.0 + 1e-9)
    assert squares["least_mean"] < 0.999 * min(squares["none"], squares["curvature"])


def test_reports_figures_and_copies(linear, tmp_path):
    _, X, _, _, found = linear
    answer = str(found).split("\n\n")[1].replace("\n", " ")
    equal = found.ways_["bias"] <= found.ways_["cost"]  # else it is the noise alone that costs so
    best = found.ways_[equal]["largest_loss"].idxmin()
    assert answer.startswith(f"At equal cost `{best}` leaks least about the most")
    told = " ".join(found.findings)
    for name in found.ways_.index[
        ~equal & (found.ways_["largest_loss"] < found.ways_.loc[best, "largest_loss"])
    ]:
        assert f"`{name.capitalize()}` leaks less" in told or f"`{name}` leaks less" in told
    assert found.findings[0].split() == answer.split()
    page = found.to_html(tmp_path / "page.html")
    assert "<svg" in page
    assert all(f">{name}<" in page for name in WAYS)
    assert found._repr_html_()
    beside = "Beside, the mean loss of each group"
    alone = dataclasses.replace(found, groups_=found.groups_.iloc[:0])
    assert (beside in page, beside in alone.to_html()) == (True, False)
    rows = found.to_dict()["groups_"]
    assert {"way", "group", "mean_loss"} <= set(rows[0])
    assert found.to_json()
    lines = found.plot().ax_.get_lines()
    assert len(lines) == 2 * len(WAYS)
    best = found.pareto()
    for name, row in found.ways_.iterrows():
        above = found.ways_["test_score"] >= row["test_score"]
        below = found.ways_["largest_loss"] <= row["largest_loss"]
        assert (name in best.index) == ((above & below).sum() == 1)
    assert X[0].tobytes() not in pickle.dumps(found)
    copied = pickle.loads(pickle.dumps(found))
    assert str(copied) == str(found)
    with pytest.raises(ValueError, match="pickled or copied"):
        copied.choose(max_loss=1.0)


def test_no_ledger_is_charged_and_the_estimator_is_left_alone(tmp_path):
    X, y, _ = _records()
    ledger = LeakageLedger(tmp_path / "ledger.json")
    model = PrivateLinearRegression(0.2, ledger=ledger)
    before = (tmp_path / "ledger.json").read_bytes()
    leakage_tradeoff(model, X, y, candidates=["curvature"], cv=2)
    assert (tmp_path / "ledger.json").read_bytes() == before
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("changed", "options", "error", "match"),
    [
        ({"noise_scale": 0.0}, {}, ValueError, "number above 0"),
        ({"noise_scale": MaxLeakage(1.0)}, {}, ValueError, "number above 0"),
        ({}, {"candidates": "all"}, ValueError, "'default', a list"),
        ({}, {"candidates": ["even"]}, ValueError, "'default', a list"),
        ({}, {"candidates": {"none": MODELS["linear"]}}, ValueError, "always there"),
        ({}, {"candidates": {"scaler": StandardScaler()}}, TypeError, "private linear model"),
        ({}, {"groups": ["a"]}, ValueError, "one label per record"),
    ],
)
def test_errors_come_early(changed, options, error, match):
    X, y, _ = _records()
    with pytest.raises(error, match=match):
        leakage_tradeoff(clone(MODELS["linear"]).set_params(**changed), X, y, **options)


def test_limits_that_are_none_are_refused(linear):
    *_, found = linear
    for limits, match in (
        ({}, "no limit"),
        ({"max_loss": 0.0}, "max_loss=0.0` is not above 0"),
        ({"max_advantage": 1.0}, "not above 0 and below 1"),
        ({"group_ratio": 0.9}, "not above 1"),
    ):
        with pytest.raises(ValueError, match=match):
            found.choose(**limits)
    with pytest.raises(TypeError, match="private linear model"):
        leakage_tradeoff(StandardScaler(), *_records()[:2])


def test_sparse_records_and_generators():
    X, y, _ = _records()
    model = clone(MODELS["linear"]).set_params(random_state=np.random.default_rng(5))
    before = model.random_state.bit_generator.state
    options = {"candidates": ["total", "minimax"], "cv": 2}
    found = leakage_tradeoff(model, sparse.csr_array(X), y, **options)
    assert model.random_state.bit_generator.state == before
    dense = leakage_tradeoff(MODELS["linear"], X, y, **options)
    losses = found.ways_["largest_loss"].to_numpy()
    assert losses == pytest.approx(dense.ways_["largest_loss"].to_numpy(), rel=1e-9)
    counts = clone(MODELS["poisson"]).set_params(noise_scale=1e4)
    far = leakage_tradeoff(counts, X, _targets("poisson", y), candidates=[], cv=2)
    assert far.ways_.loc["none", "test_score"] == -np.inf


@pytest.mark.slow
@pytest.mark.data
def test_the_order_of_ways_at_equal_cost_on_warfarin(iwpc):
    X, y = iwpc
    model = PrivateLinearRegression(0.01, alpha=0.01, fit_intercept=False, random_state=0)
    found = leakage_tradeoff(model, X, y, candidates=["total", "curvature", "minimax"], cv=2)
    largest = found.ways_["largest_loss"].round(2).to_dict()
    assert largest == {"none": 13.12, "total": 1.22, "curvature": 2.55, "minimax": 1.85}
    # The weights cost many times what this noise does: a limit is kept for less by a shape.
    assert found.ways_.loc["total", "bias"] > 20.0 * found.ways_.loc["total", "cost"]
    assert found.choose(max_loss=1.5).way == "minimax"
