"""Leakage by group: means, and intervals of differences and ratios that hold together."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.inspection import LeakageFrame, leakage_report
from skleak.inspection.scoring import _differences, _ratios
from skleak.linear_model import PrivateLinearRegression
from skleak.metrics import mean_interval


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(4)
    n = 40
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["age", "bmi", "smoker"])
    X["smoker"] = (X["bmi"] + rng.normal(size=n) > 0.0).astype(float)
    X.index = [f"p{k}" for k in rng.permutation(n)]
    y = X @ [1.0, -2.0, 1.5] + rng.normal(size=n)
    return X, y, rng.choice(["north", "south", "west"], n)


def test_means_and_intervals_are_those_of_the_groups(people):
    _, y, groups = people
    gain = np.abs(np.tanh(y))
    frame = LeakageFrame({"loss": y**2, "gain": gain}, groups, bounded=("gain",))
    for label, row in frame.by_group.iterrows():
        own = groups == label
        assert row["n_records"] == own.sum()
        for name, values, unit in (("loss", y**2, None), ("gain", gain, (0.0, 1.0))):
            found = mean_interval(values[own], value_range=unit)
            ends = [row[name], row[f"{name}_low"], row[f"{name}_high"]]
            assert ends == pytest.approx(list(found))
    assert frame.overall["n_records"] == len(y)
    assert frame.overall["loss"] == pytest.approx(np.mean(y**2))
    means = frame.by_group["loss"]
    assert frame.difference().loc["loss", "difference"] == pytest.approx(means.max() - means.min())
    assert frame.ratio().loc["loss", "ratio"] == pytest.approx(means.min() / means.max())
    away = (means - frame.overall["loss"]).abs().max()
    assert frame.difference("to_overall").loc["loss", "difference"] == pytest.approx(away)
    over = means / frame.overall["loss"]
    least = min(over.min(), (1.0 / over).min())
    assert frame.ratio("to_overall").loc["loss", "ratio"] == pytest.approx(least)


def test_the_ends_are_the_most_that_means_within_their_intervals_give():
    """The attack: try all means within the intervals, on a grid with the ends."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        ends = np.sort(rng.uniform(0.1, 1.0, size=(3, 3)), axis=1)
        intervals = [(mean, low, high) for low, mean, high in ends]
        pairs = [(a, b) for k, a in enumerate(intervals) for b in intervals[k + 1 :]]
        grids = [np.r_[np.linspace(low, high, 9), mean] for mean, low, high in intervals]
        tried = np.array(list(product(*grids)))
        apart = tried.max(axis=1) - tried.min(axis=1)
        estimate, low, high = _differences(pairs)
        assert low - 1e-12 <= apart.min()
        assert apart.max() == pytest.approx(high)
        means = ends[:, 1]
        assert estimate == pytest.approx(means.max() - means.min())
        over = tried.min(axis=1) / tried.max(axis=1)
        estimate, low, high = _ratios(pairs)
        assert over.min() == pytest.approx(low)
        assert over.max() <= high + 1e-12
        assert estimate == pytest.approx(means.min() / means.max())


@pytest.mark.slow
def test_intervals_hold_as_often_as_stated():
    """Groups of normal losses with known means: misses are at most as rare as stated."""
    rng, n_trials = np.random.default_rng(3), 100
    truth = np.array([1.0, 1.2, 1.5])
    groups = np.repeat(["a", "b", "c"], 20)
    misses = np.zeros(4)
    for _ in range(n_trials):
        loss = np.repeat(truth, 20) + 0.3 * rng.normal(size=60)
        frame = LeakageFrame({"loss": loss}, groups, confidence_level=0.9)
        row, true = frame.difference().loc["loss"], 0.5
        misses[0] += not row["low"] <= true <= row["high"]
        row, true = frame.ratio().loc["loss"], 1.0 / 1.5
        misses[1] += not row["low"] <= true <= row["high"]
        row, true = frame.difference("to_overall").loc["loss"], 1.5 - truth.mean()
        misses[2] += not row["low"] <= true <= row["high"]
        own = frame.by_group
        inside = (own["loss_low"] <= truth) & (truth <= own["loss_high"])
        misses[3] += not inside.iloc[0]
    # 99.99 % of what a binomial of a tenth gives.
    assert np.all(misses <= 0.1 * n_trials + 4.0 * np.sqrt(0.09 * n_trials))


