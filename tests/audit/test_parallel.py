"""Seeds: the tables do not depend on where they are computed, and chance does depend on them."""

import joblib
import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow

from skleak.audit import LeakageAuditor
from skleak.linear_model import PrivateLinearRegression


@pytest.fixture
def data(rng):
    X = np.column_stack([rng.integers(0, 3, 20), rng.normal(size=(20, 2))])
    return X, X @ [1.0, 1.0, -1.0] + rng.normal(size=20)


def fit(data, attribute=0, random_state=0, n_jobs=None, **options):
    options = {"noise_scales": [0.05, 0.3], "n_releases": 8, "bounds": "bayes"} | options
    model = PrivateLinearRegression(alpha=0.1)
    auditor = LeakageAuditor(model, attribute, random_state=random_state, n_jobs=n_jobs, **options)
    return auditor.fit(*data)


def same(first, second):
    pd.testing.assert_frame_equal(first.results_, second.results_, check_exact=True)
    pd.testing.assert_frame_equal(first.records_, second.records_, check_exact=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # threads share filters of warnings, and reset each other's
@pytest.mark.parametrize("secrets", ["actual", "drawn"])
def test_workers_do_not_matter(secrets, data):
    options = {"secrets": secrets, "noise_scales": 0.3}
    one = fit(data, n_jobs=1, **options)
    with joblib.parallel_config("threading"):
        same(one, fit(data, n_jobs=2, **options))


@pytest.mark.slow
def test_processes_do_not_matter(data):
    attacks = ["prior", "white_box", "black_box", "informed"]
    options = {"bounds": ["bayes", "tradeoff"], "attacks": attacks}
    one = fit(data, **options)
    with joblib.parallel_config("loky"):
        two = fit(data, n_jobs=2, **options)
    same(one, two)
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_does_not_matter(data):
    distributed = pytest.importorskip("distributed")
    one = fit(data)
    options = {"processes": False, "dashboard_address": None, "n_workers": 1}
    with (
        distributed.LocalCluster(threads_per_worker=2, **options) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        same(one, fit(data, n_jobs=-1))


@pytest.mark.slow
def test_the_number_of_levels_and_attacks_does_not_change_a_cell(data):
    """All attacks at a level see the same releases."""
    one = fit(data, attacks=["white_box"], noise_scales=[0.05])
    more = fit(data, attacks=["black_box", "white_box", "prior"], noise_scales=[0.05, 0.3])
    rows = more.results_.query("attack == 'white_box' and noise_scale == 0.05")
    for column in ("success", "utility", "bayes", "n_games"):
        assert rows[column].item() == one.results_[column].item()


@pytest.mark.slow
@pytest.mark.parametrize(
    "attribute, secrets",
    mostly_slow([(0, "actual"), (0, "drawn"), (1, "actual"), (None, "actual")], 1),
)
def test_seeds_matter_for_all_that_is_drawn(attribute, secrets, data):
    options = {"secrets": secrets, "n_releases": 30}
    options["attacks"] = "default" if attribute is None else ["prior", "white_box"]
    first, again, other = (fit(data, attribute, seed, **options) for seed in (1, 1, 2))
    same(first, again)
    fixed = ["attack", "noise_scale", "baseline", "imputation", "n_games", "bayes", "cramer_rao"]
    games = first.results_["attack"] != "prior"
    if attribute == 0 and secrets == "actual":
        games &= first.results_["noise_scale"] > 0.05
    drawn = ["success", "success_low", "utility"] + ["mse", "variance"] * (attribute != 0)
    for column in first.results_:
        differ = first.results_[column] != other.results_[column]
        if column in fixed:
            differ &= first.results_[column].notna()
            assert not differ.any(), column
        if column in drawn:
            assert differ[games].all(), column


def test_no_seed_is_fresh_entropy(data):
    options = {"random_state": None, "noise_scales": 0.3, "attacks": "prior"}
    first, second = (fit(data, **options) for _ in range(2))
    assert (first.results_["utility"] != second.results_["utility"]).all()
    entropy = [a.report_.reproducibility["entropy of the seeds"] for a in (first, second)]
    assert entropy[0] != entropy[1]


@pytest.mark.slow
@pytest.mark.parametrize("make", mostly_slow([np.random.default_rng, np.random.RandomState], 0))
def test_generators_are_taken_and_advanced(make, data):
    generator = make(5)
    first = fit(data, random_state=generator, attacks="white_box")
    second = fit(data, random_state=generator, attacks="white_box")
    assert (first.results_["utility"] != second.results_["utility"]).all()
    same(first, fit(data, random_state=make(5), attacks="white_box"))


@pytest.mark.slow
def test_the_global_state_is_left_alone(data):
    legacy = np.random.mtrand._rand
    before = legacy.get_state()[1].copy()
    for secrets in ("actual", "drawn"):
        fit(data, random_state=None, secrets=secrets, noise_scales=0.3)
    np.testing.assert_array_equal(legacy.get_state()[1], before)
    first = fit(data, noise_scales=0.3)
    legacy.random_sample(3)
    same(first, fit(data, noise_scales=0.3))


@pytest.mark.slow
def test_progress_is_shown_on_request(data, capsys):
    fit(data, attacks="prior", verbose=1)
    shown = capsys.readouterr().err
    assert all(phase in shown for phase in ("encodings", "attacks", "utility"))
    fit(data, attacks="prior")
    assert capsys.readouterr().err == ""
