"""Whatever is trained on the side charges no ledger, however deep the ledger is hidden.

Each test plays the fault: an estimator that holds a private one somewhere is given to all that
trains copies, and the file of the ledger is read before and after.
"""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.accounting import LeakageLedger
from skleak.adversary.hypotheses import PublicModel
from skleak.attacks import ImputationAttack, LikelihoodRatioMembership, WhiteBoxAttributeInference
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.utils._arguments import seeded
from skleak.utils._confidential import without_ledger


class Wrapped(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """A meta-estimator with parameters to read, which attacks on parameters take."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        self.estimator_ = clone(self.estimator).fit(X, y)
        self.coef_, self.intercept_ = self.estimator_.coef_, self.estimator_.intercept_
        return self

    def predict(self, X):
        return self.estimator_.predict(X)


def hidden(path):
    """Estimators that charge the ledger in that file when they are fitted, by name."""
    linear = PrivateLinearRegression(0.5, ledger=str(path))
    logistic = PrivateLogisticRegression(0.5, ledger=path)
    quiet = PrivateLinearRegression(0.5)
    return {
        "itself": linear,
        "pipeline": make_pipeline(StandardScaler(), linear),
        "first step": make_pipeline(SelectFromModel(linear, threshold=-np.inf), quiet),
        "search": GridSearchCV(linear, {"alpha": [0.1, 1.0]}, cv=2),
        "search in a pipeline": make_pipeline(
            StandardScaler(), GridSearchCV(logistic, {"alpha": [0.1]}, cv=2)
        ),
        "grid that sets it": GridSearchCV(quiet, {"ledger": [str(path)]}, cv=2),
        "grid of estimators": GridSearchCV(
            Pipeline([("model", quiet)]), [{"model": [linear]}, {"model": [Ridge()]}], cv=2
        ),
        "target": TransformedTargetRegressor(linear, transformer=StandardScaler()),
        "one against the rest": OneVsRestClassifier(logistic),
        "votes": VotingRegressor([("first", quiet), ("second", linear)]),
        "parameters": make_pipeline(StandardScaler(), Wrapped(linear)),
    }


WITH_PARAMETERS = ("itself", "pipeline", "first step", "parameters")


def charged(path, action):
    """Return True if the file of the ledger is another one afterwards."""
    before = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        action()
    return path.read_bytes() != before


@pytest.fixture
def case(tmp_path, rng):
    path = tmp_path / "ledger.json"
    LeakageLedger(path)
    X = rng.normal(size=(40, 2))
    X = np.column_stack([rng.integers(0, 2, size=40), X])
    return path, X, (X @ [1.0, 1.0, 0.0] + rng.normal(size=40) > 0).astype(int)


@pytest.mark.slow
def test_copies_charge_no_ledger(case):
    path, X, y = case
    for name, estimator in hidden(path).items():
        quiet = without_ledger(estimator)
        assert not charged(path, lambda copy=quiet: copy.fit(X, y)), name
        own = seeded(quiet, lambda n: np.arange(n))
        assert not charged(path, lambda copy=own: copy.fit(X, y)), name
        # The estimator itself charges, and is as it was: the copy is none of it.
        assert charged(path, lambda copy=estimator: clone(copy).fit(X, y)), name


def test_what_is_frozen_stays(case):
    """It is trained already, and a clone of it is the very same object."""
    path, X, y = case
    inner = PrivateLinearRegression(0.5, ledger=str(path)).fit(X, y)
    steps = make_pipeline(StandardScaler(), FrozenEstimator(inner))
    assert not charged(path, lambda: without_ledger(steps).fit(X, y))
    assert inner.ledger == str(path)


@pytest.mark.slow
def test_audits_charge_no_ledger(case):
    path, X, y = case
    estimators = hidden(path)
    for name in ("first step", "grid that sets it", "grid of estimators", "target"):
        few = MembershipAuditor(estimators[name], attacks="loss", n_releases=2)
        assert not charged(path, lambda audit=few: audit.fit(X, y)), name
    few = {"noise_scales": 0.1, "n_releases": 2, "bounds": "bayes", "attacks": "white_box"}
    for name in ("first step", "parameters"):
        for options in ({}, {"refit_preprocessing": True, "records": [0]}):
            audit = LeakageAuditor(estimators[name], 0, **few, **options)
            assert not charged(path, lambda audit=audit: audit.fit(X, y)), name


@pytest.mark.slow
def test_attacks_charge_no_ledger(case):
    path, X, y = case
    for name, estimator in hidden(path).items():
        shadow = LikelihoodRatioMembership(estimator, method="online", n_shadow_models=4)
        assert not charged(path, lambda attack=shadow: attack.fit(X, y)), name
        if name in WITH_PARAMETERS:
            white = WhiteBoxAttributeInference(estimator, 0, records=[0, 1])
            assert not charged(path, lambda attack=white: attack.fit(X, y)), name
            assert not charged(path, lambda e=estimator: PublicModel.of(e, X, y)), name
    imputation = ImputationAttack(0, classifier=hidden(path)["one against the rest"])
    assert not charged(path, lambda: imputation.fit(X, y))
