"""Membership where a class has so few records that a training set may lack it."""

import numpy as np
import pytest
from helpers import mostly_slow
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from skleak.audit import MembershipAuditor
from skleak.linear_model import PrivateLogisticRegression
from skleak.metrics.verdicts import EXCEEDED

ALONE = pytest.mark.filterwarnings("ignore:Records .* the only one of a class:UserWarning")


def table(rng, rare, n=40):
    return rng.normal(size=(n, 3)), (np.arange(n) < rare).astype(int)


def audit(model, X, y, *test, **options):
    options = {"n_releases": 6, "random_state": 0} | options
    return MembershipAuditor(model, **options).fit(X, y, *test)


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 0))
def test_the_only_record_of_a_class_is_always_trained_on(secrets, rng):
    X, y = table(rng, 1)
    y = np.array(["no", "yes"])[y]
    model = PrivateLogisticRegression(noise_scale=0.1, alpha=0.1)
    with pytest.warns(UserWarning, match=r"Records \[0\] .*the only one of a class"):
        auditor = audit(model, X, y, secrets=secrets, attacks="exact")
    assert auditor.records_["record"].tolist() == list(range(1, 40))
    found = auditor.results_.iloc[0]
    assert found["verdict"] != EXCEEDED
    assert 0.5 < found["bayes"] < 1.0
    # Nothing else differs from leaving it out of the candidates.
    rest = audit(model, X, y, secrets=secrets, attacks="exact", records=np.arange(1, 40))
    assert rest.results_.equals(auditor.results_)


@ALONE
@pytest.mark.slow
@pytest.mark.parametrize("rare", [1, 2, 3])
def test_training_sets_have_both_classes_where_they_must(rare, rng):
    X, y = table(rng, rare)
    for model in (LogisticRegression(), PrivateLogisticRegression(noise_scale=0.1, alpha=0.1)):
        auditor = audit(model, X, y, n_releases=12)
        assert np.isfinite(auditor.results_["success"]).all()
        assert (auditor.results_["verdict"] != EXCEEDED).all()


@pytest.mark.slow
def test_the_last_of_a_class_gives_itself_away(rng):
    """Of two records of a class one is there: the exact test is sure where it is the only one."""
    X, y = table(rng, 2)
    model = PrivateLogisticRegression(noise_scale=100.0, alpha=0.1)
    options = {"attacks": "exact", "n_releases": 60, "records": np.arange(12)}
    auditor = audit(model, X, y, **options)
    success = auditor.records_.set_index("record")["success_exact"]
    # Both in, one of them, or the other: given a member, it is the last one in one case of two.
    assert success[[0, 1]].min() > success[2:].max()
    assert auditor.records_["bayes"][0] > 0.6


@pytest.mark.slow
def test_models_of_one_class_are_no_trouble(rng, recwarn):
    X, y = table(rng, 1)
    auditor = audit(DecisionTreeClassifier(), X, y)
    assert len(auditor.records_) == 40
    assert not recwarn


def test_nothing_but_lone_records(rng):
    X, y = table(rng, 1, n=9)
    with pytest.raises(ValueError, match=r"the only record of its class.*\[0\]"):
        audit(LogisticRegression(), X, y, X, y, records=[0], n_releases=3)
