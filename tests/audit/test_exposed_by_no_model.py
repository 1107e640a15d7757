"""What a guess from the prior gets right of an actual secret is credited to no model."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.dummy import DummyRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skleak.audit import LeakageAuditor


@pytest.fixture(scope="module")
def report():
    """A tree that never looks at the attribute: whatever is guessed comes from the prior."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sex": (np.arange(60) % 4 == 0).astype(int), "age": rng.normal(size=60)})
    y = X["age"].to_numpy() > 0.0
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    return LeakageAuditor(tree, "sex", n_releases=2).fit(X, y).report_


def test_nobody_is_exposed_by_a_model_that_does_not_know(report):
    # All of the majority are guessed right by whoever knows how many there are.
    assert report.settings["secrets"] == "actual"
    assert (report.records["success_prior"] > report.records["prior"]).any()
    found = report.decision()
    assert found["verdict"] == "not_known"
    assert found["labels"] == []
    assert report.decision(0.0)["labels"] == []


def test_a_person_of_the_majority_is_not_shown(report):
    common = report.records.loc[report.records["success_prior"] == 1.0, "label"].iloc[0]
    table = report.person(common).table
    assert not table["shows"].any()
    assert (table["prior"] == 1.0).all()


def test_a_model_without_noise_is_asked_once(report):
    assert report.settings["n_releases"] == 1
    assert not report.settings["has_noise"]
    text = " ".join(report.assumptions)
    assert "One model without noise is asked" in text
    assert "release is counted" not in text


@pytest.mark.parametrize("seed", mostly_slow([101, 105, 107]))
def test_a_constant_reveals_no_number(seed):
    """By chance the others teach an attack something about sixty people."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.normal(size=60), "sex": rng.integers(0, 2, 60)})
    found = LeakageAuditor(DummyRegressor(), "age").fit(X, rng.normal(size=60))
    gained = found.results_.set_index("attack")["advantage_over_imputation_low"]
    assert gained["combined"] > 0.05
    assert found.report_.decision()["verdict"] == "not_known"


@pytest.mark.slow
def test_a_tree_that_remembers_is_shown_to():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sex": np.arange(60) % 2, "age": rng.normal(size=60)})
    y = X["sex"] + rng.normal(size=60)
    found = LeakageAuditor(DecisionTreeRegressor(random_state=0), "sex").fit(X, y).report_
    # Of even frequencies a guess that leaves out the own one is always wrong.
    assert found.decision()["verdict"] == "not_kept"