def test_equal_groups_are_fair_and_lone_ones_unknown():
    frame = LeakageFrame({"loss": [1.0, 2.0, 1.0, 2.0]}, ["a", "a", "b", "b"])
    assert frame.difference().loc["loss", "difference"] == 0.0
    assert frame.difference().loc["loss", "low"] == 0.0
    assert frame.ratio().loc["loss", ["ratio", "high"]].tolist() == [1.0, 1.0]
    lone = LeakageFrame({"loss": [1.0, 2.0, 3.0]}, ["a", "a", "b"])
    assert lone.by_group.loc["b", ["loss_low", "loss_high"]].tolist() == [-np.inf, np.inf]
    assert lone.difference().loc["loss", ["low", "high"]].tolist() == [0.0, np.inf]
    assert lone.ratio().loc["loss", ["low", "high"]].tolist() == [0.0, 1.0]
    one = LeakageFrame({"loss": [1.0, 2.0]}, ["a", "a"])
    assert one.difference().loc["loss"].tolist() == [0.0, 0.0, 0.0]
    assert one.ratio().loc["loss"].tolist() == [1.0, 1.0, 1.0]
    nothing = LeakageFrame({"loss": [0.0, 0.0]}, ["a", "b"])
    assert nothing.ratio().isna().all(axis=None)
    negative = LeakageFrame({"advantage": [-0.1, 0.2]}, ["a", "b"])
    assert negative.ratio().isna().all(axis=None)


def test_groups_may_be_of_several_columns(people):
    X, y, groups = people
    frame = LeakageFrame({"loss": y**2}, {"place": groups, "smoker": X["smoker"]})
    table = pd.DataFrame({"place": groups, "smoker": X["smoker"].to_numpy()})
    means = (y**2).groupby([table["place"].to_numpy(), table["smoker"].to_numpy()]).mean()
    assert frame.by_group["loss"].to_dict() == pytest.approx(means.to_dict())
    assert frame.by_group.index.names == ["place", "smoker"]


def test_it_is_made_from_an_estimator(people):
    X, y, groups = people
    weights = np.r_[np.zeros(5), np.ones(35)]
    model = PrivateLinearRegression(0.5, random_state=0).fit(X, y, sample_weight=weights)
    frame = LeakageFrame.from_estimator(model, groups)
    loss = model.fisher_information_loss_[5:]
    name = "fisher_information_loss"
    means = pd.Series(loss).groupby(groups[5:]).mean()
    assert frame.by_group[name].to_dict() == pytest.approx(means.to_dict())
    one = LeakageFrame.from_estimator(model, pd.Series(groups, name="place"), columns="bmi")
    own = model.fisher_information_loss(features=["bmi"])[5:]
    assert one.overall[name] == pytest.approx(own.mean())
    assert one.by_group.index.name == "place"
    with pytest.raises(ValueError, match="infinite for 35 of 35"):
        LeakageFrame.from_estimator(
            PrivateLinearRegression(0.0).fit(X, y, sample_weight=weights), groups
        )


