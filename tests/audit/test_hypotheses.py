"""Releases are held against what attacks take for the truth, whatever is secret."""

import numpy as np
import pytest
from helpers import mostly_slow
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.audit.noise._mechanism import Hypotheses, check_distances
from skleak.exceptions import ReleaseMismatchWarning
from skleak.linear_model import PrivateLinearRegression


class Shifted(PrivateLinearRegression):
    """Releases something else than its training objective says."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.coef_ = self.coef_ + 0.3
        return self


@pytest.fixture
def data(rng):
    X = np.column_stack([np.arange(16) % 2, rng.normal(size=(16, 2))])
    return X, X @ [1.0, 1.0, -0.5] + rng.normal(size=16)


def audit(model, what, secrets, X, y):
    options = {"noise_scales": 0.02, "n_releases": 12, "secrets": secrets, "random_state": 0}
    if what == "membership":
        auditor = MembershipAuditor(model, attacks="exact", **options)
    else:
        attacks = "default" if what is None else ["prior", "white_box"]
        auditor = LeakageAuditor(model, what, attacks=attacks, bounds="bayes", **options)
    return auditor.fit(X, y).report_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "secrets", "covariance"),
    mostly_slow(
        [
            (0, "actual", "isotropic"),
            (0, "drawn", "minimax"),
            (1, "actual", "isotropic"),
            (1, "actual", "curvature"),
            (None, "actual", "isotropic"),
            (None, "actual", np.diag([1.0, 2.0, 3.0, 4.0])),
            ("membership", "actual", "isotropic"),
            ("membership", "drawn", "isotropic"),
        ],
        0,
        1,
        6,
    ),
)
def test_another_training_than_the_attacks_suppose_is_found(what, secrets, covariance, data):
    options = {"alpha": 0.1, "noise_covariance": covariance}
    report = audit(PrivateLinearRegression(**options), what, secrets, *data)
    assert report.checks["passed"].all()
    assert "hypotheses" in set(report.checks["check"])
    assert not any("Not checked" in line for line in report.findings)
    with pytest.warns(ReleaseMismatchWarning, match="not around what the attacks take"):
        report = audit(Shifted(**options), what, secrets, *data)
    # The noise is sound, and not accused.
    assert report.checks["check"][~report.checks["passed"]].tolist() == ["hypotheses"]
    assert any("releases are not around what the attacks take" in line for line in report.findings)
    assert not any("noise that it states" in line for line in report.findings)


@pytest.mark.slow
def test_what_is_not_checked_is_said_in_one_line(data):
    shaped = PrivateLinearRegression(alpha=0.1, noise_covariance="curvature")
    refitted = make_pipeline(StandardScaler(), PrivateLinearRegression(alpha=0.1))
    for model, checked, said in (
        (shaped, True, "Not checked: whether attacks suppose"),
        (refitted, False, "Not checked: whether the estimator adds the noise"),
    ):
        auditor = MembershipAuditor(
            model, attacks="loss", noise_scales=0.1, n_releases=9, random_state=0
        )
        report = auditor.set_params(refit_preprocessing=True).fit(*data).report_
        assert checked != report.checks.empty
        assert "hypotheses" not in set(report.checks.get("check", []))
        assert sum(line.startswith(said) for line in report.findings) == 1
        report = auditor.set_params(noise_scales=0.0).fit(*data).report_
        assert not any("Not checked" in line for line in report.findings)


@pytest.mark.slow
def test_p_values_are_no_smaller_than_uniform_ones(rng):
    root = np.linalg.cholesky(np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.5]]))
    truth = Hypotheses.near(np.ones((2, 3)))
    found = []
    for _ in range(2000):
        draws = rng.normal(size=(10, 3))
        found.append(
            (
                truth.check(1.0 + 0.1 * draws @ root.T, 0.1, root)["p_value"],
                check_distances(np.linalg.norm(draws, axis=1), 3, 0.0)["p_value"],
            )
        )
    for level in (0.5, 0.1, 0.02):
        share = np.mean(np.array(found) <= level, axis=0)
        assert (share <= level + 4.0 * np.sqrt(level / 2000)).all()


def test_what_is_known_loosely_accuses_nobody():
    releases = np.full((20, 2), 3.0)
    for errors in (10.0, np.inf):
        check = Hypotheses.near(np.zeros((1, 2)), np.full(1, errors)).check(releases, 1e-3)
        assert check["p_value"] == 1.0
    assert check_distances(np.full(5, 1e6), 2, 1e6)["p_value"] > 0.01
