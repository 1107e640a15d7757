"""A noise scale that follows the records is published: audits play it, count it, and say so."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy.stats import binom, norm

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.audit.games._levels import PublishedScale, in_one_channel
from skleak.audit.tables._membership import scale_odds
from skleak.channels import GaussianChannel
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.mechanisms import GaussianDP, MaxLeakage, NoiseGoal
from skleak.mechanisms.calibration import ladder_rung
from skleak.utils._confidential import CalibratedNoise
from skleak.utils._records import Persons

GOAL = MaxLeakage(0.5)


@pytest.fixture
def outlier(rng):
    """Records of which one decides the noise that all need."""
    X = rng.normal(size=(24, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=24)
    y[0] += 60.0
    return X, y


def lead(auditor):
    """Return what a report says first, before any table."""
    document = auditor.report_._document(figures=False)
    return f"{document.summary} {document.rest}"


def _model(goal=GOAL, **parameters):
    return PrivateLinearRegression(goal, **{"alpha": 0.05, "private_target": False} | parameters)


def _row(auditor, attack):
    return auditor.results_.set_index("attack").loc[attack]


def test_the_scale_with_and_without_each_record_is_that_of_a_fit(outlier):
    X, y = outlier
    scale = PublishedScale.of(_model(), GOAL, X, y, None)
    rows, targets = np.arange(2, 24), np.array([0, 5, 17])
    expected = []
    for target in targets:
        other = np.setxor1d(rows, [target])
        expected.append(_model().fit(X[other], y[other]).noise_scale_)
    np.testing.assert_array_equal(scale.without(rows, Persons.single(targets)), expected)
    assert len(set(expected)) > 1  # the outlier needs more noise


@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"]))
def test_membership_that_the_scale_decides_is_within_the_bound(outlier, secrets):
    """The attack: who sees the released scale alone knows whether the outlier is there."""
    X, y = outlier
    n = 40 if secrets == "actual" else 100
    auditor = MembershipAuditor(_model(), n_releases=n, secrets=secrets, random_state=0)
    records = auditor.fit(X, y).records_.set_index("record")
    own = records.loc[0]
    # All games about the outlier are won; a bound below that would be refuted.
    assert own["success_exact"] == 1.0
    if secrets == "actual":
        # Who sees nothing but the scale has to learn first what it is with and without.
        games = int(own["n_games"])
        assert binom.sf(round(games * own["success_scale"]) - 1, games, 0.5) < 1e-4
    assert own["bayes"] == own["bayes_tpr_at_1pct_fpr"] == 1.0
    assert own["distance"] == np.inf
    for _, row in auditor.results_.iterrows():
        assert row["verdict"] in ("consistent with the bound", "bound vacuous")
    assert not auditor.results_.get("dp", pd.Series(dtype=float)).notna().any()
    # Of a public scale the same audit says less about the same record.
    fixed = _model(float(auditor.results_["noise_scale"].iloc[0]))
    known = MembershipAuditor(fixed, n_releases=n, secrets=secrets, random_state=0).fit(X, y)
    assert known.records_.set_index("record").loc[0, "bayes"] < 1.0 - 1e-6
    first = lead(auditor)
    assert "The noise scale follows the records (MaxLeakage" in first
    assert "attackers see it, and the bounds count it" in first
    assert "noise scale follows" not in lead(known)


@pytest.mark.slow
def test_releases_have_the_scale_of_their_own_members(outlier):
    X, y = outlier
    seen = []

    class Reads:
        def fit(self, *known):
            return self

        def predict(self, model):
            seen.append((model.noise_scale_, model))
            return np.zeros(24, dtype=int)

    auditor = MembershipAuditor(
        _model(), n_releases=10, random_state=0, attacks={"mine": Reads(), "exact": "exact"}
    ).fit(X, y)
    scales = np.array([scale for scale, _ in seen])
    assert len(set(scales)) > 1
    assert all(scale == ladder_rung(scale) for scale in scales)
    # The parameters are as far from the noiseless ones as noise of that scale is, in every release.
    assert auditor.report_.checks["passed"].all()


@pytest.mark.parametrize(
    "model, noise_scales",
    mostly_slow(
        [
            (PrivateLinearRegression(0.5, alpha=0.05), None),
            (_model(), [0.5]),
            (
                PrivateLogisticRegression(
                    GaussianDP(1.0),
                    alpha=0.1,
                    data_norm=100.0,
                    fit_intercept=False,
                    classes=[0, 1],
                    public=("n_samples",),
                    mechanism="output",
                ),
                None,
            ),
        ]
    ),
)
def test_a_public_scale_is_played_as_before(model, noise_scales, outlier):
    X, y = outlier
    if isinstance(model, PrivateLogisticRegression):
        y = (y > 0.0).astype(int)
    given = {"noise_scales": noise_scales, "n_releases": 10, "random_state": 0}
    auditor = MembershipAuditor(model, **given).fit(X, y)
    assert "scale" not in set(auditor.results_["attack"])
    assert auditor.results_["bayes"].notna().all()
    first = lead(auditor)
    assert ("what its own tells is not counted" in first) == (noise_scales is not None)
    with pytest.raises(ValueError, match="The attack 'scale' reads a noise scale that follows"):
        MembershipAuditor(model, attacks="scale", **given).fit(X, y)


class Many(NoiseGoal):
    """A goal for which refits take too long, as the audit is told."""

    def resolve(self, problem):
        return float(problem.sufficient_noise(5.0, None).max())


@pytest.mark.parametrize(
    "case, why",
    mostly_slow(
        [
            ("calibrated", "how the number was found is not known"),
            ("many", "whole fits to find it under every hypothesis"),
            ("reweighting", "a reweighting makes the weights of all records change"),
        ]
    ),
)
def test_where_no_bound_counts_the_scale_none_is_printed(case, why, outlier, monkeypatch):
    X, y = outlier
    model = {
        "calibrated": _model(CalibratedNoise(0.5)),
        "many": _model(Many()),
        "reweighting": _model(reweighting="irfil"),
    }[case]
    if case == "many":
        monkeypatch.setattr("skleak.audit.games._levels._MOST_FITS", 3)
    auditor = MembershipAuditor(model, n_releases=8, attacks="loss", random_state=0).fit(X, y)
    assert not {"bayes", "dp"} & set(auditor.results_.columns)
    assert auditor.records_["bayes"].isna().all()
    first = lead(auditor)
    assert "The noise scale follows the records" in first
    assert why in first
    for text in (
        auditor.report_.to_text(full=True),
        auditor.report_.to_html(),
        auditor.report_.to_json(),
    ):
        assert "No attack exceeds" not in text


def test_odds_of_a_scale_are_learned_from_the_other_releases():
    scales = np.array([1.0, 2.0, 1.0, 2.0])[:, None]
    member = np.array([True, False, True, False])[:, None]
    # Of the other three: one with, that had 1, and two without, that had 2.
    expected = np.log((1 + 0.5) / (1 + 1.0)) - np.log((0 + 0.5) / (2 + 1.0))
    assert scale_odds(scales, member, 0.5)[0, 0] == pytest.approx(expected)
    shifted = scale_odds(scales, member, 0.8)[0, 0]
    assert shifted == pytest.approx(expected + np.log(4.0))


def test_odds_of_a_scale_that_tells_nothing_are_right_no_more_than_by_chance(rng):
    member, scales = rng.random((400, 5)) < 0.5, rng.choice([1.0, 2.0], size=(400, 1))
    right = (scale_odds(np.tile(scales, 5), member, 0.5) > 0.0) == member
    assert binom.sf(right.sum() - 1, right.size, 0.5) > 1e-6


def test_one_channel_holds_release_and_scale(rng):
    """By brute force: of values with other scales none is left, and the rest have their noise."""
    points, scales = rng.normal(size=(1, 4, 2)), np.array([[0.5, 1.0, 0.5, np.nan]])
    prior = np.array([[0.3, 0.3, 0.2, 0.2]])
    seen, same = in_one_channel(points, scales, 0.5)
    assert same.tolist() == [[True, False, True, False]]
    found = GaussianChannel(seen, 0.5).bayes_success(prior)[0]
    # Two values share the scale 0.5; the others are told by theirs.
    distance = np.linalg.norm(points[0, 0] - points[0, 2]) / 0.5
    log_odds = np.log(0.3 / 0.2)
    pair = 0.3 * norm.cdf(0.5 * distance + log_odds / distance)
    pair += 0.2 * norm.cdf(0.5 * distance - log_odds / distance)
    assert found == pytest.approx(pair + 0.3 + 0.2, abs=1e-4)
    # In a class of another scale distances are in units of its own noise.
    seen, _ = in_one_channel(points[:, :2], np.array([[2.0, 2.0]]), 0.5)
    near = np.linalg.norm(seen[0, 0] - seen[0, 1]) / 0.5
    assert near == pytest.approx(np.linalg.norm(points[0, 0] - points[0, 1]) / 2.0)


@pytest.fixture
def patients(rng):
    X = pd.DataFrame({"a": rng.normal(size=40), "sex": (rng.random(40) < 0.4).astype(float)})
    X.iloc[0] = [5.0, 1.0]
    return X, X["a"] + X["sex"] + rng.normal(size=40)


@pytest.mark.parametrize("secrets", mostly_slow(["drawn", "actual"]))
def test_a_value_that_the_scale_gives_away_is_within_the_bound(patients, secrets):
    """The goal is about another column, of whose noise another sex would have made another rung."""
    X, y = patients
    # By fits: the noise that is needed, had each record the other sex.
    needed = []
    for i in (None, *range(len(X))):
        other = X.copy()
        if i is not None:
            other.iloc[i, 1] = 1.0 - other.iloc[i, 1]
        unit = PrivateLinearRegression(1.0, alpha=0.05).fit(other, y)
        needed.append(MaxLeakage(1.0, features="a").noise_scale_of(unit))
    own, *others = np.array(needed, dtype=float)
    # A goal for which the edge of a rung lies between the table and the record that moves it most.
    furthest = others[int(np.abs(np.log(np.array(others) / own)).argmax())]
    eta = float(np.sqrt(own * furthest))
    level = ladder_rung(own / eta)
    moved = np.array([ladder_rung(other / eta) != level for other in others])
    assert moved.any()
    model = PrivateLinearRegression(MaxLeakage(eta, features="a"), alpha=0.05)
    given = {"n_releases": 60, "secrets": secrets, "random_state": 0, "attacks": "white_box"}
    auditor = LeakageAuditor(model, "sex", **given).fit(X, y)
    assert auditor.results_["noise_scale"].iloc[0] == level
    records = auditor.records_
    np.testing.assert_array_equal(records["bayes"] > 1.0 - 1e-9, moved)
    assert (records["success_white_box"][moved] == 1.0).all()
    assert _row(auditor, "white_box")["verdict"] == "consistent with the bound"
    fixed = PrivateLinearRegression(float(level), alpha=0.05)
    known = LeakageAuditor(fixed, "sex", **given).fit(X, y)
    assert (known.records_["bayes"][moved] < 1.0 - 1e-6).all()
    rest = ~moved
    np.testing.assert_allclose(records["bayes"][rest], known.records_["bayes"][rest], atol=1e-3)
    assert "the bounds count it" in lead(auditor)


@pytest.mark.slow
def test_labels_that_the_scale_gives_away_are_within_the_bound(rng):
    X = rng.normal(size=(30, 2))
    X[0] = [9.0, 9.0]
    y = np.where(rng.random(30) < 0.5, "ill", "well")
    model = PrivateLogisticRegression(MaxLeakage(0.5, features=[0]), alpha=0.05)
    auditor = LeakageAuditor(
        model, "(target)", n_releases=20, random_state=0, attacks="white_box"
    ).fit(X, y)
    moved = []
    for i in range(30):
        other = y.copy()
        other[i] = "ill" if y[i] == "well" else "well"
        unit = PrivateLogisticRegression(1.0, alpha=0.05).fit(X, other)
        moved.append(ladder_rung(model.noise_scale.noise_scale_of(unit)))
    moved = np.array(moved) != auditor.results_["noise_scale"].iloc[0]
    np.testing.assert_array_equal(auditor.records_["bayes"] > 1.0 - 1e-9, moved)


@pytest.mark.parametrize("attribute", mostly_slow(["a", None]))
def test_bounds_with_a_prior_of_a_number_are_not_printed(attribute, patients):
    X, y = patients
    model = PrivateLinearRegression(MaxLeakage(1.5, features="a"), alpha=0.05)
    auditor = LeakageAuditor(model, attribute, n_releases=20, random_state=0).fit(X, y)
    assert "share_at_most" not in auditor.results_
    assert auditor.results_["cramer_rao"].notna().all()
    assert "as it jumps as a number moves" in lead(auditor)
    assert auditor.report_.to_html()
    if attribute is not None:
        with pytest.raises(ValueError, match="not played for a number where the noise scale"):
            LeakageAuditor(model, attribute, secrets="drawn").fit(X, y)


@pytest.mark.slow
def test_a_number_that_was_read_off_records_has_no_bound_on_guesses(patients):
    X, y = patients
    model = PrivateLinearRegression(CalibratedNoise(0.1), alpha=0.05)
    auditor = LeakageAuditor(model, "sex", n_releases=20, random_state=0).fit(X, y)
    assert not {"bayes", "fano"} & set(auditor.results_.columns)
    assert auditor.records_["bayes"].isna().all()
    assert "pass `float(noise_scale)`" in lead(auditor)
    plain = PrivateLinearRegression(0.1, alpha=0.05)
    known = LeakageAuditor(plain, "sex", n_releases=20, random_state=0).fit(X, y)
    assert known.results_["bayes"].notna().all()


@pytest.mark.slow
def test_outside_memory_no_bound_is_printed(patients, tmp_path):
    pytest.importorskip("dask.dataframe")
    X, y = patients
    X.assign(y=y).to_parquet(tmp_path / "table.parquet")
    model = PrivateLinearRegression(MaxLeakage(1.5, features=[0]), alpha=0.05)
    auditor = LeakageAuditor(model, "sex", n_releases=20, random_state=0)
    auditor.fit(tmp_path / "table.parquet", "y")
    assert not {"bayes", "fano"} & set(auditor.results_.columns)
    assert auditor.records_["bayes"].isna().all()
    assert "records outside memory" in lead(auditor)