def test_it_is_made_from_a_leakage_report(people):
    X, y, groups = people
    report = PrivateLinearRegression(0.5, random_state=0).fit(X, y).leakage_report(groups=groups)
    frame = LeakageFrame.from_report(report)
    name = "fisher_information_loss"
    assert frame.by_group[name].to_dict() == pytest.approx(report.groups["mean_loss"].to_dict())
    name = "advantage_any_prior"
    gain = report.records[name].groupby(groups).mean()
    assert frame.by_group[name].to_dict() == pytest.approx(gain.to_dict())
    assert frame.by_group[f"{name}_high"].max() <= 1.0
    by_label = pd.Series(groups, index=X.index).sample(frac=1.0, random_state=0)
    again = LeakageFrame.from_report(report, by_label)
    assert again.by_group.equals(frame.by_group.rename_axis(again.by_group.index.name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    mostly_slow(["categorical", "numeric", "membership"], 0),
)
def test_it_is_made_from_an_audit(people, kind):
    X, y, groups = (part[:16] for part in people)
    model = PrivateLinearRegression(0.5, alpha=0.1)
    made = {"noise_scales": [0.1, 2.0], "n_releases": 2, "random_state": 0}
    auditor = {
        "categorical": lambda: LeakageAuditor(model, "smoker", **made),
        "numeric": lambda: LeakageAuditor(model, "bmi", **made),
        "membership": lambda: MembershipAuditor(model, secrets="drawn", **made),
    }[kind]()
    report = auditor.fit(X, y).report_
    frame = LeakageFrame.from_report(report, groups, noise_scale=2.0)
    assert frame.overall["n_records"] == len(X)
    at = report.records[report.records["noise_scale"] == 2.0]
    assert frame.overall["exposure"] == pytest.approx(at["exposure"].mean(), abs=1e-8)
    by_label = pd.Series(groups, index=X.index)
    again = LeakageFrame.from_report(report, by_label.iloc[::-1], noise_scale=2.0)
    assert again.difference().equals(frame.difference())
    strong = LeakageFrame.from_report(report, groups)  # at the smaller, the middle one
    assert strong.overall["exposure"] > frame.overall["exposure"]
    with pytest.raises(ValueError, match=r"audited, of \[0\.1, 2\.0\]; got 3"):
        LeakageFrame.from_report(report, groups, noise_scale=3.0)


def test_bad_input_is_told(people):
    X, y, groups = people
    report = PrivateLinearRegression(0.5, random_state=0).fit(X, y).leakage_report()
    with pytest.raises(ValueError, match="was made without"):
        LeakageFrame.from_report(report)
    with pytest.raises(ValueError, match="no label for 10 of 40 records"):
        LeakageFrame.from_report(report, pd.Series(groups, index=X.index).iloc[10:])
    with pytest.raises(ValueError, match="holds a label more than once"):
        LeakageFrame.from_report(report, pd.Series(groups, index=["p1"] * 40))
    with pytest.raises(ValueError, match=r"expected 40, .* got shape \(3,\)"):
        LeakageFrame({"loss": y}, ["a", "b", "c"])
    with pytest.raises(ValueError, match="1 missing labels"):
        LeakageFrame({"loss": [1.0, 2.0]}, ["a", None])
    for groups in (["a", np.nan], {"ward": ["a", np.nan], "sex": ["f", "m"]}):
        with pytest.raises(ValueError, match="1 missing labels"):
            LeakageFrame({"loss": [1.0, 2.0]}, groups)
    with pytest.raises(ValueError, match="infinite for 1 of 2 records"):
        LeakageFrame({"loss": [1.0, np.inf]}, ["a", "b"])
    with pytest.raises(ValueError, match="must not hold NaN"):
        LeakageFrame({"loss": [1.0, np.nan]}, ["a", "b"])
    with pytest.raises(ValueError, match="one number per record each"):
        LeakageFrame({"loss": [1.0, 2.0], "gain": [1.0]}, ["a", "b"])
    with pytest.raises(TypeError, match="must be a mapping"):
        LeakageFrame([1.0, 2.0], ["a", "b"])
    frame = LeakageFrame({"loss": [1.0, 2.0]}, ["a", "b"])
    for call in (frame.difference, frame.ratio):
        with pytest.raises(ValueError, match="`method` must be"):
            call("between")


@pytest.mark.slow
def test_intervals_of_skewed_losses_hold_as_often_as_is_said():
    """In 84% of samples of ten, at 95%: 4,000 samples tell it to within 2.4 percentage points."""
    rng = np.random.default_rng(0)
    frame = LeakageFrame({"loss": rng.lognormal(size=40_000)}, np.repeat(np.arange(4_000), 10))
    low, high = (frame.by_group[f"loss_{end}"] for end in ("low", "high"))
    held = np.mean((low <= np.exp(0.5)) & (np.exp(0.5) <= high))
    assert abs(held - 0.84) < 0.024


@pytest.fixture(scope="module")
def wards():
    """People of two wards of whom one leaks far more, after a split, and behind a scaler."""
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.normal(size=(120, 3)), columns=["age", "bmi", "sugar"])
    ward = pd.Series(np.where(rng.random(120) < 0.5, "a", "b"), name="ward")
    X[ward == "b"] *= 4.0
    y = X["age"] - X["bmi"] + rng.normal(size=120)
    train = rng.permutation(120)[:80]
    return X.iloc[train], y.iloc[train], ward


