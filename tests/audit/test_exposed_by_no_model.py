"""What a guess from the prior gets right of an actual secret is credited to no model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from skleak.audit import LeakageAuditor
from skleak.plotting.results import most_exposed


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
    assert most_exposed(report).empty
    assert not any("most exposed" in line for line in report.findings)


def test_a_person_of_the_majority_is_not_shown(report):
    common = report.records.loc[report.records["success_prior"] == 1.0, "label"].iloc[0]
    table = report.person(common).table
    assert not table["shows"].any()
    assert (table["prior"] == 1.0).all()


def test_a_model_without_noise_is_no_release(report):
    text = report.to_text()
    assert "One release is counted" not in text
    assert "One model without noise is asked" in text
