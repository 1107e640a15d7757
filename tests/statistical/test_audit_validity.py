"""Bounds hold in the game that they are stated for: no false alarm in many random audits."""

import numpy as np
import pytest

from skleak.audit import LeakageAuditor
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.metrics.verdicts import EXCEEDED

N_AUDITS = 200


def random_audit(rng):
    n, d, m = rng.integers(20, 61), rng.integers(2, 6), rng.integers(2, 5)
    secret = np.r_[np.arange(m), rng.choice(m, size=n - m, p=rng.dirichlet(np.ones(m)))]
    X = np.column_stack([secret, rng.normal(size=(n, d - 1))])
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    model = PrivateLinearRegression
    if rng.random() < 0.4:
        y, model = (y > np.median(y)).astype(int), PrivateLogisticRegression
    prior = rng.choice(["marginal", "uniform", "conditional", "given"])
    if prior == "given":
        prior = rng.dirichlet(np.ones(m), size=n)
    fit_intercept, alpha = bool(rng.random() < 0.7), 10.0 ** rng.uniform(-3, 0)
    return (
        X,
        y,
        LeakageAuditor(
            model(alpha=alpha, fit_intercept=fit_intercept),
            0,
            attacks=["prior", "white_box", "black_box"],
            noise_scales=10.0 ** rng.uniform(-3, 0.5),
            n_releases=30,
            secrets="drawn",
            prior=prior if not isinstance(prior, np.str_) else str(prior),
            bounds=["bayes", "tradeoff", "fano", "information_projection"],
            confidence_level=1.0 - 0.05 / N_AUDITS,
            random_state=int(rng.integers(2**31)),
        ),
    )


@pytest.mark.exhaustive
@pytest.mark.slow
def test_no_bound_is_exceeded(rng):
    alarms, gaps = [], []
    for k in range(N_AUDITS):
        X, y, auditor = random_audit(rng)
        auditor.fit(X, y)
        found = [*auditor.results_["verdict"], *auditor.records_["verdict"]]
        if EXCEEDED in found:
            alarms.append((k, auditor, auditor.results_))
        white = auditor.results_.query("attack == 'white_box'").iloc[0]
        spread = np.sqrt(max(white["bayes"] * (1 - white["bayes"]), 1e-4) / white["n_games"])
        gaps.append((white["success"] - white["bayes"]) / spread)
    assert not alarms
    # The white box reaches the bound: its mean standardized distance is that of chance.
    assert abs(np.mean(gaps)) < 4.5 / np.sqrt(N_AUDITS)