@pytest.mark.slow
def test_a_label_that_was_made_up_is_nobodys(wards):
    """The attack: the labels 0 to 79 of a report are found in a table of 120, as other people."""
    X, y, ward = wards
    array = StandardScaler().fit_transform(X)
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.5)).fit(X, y)
    positional = {
        "array": PrivateLinearRegression(0.5).fit(array, y.to_numpy()),
        "pipeline": pipeline[-1],
        "reset": PrivateLinearRegression(0.5).fit(X.reset_index(drop=True), y.to_numpy()),
    }
    own = ward.loc[X.index]
    for model in positional.values():
        report = model.leakage_report()
        right = LeakageFrame.from_report(report, own.to_numpy()).ratio().iloc[0, 0]
        loss = report.records["fisher_information_loss"]
        means = loss.groupby(own.to_numpy()).mean()
        assert right == pytest.approx(means.min() / means.max())
        for groups in (ward, own, own.sample(frac=1.0, random_state=0)):
            for ask in (
                lambda g, report=report: LeakageFrame.from_report(report, g),
                lambda g, model=model: LeakageFrame.from_estimator(model, g),
                lambda g, model=model: model.leakage_report(groups=g),
                lambda g, model=model: model.fisher_information_loss(per="group", groups=g),
            ):
                with pytest.raises(ValueError, match="known by their positions"):
                    ask(groups)
        in_order = own.reset_index(drop=True)
        assert LeakageFrame.from_report(report, in_order).ratio().iloc[0, 0] == right
        assert LeakageFrame.from_estimator(model, in_order).ratio().iloc[0, 0] == right


@pytest.mark.slow
def test_labels_of_the_table_find_their_people(wards):
    """With labels of its own a report takes those of the whole table, in any order."""
    X, y, ward = wards
    model = PrivateLinearRegression(0.5).fit(X, y)
    own, shuffled = ward.loc[X.index], ward.sample(frac=1.0, random_state=0)
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.5)).fit(X, y)
    raw = leakage_report(pipeline, X, y, records=range(0, 80, 7))
    for report in (model.leakage_report(), raw):
        labels = own.loc[report.records.index].to_numpy()
        right = LeakageFrame.from_report(report, labels).by_group
        for groups in (ward, own, shuffled):
            assert LeakageFrame.from_report(report, groups).by_group.equals(right)
    table = model.leakage_report(groups=own.to_numpy()).groups
    assert model.leakage_report(groups=shuffled).groups.equals(table)
    found = leakage_report(pipeline, X, y, "age", groups=shuffled).records["group"]
    assert found.tolist() == own.tolist()
    frame = LeakageFrame.from_estimator(model, shuffled)
    assert frame.by_group.equals(LeakageFrame.from_estimator(model, own.to_numpy()).by_group)
    # A measure that is a Series has labels as well.
    loss = pd.Series(model.fisher_information_loss_, index=X.index)
    assert LeakageFrame({"loss": loss}, shuffled).ratio().iloc[0, 0] == pytest.approx(
        frame.ratio().iloc[0, 0]
    )
    with pytest.raises(ValueError, match="different indexes"):
        LeakageFrame({"loss": loss, "other": loss.iloc[::-1]}, ward)


