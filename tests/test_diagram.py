"""The diagram that scikit-learn draws of a fitted estimator, as readers of a notebook see it."""

import re
import warnings

import numpy as np
import pytest
from helpers import mostly_slow
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from skleak.attacks import (
    BlackBoxAttributeInference,
    GaussianLinearMembership,
    ImputationAttack,
    InformedAttributeInference,
    InformedReconstruction,
    LikelihoodRatioMembership,
    MembershipInference,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import GaussianDP

MODEL = PrivateLinearRegression(1e-6, random_state=0)
FITTED = {
    "linear": MODEL,
    "irfil": PrivateLinearRegression(1e-6, reweighting="irfil", random_state=0),
    "logistic": PrivateLogisticRegression(1e-6, random_state=0),
    "poisson": PrivatePoissonRegressor(1e-6, random_state=0),
    "moments": PrivateMoments(GaussianDP(1.0), data_norm=1.0, target_bound=1.0, clip=True),
    "prior": PriorAttack(0),
    "imputation": ImputationAttack(0),
    "white box": WhiteBoxAttributeInference(MODEL, 0),
    "black box": BlackBoxAttributeInference(MODEL, 0),
    "informed": InformedAttributeInference(MODEL, 0),
    "reconstruction": InformedReconstruction(MODEL),
    "exact": LikelihoodRatioMembership(MODEL),
    "membership": MembershipInference(),
    "gaussian": GaussianLinearMembership(sigma=1.0, coef=np.ones(3)),
    "auditor": LeakageAuditor(MODEL, 0, noise_scales=[0.37], n_releases=3, random_state=0),
    "membership auditor": MembershipAuditor(MODEL, n_releases=20, random_state=0),
}
# What the schema and a release may tell.
PUBLIC = {
    *("coef_", "intercept_", "noise_scale_", "noise_step_", "noise_sampler_", "classes_"),
    *("coef_noise_scale_", "intercept_noise_scale_", "n_features_in_", "feature_names_in_"),
    *("largest_leakage_", "noise_"),
}


@pytest.fixture
def records(rng):
    X = np.column_stack([rng.integers(0, 2, 24), rng.normal(size=(24, 2))])
    return X, X @ [1.0, 2.0, -1.0] + rng.normal(size=24)


def targets(name, a):
    return {"logistic": (a > 0.0).astype(int), "poisson": np.round(np.exp(a / 4.0))}.get(name, a)


def told(page):
    """The numbers that a page shows, and the fitted attributes that it names."""
    page = re.sub(r"<(style|script).*?</\1>", " ", page, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", page)
    names = set(re.findall(r"\b[a-z][a-z_]*_(?=\s)", text))
    return {float(n) for n in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", text)}, names


@pytest.mark.parametrize("name", mostly_slow(FITTED, 0, 4))
def test_the_diagram_shows_nothing_of_any_record(name, records):
    (X, a), estimator = records, FITTED[name]
    fitted = estimator.fit(X, targets(name, a))
    pages = [estimator_html_repr(fitted), fitted._repr_html_()]
    if hasattr(fitted, "fisher_information_loss_"):
        pipeline = make_pipeline(StandardScaler(), fitted).fit(X, targets(name, a))
        pages.append(estimator_html_repr(pipeline))
        losses = {
            float(np.format_float_positional(loss, digits))
            for column in ("fisher_information_loss_", "diagonal_fisher_information_loss_")
            for loss in getattr(pipeline[-1], column)
            for digits in (0, 1, 2, 3, 4)
        }
        assert not losses & told(pages[-1])[0]
    for page in pages:
        assert told(page)[1] - {"mean_", "scale_", "var_", "n_samples_seen_"} <= PUBLIC


def test_the_test_would_see_it(records):
    class Open(PrivateLinearRegression):
        _shown_attributes = ("fisher_information_loss_",)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        page = estimator_html_repr(Open(0.1, random_state=0).fit(*records))
    if "Fitted attributes" in page:  # from scikit-learn 1.9 on
        assert "fisher_information_loss_" in told(page)[1]
