"""Whole audits of sound estimators accuse none of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.metrics.verdicts import EXCEEDED

MODELS = (PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor)
# What is secret, and whether it is drawn anew for every game.
SECRETS = (
    ("gene", "actual"),
    ("gene", "drawn"),
    ("age", "actual"),
    (None, "actual"),
    ("membership", "actual"),
    ("membership", "drawn"),
)
# Verdicts of all audits together are wrong with probability 2e-4.
LEVEL = 1.0 - 1e-6


def make_records(rng, kind, n=30):
    table = pd.DataFrame(
        {
            "gene": np.r_[["A", "B"], rng.choice(["A", "B"], n - 2)],
            "age": rng.normal(60.0, 15.0, size=n),
            "dose": rng.exponential(size=n),
            "weight": rng.uniform(50.0, 100.0, size=n),
        }
    )
    predictor = 0.7 * (table["gene"] == "A") + 0.02 * (table["age"] - 60.0) + 0.3 * table["dose"]
    if kind == 0:
        return table, predictor + rng.normal(size=n)
    if kind == 1:
        return table, (predictor + rng.logistic(size=n) > predictor.median()).astype(int)
    return table, rng.poisson(np.exp(predictor))


def make_model(kind, shape, piped):
    model = MODELS[kind](alpha=0.1, noise_covariance=shape)
    encode = make_column_transformer(
        (OneHotEncoder(drop="if_binary"), ["gene"]), remainder=StandardScaler()
    )
    return make_pipeline(encode, model) if piped else model


def sound_audit(k):
    """The audit of number k: all choices take turns."""
    rng = np.random.default_rng([k, 0])
    kind, (what, secrets) = k % 3, SECRETS[k // 3 % 6]
    weighted, piped, shaped = (bool(k // turn % 2) for turn in (18, 36, 72))
    shape = "isotropic"
    if shaped and what != "membership":
        shape = "curvature" if what else np.diag(rng.uniform(0.5, 2.0, 5))
    table, y = make_records(rng, kind)
    model = make_model(kind, shape, piped)
    if not piped:
        table = table.assign(gene=table["gene"] == "A").to_numpy(dtype=float)
        table /= [1.0, 15.0, 1.0, 15.0]
        what = {"gene": 0, "age": 1}.get(what, what)
    options = {
        # A thousand models are asked at each level about memberships that are drawn.
        "noise_scales": [0.05, 0.5][: 1 + (k % 4 == 1 and SECRETS[k // 3 % 6] != SECRETS[-1])],
        "n_releases": 8,
        "secrets": secrets,
        "confidence_level": LEVEL,
        "random_state": k,
    }
    if what == "membership":
        auditor = MembershipAuditor(model, attacks="exact", bounds=["dp", "bayes"], **options)
    else:
        # Preprocessing is trained anew for a few values only: numbers have many.
        refit = piped and what == "gene" and shape == "isotropic"
        attacks = "default" if what is None else ["prior", "white_box"]
        options |= {"attacks": attacks, "bounds": "bayes", "refit_preprocessing": refit}
        auditor = LeakageAuditor(model, what, **options)
    auditor.set_params(records=np.arange(8 if (what, secrets) == ("membership", "actual") else 3))
    weights = rng.uniform(0.5, 2.0, size=len(y)) if weighted else None
    return auditor.fit(table, y, sample_weight=weights)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_none_of_many_sound_audits_is_an_accusation():
    """Warnings are errors here: of the noise, of a mismatch, or of a fit that did not converge."""
    for k in range(200):
        auditor = sound_audit(k)
        checks = auditor.report_.checks
        assert checks["passed"].all(), (k, checks[~checks["passed"].astype(bool)])
        assert set(checks["n_releases"][checks["check"] != "hypotheses"]) == {100}, k
        held = set(checks["noise_scale"][checks["check"] == "hypotheses"])
        assert held == set(auditor.results_["noise_scale"]), k
        assert not any("Not checked" in line for line in auditor.report_.findings), k
        for table in (auditor.results_, auditor.records_):
            assert not (table.get("verdict", pd.Series(dtype=str)) == EXCEEDED).any(), k