@pytest.mark.slow
def test_an_audit_of_some_records_takes_the_groups_of_all(wards):
    X, y, ward = wards
    made = {"noise_scales": [1.0], "secrets": "drawn", "n_releases": 2, "random_state": 0}
    rows = slice(10, 40)
    own = ward.loc[X.index]
    with_labels = MembershipAuditor(PrivateLinearRegression(), records=rows, **made).fit(X, y)
    bare = clone(with_labels).fit(X.to_numpy(), y.to_numpy())
    right = LeakageFrame.from_report(with_labels.report_, own.to_numpy()).by_group
    assert right["n_records"].sum() == 30
    assert LeakageFrame.from_report(with_labels.report_, ward).by_group.equals(right)
    assert LeakageFrame.from_report(bare.report_, own.to_numpy()).by_group.equals(right)
    for groups in (own, ward):
        with pytest.raises(ValueError, match="known by their positions"):
            LeakageFrame.from_report(bare.report_, groups)


@pytest.mark.slow
def test_a_report_of_columns_without_names_says_whom_to_ask(wards):
    X, y, _ = wards
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.5)).fit(X, y)
    direct = PrivateLinearRegression(0.5).fit(X, y).leakage_report()
    for report in (pipeline[-1].leakage_report(), leakage_report(pipeline, X, y), direct):
        asks = "skleak.inspection.leakage_report" in " ".join(report.findings)
        assert asks == (report is not direct and not report.dataset["raw_columns"])


STATISTICS = {"mean": "mean", "worst": "max", "largest": "largest", "tail": 0.95, "spread": np.std}


def _by_hand(values, *labels):
    """The same statistics by pandas, as fairlearn's MetricFrame takes them by group."""
    by = pd.Series(np.asarray(values)).groupby([np.asarray(one) for one in labels])
    spread = by.agg(lambda own: np.std(own.to_numpy()))
    made = [by.mean(), by.max(), by.max(), by.quantile(0.95), spread]
    return pd.concat(dict(zip(STATISTICS, made, strict=True)), axis=1)


def test_statistics_are_those_by_hand(people):
    X, y, groups = people
    loss, level = (y**2).to_numpy(), np.where(X["age"] > 0.0, "old", "young")
    frame = LeakageFrame({"loss": loss}, groups, statistics=STATISTICS)
    keys = [f"loss_{name}" for name in STATISTICS]
    own = _by_hand(loss, groups).set_axis(keys, axis=1)
    np.testing.assert_allclose(frame.by_group[keys], own, rtol=1e-12)
    np.testing.assert_allclose(frame.group_max(), own.max(), rtol=1e-12)
    np.testing.assert_allclose(frame.group_min(), own.min(), rtol=1e-12)
    np.testing.assert_allclose(frame.difference()["difference"], own.max() - own.min(), rtol=1e-12)
    np.testing.assert_allclose(frame.ratio()["ratio"], own.min() / own.max(), rtol=1e-12)
    whole = _by_hand(loss, np.zeros(40)).iloc[0]
    np.testing.assert_allclose(frame.overall[keys], whole, rtol=1e-12)
    away = (own - frame.overall[keys]).abs().max()
    found = frame.difference("to_overall")
    np.testing.assert_allclose(found["difference"], away, rtol=1e-12)
    # Of means alone something is said about others of the group.
    assert found["low"].notna().tolist() == [True, False, False, False, False]
    plain = LeakageFrame({"loss": loss}, groups)
    assert found.loc["loss_mean"].tolist() == plain.difference("to_overall").loc["loss"].tolist()

    frame = LeakageFrame({"loss": loss}, groups, statistics=STATISTICS, control=level)
    both = _by_hand(loss, level, groups).set_axis(keys, axis=1)
    assert frame.by_group.index.names == ["control", "group"]
    assert frame.by_group.index.tolist() == both.index.tolist()
    np.testing.assert_allclose(frame.by_group[keys], both, rtol=1e-12)
    within = both.groupby(level=0)
    np.testing.assert_allclose(frame.group_max(), within.max(), rtol=1e-12)
    np.testing.assert_allclose(frame.group_min(), within.min(), rtol=1e-12)
    whole = _by_hand(loss, level).set_axis(keys, axis=1)
    np.testing.assert_allclose(frame.overall[keys], whole, rtol=1e-12)
    apart = frame.difference()["difference"].unstack()[keys]
    np.testing.assert_allclose(apart, within.max() - within.min(), rtol=1e-12)
    over = frame.ratio("to_overall")["ratio"].unstack()[keys]
    parts = both.div(whole.reindex(both.index, level=0))
    least = np.minimum(parts, 1.0 / parts).groupby(level=0).min()
    np.testing.assert_allclose(over, least, rtol=1e-12)


