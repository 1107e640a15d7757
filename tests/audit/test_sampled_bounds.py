"""Bounds of a sample of the records: what is known of the others, and of the mean."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.audit import LeakageAuditor
from skleak.audit.games import _sampled
from skleak.audit.games._bounds import BOUNDS, success_bounds
from skleak.audit.games._sampled import BoundsPlan, KnownBounds, exposed_bounds
from skleak.audit.tables._sampled import mean_bound
from skleak.linear_model import PrivateLinearRegression

NAMES = ["bayes", "tradeoff", "gdp", "fano_pairwise"]


@pytest.fixture
def known(rng):
    """Records of very different exposure, with priors of their own, one of them certain."""
    n, n_values = 300, 3
    points = rng.normal(size=(n, n_values, 4)) * rng.gamma(0.5, size=(n, 1, 1))
    points[:5] = points[:5, :1]  # nothing to tell
    prior = rng.dirichlet(np.ones(n_values), size=n)
    prior[7] = [0.0, 1.0, 0.0]
    eta = np.linalg.norm(points, axis=(1, 2))
    eta[::9] = np.nan
    return KnownBounds.of(points, prior, NAMES, None, eta, [1.0])


@pytest.fixture
def whole(known):
    return success_bounds(known.points, known.prior, 1.0, NAMES)


def test_the_mean_of_a_sample_is_that_of_all_within_its_error(known, whole, rng):
    """Over many samples: rarely off by twice the error, and never by five times."""
    top, n = known.prior.max(axis=1), len(known.prior)
    leading = np.arange(n) < 12
    ends = {"upper": known.upper(slice(None), 1.0, refine=False), "lower": known.lower(1.0)}
    assert (ends["lower"] <= whole["bayes"] + 1e-9).all()
    for name in NAMES:
        scores = []
        for _ in range(300):
            computed = leading | (rng.permutation(n).argsort() < 60)
            part = {key: np.where(computed, values, np.nan) for key, values in whole.items()}
            part |= {"computed": computed, "leading": leading} | ends
            mean, error, limit = mean_bound(part, name, top)
            assert limit >= max(mean, whole["bayes"].mean() - 1e-9)
            assert limit <= max(mean, ends["upper"].mean() + 1e-9)
            scores.append((mean - whole[name].mean()) / error)
        scores = np.array(scores)
        assert np.abs(scores).max() < 5.0
        assert np.mean(np.abs(scores) > 2.0) < 0.15
        assert np.abs(scores.mean()) < 0.5


def test_all_but_the_last_record_leave_no_error_of_sampling(known, whole):
    computed = np.ones(len(known.prior), dtype=bool)
    ends = {"upper": np.ones(len(computed)), "lower": np.zeros(len(computed))}
    part = whole | {"computed": computed, "leading": ~computed} | ends
    mean, error, _ = mean_bound(part, "bayes", known.prior.max(axis=1))
    assert mean == pytest.approx(whole["bayes"].mean(), abs=1e-12)
    assert error == pytest.approx(whole["standard_error"].mean(), abs=1e-12)
    # Where the sample is too small to tell, what is known of all is the bound.
    part["leading"] = np.arange(len(computed)) > 1
    assert mean_bound(part, "bayes", known.prior.max(axis=1)).value >= whole["bayes"].mean()


@pytest.mark.slow
def test_the_most_exposed_records_are_exact(known, whole):
    for budget in (32, 200):
        found = exposed_bounds(known, 1.0, 1e-3, budget)
        rows, upper = found["rows"], found["upper"]
        assert len(np.unique(rows)) == len(rows) < len(upper) / 2
        for name in NAMES:
            np.testing.assert_allclose(found[name], whole[name][rows], atol=1e-9)
        assert (upper >= whole["bayes"] - 1e-9).all()
        top = known.prior.max(axis=1)
        gain = (whole["bayes"] - top) / np.where(top < 1.0, 1.0 - top, 1.0)
        assert gain[rows].max() == pytest.approx(gain.max(), abs=1e-3)
        ordered = np.argsort(-np.nan_to_num(known.eta, nan=-1.0))[:16]
        assert set(ordered) <= set(rows)


def test_what_is_known_of_every_record_is_a_bound_under_shaped_noise(rng):
    points = rng.normal(size=(12, 3, 2)) * np.geomspace(0.01, 3.0, 12)[:, None, None]
    root = rng.normal(size=(12, 3, 2, 2))
    shapes = root @ root.swapaxes(2, 3) + 0.3 * np.eye(2)
    prior = rng.dirichlet(np.ones(3), size=12)
    known = KnownBounds.of(points, prior, ["bayes"], shapes, np.full(12, np.nan), [0.5])
    exact = success_bounds(points, prior, 0.5, ["bayes"], shapes)
    upper = known.upper(slice(None), 0.5, refine=False)
    assert (upper >= exact["bayes"] - 4.0 * exact["standard_error"]).all()
    assert (upper <= 1.0).all()
    found = exposed_bounds(known, 0.5, 1e-3, 32)
    assert found["bayes"].max() <= 1.0


def test_the_cost_decides_what_is_computed():
    def plan(n, n_values, width=90, shaped=False):
        return BoundsPlan.of(n, n_values, width, shaped=shaped, seed=np.random.SeedSequence(0))

    for n, n_values in ((30_162, 2), (549, 5), (2, 2), (30, 50)):
        assert not plan(n, n_values).samples
    assert plan(549, 2).names == ["bounds"]
    for n, n_values in ((30_162, 7), (100_000, 5), (549, 50), (10**6, 2)):
        some = plan(n, n_values)
        assert some.samples
        assert some.seconds < 60.0 + 40.0 * (n_values == 50)
        covered = np.concatenate([some.rows[block] for block in some.blocks])
        assert len(np.unique(covered)) == len(covered) == len(some.rows)
    assert plan(10_000, 3, shaped=True).samples


@pytest.mark.slow
def test_coordinates_in_the_hull_give_the_same_bounds(rng, monkeypatch):
    monkeypatch.setattr(_sampled, "_MANY", 10)
    line = rng.normal(size=(8, 1, 30)) * rng.normal(size=(8, 4, 1))
    points = 1e3 + np.concatenate([line, rng.normal(size=(8, 4, 30))])
    prior = rng.dirichlet(np.ones(4), size=16)
    eta = np.ones(16)
    known = KnownBounds.of(points, prior, list(BOUNDS), None, eta, [0.0, 0.5, 2.0])
    assert known.points.shape == (16, 4, 3)
    assert (known.points[:8, :, 1:] == 0.0).all()
    for scale in (0.5, 2.0):
        plain, turned = (
            success_bounds(p, prior, scale, list(BOUNDS)) for p in (points, known.points)
        )
        for name in plain:
            np.testing.assert_allclose(turned[name], plain[name], atol=1e-6)


@pytest.fixture
def data(rng):
    X = pd.DataFrame({"a": rng.normal(size=120), "job": rng.integers(0, 3, 120).astype(str)})
    y = X["a"] + (X["job"] == "1") + rng.normal(size=120)
    return X, y


def audit(data, **options):
    encode = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    model = make_pipeline(encode, PrivateLinearRegression(alpha=0.01))
    options = {"noise_scales": [0.003, 0.03], "n_releases": 20, "random_state": 0} | options
    return LeakageAuditor(model, "job", **options).fit(*data)


@pytest.fixture
def small_budget(monkeypatch):
    monkeypatch.setattr(_sampled, "_BUDGET", 0.01)
    monkeypatch.setattr(_sampled, "_CELL", 0.04)


def test_an_audit_says_that_its_bounds_are_of_a_sample(data, small_budget):
    auditor = audit(data, noise_scales=0.03, attacks="white_box", n_releases=5)
    results, records = auditor.results_, auditor.records_
    assert results["n_bounded"].between(32, 119).all()
    assert (results["bound_error"] > 0.0).all()
    assert records["computed"].sum() == results["n_bounded"].item()
    assert (records["bayes"] <= records["tightest_bound"]).all()
    exact = auditor.attacks_["white_box"].expected_score(0.03)
    assert (records["bayes"] >= exact - 1e-3).all()
    assert np.isclose(records["bayes"], exact, atol=1e-3)[records["computed"]].all()
    assert abs(results["bayes"].item() - exact.mean()) < 5.0 * results["bound_error"].item()


@pytest.mark.slow
def test_an_audit_of_a_sample_agrees_with_that_of_all(data, request, tmp_path):
    full = audit(data)
    assert "bound_error" not in full.results_
    assert "computed" not in full.records_
    request.getfixturevalue("small_budget")
    path = tmp_path / "audit.npz"
    part = audit(data, checkpoint=path)
    results, records = part.results_, part.records_
    gap = np.abs(results["bayes"] - full.results_["bayes"])
    assert (gap < 5.0 * results["bound_error"]).all()
    # A larger margin may leave nothing to exceed, and nothing else.
    changed = results["verdict"] != full.results_["verdict"]
    assert set(results["verdict"][changed]) <= {"bound vacuous"}
    for name in ("success_white_box", "prior"):
        np.testing.assert_array_equal(records[name], full.records_[name])
    pd.testing.assert_frame_equal(audit(data, checkpoint=path).results_, results)
    pd.testing.assert_frame_equal(audit(data).records_, records)
    assert part.report_.to_text()
    assert part.report_.to_html()


@pytest.mark.slow
@pytest.mark.parametrize("secrets", ["actual", "drawn"])
@pytest.mark.usefixtures("small_budget")
def test_jobs_do_not_matter(secrets, data):
    one, two = (audit(data, n_jobs=n, secrets=secrets) for n in (1, 2))
    pd.testing.assert_frame_equal(one.results_, two.results_)
    pd.testing.assert_frame_equal(one.records_, two.records_)
    if secrets == "drawn":
        assert "bound exceeded" not in set(one.records_["verdict"])