def test_intervals_hold_over_all_levels_together(people):
    """Means of all groups in all levels lie within their intervals at once (Bonferroni)."""
    X, y, groups = people
    loss, level = (y**2).to_numpy(), np.where(X["age"] > 0.0, "old", "young")
    frame = LeakageFrame({"loss": loss}, groups, control=level)
    share = 0.05 / len(frame.by_group)
    for name, row in frame.difference().groupby(level=0):
        own = [loss[(level == name) & (groups == group)] for group in np.unique(groups)]
        means = [mean_interval(one, confidence_level=1.0 - share) for one in own]
        high = max(a.high - b.low for a in means for b in means if a is not b)
        assert row["high"].item() == pytest.approx(high, rel=1e-12)


def test_levels_of_several_columns_and_labels_without_an_order(people):
    """The attack: labels of several types, which cannot be sorted, mix up groups and levels."""
    X, y, groups = people
    loss, mixed = (y**2).to_numpy(), np.where(groups == "west", 1, groups.astype(object))
    control = {"smoker": X["smoker"].to_numpy(), "old": (X["age"] > 0.0).to_numpy()}
    frame = LeakageFrame({"loss": loss}, mixed, control=control)
    assert frame.by_group.index.names == ["smoker", "old", "group"]
    levels = list(control.values())
    for (smoker, old, group), row in frame.by_group.iterrows():
        own = (levels[0] == smoker) & (levels[1] == old) & (mixed == group)
        assert row["loss"] == pytest.approx(loss[own].mean(), rel=1e-12)
    away = frame.difference("to_overall")["difference"]
    for (smoker, old), whole in frame.overall.iterrows():
        inside = (levels[0] == smoker) & (levels[1] == old)
        assert whole["loss"] == pytest.approx(loss[inside].mean(), rel=1e-12)
        means = frame.by_group.loc[(smoker, old), "loss"]
        largest = (means - whole["loss"]).abs().max()
        assert away.loc[(smoker, old, "loss")] == pytest.approx(largest, rel=1e-12)


def test_a_column_of_the_model_is_the_array_of_it(people):
    X, y, _ = people
    model = PrivateLinearRegression(0.5, random_state=0).fit(X, y)
    weights = np.r_[np.zeros(5), np.ones(35)]
    weighted = PrivateLinearRegression(0.5, random_state=0).fit(X, y, sample_weight=weights)
    for fitted in (model, weighted, FrozenEstimator(model)):
        named = LeakageFrame.from_estimator(fitted, "smoker", control="smoker")
        smoker = X["smoker"].to_numpy()
        array = LeakageFrame.from_estimator(
            fitted, pd.Series(smoker, name="smoker"), control=pd.Series(smoker, name="smoker")
        )
        assert named.by_group.equals(array.by_group)
        assert named.overall.equals(array.overall)
    place = X.columns.get_loc("smoker")
    by_place = LeakageFrame.from_estimator(model, place).by_group
    assert by_place.equals(LeakageFrame.from_estimator(model, "smoker").by_group)
    with pytest.raises(ValueError, match=r"`control` names the unknown column 'smokers'.*'smoker'"):
        LeakageFrame.from_estimator(model, "smoker", control="smokers")
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.5)).fit(X, y)
    with pytest.raises(ValueError, match=r"rows with it are not at hand. Pass its values, `X\['sm"):
        LeakageFrame.from_estimator(pipeline, "smoker")
    with pytest.raises(ValueError, match=r"`control` names the column 'smoker'"):
        LeakageFrame({"loss": y.to_numpy()}, X["smoker"].to_numpy(), control="smoker")


@pytest.mark.slow
def test_a_report_has_levels_too(people):
    X, y, groups = people
    weights = np.r_[np.zeros(5), np.ones(35)]
    model = PrivateLinearRegression(0.5, random_state=0).fit(X, y, sample_weight=weights)
    level = np.where(X["age"] > 0.0, "old", "young")
    report = model.leakage_report(groups=groups)
    how = {"statistics": ["mean", "max"], "control": pd.Series(level, index=X.index)}
    frame = LeakageFrame.from_report(report, **how)
    name = "fisher_information_loss"
    own = _by_hand(model.fisher_information_loss_[5:], level[5:], groups[5:])
    np.testing.assert_allclose(frame.by_group[f"{name}_max"], own["worst"], rtol=1e-12)
    direct = LeakageFrame.from_estimator(model, groups, **how).by_group
    np.testing.assert_allclose(frame.by_group[direct.columns], direct, rtol=1e-12)


def test_it_is_shown_and_drawn(people):
    X, y, groups = people
    frame = LeakageFrame({"loss": y**2}, groups, control=X["smoker"], statistics=["mean", "max"])
    assert repr(frame).startswith("Leakage of 40 records in 6 groups within 2 levels\n")
    assert repr(frame.by_group) in repr(frame)
    for measure in ("loss_mean", "loss_max"):
        ax = frame.plot(measure=measure)
        dots, ticks = ax.get_lines()
        np.testing.assert_array_equal(dots.get_xdata(), frame.by_group[measure])
        whole = frame.overall[measure].repeat(3)
        np.testing.assert_array_equal(ticks.get_xdata(), whole)
        labels = [text.get_text() for text in ax.get_yticklabels()]
        assert labels[0] == f"0.0, north ({frame.by_group['n_records'].iloc[0]})"
    lone = LeakageFrame({"loss": [1.0, 2.0, 3.0]}, ["a", "a", "b"])
    ax = lone.plot(lone.plot())
    assert len(ax.collections[0].get_segments()) == 1
    assert repr(lone).startswith("Leakage of 3 records in 2 groups\n")
    with pytest.raises(ValueError, match="`measure` must name some of 'loss'"):
        lone.plot(measure="max")


def test_statistics_that_are_none_are_told():
    for wrong in ("least", 1.5, 2, None, ["mean", 0.0]):
        with pytest.raises(
            ValueError, match='`statistics` must be "mean", "max", "largest", a quan'
        ):
            LeakageFrame({"loss": [1.0, 2.0]}, ["a", "b"], statistics=wrong)
    for wrong in ([], {}, [lambda x: 1.0, lambda x: 2.0], ["max", "max"]):
        with pytest.raises(ValueError, match="each of a name of its own"):
            LeakageFrame({"loss": [1.0, 2.0]}, ["a", "b"], statistics=wrong)
    for wrong in (np.sort, lambda losses: np.nan):
        with pytest.raises(ValueError, match="'loss' must be one number; got"):
            LeakageFrame({"loss": [1.0, 2.0]}, ["a", "b"], statistics=wrong)
